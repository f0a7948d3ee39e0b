"""Generator of tables of every type an event can have, mostly of edge cases."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from math import isfinite
from random import Random
from struct import pack, unpack
from typing import Any, NamedTuple

import pyarrow as pa

from tests.oracles.sql_types import (
    BIGINT,
    BINARY,
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    MONEY,
    STRING,
    TIMESTAMP,
    TINYINT,
    WIDE,
    Type,
)


class Column(NamedTuple):
    """A column as conditions name it, and what sort of values it has (see `VALUES`)."""

    name: str
    type: Type
    sort: str


# `day2` and `ts2` stay far from the years 1 and 9999, beyond which Palio has no dates: they are for computing.
# `tame` has doubles that every Java writes alike.
COLUMNS = (
    Column("tiny", TINYINT, "tinyint"),
    Column("num", INT, "int"),
    Column("num2", INT, "int"),
    Column("big", BIGINT, "bigint"),
    Column("big2", BIGINT, "bigint"),
    Column("flt", FLOAT, "float"),
    Column("flt2", FLOAT, "float"),
    Column("dbl", DOUBLE, "double"),
    Column("dbl2", DOUBLE, "double"),
    Column("tame", DOUBLE, "tame double"),
    Column("dec", MONEY, "money"),
    Column("dec2", MONEY, "money"),
    Column("wide", WIDE, "wide"),
    Column("flag", BOOLEAN, "boolean"),
    Column("flag2", BOOLEAN, "boolean"),
    Column("str", STRING, "string"),
    Column("str2", STRING, "string"),
    Column("digits", STRING, "number text"),
    Column("clock", STRING, "time text"),
    Column("day", DATE, "date"),
    Column("day2", DATE, "moderate date"),
    Column("ts", TIMESTAMP, "timestamp"),
    Column("ts2", TIMESTAMP, "moderate timestamp"),
    Column("bin", BINARY, "binary"),
    Column("rec.num", INT, "int"),
    Column("rec.txt", STRING, "string"),
    Column("rec.sub.dbl", DOUBLE, "double"),
    Column("`odd.name`", BIGINT, "bigint"),
    Column("`e-mail`", STRING, "string"),
)
"""The scalars; beside them are the arrays `nums` (bigint) and `names` (string), some of them empty."""

_TWO_53 = 2**53
_LONGEST = 2**63

# fmt: off
INTEGERS = [0, 1, -1, 2, 3, 5, 7, 9, 10, 11, 12, 100, -128, 127, -5, -10]
_INT_EDGES = [-(2**31), 2**31 - 1, 2**31 - 2, 1000, 65536, 20240101, 86400]
_LONG_EDGES = [
    _TWO_53 - 1, _TWO_53, _TWO_53 + 1, -_TWO_53 - 1, _LONGEST - 1, -_LONGEST, _LONGEST - 2, 2**31, 2**24 + 1,
]
DOUBLES = [
    0.0, -0.0, 1.0, -1.0, 0.1, -0.1, 0.5, 1.5, 2.5, -2.5, 0.1 + 0.2, 0.3, 3.0, 10.0, 9.5, 100.0, 1 / 3, 1e-7,
    12345678.9, float("nan"), float("inf"), float("-inf"), 2.0**53, 2.0**53 + 2, 2.0**63, -(2.0**63), 2.0**31, 1e16,
    1e300, 5e-324, 2.2250738585072014e-308, 1.7976931348623157e308, -1.7976931348623157e308, 1e22, 4.35, 1.005,
]
TAME_DOUBLES = [
    0.0, -0.0, 1.0, -1.5, 0.1, 100.0, 12345.678, 1e7, 1.5e-5, float("nan"), float("inf"), float("-inf"), 1e20,
    0.001, 5e-324,
]
DECIMALS = list(map(Decimal, """
    0 0.10 0.1 1 1.5 -1.5 2.50 0.30 99999999.99 -99999999.99 10 9.95 0.05 -0.01 100
