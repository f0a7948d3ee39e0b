"""Palio's own brokers as a source: `spark.dataSource.register(PalioSource)`, then `spark.readStream.format("palio")`.

A broker numbers the confirmed events that it lets in, and keeps them in its log. So each broker that is named is a part
of the source, known by its node number, which stays when it is restarted or moved; an offset is that of its log, kept
by Spark. Nothing is left at a broker between batches. `where` is judged there: what nobody asked for does not travel.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceArrowWriter,
    DataSourceReader,
    DataSourceStreamArrowWriter,
    DataSourceStreamReader,
)

from palio.errors import PipelineError
from palio.filters.filter import Filter
from palio.network.client.log import LoggedEvent
from palio.spark.arrow_types import arrow_schema
from palio.spark.broker_connection import Brokers
from palio.spark.broker_publishing import BrokerStreamWriter, BrokerWriter, Publishing
from palio.spark.sources.offsets import NumberedReader, NumberedStreamReader, Reading
from palio.spark.sources.options import READING, check_options

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

OPTIONS: Final = ("url", "where", "token", "authority", "patience", "id", "source", *READING)
SCHEMA: Final = "node long, offset long, logged timestamp, id string, source string, time timestamp, event string"
_LOOKED_AT: Final = 2_000  # events of a log at a time
_IDENTITY: Final[dict[str, Callable[[int, LoggedEvent], Any]]] = {
    "node": lambda node, logged: node,
    "offset": lambda node, logged: logged.offset,
    "logged": lambda node, logged: logged.time,
    "id": lambda node, logged: logged.event.id,
    "source": lambda node, logged: logged.event.source,
    "time": lambda node, logged: logged.event.time,
    "event": lambda node, logged: logged.event.to_json(),
}
_TYPES: Final = {
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
    """The logs of some brokers: those of their events that match."""

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
                if str(broker.read_log(limit=0).node) != part:
                    continue
                while start < stop:
                    page = broker.read_log(self.where, start=start, limit=min(_LOOKED_AT, stop - start))
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
            identity = _IDENTITY.get(field.name)
            if identity is not None:
                columns.append(pa.array([identity(node, each) for each in events], field.type))
                continue
            contents = contents or [each.event.to_dict() for each in events]
            columns.append(_column([content.get(field.name) for content in contents], field.type))
        return pa.RecordBatch.from_arrays(columns, schema=self.schema)


class PalioSource(DataSource):
    """The data source `palio`, to read from and to write to.

    Options: `url` (`palio://127.0.0.1:7420`; several with commas, to read the logs of all), and perhaps `where`,
    `token`, `authority` and `patience`; `start`, `until`, `maxRowsPerBatch`, `rowsPerPartition` and `onLoss` as
    `Reading` has them; `id` and `source` for writing, as `Publishing` has them. A schema of one's own names attributes
    of events as columns; those of the source keep their meaning.
    """

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        check_options(self.name(), options, OPTIONS)

    @classmethod
    def name(cls) -> str:
        return "palio"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return NumberedReader(self._place(schema), Reading.from_options(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        return NumberedStreamReader(self._place(schema), Reading.from_options(self.options))

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceArrowWriter:
        if overwrite:
            raise PipelineError("what was published stays published; write with mode append")
        return BrokerWriter(Publishing.from_options(self.options))

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamArrowWriter:  # noqa: N802
        return BrokerStreamWriter(Publishing.from_options(self.options))

    def _place(self, schema: StructType) -> BrokerLogs:
        where = self.options.get("where", "true")
        Filter.parse(where)  # a mistake in it is told here, and not by every worker
        columns = arrow_schema(schema)
        for field in columns:
            own = _TYPES.get(field.name, field.type)
            if field.type != own:
                raise PipelineError(
                    f"{field.name} is what the source itself says of an event, a {own}, not a {field.type}; "
                    "an attribute of that name is in the column event"
                )
        return BrokerLogs(Brokers.from_options(self.options), where, columns)


def _column(values: list[Any], type: pa.DataType) -> pa.Array:
    """Values of an attribute in a column of some type; what does not fit it is null, as it is to a condition."""
    with suppress(pa.ArrowException, OverflowError):
        return pa.array(values, type)
    fitting: list[Any] = []
    for value in values:
        fits = None
        with suppress(pa.ArrowException, OverflowError):
            fits = pa.scalar(value, type)
        fitting.append(None if fits is None else fits.as_py())
    return pa.array(fitting, type)
