"""Tests of explanations: they agree with the match, condition by condition."""

from __future__ import annotations

import json
from datetime import date
from decimal import Decimal
from re import escape, fullmatch
from typing import Any

import pytest
from hypothesis import given

from palio.filters.explanation import Explanation
from palio.filters.filter import Filter
from tests.strategies import attributes, filters, scalar_attributes

parse = Filter.parse


@given(filters(), attributes())
def test_it_says_of_the_whole_what_matching_says(wanted: Filter, event: dict[str, Any]) -> None:
    from palio.events import Event

    made = Event(event)
    found = wanted.explain(made)
    assert found.matched is bool(found) is wanted.matches(made)
    assert parse(found.condition).matches(made) is found.matched
    assert bool(found.failed()) is not found.matched or not found.parts
    assert json.dumps(found.as_dict())
    assert str(found).startswith("✓" if found.matched else "✗")


@given(filters(arrays=False), scalar_attributes())
def test_each_part_is_judged_as_a_filter_of_its_own(wanted: Filter, event: dict[str, Any]) -> None:
    from palio.events import Event

    made = Event(event)

    def check(found: Explanation) -> None:
        assert found.matched is parse(found.condition).matches(made)
        if found.operator == "AND":
            assert found.matched is all(part.matched for part in found.parts)
        elif found.operator == "OR":
            assert found.matched is any(part.matched for part in found.parts)
        for part in found.parts:
            check(part)

    check(wanted.explain(made))


def test_it_names_the_conditions_to_blame_and_the_values_they_saw() -> None:
    wanted = parse("symbol = 'ACME' AND price > 100 AND (venue = 'X' OR venue = 'Y' OR size > 10)")
    found = wanted.explain({"symbol": "ACME", "price": 90, "venue": "Z"})
    assert {blamed.condition for blamed in found.failed()} == {
        "price > 100",
        "venue = 'X'",
        "venue = 'Y'",
        "size > 10",
    }
    assert all(part.values == {"price": 90} for part in found.failed() if "price" in part.condition)
    text = str(found)
    assert "✗ price > 100   (price is 90)" in text
    assert "✓ symbol = 'ACME'" in text
    assert "size is missing" in text


def test_a_condition_under_or_may_fail_though_the_whole_matched() -> None:
    found = parse("a = 1 OR b = 2").explain({"b": 2, "c": None})
    assert found.matched
    assert found.failed() == []
    assert [part.matched for part in found.parts] == [False, True]


def test_everything_and_nothing_are_explained_too() -> None:
    assert parse("TRUE").explain({}).matched
    assert not parse("FALSE").explain({}).matched
    assert str(parse("FALSE").explain({})) == "✗ FALSE"


def test_values_are_shown_as_json_would() -> None:
    found = parse("a = 1").explain({"a": [None, True, "x"]})
    assert str(found) == "✗ a = 1   (a is [null, true, 'x'])"
    assert found.as_dict() == {
        "condition": "a = 1",
        "matched": False,
        "values": {"a": [None, True, "x"]},
        "missing": [],
    }


def test_programs_get_values_as_json_has_them_and_which_are_missing() -> None:
    found = parse("a > b AND c = 1 AND d IS NOT NULL").explain(
        {"a": Decimal("1.50"), "b": date(2024, 2, 29), "d": None}
    )
    compared, absent, null = (part.as_dict() for part in found.parts)
    assert (compared["values"], compared["missing"]) == ({"a": 1.5, "b": "2024-02-29"}, [])
    assert (absent["values"], absent["missing"]) == ({}, ["c"])
    assert (null["values"], null["missing"]) == ({"d": None}, [])


def test_it_shows_what_was_written_each_condition_once_and_in_its_place() -> None:
    wanted = parse("NOT (a > 5 OR b LIKE 'x%') AND c.d IS NULL AND (e = 1 OR f + g > 3)")
    assert str(wanted.explain({"a": 3, "b": "xy", "e": 2, "f": 1, "g": 1})).splitlines() == [
        "✗ all of",
        "  ✓ a <= 5   (a is 3)",
        "  ✗ b NOT LIKE 'x%'   (b is 'xy')",
        "  ✓ c.d IS NULL   (c.d is missing)",
        "  ✗ some of",
        "    ✗ e = 1   (e is 2)",
        "    ✗ (f + g) > 3   (f is 1, g is 1)",
    ]


