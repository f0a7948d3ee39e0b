"""Event log: what a broker owes for the events that it has confirmed.

An event is confirmed to its publisher when it is in the log on disk, and finished when one attempt to deliver it was
whole (`delivery_attempts`). One for a durable subscription with a standby is confirmed only when both homes of that
have it on disk, so that it outlives the disk of this broker too (`standby`). What cannot be delivered now waits in the
spill, bounded for each durable subscription that it is for: where that is full, the policy of the subscription decides
whether publishers are refused for now or events are dropped, and it decides about events for that subscription alone.

Log and queues share one `DeduplicationWindow`: an event is logged once and queued once, however often its publisher or
a broker sends it.

Events for a subscription whose full queue holds publishers back are *withheld*: logged, confirmed and not sent. So are
those that the same publisher sent after them, so that its events stay in order; all others go on.
"""

from __future__ import annotations

from collections import Counter, OrderedDict, deque
from collections.abc import Iterable, Iterator, Sequence
from hashlib import blake2b
from itertools import chain
from typing import Final, Generic, NamedTuple, TypeVar

from palio.events import Event
from palio.routing.client_messages import Accepted, Proceed, Refusal, Refused
from palio.routing.codec import decode_event
from palio.routing.delivery.blocked_interests import BlockedInterests
from palio.routing.delivery.home_interests import HomeInterests
from palio.routing.delivery.spill import Spill
from palio.routing.durable_settings import OnFull
from palio.routing.effects import (
    DEDUPLICATION_WINDOW_KEYS,
    Client,
    Drop,
    Effect,
    Fetch,
    Finished,
    Logged,
    LoggedDeadLetter,
    Reply,
)
from palio.routing.messages import UNKNOWN_AGE, AttemptOutcome, DeliveryTag, EventId, Key, Publish

_Key = TypeVar("_Key")
# In place of a destination: events under way, whatever they are for, and those that are withheld.
_IN_TRANSIT: Final = b""
_WITHHELD: Final = b"withheld"
_MAX_UNDER_WAY_BYTES: Final = 16 * 2**20  # that may still come to a subscription when it holds publishers back
_MAX_FETCHED: Final = 100  # events of the spill that are read from disk together


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


def part_key(identity: Key, client: Client, name: str) -> bytes:
    """The key of an event in one queue of several, some of which have yet to take it."""
    owner = f"{len(client)}\n{client}{name}".encode("utf-8", "surrogatepass")
    return b"r" + blake2b(identity + owner, digest_size=16).digest()


class LogBounds(NamedTuple):
    """Bounds of the events in transit together, and of the spill for each destination; of attempts under way."""

    events: int
    bytes: int
    under_way: int


class _Guarded(NamedTuple):
    """An event that is logged and not confirmed yet: the subscriptions with a standby that it is for, and the clients
    to answer. `id` is None where it may be one of those that an earlier life left on disk."""

    id: EventId | None
    guards: tuple[Key, ...]
    confirming: list[tuple[Client, int]]


