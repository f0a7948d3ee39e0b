"""Preimages of bounded sets of numbers under a sum or difference with a constant, in closed form.

`x - 5.06` is in (-0.03, 0.03) where `x` is in (5.03, 5.09): exactly so for integers and decimals as long as no digit is
lost, and for floats up to a rounding. `shifted` gives what the search of `monotone_search` gives, without evaluating
the expression some sixty times: exact kinds by adding the constant to the cuts, floats by one or two steps from there.
Whatever might overflow, lose digits or cancel is left to the search.
"""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from typing import Any, Final

from palio.filters.kinds import KINDS, NUMBERS, Kind, exact_number, float_at, float_position, integer_cut
from palio.filters.value_sets import EMPTY, Intervals, ValueSet

_MAX_SIZE: Final = 10**15  # of constants and bounds
_MAX_SCALE: Final = 10**15  # digits behind the point, as a power of ten
_MAX_STEPS: Final = 4  # from the rounded sum to the float where the bound is passed


def shifted(values: ValueSet, by: int | Decimal) -> ValueSet | None:
    """The numbers that are in a set once a constant is subtracted; None where the search must tell."""
    if values.contains(None) or not _is_short(exact_number(by)):
        return None
    if any(values.parts[kind].inside or len(values.parts[kind].cuts) % 2 for kind in NUMBERS):
        return None  # unbounded: where the difference overflows, it is NULL
    constant = exact_number(by)
    decimals, floats = values.parts[Kind.DECIMAL], values.parts[Kind.FLOAT]
    wholes = values.parts[Kind.INTEGER].cuts if type(by) is int else decimals.cuts
    exact = [_exact_cut(cut, constant) for cut in decimals.cuts]
    rounded = [_float_cut(cut, float(by)) for cut in floats.cuts]
    if None in exact or None in rounded or not all(map(_is_short, map(_number_of, wholes))):
        return None
    parts = {
        Kind.INTEGER: _intervals(
            [cut + by for cut in wholes]
            if type(by) is int
            else [integer_cut((number + constant, after)) for number, after in wholes]
        ),
        Kind.DECIMAL: _intervals(exact),
        Kind.FLOAT: _intervals(rounded),
    }
    return ValueSet.of({**dict.fromkeys(KINDS, EMPTY), **parts})


def _number_of(cut: Any) -> int | Fraction:
    number: int | Fraction = cut[0] if isinstance(cut, tuple) else cut
    return number


def _is_short(number: int | Fraction) -> bool:
    return -_MAX_SIZE < number < _MAX_SIZE and _MAX_SCALE % number.denominator == 0


def _exact_cut(cut: tuple[int | Fraction, int], constant: int | Fraction) -> tuple[int | Fraction, int] | None:
    """A cut among decimals moved by a constant; None where decimals near it lose digits in the difference."""
    number, after = cut
    if not _is_short(number):
        return None
    moved = number + constant
    # A decimal of 38 digits keeps them all where the difference has no more digits before the point than itself; just
    # below a power of ten it has one digit less than there.
    digits = _digits(number)
    if digits and digits >= _digits(moved):
        return None
    return exact_number(moved), after


def _digits(number: int | Fraction) -> int:
    """How many digits a number has before the point."""
    whole = abs(int(number))
    return len(str(whole)) if whole else 0


def _float_cut(cut: int, constant: float) -> int | None:
    """The first float whose difference with a constant is above a cut; None where it is far from the sum."""
    bound = float_at(cut)
    if not abs(bound) < _MAX_SIZE:
        return None
    at = float_position(bound + constant)
    for _ in range(_MAX_STEPS):
        if float_position(float_at(at) - constant) < cut:
            at += 1
        elif float_position(float_at(at - 1) - constant) >= cut:
            at -= 1
        else:
            return at
    return None


def _intervals(cuts: list[Any]) -> Intervals:
    """Intervals that begin and end at cuts in order; those between two equal cuts are empty."""
    kept: list[Any] = []
    for cut in cuts:
        if kept and kept[-1] == cut:
            kept.pop()
        else:
            kept.append(cut)
    return Intervals(False, tuple(kept)) if kept else EMPTY