""".split()))
_WIDES = list(map(Decimal, [
    *INTEGERS, _TWO_53 + 1, _LONGEST, 10**37, 10**38 - 1, 1 - 10**38,
]))
STRINGS = [
    "", " ", "a", "A", "b", "ab", "aB", "abc", "aBc", "ABC", "abcabc", "aaa", "ba", "a b", " a", "a ", "  a b  ",
    "10", " 10 ", "10.0", "1e1", "-5", "+7", "0", "00", "true", "yes", "T", "f", "NaN", "inf", "null",
    "2024-01-01", "2024-02-29 12:00:00", "2024", "a%c", "a_c", "50%", "%", "_", "\\", "x\\y", "\\%", "a\\",
    "é", "É", "e\u0301", "ß", "ẞ", "ΑΣ", "ας", "İ", "ı", "ǆ", "ŉ", "ﬁ", "résumé", "日本", "😀", "a😀b",
    "\U0010ffff", "\uffff", "a\nb", "a\n", "\n", "\t", "\r\n", "\u2028", "\x00", "\x7f", "\xa0", "it's", '"', "`", "--",
    "/*", "ab,cd,ef", ",", "a.b", "a@b.com", "aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaab", "Hello World",
    "hello world", "mcDonald o'neil",
]
NUMBER_TEXTS = [
    "0", "1", "10", " 10 ", "-5", "+7", "007", "10.0", "9.5", ".5", "5.", "1e1", "1E-2", "127", "128", "2147483648",
    "9007199254740993", "9223372036854775807", "9223372036854775808", "99999999999999999999999999999999999999",
    "NaN", "Infinity", "-inf", "1d", "2F", "0x10", "", " ", "abc", "1 0", "1,000", "true", "\t12\n", "1_000",
    "٣", "1.005", "1e400",
]
TIME_TEXTS = [
    "2024-01-01", "2024-1-1", "2024", "2024-02", " 2024-02-29 ", "2024-02-30", "2023-02-29", "2024-01-01T10:11:12",
    "2024-01-01 10", "2024-03-10 02:30:00", "2024-11-03 01:30:00", "2024-01-01 10:11:12.123456789",
    "2024-01-01 10:11:12Z", "2024-01-01 10:11:12+02:00", "2024-01-01 10:11:12 Europe/Paris", "2024-01-01 25:00:00",
    "0001-01-01", "9999-12-31", "1970-01-01 00:00:00", "abc", "", "24-01-01", "2024-01-01 10:11", "2024-01-01 1:2:3",
    "2024-01-01 10:11:12.", "+2024-01-01", "2024-01-01x", "2024-13-01", "1969-12-31 23:59:59.999999",
]
_MODERATE_DATES = list(map(date.fromisoformat, """
    1900-01-01 1969-12-31 1970-01-01 1999-12-31 2000-02-29 2023-12-31 2024-01-01 2024-01-31 2024-02-29 2024-03-10
    2024-03-31 2024-11-03 2024-12-30 2027-01-01 2038-01-19 2100-02-28
""".split()))
DATES = [*_MODERATE_DATES, *map(date.fromisoformat, """
    0001-01-01 0001-12-31 1582-10-04 1582-10-15 1883-11-18 9999-12-31
""".split())]


def _moments(text: str) -> list[datetime]:
    return [datetime.fromisoformat(each).replace(tzinfo=UTC) for each in text.split()]


# The clocks of New York change at 07:00 and 06:00 UTC, those of Europe at 01:00.
_MODERATE_TIMES = _moments("""
    1970-01-01 1969-12-31T23:59:59.999999 1999-12-31T23:59:59 2023-12-31T23:30:00 2024-01-01 2024-01-01T05:00:00
    2024-01-01T10:11:12 2024-02-29T12:34:56.123456 2024-03-09T07:30:00 2024-03-10T06:59:59.999999 2024-03-10T07:00:00
    2024-03-10T07:30:00 2024-03-31T00:59:59 2024-03-31T01:00:00 2024-10-27T00:30:00 2024-10-27T01:30:00
    2024-11-02T05:30:00 2024-11-03T05:30:00 2024-11-03T06:30:00 2038-01-19T03:14:08
""")
TIMESTAMPS = [*_MODERATE_TIMES, *_moments("""
    0001-01-03 1582-10-10 1883-11-18T17:00:00 1900-01-01 9999-12-29T23:59:59.999999
