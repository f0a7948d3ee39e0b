"""Does an explanation agree with the match, condition by condition?"""

from __future__ import annotations

import json
from typing import Any

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
    assert found.condition == str(wanted)
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
        "venue IN ('X', 'Y')",
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
    assert found.as_dict() == {"condition": "a = 1", "matched": False, "values": {"a": "[null, true, 'x']"}}
