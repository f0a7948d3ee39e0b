"""Functions that only Palio has: IP networks, patterns over all values of an event, and CloudEvents text.

CloudEvents 1.0 has Boolean, Integer of 32 bits, String, Binary, URI and Timestamp, and defines a text for each. An
event may also hold values that CloudEvents has no type for; such a number or date has a text as well, one for each
position in the order of its kind (1.50 is `1.5`, -0.0 is `0.0`), so that "has this text" is a set of values that an
index can hold. A decimal or a float always has a point and so is never taken for an Integer. Bytes have no text here:
`Event.from_cloudevent` already writes Binary in Base64.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from math import isfinite, isnan
from typing import Any, Final

from palio.filters.expressions.ast import Call, Expression, walk
from palio.filters.expressions.cast import to_text
from palio.filters.expressions.coercion import Arrays, Scalars, Value

# Functions that read all attributes of an event.
WHOLE_EVENT_FUNCTIONS = frozenset({"any_value_like", "any_value_ilike", "any_value_rlike"})
EXTENSION_FUNCTIONS = WHOLE_EVENT_FUNCTIONS | {
    "ip_in_network",
    "condition_in",
    "in_timezone",
    "cesql_int",
    "cesql_string",
}


def uses_extensions(expression: Expression) -> bool:
    """Whether an expression calls a function that Spark does not have."""
    return any(isinstance(node, Call) and node.function in EXTENSION_FUNCTIONS for node in walk(expression))


def reads_whole_event(expression: Expression) -> bool:
    """Whether an expression reads attributes that it does not name."""
    return any(isinstance(node, Call) and node.function in WHOLE_EVENT_FUNCTIONS for node in walk(expression))


@lru_cache(maxsize=4096)
def network(text: str) -> IPv4Network | IPv6Network:
    """A network in CIDR notation; host bits are ignored."""
    return ip_network(text, strict=False)


@lru_cache(maxsize=16_384)  # one address is tested against many networks
def _address(text: str) -> IPv4Address | IPv6Address | None:
    try:
        return ip_address(text)
    except ValueError:
        return None


def ip_in_network(address: str, of: str) -> bool:
    """Whether a text is an IP address within a network; FALSE for any other text."""
    parsed = _address(address)
    return parsed is not None and parsed in network(of)


def texts_of(event: Scalars, arrays: Arrays, zone: str) -> Iterator[str]:
    """Every value of an event as a text."""
    for several in (event.values(), *arrays.values()):
        for value in several:
            text = value if isinstance(value, str) else cast_text(value, zone)
            if text is not None:
                yield text


def cast_text(value: Value, zone: str) -> str | None:
    """A value as a text, as CAST writes it; null and bytes have none."""
    return None if value is None or isinstance(value, bytes) else to_text(value, zone)


def any_value(accepts: Callable[[str], bool], zone: str) -> Callable[[Scalars, Arrays], Value]:
    """Whether some value of an event is accepted: TRUE or FALSE, never NULL."""
    return lambda event, arrays: any(accepts(text) for text in texts_of(event, arrays, zone))


SMALLEST_CESQL_INTEGER: Final = -(2**31)
LARGEST_CESQL_INTEGER: Final = 2**31 - 1
_INTEGER: Final = re.compile(r"([+-]?)0*([0-9]{1,10})", re.ASCII)


def cloudevents_text(value: Any) -> str | None:
    """The CloudEvents text of a value; None for null, bytes and arrays."""
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


def cesql_integer(text: str) -> int | None:
    """The 32-bit integer that a text denotes: an optional sign, then decimal digits; else None."""
    match = _INTEGER.fullmatch(text)
    if match is None:  # more than ten digits after leading zeros exceed 32 bits
        return None
    number = int(match[1] + match[2])
    return number if SMALLEST_CESQL_INTEGER <= number <= LARGEST_CESQL_INTEGER else None


def _moment(value: datetime) -> str:
    """RFC 3339 with `Z` for UTC, without trailing zeros of the fraction."""
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
    # One text for each position in the order of the kind: no needless zeros, no minus before zero (module docstring).
    text = f"{value:f}"
    text = text.rstrip("0") if "." in text else f"{text}."
    text = f"{text}0" if text.endswith(".") else text
    return "0.0" if text == "-0.0" else text
