"""Delivery queues between the broker and one client: bounded ones in memory, and consumers of durable ones on disk.

An event that need not wait bypasses the queues: it is written once for all subscriptions of the client that match. When
one of them must wait, the event goes to the queue of each subscription, so that the order within each is kept. A
subscription has a queue of its own; the subscriptions of a set share one, in which an event waits once for all.

Overflow policy `block` is backpressure on confirmed publishers: their confirmations are withheld, or their events at
the brokers that accepted them, and what they have in flight by then still finds a place. Unconfirmed publishers cannot
be held back; their events are dropped at a full queue. Every drop is counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from msgspec import Raw
from msgspec.structs import replace

from palio.network.protocol import DEFAULT_ACK_SECONDS, Overflow, encode_numbers
from palio.network.server.durable_consumers import DurableConsumer
from palio.network.store.interface import MAX_READ_BYTES
from palio.routing.client_messages import Complete, Confirm
from palio.routing.durable_settings import DurableSettings
from palio.routing.effects import Client
from palio.routing.messages import Publish

if TYPE_CHECKING:
    from palio.network.server.batch_delivery import SendBatch
    from palio.network.server.host import Host

# Confirmed events that may arrive after `block`: each publisher has a window of them, and so has each broker.
_MAX_IN_FLIGHT_EVENTS: Final = 65_536
NOT_COMPLETE: Final = "a durable subscription is not told of complete stretches: its events may come later"
_MAX_RUN_EVENTS: Final = 4_096
_MAX_STRETCHES: Final = 256  # complete ones of a queue, that wait behind its events


@dataclass(frozen=True, slots=True)
class GroupOptions:
    """How a member of a consumer group takes its part of the events."""

    key: str = ""  # attribute whose values are processed in order; without one it is empty
    ack_seconds: float = DEFAULT_ACK_SECONDS


@dataclass(frozen=True, slots=True)
class SubscribeOptions:
    """How a subscription is confirmed and delivered."""

    durable: bool = False
    confirm: Confirm = "edge"
    queue: int = 0  # events that may wait; 0 is the broker's default
    overflow: Overflow | None = None  # None is the broker's default
    credit: int | None = None  # events that may leave before more is granted; None is without flow control
    number: int = 0  # the client's own number of the subscription
    set_name: str = ""  # subscriptions of one set share the queue of the first of them
    completeness: bool = False  # whether the client is told of complete stretches
    settings: DurableSettings | None = None  # of a durable subscription; None leaves those that it has
    standby: str = ""  # address of the second home of a durable one; without it keeps the one that it has
    group: GroupOptions | None = None  # of a member of a consumer group; None is the only consumer


class QueueLimits(NamedTuple):
    """Bounds of a delivery queue."""

    events: int
    bytes: int


class QueuedEvent(NamedTuple):
    """An event, and the numbers of the queue's subscriptions that it matches."""

    event: Publish
    subscriptions: tuple[int, ...]


