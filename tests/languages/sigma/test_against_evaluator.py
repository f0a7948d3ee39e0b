"""A rule's filter fires where the rule does, as worked out the slow way; in every form in which it can be asked."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
from hypothesis import example, given, settings
from hypothesis import strategies as st

from palio import Filter, Matcher
from tests.languages.sigma.evaluator import fires
from tests.languages.sigma.generate import events, nested, rules, tables


def parse(rule: dict[str, Any]) -> Filter:
    return Filter.parse(rule, language="sigma")


@given(rules(), st.lists(events(), min_size=1, max_size=8))
@example({"detection": {"a": {"Image": "*"}, "condition": "not a"}}, [{}, {"Image": None}, {"Image": 5}])
@example({"detection": {"a": {"Port": "1*"}, "condition": "not a"}}, [{"Port": 10}, {"Port": "10"}, {"Port": True}])
def test_a_filter_fires_where_its_rule_does(rule: dict[str, Any], several: list[dict[str, Any]]) -> None:
    wanted = parse(rule)
    for event in several:
        fired = fires(rule, event)
        for happened in (nested(event), nested(event, dotted=True)):
            assert wanted.matches(happened) is fired
            assert (~wanted).matches(happened) is not fired


@given(rules(), events(arrays=True))
def test_an_event_with_arrays_is_as_many_events_as_there_are_choices(
    rule: dict[str, Any], event: dict[str, Any]
) -> None:
    wanted = parse(rule)
    if not wanted.reads_whole_event:  # a search looks at all elements, whichever is chosen
        assert wanted.matches(nested(event)) is fires(rule, event)


@given(rules())
def test_a_filter_is_written_as_sql_that_reads_back_as_the_same(rule: dict[str, Any]) -> None:
    wanted = parse(rule)
    assert Filter.parse(str(wanted)) == wanted
    assert Filter.parse(str(~wanted)) == ~wanted


@settings(max_examples=40)
@given(st.lists(rules(), min_size=1, max_size=12), st.lists(events(arrays=True), min_size=1, max_size=12))
def test_the_index_answers_as_the_filters_do(several: list[dict[str, Any]], happened: list[dict[str, Any]]) -> None:
    wants = Matcher()
    wants.add_many([str(number) for number in range(len(several))], several, language="sigma")
    filters = {str(number): parse(rule) for number, rule in enumerate(several)}
    rows = [nested(event) for event in happened]
    expected = [{id for id, wanted in filters.items() if wanted.matches(row)} for row in rows]
    assert [wants.match(row) for row in rows] == expected
    assert by_row(wants.match_batch(rows), len(rows)) == expected
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "wants.palio"
        wants.save(path)
        assert by_row(Matcher.open(path).match_batch(rows), len(rows)) == expected


@settings(max_examples=40)
@given(st.lists(rules(), min_size=1, max_size=12), tables())
def test_the_index_answers_for_columns_as_for_rows(
    several: list[dict[str, Any]], happened: list[dict[str, Any]]
) -> None:
    wants = Matcher()
    wants.add_many([str(number) for number in range(len(several))], several, language="sigma")
    strings, integers = pa.string(), pa.int64()
    types = {"Image": strings, "CommandLine": pa.large_string(), "Port": integers, "Other": strings}
    table = pa.table({name: pa.array([row[name] for row in happened], kind) for name, kind in types.items()})
    expected = [wants.match(row) for row in happened]
    for _ in range(2):  # what was found out about the values is remembered
        assert by_row(wants.match_batch(table), len(happened)) == expected
    encoded = table.set_column(0, "Image", table["Image"].dictionary_encode())
    assert by_row(wants.match_batch(encoded), len(happened)) == expected
    assert by_row(wants.match_batch(table.slice(1)), len(happened) - 1) == expected[1:]


def by_row(found: pa.Table, count: int) -> list[set[str]]:
    rows: list[set[str]] = [set() for _ in range(count)]
    for row, id in zip(found["row"].to_pylist(), found["subscription"].to_pylist(), strict=True):
        assert id not in rows[row]
        rows[row].add(id)
    return rows
