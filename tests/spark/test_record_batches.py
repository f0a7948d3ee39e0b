"""Sanitizing of batches: values that no event could hold are replaced, all others stay."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from palio.spark.record_batches import sanitize_batch

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
