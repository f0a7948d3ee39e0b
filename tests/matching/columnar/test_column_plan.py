"""Record batches shown to the kernels whole give what their rows give one by one, and are given back."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import Event, EventError, Matcher
from palio.matching.columnar.arrow_columns import ColumnPlan

DAY, MOMENT = dt.date(2024, 3, 1), dt.datetime(2024, 3, 1, 12, tzinfo=dt.UTC)
VALUES: Mapping[pa.DataType, list[Any]] = {
    pa.null(): [None] * 6,
    pa.bool_(): [True, None, False, True, False, None],
    pa.int8(): [1, None, -3, 127, 0, 5],
    pa.int64(): [1, None, -3, 2**62, 0, 5],
    pa.uint32(): [1, None, 3, 2**32 - 1, 0, 5],
    pa.uint64(): [1, None, 3, 2**64 - 1, 0, 5],
    pa.float32(): [1.0, None, -0.5, float("nan"), 0.0, 5.0],
    pa.float64(): [1.0, None, -0.5, float("inf"), -0.0, 5.0],
    pa.string(): ["a", None, "", "abcdefgh", "ä", "5"],
    pa.large_string(): ["a", None, "", "abcdefgh", "ä", "5"],
    pa.string_view(): ["a", None, "", "abcdefgh", "ä", "5"],
    pa.binary(): [b"a", None, b"", b"abcdefgh", b"\xff", b"5"],
    pa.date32(): [DAY, None, DAY, dt.date(1, 1, 1), dt.date(9999, 12, 31), DAY],
    pa.date64(): [DAY, None, DAY, dt.date(1970, 1, 1), dt.date(9999, 12, 31), DAY],
    pa.timestamp("us", "UTC"): [MOMENT, None, MOMENT, MOMENT, MOMENT + dt.timedelta(days=1), MOMENT],
    pa.timestamp("s", "UTC"): [MOMENT, None, MOMENT, MOMENT, MOMENT + dt.timedelta(days=1), MOMENT],
    pa.decimal128(10, 2): [1, None, 3, 100, 0, 5],
    pa.dictionary(pa.int8(), pa.string()): ["a", None, "", "a", "ä", "5"],
    pa.binary(1): [b"a", None, b"b", b"\xff", b"5", b"a"],
    pa.decimal32(6, 2): [1, None, 3, 100, 0, 5],
    pa.decimal64(10, 2): [1, None, 3, 100, 0, 5],
    pa.uuid(): [b"a" * 16, None, b"b" * 16, b"\xff" * 16, b"5" * 16, b"a" * 16],
    pa.bool8(): [1, None, 0, 1, 0, None],
    pa.json_(): ['"a"', None, "{}", "5", "[1]", "null"],
}
CONDITIONS = [
    "x = 1", "x > 0", "x < 0", "x IS NULL", "x IS NOT NULL", "x = 'a'", "x >= 'b'", "x LIKE '%c%'", "x RLIKE 'a|b'",
    "x = '5'", "x", "NOT x", "x = X'61'", "x = DATE'2024-03-01'", "x > TIMESTAMP'2024-03-01 12:00:00Z'", "y > x",
    "z = 1", "x <> 'a'", "x IN (1, 5)", "length(x) = 1",
]  # fmt: skip


def matcher() -> Matcher:
    wants = Matcher()
    wants.add_many([str(number) for number in range(len(CONDITIONS))], CONDITIONS)
    return wants


def _array(data_type: pa.DataType) -> pa.Array:
    if isinstance(data_type, pa.BaseExtensionType):
        return pa.ExtensionArray.from_storage(data_type, pa.array(VALUES[data_type], data_type.storage_type))
    return pa.array(VALUES[data_type], data_type)


WANTS = matcher()


def one_by_one(batch: pa.RecordBatch) -> set[tuple[int, str]]:
    return {(row, id) for row, event in enumerate(Event.from_arrow(batch)) for id in WANTS.match(event)}


def at_once(batch: pa.RecordBatch) -> set[tuple[int, str]]:
    found = WANTS.match_batch(batch)
    return set(zip(found["row"].to_pylist(), found["subscription"].to_pylist(), strict=True))


@pytest.mark.parametrize("data_type", VALUES, ids=str)
@pytest.mark.parametrize(("offset", "length"), [(0, 6), (1, 4), (3, 3), (2, 0)])
def test_columns_of_every_type_are_read_from_anywhere_in_them(data_type: pa.DataType, offset: int, length: int) -> None:
    values = _array(data_type)
    whole = pa.record_batch({"w": pa.array(["no one", "asks"] * 3), "x": values, "y": pa.array(range(6))})
    batch = whole.slice(offset, length)
    assert at_once(batch) == one_by_one(batch)


@given(st.lists(st.tuples(*[st.one_of(st.none(), st.integers(-3, 3))] * 2), max_size=70), st.integers(0, 70))
def test_rows_of_any_number_are_read(rows: list[tuple[int | None, int | None]], offset: int) -> None:
    xs, ys = ([row[at] for row in rows] for at in (0, 1))
    batch = pa.record_batch({"x": pa.array(xs, pa.int64()), "y": pa.array(ys, pa.int32())}).slice(offset)
    assert at_once(batch) == one_by_one(batch)


@pytest.mark.parametrize(
    ("schema", "is_planned"),
    [
        ({"x": pa.int64()}, True),
        ({"other": pa.list_(pa.int64()), "x": pa.int64()}, True),
        ({"x": pa.list_(pa.int64())}, False),
        ({"s": pa.struct([("x", pa.int64())])}, False),
        ({"x": pa.dictionary(pa.int8(), pa.string())}, False),
        ({"x": pa.decimal128(5, 2)}, False),
        ({}, True),
    ],
)
def test_what_must_be_looked_at_more_closely_has_no_plan(schema: dict[str, pa.DataType], is_planned: bool) -> None:
    plan = ColumnPlan.of(pa.schema(list(schema.items())), {"x": 0, "s.x": 1}, ())
    assert (plan is not None) is is_planned


def test_two_columns_of_one_name_have_no_plan() -> None:
    assert ColumnPlan.of(pa.schema([("x", pa.int64()), ("x", pa.int64())]), {"x": 0}, ()) is None


def test_two_columns_of_one_name_are_refused() -> None:
    batch = pa.RecordBatch.from_arrays([pa.array([1]), pa.array([2])], ["x", "x"])
    with pytest.raises(EventError, match="x: two columns have this name"):
        WANTS.match_batch(batch)


def test_another_schema_is_seen() -> None:
    wants = Matcher()
    wants.add("it", "x = 1")
    for _ in range(2):
        assert wants.match_batch(pa.record_batch({"x": [1, 2]})).num_rows == 1
        assert wants.match_batch(pa.record_batch({"y": [1, 2]})).num_rows == 0
        assert wants.match_batch(pa.record_batch({"y": [1, 1], "x": ["1", "2"]})).num_rows == 0
        assert wants.match_batch(pa.record_batch({"y": [1, 1], "x": [2.0, 1.0]}))["row"].to_pylist() == [1]


def test_runs_are_read() -> None:
    batch = pa.record_batch({"x": pa.RunEndEncodedArray.from_arrays([2, 3, 6], ["a", None, "5"])})
    assert at_once(batch) == one_by_one(batch)


@pytest.mark.parametrize("data_type", [pa.time64("us"), pa.duration("s"), pa.month_day_nano_interval()], ids=str)
def test_what_no_event_can_hold_is_refused_where_somebody_asks_for_it(data_type: pa.DataType) -> None:
    column = pa.nulls(2, data_type)
    with pytest.raises(EventError, match="cannot hold"):
        WANTS.match_batch(pa.record_batch({"x": column}))


def test_an_index_that_leads_out_of_its_dictionary_is_refused() -> None:
    column = pa.DictionaryArray.from_arrays(pa.array([0, 2**31 - 1], pa.int32()), pa.array(["a"]), safe=False)
    with pytest.raises(EventError, match="leads out of a dictionary"):
        WANTS.match_batch(pa.record_batch({"x": column}))


def test_a_batch_is_given_back() -> None:
    wants = Matcher()
    wants.add("it", "x = 1")
    before = pa.total_allocated_bytes()
    batch = pa.record_batch({"x": pa.array(range(100_000))})
    assert wants.match_batch(batch).num_rows == 1
    del batch
    assert pa.total_allocated_bytes() - before < 100_000
