"""The newest subscriptions, before they are worth an index of their own.

Adding must cost microseconds and be seen by the next match, so what is new waits here: filed under a string it must
see, where it has such a condition, else asked every time. A few hundred at most; then it becomes a segment.

A condition of a shape that was seen before comes as its template and literals. It is filed and asked by them, without
making a filter of it; only an event of several values for an attribute needs one.
"""

from __future__ import annotations

from typing import Final, TypeAlias

from palio.filters.filter import Filter
from palio.filters.tree import And, Attributes, Leaf, Node, holds
from palio.languages.sql.shapes import Conjoined, Shaped

_MOST_VALUES: Final = 4  # an IN list of more values is not filed under each
Pivot: TypeAlias = tuple[str, str]  # an attribute, and a string it must be
Condition: TypeAlias = Filter | Shaped | Conjoined


class LiveSubscriptions:
    """Subscriptions by number, asked one by one but for the string they are filed under."""

    def __init__(self) -> None:
        self._conditions: dict[int, Condition] = {}
        self._by_string: dict[Pivot, list[int]] = {}
        self._asked_always: list[int] = []
        self._removed: frozenset[int] = frozenset()  # replaced whole, so that a reader's copy does not change

    def __len__(self) -> int:
        return len(self._conditions)

    def add(self, number: int, condition: Condition) -> None:
        # Readers hold no lock: a number is filed only after its condition is there.
        self._conditions[number] = condition
        pivots = _pivots(condition)
        if pivots is None:
            self._asked_always.append(number)
            return
        for pivot in pivots:
            self._by_string.setdefault(pivot, []).append(number)

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
        if self._by_string:
            for name, value in attributes.items():
                for each in value if type(value) is tuple else (value,):
                    if type(each) is str:
                        candidates += self._by_string.get((name, each), ())
        has_arrays = tuple in map(type, attributes.values())
        return [
            number
            for number in dict.fromkeys(candidates)
            if number not in removed and _holds(self._conditions[number], attributes, has_arrays)
        ]


def _holds(condition: Condition, attributes: Attributes, has_arrays: bool) -> bool:
    if isinstance(condition, Filter):
        return holds(condition.tree, attributes)
    return holds(condition.node(), attributes) if has_arrays else condition.holds(attributes)


def _pivots(condition: Condition) -> list[Pivot] | None:
    """The strings of which an event must carry one to match; None where there is no short list of them."""
    if not isinstance(condition, Filter):
        found = condition.strings(_MOST_VALUES)
        return None if found is None else [(found[0], value) for value in found[1]]
    node: Node = condition.tree
    for child in node.children if isinstance(node, And) else (node,):
        if isinstance(child, Leaf):
            values = child.values.values(_MOST_VALUES)
            if values and all(type(value) is str for value in values):
                return [(child.attribute, value) for value in values]  # type: ignore[misc]
    return None
