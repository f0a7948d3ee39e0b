"""Tests of the Arrow reader, type by type."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.errors import EventError
from palio.events import Event, Limits
from palio.events.arrow import read_column


def rows(data: Any) -> list[dict[str, Any]]:
    return [dict(event.attributes) for event in Event.from_arrow(data)]


def column(values: list[Any], kind: pa.DataType) -> list[Any]:
    """The values of a column called x, after reading; MISSING where the attribute is not there."""
    table = pa.table({"x": pa.array(values, kind)})
    return [row.get("x", "MISSING") for row in rows(table)]


NOON = datetime(2026, 1, 31, 12, 0, 0, 123456, UTC)


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (pa.null(), [None]),
        (pa.bool_(), [True, False]),
        *[(kind, [-5, 5]) for kind in (pa.int8(), pa.int16(), pa.int32(), pa.int64())],
        *[(kind, [0, 200]) for kind in (pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64())],
        *[(kind, [1.5, -0.0, float("inf")]) for kind in (pa.float16(), pa.float32(), pa.float64())],
        *[(kind, [Decimal("1.50")]) for kind in (pa.decimal128(10, 2), pa.decimal256(50, 2))],
        (pa.decimal32(5, 2), [Decimal("1.50")]),
        (pa.decimal64(10, 2), [Decimal("-1.50")]),
        *[(kind, ["", "é😀\x00"]) for kind in (pa.string(), pa.large_string(), pa.string_view())],
        *[(kind, [b"", b"\xff"]) for kind in (pa.binary(), pa.large_binary(), pa.binary_view())],
        (pa.binary(2), [b"ab"]),
        *[(kind, [date(2026, 1, 31), date(1, 1, 1)]) for kind in (pa.date32(), pa.date64())],
        (pa.dictionary(pa.int8(), pa.string()), ["a", "b", "a"]),
        (pa.dictionary(pa.int32(), pa.int64()), [7, 8, 7]),
    ],
    ids=str,
)
def test_scalars_keep_their_value(kind: pa.DataType, values: list[Any]) -> None:
    got = column([*values, None], kind)
    assert got == [*values, None]
    assert [type(one) for one in got] == [type(one) for one in [*values, None]]


def test_nan_is_a_value_and_null_is_null() -> None:
    nan, null = column([float("nan"), None], pa.float64())
    assert nan != nan
    assert null is None


def test_unsigned_integers_beyond_64_bits_become_decimals() -> None:
    assert column([2**63 - 1, 2**63], pa.uint64()) == [2**63 - 1, Decimal(2**63)]
    assert type(column([2**63], pa.uint64())[0]) is Decimal


def test_a_wide_decimal_is_read_if_its_value_fits() -> None:
    kind = pa.decimal256(60, 20)
    assert column([Decimal("1.5")], kind) == [Decimal("1.5")]
    with pytest.raises(EventError, match="x: a decimal with more than 38 digits"):
        column([Decimal("9" * 39)], kind)


@pytest.mark.parametrize("zone", [None, "UTC", "Europe/Paris", "+05:30"])
@pytest.mark.parametrize("unit", ["s", "ms", "us", "ns"])
def test_timestamps_of_every_unit_and_zone_are_instants_in_utc(unit: str, zone: str | None) -> None:
    kept = {"s": 0, "ms": 123000, "us": 123456, "ns": 123456}[unit]
    (got,) = column([NOON.replace(microsecond=kept)], pa.timestamp(unit, zone))
    assert got == NOON.replace(microsecond=kept)
    assert got.tzinfo is UTC


def test_nanoseconds_are_cut_towards_the_past() -> None:
    for zone in (None, "Europe/Paris"):
        got = column([-1, 1_999], pa.timestamp("ns", zone))
        assert got == [datetime(1969, 12, 31, 23, 59, 59, 999999, UTC), datetime(1970, 1, 1, 0, 0, 0, 1, UTC)]


@pytest.mark.parametrize(("unit", "value"), [("s", 2**40), ("s", 2**62), ("us", 2**62), ("ms", -(2**62))])
def test_timestamps_outside_the_years_1_to_9999_are_the_first_or_the_last(unit: str, value: int) -> None:
    array = pa.array([value, None, 0], pa.int64()).cast(pa.timestamp(unit))
    nearest = datetime.max if value > 0 else datetime.min.replace(microsecond=0)
    first, *others = column(array, array.type)
    assert abs(first - nearest.replace(tzinfo=UTC)) < timedelta(seconds=1)
    assert others == [None, datetime(1970, 1, 1, tzinfo=UTC)]


@pytest.mark.parametrize("kind", [pa.date32(), pa.date64()])
def test_dates_outside_the_years_1_to_9999_are_the_first_or_the_last(kind: pa.DataType) -> None:
    days = pa.array([10_000_000, -1_000_000, None, 0], pa.int32()).cast(pa.date32()).cast(kind)
    assert column(days, kind) == [date.max, date.min, None, date(1970, 1, 1)]


def test_a_struct_is_an_object() -> None:
    kind = pa.struct([("a", pa.int64()), ("b.c", pa.struct([("d", pa.string())]))])
    values = [{"a": 1, "b.c": {"d": "x"}}, {"a": None, "b.c": None}, None]
    assert rows(pa.table({"s": pa.array(values, kind)})) == [
        {"s.a": 1, "s.`b.c`.d": "x"},
        {"s.a": None, "s.`b.c`": None},
        {"s": None},
    ]


LISTS = {
    "list": pa.list_,
    "large_list": pa.large_list,
    "list_view": pa.list_view,
    "large_list_view": pa.large_list_view,
}


@pytest.mark.parametrize("make", LISTS.values(), ids=LISTS)
def test_a_list_is_several_values(make: Any) -> None:
    assert column([[1, None, 2], [], None, [3]], make(pa.int64())) == [(1, None, 2), (), None, (3,)]


def test_a_list_of_fixed_size_is_several_values() -> None:
    assert column([[1, 2], None, [3, 4]], pa.list_(pa.int64(), 2)) == [(1, 2), None, (3, 4)]


def test_a_list_of_structs_gives_values_to_the_paths_below() -> None:
    kind = pa.list_(pa.struct([("a", pa.int64()), ("b", pa.list_(pa.string()))]))
    table = pa.table({"x": pa.array([[{"a": 1, "b": ["p"]}, {"a": 2, "b": ["q", "r"]}], []], kind)})
    assert rows(table) == [{"x.a": (1, 2), "x.b": ("p", "q", "r")}, {"x": ()}]


def test_a_map_is_an_object_by_its_keys() -> None:
    kind = pa.map_(pa.string(), pa.int64())
    table = pa.table({"m": pa.array([[("a", 1), ("b.c", None)], [], None], kind)})
    assert rows(table) == [{"m.a": 1, "m.`b.c`": None}, {}, {"m": None}]


def test_a_map_with_the_same_key_twice_is_refused() -> None:
    table = pa.table({"m": pa.array([[("a", 1), ("a", 2)]], pa.map_(pa.string(), pa.int64()))})
    with pytest.raises(EventError, match="m: a key occurs twice in one map"):
        rows(table)


def test_encodings_are_looked_through() -> None:
    encoded = pa.RunEndEncodedArray.from_arrays(pa.array([2, 3], pa.int32()), pa.array(["a", "b"]))
    nested = pa.array([{"d": "x"}], pa.struct([("d", pa.dictionary(pa.int8(), pa.string()))]))
    assert rows(pa.table({"r": encoded})) == [{"r": "a"}, {"r": "a"}, {"r": "b"}]
    assert rows(pa.table({"n": nested})) == [{"n.d": "x"}]


def test_extension_types_are_read_as_what_they_store() -> None:
    stored = pa.array([b"0123456789abcdef"], pa.binary(16))
    assert rows(pa.table({"u": pa.ExtensionArray.from_storage(pa.uuid(), stored)})) == [{"u": b"0123456789abcdef"}]


@pytest.mark.parametrize(
    "kind",
    [
        pa.time32("s"),
        pa.time64("us"),
        pa.duration("s"),
        pa.month_day_nano_interval(),
        pa.list_(pa.duration("ns")),
        pa.struct([("y", pa.time32("ms"))]),
        pa.map_(pa.int64(), pa.string()),
        pa.map_(pa.string(), pa.duration("s")),
        pa.dictionary(pa.int8(), pa.duration("s")),
        pa.dense_union([pa.field("a", pa.int64())]),
    ],
    ids=str,
)
def test_types_no_event_can_hold_are_refused_before_any_row(kind: pa.DataType) -> None:
    schema = pa.schema([("fine", pa.int64()), ("x", kind)])
    with pytest.raises(EventError, match=r"^x"):
        Event.from_arrow(schema.empty_table() if not pa.types.is_union(kind) else _empty(schema))


def _empty(schema: pa.Schema) -> pa.RecordBatchReader:
    return pa.RecordBatchReader.from_batches(schema, [])


def test_columns_keep_names_with_dots_and_empty_names() -> None:
    assert rows(pa.table({"a.b": [1], "": [2], "c`": [3]})) == [{"`a.b`": 1, "": 2, "`c```": 3}]


def test_columns_of_the_same_name_are_refused() -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["x", "x"])
    with pytest.raises(EventError, match="x: two columns have this name"):
        Event.from_arrow(table)
    twice = pa.struct([pa.field("a", pa.int64()), pa.field("a", pa.int64())])
    with pytest.raises(EventError, match=r"s\.a: two fields of a struct have this name"):
        Event.from_arrow(pa.schema([("s", twice)]).empty_table())


def test_tables_batches_readers_and_other_libraries_are_read() -> None:
    table = pa.table({"x": [1, 2], "s": ["a", None]})
    expected = [{"x": 1, "s": "a"}, {"x": 2, "s": None}]
    batch = table.to_batches()[0]
    assert rows(table) == rows(batch) == rows(table.to_reader()) == rows(pl.DataFrame(table)) == expected
    with pytest.raises(EventError, match="not an Arrow table or record batch, but list"):
        Event.from_arrow([1])


def test_slices_and_chunks_are_read_as_what_they_show() -> None:
    kind = pa.struct([("l", pa.list_(pa.int64())), ("m", pa.map_(pa.string(), pa.int64()))])
    values = [{"l": [i] * (i % 3), "m": [(f"k{i}", i)]} for i in range(10)]
    whole = pa.table({"s": pa.array(values, kind), "d": pa.array([str(i % 2) for i in range(10)]).dictionary_encode()})
    chunked = pa.concat_tables([whole.slice(0, 3), whole.slice(3, 4), whole.slice(7)])
    assert rows(chunked) == rows(whole)
    assert rows(whole.slice(4, 3)) == rows(whole)[4:7]


def test_rows_without_columns_are_empty_events() -> None:
    batch = pa.RecordBatch.from_struct_array(pa.array([{}, {}], pa.struct([])))
    assert rows(batch) == [{}, {}]
    assert rows(pa.table({})) == []


def test_limits_hold_for_columns_and_values() -> None:
    table = pa.table({"abc": [[1, 2, 3]], "b": [1]})
    for limits, reason in (
        (Limits(attributes=1), "2 columns; an event may have 1 attributes"),
        (Limits(name_length=2), "abc: an attribute's name of more than 2 characters"),
        (Limits(array_length=2), "abc: an array of more than 2 values"),
    ):
        with pytest.raises(EventError, match=reason):
            list(Event.from_arrow(table, limits=limits))


def test_text_that_is_not_utf8_is_refused() -> None:
    broken = pa.Array.from_buffers(pa.string(), 1, [None, *pa.array([b"\xff"]).buffers()[1:]])
    with pytest.raises(EventError, match="x: a value of type string cannot be read"):
        rows(pa.table({"x": broken}))


def test_one_column_is_read_by_itself() -> None:
    assert read_column(pa.array([1, None])) == [1, None]
    assert read_column(pa.chunked_array([[1], [2, 3]])) == [1, 2, 3]
    assert read_column(pa.array([NOON], pa.timestamp("ns"))) == [NOON]
    assert read_column(pa.array([[1], None])) == [[1], None]
    with pytest.raises(EventError, match=r"`a\.b`: an event cannot hold the Arrow type"):
        read_column(pa.array([1], pa.duration("s")), "a.b")


CELLS = st.fixed_dictionaries(
    {
        "i": st.none() | st.integers(-(2**63), 2**63 - 1),
        "f": st.none() | st.floats(allow_nan=False),
        "s": st.none() | st.text(st.characters(codec="utf-8"), max_size=4),
        "t": st.none() | st.datetimes(timezones=st.just(UTC)),
        "o": st.none()
        | st.fixed_dictionaries({"a": st.none() | st.booleans(), "b": st.none() | st.binary(max_size=3)}),
        "l": st.none() | st.lists(st.none() | st.integers(0, 9) | st.none(), max_size=3),
        "q": st.none() | st.lists(st.fixed_dictionaries({"c": st.integers(0, 9)}), max_size=3),
    }
)
SCHEMA = pa.schema(
    [
        ("i", pa.int64()),
        ("f", pa.float64()),
        ("s", pa.string()),
        ("t", pa.timestamp("us", "UTC")),
        ("o", pa.struct([("a", pa.bool_()), ("b", pa.binary())])),
        ("l", pa.list_(pa.int64())),
        ("q", pa.list_(pa.struct([("c", pa.int64())]))),
    ]
)


@given(st.lists(CELLS, max_size=5))
def test_a_row_means_what_the_same_content_means_as_a_dict(cells: list[dict[str, Any]]) -> None:
    table = pa.Table.from_pylist(cells, SCHEMA)
    assert rows(table) == [Event.from_dict(cell).attributes for cell in cells]
