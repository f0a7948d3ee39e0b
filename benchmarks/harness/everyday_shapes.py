"""Everyday shapes of conditions: each with its constants as holes, and one kind of event for all.

Titles are the conditions themselves. Constants are spread so widely that an event matches few conditions: thresholds
lie far above what events have, as those of alarms do. Where a condition excludes a little (`<>`, NOT LIKE), an event
matches nearly all, and that is what it costs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from datetime import date, datetime, timedelta
from decimal import Decimal

import pyarrow as pa
from numpy.random import Generator

from harness.condition_shapes import (
    Column,
    Conditions,
    Shape,
    floats,
    integers,
    names,
    nullable,
    tags,
    timestamps,
    words,
)

_WORDS = 2_000
_LARGE = 2_000_000
_DAYS = 200_000
_EVENT_DAYS = 100
_FIRST_DAY = date(2000, 1, 1)
_DAYS_BEFORE_2000 = 10_957
_EPOCH_YEARS = datetime(2000, 1, 1)

_HOLES: dict[str, Callable[[Generator], str]] = {
    "word": lambda generator: f"w{generator.integers(_WORDS)}",
    "n": lambda generator: str(generator.integers(1, _LARGE)),
    "small": lambda generator: str(generator.integers(1, 6)),
    "x.yy": lambda generator: f"{generator.integers(_LARGE)}.{generator.integers(100):02}",
    "day": lambda generator: str(_FIRST_DAY + timedelta(int(generator.integers(_DAYS)))),
    "moment": lambda generator: str(_EPOCH_YEARS + timedelta(seconds=int(generator.integers(_DAYS * 86_400)))),
    "abcd": lambda generator: "".join(["abcdefghij"[at] for at in generator.integers(0, 10, 4)]),
    "bc": lambda generator: "".join(["abcdefghij"[at] for at in generator.integers(0, 10, 2)]),
}
_HOLE = re.compile(r"\{([^}]+)\}")


def _filled(form: str) -> Conditions:
    def conditions(generator: Generator, count: int) -> Iterator[str]:
        for _ in range(count):
            yield _HOLE.sub(lambda hole: _HOLES[hole[1]](generator), form)

    return conditions


def _days(generator: Generator, rows: int, _: int) -> pa.Array:
    return pa.array(
        generator.integers(_DAYS_BEFORE_2000, _DAYS_BEFORE_2000 + _EVENT_DAYS, rows).astype("datetime64[D]")
    )


def _decimals(generator: Generator, rows: int, _: int) -> pa.Array:
    return pa.array([Decimal(number).scaleb(-2) for number in generator.integers(0, 100_000, rows).tolist()])


def _booleans(generator: Generator, rows: int, _: int) -> pa.Array:
    return pa.array(generator.random(rows) < 0.5)


_MOMENTS = timestamps(lambda _: (_DAYS_BEFORE_2000, _DAYS_BEFORE_2000 + _EVENT_DAYS))
_WORD = words(5)  # each in five conditions
_COLUMNS: dict[str, Column] = {
    "city": _WORD, "region": nullable(_WORD, 0.5), "name": names, "price": floats(lambda _: 1_000), "active": _booleans,
    "amount": _decimals, "qty": integers(100), "a": integers(100), "b": integers(100), "code": integers(2_000),
    "day": _days, "ts": _MOMENTS, "started": _MOMENTS, "ended": _MOMENTS, "tags": tags(5 / 3),
}  # fmt: skip

_FORMS = (
    "city = '{word}'", "code = {n}", "price > {n}", "price > {x.yy}", "price BETWEEN {x.yy} AND 2000000.5",
    "price < -{x.yy}", "price > {n}e0", "amount > {x.yy}", "{n} < price", "day = DATE '{day}'", "day > DATE '{day}'",
    "ts > TIMESTAMP '{moment}'", "ts BETWEEN TIMESTAMP '{moment}' AND TIMESTAMP '2600-01-01 00:00:00'",
    "day >= '{day}'", "price > '{n}'", "city = 'it''s {word}'", r"city = 'it\'s {word}'", "city = 'é{word}'",
    "city IN ('{word}', '{word}', '{word}')", "code IN ({n}, {n}, {n})", "price IN ({x.yy}, {x.yy})",
    "city <> '{word}'", "city NOT IN ('{word}', '{word}')", "code NOT IN ({n}, {n})", "NOT (city = '{word}')",
    "city = '{word}' OR price > {n}", "(city = '{word}' OR region = '{word}') AND qty < 50",
    "city IS DISTINCT FROM '{word}'", "city IS NOT DISTINCT FROM '{word}'", "active AND city = '{word}'",
    "name LIKE '{abcd}%'", "name LIKE '%{abcd}'", "name LIKE '%{abcd}%'", "name LIKE '{bc}%{bc}'",
    "name LIKE '_{abcd}%'", "name ILIKE '%{abcd}%'", "name NOT LIKE '%{abcd}%'", "name RLIKE '^{abcd}'",
    "name RLIKE '^{bc}[a-m]+{bc}'", "name RLIKE '{abcd}'", "name RLIKE '{bc}[a-m]+{bc}'", "name RLIKE '[a-e]+{abcd}$'",
    "name RLIKE '{abcd}|{abcd}'", "name RLIKE '[{bc}][{bc}]+'", "name RLIKE r'^{abcd}\\w+$'",
    "contains(name, '{abcd}')", "startswith(name, '{abcd}')", "instr(name, '{abcd}') > 0", "lower(name) = '{abcd}'",
    "lower(name) LIKE '%{abcd}%'", "upper(name) RLIKE '^{bc}'", "upper(city) = upper('{word}')",
    "NOT (lower(city) = '{word}')", "price NOT BETWEEN 0 AND {n}",
    "substring(name, 3, 4) = '{abcd}'", "coalesce(region, city) = '{word}'", "nullif(city, '') = '{word}'",
    "CASE WHEN active THEN city ELSE region END = '{word}'", "CASE WHEN price > {n} THEN 1 ELSE 0 END = 1",
    "CAST(code AS STRING) = '{n}'", "abs(price - {x.yy}) < 0.5", "price + {n} > 2000000", "price - {n} > 5",
    "price * {n} > 1000000000", "price / {n} > 500", "qty % {n} = 99", "a + b > {n}", "(a - b) / 100 > {x.yy}",
    "a < b AND city = '{word}'", "year(ts) = 2000 AND city = '{word}'", "to_date(ts) = DATE '{day}'",
    "date_trunc('DAY', ts) = TIMESTAMP '{day} 00:00:00'", "ts + INTERVAL 1 DAY > TIMESTAMP '{moment}'",
    "ts > TIMESTAMP '{moment}' - INTERVAL 1 DAY", "ended - started > INTERVAL {n} SECONDS",
    "ended > started + INTERVAL {n} SECONDS", "datediff(ended, started) > {n}", "tags = '{word}'",
    "array_contains(tags, '{word}')", "exists(tags, t -> t = '{word}')", "size(tags) = {small} AND city = '{word}'",
    "region IS NULL", "region IS NULL AND city = '{word}'",
)  # fmt: skip

EVERYDAY_SHAPES: tuple[Shape, ...] = tuple(Shape(form, _filled(form), _COLUMNS) for form in _FORMS)
