"""Functions of whole arrays, which see an empty array as what it is, however an event is matched.

The answers are Spark's for the same arrays; `tests/spark/match_job/test_nested_oracle.py` and `tests/oracles` ask Spark
itself. Conditions that choose an element find none in an empty array: to them the attribute is missing.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.events import Event
from palio.filters.filter import Filter
from palio.matching.matcher import Matcher
from palio.routing import codec
from tests.matching.suite import MATCHERS, Make, filled, ids_by_row

ANSWERS: list[tuple[str, dict[str, Any], bool | None]] = [
    ("size(x) = 0", {"x": []}, True),
    ("cardinality(x) = 0", {"x": []}, True),
    ("array_size(x) > 0", {"x": []}, False),
    ("size(x) = 0", {"x": None}, None),
    ("size(x) = 0", {}, None),
    ("size(x) = 0", {"x": 5}, None),
    ("array_contains(x, 5)", {"x": []}, False),
    ("array_contains(x, 5)", {"x": None}, None),
    ("array_contains(x, y)", {"x": []}, None),
    ("array_contains(x, y)", {"x": [], "y": 5}, False),
    ("element_at(x, 1) = 5", {"x": []}, None),
    ("size(x) = 2", {"x": [10, None]}, True),
    ("array_contains(x, 5)", {"x": [10, None]}, None),
    ("array_contains(x, 10)", {"x": [10, None]}, True),
    ("size(x) = 0", {"x": [[], []]}, True),
    # Members of objects, and of an array without objects.
    ("size(x.a) = 0", {"x": {"a": []}}, True),
    ("size(x.a) = 0", {"x": []}, True),
    ("size(x.a.b) = 0", {"x": {"a": []}}, True),
    ("size(x.a.b) = 0", {"x": []}, True),
    ("array_contains(x.a, 5)", {"x": []}, False),
    ("size(x.a) = 0", {"x": [None, None]}, True),
    ("size(x.a) = 0", {"x": [{"a": []}, {"a": []}]}, True),
    ("size(x.a) = 1", {"x": [{"a": []}, {"a": [7]}]}, True),
    ("size(x.a.b) = 1", {"x": [{"a": []}, {"a": [{"b": 1}]}]}, True),
    ("size(x.a) = 0", {"x": [{"c": 1}]}, None),
    ("size(x.a) = 0", {"x": {"a": 5}}, None),
    ("size(x.a) = 0", {"x": None}, None),
    ("size(x.a) = 0", {"x": {}}, None),
    # Conditions that choose an element.
    ("x = 5", {"x": []}, None),
    ("x <> 5", {"x": []}, None),
    ("x IS NULL", {"x": []}, True),
    ("x <=> NULL", {"x": []}, True),
    ("x.a IS NULL", {"x": [{"a": []}]}, True),
    ("x.b IS NULL AND x.c = 1", {"x": [{"b": [], "c": 1}]}, True),
    ("size(x) = 0 AND x IS NULL", {"x": []}, True),
    ("size(x) = 0 AND x = 5", {"x": []}, None),
    ("size(x) + y = 3", {"x": [], "y": [3]}, True),
    ("NOT array_contains(x, 5) AND y > 2", {"x": [], "y": [3]}, True),
]


def _ids(case: object) -> str | None:
    return str(case) if isinstance(case, str | dict) else None


@pytest.mark.parametrize(("condition", "event", "answer"), ANSWERS, ids=_ids)
def test_a_condition_is_true_false_or_null(condition: str, event: dict[str, Any], answer: bool | None) -> None:
    wanted = Filter.parse(condition)
    # More than once: from the second time on, the condition is compiled.
    for _ in range(3):
        assert wanted.matches(event) is (answer is True)
        assert (~wanted).matches(event) is (answer is False)
    assert bool(wanted.explain(event)) is (answer is True)


@pytest.mark.parametrize("make", MATCHERS.values(), ids=MATCHERS.keys())
def test_every_matcher_answers_so(make: Make) -> None:
    wheres = {where: where for text, _, _ in ANSWERS for where in (text, f"NOT ({text})")}
    matcher = filled(make, wheres)
    filters = {id: Filter.parse(where) for id, where in wheres.items()}
    for text, event, answer in ANSWERS:
        found = matcher.match(event)
        assert (text in found, f"NOT ({text})" in found) == (answer is True, answer is False), event
        assert found == {id for id, each in filters.items() if each.matches(event)}


def test_a_batch_of_many_events_answers_so() -> None:
    conditions = list(dict.fromkeys(text for text, _, _ in ANSWERS))
    matcher = Matcher()
    matcher.add_many(conditions, conditions)
    matcher.merge()
    # With others in between, enough of them for columns.
    events = [event for _, event, _ in ANSWERS for event in (event, {"y": 1}, {"x": [1, 2]})] * 3
    filters = {each: Filter.parse(each) for each in conditions}
    expected = [{id for id, each in filters.items() if each.matches(event)} for event in events]
    assert ids_by_row(matcher.match_batch(events), len(events)) == expected


COLUMNS = pa.schema([("x", pa.list_(pa.int64())), ("s", pa.struct([("x", pa.list_(pa.int64()))])), ("y", pa.int64())])
ARRAYS = st.none() | st.lists(st.none() | st.integers(3, 6), max_size=3)
ROWS = st.fixed_dictionaries(
    {"x": ARRAYS, "s": st.none() | st.fixed_dictionaries({"x": ARRAYS}), "y": st.none() | st.integers(0, 3)}
)


def contains(array: list[int | None], value: int) -> bool | None:
    """What array_contains is in Spark."""
    return True if value in array else None if None in array else False


@given(st.lists(ROWS, min_size=1, max_size=12), st.sampled_from(["x", "s.x"]))
def test_columns_of_arrays_are_read_as_spark_reads_them(rows: list[dict[str, Any]], name: str) -> None:
    conditions = {
        f"size({name}) = 0": lambda array, y: len(array) == 0,
        f"size({name}) = y": lambda array, y: len(array) == y,
        f"NOT (size({name}) > 1)": lambda array, y: len(array) <= 1,
        f"array_contains({name}, 5)": lambda array, y: contains(array, 5) is True,
        f"NOT array_contains({name}, 5)": lambda array, y: contains(array, 5) is False,
        f"array_contains({name}, 5) IS NULL": lambda array, y: contains(array, 5) is None,
        f"NOT array_contains({name}, 5) AND y > 1": lambda array, y: contains(array, 5) is False and (y or 0) > 1,
        f"size({name}) IS NOT NULL": lambda array, y: True,
    }
    matcher = Matcher()
    matcher.add_many(list(conditions), list(conditions))
    expected = []
    for row in rows:
        array = row["x"] if name == "x" else (row["s"] or {}).get("x")
        held = {sql for sql, holds in conditions.items() if array is not None and holds(array, row["y"])}
        expected.append(held | ({f"array_contains({name}, 5) IS NULL"} if array is None else set()))
    table = pa.Table.from_pylist(rows, COLUMNS)
    by_path = pa.record_batch({"x": table["x"].combine_chunks(), "s.x": [(row["s"] or {}).get("x") for row in rows],
                               "y": table["y"].combine_chunks()})  # fmt: skip
    for _ in range(2):
        assert [matcher.match(row) for row in rows] == expected
        assert ids_by_row(matcher.match_batch(rows), len(rows)) == expected
        assert ids_by_row(matcher.match_batch(table), len(rows)) == expected
        found: list[set[str]] = [set() for _ in rows]
        for row_number, number in zip(*map(list, matcher.match_columns(by_path)), strict=True):
            found[row_number].add(matcher.numbered_ids()[int(number)].as_py())
        assert found == expected
        matcher.merge()


@pytest.mark.parametrize("event", [{"x": []}, {"x": [{"a": []}, {"a": [1]}]}, {"x": {"a": [], "b": 1}}], ids=str)
def test_an_event_keeps_its_empty_arrays_on_the_wire_and_as_json(event: dict[str, Any]) -> None:
    read = Event.from_dict(event)
    assert read.to_dict() == event
    for again in (codec.decode_event(codec.encode_event(read)), Event.from_json(read.to_json())):
        assert again.attributes == read.attributes
        assert again.to_dict() == event
