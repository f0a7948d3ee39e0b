"""Keys found column by column are those that the mapping gives event by event."""

from __future__ import annotations

from random import Random
from typing import Any

import pyarrow as pa
import pytest

from palio.events import Event
from palio.peers.event_keys import EventKeys
from palio.peers.histograms import Histogram
from palio.peers.placement import EventCells
from palio.peers.rendezvous_mappings import AttributeSplit, KeyMapping, KeySpaceSplit, SelectiveAttribute
from tests.oracles.tables import random_table


def as_sets(keyed: list[EventCells], count: int) -> list[set[tuple[int, int]]]:
    found: list[set[tuple[int, int]]] = [set() for _ in range(count)]
    for each in keyed:
        for row, cell in zip(each.rows.tolist(), each.cells.tolist(), strict=True):
            assert (each.axis, cell) not in found[row]
            found[row].add((each.axis, cell))
    return found


def scale_of(values: list[Any], choice: Random) -> Histogram:
    flat = [one for value in values for one in (value if isinstance(value, tuple) else (value,))]
    return Histogram.of(choice.sample(flat, len(flat) // 2), choice.randrange(1, 12), hashed=choice.random() < 0.3)


@pytest.mark.parametrize("seed", range(12))
def test_columns_of_every_type_give_the_keys_of_their_rows(seed: int) -> None:
    choice = Random(f"keys {seed}")
    table = random_table(choice, 60).combine_chunks()
    flat = {name: table.column(name).combine_chunks() for name in table.column_names if name != "rec"}
    events = list(Event.from_arrow(pa.table(flat)))
    names = [name for name in flat if name not in ("odd.name", "e-mail")]
    chosen = choice.sample(names, 3)
    if seed % 3 == 0:
        chosen[-1] = "nums"
    scales = {name: scale_of([event.get(name) for event in events], choice) for name in [*chosen, "absent"]}
    mappings: list[KeyMapping] = [SelectiveAttribute(scales), KeySpaceSplit(scales)]
    mappings += [AttributeSplit(scales, name) for name in scales]
    for mapping in mappings:
        expected = [{tuple(key) for key in mapping.event_keys(event.attributes)} for event in events]
        keys = EventKeys(mapping)
        assert as_sets(keys.of_columns(flat, len(events)), len(events)) == expected, (mapping.name, chosen)
        assert as_sets(keys.of_events(events), len(events)) == expected


@pytest.mark.parametrize(
    "column",
    [
        pa.array([None, None], pa.null()),
        pa.array([[], None, [None], [1, None, 1], [3]], pa.list_(pa.int64())),
        pa.array(["a", None, "b"]).dictionary_encode(),
        pa.array([2**64 - 1, 5, None], pa.uint64()),
        pa.array([1, None], pa.timestamp("ns")),
        pa.array([b"a", None], pa.large_binary()),
        pa.array([], pa.int32()),
    ],
    ids=lambda column: str(column.type),
)
def test_unusual_columns(column: pa.Array) -> None:
    scale = Histogram.of([1, 2, 3, "a", b"a", 10**30], 6)
    events = list(Event.from_arrow(pa.table({"x": column})))
    for mapping in (SelectiveAttribute({"x": scale}), AttributeSplit({"x": scale}, "x"), KeySpaceSplit({"x": scale})):
        expected = [{tuple(key) for key in mapping.event_keys(event.attributes)} for event in events]
        assert as_sets(EventKeys(mapping).of_columns({"x": column}, len(events)), len(events)) == expected
