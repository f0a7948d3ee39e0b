"""Delivery queues between the broker and one client: bounded ones in memory, and readers of durable ones on disk.

An event that need not wait bypasses the queues: it is written once for all subscriptions of the client that match. When
one of them must wait, the event goes to the queue of each subscription, so that the order within each is kept. A
subscription has a queue of its own; the subscriptions of a group share one, in which an event waits once for all.

Overflow policy `block` is backpressure on confirmed publishers: their confirmations and the credit of links are
withheld, and what they have in flight by then still finds a place. Unconfirmed publishers cannot be held back; their
events are dropped at a full queue. Every drop is counted.

The events of a durable subscription wait in the store until they are acknowledged; `DurableQueue` reads them for the
session that has the subscription now. A session that subscribes takes it over from an earlier one, which may be a dead
connection that nothing has detected yet.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import chain
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from msgspec import Raw
from msgspec.structs import replace

from palio.errors import Refused
from palio.network.protocol import Overflow, encode_numbers
from palio.network.security.authorization import Principal, may_receive
from palio.network.store.interface import MAX_READ_BYTES, Acknowledged
from palio.routing import codec
from palio.routing.durable_settings import DurableSettings
from palio.routing.messages import Answer, Complete, Confirm, Divided, HomeBroker, Publish, UnsubscribeClient

if TYPE_CHECKING:
    from palio.network.server.host import Host
    from palio.network.server.session import Session
    from palio.network.store.interface import Store

# Confirmed events that may arrive after `block`: each publisher has a window of them, and each link its credit.
_MAX_IN_FLIGHT_EVENTS: Final = 65_536
DURABLE_CLIENT_PREFIX: Final = "durable "  # of the client name of a durable subscription's owner
_MAX_STRETCHES: Final = 256  # complete ones of a queue, that wait behind its events
_REHOME_CHECK_SECONDS: Final = 0.1  # until a queue with rival homes is looked at again


@dataclass(frozen=True, slots=True)
class SubscribeOptions:
    """How a subscription is confirmed and delivered."""

    durable: bool = False
    confirm: Confirm = "edge"
    queue: int = 0  # events that may wait; 0 is the broker's default
    overflow: Overflow | None = None  # None is the broker's default
    credit: int | None = None  # events that may leave before more is granted; None is without flow control
    number: int = 0  # the client's own number of the subscription
    group: str = ""  # subscriptions of one group share the queue of the first of them
    completeness: bool = False  # whether the client is told of complete stretches
    settings: DurableSettings | None = None  # of a durable subscription; None leaves those that it has


class QueueLimits(NamedTuple):
    """Bounds of a delivery queue."""

    events: int
    bytes: int


class QueuedEvent(NamedTuple):
    """An event, and the numbers of the queue's subscriptions that it matches."""

    event: Publish
    subscriptions: tuple[int, ...]


