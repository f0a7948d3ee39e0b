"""Incoming events of a client: the event as received, its stream, and the streams of one connection.

Flow control is by credit. A stream grants the broker a window of `CREDIT_WINDOW_EVENTS`, and grants more as the program
takes events; a member of a consumer group gets the next event for one that it acknowledges. Beyond that, events wait in
the queue at the broker, whose overflow policy decides. `dropped` is the number of events that the policy discarded.
Events of a durable subscription have numbers, by which they are acknowledged; the acknowledgements of one turn of the
event loop leave in one frame. A broker that ends before it has written an acknowledgement delivers the event again. So
a stream remembers the last ones: an event that the program has acknowledged does not come to it a second time over the
next connection, and is acknowledged again.
"""

from __future__ import annotations

import asyncio
from collections import OrderedDict, deque
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final, NamedTuple, Self, TypeAlias, get_args

from msgspec import Raw
from msgspec.structs import replace

from palio.errors import InvalidArgument, PalioError
from palio.events import Event
from palio.events.values import MAX_INT64
from palio.network import protocol
from palio.network.client.received_batch import ReceivedBatch, WaitingBatch, waiting_batches
from palio.network.protocol import (
    Acknowledge,
    Elsewhere,
    Matched,
    MatchedColumns,
    MatchedMany,
    More,
    Overflow,
    Reject,
    decode_numbers,
)
from palio.routing import codec
from palio.routing.client_messages import Complete, Confirm
from palio.routing.codec import Stamp, decode_event, stamps_in
from palio.routing.memo import Memo

if TYPE_CHECKING:
    from palio.network.client.broker import Broker
    from palio.network.client.connection import Connection

CREDIT_WINDOW_EVENTS: Final = 1024
_MAX_BATCH_EVENTS: Final = 4_096  # single events that `batches` joins
_REMEMBERED_WINDOWS: Final = 4  # of acknowledged events: what the disk of a broker may be behind
_MAX_SOURCES: Final = 65_536  # whose completeness one subscription knows
_Targets: TypeAlias = "tuple[tuple[EventStream, tuple[str, ...]], ...]"


class ReceivedEvent(Event):
    """An event that matched a subscription; `subscriptions` are the names of all that it matched in its stream."""

    __slots__ = ("_home", "_stamps", "_stream", "deliveries", "number", "subscriptions")

    number: int
    deliveries: int  # 1 + the number of deliveries that have failed: without an acknowledgement, or by a rejection
    subscriptions: tuple[str, ...]
    _stream: EventStream
    _home: Connection  # that it came by
    _stamps: bytes

    @property
    def stamps(self) -> tuple[Stamp, ...]:
        """The links that the event passed, in order, with the times of sending and receiving in seconds since 1970 by
        each broker's clock. Empty unless all brokers on the path run with `palio serve --stamps`."""
        return stamps_in(self._stamps)

    async def ack(self) -> None:
        """Acknowledge the event: a durable subscription will not deliver it again. For others this does nothing."""
        if self.number:
            self._stream._acknowledge(self)

    async def reject(self, *, requeue: bool = True, reason: str = "") -> None:
        """Say that the event of a durable subscription could not be processed: it is delivered again, to this consumer
        or to another member of its group; or, without `requeue`, becomes a dead letter. For others this does nothing.
        """
        if self.number:
            self._stream._reject(self.number, self._home, requeue, reason)


class Stretch(NamedTuple):
    """A stretch of events that one broker accepted in one incarnation, of which this subscriber has all it wanted.

    Events are numbered in the order in which the broker accepted them, whoever published them; those after `after` up
    to `up_to` are complete, and `time` is when the broker said so, by its clock. `sources` published in the stretch.
    """

    broker: int
    incarnation: int
    after: int
    up_to: int
    time: datetime
    sources: frozenset[str | None]


class CompleteStretches:
    """The complete stretches of one subscription, joined where one follows the other."""

    __slots__ = ("_by_broker", "_published_at")

    def __init__(self) -> None:
        self._by_broker: dict[int, Stretch] = {}
        self._published_at: OrderedDict[str | None, int] = OrderedDict()  # by source, the one last heard of at the end

    def add(self, told: Complete) -> Stretch:
        sources = frozenset(source or None for source, _ in told.sources)
        time = datetime.fromtimestamp(told.time, UTC)
        stretch = Stretch(told.broker, told.incarnation, told.after, told.up_to, time, sources)
        before = self._by_broker.get(told.broker)
        is_next = before is not None and (before.incarnation, before.up_to) == (told.incarnation, told.after)
        self._by_broker[told.broker] = stretch._replace(after=before.after) if before and is_next else stretch
        for source in sources:
            self._published_at[source] = told.broker
            self._published_at.move_to_end(source)
            if len(self._published_at) > _MAX_SOURCES:
                self._published_at.popitem(last=False)
        return stretch

    def get(self, source: str | None) -> Stretch | None:
        at = self._published_at.get(source)
        return None if at is None else self._by_broker.get(at)


