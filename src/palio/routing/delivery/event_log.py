"""Event log and delivery attempts: what a broker owes for the events that it has confirmed or passes on.

An event is confirmed to its publisher when it is in the log on disk, and finished when one attempt to deliver it was
whole. Attempts under way are bounded in number, and so are unfinished events: beyond that, publishers are refused for
now, so that nothing is promised that has no room.

A delivery attempt brings an event to all durable queues that it is for. Each broker on the way acknowledges it to the
link it came by when every link it went on by has acknowledged and the broker's own durable queues are on disk. An
attempt is not whole where a link or a home broker was lost on the way meanwhile: the broker that accepted the event,
which alone knows all home brokers, then makes another attempt. So brokers on the way need no disk, and an
acknowledgement that is not whole is always safe.

Log and queues share one `DeduplicationWindow`: an event is logged once and queued once, however often its publisher or
a broker sends it.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Generic, TypeVar

from palio.events import Event
from palio.routing.effects import DEDUPLICATION_WINDOW_KEYS, Client, Effect, Finished, Logged, Reply, Send
from palio.routing.messages import (
    LOCAL,
    UNKNOWN_AGE,
    Accepted,
    Acknowledge,
    AttemptOutcome,
    DeliveryTag,
    EventId,
    Key,
    Proceed,
    Publish,
    Refusal,
    Refused,
)

_Key = TypeVar("_Key")


class DeduplicationWindow(Generic[_Key]):
    """The last keys of durable events; the oldest goes when there are too many.

    It outlives crashes: keys are persisted with the records they belong to.
    """

    __slots__ = ("_keys", "_size")

    def __init__(self, keys: Iterable[_Key] = (), size: int = DEDUPLICATION_WINDOW_KEYS) -> None:
        self._size = size
        # A plain dictionary finds its oldest key by passing over all that were deleted before it.
        self._keys: OrderedDict[_Key, None] = OrderedDict()
        for key in keys:
            self.add(key)

    def add(self, key: _Key) -> None:
        self._keys[key] = None
        if len(self._keys) > self._size:
            self._keys.popitem(last=False)

    def discard(self, key: _Key) -> None:
        self._keys.pop(key, None)

    def __contains__(self, key: _Key) -> bool:
        return key in self._keys


def event_identity(publisher: Client, event: Event) -> Key:
    """The identity of an event, whichever broker accepts it and however often its publisher sends it."""
    source = event.source or ""
    # Lengths first, so that no two triples make one text; lone surrogates are legal in names and ids.
    text = f"{len(publisher)}\n{publisher}{len(source)}\n{source}{event.id}"
    return blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()


# Log and queues share one window, and a broker may accept an event and queue it too: a prefix tells its keys apart.
def log_key(identity: Key) -> bytes:
    """The key of an event in the event log of this broker."""
    return b"p" + identity


def queue_key(identity: Key) -> bytes:
    """The key of an event that was given to clients of this broker."""
    return b"q" + identity


class EventLog:
    """The events that one broker accepted and has not finished."""

    __slots__ = (
        "_attempt",
        "_awaiting_retry",
        "_confirming",
        "_decoded",
        "_effects",
        "_finished",
        "_incarnation",
        "_max_under_way",
        "_max_unfinished",
        "_ready",
        "_refused",
        "_under_way",
        "_unfinished",
        "_unwritten",
        "_unwritten_by",
        "_window",
    )

    def __init__(
        self,
        incarnation: int,
        max_unfinished: int,
        max_under_way: int,
        window: DeduplicationWindow[bytes],
        unfinished: Iterable[Logged],
        effects: list[Effect],
    ) -> None:
        # Higher than any attempt of an earlier life: a late acknowledgement never matches a new attempt.
        self._attempt = incarnation << 32
        self._incarnation = incarnation
        self._max_unfinished = max_unfinished
        self._max_under_way = max_under_way
        self._window = window
        self._effects = effects
        self._unfinished = {logged.event.id: logged.event for logged in unfinished}
        # The content of events that have not been routed yet, as admission has read it: the first attempt needs it.
        self._decoded: dict[EventId, Event] = {}
        self._ready = deque(self._unfinished)  # to be routed
        self._under_way: set[EventId] = set()
        self._awaiting_retry: dict[EventId, None] = {}
        # Home brokers that could not write an event in its last attempt.
        self._unwritten_by: dict[EventId, tuple[int, ...]] = {}
        self._unwritten: list[Logged] = []
        self._finished: list[Finished] = []
        # By identity, while the event is being written: the clients to answer, and under which number.
        self._confirming: dict[Key, list[tuple[Client, int]]] = {}
        self._refused: dict[Client, None] = {}  # refused as busy, until they may proceed; in order

    def __len__(self) -> int:
        """The number of unfinished events."""
        return len(self._unfinished) + len(self._confirming)

    @property
    def has_retries(self) -> bool:
        return bool(self._awaiting_retry)

    @property
    def first_unrouted(self) -> EventId | None:
        """The first event of this incarnation that was taken and has not been routed yet."""
        return next(iter(self._decoded), None)  # in the order in which they were taken

    def publish(self, client: Client, number: int, logged: Logged, content: Event, missing: list[int]) -> None:
        """Log an event and confirm it when it is on disk; `missing` are the home brokers that are out of reach."""
        is_new = _identity(logged) not in self._confirming and logged.key not in self._window
        # A busy broker confirms a duplicate all the same: it takes no room.
        if is_new and self._is_busy_for(client):
            self._refuse(client, number, missing)
        else:
            self._take(client, number, logged, content)

    def publish_batch(self, client: Client, events: Sequence[tuple[int, Logged, Event]], missing: list[int]) -> None:
        """Log several events, all or none. They are taken where one of them could be, so that many find room as soon as
        one does, and the bound is exceeded by the others."""
        if self._is_busy_for(client):
            self._refuse(client, events[0][0], missing)
        else:
            for number, logged, content in events:
                self._take(client, number, logged, content)

    def _is_busy_for(self, client: Client) -> bool:
        # A client that was refused stays refused until `Proceed`: its later events must not overtake the refused one.
        return client in self._refused or len(self) >= self._max_unfinished

    def _refuse(self, client: Client, number: int, missing: list[int]) -> None:
        self._refused[client] = None
        waited = f"brokers that are away: {', '.join(map(str, missing))}" if missing else "brokers that are slow"
        reason = f"busy: {self._max_unfinished:,} events that were confirmed wait for {waited}"
        self._effects.append(Reply(client, Refused(reason, "busy", number)))

    def _take(self, client: Client, number: int, logged: Logged, content: Event) -> None:
        """Log an event, unless it is a duplicate: that is confirmed with the first."""
        confirming = self._confirming.get(_identity(logged))
        if confirming is not None:
            confirming.append((client, number))
        elif logged.key in self._window:
            self._effects.append(Reply(client, Accepted(number)))
        else:
            self._confirming[_identity(logged)] = [(client, number)]
            self._decoded[logged.event.id] = content
            self._unwritten.append(logged)

    def take_unwritten(self) -> list[Logged | Finished]:
        """The records to write since the last call."""
        records: list[Logged | Finished] = [*self._unwritten, *self._finished]
        self._unwritten, self._finished = [], []
        return records

    def on_written(self, logged: Logged) -> None:
        """An event is on disk: confirm it, and route it."""
        event = logged.event
        # Only now: a key of an event that failed to be written would confirm a lost event when it is sent again.
        self._window.add(logged.key)
        self._unfinished[event.id] = event
        self._ready.append(event.id)
        confirming = self._confirming.pop(_identity(logged), ())
        self._effects += [Reply(client, Accepted(number)) for client, number in confirming]

    def on_write_failed(self, logged: Logged, reason: str, kind: Refusal) -> None:
        self._decoded.pop(logged.event.id, None)
        confirming = self._confirming.pop(_identity(logged), ())
        self._effects += [Reply(client, Refused(reason, kind, number)) for client, number in confirming]

    def next_attempts(self) -> Iterator[tuple[Publish, Event | None]]:
        """The events to route now, with their content where it is still at hand."""
        while self._ready and len(self._under_way) < self._max_under_way:
            id = self._ready.popleft()
            event = self._unfinished[id]
            identity = event.kept.identity if event.kept is not None else b""
            # Each attempt has a number of its own, by which acknowledgements and duplicates are told apart.
            self._attempt += 1
            self._under_way.add(id)
            attempt = Publish(
                id,
                event.body,
                event.header,
                epoch=event.epoch,
                publisher=event.publisher,
                kept=DeliveryTag(identity, self._attempt),
                age=event.age if id.incarnation == self._incarnation else UNKNOWN_AGE,  # the clock began anew
                aged_at=event.aged_at,
            )
            yield attempt, self._decoded.pop(id, None)

    def on_attempt_ended(self, attempt: AttemptOutcome) -> None:
        self._under_way.discard(attempt.id)
        self._unwritten_by.pop(attempt.id, None)
        if attempt.whole:
            # A crash before `Finished` is on disk costs one more attempt, which home brokers deduplicate.
            self._unfinished.pop(attempt.id, None)
            self._finished.append(Finished(attempt.id))
        else:
            self._awaiting_retry[attempt.id] = None
            if attempt.unwritten:
                self._unwritten_by[attempt.id] = attempt.unwritten

    @property
    def unwritten_by(self) -> set[int]:
        """The home brokers that could not write some of these events in their last attempt."""
        return {home for homes in self._unwritten_by.values() for home in homes}

    def retry(self) -> None:
        """Route again the events whose last attempt was not whole, in the order in which they were accepted."""
        self._ready.extend(sorted(self._awaiting_retry))  # ids of one incarnation sort by their count
        self._awaiting_retry = {}

    def proceed(self) -> None:
        """Tell refused clients to proceed, when half of the room is free again."""
        # Hysteresis: with one free place clients would be refused and resumed event by event.
        if self._refused and 2 * len(self) <= self._max_unfinished:
            self._effects += [Reply(client, Proceed()) for client in self._refused]
            self._refused = {}


def _identity(logged: Logged) -> Key:
    return logged.key[1:]  # without the prefix of `log_key`


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
