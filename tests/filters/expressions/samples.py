"""Rows of edge cases: every value that some function might mistake, for the columns of `spark_oracle.COLUMNS`."""

from __future__ import annotations

import math
import random
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

MOMENTS = (
    datetime(1970, 1, 1, tzinfo=UTC),
    datetime(1969, 12, 31, 23, 59, 59, 500000, tzinfo=UTC),
    datetime(2024, 2, 29, 12, 30, 15, 123456, tzinfo=UTC),
    datetime(2024, 3, 31, 1, 30, tzinfo=UTC),
    datetime(2024, 3, 10, 10, 11, 12, 500000, tzinfo=UTC),
    datetime(2024, 10, 27, 0, 59, 59, 999999, tzinfo=UTC),
    datetime(2024, 10, 27, 1, 30, tzinfo=UTC),
    datetime(2023, 12, 31, 23, 59, 59, tzinfo=UTC),
    datetime(1900, 1, 1, 0, 0, 30, tzinfo=UTC),
    datetime(1583, 5, 17, 8, 0, 0, 1, tzinfo=UTC),
    datetime(2099, 6, 15, 6, 7, 8, tzinfo=UTC),
)
DAYS = (
    date(1970, 1, 1),
    date(2024, 2, 29),
    date(2024, 3, 31),
    date(2024, 3, 10),
    date(2023, 12, 31),
    date(2021, 1, 3),
    date(1900, 1, 1),
    date(1583, 5, 17),
    date(2099, 6, 15),
    date(1969, 12, 31),
)
INTEGERS = (0, 1, -1, 2, 3, 7, 10, -5, 31, 100, 2**31 - 1, -(2**31), 2**31, 2**53 + 1, 2**63 - 1, -(2**63))
TEXTS = (
    "",
    "a",
    "abc",
    "ABC",
    "Hello World",
    "  pad  ",
    "a%b_c",
    "é",
    "ß",
    "😀x",
    "a\nb",
    "İ",
    "10",
    "-5",
    "1.5",
    "abcabc",
    "x,y,,z",
    "NaN",
    "\t t ",
    "a\\b",
    "b\n",
    "ab\r\n",
    "ǆ ﬁ",
    "ΑΣ",
)
WORDS = (
    "5",
    "10",
    "-3",
    "2.5",
    "1e3",
    "true",
    "no",
    "2024-02-29",
    "2024-03-10 10:11:12.5",
    "abc",
    " 7 ",
    "9223372036854775808",
    "",
    "2024-01-01 10:00:00",
    "1969-12-31 23:59:59",
    "0x1p3",
    "9999",
)
POOLS: dict[str, tuple[Any, ...]] = {
    "i": INTEGERS,
    "j": (0, 1, -1, 2, 5, -7, 12, 1000, 2**40, -(2**63)),
    "n": (0, 1, -1, 2, 3, -2, 5, 10, -4),
    "d": (
        0.0,
        -0.0,
        1.0,
        -1.5,
        2.5,
        0.1,
        1e300,
        -1e-5,
        math.nan,
        math.inf,
        -math.inf,
        2.0**53,
        123456789.125,
    ),
    "e": (0.0, 1.0, 2.0, -2.5, 0.5, 3.0, 1e7, math.nan, -0.25),
    "m": tuple(map(Decimal, ("0.00", "1.50", "-2.25", "99999999.99", "0.01", "2.50", "100.00", "-0.05"))),
    "k": tuple(map(Decimal, ("0.00", "1.00", "-2.50", "12345678.90", "0.10", "3.33"))),
    "s": TEXTS,
    "r": ("", "a", "b", "c", "A", "lo", " ", "%", ",", "é", "ss", "abcabc", "Hello World", "x"),
    "w": WORDS,
    "t": DAYS,
    "u": DAYS,
    "ts": MOMENTS,
    "us": MOMENTS,
    "b": (True, False),
    "c": (True, False),
    "x": (b"", b"a", b"abc", b"b\x00", "é".encode(), b"xyz"),
    "y": (b"", b"a", b"\xff\x00", b"abc", b"c"),
    "a": ((1, 2, 3), (1, None), (2**53 + 1,), (), (5,), (0, -1)),
    "g": ((1.0, math.nan), (0.5, None), (-0.0,), (2.0**53,), ()),
    "h": (("a", "b"), ("abc", None), ("",), ("10", "é"), ()),
}


def rows(seed: int, count: int) -> list[dict[str, Any]]:
    """Rows in which every value of every pool occurs, and some of each column are NULL."""
    made = random.Random(seed)
    columns = {}
    for name, pool in POOLS.items():
        values = [*pool, *(made.choice(pool) for _ in range(count - len(pool) - 4)), *[None] * 4]
        made.shuffle(values)
        columns[name] = values[:count]
    return [{name: columns[name][at] for name in POOLS} for at in range(count)]
