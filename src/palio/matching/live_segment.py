"""The live segment: the newest subscriptions, before they are sealed into an immutable segment.

Adding must cost microseconds and be seen by the next match. A new subscription is filed under its *pivot*: a string
that an event must carry, else a value that an expression such as `lower(name)` must have, else an attribute that an
event must have, the rarest so far; one without any is evaluated for every event. An expression is evaluated once for
all that are filed by it. Some hundreds or thousands of subscriptions are evaluated one by one faster than an index is
built.

A condition whose template is known is kept as the template and its literals, and evaluated by them, without a filter.
Only an event with several values for an attribute needs the filter's tree. Sealing starts from these conditions too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, TypeAlias

from palio.filters.expressions.coercion import Arrays
from palio.filters.filter import Filter
from palio.filters.kinds import MISSING
from palio.filters.tree import And, Attributes, Leaf, Node, holds
from palio.matching.columnar.bulk_load import ReadCondition
from palio.matching.columnar.computed_attributes import (
    ComputedAttribute,
    computed_attribute,
    computed_name,
    required_values,
)

_MAX_SUBSCRIPTIONS: Final = 2_048
_MAX_CROWDED: Final = 512  # subscriptions whose pivot many others share
_CROWD: Final = 8  # others at a pivot from which on it is crowded
_MAX_PIVOT_STRINGS: Final = 4  # an IN list of more strings is not filed under each
_MAX_PIVOT_VALUES: Final = 12  # of an expression: a number is a value of each kind of number
_MAX_EXPRESSIONS: Final = 32  # by whose values subscriptions are filed; each is evaluated for every event
Pivot: TypeAlias = tuple[str, Any]  # an attribute, and a string it must be; or a computed one, and any value


class LiveSegment:
    """Subscriptions by number, filed by pivot. One writer at a time; readers hold no lock."""

    def __init__(self) -> None:
        self._conditions: dict[int, ReadCondition] = {}
        self._by_value: dict[Pivot, list[int]] = {}
        # The expressions of values that subscriptions are filed under, and the numbers of these by expression.
        self._expressions: list[ComputedAttribute] = []
        self._by_expression: dict[str, list[int]] = {}
        self._by_name: dict[str, list[int]] = {}
        self._without_pivot: list[int] = []
        self._crowded = 0
        self._trees: dict[int, Node] = {}  # of conditions that met several values of one attribute, and of these:
        self._without_evaluator: set[int] = set()  # conditions that only their tree tells
        self._removed: frozenset[int] = frozenset()  # replaced whole, so that a reader's copy does not change

    def __len__(self) -> int:
        return len(self._conditions)

    def add(self, number: int, condition: ReadCondition) -> None:
        # Readers hold no lock: a number is filed only after its condition is there.
        self._conditions[number] = condition
        if not isinstance(condition, Filter) and not condition.is_evaluable:
            self._without_evaluator.add(number)
        self._crowded += self._file(number, condition) >= _CROWD

    @property
    def is_full(self) -> bool:
        """Whether it is time to seal: there are many subscriptions, or many at crowded pivots."""
        return len(self._conditions) >= _MAX_SUBSCRIPTIONS or self._crowded >= _MAX_CROWDED

    def _file(self, number: int, condition: ReadCondition) -> int:
        """File a number under the pivot with the fewest others; returns how many those are."""
        pivots, others = self._rarest(_pivots(condition))
        if not pivots or others >= _CROWD:
            by_expression, fewer = self._rarest(self._computed_pivots(condition))
            if by_expression and (not pivots or fewer < others):
                self._file_by_expression(number, by_expression[0][0])
                pivots, others = by_expression, fewer
        if pivots:
            for pivot in pivots:
                self._by_value.setdefault(pivot, []).append(number)
            return others
        names = _needed(condition)
        if names:
            by_name = self._by_name
            place = by_name.setdefault(min(names, key=lambda name: len(by_name.get(name, ()))), [])
        else:
            place = self._without_pivot
        place.append(number)
        return len(place) - 1

    def _rarest(self, lists: Iterable[list[Pivot]]) -> tuple[list[Pivot], int]:
        """Of the lists of pivots a condition may be filed under, the one with the fewest others, and their number."""
        rarest: list[Pivot] = []
        fewest = 0
        for pivots in lists:
            others = sum([len(self._by_value.get(pivot, ())) for pivot in pivots])
            if not rarest or others < fewest:
                rarest, fewest = pivots, others
            if not others:
                break
        return rarest, fewest

    def _computed_pivots(self, condition: ReadCondition) -> Iterator[list[Pivot]]:
        """All short lists of values of which an expression must have one."""
        for name, values in _computed_values(condition):
            if name in self._by_expression or len(self._expressions) < _MAX_EXPRESSIONS:
                # As keys 1, 1.0 and Decimal(1) are one.
                yield [(name, value) for value in dict.fromkeys(values)]

    def _file_by_expression(self, number: int, name: str) -> None:
        place = self._by_expression.get(name)
        if place is not None:
            place.append(number)
            return
        self._by_expression[name] = [number]
        self._expressions.append(computed_attribute(name))  # last, because readers begin with it

    def remove(self, number: int) -> None:
        """Leave a subscription out from now on, if it is here."""
        if number in self._conditions:
            self._removed |= {number}

    def conditions(self) -> Mapping[int, ReadCondition]:
        """The conditions of all subscriptions that are not removed, as they were read."""
        removed = self._removed
        # Not copied: the caller holds the lock of writers until all of them are sealed.
        if not removed:
            return self._conditions
        return {number: each for number, each in self._conditions.items() if number not in removed}

    def match(self, attributes: Attributes) -> list[int]:
        """The numbers of those that match an event, none twice."""
        # Taken before the candidates: a subscription is replaced by adding its new form and then removing the old
        # one, so that a reader that misses the old form finds the new one.
        removed = self._removed
        candidates = list(self._without_pivot)
        if self._by_name:
            for name in attributes:
                candidates += self._by_name.get(name, ())
        if self._by_value:
            for name, value in attributes.items():
                for each in value if type(value) is tuple else (value,):
                    # A pivot is a string; subscriptions filed under an attribute were found above.
                    if type(each) is str:
                        candidates += self._by_value.get((name, each), ())
        arrays = {name: value for name, value in attributes.items() if type(value) is tuple}
        for expression in self._expressions:
            candidates += self._candidates_by(expression, attributes, arrays)
        return [
            number
            for number in dict.fromkeys(candidates)
            if number not in removed and self._holds(number, attributes, arrays)
        ]

    def _candidates_by(self, expression: ComputedAttribute, attributes: Attributes, arrays: Arrays) -> Sequence[int]:
        """The numbers of those that are filed by an expression, and may match an event."""
        if not expression.scalars.isdisjoint(arrays):
            return self._by_expression[expression.name]  # a value for every choice of an element
        value = expression.value(attributes, arrays)  # type: ignore[arg-type]  # what it reads is no array
        return () if value is None else self._by_value.get((expression.name, value), ())

    def _holds(self, number: int, attributes: Attributes, arrays: Arrays) -> bool:
        condition = self._conditions[number]
        if isinstance(condition, Filter):
            return holds(condition.tree, attributes)
        if number not in self._without_evaluator and (not arrays or not condition.mentions(arrays.keys())):
            return condition.holds(attributes)
        # Evaluators of templates know one value per attribute, and no expression with literals in what it computes.
        # An array, and such an expression, need the tree, which is made once.
        tree = self._trees.get(number)
        if tree is None:
            tree = self._trees[number] = condition.tree()
        return holds(tree, attributes)


def _pivots(condition: ReadCondition) -> Iterator[list[Pivot]]:
    """All short lists of strings of which a matching event must carry one."""
    if not isinstance(condition, Filter):
        for name, strings in condition.strings(_MAX_PIVOT_STRINGS):
            yield [(name, value) for value in strings]
        return
    for leaf in _leaves(condition.tree):
        values = leaf.values.values(_MAX_PIVOT_STRINGS)
        if values and all(type(value) is str for value in values):
            yield [(leaf.attribute, value) for value in values]


def _computed_values(condition: ReadCondition) -> Iterator[tuple[str, Sequence[Any]]]:
    """The names of computed attributes that must have one of some values, and these."""
    if isinstance(condition, Filter):
        for attribute, values in required_values(condition.tree, _MAX_PIVOT_VALUES):
            yield attribute.name, values
        return
    for expression, values in condition.computed_values(_MAX_PIVOT_VALUES):
        yield computed_name(expression, condition.timezone), values


def _needed(condition: ReadCondition) -> Sequence[str]:
    """Attributes that a matching event must have."""
    if not isinstance(condition, Filter):
        return condition.needed
    return [leaf.attribute for leaf in _leaves(condition.tree) if not leaf.values.contains(MISSING)]


def _leaves(node: Node) -> Iterator[Leaf]:
    """The leaves that must all hold."""
    for child in node.children if isinstance(node, And) else (node,):
        if isinstance(child, Leaf):
            yield child
