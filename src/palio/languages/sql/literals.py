"""What is the value of a literal: a number, a text, a date, a moment, bytes?

Each function takes the characters of one literal as they stand in a condition and gives the Python value
whose type is the literal's SQL type, as Spark 4 decides it: `1` is an integer, `1.0` a decimal, `1e0` a
double. What Spark refuses raises `BadLiteral` with the reason.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from decimal import Decimal
from math import isinf
from struct import pack, unpack
from typing import Final

from palio.errors import PalioError
from palio.filters.expressions.casting import to_date, to_local_timestamp, to_timestamp, zone_of


class BadLiteral(PalioError, ValueError):
    """A literal that has no value; says why and, where it can, what would have one."""

    def __init__(self, reason: str, hint: str | None = None) -> None:
        super().__init__(reason)
        self.reason = reason
        self.hint = hint


# --- numbers -----------------------------------------------------------------------------------------------

_WIDTHS: Final = {"l": ("bigint", 2**63), "s": ("smallint", 2**15), "y": ("tinyint", 2**7)}
_LONG: Final = 2**63
_DIGITS: Final = 38
# As Spark writes them: what is above is refused, even where it would round to them.
_LARGEST_FLOAT: Final = Decimal("3.4028234663852886E38")
_LARGEST_DOUBLE: Final = Decimal("1.7976931348623157E308")


def number(text: str) -> int | Decimal | float:
    """The value of a number with an optional minus before it, of the type its notation says."""
    kind = text[-1].lower()
    if kind in _WIDTHS:
        return _sized_integer(text, *_WIDTHS[kind])
    if kind == "f":
        return _float(text[:-1])
    if kind == "d":
        return _decimal(text[:-2]) if text[-2] in "bB" else _double(text[:-1])
    if "e" in text or "E" in text:
        return _double(text)
    return _decimal(text) if "." in text else _integer(text)


def _integer(text: str) -> int | Decimal:
    if len(text) > _DIGITS:
        _bound_digits(text.lstrip("-").lstrip("0"))
    value = int(Decimal(text))
    return value if -_LONG <= value < _LONG else Decimal(value)


def _sized_integer(text: str, name: str, bound: int) -> int:
    value = Decimal(text[:-1])
    if not -bound <= value < bound:
        raise BadLiteral(f"{text} is no {name}: those go from {-bound} to {bound - 1}")
    return int(value)


def _double(text: str) -> float:
    value = float(text)
    if abs(value) >= _LARGEST_DOUBLE and (isinf(value) or abs(Decimal(text)) > _LARGEST_DOUBLE):
        raise BadLiteral(f"{text} is beyond the largest double, {_LARGEST_DOUBLE}")
    return value


def _float(text: str) -> float:
    value = _double(text)
    if abs(value) >= _LARGEST_FLOAT and abs(Decimal(text)) > _LARGEST_FLOAT:
        raise BadLiteral(f"{text}F is beyond the largest float, {_LARGEST_FLOAT}")
    # A float of Spark has 32 bits, and keeps what they hold when it is widened.
    rounded: float = unpack("f", pack("f", value))[0]
    return rounded


def _decimal(text: str) -> Decimal:
    _, _, exponent = text.lower().partition("e")
    # Ten thousand places are beyond any decimal, and within what Decimal can count.
    if len(exponent.lstrip("+-").lstrip("0")) > 4:
        raise BadLiteral(f"{text}BD has more than {_DIGITS} digits, the most a decimal has", "write it as a double")
    value = Decimal(text)
    if not value:
        value = abs(value)  # no decimal zero is negative
    _, digits, scale = value.as_tuple()
    assert isinstance(scale, int)
    if len(digits) + max(scale, 0) > _DIGITS or -scale > _DIGITS:
        raise BadLiteral(f"{text} has more than {_DIGITS} digits, the most a decimal has", "write it as a double")
    return value if scale <= 0 else Decimal(int(value))


def _bound_digits(digits: str) -> None:
    if len(digits) > _DIGITS:
        raise BadLiteral(f"a number of {len(digits)} digits; no type has more than {_DIGITS}", "write it as a double")


# --- texts -------------------------------------------------------------------------------------------------

_ESCAPES: Final = {
    quote: re.compile(
        rf"\\u([0-9a-fA-F]{{4}})|\\U([0-9a-fA-F]{{8}})|\\([01][0-7]{{2}})|\\(.)|({quote}{quote})", re.DOTALL
    )
    for quote in "'\""
}
# A pattern's own escapes of % and _ stay as they are, for LIKE to read.
_ESCAPED: Final = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}


def text(literals: list[str]) -> str:
    """The characters that text literals side by side stand for, quotes taken off and escapes resolved."""
    value = "".join(map(_characters, literals))
    if not value.isascii():
        try:
            # Two escapes may be the halves of one character, even from two literals.
            value = value.encode("utf-16-le", "surrogatepass").decode("utf-16-le")
        except UnicodeDecodeError:
            raise BadLiteral("an escape in this text is half a character", "write both halves, or \\U") from None
    return value


def _characters(literal: str) -> str:
    quote = literal[0]
    if quote in "rR":
        return literal[2:-1]
    inside = literal[1:-1]
    if "\\" in inside:
        return _ESCAPES[quote].sub(_resolve, inside)
    return inside.replace(quote * 2, quote) if quote in inside else inside


def _resolve(found: re.Match[str]) -> str:
    which = found.lastindex
    if which == 4:
        return _ESCAPED.get(found[4], found[4])
    if which == 5:
        return found[5][0]
    if which == 3:
        return chr(int(found[3], 8))
    code = int(found[which or 0], 16)
    if code > 0x10FFFF:
        raise BadLiteral(f"there is no character U+{code:X}", "the last is \\U0010FFFF")
    return chr(code)


def hexadecimal(digits: str) -> bytes:
    """The bytes of X'…'."""
    if not re.fullmatch("[0-9a-fA-F]*", digits):
        raise BadLiteral(f"X'{digits}' has something else than hexadecimal digits")
    return bytes.fromhex(digits if len(digits) % 2 == 0 else f"0{digits}")


# --- dates and moments -------------------------------------------------------------------------------------

_SPECIAL = re.compile(r"\s*([A-Za-z]+)[ \t]*(.*)", re.DOTALL)
_CLOCK: Final = frozenset({"now", "today", "tomorrow", "yesterday"})
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def date_literal(written: str) -> date:
    """The value of DATE'…'."""
    if _is_epoch(written):
        return _EPOCH.date()
    value = to_date(written)
    if value is None:
        raise BadLiteral(f"{written!r} is no date", "write it as DATE'2024-01-31'; years go from 0001 to 9999")
    return value


def timestamp_literal(written: str, zone: str) -> datetime:
    """The value of TIMESTAMP'…' in UTC; without a zone of its own it is read in `zone`."""
    if _is_epoch(written):
        return _EPOCH
    return _moment(to_timestamp(written, zone), written)


def local_timestamp_literal(written: str, zone: str) -> datetime:
    """The value of TIMESTAMP_NTZ'…': read in `zone` even if it names another, as Spark compares it."""
    place = zone_of(zone) or UTC
    local = _EPOCH if _is_epoch(written) else _moment(to_local_timestamp(written), written)
    return local.replace(tzinfo=place).astimezone(UTC)


def _moment(value: datetime | None, written: str) -> datetime:
    if value is None:
        hint = "write it as TIMESTAMP'2024-01-31 23:59:59'; a zone may follow, years go from 0001 to 9999"
        raise BadLiteral(f"{written!r} is no timestamp", hint)
    return value


def _is_epoch(written: str) -> bool:
    """Whether a special word is meant, and the one among them that does not read the clock."""
    found = _SPECIAL.fullmatch(written.strip())
    if not found or (found[2] and zone_of(found[2]) is None):
        return False
    word = found[1].lower()
    if word in _CLOCK:
        reason = f"{word!r} changes with the clock, and a subscription must mean the same at any time"
        raise BadLiteral(reason, "write the date itself")
    return word == "epoch"
