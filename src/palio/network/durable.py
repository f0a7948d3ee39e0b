"""Where do the events of a durable subscription wait? In the store, until they are acknowledged.

The subscription belongs to a principal and a name, not to a connection: whoever comes with both goes on where the last
one stopped, with everything that was not acknowledged. Who comes later takes it from who was there before, because that
one may be a connection that nobody has noticed to be dead.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Final, NamedTuple

from palio.errors import LimitReached, Refused, UnknownSubscription
from palio.filters.filter import Filter
from palio.network.protocol import Overflow
from palio.network.security.grants import may_hear
from palio.network.security.principals import Principal
from palio.network.store.interface import Acknowledged, Size
from palio.routing import codec
from palio.routing.clients import Answer, Divided, SubscribeClient, UnsubscribeClient
from palio.routing.effects import Requested
from palio.routing.messages import Lives, Publish

if TYPE_CHECKING:
    from palio.network.host import Host
    from palio.network.security.shares import Shares
    from palio.network.sessions import Session
    from palio.network.store.interface import Store


_AT_ONCE: Final = 1_024
_OWNER: Final = "durable "
_WHILE: Final = 0.1  # seconds until somebody looks whether a home with rivals is empty


def durable_client(principal: Principal, name: str) -> str:
    """Under which name the broker knows the owner of a durable subscription."""
    return f"{_OWNER}{principal.name}/{name}"


class Durable(NamedTuple):
    """A durable subscription that lives here, whether its client is connected or not."""

    principal: str
    name: str
    is_connected: bool
    waiting: Size
    since: float | None  # the first that waits does so since then


def durables(host: Host, store: Store) -> Iterator[Durable]:
    """All that live here."""
    wants = host.node.broker.tables.wants
    for client in sorted(each for each in wants.clients() if each.startswith(_OWNER)):
        for name in wants.names(client):
            queue = store.queue(client, name)
            principal = client.removeprefix(_OWNER).removesuffix(f"/{name}")
            yield Durable(principal, name, client in host.clients, queue.size(), queue.oldest())


def check_places(host: Host, principal: Principal, shares: Shares, name: str, durable: bool) -> None:
    """`LimitReached` where a principal has no place for one more subscription beside the durable ones that live here
    and whose clients are away. They are counted only where all durable ones together could be too many."""
    places, queues = shares.subscriptions, host.node.broker.keeping.queues
    most = places.most_each
    if places.of(principal.name) + len(queues) < most:
        return
    away = {each for client, each in queues if client == durable_client(principal, each) and client not in host.clients}
    if durable:
        away.discard(name)
    if places.of(principal.name) + len(away) >= most:
        reason = f"{principal.name} has enough subscriptions"
        reason += f", {len(away):,} of them durable and away" if away else ""
        raise LimitReached("subscriptions_per_principal", most, reason)


def end_durable(host: Host, principal: Principal, name: str) -> None:
    """The same as `forget_durable`, for somebody who may be wrong: `UnknownSubscription` where there is none."""
    _check_known(host, principal, name)
    forget_durable(host, principal, name)


def _check_known(host: Host, principal: Principal, name: str) -> None:
    if not host.node.broker.keeping.queues.is_durable(durable_client(principal, name), name):
        raise UnknownSubscription(name)


def forget_durable(host: Host, principal: Principal, name: str) -> None:
    """End a durable subscription, whether anybody is connected to it or not; what waits for it goes with it."""
    host.give(Requested(durable_client(principal, name), UnsubscribeClient(name), host.now()))


def acknowledge_through(host: Host, store: Store, principal: Principal, name: str, last: int) -> None:
    """All events of a durable subscription up to a number are dealt with, for who knows the last one alone."""
    _check_known(host, principal, name)
    client = durable_client(principal, name)
    queue, after = store.queue(client, name), 0
    while done := tuple(number for number, _ in queue.read(after, _AT_ONCE) if number <= last):
        host.acknowledge(Acknowledged(client, name, done))
        after = done[-1]
    outlet = host.clients.get(client)
    if isinstance(outlet, DurableOutlet):
        outlet.pass_over(last)


def revise_durable(host: Host, name: str, principal: Principal | None) -> None:
    """The grants of a principal changed, or it is gone: what collects for it while it is away follows.

    Here a grant can only shrink what was asked for; where it grew, the next one to connect asks for more.
    """
    wants = host.node.broker.tables.wants
    for client in [each for each in wants.clients() if each.startswith(f"{_OWNER}{name}/")]:
        for subscription in wants.names(client):
            owned = wants.get(client, subscription)
            if owned is None:
                continue
            granted = Filter.nothing if principal is None else owned.filter & principal.may_subscribe
            if granted == Filter.nothing:
                host.give(Requested(client, UnsubscribeClient(subscription), host.now()))
            elif granted != owned.filter:
                host.give(Requested(client, SubscribeClient(subscription, granted, "no", True), host.now()))


class DurableOutlet:
    """The events of one durable subscription, for the session that has it now."""

    def __init__(self, host: Host, store: Store, session: Session, name: str, credit: int | None) -> None:
        self.name = name
        self.credit = credit
        self.client = durable_client(session.principal, name)
        self.taken = 0
        self.dropped = 0
        self.is_over = False
        self.overflow: Overflow = "block"
        self._host = host
        self._store = store
        self._session = session
        self._after = 0
        self._has_more = True
        self._looking: asyncio.TimerHandle | None = None
        self._left_to: tuple[Lives, ...] = ()
        before = host.clients.get(self.client)
        if isinstance(before, DurableOutlet):
            before.leave()
            before._session.end(f"somebody else took the durable subscription {name!r}")
        host.clients[self.client] = self
        if self._rivals:
            self._look()

    @property
    def queued(self) -> int:
        return self._store.queue(self.client, self.name).size().events

    @property
    def is_waiting(self) -> bool:
        """Whether there may be something to take."""
        return self._has_more and (self.credit is None or self.credit > 0)

    def take(self, most: int) -> list[tuple[int, Publish]]:
        """What may leave now, with the numbers to acknowledge."""
        count = most if self.credit is None else min(most, self.credit)
        if count <= 0 or not self._has_more:
            return []
        found = self._store.queue(self.client, self.name).read(self._after, count)
        self._has_more = len(found) == count
        if not found:
            return []
        self._after = found[-1][0]
        if self.credit is not None:
            self.credit -= len(found)
        self.taken += len(found)
        return self._permitted(found)

    def _permitted(self, found: list[tuple[int, Publish]]) -> list[tuple[int, Publish]]:
        """Those that may be heard now; a grant may have shrunk since they were queued, and the others are let go."""
        if self._session.may_hear_all:
            return found
        principal = self._session.principal
        heard = [(number, each) for number, each in found if may_hear(principal, codec.decode_event(each.body))]
        kept = {number for number, _ in heard}
        self.ack(number for number, _ in found if number not in kept)
        return heard

    def ack(self, numbers: Iterable[int]) -> None:
        """These are dealt with."""
        done = tuple(numbers)
        if done:
            self._host.acknowledge(Acknowledged(self.client, self.name, done))
        if self._rivals:
            self._look()

    def pass_over(self, last: int) -> None:
        """What has a number up to this is dealt with, and not read again."""
        self._after = max(self._after, last)

    def keep(self, may_stay: Callable[[Publish], bool]) -> None:
        """What waits is asked about when it is read."""

    @property
    def _rivals(self) -> tuple[Lives, ...]:
        """Other homes of this subscription."""
        return self._host.node.broker.claims.rivals(self.client, self.name)

    def _look(self) -> None:
        """In a while, see whether this home is to be left for another one."""
        if self._looking is None:
            self._looking = asyncio.get_running_loop().call_later(_WHILE, self._move)

    def _move(self) -> None:
        """Of several homes the one with the highest number is emptied first, and then forgets the subscription."""
        self._looking = None
        broker, rivals = self._host.node.broker, self._left_to or self._rivals
        if not rivals or self._host.clients.get(self.client) is not self:
            return
        if rivals[0].broker > broker.node or not broker.keeping.queues.is_durable(self.client, self.name):
            self._session.move(self.name, rivals)
        elif self.queued == 0 and not self._left_to:
            self._left_to = rivals
            forget_durable(self._host, self._session.principal, self.name)
        if self._left_to:
            self._look()  # until it is forgotten: a client that comes back sooner would be let in again

    def leave(self) -> None:
        """Go on collecting for whoever comes next."""
        if self._host.clients.get(self.client) is self:
            del self._host.clients[self.client]
        if self._looking is not None:
            self._looking.cancel()

    # What the host tells

    def offer(self, names: tuple[str, ...], event: Publish) -> None:
        raise Refused("events of a durable subscription come by its queue")

    def queued_more(self) -> None:
        """Something was written to the queue."""
        self._has_more = True

    def answer(self, answer: Answer) -> None:
        if isinstance(answer, Divided):
            self._look()
        else:
            self._session.answer(answer)

    def settle(self) -> None:
        self._session.settle()
