"""Tests of scalar values: accepted, converted and rejected types."""

from __future__ import annotations

import enum
import math
import uuid
from collections import OrderedDict, UserDict, namedtuple
from datetime import UTC, date, datetime, time, timedelta, timezone, tzinfo
from decimal import Decimal, localcontext
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.errors import EventError
from palio.events import Event


def read(value: object) -> Any:
    """The one value of an event, after reading."""
    return Event.from_dict({"x": value}).attributes["x"]


class Colour(enum.IntEnum):
    RED = 3


class Side(str, enum.Enum):  # noqa: UP042 - its str() is not its value, unlike a StrEnum's
    BUY = "buy"


class Shout(str):
    def __str__(self) -> str:
        return "overridden"


class Price(float):
    pass


class Day(date):
    pass


class Moment(datetime):
    pass


class Blob(bytes):
    def __bytes__(self) -> bytes:
        return b"overridden"


PLAIN = [None, True, False, 0, -1, 2**63 - 1, -(2**63), 1.5, "", "é\x00😀", date(2026, 1, 31), b"", b"\xff"]


@pytest.mark.parametrize("value", PLAIN)
def test_the_kinds_of_value_are_kept_as_they_are(value: object) -> None:
    assert type(read(value)) is type(value)
    assert read(value) == value
    assert Event({"x": value}).attributes == {"x": value}


def test_a_boolean_is_not_an_integer() -> None:
    assert read(True) is True
    assert read(1) == 1
    assert type(read(1)) is int


def test_nan_and_infinities_are_floats() -> None:
    assert math.isnan(read(math.nan))
    assert read(math.inf) == math.inf
    assert read(-math.inf) == -math.inf


def test_negative_zero_is_kept_and_equals_zero() -> None:
    assert math.copysign(1, read(-0.0)) == -1
    assert read(-0.0) == 0.0


def test_integers_beyond_64_bits_become_decimals_up_to_38_digits() -> None:
    for value in (2**63, -(2**63) - 1, 10**38 - 1, -(10**38) + 1):
        assert type(read(value)) is Decimal
        assert read(value) == value
    for value in (10**38, -(10**38)):
        with pytest.raises(EventError, match="x: an integer of more than 38 digits"):
            read(value)


def test_an_enormous_integer_is_refused_without_being_printed() -> None:
    with pytest.raises(EventError, match="x: an integer of more than 38 digits"):
        read(1 << 33219280)


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("1.50", "1.50"),
        ("-0", "-0"),
        ("1E+2", "100"),
        ("1E+37", "1" + "0" * 37),
        ("1E-38", "1E-38"),
        ("1." + "0" * 60, "1"),
        ("0E+999999", "0"),
        ("0E-999999", "0"),
        ("9" * 38, "9" * 38),
        ("0." + "9" * 38, "0." + "9" * 38),
    ],
)
def test_decimals_of_38_digits_are_kept(given: str, kept: str) -> None:
    assert str(read(Decimal(given))) == kept


@pytest.mark.parametrize("text", ["1E+38", "1E-39", "9" * 39, "1." + "0" * 37 + "1", "1E+999999999999"])
def test_decimals_of_more_digits_are_refused(text: str) -> None:
    with pytest.raises(EventError, match="x: a decimal with more than 38 digits"):
        read(Decimal(text))


@pytest.mark.parametrize("text", ["NaN", "sNaN", "Infinity", "-Infinity"])
def test_decimals_that_are_no_numbers_are_refused(text: str) -> None:
    with pytest.raises(EventError, match="x: a decimal must be a number"):
        read(Decimal(text))


@given(st.decimals(allow_nan=False, allow_infinity=False))
def test_a_decimal_keeps_its_value_or_is_refused_whatever_the_context(value: Decimal) -> None:
    with localcontext() as context:
        context.prec = 3
        try:
            kept = read(value)
        except EventError:
            return
    digits, exponent = kept.as_tuple()[1:]
    assert kept.compare_total(value) == 0 or kept == value
    assert len(digits) <= 38
    assert -38 <= exponent <= 0


def test_a_naive_timestamp_is_utc() -> None:
    assert read(datetime(2026, 1, 31, 12)) == datetime(2026, 1, 31, 12, tzinfo=UTC)
    assert read(datetime(2026, 1, 31, 12)).tzinfo is UTC


def test_an_aware_timestamp_is_converted_to_utc() -> None:
    zone = timezone(timedelta(hours=5, minutes=30))
    assert read(datetime(2026, 1, 31, 1, tzinfo=zone)).isoformat() == "2026-01-30T19:30:00+00:00"
    assert read(datetime(2026, 1, 31, 1, tzinfo=zone)).tzinfo is UTC


def test_a_timestamp_that_utc_cannot_express_is_refused() -> None:
    with pytest.raises(EventError, match="x: a timestamp that cannot be expressed in UTC"):
        read(datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=1))))


def test_a_broken_time_zone_is_refused() -> None:
    class Broken(tzinfo):
        def utcoffset(self, when: datetime | None) -> timedelta:
            raise RuntimeError("no idea")

    with pytest.raises(EventError, match=r"x: .*no idea"):
        read(datetime(2026, 1, 1, tzinfo=Broken()))


