"""The live segment: the newest subscriptions, before they are sealed into an immutable segment.

Adding must cost microseconds and be seen by the next match. A new subscription is filed under its *pivot*: a string
that an event must carry, or else an attribute that it must have, the rarest so far; one without either is evaluated for
every event. Some hundreds or thousands of subscriptions are evaluated one by one faster than an index is built.

A condition whose template is known is kept as the template and its literals, and evaluated by them, without a filter.
Only an event with several values for an attribute needs the filter's tree. Sealing starts from these conditions too.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final, TypeAlias

from palio.filters.filter import Filter
from palio.filters.kinds import MISSING
from palio.filters.tree import And, Attributes, Leaf, Node, holds
from palio.matching.columnar.bulk_load import ReadCondition

_MAX_SUBSCRIPTIONS: Final = 2_048
_MAX_CROWDED: Final = 512  # subscriptions whose pivot many others share
_CROWD: Final = 8  # others at a pivot from which on it is crowded
_MAX_PIVOT_STRINGS: Final = 4  # an IN list of more strings is not filed under each
Pivot: TypeAlias = tuple[str, str]  # an attribute, and a string it must be


class LiveSegment:
    """Subscriptions by number, filed by pivot. One writer at a time; readers hold no lock."""

    def __init__(self) -> None:
        self._conditions: dict[int, ReadCondition] = {}
        self._by_string: dict[Pivot, list[int]] = {}
        self._by_name: dict[str, list[int]] = {}
        self._without_pivot: list[int] = []
        self._crowded = 0
        self._trees: dict[int, Node] = {}  # of conditions that met several values of one attribute
        self._removed: frozenset[int] = frozenset()  # replaced whole, so that a reader's copy does not change

    def __len__(self) -> int:
        return len(self._conditions)

    def add(self, number: int, condition: ReadCondition) -> None:
        # Readers hold no lock: a number is filed only after its condition is there.
        self._conditions[number] = condition
        self._crowded += self._file(number, condition) >= _CROWD

    @property
    def is_full(self) -> bool:
        """Whether it is time to seal: there are many subscriptions, or many at crowded pivots."""
        return len(self._conditions) >= _MAX_SUBSCRIPTIONS or self._crowded >= _MAX_CROWDED

    def _file(self, number: int, condition: ReadCondition) -> int:
        """File a number under the pivot with the fewest others; returns how many those are."""
        pivots, others = self._rarest(condition)
        if pivots:
            for pivot in pivots:
                self._by_string.setdefault(pivot, []).append(number)
            return others
        names = _needed(condition)
        if names:
            by_name = self._by_name
            place = by_name.setdefault(min(names, key=lambda name: len(by_name.get(name, ()))), [])
        else:
            place = self._without_pivot
        place.append(number)
        return len(place) - 1

    def _rarest(self, condition: ReadCondition) -> tuple[list[Pivot], int]:
        """Of the lists of strings a condition may be filed under, the one with the fewest others, and their number."""
        rarest: list[Pivot] = []
        fewest = 0
        for pivots in _pivots(condition):
            others = sum([len(self._by_string.get(pivot, ())) for pivot in pivots])
            if not rarest or others < fewest:
                rarest, fewest = pivots, others
            if not others:
                break
        return rarest, fewest

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
        if self._by_string:
            for name, value in attributes.items():
                for each in value if type(value) is tuple else (value,):
                    # A pivot is a string; subscriptions filed under an attribute were found above.
                    if type(each) is str:
                        candidates += self._by_string.get((name, each), ())
        arrays = {name for name, value in attributes.items() if type(value) is tuple}
        return [
            number
            for number in dict.fromkeys(candidates)
            if number not in removed and self._holds(number, attributes, arrays)
        ]

    def _holds(self, number: int, attributes: Attributes, arrays: set[str]) -> bool:
        condition = self._conditions[number]
        if isinstance(condition, Filter):
            return holds(condition.tree, attributes)
        if not arrays or not condition.mentions(arrays):
            return condition.holds(attributes)
        # Evaluators of templates know one value per attribute. An array needs the tree, which is made once.
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
            yield [(leaf.attribute, value) for value in values]  # type: ignore[misc]


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
