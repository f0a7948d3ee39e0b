"""Tests of rewriting: the innermost value is in its set exactly where the condition has the outcome."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from palio.filters.expressions.ast import Attribute, Expression
from palio.filters.expressions.special_forms import compile_expression
from palio.filters.kinds import MISSING, Kind, Value, float_at, timestamp_at
from palio.filters.rewriting import canonical_range
from palio.filters.sql_writer import literal_to_sql
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
    return [
        Decimal((int(each < 0), tuple(map(int, str(abs(each)))), -scale)) for each in places if abs(each) < 10**38
    ]


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
def test_a_rewritten_condition_has_the_outcome_of_the_expression(
    condition: str, some: list[Value], zone: str
) -> None:
    check(condition, [*EVERY_VALUE, *some], zone)