class RecentAcknowledgements:
    """The last acknowledged events of a stream, by number; the oldest goes when there are too many.

    A broker that lost its queue begins to number anew, so that an event is known by number and id.
    """

    __slots__ = ("_ids", "_size")

    def __init__(self, size: int) -> None:
        self._size = size
        self._ids: OrderedDict[int, str] = OrderedDict()

    def add(self, event: ReceivedEvent) -> None:
        self._ids[event.number] = event.id
        if len(self._ids) > self._size:
            self._ids.popitem(last=False)

    def __contains__(self, event: ReceivedEvent) -> bool:
        return bool(event.number) and self._ids.get(event.number) == event.id


class EventStream:
    """Asynchronous iterator over the events of one delivery queue at the broker; `name` is the queue's."""

    def __init__(self, broker: Broker, name: str, window: int = CREDIT_WINDOW_EVENTS) -> None:
        self.name = name
        self._window = window
        self._grants_credit = True
        self.dropped = 0
        self._connection = broker.connection
        self._streams = broker.streams
        self.on_complete: Callable[[Stretch], None] | None = None
        self._complete = CompleteStretches()
        # Events, and the complete stretches between them.
        self._waiting: deque[tuple[bytes | Event, tuple[str, ...], bytes, int, int] | WaitingBatch | Complete] = deque()
        self._taken = 0  # since credit was last granted
        self._acknowledged: list[int] = []  # in this turn of the event loop
        self._recently_acknowledged = RecentAcknowledgements(_REMEMBERED_WINDOWS * window)
        self._listeners: list[asyncio.Future[None]] = []
        self._failure: PalioError | None = None
        self._was_entered = False
        self._is_entered = False

    def __aiter__(self) -> Self:
        return self

    def complete_up_to(self, source: str | None = None) -> Stretch | None:
        """The stretch of events of which this subscription has all that it wanted, at the broker where a source last
        published; None before it is known. Events that wait to be taken from this stream are not part of it."""
        self._note_complete()
        return self._complete.get(source)

    def _note_complete(self) -> None:
        """Take the complete stretches that follow the last event which was taken."""
        waiting = self._waiting
        while waiting and isinstance(waiting[0], Complete):
            stretch = self._complete.add(waiting[0])
            waiting.popleft()
            if self.on_complete is not None:
                self.on_complete(stretch)

    async def __anext__(self) -> ReceivedEvent:
        waiting = self._waiting
        while True:
            # The common case first, without a call: an event waits.
            if not waiting or type(waiting[0]) is not tuple:
                if not await self._has_waiting():
                    raise StopAsyncIteration
                first = waiting[0]
                if isinstance(first, WaitingBatch):
                    waiting.popleft()
                    waiting.extendleft(reversed(first.events()))
            taken = waiting.popleft()
            assert not isinstance(taken, Complete | WaitingBatch)
            self._count_taken(1)
            received = self._received(*taken)
            if received not in self._recently_acknowledged:
                return received
            self._acknowledge(received)

    async def batches(self) -> AsyncIterator[ReceivedBatch]:
        """The events as they come, in batches: columns where a publisher's batch was wanted, and single events."""
        while await self._has_waiting():
            first = self._waiting[0]
            if isinstance(first, WaitingBatch):
                self._waiting.popleft()
                self._count_taken(len(first.batch))
                yield ReceivedBatch(first, [])
                continue
            events: list[ReceivedEvent] = []
            while self._waiting and len(events) < _MAX_BATCH_EVENTS:
                taken = self._waiting[0]
                if isinstance(taken, Complete | WaitingBatch):
                    break
                self._waiting.popleft()
                self._count_taken(1)
                received = self._received(*taken)
                if received in self._recently_acknowledged:
                    self._acknowledge(received)
                else:
                    events.append(received)
            if events:
                yield ReceivedBatch(None, events)

    async def _has_waiting(self) -> bool:
        """Wait for events; False at the end. Those that arrived before a failure or the end are delivered first."""
        while True:
            self._note_complete()
            if self._waiting:
                return True
            if self._failure is not None:
                raise self._failure
            if not self._was_entered:
                raise InvalidArgument("a subscription is entered before its events are asked for: `with` it")
            if not self._is_entered:
                return False
            await self._wait_for_wakeup()

    def _count_taken(self, events: int) -> None:
        self._taken += events
        # In halves of the window: the broker never runs dry, and one message serves many events.
        if self._grants_credit and self._taken >= (self._window + 1) // 2:
            self._grant_credit()

    def _grant_credit(self) -> None:
        """Grant credit for what was taken."""
        self._connection.send(protocol.encode(More(self.name, self._taken)))
        self._taken = 0

    def _received(
        self, sent: bytes | Event, subscriptions: tuple[str, ...], stamps: bytes, number: int, deliveries: int
    ) -> ReceivedEvent:
        if isinstance(sent, bytes):
            received = codec.decode_event_as(ReceivedEvent, sent)
        else:  # decoded already, for all streams that it matched; each gets an event of its own to acknowledge
            received = ReceivedEvent.__new__(ReceivedEvent)
            received._attributes = sent._attributes
            received._id, received._source, received._time = sent._id, sent._source, sent._time
        received.subscriptions = subscriptions
        received.number = number
        received.deliveries = deliveries
        received._stamps = stamps
        received._stream = self
        received._home = self._connection
        return received

    def _acknowledge(self, event: ReceivedEvent) -> None:
        if event._home is not self._connection:
            return  # the new home has other numbers; unacknowledged events are delivered again
        self._recently_acknowledged.add(event)
        if not self._acknowledged:  # the first of this turn of the event loop schedules one frame for all
            asyncio.get_running_loop().call_soon(self._send_acknowledgements)
        self._acknowledged.append(event.number)

    def _reject(self, number: int, home: Connection, requeue: bool, reason: str) -> None:
        check_text("the reason of a rejection", reason, protocol.MAX_REASON_LENGTH)
        if home is self._connection:  # as for an acknowledgement
            self._send_acknowledgements()  # in the order of the calls
            self._connection.send(protocol.encode(Reject(self.name, (number,), requeue, reason)))

    def _send_acknowledgements(self) -> None:
        numbers, self._acknowledged = self._acknowledged, []
        if numbers:
            self._connection.send(protocol.encode(Acknowledge(self.name, tuple(numbers))))

    async def _wait_for_wakeup(self) -> None:
        """Wait for an event or for the end. Several tasks may wait; all wake up and look again."""
        listener = asyncio.get_running_loop().create_future()
        self._listeners.append(listener)
        await listener

    def _wake(self) -> None:
        listeners, self._listeners = self._listeners, []
        for each in listeners:
            if not each.done():
                each.set_result(None)

    # Called by the connection

    def put(
        self, sent: bytes | Event, subscriptions: tuple[str, ...], stamps: bytes, number: int = 0, deliveries: int = 1
    ) -> None:
        self._waiting.append((sent, subscriptions, stamps, number, deliveries))
        if self._listeners:
            self._wake()

    def put_many(self, bodies: Iterable[bytes], subscriptions: tuple[str, ...], stamps: bytes) -> None:
        self._waiting.extend([(body, subscriptions, stamps, 0, 1) for body in bodies])
        if self._listeners:
            self._wake()

    def put_batch(self, batch: WaitingBatch) -> None:
        self._waiting.append(batch)
        if self._listeners:
            self._wake()

    def put_stretch(self, stretch: Complete) -> None:
        waiting = self._waiting
        # Joined with one that waits already: credit bounds events, and nothing else would bound stretches.
        for place in range(len(waiting) - 1, -1, -1):
            before = waiting[place]
            if not isinstance(before, Complete):
                break
            if _follows(stretch, before):
                sources = {**dict(before.sources), **dict(stretch.sources)}
                named = tuple(sources.items())[-_MAX_SOURCES:]
                waiting[place] = replace(stretch, after=before.after, sources=named)
                return
        waiting.append(stretch)
        self._note_complete()

    def on_cancelled(self, name: str) -> None:
        """The last publisher whose advertisement overlaps a subscription has left."""

    def on_ended(self, name: str, error: PalioError) -> None:
        """The broker has ended a subscription; events received before are still delivered."""

    def move(self, where: Elsewhere) -> None:
        """A durable subscription continues at another broker."""

    def resubscribe(self) -> None:
        """Repeat the request over a new connection."""

    def fail(self, error: PalioError) -> None:
        self._failure = error
        self._wake()

    @property
    def _initial_credit(self) -> int:
        """The credit of a new request: the window less the events that still wait here."""
        waiting = sum(len(each.batch) if isinstance(each, WaitingBatch) else 1 for each in self._waiting)
        return max(1, self._window - waiting)


