"""An event as a subscriber gets it: what happened, and a way to say that it is dealt with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from palio.events import Event
from palio.routing import codec


class ReceivedEvent(Event):
    """An event that came by a subscription."""

    __slots__ = ("_acknowledge", "number")

    number: int
    _acknowledge: Callable[[int], Awaitable[None]]

    async def ack(self) -> None:
        """The event is dealt with; a durable subscription will not deliver it again. Others have nothing to tell."""
        await self._acknowledge(self.number)


async def nothing_to_tell(number: int) -> None:
    """The acknowledgement of an event that waits for none."""


def read_received(
    body: bytes, number: int, acknowledge: Callable[[int], Awaitable[None]] = nothing_to_tell
) -> ReceivedEvent:
    """An event from its body."""
    event = codec.decode_event(body)
    received: ReceivedEvent = object.__new__(ReceivedEvent)
    received._attributes = event._attributes
    received._identify(event.id, event.source, event.time)
    received.number = number
    received._acknowledge = acknowledge
    return received
