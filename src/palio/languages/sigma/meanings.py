"""What a question about one attribute means: for which of its values it holds, and for which not.

Sigma is two-valued: what does not hold, fails, and a missing attribute fails every question but those for absence. So
each meaning knows two trees that are each other's complement over all kinds of value, missing and null among them.

A `Values` is a union of an enumerable set, of tests of strings, and of tests of values that are no strings but have a
text (numbers, dates, moments). A union of tests is no ValueSet, so it becomes an OR of leaves; its complement has one
leaf per kind of test, however many tests there are.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Protocol

from palio.filters.comparisons import OPERATORS
from palio.filters.computed import computed
from palio.filters.expressions.tree import Call
from palio.filters.kinds import Kind
from palio.filters.negation import opposite
from palio.filters.patterns import Computed, Test
from palio.filters.printing import domain_of
from palio.filters.tree import And, Leaf, Node, Or
from palio.filters.values import NO_VALUE, STRINGS, ValueSet, union_of

# The kinds whose values are no strings and have a text, many texts: truth values are two, and listed.
TEXTED = ValueSet.kinds(Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT, Kind.DATE, Kind.TIMESTAMP)
_OTHERS = ValueSet.kinds(Kind.MISSING, Kind.NULL, Kind.BOOLEAN, Kind.BYTES)


class Meaning(Protocol):
    """Where a question holds and where it fails."""

    @property
    def holds(self) -> Node: ...

    @property
    def fails(self) -> Node: ...


@dataclass(frozen=True)
class Values:
    """One attribute has one of some values."""

    attribute: str
    plain: ValueSet = NO_VALUE
    strings: tuple[Test, ...] = ()
    texted: tuple[Test, ...] = ()

    def union(self, other: Values) -> Values:
        """Either of two, of one attribute."""
        plain = union_of([self.plain, other.plain])
        assert plain is not None  # both are enumerable
        return Values(self.attribute, plain, self.strings + other.strings, self.texted + other.texted)

    @cached_property
    def holds(self) -> Node:
        sets = [self.plain]
        sets += [(STRINGS if _compares(test) else domain_of(test)).where([test]) for test in self.strings]
        sets += [TEXTED.where([test]) for test in self.texted]
        return Or(tuple(Leaf(self.attribute, each) for each in sets))

    @cached_property
    def fails(self) -> Node:
        outside = self.plain.complement()
        sets = [
            outside.intersect(kinds).where(map(_refuted, tests))
            for kinds, tests in ((STRINGS, self.strings), (TEXTED, self.texted), (_OTHERS, ()))
        ]
        return Or(tuple(Leaf(self.attribute, each) for each in sets))


def _refuted(test: Test) -> Test:
    """The test that passes where this one does not, among strings or other values that have a text.

    A comparison may also be NULL, where a text is no number; a pattern is TRUE or FALSE.
    """
    if isinstance(test.pattern, Computed) and _compares(test):
        return Test(replace(test.pattern, expression=Call("istrue", (test.pattern.expression,)), wants=False))
    return opposite(test)


def _compares(test: Test) -> bool:
    """Whether a text is read as a number, and that compared; a number itself is compared without that."""
    match test.pattern:
        case Computed(Call(function)):
            return function in OPERATORS
    return False


@dataclass(frozen=True)
class Every:
    """All of some questions hold."""

    questions: tuple[Meaning, ...]

    @cached_property
    def holds(self) -> Node:
        return And(tuple(each.holds for each in self.questions))

    @cached_property
    def fails(self) -> Node:
        return Or(tuple(each.fails for each in self.questions))


@dataclass(frozen=True)
class Computation:
    """An expression over some attributes, or over all of the event, is TRUE."""

    expression: Call
    timezone: str = "UTC"

    @cached_property
    def holds(self) -> Node:
        return computed(self.expression, timezone=self.timezone)

    @cached_property
    def fails(self) -> Node:
        return computed(Call("istrue", (self.expression,)), wants=False, timezone=self.timezone)


@dataclass(frozen=True)
class Search:
    """Some value of the event, whatever its attribute, is accepted: TRUE or FALSE, never NULL."""

    expression: Call

    @cached_property
    def holds(self) -> Node:
        return computed(self.expression)

    @cached_property
    def fails(self) -> Node:
        return computed(self.expression, wants=False)
