"""Formats of format_string(), as `java.util.Formatter` reads them: `%5d`, `%-10s`, `%08.2f`.

Supported are the conversions s, d, x, o, f, e, b and c with their capitals, flags, widths and precisions, `%%` and
`%n`, and arguments by number (`%2$s`). The others (a, g, h, t) are refused. A value of another kind than its conversion
takes makes the text NULL, where Spark raises. Integers have 64 bits, so `%x` of -1 has sixteen digits.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Sequence
from datetime import date, datetime
from decimal import ROUND_HALF_UP, Decimal
from typing import Final, NamedTuple

from palio.filters.expressions import text_cast
from palio.filters.expressions.coercion import FIRST_DAY, WIDE, Value
from palio.filters.expressions.text_functions import TEXT_LIMIT
from palio.filters.kinds import timestamp_position
from palio.filters.work_limit import grows_too_long

_SPECIFIER: Final = re.compile(r"%(?:([1-9][0-9]{0,3})\$)?([-#+ 0,(]*)([1-9][0-9]{0,6})?(?:\.([0-9]{1,4}))?([a-zA-Z%])")
MAX_FORMAT_DIGITS: Final = 400  # after the point; a double has fewer before it, and both have to fit `WIDE`
_DIGITS: Final = tuple("0123456789abcdef")
_FLAGS: Final = {"s": "-", "b": "-", "c": "-", "d": "-+ 0,(", "x": "-0", "o": "-0", "f": "-+ 0,(", "e": "-+ 0("}


class _Specifier(NamedTuple):
    argument: int
    flags: str
    width: int
    precision: int | None
    conversion: str
    is_upper: bool


class PrintfFormat(NamedTuple):
    """A compiled format: literal texts and specifiers."""

    pieces: tuple[str | _Specifier, ...]
    arguments: int

    @classmethod
    def parse(cls, text: str) -> PrintfFormat:
        """A ValueError tells what is wrong with a format."""
        pieces: list[str | _Specifier] = []
        at = following = most = 0
        while (start := text.find("%", at)) >= 0:
            pieces.append(text[at:start])
            found = _SPECIFIER.match(text, start)
            if found is None:
                raise ValueError(f"{text[start : start + 10]!r} is no format specifier")
            index, flags, width, precision, conversion = found.groups()
            at = found.end()
            if conversion in "%n":
                if index or flags or width or precision:
                    raise ValueError(f"{found[0]!r} is no format specifier")
                pieces.append("%" if conversion == "%" else "\n")
                continue
            if index is None:
                following += 1
            place = following if index is None else int(index)
            most = max(most, place)
            pieces.append(_specifier(found[0], place - 1, flags, width, precision, conversion))
        return cls((*pieces, text[at:]), most)

    def write(self, values: Sequence[Value]) -> str | None:
        """The text; None where a value is not of the kind that its conversion takes."""
        made: list[str] = []
        size = 0
        for piece in self.pieces:
            written = piece if isinstance(piece, str) else _formatted(piece, values[piece.argument])
            if written is None or (size := size + len(written)) > TEXT_LIMIT:
                return None
            made.append(written)
        given = sum(len(value) for value in values if isinstance(value, str))
        return None if grows_too_long(size, given, "format_string()") else "".join(made)


def _specifier(
    text: str, argument: int, flags: str, width: str | None, precision: str | None, conversion: str
) -> _Specifier:
    kind = conversion.lower()
    if kind not in _FLAGS or conversion in ("D", "F", "O"):
        raise ValueError(f"the conversion of {text!r} is none of s, d, x, o, f, e, b and c")
    if not set(flags) <= set(_FLAGS[kind]) or len(set(flags)) < len(flags):
        raise ValueError(f"{text!r} has flags that its conversion does not take")
    if {"-", "0"} <= set(flags) or {"+", " "} <= set(flags) or (set(flags) & {"-", "0"} and width is None):
        raise ValueError(f"the flags of {text!r} do not go together, or lack a width")
    if precision is not None and kind in "dxoc":
        raise ValueError(f"{text!r} has a precision, which its conversion does not take")
    if precision is not None and kind in "fe" and int(precision) > MAX_FORMAT_DIGITS:
        raise ValueError(f"{text!r} asks for more than {MAX_FORMAT_DIGITS} digits after the point")
    wide = int(width or 0)
    return _Specifier(argument, flags, wide, None if precision is None else int(precision), kind, conversion.isupper())


def _formatted(how: _Specifier, value: Value) -> str | None:
    if value is None:
        text = "false" if how.conversion == "b" else "null"
        return _padded(_cut(text, how), how, "")
    writer: Callable[[_Specifier, Value], tuple[str, str] | None] = _WRITERS[how.conversion]
    made = writer(how, value)
    return None if made is None else _padded(made[1], how, made[0])


def _padded(text: str, how: _Specifier, sign: str) -> str:
    closing = ")" if sign == "(" else ""
    if "0" in how.flags and text[:1] in _DIGITS:  # not of null, NaN and Infinity
        text = text.rjust(how.width - len(sign) - len(closing), "0")
    text = sign + text + closing
    # Java counts the width in UTF-16.
    blanks = " " * (how.width - len(text) - sum(character > "\uffff" for character in text))
    text = text + blanks if "-" in how.flags else blanks + text
    return text.upper() if how.is_upper else text


def _cut(text: str, how: _Specifier) -> str:
    return text if how.precision is None else text[: how.precision]


def _as_text(how: _Specifier, value: Value) -> tuple[str, str] | None:
    # Spark hands over what it has inside: days and microseconds since 1970.
    match value:
        case datetime():
            value = timestamp_position(value)
        case date():
            value = value.toordinal() - FIRST_DAY
    if isinstance(value, bool | int | float | Decimal | str):
        return "", _cut(text_cast.to_text(value), how)
    return None


def _as_truth(how: _Specifier, value: Value) -> tuple[str, str]:
    return "", _cut("false" if value is False else "true", how)


def _as_character(how: _Specifier, value: Value) -> tuple[str, str] | None:
    whole = _whole(value)
    return ("", chr(whole)) if whole is not None and 0 <= whole <= 0x10FFFF else None


def _whole(value: Value) -> int | None:
    if isinstance(value, datetime):
        return timestamp_position(value)
    if isinstance(value, date):
        return value.toordinal() - FIRST_DAY
    return value if type(value) is int else None


def _as_digits(how: _Specifier, value: Value) -> tuple[str, str] | None:
    whole = _whole(value)
    if whole is None:
        return None
    return _sign(how, whole < 0), f"{abs(whole):,}" if "," in how.flags else str(abs(whole))


def _in_base(code: str) -> Callable[[_Specifier, Value], tuple[str, str] | None]:
    def write(how: _Specifier, value: Value) -> tuple[str, str] | None:
        whole = _whole(value)
        return None if whole is None else ("", format(whole % 2**64, code))

    return write


def _as_fixed(how: _Specifier, value: Value) -> tuple[str, str] | None:
    if type(value) is not float:
        return None
    if not math.isfinite(value):
        return _not_finite(how, value)
    # Of the shortest decimal that means the double, as in Java, not of the double itself.
    places = 6 if how.precision is None else how.precision
    rounded = abs(Decimal(repr(value))).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP, WIDE)
    return _sign(how, math.copysign(1, value) < 0), f"{rounded:,f}" if "," in how.flags else f"{rounded:f}"


def _as_scientific(how: _Specifier, value: Value) -> tuple[str, str] | None:
    if type(value) is not float:
        return None
    if not math.isfinite(value):
        return _not_finite(how, value)
    places = 6 if how.precision is None else how.precision
    exact = abs(Decimal(repr(value)))
    power = exact.adjusted() if exact else 0
    rounded = exact.scaleb(-power, WIDE).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP, WIDE)
    if rounded.adjusted() > 0:
        power, rounded = power + 1, rounded.scaleb(-1, WIDE).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP, WIDE)
    return _sign(how, math.copysign(1, value) < 0), f"{rounded:f}e{'-' if power < 0 else '+'}{abs(power):02d}"


def _not_finite(how: _Specifier, value: float) -> tuple[str, str]:
    return ("", "NaN") if math.isnan(value) else (_sign(how, value < 0), "Infinity")


def _sign(how: _Specifier, is_negative: bool) -> str:
    if is_negative:
        return "(" if "(" in how.flags else "-"
    return "+" if "+" in how.flags else " " if " " in how.flags else ""


_WRITERS: Final[dict[str, Callable[[_Specifier, Value], tuple[str, str] | None]]] = {
    "s": _as_text,
    "b": _as_truth,
    "c": _as_character,
    "d": _as_digits,
    "x": _in_base("x"),
    "o": _in_base("o"),
    "f": _as_fixed,
    "e": _as_scientific,
}
