"""Shapes of conditions: what users write, by the ten thousand, and the events to match them with.

A shape makes as many conditions as asked that differ in their constants alone, and events of which each matches a few
at every number of conditions: vocabularies and thresholds grow with it. So matching is measured, and not the making of
results. A threshold such as `a + b > k` matches a few where most of its constants are far above what events have, as
those of alarms are; were they spread over the values that occur, half of all conditions would match each event.

Texts of `name` are seldom seen twice, those of `city`, `tags` and `code` often.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import date, timedelta
from math import ceil, log10
from zlib import crc32

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.random import Generator, default_rng

MATCHES = 5  # of an event, about
_FIRST_DAY = date(1970, 1, 1)
_LETTERS = np.frombuffer(b"abcdefghij", np.uint8)
_NAME_LETTERS = 12
_SPELLED_LETTERS = 8
_MICROSECONDS_PER_DAY = 86_400_000_000
_YEARS = (2020, 2024)
_ROOTS = 10  # of attributes whose pairs are compared

Seed = int | list[int]
Column = Callable[[Generator, int, int], pa.Array]  # of a number of events, for a number of conditions
Conditions = Callable[[Generator, int], Iterator[str]]


@dataclass(frozen=True)
class Shape:
    """Conditions that differ in their constants alone, and the columns of events they ask about."""

    title: str
    conditions: Conditions
    columns: dict[str, Column]
    fewer: int = 1  # the number of conditions is divided by this
    duckdb: tuple[str, str] | None = None  # what DuckDB writes otherwise: a regular expression and its replacement
    matches_nothing: bool = False  # what is measured is how fast events are ruled out

    def wheres(self, count: int, seed: Seed = 0) -> list[str]:
        """The conditions; equal arguments make equal ones."""
        return list(self.conditions(self._generator(seed, 0), count))

    def events(self, rows: int, count: int, seed: Seed = 0) -> pa.RecordBatch:
        """Events for that many conditions."""
        generator = self._generator(seed, 1)
        return pa.RecordBatch.from_pydict({name: make(generator, rows, count) for name, make in self.columns.items()})

    def _generator(self, seed: Seed, part: int) -> Generator:
        own = [seed] if isinstance(seed, int) else seed
        return default_rng([*own, crc32(self.title.encode()), part])

    def to_duckdb(self, where: str) -> str:
        return re.sub(*self.duckdb, where) if self.duckdb else where


# --- columns -----------------------------------------------------------------------------------------------


def words(conditions_each: float) -> Column:
    """Words of a vocabulary of which each stands in so many conditions of one word."""

    def column(generator: Generator, rows: int, count: int) -> pa.Array:
        return word_array(generator.integers(0, vocabulary(count, conditions_each), rows))

    return column


def nullable(column: Column, share: float) -> Column:
    def with_nulls(generator: Generator, rows: int, count: int) -> pa.Array:
        values = column(generator, rows, count)
        return pc.if_else(pa.array(generator.random(rows) < share), None, values)

    return with_nulls


def in_any_case(generator: Generator, rows: int, count: int) -> pa.Array:
    """Spelled numbers of a vocabulary, each letter in capitals or not: few words, and many spellings."""
    numbers = generator.integers(0, vocabulary(count, MATCHES), rows)
    letters = _LETTERS[numbers[:, None] // 10 ** np.arange(_SPELLED_LETTERS) % 10]
    capital = generator.random(letters.shape) < 0.5
    return pa.array(np.where(capital, letters - 32, letters).view(f"S{_SPELLED_LETTERS}").ravel().astype(str))


def names(generator: Generator, rows: int, _: int) -> pa.Array:
    letters = _LETTERS[generator.integers(0, len(_LETTERS), (rows, _NAME_LETTERS))]
    return pa.array(letters.view(f"S{_NAME_LETTERS}").ravel().astype(str))


def tags(conditions_each: float) -> Column:
    """Lists of one to five words."""

    def column(generator: Generator, rows: int, count: int) -> pa.Array:
        lengths = generator.integers(1, 6, rows)
        values = generator.integers(0, vocabulary(count, conditions_each), int(lengths.sum()))
        return pa.ListArray.from_arrays(np.concatenate([[0], np.cumsum(lengths)]).astype(np.int32), word_array(values))

    return column


def integers(below: int) -> Column:
    return lambda generator, rows, _: pa.array(generator.integers(0, below, rows))


def floats(below: Callable[[int], float]) -> Column:
    return lambda generator, rows, count: pa.array(np.round(generator.uniform(0, below(count), rows), 4))


def digits(generator: Generator, rows: int, count: int) -> pa.Array:
    return pa.array(generator.integers(0, vocabulary(count, MATCHES), rows).astype(str))


def timestamps(days: Callable[[int], tuple[int, int]]) -> Column:
    """Times within days, counted from 1970."""

    def column(generator: Generator, rows: int, count: int) -> pa.Array:
        first, end = days(count)
        moments = generator.integers(first * _MICROSECONDS_PER_DAY, end * _MICROSECONDS_PER_DAY, rows)
        return pa.array(moments, pa.timestamp("us", "UTC"))

    return column


def addresses(generator: Generator, rows: int, count: int) -> pa.Array:
    city, zip_code = words(2 * MATCHES)(generator, rows, count), integers(1_000)(generator, rows, count)
    return pa.StructArray.from_arrays([city, zip_code], ["city", "zip"])


def rarely_above(generator: Generator, rows: int, count: int) -> pa.Array:
    """Mostly below 100; seldom above, and then above half of those that always are."""
    rare = generator.random(rows) < 2 * MATCHES / count
    return pa.array(np.where(rare, generator.integers(100, 200, rows), generator.integers(0, 100, rows)))


def above(generator: Generator, rows: int, _: int) -> pa.Array:
    return pa.array(generator.integers(100, 200, rows))


def vocabulary(count: int, conditions_each: float) -> int:
    return max(1, round(count / conditions_each))


def word(number: int) -> str:
    return f"w{number}"


def word_array(numbers: np.ndarray) -> pa.Array:
    return pc.binary_join_element_wise("w", pa.array(numbers).cast(pa.string()), "")


def five_years(_: int) -> tuple[int, int]:
    first, last = _YEARS
    return (date(first, 1, 1) - _FIRST_DAY).days, (date(last + 1, 1, 1) - _FIRST_DAY).days


# --- conditions --------------------------------------------------------------------------------------------


def on_words(form: str, conditions_each: float, below: int = 1, first: int = 0) -> Conditions:
    """Conditions with a word `{w}` and a number `{k}`."""

    def conditions(generator: Generator, count: int) -> Iterator[str]:
        chosen = generator.integers(0, vocabulary(count, conditions_each), count).tolist()
        numbers = generator.integers(first, first + below, count).tolist()
        return (form.format(w=word(at), k=number) for at, number in zip(chosen, numbers, strict=True))

    return conditions


def thresholds(form: str, mean: float, groups: int = 1) -> Conditions:
    """Conditions `… > {k}`, of which a value of this mean is above a few; `{g}` is the number of a group of them."""
    step = mean / MATCHES

    def conditions(generator: Generator, count: int) -> Iterator[str]:
        ranks = generator.permutation(count).tolist()
        others = generator.integers(0, 1_000, count).tolist()
        return (
            form.format(k=round(rank // groups * step, 4), g=rank % groups, w=word(other))
            for rank, other in zip(ranks, others, strict=True)
        )

    return conditions


def different_expressions(generator: Generator, count: int) -> Iterator[str]:
    """Each with coefficients of its own; the weighted means of two attributes are above a few thresholds."""
    for number, rank in enumerate(generator.permutation(count).tolist()):
        i, j = 1 + number // 100, 1 + number % 100
        yield f"a * {i} + b * {j} > {(i + j) * rank * 50 // MATCHES}"


def between(generator: Generator, count: int) -> Iterator[str]:
    lows = generator.integers(0, 500, count).tolist()
    chosen = generator.integers(0, vocabulary(count, 2 * MATCHES), count).tolist()
    for at, low in zip(chosen, lows, strict=True):
        yield f"city = '{word(at)}' AND price BETWEEN {low} AND {low + 500}"


def near(generator: Generator, count: int) -> Iterator[str]:
    for center in np.round(generator.uniform(0, _width_of_near(count), count), 3).tolist():
        yield f"abs(price - {center}) < 0.03"


def _width_of_near(count: int) -> float:
    return 0.06 * count / MATCHES


def days(generator: Generator, count: int) -> Iterator[str]:
    for day in generator.integers(0, vocabulary(count, MATCHES), count).tolist():
        yield f"to_date(ts) = DATE '{_FIRST_DAY + timedelta(day)}'"


def codes(generator: Generator, count: int) -> Iterator[str]:
    for code in generator.integers(0, vocabulary(count, MATCHES), count).tolist():
        yield f"CAST(code AS INT) = {code}"


def spelled(generator: Generator, count: int) -> Iterator[str]:
    for number in generator.integers(0, vocabulary(count, MATCHES), count).tolist():
        letters = "".join(["abcdefghij"[number // 10**at % 10] for at in range(_SPELLED_LETTERS)])
        yield f"lower(name) = '{letters}'"


def prefixes(form: str) -> Conditions:
    """Conditions on the first letters of a name, as many as leave a few of so many conditions."""

    def conditions(generator: Generator, count: int) -> Iterator[str]:
        length = max(1, round(log10(count / MATCHES)))
        for letters in _random_letters(generator, count, length):
            yield form.format(p=letters, n=length)

    return conditions


def patterns(form: str) -> Conditions:
    """Conditions with first letters `{p}`, two more letters `{x}` and `{y}`, and a last one `{z}` of a class."""

    def conditions(generator: Generator, count: int) -> Iterator[str]:
        length = max(1, ceil(log10(count / 100)))
        ends = generator.integers(0, 10, count).tolist()
        for letters, end in zip(_random_letters(generator, count, length + 2), ends, strict=True):
            yield form.format(p=letters[:length], x=letters[-2], y=letters[-1], z="defghijklm"[end])

    return conditions


def _random_letters(generator: Generator, count: int, length: int) -> list[str]:
    chosen = _LETTERS[generator.integers(0, len(_LETTERS), (count, length))]
    found: list[str] = chosen.view(f"S{length}").ravel().astype(str).tolist()
    return found


def lists(values: int, begin: str, separator: str, end: str) -> Conditions:
    def conditions(generator: Generator, count: int) -> Iterator[str]:
        size = vocabulary(count * values, MATCHES)
        for _ in range(count):
            yield begin + separator.join([f"'w{at}'" for at in generator.integers(0, size, values).tolist()]) + end

    return conditions


def pairs(generator: Generator, count: int) -> Iterator[str]:
    for pair in generator.integers(0, _ROOTS**2, count).tolist():
        yield f"a{pair // _ROOTS} < b{pair % _ROOTS}"


# --- the table ---------------------------------------------------------------------------------------------

_TEN = words(2 * MATCHES)  # for conditions of which a second part is TRUE half of the time
_PRICE = floats(lambda _: 1_000)
_AB: dict[str, Column] = {"a": integers(100), "b": integers(100)}
_PAIR_COLUMNS: dict[str, Column] = {
    **{f"a{at}": above for at in range(_ROOTS)},
    **{f"b{at}": rarely_above for at in range(_ROOTS)},
}

SHAPES: tuple[Shape, ...] = (
    Shape("city = 'x' AND price BETWEEN l AND h", between, {"city": _TEN, "price": _PRICE}),
    Shape(
        "region IS NULL AND city = 'x'",
        on_words("region IS NULL AND city = '{w}'", 2 * MATCHES),
        {"region": nullable(words(MATCHES), 0.5), "city": _TEN},
    ),
    Shape(
        "address.city = 'x' AND address.zip > k",
        on_words("address.city = '{w}' AND address.zip > {k}", 2 * MATCHES, 1_000),
        {"address": addresses},
    ),
    Shape("name LIKE 'p%'", prefixes("name LIKE '{p}%'"), {"name": names}),
    Shape(
        "NOT (price < k OR city = 'x')",
        thresholds("NOT (price < {k} OR city = '{w}')", 500),
        {"price": _PRICE, "city": words(1)},
    ),
    Shape(
        "tags = 't'",
        on_words("tags = '{w}'", MATCHES / 3),
        {"tags": tags(MATCHES / 3)},
        duckdb=(r"tags = ('\w+')", r"list_contains(tags, \1)"),
    ),
    Shape(
        "year(ts) = y AND city = 'x'",
        on_words("year(ts) = {k} AND city = '{w}'", 5 * MATCHES, 5, _YEARS[0]),
        {"ts": timestamps(five_years), "city": words(5 * MATCHES)},
    ),
    Shape(
        "bid > ask AND city = 'x'",
        on_words("bid > ask AND city = '{w}'", 2 * MATCHES),
        {"bid": _PRICE, "ask": _PRICE, "city": _TEN},
    ),
    Shape(
        "hour(ts) = h AND price > k",
        thresholds("hour(ts) = {g} AND price > {k}", 500, 24),
        {"ts": timestamps(five_years), "price": _PRICE},
    ),
    Shape("name LIKE 'a%b%c'", patterns("name LIKE '{p}%{x}%{y}'"), {"name": names}),
    Shape(
        "name RLIKE '^ab[a-m]+c'",
        patterns("name RLIKE '^{p}{x}[a-{z}]+{y}'"),
        {"name": names},
        duckdb=(r"name RLIKE ('.*')", r"regexp_matches(name, \1)"),
    ),
    Shape(
        "name RLIKE 'ab[a-m]+c'",
        patterns("name RLIKE '{p}{x}[a-{z}]+{y}'"),
        {"name": names},
        duckdb=(r"name RLIKE ('.*')", r"regexp_matches(name, \1)"),
    ),
    # The piece in the middle is the longest, and no name has it.
    Shape(
        r"name LIKE 'nX%ab\_%cd'",
        patterns(r"name LIKE '{p}%{x}{y}\\_%{y}{x}'"),
        {"name": names},
        duckdb=(r"\\\\_(.*)", r"\\_\1 ESCAPE '\\'"),
        matches_nothing=True,
    ),
    Shape(
        "size(tags) = k AND city = 'x'",
        on_words("size(tags) = {k} AND city = '{w}'", 5 * MATCHES, 5, 1),
        {"tags": tags(MATCHES), "city": words(5 * MATCHES)},
        duckdb=("size", "len"),
    ),
    Shape(
        "coalesce(city, '-') = 'x'",
        on_words("coalesce(city, '-') = '{w}'", MATCHES),
        {"city": nullable(words(MATCHES), 0.1)},
    ),
    Shape(
        "to_date(ts) = d",
        days,
        {"ts": timestamps(lambda count: (0, vocabulary(count, MATCHES)))},
        duckdb=(r"to_date\(ts\)", "CAST(ts AS DATE)"),
    ),
    Shape(
        "a + b > k AND city = 'x'",
        on_words("a + b > {k} AND city = '{w}'", 2 * MATCHES, 200),
        {**_AB, "city": _TEN},
    ),
    Shape("a + b > k", thresholds("a + b > {k:.0f}", 99), _AB),
    Shape(
        "price * qty > k",
        thresholds("price * qty > {k:.0f}", 25_000),
        {"price": _PRICE, "qty": integers(100)},
    ),
    Shape("CAST(code AS INT) = k", codes, {"code": digits}),
    Shape("a < b", pairs, _PAIR_COLUMNS),
    Shape("lower(name) = 'x'", spelled, {"name": in_any_case}),
    Shape("substring(name, 1, 3) = 'x'", prefixes("substring(name, 1, {n}) = '{p}'"), {"name": names}),
    Shape("abs(price - k) < 0.03", near, {"price": floats(_width_of_near)}),
    Shape(
        "array_contains(tags, 't')",
        on_words("array_contains(tags, '{w}')", MATCHES / 3),
        {"tags": tags(MATCHES / 3)},
        duckdb=("array_contains", "list_contains"),
    ),
    Shape("OR of 20 values", lists(20, "city = ", " OR city = ", ""), {"city": words(MATCHES / 20)}),
    Shape("IN of 1,000 values", lists(1_000, "city IN (", ", ", ")"), {"city": words(MATCHES / 1_000)}, fewer=10),
    Shape("a * i + b * j > k, all different", different_expressions, _AB),
)
