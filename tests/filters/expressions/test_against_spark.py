"""Tests of every function and operator, and of random expressions, against Spark.

Spark is an oracle nobody here wrote. Values are compared, not only truths, on every row on which Spark does
not raise; the types must agree too. Where Palio differs on purpose is said in docs/functions.md and tested
by name.
"""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable
from datetime import datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

from palio.errors import ParseError
from palio.filters.expressions.ast import Micros, Months
from palio.filters.expressions.extension_functions import EXTENSION_FUNCTIONS
from palio.filters.expressions.functions import FUNCTIONS
from palio.filters.expressions.special_forms import compile_expression
from palio.filters.expressions.validation import refusal
from palio.languages.sql.parser import parse_condition
from tests.filters.expressions.generator import FORMS, Generator
from tests.filters.expressions.samples import rows
from tests.filters.expressions.spark_oracle import RAISES, REFUSED, SparkOracle
from tests.filters.expressions.test_functions import examples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

ROWS = rows(seed=7, count=30)
# Java has its own library for these, which may differ from C's in the last digit.
APPROXIMATE = ("exp", "expm1", "ln", "log", "log10", "log2", "log1p", "power", "cbrt")
TIMED = (
    *("hour", "minute", "second", "date_trunc", "trunc", "months_between", "date_add", "datediff", "+", "-"),
    *("cast", "cast to moment", "cast to text", "to_date", "to_timestamp", "unix_timestamp", "=", "<", "in"),
    *("date_format", "from_unixtime", "timestampadd", "timestampdiff"),
)

Open = Callable[[str], SparkOracle]


