"""Batches in Spark's workers: values that no event could hold are replaced, and arrays are matched in every form."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from palio.events.json import write_json
from palio.matching.matcher import Matcher
from palio.spark.attributes import PRESENCE_MEMBER
from palio.spark.record_batches import match_batch, sanitize_batch

BYTES = pa.array([b"A\xffB", b"whole", None])
TEXTS = pa.Array.from_buffers(pa.string(), 3, BYTES.buffers())
RIGHT = ["A\ufffdB", "whole", None]
OBJECTS = pa.StructArray.from_arrays([TEXTS, pa.array([1, 2, 3])], ["a", "b"], mask=pa.array([False, True, False]))
LONG = 100_001


def read(column: Any) -> list[Any]:
    batch = pa.RecordBatch.from_arrays([column], ["v"])
    made = sanitize_batch(batch)
    assert made.schema == batch.schema
    values: list[Any] = made.column(0).to_pylist()
    return values


@pytest.mark.parametrize(
    ("column", "right"),
    [
        (TEXTS, RIGHT),
        (TEXTS.slice(1), RIGHT[1:]),
        (TEXTS.cast(pa.large_string(), safe=False), RIGHT),
        (pa.DictionaryArray.from_arrays(pa.array([1, 0], pa.int32()), TEXTS.slice(0, 2)), ["whole", RIGHT[0]]),
        (OBJECTS, [{"a": RIGHT[0], "b": 1}, None, {"a": None, "b": 3}]),
        (pa.ListArray.from_arrays(pa.array([0, 2, 2, 3], pa.int32()), TEXTS), [RIGHT[:2], [], [None]]),
        (pa.ListArray.from_arrays(pa.array([0, 2, 2, 3], pa.int32()), TEXTS).slice(1), [[], [None]]),
        (pa.ListArray.from_arrays(pa.array([0, None, 2], pa.int32()), TEXTS.slice(0, 2)), [RIGHT[:2], None]),
        (
            pa.ListArray.from_arrays(pa.array([0, 1, 3], pa.int32()), OBJECTS),
            [[{"a": RIGHT[0], "b": 1}], [None, {"a": None, "b": 3}]],
        ),
        (pa.array([[0] * LONG, [1, 2], None, []]), [None, [1, 2], None, []]),
        (pa.array([[[0] * LONG, [1]], [[2]]]), [[None, [1]], [[2]]]),
    ],
)  # fmt: skip
def test_what_cannot_be_read_is_put_right(column: Any, right: list[Any]) -> None:
    assert read(column) == right


def test_what_can_be_read_stays_as_it_is() -> None:
    batch = pa.RecordBatch.from_pydict(
        {"n": [1, 2], "t": ["é", None], "l": [["a"], None], "s": [{"x": "y"}, None], "long": [[0] * (LONG - 1), []]}
    )
    assert sanitize_batch(batch) is batch


ARRAYS: list[list[int | None] | None] = [[], [5], [5, None], [4, None], [4], None]
ANSWERS = {
    "size({}) = 0": [0],
    "size({}) = 2": [2, 3],
    "array_contains({}, 5)": [1, 2],
    "NOT array_contains({}, 5)": [0, 4],
    "array_contains({}, 5) IS NULL": [3, 5],
}


def matched(batch: pa.RecordBatch, attribute: str, json: tuple[str, ...] = ()) -> dict[str, list[int]]:
    matcher = Matcher()
    matcher.add_many(list(ANSWERS), [where.format(attribute) for where in ANSWERS])
    found: dict[str, list[int]] = {id: [] for id in ANSWERS}
    for row, number in zip(*match_batch(matcher, batch, json), strict=True):
        found[matcher.numbered_ids()[int(number)].as_py()].append(int(row))
    return found


def test_whole_arrays_are_read_alike_as_columns_as_members_and_as_json() -> None:
    assert matched(pa.record_batch({"x": ARRAYS}), "x") == ANSWERS
    assert matched(pa.record_batch({"s.x": ARRAYS}), "s.x") == ANSWERS
    texts = [write_json({"x": each}) for each in ARRAYS]
    assert matched(pa.record_batch({"payload": texts}), "payload.x", ("payload",)) == ANSWERS
    # Of objects with several members that are read, and with their own presence.
    for presence in ({}, {PRESENCE_MEMBER: True}):
        objects = [None if each is None else [{"x": one, "y": 1} | presence for one in each] for each in ARRAYS]
        assert matched(pa.record_batch({"a": objects}), "a.x") == ANSWERS
