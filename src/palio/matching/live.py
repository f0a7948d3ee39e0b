"""The newest subscriptions, before they are worth an index of their own.

Adding must cost microseconds and be seen by the next match, so what is new waits here: filed under a string it must
see, or an attribute, the rarest so far, else asked every time. Some hundreds or thousands; then it becomes a segment.

A condition of a shape that was seen before comes as its template and literals. It is filed and asked by them, without
making a filter of it; only an event of several values for an attribute needs one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, TypeAlias

from palio.filters.filter import Filter
from palio.filters.kinds import MISSING
from palio.filters.tree import And, Attributes, Leaf, Node, holds
from palio.languages.sql.shapes import Conjoined, Shaped

_MOST: Final = 2_048
_MOST_CROWDED: Final = 512  # of those that are asked together with many others
_CROWD: Final = 8
_MOST_VALUES: Final = 4  # an IN list of more values is not filed under each
Pivot: TypeAlias = tuple[str, str]  # an attribute, and a string it must be
Condition: TypeAlias = Filter | Shaped | Conjoined


class LiveSubscriptions:
    """Subscriptions by number, asked one by one but for the string they are filed under."""

    def __init__(self) -> None:
        self._conditions: dict[int, Condition] = {}
        self._by_string: dict[Pivot, list[int]] = {}
        self._by_name: dict[str, list[int]] = {}
        self._asked_always: list[int] = []
        self._crowded = 0
        self._trees: dict[int, Node] = {}  # of conditions that were asked about several values of an attribute
        self._removed: frozenset[int] = frozenset()  # replaced whole, so that a reader's copy does not change

    def __len__(self) -> int:
        return len(self._conditions)

    def add(self, number: int, condition: Condition) -> None:
        # Readers hold no lock: a number is filed only after its condition is there.
        self._conditions[number] = condition
        self._crowded += self._file(number, condition) >= _CROWD

    @property
    def is_full(self) -> bool:
        """Whether it is time for an index: there are many, or many that stand where others do."""
        return len(self._conditions) >= _MOST or self._crowded >= _MOST_CROWDED

    def _file(self, number: int, condition: Condition) -> int:
        """File a number where the fewest others are; answers how many are there."""
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
            place = self._asked_always
        place.append(number)
        return len(place) - 1

    def _rarest(self, condition: Condition) -> tuple[list[Pivot], int]:
        """Of the lists of strings that a condition may be filed under, the one with the fewest others, and how many."""
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
        """Leave a subscription out from now on, where it is one of these."""
        if number in self._conditions:
            self._removed |= {number}

    def numbers(self) -> list[int]:
        return [number for number in self._conditions if number not in self._removed]

    def match(self, attributes: Attributes) -> list[int]:
        """The numbers of those that match an event, none twice."""
        # What is removed is looked at first: a subscription is replaced by adding the new and then removing the
        # old, so whoever misses the old one finds the new.
        removed = self._removed
        candidates = list(self._asked_always)
        if self._by_name:
            for name in attributes:
                candidates += self._by_name.get(name, ())
        if self._by_string:
            for name, value in attributes.items():
                for each in value if type(value) is tuple else (value,):
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
        tree = self._trees.get(number)
        if tree is None:
            tree = self._trees[number] = condition.tree()
        return holds(tree, attributes)


def _pivots(condition: Condition) -> Iterator[list[Pivot]]:
    """Strings of which an event must carry one to match, where there is a short list of them: all such lists."""
    if not isinstance(condition, Filter):
        for name, strings in condition.strings(_MOST_VALUES):
            yield [(name, value) for value in strings]
        return
    for leaf in _leaves(condition.tree):
        values = leaf.values.values(_MOST_VALUES)
        if values and all(type(value) is str for value in values):
            yield [(leaf.attribute, value) for value in values]  # type: ignore[misc]


def _needed(condition: Condition) -> Sequence[str]:
    """Attributes without which an event does not match."""
    if not isinstance(condition, Filter):
        return condition.needed
    return [leaf.attribute for leaf in _leaves(condition.tree) if not leaf.values.contains(MISSING)]


def _leaves(node: Node) -> Iterator[Leaf]:
    """The leaves all of which must hold."""
    for child in node.children if isinstance(node, And) else (node,):
        if isinstance(child, Leaf):
            yield child
