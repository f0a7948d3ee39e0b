"""Random EventBridge patterns and events against brute force."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, ClassVar

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from palio import Event, Filter, Matcher, ParseError
from tests.languages.eventbridge.oracle import matches
from tests.languages.eventbridge.strategies import events, patterns, scalar_events


def parse(pattern: Any) -> Filter:
    return Filter.parse(pattern, language="eventbridge", strict=False)


@given(patterns(), st.lists(events(), min_size=1, max_size=6))
@settings(max_examples=400)
def test_a_pattern_matches_what_eventbridge_matches(pattern: dict[str, Any], some: list[dict[str, Any]]) -> None:
    wanted = parse(pattern)
    assert [wanted.matches(event) for event in some] == [matches(pattern, event) for event in some]


@given(patterns(), st.lists(scalar_events(), min_size=1, max_size=6))
def test_not_is_whatever_does_not_match(pattern: dict[str, Any], some: list[dict[str, Any]]) -> None:
    wanted = parse(pattern)
    assert [(~wanted).matches(event) for event in some] == [not wanted.matches(event) for event in some]
    assert ~~wanted == wanted


@given(patterns())
def test_text_and_dictionary_are_the_same_pattern(pattern: dict[str, Any]) -> None:
    assert parse(json.dumps(pattern)) == parse(json.dumps(pattern, ensure_ascii=False).encode()) == parse(pattern)


@given(patterns(), scalar_events())
def test_it_prints_as_sql_that_reads_back(pattern: dict[str, Any], event: dict[str, Any]) -> None:
    wanted = parse(pattern)
    for filter_ in (wanted, ~wanted):
        read = Filter.parse(str(filter_))
        assert read == filter_
        assert read.matches(event) is filter_.matches(event)


@given(patterns(), patterns(), scalar_events())
def test_covering_and_overlapping_keep_their_word(
    first: dict[str, Any], second: dict[str, Any], event: dict[str, Any]
) -> None:
    one, two = parse(first), parse(second)
    assert one.covers(one)
    if one.covers(two) and two.matches(event):
        assert one.matches(event)
    if one.matches(event) and two.matches(event):
        assert one.overlaps(two)


@given(st.lists(patterns(), min_size=1, max_size=5), st.lists(events(), min_size=1, max_size=5))
@settings(max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow])
def test_a_matcher_agrees_with_the_patterns_themselves(
    tmp_path: Path, some: list[dict[str, Any]], happened: list[dict[str, Any]]
) -> None:
    wanted = [Filter.parse(each, language="eventbridge", strict=False) for each in some]
    expected = [{str(i) for i, each in enumerate(wanted) if each.matches(event)} for event in happened]
    matcher = Matcher()
    matcher.add_many(map(str, range(len(wanted))), wanted)
    assert [matcher.match(event) for event in happened] == expected
    assert found(matcher.match_batch(happened), len(happened)) == expected
    matcher.save(tmp_path / "wants.palio")
    opened = Matcher.open(tmp_path / "wants.palio")
    assert [opened.match(event) for event in happened] == expected
    assert found(opened.match_batch(happened), len(happened)) == expected


@given(st.lists(patterns(), min_size=1, max_size=5), st.data())
@settings(max_examples=30)
def test_a_matcher_of_arrow_tables_agrees_with_the_patterns_themselves(
    some: list[dict[str, Any]], data: st.DataObject
) -> None:
    texts = st.one_of(st.none(), st.sampled_from(["a", "ab", "10.0.0.1", "", "É"]))
    rows = data.draw(st.integers(1, 4))
    table = pa.table(
        {
            "a": pa.array(data.draw(st.lists(texts, min_size=rows, max_size=rows)), pa.string()),
            "b": pa.array(data.draw(st.lists(st.integers(-3, 3), min_size=rows, max_size=rows)), pa.int64()),
            "c": pa.array(
                data.draw(st.lists(st.lists(st.floats(-3, 3)), min_size=rows, max_size=rows)), pa.list_(pa.float64())
            ),
        }
    )
    wanted = [parse(each) for each in some]
    matcher = Matcher()
    matcher.add_many(map(str, range(len(wanted))), wanted)
    happened = list(Event.from_arrow(table))
    expected = [{str(i) for i, each in enumerate(wanted) if each.matches(event)} for event in happened]
    assert found(matcher.match_batch(table), rows) == expected


def found(table: pa.Table, count: int) -> list[set[str]]:
    matched: list[set[str]] = [set() for _ in range(count)]
    for row, subscription in zip(table["row"].to_pylist(), table["subscription"].to_pylist(), strict=True):
        matched[row].add(subscription)
    return matched


def test_a_matcher_takes_patterns_by_the_name_of_their_language(tmp_path: Path) -> None:
    matcher = Matcher()
    matcher.add("late", {"detail": {"state": [{"anything-but": "ok"}]}}, language="eventbridge")
    matcher.add("text", '{"detail": {"state": ["ok"]}}', language="eventbridge")
    matcher.save(tmp_path / "wants.palio")
    for each in (matcher, Matcher.open(tmp_path / "wants.palio")):
        assert each.match({"detail": {"state": "ok"}}) == {"text"}
        assert each.match({"detail": {"state": None}}) == {"late"}
        assert each.match({"detail": {}}) == set()


class TestFlattenedEvents:
    """The engine of EventBridge flattens pattern and event, so that every grouping of a path's names is one field."""

    PATTERN: ClassVar = {"a": {"b": {"c": [1]}}}
    EVENTS: ClassVar = ({"a": {"b": {"c": 1}}}, {"a": {"b.c": 1}}, {"a.b": {"c": 1}}, {"a.b.c": 1})

    @pytest.mark.parametrize("event", EVENTS)
    def test_every_grouping_of_the_names_is_one_field(self, event: dict[str, Any]) -> None:
        assert Filter.parse(self.PATTERN, "eventbridge", flattened=True).matches(event)

    def test_without_the_option_steps_are_steps(self) -> None:
        wanted = Filter.parse(self.PATTERN, "eventbridge")
        assert [wanted.matches(event) for event in self.EVENTS] == [True, False, False, False]

    @pytest.mark.parametrize("event", EVENTS)
    def test_a_field_is_absent_only_if_it_is_under_every_grouping(self, event: dict[str, Any]) -> None:
        absent = Filter.parse({"a": {"b": {"c": [{"exists": False}]}}}, "eventbridge", flattened=True)
        assert absent.matches({"a": {"b": {"d": 1}}})
        assert not absent.matches(event)

    def test_too_many_steps_are_refused(self) -> None:
        pattern: Any = ["x"]
        for _ in range(7):
            pattern = {"a": pattern}
        with pytest.raises(ParseError, match="more than 5 steps and dots"):
            Filter.parse(pattern, "eventbridge", flattened=True)
