"""Parquet files as a worker writes them, row group by row group."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

# A task reaches the writer only through Spark, which decides the sizes of batches by itself.
from palio.spark.sinks.parquet import _ROW_GROUP_ROWS, _PartWriter


@pytest.mark.parametrize(
    ("batches", "groups"),
    [
        ([1], 1),
        ([_ROW_GROUP_ROWS], 1),
        ([_ROW_GROUP_ROWS - 1, 1], 1),
        ([_ROW_GROUP_ROWS, 1], 2),
        ([0, 5, 0, _ROW_GROUP_ROWS, 0], 1),
    ],
)
def test_a_file_may_end_with_the_batch_that_completes_a_row_group(
    tmp_path: Path, batches: list[int], groups: int
) -> None:
    writer = _PartWriter(str(tmp_path), "part.parquet")
    first = 0
    for size in batches:
        writer.append(pa.RecordBatch.from_pydict({"n": pa.array(range(first, first + size), pa.int64())}))
        first += size
    answer = writer.finish().to_pylist()[0]
    written = pq.ParquetFile(tmp_path / "part.parquet")
    assert written.read()["n"].to_pylist() == list(range(sum(batches)))
    assert written.num_row_groups == groups
    assert (answer["name"], answer["rows"]) == ("part.parquet", sum(batches))
    assert answer["bytes"] == (tmp_path / "part.parquet").stat().st_size
