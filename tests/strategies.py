"""Hypothesis strategies: values of every kind, events, conditions over the whole grammar, filters.

Values and literals come mostly from the same small pools of awkward constants, so that events meet the
conditions about them; a random integer would equal a random literal never. Strategies of attributes give what
`Event.attributes` holds: flat, canonical names, a tuple where an attribute has several values.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import product
from typing import Any, TypeAlias

from hypothesis import strategies as st

from palio.errors import ParseError
from palio.filters.expressions.ast import Scalar
from palio.filters.filter import Filter
from palio.filters.kinds import MISSING, Kind, Value
from palio.filters.sql_writer import literal_to_sql, name_to_sql

Attributes: TypeAlias = dict[str, Any]

# --- values -----------------------------------------------------------------------------------------------

BOOLEANS: list[bool] = [False, True]
INTEGERS: list[int] = [
    0, 1, -1, 2, 3, 5, 7, 10, 100, 2024, 2**31, 2**53 - 1, 2**53, 2**53 + 1, -(2**53) - 1, 10**15,
    2**62 + 1, 2**63 - 2, 2**63 - 1, -(2**63), -(2**63) + 1,
]  # fmt: skip
FLOATS: list[float] = [
    0.0, -0.0, 1.0, -1.0, 0.1, 0.3, 0.1 + 0.2, 1.5, 2.0, 2.5, 5.0, 10.0, 2.0**53, 2.0**53 + 2, 2.0**63,
    -(2.0**63), 1e16, 1e22, 1e38, 1.7976931348623157e308, -1.7976931348623157e308, 5e-324, -5e-324,
    2.2250738585072014e-308, float("inf"), float("-inf"), float("nan"),
]  # fmt: skip
DECIMALS: list[Decimal] = [
    Decimal(text)
    for text in (
        "0", "0.0", "1", "1.0", "1.00", "-1.0", "0.1", "0.10", "0.3", "0.30000000000000004", "1.5", "2.5",
        "5.0", "10", "9007199254740993", "9007199254740992.5", "9223372036854775807", "9223372036854775808",
        "-9223372036854775809", "99999999999999999999999999999999999999",
        "-99999999999999999999999999999999999999", "0.00000000000000000000000000000000000001",
        "0.12345678901234567890123456789012345678", "0.1000000000000000055511151231257827021",
    )
]  # fmt: skip
STRINGS: list[str] = [
    "", "a", "b", "ab", "abc", "abcb", "ba", "A", "AB", "aB", "ac", "b%", "a_c", "%", "_", "\\", "'", "`",
    "\0", "a\0", "a\0b", "a\nb", " ", " 1 ", "0", "1", "1.0", "-1", "1e0", "5", "0.1", "NaN", "inf", "true",
    "FALSE", "t", "2024-01-01", "2024", "2024-02-29 10:00:00", "1969-12-31 23:59:59.999999", "é", "É", "ß",
    "ẞ", "K", "İ", "ς", "Σ", "\ud7ff", "\ue000", "\uffff", "\U00010000", "\U0010ffff", "\U0010ffffa",
    "a\U0010ffff",
]  # fmt: skip
DATES: list[date] = [
    date.min, date(1, 1, 2), date(1582, 10, 10), date(1969, 12, 31), date(1970, 1, 1), date(2024, 1, 1),
    date(2024, 2, 29), date(2024, 3, 31), date(9999, 12, 30), date.max,
]  # fmt: skip
TIMESTAMPS: list[datetime] = [
    each.replace(tzinfo=UTC)
    for each in (
        datetime.min, datetime(1, 1, 2), datetime(1969, 12, 31, 23, 59, 59, 999999), datetime(1970, 1, 1),
        datetime(2024, 1, 1), datetime(2024, 2, 29), datetime(2024, 2, 29, 10), datetime(2024, 3, 31, 1, 30),
        datetime(2024, 12, 31, 23, 59, 59, 999999), datetime(9999, 12, 31), datetime.max,
    )
]  # fmt: skip
BYTES: list[bytes] = [b"", b"\0", b"a", b"a\0", b"ab", b"b", b"\xff", b"\xff\xff"]

_texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cs"]), max_size=4)
_moments = st.datetimes(timezones=st.just(UTC)).map(lambda moment: moment.replace(fold=0))


def _decimals() -> st.SearchStrategy[Decimal]:
    digits = st.integers(-(10**38) + 1, 10**38 - 1)

    def shifted(number: int, scale: int) -> Decimal:
        sign, shown, _ = Decimal(number).as_tuple()
        return Decimal((sign, shown, -scale))

    return st.builds(shifted, st.integers(-1000, 1000) | digits, st.integers(0, 38))


OF_KIND: Mapping[Kind, st.SearchStrategy[Any]] = {
    Kind.MISSING: st.just(MISSING),
    Kind.NULL: st.none(),
    Kind.BOOLEAN: st.sampled_from(BOOLEANS),
    Kind.INTEGER: st.sampled_from(INTEGERS) | st.integers(-(2**63), 2**63 - 1),
    Kind.DECIMAL: st.sampled_from(DECIMALS) | _decimals(),
    Kind.FLOAT: st.sampled_from(FLOATS) | st.floats(),
    Kind.STRING: st.sampled_from(STRINGS) | _texts,
    Kind.DATE: st.sampled_from(DATES) | st.dates(),
    Kind.TIMESTAMP: st.sampled_from(TIMESTAMPS) | _moments,
    Kind.BYTES: st.sampled_from(BYTES) | st.binary(max_size=3),
}
POOLS: Mapping[Kind, Sequence[Value]] = {
    Kind.MISSING: [MISSING],
    Kind.NULL: [None],
    Kind.BOOLEAN: BOOLEANS,
    Kind.INTEGER: INTEGERS,
    Kind.DECIMAL: DECIMALS,
    Kind.FLOAT: FLOATS,
    Kind.STRING: STRINGS,
    Kind.DATE: DATES,
    Kind.TIMESTAMP: TIMESTAMPS,
    Kind.BYTES: BYTES,
}
EVERY_VALUE: list[Value] = [value for kind in Kind for value in POOLS[kind]]


def values() -> st.SearchStrategy[Value]:
    """A value of any kind, being missing and being null among them."""
    return st.one_of([OF_KIND[kind] for kind in Kind])


def scalars() -> st.SearchStrategy[Scalar]:
    """What an event may hold for an attribute it has: a value of any kind, or null."""
    return st.one_of([OF_KIND[kind] for kind in Kind if kind is not Kind.MISSING])


def literals() -> st.SearchStrategy[Scalar]:
    """What a condition may compare with: a value of any kind but null."""
    return st.one_of([OF_KIND[kind] for kind in Kind if kind > Kind.NULL])


@st.composite
def decimal_twins(draw: Callable[..., Any]) -> tuple[Scalar, Scalar]:
    """Two values that are equal, and differ all the same: in the zeros behind the point, or in the sign of a zero."""
    if draw(st.integers(0, 4)) == 0:
        return 0.0, -0.0
    value = draw(st.decimals(-(10**6), 10**6, places=draw(st.integers(0, 3)), allow_nan=False, allow_infinity=False))
    return value, value.quantize(Decimal(1).scaleb(-draw(st.integers(4, 8))))


# --- events -----------------------------------------------------------------------------------------------

NAMES: list[str] = ["a", "b", "c", "d.e", "`f.g`"]


def scalar_attributes(names: Sequence[str] = NAMES) -> st.SearchStrategy[Attributes]:
    """The attributes of an event with at most one value for each."""
    return st.dictionaries(st.sampled_from(names), scalars(), max_size=len(names))


def attributes(names: Sequence[str] = NAMES, most: int = 3) -> st.SearchStrategy[Attributes]:
    """The attributes of an event; any of them may have several values, or be an empty array."""
    several = st.lists(scalars(), max_size=most).map(tuple)
    return st.dictionaries(st.sampled_from(names), st.one_of(scalars(), scalars(), several), max_size=len(names))


def choices(event: Mapping[str, Any]) -> list[Attributes]:
    """Every scalar event that comes of choosing one element of each array; one without elements is missing."""
    names = [name for name, value in event.items() if value != ()]
    options = [value if isinstance(value, tuple) else (value,) for value in event.values() if value != ()]
    return [dict(zip(names, chosen, strict=True)) for chosen in product(*options)]


# --- SQL conditions ---------------------------------------------------------------------------------------

COMPARISONS = ["=", "==", "<>", "!=", "<", "<=", ">", ">="]
LIKE_PATTERNS = [
    "%",
    "_",
    "a",
    "ab",
    "a%",
    "%b",
    "%b%",
    "a%b",
    "a_",
    "_b%",
    "%a%b%",
    "%é",
    "",
    "%%",
    "a\\%%",
    "\\_%",
    "%A%",
    "Σ%",
]
REGEXES = ["a", "^a", "b$", "a.*b", "(a|b)+c", "[a-c]{2}", "^$", "(?i)AB", "\\d", "é|ß"]
TYPES = [
    "BOOLEAN",
    "INT",
    "BIGINT",
    "DOUBLE",
    "DECIMAL(10,2)",
    "DECIMAL(38,0)",
    "STRING",
    "DATE",
    "TIMESTAMP",
]
KIND_WORDS = ["boolean", "bigint", "decimal", "double", "string", "date", "timestamp", "binary"]


class _Writer:
    """Writes random SQL; every method gives a piece of text, sorted by the sort of value it mostly has."""

    def __init__(self, draw: Callable[..., Any], names: Sequence[str], arrays: bool) -> None:
        self._draw = draw
        self._names = [name_to_sql(name) for name in names]
        self._arrays = arrays

    def _pick(self, options: Sequence[Any]) -> Any:
        return self._draw(st.sampled_from(options))

    def _times(self, least: int, most: int) -> range:
        return range(self._draw(st.integers(least, most)))

    def name(self) -> str:
        return str(self._pick(self._names))

    def literal(self) -> str:
        return literal_to_sql(self._draw(literals()))

    def _number_literal(self) -> str:
        kind = self._pick([Kind.INTEGER, Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT])
        return literal_to_sql(self._draw(OF_KIND[kind]))

    def _text_literal(self) -> str:
        return literal_to_sql(self._pick(STRINGS))

    def condition(self, depth: int) -> str:
        if depth == 0 or self._draw(st.integers(0, 3)) == 0:
            return str(self._pick(self._atoms)(self))
        return str(self._pick(self._compounds)(self, depth - 1))

    # Conditions that look at one attribute.

    def _comparison(self) -> str:
        left, right = self.name(), self.literal()
        if self._draw(st.booleans()):
            left, right = right, left
        return f"{left} {self._pick(COMPARISONS)} {right}"

    def _null_safe(self) -> str:
        right = self._pick([self.literal(), "NULL"])
        form = self._pick(["{} <=> {}", "{} IS DISTINCT FROM {}", "{} IS NOT DISTINCT FROM {}"])
        return str(form.format(self.name(), right))

    def _between(self) -> str:
        return f"{self.name()} {self._not()}BETWEEN {self.literal()} AND {self.literal()}"

    def _in(self) -> str:
        items = [self.literal() for _ in self._times(1, 4)] + self._pick([[], [], [], ["NULL"]])
        return f"{self.name()} {self._not()}IN ({', '.join(items)})"

    def _like(self) -> str:
        word, pattern = self._pick(["LIKE", "LIKE", "ILIKE"]), self._pick(LIKE_PATTERNS)
        return f"{self.name()} {self._not()}{word} {literal_to_sql(pattern)}"

    def _like_escape(self) -> str:
        return f"{self.name()} {self._not()}LIKE {self._pick(['a/%%', '/_', '%//%', 'a/_%'])!r} ESCAPE '/'"

    def _like_many(self) -> str:
        patterns = ", ".join(literal_to_sql(self._pick(LIKE_PATTERNS)) for _ in self._times(1, 3))
        return f"{self.name()} {self._not()}LIKE {self._pick(['ANY', 'ALL'])} ({patterns})"

    def _rlike(self) -> str:
        return f"{self.name()} {self._not()}RLIKE {literal_to_sql(self._pick(REGEXES))}"

    def _string_function(self) -> str:
        function = self._pick(["startswith", "endswith", "contains"])
        return f"{function}({self.name()}, {self._text_literal()})"

    def _is(self) -> str:
        word = self._pick(["NULL", "NULL", "TRUE", "FALSE", "UNKNOWN"])
        return f"{self.name()} IS {self._not()}{word}"

    def _typeof(self) -> str:
        form = self._pick(["typeof({}) = '{}'", "typeof({}) <> '{}'", "typeof({}) IN ('{}', 'string')"])
        return str(form.format(self.name(), self._pick(KIND_WORDS)))

    def _constant(self) -> str:
        return str(self._pick(["TRUE", "FALSE", "NULL", "1 = 1", "NULL = 1", "'a' < 'b'"]))

    def _on_array(self) -> str:
        if not self._arrays:
            return self._comparison()
        if self._draw(st.booleans()):
            return f"size({self.name()}) {self._pick(COMPARISONS)} {self._pick([0, 1, 2, 3])}"
        return f"array_contains({self.name()}, {self.literal()})"

    def _not(self) -> str:
        return str(self._pick(["", "", "NOT "]))

    # Conditions made of others.

    def _and_or(self, depth: int) -> str:
        parts = [f"({self.condition(depth)})" for _ in self._times(2, 3)]
        return str(self._pick([" AND ", " OR "]).join(parts))

    def _negation(self, depth: int) -> str:
        return f"NOT ({self.condition(depth)})"

    def _is_condition(self, depth: int) -> str:
        return f"({self.condition(depth)}) IS {self._not()}{self._pick(['NULL', 'TRUE', 'FALSE'])}"

    def _of_numbers(self, depth: int) -> str:
        return f"{self.number(depth)} {self._pick(COMPARISONS)} {self.number(depth)}"

    def _of_texts(self, depth: int) -> str:
        return f"{self.text(depth)} {self._pick(COMPARISONS)} {self.text(depth)}"

    def _of_times(self, depth: int) -> str:
        return f"{self.time(depth)} {self._pick(COMPARISONS)} {self.time(depth)}"

    def _of_two(self, depth: int) -> str:
        return f"{self.name()} {self._pick([*COMPARISONS, '<=>'])} {self.name()}"

    def _like_of(self, depth: int) -> str:
        pattern = literal_to_sql(self._pick(LIKE_PATTERNS))
        return f"{self.text(depth)} {self._not()}{self._pick(['LIKE', 'ILIKE'])} {pattern}"

    def _in_of(self, depth: int) -> str:
        items = ", ".join(self.number(depth) for _ in self._times(1, 3))
        return f"{self.number(depth)} {self._not()}IN ({items})"

    def _between_of(self, depth: int) -> str:
        return f"{self.number(depth)} {self._not()}BETWEEN {self.number(depth)} AND {self.number(depth)}"

    def _null_of(self, depth: int) -> str:
        value = self._pick([self.number, self.text, self.time])(depth)
        return f"({value}) IS {self._not()}NULL"

    def _chosen(self, depth: int) -> str:
        condition, one, two = (self.condition(depth) for _ in range(3))
        forms = [
            f"CASE WHEN {condition} THEN {one} ELSE {two} END",
            f"CASE WHEN {condition} THEN {one} END",
            f"if({condition}, {one}, {two})",
            f"coalesce({condition}, {one})",
            f"({condition}) = ({one})",
            f"CAST({self.name()} AS BOOLEAN)",
        ]
        return str(self._pick(forms))

    _atoms = (
        _comparison, _comparison, _comparison, _null_safe, _between, _in, _in, _like, _like, _like_escape,
        _like_many, _rlike, _string_function, _is, _is, name, _typeof, _constant, _on_array,
    )  # fmt: skip
    _compounds = (
        _and_or, _and_or, _and_or, _and_or, _negation, _negation, _is_condition, _of_numbers, _of_texts,
        _of_times, _of_two, _like_of, _in_of, _between_of, _null_of, _chosen,
    )  # fmt: skip

    # Values.

    def number(self, depth: int) -> str:
        if depth <= 0 or self._draw(st.booleans()):
            return str(self._pick([self.name, self.name, self._number_literal])())
        less = depth - 1
        forms: list[Callable[[], str]] = [
            lambda: f"({self.number(less)} {self._pick(['+', '-', '*', '/', '%', 'DIV'])} {self.number(less)})",
            lambda: f"(- {self.number(less)})",
            lambda: f"{self._pick(['abs', 'ceil', 'floor', 'round', 'sqrt', 'signum'])}({self.number(less)})",
            lambda: f"CAST({self.number(less)} AS {self._pick(['INT', 'BIGINT', 'DOUBLE', 'DECIMAL(10,2)'])})",
            lambda: f"length({self.text(less)})",
            lambda: f"{self._pick(['year', 'month', 'dayofmonth', 'hour', 'dayofweek'])}({self.time(less)})",
            lambda: f"coalesce({self.number(less)}, {self.number(less)})",
            lambda: f"{self._pick(['greatest', 'least', 'pmod'])}({self.number(less)}, {self.number(less)})",
            lambda: f"nullif({self.number(less)}, {self.number(less)})",
            lambda: f"CASE WHEN {self.condition(less)} THEN {self.number(less)} ELSE {self.number(less)} END",
        ]
        return str(self._pick(forms)())

    def text(self, depth: int) -> str:
        if depth <= 0 or self._draw(st.booleans()):
            return str(self._pick([self.name, self.name, self._text_literal])())
        less = depth - 1
        forms: list[Callable[[], str]] = [
            lambda: f"{self._pick(['lower', 'upper', 'trim', 'reverse', 'initcap'])}({self.text(less)})",
            lambda: f"({self.text(less)} || {self.text(less)})",
            lambda: f"substring({self.text(less)}, {self._pick([-1, 0, 1, 2])}, {self._pick([0, 1, 2])})",
            lambda: f"concat_ws('-', {self.text(less)}, {self.text(less)})",
            lambda: f"replace({self.text(less)}, {self._text_literal()}, {self._text_literal()})",
            lambda: f"CAST({self._pick([self.number, self.time])(less)} AS STRING)",
            lambda: f"coalesce({self.text(less)}, {self._text_literal()})",
        ]
        return str(self._pick(forms)())

    def time(self, depth: int) -> str:
        if depth <= 0 or self._draw(st.booleans()):
            literal = literal_to_sql(self._pick([*DATES, *TIMESTAMPS]))
            return str(self._pick([self.name(), self.name(), literal]))
        less = depth - 1
        forms: list[Callable[[], str]] = [
            lambda: f"({self.time(less)} {self._pick('+-')} {self._pick(['INTERVAL 1 DAY', 'INTERVAL 2 HOURS'])})",
            lambda: f"({self.time(less)} + INTERVAL 1 MONTH)",
            lambda: f"CAST({self.time(less)} AS {self._pick(['DATE', 'TIMESTAMP'])})",
            lambda: f"{self._pick(['last_day', 'to_date', 'to_timestamp'])}({self.time(less)})",
            lambda: f"date_add({self.time(less)}, {self._pick([-1, 0, 30])})",
        ]
        return str(self._pick(forms)())


@st.composite
def conditions(draw: Callable[..., Any], names: Sequence[str] = NAMES, depth: int = 3, arrays: bool = True) -> str:
    """An SQL condition: any part of the grammar over few attributes, up to a depth.

    Some are refused when they are read, `a + 'x' IS NULL` say; `readable_conditions` leaves those out.
    """
    return _Writer(draw, names, arrays).condition(depth)


def is_readable(condition: str) -> bool:
    """Whether a condition is one; the strategies write some that Spark would refuse too."""
    try:
        Filter.parse(condition)
    except ParseError:
        return False
    return True


def readable_conditions(names: Sequence[str] = NAMES, depth: int = 3, arrays: bool = True) -> st.SearchStrategy[str]:
    """A condition that can be read."""
    return conditions(names, depth, arrays).filter(is_readable)


def filters(names: Sequence[str] = NAMES, depth: int = 3, arrays: bool = True) -> st.SearchStrategy[Filter]:
    """A filter of any sort."""
    return conditions(names, depth, arrays).filter(is_readable).map(Filter.parse)


# --- conditions as subscribers mostly write them -----------------------------------------------------------

SPELLINGS = ["{} {} {}", "{}{}{}", " {}\n{}  {}"]
USUAL_LITERALS = [
    "0", "1", "2", "3", "5", "7", "10", "-1", "- 2", "+3", "2024", "9007199254740993", "999999999999999999", "0.1",
    "2.50", "-0.5", "1e0", "2.5D", "5d", "'a'", "'ab'", "'10'", "'5'", "'true'", "'nan'", "''", "'it''s'", '"a"',
    "'10.0.3.4'", "'2024-01-01'", "'é'", "DATE'2024-01-01'", "date '2024-02-29'", "TIMESTAMP'2024-01-01 00:00:00'",
    "TIMESTAMP'2024-02-29 10:00:00'", "X'00'", "TRUE", "NULL", "5L",
]  # fmt: skip
USUAL_PATTERNS = ["'a%'", "'%'", "'%b'", "'%b%'", "'ab'", "'a%b'", "'_b%'", "'%A%'", "''", '"a%"', "'\\\\%%'"]


@st.composite
def usual_conditions(draw: Callable[..., Any], names: Sequence[str] = NAMES, depth: int = 2) -> str:
    """Conditions on single attributes joined by AND, OR and NOT, in any spelling; some Spark would refuse."""
    if depth and draw(st.integers(0, 2)):
        word = draw(st.sampled_from(["AND", "and", "OR", "AND", "And"]))
        parts = draw(st.lists(usual_conditions(names, depth - 1), min_size=1, max_size=3))
        joined = f" {word} ".join(f"({part})" if draw(st.booleans()) else part for part in parts)
        return draw(st.sampled_from(["{}", "{}", "{}", "NOT ({})", "({}) IS TRUE", "({}) IS NOT TRUE"])).format(joined)
    name = name_to_sql(draw(st.sampled_from(names)))
    one, two, three = (draw(st.sampled_from(USUAL_LITERALS)) for _ in range(3))
    operator = draw(st.sampled_from([*COMPARISONS, "<=>", "!>"]))
    spelling = draw(st.sampled_from(SPELLINGS))
    forms = [
        spelling.format(name, operator, one),
        spelling.format(name, operator, one),
        f"{one} {operator} {name}",
        f"{name} BETWEEN {one} AND {two}",
        f"{name} not between {one} and {two}",
        f"{name} IN ({one}, {two},{three})",
        f"{name} IN ({one})",
        f"{name} NOT IN ({one}, {two})",
        f"{name} LIKE {draw(st.sampled_from(USUAL_PATTERNS))}",
        f"{name} NOT LIKE {draw(st.sampled_from(USUAL_PATTERNS))}",
        f"{name} ILIKE {draw(st.sampled_from(USUAL_PATTERNS))}",
        f"{name} IS NULL",
        f"{name} is not null",
        f"{name} > 1 AND {name} < {one}",
        name,
        f"NOT {name}",
    ]
    return str(draw(st.sampled_from(forms)))


# --- filters whose relations can be decided ---------------------------------------------------------------


@st.composite
def plain_conditions(
    draw: Callable[..., Any], names: Sequence[str] = NAMES, pool: Sequence[Any] = (0, 1, 2, 3, 5)
) -> str:
    """A condition on one attribute that intervals hold: comparisons, lists, ranges, presence."""
    name = name_to_sql(draw(st.sampled_from(names)))
    one, two = (literal_to_sql(draw(st.sampled_from(pool))) for _ in range(2))
    forms = [
        f"{name} {draw(st.sampled_from(COMPARISONS))} {one}",
        f"{name} BETWEEN {one} AND {two}",
        f"{name} NOT BETWEEN {one} AND {two}",
        f"{name} IN ({one}, {two})",
        f"{name} NOT IN ({one}, {two})",
        f"{name} IS NULL",
        f"{name} IS NOT NULL",
        f"{name} <=> {one}",
        f"NOT ({name} <=> {one})",
    ]
    return str(draw(st.sampled_from(forms)))


def conjunctions(
    names: Sequence[str] = NAMES, pool: Sequence[Any] = (0, 1, 2, 3, 5), most: int = 4
) -> st.SearchStrategy[Filter]:
    """One conjunction of enumerable conditions, for which every relation is exact."""
    parts = st.lists(plain_conditions(names, pool), min_size=1, max_size=most)
    return parts.map(" AND ".join).map(Filter.parse).filter(lambda each: each.is_conjunction)
