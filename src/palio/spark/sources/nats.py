"""NATS JetStream as a source: `spark.dataSource.register(NatsSource)`, then `spark.readStream.format("nats")`.

A stream of JetStream numbers its messages, so its offset is the number of the next one, kept by Spark; no consumer
lives at the server between batches. Messages are asked for by a consumer of the moment that acknowledges nothing and
whose own count is compared: should the connection break, reading goes on after the last that came, with a new one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader

from palio.errors import PipelineError
from palio.spark.nats_connection import Connection, nats_settings
from palio.spark.sources.offsets import NumberedReader, NumberedStreamReader, Reading
from palio.spark.sources.options import READING, check_options

if TYPE_CHECKING:
    from nats.aio.msg import Msg
    from nats.js import JetStreamContext
    from pyspark.sql.types import StructType

OPTIONS: Final = ("servers", "stream", "subject", "user", "password", "token", "credentials", *READING)
SCHEMA: Final = "stream string, subject string, sequence long, time timestamp, headers map<string, string>, data binary"
_ARROW: Final = pa.schema(
    [
        ("stream", pa.string()),
        ("subject", pa.string()),
        ("sequence", pa.int64()),
        ("time", pa.timestamp("us", "UTC")),
        ("headers", pa.map_(pa.string(), pa.string())),
        ("data", pa.binary()),
    ]
)
_FETCHED: Final = 1000  # messages at a time
_SECONDS_TO_ANSWER: Final = 10.0
_ATTEMPTS: Final = 5


@dataclass(frozen=True)
class JetStream:
    """One stream of a NATS server, all of it or the messages of a subject."""

    settings: Mapping[str, Any]
    stream: str
    subject: str | None = None

    def bounds(self) -> Mapping[str, tuple[int, int]]:
        from nats.js.errors import NotFoundError

        with Connection(self.settings) as connection:
            try:
                state = connection.run(connection.jetstream.stream_info(self.stream)).state
            except NotFoundError:
                raise PipelineError(f"there is no stream {self.stream!r} at {connection.servers}") from None
        return {self.stream: (max(state.first_seq, 1), state.last_seq + 1)}

    def read(self, part: str, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        position, failures = start, 0
        with Connection(self.settings) as connection:
            while position < stop:
                reached = position
                try:
                    for messages in self._messages(connection, position, stop):
                        reached = messages[-1].metadata.sequence.stream + 1
                        yield _batch(part, messages)
                    return
                except _Interrupted as error:
                    # Where it gets on, it may break as often as it likes.
                    failures = 0 if reached > position else failures + 1
                    position = reached
                    if failures == _ATTEMPTS:
                        raise PipelineError(
                            f"messages {position:,} to {stop - 1:,} of {part} cannot be read: {error}"
                        ) from None

    def _messages(self, connection: Connection, start: int, stop: int) -> Iterator[list[Msg]]:
        """Messages in their order, as many as come at a time; the end is where no more are before `stop`."""
        from nats.errors import Error

        subscription = None
        try:
            subscription = connection.run(self._subscribe(connection.jetstream, start))
            pending, count = connection.run(subscription.consumer_info()).num_pending or 0, 0
            while pending:
                messages = connection.run(subscription.fetch(_FETCHED, timeout=_SECONDS_TO_ANSWER))
                for message in messages:
                    count += 1
                    if message.metadata.sequence.consumer != count:
                        raise _Interrupted("a message got lost on the way")
                pending = messages[-1].metadata.num_pending
                wanted = [message for message in messages if message.metadata.sequence.stream < stop]
                if wanted:
                    yield wanted
                if len(wanted) < len(messages):
                    return
        except (Error, OSError) as error:
            raise _Interrupted(str(error) or type(error).__name__) from None
        finally:
            if subscription is not None:
                with suppress(Error, OSError):
                    connection.run(subscription.unsubscribe())

    async def _subscribe(self, jetstream: JetStreamContext, start: int) -> JetStreamContext.PullSubscription:
        from nats.js.api import AckPolicy, ConsumerConfig, DeliverPolicy

        config = ConsumerConfig(
            ack_policy=AckPolicy.NONE,
            deliver_policy=DeliverPolicy.BY_START_SEQUENCE,
            opt_start_seq=start,
            inactive_threshold=3 * _SECONDS_TO_ANSWER,
            mem_storage=True,
        )
        return await jetstream.pull_subscribe(self.subject or ">", stream=self.stream, config=config)


class NatsSource(DataSource):
    """The data source `nats`.

    Options: `servers` (`nats://localhost:4222`), `stream`, and perhaps `subject` (a filter), `user` and `password` or
    `token` or `credentials` (a file); `start`, `until`, `maxRowsPerBatch`, `rowsPerPartition` and `onLoss` as `Reading`
    has them.
    """

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        check_options(self.name(), options, OPTIONS)

    @classmethod
    def name(cls) -> str:
        return "nats"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return NumberedReader(self._place(), Reading.from_options(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        return NumberedStreamReader(self._place(), Reading.from_options(self.options))

    def _place(self) -> JetStream:
        for name in ("servers", "stream"):
            if name not in self.options:
                raise PipelineError(f'the source nats needs the option {name!r}: .option("{name}", …)')
        return JetStream(nats_settings(self.options), self.options["stream"], self.options.get("subject"))


class _Interrupted(Exception):
    """Reading broke off."""


def _batch(stream: str, messages: list[Msg]) -> pa.RecordBatch:
    metadata = [message.metadata for message in messages]
    columns = [
        [stream] * len(messages),
        [message.subject for message in messages],
        [each.sequence.stream for each in metadata],
        [each.timestamp for each in metadata],
        [list((message.headers or {}).items()) for message in messages],
        [message.data for message in messages],
    ]
    arrays = [pa.array(column, kind) for column, kind in zip(columns, _ARROW.types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=_ARROW)
