"""A log as Parquet: typed columns, whatever events came."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from io import BytesIO
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palio import Event
from palio.errors import ExpiredOffset, InvalidArgument
from palio.network.store.interface import Retention
from palio.network.store.memory import MemoryStore
from palio.network.store.parquet_export import export_parquet
from palio.routing import codec
from palio.routing.effects import Logged
from palio.routing.messages import EventId, Publish
from tests.strategies import attributes

NOON = datetime(2026, 11, 15, 12, tzinfo=UTC)


def store_of(*contents: dict[str, Any]) -> MemoryStore:
    store = MemoryStore(Retention(), clock=NOON.timestamp)
    for number, content in enumerate(contents, start=1):
        body = codec.encode_event(Event.from_dict(content, id=f"e{number}", source="/here", time=NOON))
        store.write([Logged(Publish(EventId(1, 1, number), body), "exchange")])
    return store


def exported(path: Path, *contents: dict[str, Any]) -> pa.Table:
    assert export_parquet(store_of(*contents).log, path / "log.parquet") == len(contents)
    return pq.read_table(path / "log.parquet")


def test_each_attribute_has_a_column_of_its_type(tmp_path: Path) -> None:
    content = {
        "symbol": "ACME",
        "price": 120,
        "share": 0.5,
        "exact": Decimal("12.34"),
        "open": True,
        "day": date(2026, 11, 15),
        "at": NOON,
        "raw": b"\x00\xff",
        "quote": {"lot": 100, "tags": ["a", "b"]},
    }
    table = exported(tmp_path, content, {"symbol": "INIT"})
    assert {field.name: field.type for field in table.schema if field.name != "_palio"} == {
        "symbol": pa.string(),
        "price": pa.int64(),
        "share": pa.float64(),
        "exact": pa.decimal128(4, 2),
        "open": pa.bool_(),
        "day": pa.date32(),
        "at": pa.timestamp("us", "UTC"),
        "raw": pa.binary(),
        "quote": pa.struct([("lot", pa.int64()), ("tags", pa.list_(pa.string()))]),
    }
    first, second = table.drop_columns("_palio").to_pylist()
    assert first == content
    assert second == {**dict.fromkeys(content), "symbol": "INIT"}
    assert table["_palio"][1].as_py() == {
        "offset": 2,
        "logged": NOON,
        "publisher": "exchange",
        "id": "e2",
        "source": "/here",
        "time": NOON,
    }


@pytest.mark.parametrize(
    ("values", "type", "expected"),
    [
        ([1, 2.5], pa.float64(), [1.0, 2.5]),
        ([1, Decimal("2.5")], pa.decimal128(20, 1), [Decimal(1), Decimal("2.5")]),
        ([Decimal("1E+5"), Decimal("0.001")], pa.decimal128(9, 3), [Decimal(100_000), Decimal("0.001")]),
        ([Decimal(10**37), Decimal("0.01")], pa.string(), ["1" + "0" * 37, "0.01"]),
        ([1, "one", True], pa.string(), ["1", "one", "true"]),
        ([date(2026, 1, 2), "later"], pa.string(), ["2026-01-02", "later"]),
        ([[1, 2], 3], pa.list_(pa.int64()), [[1, 2], [3]]),
        ([None, [None, 1]], pa.list_(pa.int64()), [None, [None, 1]]),
        ([None, None], pa.string(), [None, None]),
        ([{"a": 1}, "text"], pa.string(), ['{"a":1}', "text"]),
        ([{"a": 1}, {"b": "x"}], pa.struct([("a", pa.int64()), ("b", pa.string())]),
         [{"a": 1, "b": None}, {"a": None, "b": "x"}]),
    ],
)  # fmt: skip
def test_unlike_values_meet_in_one_type(
    tmp_path: Path, values: list[Any], type: pa.DataType, expected: list[Any]
) -> None:
    table = exported(tmp_path, *({"x": value} for value in values))
    assert table.schema.field("x").type == type
    assert table["x"].to_pylist() == expected


@settings(max_examples=max(20, settings.default.max_examples // 4))
@given(st.lists(attributes().map(Event), max_size=5))
def test_every_log_can_be_exported_and_read(found: list[Event]) -> None:
    file = BytesIO()
    store = MemoryStore()
    for number, each in enumerate(found, start=1):
        store.write([Logged(Publish(EventId(1, 1, number), codec.encode_event(each)), "exchange")])
    assert export_parquet(store.log, file) == len(found)
    table = pq.read_table(BytesIO(file.getvalue()))
    assert [row["id"] for row in table["_palio"].to_pylist()] == [each.id for each in found]
    assert set(table.column_names) - {"_palio"} == {name for each in found for name in each.to_dict()}


def test_a_part_of_the_log_is_exported_by_offsets(tmp_path: Path) -> None:
    log = store_of(*({"n": number} for number in range(1, 2_502))).log
    assert export_parquet(log, tmp_path / "part.parquet", 1_001, 2_301) == 1_300
    assert pq.read_table(tmp_path / "part.parquet")["n"].to_pylist() == list(range(1_001, 2_301))
    assert export_parquet(log, tmp_path / "none.parquet", 9_000) == 0


def test_an_attribute_of_the_name_of_the_identity_is_refused(tmp_path: Path) -> None:
    log = store_of({"_palio": 1}).log
    with pytest.raises(InvalidArgument, match="give the identity column another name"):
        export_parquet(log, tmp_path / "a.parquet")
    assert export_parquet(log, tmp_path / "a.parquet", identity="who") == 1


def test_what_is_gone_is_an_error(tmp_path: Path) -> None:
    store = MemoryStore(Retention(log_bytes=0))
    store.write([Logged(Publish(EventId(1, 1, 1), codec.encode_event(Event.from_dict({"x": 1}))), "exchange")])
    with pytest.raises(ExpiredOffset):
        export_parquet(store.log, tmp_path / "a.parquet", 1, 2)
    assert export_parquet(store.log, tmp_path / "a.parquet") == 0
