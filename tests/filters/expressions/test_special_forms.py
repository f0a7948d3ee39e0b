"""Tests of expression values, by the rules of docs/functions.md."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.filters.expressions.ast import Attribute, Call, Literal
from palio.filters.expressions.special_forms import compile_expression
from palio.filters.expressions.static_analysis import required_attributes
from palio.filters.expressions.validation import DEPTH_LIMIT, refusal
from palio.languages.sql.parser import parse_condition
from tests.filters.expressions.generator import FORMS, Generator
from tests.filters.expressions.samples import POOLS

ATTRIBUTES = {name: pool for name, pool in POOLS.items() if not isinstance(pool[0], tuple)}
ARRAYS = {name: pool for name, pool in POOLS.items() if name not in ATTRIBUTES}
EVERYTHING = [value for pool in ATTRIBUTES.values() for value in pool]


def value(sql: str, timezone: str = "UTC", **event: Any) -> Any:
    arrays = {name: held for name, held in event.items() if isinstance(held, tuple)}
    scalars = {name: held for name, held in event.items() if name not in arrays}
    return compile_expression(parse_condition(sql, timezone=timezone), timezone)(scalars, arrays)


@pytest.mark.parametrize(
    ("sql", "event", "expected"),
    [
        ("x AND y", {"x": False}, False),
        ("x AND y", {"x": True}, None),
        ("x OR y", {"x": True}, True),
        ("x OR y", {"x": False}, None),
        ("NOT x", {}, None),
        ("x AND y", {"x": "true", "y": True}, None),  # a string of an event is no condition
        ("'yes' AND y", {"y": True}, True),  # a literal is
        ("x <=> y", {}, True),
        ("x <=> y", {"x": 1}, False),
        ("x <=> 'a'", {"x": 1}, False),
        ("x IS TRUE", {}, False),
        ("x BETWEEN 1 AND y", {"x": 0}, False),
        ("x BETWEEN 1 AND y", {"x": 5}, None),
        ("x IN (1, NULL)", {"x": 1}, True),
        ("x IN (1, NULL)", {"x": 2}, None),
        ("x NOT IN (1, 2)", {"x": 3}, True),
    ],
)
def test_logic_has_three_values(sql: str, event: dict[str, Any], expected: bool | None) -> None:
    assert value(sql, **event) is expected


@pytest.mark.parametrize(
    ("sql", "x", "expected"),
    [
        ("x = 0.1", 0.1, True),
        ("x = 0.1", Decimal("0.10"), True),
        ("x > 0.1", 0.1, False),
        ("x = 9007199254740992D", 2**53 + 1, True),  # an integer that meets a double is rounded to one
        ("x IN (9007199254740992, 2.5D)", 2**53 + 1, True),  # even beside an integer
        ("x IN (9007199254740992, 2.5)", 2**53 + 1, False),
        ("x = 9007199254740992", 2**53 + 1, False),
        ("x = double('NaN')", math.nan, True),
        ("x > 1e308D", math.nan, True),
        ("x = 0D", -0.0, True),
        ("x > '9'", 10, True),
        ("x > '9'", "10", False),
        ("x > 9", "10", None),
        ("x = '5.0'", 5, None),  # no whole number
        ("x = '5.0'", Decimal(5), True),
        ("x = 'yes'", True, True),
        ("x = '2024-02-29 10:00'", date(2024, 2, 29), True),
        ("x = '2024-02-29'", datetime(2024, 2, 29, tzinfo=UTC), True),
        ("x = 'a'", b"a", None),
        ("x = TRUE", 1, None),
        ("x < DATE'2024-03-01'", datetime(2024, 2, 29, 23, tzinfo=UTC), True),
        ("x < DATE'2024-03-01'", datetime(2024, 2, 29, 23), True),  # without a zone it is taken as UTC
        ("x < DATE'2024-03-01'", "2024-01-01", None),
        ("x = X'FF'", b"\xff", True),
        ("x > 'a\\uFFFF'", "a\U0001f600", True),  # by code point, not by UTF-16
    ],
)
def test_values_compare_as_spark_compares_them(sql: str, x: Any, expected: bool | None) -> None:
    assert value(sql, x=x) is expected


def test_a_day_begins_at_midnight_in_the_zone_of_the_condition() -> None:
    moment = datetime(2024, 3, 1, 4, 30, tzinfo=UTC)
    assert value("x < DATE'2024-03-01'", "America/New_York", x=moment) is True
    assert value("hour(x)", "America/New_York", x=moment) == 23
    assert value("hour(x)", "Asia/Kathmandu", x=moment) == 10


@pytest.mark.parametrize(
    ("sql", "event", "expected"),
    [
        ("x + 1", {"x": 2**63 - 1}, None),
        ("x * 2", {"x": -(2**63)}, None),
        ("- x", {"x": -(2**63)}, None),
        ("floor(x)", {"x": 2.0**63}, None),
        ("ceil(x)", {"x": -(2.0**63)}, -(2**63)),
        ("unix_date(x + INTERVAL '1' DAY)", {"x": date(1970, 1, 1)}, 1),
        ("x + INTERVAL '24' HOUR", {"x": date(1970, 1, 1)}, datetime(1970, 1, 2, tzinfo=UTC)),
        ("x + 0.1", {"x": 1}, Decimal("1.1")),
        ("x + 0.1", {"x": 1.0}, 1.1),
        ("x * y", {"x": Decimal("9" * 30), "y": Decimal("9" * 30)}, None),
        ("x / y", {"x": 1, "y": 0}, None),
        ("x / 2D", {"x": Decimal(1)}, 0.5),
        ("x % y", {"x": -7, "y": 3}, -1),
        ("pmod(x, y)", {"x": -(2**31), "y": -(2**63)}, 2**63 - 2**31),
        ("conv(x, 36, 10)", {"x": "ß"}, "0"),
        ("x + 1", {"x": "41"}, 42),
        ("x + 1", {"x": "4.1"}, None),
        ("x + 1", {"x": True}, None),
        ("CAST(x AS TINYINT)", {"x": 128}, None),
        ("CAST(x AS INT)", {"x": "abc"}, None),
        ("coalesce(CAST(x AS INT), 7)", {"x": "abc"}, 7),
        ("coalesce(x / 0, 1D)", {"x": 1}, 1.0),
        ("date_add(x, 10)", {"x": date(9999, 12, 31)}, None),
        ("hour(x)", {"x": datetime(1, 1, 1, tzinfo=UTC)}, 0),
        ("repeat(x, 2000000)", {"x": "a"}, None),
        ("lpad(x, 2000000)", {"x": "a"}, None),
        ("replace(x, 'a', repeat('b', 1000))", {"x": "a" * 2000}, None),
        ("split_part(x, ',', 0)", {"x": "a,b"}, None),
        ("x LIKE y", {"x": "a", "y": "\\"}, None),  # a pattern that ends in its escape
        ("upper(x)", {"x": (1, 2)}, None),
        ("upper(x)", {"x": True}, "TRUE"),
    ],
)
def test_what_spark_would_raise_is_null(sql: str, event: dict[str, Any], expected: Any) -> None:
    computed = value(sql, **event)
    assert (type(computed), computed) == (type(expected), expected)


@pytest.mark.parametrize(
    ("sql", "event", "expected"),
    [
        ("coalesce(x, 0.5D)", {"x": 1}, 1.0),
        ("coalesce(x, 0.5)", {"x": 1}, Decimal("1.0")),
        ("coalesce(x, y)", {"x": 1, "y": 2.0}, 1.0),
        ("coalesce(x, y)", {"x": 1}, 1),
        ("coalesce(x, y)", {"x": 1, "y": True}, None),
        ("coalesce(x, '7')", {"x": 1}, 1),
        ("if(x, 1, 2.5)", {"x": True}, Decimal("1.0")),
        ("CASE WHEN x > 1 THEN 'a' END", {"x": 0}, None),
        ("greatest(x, 2)", {"x": 2.5}, 2.5),
        ("greatest(x, 3)", {"x": 2.5}, 3.0),
        ("greatest(x, 'a')", {"x": 2.5}, None),
        ("nullif(x, '1')", {"x": 1}, None),
        ("nvl2(x, 1, 2D)", {}, 2.0),
    ],
)
def test_what_is_chosen_has_the_type_it_shares_with_the_rest(sql: str, event: dict[str, Any], expected: Any) -> None:
    computed = value(sql, **event)
    assert (type(computed), str(computed)) == (type(expected), str(expected))


@pytest.mark.parametrize(
    ("sql", "x", "expected"),
    [
        ("array_contains(x, 2)", (1, 2, None), True),
        ("array_contains(x, 3)", (1, 2, None), None),
        ("array_contains(x, 3)", (1, 2), False),
        ("array_contains(x, 2.0D)", (1, 2), True),
        ("array_contains(x, double('NaN'))", (math.nan,), True),
        ("array_contains(x, '1')", (1, 2), None),
        ("array_contains(x, CAST(NULL AS INT))", (1, 2), None),
        ("size(x)", (1, None), 2),
    ],
)
def test_array_functions_see_the_whole_array(sql: str, x: Any, expected: Any) -> None:
    assert value(sql, x=x) is expected


def test_array_functions_of_an_attribute_that_is_no_array_are_null() -> None:
    assert value("size(x)", x=1) is None
    assert value("array_contains(x, 1)") is None


@given(
    name=st.sampled_from(sorted(FORMS)),
    seed=st.integers(0, 2**32),
    event=st.fixed_dictionaries({}, optional={name: st.sampled_from(EVERYTHING) for name in ATTRIBUTES}),
    zone=st.sampled_from(["UTC", "Asia/Kathmandu", "America/Sao_Paulo"]),
)
def test_no_event_whatever_its_kinds_makes_an_expression_raise(
    name: str, seed: int, event: dict[str, Any], zone: str
) -> None:
    sql = Generator(seed).call(name, 3)
    run = compile_expression(parse_condition(sql, timezone=zone), zone)
    run(event, {})
    run({}, ARRAYS)  # type: ignore[arg-type]


@pytest.mark.parametrize("function", ["+", "greatest", "coalesce", "concat_ws", "substring", "if", "nullif"])
def test_an_expression_as_deep_as_is_accepted_is_computed(function: str) -> None:
    first = (Literal(True),) if function == "if" else ()
    expression: Any = Attribute("x")
    for _ in range(DEPTH_LIMIT):
        expression = Call(function, (*first, expression, Literal(1)))
    assert refusal(expression) is None
    required_attributes(expression)
    compile_expression(expression)({"x": 1}, {})


def test_a_zone_that_is_none_is_an_error() -> None:
    with pytest.raises(ValueError, match="Atlantis"):
        compile_expression(Attribute("x"), "Ocean/Atlantis")


@pytest.mark.parametrize(
    ("sql", "event", "value"),
    [
        ("x / 3", {"x": Decimal("12.50")}, "4.166667"),
        ("x / 0.5", {"x": 3}, "6.000000"),
        ("x / 7", {"x": Decimal("1.000000000")}, "0.14285714286"),
        ("x / y", {"x": Decimal("1.00"), "y": 3}, "0.33333333333333333333333"),  # as by a BIGINT
        ("x / y", {"x": Decimal("1.00"), "y": Decimal("3.00")}, "0.33333333333333333333333333333333333"),
        ("x / -2", {"x": Decimal("0.00")}, "0.000000"),
        ("x / y * 1.19", {"x": Decimal("1.00"), "y": Decimal("4.00")}, "0.2975"),
        ("x * x", {"x": Decimal(f"1.{'1' * 30}")}, "1.2345679012345679012345679012343209877"),
        ("x + y", {"x": Decimal(10**30), "y": Decimal(f"0.{'6' * 20}")}, f"1{'0' * 30}.6666667"),
    ],
)
def test_decimals_are_computed_in_38_digits(sql: str, event: dict[str, Any], value: str) -> None:
    computed = compile_expression(parse_condition(sql))(event, {})
    assert isinstance(computed, Decimal)
    assert computed == Decimal(value)


@pytest.mark.parametrize(
    ("sql", "event"),
    [
        ("x / y", {"x": Decimal("1.00"), "y": Decimal("0.00")}),
        ("x / y", {"x": Decimal(10**37), "y": Decimal("0.01")}),
        ("x * x", {"x": Decimal(10**30)}),
        ("x + x", {"x": Decimal(10**38 - 1)}),
    ],
)
def test_what_38_digits_do_not_hold_is_null(sql: str, event: dict[str, Any]) -> None:
    assert compile_expression(parse_condition(sql))(event, {}) is None
