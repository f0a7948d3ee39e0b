"""Where a number cuts the number line, for values of each kind at once.

A cut is a place between values: before or after a constant. What lies above it depends on the kind of the value,
because SQL rounds an integer or a decimal to binary64 before it meets a float, and compares exact numbers exactly.
So a cut is kept as the first 64-bit integer above it and as the first float above it. Cuts of different floats, and
those of one constant, stand in one order that is right for both. Decimals are dense: to place one, the constants whose
floats it may be confused with are compared exactly.

Where two exact constants of an attribute round to one float, no single order is right for all kinds: the float is not
above the lower one and not below the higher one. The order is then that of integers, and `Axes` says for which
attributes that is so.
"""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from fractions import Fraction
from typing import Final, TypeAlias

import numpy as np
import numpy.typing as npt

from palio.matching.columnar.layout import (
    CUT_AFTER_DECIMAL,
    CUT_AFTER_INTEGER,
    CUT_BEFORE_DECIMAL,
    CUT_BEFORE_INTEGER,
    CUT_BY_FLOAT,
)

Number: TypeAlias = int | float | Decimal

SMALLEST: Final = -(2**63)
LARGEST: Final = 2**63 - 1
EXACT_FLOATS: Final = 2**53
_MAGNITUDE: Final = 2**63 - 1
_NAN_ORDER: Final = 0x7FF8000000000000


def float_order(value: float) -> int:
    """The place of a float among all: -0.0 is 0.0, and NaN is one value above infinity."""
    if value != value:
        return _NAN_ORDER
    bits: int = struct.unpack("<q", struct.pack("<d", value + 0.0))[0]
    return bits if bits >= 0 else bits ^ _MAGNITUDE


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
    if isinstance(value, int) and SMALLEST < value < LARGEST:
        return value + after, order, CUT_AFTER_INTEGER if after else CUT_BEFORE_INTEGER
    first = math.floor(value) + 1 if after else math.ceil(value)
    return first, order, CUT_AFTER_DECIMAL if after else CUT_BEFORE_DECIMAL


def _first_integer(value: float, after: bool) -> int:
    """The first integer that, rounded to a float, is at least (after: above) a value."""
    if value != value or value > 2.0**63:
        return LARGEST + 1
    if value < -(2.0**63):  # below all integers of 64 bits, however they are rounded
        return SMALLEST
    if abs(value) < EXACT_FLOATS:
        return math.floor(value) + 1 if after else math.ceil(value)
    target = math.nextafter(value, math.inf) if after else value
    if target == math.inf:
        return LARGEST + 1
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


def integer_cuts(
    values: npt.NDArray[np.int64], after: npt.NDArray[np.bool_]
) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.uint8]]:
    """`number_cut` for many integers inside 64 bits at once."""
    bits = (values.astype(np.float64) + 0.0).view(np.int64)
    order = np.where(bits >= 0, bits, bits ^ _MAGNITUDE)
    kinds = np.where(after, np.uint8(CUT_AFTER_INTEGER), np.uint8(CUT_BEFORE_INTEGER))
    return values + after, order + after, kinds
