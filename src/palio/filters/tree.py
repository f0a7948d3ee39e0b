"""Condition trees: AND/OR over conditions, with negation pushed into them.

`Leaf` is a predicate that an index can hold: one attribute in one set of values. `Residual` is a condition that no
index can hold, a comparison of two attributes or arithmetic over several; it is evaluated on each candidate. Nodes are
plain data; `normal_form` makes them canonical, `relations` compares them, `sql_writer` writes them as SQL.

**Array semantics.** An event may hold several values for an attribute. It matches when *some choice* of one value per
attribute does. Under this reading NOT applies to an element, AND on one attribute applies to one element, and every law
of scalar events still holds, so that rewriting a filter can never change what it matches.

**Fingerprints.** A node has a hash of its content, the same in every process: equal trees have equal ones. It is made
from the parts of a set of values, not from SQL, whose writing costs a hundred times as much.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from hashlib import blake2b
from typing import TypeAlias, cast

from palio.events.values import Scalar
from palio.filters.expressions.ast import Attribute, Call, Expression, attributes_of, walk
from palio.filters.expressions.coercion import Arrays, Scalars
from palio.filters.expressions.extension_functions import reads_whole_event, uses_extensions
from palio.filters.expressions.static_analysis import required_attributes
from palio.filters.expressions.value_comparison import OPPOSITES
from palio.filters.kinds import KINDS, MISSING, Kind
from palio.filters.value_predicates import Computed, Like, Rlike, Test, XPath, computed_range
from palio.filters.value_sets import ANY_VALUE, PRESENT, STRINGS, ValueSet

Attributes: TypeAlias = Mapping[str, Scalar | tuple[Scalar, ...]]
_NO_ARRAYS: Arrays = {}


@dataclass(frozen=True)
class Leaf:
    """One attribute has a value in a set."""

    attribute: str
    values: ValueSet

    @cached_property
    def fingerprint(self) -> bytes:
        parts = [
            (kind.value, part.inside, part.cuts)
            for kind, part in zip(KINDS, self.values.parts, strict=True)
            if part.inside or part.cuts
        ]
        # The text of a list is unambiguous: it quotes the strings in it.
        content = repr([self.attribute, parts, sorted(test.key for test in self.values.tests)])
        return _hash("leaf", content.encode(*_UTF8))

    def __getstate__(self) -> dict[str, object]:
        return {"attribute": self.attribute, "values": self.values}


@dataclass(frozen=True)
class Residual:
    """An expression over several attributes is TRUE (or, where `wants` is False, FALSE)."""

    expression: Expression
    wants: bool = True
    timezone: str = field(default="UTC")

    @cached_property
    def attributes(self) -> frozenset[str]:
        return attributes_of(self.expression)

    @cached_property
    def reads_whole_event(self) -> bool:
        """Whether it reads attributes that it does not name."""
        return reads_whole_event(self.expression)

    @cached_property
    def scalar_attributes(self) -> frozenset[str]:
        """The attributes of which it reads one element, as opposed to whole arrays."""
        return frozenset(node.name for node in walk(self.expression) if isinstance(node, Attribute))

    @cached_property
    def compared(self) -> tuple[str, str, str] | None:
        """Operator and both attributes, where the condition is one comparison of two attributes."""
        match self.expression:
            case Call(function, (Attribute(left), Attribute(right))) if function in OPPOSITES and left != right:
                return function if self.wants else OPPOSITES[function], left, right
        return None

    @cached_property
    def fingerprint(self) -> bytes:
        return _hash("residual", repr(self).encode(*_UTF8))

    @cached_property
    def restricted(self) -> tuple[Expression, ValueSet] | None:
        """The computed value that it compares with constants, and the set it must be in; None for other conditions.

        None too where it asks for NULL, or for anything else: an interval of time is in no set of values.
        """
        found = computed_range(self.expression, self.wants, self.timezone)
        if found is None or found[1] == PRESENT or not found[1].parts[Kind.MISSING].is_empty:
            return None
        return found

    def holds(self, scalars: Scalars, arrays: Arrays) -> bool:
        return self._compiled(scalars, arrays) is self.wants

    @cached_property
    def _compiled(self) -> Callable[[Scalars, Arrays], object]:
        from palio.filters.expressions.special_forms import compile_expression

        return compile_expression(self.expression, self.timezone)

    def __getstate__(self) -> dict[str, object]:
        # Without the compiled closure and other cached values: a closure cannot be pickled.
        return {"expression": self.expression, "wants": self.wants, "timezone": self.timezone}


@dataclass(frozen=True)
class And:
    """Every child holds; with no child, everything matches."""

    children: tuple[Node, ...]

    @property
    def fingerprint(self) -> bytes:
        return _hash("and", b"".join([child.fingerprint for child in self.children]))


@dataclass(frozen=True)
class Or:
    """Some child holds; with no child, nothing matches."""

    children: tuple[Node, ...]

    @property
    def fingerprint(self) -> bytes:
        return _hash("or", b"".join([child.fingerprint for child in self.children]))


Node: TypeAlias = Leaf | Residual | And | Or
_UTF8 = "utf-8", "surrogatepass"  # a text may hold lone surrogates


def _hash(kind: str, content: bytes) -> bytes:
    return blake2b(content, digest_size=16, person=kind.encode()).digest()


EVERYTHING = And(())
NOTHING = Or(())


def leaves(node: Node) -> Iterator[Leaf | Residual]:
    """All conditions of a tree, from left to right."""
    stack = [node]
    while stack:
        each = stack.pop()
        if isinstance(each, And | Or):
            stack.extend(reversed(each.children))
        else:
            yield each


def names_of(condition: Leaf | Residual) -> frozenset[str]:
    """The attributes a condition reads."""
    return frozenset((condition.attribute,)) if isinstance(condition, Leaf) else condition.attributes


def attributes_in(node: Node) -> frozenset[str]:
    """All attributes that a tree reads."""
    return frozenset(name for condition in leaves(node) for name in names_of(condition))


def reads_all(node: Node) -> bool:
    """Whether a tree reads attributes that it does not name."""
    return any(isinstance(each, Residual) and each.reads_whole_event for each in leaves(node))


def timezones_in(node: Node) -> frozenset[str]:
    """The time zones in which a tree's conditions are computed."""
    found: set[str] = set()
    for condition in leaves(node):
        if isinstance(condition, Residual):
            found.add(condition.timezone)
        else:
            patterns = (test.pattern for test in condition.values.tests)
            found.update(pattern.timezone for pattern in patterns if isinstance(pattern, Computed))
    return frozenset(found)


