"""Consumers of durable queues: the sessions that read the queue of a durable subscription on disk.

The events of a durable subscription wait in the store until they are acknowledged. An *exclusive consumer* is the only
one of its queue; the members of a *consumer group* share one (`consumer_groups`).

A second exclusive consumer is refused: two programs that take a queue from each other by turns each lose every event
that the other one gets. The exception is a client that lost its connection and is back before the broker has noticed.
It has the same instance id, which a client makes once and keeps over all its connections, and takes over from itself.
"""

from __future__ import annotations

import asyncio
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from palio.errors import DurableInUse, PalioError, Refused
from palio.network.protocol import Overflow
from palio.network.security.authorization import Principal, may_receive
from palio.network.store.interface import Acknowledged, ConsumerLost, DeliveriesFailed, is_end_of_queue
from palio.routing import codec
from palio.routing.client_messages import Answer, Divided, Moved, UnsubscribeClient
from palio.routing.messages import HomeBroker, Publish

if TYPE_CHECKING:
    from palio.network.server.batch_delivery import Groups, SharedBatch
    from palio.network.server.host import Host
    from palio.network.server.session import Session
    from palio.network.store.interface import Store

DURABLE_CLIENT_PREFIX: Final = "durable "  # of the client name of a durable subscription's owner
_REHOME_CHECK_SECONDS: Final = 0.1  # until a queue with rival homes is looked at again


def durable_client(principal: Principal, name: str) -> str:
    """The client name under which the broker knows the owner of a durable subscription."""
    return f"{DURABLE_CLIENT_PREFIX}{principal.name}/{name}"


def owner_of(client: str, name: str) -> str:
    """The principal of a durable subscription."""
    return client.removeprefix(DURABLE_CLIENT_PREFIX).removesuffix(f"/{name}")


class DurableEvent(NamedTuple):
    """An event of a durable queue: the number to acknowledge, and 1 + the number of its failed deliveries."""

    number: int
    event: Publish
    deliveries: int = 1


class DurableConsumer(ABC):
    """One session that reads a durable queue."""

    is_over = False
    overflow: Overflow = "block"

    def __init__(self, host: Host, store: Store, session: Session, name: str) -> None:
        self.name = name
        self.client = durable_client(session.principal, name)
        self.session = session
        self.since = time.time()
        self.credit: int | None = None
        self.taken = 0
        self.dropped = 0
        self._host = host
        # Looked up at every read: a store in memory makes the queue when its first event is queued.
        self._queue = partial(store.queue, self.client, name)

    @property
    def queued(self) -> int:
        return self._queue().size().events

    @property
    @abstractmethod
    def in_flight(self) -> int | None:
        """Number of delivered events that are not acknowledged; None where that is not counted."""

    @property
    @abstractmethod
    def may_have_more(self) -> bool:
        """Whether `take` may return events."""

    @abstractmethod
    def take(self, most: int) -> list[DurableEvent]:
        """The next events for this session; they stay in the queue until they are acknowledged."""

    @abstractmethod
    def ack(self, numbers: Iterable[int]) -> None:
        """Remove processed events from the queue."""

    @abstractmethod
    def reject(self, numbers: Iterable[int], requeue: bool, reason: str) -> None:
        """Give back events that could not be processed: to be delivered again, or to become dead letters."""

    def retain(self, may_stay: Callable[[Publish], bool]) -> None:  # noqa: B027
        """Nothing to do: `take` checks the grant of each event it reads."""

    @abstractmethod
    def close(self) -> None:
        """Detach; the queue on disk goes on collecting."""

    @property
    def _most_deliveries(self) -> int | None:
        settings = self._host.durable_settings(self.client, self.name)
        return None if settings is None else settings.max_deliveries

    def _to_deliver(self, events: list[tuple[int, Publish]]) -> list[DurableEvent]:
        """Events with the number of their deliveries, without those that the grant does not admit any more; the latter
        are acknowledged, since the grant may have shrunk meanwhile."""
        if not self.session.may_receive_all:
            principal = self.session.principal
            permitted = [each for each in events if may_receive(principal, codec.decode_event(each[1].body))]
            kept = {number for number, _ in permitted}
            if len(kept) < len(events):
                self.ack([number for number, _ in events if number not in kept])
            events = permitted
        failures = self._queue().failures([number for number, _ in events])
        return [DurableEvent(number, event, 1 + failures.get(number, 0)) for number, event in events]


