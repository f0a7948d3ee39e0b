"""What a filter holds: an AND/OR tree over conditions, negation already pushed into them.

`Leaf` is the condition the index understands, one attribute in one set of values. `Residual` is what no index
can hold, two attributes compared or arithmetic over several; it is asked of each candidate. Nodes are plain
data; `normal_form` makes them canonical, `relations` compares them, `printing` writes them as SQL.

An event may hold several values for an attribute. It matches when *some choice* of one value per attribute does.
That is the one reading under which NOT asks an element, AND on one attribute asks one element, and every law of
scalar events still holds, so that rewriting a filter can never change what it matches.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from itertools import product
from math import prod
from typing import TypeAlias, cast

from palio.errors import EventError
from palio.events.values import Scalar
from palio.filters.expressions.own import reads_whole_event, uses_own
from palio.filters.expressions.tree import Attribute, Expression, attributes_of, walk
from palio.filters.kinds import MISSING, Kind, Value
from palio.filters.patterns import Computed
from palio.filters.values import ValueSet

Attributes: TypeAlias = Mapping[str, Scalar | tuple[Scalar, ...]]
MOST_CHOICES = 1_000_000  # element choices tried for one event and filter before the event is called too complex


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
        return _holds(node, event, {})
    names = event if reads_all(node) else attributes_in(node)
    arrays = {name: value for name in names if isinstance(value := event.get(name), tuple)}
    # An attribute that one condition alone looks at needs no choice: that condition asks for any element.
    uses = Counter(name for condition in leaves(node) for name in _chosen_by(condition))
    joint = {name: values for name, values in sorted(arrays.items()) if uses[name] > 1}
    return any(_holds(node, {**event, **chosen}, arrays) for chosen in _choices(joint))


def _choices(arrays: Mapping[str, tuple[Scalar, ...]]) -> Iterator[dict[str, Scalar]]:
    """Every way to choose one element of each array."""
    count = prod(len(values) for values in arrays.values())
    if count > MOST_CHOICES:
        names = ", ".join(arrays)
        raise EventError(f"there are {count} ways to choose one element each of {names}; {MOST_CHOICES} is the limit")
    for chosen in product(*arrays.values()):
        yield dict(zip(arrays, chosen, strict=True))


def _chosen_by(condition: Leaf | Residual) -> frozenset[str]:
    return frozenset((condition.attribute,)) if isinstance(condition, Leaf) else condition.scalar_attributes


def _holds(node: Node, chosen: Attributes, arrays: Mapping[str, tuple[Scalar, ...]]) -> bool:
    match node:
        case Leaf(attribute, values):
            value = chosen.get(attribute, MISSING)
            if isinstance(value, tuple):
                return any(values.contains(element) for element in value)
            return values.contains(value)
        case And(children):
            return all(_holds(child, chosen, arrays) for child in children)
        case Or(children):
            return any(_holds(child, chosen, arrays) for child in children)
        case Residual():
            return _residual_holds(node, chosen, arrays)


def _residual_holds(node: Residual, chosen: Attributes, arrays: Mapping[str, tuple[Scalar, ...]]) -> bool:
    """Whether a residual holds for some choice among the attributes that still have several values."""
    if not arrays:
        return node.holds(cast("Mapping[str, Scalar]", chosen), arrays)
    scalars = {name: value for name, value in chosen.items() if not isinstance(value, tuple)}
    still = {name: arrays[name] for name in sorted(node.scalar_attributes) if isinstance(chosen.get(name), tuple)}
    return any(node.holds({**scalars, **choice}, arrays) for choice in _choices(still))


def value_of(event: Attributes, attribute: str) -> Value | tuple[Scalar, ...]:
    """What an event says of an attribute: a value, several, or MISSING."""
    return event.get(attribute, MISSING)
