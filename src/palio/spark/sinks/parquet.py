"""Sink to a folder of Parquet files: each batch appears whole and once, for any reader.

    hits/palio_batch=6f1c2a90-000000000012/part-00000.parquet

A batch is a folder that appears by one rename, so that a reader of `hits` sees all of a batch or nothing; there is no
list of valid files that a reader would have to know. The folder is named by the batch, so a second run finds its own
result. Until then the files are in a folder beside `hits`, outside its patterns; drafts of a killed run are removed by
the next. Atomic renames exist on disks only; in an object store, use Delta.

All batches of a folder have one schema, that of any file, until a batch has other columns. From then on the schema with
all columns is in `_common_metadata`, Parquet's own name for it, where Spark looks first. It is not written before
because Polars reads no folder with a file of another suffix.

The files are written by Spark's workers through Arrow, also for the Delta sink: no jar is needed to reach an object
store, and the files of a batch are known without listing. Rejected: Spark's own writer. It would save a passage through
Python, but it needs a committer for each kind of store, leaves marker and checksum files, writes timestamps in a legacy
type, and cannot reach S3 without a jar.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from palio.errors import PipelineError
from palio.files.durable_write import fsync_path
from palio.spark.sinks.sink import Batch, Taken
from palio.spark.sinks.stored_schema import added_fields, check_types, refuse_changed_types, stored_schema
from palio.spark.storage import absolute, resolve

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


BATCH_COLUMN: Final = "palio_batch"
ROW_GROUP_ROWS: Final = 1 << 17
_COMMON_SCHEMA: Final = "_common_metadata"
_ANSWER: Final = "name string, rows long, bytes long, schema binary"


class ParquetSink:
    """Writes each batch as a folder of Parquet files, named as a partition: readers get a column `palio_batch`.

    The folder must be on a disk that the workers share. A batch without matches leaves nothing. A task holds
    the rows of one row group in memory, `row_group_rows` or a few more.
    """

    def __init__(self, path: str | Path, *, row_group_rows: int = ROW_GROUP_ROWS) -> None:
        address = absolute(path)
        if "://" in address and not address.startswith("file://"):
            raise PipelineError(
                f"{address}: in an object store no batch can appear all at once to readers that know no log; "
                "write it with DeltaSink"
            )
        self.path = address.removeprefix("file://")
        self._row_group_rows = row_group_rows

    def __repr__(self) -> str:
        return f"ParquetSink({self.path!r})"

    def check(self, schema: StructType) -> None:
        """Refuse columns that cannot be stored; a stream calls this when it starts."""
        if BATCH_COLUMN in schema.names:
            raise PipelineError(f"{BATCH_COLUMN} is the name of a column that readers get; rename that of the events")
        check_types(schema, self)

    def check_stored(self, schema: StructType) -> None:
        """Refuse columns that are stored with another type; a stream calls this when it starts."""
        known = self._schema()
        if known is not None:
            refuse_changed_types(known, check_types(schema, self), self)

    def __call__(self, matches: DataFrame, batch: Batch) -> Taken:
        self.check(matches.schema)
        self.check_stored(matches.schema)
        target = self._folder(batch)
        self._remove_drafts(batch)
        if target.exists():
            return self._count_again(batch)
        draft = self._drafts / f"{batch.key}.{secrets.token_hex(4)}"
        try:
            parts = write_parts(matches, str(draft), self._row_group_rows)
            # Looked up again: the job may have taken long.
            if target.exists():
                return self._count_again(batch)  # another run of the batch was faster, and has removed the drafts
            if parts:
                _finish_draft(draft, parts)
                self._admit_schema(parts[0].schema, batch)
                target.parent.mkdir(parents=True, exist_ok=True)
                _publish(draft, target)
        finally:  # after Ctrl-C too
            self._remove_drafts(batch)
        return Taken(sum(part.rows for part in parts))

    def files(self, batch: Batch) -> list[str]:
        """The files of a batch; none where it had no matches."""
        return sorted(str(path) for path in self._folder(batch).glob("*.parquet"))

    def _count_again(self, batch: Batch) -> Taken:
        """The answer for a batch that an earlier run has written."""
        return Taken(sum(pq.read_metadata(file).num_rows for file in self.files(batch)), is_replay=True)

    def _schema(self) -> pa.Schema | None:
        """The columns of all batches; None before the first. It costs one footer, however many batches there are."""
        common = Path(self.path) / _COMMON_SCHEMA
        if common.exists():
            return pq.read_schema(common)
        with contextlib.suppress(FileNotFoundError), os.scandir(self.path) as entries:
            for entry in entries:
                if entry.name.startswith(f"{BATCH_COLUMN}="):
                    for file in Path(entry.path).glob("*.parquet"):  # none where somebody removes old batches
                        return pq.read_schema(file)
        return None

    def _admit_schema(self, schema: pa.Schema, batch: Batch) -> None:
        """Compare the schema of a finished draft with that of the folder, and record both where columns differ.

        Before the batch appears: a reader must not meet a column that the record does not have.
        """
        known = self._schema()
        if known is None:
            return
        # Again: another stream may have written its first batch meanwhile.
        refuse_changed_types(known, schema, self)
        added, common = added_fields(known, schema), Path(self.path) / _COMMON_SCHEMA
        if added or (added_fields(schema, known) and not common.exists()):
            draft = self._drafts / f"{batch.key}.{secrets.token_hex(4)}"
            pq.write_metadata(pa.schema([*known.remove_metadata(), *added]), draft)
            fsync_path(draft)
            draft.replace(common)

    def _folder(self, batch: Batch) -> Path:
        return Path(self.path) / f"{BATCH_COLUMN}={batch.key}"

    @property
    def _drafts(self) -> Path:
        path = Path(self.path)
        return path.parent / f".{path.name}.drafts"

    def _remove_drafts(self, batch: Batch) -> None:
        """Remove the drafts of earlier runs of this batch."""
        for draft in self._drafts.glob(f"{batch.key}.*"):
            if draft.is_dir():
                shutil.rmtree(draft, ignore_errors=True)
            else:
                draft.unlink(missing_ok=True)
        with contextlib.suppress(OSError):
            self._drafts.rmdir()


def _finish_draft(draft: Path, parts: list[Part]) -> None:
    """Reduce a draft to the files of the result, named without their task attempts, and make them durable."""
    for place, part in enumerate(parts):
        if not (draft / part.name).exists():
            raise PipelineError(
                f"a worker has written {draft / part.name}, and it is not here; the folder must be on a disk that the "
                "driver and the workers share"
            )
        (draft / part.name).rename(draft / f"part-{place:05}")
    # Parts of the result have no suffix yet, so these are leftovers.
    for stray in draft.glob("*.parquet"):  # of tasks that were run twice
        stray.unlink()
    for file in sorted(draft.iterdir()):
        fsync_path(file)
        file.rename(file.with_suffix(".parquet"))
    fsync_path(draft)


def _publish(draft: Path, target: Path) -> None:
    try:
        draft.rename(target)
    except OSError:
        # A folder is never renamed over one with files in it: another run of the batch was faster, with the same rows.
        if not target.exists():
            raise
    fsync_path(target.parent)


@dataclass(frozen=True, slots=True)
class Part:
    """A file that a task wrote."""

    name: str
    rows: int
    size: int
    schema: pa.Schema


def write_parts(rows: DataFrame, folder: str, row_group_rows: int = ROW_GROUP_ROWS) -> list[Part]:
    """Write rows to Parquet files in a folder at an address; a task without rows writes none.

    A task that is run twice writes twice; only the returned files belong to the result.
    """
    answers = rows.mapInArrow(partial(_write_part, folder, row_group_rows), _ANSWER).collect()
    parts = [Part(row.name, row.rows, row.bytes, pa.ipc.read_schema(pa.py_buffer(row.schema))) for row in answers]
    return sorted(parts, key=lambda part: part.name)


def _write_part(folder: str, row_group_rows: int, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    from pyspark import TaskContext

    context = TaskContext.get()
    assert context is not None  # tasks have one
    name = f"part-{context.partitionId():05}-{context.taskAttemptId()}.parquet"
    writer = PartWriter(folder, name, row_group_rows)
    for batch in batches:
        writer.append(batch)
    if writer.rows:
        yield writer.finish()


class PartWriter:
    """Writes one file, in row groups; the file is created with the first group."""

    def __init__(self, folder: str, name: str, row_group_rows: int) -> None:
        self.rows = 0
        self._row_group_rows = row_group_rows
        self._system, root = resolve(folder)
        self._system.create_dir(root)
        self._name = name
        self._path = f"{root}/{name}"
        self._waiting: list[pa.RecordBatch] = []
        self._waiting_rows = 0
        self._writer: Any = None
        self._schema: pa.Schema | None = None

    def append(self, batch: pa.RecordBatch) -> None:
        if not batch.num_rows:
            return
        self._waiting.append(batch)
        self._waiting_rows += batch.num_rows
        self.rows += batch.num_rows
        if self._waiting_rows >= self._row_group_rows:
            self._write_group()

    def finish(self) -> pa.RecordBatch:
        if self._waiting:  # none where the last batch completed a group
            self._write_group()
        assert self._schema is not None  # the caller finishes files with rows only
        self._writer.close()
        size = self._system.get_file_info(self._path).size
        schema = self._schema.serialize().to_pybytes()
        return pa.RecordBatch.from_pylist([{"name": self._name, "rows": self.rows, "bytes": size, "schema": schema}])

    def _write_group(self) -> None:
        table = pa.Table.from_batches(self._waiting)
        if self._schema is None:
            self._schema = stored_schema(table.schema)
            self._writer = pq.ParquetWriter(self._path, self._schema, filesystem=self._system)
        self._writer.write_table(table.cast(self._schema))
        self._waiting, self._waiting_rows = [], 0
