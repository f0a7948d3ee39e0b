"""Delivery attempts: which brokers have yet to acknowledge an event that was sent on.

A delivery attempt brings an event to all durable queues that it is for. Each broker on the way acknowledges it to the
link it came by when every link it went on by has acknowledged and the broker's own durable queues are on disk. An
attempt is not whole where a link or a home broker was lost on the way meanwhile: the broker that accepted the event,
which alone knows all home brokers, then makes another attempt. So brokers on the way need no disk, and an
acknowledgement that is not whole is always safe.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from palio.routing.effects import Effect, Send
from palio.routing.messages import LOCAL, Acknowledge, AttemptOutcome, EventId


@dataclass(slots=True)
class _Attempt:
    number: int
    upstream: int
    awaited: set[int]  # links that have not acknowledged
    is_written: bool  # whether the queues of this broker are
    is_whole: bool
    unwritten: tuple[int, ...] = ()  # home brokers that could not write it


class DeliveryAttempts:
    """All attempts under way at one broker; `on_ended` is called with those that it began itself."""

    __slots__ = ("_acknowledgements", "_effects", "_on_ended", "_under_way")

    def __init__(self, on_ended: Callable[[AttemptOutcome], None], effects: list[Effect]) -> None:
        self._on_ended = on_ended
        self._effects = effects
        self._under_way: dict[EventId, _Attempt] = {}
        self._acknowledgements: dict[int, list[AttemptOutcome]] = {}

    def begin(
        self, id: EventId, number: int, upstream: int, links: Iterable[int], is_written: bool, is_whole: bool
    ) -> None:
        """Track an event that was sent on; its earlier attempts are over."""
        before = self._under_way.get(id)
        # It came by another way after the tree has changed: the former upstream must not wait for ever.
        if before is not None and before.upstream != upstream:
            self.acknowledge(before.upstream, id, before.number, is_whole=False)
        # It may be complete at once: with no link to go on by, and no durable queue here.
        made = self._under_way[id] = _Attempt(number, upstream, set(links), is_written, is_whole)
        self._end_if_complete(id, made)

    def acknowledge(self, upstream: int, id: EventId, number: int, is_whole: bool) -> None:
        """Answer an attempt that is not tracked here: it is done, or must be made again where it is not whole."""
        self._answer(upstream, AttemptOutcome(id, number, is_whole))

    def on_acknowledge(self, link: int, message: Acknowledge) -> None:
        for each in message.events:
            attempt = self._under_way.get(each.id)
            # A late acknowledgement of an earlier attempt says nothing of this one.
            if attempt is not None and attempt.number == each.attempt and link in attempt.awaited:
                attempt.awaited.remove(link)
                attempt.is_whole = attempt.is_whole and each.whole
                attempt.unwritten += each.unwritten
                self._end_if_complete(each.id, attempt)

    def on_written(self, id: EventId, number: int) -> None:
        """The queues of this broker are on disk."""
        attempt = self._under_way.get(id)
        if attempt is not None and attempt.number == number:
            attempt.is_written = True
            self._end_if_complete(id, attempt)

    def on_write_failed(self, id: EventId, number: int, home: int) -> None:
        """The queues of this broker, the `home`, could not be written."""
        attempt = self._under_way.get(id)
        if attempt is not None and attempt.number == number:
            attempt.is_whole = False
            attempt.unwritten += (home,)
            # The attempt is over here all the same, and must be answered.
            self.on_written(id, number)

    def on_reach_lost(self, link: int) -> None:
        """Less is behind a link than when attempts were sent there: these are not whole."""
        for attempt in self._under_way.values():
            if link in attempt.awaited:
                attempt.is_whole = False

    def close_link(self, link: int) -> None:
        """Stop waiting for acknowledgements by a link that is given up; attempts that came by it must come again."""
        # A copy: ending an attempt removes it.
        for id, attempt in list(self._under_way.items()):
            if attempt.upstream == link:
                del self._under_way[id]
                self.acknowledge(link, id, attempt.number, is_whole=False)
            elif link in attempt.awaited:
                attempt.awaited.remove(link)
                attempt.is_whole = False
                self._end_if_complete(id, attempt)

    def on_link_down(self, link: int) -> None:
        """Drop the answers to a link whose neighbour is gone."""
        for id in [id for id, attempt in self._under_way.items() if attempt.upstream == link]:
            del self._under_way[id]
        self._acknowledgements.pop(link, None)

    def send_acknowledgements(self) -> None:
        # Collected over the batch: one message per link acknowledges all its events.
        by_link, self._acknowledgements = self._acknowledgements, {}
        self._effects += [Send((link,), Acknowledge(tuple(events))) for link, events in sorted(by_link.items())]

    def _end_if_complete(self, id: EventId, attempt: _Attempt) -> None:
        if attempt.awaited or not attempt.is_written:
            return
        del self._under_way[id]
        self._answer(attempt.upstream, AttemptOutcome(id, attempt.number, attempt.is_whole, attempt.unwritten))

    def _answer(self, upstream: int, answer: AttemptOutcome) -> None:
        if upstream == LOCAL:
            self._on_ended(answer)
        else:
            self._acknowledgements.setdefault(upstream, []).append(answer)
