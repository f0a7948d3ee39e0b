"""Matches into a folder of Parquet files, for any reader, each batch whole and once.

    hits/palio_batch=6f1c2a90-000000000012/part-00000.parquet

A batch is a folder, and it appears by one rename, so that whoever reads `hits` sees all of a batch or nothing of it;
there is no list of valid files that a reader would have to know. The name is the batch's: run again, it finds itself
there. Until then its files are in a folder beside `hits`, where no pattern of `hits` finds them, and what a killed run
left there is removed by the next. A rename that is all or nothing is had on disks only; in an object store, take Delta.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Final

from palio.errors import PipelineError
from palio.spark.places import absolute, synchronise
from palio.spark.sinks.parts import Part, check_types, write_parts
from palio.spark.sinks.sink import Batch, Taken

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType

BATCH_COLUMN: Final = "palio_batch"


class ParquetSink:
    """Writes each batch as a folder of Parquet files, named as a partition: readers have a column `palio_batch`.

    The folder must be on a disk that the workers see too. A batch without matches leaves nothing.
    """

    def __init__(self, path: str | Path) -> None:
        address = absolute(path)
        if "://" in address and not address.startswith("file://"):
            raise PipelineError(
                f"{address}: in an object store no batch can appear all at once to readers that know no log; "
                "write it with DeltaSink"
            )
        self.path = address.removeprefix("file://")

    def __repr__(self) -> str:
        return f"ParquetSink({self.path!r})"

    def check(self, schema: StructType) -> None:
        """Refuse matches with columns that cannot be kept; a stream asks when it starts."""
        if BATCH_COLUMN in schema.names:
            raise PipelineError(f"{BATCH_COLUMN} is the name of a column that readers get; rename that of the events")
        check_types(schema, self)

    def __call__(self, matches: DataFrame, batch: Batch) -> Taken | None:
        self.check(matches.schema)
        target = self._folder(batch)
        self._remove_drafts(batch)
        if target.exists():
            return None
        draft = self._drafts / f"{batch.key}.{secrets.token_hex(4)}"
        try:
            parts = write_parts(matches, str(draft))
        except BaseException:  # Ctrl-C too
            self._remove_drafts(batch)
            raise
        if target.exists():
            return None  # another run of the batch was faster, and has cleared away
        if parts:
            _settle(draft, parts)
            target.parent.mkdir(parents=True, exist_ok=True)
            _publish(draft, target)
        self._remove_drafts(batch)
        return Taken(sum(part.rows for part in parts))

    def files(self, batch: Batch) -> list[str]:
        """The files of a batch; none where it had no matches."""
        return sorted(str(path) for path in self._folder(batch).glob("*.parquet"))

    def _folder(self, batch: Batch) -> Path:
        return Path(self.path) / f"{BATCH_COLUMN}={batch.key}"

    @property
    def _drafts(self) -> Path:
        path = Path(self.path)
        return path.parent / f".{path.name}.drafts"

    def _remove_drafts(self, batch: Batch) -> None:
        """Remove what runs of this batch left that did not come to publish it."""
        for draft in self._drafts.glob(f"{batch.key}.*"):
            shutil.rmtree(draft, ignore_errors=True)
        with contextlib.suppress(OSError):
            self._drafts.rmdir()


def _settle(draft: Path, parts: list[Part]) -> None:
    """Leave only what belongs to the result, under names that say nothing of who wrote it, safe on disk."""
    for place, part in enumerate(parts):
        if not (draft / part.name).exists():
            raise PipelineError(
                f"a worker has written {draft / part.name}, and it is not here; the folder must be on a disk that the "
                "driver and the workers share"
            )
        (draft / part.name).rename(draft / f"part-{place:05}")
    for stray in draft.glob("*.parquet"):  # of tasks that were run twice
        stray.unlink()
    for file in sorted(draft.iterdir()):
        _synchronise_file(file)
        file.rename(file.with_suffix(".parquet"))
    synchronise(draft)


def _synchronise_file(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _publish(draft: Path, target: Path) -> None:
    try:
        draft.rename(target)
    except OSError:
        # A folder is never renamed over one with files in it: another run of the batch was faster, with the same rows.
        if not target.exists():
            raise
    synchronise(target.parent)
