"""Sink to NATS JetStream: each match published at least once, with a `Nats-Msg-Id` for deduplication.

JetStream remembers ids for the stream's `duplicate_window`, two minutes unless it is set. A window longer than a driver
may be away makes delivery exactly-once.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from palio.errors import PipelineError
from palio.network.backoff import Backoff
from palio.spark.connections import NatsConnection, nats_settings
from palio.spark.sinks.messages import Message, check_template, push_messages
from palio.spark.sinks.sink import Batch, Sink, Taken

if TYPE_CHECKING:
    from nats.js import JetStreamContext
    from pyspark.sql import DataFrame

MAX_PENDING: Final = 256
_ACK_TIMEOUT_SECONDS: Final = 5.0
_MAX_BACKOFF_SECONDS: Final = 5.0


class NatsSink:
    """Publishes each match to a stream of JetStream.

    `subject` may hold `{subscription_id}` and `{subscriber}`; `key` names the columns that identify an event. An
    unreachable server is retried for `patience` seconds; then the batch fails, to be run again. A message that is too
    large for the server goes to `dead_letters`. A task has at most `max_pending` messages without an acknowledgement.
    """

    def __init__(
        self,
        servers: str | Sequence[str],
        subject: str,
        *,
        key: Sequence[str],
        dead_letters: Sink | None = None,
        source: str = "palio",
        patience: float = 60.0,
        max_pending: int = MAX_PENDING,
        **options: str,
    ) -> None:
        check_template(subject, "a subject")
        joined = servers if isinstance(servers, str) else ",".join(servers)
        settings = nats_settings({"servers": joined, **options})
        self._delivery = NatsDelivery(settings, subject, source, patience, max_pending)
        self._key = tuple(key)
        self._dead_letters = dead_letters

    def __call__(self, matches: DataFrame, batch: Batch) -> Taken:
        return push_messages(matches, batch, self._key, self._delivery, self._dead_letters)


@dataclass(frozen=True)
class NatsDelivery:
    """Work of a task: publish messages and await their acknowledgements."""

    settings: dict[str, Any]
    subject: str
    source: str
    patience: float
    max_pending: int = MAX_PENDING

    def __call__(self, messages: Iterator[list[Message]]) -> Iterator[tuple[Message, str] | int]:
        with NatsConnection(self.settings) as connection:
            for each in messages:
                for start in range(0, len(each), self.max_pending):
                    some = each[start : start + self.max_pending]
                    refused = connection.run(self._publish(connection.jetstream, some))
                    yield from refused
                    yield len(some) - len(refused)

    async def _publish(self, jetstream: JetStreamContext, messages: list[Message]) -> list[tuple[Message, str]]:
        # All of the window in flight at once; JetStream acknowledges each.
        reasons = await asyncio.gather(*(self._publish_one(jetstream, each) for each in messages))
        return [(each, reason) for each, reason in zip(messages, reasons, strict=True) if reason is not None]

    async def _publish_one(self, jetstream: JetStreamContext, message: Message) -> str | None:
        """Publish a message; the reason where the server will never accept it."""
        from nats.errors import Error, MaxPayloadError
        from nats.js.errors import NoStreamResponseError

        headers = {**message.headers(self.source), "Nats-Msg-Id": message.id}
        subject = message.fill(self.subject)
        end, backoff = time.monotonic() + self.patience, Backoff(0.05, _MAX_BACKOFF_SECONDS)
        while True:
            try:
                await jetstream.publish(subject, message.data.encode(), timeout=_ACK_TIMEOUT_SECONDS, headers=headers)
                return None
            except MaxPayloadError:
                return f"{len(message.data):,} characters are more than the server takes in a message"
            # Retried under one Nats-Msg-Id, so that a lost acknowledgement makes no second message.
            except (Error, OSError) as error:
                if time.monotonic() > end:
                    reason = str(error) or type(error).__name__
                    if isinstance(error, NoStreamResponseError):
                        reason = "no stream takes this subject"
                    raise PipelineError(f"nothing can be published to {subject}: {reason}") from None
            await asyncio.sleep(backoff.next())
