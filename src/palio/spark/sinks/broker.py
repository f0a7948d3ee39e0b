"""Sink to Palio brokers: each match published as an event, at least once, with an id for deduplication.

An event has the columns of the match as typed attributes, with `subscription_id` and `subscriber` beside them, so that
a client subscribes to its own: `subscriber = 'ops'`. The id of the event is that of the match. A broker deduplicates
the last events of its publishers (`duplicates` of its store): a window larger than the matches of a batch makes
delivery exactly-once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from palio.errors import NotAdvertised, NotPermitted, PalioError, PipelineError
from palio.events import Event
from palio.network.client.broker import Broker
from palio.spark.connections import Brokers
from palio.spark.match_job import SUBSCRIBER_COLUMN, SUBSCRIPTION_COLUMN
from palio.spark.projection import column
from palio.spark.sinks.messages import Message, deliver_rows, match_id
from palio.spark.sinks.sink import Batch, Sink, Taken

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

MAX_PENDING: Final = 1_000  # the client has a credit window of its own


class PalioSink:
    """Publishes each match at a broker, confirmed before the batch is done.

    `key` names the columns that identify an event. `source` is the source attribute of every event, by default the
    publisher. An unreachable broker is retried for `patience` seconds; then the batch fails, to be run again. Matches
    that this publisher is not permitted to publish, or did not advertise, go to `dead_letters`. A task has at most
    `max_pending` events without a confirmation.
    """

    def __init__(
        self,
        url: str = "palio://127.0.0.1:7420",
        *,
        key: Sequence[str],
        dead_letters: Sink | None = None,
        source: str | None = None,
        max_pending: int = MAX_PENDING,
        **options: str,
    ) -> None:
        self._delivery = EventDelivery(Brokers.from_options({"url": url, **options}), source, max_pending)
        self._key = tuple(key)
        self._dead_letters = dead_letters

    def __call__(self, matches: DataFrame, batch: Batch) -> Taken:
        named = matches.select(match_id(matches, self._key), *map(column, matches.columns))
        return deliver_rows(named, batch, self._delivery, self._dead_letters)


@dataclass(frozen=True)
class EventDelivery:
    """Work of a task: publish events and await their confirmations."""

    brokers: Brokers
    source: str | None
    max_pending: int = MAX_PENDING

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[Message, str] | int]:
        # A generator cannot suspend inside `async with` between runs of the loop, so it is entered by hand.
        connection = self.brokers.open_publisher()
        try:
            with asyncio.Runner() as runner:
                broker = runner.run(connection.__aenter__())
                try:
                    for batch in batches:
                        for start in range(0, batch.num_rows, self.max_pending):
                            piece = batch.slice(start, self.max_pending)
                            refused = runner.run(self._publish(broker, piece))
                            yield from refused
                            yield piece.num_rows - len(refused)
                finally:
                    runner.run(connection.__aexit__(None, None, None))
        except PalioError as error:
            raise PipelineError(f"{self.brokers.urls[0]}: {error}") from None

    async def _publish(self, broker: Broker, batch: pa.RecordBatch) -> list[tuple[Message, str]]:
        """Publish rows as columns; where the broker refuses them, one by one, to find out which it refuses."""
        contents = pa.RecordBatch.from_arrays(batch.columns[1:], names=batch.schema.names[1:])
        try:
            await broker.publish_many(contents, ids=batch.column(0), source=self.source, confirm=True)
        except (NotPermitted, NotAdvertised):
            # Those that were accepted before the refusal are accepted once: the broker knows them by their ids.
            return await _publish_singly(broker, self._events(batch))
        return []

    def _events(self, batch: pa.RecordBatch) -> list[Event]:
        """The rows as events; the first column has their ids."""
        contents = pa.RecordBatch.from_arrays(batch.columns[1:], names=batch.schema.names[1:])
        names = batch.column(0).to_pylist()
        rows = zip(names, Event.from_arrow(contents), strict=True)
        return [Event(each.attributes, id=name, source=self.source) for name, each in rows]


async def _publish_singly(broker: Broker, events: list[Event]) -> list[tuple[Message, str]]:
    reasons = await asyncio.gather(*(_publish_one(broker, each) for each in events))
    return [(_message(each), reason) for each, reason in zip(events, reasons, strict=True) if reason is not None]


async def _publish_one(broker: Broker, event: Event) -> str | None:
    """Publish an event; the reason where the broker will never accept it."""
    try:
        await broker.publish(event, confirm=True)
    except (NotPermitted, NotAdvertised) as error:
        return str(error)
    return None


def _message(event: Event) -> Message:
    content: dict[str, Any] = event.to_dict()
    subscription, subscriber = content.pop(SUBSCRIPTION_COLUMN), content.pop(SUBSCRIBER_COLUMN, None)
    return Message(event.id, subscription, subscriber, Event.from_dict(content).to_json())
