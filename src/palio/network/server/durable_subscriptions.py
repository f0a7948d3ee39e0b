"""Durable subscriptions: their queues on disk, the claim on their home broker, and their owners' grants.

A durable subscription belongs to a principal and a name, not to a connection. Its events wait in the store until they
are acknowledged; a session that subscribes under both continues with everything that was not. It takes the subscription
over from an earlier session, which may be a dead connection that nothing has detected yet.

Each durable subscription has one home broker. Where it is new here, all brokers are asked first (`routing.claims`): one
that holds it gets the client referred to it. A broker that cannot be reached may hold it too; the question is repeated
for a bounded time, because links come up soon after a start, and then fails with the brokers it waited for.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Final, NamedTuple

from palio.errors import HomeAway, LimitReached, LivesElsewhere, PalioError, Refused, UnknownSubscription
from palio.filters.filter import Filter
from palio.network.protocol import Overflow
from palio.network.security.authorization import Principal, may_receive
from palio.network.server.pending_requests import OnAnswer, answer_future
from palio.network.store.interface import Acknowledged, Size
from palio.routing import codec
from palio.routing.messages import (
    Answer,
    ClaimClient,
    Claimed,
    ClientRequest,
    Confirm,
    Divided,
    HomeBroker,
    Publish,
    SubscribeClient,
    UnsubscribeClient,
)

if TYPE_CHECKING:
    from palio.network.links.neighbours import StartupBarrier
    from palio.network.security.quotas import Quotas
    from palio.network.server.host import Host
    from palio.network.server.session import Session
    from palio.network.store.interface import Store

_MAX_READ_EVENTS: Final = 1_024
_DURABLE_CLIENT_PREFIX: Final = "durable "
_REHOME_CHECK_SECONDS: Final = 0.1  # until a queue with rival homes is looked at again
_CLAIM_RETRY_SECONDS: Final = 0.2


def durable_client(principal: Principal, name: str) -> str:
    """The client name under which the broker knows the owner of a durable subscription."""
    return f"{_DURABLE_CLIENT_PREFIX}{principal.name}/{name}"


class DurableStatus(NamedTuple):
    """A durable subscription whose home is this broker."""

    principal: str
    name: str
    is_connected: bool
    waiting: Size
    since: float | None  # when the oldest waiting event was queued


def durable_statuses(host: Host, store: Store) -> Iterator[DurableStatus]:
    """All durable subscriptions of this broker, with or without a connected client."""
    for client, name, _ in host.subscriptions_of_clients(_DURABLE_CLIENT_PREFIX):
        queue = store.queue(client, name)
        principal = client.removeprefix(_DURABLE_CLIENT_PREFIX).removesuffix(f"/{name}")
        yield DurableStatus(principal, name, client in host.clients, queue.size(), queue.oldest())


def check_subscription_quota(host: Host, principal: Principal, quotas: Quotas, name: str, durable: bool) -> None:
    """`LimitReached` where a principal may have no further subscription; durable ones without a client count too.

    Those are counted only when all durable subscriptions together could exceed the quota.
    """
    quota = quotas.subscriptions
    most = quota.most_each
    if quota.used_by(principal.name) + host.durable_count < most:
        return
    owned = (each for client, each in host.durable_keys() if client == durable_client(principal, each))
    away = {each for each in owned if durable_client(principal, each) not in host.clients}
    if durable:
        away.discard(name)
    if quota.used_by(principal.name) + len(away) >= most:
        reason = f"{principal.name} has enough subscriptions"
        reason += f", {len(away):,} of them durable and away" if away else ""
        raise LimitReached("subscriptions_per_principal", most, reason)


def end_durable(host: Host, principal: Principal, name: str) -> None:
    """End a durable subscription; `UnknownSubscription` where this broker holds none of that name."""
    _check_known(host, principal, name)
    forget_durable(host, principal, name)


def _check_known(host: Host, principal: Principal, name: str) -> None:
    if not host.is_durable(durable_client(principal, name), name):
        raise UnknownSubscription(name)


def forget_durable(host: Host, principal: Principal, name: str) -> None:
    """End a durable subscription if there is one, with all events that wait for it."""
    host.request(durable_client(principal, name), UnsubscribeClient(name))


def acknowledge_through(host: Host, store: Store, principal: Principal, name: str, last: int) -> None:
    """Acknowledge all events of a durable subscription up to a number."""
    _check_known(host, principal, name)
    client = durable_client(principal, name)
    queue, after = store.queue(client, name), 0
    while done := tuple(number for number, _ in queue.read(after, _MAX_READ_EVENTS) if number <= last):
        host.acknowledge(Acknowledged(client, name, done))
        after = done[-1]
    end = host.clients.get(client)
    if isinstance(end, DurableQueue):
        end.skip_through(last)


def revise_durable(host: Host, name: str, principal: Principal | None) -> None:
    """Apply the changed grants of a principal, or its removal, to its durable subscriptions.

    The filter can only shrink here: it is what the last grant left of the request. A grant that grew takes effect when
    the client subscribes again.
    """
    for client, subscription, before in list(host.subscriptions_of_clients(f"{_DURABLE_CLIENT_PREFIX}{name}/")):
        granted = Filter.nothing if principal is None else before & principal.may_subscribe
        if granted == Filter.nothing:
            host.request(client, UnsubscribeClient(subscription))
        elif granted != before:
            host.request(client, SubscribeClient(subscription, granted, "no", True))


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
        self._queue = partial(store.queue, self.client, name)
        self._session = session
        self._after = 0  # number of the last event that was read
        self._has_more = True
        self._rehome_timer: asyncio.TimerHandle | None = None
        self._left_to: tuple[HomeBroker, ...] = ()
        before = host.clients.get(self.client)
        if isinstance(before, DurableQueue):
            before.close()
            before._session.end(f"somebody else took the durable subscription {name!r}")
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
        found = self._queue().read(self._after, count)
        self._has_more = len(found) == count
        if not found:
            return []
        self._after = found[-1][0]
        if self.credit is not None:
            self.credit -= len(found)
        self.taken += len(found)
        return self._permitted(found)

    def _permitted(self, found: list[tuple[int, Publish]]) -> list[tuple[int, Publish]]:
        """The events that the grant admits now; the others are acknowledged, since it may have shrunk meanwhile."""
        if self._session.may_receive_all:
            return found
        principal = self._session.principal
        permitted = [(number, each) for number, each in found if may_receive(principal, codec.decode_event(each.body))]
        kept = {number for number, _ in permitted}
        self.ack(number for number, _ in found if number not in kept)
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
            forget_durable(self._host, self._session.principal, self.name)
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


def request_durable(
    session: Session,
    name: str,
    wanted: Filter,
    on_answer: OnAnswer,
    *,
    confirm: Confirm = "edge",
    credit: int | None = None,
) -> None:
    """Subscribe durably once the claim is granted; `LivesElsewhere` where another broker is the home."""

    def on_claimed(error: PalioError | None) -> None:
        try:
            if error is not None:
                raise error
            session.request_subscription(name, wanted, on_answer, durable=True, confirm=confirm, credit=credit)
        except PalioError as reason:
            on_answer(reason)

    session.durable_claims.claim(durable_client(session.principal, name), name, on_claimed)


async def subscribe_durable(session: Session, name: str, wanted: Filter) -> None:
    """Subscribe durably, and wait for the confirmation."""
    done, on_answer = answer_future()
    request_durable(session, name, wanted, on_answer)
    await done


async def check_home(session: Session, name: str) -> None:
    """`LivesElsewhere` where another broker is the home of a durable subscription of this client."""
    done, on_answer = answer_future()
    session.durable_claims.claim(durable_client(session.principal, name), name, on_answer)
    await done


def addresses(homes: Iterable[HomeBroker]) -> tuple[tuple[int, str], ...]:
    """Number and public address of home brokers."""
    return tuple((each.broker, each.address) for each in homes)


class _PendingClaim(NamedTuple):
    owner: str
    name: str
    deadline: float
    on_answer: OnAnswer


class DurableClaims:
    """Claims of one client on durable subscriptions that this broker does not hold yet."""

    def __init__(
        self,
        host: Host,
        request: Callable[[ClientRequest], None],
        patience: float,
        startup_barrier: StartupBarrier,
        most: int,
    ) -> None:
        """`patience` is how many seconds unreachable brokers are waited for, `most` how many claims may be pending."""
        self._host = host
        self._request = request
        self._patience = patience
        self._startup_barrier = startup_barrier
        self._most = most
        self._loop = asyncio.get_running_loop()
        self._last_number = 0
        self._pending: dict[int, _PendingClaim] = {}
        self._retries: dict[int, asyncio.TimerHandle] = {}

    def claim(self, owner: str, name: str, on_answer: OnAnswer) -> None:
        """Ask whether this broker may be the home; `on_answer` gets None, or the reason why not."""
        if self._host.is_durable(owner, name):
            rivals = self._host.rival_homes(owner, name)
            higher = [each for each in rivals if each.broker > self._host.broker_id]
            on_answer(LivesElsewhere(name, addresses(higher)) if higher else None)
            return
        if len(self._pending) >= self._most:
            raise LimitReached("subscriptions_per_principal", self._most, "so many may be asked for at a time")
        self._last_number += 1
        self._pending[self._last_number] = _PendingClaim(owner, name, self._loop.time() + self._patience, on_answer)
        self._startup_barrier.run_after(partial(self._ask_brokers, self._last_number))

    def cancel(self, name: str) -> bool:
        """Drop the pending claims on a subscription; whether there were any."""
        numbers = [number for number, pending in self._pending.items() if pending.name == name]
        for number in numbers:
            self._forget(number)
        return bool(numbers)

    def answer(self, claimed: Claimed) -> None:
        """Take the answer of all brokers that could be asked."""
        pending = self._pending.get(claimed.number)
        if pending is None:
            return
        if claimed.away and self._loop.time() < pending.deadline:
            retry = self._loop.call_later(_CLAIM_RETRY_SECONDS, self._ask_brokers, claimed.number)
            self._retries[claimed.number] = retry
            return
        self._forget(claimed.number)
        if claimed.elsewhere:
            pending.on_answer(LivesElsewhere(pending.name, addresses(claimed.elsewhere)))
        else:
            pending.on_answer(HomeAway(pending.name, claimed.away) if claimed.away else None)

    def close(self, error: PalioError) -> None:
        """Answer all pending claims with an error."""
        pending = list(self._pending.values())
        for number in list(self._pending):
            self._forget(number)
        for each in pending:
            each.on_answer(error)

    def _ask_brokers(self, number: int) -> None:
        self._retries.pop(number, None)
        pending = self._pending.get(number)
        if pending is not None:
            self._request(ClaimClient(pending.owner, pending.name, number))

    def _forget(self, number: int) -> None:
        del self._pending[number]
        timer = self._retries.pop(number, None)
        if timer is not None:
            timer.cancel()