@pytest.mark.parametrize(
    ("value", "kind", "plain"),
    [
        (Colour.RED, int, 3),
        (Side.BUY, str, "buy"),
        (Shout("quiet"), str, "quiet"),
        (Price(1.5), float, 1.5),
        (Day(2026, 1, 31), date, date(2026, 1, 31)),
        (Moment(2026, 1, 31, 5), datetime, datetime(2026, 1, 31, 5, tzinfo=UTC)),
        (Moment(2026, 1, 31, 5, tzinfo=UTC), datetime, datetime(2026, 1, 31, 5, tzinfo=UTC)),
        (Blob(b"x"), bytes, b"x"),
        (bytearray(b"x"), bytes, b"x"),
        (memoryview(b"xyz")[::-1], bytes, b"zyx"),
    ],
)
def test_subclasses_become_the_plain_kind(value: object, kind: type, plain: object) -> None:
    assert type(read(value)) is kind
    assert read(value) == plain
    assert type(Event({"x": value}).attributes["x"]) is kind


def test_names_of_subclasses_become_plain_strings() -> None:
    (name,) = Event.from_dict({Side.BUY: 1}).attributes
    assert (type(name), name) == (str, "buy")
    (name,) = Event.from_dict({Shout("quiet"): 1}).attributes
    assert (type(name), name) == (str, "quiet")


def test_every_kind_of_mapping_and_sequence_is_read() -> None:
    pair = namedtuple("pair", "left right")
    event = Event.from_dict(OrderedDict(a=UserDict(b=1), c=pair(1, 2), d=(3,)))
    assert event.attributes == {"a.b": 1, "c": (1, 2), "d": (3,)}


@pytest.mark.parametrize(
    ("value", "name"),
    [
        ({1, 2}, "set; give a list"),
        (frozenset(), "frozenset; give a list"),
        (uuid.UUID(int=0), "uuid.UUID; give its str()"),
        (time(12), "datetime.time; give its str()"),
        (timedelta(1), "datetime.timedelta; give its total_seconds()"),
        (1j, "complex"),
        (object(), "object"),
        (range(3), "range"),
        (len, "builtin_function_or_method"),
    ],
)
def test_other_types_are_refused_by_name_with_the_path(value: object, name: str) -> None:
    with pytest.raises(EventError) as caught:
        Event.from_dict({"a": {"b": [1, value]}})
    assert str(caught.value) == f"a.b: an event cannot hold a value of type {name}"


@pytest.mark.parametrize(
    ("value", "plain"),
    [
        (np.int8(-3), -3),
        (np.uint64(2**64 - 1), Decimal(2**64 - 1)),
        (np.float32(0.5), 0.5),
        (np.float64(0.1), 0.1),
        (np.bool_(True), True),
        (np.str_("é"), "é"),
        (np.bytes_(b"x"), b"x"),
        (np.datetime64("2026-01-31"), date(2026, 1, 31)),
        (np.datetime64("2026-01-31T12:00:00.123456789"), datetime(2026, 1, 31, 12, 0, 0, 123456, UTC)),
        (np.datetime64("1969-12-31T23:59:59.999999999"), datetime(1969, 12, 31, 23, 59, 59, 999999, UTC)),
        (np.datetime64("2026-01-31T12", "h"), datetime(2026, 1, 31, 12, tzinfo=UTC)),
        (np.datetime64("NaT"), None),
        (np.array(5), 5),
        (np.array([[1, 2], [3, 4]]), (1, 2, 3, 4)),
        (np.array(["2026-01-31T00:00:00"], "datetime64[ns]"), (datetime(2026, 1, 31, tzinfo=UTC),)),
        (pd.Timestamp("2026-01-31 01:00", tz="Europe/Paris"), datetime(2026, 1, 31, tzinfo=UTC)),
        (pd.NaT, None),
    ],
)
def test_numpy_and_pandas_scalars_become_plain_values(value: object, plain: object) -> None:
    assert read(value) == plain
    kinds = [type(one) for one in plain] if isinstance(plain, tuple) else type(plain)
    got = read(value)
    assert ([type(one) for one in got] if isinstance(got, tuple) else type(got)) == kinds


@pytest.mark.parametrize(
    "value",
    [
        np.longdouble(1),
        np.complex64(1),
        np.timedelta64(1, "s"),
        np.array([np.longdouble(1)]),
        np.array([(1, 2)], dtype=[("a", int), ("b", int)]),
        np.datetime64("20000-01-01"),
        np.datetime64("20000-01-01", "us"),
        np.array(["-0500-01-01"], "datetime64[D]"),
        np.array([object()]),
    ],
)
def test_numpy_values_without_a_plain_equal_are_refused(value: object) -> None:
    with pytest.raises(EventError, match="x: "):
        read(value)


@pytest.mark.parametrize("text", ["\ud800", "a\udfff", "\ud83d \ude00"])
def test_text_that_is_not_unicode_is_refused(text: str) -> None:
    for value in (text, [text], {"y": text}):
        with pytest.raises(EventError, match="lone surrogate"):
            read(value)


def test_control_characters_are_kept() -> None:
    text = "".join(map(chr, range(32))) + "\x7f\u0085\u2028"
    assert read(text) == text
