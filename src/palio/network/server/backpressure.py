"""Backpressure of full delivery queues: confirmations that are withheld from publishers.

A full queue of policy `block` holds back those whose confirmed events it has no room for, and nobody else. Of a
publisher at this broker the confirmation of each such event is withheld, so that it stops when its window is full. All
other brokers are told, and withhold the events of their publishers that the subscription wants
(`routing.delivery.blocked_interests`). Connections and links are read all the same, since they also carry the
acknowledgements and credit that make room again, and the events of everybody else.

It is bounded: a queue that is full for too long holds nobody back until it has room.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol, cast

from palio.routing.effects import Client, QueueFree, QueueFull, Reply
from palio.routing.messages import LOCAL, EventId, Publish


class Blocking(Protocol):
    """A queue that holds publishers back while it is full; `numbers` has the subscriptions that it is for, by name."""

    numbers: dict[str, int]

    def on_blocked_too_long(self) -> None:
        """Hold nobody back until there is room again."""


@dataclass(slots=True)
class _FullQueue:
    principal: str  # whose queue it is
    client: Client
    names: tuple[str, ...]  # of its subscriptions
    timer: asyncio.TimerHandle
    is_full: bool = True
    # Withheld confirmations of events that are in it, with the other queues that such an event has filled.
    replies: list[tuple[Reply, tuple[_FullQueue, ...]]] = field(default_factory=list)


class Backpressure:
    """The full queues of one broker, and what is withheld because of them."""

    def __init__(
        self,
        answer: Callable[[Reply], None],
        announce: Callable[[QueueFull | QueueFree], None],
        on_released: Callable[[], None],
        drops: Counter[str],
    ) -> None:
        """`announce` lets other brokers know; `on_released` is called after answers that are given outside of a
        batch."""
        self._answer = answer
        self._announce = announce
        self._on_released = on_released
        self._drops = drops
        self._loop = asyncio.get_running_loop()
        self._full: dict[Blocking, _FullQueue] = {}
        self._waiting: set[Client] = set()  # publishers whose confirmed events wait for room
        self._overflowed: list[_FullQueue] = []  # by the event that is being delivered
        # Of this batch: events with the queues that they have filled, and confirmations.
        self._excess: dict[EventId, tuple[_FullQueue, ...]] = {}
        self._replies: list[Reply] = []

    def block(self, queue: Blocking, seconds: float, principal: str, client: Client) -> None:
        """Hold back the publishers of what goes into a full queue of a client until `unblock`, at most for some
        seconds. `principal` is whose queue it is."""
        full = self._full.get(queue)
        if full is None:
            timer = self._loop.call_later(seconds, self._end_blocking, queue)
            full = self._full[queue] = _FullQueue(principal, client, tuple(queue.numbers), timer)
            for name in full.names:
                self._announce(QueueFull(client, name, seconds))
        self._overflowed.append(full)

    def _end_blocking(self, queue: Blocking) -> None:
        self._drops["blocked for too long"] += 1
        queue.on_blocked_too_long()
        self.unblock(queue)

    def unblock(self, queue: object) -> None:
        """Give what was withheld because of a queue, which has room again or is gone."""
        full = self._full.pop(cast(Blocking, queue), None)
        if full is None:
            return
        full.timer.cancel()
        full.is_full = False
        for name in full.names:
            self._announce(QueueFree(full.client, name))
        for reply, others in full.replies:
            self._answer_or_withhold(reply, others)
        self._on_released()

    def on_delivered(self, event: Publish | None, link: int) -> None:
        """An event was put into all queues that it is for; None for a batch, whose publisher waits for no confirmation.
        `link` is where it came from, or `LOCAL`."""
        if not self._overflowed:
            return
        overflowed, self._overflowed = self._overflowed, []
        if event is None or event.kept is None:
            return  # such a publisher cannot be held back
        if link == LOCAL:
            self._excess[event.id] = tuple(overflowed)

    def confirm(self, reply: Reply) -> None:
        """Answer a publisher at the end of the batch, whose events may still fill a queue."""
        self._replies.append(reply)

    def end_batch(self) -> None:
        """Answer the confirmations of this batch, but for those of events that a full queue holds back."""
        replies, self._replies = self._replies, []
        # An event is routed in the batch that confirms it, or in a later one where too many are under way: then it is
        # confirmed before it is known to fill a queue.
        excess, self._excess = self._excess, {}
        for reply in replies:
            self._answer_or_withhold(reply, () if reply.event is None else excess.get(reply.event, ()))

    def _answer_or_withhold(self, reply: Reply, filled: tuple[_FullQueue, ...]) -> None:
        for place, full in enumerate(filled, 1):
            if full.is_full:
                full.replies.append((reply, filled[place:]))
                return
        self._answer(reply)

    def set_waiting(self, client: Client, waits: bool) -> None:
        """Note whether a client's confirmed events wait for room."""
        (self._waiting.add if waits else self._waiting.discard)(client)

    @property
    def is_blocked(self) -> bool:
        """Whether a publisher of confirmed events is held back, or a full queue would do so."""
        return bool(self._full or self._waiting)

    def is_blocked_by(self, queue: object) -> bool:
        """Whether a queue is full and holds publishers back."""
        return queue in self._full

    def reason_for(self, client: Client) -> str:
        """What the confirmations of a client's accepted events wait for."""
        holding = {
            full.principal for full in self._full.values() if any(reply.client == client for reply, _ in full.replies)
        }
        if not holding:
            return "the disk of this broker has not written it"
        return f"a subscriber that holds publishers back has a full queue: {', '.join(sorted(holding))}"

    def close(self) -> None:
        for full in self._full.values():
            full.timer.cancel()