def _follows(stretch: Complete, before: Complete) -> bool:
    return (stretch.broker, stretch.incarnation, stretch.after) == (before.broker, before.incarnation, before.up_to)


class StreamTable:
    """The streams of one connection, by subscription name and by request number.

    A `Matched` message names the subscriptions that an event is for by the numbers of the requests that made them.
    """

    __slots__ = ("_name_of", "_number_of", "_stream_by_name", "_stream_of", "_targets")

    def __init__(self) -> None:
        self._stream_by_name: dict[str, EventStream] = {}
        self._number_of: dict[str, int] = {}
        self._stream_of: dict[int, EventStream] = {}
        self._name_of: dict[int, str] = {}
        # Streams and names by the encoded numbers: the same sets of subscriptions match again and again.
        self._targets = Memo[bytes, _Targets]()

    def __iter__(self) -> Iterator[EventStream]:
        """Each stream once."""
        return iter(dict.fromkeys(self._stream_by_name.values()))

    def get(self, name: str) -> EventStream | None:
        return self._stream_by_name.get(name)

    def add(self, name: str, stream: EventStream) -> None:
        if name in self._stream_by_name:
            raise InvalidArgument(f"there is a subscription {name!r} of this connection already")
        self._stream_by_name[name] = stream

    def move(self, name: str, stream: EventStream) -> None:
        """Take over a subscription from another connection."""
        self._stream_by_name[name] = stream

    def assign_number(self, number: int, stream: EventStream, name: str) -> None:
        """Record the number of the request that makes a subscription; an earlier number is void."""
        self._unnumber(name)
        self._number_of[name] = number
        self._stream_of[number] = stream
        self._name_of[number] = name
        self._targets.clear()

    def forget(self, name: str) -> None:
        self._stream_by_name.pop(name, None)
        self._unnumber(name)

    def _unnumber(self, name: str) -> None:
        number = self._number_of.pop(name, 0)
        self._stream_of.pop(number, None)
        self._name_of.pop(number, None)
        self._targets.clear()

    def deliver(self, message: Matched) -> None:
        """Hand an event to its streams. Most events are for one stream, however many subscriptions match."""
        targets = self._targets_of(message.subscriptions)
        if len(targets) == 1:
            [(stream, names)] = targets
            stream.put(message.body, names, message.stamps)
            return
        event = decode_event(message.body)  # decoded once for all streams
        for stream, names in targets:
            stream.put(event, names, message.stamps)

    def deliver_batch(self, message: MatchedMany | MatchedColumns) -> None:
        """Hand several events to their streams."""
        if isinstance(message, MatchedMany):
            targets = self._targets_of(message.subscriptions)
            if len(targets) == 1:
                [(stream, names)] = targets
                stream.put_many(message.bodies, names, message.stamps)
                return
            for body in message.bodies:
                self.deliver(Matched(message.subscriptions, body, message.stamps))
            return
        groups = [(self._targets_of(numbers), rows) for numbers, rows in message.groups]
        for stream, waiting in waiting_batches(groups, message):
            stream.put_batch(waiting)

    def _targets_of(self, subscriptions: Raw) -> _Targets:
        encoded = bytes(subscriptions)
        targets = self._targets.found.get(encoded)
        return self._resolve(encoded) if targets is None else targets

    def _resolve(self, encoded: bytes) -> _Targets:
        names: dict[EventStream, list[str]] = {}
        for number in decode_numbers(encoded):
            stream = self._stream_of.get(number)
            if stream is not None:
                names.setdefault(stream, []).append(self._name_of[number])
        targets = tuple((stream, tuple(mine)) for stream, mine in names.items())
        return self._targets.put(encoded, targets, len(encoded))


