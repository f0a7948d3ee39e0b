"""A selector is a subscription like any other: matched, saved, covered, explained and printed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palio import Filter, Matcher
from palio.languages.jms import condition
from tests.languages.jms.selectors import messages, selectors
from tests.strategies import choices


def jms(selector: str) -> Filter:
    return Filter.parse(selector, language="jms")


@settings(max_examples=30)
@given(st.lists(selectors(depth=2), min_size=1, max_size=8, unique=True), st.lists(messages(), min_size=1, max_size=4))
def test_a_matcher_agrees_with_the_filters(texts: list[str], events: list[dict[str, Any]]) -> None:
    matcher = Matcher()
    matcher.add_many([str(number) for number in range(len(texts))], texts, language="jms")
    wanted = [[str(n) for n, text in enumerate(texts) if jms(text).matches(event)] for event in events]
    assert [sorted(matcher.match(event), key=int) for event in events] == wanted
    rows = matcher.match_batch(events)
    found: list[list[str]] = [[] for _ in events]
    for row, name in zip(rows["row"].to_pylist(), rows["subscription"].to_pylist(), strict=True):
        found[row].append(name)
    assert [sorted(each, key=int) for each in found] == wanted


@settings(max_examples=20)
@given(
    selectors(depth=2),
    st.dictionaries(st.sampled_from(["a", "b"]), st.lists(st.sampled_from([1, 5, "a", None, True]), min_size=1)),
)
def test_of_arrays_one_element_each_is_chosen(selector: str, event: dict[str, Any]) -> None:
    asked = condition(selector)
    expected = any(asked(each) is True for each in choices({name: tuple(values) for name, values in event.items()}))
    assert jms(selector).matches(event) is expected


SUBSCRIPTIONS = {
    "urgent": "JMSPriority >= 5 AND region IN ('EU', 'UK') AND NOT test",
    "profit": "price - cost > 10",
    "not red": "NOT color LIKE 'red%'",
    "unlike": "NOT (price > 100)",
}
EVENTS: list[dict[str, Any]] = [
    {"JMSPriority": 7, "region": "UK", "test": False, "price": 20, "cost": 5},
    {"JMSPriority": 7, "region": "UK", "price": 20.5, "cost": 15, "color": "red-ish"},
    {"JMSPriority": 4, "region": "UK", "test": False, "price": 120, "color": "blue"},
]
FIRED = [{"urgent", "profit", "unlike"}, {"unlike"}, {"not red"}]


def test_selectors_are_saved_and_opened(tmp_path: Path) -> None:
    matcher = Matcher()
    matcher.add_many(list(SUBSCRIPTIONS), list(SUBSCRIPTIONS.values()), language="jms")
    matcher.save(tmp_path / "selectors.palio")
    opened = Matcher.open(tmp_path / "selectors.palio")
    for each in (matcher, opened):
        assert [set(each.match(event)) for event in EVENTS] == FIRED


def test_a_table_is_matched_by_its_columns() -> None:
    matcher = Matcher()
    matcher.add_many(list(SUBSCRIPTIONS), list(SUBSCRIPTIONS.values()), language="jms")
    table = pa.Table.from_pylist(
        [{"price": 20, "cost": 5, "color": None}, {"price": 120, "cost": 120, "color": "blue"}],
        schema=pa.schema([("price", pa.int64()), ("cost", pa.int32()), ("color", pa.string())]),
    )
    rows = matcher.match_batch(table)
    found = set(zip(rows["row"].to_pylist(), rows["subscription"].to_pylist(), strict=True))
    assert found == {(0, "profit"), (0, "unlike"), (1, "not red")}


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("a > 5", "a > 6"),
        ("a > 5", "a BETWEEN 6 AND 7 AND b = 'x'"),
        ("a <> 'x'", "a IN ('y', 'z')"),
        ("NOT a = 'x'", "a <> 'x'"),
        ("NOT a = 'x'", "a > 5"),
        ("a IS NOT NULL", "a LIKE 'x%'"),
        ("a LIKE 'x%'", "a LIKE 'xy%'"),
        ("a IS NOT NULL", "NOT a"),
        ("a + b > 1", "b > 0 AND a+b>1"),
        ("a IS NOT NULL", "a + b > 1"),
    ],
)
def test_a_wider_selector_covers_a_narrower_one(wide: str, narrow: str) -> None:
    assert jms(wide).covers(jms(narrow))
    assert not jms(narrow).covers(jms(wide))
    assert jms(wide).overlaps(jms(narrow))


def test_what_excludes_another_does_not_overlap_it() -> None:
    assert not jms("a > 5").overlaps(jms("a <= 5"))
    assert not jms("a > 5").overlaps(jms("a = 'x'"))
    assert not jms("a > 5").overlaps(jms("NOT a > 5"))


@pytest.mark.parametrize(
    ("one", "two"),
    [
        ("a = 16 AND b = 'x'", "b = 'x' and 0x10 = a"),
        ("a BETWEEN 1 AND 2", "a >= 1 AND a <= 2"),
        ("a IN ('x', 'y')", "a = 'y' OR a = 'x'"),
        ("NOT (a = 1 OR b)", "NOT a = 1 AND NOT b"),
        ("a + 1>b", "a+1 > b"),
        ("(a > 1) = FALSE", "NOT a > 1"),
        ("a > 2 * 3", "a > 6"),
        ("a = 1 / 0", "FALSE"),
        ("a = a OR TRUE", ""),
    ],
)
def test_selectors_that_say_the_same_are_equal(one: str, two: str) -> None:
    assert jms(one) == jms(two)
    assert hash(jms(one)) == hash(jms(two))


@pytest.mark.parametrize(
    ("selector", "sql"),
    [
        ("a > 5 AND b = 'x'", "a > 5 AND b = 'x'"),
        ("NOT a > 5", "a IS NOT NULL AND (a > 5) IS NOT TRUE"),
        ("a", "a"),
        ("a LIKE 'x!_%z' ESCAPE '!'", "a LIKE 'x\\\\_%z'"),
        ("$a = 1 AND \"x-y\" IS NULL", "`$a` = 1 AND `x-y` IS NULL"),
        ("a*2 > b", "a IS NOT NULL AND b IS NOT NULL AND condition_in('jms', 'a * 2 > b')"),
        ("a BETWEEN 1 AND b", "a >= 1 AND b IS NOT NULL AND condition_in('jms', 'a <= b')"),
        ("a IN ('x', b)", "a IS NOT NULL AND b IS NOT NULL AND condition_in('jms', 'a = b') OR a = 'x'"),
        ("a NOT IN ('x', b)", "condition_in('jms', 'a NOT IN (''x'', b)')"),
    ],
)  # fmt: skip
def test_a_selector_prints_as_sql(selector: str, sql: str) -> None:
    assert str(jms(selector)) == sql or str(jms(selector)).replace("\\'", "''") == sql
    assert Filter.parse(str(jms(selector))) == jms(selector)


def test_an_explanation_names_what_failed() -> None:
    explanation = jms("region = 'EU' AND price - cost > 10").explain({"region": "EU", "price": 20, "cost": 15})
    assert "✓ region = 'EU'" in str(explanation)
    assert "✗ condition_in('jms', 'price - cost > 10')" in str(explanation)


def test_a_condition_knows_what_it_looks_at() -> None:
    asked = condition('a + 1 > b AND NOT "c-d"')
    assert asked.attributes == {"a", "b", "c-d"}
    assert asked({"a": 1, "b": 1, "c-d": False}) is True
    assert asked({"a": 1, "b": 1}) is None
    assert asked({"a": 0, "b": 1, "c-d": None}) is False