""")]
BINARIES = [b"", b"\x00", b"a", b"abc", b"\xff", b"\x80\x81", "é".encode(), "😀".encode(), b"ab\x00", b"10", b"A"]
# fmt: on


def as_single(value: float) -> float:
    """A double rounded to the 32 bits of a FLOAT, and to the range of it."""
    bounded = max(min(value, 3.4e38), -3.4e38) if isfinite(value) else value
    return float(unpack("f", pack("f", bounded))[0])


def _integer(edges: list[int], most: int) -> Callable[[Random], int]:
    return lambda random: random.choice(edges) if random.random() < 0.8 else random.randint(-most, most)


def _real(random: Random, most: float) -> float:
    return random.choice(DOUBLES) if random.random() < 0.8 else random.uniform(-most, most)


def _text(random: Random) -> str:
    if random.random() < 0.8:
        return random.choice(STRINGS)
    return "".join(random.choice("aAbBc %_\\é😀\n1") for _ in range(random.randint(0, 8)))


def _money(random: Random) -> Decimal:
    return random.choice(DECIMALS) if random.random() < 0.8 else Decimal(random.randint(-(10**5), 10**5)) / 100


def _moderate_day(random: Random) -> date:
    if random.random() < 0.7:
        return random.choice(_MODERATE_DATES)
    return date(2024, 1, 1) + timedelta(random.randint(-800, 800))


def _moderate_moment(random: Random) -> datetime:
    if random.random() < 0.7:
        return random.choice(_MODERATE_TIMES)
    return datetime(2024, 1, 1, tzinfo=UTC) + timedelta(seconds=random.randint(-(10**7), 10**7))


VALUES: dict[str, Callable[[Random], Any]] = {
    "tinyint": _integer([n for n in INTEGERS if -128 <= n <= 127], 127),
    "int": _integer([*INTEGERS, *_INT_EDGES], 1000),
    "bigint": _integer([*INTEGERS, *_INT_EDGES, *_LONG_EDGES], 10**12),
    "float": lambda random: as_single(_real(random, 100)),
    "double": lambda random: _real(random, 1e6),
    "tame double": lambda random: random.choice(TAME_DOUBLES),
    "money": _money,
    "wide": lambda random: random.choice(_WIDES),
    "boolean": lambda random: random.random() < 0.5,
    "string": _text,
    "number text": lambda random: random.choice(NUMBER_TEXTS),
    "time text": lambda random: random.choice(TIME_TEXTS),
    "date": lambda random: random.choice(DATES),
    "moderate date": _moderate_day,
    "timestamp": lambda random: random.choice(TIMESTAMPS),
    "moderate timestamp": _moderate_moment,
    "binary": lambda random: random.choice(BINARIES),
}
"""A random value of each sort."""

_ARROW: dict[Type, pa.DataType] = {
    TINYINT: pa.int8(),
    INT: pa.int32(),
    BIGINT: pa.int64(),
    FLOAT: pa.float32(),
    DOUBLE: pa.float64(),
    MONEY: pa.decimal128(10, 2),
    WIDE: pa.decimal128(38, 0),
    BOOLEAN: pa.bool_(),
    STRING: pa.string(),
    DATE: pa.date32(),
    TIMESTAMP: pa.timestamp("us", tz="UTC"),
    BINARY: pa.binary(),
}


def random_table(random: Random, rows: int) -> pa.Table:
    """A table with `id` and all columns; the first row has nothing but NULLs."""
    columns: dict[str, pa.Array] = {"id": pa.array(range(rows), pa.int32())}
    records: list[dict[str, Any]] = [{"num": None, "txt": None, "sub": {"dbl": None}} for _ in range(rows)]
    for column in COLUMNS:
        values = [None, *(_perhaps(random, VALUES[column.sort]) for _ in range(rows - 1))]
        if column.name.startswith("rec."):
            for record, value in zip(records, values, strict=True):
                _put(record, column.name.split(".")[1:], value)
        else:
            columns[column.name.strip("`")] = pa.array(values, _ARROW[column.type])
    missing = [None, *(random.random() < 0.1 for _ in range(rows - 1))]
    columns["rec"] = pa.array(
        [None if gone or gone is None else record for gone, record in zip(missing, records, strict=True)],
        pa.struct([("num", pa.int32()), ("txt", pa.string()), ("sub", pa.struct([("dbl", pa.float64())]))]),
    )
    columns["nums"] = pa.array(_arrays(random, rows, VALUES["bigint"]), pa.list_(pa.int64()))
    columns["names"] = pa.array(_arrays(random, rows, VALUES["string"]), pa.list_(pa.string()))
    return pa.table(columns)


def _perhaps(random: Random, value: Callable[[Random], Any]) -> Any:
    return None if random.random() < 0.12 else value(random)


def _put(record: dict[str, Any], path: list[str], value: Any) -> None:
    for name in path[:-1]:
        record = record[name]
    record[path[-1]] = value


def _arrays(random: Random, rows: int, value: Callable[[Random], Any]) -> list[list[Any] | None]:
    arrays = [[_perhaps(random, value) for _ in range(random.randint(0, 4))] for _ in range(rows - 2)]
    return [None, [], *(None if random.random() < 0.1 else array for array in arrays)]
