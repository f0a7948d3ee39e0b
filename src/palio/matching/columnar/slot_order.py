"""Order of slots: where constants cut the number line, and where texts stand.

*Numbers.* A cut is a place between values, before or after a constant. What lies above it depends on the kind of the
value, because SQL rounds an integer or a decimal to binary64 before it compares it with a float, and compares exact
numbers exactly. So a cut is kept as the first 64-bit integer above it and as the first float above it. Cuts of
different floats, and those of one constant, stand in one order that is right for both. Decimals are dense: to place
one, the constants whose floats it may be confused with are compared exactly. Where two exact constants round to one
float, no single order is right for all kinds; the order is then that of integers, and the axis is marked
(`AXIS_AMBIGUOUS`).

*Texts.* Strings and bytes that an axis compares for equality alone each have a slot, and all others share the first.
Where some condition asks for a range there is a slot between every two cuts, and a text between its own two cuts,
itself and itself + NUL, is a point. Points are found by hash table; other texts by binary search.
"""

from __future__ import annotations

import math
import struct
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from decimal import Decimal
from enum import IntEnum
from fractions import Fraction
from itertools import accumulate, compress
from typing import Any, Final, TypeAlias

import numpy as np

from palio.events.values import MAX_INT64, MIN_INT64
from palio.matching.columnar import encoding_kernels as kernels
from palio.matching.columnar.array_types import AnyArray, Bytes, Flags, Floats, Int64s
from palio.matching.columnar.layout import (
    CUT_AFTER_DECIMAL,
    CUT_AFTER_INTEGER,
    CUT_BEFORE_DECIMAL,
    CUT_BEFORE_INTEGER,
    CUT_BY_FLOAT,
    PADDING,
)
from palio.matching.columnar.native import address_of

Number: TypeAlias = int | float | Decimal

EXACT_FLOATS: Final = 2**53
_EPOCH: Final = datetime(1970, 1, 1)
_EPOCH_UTC: Final = datetime(1970, 1, 1, tzinfo=UTC)
_EPOCH_DAY: Final = _EPOCH.toordinal()
_MAGNITUDE: Final = 2**63 - 1
_NAN: Final = float("nan")
_NAN_ORDER: Final = 0x7FF8000000000000
_INFINITY_ORDER: Final = 0x7FF0000000000000


class Region(IntEnum):
    """The kinds of value that have an order, as they follow each other on an axis."""

    NUMBER = 0
    STRING = 1
    DATE = 2
    TIMESTAMP = 3
    BYTES = 4


def text_bytes(text: str | bytes) -> bytes:
    """A text as it is compared. A lone surrogate is not UTF-8, but JSON can say it and it must not end a match."""
    return text.encode("utf-8", "surrogatepass") if isinstance(text, str) else text


def days(value: date) -> int:
    """Days since 1970-01-01."""
    return value.toordinal() - _EPOCH_DAY


def micros(value: datetime) -> int:
    """Microseconds since 1970-01-01 UTC; a time without a zone is taken to be UTC."""
    since = value - (_EPOCH if value.tzinfo is None else _EPOCH_UTC)
    return (since.days * 86_400 + since.seconds) * 1_000_000 + since.microseconds


def float_order(value: float) -> int:
    """The place of a float among all: -0.0 is 0.0, and NaN is one value above infinity."""
    if value != value:
        return _NAN_ORDER
    bits: int = struct.unpack("<q", struct.pack("<d", value + 0.0))[0]
    return bits if bits >= 0 else bits ^ _MAGNITUDE


def float_at(order: int) -> float:
    """The float at a place among all; infinity for those above it."""
    if order >= _INFINITY_ORDER:
        return math.inf
    found: float = struct.unpack("<d", struct.pack("<q", order if order >= 0 else order ^ _MAGNITUDE))[0]
    return found


def nearest_float(value: Number) -> float:
    """The float an exact number is rounded to; beyond the largest, infinity."""
    try:
        return float(value)
    except OverflowError:
        return math.inf if value > 0 else -math.inf


