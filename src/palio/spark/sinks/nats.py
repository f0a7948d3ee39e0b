"""Matches into NATS JetStream, at least once, under names by which the server itself leaves repeats out.

The name of a message is its `Nats-Msg-Id`. JetStream remembers names for as long as the stream's `duplicate_window`
says, two minutes unless it is set: make it longer than a driver may be away, and a match is in the stream once.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from palio.errors import PipelineError
from palio.spark.nats_connection import Connection, nats_settings
from palio.spark.sinks.messages import Message, check_template, push
from palio.spark.sinks.sink import Batch, Sink, Taken

if TYPE_CHECKING:
    from nats.js import JetStreamContext
    from pyspark.sql import DataFrame

_UNDER_WAY: Final = 256  # messages whose acknowledgement is awaited at a time
_SECONDS_TO_ANSWER: Final = 5.0
_LONGEST_PAUSE: Final = 5.0


class NatsSink:
    """Publishes each match to a stream of JetStream.

    `subject` may hold `{subscription_id}` and `{subscriber}`; `key` names the columns that tell one event from another.
    A server that is away is waited for, `patience` seconds; then the batch fails, to be run again. A message that the
    server never takes, because it is too large, goes to `dead_letters`.
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
        **options: str,
    ) -> None:
        check_template(subject, "a subject")
        joined = servers if isinstance(servers, str) else ",".join(servers)
        self._sending = Sending(nats_settings({"servers": joined, **options}), subject, source, patience)
        self._key = tuple(key)
        self._dead_letters = dead_letters

    def __call__(self, matches: DataFrame, batch: Batch) -> Taken:
        return push(matches, batch, self._key, self._sending, self._dead_letters)


@dataclass(frozen=True)
class Sending:
    """What a worker does: publishes messages, and waits for the acknowledgement of each."""

    settings: dict[str, Any]
    subject: str
    source: str
    patience: float

    def __call__(self, messages: Iterator[list[Message]]) -> Iterator[tuple[Message, str] | int]:
        with Connection(self.settings) as connection:
            for each in messages:
                for start in range(0, len(each), _UNDER_WAY):
                    some = each[start : start + _UNDER_WAY]
                    refused = connection.run(self._publish(connection.jetstream, some))
                    yield from refused
                    yield len(some) - len(refused)

    async def _publish(self, jetstream: JetStreamContext, messages: list[Message]) -> list[tuple[Message, str]]:
        reasons = await asyncio.gather(*(self._publish_one(jetstream, each) for each in messages))
        return [(each, reason) for each, reason in zip(messages, reasons, strict=True) if reason is not None]

    async def _publish_one(self, jetstream: JetStreamContext, message: Message) -> str | None:
        """Why a message will never be taken, or None when it is."""
        from nats.errors import Error, MaxPayloadError
        from nats.js.errors import NoStreamResponseError

        headers = {**message.headers(self.source), "Nats-Msg-Id": message.id}
        subject = message.fill(self.subject)
        end, pause = time.monotonic() + self.patience, 0.05
        while True:
            try:
                await jetstream.publish(subject, message.data.encode(), timeout=_SECONDS_TO_ANSWER, headers=headers)
                return None
            except MaxPayloadError:
                return f"{len(message.data):,} characters are more than the server takes in a message"
            except (Error, OSError) as error:
                if time.monotonic() > end:
                    reason = str(error) or type(error).__name__
                    if isinstance(error, NoStreamResponseError):
                        reason = "no stream takes this subject"
                    raise PipelineError(f"nothing can be published to {subject}: {reason}") from None
            await asyncio.sleep(pause * random.uniform(0.5, 1.5))
            pause = min(2 * pause, _LONGEST_PAUSE)
