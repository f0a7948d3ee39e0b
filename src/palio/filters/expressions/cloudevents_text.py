"""How does CloudEvents write a value as text, and which integer does a text say?

CloudEvents 1.0 knows Boolean, Integer of 32 bits, String, Binary, URI and Timestamp, and gives each one text. An
event may also hold what CloudEvents has no type for; such a number or date is given a text as well, one for each
position in the order of its kind (1.50 is `1.5`, -0.0 is `0.0`), so that "has this text" is a set of values that
an index can hold. A decimal or a float always has a point and so is never taken for an Integer. Bytes have no
text here: `Event.from_cloudevent` already writes Binary in Base64.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import isfinite, isnan
from typing import Any, Final

SMALLEST: Final = -(2**31)
LARGEST: Final = 2**31 - 1
_INTEGER: Final = re.compile(r"([+-]?)0*([0-9]{1,10})", re.ASCII)


def text_of(value: Any) -> str | None:
    """The text of a value; None for what has none: nothing at all, bytes, several values."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, datetime):
        return _moment(value)
    if isinstance(value, date):
        return value.isoformat()
    if isinstance(value, Decimal | float):
        return _number(value)
    return None


def integer_in(text: str) -> int | None:
    """The 32-bit integer a text says: a sign or none, then digits of base 10, and nothing else; else None."""
    found = _INTEGER.fullmatch(text)
    if found is None:  # also where there are more than ten digits behind the zeros: that is beyond 32 bits
        return None
    number = int(found[1] + found[2])
    return number if SMALLEST <= number <= LARGEST else None


def _moment(value: datetime) -> str:
    """RFC 3339 with `Z` for UTC, and no more digits of a second than it has."""
    offset = value.utcoffset() or timedelta(0)
    if offset % timedelta(minutes=1):  # RFC 3339 writes hours and minutes
        value, offset = value.astimezone(UTC), timedelta(0)
    fraction = f".{value.microsecond:06d}".rstrip("0") if value.microsecond else ""
    zone = value.isoformat()[-6:] if offset else "Z"
    return f"{value.isoformat()[:19]}{fraction}{zone}"


def _number(value: Decimal | float) -> str:
    if isinstance(value, float):
        if not isfinite(value):
            return "NaN" if isnan(value) else "Infinity" if value > 0 else "-Infinity"
        value = Decimal(repr(value))
    text = f"{value:f}"
    text = text.rstrip("0") if "." in text else f"{text}."
    text = f"{text}0" if text.endswith(".") else text
    return "0.0" if text == "-0.0" else text
