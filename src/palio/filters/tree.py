"""What a filter holds: an AND/OR tree over conditions, negation already pushed into them.

`Leaf` is the condition the index understands, one attribute in one set of values. `Residual` is what no index
can hold, two attributes compared or arithmetic over several; it is asked of each candidate. Nodes are plain
data; `normal_form` makes them canonical, `relations` compares them, `printing` writes them as SQL.

An event may hold several values for an attribute. It matches when *some choice* of one value per attribute does.
That is the one reading under which NOT asks an element, AND on one attribute asks one element, and every law of
scalar events still holds, so that rewriting a filter can never change what it matches.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import TypeAlias, cast

from palio.events.values import Scalar
from palio.filters.expressions.own import reads_whole_event, uses_own
from palio.filters.expressions.pairs import OPPOSITES
from palio.filters.expressions.tree import Attribute, Call, Expression, attributes_of, walk
from palio.filters.kinds import MISSING, Kind, Value
from palio.filters.patterns import Computed
from palio.filters.values import ValueSet

Attributes: TypeAlias = Mapping[str, Scalar | tuple[Scalar, ...]]
_NO_ARRAYS: Mapping[str, tuple[Scalar, ...]] = {}


@dataclass(frozen=True)
class Leaf:
    """One attribute has a value in a set."""

    attribute: str
    values: ValueSet


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
        """Whether it looks at attributes that it does not name."""
        return reads_whole_event(self.expression)

    @cached_property
    def scalar_attributes(self) -> frozenset[str]:
        """The attributes of which one element is looked at, as against whole arrays."""
        return frozenset(node.name for node in walk(self.expression) if isinstance(node, Attribute))

    @cached_property
    def compared(self) -> tuple[str, str, str] | None:
        """The comparison that must be TRUE, and of which two attributes, where it is no more than that."""
        match self.expression:
            case Call(function, (Attribute(left), Attribute(right))) if function in OPPOSITES and left != right:
                return function if self.wants else OPPOSITES[function], left, right
        return None

    def holds(self, scalars: Mapping[str, Scalar], arrays: Mapping[str, tuple[Scalar, ...]]) -> bool:
        return self._compiled(scalars, arrays) is self.wants

    @cached_property
    def _compiled(self) -> Callable[[Mapping[str, Scalar], Mapping[str, tuple[Scalar, ...]]], object]:
        from palio.filters.expressions.evaluate import compile_expression

        return compile_expression(self.expression, self.timezone)

    def __getstate__(self) -> dict[str, object]:
        return {"expression": self.expression, "wants": self.wants, "timezone": self.timezone}


@dataclass(frozen=True)
class And:
    """Every child holds; with no child, everything matches."""

    children: tuple[Node, ...]


@dataclass(frozen=True)
class Or:
    """Some child holds; with no child, nothing matches."""

    children: tuple[Node, ...]


Node: TypeAlias = Leaf | Residual | And | Or
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
    """All attributes a tree reads."""
    return frozenset(name for condition in leaves(node) for name in names_of(condition))


def reads_all(node: Node) -> bool:
    """Whether a tree looks at attributes that it does not name."""
    return any(isinstance(each, Residual) and each.reads_whole_event for each in leaves(node))


def zones_in(node: Node) -> frozenset[str]:
    """The time zones on whose clocks a tree's conditions compute."""
    found: set[str] = set()
    for condition in leaves(node):
        if isinstance(condition, Residual):
            found.add(condition.timezone)
        else:
            patterns = (test.pattern for test in condition.values.tests)
            found.update(pattern.timezone for pattern in patterns if isinstance(pattern, Computed))
    return frozenset(found)


def is_plain_sql(node: Node) -> bool:
    """Whether SQL as others know it can say a tree: in one zone, without Palio's own functions and its two nulls."""
    if len(zones_in(node)) > 1:
        return False
    for condition in leaves(node):
        if isinstance(condition, Residual):
            if uses_own(condition.expression):
                return False
            continue
        parts, tests = condition.values.parts, condition.values.tests
        if parts[Kind.NULL].is_empty is not parts[Kind.MISSING].is_empty:
            return False
        if any(isinstance(test.pattern, Computed) and uses_own(test.pattern.expression) for test in tests):
            return False
    return True


def holds(node: Node, event: Attributes) -> bool:
    """Whether a tree holds for an event: for some choice of one value per attribute."""
    if tuple not in map(type, event.values()):
        return _holds(node, cast("Mapping[str, Scalar]", event))
    from palio.filters.choosing import holds_for_some_choice

    return holds_for_some_choice(node, event)


def _holds(node: Node, event: Mapping[str, Scalar]) -> bool:
    match node:
        case Leaf(attribute, values):
            return values.contains(event.get(attribute, MISSING))
        case And(children):
            return all(_holds(child, event) for child in children)
        case Or(children):
            return any(_holds(child, event) for child in children)
        case Residual():
            return node.holds(event, _NO_ARRAYS)


def value_of(event: Attributes, attribute: str) -> Value | tuple[Scalar, ...]:
    """What an event says of an attribute: a value, several, or MISSING."""
    return event.get(attribute, MISSING)
