"""Tests of rewriting: the innermost value is in its set exactly where the condition has the outcome."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import Matcher
from palio.filters.expressions.ast import Attribute, Expression
from palio.filters.expressions.special_forms import compile_expression
from palio.filters.filter import Filter
from palio.filters.kinds import MISSING, Kind, Value, float_at, timestamp_at
from palio.filters.rewriting import canonical_range
from palio.filters.sql_writer import expression_to_sql, literal_to_sql, values_to_sql
from palio.filters.tree import Leaf, leaves
from palio.filters.value_sets import ValueSet
from palio.languages.sql.parser import parse_condition
from tests.strategies import EVERY_VALUE, OF_KIND, values

OPERATORS = ["=", "<>", "<", "<=", ">", ">=", "<=>"]
ZONES = ["UTC", "Europe/Berlin", "America/Sao_Paulo", "Pacific/Apia", "+05:30"]

NUMBERS = st.one_of(
    st.integers(-100, 100),
    OF_KIND[Kind.INTEGER],
    st.decimals(-1000, 1000, places=2),
    OF_KIND[Kind.DECIMAL],
    st.floats(-1000, 1000),
    OF_KIND[Kind.FLOAT],
)
# A function of {}, with constants of a kind in the places of <number>, <count>, …
FUNCTIONS = {
    "number": [
        "{} + <number>", "<number> + {}", "{} - <number>", "<number> - {}", "{} * <number>", "<number> * {}",
        "-{}", "+{}", "abs({})", "ceil({})", "floor({})", "round({})", "round({}, <digits>)", "bround({}, <digits>)",
        "sqrt({})", "signum({})", "abs({} - <number>)", "abs(<number> - {} * <number>)", "floor({} * <number>)",
        "CAST(floor({}) AS INT)", "round(abs({} + <number>), <digits>) - <number>", "coalesce({}, <number>)",
        "nullif({}, <number>)", "coalesce(nullif({}, <number>), <number>)", "nullif({} + <number>, <number>) - 1",
        "CAST({} AS INT) + <count>", "length({}) - <count>", "{} / <number> + <number>", "year({}) - <count>",
        "unix_seconds({})", "unix_millis({}) - <count>", "unix_micros({})", "unix_date({})", "datediff({}, <date>)",
        "datediff(<date>, {})", "year({})", "year(date_add({}, <count>))", "extract(YEAROFWEEK FROM {})",
    ],
    "time": [
        "{} + <count>", "{} - <count>", "to_date({})", "CAST({} AS DATE)", "date_add({}, <count>)",
        "date_sub({}, <count>)", "trunc({}, 'month')", "trunc({}, 'week')", "trunc({}, 'year')", "last_day({})",
        "next_day({}, 'TUE')", "add_months({}, <count>)", "last_day(add_months({}, <count>))",
        "timestamp_millis({})", "timestamp_micros({})", "timestamp_millis({} * <count>)",
        "{} + <interval>", "{} - <interval>", "<interval> + {}", "coalesce({}, <date>)", "nullif({}, <date>)",
    ],
    "text": [
        "left({}, <size>)", "substring({}, 1, <size>)", "substring({}, 0, <size>)", "substr({}, <size>)",
        "coalesce({}, <text>)", "nvl({}, <text>)", "nullif({}, <text>)", "left(coalesce({}, <text>), <size>)",
        "coalesce(left({}, <size>), <text>)",
    ],
}  # fmt: skip
CONSTANTS: dict[str, st.SearchStrategy[Any]] = {
    "number": NUMBERS,
    "count": st.integers(-400, 400) | st.sampled_from([0, 1, 2**31 - 1, -(2**31)]),
    "digits": st.integers(-4, 4),
    "size": st.integers(1, 4),
    "date": OF_KIND[Kind.DATE],
    "text": OF_KIND[Kind.STRING],
    "interval": st.just("interval"),
}
INTERVALS = ["INTERVAL '1' HOUR", "INTERVAL '90' MINUTE", "INTERVAL '2' DAY", "INTERVAL '1' MONTH", "INTERVAL '-3' DAY"]
BOUNDS = {
    "number": NUMBERS,
    "time": OF_KIND[Kind.DATE] | OF_KIND[Kind.TIMESTAMP] | st.just("2024-02-29"),
    "text": OF_KIND[Kind.STRING],
}


@st.composite
def computed_conditions(draw: Any) -> str:
    """A comparison of a function of `x` with constants."""
    kind = draw(st.sampled_from(sorted(FUNCTIONS)))
    text = draw(st.sampled_from(FUNCTIONS[kind])).replace("{}", "x")
    for name, constants in CONSTANTS.items():
        while f"<{name}>" in text:
            value = draw(constants)
            written = draw(st.sampled_from(INTERVALS)) if name == "interval" else literal_to_sql(value)
            text = text.replace(f"<{name}>", f"({written})" if written.startswith("-") else written, 1)
    bound = BOUNDS[kind].map(literal_to_sql)
    form = draw(st.sampled_from(["compare", "mirror", "between", "in", "null", "like"]))
    match form:
        case "compare":
            return f"{text} {draw(st.sampled_from(OPERATORS))} {draw(bound)}"
        case "mirror":
            return f"{draw(bound)} {draw(st.sampled_from(OPERATORS))} {text}"
        case "between":
            return f"{text} BETWEEN {draw(bound)} AND {draw(bound)}"
        case "in":
            return f"{text} IN ({', '.join(draw(st.lists(bound, min_size=1, max_size=3)))})"
        case "like" if kind == "text":
            return f"{text} LIKE {draw(st.sampled_from(['a%', 'ab', 'é%', '1%', 'a_', '%']).map(literal_to_sql))}"
    return f"({text}) IS NULL"


def evaluated(expression: Expression, value: Value, zone: str) -> Any:
    return compile_expression(expression, zone)({} if value is MISSING else {"x": value}, {})  # type: ignore[dict-item]


def neighbours(found: ValueSet) -> list[Value]:
    """Values at the bounds of a set, and next to them."""
    near: list[Value] = []
    for kind in (Kind.INTEGER, Kind.FLOAT, Kind.DATE, Kind.TIMESTAMP, Kind.STRING, Kind.DECIMAL):
        for cut in found.parts[kind].cuts[:8]:
            match kind:
                case Kind.INTEGER:
                    near += [each for each in (cut - 1, cut, cut + 1) if -(2**63) <= each < 2**63]
                case Kind.FLOAT:
                    near += [float_at(cut - 1), float_at(cut), float_at(cut + 1)]
                case Kind.DATE:
                    near += [date.fromordinal(each) for each in (cut - 1, cut) if 1 <= each <= date.max.toordinal()]
                case Kind.TIMESTAMP:
                    near += [timestamp_at(cut - 1), timestamp_at(cut)]
                case Kind.STRING:
                    near += [cut, cut + "\0", cut[:-1], cut + "z"]
                case Kind.DECIMAL:
                    near += _decimals_near(cut[0])
    return near


def _decimals_near(number: Any) -> list[Value]:
    """The decimals of at most 38 digits around a number."""
    scale = 38 - len(str(abs(int(number)))) if abs(number) >= 1 else 38
    places = [int(number * 10**scale) + step for step in (-1, 0, 1)]
    return [Decimal((int(each < 0), tuple(map(int, str(abs(each)))), -scale)) for each in places if abs(each) < 10**38]


def check(condition: str, pool: list[Value], zone: str = "UTC") -> None:
    expression = parse_condition(condition)
    for wants in (True, False):
        found = canonical_range(expression, wants, zone)
        if found is None:
            continue
        value, accepted = found
        for each in [*pool, *neighbours(accepted)]:
            inner = evaluated(value, each, zone)
            held = accepted.contains(each if isinstance(value, Attribute) else inner)
            assert held is (evaluated(expression, each, zone) is wants), (condition, wants, each, value, accepted)


@given(computed_conditions(), st.lists(values(), max_size=8), st.sampled_from(ZONES))
def test_a_rewritten_condition_has_the_outcome_of_the_expression(condition: str, some: list[Value], zone: str) -> None:
    check(condition, [*EVERY_VALUE, *some], zone)


def ending(condition: str, wants: bool = True, zone: str = "UTC") -> tuple[str, str]:
    """The innermost value of a condition, and its set, as SQL."""
    found = canonical_range(parse_condition(condition), wants, zone)
    assert found is not None
    return expression_to_sql(found[0]), values_to_sql("v", found[1])[0]


@pytest.mark.parametrize(
    ("condition", "value", "accepted"),
    [
        ("abs(x - 5) < 3", "(x + 0)", "v > 2 AND v < 8"),
        ("abs(x - 5.2) < 0.03", "(+ x)", "v > 5.17 AND v < 5.23"),
        ("abs(5.0D - x) <= 0.25D", "(+ x)", "v BETWEEN 4.75D AND 5.25D"),
        ("floor(x) IN (3, 5)", "(+ x)", "v >= 3 AND v < 4 OR v >= 5 AND v < 6"),
        ("coalesce(x, 0) > 5", "(x + 0)", "v > 5"),
        ("year(x) = 2024", "CAST(x AS DATE)", "v >= DATE'2024-01-01' AND v < DATE'2025-01-01'"),
        ("year(date_add(x, 1)) = 2024", "CAST(x AS DATE)", "v >= DATE'2023-12-31' AND v < DATE'2024-12-31'"),
        ("datediff(DATE'2024-01-31', x) < 7", "CAST(x AS DATE)", "v >= DATE'2024-01-25'"),
        ("lower(x) = 'a'", "lower(x)", "v = 'a'"),
        ("x / 4 > 2", "(x / 4)", "v > 2"),
        ("hour(x) + 1 = 8", "hour(x)", "v = 7"),
        ("x - INTERVAL '1' HOUR > TIMESTAMP'2024-01-01'", "x", "v > TIMESTAMP'2024-01-01 01:00:00Z'"),
        ("unix_seconds(x) >= 1700000000", "x", "typeof(v) = 'timestamp' AND v >= TIMESTAMP'2023-11-14 22:13:20Z'"),
        ("timestamp_millis(x) < TIMESTAMP'1970-01-01'", "x", "typeof(v) = 'bigint' AND v >= -62135596800000 AND v < 0"),
    ],
)
def test_conditions_with_other_constants_restrict_one_value(condition: str, value: str, accepted: str) -> None:
    found, text = ending(condition)
    assert (found, text.removeprefix("typeof(v) = 'date' AND ")) == (value, accepted)


@pytest.mark.parametrize(
    ("condition", "plain"),
    [
        ("coalesce(x, '-') = 'c'", "x = 'c'"),
        ("coalesce(x, 'c') = 'c'", "x IS NULL OR x = 'c'"),
        ("coalesce(x, '-') <> 'c'", "x IS NULL OR x <> 'c'"),
        ("nvl(x, '') IN ('a', 'b')", "x IN ('a', 'b')"),
        ("nullif(x, 0) > -3", "x > -3 AND x < 0 OR x > 0"),
        ("nullif(x, 'n/a') IS NULL", "x IS NULL OR x = 'n/a'"),
        ("substring(x, 1, 3) = 'abc'", "x LIKE 'abc%'"),
        ("left(x, 3) = 'ab'", "x = 'ab'"),
        ("left(x, 2) = 'abc'", "FALSE"),
        ("left(x, 3) LIKE 'ab%'", "x LIKE 'ab%'"),
        ("left(x, 3) IN ('abc', 'xyz')", "x LIKE 'abc%' OR x LIKE 'xyz%'"),
    ],
)
def test_what_reads_no_text_is_a_plain_predicate(condition: str, plain: str) -> None:
    read = Filter.parse(condition)
    assert str(read) == plain
    assert Filter.parse(plain) == read


@pytest.mark.parametrize(
    "condition",
    [
        "left(x, 1) = '1'",  # of the number 10 too
        "left(x, 1) = 't'",  # of TRUE too
        "left(x, 2) < 'b'",
        "coalesce(x, 0) = 0",
        "x + INTERVAL '1' MONTH > TIMESTAMP'2024-01-01'",
        "abs(x - 5) < 3",
        "left(x, 3) <> 'abc'",  # of numbers too, and not of binary values
        "unix_seconds(x) >= 1700000000",
    ],
)
def test_what_sets_do_not_say_as_well_stays_as_it_was_written(condition: str) -> None:
    read = Filter.parse(condition)
    assert any(isinstance(each, Leaf) and each.values.tests for each in leaves(read.tree))
    assert Filter.parse(str(read)) == read


def test_conditions_with_different_constants_cover_each_other() -> None:
    near = Filter.parse("abs(price - 5.20) < 0.03")
    assert Filter.parse("abs(price - 5.19) < 0.05").covers(near)
    assert not near.covers(Filter.parse("abs(price - 5.19) < 0.05"))
    assert not near.overlaps(Filter.parse("price + 1.0 > 7"))
    assert Filter.parse("year(t) = 2024").covers(Filter.parse("to_date(t) = DATE'2024-05-05'"))
    assert Filter.parse("name LIKE 'ab%'").covers(Filter.parse("left(name, 3) = 'abc' AND y > 1"))


def test_clocks_that_change_leave_whole_days_as_they_are() -> None:
    condition = "x + INTERVAL '2' DAY > TIMESTAMP'2024-01-01'"
    assert ending(condition) == ("x", "v > DATE'2023-12-30' AND v < DATE'9999-12-30'")
    assert ending(condition, zone="Europe/Berlin")[0] == "(x + INTERVAL '2' DAY)"


def test_deep_and_long_conditions_are_left_as_they_are() -> None:
    deep = "abs(" * 150 + "x" + ")" * 150
    long = ", ".join(map(str, range(0, 6000, 2)))
    assert ending(f"{deep} > 1")[1] == "v > 1"
    assert ending(f"abs(x) IN ({long})")[0] == "abs(x)"


def test_a_rewritten_predicate_matches_as_the_expression_says() -> None:
    condition = "left(coalesce(name, 'abc'), 2) = 'ab' AND NOT (nullif(qty, 0) > 3)"
    matcher = Matcher()
    matcher.add("s", condition)
    expression = parse_condition(condition)
    for name in (None, "abz", "b", 7, True):
        for qty in (None, 0, 3, 4, Decimal("0.0"), float("nan"), "5", datetime(2024, 1, 1, tzinfo=UTC)):
            event = {"name": name, "qty": qty}
            wanted = compile_expression(expression)(event, {}) is True
            assert (matcher.match(event) == {"s"}) is wanted, event
