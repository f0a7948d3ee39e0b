"""Link credit: flow control between brokers, and the events that wait for it.

A neighbour grants how many events it takes. The bytes of those under way are bounded too, whatever the credit: the end
that receives grants anew when it has taken half of either window (`link_sessions`), and by its grants the sender knows
which events have been taken. Events beyond that wait, up to a number and to a number of bytes.

Control messages need no credit: a neighbour that missed one would route wrongly. Durable events have no bound here,
because the broker that accepted them bounds how many are under way, and their bytes (`delivery.event_log`).
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

from palio.routing.effects import Drop, Effect, Send
from palio.routing.event_batches import events_in
from palio.routing.messages import EventId, Publish, PublishColumns, Watermark

CREDIT_WINDOW_BYTES: Final = 8 * 2**20  # that may be under way to one end of a link, but for the last message
_WITH_CREDIT: TypeAlias = Publish | PublishColumns | Watermark


class QueueBounds(NamedTuple):
    """Bounds of the events that wait for one link."""

    events: int
    bytes: int


@dataclass(slots=True)
class _LinkQueue:
    is_open: bool = False
    takes_columns: bool = False
    credit: int = 0
    # Made by the first message: an empty deque takes 760 bytes, and most links of a large simulation are idle.
    under_way: deque[tuple[int, int]] | None = None  # events and bytes of messages not yet taken
    under_way_bytes: int = 0
    taken: int = 0  # events of the first message under way that were taken
    waiting: deque[_WITH_CREDIT] | None = None
    waiting_events: int = 0
    waiting_bytes: int = 0

    @property
    def may_send(self) -> bool:
        return self.credit > 0 and self.under_way_bytes < CREDIT_WINDOW_BYTES

    def has_room(self, message: _WITH_CREDIT, bounds: QueueBounds) -> bool:
        if self.waiting_events + credit_of(message) > bounds.events:
            return False
        return not self.waiting_bytes or self.waiting_bytes + bytes_of(message) <= bounds.bytes

    def on_sent(self, message: _WITH_CREDIT) -> None:
        events, length = credit_of(message), bytes_of(message)
        self.credit -= events
        if self.under_way is None:
            self.under_way = deque()
        self.under_way.append((events, length))
        self.under_way_bytes += length

    def on_granted(self, events: int) -> None:
        self.credit += events
        self.taken += events
        while self.under_way and self.taken >= self.under_way[0][0]:
            sent, length = self.under_way.popleft()
            self.taken -= sent
            self.under_way_bytes -= length

    def put(self, message: _WITH_CREDIT) -> None:
        if self.waiting is None:
            self.waiting = deque()
        self.waiting.append(message)
        self.waiting_events += credit_of(message)
        self.waiting_bytes += bytes_of(message)

    def take_sendable(self) -> Iterator[_WITH_CREDIT]:
        """The messages that waited and now have credit, in their order; each counts as sent."""
        while self.waiting and self.may_send:
            message = self.waiting.popleft()
            self.waiting_events -= credit_of(message)
            self.waiting_bytes -= bytes_of(message)
            self.on_sent(message)
            yield message


class LinkCredit:
    """Credit of each link, and the events that wait for it."""

    __slots__ = ("_bounds", "_effects", "_links", "on_drop")

    def __init__(self, bounds: QueueBounds, effects: list[Effect]) -> None:
        self._bounds = bounds
        self._effects = effects
        self._links: dict[int, _LinkQueue] = {}
        self.on_drop: Callable[[EventId, int], None] | None = None  # called with an event for which a link had no room

    def open_link(self, link: int, credit: int, columns: bool = False) -> None:
        """Take a link into use; one with `columns` takes batches of events."""
        queue = self._queue(link)
        queue.is_open = True
        queue.takes_columns = columns
        queue.credit = credit
        queue.under_way = None
        queue.under_way_bytes = queue.taken = 0

    def close_link(self, link: int) -> None:
        queue = self._links.pop(link, None)
        for message in (queue.waiting or ()) if queue is not None else ():
            several = events_in(message) if type(message) is PublishColumns else (message,)
            self._effects += [Drop("link down", each) for each in several]

    def send(self, links: tuple[int, ...], message: Publish) -> None:
        """Send over the links with credit; for the others the event waits, or is dropped where too many wait."""
        ready: list[int] = []
        for link in links:
            queue = self._queue(link)
            if queue.may_send:
                queue.on_sent(message)
                ready.append(link)
            elif message.kept is not None or queue.has_room(message, self._bounds):
                queue.put(message)
            else:
                self._effects.append(Drop("queue full", message))
                if self.on_drop is not None:
                    self.on_drop(message.id, link)
        if ready:
            self._effects.append(Send(links if len(ready) == len(links) else tuple(ready), message))

    def send_columns(self, links: tuple[int, ...], batch: PublishColumns) -> None:
        """Send a batch over the links with credit, of which the last events may exceed it; otherwise it waits whole,
        while there is room, and then as single events, of which those without room are dropped."""
        ready: list[int] = []
        for link in links:
            queue = self._queue(link)
            if queue.takes_columns and queue.may_send:
                queue.on_sent(batch)
                ready.append(link)
            elif queue.takes_columns and queue.has_room(batch, self._bounds):
                queue.put(batch)
            else:
                for each in events_in(batch):
                    self.send((link,), each)
        if ready:
            self._effects.append(Send(tuple(ready), batch))

    def send_watermark(self, link: int, message: Watermark) -> None:
        """Send behind the events that wait for a link; without room it is dropped, and the next one begins anew."""
        queue = self._queue(link)
        if not queue.waiting and queue.may_send:
            queue.on_sent(message)
            self._effects.append(Send((link,), message))
        elif queue.has_room(message, QueueBounds(2 * self._bounds.events, 2 * self._bounds.bytes)):
            queue.put(message)
        else:
            self._effects.append(Drop("queue full", message))

    def grant(self, link: int, events: int) -> None:
        """Add credit, and send what waited for it."""
        queue = self._links.get(link)
        if queue is None or not queue.is_open:
            return
        queue.on_granted(events)
        self._effects += [Send((link,), message) for message in queue.take_sendable()]

    def _queue(self, link: int) -> _LinkQueue:
        queue = self._links.get(link)
        if queue is None:
            queue = self._links[link] = _LinkQueue()
        return queue


def credit_of(message: _WITH_CREDIT) -> int:
    """The credit that a message takes."""
    return message.count if type(message) is PublishColumns else 1


def bytes_of(message: _WITH_CREDIT) -> int:
    """The bytes of a message that count, the same at both ends of a link: those of its content."""
    if isinstance(message, Publish):
        return len(message.body) + len(message.header)
    return len(message.sources) if isinstance(message, Watermark) else len(message.body)
