"""Tests of evaluation in columns against the scalar evaluator, which says what an expression means."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from random import Random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.errors import EventError, ParseError
from palio.events.arrow import read_column
from palio.filters.expressions.ast import Attribute, Call, Expression, Literal, walk
from palio.filters.expressions.special_forms import compile_expression
from palio.filters.expressions.text_functions import TEXT_LIMIT
from palio.filters.kinds import Kind
from palio.languages.sql.parser import parse_condition
from palio.matching.columnar.vector_compiler import Part
from palio.matching.columnar.vector_evaluation import BatchEvaluator, compiler_of, evaluate, vectorize
from tests.filters.expressions.generator import FORMS, Generator
from tests.matching.columnar.random_columns import random_columns
from tests.oracles.seeds import seeds
from tests.strategies import OF_KIND

ROWS = 40
ZONES = ("UTC", "UTC", "Europe/Paris", "America/New_York", "+05:30", "Asia/Kathmandu", "Pacific/Apia")


def same(mine: Any, theirs: Any) -> bool:
    """Whether two values are one: of one kind, NaN like NaN, but 0.0 unlike -0.0 and 1.0 unlike 1.00."""
    if type(mine) is not type(theirs):
        return False
    if isinstance(mine, float):
        return (
            mine == theirs and math.copysign(1, mine) == math.copysign(1, theirs) if mine == mine else theirs != theirs
        )
    return bool(mine == theirs) and str(mine) == str(theirs)


def rows_of(columns: Mapping[str, pa.Array], count: int) -> list[dict[str, Any]]:
    values = {name: read_column(column) for name, column in columns.items()}
    return [{name: column[row] for name, column in values.items()} for row in range(count)]


def listed(values: pa.Array | list[Any]) -> list[Any]:
    return values if isinstance(values, list) else read_column(values)


def differences(expression: Expression, evaluator: BatchEvaluator, rows: list[dict[str, Any]], zone: str) -> list[str]:
    run = compile_expression(expression, zone)
    found = listed(evaluator.value(expression))
    assert len(found) == len(rows)
    return [
        f"{expression}: {mine!r}, not {theirs!r}, for {row}"
        for mine, row in zip(found, rows, strict=True)
        if not same(mine, theirs := run(row, {}))
    ]


def random_expression(random: Random, zone: str) -> Expression | None:
    generator = Generator(random.random())
    name = random.choice(list(FORMS))
    try:
        return parse_condition(generator.call(name, random.choice((1, 1, 2, 3))), timezone=zone)
    except ParseError:
        return None


def compare_many(seed: int, batches: int, each: int) -> None:
    """Compare random expressions, and all their parts, over random columns."""
    random = Random(seed)
    compared = in_columns = 0
    for _ in range(batches):
        zone = random.choice(ZONES)
        columns = random_columns(random, ROWS)
        rows = rows_of(columns, ROWS)
        evaluator = BatchEvaluator(columns, ROWS, zone)
        for _ in range(each):
            expression = random_expression(random, zone)
            if expression is None:
                continue
            for part in walk(expression):
                if isinstance(part, Call):
                    compared += 1
                    in_columns += evaluator.compiler.part(part) is not None
                    wrong = differences(part, evaluator, rows, zone)
                    types = {name: column.type for name, column in columns.items()}
                    assert not wrong, f"{wrong[0]} ({zone}, {types})"
    assert in_columns >= 0.6 * compared


@pytest.mark.parametrize("seed", seeds(1, 8))
def test_random_expressions_have_the_values_that_the_scalar_evaluator_gives(seed: int) -> None:
    compare_many(seed, batches=5, each=40)


@pytest.mark.deep
@pytest.mark.parametrize("seed", seeds(1000, 40))
def test_20_000_random_expressions_have_the_values_that_the_scalar_evaluator_gives(seed: int) -> None:
    compare_many(seed, batches=20, each=25)


# By the columns of `random_columns`: i j n integers, d e doubles, m k decimals, s r w texts, t u days, ts us moments,
# b c truths, x y binary values.
FORMED = """
    i + j ; i - j ; i * j ; i / j ; i % j ; i DIV j ; pmod(i, j) ; -i ; +i ; abs(i) ; i & j ; i | j ; i ^ n ; ~i
    d + e ; d - i ; d * n ; d / e ; d % e ; pmod(d, e) ; -d ; abs(d) ; i + 0.5D ; d * 2 ; d + 0.5 ; i + w ; d - '2.5'
    ceil(d) ; floor(d) ; ceil(i) ; sqrt(d) ; sqrt(i) ; signum(d) ; isnan(d) ; round(d, 1) ; exp(d) ; power(d, e)
    t + 5 ; t - n ; 3 + t ; m + k ; m - 1.5 ; m * n ; m * 2.5 ; nanvl(d, e)
    i = j ; i <> j ; i < j ; i <= 5 ; i > 2.5 ; i >= d ; d = e ; d <> e ; d < e ; d <= e ; d > e ; d >= e ; d > 0.1
    s = r ; s < r ; s >= 'abc' ; b = c ; b < c ; t < u ; ts > us ; t <= ts ; x = y ; x > y ; m < k ; m >= 2.50 ; m > d
    i = '10' ; d < '2.5' ; ts > '2024-01-01' ; t = '2024-02-29' ; b = 'true' ; '5' < i ; i <=> j ; s <=> r ; d <=> e
    i BETWEEN j AND n ; d BETWEEN 0 AND 10.5D ; s BETWEEN 'a' AND 'b'
    i IN (1, 2, 3) ; i IN (1, NULL) ; i IN (1, 2.5D) ; d IN (0D, double('NaN')) ; s IN ('a', 'abc') ; s IN (r, w)
    i IN (j, n, 5) ; t IN (DATE'2024-02-29', u) ; ts IN (us, TIMESTAMP'2024-02-29 12:30:15') ; i NOT IN ('1', '2')
    b AND c ; b OR c ; NOT b ; b IS TRUE ; b IS FALSE ; b IS NOT TRUE ; i IS NULL ; s IS NOT NULL ; i > 3 AND d < e OR c
    CASE WHEN b THEN i WHEN c THEN j ELSE 0 END ; CASE WHEN i > j THEN s END ; CASE WHEN b THEN i ELSE 0.5D END
    if(b, d, e) ; coalesce(i, j, 0) ; coalesce(s, r, '-') ; coalesce(i, 2.5D) ; nvl2(i, s, r) ; nvl2(s, t, u)
    nullif(i, j) ; nullif(s, 'a') ; nullif(d, 0) ; greatest(i, j, n) ; least(d, e) ; greatest(s, r) ; least(t, u)
    CAST(i AS DOUBLE) ; CAST(i AS INT) ; CAST(i AS TINYINT) ; CAST(i AS BOOLEAN) ; CAST(i AS STRING) ; CAST(i AS FLOAT)
    CAST(d AS BIGINT) ; CAST(d AS SMALLINT) ; CAST(d AS BOOLEAN) ; CAST(d AS STRING) ; CAST(d AS FLOAT)
    CAST(b AS INT) ; CAST(b AS DOUBLE) ; CAST(b AS STRING) ; CAST(w AS INT) ; CAST(w AS DOUBLE) ; CAST(w AS BOOLEAN)
    CAST(w AS DATE) ; CAST(w AS TIMESTAMP) ; CAST(w AS DECIMAL(10,2)) ; CAST(i AS DECIMAL(20,2)) ; CAST(t AS STRING)
    CAST(ts AS BIGINT) ; CAST(ts AS DOUBLE) ; CAST(ts AS DATE) ; CAST(ts AS STRING) ; CAST(t AS TIMESTAMP)
    CAST(i AS TIMESTAMP) ; CAST(d AS TIMESTAMP) ; CAST(s AS BINARY) ; CAST(x AS STRING) ; CAST(m AS DOUBLE)
    to_date(ts) ; to_date(w) ; to_date(w, 'yyyy-MM-dd') ; to_timestamp(w) ; year(ts) ; year(t) ; quarter(ts) ; month(t)
    day(ts) ; dayofweek(t) ; weekday(ts) ; dayofyear(t) ; weekofyear(ts) ; hour(ts) ; minute(ts) ; second(ts) ; hour(t)
    extract(yearofweek FROM t) ; extract(dow_iso FROM ts) ; last_day(t) ; trunc(t, 'MM') ; trunc(ts, 'week')
    date_trunc('year', ts) ; date_trunc('quarter', ts) ; date_trunc('month', ts) ; date_trunc('week', ts)
    date_trunc('day', ts) ; date_trunc('hour', ts) ; date_trunc('minute', ts) ; date_trunc('second', ts)
    date_trunc('millisecond', ts) ; datediff(t, u) ; datediff(ts, '2024-01-01') ; date_add(t, n) ; date_sub(ts, 3)
    timestampdiff(HOUR, ts, us) ; timestampdiff(MONTH, ts, us) ; add_months(t, 1) ; unix_date(t) ; unix_seconds(ts)
    unix_millis(ts) ; unix_micros(ts) ; timestamp_seconds(n) ; timestamp_millis(i) ; timestamp_micros(i)
    ts + INTERVAL '1' HOUR ; ts - INTERVAL '25' HOUR ; ts - us > INTERVAL '1' DAY ; t - u = INTERVAL '3' DAY
    date_format(ts, 'yyyy-MM') ; from_unixtime(n) ; unix_timestamp(ts) ; months_between(ts, us)
    lower(s) ; upper(s) ; initcap(s) ; trim(s) ; ltrim(s) ; rtrim(s) ; trim('a', s) ; btrim(s, 'ab') ; length(s)
    octet_length(s) ; bit_length(s) ; substring(s, 1, 3) ; substring(s, 2) ; substring(s, -2) ; substring(s, 0, n)
    left(s, 2) ; right(s, 2) ; concat(s, r) ; concat(s, '-', i) ; s || b || t ; concat_ws(',', s, r)
    startswith(s, 'a') ; endswith(s, 'c') ; contains(s, 'b') ; contains(s, r) ; s LIKE 'a%' ; s LIKE '%c' ; s LIKE '%b%'
    s LIKE 'a%c' ; s LIKE 'abc' ; s ILIKE 'A%' ; s RLIKE '^a.c$' ; s LIKE r ; replace(s, 'a', 'bb') ; replace(s, r, w)
    reverse(s) ; instr(s, 'b') ; locate('b', s) ; lpad(s, 5, '*') ; repeat(s, 2) ; split_part(s, ',', 2)
    translate(s, 'ab', 'x')
    md5(s) ; hex(i) ; levenshtein(s, r) ; regexp_extract(s, '(a)', 1) ; regexp_replace(s, 'a', 'b') ; ascii(s) ; chr(n)
