"""An event as a subscriber gets it: what happened, and a way to say that it is dealt with."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from palio.events import Event
from palio.routing import codec
from palio.routing.stamps import Stamp, stamps_in


class ReceivedEvent(Event):
    """An event that came by a subscription; `subscriptions` names it, or all of a group that want the event."""

    __slots__ = ("_acknowledge", "_stamps", "number", "subscriptions")

    number: int
    subscriptions: tuple[str, ...]
    _acknowledge: Callable[[int], Awaitable[None]]
    _stamps: bytes

    @property
    def stamps(self) -> tuple[Stamp, ...]:
        """The links that the event passed, in order: which broker wrote it when, and when the next one read it, in
        seconds since 1970 by the clock of each. Empty unless all brokers on its way say so (`palio serve --stamps`)."""
        return stamps_in(self._stamps)

    async def ack(self) -> None:
        """The event is dealt with; a durable subscription will not deliver it again. Others have nothing to tell."""
        await self._acknowledge(self.number)


async def nothing_to_tell(number: int) -> None:
    """The acknowledgement of an event that waits for none."""


def read_received(
    sent: bytes | Event,
    subscriptions: tuple[str, ...],
    stamps: bytes,
    number: int,
    acknowledge: Callable[[int], Awaitable[None]] = nothing_to_tell,
) -> ReceivedEvent:
    """An event from its body, or from what another subscription has read already."""
    if isinstance(sent, bytes):
        received = codec.decode_event_as(ReceivedEvent, sent)
    else:
        received = ReceivedEvent.__new__(ReceivedEvent)
        received._attributes = sent._attributes
        received._id, received._source, received._time = sent._id, sent._source, sent._time
    received.subscriptions = subscriptions
    received.number = number
    received._stamps = stamps
    received._acknowledge = acknowledge
    return received