@pytest.fixture(scope="session")
def oracle(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Open:
    """The same rows as Spark sees them in a time zone."""
    opened: dict[str, SparkOracle] = {}

    def open_in(zone: str) -> SparkOracle:
        if zone not in opened:
            opened[zone] = SparkOracle(spark, ROWS, tmp_path_factory.mktemp("rows") / "table", zone)
        return opened[zone]

    return open_in


def compute(sql: str, zone: str) -> list[Any]:
    """The value of an expression on every row, here."""
    run = compile_expression(parse_condition(sql, timezone=zone), zone)
    computed = []
    for row in ROWS:
        arrays = {name: value for name, value in row.items() if isinstance(value, tuple)}
        computed.append(run({name: value for name, value in row.items() if name not in arrays}, arrays))
    return computed


def is_same(mine: Any, theirs: Any, approximately: bool) -> bool:
    if type(mine) is not type(theirs):
        return False
    if isinstance(mine, float):
        if math.isnan(mine) or math.isnan(theirs):
            return math.isnan(mine) and math.isnan(theirs)
        if approximately:
            return math.isclose(mine, theirs, rel_tol=1e-15)
        return mine == theirs and math.copysign(1, mine) == math.copysign(1, theirs)
    return bool(mine == theirs)


def is_at_an_end(mine: Any, theirs: Any) -> bool:
    """Whether a moment is NULL here because the clocks of its zone show a year before 1 or after 9999."""
    return mine is None and isinstance(theirs, datetime) and (theirs.year, theirs.month) in {(1, 1), (9999, 12)}


def differences(oracle: SparkOracle, sql: str, zone: str) -> list[str]:
    """The rows on which an expression has another value here than in Spark."""
    theirs = oracle.values(sql)
    if theirs is REFUSED:
        return []
    refused = refusal(parse_condition(sql, timezone=zone))
    if refused is not None:
        return [] if "digits" in refused[1] else [f"{sql}: refused, {refused[1]}"]
    assert isinstance(theirs, list)
    approximately = any(f"{name}(" in sql for name in APPROXIMATE)
    return [
        f"{sql}: {mine!r}, in Spark {other!r}, for {row}"
        for mine, other, row in zip(compute(sql, zone), theirs, ROWS, strict=True)
        if other is not RAISES and not is_same(mine, other, approximately) and not is_at_an_end(mine, other)
    ]


def test_every_function_is_compared() -> None:
    # typeof names Palio's types, not Spark's; a lambda is a part of exists and forall.
    assert set(FUNCTIONS) - set(FORMS) == {"typeof", "lambda", "variable", *EXTENSION_FUNCTIONS}


@pytest.mark.parametrize("name", FORMS)
def test_a_function_has_the_value_that_spark_gives_it(oracle: Open, name: str) -> None:
    generator = Generator(f"ci {name}")
    made = [generator.call(name, depth) for depth in (1, 2)]
    assert [line for sql in made for line in differences(oracle("UTC"), sql, "UTC")] == []


@pytest.mark.parametrize("zone", ["Europe/Berlin", "America/St_Johns"])
def test_times_are_read_on_the_clocks_of_the_zone(oracle: Open, zone: str) -> None:
    generator = Generator(zone)
    made = [generator.call(name, 1) for name in TIMED for _ in range(2)]
    assert [line for sql in made for line in differences(oracle(zone), sql, zone)] == []


@pytest.mark.deep
@pytest.mark.parametrize("zone", ["UTC", "Europe/Berlin", "America/Sao_Paulo", "Asia/Kathmandu"])
@pytest.mark.parametrize("name", FORMS)
def test_nested_expressions_have_the_value_that_spark_gives_them(oracle: Open, name: str, zone: str) -> None:
    generator = Generator(f"deep {name} {zone}")
    made = [generator.call(name, generator.random.randint(1, 4)) for _ in range(12)]
    assert [line for sql in made for line in differences(oracle(zone), sql, zone)] == []


def test_compiled_by_spark_the_expressions_have_the_same_value(spark: SparkSession, oracle: Open) -> None:
    """The oracle asks Spark's interpreter where a SELECT compiles: all that do not raise, in one SELECT."""
    table, generator = oracle("UTC"), Generator("compiled")
    interpreted: dict[str, list[Any]] = {}
    for name in FORMS:
        sql = generator.call(name, 2)
        values = table.values(sql)
        if isinstance(values, list) and RAISES not in values and not any(map(_has_clock, values)):
            interpreted[sql] = values
    columns = ", ".join(f"{sql} AS c{at}" for at, sql in enumerate(interpreted))
    selected = spark.sql(f"SELECT {columns} FROM {table.table} ORDER BY id").collect()
    for at, (sql, values) in enumerate(interpreted.items()):
        compiled = [bytes(row[at]) if isinstance(row[at], bytearray) else row[at] for row in selected]
        assert all(map(is_same, compiled, values, [False] * len(values))), sql


def _has_clock(value: Any) -> bool:
    """Moments and intervals come out of a SELECT as other Python types, and in the zone of the machine."""
    return isinstance(value, datetime | Micros | Months)


def test_the_examples_of_the_documentation_are_true_in_spark(spark: SparkSession) -> None:
    shown = [
        (name, example, value)
        for name, example, value in examples()
        if name not in ("array_contains", "element_at", "exists", "forall", "get", "size", *EXTENSION_FUNCTIONS)
    ]
    checks = ", ".join(f"({example}) <=> ({value}) AS c{at}" for at, (_, example, value) in enumerate(shown))
    (row,) = spark.sql(f"SELECT {checks}").collect()
    assert [example for (_, example, _), holds in zip(shown, row, strict=True) if not holds] == []


@pytest.mark.parametrize(
    ("sql", "in_spark"),
    [
        ("w = 5", True),  # a string of an event is not converted to meet a number
        ("w IN (5, 7)", True),
        ("w <= DATE'2024-02-29'", None),
        ("repeat('ab', 600000)", "ab" * 600000),
    ],
)
def test_what_spark_computes_and_palio_does_not_is_null(oracle: Open, sql: str, in_spark: Any) -> None:
    values = oracle("UTC").values(sql)
    assert isinstance(values, list)
    assert in_spark in values
    assert set(compute(sql, "UTC")) == {None}


@pytest.mark.parametrize(
    ("sql", "apart"),  # what is done with a quotient afterwards is done with what Spark rounded away, too
    [
        *((sql, 1) for sql in ("m / k", "k / m", "m / n", "i / m", "m / (k + 1)", "m / k + n")),
        ("m / k / 7", 10),
        ("m / k * k", 10**8),
    ],
)
def test_quotients_by_what_has_no_declared_type_agree_to_the_last_digits_spark_keeps(
    oracle: Open, sql: str, apart: int
) -> None:
    theirs = oracle("UTC").values(sql)
    assert isinstance(theirs, list)
    pairs = [pair for pair in zip(compute(sql, "UTC"), theirs, strict=True) if pair[1] is not RAISES]
    assert any(mine for mine, _ in pairs)
    for mine, other in pairs:
        assert (mine is None) is (other is None)
        assert mine is None or abs(mine - other) <= apart * Decimal(1).scaleb(other.as_tuple().exponent)


def test_palio_takes_64_bits_where_spark_wants_32(oracle: Open) -> None:
    assert oracle("UTC").values("date_add(t, j)") is REFUSED
    assert any(value is not None for value in compute("date_add(t, j)", "UTC"))
    assert set(compute("1 << 40", "UTC")) == {2**40}
    assert set(oracle("UTC").values("1 << 40")) == {256}  # type: ignore[arg-type]
    assert set(oracle("UTC").values("n + 2147483647")) >= {RAISES}  # type: ignore[call-overload]
    assert max(value for value in compute("n + 2147483647", "UTC") if value is not None) > 2**31


@pytest.mark.parametrize(
    "sql",
    [
        *(
            "TRUE > 1",
            "year(5)",
            "greatest(1, 'a')",
            "coalesce(TRUE, 1)",
            "NOT 1",
            "date_add(t, 1.5)",
            "'5' + '6'",
        ),
        *(
            "DATE'2024-01-01' = 1",
            "CAST(5 AS DATE)",
            "CAST(b AS DATE) = CAST(5 AS BINARY)",
            "if(1, 2, 3)",
            "5.5D DIV 2",
        ),
        *(
            "~ 5.5",
            "TIMESTAMP'2024-01-01' + 1",
            "array_contains(a, NULL)",
            "abs(TRUE)",
            "5 BETWEEN TRUE AND 7",
        ),
        *(
            "INTERVAL '1' MONTH > INTERVAL '1' DAY",
            "round(d, i)",
            "unix_date(TIMESTAMP'2024-01-01')",
            "hour(1)",
        ),
        *(
            "timestamp_seconds('5')",
            "5 IN (TRUE)",
            "CASE WHEN b THEN 1 ELSE DATE'2024-01-01' END",
            "- DATE'2024-01-01'",
        ),
    ],
)
def test_what_spark_refuses_for_its_types_is_refused(oracle: Open, sql: str) -> None:
    assert oracle("UTC").values(sql) is REFUSED
    with contextlib.suppress(ParseError):
        assert refusal(parse_condition(sql, timezone="UTC")) is not None
