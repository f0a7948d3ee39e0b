"""A batch means the events of its rows, and no bytes are anything but such a batch or an error."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from random import Random
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import Event, PalioError
from palio.errors import EventError, WireError
from palio.events.batches import EventBatch, batches_of
from palio.routing.codec import decode_event, encode_event
from palio.routing.columnar_codec import bodies_of, decode_batch, encode_batch

TYPED = {
    "n": pa.nulls(3),
    "b": pa.array([True, None, False]),
    "i": pa.array([1, None, -3], pa.int16()),
    "u": pa.array([1, None, 3], pa.uint64()),
    "f": pa.array([1.5, None, float("inf")], pa.float32()),
    "s": pa.array(["a", None, "ü"]),
    "l": pa.array(["a", None, "ü"], pa.large_string()),
    "d": pa.array(["a", None, "a"]).dictionary_encode(),
    "x": pa.array([b"a", None, b"\xff"]),
    "day": pa.array([date(2020, 1, 2), None, date(1, 1, 1)]),
    "at": pa.array([datetime(2020, 1, 2, 3, 4, 5, 6), None, datetime(1950, 1, 1)], pa.timestamp("ns")),
    "zoned": pa.array([datetime(2020, 1, 2, 3), None, None], pa.timestamp("ms", "Europe/Berlin")),
    "m": pa.array([Decimal("1.50"), None, Decimal("-0.01")], pa.decimal128(10, 2)),
    "o": pa.array([{"p": 1, "q.r": {"t": "a"}}, {"p": None, "q.r": {"t": "b"}}, {"p": 3, "q.r": {"t": None}}]),
}


def batch_of(table: Any, **options: Any) -> EventBatch:
    [batch] = batches_of(table, **options)
    assert isinstance(batch, EventBatch)
    return batch


@pytest.mark.parametrize("name", TYPED)
def test_a_column_of_each_type_comes_back_as_the_events_of_its_rows(name: str) -> None:
    table = pa.table({name: TYPED[name]})
    batch = decode_batch(encode_batch(batch_of(table)))
    assert [dict(each) for each in batch.events()] == [dict(each) for each in Event.from_arrow(table)]


def test_a_part_of_a_batch_comes_back_as_its_rows() -> None:
    table = pa.table(TYPED)
    expected = [dict(each) for each in Event.from_arrow(table)]
    batch = batch_of(table, ids=["one", "two", "three"], source="desk")
    last = decode_batch(encode_batch(batch.slice(1, 2)))
    assert [dict(each) for each in last.events()] == expected[1:]
    assert [(each.id, each.source) for each in last.events()] == [("two", "desk"), ("three", "desk")]


@pytest.mark.parametrize("columns", [["i", "s", "at"], list(TYPED)])
def test_bodies_are_those_of_single_events(columns: list[str]) -> None:
    batch = batch_of(pa.table({name: TYPED[name] for name in columns}), source="desk")
    assert bodies_of(batch) == [encode_event(each) for each in batch.events()]


def test_sources_and_times_of_events_stay_with_them() -> None:
    when = datetime(2024, 5, 6, tzinfo=UTC)
    events = [Event({"a": n}, source="x" if n % 2 else None, time=when if n % 3 else None) for n in range(20)]
    batch = decode_batch(encode_batch(batch_of(events)))
    assert [(each, each.time, each["a"]) for each in batch.events()] == [
        (each, each.time, each["a"]) for each in events
    ]


_VALUES = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(-(2**70), 2**70),
    st.floats(allow_nan=False),
    st.text(max_size=5),
    st.binary(max_size=5),
    st.dates(),
    st.datetimes(timezones=st.just(UTC)),
    st.lists(st.integers(0, 3), max_size=2),
)


@given(st.lists(st.dictionaries(st.sampled_from(["a", "b", "c.d"]), _VALUES, min_size=1), min_size=1, max_size=60))
def test_whatever_events_are_given_the_same_come_out(contents: list[dict[str, Any]]) -> None:
    contents = contents * 3  # so that some are long enough for columns
    events = [Event.from_dict(each) for each in contents]
    found: list[Event] = []
    for part in batches_of(events, rows=32):
        found += part if isinstance(part, list) else decode_batch(encode_batch(part)).events()
    assert [(each.id, encode_event(each)) for each in found] == [(each.id, encode_event(each)) for each in events]


@pytest.mark.parametrize(
    "column",
    [
        pa.array([[1], [2]]),
        pa.array([{"a": 1}, None]),
        pa.array([2**64 - 1, 1], pa.uint64()),
        pa.array([253402300800, 0], pa.timestamp("s")),
    ],
    ids=str,
)
def test_rows_that_have_no_form_of_columns_stay_events(column: pa.Array) -> None:
    table = pa.table({"x": column})
    [events] = batches_of(table)
    assert isinstance(events, list)
    assert [dict(each) for each in events] == [dict(each) for each in Event.from_arrow(table)]


def test_a_type_that_no_event_has_is_refused_by_its_name() -> None:
    with pytest.raises(EventError, match="duration"):
        list(batches_of(pa.table({"x": pa.array([1], pa.duration("s"))})))


def test_changed_bytes_are_a_batch_of_readable_events_or_an_error() -> None:
    random = Random(7)
    whole = encode_batch(batch_of(pa.table(TYPED), source="desk"))
    read = 0
    for _ in range(3_000):
        data = bytearray(whole)
        for _ in range(random.randrange(1, 4)):
            data[random.randrange(len(data))] = random.randrange(256)
        try:
            batch = decode_batch(bytes(data))
        except PalioError:
            continue
        read += 1
        # What was accepted can be handled in every way, and each event is one that could have come alone.
        assert len(bodies_of(batch)) == len(batch.events()) == len(batch)
        assert [decode_event(each).id for each in bodies_of(batch)] == batch.ids.to_pylist()
        assert decode_batch(encode_batch(batch)).columns.num_rows == len(batch)
    assert read


def test_a_wide_table_is_published_in_batches_within_the_bounds() -> None:
    wide = pa.table({f"a{number:0200}": [None, 1] * 500 for number in range(2_000)})
    batches = list(batches_of(wide))
    assert [len(each) for each in batches] == [500, 500]
    with pytest.raises(WireError, match="bytes"):
        decode_batch(encode_batch(batches[0]))  # type: ignore[arg-type]
    part = batches[0].slice(0, 30)  # type: ignore[union-attr]
    assert len(decode_batch(encode_batch(part))) == 30
    assert sum(map(len, bodies_of(part))) <= part.event_bytes()[1]


def forged(**changes: Any) -> bytes:
    """A batch of two rows with one column of texts, in which some parts are others."""
    texts = [4, b"", b"ab", b"\x00\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00"]
    parts: dict[str, Any] = {"rows": 2, "ids": texts, "sources": None, "times": None, "columns": [["a", texts]]}
    return msgspec.msgpack.encode(list({**parts, **changes}.values()))


def test_the_batch_that_is_forged_below_is_right_without_changes() -> None:
    assert [dict(each) for each in decode_batch(forged()).events()] == [{"a": "a"}, {"a": "b"}]


BEYOND = b"\x00\x00\x00\x00\x01\x00\x00\x00\xff\xff\xff\x7f"
BACKWARDS = b"\x00\x00\x00\x00\x02\x00\x00\x00\x01\x00\x00\x00"
NEGATIVE = b"\x00\x00\x00\x00\xff\xff\xff\xff\x02\x00\x00\x00"
IDS = [4, b"", b"a" * 100, b"".join(number.to_bytes(4, "little") for number in range(101))]
OFFSETS = b"\x00\x00\x00\x00\x01\x00\x00\x00\x02\x00\x00\x00"


@pytest.mark.parametrize(
    "changes",
    [
        {"rows": 0},
        {"rows": -1},
        {"rows": 2**40},
        {"rows": 3},
        {"columns": []},
        {"columns": [["a", [4, b"", b"ab", BEYOND]]]},
        {"columns": [["a", [4, b"", b"ab", BACKWARDS]]]},
        {"columns": [["a", [4, b"", b"ab", NEGATIVE]]]},
        {"columns": [["a", [4, b"", b"\xff\xfe", OFFSETS]]]},
        {"columns": [["a", [4, b"\x03\x00", b"ab", OFFSETS]]]},
        {"columns": [["a", [2, b"", b"ab"]]]},
        {"columns": [["a", [1, b"", b"ab"]]]},
        {"columns": [["a", [6, b"", b"\xff\xff\xff\x7f\x00\x00\x00\x00"]]]},
        {"columns": [["a", [7, b"", b"\xff" * 7 + b"\x7f" + bytes(8)]]]},
        {"columns": [["a", [8, b"", b"\xff" * 15 + b"\x7f" + bytes(16), b"", 5, 2]]]},
        {"columns": [["a", [8, b"", bytes(32), b"", 99, 2]]]},
        {"columns": [["a", [8, b"", bytes(32), b"", 5, 6]]]},
        {"columns": [["a", [9, b"", bytes(32)]]]},
        {"columns": [["a", [-1, b"", bytes(32)]]]},
        {"columns": [["a", [0, b"", b"ab"]]]},
        {"columns": [["a", [0, b"", b""]], ["a", [0, b"", b""]]]},
        {"columns": [["a", [0, b"", b""]], ["a.b", [0, b"", b""]]]},
        {"columns": [["`a`", [0, b"", b""]]]},
        {"columns": [["a" * 1_001, [0, b"", b""]]]},
        {"columns": [[".".join("a" * 101), [0, b"", b""]]]},
        {"columns": [[str(number), [0, b"", b""]] for number in range(10_001)]},
        {"columns": [[str(number), [0, b"", b""]] for number in range(9_000)], "rows": 200},
        {"columns": [[f"{number:0999}", [0, b"", b""]] for number in range(500)], "rows": 100, "ids": IDS},
        {"ids": [4, b"\x01", b"ab", OFFSETS]},
        {"ids": [4, b"", b"ab", b"\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00"]},
        {"ids": [2, b"", bytes(16)]},
        {"sources": [4, b"", b"ab", b"\x00\x00\x00\x00\x00\x00\x00\x00\x02\x00\x00\x00"]},
        {"times": [2, b"", bytes(16)]},
    ],
    ids=lambda each: str(each)[:60],
)
def test_a_forged_batch_is_refused_with_a_reason(changes: dict[str, Any]) -> None:
    with pytest.raises((WireError, EventError)) as refused:
        decode_batch(forged(**changes))
    assert str(refused.value)
