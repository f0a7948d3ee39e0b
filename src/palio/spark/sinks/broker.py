"""Matches into Palio's own brokers, as events, at least once, under names by which the broker leaves repeats out.

An event has the columns of the match as attributes, with their types, and `subscription_id` and `subscriber` beside
them, so that a client subscribes to what is meant for it: `subscriber = 'ops'`. The name of a match is the id of its
event. A broker knows the last events of its publishers again (`duplicates` of its store): let that be more than a batch
has matches, and a match is let in once.
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
from palio.network.client.connecting import connect
from palio.spark.broker_connection import APP, Brokers
from palio.spark.columns import column
from palio.spark.matching import SUBSCRIBER, SUBSCRIPTION
from palio.spark.sinks.messages import Message, deliver, name_of_match
from palio.spark.sinks.sink import Batch, Sink, Taken

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_UNDER_WAY: Final = 1_000  # events that are given to the client at a time; it has a window of its own


class PalioSink:
    """Publishes each match at a broker, which has it on disk before the batch is done.

    `key` names the columns that tell one event from another. `source` is said of every event; by default the broker
    says who published it. A broker that is away is waited for, `patience` seconds; then the batch fails, to be run
    again. What this publisher may not say, or did not advertise, goes to `dead_letters`.
    """

    def __init__(
        self,
        url: str = "palio://127.0.0.1:7420",
        *,
        key: Sequence[str],
        dead_letters: Sink | None = None,
        source: str | None = None,
        **options: str,
    ) -> None:
        self._sending = Sending(Brokers.from_options({"url": url, **options}), source)
        self._key = tuple(key)
        self._dead_letters = dead_letters

    def __call__(self, matches: DataFrame, batch: Batch) -> Taken:
        named = matches.select(name_of_match(matches, self._key), *map(column, matches.columns))
        return deliver(named, batch, self._sending, self._dead_letters)


@dataclass(frozen=True)
class Sending:
    """What a worker does: publishes events, and waits for the confirmation of each."""

    brokers: Brokers
    source: str | None

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[Message, str] | int]:
        brokers = self.brokers
        connecting = connect(
            brokers.urls[0], brokers.token, app=APP, tls=brokers.tls(), patience=brokers.patience, publisher=APP
        )
        try:
            with asyncio.Runner() as runner:
                broker = runner.run(connecting.__aenter__())
                try:
                    for batch in batches:
                        for start in range(0, batch.num_rows, _UNDER_WAY):
                            events = self._events(batch.slice(start, _UNDER_WAY))
                            refused = runner.run(_publish(broker, events))
                            yield from refused
                            yield len(events) - len(refused)
                finally:
                    runner.run(connecting.__aexit__(None, None, None))
        except PalioError as error:
            raise PipelineError(f"{brokers.urls[0]}: {error}") from None

    def _events(self, batch: pa.RecordBatch) -> list[Event]:
        """The rows as events; the first column has their names."""
        contents = pa.RecordBatch.from_arrays(batch.columns[1:], names=batch.schema.names[1:])
        names = batch.column(0).to_pylist()
        rows = zip(names, Event.from_arrow(contents), strict=True)
        return [Event(each.attributes, id=name, source=self.source) for name, each in rows]


async def _publish(broker: Broker, events: list[Event]) -> list[tuple[Message, str]]:
    reasons = await asyncio.gather(*(_publish_one(broker, each) for each in events))
    return [(_message(each), reason) for each, reason in zip(events, reasons, strict=True) if reason is not None]


async def _publish_one(broker: Broker, event: Event) -> str | None:
    """Why an event will never be let in, or None when it is."""
    try:
        await broker.publish(event, confirm=True)
    except (NotPermitted, NotAdvertised) as error:
        return str(error)
    return None


def _message(event: Event) -> Message:
    content: dict[str, Any] = event.to_dict()
    subscription, subscriber = content.pop(SUBSCRIPTION), content.pop(SUBSCRIBER, None)
    return Message(event.id, subscription, subscriber, Event.from_dict(content).to_json())
