"""Sets that have integers and no other numbers, and tests that only strings can pass."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palio import Filter, Matcher
from palio.filters.kinds import Kind
from palio.filters.tree import Leaf, leaves
from palio.filters.value_predicates import Test
from palio.matching.columnar.conditions import ConditionsBuilder, SetMembership
from palio.matching.columnar.patterns import AttributeTests

CONDITIONS = [
    "typeof(x) = 'bigint'",
    "typeof(x) = 'bigint' AND x < 5",
    "typeof(x) = 'bigint' AND x >= 5 AND x < 9 OR x = 'a'",
    "typeof(x) = 'bigint' AND x = 5 OR x",
    "typeof(x) = 'bigint' AND x <> 5",
    "typeof(x) = 'bigint' AND x < 5 OR x IS NULL",
    "typeof(x) = 'decimal' AND x < 5",
    "typeof(x) = 'bigint' AND x < 5 AND y > 2",
]
VALUES = [5, 4, 7, -(2**63), 2**63 - 1, 5.0, 4.0, Decimal("4"), Decimal("4.5"), "a", "5", True, False, None, b"x"]


def matched(matcher: Matcher, events: list[dict[str, Any]]) -> set[tuple[int, str]]:
    batch = matcher.match_batch(events)
    return set(zip(batch["row"].to_pylist(), batch["subscription"].to_pylist(), strict=True))


@settings(max_examples=30)
@given(
    st.lists(st.one_of(st.sampled_from(VALUES), st.lists(st.sampled_from(VALUES), max_size=3)), min_size=1, max_size=6)
)
def test_integers_alone_are_found(values: list[Any]) -> None:
    matcher = Matcher()
    matcher.add_many(CONDITIONS, CONDITIONS)
    events = [{}, *({"x": value, "y": 3} for value in values)]
    expected = {
        (row, condition)
        for row, event in enumerate(events)
        for condition in CONDITIONS
        if Filter.parse(condition).matches(event)
    }
    assert {(row, id) for row, event in enumerate(events) for id in matcher.match(event)} == expected
    assert matched(matcher, events) == expected


def test_they_are_found_after_they_were_saved(tmp_path: Path) -> None:
    matcher = Matcher()
    matcher.add_many(CONDITIONS, CONDITIONS)
    matcher.save(tmp_path / "integers.palio")
    opened = Matcher.open(tmp_path / "integers.palio")
    events = [{"x": value, "y": value} for value in VALUES]
    assert matched(opened, events) == matched(matcher, events)


def test_conditions_on_integers_alone_share_one_test() -> None:
    builder = ConditionsBuilder()
    for number in range(100):
        builder.add(number, Filter.parse(f"typeof(x) = 'bigint' AND x < {number}").tree)
    attributes, tests = builder.keys
    assert attributes == ["x"]
    assert [type(test) for _, test in tests] == [SetMembership]


@pytest.mark.parametrize("value", [5, 2.5, True, b"x", Decimal("5")])
def test_what_only_strings_can_pass_is_evaluated_on_strings_alone(value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    (leaf,) = leaves(Filter.parse("cesql_int(x) < 7").tree)
    assert isinstance(leaf, Leaf)
    (test,) = leaf.values.tests
    assert not test.applies_to(Kind.INTEGER)
    tests = AttributeTests([(1, test)])
    assert tests.codes("5") == (1,)
    monkeypatch.setattr(Test, "passes", lambda *_: pytest.fail("it was evaluated"))
    assert tests.codes(value) == ()
