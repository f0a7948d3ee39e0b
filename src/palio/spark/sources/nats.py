"""Data source `nats`: streams of NATS JetStream.

    spark.dataSource.register(NatsSource)
    spark.readStream.format("nats")…

A stream of JetStream numbers its messages, so the offset is the number of the next one, held by Spark's checkpoint; no
consumer remains at the server between batches. Messages are fetched by an ephemeral consumer without acknowledgements
whose sequence is checked: after a broken connection, reading resumes behind the last message, with a new consumer.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSource, DataSourceReader, DataSourceStreamReader

from palio.errors import PipelineError
from palio.spark.connections import NatsConnection, nats_settings
from palio.spark.sources.offset_reader import READ_OPTIONS, OffsetReader, OffsetStreamReader, ReadOptions, check_options
from palio.spark.workers import choose_python_of_active_session

if TYPE_CHECKING:
    from nats.aio.msg import Msg
    from nats.js import JetStreamContext
    from pyspark.sql.types import StructType

OPTIONS: Final = ("servers", "stream", "subject", "user", "password", "token", "credentials", *READ_OPTIONS)
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
_FETCH_MESSAGES: Final = 1_000
_FETCH_TIMEOUT_SECONDS: Final = 10.0
_MAX_ATTEMPTS: Final = 5


@dataclass(frozen=True)
class JetStream:
    """One stream of a NATS server, all of it or the messages of a subject."""

    settings: Mapping[str, Any]
    stream: str
    subject: str | None = None

    def bounds(self) -> Mapping[str, tuple[int, int]]:
        from nats.js.errors import NotFoundError

        with NatsConnection(self.settings) as connection:
            try:
                state = connection.run(connection.jetstream.stream_info(self.stream)).state
            except NotFoundError:
                raise PipelineError(f"there is no stream {self.stream!r} at {connection.servers}") from None
        # A stream without messages reports 0 for the first.
        return {self.stream: (max(state.first_seq, 1), state.last_seq + 1)}

    def read(self, part: str, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        position, failures = start, 0
        with NatsConnection(self.settings) as connection:
            while position < stop:
                reached = position
                try:
                    for messages in self._messages(connection, position, stop):
                        reached = messages[-1].metadata.sequence.stream + 1
                        yield _batch(part, messages)
                    return
                except _Interrupted as error:
                    # Only failures without progress count.
                    failures = 0 if reached > position else failures + 1
                    position = reached
                    if failures == _MAX_ATTEMPTS:
                        raise PipelineError(
                            f"messages {position:,} to {stop - 1:,} of {part} cannot be read: {error}"
                        ) from None

    def _messages(self, connection: NatsConnection, start: int, stop: int) -> Iterator[list[Msg]]:
        """Messages in order, in the batches in which they arrive, up to before `stop`."""
        from nats.errors import Error

        subscription = None
        try:
            subscription = connection.run(self._subscribe(connection.jetstream, start))
            pending, count = connection.run(subscription.consumer_info()).num_pending or 0, 0
            while pending:
                messages = connection.run(subscription.fetch(_FETCH_MESSAGES, timeout=_FETCH_TIMEOUT_SECONDS))
                for message in messages:
                    count += 1
                    # Without acknowledgements a lost message shows only as a gap in the consumer's sequence.
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
            # The server itself removes the consumer of a worker that was killed.
            inactive_threshold=3 * _FETCH_TIMEOUT_SECONDS,
            mem_storage=True,
        )
        return await jetstream.pull_subscribe(self.subject or ">", stream=self.stream, config=config)


class NatsSource(DataSource):
    """The data source `nats`.

    Options: `servers` (`nats://localhost:4222`), `stream`, and perhaps `subject` (a filter), `user` and `password` or
    `token` or `credentials` (a file); `start`, `until`, `maxRowsPerBatch`, `rowsPerPartition` and `onLoss` as in
    `ReadOptions`.
    """

    def __init__(self, options: dict[str, str]) -> None:
        super().__init__(options)
        check_options(self.name(), options, OPTIONS)

    @classmethod
    def name(cls) -> str:
        choose_python_of_active_session()  # Spark asks for the name just before it takes the source
        return "nats"

    def schema(self) -> str:
        return SCHEMA

    def reader(self, schema: StructType) -> DataSourceReader:
        return OffsetReader(self._source(), ReadOptions.from_options(self.options))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 (Spark's name)
        return OffsetStreamReader(self._source(), ReadOptions.from_options(self.options))

    def _source(self) -> JetStream:
        for name in ("servers", "stream"):
            if name not in self.options:
                raise PipelineError(f'the source nats needs the option {name!r}: .option("{name}", …)')
        return JetStream(nats_settings(self.options), self.options["stream"], self.options.get("subject"))


class _Interrupted(Exception):
    """The consumer broke off; reading can resume with another."""


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
