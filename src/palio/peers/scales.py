"""Where does a value stand among the cells of its attribute, and which cells may a set of values touch?

Baldoni et al. scale a fixed domain of integers onto keys, keeping the order. Here a scale is cut by what values
there are: a cell for each stretch between two cuts, the cuts taken from a sample so that cells are about equally full,
and a value that fills a cell by itself has it for itself. Any kind of value has its stretch of cells, so no domain
needs to be known; the same cuts part integers, decimals and floats. Strings are cut in their order, in which a prefix
is one run of cells, or scattered by a hash, which finds equality alone.

All that matters for being right is that `cell` of a value lies in `arcs` of every set that has it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from math import isfinite
from typing import Any, Final, TypeAlias
from zlib import crc32

from palio.filters.intervals import Intervals
from palio.filters.kinds import (
    KINDS,
    Kind,
    Position,
    Value,
    cut_after,
    exact_number,
    float_position,
    integer_cut,
    kind_of,
    position_of,
)
from palio.filters.values import ValueSet

Run: TypeAlias = tuple[int, int]  # first and last cell

NULL_CELL: Final = 0  # of what is null or missing
_NUMBERS: Final[tuple[Kind, ...]] = (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT)
_HASHABLE: Final = (Kind.STRING, Kind.BYTES)
_FEW_VALUES: Final = 64  # of a set, that are hashed one by one


@dataclass(frozen=True, slots=True)
class Stretch:
    """The cells of one kind of value, in its order: one more than there are cuts."""

    first: int
    cuts: tuple[Position, ...] = ()

    @property
    def last(self) -> int:
        return self.first + len(self.cuts)

    def cell(self, position: Position) -> int:
        return self.first + bisect_right(self.cuts, position)

    def runs(self, part: Intervals) -> Iterator[Run]:
        for low, high in part.spans():
            below = 0 if low is None else bisect_right(self.cuts, low)
            above = len(self.cuts) if high is None else bisect_left(self.cuts, high)
            yield self.first + below, self.first + above


@dataclass(frozen=True, slots=True)
class Scatter:
    """The cells of one kind of value, by a hash that is the same in every process."""

    first: int
    last: int

    def cell(self, position: str | bytes) -> int:
        raw = position.encode("utf-8", "surrogatepass") if isinstance(position, str) else position
        return self.first + crc32(raw) % (self.last - self.first + 1)

    def runs(self, part: Intervals) -> Iterator[Run]:
        if part.inside or len(part.cuts) > 2 * _FEW_VALUES or len(part.cuts) % 2:
            yield self.first, self.last
            return
        spans = list(zip(part.cuts[::2], part.cuts[1::2], strict=True))
        kind = Kind.STRING if part.cuts and isinstance(part.cuts[0], str) else Kind.BYTES
        if any(cut_after(kind, low) != high for low, high in spans):
            yield self.first, self.last
            return
        for low, _ in spans:
            cell = self.cell(low)
            yield cell, cell


@dataclass(frozen=True)
class Scale:
    """The cells of one attribute's values, numbered from 0; what is null or missing stands in the first.

    `weights` is how much of a sample of events stands in each cell.
    """

    stretches: tuple[Stretch | Scatter, ...]  # by kind
    weights: tuple[float, ...]

    @classmethod
    def of(
        cls, values: Iterable[Value], cells: int, conditions: Iterable[ValueSet] = (), *, hashed: bool = False
    ) -> Scale:
        """A scale of about so many cells, equally full of sampled values and of conditions' constants.

        With `hashed`, strings and bytes are scattered, and only equality with one is told apart.
        """
        sample = list(values)
        marks = _Marks()
        marks.add_values(sample)
        marks.add_conditions(conditions)
        return cls._cut(marks, cells, hashed, sample)

    @classmethod
    def even(cls, size: int, cells: int, width: int = 1) -> Scale:
        """The integers from 0 to `size` - 1 in so many cells, as Baldoni et al. scale them.

        `width` is their discretisation: so many neighbouring integers always share a cell.
        """
        # x // width decides, so a cut moves up to the next multiple.
        first_of = (-(-each * size // cells) for each in range(1, cells))
        cuts = sorted({cut for first in first_of if (cut := -(-first // width) * width) < size})
        # What is no number is not expected, and shares the first cell.
        stretches = tuple(
            Stretch(0, tuple(_cut_of(kind, (cut, False)) for cut in cuts) if kind in _NUMBERS else ()) for kind in KINDS
        )
        count = len(cuts) + 1
        return cls(stretches, (1 / count,) * count)

    @classmethod
    def _cut(cls, marks: _Marks, cells: int, hashed: bool, sample: Sequence[Value]) -> Scale:
        nulls = Stretch(NULL_CELL)
        stretches: dict[Kind, Stretch | Scatter] = {Kind.MISSING: nulls, Kind.NULL: nulls}
        next_cell = NULL_CELL + 1
        for kinds in _GROUPS:
            share = max(1, round(cells * marks.share(kinds)))
            if hashed and kinds[0] in _HASHABLE:
                last = next_cell + share - 1
                stretches[kinds[0]] = Scatter(next_cell, last)
                next_cell = last + 1
                continue
            cuts = marks.cuts(kinds, share)
            for kind in kinds:
                stretches[kind] = Stretch(next_cell, tuple(_cut_of(kind, cut) for cut in cuts))
            next_cell += len(cuts) + 1
        unweighted = cls(tuple(stretches[kind] for kind in KINDS), (0.0,) * next_cell)
        counts = Counter(map(unweighted.cell, sample))
        total = max(1, len(sample))
        return cls(unweighted.stretches, tuple(counts[cell] / total for cell in range(next_cell)))

    @property
    def cells(self) -> int:
        return len(self.weights)

    def cell(self, value: Value) -> int:
        """The cell in which a value stands."""
        kind = kind_of(value)
        return self.stretches[kind].cell(position_of(kind, value))

    def runs(self, values: ValueSet) -> list[Run]:
        """The runs of cells in which a value of a set may stand, apart and in order; tests are not asked."""
        found = [
            run
            for stretch, part in zip(self.stretches, values.parts, strict=True)
            if not part.is_empty
            for run in stretch.runs(part)
        ]
        return merged(found)

    def weight(self, runs: Iterable[Run]) -> float:
        """How much of a sample of events stands in these cells."""
        below = self._below
        return sum(below[last + 1] - below[first] for first, last in runs)

    @cached_property
    def _below(self) -> tuple[float, ...]:
        return tuple(accumulate(self.weights, initial=0.0))


_GROUPS: Final[tuple[tuple[Kind, ...], ...]] = (
    (Kind.BOOLEAN,),
    _NUMBERS,
    (Kind.STRING,),
    (Kind.DATE,),
    (Kind.TIMESTAMP,),
    (Kind.BYTES,),
)
_GROUP_OF: Final = {kind: kinds for kinds in _GROUPS for kind in kinds}


def merged(runs: Iterable[Run]) -> list[Run]:
    """The same cells as runs that do not touch, in order."""
    found: list[Run] = []
    for first, last in sorted(runs):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return found


def on_ring(cell: int, cells: int, bits: int) -> int:
    """The place of a cell on a ring of 2^bits places, in order; numbers that are all that order is kept by."""
    return (cell << bits) // cells


class _Marks:
    """How often values stand at which places of their orders; places of numbers are exact numbers."""

    def __init__(self) -> None:
        self._events: dict[tuple[Kind, ...], Counter[Any]] = {kinds: Counter() for kinds in _GROUPS}
        self._constants: dict[tuple[Kind, ...], Counter[Any]] = {kinds: Counter() for kinds in _GROUPS}

    def add_values(self, values: Iterable[Value]) -> None:
        for value in values:
            kind = kind_of(value)
            if kind in _NUMBERS:
                if isinstance(value, float) and not isfinite(value):
                    continue
                number = Fraction(value) if isinstance(value, float | Decimal) else value
                self._events[_NUMBERS][exact_number(number)] += 1  # type: ignore[arg-type]
            elif kind > Kind.NULL:
                self._events[_GROUP_OF[kind]][position_of(kind, value)] += 1

    def add_conditions(self, conditions: Iterable[ValueSet]) -> None:
        for values in conditions:
            for kinds in _GROUPS:
                # Of numbers the decimals, among which every constant can be said.
                kind = Kind.DECIMAL if kinds is _NUMBERS else kinds[0]
                cuts = values.parts[kind].cuts
                self._constants[kinds].update(cut[0] if kinds is _NUMBERS else cut for cut in cuts[:_FEW_VALUES])

    def share(self, kinds: tuple[Kind, ...]) -> float:
        """How many of all cells some kinds of value get."""
        return self._weights(kinds).total() / max(1e-9, sum(self._weights(each).total() for each in _GROUPS))

    def _weights(self, kinds: tuple[Kind, ...]) -> Counter[Any]:
        """Events and constants count for one half each, however many there are of either."""
        total: Counter[Any] = Counter()
        for counts in (self._events, self._constants):
            number = sum(each.total() for each in counts.values())
            for mark, count in counts[kinds].items():
                total[mark] += count / number  # type: ignore[assignment]
        return total

    def cuts(self, kinds: tuple[Kind, ...], cells: int) -> list[tuple[Any, bool]]:
        """Marks, before or after which one cell ends and the next begins, for about so many cells."""
        weights = self._weights(kinds)
        target = weights.total() / cells
        found: list[tuple[Any, bool]] = []
        filled = 0.0
        marks = sorted(weights)
        for mark in marks:
            weight = weights[mark]
            if weight >= target and filled:
                found.append((mark, False))
                filled = 0.0
            filled += weight
            if filled >= target and mark != marks[-1]:
                found.append((mark, True))
                filled = 0.0
        return found


def _cut_of(kind: Kind, mark: tuple[Any, bool]) -> Position:
    """The cut before or after a mark, as a kind of value has it."""
    place, after = mark
    if kind not in _NUMBERS:
        return cut_after(kind, place) if after else place
    if kind is Kind.DECIMAL:
        return (place, int(after))
    if kind is Kind.INTEGER:
        return integer_cut((place, int(after)))
    return _float_cut(place, after)


def _float_cut(number: int | Fraction, after: bool) -> int:
    """The position of the first float above a cut between exact numbers."""
    try:
        nearest = float(number)
    except OverflowError:
        nearest = float("inf") if number > 0 else float("-inf")
    position = float_position(nearest)
    if not isfinite(nearest):
        return position
    exact = Fraction(nearest)
    return position + 1 if exact < number or (after and exact == number) else position
