"""Histogram of an attribute: cells of values, equally full, as the axis of rendezvous keys.

Baldoni et al. map a fixed domain of integers onto keys, keeping the order. Here the cells are equi-depth: the cuts come
from a sample so that cells are about equally full, and a value that fills a cell by itself has it for itself. Every
kind of value has cells of its own, so no domain needs to be known; integers, decimals and floats are cut at the same
numbers. Strings are cut in their order, in which a prefix is one run of cells, or hashed, which supports equality
alone.

Correctness needs one property only: `cell` of a value lies in `runs` of every set that contains it.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from itertools import accumulate
from math import isfinite
from typing import Any, Final, TypeAlias
from zlib import crc32

from palio.filters.kinds import (
    KINDS,
    NUMBERS,
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
from palio.filters.value_sets import Intervals, ValueSet

Run: TypeAlias = tuple[int, int]  # first and last cell, both included

NULL_CELL: Final = 0  # of null and missing values
_HASHABLE: Final = (Kind.STRING, Kind.BYTES)
_UNSAMPLED_HASHED_CELLS: Final = 1_024
_MAX_LISTED_VALUES: Final = 64  # of a set, that are hashed, or sampled as cuts, one by one


@dataclass(frozen=True, slots=True)
class OrderedCells:
    """The cells of one kind of value in its order: one more than there are cuts."""

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
class HashedCells:
    """The cells of one kind of value by a hash that is the same in every process."""

    first: int
    last: int

    def cell(self, position: str | bytes) -> int:
        raw = position.encode("utf-8", "surrogatepass") if isinstance(position, str) else position
        return self.first + crc32(raw) % (self.last - self.first + 1)

    def runs(self, part: Intervals) -> Iterator[Run]:
        # A hash keeps no order: a set that is not a short list of single values takes all cells.
        if part.inside or len(part.cuts) > 2 * _MAX_LISTED_VALUES or len(part.cuts) % 2:
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
class Histogram:
    """The cells of one attribute's values, numbered from 0; null and missing values are in the first.

    `weights` is the share of a sample of events in each cell.
    """

    cells_by_kind: tuple[OrderedCells | HashedCells, ...]  # by kind
    weights: tuple[float, ...]

    @classmethod
    def of(
        cls, values: Iterable[Value], cells: int, conditions: Iterable[ValueSet] = (), *, hashed: bool = False
    ) -> Histogram:
        """A histogram of about `cells` cells, equally full of sampled values and of conditions' constants.

        With `hashed`, strings and bytes are hashed: a range of them then takes all their cells.
        """
        sample = list(values)
        frequencies = _Frequencies()
        frequencies.add_values(sample)
        frequencies.add_conditions(conditions)
        return cls._cut(frequencies, cells, hashed, sample)

    @classmethod
    def even(cls, size: int, cells: int, width: int = 1) -> Histogram:
        """The integers from 0 to `size` - 1 in `cells` cells of equal width, as Baldoni et al. map them.

        `width` is their discretisation: the number of neighbouring integers that always share a cell.
        """
        # x // width decides, so a cut moves up to the next multiple.
        first_of = (-(-each * size // cells) for each in range(1, cells))
        cuts = sorted({cut for first in first_of if (cut := -(-first // width) * width) < size})
        # Other kinds of value are not expected, and share the first cell.
        cells_by_kind = tuple(
            OrderedCells(0, tuple(_cut_of(kind, (cut, False)) for cut in cuts) if kind in NUMBERS else ())
            for kind in KINDS
        )
        count = len(cuts) + 1
        return cls(cells_by_kind, (1 / count,) * count)

    @classmethod
    def unsampled(cls) -> Histogram:
        """Cells for an attribute of which nothing is known: numbers finer where they are small, dates and times by
        month, strings hashed, so that most events and conditions in use spread over many cells."""
        steps = (factor * 10**power for power in range(2, 13) for factor in (1, 2, 5))
        numbers = sorted({*range(-16, 129), *(sign * step for step in steps for sign in (-1, 1))})
        months = [(year, month) for year in range(2_000, 2_061) for month in range(1, 13)]
        marks: dict[Kind, list[Any]] = {
            Kind.BOOLEAN: [True],
            Kind.DATE: [date(*each, 1) for each in months],
            Kind.TIMESTAMP: [datetime(*each, 1, tzinfo=UTC) for each in months],
        }
        nulls = OrderedCells(NULL_CELL)
        cells_by_kind: dict[Kind, OrderedCells | HashedCells] = {Kind.MISSING: nulls, Kind.NULL: nulls}
        next_cell = NULL_CELL + 1
        for kinds in _GROUPS:
            if kinds[0] in _HASHABLE:
                cells_by_kind[kinds[0]] = HashedCells(next_cell, next_cell + _UNSAMPLED_HASHED_CELLS - 1)
                next_cell += _UNSAMPLED_HASHED_CELLS
                continue
            for kind in kinds:
                at = numbers if kinds is NUMBERS else [position_of(kind, each) for each in marks[kind]]
                cells_by_kind[kind] = OrderedCells(next_cell, tuple(_cut_of(kind, (each, False)) for each in at))
            next_cell += len(at) + 1
        return cls(tuple(cells_by_kind[kind] for kind in KINDS), (1 / next_cell,) * next_cell)

    @classmethod
    def _cut(cls, frequencies: _Frequencies, cells: int, hashed: bool, sample: Sequence[Value]) -> Histogram:
        nulls = OrderedCells(NULL_CELL)
        cells_by_kind: dict[Kind, OrderedCells | HashedCells] = {Kind.MISSING: nulls, Kind.NULL: nulls}
        next_cell = NULL_CELL + 1
        for kinds in _GROUPS:
            share = max(1, round(cells * frequencies.share(kinds)))
            if hashed and kinds[0] in _HASHABLE:
                last = next_cell + share - 1
                cells_by_kind[kinds[0]] = HashedCells(next_cell, last)
                next_cell = last + 1
                continue
            cuts = frequencies.cuts(kinds, share)
            for kind in kinds:
                cells_by_kind[kind] = OrderedCells(next_cell, tuple(_cut_of(kind, cut) for cut in cuts))
            next_cell += len(cuts) + 1
        unweighted = cls(tuple(cells_by_kind[kind] for kind in KINDS), (0.0,) * next_cell)
        counts = Counter(map(unweighted.cell, sample))
        total = max(1, len(sample))
        return cls(unweighted.cells_by_kind, tuple(counts[cell] / total for cell in range(next_cell)))

    @property
    def cells(self) -> int:
        return len(self.weights)

    def cell(self, value: Value) -> int:
        """The cell of a value."""
        kind = kind_of(value)
        return self.cells_by_kind[kind].cell(position_of(kind, value))

    def runs(self, values: ValueSet) -> list[Run]:
        """The runs of cells that may hold a value of a set, disjoint and ascending; patterns are ignored."""
        found = [
            run
            for stretch, part in zip(self.cells_by_kind, values.parts, strict=True)
            if not part.is_empty
            for run in stretch.runs(part)
        ]
        return merge_runs(found)

    def weight(self, runs: Iterable[Run]) -> float:
        """The share of a sample of events in these cells."""
        below = self._below
        return sum(below[last + 1] - below[first] for first, last in runs)

    @cached_property
    def _below(self) -> tuple[float, ...]:
        return tuple(accumulate(self.weights, initial=0.0))


_GROUPS: Final[tuple[tuple[Kind, ...], ...]] = (
    (Kind.BOOLEAN,),
    NUMBERS,
    (Kind.STRING,),
    (Kind.DATE,),
    (Kind.TIMESTAMP,),
    (Kind.BYTES,),
)
_GROUP_OF: Final = {kind: kinds for kinds in _GROUPS for kind in kinds}


def merge_runs(runs: Iterable[Run]) -> list[Run]:
    """Equal cells as runs that do not touch, ascending."""
    found: list[Run] = []
    for first, last in sorted(runs):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(last, found[-1][1]))
        else:
            found.append((first, last))
    return found


def on_ring(cell: int, cells: int, bits: int) -> int:
    """The position of a cell on a ring of 2^bits positions; keeps the order of cells."""
    return (cell << bits) // cells


class _Frequencies:
    """Frequencies of positions in the order of each kind; positions of numbers are exact numbers."""

    def __init__(self) -> None:
        self._events: dict[tuple[Kind, ...], Counter[Any]] = {kinds: Counter() for kinds in _GROUPS}
        self._constants: dict[tuple[Kind, ...], Counter[Any]] = {kinds: Counter() for kinds in _GROUPS}

    def add_values(self, values: Iterable[Value]) -> None:
        for value in values:
            kind = kind_of(value)
            if kind in NUMBERS:
                # Infinities and NaN have positions among floats, but are no exact numbers to cut at.
                if isinstance(value, float) and not isfinite(value):
                    continue
                number = Fraction(value) if isinstance(value, float | Decimal) else value
                self._events[NUMBERS][exact_number(number)] += 1  # type: ignore[arg-type]
            elif kind > Kind.NULL:
                self._events[_GROUP_OF[kind]][position_of(kind, value)] += 1

    def add_conditions(self, conditions: Iterable[ValueSet]) -> None:
        for values in conditions:
            for kinds in _GROUPS:
                # Of numbers the decimals, which can represent every constant.
                kind = Kind.DECIMAL if kinds is NUMBERS else kinds[0]
                cuts = values.parts[kind].cuts
                self._constants[kinds].update(cut[0] if kinds is NUMBERS else cut for cut in cuts[:_MAX_LISTED_VALUES])

    def share(self, kinds: tuple[Kind, ...]) -> float:
        """The share of all cells that a group of kinds gets."""
        return self._weights(kinds).total() / max(1e-9, sum(self._weights(each).total() for each in _GROUPS))

    def _weights(self, kinds: tuple[Kind, ...]) -> Counter[Any]:
        """Events and constants have half the weight each, however many there are of either."""
        total: Counter[Any] = Counter()
        for counts in (self._events, self._constants):
            number = sum(each.total() for each in counts.values())
            for mark, count in counts[kinds].items():
                total[mark] += count / number  # type: ignore[assignment]
        return total

    def cuts(self, kinds: tuple[Kind, ...], cells: int) -> list[tuple[Any, bool]]:
        """The cuts for about `cells` cells, each before (False) or after (True) a position."""
        weights = self._weights(kinds)
        target = weights.total() / cells
        found: list[tuple[Any, bool]] = []
        filled = 0.0
        marks = sorted(weights)
        for mark in marks:
            weight = weights[mark]
            # A value that fills a cell by itself gets one for itself.
            if weight >= target and filled:
                found.append((mark, False))
                filled = 0.0
            filled += weight
            if filled >= target and mark != marks[-1]:
                found.append((mark, True))
                filled = 0.0
        return found


def _cut_of(kind: Kind, mark: tuple[Any, bool]) -> Position:
    """The cut before or after a position, as represented in a kind of value."""
    place, after = mark
    if kind not in NUMBERS:
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
