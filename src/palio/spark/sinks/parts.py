"""Parquet files written by Spark's workers, through Arrow: no jar is needed to reach an object store, and who wrote
which file is known without listing.

Spark's own writer would save a passage through Python. It needs a committer for each kind of store, leaves marks and
checksums of its own, writes moments in a form of the past, and cannot reach S3 without a jar.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from palio.errors import PipelineError
from palio.spark.arrow_types import arrow_schema
from palio.spark.places import resolve

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

_ROWS_IN_GROUP: Final = 1 << 17
_ANSWER: Final = "name string, rows long, bytes long, schema binary"


@dataclass(frozen=True, slots=True)
class Part:
    """A file that a task wrote."""

    name: str
    rows: int
    size: int
    schema: pa.Schema


def check_types(schema: StructType, sink: object) -> None:
    """Refuse columns that would not be read back as what they are: intervals as numbers, a VARIANT as a structure."""
    from pyspark.sql.types import StructType

    for field in schema.fields:
        try:
            arrow_schema(StructType([field]))
        except PipelineError:
            raise PipelineError(
                f"{sink} cannot keep the column {field.name}, of type {field.dataType.simpleString()}; CAST it to "
                "another, or leave it out: columns=[…]"
            ) from None


def write_parts(rows: DataFrame, folder: str) -> list[Part]:
    """Write rows to Parquet files in a folder by its address; a task without rows writes none.

    A task that is run twice writes twice; only the files that are told belong to the result.
    """
    told = rows.mapInArrow(partial(_write_part, folder), _ANSWER).collect()
    parts = [Part(row.name, row.rows, row.bytes, pa.ipc.read_schema(pa.py_buffer(row.schema))) for row in told]
    return sorted(parts, key=lambda part: part.name)


def _write_part(folder: str, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None  # tasks have one
    name = f"part-{context.partitionId():05}-{context.taskAttemptId()}.parquet"
    written = _Part(folder, name)
    for batch in batches:
        written.take(batch)
    if written.rows:
        yield written.finish()


class _Part:
    """A file that is being written; it is begun with the first row."""

    def __init__(self, folder: str, name: str) -> None:
        self.rows = 0
        self._system, root = resolve(folder)
        self._system.create_dir(root)
        self._name = name
        self._path = f"{root}/{name}"
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._writer: Any = None
        self._schema: pa.Schema | None = None

    def take(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows
        self.rows += batch.num_rows
        if self._waiting_rows >= _ROWS_IN_GROUP:
            self._write()

    def finish(self) -> pa.RecordBatch:
        self._write()
        self._writer.close()
        assert self._schema is not None  # a row was written
        size = self._system.get_file_info(self._path).size
        told = {"name": self._name, "rows": self.rows, "bytes": size, "schema": self._schema.serialize().to_pybytes()}
        return pa.RecordBatch.from_pylist([told])

    def _write(self) -> None:
        table = pa.Table.from_batches(self._waiting)
        if self._schema is None:
            self._schema = pa.schema([_in_utc(field) for field in table.schema])
            self._writer = pq.ParquetWriter(self._path, self._schema, filesystem=self._system)
        if self._waiting:
            self._writer.write_table(table.cast(self._schema))
        self._waiting, self._waiting_rows = [], 0


def _in_utc(field: pa.Field) -> pa.Field:
    """A field whose moments are told in UTC: Spark hands them over in the zone of the session, Delta knows no other."""
    return field.with_type(_type_in_utc(field.type))


def _type_in_utc(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, "UTC")
    if pa.types.is_struct(kind):
        return pa.struct([_in_utc(kind.field(place)) for place in range(kind.num_fields)])
    if pa.types.is_list(kind):
        return pa.list_(_in_utc(kind.value_field))
    if pa.types.is_map(kind):
        return pa.map_(_in_utc(kind.key_field), _in_utc(kind.item_field))
    return kind
