"""Axes builder: constants of conditions become cuts, and conditions intervals of slots between cuts.

`AxesBuilder` collects intervals between constants and gives each a handle. `SlotAssignment` then sorts the constants of
all axes at once and numbers the slots, so that a small index is made in a fraction of a millisecond and a large one in
about a second.

Strings that are compared only for equality need no order: each has a slot of its own, and all others share the first.
Where some condition asks for a range, slots follow the order of the UTF-8 bytes, and equality with s is the slot
between s and s + NUL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from palio.matching.columnar.array_types import AnyArray, Bytes, Flags, Int8s, Int32s, Int64s
from palio.matching.columnar.axes import Axes
from palio.matching.columnar.layout import (
    AXIS_AMBIGUOUS,
    AXIS_BYTES,
    AXIS_DATES,
    AXIS_FIELDS,
    AXIS_FLOAT_HINTS,
    AXIS_FLOAT_PLACE,
    AXIS_HIGHEST_ASKED,
    AXIS_INTEGER_COUNT,
    AXIS_INTEGER_HINTS,
    AXIS_LOWEST_ASKED,
    AXIS_NULLS,
    AXIS_NUMBER_COUNT,
    AXIS_NUMBER_PLACE,
    AXIS_NUMBERS,
    AXIS_SIZE,
    AXIS_STRINGS,
    AXIS_TIMESTAMPS,
    AXIS_VIRTUAL,
    CUT_AFTER_INTEGER,
    CUT_BEFORE_INTEGER,
    FALSE,
    FIRST_REGION_SLOT,
    MISSING,
    NULL,
    PADDING,
    TRUE,
)
from palio.matching.columnar.slot_order import (
    EXACT_FLOATS,
    Cut,
    CutConstants,
    CutOrder,
    Number,
    Region,
    TextConstants,
    TextSlots,
    concatenate,
)

__all__ = ["FALSE", "MISSING", "NULL", "TRUE", "Axes", "AxesBuilder", "Cut", "Region", "SlotIntervals"]


FIRST_VIRTUAL_AXIS: Final = 1 << 30
_MAX_FLOATS_OF_A_DIFFERENCE: Final = 16


@dataclass(frozen=True, slots=True)
class SlotIntervals:
    """Intervals of slots, by handle. Where `lo` is above `hi`, nothing is in it."""

    axis: Int32s
    lo: Int32s
    hi: Int32s


class AxesBuilder:
    """Takes conditions as intervals between constants; `finish` gives the axes and the intervals of slots."""

    def __init__(self) -> None:
        self._handles = 0
        # One entry per handle: axis, region (or FIXED, PRESENT), lower, upper. Bulk rows come as whole arrays.
        self._rows: list[tuple[int, int, int, int]] = []
        self._row_arrays: list[tuple[Int64s, ...]] = []
        self.cuts = CutConstants()
        self.texts: dict[tuple[int, int], TextConstants] = {}
        self.virtual_axes: set[int] = set()
        self.decimal_axes: set[int] = set()  # that have decimals alone
        self.behind = 0  # how many virtual axes come behind all others
        self.largest_axis = -1
        self._laid_out: list[Int64s] | None = None
        self.cut_places = np.zeros(0, np.int64)
        """By number of a cut, once finished: those before and after one number, date or timestamp are one apart."""

    def declare(self, axis: int) -> None:
        """Say that there is an axis, whether or not a condition stands on it."""
        self.largest_axis = max(self.largest_axis, axis)

    def virtual(self, axis: int) -> None:
        """Declare an axis with two slots: 0, and 1 for an event that hits.

        One counted from FIRST_VIRTUAL_AXIS on comes behind all others, in that order; it takes next to no memory.
        """
        if axis >= FIRST_VIRTUAL_AXIS:
            self.behind = max(self.behind, axis - FIRST_VIRTUAL_AXIS + 1)
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
        return self._row(
            axis, region, self.cuts.add(axis, region, value, False), self.cuts.add(axis, region, value, True)
        )

    def equal_texts(self, axis: Int64s, values: Sequence[str]) -> range:
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
            low, high = (UNBOUNDED if cut is None else known.setdefault(cut, len(known)) for cut in (lower, upper))
        else:
            low, high = (UNBOUNDED if cut is None else self.cuts.add(axis, region, *cut) for cut in (lower, upper))
        return self._row(axis, region, low, high)

    def add_comparisons(
        self,
        axis: Int64s,
        lower: Int64s,
        upper: Int64s,
        *,
        lower_in: Int8s,
        upper_in: Int8s,
    ) -> range:
        """Many intervals of short integers at once. A bound is taken in (1), left out (0), or none at all (-1)."""
        low, high = np.full(len(axis), UNBOUNDED, np.int64), np.full(len(axis), UNBOUNDED, np.int64)
        has_low, has_high = lower_in >= 0, upper_in >= 0
        low[has_low] = self.cuts.add_integers(axis[has_low], lower[has_low], lower_in[has_low] == 0)
        high[has_high] = self.cuts.add_integers(axis[has_high], upper[has_high], upper_in[has_high] == 1)
        return self._many_rows(axis, Region.NUMBER, low, high)

    def add_between(self, axis: int, region: Region, lower: Int64s, upper: Int64s) -> range:
        """Many intervals between cuts of one axis, given by their numbers."""
        return self._many_rows(np.full(len(lower), axis, np.int64), region, lower, upper)

    def _many_rows(self, axis: Int64s, region: Region, lower: Int64s, upper: Int64s) -> range:
        # Single rows first, so that handles stay in the order in which they were given.
        self._flush()
        self._row_arrays.append((axis, np.full(len(axis), int(region)), lower, upper))
        first = self._handles
        self._handles += len(axis)
        self.largest_axis = max(self.largest_axis, int(axis.max(initial=-1)))
        return range(first, self._handles)

    def _flush(self) -> None:
        if self._rows:
            self._row_arrays.append(tuple(np.array(self._rows, np.int64).T))
            self._rows = []

    def _row(self, axis: int, region: int, lower: int, upper: int) -> int:
        handle = self._handles
        self._handles = handle + 1
        self._rows.append((axis, region, lower, upper))
        return handle

    def _texts_of(self, axis: int, region: Region) -> TextConstants:
        key = (axis, int(region))
        texts = self.texts.get(key)
        if texts is None:
            texts = self.texts[key] = TextConstants()
        return texts

    def rows(self) -> list[Int64s]:
        """All handles: axis, region, lower and upper cut. Nothing is added afterwards."""
        if self._laid_out is not None:
            return self._laid_out
        self._flush()
        none = np.empty(0, np.int64)
        axis, *others = (np.concatenate([none, *(each[field] for each in self._row_arrays)]) for field in range(4))
        in_front = max(self.largest_axis, int(axis[axis < FIRST_VIRTUAL_AXIS].max(initial=-1))) + 1
        self.largest_axis = in_front + self.behind - 1
        self.virtual_axes.update(range(in_front, in_front + self.behind))
        self._laid_out = [np.where(axis >= FIRST_VIRTUAL_AXIS, axis - FIRST_VIRTUAL_AXIS + in_front, axis), *others]
        return self._laid_out

    def excluding_rows(self, handles: Int64s, owners: Int64s, count: int) -> Flags:
        """Which rows exclude a few values, and want all others that their attributes have; to be asked after `finish`.

        `handles` are the intervals of rows, `owners` the row of each. On each axis of such a row some interval has no
        beginning and some has no end, or the axis is that of a pattern that must not match. Between numbers or times
        they leave out one value each: whether a range leaves out much or little is not known.
        """
        axis, region, lower, upper = self.rows()
        begins, ends = (region >= 0) & (lower == UNBOUNDED), (region >= 0) & (upper == UNBOUNDED)
        is_virtual = np.zeros(self.largest_axis + 1, np.bool_)
        is_virtual[list(self.virtual_axes)] = True
        # What must not hit stands at 0 of an axis of two slots; any value is what an attribute has.
        is_miss = (region == FIXED) & (lower == 0) & (upper == 0) & is_virtual[axis]
        is_any = (region == PRESENT) | (begins & ends)
        # Few rows have both ends, or a pattern that must not match; only those are looked at axis by axis.
        may = np.zeros(count, np.bool_)
        may[owners[(begins & ~ends)[handles] | is_miss[handles]]] = True
        chosen = may[owners]
        handles, owners = handles[chosen], owners[chosen]
        pairs, which = np.unique(owners * (self.largest_axis + 1) + axis[handles], return_inverse=True)
        has = [np.zeros(len(pairs), np.bool_) for _ in range(3)]
        for flags, held in zip(has, (begins, ends, is_miss | is_any), strict=True):
            flags[which[held[handles]]] = True
        excludes = (has[0] & has[1] & self._has_narrow_gaps(handles, which, len(pairs))) | has[2]
        found = may
        found[pairs[~excludes] // (self.largest_axis + 1)] = False
        return found

    def _has_narrow_gaps(self, handles: Int64s, which: Int64s, count: int) -> Flags:
        """Whether the gaps between intervals of numbers or times, of which `which` belong together, are of one value.

        Where each upper cut is a place below a lower one, the sums of both differ by the number of gaps. Some floats
        may have one difference with a constant, and so be left out together.
        """
        _, region, lower, upper = (each[handles] for each in self.rows())
        is_placed = (region == Region.NUMBER) | (region == Region.DATE) | (region == Region.TIMESTAMP)
        # In two halves: from a negative float to a positive one there may be more places than 64 bits count.
        high, low, gaps = (np.zeros(count, np.int64) for _ in range(3))
        for ends, sign in ((lower, 1), (upper, -1)):
            has_end = is_placed & (ends >= 0)
            places = self.cut_places[ends[has_end]]
            np.add.at(high, which[has_end], sign * (places >> 32))
            np.add.at(low, which[has_end], sign * (places & 0xFFFFFFFF))
            np.add.at(gaps, which[has_end], np.int64(sign == 1))
        widths = high * 2.0**32 + low
        narrow: Flags = widths <= _MAX_FLOATS_OF_A_DIFFERENCE * gaps
        return narrow

    def finish(self) -> tuple[Axes, SlotIntervals]:
        """The axes, and the interval of slots of every handle."""
        numbering = SlotAssignment(self)
        axes = numbering.run()
        return axes, SlotIntervals(*(each.astype(np.int32) for each in (numbering.axis, numbering.lo, numbering.hi)))


# What a row of the builder may say in place of a region or of a cut.
FIXED: Final = -1  # in place of a region: the slots themselves
PRESENT: Final = -2  # all slots but missing and null
UNBOUNDED: Final = -1  # in place of a cut: none at this end
POINT: Final = -2  # in place of an upper cut: the lower one is the number of a text, alone

_FIELD: Final = (AXIS_NUMBERS, AXIS_STRINGS, AXIS_DATES, AXIS_TIMESTAMPS, AXIS_BYTES)
_MIN_HINTED_CUTS: Final = 32
# A table of the rank of every value takes one look, and no search. It may have so many entries for each cut, as long as
# it stays in the second cache.
_MAX_RANKS_PER_CUT: Final = 16
_MAX_RANKS: Final = 1 << 16
_MIN_SEPARATE_CUTS: Final = 256  # of a region, for which those of an axis are in different buckets
_BUCKET_BITS: Final = 4  # of the coarsest buckets of an axis, as postings have them


class SlotAssignment:
    """Lays the constants of a builder out: cuts in order, slots numbered, tables filled."""

    def __init__(self, builder: AxesBuilder) -> None:
        self.builder = builder
        self.axis, self.region, self.lower, self.upper = builder.rows()
        largest = max(builder.largest_axis, int(self.axis.max(initial=-1)))
        self.rows = np.zeros((largest + 1, AXIS_FIELDS), np.int64)
        self.rows[:, [AXIS_INTEGER_HINTS, AXIS_FLOAT_PLACE, AXIS_FLOAT_HINTS]] = -1
        self.lo = self.lower.copy()
        self.hi = self.upper.copy()
        self.texts = TextSlots(builder.texts)
        self.arrays: dict[str, AnyArray] = {}

    def run(self) -> Axes:
        """The axes; `axis`, `lo` and `hi` are then the intervals of slots, by handle."""
        ranks = self._cuts()
        self._texts()
        self._slots()
        self._place(ranks)
        self._place_texts(self.texts.points, self.texts.cuts)
        first_slots = [self.rows[axis, _FIELD[region]] for axis, region in self.builder.texts]
        self.arrays |= self.texts.arrays(np.array(first_slots, np.int64))
        self._tell_null()
        self._find_asked()
        in_front = len(self.rows) - self.builder.behind
        behind = np.array([self.builder.behind], np.int64)
        return Axes({"rows": self.rows[:in_front].copy(), "behind": behind, **self.arrays})

    def _cuts(self) -> Int64s:
        """Sort the cuts of all axes; return the rank of each among those of its axis and region, from 1 on."""
        found = CutOrder(self.builder.cuts)
        self.builder.cut_places = np.where(found.region == Region.NUMBER, found.orders, found.integers)[found.place]
        order, fresh = found.sorted()
        ambiguous = found.ambiguous_axes(order[fresh & (found.region[order] == Region.NUMBER)])
        exact = self.builder.decimal_axes.intersection(ambiguous.tolist())
        if exact:
            found.order_as_decimals(exact)
            order, fresh = found.sorted()
        distinct = order[fresh]
        instant = found.region[distinct] != Region.NUMBER
        # Numbers and instants lie in arrays of their own; within each, an axis's cuts are one run.
        within = np.where(instant, np.cumsum(instant), np.cumsum(~instant)) - 1
        key = found.axis[distinct] * len(Region) + found.region[distinct]
        firsts = np.flatnonzero(np.diff(key, prepend=-1))
        counts = np.diff(firsts, append=len(key))
        beyond = np.add.reduceat(found.beyond[distinct], firsts, dtype=np.int64) if len(firsts) else counts
        axes, regions = np.divmod(key[firsts], len(Region))
        for region in (Region.NUMBER, Region.DATE, Region.TIMESTAMP):
            at, which = _FIELD[region], regions == region
            self.rows[axes[which], at + 1] = within[firsts[which]]
            self.rows[axes[which], at + 2] = counts[which]
        numbers = regions == Region.NUMBER
        self.rows[axes[numbers], AXIS_INTEGER_COUNT] = (counts - beyond)[numbers]
        kept = distinct[~instant]
        self.arrays |= {
            "integer_cuts": _padded(found.integers[kept]),
            "cut_kinds": found.kinds[kept],
            "instant_cuts": found.integers[distinct[instant]],
        }
        self._keep_floats(found.axis[kept], found.integers[kept], found.orders[kept], found.kinds[kept])
        self._keep_decimals(kept, found.exact)
        self.rows[ambiguous, AXIS_AMBIGUOUS] = 1
        self._hints()
        ranks = np.empty(len(order), np.int64)
        ranks[order] = (np.arange(1, len(key) + 1) - np.repeat(firsts, counts))[np.cumsum(fresh) - 1]
        return ranks[found.place]

    def _keep_floats(self, axis: Int64s, integers: Int64s, orders: Int64s, kinds: Bytes) -> None:
        """Cuts among floats, for axes where some constant is not an integer that a float holds exactly."""
        short = (kinds == CUT_BEFORE_INTEGER) | (kinds == CUT_AFTER_INTEGER)
        short &= (integers > -EXACT_FLOATS) & (integers < EXACT_FLOATS)
        needed = np.zeros(len(self.rows), np.bool_)
        needed[axis[~short]] = True
        # Decimals are placed by floats on any axis that has them.
        self.arrays["float_cuts"] = _padded(orders[needed[axis]])
        places = np.cumsum(np.where(needed, self.rows[:, AXIS_NUMBER_COUNT], 0))
        self.rows[needed, AXIS_FLOAT_PLACE] = (places - self.rows[:, AXIS_NUMBER_COUNT])[needed]

    def _keep_decimals(self, numbers: Int64s, exact: Mapping[int, Number | str]) -> None:
        kept = [(index, str(exact[number])) for index, number in enumerate(numbers.tolist()) if number in exact]
        self.arrays["decimal_cuts"] = np.array([index for index, _ in kept], np.int64)
        self.arrays["decimal_text"], self.arrays["decimal_starts"] = concatenate([text.encode() for _, text in kept])

    def _hints(self) -> None:
        """Tables over the leading bits of numbers, for axes whose cuts are too many for a short search."""
        tables: list[Int32s] = []
        size = 0
        for axis in np.flatnonzero(self.rows[:, AXIS_NUMBER_COUNT] >= _MIN_HINTED_CUTS).tolist():
            row = self.rows[axis]
            for at, name, start, count in (
                (AXIS_INTEGER_HINTS, "integer_cuts", row[AXIS_NUMBER_PLACE], row[AXIS_INTEGER_COUNT]),
                (AXIS_FLOAT_HINTS, "float_cuts", row[AXIS_FLOAT_PLACE], row[AXIS_NUMBER_COUNT]),
            ):
                if start < 0 or count < _MIN_HINTED_CUTS:
                    continue
                run = self.arrays[name][start : start + count]
                if run[0] == run[-1]:
                    continue
                span = int(run[-1]) - int(run[0])
                bits = int(count).bit_length() - 1
                has_ranks = span < min(_MAX_RANKS_PER_CUT * int(count), _MAX_RANKS)
                shift = 0 if has_ranks else max(0, span.bit_length() - bits)
                buckets = (run - run[0]).view(np.uint64) >> np.uint64(shift)
                table = np.searchsorted(buckets, np.arange(int(buckets[-1]) + 2, dtype=np.uint64)).astype(np.int32)
                row[at], row[at + 1], row[at + 2] = size, shift, run[0]
                tables.append(table)
                size += len(table)
        self.arrays["hints"] = np.concatenate(tables) if tables else np.zeros(0, np.int32)

    def _texts(self) -> None:
        """Write down what is known of the texts of each axis, and where its points and cuts begin among all."""
        self.groups = np.zeros((len(self.rows), 2, 2), np.int64)
        for (axis, region), facts in zip(self.builder.texts, self.texts.rows, strict=True):
            at = _FIELD[region] + 1
            self.rows[axis, at : at + 5] = facts[:5]
            self.groups[axis, int(region == Region.BYTES)] = facts[5:7]

    def _slots(self) -> None:
        """Number the slots: every region begins behind the one before it, in a bucket of its own.

        A comparison with a timestamp is one with dates too, up to the last of them. Postings file both under the
        buckets of slots that they touch, and the first timestamps would meet all ranges of dates in vain.
        """
        counts = self.rows[:, [_FIELD[region] + 2 for region in Region]]
        many = np.where(counts.max(axis=1) >= _MIN_SEPARATE_CUTS, counts.sum(axis=1), 1)
        width = np.left_shift(1, np.maximum(0, np.frexp(2 * many)[1] - _BUCKET_BITS)).astype(np.int64)
        next_slot = np.full(len(self.rows), FIRST_REGION_SLOT, np.int64)
        for region in Region:
            at = _FIELD[region]
            has_both = (self.rows[:, at + 2] > 0) & (next_slot >= width)
            self.rows[:, at] = np.where(has_both, -(-next_slot // width) * width, next_slot)
            next_slot = self.rows[:, at] + self.rows[:, at + 2] + 1
        virtual = np.array(sorted(self.builder.virtual_axes), np.int64)
        next_slot[virtual] = 2
        self.rows[:, AXIS_SIZE] = next_slot
        self.rows[virtual, AXIS_VIRTUAL] = 1

    def _place(self, ranks: Int64s) -> None:
        """The intervals whose cuts are numbers, dates or timestamps."""
        for region in (Region.NUMBER, Region.DATE, Region.TIMESTAMP):
            which = np.flatnonzero(self.region == region)
            base, count = (self.rows[self.axis[which], _FIELD[region] + at] for at in (0, 2))
            lower, upper = self.lower[which], self.upper[which]
            self.lo[which] = base + _where(lower != UNBOUNDED, ranks, lower, 0)
            self.hi[which] = base + _where(upper != UNBOUNDED, ranks, upper, count + 1) - 1

    def _place_texts(self, points: Int64s, text_cuts: Int64s) -> None:
        """The intervals of strings and bytes."""
        for region in (Region.STRING, Region.BYTES):
            which = np.flatnonzero(self.region == region)
            axis = self.axis[which]
            base, count = (self.rows[axis, _FIELD[region] + at] for at in (0, 2))
            first_point, first_cut = self.groups[axis, int(region == Region.BYTES)].T
            lower, upper = self.lower[which], self.upper[which]
            point = upper == POINT
            alone = _where(point, points, first_point + lower, 0)
            low = _where(~point & (lower != UNBOUNDED), text_cuts, first_cut + lower, 0)
            high = _where(~point & (upper != UNBOUNDED), text_cuts, first_cut + upper, count + 1) - 1
            self.lo[which] = base + np.where(point, alone, low)
            self.hi[which] = base + np.where(point, alone, high)

    def _tell_null(self) -> None:
        """Place what asks for any value, and find the axes on which some condition tells null from missing."""
        present = self.region == PRESENT
        self.lo[present] = NULL + 1
        self.hi[present] = self.rows[self.axis[present], AXIS_SIZE] - 1
        tells = ((self.lo <= MISSING) & (self.hi >= MISSING)) != ((self.lo <= NULL) & (self.hi >= NULL))
        self.rows[self.axis[tells], AXIS_NULLS] = 1
        self.rows[self.rows[:, AXIS_VIRTUAL] == 1, AXIS_NULLS] = 0

    def _find_asked(self) -> None:
        """Find the first and the last slot that some condition on an axis asks for."""
        asked = self.lo <= self.hi
        axis, low, high = self.axis[asked], self.lo[asked], self.hi[asked]
        self.rows[:, AXIS_LOWEST_ASKED] = self.rows[:, AXIS_SIZE]
        self.rows[:, AXIS_HIGHEST_ASKED] = -1
        np.minimum.at(self.rows[:, AXIS_LOWEST_ASKED], axis, low)
        np.maximum.at(self.rows[:, AXIS_HIGHEST_ASKED], axis, high)


def _padded(values: Int64s) -> Int64s:
    """Some more places that may be read, though nothing is made of what is read there."""
    return np.append(values, np.zeros(PADDING // 8, np.int64))


def _where(chosen: Flags, values: Int64s, index: Int64s, otherwise: Any) -> Int64s:
    """`values[index]` where chosen; where not, the index need not be one."""
    if len(values) == 0:
        values = np.zeros(1, np.int64)
    return np.where(chosen, values[np.where(chosen, index, 0)], otherwise)