class DeliveryQueue:
    """Events that wait for one subscription or set. `credit` is how many the subscriber takes; None is no bound.

    `numbers` has its subscriptions by name, with the number that the subscriber gave each on the wire.
    """

    __slots__ = (
        "_blocked_too_long",
        "_has_gap",
        "_stretches",
        "bytes",
        "credit",
        "dropped",
        "is_over",
        "limits",
        "name",
        "numbers",
        "overflow",
        "taken",
        "waiting",
    )

    def __init__(self, name: str, limits: QueueLimits, overflow: Overflow, credit: int | None = None) -> None:
        self.name = name
        self.limits = limits
        self.overflow: Overflow = overflow
        self.credit = credit
        self.numbers: dict[str, int] = {}
        self.waiting: deque[QueuedEvent] = deque()
        self.bytes = 0  # of the bodies that wait
        self.dropped = 0
        self.taken = 0
        self._stretches: deque[tuple[int, Complete]] = deque()  # by the event that each follows
        self._has_gap = False  # an event was dropped since the last complete stretch
        self.is_over = False  # full, under a policy that blocks publishers or ends the session
        self._blocked_too_long = False  # so that the policy `block` drops the oldest events, until there is room

    def put(self, event: Publish, subscriptions: tuple[int, ...]) -> None:
        """Append an event, or apply the overflow policy."""
        if self._takes(event, self.limits):
            self._append(event, subscriptions)
            return
        dropped = self.dropped
        self._overflow(event, subscriptions)
        if self.dropped != dropped:
            self._lose_stretches()

    def _takes(self, event: Publish, limits: QueueLimits) -> bool:
        """Whether there is room within some limits; an empty queue takes any event."""
        count = len(self.waiting)
        return not count or (count < limits.events and self.bytes + len(event.body) <= limits.bytes)

    def _append(self, event: Publish, subscriptions: tuple[int, ...]) -> None:
        self.waiting.append(QueuedEvent(event, subscriptions))
        self.bytes += len(event.body)

    def put_stretch(self, stretch: Complete) -> None:
        """Let a complete stretch leave after the events that wait now, unless one of its events was dropped."""
        if self._has_gap:
            self._has_gap = False
            return
        self._stretches.append((self.taken + len(self.waiting), stretch))
        if len(self._stretches) > _MAX_STRETCHES:
            self._stretches.popleft()  # the subscriber sees that there is a gap before the next one

    def take_stretches(self) -> list[Complete]:
        """Remove the complete stretches whose events have left."""
        ready = []
        while self._stretches and self._stretches[0][0] <= self.taken:
            ready.append(self._stretches.popleft()[1])
        return ready

    @property
    def has_stretches(self) -> bool:
        return bool(self._stretches)

    def _lose_stretches(self) -> None:
        # The event that was dropped may be of any stretch that still waits, or of the present one.
        self._stretches.clear()
        self._has_gap = True

    def _overflow(self, event: Publish, subscriptions: tuple[int, ...]) -> None:
        match self.overflow:
            case "drop_oldest":
                self._append_dropping(event, subscriptions)
            case "drop_newest":
                self.dropped += 1
            case "disconnect":
                self.is_over = True
                self.dropped += 1
            case "block" if self._blocked_too_long:
                self._append_dropping(event, subscriptions)
            case "block":
                self.is_over = True
                # `kept` marks a confirmed event. Its publisher is being held back; only what is in flight still comes.
                in_flight = QueueLimits(self.limits.events + _MAX_IN_FLIGHT_EVENTS, 2 * self.limits.bytes)
                if event.kept is not None and self._takes(event, in_flight):
                    self._append(event, subscriptions)
                else:
                    self.dropped += 1

    def _append_dropping(self, event: Publish, subscriptions: tuple[int, ...]) -> None:
        while not self._takes(event, self.limits):
            self.bytes -= len(self.waiting.popleft().event.body)
            self.dropped += 1
        self._append(event, subscriptions)

    def on_blocked_too_long(self) -> None:
        """Hold nobody back until there is room again: until then the oldest events are dropped."""
        self._blocked_too_long = True
        self.is_over = False

    def numbers_of(self, names: Iterable[str]) -> list[int]:
        """The numbers of subscriptions; those that have ended are left out."""
        try:
            return list(map(self.numbers.__getitem__, names))  # the usual case, without a test for each name
        except KeyError:
            return [self.numbers[name] for name in names if name in self.numbers]

    def count_direct(self, events: int = 1) -> None:
        """Account for events that left without waiting."""
        self.taken += events
        if self.credit is not None:
            self.credit -= events

    @property
    def must_wait(self) -> bool:
        """Whether the next event cannot leave at once. Credit is below 0 where the last batch was larger than it."""
        return bool(self.waiting) or (self.credit is not None and self.credit <= 0)

    @property
    def queued(self) -> int:
        return len(self.waiting)

    def take(self, most: int, most_bytes: int = MAX_READ_BYTES) -> list[QueuedEvent]:
        """Remove the events that credit lets leave now, at least one; more only up to some bytes."""
        count = min(most, len(self.waiting), most if self.credit is None else self.credit)
        if count <= 0:
            return []
        next_one = self.waiting.popleft
        taken: list[QueuedEvent] = []
        size = 0
        while len(taken) < count and size < most_bytes:
            taken.append(next_one())
            size += len(taken[-1].event.body)
        self.bytes -= size
        if self.credit is not None:
            self.credit -= len(taken)
        self.taken += len(taken)
        if self._blocked_too_long and self.has_room:
            self._blocked_too_long = False
        return taken

    def retain(self, may_stay: Callable[[Publish], bool]) -> None:
        """Remove events that may not be delivered any more."""
        self.waiting = deque(each for each in self.waiting if may_stay(each.event))
        self.bytes = sum(len(each.event.body) for each in self.waiting)
        self._lose_stretches()

    def close(self) -> None:
        """Nothing to release: the events go with the queue."""

    @property
    def has_room(self) -> bool:
        """Whether blocked publishers may go on: only once half of the queue is empty, lest they stop and go."""
        return len(self.waiting) <= self.limits.events // 2 and self.bytes <= self.limits.bytes // 2


