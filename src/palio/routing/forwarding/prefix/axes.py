"""From values to numbers: what an attribute's value is to a tree whose conditions never change.

The conditions on an attribute cut each kind of value into slots, and every condition is some runs of slots. A value is
looked up once per event, however many nodes ask for it; from there on a tree is integers.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from palio.filters.kinds import KINDS, Position, Value, kind_of, position_of
from palio.filters.values import ValueSet


class Axis:
    """The slots of one attribute."""

    __slots__ = ("_bases", "_cuts")

    def __init__(self, conditions: Iterable[ValueSet]) -> None:
        cuts: list[set[Position]] = [set() for _ in KINDS]
        for values in conditions:
            for kind, part in zip(KINDS, values.parts, strict=True):
                cuts[kind].update(part.cuts)
        self._cuts = [sorted(each) for each in cuts]
        self._bases: list[int] = []
        size = 0
        for each in self._cuts:
            self._bases.append(size)
            size += len(each) + 1

    def slot(self, value: Value) -> int:
        """The slot of a value."""
        kind = kind_of(value)
        cuts = self._cuts[kind]
        return self._bases[kind] + (bisect_right(cuts, position_of(kind, value)) if cuts else 0)

    def runs(self, values: ValueSet) -> Iterator[tuple[int, int]]:
        """The first and last slots of the runs that a set touches; it fills them if all its cuts are known."""
        for kind, part in zip(KINDS, values.parts, strict=True):
            cuts, base = self._cuts[kind], self._bases[kind]
            for low, high in part.spans():
                first = 0 if low is None else bisect_right(cuts, low)
                yield base + first, base + (len(cuts) if high is None else bisect_left(cuts, high))
