"""Columns of structures and of lists are matched as columns, and mean what their rows mean."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.errors import EventError
from palio.events import Event
from palio.filters.filter import Filter
from palio.matching.columnar import arrow_columns as flat_columns_module
from palio.matching.columnar.arrow_columns import FlatColumns
from palio.matching.columnar.segment import Segment
from palio.matching.matcher import Matcher
from palio.matching.subscription import Subscription
from tests.matching.suite import ids_by_row

CONDITIONS = [
    "tags = 'x'",
    "tags = 'x' AND tags <> 'y'",
    "tags LIKE '%y%' AND n = 2",
    "tags IS NULL",
    "tags IS NOT NULL AND k > 1",
    "NOT (tags = 'x' AND n > 1)",
    "n > 1 AND n < 3",
    "n IS NULL OR tags IN ('x', 'z')",
    "k = 2",
    "n > k",
    "array_contains(tags, 'x') AND n = 1",
    "size(tags) = 2",
    "s.tags = 'x' AND s.k = 1",
    "s.tags > tags",
]
TEXTS = st.none() | st.lists(st.none() | st.sampled_from(["x", "y", "xyz"]), max_size=3)
NUMBERS = st.none() | st.lists(st.none() | st.integers(0, 4), max_size=3)
ROWS = st.fixed_dictionaries(
    {
        "tags": TEXTS,
        "n": NUMBERS,
        "k": st.none() | st.integers(0, 3),
        "s": st.none() | st.fixed_dictionaries({"tags": TEXTS, "k": st.none() | st.integers(0, 2)}),
    }
)
TEXT_LISTS = [
    pa.list_(pa.string()),
    pa.large_list(pa.large_string()),
    pa.list_(pa.dictionary(pa.int8(), pa.string())),
    pa.list_(pa.string_view()),
]


def check(matcher: Matcher, filters: dict[str, Filter], batch: pa.RecordBatch | pa.Table) -> None:
    """A batch gives what the filters say of its rows."""
    expected = [{id for id, each in filters.items() if each.matches(event)} for event in Event.from_arrow(batch)]
    assert ids_by_row(matcher.match_batch(batch), batch.num_rows) == expected


def of_conditions(*conditions: str) -> tuple[Matcher, dict[str, Filter]]:
    matcher = Matcher()
    matcher.add_many(conditions, conditions)
    return matcher, {where: Filter.parse(where) for where in conditions}


@given(rows=st.lists(ROWS, min_size=1, max_size=12), texts=st.sampled_from(TEXT_LISTS), start=st.integers(0, 3))
def test_rows_with_lists_mean_what_they_mean_one_by_one(rows: list[Any], texts: pa.DataType, start: int) -> None:
    schema = pa.schema(
        [
            ("tags", texts),
            ("n", pa.list_(pa.int32())),
            ("k", pa.int64()),
            ("s", pa.struct([("tags", pa.list_(pa.string())), ("k", pa.int64())])),
        ]
    )
    plain = pa.schema([("tags", pa.list_(pa.string())), *list(schema)[1:]])
    columns = [
        column if name != "tags" or texts == pa.list_(pa.string()) else _as_lists([row["tags"] for row in rows], texts)
        for name, column in zip(schema.names, pa.RecordBatch.from_pylist(rows, plain).columns, strict=True)
    ]
    batch = pa.RecordBatch.from_arrays(columns, schema=schema)
    matcher, filters = of_conditions(*CONDITIONS)
    check(matcher, filters, batch)
    check(matcher, filters, batch.slice(start))


def _as_lists(values: list[list[str | None] | None], kind: pa.DataType) -> pa.Array:
    """Lists of any type of text."""
    if not pa.types.is_dictionary(kind.value_type):
        return pa.array(values, kind)
    flat = pa.array([each for row in values for each in row or ()], pa.string()).dictionary_encode()
    indices = pa.DictionaryArray.from_arrays(flat.indices.cast(pa.int8()), flat.dictionary)
    lengths, offsets = [None if row is None else len(row) for row in values], [0]
    for length in lengths:
        offsets.append(offsets[-1] + (length or 0))
    mask = pa.array([length is None for length in lengths])
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), indices, mask=mask)


def test_one_list_that_is_asked_for_does_not_send_a_batch_to_rows(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise AssertionError

    monkeypatch.setattr(Segment, "match_event", refuse)
    matcher, _ = of_conditions("tags = 'x' AND k = 1", "k = 2", "f = 3")
    fixed = pa.array([[1, 3], None, [3, 3]], pa.list_(pa.int32(), 2))
    batch = pa.record_batch({"tags": [["y", "x"], [], None], "k": [1, 2, 2], "f": fixed, "m": [[[1]], [], []]})
    assert ids_by_row(matcher.match_batch(batch), 3) == [
        {"tags = 'x' AND k = 1", "f = 3"},
        {"k = 2"},
        {"k = 2", "f = 3"},
    ]


def test_what_lies_deeper_is_read_by_rows() -> None:
    matcher, filters = of_conditions("a.b = 1", "m = 3", "k = 1")
    batch = pa.record_batch({"a": [[{"b": 1}, {"b": 2}], [{"b": 2}]], "m": [[[1, 2], [3]], [[4]]], "k": [1, 1]})
    check(matcher, filters, batch)


def test_many_choices_are_laid_out_some_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(flat_columns_module, "_CHOICES_AT_A_TIME", 7)
    matcher, filters = of_conditions("a > 3 AND b < 2", "a = 9", "b IS NULL")
    check(
        matcher, filters, pa.record_batch({"a": [[1, 2, 9], [4], [], [5, 5]], "b": [[1, 7], [0, 1, 2], None, [None]]})
    )


def test_too_many_choices_are_left_to_the_filters() -> None:
    matcher, filters = of_conditions("a > 3 AND b < 2", "a = 150")
    check(matcher, filters, pa.record_batch({"a": [list(range(200)), [1]], "b": [list(range(200)), [1]]}))


def test_no_elements_are_missing_and_not_null_where_a_language_tells() -> None:
    patterns: list[Any] = [{"tags": [{"exists": False}]}, {"tags": [None]}, {"tags": ["x"]}]
    wanted = [Subscription(str(at), pattern, "eventbridge") for at, pattern in enumerate(patterns)]
    matcher = Matcher()
    matcher.add_subscriptions(wanted)
    batch = pa.record_batch({"tags": [["x"], [], None, [None], ["y", None]]})
    check(matcher, {each.id: each.filter for each in wanted}, batch)


def test_decimals_in_lists_keep_their_digits() -> None:
    matcher, filters = of_conditions("d > 0.1", "d = 0.25", *(f"d > 0.1000000000000000000{n}" for n in range(1, 4)))
    values = [[Decimal("0.1"), Decimal("0.25")], [Decimal("0.10000000000000000002")], []]
    check(matcher, filters, pa.record_batch({"d": pa.array(values, pa.list_(pa.decimal128(30, 20)))}))


@pytest.mark.parametrize("paths", [False, True])
def test_two_columns_of_one_name_are_refused(paths: bool) -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([["x"]]), pa.array(["y"])], names=["tags", "tags"])
    matcher, _ = of_conditions("tags = 'x'")
    with pytest.raises(EventError, match="two columns"):
        matcher.match_columns(batch) if paths else matcher.match_batch(batch)


def test_columns_named_by_paths_may_be_lists() -> None:
    matcher, _ = of_conditions("a.b = 'x' AND k = 1")
    row, number = matcher.match_columns(pa.record_batch({"a.b": [["y"], ["y", "x"], None], "k": [1, 1, 1]}))
    assert (row.tolist(), number.tolist()) == ([1], [0])


def test_choices_have_the_rows_they_are_of() -> None:
    columns = FlatColumns({"k": pa.array([7, 8, 9])}, {"a": pa.array([[1, 2], [], [3]]), "b": pa.array([[4, 5]] * 3)})
    found = columns.choices(3)
    assert found is not None
    [(chosen, rows)] = found
    made = list(zip(rows.tolist(), *(chosen[name].to_pylist() for name in ("k", "a", "b")), strict=True))
    elements = {0: (7, [1, 2]), 1: (8, [None]), 2: (9, [3])}
    expected = {(row, k, a, b) for row, (k, several) in elements.items() for a in several for b in (4, 5)}
    assert len(made) == len(expected)
    assert set(made) == expected


def test_columns_named_by_paths_may_hold_objects_that_belong_together() -> None:
    matcher, _ = of_conditions("a.b.x = 1 AND a.b.y = 2 AND k = 1", "a.b.x = 1 AND a.b.parts.z = 3", "a.b.x = 1")
    rows = [
        [{"x": 1, "y": 1, "parts": [{"z": 4}]}, {"x": 2, "y": 2, "parts": [{"z": 3}]}],
        [{"x": 1, "y": 2, "parts": [{"z": 4}, {"z": 3}]}],
        [],
    ]
    row, number = matcher.match_columns(pa.record_batch({"a.b": rows, "k": [1, 1, 1]}))
    assert set(zip(row.tolist(), number.tolist(), strict=True)) == {(0, 2), (1, 0), (1, 1), (1, 2)}


def test_times_beyond_the_years_of_python_end_no_batch() -> None:
    late = ["t > TIMESTAMP'2020-01-01 00:00:00'", "d > DATE'2020-01-01'", "year(d) > 2000", "t IS NOT NULL AND x = 0"]
    early = ["t < TIMESTAMP'1900-01-01 00:00:00'", "d < DATE'1900-01-01'", "year(d) < 2", "t + INTERVAL '1' DAY < u"]
    known = ["hour(t) = hour(t) AND x >= 0"]
    matcher = Matcher()
    matcher.add_many([*late, *early, *known], [*late, *early, *known])
    moments = pa.array([253_402_318_799_000_000, -62_135_650_800_000_001, None, 0], pa.timestamp("us"))
    days = pa.array([10_000_000, -1_000_000, None, 0], pa.int32()).cast(pa.date32())
    table = pa.table({"x": range(4), "t": moments, "d": days, "u": pa.array([0] * 4, pa.timestamp("us"))})
    assert ids_by_row(matcher.match_batch(table), 4) == [{*late, *known}, {*early, *known}, set(), set(known)]