class DeliveryQueue:
    """Events that wait for one subscription or group. `credit` is how many the subscriber takes; None is no bound.

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

    def count_direct(self) -> None:
        """Account for an event that left without waiting."""
        self.taken += 1
        if self.credit is not None:
            self.credit -= 1

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


def durable_client(principal: Principal, name: str) -> str:
    """The client name under which the broker knows the owner of a durable subscription."""
    return f"{DURABLE_CLIENT_PREFIX}{principal.name}/{name}"


class DurableQueue:
    """Read position in the queue of a durable subscription, for the session that has it now."""

    def __init__(self, host: Host, store: Store, session: Session, name: str, credit: int | None) -> None:
        self.name = name
        self.credit = credit
        self.client = durable_client(session.principal, name)
        self.taken = 0
        self.dropped = 0
        self.is_over = False
        self.overflow: Overflow = "block"
        self._host = host
        # Looked up at every read: a store in memory makes the queue when its first event is queued.
        self._queue = partial(store.queue, self.client, name)
        self._session = session
        self._after = 0  # number of the last event that was read; the next session begins at 0 again
        self._has_more = True
        self._rehome_timer: asyncio.TimerHandle | None = None
        self._left_to: tuple[HomeBroker, ...] = ()
        before = host.clients.get(self.client)
        if isinstance(before, DurableQueue):
            before.close()
            before._session.end(f"another session took over the durable subscription {name!r}")
        host.clients[self.client] = self
        if self._rivals:
            self._check_home_soon()

    @property
    def queued(self) -> int:
        return self._queue().size().events

    @property
    def may_have_more(self) -> bool:
        return self._has_more and (self.credit is None or self.credit > 0)

    def take(self, most: int) -> list[tuple[int, Publish]]:
        """Read the next events that credit admits, with the numbers to acknowledge; they stay in the queue."""
        count = most if self.credit is None else min(most, self.credit)
        if count <= 0 or not self._has_more:
            return []
        events = self._queue().read(self._after, count)
        # A short read has reached the end, unless its events are long. Later events are announced by
        # `on_queue_written`, in this thread too, so that none can come between the read and this.
        if not events:
            self._has_more = False
            return []
        self._has_more = len(events) == count or sum([len(each.body) for _, each in events]) >= MAX_READ_BYTES // 2
        self._after = events[-1][0]
        if self.credit is not None:
            self.credit -= len(events)
        self.taken += len(events)
        return events if self._session.may_receive_all else self._permitted(events)

    def _permitted(self, events: list[tuple[int, Publish]]) -> list[tuple[int, Publish]]:
        """The events that the grant admits now; the others are acknowledged, since it may have shrunk meanwhile."""
        principal = self._session.principal
        permitted = [(number, each) for number, each in events if may_receive(principal, codec.decode_event(each.body))]
        kept = {number for number, _ in permitted}
        self.ack(number for number, _ in events if number not in kept)
        return permitted

    def ack(self, numbers: Iterable[int]) -> None:
        """Remove processed events from the queue."""
        done = tuple(numbers)
        if done:
            self._host.acknowledge(Acknowledged(self.client, self.name, done))
        if self._rivals:
            self._check_home_soon()

    def skip_through(self, last: int) -> None:
        """Do not read events up to a number again."""
        self._after = max(self._after, last)

    def retain(self, may_stay: Callable[[Publish], bool]) -> None:
        """Nothing to do: `take` checks the grant of each event it reads."""

    def close(self) -> None:
        """Detach; the queue on disk goes on collecting."""
        if self._host.clients.get(self.client) is self:
            del self._host.clients[self.client]
        if self._rehome_timer is not None:
            self._rehome_timer.cancel()

    # Several homes: after a network split, two brokers may hold the same subscription. The one with the highest number
    # is emptied first and then gives the subscription up; the client is referred to the others.

    @property
    def _rivals(self) -> tuple[HomeBroker, ...]:
        return self._host.rival_homes(self.client, self.name)

    def _check_home_soon(self) -> None:
        if self._rehome_timer is None:
            self._rehome_timer = asyncio.get_running_loop().call_later(_REHOME_CHECK_SECONDS, self._check_home)

    def _check_home(self) -> None:
        self._rehome_timer = None
        rivals = self._left_to or self._rivals
        if not rivals or self._host.clients.get(self.client) is not self:
            return
        is_given_up = not self._host.is_durable(self.client, self.name)
        if rivals[0].broker > self._host.broker_id or is_given_up:
            self._session.move(self.name, rivals)
        elif self.queued == 0 and not self._left_to:
            self._left_to = rivals
            self._host.request(self.client, UnsubscribeClient(self.name))
        if self._left_to:
            # Referred only once the subscription is gone here: a client that came back sooner would be let in again.
            self._check_home_soon()

    # Calls of the host

    def offer(self, names: tuple[str, ...], event: Publish) -> None:
        raise Refused("events of a durable subscription come by its queue")

    def on_queue_written(self) -> None:
        self._has_more = True

    def answer(self, answer: Answer) -> None:
        if isinstance(answer, Divided):
            self._check_home_soon()
        else:
            self._session.answer(answer)

    def on_batch_end(self) -> None:
        self._session.on_batch_end()


AnyQueue: TypeAlias = DeliveryQueue | DurableQueue
SendDirect: TypeAlias = Callable[[Raw, Publish], bool]


class Delivered(NamedTuple):
    """An event that leaves for a subscription, or for several of a group. A number other than 0 is to be acknowledged.

    `name` is that of the subscription or group; `subscriptions` are the subscriber's numbers of those that match.
    """

    name: str
    event: Publish
    subscriptions: tuple[int, ...] = ()
    number: int = 0


class DeliveryPlan(NamedTuple):
    """The queues of a client that an event for some of its subscriptions belongs to."""

    client: ClientDelivery
    queues: tuple[DeliveryQueue, ...]
    numbers: tuple[tuple[int, ...], ...]  # of the subscriptions, by queue
    encoded_numbers: Raw | None  # of all subscriptions, as the wire has them; None where all have ended


class ClientDelivery:
    """All delivery queues of one client. `send_direct` writes an event at once, or answers False where it cannot."""

    __slots__ = (
        "_dropping",
        "_groups",
        "_host",
        "_nonempty",
        "_on_over",
        "_queues",
        "by_subscription",
        "is_cut",
        "send_direct",
    )

    def __init__(self, host: Host, on_over: Callable[[DeliveryQueue], None]) -> None:
        """`on_over` is called with a full queue whose policy is `block` or `disconnect`."""
        self.by_subscription: dict[str, AnyQueue] = {}
        self.is_cut = False  # the last call of `take` may have left events that could leave
        self.send_direct: SendDirect | None = None
        self._queues: dict[AnyQueue, None] = {}
        self._host = host
        self._on_over = on_over
        self._groups: dict[str, DeliveryQueue] = {}
        self._nonempty: dict[AnyQueue, None] = {}  # those that may have events, in the order in which they got some
        self._dropping: dict[DeliveryQueue, None] = {}

    def queues(self) -> Iterable[AnyQueue]:
        return self._queues

    def group(self, name: str) -> DeliveryQueue | None:
        return self._groups.get(name)

    def add(self, name: str, queue: AnyQueue, number: int = 0, group: str = "") -> None:
        """Add a subscription with its queue; `number` is the subscriber's number of it."""
        self.by_subscription[name] = queue
        self._queues[queue] = None
        # Plans are kept by names alone, and names are those of many clients: one change invalidates all of them.
        self._host.delivery_plans.clear()
        if isinstance(queue, DurableQueue):
            self._nonempty[queue] = None
            return
        queue.numbers[name] = number
        if group:
            self._groups[group] = queue

    def remove(self, name: str) -> AnyQueue | None:
        """Remove a subscription; answers its queue where no other subscription uses it."""
        queue = self.by_subscription.pop(name)
        self._host.delivery_plans.clear()
        if isinstance(queue, DeliveryQueue):
            del queue.numbers[name]
            if queue.numbers:
                return None
            if self._groups.get(queue.name) is queue:
                del self._groups[queue.name]
            self._dropping.pop(queue, None)
        del self._queues[queue]
        self._nonempty.pop(queue, None)
        return queue

    def grant_credit(self, name: str, events: int) -> None:
        """Let more events of a subscription or group leave."""
        queue = self._groups.get(name) or self.by_subscription.get(name)
        if queue is not None and queue.credit is not None:
            queue.credit += events

    def offer(self, names: tuple[str, ...], event: Publish) -> None:
        """Send an event for some subscriptions, or queue it; durable ones read it from their queue on disk instead."""
        # Few sets of subscriptions match most events, so that the plan of each set is cached.
        plan = self._host.delivery_plans.get(names)
        if plan is None or plan.client is not self:
            plan = self._host.delivery_plans.put(names, self._plan(names))
        if self.send_direct is not None and self._bypass(plan, event, self.send_direct):
            return
        for queue, numbers in zip(plan.queues, plan.numbers, strict=True):
            self._put(queue, event, numbers)

    def _bypass(self, plan: DeliveryPlan, event: Publish, send_direct: SendDirect) -> bool:
        """Send an event at once, unless one of its subscriptions has to wait."""
        for queue in plan.queues:
            if queue.waiting or queue.credit == 0:
                return False
        if plan.encoded_numbers is None:
            return True  # all subscriptions have ended: nothing to send, and nothing to queue
        if not send_direct(plan.encoded_numbers, event):
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
        if len(self._queues) == 1:  # as of a client with one group, whose numbers are looked up together
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
        return DeliveryPlan(self, tuple(by_queue), numbers, encoded)

    def take(self, most: int) -> list[Delivered]:
        """Remove queued events that may leave now; a queue that has room again unblocks the publishers.

        One call takes a few megabytes, so that the events of a slow connection stay in bounded queues.
        """
        batch: list[Delivered] = []
        left_bytes = MAX_READ_BYTES
        self.is_cut = False
        for queue in list(self._nonempty):
            if left_bytes <= 0:
                self.is_cut = True
                break
            if isinstance(queue, DurableQueue):  # stays among them: only a read tells that it is empty
                if queue.may_have_more:
                    self.is_cut = True
                    numbered = queue.take(most - len(batch))
                    left_bytes -= sum([len(each.body) for _, each in numbered])
                    batch += [Delivered(queue.name, each, number=n) for n, each in numbered]
                continue
            before = queue.bytes
            batch += [Delivered(queue.name, *each) for each in queue.take(most - len(batch), left_bytes)]
            left_bytes -= before - queue.bytes
            if not queue.waiting:
                del self._nonempty[queue]
            elif queue.credit != 0:
                self.is_cut = True
            if queue.is_over and queue.has_room:
                queue.is_over = False
                self._host.unblock(queue)
        return batch

    def offer_stretch(self, stretch: Complete) -> None:
        """Send a complete stretch after the events that wait for its subscriptions."""
        by_queue: dict[DeliveryQueue, list[str]] = {}
        for name in stretch.names:
            queue = self.by_subscription.get(name)
            if isinstance(queue, DeliveryQueue):
                by_queue.setdefault(queue, []).append(name)
        for queue, names in by_queue.items():
            queue.put_stretch(replace(stretch, names=tuple(names)))

    def take_stretches(self) -> list[Complete]:
        """The complete stretches whose events have left."""
        return [each for queue in self._queues if isinstance(queue, DeliveryQueue) for each in queue.take_stretches()]

    def take_dropping(self) -> list[DeliveryQueue]:
        """The queues that have dropped events since the last call."""
        dropping, self._dropping = self._dropping, {}
        return list(dropping)
