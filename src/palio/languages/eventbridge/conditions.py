"""What one test says of a value: the sets of values for which it holds, and for which it fails.

Patterns know only yes and no, so the two together are all values there are, null among them; being absent is no
value, and is asked for by itself. Most tests are enumerable sets; those that can only be asked (suffixes,
wildcards, texts in any case) fail for whatever is no string.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from palio.filters.computed import computed
from palio.filters.expressions.tree import Attribute, Call, Literal
from palio.filters.kinds import Kind
from palio.filters.like import LikePattern
from palio.filters.patterns import Like, Matching, Test
from palio.filters.printing import domain_of
from palio.filters.regex import Regex
from palio.filters.tree import Leaf
from palio.filters.values import NO_VALUE, STRINGS, ValueSet, intersection_of, union_of

ABSENT: Final = ValueSet.kinds(Kind.MISSING)
THERE: Final = ABSENT.complement()
NO_STRINGS: Final = THERE.intersect(STRINGS.complement())


@dataclass(frozen=True, slots=True)
class Condition:
    """The sets in whose union a test of a value holds, and those in whose union it fails."""

    inside: tuple[ValueSet, ...]
    outside: tuple[ValueSet, ...]

    @property
    def negation(self) -> Condition:
        return Condition(self.outside, self.inside)


def within(values: ValueSet) -> Condition:
    """A value is in an enumerable set."""
    return Condition((values,), (THERE.intersect(values.complement()),))


ANYTHING: Final = within(THERE)


def exactly(values: Iterable[str | bool | None]) -> Condition:
    """A value is one of these, and of the same kind."""
    return within(ValueSet.points(values))


def like(pattern: LikePattern) -> Condition:
    """A string has the form of a pattern."""
    if not pattern.ignore_case and pattern.shape == "exact":
        return exactly([pattern.text])
    if not pattern.ignore_case and pattern.shape == "prefix":
        return within(ValueSet.prefix(pattern.text))
    return _tested(Test(Like(pattern)))


def matching(expression: str) -> Condition:
    """A string has a part that matches a regular expression."""
    return _tested(Test(Matching(Regex.compile(expression))))


def _tested(test: Test) -> Condition:
    passed = domain_of(test).where([test])
    return Condition((passed,), (NO_STRINGS, STRINGS.where([Test(test.pattern, not test.wanted)])))


def in_network(name: str, network: str) -> Condition:
    """The string at a name is an address within a network; the test is bound to the name, as all computed ones are."""
    call = Call("ip_in_network", (Attribute(name), Literal(network)))
    passed, failed = computed(call), computed(call, wants=False)
    assert isinstance(passed, Leaf)  # it reads one attribute
    assert isinstance(failed, Leaf)
    return Condition((passed.values,), (NO_STRINGS, failed.values))


def none_of(excluded: list[Condition]) -> Condition:
    """A value is there, and none of these tests holds for it; each of them holds in one set, or in plain ones."""
    inside = [values for each in excluded for values in each.inside]
    plain = union_of(values for values in inside if values.is_enumerable) or NO_VALUE
    tested = [values for values in inside if not values.is_enumerable]
    if not tested:
        return within(plain).negation
    failed = [each.outside[1] for each in excluded if not each.inside[0].is_enumerable]
    strings = intersection_of([STRINGS.intersect(plain.complement()), *failed])
    others = NO_STRINGS.intersect(plain.complement())
    return Condition((others, strings), (plain, *tested))
