"""Parquet files as a worker writes them, row group by row group."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from palio.spark.sinks.parquet import ROW_GROUP_ROWS, PartWriter


@given(limit=st.integers(1, 6), sizes=st.lists(st.integers(0, 8), min_size=1, max_size=8).filter(any))
@example(limit=ROW_GROUP_ROWS, sizes=[ROW_GROUP_ROWS - 1, 1])
@example(limit=ROW_GROUP_ROWS, sizes=[0, 5, 0, ROW_GROUP_ROWS, 0, 1])
def test_a_file_has_all_rows_whatever_batches_they_come_in(
    tmp_path_factory: pytest.TempPathFactory, limit: int, sizes: list[int]
) -> None:
    folder, first = tmp_path_factory.mktemp("part"), 0
    writer = PartWriter(str(folder), "part.parquet", limit)
    for size in sizes:
        writer.append(pa.RecordBatch.from_pydict({"n": pa.array(range(first, first + size), pa.int64())}))
        first += size
    answer = writer.finish().to_pylist()[0]
    assert (answer["rows"], answer["bytes"]) == (first, (folder / "part.parquet").stat().st_size)
    with pq.ParquetFile(folder / "part.parquet") as file:
        assert file.read()["n"].to_pylist() == list(range(first))
        groups = [file.metadata.row_group(place).num_rows for place in range(file.num_row_groups)]
    # A group ends with the batch that fills it; only the last one may be smaller.
    assert all(rows >= limit for rows, _ in pairwise(groups))
    assert all(rows < limit + max(sizes) for rows in groups)