class EventLog:
    """The events that one broker accepted and has not finished.

    Events *in transit*, ready or under way, are in memory, and bounded together. Those that wait for durable
    subscriptions which take no events now are in the spill, on disk, and bounded for each subscription.
    """

    __slots__ = (
        "_at_hand",
        "_attempt",
        "_awaiting_retry",
        "_blocked",
        "_bytes",
        "_confirming",
        "_effects",
        "_ended",
        "_fetches",
        "_finished",
        "_guarded",
        "_guarded_ids",
        "_incarnation",
        "_interests",
        "_is_saturated",
        "_is_withholding_all",
        "_letters",
        "_max_bytes",
        "_max_in_transit",
        "_max_under_way",
        "_probing",
        "_ready",
        "_refused",
        "_released",
        "_tokens",
        "_under_way",
        "_under_way_bytes",
        "_unfinished",
        "_unread",
        "_unrouted",
        "_unwritten",
        "_window",
        "_withheld",
        "_withheld_bytes",
        "_withheld_of",
        "_withheld_revision",
        "dropped",
        "newest",
        "not_writing",
        "spill",
    )

    def __init__(
        self,
        incarnation: int,
        bounds: LogBounds,
        window: DeduplicationWindow[bytes],
        unfinished: Iterable[Logged],
        spilled: Iterable[EventId],
        interests: HomeInterests,
        blocked: BlockedInterests,
        tokens: Iterator[int],
        effects: list[Effect],
    ) -> None:
        # Higher than any attempt of an earlier life: a late acknowledgement never matches a new attempt.
        self._attempt = incarnation << 32
        self._incarnation = incarnation
        self._max_in_transit = bounds.events
        self._max_bytes = bounds.bytes
        self._max_under_way = bounds.under_way
        self._window = window
        self._interests = interests
        self._blocked = blocked
        self._tokens = tokens
        self._effects = effects
        self._unfinished = {logged.event.id: logged.event for logged in unfinished}
        self._bytes = sum(map(_length, self._unfinished.values()))
        # The publisher and content of events that have not been routed yet, as admission has read it: the first attempt
        # needs it.
        self._unrouted: dict[EventId, tuple[Client, Event]] = {}
        self._ready = deque(self._unfinished)  # to be routed
        self._under_way: set[EventId] = set()
        self._under_way_bytes = 0
        self._withheld: dict[EventId, Client] = {}  # with their publishers, in the order in which they were accepted
        self._withheld_of: Counter[Client] = Counter()
        self._withheld_bytes = 0
        self._withheld_revision = 0  # of the blocked interest that they were withheld for
        self._is_withholding_all = False  # from when there is no room for more, until half of it is free
        self._at_hand: set[EventId] = set()  # of those ended: which all homes within reach have
        self._ended: dict[EventId, None] = {}  # whose attempt was not whole, until it is known what they wait for
        self._awaiting_retry: dict[EventId, None] = {}
        self.spill = Spill(bounds.events, bounds.bytes)
        self._released = deque(spilled)  # from the spill, or left there by an earlier life: to be read from disk
        self._fetches: dict[int, tuple[EventId, ...]] = {}
        # Home brokers within reach that could not write an event lately. One event at a time tries again.
        self.not_writing: set[int] = set()
        self._probing: dict[EventId, int] = {}  # events that try such a home again
        self.dropped = 0  # events that a subscription goes without, by the overflow policy of its queue
        self._unwritten: list[Logged] = []
        self._finished: list[Finished] = []
        self._letters: list[LoggedDeadLetter] = []
        # By identity, while the event is being written: the clients to answer, and under which number.
        self._confirming: dict[Key, list[tuple[Client, int]]] = {}
        # Clients that were refused as busy, by destination; in order. `_IN_TRANSIT` stands for events in transit.
        self._refused: dict[Key, dict[Client, None]] = {}
        self._is_saturated = False
        # Events that wait for both homes of a subscription, by identity, and their identities by id.
        self._guarded: dict[Key, _Guarded] = {}
        self._guarded_ids: dict[EventId, Key] = {}
        self.newest = max([*self._unfinished, *self._released], default=None)  # of the events that were ever taken
        self._unread = set(spilled)  # of an earlier life, whose identities are not known yet
        for event in self._unfinished.values():
            self._guard(event, None, [])

    def __len__(self) -> int:
        """The number of unfinished events."""
        fetched = sum(map(len, self._fetches.values()))
        return len(self._unfinished) + len(self._confirming) + len(self.spill) + len(self._released) + fetched

    @property
    def oldest(self) -> EventId | None:
        """The oldest unfinished event; it is looked for among all of them."""
        fetched = chain(*self._fetches.values())
        return min(chain(self._unrouted, self._unfinished, self.spill, self._released, fetched), default=None)

    def __contains__(self, id: EventId) -> bool:
        """Whether an event is unfinished."""
        return (
            id in self._unrouted
            or id in self._unfinished
            or id in self.spill
            or id in self._released
            or any(id in each for each in self._fetches.values())
        )

    @property
    def has_retries(self) -> bool:
        """Whether events are to be tried again after a while, although nothing else changes."""
        return bool(self._awaiting_retry or self.not_writing)

    @property
    def withheld(self) -> int:
        """The number of events that wait for subscriptions which hold publishers back."""
        return len(self._withheld)

    @property
    def is_refusing(self) -> bool:
        """Whether publishers wait for room."""
        return bool(self._refused)

    @property
    def first_unrouted(self) -> EventId | None:
        """The first event of this incarnation that was taken and has not been routed yet."""
        return next(iter(self._unrouted), None)  # in the order in which they were taken

    # Admission

    def publish(self, client: Client, number: int, logged: Logged, content: Event) -> None:
        """Log an event and confirm it when it is on disk."""
        is_new = _identity(logged) not in self._confirming and logged.key not in self._window
        # A busy broker confirms a duplicate all the same: it takes no room.
        full = self._full_destination(logged.publisher, [content]) if is_new else None
        if full is not None:
            self._refuse(client, number, full)
        else:
            self._take(client, number, logged, content)

    def publish_batch(self, client: Client, events: Sequence[tuple[int, Logged, Event]]) -> None:
        """Log several events, all or none. They are taken where one of them could be, so that many find room as soon as
        one does, and the bound is exceeded by the others."""
        full = self._full_destination(events[0][1].publisher, [content for _, _, content in events])
        if full is not None:
            self._refuse(client, events[0][0], full)
        else:
            for number, logged, content in events:
                self._take(client, number, logged, content)

    def _full_destination(self, publisher: Client, contents: Sequence[Event]) -> Key | None:
        """The destination that has no room for one of some events of a publisher, where there is one.

        A destination that refused an event goes on doing so until half of its room is free, so that a publisher's later
        events for it do not overtake those that were refused.
        """
        in_transit, length = self._in_transit()
        if self._is_saturated or in_transit >= self._max_in_transit or length >= self._max_bytes:
            self._is_saturated = True
            return _IN_TRANSIT
        if self._is_withholding_all and (publisher in self._withheld_of or any(self._blocked.find(contents))):
            return _WITHHELD
        refusing = {key for key in self.spill.refusing if key in self._interests.away and self._policy(key) == "refuse"}
        if refusing:
            for found in self._interests.find_away(contents):
                for key in found:
                    if key in refusing:
                        return key
        return None

    def _in_transit(self) -> tuple[int, int]:
        """Number and bytes of the events that are to be sent or under way: withheld ones have room of their own."""
        count = len(self._unfinished) - len(self._withheld) + len(self._confirming)
        return count, self._bytes - self._withheld_bytes

    def _policy(self, destination: Key) -> OnFull:
        known = self._interests.away.get(destination)
        return "refuse" if known is None else known.on_full

    def _refuse(self, client: Client, number: int, destination: Key) -> None:
        self._refused.setdefault(destination, {})[client] = None
        known = self._interests.away.get(destination)
        if destination == _WITHHELD:
            brokers = ", ".join(map(str, self._blocked.brokers))
            reason = (
                f"{len(self._withheld):,} confirmed events wait for a subscriber that holds publishers back and has a "
                f"full queue, at broker {brokers}"
            )
        elif known is None:
            reason = f"{self._max_in_transit:,} confirmed events are under way to brokers that are slow"
        else:
            reason = f"{self.spill.count(destination):,} confirmed events wait for {known}"
        self._effects.append(Reply(client, Refused(f"busy: {reason}", "busy", number)))

    def _take(self, client: Client, number: int, logged: Logged, content: Event) -> None:
        """Log an event, unless it is a duplicate: that is confirmed with the first."""
        confirming = self._confirming.get(_identity(logged))
        guarded = self._guarded.get(_identity(logged))
        if confirming is not None:
            confirming.append((client, number))
        elif guarded is not None:
            guarded.confirming.append((client, number))
        elif logged.key in self._window and self._unread and (guards := self._interests.find_guards(content)):
            self._guarded[_identity(logged)] = _Guarded(None, guards, [(client, number)])
        elif logged.key in self._window:
            self._effects.append(Reply(client, Accepted(number)))
        else:
            self._confirming[_identity(logged)] = [(client, number)]
            self._unrouted[logged.event.id] = logged.publisher, content
            self._unwritten.append(logged)
            self.newest = logged.event.id

    def take_unwritten(self) -> list[Logged | LoggedDeadLetter | Finished]:
        """The records to write since the last call."""
        # Dead letters before the end of their events, after which the store may not have these any more.
        records: list[Logged | LoggedDeadLetter | Finished] = [*self._unwritten, *self._letters, *self._finished]
        self._unwritten, self._letters, self._finished = [], [], []
        return records

    def on_written(self, logged: Logged) -> None:
        """An event is on disk: confirm it, and route it."""
        event = logged.event
        # Only now: a key of an event that failed to be written would confirm a lost event when it is sent again.
        self._window.add(logged.key)
        self._keep(event)
        confirming = self._confirming.pop(_identity(logged), [])
        if not self._guard(event, self._unrouted.get(event.id, (None, None))[1], confirming):
            self._effects += [Reply(client, Accepted(number), event.id) for client, number in confirming]

    # Events for subscriptions of two homes

    def _guard(self, event: Publish, content: Event | None, confirming: list[tuple[Client, int]]) -> bool:
        """Whether the confirmation of an event waits for both homes of a subscription."""
        if event.kept is None or not self._interests.guards():
            return False
        guards = self._interests.find_guards(decode_event(event.body) if content is None else content)
        if guards:
            self._guarded[event.kept.identity] = _Guarded(event.id, guards, confirming)
            self._guarded_ids[event.id] = event.kept.identity
        return bool(guards)

    def guards_of(self, id: EventId) -> tuple[Key, ...]:
        """The subscriptions whose two homes must have an event before it is confirmed."""
        identity = self._guarded_ids.get(id)
        return () if identity is None else self._guarded[identity].guards

    @property
    def guarded(self) -> int:
        """The number of events whose confirmation waits for both homes of a subscription."""
        return len(self._guarded)

    def _confirm_guarded(self, id: EventId) -> None:
        """Both homes have an event, or need not have it any more: confirm it."""
        identity = self._guarded_ids.pop(id, None)
        if identity is not None:
            confirming = self._guarded.pop(identity).confirming
            self._effects += [Reply(client, Accepted(number), id) for client, number in confirming]

    def review_guards(self) -> None:
        """Confirm the events that wait for two homes of subscriptions which have one now."""
        guards = self._interests.guards()
        for id, identity in list(self._guarded_ids.items()):
            if not any(key in guards for key in self._guarded[identity].guards):
                self._confirm_guarded(id)

    def _note_read(self, ids: Iterable[EventId]) -> None:
        """Events that an earlier life left on disk are known now, those that are finished aside."""
        self._unread.difference_update(ids)
        if self._unread:
            return
        for identity, each in list(self._guarded.items()):
            if each.id is None:  # it is not among them: it was finished
                del self._guarded[identity]
                self._effects += [Reply(client, Accepted(number)) for client, number in each.confirming]

    def on_write_failed(self, logged: Logged, reason: str, kind: Refusal) -> None:
        self._unrouted.pop(logged.event.id, None)
        confirming = self._confirming.pop(_identity(logged), ())
        self._effects += [Reply(client, Refused(reason, kind, number)) for client, number in confirming]

    # Attempts

    def next_attempts(self) -> Iterator[tuple[Publish, Event | None]]:
        """The events to route now, with their content where it is still at hand."""
        self._withhold()
        while self._ready and self._may_send:
            id = self._ready.popleft()
            event = self._unfinished[id]
            identity = event.kept.identity if event.kept is not None else b""
            # Each attempt has a number of its own, by which acknowledgements and duplicates are told apart.
            self._attempt += 1
            self._under_way.add(id)
            self._under_way_bytes += _length(event)
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
            yield attempt, self._unrouted.pop(id, (None, None))[1]

    @property
    def _may_send(self) -> bool:
        return len(self._under_way) < self._max_under_way and self._under_way_bytes < _MAX_UNDER_WAY_BYTES

    def _withhold(self) -> None:
        """Leave among the ready events, as far as they may be sent now, none that is to be withheld."""
        if self._withheld_revision != self._blocked.revision:
            self._withheld_revision = self._blocked.revision
            self._ready.extendleft(reversed(self._withheld))
            self._withheld.clear()
            self._withheld_of.clear()
            self._withheld_bytes = 0
        if not self._blocked.known:
            return
        room = self._max_under_way - len(self._under_way)
        passed: list[EventId] = []
        while self._ready and len(passed) < room and self._may_send:
            some = [self._ready.popleft() for _ in range(min(room - len(passed), len(self._ready)))]
            known = [self._unrouted.get(id) for id in some]
            contents = [
                decode_event(self._unfinished[id].body) if each is None else each[1]
                for id, each in zip(some, known, strict=True)
            ]
            for id, each, is_blocked in zip(some, known, self._blocked.find(contents), strict=True):
                publisher = "" if each is None else each[0]  # not known of an event that was tried before
                if is_blocked or publisher in self._withheld_of:
                    self._withheld[id] = publisher
                    self._withheld_bytes += _length(self._unfinished[id])
                    if publisher:
                        self._withheld_of[publisher] += 1
                else:
                    passed.append(id)
        self._ready.extendleft(reversed(passed))
        if 2 * len(self._withheld) >= self._max_in_transit or 2 * self._withheld_bytes >= self._max_bytes:
            self._is_withholding_all = True

    def fetch(self) -> None:
        """Read released events from disk, as many as may be under way beside those that are."""
        fetched = sum(map(len, self._fetches.values()))
        room = self._max_under_way - (len(self._unfinished) - len(self._withheld)) - fetched
        if self._released and room > 0:
            ids = tuple(self._released.popleft() for _ in range(min(room, len(self._released), _MAX_FETCHED)))
            token = next(self._tokens)
            self._fetches[token] = ids
            self._effects.append(Fetch(ids, token))

    def on_fetched(self, token: int, events: Sequence[Publish] | None) -> None:
        """Take events of the spill that were read from disk; None where they cannot be read."""
        ids = self._fetches.pop(token, ())
        if events is None:
            self._released.extendleft(reversed(ids))
            return
        for event in events:
            self._keep(event)
            identity = b"" if event.kept is None else event.kept.identity
            if event.id not in self._guarded_ids:
                late = self._guarded.get(identity)
                self._guard(event, None, [] if late is None else late.confirming)
        self._note_read(ids)

    def _keep(self, event: Publish) -> None:
        """Keep an event in memory, to be routed."""
        self._unfinished[event.id] = event
        self._bytes += _length(event)
        self._ready.append(event.id)

    def _let_go(self, id: EventId) -> int:
        """Keep an event in memory no longer; its length."""
        event = self._unfinished.pop(id, None)
        length = 0 if event is None else _length(event)
        self._bytes -= length
        return length

    def on_attempt_ended(self, attempt: AttemptOutcome, is_at_hand: bool) -> None:
        """An attempt is over. It `is_at_hand` where all homes within reach have the event that want it."""
        if attempt.id in self._under_way:
            self._under_way.remove(attempt.id)
            self._under_way_bytes -= _length(self._unfinished[attempt.id])
        self.not_writing.discard(self._probing.pop(attempt.id, 0))
        self.not_writing.update(attempt.unwritten)
        if attempt.whole:
            self._finish(attempt.id)
            self._let_go(attempt.id)
        else:
            self._ended[attempt.id] = None
            if is_at_hand:
                self._at_hand.add(attempt.id)

    def _finish(self, id: EventId) -> None:
        # A crash before `Finished` is on disk costs one more attempt, which home brokers deduplicate. Where a policy
        # dropped it, nothing is left that a confirmation could wait for.
        self._confirm_guarded(id)
        self._finished.append(Finished(id))

    def spill_ended(self) -> None:
        """Move the events whose attempt was not whole to the spill, where they are for subscriptions that take none
        now; the others are tried again."""
        ended, self._ended = sorted(self._ended), {}
        at_hand, self._at_hand = self._at_hand, set()
        if not ended:
            return
        if not self._interests.away:
            self._awaiting_retry.update(dict.fromkeys(ended))
            return
        contents = [decode_event(self._unfinished[id].body) for id in ended]
        for id, found in zip(ended, self._interests.find_away(contents), strict=True):
            if found:
                # What it waits for is other subscriptions: those of two homes have it.
                if id in at_hand and not self._interests.guards_among(found):
                    self._confirm_guarded(id)
                self._spill(self._unfinished[id], found)
                self._let_go(id)
            else:
                self._awaiting_retry[id] = None

    def _spill(self, event: Publish, found: tuple[Key, ...]) -> None:
        """Let an event wait for some destinations, by the policy of each that is full."""
        length = _length(event)
        destinations = []
        for key in found:
            policy = self._policy(key)
            while policy in ("drop_oldest", "dead_letter") and not self.spill.has_room(key, length):
                id, is_done = self.spill.remove_oldest(key)
                self._drop(id, key, policy)
                if is_done:
                    self._finish(id)
            if policy == "drop_newest" and not self.spill.has_room(key, length):
                self._drop(event.id, key, policy)
            else:
                destinations.append(key)
        if destinations:
            self.spill.add(event.id, length, tuple(destinations))
        else:
            self._finish(event.id)

    def _drop(self, id: EventId, destination: Key, policy: OnFull) -> None:
        self.dropped += 1
        reason = f"too many events wait for {self._interests.away[destination]}"
        self._effects.append(Drop("the spill for a durable subscription is full"))
        if policy == "dead_letter":
            self._letters.append(LoggedDeadLetter(id, reason))

    def on_away_changed(self) -> None:
        """Other subscriptions take no event now than before: try the events again that wait for none of them."""
        self._released.extend(self.spill.release(self._interests.away))
        self._ended.update(self._awaiting_retry)
        self._awaiting_retry = {}
        self.spill_ended()

    def retry(self) -> None:
        """Route again the events whose last attempt was not whole, in the order in which they were accepted."""
        self._ready.extend(sorted(self._awaiting_retry))  # ids of one incarnation sort by their count
        self._awaiting_retry = {}

    def probe(self) -> None:
        """Try homes again that could not write, with one event each."""
        homes, self.not_writing = self.not_writing, set(self._probing.values())
        for key, each in self._interests.away.items():
            if each.home in homes - self.not_writing and self.spill.count(key):
                self.not_writing.add(each.home)
                id = self.spill.first(key)
                self.spill.remove(id)
                self._probing[id] = each.home
                self._released.appendleft(id)

    def proceed(self) -> None:
        """Tell refused clients to proceed, when half of the room is free again."""
        # Hysteresis: with one free place clients would be refused and resumed event by event.
        in_transit, length = self._in_transit()
        if self._is_saturated and 2 * in_transit <= self._max_in_transit and 2 * length <= self._max_bytes:
            self._is_saturated = False
        if 4 * len(self._withheld) <= self._max_in_transit and 4 * self._withheld_bytes <= self._max_bytes:
            self._is_withholding_all = False
        for key in list(self._refused):
            if key == _WITHHELD:
                is_full = self._is_withholding_all
            else:
                is_full = self._is_saturated if key == _IN_TRANSIT else key in self.spill.refusing
            if not is_full:
                self._effects += [Reply(client, Proceed()) for client in self._refused.pop(key)]


def _length(event: Publish) -> int:
    return len(event.body) + len(event.header)


def _identity(logged: Logged) -> Key:
    return logged.key[1:]  # without the prefix of `log_key`
