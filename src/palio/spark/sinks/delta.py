"""Sink to a Delta table: one commit for each batch, through `deltalake`, without a jar.

Workers write the files of a batch into the table's folder, where they are invisible until the driver commits them. The
commit carries the stream's name and the batch number as an application transaction, so the table itself records which
batches it has. Files of a killed run are never committed; `vacuum(full=True)` removes them. They are not removed here,
because a driver that is only presumed dead may still commit them.

New columns are added to the table in a commit of their own, before that of the batch. A driver that dies between the
two leaves columns without values, which the next run finds.
"""

from __future__ import annotations

import json
import secrets
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from palio.errors import PipelineError
from palio.spark.sinks.parquet import ROW_GROUP_ROWS, Part, write_parts
from palio.spark.sinks.sink import Batch, Taken
from palio.spark.sinks.stored_schema import added_fields, check_types, refuse_changed_types
from palio.spark.storage import absolute, join_address

if TYPE_CHECKING:
    from deltalake import DeltaTable
    from pyspark.sql import DataFrame
    from pyspark.sql.types import StructType


_MAX_COMMITS_AFTER_REPLAY: Final = 100  # a batch is run again soon after its commit, or never
_MAX_SCHEMA_CHANGES: Final = 10  # of other streams at the same moment


class DeltaSink:
    """Appends each batch to a Delta table at a path or address; the first match creates it.

    `storage_options` are those of `deltalake`, `row_group_rows` is as for `ParquetSink`. A batch without matches makes
    no commit.
    """

    def __init__(
        self,
        table: str | Path,
        *,
        storage_options: Mapping[str, str] | None = None,
        row_group_rows: int = ROW_GROUP_ROWS,
    ) -> None:
        self.table = absolute(table)
        self._options = dict(storage_options or {})
        self._row_group_rows = row_group_rows

    def __repr__(self) -> str:
        return f"DeltaSink({self.table!r})"

    def check(self, schema: StructType) -> None:
        """Refuse columns that cannot be stored; a stream calls this when it starts."""
        check_types(schema, self)

    def check_stored(self, schema: StructType) -> None:
        """Refuse columns that are stored with another type; a stream calls this when it starts."""
        table = self._open()
        if table is not None:
            refuse_changed_types(_schema(table), check_types(schema, self), self)

    def __call__(self, matches: DataFrame, batch: Batch) -> Taken | None:
        stored, table = check_types(matches.schema, self), self._open()
        if table is not None:
            if _has(table, batch):
                return _count_again(table, batch)
            refuse_changed_types(_schema(table), stored, self)
        # A folder of its own for each run: files of a killed one are never mistaken for these.
        folder = f"{batch.key}.{secrets.token_hex(4)}"
        parts = write_parts(matches, join_address(self.table, folder), self._row_group_rows)
        # A batch without matches makes no commit: running it again costs nothing.
        return self._commit(parts, folder, batch) if parts else Taken(0)

    def files(self, batch: Batch) -> list[str]:
        """The files of a batch; none where it had no matches."""
        table = self._open()
        if table is None:
            return []
        paths = pa.table(table.get_add_actions(flatten=True))["path"].to_pylist()
        return sorted(join_address(self.table, path) for path in paths if path.startswith(f"{batch.key}."))

    def _open(self) -> DeltaTable | None:
        """The table as it is now; None where there is none yet."""
        deltalake = _deltalake()
        if not deltalake.DeltaTable.is_deltatable(self.table, storage_options=self._options):
            return None
        table: DeltaTable = deltalake.DeltaTable(self.table, storage_options=self._options)
        return table

    def _commit(self, parts: list[Part], folder: str, batch: Batch) -> Taken | None:
        """Commit a batch, unless another driver has done so meanwhile."""
        deltalake = _deltalake()
        from deltalake.exceptions import CommitFailedError
        from deltalake.transaction import AddAction

        stored, rows = parts[0].schema, sum(part.rows for part in parts)
        schema = deltalake.Schema.from_arrow(stored)
        # Reads the table again: the check before the job may be long ago.
        table: DeltaTable = deltalake.DeltaTable.create(
            self.table, schema, mode="ignore", storage_options=self._options
        )
        if _has(table, batch):
            return _count_again(table, batch)
        refuse_changed_types(_schema(table), stored, self)
        table = self._add_columns(table, stored)
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
            custom_metadata={
                "palio_batch": batch.key,
                "palio_version": str(batch.version),
                "palio_matches": str(rows),
            },
            app_transactions=[deltalake.Transaction(batch.stream, batch.number)],
        )
        try:
            # Fails where this stream has committed anything since the table was opened.
            table.create_write_transaction(actions, mode="append", schema=schema, commit_properties=properties)
        except CommitFailedError:
            table.update_incremental()
            if not _has(table, batch):
                raise
            return _count_again(table, batch)
        return Taken(rows)

    def _add_columns(self, table: DeltaTable, stored: pa.Schema) -> DeltaTable:
        """Add the columns that the table lacks; returns the table as it is then."""
        deltalake = _deltalake()
        from deltalake.exceptions import CommitFailedError

        for attempt in range(1, _MAX_SCHEMA_CHANGES + 1):
            added = added_fields(_schema(table), stored)
            if not added:
                break
            try:
                table.alter.add_columns(deltalake.Schema.from_arrow(pa.schema(added)).fields)
            except CommitFailedError:
                # Another stream has changed the schema meanwhile; what is left to add is seen at the next look.
                if attempt == _MAX_SCHEMA_CHANGES:
                    raise
            table = deltalake.DeltaTable(self.table, storage_options=self._options)
            refuse_changed_types(_schema(table), stored, self)
        return table


def _schema(table: DeltaTable) -> pa.Schema:
    return pa.schema(table.schema().to_arrow())


def _count_again(table: DeltaTable, batch: Batch) -> Taken | None:
    """The answer for a batch that was committed before, from the commit itself; its files may be compacted by now."""
    for commit in table.history(_MAX_COMMITS_AFTER_REPLAY):
        if commit.get("palio_batch") == batch.key and "palio_matches" in commit:
            return Taken(int(commit["palio_matches"]), is_replay=True)
    return None


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
