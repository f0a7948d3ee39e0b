"""Conversion between text and values: numbers, booleans, dates and timestamps read from text and written as text.

These are the rules of Spark 4's CAST in ANSI mode, found by running it. They apply wherever text meets another kind:
CAST itself, a typed literal, a string literal compared with a number. None means that Spark would raise, which Palio
treats as NULL.

Three differences, each because Spark's way would be wrong here. A year outside 1 to 9999 is None: no Python date can
hold it. A time without a date ('12:30') is None: Spark adds today's date, and the meaning of a subscription must not
change with the clock. A double is written with the fewest digits that read back as the same double, as Java 19 and
later do; older Javas sometimes write one digit more.
"""

from __future__ import annotations

import re
from datetime import UTC, date, datetime, timedelta, timezone, tzinfo
from decimal import Decimal
from functools import lru_cache
from importlib.resources import files
from typing import Final
from zoneinfo import ZoneInfo

from palio.events.values import MAX_DECIMAL_DIGITS, MAX_INT64, MIN_INT64

# What Spark trims: white space and control characters, of ASCII only.
BLANKS = "".join(map(chr, range(0x21))) + "\x7f"
# Java's own trim, which doubles and decimals go through, leaves DEL alone.
_JAVA_BLANKS = BLANKS[:-1]

_TRUE = frozenset({"t", "true", "y", "yes", "1"})
_FALSE = frozenset({"f", "false", "n", "no", "0"})
_SPECIAL = {
    "inf": float("inf"),
    "+inf": float("inf"),
    "infinity": float("inf"),
    "+infinity": float("inf"),
    "-inf": float("-inf"),
    "-infinity": float("-inf"),
    "nan": float("nan"),
}
_SIGNED_NANS = frozenset({"+NaN", "-NaN"})  # in this case of letters only: Java does not read "-nan"

WORDS = frozenset({*_TRUE, *_FALSE, *_SPECIAL})
"""The words that read as a boolean or a number."""

# Every repetition is possessive: a text of a million digits and a letter must not be tried a million times.
_INTEGER = re.compile(r"([+-]?)(?=[0-9])0*+([0-9]*+)\Z")
_DOUBLE = re.compile(r"([+-]?(?:[0-9]++\.?[0-9]*+|\.[0-9]++)(?:[eE][+-]?[0-9]++)?)[dDfF]?\Z")
_HEXADECIMAL = re.compile(r"([+-]?0[xX](?:[0-9a-fA-F]++\.?[0-9a-fA-F]*+|\.[0-9a-fA-F]++)[pP][+-]?[0-9]++)[dDfF]?\Z")
_DECIMAL = re.compile(r"[+-]?(?:\d++\.?\d*+|\.\d++)(?:[eE][+-]?\d{1,10})?\Z")
_DATE = re.compile(r"(?:\+?)([0-9]{4,7})(?:-([0-9]{1,2})(?:-([0-9]{1,2})(?:[ T].*)?)?)?\Z", re.DOTALL)
_TIMESTAMP = re.compile(
    r"\+?([0-9]{4,6})(?:-([0-9]{1,2})(?:-([0-9]{1,2})"
    r"(?:[ T]([0-9]{1,2})(?::([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]*))?([^0-9.].*)?)?)?)?)?)?\Z",
    re.DOTALL,
)

_MAX_INTEGER_DIGITS = 19


def to_integer(text: str) -> int | None:
    """A 64-bit integer; no fraction, no exponent."""
    match = _INTEGER.match(text.strip(BLANKS))
    # The length first: int() of very many digits is slow, and above 4,300 of them refuses.
    if not match or len(match[2]) > _MAX_INTEGER_DIGITS:
        return None
    value = int(f"{match[1]}0{match[2]}")
    return value if MIN_INT64 <= value <= MAX_INT64 else None


def to_double(text: str) -> float | None:
    """A binary64, as Java reads it: also with a suffix d or f, in hexadecimal, infinity, nan."""
    text = text.strip(_JAVA_BLANKS)
    if match := _DOUBLE.match(text):
        return float(match[1])
    if match := _HEXADECIMAL.match(text):
        try:
            return float.fromhex(match[1])
        except OverflowError:
            return float("-inf") if text[0] == "-" else float("inf")
    return _SPECIAL.get(text.lower()) if text not in _SIGNED_NANS else float("nan")