def number_cut(value: Number, after: bool) -> tuple[int, int, int]:
    """The first integer above a cut, the place of the first float above it, and how decimals are placed.

    The integer may lie outside 64 bits.
    """
    if isinstance(value, float):
        order = float_order(value) + after
        return _first_integer(value, after), order, CUT_BY_FLOAT
    order = float_order(nearest_float(value)) + after
    if isinstance(value, int) and MIN_INT64 < value < MAX_INT64:
        return value + after, order, CUT_AFTER_INTEGER if after else CUT_BEFORE_INTEGER
    first = math.floor(value) + 1 if after else math.ceil(value)
    return first, order, CUT_AFTER_DECIMAL if after else CUT_BEFORE_DECIMAL


def _first_integer(value: float, after: bool) -> int:
    """The first integer that, rounded to a float, is at least (after: above) a value."""
    if value != value or value > 2.0**63:
        return MAX_INT64 + 1
    if value < -(2.0**63):  # below all integers of 64 bits, however they are rounded
        return MIN_INT64
    if abs(value) < EXACT_FLOATS:
        return math.floor(value) + 1 if after else math.ceil(value)
    target = math.nextafter(value, math.inf) if after else value
    if target == math.inf:
        return MAX_INT64 + 1
    # Integers halfway to the float below may round either way.
    halfway = (int(target) + int(math.nextafter(target, -math.inf))) // 2
    return halfway if float(halfway) >= target else halfway + 1


def rounds_up_from(order: int) -> Fraction:
    """The number halfway between the float at a place and the one before it: from there on, decimals reach it."""
    high, low = (_float_at(each) for each in (order, order - 1))
    if math.isinf(high) or math.isnan(high):
        return Fraction(10) ** 400
    if math.isinf(low):
        return -(Fraction(10) ** 400)
    return (Fraction(high) + Fraction(low)) / 2


def _float_at(order: int) -> float:
    bits = order if order >= 0 else order ^ _MAGNITUDE
    value: float = struct.unpack("<d", struct.pack("<q", bits))[0]
    return value


def float_orders(values: Floats) -> Int64s:
    """`float_order` of many floats, none of them NaN."""
    bits = (values + 0.0).view(np.int64)
    return np.where(bits >= 0, bits, bits ^ _MAGNITUDE)


def integer_cuts(values: Int64s, after: Flags) -> tuple[Int64s, Int64s, Bytes]:
    """`number_cut` for many integers inside 64 bits at once."""
    kinds = np.where(after, np.uint8(CUT_AFTER_INTEGER), np.uint8(CUT_BEFORE_INTEGER))
    return values + after, float_orders(values.astype(np.float64)) + after, kinds


@dataclass(frozen=True, slots=True)
class FractionCuts:
    """`number_cut` for many decimals, floats, dates or timestamps at once."""

    integers: Int64s
    orders: Int64s
    kinds: Bytes
    after: Flags
    exact: Mapping[int, str]
    """The constants of cuts at decimals that are no integers, by place; as texts, which is what an index keeps."""
    beyond: Flags | None = None
    """Those above all integers; None where there are none."""