def is_plain_sql(node: Node) -> bool:
    """Whether standard Spark SQL can express a tree: one zone, no function of Palio, null not told from missing."""
    if len(timezones_in(node)) > 1:
        return False
    for condition in leaves(node):
        if isinstance(condition, Residual):
            if uses_extensions(condition.expression):
                return False
            continue
        parts, tests = condition.values.parts, condition.values.tests
        if parts[Kind.NULL].is_empty is not parts[Kind.MISSING].is_empty:
            return False
        if any(isinstance(test.pattern, Computed) and uses_extensions(test.pattern.expression) for test in tests):
            return False
    return True


def holds(node: Node, event: Attributes) -> bool:
    """Whether a tree holds for an event: for some choice of one value per attribute."""
    if tuple not in map(type, event.values()):
        return _holds(node, cast("Scalars", event))
    # Imported here: `array_choice` imports this module.
    from palio.filters.array_choice import holds_for_some_choice

    return holds_for_some_choice(node, event)


def _holds(node: Node, event: Scalars) -> bool:
    match node:
        case Leaf(attribute, values):
            return values.contains(event.get(attribute, MISSING))
        case And(children):
            return all(_holds(child, event) for child in children)
        case Or(children):
            return any(_holds(child, event) for child in children)
        case Residual():
            return node.holds(event, _NO_ARRAYS)


def domain_of(test: Test) -> ValueSet:
    """The enumerable superset of a test: for LIKE 'ab%c', the strings that start with 'ab'."""
    match test.pattern:
        case Like(pattern) if test.wanted and pattern.starts and not pattern.ignore_case:
            return ValueSet.prefix(pattern.starts)
        case Like() | Rlike() | XPath():
            return STRINGS
        case Computed(expression, _, _):
            if test.pattern.is_string_only:
                return STRINGS
            return PRESENT if required_attributes(expression) else ANY_VALUE
    raise TypeError(test.pattern)