AnyQueue: TypeAlias = DeliveryQueue | DurableConsumer
SendDirect: TypeAlias = Callable[[Raw, Publish], bool]
SendRun: TypeAlias = Callable[[Raw, list[bytes]], None]


class Delivered(NamedTuple):
    """An event that leaves for a subscription, or for several of a set. A number other than 0 is to be acknowledged.

    `name` is that of the subscription or set; `subscriptions` are the subscriber's numbers of those that match.
    `deliveries` is 1 + the number of deliveries of a durable event that have failed.
    """

    name: str
    event: Publish
    subscriptions: tuple[int, ...] = ()
    number: int = 0
    deliveries: int = 1


class DeliveryPlan(NamedTuple):
    """The queues of a client that an event for some of its subscriptions belongs to."""

    client: ClientDelivery
    queues: tuple[DeliveryQueue, ...]
    numbers: tuple[tuple[int, ...], ...]  # of the subscriptions, by queue
    encoded_numbers: Raw | None  # of all subscriptions, as the wire has them; None where all have ended
    run: EventRun


class EventRun:
    """Bodies of events that leave for the same subscriptions of a client, one after the other, in one message.

    While there is `room`, a batch adds an event by appending it, without another look at the client: what decides
    whether its events may leave was looked at when the run began, and a change ends it.
    """

    __slots__ = ("bodies", "client", "room")

    def __init__(self, client: Client) -> None:
        self.client = client
        self.bodies: list[bytes] = []
        self.room = 0  # events that may still join; 0 unless this is the present run of the client


