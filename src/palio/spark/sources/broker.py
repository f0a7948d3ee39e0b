"""Data source `palio`: brokers' event logs as a DataFrame or stream, and rows published as events.

    spark.dataSource.register(PalioSource)
    spark.readStream.format("palio")…

Reading. A broker numbers the confirmed events that it accepts in its event log. Each broker is a part of the source,
identified by its node number, which survives restarts and moves; the offset is that of its log, and Spark's checkpoint
holds it. Nothing remains at a broker between batches. `where` is evaluated there, so other events do not travel.

Writing. Every event is confirmed, that is, on the broker's disk, before the batch is done. Its id consists of the
query, the batch, the partition and the row, so a batch that is run again has the same ids and the broker's duplicate
filter drops the repeats; make its window larger than a batch. The rows of a partition must come in the same order
again, as they do from any source that can be read twice; otherwise name a column that identifies rows.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
    WriterCommitMessage,
)

from palio.errors import EventError, PalioError, PipelineError
from palio.events import Event, quote_segment
from palio.events.arrow import read_column
from palio.filters.filter import Filter
from palio.network.client.log_pages import LoggedEvent
from palio.spark.connections import Brokers
from palio.spark.record_batches import arrow_schema
from palio.spark.sources.offset_reader import READ_OPTIONS, OffsetReader, OffsetStreamReader, ReadOptions, check_options
from palio.spark.workers import choose_python_of_active_session

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


OPTIONS: Final = ("url", "where", "token", "authority", "patience", "id", "source", *READ_OPTIONS)
SCHEMA: Final = "node long, offset long, logged timestamp, id string, source string, time timestamp, event string"
_PAGE_EVENTS: Final = 2_000
_SOURCE_COLUMNS: Final[dict[str, Callable[[int, LoggedEvent], Any]]] = {
    "node": lambda node, logged: node,
    "offset": lambda node, logged: logged.offset,
    "logged": lambda node, logged: logged.time,
    "id": lambda node, logged: logged.event.id,
    "source": lambda node, logged: logged.event.source,
    "time": lambda node, logged: logged.event.time,
    "event": lambda node, logged: logged.event.to_json(),
}
_SOURCE_TYPES: Final = {
    "node": pa.int64(),
    "offset": pa.int64(),
    "logged": pa.timestamp("us", "UTC"),
    "id": pa.string(),
    "source": pa.string(),
    "time": pa.timestamp("us", "UTC"),
    "event": pa.string(),
}


@dataclass(frozen=True)
class BrokerLogs:
    """The event logs of brokers, filtered by a condition."""

    brokers: Brokers
    where: str
    schema: pa.Schema

    def bounds(self) -> Mapping[str, tuple[int, int]]:
        bounds = {}
        for url in self.brokers.urls:
            with self.brokers.connect(url) as broker:
                page = broker.read_log(limit=0)
            bounds[str(page.node)] = (page.oldest, page.after)
        return bounds

    def read(self, part: str, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        for url in self.brokers.urls:
            with self.brokers.connect(url) as broker:
                # A part is named by its node, not its URL: the broker may have moved since the batch was planned.
                if str(broker.read_log(limit=0).node) != part:
                    continue
                while start < stop:
                    page = broker.read_log(self.where, start=start, limit=min(_PAGE_EVENTS, stop - start))
                    if page.events:
                        yield self._batch(page.node, page.events)
                    if page.next == start:
                        raise PipelineError(f"the log of broker {part} ends at {start:,}, and went to {stop:,}")
                    start = page.next
                return
        raise PipelineError(f"none of {', '.join(self.brokers.urls)} is the broker {part}, whose log is to be read")

    def _batch(self, node: int, events: list[LoggedEvent]) -> pa.RecordBatch:
        contents: list[dict[str, Any]] = []
        columns = []
        for field in self.schema:
            identity = _SOURCE_COLUMNS.get(field.name)
            if identity is not None:
                columns.append(pa.array([identity(node, each) for each in events], field.type))
                continue
            contents = contents or [each.event.to_dict() for each in events]
            columns.append(_column([content.get(field.name) for content in contents], field.type))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


class PalioSource(DataSource):
    """The data source `palio`, to read from and to write to.

    Options: `url` (`palio://127.0.0.1:7420`; several with commas, to read the logs of all), and perhaps `where`,
    `token`, `authority` and `patience`; `start`, `until`, `maxRowsPerBatch`, `rowsPerPartition` and `onLoss` as in
    `ReadOptions`; `id` and `source` for writing, as in `EventPublisher`. A schema of the caller names attributes of
    events as columns; columns of the source keep their meaning.
    """

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        check_options(self.name(), options, OPTIONS)

    @classmethod
    def name(cls) -> str:
        choose_python_of_active_session()  # Spark asks for the name just before it takes the source
        return "palio"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return OffsetReader(self._source(schema), ReadOptions.from_options(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        return OffsetStreamReader(self._source(schema), ReadOptions.from_options(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        if overwrite:
            raise PipelineError("what was published stays published; write with mode append")
        return BrokerWriter(EventPublisher.from_options(self.options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        return BrokerStreamWriter(EventPublisher.from_options(self.options))

    def _source(self, schema: StructType) -> BrokerLogs:
        where = self.options.get("where", "true")
        Filter.parse(where)  # a mistake is reported here, not by every worker
        columns = arrow_schema(schema)
        for field in columns:
            own = _SOURCE_TYPES.get(field.name, field.type)
            if field.type != own:
                raise PipelineError(
                    f"{field.name} is what the source itself says of an event, a {own}, not a {field.type}; "
                    "an attribute of that name is in the column event"
                )
        return BrokerLogs(Brokers.from_options(self.options), where, columns)


def _column(values: list[Any], type: pa.DataType) -> pa.Array:
    """Values of an attribute as a column; a value that does not fit the type is NULL, as it is to a condition."""
    with suppress(pa.ArrowException, OverflowError):
        return pa.array(values, type)
    fitting: list[Any] = []
    for value in values:
        fits = None
        with suppress(pa.ArrowException, OverflowError):
            fits = pa.scalar(value, type)
        fitting.append(None if fits is None else fits.as_py())
    return pa.array(fitting, type)


# Local properties of the tasks of a micro-batch.
_QUERY: Final = "sql.streaming.queryId"
_BATCH: Final = "streaming.sql.batchId"


@dataclass(frozen=True)
class EventPublisher:
    """Publishes the rows of a partition as events, confirmed, with ids that are stable across retries."""

    brokers: Brokers
    id: str | None = None
    """Column with the id of an event, in place of query, batch, partition and row."""
    source: str | None = None
    """Source attribute of every event; by default the publisher."""

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> EventPublisher:
        return cls(Brokers.from_options(options), options.get("id"), options.get("source"))

    def ids(self, batch: pa.RecordBatch, name: str, first: int) -> list[str]:
        """The ids of rows; `name` is their prefix, `first` the number of the first row."""
        if self.id is None:
            return [f"{name}-{row}" for row in range(first, first + batch.num_rows)]
        paths = [quote_segment(each) for each in batch.schema.names]
        if self.id in paths:
            given = read_column(batch.column(paths.index(self.id)), self.id)
        else:  # a member of a structure
            given = [each.get(self.id) for each in Event.from_arrow(batch)]
        if any(each is None or isinstance(each, tuple | list | dict) for each in given):
            raise EventError("the id of an event is one value", self.id)
        return list(map(str, given))

    def publish(self, batches: Iterator[pa.RecordBatch], name: str) -> Published:
        """Publish all rows of a partition, and wait for their confirmations."""
        try:
            return Published(asyncio.run(self._publish(batches, name)))
        except PalioError as error:
            raise PipelineError(f"{self.brokers.urls[0]}: {error}") from None

    async def _publish(self, batches: Iterator[pa.RecordBatch], name: str) -> int:
        rows = 0
        async with self.brokers.open_publisher() as broker:
            for batch in batches:
                ids = self.ids(batch, name, rows)
                rows += await broker.publish_many(batch, ids=ids, source=self.source, confirm=True)
        return rows


@dataclass
class Published(WriterCommitMessage):
    """Commit message of a task."""

    events: int


class BrokerStreamWriter(DataSourceStreamArrowWriter):
    def __init__(self, publishing: EventPublisher) -> None:
        self._publishing = publishing

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        task = _task()
        query, batch = task.getLocalProperty(_QUERY), task.getLocalProperty(_BATCH)
        if query is None or batch is None:
            raise PipelineError("Spark does not say of which query and batch this is")
        return self._publishing.publish(iterator, f"{query}-{batch}-{task.partitionId()}")


class BrokerWriter(DataSourceArrowWriter):
    """Publishes a DataFrame; a task that is run again publishes the same ids, another job publishes other ids."""

    def __init__(self, publishing: EventPublisher) -> None:
        self._publishing = publishing
        self._job = str(uuid4())

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._publishing.publish(iterator, f"{self._job}-0-{_task().partitionId()}")


def _task() -> TaskContext:
    task = TaskContext.get()
    if task is None:
        raise PipelineError("this is not a task of Spark")
    return task