def to_decimal(text: str) -> Decimal | None:
    """An exact decimal of at most 38 digits before the point; the caller rounds those after it."""
    text = text.strip(_JAVA_BLANKS)
    if not _DECIMAL.match(text):
        return None
    value = Decimal(text)
    if not value:
        return Decimal(0)
    magnitude = value.adjusted()
    if magnitude >= MAX_DECIMAL_DIGITS:
        return None
    # No decimal of Spark has more than 38 digits after the point: smaller than this is 0 after any rounding,
    # and a number written with a million zeros would only be slow.
    return value if magnitude > -3 * MAX_DECIMAL_DIGITS else Decimal(0)


def to_boolean(text: str) -> bool | None:
    """TRUE for t, true, y, yes, 1 and FALSE for f, false, n, no, 0, in any case."""
    word = text.strip(BLANKS).lower()
    if word in _TRUE:
        return True
    return False if word in _FALSE else None


def to_date(text: str) -> date | None:
    """A date: year, year-month or year-month-day; what follows a whole date and a blank or T is ignored."""
    match = _DATE.match(text.strip(BLANKS))
    if not match:
        return None
    year, month, day = match.groups("1")
    try:
        return date(int(year), int(month), int(day))
    except ValueError:
        return None


def to_timestamp(text: str, zone: str = "UTC") -> datetime | None:
    """A moment in UTC; a text without a zone is read in `zone`."""
    match = _TIMESTAMP.match(text.strip(BLANKS))
    if not match:
        return None
    written_zone = match[8]
    place = zone_of(written_zone.strip(_JAVA_BLANKS) if written_zone else zone)
    if place is None:
        return None
    try:
        local = _clock(match, place)
        # In a gap of the clock this goes forward by the gap, in an overlap it takes the first: as Java does.
        return local if place is UTC else local.astimezone(UTC)
    except (ValueError, OverflowError):
        return None


def to_local_timestamp(text: str) -> datetime | None:
    """A local timestamp, without a zone; a zone in the text must exist and is ignored."""
    match = _TIMESTAMP.match(text.strip(BLANKS))
    if not match or (match[8] and zone_of(match[8].strip(_JAVA_BLANKS)) is None):
        return None
    try:
        return _clock(match, None)
    except ValueError:
        return None


def _clock(match: re.Match[str], zone: tzinfo | None) -> datetime:
    year, month, day, hour, minute, second, fraction, _ = match.groups()
    return datetime(
        int(year),
        int(month or 1),
        int(day or 1),
        int(hour or 0),
        int(minute or 0),
        int(second or 0),
        int(fraction[:6].ljust(6, "0")) if fraction else 0,  # Spark cuts what is finer than a microsecond
        zone,
    )


def to_text(value: bool | int | Decimal | float | str | date | datetime | bytes, zone: str = "UTC") -> str:
    """The text of a value as CAST(… AS STRING) writes it; a timestamp is written in `zone`, without naming it."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, int):
        return str(value)
    if isinstance(value, float):
        return _double_text(value)
    if isinstance(value, Decimal):
        return format(value, "f")
    if isinstance(value, datetime):
        return _timestamp_text(value, zone)
    if isinstance(value, date):
        return value.isoformat()
    return value.decode("utf-8", "replace")


def _double_text(value: float) -> str:
    """Java's notation: plain from a thousandth up to ten million, else one digit before the point and E."""
    if value != value:
        return "NaN"
    if value in (float("inf"), float("-inf")):
        return "Infinity" if value > 0 else "-Infinity"
    if value == 0 or 1e-3 <= abs(value) < 1e7:
        return repr(value)
    mantissa, _, power = repr(value).partition("e")
    digits = len(mantissa.lstrip("-").replace(".", "").strip("0"))
    if not power or digits == 1:
        # Python writes some of them plain, and a single digit where Java takes the nearest number of two.
        mantissa, _, power = f"{value:.{max(digits, 2) - 1}e}".partition("e")
    return f"{mantissa}E{int(power)}"


def _timestamp_text(value: datetime, zone: str) -> str:
    aware = value if value.tzinfo else value.replace(tzinfo=UTC)
    try:
        local = aware.astimezone(zone_of(zone) or UTC)
    except OverflowError:  # within hours of the first or last day Python can hold
        local = aware.astimezone(UTC)
    text = local.replace(tzinfo=None).isoformat(" ")
    return text.rstrip("0") if local.microsecond else text