def decimal_cuts(scaled: Int64s, scale: int, after: Flags) -> FractionCuts:
    """Cuts at integers below 2^53 divided by a power of ten."""
    one = 10**scale
    is_whole = scaled % one == 0
    kinds = np.where(after, np.uint8(CUT_AFTER_DECIMAL), np.uint8(CUT_BEFORE_DECIMAL))
    kinds[is_whole] = np.where(after[is_whole], np.uint8(CUT_AFTER_INTEGER), np.uint8(CUT_BEFORE_INTEGER))
    places, numbers = np.flatnonzero(~is_whole).tolist(), scaled[~is_whole].tolist()
    exact = {at: f"{number}E-{scale}" for at, number in zip(places, numbers, strict=True)}
    # Rounded once, because both are floats.
    orders = float_orders(scaled / one) + after
    return FractionCuts(np.where(after, scaled // one + 1, -(-scaled // one)), orders, kinds, after, exact)


def cuts_after_decimals(values: Sequence[Decimal]) -> FractionCuts:
    """Cuts after decimals of up to 38 digits."""
    wholes = list(map(int, values))  # towards zero, and exact where operators of decimals round to 28 digits
    first = [whole + (whole <= number) for whole, number in zip(wholes, values, strict=True)]
    is_short = [whole == number and MIN_INT64 < whole < MAX_INT64 for whole, number in zip(wholes, values, strict=True)]
    return FractionCuts(
        np.array([min(max(each, MIN_INT64), MAX_INT64) for each in first], np.int64),
        float_orders(np.array(list(map(float, values)))) + 1,
        np.where(is_short, np.uint8(CUT_AFTER_INTEGER), np.uint8(CUT_AFTER_DECIMAL)),
        np.ones(len(values), np.bool_),
        {at: str(number) for at, number in enumerate(values) if not is_short[at]},
        np.array([each > MAX_INT64 for each in first]),
    )


def float_cuts(values: Floats, after: bool) -> FractionCuts:
    """Cuts before or after floats of a size below 2^53."""
    kinds = np.full(len(values), CUT_BY_FLOAT, np.uint8)
    integers = (np.floor(values) + 1 if after else np.ceil(values)).astype(np.int64)
    return FractionCuts(integers, float_orders(values) + after, kinds, np.full(len(values), after), {})


class CutConstants:
    """The cuts at numbers, dates and timestamps of all axes, numbered as they come."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int, type, Any, bool], int] = {}
        self.count = 0
        # Those that came one by one, in parallel lists.
        self.numbers: list[int] = []
        self.axes: list[int] = []
        self.regions: list[int] = []
        self.after: list[bool] = []
        # Their constants: integers of 64 bits with the numbers of their cuts, and numbers of cuts with all others.
        self.integers: list[int] = []
        self.integer_numbers: list[int] = []
        self.others: list[tuple[int, Number]] = []
        # Those at integers that came in bulk: numbers, axes, values, after.
        self.arrays: list[tuple[Int64s, Int64s, Int64s, Flags]] = []
        # Those of one axis and region that came in bulk: the first of their numbers, which follow each other.
        self.fractions: list[tuple[int, int, Region, FractionCuts]] = []

    def add(self, axis: int, region: Region, value: Any, after: bool) -> int:
        """The number of a cut, a new one where it is not known."""
        if value != value:
            value = _NAN  # one object, so that it is found again
        # The type is a part of the key: 1 == 1.0 == True, but they cut differently.
        key = (axis, region, value.__class__, value, after)
        known = self._known
        number = known.get(key)
        if number is not None:
            return number
        number = known[key] = self.count
        self.count += 1
        self.numbers.append(number)
        self.axes.append(axis)
        self.regions.append(region)
        self.after.append(after)
        if region == Region.DATE:
            value = days(value)
        elif region == Region.TIMESTAMP:
            value = micros(value)
        # 1.00 cuts where 1 does, and integers are sorted as an array.
        elif value.__class__ is Decimal and value == value.to_integral_value():
            value = int(value)
        if value.__class__ is int and MIN_INT64 < value < MAX_INT64:
            self.integers.append(value)
            self.integer_numbers.append(number)
        else:
            self.others.append((number, value))
        return number

    def add_integers(self, axis: Int64s, values: Int64s, after: Flags) -> Int64s:
        """The numbers of many cuts at integers, all new."""
        # Not looked up among the known ones: equal cuts are joined when all are sorted.
        numbers = np.arange(self.count, self.count + len(axis), dtype=np.int64)
        self.count += len(axis)
        self.arrays.append((numbers, axis, values, after))
        return numbers

    def add_decimals(self, axis: int, scaled: Int64s, scale: int, after: Flags) -> Int64s:
        """The numbers of many cuts at decimals of one axis, each an integer below 2^53 divided by a power of ten."""
        keys, which = np.unique(scaled << 1 | after, return_inverse=True)
        cuts = decimal_cuts(keys >> 1, scale, (keys & 1).astype(np.bool_))
        return self._add_fractions(axis, Region.NUMBER, cuts)[which]

    def add_after_decimals(self, axis: int, values: Sequence[Decimal]) -> Int64s:
        """The numbers of many cuts of one axis, each after a decimal of any length."""
        which = {value: at for at, value in enumerate(dict.fromkeys(values))}
        numbers = self._add_fractions(axis, Region.NUMBER, cuts_after_decimals(list(which)))
        return numbers[np.fromiter(map(which.__getitem__, values), np.int64, len(values))]

    def add_floats(self, axis: int, values: Floats, after: bool) -> Int64s:
        """The numbers of many cuts of one axis, each before or after a float of a size below 2^53."""
        distinct, which = np.unique(values, return_inverse=True)
        return self._add_fractions(axis, Region.NUMBER, float_cuts(distinct, after))[which]

    def add_instants(self, axis: int, region: Region, values: Int64s) -> Int64s:
        """The numbers of many cuts of one axis, each before a date or a timestamp: days or microseconds since 1970."""
        distinct, which = np.unique(values, return_inverse=True)
        before = np.zeros(len(distinct), np.bool_)
        return self._add_fractions(axis, region, FractionCuts(*integer_cuts(distinct, before), before, {}))[which]

    def _add_fractions(self, axis: int, region: Region, cuts: FractionCuts) -> Int64s:
        numbers = np.arange(self.count, self.count + len(cuts.orders), dtype=np.int64)
        self.fractions.append((self.count, axis, region, cuts))
        self.count += len(numbers)
        return numbers


class CutOrder:
    """The order of the cuts at numbers, dates and timestamps, on each axis and region."""

    def __init__(self, cuts: CutConstants) -> None:
        single = len(cuts.numbers)
        bulk_axis, bulk_values, bulk_after = self._take_bulk(cuts)
        whole = single + len(bulk_axis)
        count = whole + sum(len(each.orders) for *_, each in cuts.fractions)
        self.axis, self.region = np.empty(count, np.int64), np.full(count, int(Region.NUMBER))
        self.after = np.empty(count, np.bool_)
        self.axis[:single], self.region[:single], self.after[:single] = (
            cuts.axes,
            cuts.regions,
            cuts.after,
        )
        self.axis[single:whole], self.after[single:whole] = bulk_axis, bulk_after
        self.integers, self.orders = np.zeros(count, np.int64), np.zeros(count, np.int64)
        self.kinds = np.zeros(count, np.uint8)
        self.beyond = np.zeros(count, np.bool_)
        self.exact: dict[int, Number | str] = {}
        place = self.place
        where = np.concatenate([place[cuts.integer_numbers], np.arange(single, whole)])
        values = np.concatenate([np.array(cuts.integers, np.int64), bulk_values])
        found = integer_cuts(values, self.after[where])
        self.integers[where], self.orders[where], self.kinds[where] = found
        for number, value in cuts.others:
            number = int(place[number])
            first, self.orders[number], kind = number_cut(value, bool(self.after[number]))
            self.integers[number] = min(max(first, MIN_INT64), MAX_INT64)
            self.beyond[number] = first > MAX_INT64
            self.kinds[number] = kind
            if kind in (CUT_BEFORE_DECIMAL, CUT_AFTER_DECIMAL):
                self.exact[number] = value
        for first, axis, region, each in cuts.fractions:
            end = whole + len(each.orders)
            self.axis[whole:end], self.region[whole:end], self.after[whole:end] = axis, region, each.after
            self.integers[whole:end], self.orders[whole:end] = each.integers, each.orders
            self.kinds[whole:end] = each.kinds
            if each.beyond is not None:
                self.beyond[whole:end] = each.beyond
            self.exact |= {whole + at: value for at, value in each.exact.items()}
            place[first : first + len(each.orders)] = np.arange(whole, end)
            whole = end

    def _take_bulk(self, cuts: CutConstants) -> tuple[Int64s, Int64s, Flags]:
        """The cuts that came as whole arrays, each once; `place` says where each of all cuts is kept."""
        single = len(cuts.numbers)
        self.place = np.empty(cuts.count, np.int64)
        self.place[cuts.numbers] = np.arange(single)
        if not cuts.arrays:
            none = np.zeros(0, np.int64)
            return none, none, none.astype(np.bool_)
        numbers, axis, values, after = (np.concatenate(each) for each in zip(*cuts.arrays, strict=True))
        smallest = int(values.min(initial=0))
        span = int(values.max(initial=0)) - smallest + 1
        if span * (int(axis.max(initial=0)) + 1) >= 1 << 62:
            self.place[numbers] = np.arange(single, single + len(numbers))
            return axis, values, after
        # One integer for axis, value and side is sorted several times faster than three.
        keys, places = _distinct((axis * span + values - smallest) << 1 | after)
        self.place[numbers] = single + places
        axis, values = np.divmod(keys >> 1, span)
        return axis, values + smallest, (keys & 1).astype(np.bool_)

    def sorted(self) -> tuple[Int64s, Flags]:
        """The cuts in order, and which of them differ from the one before."""
        order = np.lexsort((self.orders, self.integers, self.beyond, self.region, self.axis))
        fresh = np.zeros(len(order), np.bool_)
        fresh[:1] = True
        keys = (self.axis, self.region, self.beyond, self.integers, self.orders)
        for key in keys:
            fresh[1:] |= key[order[1:]] != key[order[:-1]]
        # Decimals may tell cuts apart that integers and floats do not: 0.99999999999999999 is below 1, yet rounds to 1.
        firsts = np.flatnonzero(fresh)
        counts = np.diff(firsts, append=len(order))
        kinds = self.kinds[order]
        is_decimal_run = np.zeros(len(firsts), np.bool_)
        if len(firsts):
            least, most = np.minimum.reduceat(kinds, firsts), np.maximum.reduceat(kinds, firsts)
            is_decimal_run = (most >= CUT_BEFORE_DECIMAL) | ((least == CUT_BY_FLOAT) & (most > CUT_BY_FLOAT))
        for first, count in zip(
            *(each[is_decimal_run & (counts > 1)].tolist() for each in (firsts, counts)), strict=True
        ):
            run = sorted(order[first : first + count].tolist(), key=self._place_of)
            order[first : first + count] = run
            for index in range(1, count):
                fresh[first + index] = self._place_of(run[index]) != self._place_of(run[index - 1])
        return order, fresh

    def order_as_decimals(self, axes: Collection[int]) -> None:
        """Order the cuts at exact constants of some axes as decimals are, where those before and after one float mix.

        On these axes `AXIS_AMBIGUOUS` keeps decimals from being placed by the floats that they are rounded to.
        """
        which = np.isin(self.axis, list(axes)) & (self.region == Region.NUMBER) & (self.kinds != CUT_BY_FLOAT)
        self.orders[which & ~self.after] += 1

    def ambiguous_axes(self, numbers: Int64s) -> Int64s:
        """The axes on which two exact constants round to one float."""
        numbers = numbers[self.kinds[numbers] != CUT_BY_FLOAT]
        image = self.orders[numbers] - self.after[numbers]
        order = np.lexsort((image, self.axis[numbers]))
        numbers, image = numbers[order], image[order]
        same = np.flatnonzero((image[1:] == image[:-1]) & (self.axis[numbers[1:]] == self.axis[numbers[:-1]]))
        one, other = numbers[same], numbers[same + 1]
        differ = self.integers[one] - self.after[one] != self.integers[other] - self.after[other]
        for index in np.flatnonzero(
            (self.kinds[one] >= CUT_BEFORE_DECIMAL) | (self.kinds[other] >= CUT_BEFORE_DECIMAL)
        ):
            first, second = int(one[index]), int(other[index])
            is_one_constant = first in self.exact and self.exact[first] == self.exact.get(second)
            differ[index] = not is_one_constant and self._place_of(first)[0] != self._place_of(second)[0]
        axes: Int64s = self.axis[one[differ]]
        return axes

    def _place_of(self, number: int) -> tuple[Fraction, bool]:
        """Where a cut lies among decimals."""
        after = bool(self.after[number])
        if self.kinds[number] == CUT_BY_FLOAT:
            return rounds_up_from(int(self.orders[number])), False
        if number in self.exact:
            return Fraction(self.exact[number]), after
        return Fraction(int(self.integers[number]) - after), after


def _distinct(keys: Int64s) -> tuple[Int64s, Int64s]:
    """The keys (not negative) sorted and each once, and where each of those given is among them."""
    most = int(keys.max(initial=0)) + 1
    if most > 16 * len(keys):
        return np.unique(keys, return_inverse=True)
    # Dense ones need no sorting.
    seen = np.zeros(most, np.bool_)
    seen[keys] = True
    return np.flatnonzero(seen), (np.cumsum(seen) - 1)[keys]


Cut: TypeAlias = tuple[Any, bool]  # a constant, and whether the cut lies after it

_LONG_TEXT: Final = 8  # bytes from which on a text's key is only a hash, and the text itself is needed
_MIN_TABLE_BITS: Final = 2


class TextConstants:
    """The constants of one axis of strings or bytes, numbered as they come."""

    __slots__ = ("cuts", "points")

    def __init__(self) -> None:
        self.points: dict[str | bytes, int] = {}
        self.cuts: dict[Cut, int] = {}


class TextSlots:
    """The slots of the texts of all axes. Lists, not arrays: most axes of most segments have a handful of texts."""

    def __init__(self, texts: Mapping[tuple[int, int], TextConstants]) -> None:
        self._kept: list[bytes] = []  # those that are needed to tell a text from others
        self._hashed: list[bytes] = []
        self._numbers: list[int] = []  # of those hashed, among those kept of their axis
        self._slots: list[int] = []  # of those hashed, from 1 on
        self._points: list[int] = []
        self._cuts: list[int] = []
        self._places = 0  # in all hash tables
        self.rows: list[tuple[int, ...]] = []
        """Per axis and region: the five facts of `layout`, the first point, cut and hashed text, and how many."""
        for each in texts.values():
            first = (len(self._points), len(self._cuts), len(self._hashed))
            place = len(self._kept)
            count = self._order(each) if each.cuts else self._separate(each)
            hashed = len(self._hashed) - first[2]
            bits = max(_MIN_TABLE_BITS, (hashed * 4 // 3).bit_length())
            self.rows.append((place, count, self._places, bits, int(bool(each.cuts)), *first, hashed))
            self._places += 1 << bits
        self.points, self.cuts = np.array(self._points, np.int64), np.array(self._cuts, np.int64)

    def _separate(self, texts: TextConstants) -> int:
        """A slot per text; sorted only so that the same texts make the same file."""
        names = sorted(texts.points)
        ranks = [0] * len(names)
        for rank, number in enumerate(map(texts.points.__getitem__, names), 1):
            ranks[number] = rank
        hashed = list(map(text_bytes, names))
        is_long = [len(text) >= _LONG_TEXT for text in hashed]
        self._numbers += list(accumulate(is_long, initial=0))[:-1]
        self._kept += compress(hashed, is_long)
        self._hashed += hashed
        self._points += ranks
        self._slots += range(1, len(names) + 1)
        return len(names)

    def _order(self, texts: TextConstants) -> int:
        """A slot between every two cuts."""
        points = [text_bytes(name) for name in texts.points]
        cuts = [text_bytes(value) + b"\0" * after for value, after in texts.cuts]
        items = sorted({*cuts, *points, *(point + b"\0" for point in points)})
        rank = {item: index for index, item in enumerate(items, 1)}
        self._points += [rank[each] for each in points]
        self._cuts += [rank[each] for each in cuts]
        for index, item in enumerate(items):
            if item + b"\0" in rank:
                self._hashed.append(item)
                self._numbers.append(index)
                self._slots.append(index + 1)
        self._kept += items
        return len(items)

    def arrays(self, first_slots: Int64s) -> dict[str, AnyArray]:
        """Texts and hash tables, given the first slot of each axis and region."""
        text, starts = concatenate(self._kept)
        tables = np.zeros(2 * self._places, np.int64)
        rows = np.array(self.rows, np.int64).reshape(-1, 9)
        slots = np.array(self._slots, np.int64) + np.repeat(first_slots, rows[:, 8])
        numbers = np.array(self._numbers, np.int64)
        hashed, hashed_starts = concatenate(self._hashed)
        # Per table: its first text, how many, its place, its bits.
        jobs = np.ascontiguousarray(rows[:, [7, 8, 2, 3]])
        kernels.fill_tables(
            address_of(hashed),
            address_of(hashed_starts),
            address_of(numbers),
            address_of(slots),
            address_of(jobs),
            len(jobs),
            address_of(tables),
        )
        return {"text": text, "text_starts": starts, "tables": tables}


def concatenate(items: list[bytes]) -> tuple[Bytes, Int64s]:
    """Texts one after the other, and where each begins."""
    starts = np.zeros(len(items) + 1, np.int64)
    np.cumsum([len(item) for item in items], out=starts[1:])
    return np.frombuffer(b"".join(items) + bytes(PADDING), np.uint8), starts