class ClientDelivery:
    """All delivery queues of one client. `send_direct` writes an event at once, or answers False where it cannot."""

    __slots__ = (
        "_client",
        "_dropping",
        "_has_stretches",
        "_host",
        "_nonempty",
        "_on_over",
        "_queues",
        "_running",
        "_sets",
        "begin_run",
        "by_subscription",
        "is_cut",
        "may_run",
        "send_batch",
        "send_direct",
        "send_run",
    )

    def __init__(self, host: Host, client: Client, on_over: Callable[[DeliveryQueue], None]) -> None:
        """`on_over` is called with a full queue whose policy is `block` or `disconnect`."""
        self.by_subscription: dict[str, AnyQueue] = {}
        self.is_cut = False  # the last call of `take` may have left events that could leave
        self.send_direct: SendDirect | None = None
        self.send_batch: SendBatch | None = None  # where the client takes batches of events
        # Whether events may leave in runs; `begin_run` sees to it that `end_run` is called before the next write.
        self.may_run = True
        self.begin_run: Callable[[], bool] = lambda: False
        self.send_run: SendRun = lambda numbers, bodies: None
        self._running: DeliveryPlan | None = None
        self._queues: dict[AnyQueue, None] = {}
        self._host = host
        self._client = client
        self._on_over = on_over
        self._sets: dict[str, DeliveryQueue] = {}
        self._nonempty: dict[AnyQueue, None] = {}  # those that may have events, in the order in which they got some
        self._dropping: dict[DeliveryQueue, None] = {}
        self._has_stretches = False

    @property
    def has_something(self) -> bool:
        """Whether anything waits that a batch has brought, be it events: most of them leave at once."""
        return bool(self._nonempty or self._dropping or self._has_stretches)

    def queues(self) -> Iterable[AnyQueue]:
        return self._queues

    def queue_of_set(self, name: str) -> DeliveryQueue | None:
        return self._sets.get(name)

    def add(self, name: str, queue: AnyQueue, number: int = 0, set_name: str = "") -> None:
        """Add a subscription with its queue; `number` is the subscriber's number of it."""
        self.by_subscription[name] = queue
        self._queues[queue] = None
        # Plans are kept by names alone, and names are those of many clients: one change invalidates all of them.
        self._host.delivery_plans.clear()
        if isinstance(queue, DurableConsumer):
            self._nonempty[queue] = None
            return
        queue.numbers[name] = number
        if set_name:
            self._sets[set_name] = queue

    def remove(self, name: str) -> AnyQueue | None:
        """Remove a subscription; answers its queue where no other subscription uses it."""
        queue = self.by_subscription.pop(name)
        self._host.delivery_plans.clear()
        if isinstance(queue, DeliveryQueue):
            del queue.numbers[name]
            if queue.numbers:
                return None
            if self._sets.get(queue.name) is queue:
                del self._sets[queue.name]
            self._dropping.pop(queue, None)
        del self._queues[queue]
        self._nonempty.pop(queue, None)
        return queue

    def grant_credit(self, name: str, events: int) -> None:
        """Let more events of a subscription or set leave."""
        queue = self._sets.get(name) or self.by_subscription.get(name)
        if queue is not None and queue.credit is not None:
            queue.credit += events

    def offer(self, names: tuple[str, ...], event: Publish) -> None:
        """Send an event for some subscriptions, or queue it; durable ones read it from their queue on disk instead."""
        self.end_run()
        plan = self.plan(names)
        if not any(queue.must_wait for queue in plan.queues):
            if plan.encoded_numbers is None:
                return  # all subscriptions have ended: nothing to send, and nothing to queue
            if self._run(plan, event) or self._bypass(plan, plan.encoded_numbers, event):
                return
        for queue, numbers in zip(plan.queues, plan.numbers, strict=True):
            self._put(queue, event, numbers)

    def plan(self, names: tuple[str, ...]) -> DeliveryPlan:
        """The queues that an event for some subscriptions belongs to."""
        # Few sets of subscriptions match most events, so that the plan of each set is cached.
        plan = self._host.delivery_plans.get(names)
        if plan is None or plan.client is not self:
            plan = self._host.delivery_plans.put(names, self._plan(names))
        return plan

    def _run(self, plan: DeliveryPlan, event: Publish) -> bool:
        """Begin a run with an event, which others of the same subscriptions may join until `end_run`."""
        if event.stamps or not self.may_run or not self.begin_run():
            return False
        plan.run.bodies.append(event.body)
        plan.run.room = min(_MAX_RUN_EVENTS, *(queue.credit or _MAX_RUN_EVENTS for queue in plan.queues)) - 1
        self._running = plan
        return True

    def end_run(self) -> None:
        """Send the events of the present run, if there is one: whatever comes next comes after them."""
        plan = self._running
        if plan is None or plan.encoded_numbers is None:
            return
        self._running = None
        run = plan.run
        run.room = 0
        bodies, run.bodies = run.bodies, []
        for queue in plan.queues:
            queue.count_direct(len(bodies))
        self.send_run(plan.encoded_numbers, bodies)

    def _bypass(self, plan: DeliveryPlan, numbers: Raw, event: Publish) -> bool:
        """Send an event at once, where the connection takes it."""
        if self.send_direct is None or not self.send_direct(numbers, event):
            return False
        for queue in plan.queues:
            queue.count_direct()
        return True

    def _put(self, queue: DeliveryQueue, event: Publish, numbers: tuple[int, ...]) -> None:
        before = queue.dropped
        queue.put(event, numbers)
        self._nonempty[queue] = None
        if queue.dropped != before:
            self._dropping[queue] = None
            self._host.drops[f"subscriber slow: {queue.overflow}"] += 1
        if queue.is_over:
            self._on_over(queue)

    def _plan(self, names: tuple[str, ...]) -> DeliveryPlan:
        by_queue: dict[DeliveryQueue, list[int]] = {}
        if len(self._queues) == 1:  # as of a client with one set, whose numbers are looked up together
            [only] = self._queues
            if isinstance(only, DeliveryQueue) and (known := only.numbers_of(names)):
                by_queue[only] = known
        else:
            for name in names:
                queue = self.by_subscription.get(name)
                if isinstance(queue, DeliveryQueue):
                    by_queue.setdefault(queue, []).append(queue.numbers[name])
        numbers = tuple(map(tuple, by_queue.values()))
        encoded = encode_numbers(tuple(chain.from_iterable(numbers))) if numbers else None
        return DeliveryPlan(self, tuple(by_queue), numbers, encoded, EventRun(self._client))

    def take(self, most: int) -> list[Delivered]:
        """Remove queued events that may leave now; a queue that has room again unblocks the publishers.

        One call takes a few megabytes, so that the events of a slow connection stay in bounded queues.
        """
        self.end_run()
        batch: list[Delivered] = []
        left_bytes = MAX_READ_BYTES
        self.is_cut = False
        for queue in list(self._nonempty):
            if left_bytes <= 0:
                self.is_cut = True
                break
            if isinstance(queue, DurableConsumer):  # stays among them: only a read tells that it is empty
                if queue.may_have_more:
                    self.is_cut = True
                    events = queue.take(most - len(batch))
                    left_bytes -= sum([len(each.event.body) for each in events])
                    batch += [Delivered(queue.name, event, number=n, deliveries=d) for n, event, d in events]
                continue
            before = queue.bytes
            batch += [Delivered(queue.name, *each) for each in queue.take(most - len(batch), left_bytes)]
            left_bytes -= before - queue.bytes
            if not queue.waiting:
                del self._nonempty[queue]
            elif queue.credit is None or queue.credit > 0:
                self.is_cut = True
            if queue.is_over and queue.has_room:
                queue.is_over = False
                self._host.backpressure.unblock(queue)
        return batch

    def offer_stretch(self, stretch: Complete) -> None:
        """Send a complete stretch after the events that wait for its subscriptions."""
        self.end_run()
        by_queue: dict[DeliveryQueue, list[str]] = {}
        for name in stretch.names:
            queue = self.by_subscription.get(name)
            if isinstance(queue, DeliveryQueue):
                by_queue.setdefault(queue, []).append(name)
        for queue, names in by_queue.items():
            queue.put_stretch(replace(stretch, names=tuple(names)))
            self._has_stretches = True

    def take_stretches(self) -> list[Complete]:
        """The complete stretches whose events have left."""
        queues = [queue for queue in self._queues if isinstance(queue, DeliveryQueue)]
        ready = [each for queue in queues for each in queue.take_stretches()]
        self._has_stretches = any(queue.has_stretches for queue in queues)
        return ready

    def take_dropping(self) -> list[DeliveryQueue]:
        """The queues that have dropped events since the last call."""
        dropping, self._dropping = self._dropping, {}
        return list(dropping)