# Names Java accepts beside the regions. Three of them mean another place than the region of the same name.
_SHORT_NAMES = {
    "ACT": "Australia/Darwin",
    "AET": "Australia/Sydney",
    "AGT": "America/Argentina/Buenos_Aires",
    "ART": "Africa/Cairo",
    "AST": "America/Anchorage",
    "BET": "America/Sao_Paulo",
    "BST": "Asia/Dhaka",
    "CAT": "Africa/Harare",
    "CNT": "America/St_Johns",
    "CST": "America/Chicago",
    "CTT": "Asia/Shanghai",
    "EAT": "Africa/Addis_Ababa",
    "ECT": "Europe/Paris",
    "EST": "-05:00",
    "HST": "-10:00",
    "IET": "America/Indiana/Indianapolis",
    "IST": "Asia/Kolkata",
    "JST": "Asia/Tokyo",
    "MIT": "Pacific/Apia",
    "MST": "-07:00",
    "NET": "Asia/Yerevan",
    "NST": "Pacific/Auckland",
    "PLT": "Asia/Karachi",
    "PNT": "America/Phoenix",
    "PRT": "America/Puerto_Rico",
    "PST": "America/Los_Angeles",
    "SST": "Pacific/Guadalcanal",
    "VST": "Asia/Ho_Chi_Minh",
}
_NOT_REGIONS = frozenset({"Factory", "ROC"})
_ONE_DIGIT_HOUR = re.compile(r"([+-])([0-9]):")
_ONE_DIGIT_MINUTE = re.compile(r"([+-])([0-9]{2}):([0-9])\Z")
_OFFSET = re.compile(r"([+-])(?:([0-9])|([0-9]{2})(?::([0-9]{2})(?::([0-9]{2}))?|([0-9]{2})([0-9]{2})?)?)\Z")


@lru_cache(maxsize=1024)
def zone_of(name: str) -> tzinfo | None:
    """The zone of a name: Z, an offset, UTC, GMT or UT (perhaps with an offset), a region, a short name."""
    name = _ONE_DIGIT_HOUR.sub(r"\g<1>0\2:", name, count=1)
    name = _ONE_DIGIT_MINUTE.sub(r"\1\2:0\3", name)
    name = _SHORT_NAMES.get(name, name)
    if name in ("Z", "UTC", "GMT", "UT"):
        return UTC
    if name[:1] in ("+", "-"):
        return _offset(name)
    for prefix in ("UTC", "GMT", "UT"):
        if name.startswith(prefix) and name[len(prefix)] in "+-":
            return _offset(name[len(prefix) :])
    return _region(name) if name in _regions() else None


def _offset(text: str) -> tzinfo | None:
    match = _OFFSET.match(text)
    if not match:
        return None
    sign, short, long, minute, second, minute_, second_ = match.groups("")
    hours, minutes, seconds = int(short or long), int(minute or minute_ or 0), int(second or second_ or 0)
    whole = timedelta(hours=hours, minutes=minutes, seconds=seconds)
    if minutes > 59 or seconds > 59 or whole > timedelta(hours=18):
        return None
    return timezone(-whole if sign == "-" else whole) if whole else UTC


@lru_cache(maxsize=1)
def _regions() -> frozenset[str]:
    return frozenset((files("tzdata") / "zones").read_text("utf-8").split()) - _NOT_REGIONS


def _region(name: str) -> tzinfo:
    # From the package, not from the machine: the brokers of a network, and a driver and its workers, must agree on when
    # clocks change. The table of names above keeps paths out that a name could spell.
    with files("tzdata").joinpath("zoneinfo", *name.split("/")).open("rb") as file:
        return ZoneInfo.from_file(file, key=name)


# Values that CAST(x AS STRING) writes as words. All others are digits and signs.
WORD_VALUES: Final[dict[str, bool | float]] = {
    "true": True,
    "false": False,
    "NaN": float("nan"),
    "Infinity": float("inf"),
    "-Infinity": float("-inf"),
}
# A fragment of a number, and one of a date or timestamp; a fragment may begin anywhere.
_NUMBER_FRAGMENT: Final = re.compile(r"-?[0-9]*(?:\.[0-9]*)?(?:[eE]-?[0-9]*)?")
_TIME_FRAGMENT: Final = re.compile(r"-?[0-9]*(?:-[0-9]*){0,2}(?: [0-9]*)?(?::[0-9]*){0,2}(?:\.[0-9]*)?")


def may_occur_in_number(piece: str) -> bool:
    """Whether a fragment may occur in the text of a number, date or timestamp that is not a word."""
    return _NUMBER_FRAGMENT.fullmatch(piece) is not None or _TIME_FRAGMENT.fullmatch(piece) is not None


def may_occur_in_non_string(piece: str) -> bool:
    """Whether a fragment, in any case, may occur in the text of a value other than a string.

    A pattern with a fragment that cannot occur there need not be evaluated on such values.
    """
    lowered = piece.lower()
    return may_occur_in_number(piece) or any(lowered in word.lower() for word in WORD_VALUES)