class ExclusiveConsumer(DurableConsumer):
    """The only consumer of a durable queue, and its read position."""

    def __init__(self, host: Host, store: Store, session: Session, name: str, credit: int | None) -> None:
        super().__init__(host, store, session, name)
        self.credit = credit
        self._after = 0  # number of the last event that was read; the next session begins at 0 again
        self._acknowledged = 0  # the highest number
        self._returned: dict[int, None] = {}  # rejected, to be delivered again
        self._has_more = True
        before = host.clients.get(self.client)
        if isinstance(before, ExclusiveConsumer):
            before.close()
            before.session.end(f"the durable subscription {name!r} goes on in another connection of this client")
        host.clients[self.client] = self
        self._rehoming = Rehoming(host, self.client, name, lambda: self.queued, self._move)

    def is_of(self, session: Session) -> bool:
        """Whether a session is of the client that reads the queue, by its instance id."""
        return bool(session.instance) and self.session.instance == session.instance

    @property
    def in_flight(self) -> int | None:
        return None

    @property
    def may_have_more(self) -> bool:
        return (self._has_more or bool(self._returned)) and (self.credit is None or self.credit > 0)

    def take(self, most: int) -> list[DurableEvent]:
        count = most if self.credit is None else min(most, self.credit)
        if count <= 0:
            return []
        events = self._read_returned(count)
        if self._has_more and len(events) < count:
            missing = count - len(events)
            read = self._queue().read(self._after, missing)
            # Later events are announced by `on_queue_written`, in this thread too, so that none can come between the
            # read and this.
            self._has_more = not is_end_of_queue(read, missing)
            if read:
                self._after = read[-1][0]
            events += read
        if not events:
            return []
        if self.credit is not None:
            self.credit -= len(events)
        self.taken += len(events)
        return self._to_deliver(events)

    def _read_returned(self, count: int) -> list[tuple[int, Publish]]:
        events: list[tuple[int, Publish]] = []
        while self._returned and len(events) < count:
            number = next(iter(self._returned))
            del self._returned[number]
            # Another one where it is gone: dropped by a full queue, or acknowledged by its number.
            events += [each for each in self._queue().read(number - 1, 1) if each[0] == number]
        return events

    def ack(self, numbers: Iterable[int]) -> None:
        done = tuple(numbers)
        if done:
            self._acknowledged = max(self._acknowledged, min(max(done), self._after))
            self._host.acknowledge(Acknowledged(self.client, self.name, done))
        self._rehoming.check_soon_if_divided()

    def reject(self, numbers: Iterable[int], requeue: bool, reason: str) -> None:
        given_back = tuple(number for number in dict.fromkeys(numbers) if 0 < number <= self._after)
        if not given_back:
            return

        def on_written() -> None:
            if requeue and self._host.clients.get(self.client) is self:
                # Those that have become dead letters are not found when they are read.
                self._returned.update(dict.fromkeys(given_back))
                self.session.on_batch_end()

        most = self._most_deliveries if requeue else 1
        failed = DeliveriesFailed(self.client, self.name, given_back, rejection_reason(reason), most)
        self._host.fail_deliveries(failed, on_written)

    def skip_through(self, last: int) -> None:
        """Do not read events up to a number again: they are acknowledged."""
        self._after = max(self._after, last)
        self._acknowledged = max(self._acknowledged, last)

    def close(self) -> None:
        if self._host.clients.get(self.client) is self:
            del self._host.clients[self.client]
            # A broker that stops is no fault of its consumers.
            if self._after and not self._host.is_stopping and not self.session.acknowledges_later:
                most = self._most_deliveries
                lost = ConsumerLost(self.client, self.name, self._acknowledged, self._after, most)
                self._host.fail_deliveries(lost)
            self._host.on_consumer_gone(self.client, self.name)
        self._rehoming.close()

    def _move(self, homes: tuple[HomeBroker, ...]) -> None:
        self.session.move(self.name, homes)

    # Calls of the host

    def offer(self, names: tuple[str, ...], event: Publish) -> None:
        raise Refused("events of a durable subscription come by its queue")

    def offer_batch(self, groups: Groups, batch: SharedBatch) -> None:
        raise Refused("events of a durable subscription come by its queue")

    def withdraw(self, name: str, reason: PalioError) -> None:
        self.session.withdraw(name, reason)

    def on_queue_written(self) -> None:
        self._has_more = True

    def answer(self, answer: Answer) -> None:
        if isinstance(answer, Divided):
            self._rehoming.check_soon()
        elif isinstance(answer, Moved):
            self._rehoming.refer((answer.home,))
        else:
            self.session.answer(answer)

    def on_batch_end(self) -> None:
        self.session.on_batch_end()