@pytest.mark.parametrize(
    ("condition", "conditions"),
    [
        ("z = 1 AND a = 2", ["z = 1", "a = 2"]),
        ("x BETWEEN 1 AND 5 AND y = 1", ["x BETWEEN 1 AND 5", "y = 1"]),
        ("x NOT BETWEEN 1 AND 5 AND y = 1", ["x < 1 OR x > 5", "y = 1"]),
        ("x > 5 AND x < 3", ["x > 5", "x < 3"]),
        ("x > 1 AND (y = 1 AND z = 2)", ["x > 1", "y = 1", "z = 2"]),
        ("x = 1 AND x = 1 AND y = 1", ["x = 1", "y = 1"]),
        ("f IS NOT NULL AND f < g", ["f IS NOT NULL", "f < g"]),
        ("a < b AND (c < d)", ["a < b", "c < d"]),
    ],
)
def test_a_condition_is_what_was_written_as_one(condition: str, conditions: list[str]) -> None:
    for _ in range(3):  # at first sight, and once its skeleton is known
        assert [part.condition for part in parse(condition).explain({}).parts] == conditions


def test_times_are_shown_on_the_clocks_of_the_filter() -> None:
    wanted = parse("hour(t) = 3 AND x = 1", timezone="Asia/Tokyo")
    assert [part.condition for part in wanted.explain({}).parts] == ["hour(t) = 3", "x = 1"]


@pytest.mark.parametrize(
    ("condition", "event", "hint"),
    [
        ("x > 5", {"x": "10"}, "x is a string, and the condition asks about numbers; write CAST(x AS INT) > 5"),
        ("x > 5", {"x": "1.5"}, "x is a string, and the condition asks about numbers; write CAST(x AS DOUBLE) > 5"),
        ("x > 5", {"x": "3000000000"}, "…; write CAST(x AS BIGINT) > 5"),
        ("x > 5", {"x": ["10", "11"]}, "…; write CAST(x AS INT) > 5"),
        ("x > 5", {"x": "many"}, "x is a string, and the condition asks about numbers"),
        ("x > 5", {"x": True}, "x is a boolean, and …; write CAST(x AS INT) > 5"),
        ("x LIKE 'a%'", {"x": 5}, "x is an integer, and …strings; write CAST(x AS STRING) LIKE 'a%'"),
        ("`x y` = 'a'", {"x y": 5}, "…; write CAST(`x y` AS STRING) = 'a'"),
        (
            "t = DATE'2024-02-29'",
            {"t": "2024-02-29"},
            "…about dates and timestamps; write CAST(t AS DATE) = …",
        ),
        ("flag", {"flag": "yes"}, "…booleans; write CAST(flag AS BOOLEAN)"),
        ("x = X'00'", {"x": "a"}, "x is a string, and the condition asks about binary values"),
        ("a < b", {"a": "1", "b": 2}, "a is a string and b is an integer; CAST brings one to the other"),
        ("d > DATE'2024-01-01'", {"d": "2024-05-01"}, "d is a string, …; write CAST(d AS DATE) > DATE'2024-01-01'"),
        ("a LIKE 'x%' OR a < 0", {"a": True}, "a is a boolean, and the condition asks about numbers and strings"),
    ],
)
def test_it_says_why_unlike_kinds_fail_and_what_to_write(condition: str, event: dict[str, Any], hint: str) -> None:
    found = parse(condition).explain(event)
    assert found.hint is not None
    assert fullmatch(".*".join(map(escape, hint.split("…"))), found.hint)
    assert found.as_dict()["hint"] == found.hint
    assert found.hint in str(found)


@given(filters(arrays=False), scalar_attributes())
def test_what_it_says_to_write_can_be_read_and_asks_the_same_attributes(wanted: Filter, event: dict[str, Any]) -> None:
    from palio.events import Event

    for leaf in wanted.explain(Event(event)).failed():
        if leaf.hint and "; write " in leaf.hint:
            assert parse(leaf.hint.split("; write ")[1]).attributes == frozenset(leaf.values)


@pytest.mark.parametrize(
    ("condition", "event"),
    [
        ("x > 5", {"x": 3}),
        ("x > 5", {}),
        ("x > 5", {"x": None}),
        ("x = '10'", {"x": "11"}),
        ("a < b", {"a": 2.5, "b": 1}),
    ],
)
def test_values_that_could_satisfy_a_condition_need_no_hint(condition: str, event: dict[str, Any]) -> None:
    assert parse(condition).explain(event).hint is None
