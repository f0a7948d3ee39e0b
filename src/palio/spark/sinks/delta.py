"""Sink to a Delta table: one commit for each batch, through `deltalake`, without a jar.

Workers write the files of a batch into the table's folder, where they are invisible until the driver commits them. The
commit carries the stream's name and the batch number as an application transaction, so the table itself records which
batches it has. Files of a killed run are never committed; `vacuum(full=True)` removes them. They are not removed here,
because a driver that is only presumed dead may still commit them.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from palio.errors import PipelineError
from palio.spark.sinks.parquet import Part, check_types, write_parts
from palio.spark.sinks.sink import Batch, Taken
from palio.spark.storage import absolute, join_address

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


class DeltaSink:
    """Appends each batch to a Delta table at a path or address; the first match creates it.

    `storage_options` are those of `deltalake`. A batch without matches makes no commit.
    """

    def __init__(self, table: str | Path, *, storage_options: Mapping[str, str] | None = None) -> None:
        self.table = absolute(table)
        self._options = dict(storage_options or {})

    def __repr__(self) -> str:
        return f"DeltaSink({self.table!r})"

    def check(self, schema: StructType) -> None:
        """Refuse columns that cannot be stored; a stream calls this when it starts."""
        check_types(schema, self)

    def __call__(self, matches: DataFrame, batch: Batch) -> Taken | None:
        self.check(matches.schema)
        deltalake = _deltalake()
        if deltalake.DeltaTable.is_deltatable(self.table, storage_options=self._options):
            table = deltalake.DeltaTable(self.table, storage_options=self._options)
            if _has(table, batch):
                return None
        # A folder of its own for each run: files of a killed one are never mistaken for these.
        folder = f"{batch.key}.{secrets.token_hex(4)}"
        parts = write_parts(matches, join_address(self.table, folder))
        # A batch without matches makes no commit: running it again costs nothing.
        if parts and not self._commit(parts, folder, batch):
            return None
        return Taken(sum(part.rows for part in parts))

    def files(self, batch: Batch) -> list[str]:
        """The files of a batch; none where it had no matches."""
        deltalake = _deltalake()
        if not deltalake.DeltaTable.is_deltatable(self.table, storage_options=self._options):
            return []
        table = deltalake.DeltaTable(self.table, storage_options=self._options)
        paths = pa.table(table.get_add_actions(flatten=True))["path"].to_pylist()
        return sorted(join_address(self.table, path) for path in paths if path.startswith(f"{batch.key}."))

    def _commit(self, parts: list[Part], folder: str, batch: Batch) -> bool:
        """Commit a batch; False where another driver has done so meanwhile."""
        deltalake = _deltalake()
        from deltalake.exceptions import CommitFailedError
        from deltalake.transaction import AddAction

        schema = deltalake.Schema.from_arrow(parts[0].schema)
        # Reads the table again: the check before the job may be long ago.
        table: DeltaTable = deltalake.DeltaTable.create(
            self.table, schema, mode="ignore", storage_options=self._options
        )
        if _has(table, batch):
            return False
        actions: list[Any] = [
            AddAction(
                path=f"{folder}/{part.name}",
                size=part.size,
                partition_values={},
                modification_time=int(batch.time.timestamp() * 1000),
                data_change=True,
                stats=json.dumps({"numRecords": part.rows}),
            )
            for part in parts
        ]
        properties = deltalake.CommitProperties(
            custom_metadata={"palio_batch": batch.key, "palio_version": str(batch.version)},
            app_transactions=[deltalake.Transaction(batch.stream, batch.number)],
        )
        try:
            # Fails where this stream has committed anything since the table was opened.
            table.create_write_transaction(actions, mode="append", schema=schema, commit_properties=properties)
        except CommitFailedError:
            table.update_incremental()
            if not _has(table, batch):
                raise
            return False
        return True


def _has(table: DeltaTable, batch: Batch) -> bool:
    """Whether a table had a batch when it was opened."""
    known = table.transaction_version(batch.stream)
    return known is not None and known >= batch.number


def _deltalake() -> Any:
    try:
        import deltalake
    except ImportError:
        raise PipelineError("Delta tables need deltalake; run: pip install 'palio[delta]'") from None
    return deltalake
