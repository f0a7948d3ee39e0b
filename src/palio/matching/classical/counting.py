"""The counting matcher: find the conditions an event satisfies, and count them per subscription.

Jerzak §2.5.5 (Figure 2.16) and Shen §3.4.3: a subscription is a conjunction of conditions; for each attribute
of an event all conditions that accept its value are found and the counters of their subscriptions go up;
a subscription that reaches the number of its conditions matches. Equal conditions are kept once, however many
subscriptions share them. Counters are stamped with the event they count for, so that nothing is reset but
what is touched.

What a conjunction of sets cannot hold is evaluated on the candidates. A filter with OR is several conjunctions of
one subscription, or, where they would be too many, one wider conjunction whose hits are verified; conditions
that need several attributes (residuals) are verified too; a condition that must be evaluated (LIKE with a
wildcard in the middle, a regular expression, a computed one) is evaluated once per event, not once per
subscription. A subscription with no condition that an index can find is verified at every event.

Costs: an event costs a search per attribute, plus one step for each subscription that has a satisfied
condition, even if it will not match; this is where the columnar index does better. Adding costs the parsing
and a search per condition, and so does removing.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Final

from palio.events.nested_content import GroupedAttributes
from palio.filters.filter import Filter
from palio.filters.kinds import MISSING, Kind, Value, kind_of, position_of
from palio.filters.normal_form import Conjunction, covering_conjunction, expand
from palio.filters.tree import Attributes
from palio.filters.value_sets import ValueSet
from palio.matching.classical.brute_force import LazyMatcher
from palio.matching.classical.interval_tree import IntervalIndex

MAX_CONJUNCTIONS: Final = 16


@dataclass(slots=True, eq=False)
class _Goal:
    """One conjunction of a subscription: how many conditions it has, and how many an event has satisfied."""

    id: str
    predicates: list[_CountedPredicate]
    filter: Filter
    is_sure: bool  # whether counting decides, or the filter is evaluated as well
    count: int = 0
    event: int = 0  # the number of the event that `count` is about

    def hit(self, event: int) -> bool:
        """Count one condition; whether it was the last."""
        if self.event != event:
            self.event, self.count = event, 0
        self.count += 1
        return self.count == len(self.predicates)


@dataclass(slots=True, eq=False)
class _CountedPredicate:
    """A condition on one attribute, with all conjunctions that have it."""

    attribute: str
    values: ValueSet
    number: int
    goals: dict[_Goal, None] = field(default_factory=dict)


class _AttributeIndex:
    """The conditions on one attribute."""

    def __init__(self) -> None:
        self.by_kind: dict[Kind, IntervalIndex] = {}
        self.tested: dict[int, ValueSet] = {}  # by number: the conditions with tests, which are evaluated

    def add(self, predicate: _CountedPredicate) -> None:
        if predicate.values.tests:
            self.tested[predicate.number] = predicate.values
            return
        for kind in Kind:
            part = predicate.values.part(kind)
            if not part.is_empty:
                self.by_kind.setdefault(kind, IntervalIndex(kind)).add(predicate.number, part)

    def remove(self, predicate: _CountedPredicate) -> None:
        if predicate.values.tests:
            del self.tested[predicate.number]
            return
        for kind in Kind:
            part = predicate.values.part(kind)
            if not part.is_empty:
                self.by_kind[kind].remove(predicate.number, part)

    def find(self, value: Value) -> Iterator[int]:
        """The numbers of all conditions that accept a value."""
        kind = kind_of(value)
        found = self.by_kind.get(kind)
        if found is not None:
            yield from found.find(position_of(kind, value))
        for number, values in self.tested.items():
            if values.contains(value):
                yield number


class CountingMatcher(LazyMatcher):
    """Subscriptions as counters of satisfied conditions. Not safe to use from several threads at once.

    >>> wants = CountingMatcher()
    >>> wants.add("desk", "symbol = 'ACME' AND price > 100")
    >>> wants.match({"symbol": "ACME", "price": 120})
    {'desk'}
    """

    def __init__(self) -> None:
        self._goals: dict[str, list[_Goal]] = {}
        self._predicates: dict[tuple[str, ValueSet], _CountedPredicate] = {}
        self._by_number: dict[int, _CountedPredicate] = {}
        self._attributes: dict[str, _AttributeIndex] = {}
        self._when_missing: dict[str, dict[int, None]] = {}  # conditions that hold where there is none
        self._unconditional: dict[_Goal, None] = {}  # conjunctions without a condition to count
        self._events = 0
        self._numbers = 0

    def __len__(self) -> int:
        return len(self._goals)

    def __contains__(self, id: object) -> bool:
        return id in self._goals

    def _file(self, id: str, filter: Filter) -> None:
        alternatives = expand(filter.tree, MAX_CONJUNCTIONS)
        is_whole = alternatives is not None
        if alternatives is None:
            wider = covering_conjunction(filter.tree)
            alternatives = [] if wider is None else [wider]
        self._goals[id] = [self._goal(id, each, filter, is_whole and not each.residuals) for each in alternatives]

    def _unfile(self, id: str) -> None:
        for goal in self._goals.pop(id):
            self._unfile_goal(goal)

    def _goal(self, id: str, conjunction: Conjunction, filter: Filter, is_sure: bool) -> _Goal:
        predicates = [self._predicate(name, values) for name, values in conjunction.leaves.items()]
        goal = _Goal(id, predicates, filter, is_sure)
        for predicate in predicates:
            predicate.goals[goal] = None
        if not predicates:
            self._unconditional[goal] = None
        return goal

    def _predicate(self, name: str, values: ValueSet) -> _CountedPredicate:
        known = self._predicates.get((name, values))
        if known is None:
            self._numbers += 1
            known = self._predicates[name, values] = _CountedPredicate(name, values, self._numbers)
            self._by_number[known.number] = known
            self._attributes.setdefault(name, _AttributeIndex()).add(known)
            if values.contains(MISSING):
                self._when_missing.setdefault(name, {})[known.number] = None
        return known

    def _unfile_goal(self, goal: _Goal) -> None:
        self._unconditional.pop(goal, None)
        for predicate in goal.predicates:
            del predicate.goals[goal]
            if not predicate.goals:
                self._forget(predicate)

    def _forget(self, predicate: _CountedPredicate) -> None:
        name = predicate.attribute
        del self._predicates[name, predicate.values]
        del self._by_number[predicate.number]
        self._attributes[name].remove(predicate)
        missed = self._when_missing.get(name)
        if missed is not None:
            missed.pop(predicate.number, None)
            if not missed:
                del self._when_missing[name]

    def _find(self, attributes: Attributes) -> Iterator[str]:
        """The ids of those that match, none twice, as they are found."""
        self._events += 1
        found: set[str] = set()
        grouped = isinstance(attributes, GroupedAttributes)
        for goal in self._candidates(attributes):
            if goal.id in found:
                continue
            if (goal.is_sure and not grouped) or goal.filter.matches_attributes(attributes):
                found.add(goal.id)
                yield goal.id

    def _candidates(self, attributes: Attributes) -> Iterator[_Goal]:
        event = self._events
        yield from self._unconditional
        for number in self._satisfied(attributes):
            for goal in self._by_number[number].goals:
                if goal.hit(event):
                    yield goal

    def _satisfied(self, attributes: Attributes) -> Iterator[int]:
        """The conditions an event satisfies, none twice."""
        for name, value in attributes.items():
            index = self._attributes.get(name)
            if index is None:
                continue
            if isinstance(value, tuple):
                # A conjunction has one condition per attribute, so any element may be the one it asks for; where there
                # are objects in arrays, the one that is chosen may also lack it.
                # An empty array is missing.
                elements = (*value, MISSING) if isinstance(attributes, GroupedAttributes) or not value else value
                yield from dict.fromkeys(number for element in elements for number in index.find(element))
            else:
                yield from index.find(value)
        for name, numbers in self._when_missing.items():
            if name not in attributes:
                yield from numbers
