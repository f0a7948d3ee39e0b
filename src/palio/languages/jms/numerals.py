"""What number does a numeral of a selector stand for?

Numerals are Java's: exact ones are 64-bit integers, in decimal, hexadecimal (`0xFF`), octal (`017`) or binary
(`0b101`), with or without an `L` behind them; approximate ones have a point, an exponent, an `F` or a `D` (`7.`,
`.5`, `7E3`, `95.7F`, `0x1p-3`). Digits may be parted by `_`. As in Java, the sixty-four bits of a numeral that is
not decimal may be those of a negative number, and with an `F` a number is rounded to 32 bits.
"""

from __future__ import annotations

import struct
from math import isinf
from typing import Final

from palio.languages.sql.literals import BadLiteral

_DIGITS: Final = r"[0-9](?:[0-9_]*[0-9])?"
_HEX: Final = r"[0-9a-fA-F](?:[0-9a-fA-F_]*[0-9a-fA-F])?"
_EXPONENT: Final = rf"(?:[eE][+-]?{_DIGITS})"

NUMERAL: Final = rf"""
    0[xX](?:{_HEX}\.?|(?:{_HEX})?\.{_HEX})[pP][+-]?{_DIGITS}[fFdD]?
  | 0[xX]{_HEX}[lL]? | 0[bB][01](?:[01_]*[01])?[lL]?
  | (?:{_DIGITS}\.(?:{_DIGITS})?|\.{_DIGITS}){_EXPONENT}?[fFdD]?
  | {_DIGITS}(?:{_EXPONENT}[fFdD]?|[fFdD])
  | {_DIGITS}[lL]?
"""
"""The form of all numerals, as a verbose regular expression."""

_LARGEST: Final = 2**63 - 1


def number(numeral: str, negative: bool = False) -> int | float:
    """The number a numeral stands for, behind a minus where `negative`; BadLiteral where Java has none."""
    digits = numeral.replace("_", "").lower()
    if digits.startswith("0x"):
        return _approximate_hex(digits, negative) if "p" in digits else _bits(digits, 16, negative)
    if digits.startswith("0b"):
        return _bits(digits, 2, negative)
    if digits[-1] in "fd" or "." in digits or "e" in digits:
        return _approximate(digits, negative)
    digits = digits.removesuffix("l")
    if digits[0] == "0" and len(digits) > 1:
        return _octal(digits, negative)
    # Turning long texts into integers takes quadratic time; no number of twenty digits is in range.
    exact = int(digits) if len(digits) < 20 else _LARGEST + 2
    if exact > _LARGEST + negative:
        raise BadLiteral(f"{_shown(digits)} is more than a 64-bit integer holds", "write a number with a point")
    return -exact if negative else exact


def _octal(digits: str, negative: bool) -> int:
    if digits.strip("01234567"):
        raise BadLiteral(
            f"{_shown(digits)} begins with a 0, so it is octal, and 8 and 9 are no octal digits",
            f"write {_shown(digits.lstrip('0'))} for the decimal number",
        )
    return _bits(digits, 8, negative)


def _bits(digits: str, base: int, negative: bool) -> int:
    body = digits.removesuffix("l")
    value = int(body, base) if len(body) < 100 else 1 << 64
    if value >= 1 << 64:
        raise BadLiteral(f"{_shown(digits)} has more than 64 bits", "write a number with a point")
    value = value - (1 << 64) if value > _LARGEST else value
    return to_long(-value) if negative else value


def _approximate(digits: str, negative: bool) -> float:
    mantissa = digits.rstrip("fd").partition("e")[0]
    value = float(digits.rstrip("fd"))
    return _ranged(value, digits, mantissa.strip("0.") == "", negative)


def _approximate_hex(digits: str, negative: bool) -> float:
    mantissa, _, exponent = digits.partition("p")
    power = exponent.rstrip("fd")
    try:
        value = float.fromhex(f"{mantissa}p{power}")
    except OverflowError:
        value = float("inf")
    is_float = exponent[-1] == "f"
    return _ranged(value, f"{mantissa}p{power}{'f' if is_float else ''}", mantissa[2:].strip("0.") == "", negative)


def _ranged(value: float, digits: str, is_zero: bool, negative: bool) -> float:
    """The number, rounded to 32 bits where an F asks for it; what has no place in the range is refused."""
    if digits[-1] == "f":
        value = _to_float(value)
    if isinf(value) or (value == 0 and not is_zero):
        size = "large" if value else "small"
        raise BadLiteral(
            f"{_shown(digits)} is too {size} for a Java {'float' if digits[-1] == 'f' else 'double'}",
            "write a number in its range",
        )
    return -value if negative else value


def _to_float(value: float) -> float:
    try:
        rounded: float = struct.unpack("<f", struct.pack("<f", value))[0]
    except OverflowError:
        return float("inf")
    return rounded


def to_long(value: int) -> int:
    """An integer as Java's 64 bits have it: what is too large comes round from the other end."""
    return (value + (1 << 63)) % (1 << 64) - (1 << 63)


def _shown(digits: str) -> str:
    return digits if len(digits) <= 40 else f"{digits[:40]}…"