def check_subscription_options(name: str, confirm: Confirm, queue: int, overflow: Overflow | None) -> None:
    """InvalidArgument for options that a broker would refuse."""
    check_text("the name of a subscription", name, protocol.MAX_NAME_LENGTH, 1)
    if confirm not in get_args(Confirm):
        raise InvalidArgument(f"confirm is one of {', '.join(get_args(Confirm))}, not {confirm!r}")
    if overflow is not None and overflow not in get_args(Overflow):
        raise InvalidArgument(f"overflow is one of {', '.join(get_args(Overflow))}, not {overflow!r}")
    if type(queue) is not int or not 0 <= queue <= MAX_INT64:
        raise InvalidArgument(f"queue is a number of events, not {queue!r:.80}")


def check_text(what: str, text: str, longest: int, shortest: int = 0) -> None:
    """InvalidArgument for a text that cannot be sent. The message does not repeat it: it may be a secret."""
    if not isinstance(text, str):
        raise InvalidArgument(f"{what} is a text, not a value of type {type(text).__name__}")
    if not shortest <= len(text) <= longest:
        raise InvalidArgument(f"{what} has from {shortest} to {longest:,} characters, not {len(text):,}")
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise InvalidArgument(f"{what} has half of a character, a lone surrogate, at {error.start}") from None


def check_number(what: str, number: int, least: int) -> None:
    """InvalidArgument for anything but an integer from `least` to the largest of 64 bits."""
    if type(number) is not int or not least <= number <= MAX_INT64:
        raise InvalidArgument(f"{what} is a whole number from {least} on, not {number!r:.80}")
