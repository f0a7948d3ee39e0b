"""From conditions to intervals of slots: an attribute's constants cut its values, and a condition lies between cuts.

Strings that are only ever compared for equality need no order: each has a slot of its own, and all others share the
first. Where some condition asks for a range, slots follow the order of the strings' UTF-8 bytes, and equality with s
is the slot between s and s + NUL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from palio.matching.columnar.axes import Axes, Region, days, micros
from palio.matching.columnar.cuts import LARGEST, SMALLEST, Number
from palio.matching.columnar.layout import FALSE, MISSING, NULL, TRUE
from palio.matching.columnar.numbering import ENDLESS, FIXED, POINT, PRESENT, Numbering
from palio.matching.columnar.texts import Cut, Texts

__all__ = ["FALSE", "MISSING", "NULL", "TRUE", "Axes", "AxesBuilder", "Cut", "Intervals", "Region"]

Ints: TypeAlias = npt.NDArray[np.int64]

_NAN: Final = float("nan")
BEHIND: Final = 1 << 30


@dataclass(frozen=True, slots=True)
class Intervals:
    """Intervals of slots, by handle. Where `lo` is above `hi`, nothing is in it."""

    axis: npt.NDArray[np.int32]
    lo: npt.NDArray[np.int32]
    hi: npt.NDArray[np.int32]


class AxesBuilder:
    """Takes conditions as intervals between constants; `finish` gives the axes and the intervals of slots."""

    def __init__(self) -> None:
        self._handles = 0
        # One entry per handle: axis, region (or FIXED, PRESENT), lower, upper. Bulk rows come as whole arrays.
        self._rows: list[tuple[int, int, int, int]] = []
        self._row_arrays: list[tuple[Ints, ...]] = []
        # Cuts of numbers, dates and timestamps, numbered as they come; of all axes together.
        self._known: dict[tuple[int, int, type, Any, bool], int] = {}
        self.cut_numbers: list[int] = []
        self.cut_axes: list[int] = []
        self.cut_regions: list[int] = []
        self.cut_after: list[bool] = []
        self.integers: list[int] = []
        self.integer_cuts: list[int] = []
        self.others: list[tuple[int, Number]] = []
        self.cut_count = 0
        self.bulk_cuts: list[tuple[Ints, Ints, Ints, npt.NDArray[np.bool_]]] = []  # numbers, axes, values, after
        self.texts: dict[tuple[int, int], Texts] = {}
        self.virtual_axes: set[int] = set()
        self.behind = 0  # how many virtual axes come behind all others
        self.largest_axis = -1

    def declare(self, axis: int) -> None:
        """Say that there is an axis, whether or not a condition stands on it."""
        self.largest_axis = max(self.largest_axis, axis)

    def virtual(self, axis: int) -> None:
        """Declare an axis with two slots: 0, and 1 for an event that hits.

        One counted from BEHIND on comes behind all others, in that order; it takes next to no memory.
        """
        if axis >= BEHIND:
            self.behind = max(self.behind, axis - BEHIND + 1)
            return
        self.virtual_axes.add(axis)
        self.declare(axis)

    def fixed(self, axis: int, lo: int, hi: int) -> int:
        """An interval of slots that no constant moves: missing, null, false, true, and hits."""
        return self._row(axis, FIXED, lo, hi)

    def present(self, axis: int) -> int:
        """Any value but null."""
        return self._row(axis, PRESENT, 0, 0)

    def equal(self, axis: int, region: Region, value: Any) -> int:
        """Equality with one constant."""
        if region == Region.STRING or region == Region.BYTES:
            points = self._texts_of(axis, region).points
            return self._row(axis, region, points.setdefault(value, len(points)), POINT)
        return self._row(axis, region, self._cut(axis, region, value, False), self._cut(axis, region, value, True))

    def equal_texts(self, axis: Ints, values: Sequence[str]) -> range:
        """Equality with many strings at once, each on its axis; those of one axis stand together."""
        numbers: list[int] = []
        at = 0
        for number, count in zip(*(each.tolist() for each in np.unique(axis, return_counts=True)), strict=True):
            points = self._texts_of(number, Region.STRING).points
            numbers += [points.setdefault(value, len(points)) for value in values[at : at + count]]
            at += count
        return self._many_rows(axis, Region.STRING, np.array(numbers, np.int64), np.full(len(axis), POINT, np.int64))

    def between(self, axis: int, region: Region, lower: Cut | None, upper: Cut | None) -> int:
        """All values of a kind above one cut and below another; None is the end of the kind."""
        if region == Region.STRING or region == Region.BYTES:
            known = self._texts_of(axis, region).cuts
            low, high = (ENDLESS if cut is None else known.setdefault(cut, len(known)) for cut in (lower, upper))
        else:
            low, high = (ENDLESS if cut is None else self._cut(axis, region, *cut) for cut in (lower, upper))
        return self._row(axis, region, low, high)

    def add_comparisons(
        self,
        axis: Ints,
        lower: Ints,
        upper: Ints,
        *,
        lower_in: npt.NDArray[np.int8],
        upper_in: npt.NDArray[np.int8],
    ) -> range:
        """Many intervals of short integers at once. A bound is taken in (1), left out (0), or none at all (-1)."""
        low, high = np.full(len(axis), ENDLESS, np.int64), np.full(len(axis), ENDLESS, np.int64)
        has_low, has_high = lower_in >= 0, upper_in >= 0
        low[has_low] = self._many_cuts(axis[has_low], lower[has_low], lower_in[has_low] == 0)
        high[has_high] = self._many_cuts(axis[has_high], upper[has_high], upper_in[has_high] == 1)
        return self._many_rows(axis, Region.NUMBER, low, high)

    def _many_rows(self, axis: Ints, region: Region, lower: Ints, upper: Ints) -> range:
        self._flush()
        self._row_arrays.append((axis, np.full(len(axis), int(region)), lower, upper))
        first = self._handles
        self._handles += len(axis)
        self.largest_axis = max(self.largest_axis, int(axis.max(initial=-1)))
        return range(first, self._handles)

    def _many_cuts(self, axis: Ints, values: Ints, after: npt.NDArray[np.bool_]) -> Ints:
        numbers = np.arange(self.cut_count, self.cut_count + len(axis), dtype=np.int64)
        self.cut_count += len(axis)
        self.bulk_cuts.append((numbers, axis, values, after))
        return numbers

    def _flush(self) -> None:
        if self._rows:
            self._row_arrays.append(tuple(np.array(self._rows, np.int64).T))
            self._rows = []

    def _row(self, axis: int, region: int, lower: int, upper: int) -> int:
        handle = self._handles
        self._handles = handle + 1
        self._rows.append((axis, region, lower, upper))
        return handle

    def _texts_of(self, axis: int, region: Region) -> Texts:
        key = (axis, int(region))
        texts = self.texts.get(key)
        if texts is None:
            texts = self.texts[key] = Texts()
        return texts

    def _cut(self, axis: int, region: Region, value: Any, after: bool) -> int:
        if value != value:
            value = _NAN  # one object, so that it is found again
        # The type is a part of the key: 1 == 1.0 == True, but they cut differently.
        key = (axis, region, value.__class__, value, after)
        known = self._known
        number = known.get(key)
        if number is not None:
            return number
        number = known[key] = self.cut_count
        self.cut_count += 1
        self.cut_numbers.append(number)
        self.cut_axes.append(axis)
        self.cut_regions.append(region)
        self.cut_after.append(after)
        if region == Region.DATE:
            value = days(value)
        elif region == Region.TIMESTAMP:
            value = micros(value)
        elif value.__class__ is Decimal and value == value.to_integral_value():
            value = int(value)
        if value.__class__ is int and SMALLEST < value < LARGEST:
            self.integers.append(value)
            self.integer_cuts.append(number)
        else:
            self.others.append((number, value))
        return number

    def rows(self) -> list[Ints]:
        """All handles: axis, region, lower and upper cut."""
        self._flush()
        none = np.empty(0, np.int64)
        axis, *others = (np.concatenate([none, *(each[field] for each in self._row_arrays)]) for field in range(4))
        in_front = max(self.largest_axis, int(axis[axis < BEHIND].max(initial=-1))) + 1
        self.largest_axis = in_front + self.behind - 1
        self.virtual_axes.update(range(in_front, in_front + self.behind))
        return [np.where(axis >= BEHIND, axis - BEHIND + in_front, axis), *others]

    def finish(self) -> tuple[Axes, Intervals]:
        """The axes, and the interval of slots of every handle."""
        numbering = Numbering(self)
        axes = numbering.run()
        return axes, Intervals(*(each.astype(np.int32) for each in (numbering.axis, numbering.lo, numbering.hi)))
