"""Rows as events, published to a broker: `df.writeStream.format("palio")`, each once however often a batch is run.

Every event is confirmed: on the disk of the broker before the batch is done. It has an id that is the same when its
batch is run again: of the query, the batch, the partition and the row. A broker takes an event of one publisher, source
and id once, for as many events back as its window of duplicates holds; make that larger than a batch. The rows of a
partition must come in the same order again, as they do from any source that can be read twice; where they do not, name
a column that tells rows apart.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final
from uuid import uuid4

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceArrowWriter, DataSourceStreamArrowWriter, WriterCommitMessage

from palio.errors import EventError, PalioError, PipelineError
from palio.events import Event
from palio.network.client.connecting import connect
from palio.spark.broker_connection import APP, Brokers

# What Spark tells the tasks of a micro-batch.
_QUERY: Final = "sql.streaming.queryId"
_BATCH: Final = "streaming.sql.batchId"


@dataclass(frozen=True)
class Publishing:
    """Where events go, and who they are."""

    brokers: Brokers
    id: str | None = None
    """A column whose value is the id of an event, in place of query, batch, partition and row."""
    source: str | None = None
    """Who says so, of every event; by default the publisher itself."""

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Publishing:
        return cls(Brokers.from_options(options), options.get("id"), options.get("source"))

    def events(self, batches: Iterator[pa.RecordBatch], name: str) -> Iterator[Event]:
        """The rows as events; `name` begins their ids."""
        row = 0
        for batch in batches:
            for each in Event.from_arrow(batch):
                id = f"{name}-{row}"
                if self.id is not None:
                    given = each.get(self.id)
                    if given is None or isinstance(given, tuple):
                        raise EventError("the id of an event is one value", self.id)
                    id = str(given)
                yield Event(each.attributes, id=id, source=self.source)
                row += 1

    def publish(self, batches: Iterator[pa.RecordBatch], name: str) -> Published:
        """Publish all rows of a partition, and wait until each is confirmed."""
        try:
            return Published(asyncio.run(self._publish(batches, name)))
        except PalioError as error:
            raise PipelineError(f"{self.brokers.urls[0]}: {error}") from None

    async def _publish(self, batches: Iterator[pa.RecordBatch], name: str) -> int:
        brokers = self.brokers
        async with connect(
            brokers.urls[0], brokers.token, app=APP, tls=brokers.tls(), patience=brokers.patience, publisher=APP
        ) as broker:
            return await broker.publish_all(self.events(batches, name), confirm=True)


@dataclass
class Published(WriterCommitMessage):
    """What a task says when it is done."""

    events: int


class BrokerStreamWriter(DataSourceStreamArrowWriter):
    """Publishes the batches of a stream."""

    def __init__(self, publishing: Publishing) -> None:
        self._publishing = publishing

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        task = _task()
        query, batch = task.getLocalProperty(_QUERY), task.getLocalProperty(_BATCH)
        if query is None or batch is None:
            raise PipelineError("Spark does not say of which query and batch this is")
        return self._publishing.publish(iterator, f"{query}-{batch}-{task.partitionId()}")


class BrokerWriter(DataSourceArrowWriter):
    """Publishes a DataFrame once; its tasks may be run again, and the job that is run again is another."""

    def __init__(self, publishing: Publishing) -> None:
        self._publishing = publishing
        self._job = str(uuid4())

    def write(self, iterator: Iterator[pa.RecordBatch]) -> WriterCommitMessage:
        return self._publishing.publish(iterator, f"{self._job}-0-{_task().partitionId()}")


def _task() -> TaskContext:
    task = TaskContext.get()
    if task is None:
        raise PipelineError("this is not a task of Spark")
    return task