"""
EXPRESSIONS = [each.strip() for line in FORMED.split("\n") for each in line.split(" ; ") if each.strip()]


def whole_columns(random: Random) -> dict[str, pa.Array]:
    """Columns of which none is missing, and each has the kind that its name says."""
    integers, doubles = pa.int64(), pa.float64()
    columns = {}
    wanted = {
        **dict.fromkeys("ijn", integers),
        **dict.fromkeys("de", doubles),
        **dict.fromkeys("mk", pa.decimal128(10, 2)),
        **dict.fromkeys("srw", pa.string()),
        **dict.fromkeys("tu", pa.date32()),
        **dict.fromkeys(("ts", "us"), pa.timestamp("us", "UTC")),
        **dict.fromkeys("bc", pa.bool_()),
        **dict.fromkeys("xy", pa.binary()),
    }
    while wanted:
        for name, column in random_columns(random, ROWS).items():
            if wanted.get(name) == column.type:
                columns[name] = column
                del wanted[name]
    return columns


@pytest.mark.parametrize("expression", EXPRESSIONS)
def test_a_function_has_a_vector_form_with_the_values_of_the_scalar_evaluator(expression: str) -> None:
    random = Random(expression)
    for zone in ("UTC", "Europe/Paris", "America/New_York"):
        parsed = parse_condition(expression, timezone=zone)
        columns = whole_columns(random)
        run = vectorize(parsed, {name: column.type for name, column in columns.items()}, zone)
        assert run is not None
        evaluator = BatchEvaluator(columns, ROWS, zone)
        assert all(map(same, listed(run(columns, ROWS)), listed(evaluator.value(parsed))))
        assert not differences(parsed, evaluator, rows_of(columns, ROWS), zone)


OPERATORS = (*"+-*/%", "DIV", "&", "=", "<>", "<", "<=", ">", ">=", "<=>")
COLUMN_TYPES = {
    Kind.BOOLEAN: pa.bool_(),
    Kind.INTEGER: pa.int64(),
    Kind.FLOAT: pa.float64(),
    Kind.STRING: pa.string(),
    Kind.DATE: pa.date32(),
    Kind.TIMESTAMP: pa.timestamp("us", "UTC"),
    Kind.BYTES: pa.binary(),
}


@given(st.data(), st.sampled_from(OPERATORS), st.sampled_from(ZONES))
def test_an_operator_on_two_columns_of_any_kinds_has_the_values_of_the_scalar_evaluator(
    data: st.DataObject, operator: str, zone: str
) -> None:
    columns = {}
    for name in "ab":
        kind = data.draw(st.sampled_from(list(COLUMN_TYPES)))
        values = data.draw(st.lists(st.none() | OF_KIND[kind], min_size=3, max_size=3))
        columns[name] = pa.array(values, COLUMN_TYPES[kind])
    expression = parse_condition(f"a {operator} b", timezone=zone)
    assert not differences(expression, BatchEvaluator(columns, 3, zone), rows_of(columns, 3), zone)


def operands_of(part: Part) -> list[Part]:
    """The operands of a part, and theirs."""
    return [each for operand in part.operands for each in (operand, *operands_of(operand))]


def test_what_expressions_have_in_common_is_one_part() -> None:
    types = {"s": pa.string(), "i": pa.int64()}
    compiler = compiler_of(types, "UTC")
    parts = [compiler.part(parse_condition(f"lower(s) = '{text}'")) for text in "abc"]
    lowered = compiler.part(parse_condition("lower(s)"))
    assert lowered is not None
    assert all(part is not None and lowered in operands_of(part) for part in parts)
    assert compiler.part(parse_condition("lower(s) = 'a'")) is parts[0]


def test_a_compiler_is_used_again_for_columns_of_the_same_types_only() -> None:
    first = BatchEvaluator({"i": pa.array([1])}, 1, "UTC")
    again = BatchEvaluator({"i": pa.array([2])}, 1, "UTC", first.compiler)
    other = BatchEvaluator({"i": pa.array(["x"])}, 1, "UTC", first.compiler)
    assert again.compiler is first.compiler
    assert other.compiler is not first.compiler
    assert other.value(parse_condition("concat(i, 'y')")).to_pylist() == ["xy"]


@pytest.mark.parametrize(
    "expression", ["coalesce(i, d)", "greatest(i, 2.5D)", "coalesce(d, 0)", "typeof(i)", "size(a)"]
)
def test_values_of_several_kinds_have_no_vector_form_and_are_a_list(expression: str) -> None:
    columns = {"i": pa.array([1, None, 3]), "d": pa.array([0.5, 1.5, None])}
    parsed = parse_condition(expression)
    assert (vectorize(parsed, {name: column.type for name, column in columns.items()}, "UTC") is None) is (
        expression != "greatest(i, 2.5D)"
    )
    assert not differences(parsed, BatchEvaluator(columns, 3, "UTC"), rows_of(columns, 3), "UTC")


def test_unsigned_integers_are_decimals_where_64_bits_with_a_sign_do_not_hold_them() -> None:
    parsed = parse_condition("n + 1")
    small, large = pa.array([1, None, 2**63 - 1], pa.uint64()), pa.array([1, None, 2**63], pa.uint64())
    assert evaluate(parsed, {"n": small}, 3, "UTC").to_pylist() == [2, None, None]
    assert evaluate(parsed, {"n": large}, 3, "UTC") == [2, None, Decimal(2**63 + 1)]


def test_a_batch_may_be_empty_and_columns_may_be_missing() -> None:
    for expression in ("lower(s)", "i + 1", "year(ts)", "coalesce(missing, 'x')", "missing IS NULL", "d IN (1, 2)"):
        columns = {name: column.slice(0, 0) for name, column in whole_columns(Random(1)).items()}
        assert len(evaluate(parse_condition(expression), columns, 0, "UTC")) == 0
    assert listed(evaluate(parse_condition("coalesce(missing, 'x')"), {}, 2, "UTC")) == ["x", "x"]
    assert listed(evaluate(parse_condition("missing + 1 IS NULL"), {}, 2, "UTC")) == [True, True]


def test_a_text_longer_than_the_limit_is_null() -> None:
    columns = {"s": pa.array(["a" * TEXT_LIMIT, "a" * (TEXT_LIMIT - 1), "é" * (TEXT_LIMIT // 2), None])}
    for expression in ("length(concat(s, 'b'))", "length(replace(s, 'a', 'bb'))", "length(repeat(s, 2))"):
        parsed = parse_condition(expression)
        assert not differences(parsed, BatchEvaluator(columns, 4, "UTC"), rows_of(columns, 4), "UTC")


@pytest.mark.parametrize("data_type", [pa.string(), pa.large_string(), pa.string_view()])
def test_strings_of_a_slice_are_read_from_where_it_begins(data_type: pa.DataType) -> None:
    columns = {"s": pa.array([*"abcdefgh", None, "Ab", None, "", "xyz"], data_type).slice(7)}
    for expression in ("upper(s)", "lower(s)", "substring(s, 2, 1)", "concat(s, '-')", "length(s)", "s LIKE '%b%'"):
        evaluator = BatchEvaluator(columns, 6, "UTC")
        assert not differences(parse_condition(expression), evaluator, rows_of(columns, 6), "UTC")


def test_an_expression_may_nest_deeply() -> None:
    expression: Expression = Attribute("i")
    for _ in range(190):
        expression = Call("+", (expression, Literal(1)))
    assert evaluate(expression, {"i": pa.array([5])}, 1, "UTC").to_pylist() == [195]


def test_a_column_may_be_read_by_whole_event_functions() -> None:
    columns = {"s": pa.array(["abc", "b"]), "r": pa.array(["x", "y"])}
    assert listed(evaluate(parse_condition("any_value_like('%y%')"), columns, 2, "UTC")) == [False, True]


def test_text_that_is_no_utf8_is_refused_by_the_name_of_its_column() -> None:
    column = pa.array([b"abc", b"\xff"]).view(pa.string())
    for expression in ("lower(s)", "length(s)", "coalesce(s, 1)"):
        with pytest.raises(EventError, match="cannot be read"):
            evaluate(parse_condition(expression), {"s": column}, 2, "UTC")


def test_a_literal_that_is_no_utf8_has_no_vector_form() -> None:
    expression = Call("concat", (Attribute("s"), Literal("\ud800")))
    assert vectorize(expression, {"s": pa.string()}, "UTC") is None
    assert evaluate(expression, {"s": pa.array([None, None], pa.string())}, 2, "UTC").to_pylist() == [None, None]
