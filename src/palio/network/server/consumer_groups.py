"""Consumer groups: one durable queue that several sessions read, each event by one of them.

A group is a way to read a durable subscription, and not another kind of one: the queue, its home, its grants and its
settings are those of the durable subscription of that name, and survive the members and the broker. Condition and key
are those of the present members, which must agree; when all have left, the next one may bring others.

`GroupDispatch` decides who gets what. This module connects it with the store and with the sessions: it reads the queue
for the members that have room, sends what they are given, counts failed deliveries before an event is delivered again,
and takes back what is not acknowledged in time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Hashable, Iterable
from typing import TYPE_CHECKING, Final

from palio.errors import DurableInUse, PalioError, Refused
from palio.filters.filter import Filter
from palio.network.server.durable_consumers import (
    DurableConsumer,
    DurableEvent,
    ExclusiveConsumer,
    Rehoming,
    describe_consumer,
    durable_client,
    rejection_reason,
)
from palio.network.server.group_dispatch import GroupDispatch
from palio.network.store.interface import CONSUMER_GONE, Acknowledged, DeliveriesFailed, is_end_of_queue
from palio.routing import codec
from palio.routing.client_messages import Answer, Confirm, Confirmed, Divided, Moved
from palio.routing.client_messages import Refused as RequestRefused
from palio.routing.messages import HomeBroker, Publish

if TYPE_CHECKING:
    from palio.network.server.batch_delivery import Groups, SharedBatch
    from palio.network.server.host import Host
    from palio.network.server.session import Session
    from palio.network.store.interface import Queue, Store

MAX_WINDOW_EVENTS: Final = 1_024  # that a member holds unacknowledged
_MAX_READ_EVENTS: Final = 64  # at a time
_MAX_BODY_BYTES: Final = 8 * 2**20  # of events that are read and not sent; beyond it they are read again


class GroupMember(DurableConsumer):
    """One session that is a member of a consumer group."""

    def __init__(
        self, host: Host, store: Store, session: Session, name: str, group: ConsumerGroup, window: int, confirm: Confirm
    ) -> None:
        super().__init__(host, store, session, name)
        self.group = group
        self.window = max(1, min(window, MAX_WINDOW_EVENTS))
        self.confirm = confirm
        self.assigned: deque[int] = deque()  # and not sent yet
        self.last_acknowledged = 0

    @property
    def in_flight(self) -> int | None:
        return len(self.group.held_by(self))

    @property
    def may_have_more(self) -> bool:
        return bool(self.assigned)

    def take(self, most: int) -> list[DurableEvent]:
        events: list[tuple[int, Publish]] = []
        while self.assigned and len(events) < most:
            number = self.assigned.popleft()
            event = self.group.event(number)
            if event is None:  # dropped by a full queue, or a dead letter since its last delivery
                self.group.forget(self, number)
            else:
                events.append((number, event))
        self.taken += len(events)
        return self._to_deliver(events) if events else []

    def ack(self, numbers: Iterable[int]) -> None:
        self.group.acknowledge(self, numbers)

    def reject(self, numbers: Iterable[int], requeue: bool, reason: str) -> None:
        self.group.reject(self, numbers, requeue, rejection_reason(reason))

    def close(self) -> None:
        self.group.leave(self)


class ConsumerGroup:
    """The present members of one group, and their one position in the queue."""

    def __init__(self, host: Host, store: Store, client: str, name: str, wanted: Filter, key: str) -> None:
        """`key` is an attribute; events that share a value of it are processed in order. Without one it is empty."""
        self.name = name
        self.wanted = wanted
        self.key = key
        self._client = client
        self._host = host
        self._store = store
        self._loop = asyncio.get_running_loop()
        self._dispatch = GroupDispatch[GroupMember]()
        self._bodies: dict[int, Publish] = {}  # of events that were read and not sent
        self._body_bytes = 0
        self._longest_body = 1  # of those that were read
        self._after = 0  # number of the last event that was read
        self._has_more = True
        self._is_scheduled = False
        self._overdue_timer: asyncio.TimerHandle | None = None
        self._unconfirmed: list[GroupMember] = []  # in the order of their requests
        host.clients[client] = self
        self._rehoming = Rehoming(host, client, name, lambda: self._queue.size().events, self._move)

    @property
    def members(self) -> list[GroupMember]:
        return list(self._dispatch.members)

    def held_by(self, member: GroupMember) -> list[int]:
        return self._dispatch.held(member)

    def join(self, member: GroupMember, ack_seconds: float) -> None:
        self._dispatch.join(member, member.window, ack_seconds)
        self._schedule()

    def await_confirmation(self, member: GroupMember) -> None:
        """A request for this member is under way, and its answer comes to the group."""
        self._unconfirmed.append(member)

    def leave(self, member: GroupMember) -> None:
        """Remove a member, and give the events that it held to the others."""
        if member not in self._dispatch.members:
            return
        held = self._dispatch.leave(member)
        unsent = set(member.assigned)
        member.assigned.clear()
        if member in self._unconfirmed:
            self._unconfirmed.remove(member)
        # Of the events that were sent, it failed on those that it passed over and on the next one; the others were
        # sent ahead, and it may not have looked at them.
        sent = [number for number in held if number not in unsent]
        passed = [number for number in sent if number < member.last_acknowledged]
        failed = sent[: len(passed) + 1]
        is_last = not self._dispatch.members
        if is_last:
            self._close()
        if not self._host.is_stopping:  # a broker that stops is no fault of its consumers
            self._fail(failed, CONSUMER_GONE, requeue=True)
        if is_last:
            self._host.on_consumer_gone(self._client, self.name)
        else:
            self._give_back(number for number in held if number not in set(failed))

    def _close(self) -> None:
        self._rehoming.close()
        if self._overdue_timer is not None:
            self._overdue_timer.cancel()
        if self._host.clients.get(self._client) is self:
            del self._host.clients[self._client]

    # Events

    def event(self, number: int) -> Publish | None:
        """An event of the queue; None where it is there no more."""
        event = self._bodies.pop(number, None)
        if event is not None:
            self._body_bytes -= len(event.body)
            return event
        found = self._queue.read(number - 1, 1)
        return found[0][1] if found and found[0][0] == number else None

    def forget(self, member: GroupMember, number: int) -> None:
        """An assigned event is gone from the queue."""
        for each in self._dispatch.release(member, (number,)):
            self._dispatch.finish(each)
        self._schedule()

    def acknowledge(self, member: GroupMember, numbers: Iterable[int]) -> None:
        """Remove events that a member holds and has processed; others it has no say in."""
        done = self._dispatch.release(member, numbers)
        for number in done:
            self._dispatch.finish(number)
        if done:
            member.last_acknowledged = max(member.last_acknowledged, *done)
            self._host.acknowledge(Acknowledged(self._client, self.name, tuple(done)))
        self._rehoming.check_soon_if_divided()
        self._schedule()

    def acknowledge_for_holders(self, numbers: Iterable[int]) -> None:
        """Acknowledge events of any member: for requests that belong to no session."""
        named = set(numbers)
        for member in self.members:
            mine = named.intersection(self._dispatch.held(member))
            if mine:
                self.acknowledge(member, sorted(mine))

    def reject(self, member: GroupMember, numbers: Iterable[int], requeue: bool, reason: str) -> None:
        self._fail(self._dispatch.release(member, numbers), reason, requeue)
        self._schedule()

    def _fail(self, numbers: list[int], reason: str, requeue: bool) -> None:
        """Count failed deliveries. The events are given out again once that is on disk: it may make dead letters of
        them, and the next member is told how many deliveries there were."""
        if not numbers:
            return

        def on_written() -> None:
            if requeue:
                self._give_back(numbers)
            else:
                for number in numbers:
                    self._dispatch.finish(number)
                self._schedule()

        most = self._most_deliveries if requeue else 1
        self._host.fail_deliveries(DeliveriesFailed(self._client, self.name, tuple(numbers), reason, most), on_written)

    def _give_back(self, numbers: Iterable[int]) -> None:
        for number in numbers:
            self._dispatch.give_back(number)
        self._schedule()

    # Dispatch

    def _schedule(self) -> None:
        """Dispatch in the next turn of the loop, once for all that happens in this one."""
        # Members leave one after the other when the broker stops. Each may still process what it has: given to those
        # that remain, it would be processed twice, and out of the order of its key.
        if not self._is_scheduled and self._dispatch.members and not self._host.is_stopping:
            self._is_scheduled = True
            self._loop.call_soon(self._run)

    def _run(self) -> None:
        self._is_scheduled = False
        self._take_overdue()
        given: dict[GroupMember, None] = {}
        self._read()
        for member, number in self._dispatch.assign(self._loop.time()):
            member.assigned.append(number)
            given[member] = None
        for member in given:
            member.session.on_batch_end()
        self._set_overdue_timer()
        if self._has_more and self._dispatch.demand(bool(self.key)) > 0:
            self._schedule()  # the rest in another turn: others use the loop too

    def _read(self) -> None:
        """Read events that members have room for, and with a key those behind them, up to a number of bytes."""
        read_bytes = 0
        while self._has_more and read_bytes < _MAX_BODY_BYTES:
            # A page of the largest events must not fill the memory either.
            most = max(1, min(_MAX_READ_EVENTS, _MAX_BODY_BYTES // self._longest_body))
            count = min(self._dispatch.demand(bool(self.key)), most)
            if count <= 0:
                return
            events = self._queue.read(self._after, count)
            self._has_more = not is_end_of_queue(events, count)
            for number, event in events:
                length = len(event.body)
                read_bytes += length
                self._longest_body = max(self._longest_body, length)
                self._after = number
                self._dispatch.add(number, self._key_of(event))
                if self._body_bytes + length <= _MAX_BODY_BYTES:
                    self._bodies[number] = event
                    self._body_bytes += length

    def _key_of(self, event: Publish) -> Hashable | None:
        """The value of the key; None where the event has none, and so no order."""
        if not self.key:
            return None
        return codec.decode_event(event.body).attributes.get(self.key)

    def _take_overdue(self) -> None:
        for member, numbers in self._dispatch.overdue(self._loop.time()):
            unsent = set(member.assigned)
            member.assigned = deque(number for number in member.assigned if number not in set(numbers))
            # An event that the connection did not take is no failure of the event.
            self._give_back(number for number in numbers if number in unsent)
            self._fail([number for number in numbers if number not in unsent], "not acknowledged in time", requeue=True)

    def _set_overdue_timer(self) -> None:
        if self._overdue_timer is not None:
            self._overdue_timer.cancel()
        deadline = self._dispatch.next_deadline()
        self._overdue_timer = None if deadline is None else self._loop.call_at(deadline, self._schedule)

    @property
    def _queue(self) -> Queue:
        return self._store.queue(self._client, self.name)

    @property
    def _most_deliveries(self) -> int | None:
        settings = self._host.durable_settings(self._client, self.name)
        return None if settings is None else settings.max_deliveries

    def _move(self, homes: tuple[HomeBroker, ...]) -> None:
        for member in self.members:
            member.session.move(self.name, homes)

    # Calls of the host

    def offer(self, names: tuple[str, ...], event: Publish) -> None:
        raise Refused("events of a durable subscription come by its queue")

    def offer_batch(self, groups: Groups, batch: SharedBatch) -> None:
        raise Refused("events of a durable subscription come by its queue")

    def withdraw(self, name: str, reason: PalioError) -> None:
        for member in self.members:
            member.session.withdraw(name, reason)

    def on_queue_written(self) -> None:
        self._has_more = True

    def on_batch_end(self) -> None:
        self._schedule()

    def answer(self, answer: Answer) -> None:
        """Hand an answer to the member whose request it answers.

        Answers name the subscription, not the member. Those at the level `edge` come in the order of the requests, and
        before those of the whole network.
        """
        if isinstance(answer, Divided):
            self._rehoming.check_soon()
        elif isinstance(answer, Moved):
            self._rehoming.refer((answer.home,))
        elif isinstance(answer, Confirmed | RequestRefused) and self._unconfirmed:
            edge = (each for each in self._unconfirmed if each.confirm != "network")
            member = next(edge, self._unconfirmed[0])
            self._unconfirmed.remove(member)
            member.session.answer(answer)


def group_to_join(host: Host, store: Store, session: Session, name: str, wanted: Filter, key: str) -> ConsumerGroup:
    """The group of a name, which is made where it has no members; an error where its members do not agree with this
    condition and key."""
    client = durable_client(session.principal, name)
    present = host.clients.get(client)
    if isinstance(present, ExclusiveConsumer):
        remedy = "it is read by one consumer alone until that one names the group too"
        raise DurableInUse(name, describe_consumer(present), remedy)
    if not isinstance(present, ConsumerGroup):
        return ConsumerGroup(host, store, client, name, wanted, key)
    for what, theirs, this in (
        ("condition", str(present.wanted), str(wanted)),
        ("key", present.key or "no key", key or "no key"),
    ):
        if theirs != this:
            raise Refused(
                f"the members of the group {name!r} agree on the {what}: theirs is {theirs:.200}, not {this:.200}; "
                "it can be changed when all members have left"
            )
    return present


def consumers_of(host: Host, client: str) -> list[DurableConsumer]:
    """The sessions that read a durable subscription now."""
    present = host.clients.get(client)
    if isinstance(present, ConsumerGroup):
        return list(present.members)
    return [present] if isinstance(present, ExclusiveConsumer) else []