def rejection_reason(reason: str) -> str:
    """The reason of a dead letter that a consumer has rejected."""
    return f"rejected: {reason}" if reason else "rejected by its consumer"


def check_exclusive(host: Host, session: Session, name: str) -> None:
    """`DurableInUse` where a session may not become the exclusive consumer of a durable subscription."""
    before = host.clients.get(durable_client(session.principal, name))
    if before is None:
        return
    if isinstance(before, ExclusiveConsumer):
        if before.is_of(session):
            return
        raise DurableInUse(name, describe_consumer(before), f"several share it as a group: --group {name}")
    members = getattr(before, "members", ())
    consumer = describe_consumer(next(iter(members))) if members else "a consumer group"
    raise DurableInUse(name, consumer, f"it is a consumer group; join it: --group {name}")


def describe_consumer(consumer: DurableConsumer) -> str:
    """Principal and address of a consumer, and since when it reads."""
    since = datetime.fromtimestamp(consumer.since, UTC)
    session = consumer.session
    address = session.peer or session.app or "an unknown address"
    return f"{session.principal.name} at {address}, since {since:%Y-%m-%d %H:%M:%S}Z"


class Rehoming:
    """Move of consumers to another home of their durable subscription.

    After a network split, two brokers may hold the same subscription. The one with the highest number is emptied first
    and then gives the subscription up; its consumers are referred to the others.
    """

    def __init__(
        self,
        host: Host,
        client: str,
        name: str,
        queued: Callable[[], int],
        move: Callable[[tuple[HomeBroker, ...]], None],
    ) -> None:
        self._host = host
        self._client = client
        self._name = name
        self._queued = queued
        self._move = move
        self._timer: asyncio.TimerHandle | None = None
        self._left_to: tuple[HomeBroker, ...] = ()
        self._is_closed = False
        self.check_soon_if_divided()

    def check_soon_if_divided(self) -> None:
        if self._rivals:
            self.check_soon()

    def check_soon(self) -> None:
        if self._timer is None and not self._is_closed:
            self._timer = asyncio.get_running_loop().call_later(_REHOME_CHECK_SECONDS, self._check)

    def refer(self, homes: tuple[HomeBroker, ...]) -> None:
        """Refer the consumers to another home at once: the subscription has ended here."""
        if not self._is_closed:
            self._move(homes)

    def close(self) -> None:
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()

    @property
    def _rivals(self) -> tuple[HomeBroker, ...]:
        return self._host.rival_homes(self._client, self._name)

    def _check(self) -> None:
        self._timer = None
        rivals = self._left_to or self._rivals
        if not rivals or self._is_closed:
            return
        is_given_up = not self._host.is_durable(self._client, self._name)
        if rivals[0].broker > self._host.broker_id or is_given_up:
            self._move(rivals)
        elif self._queued() == 0 and not self._left_to:
            self._left_to = rivals
            self._host.request(self._client, UnsubscribeClient(self._name))
        if self._left_to:
            # Referred only once the subscription is gone here: a client that came back sooner would be let in again.
            self.check_soon()
