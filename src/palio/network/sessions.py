"""One client as the server sees it, whatever it speaks: who it is, what it asked for, and what waits for it.

This is the seam between the broker and everything that speaks to people: the binary protocol, WebSocket, SSE and push
all use it. A request is answered by a call (`Answered`) in a later turn of the loop; the `async` twins wait for that.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable, Sequence
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING, NamedTuple

from msgspec.structs import replace

from palio.errors import LimitReached, LivesElsewhere, NotPermitted, PalioError, Refused
from palio.filters.filter import Filter
from palio.network.asking import Asking
from palio.network.durable import DurableOutlet, check_places
from palio.network.handing import Delivered, Handing
from palio.network.homes import Claiming, addresses
from palio.network.outlets import Outlet
from palio.network.protocol import Overflow
from palio.network.publishing import Answered, Publishing, error_of, waiter
from palio.network.security.grants import effective, may_hear, revised
from palio.network.security.limits import Limits, joined
from palio.network.security.principals import Principal
from palio.network.security.shares import Shares
from palio.network.settling import Settling
from palio.network.validity import Validity
from palio.routing import clients, codec
from palio.routing.clients import Answer, ClientRequest, Confirm, Past
from palio.routing.effects import ClientGone, Requested
from palio.routing.messages import Lives, Publish

if TYPE_CHECKING:
    from palio.network.host import Host
    from palio.network.settings import Flow
    from palio.network.store.interface import Store


class Receipt(NamedTuple):
    """What a publisher gets for a confirmed event."""

    number: int


class Session:
    """One client. `woken` is called when there is something to take, `ended` when the broker ends the session."""

    def __init__(
        self,
        host: Host,
        store: Store,
        client: str,
        principal: Principal,
        app: str,
        limits: Limits,
        flow: Flow,
        shares: Shares,
        settling: Settling,
        publisher: str = "",
    ) -> None:
        self.client = client
        self.principal = principal
        self.app = app
        self.handing = Handing(host, self._over)
        self.outlets = self.handing.outlets
        self.woken: Callable[[], None] = self._wake
        self.ended: Callable[[PalioError], None] = lambda reason: self._wake()
        self.cancelled: Callable[[str], None] = lambda name: None
        self.withdrawn: Callable[[str, PalioError], None] = self._withdrawn  # a subscription of which nothing is left
        self.moved: Callable[[LivesElsewhere], None] = lambda where: self.end(str(where))
        self.failure: PalioError | None = None
        self._host = host
        self._store = store
        self._limits = limits
        self._flow = flow
        self._shares = shares
        self._hears_all = principal.may_subscribe == Filter.everything
        self._wanted: dict[str, Filter] = {}
        self._subscribing: dict[str, Answered] = {}
        whose = f"{principal.name}/{publisher}" if publisher else client
        self._publishing = Publishing(self._ask, principal, shares, flow.window, whose, limits)
        # Publish an event; `answered`, where it is given, asks for its confirmation, and it has a number.
        self.submit = self._publishing.submit
        self.asking = Asking(self._ask)
        self._settling = settling
        self.claiming = Claiming(host, self._ask, flow.patience, settling, limits.subscriptions_per_principal)
        self._advertised: set[str] = set()
        self._subscribed = Validity(self._expired)
        self._offered = Validity(self.unadvertise)
        self._something = asyncio.Event()
        self._is_open = True
        host.clients[client] = self

    # What a client asks for

    def request_subscription(
        self,
        name: str,
        wanted: Filter,
        answered: Answered,
        *,
        durable: bool = False,
        confirm: Confirm = "edge",
        queue: int = 0,
        overflow: Overflow | None = None,
        credit: int | None = None,
        number: int = 0,
        group: str = "",
    ) -> None:
        """Deliver what matches, and what this client may see. Subscriptions of one group share a queue, which is as
        the first of them has it; `number` is what the client calls this one."""
        if name in self.outlets or self.handing.group(name) is not None:
            raise Refused(f"there is a subscription {name!r} already")
        if (durable and group) or group in self.outlets:
            raise Refused(f"{group!r} is no group that {name!r} could be of")
        granted = effective(wanted, self.principal, self._limits)
        check_places(self._host, self.principal, self._shares, name, durable)
        self._shares.subscriptions.take(self.principal.name)
        outlet: Outlet | DurableOutlet | None = self.handing.group(group)
        if durable:
            outlet = DurableOutlet(self._host, self._store, self, name, credit)
        elif outlet is None:
            limit = min(queue or self._flow.queue, self._flow.longest_queue)
            outlet = Outlet(group or name, limit, overflow or self._flow.overflow, credit)
        self.handing.add(name, outlet, number, group)
        self._wanted[name] = wanted
        self._subscribed.begin(name, wanted.validity)
        self._subscribing[name] = answered
        # At least the edge confirms always: it is how this session knows that the subscription stands.
        sure: Confirm = "network" if confirm == "network" else "edge"
        request = clients.SubscribeClient(name, granted, sure, durable)
        if sure == "edge":
            self._ask(request, self._owner(name))
        else:
            self._settling.then(partial(self._ask_if_wanted, request, answered))

    def _ask_if_wanted(self, request: clients.SubscribeClient, answered: Answered) -> None:
        if self._subscribing.get(request.name) is answered:
            self._ask(request, self._owner(request.name))

    def request_unsubscription(self, name: str) -> None:
        """Deliver no more; what is durable is forgotten, with all that waits for it."""
        if self.claiming.leave(name):
            return
        owner = self._owner(name)
        self.detach(name)
        self._ask(clients.UnsubscribeClient(name), owner)

    def detach(self, name: str) -> None:
        """Deliver no more here; what is durable goes on collecting, and all else ends."""
        if name not in self.outlets:
            raise Refused(f"there is no subscription {name!r}")
        outlet = self.handing.remove(name)
        del self._wanted[name]
        self._subscribed.forget(name)
        self._shares.subscriptions.leave(self.principal.name)
        self._subscribing.pop(name, None)
        if outlet is not None:
            self._host.unblock(outlet)
            outlet.leave()

    def move(self, name: str, homes: Iterable[Lives]) -> None:
        """The client is to go on with a durable subscription at another broker."""
        self.detach(name)
        self.moved(LivesElsewhere(name, addresses(homes)))

    def _owner(self, name: str) -> str:
        outlet = self.outlets.get(name)
        return outlet.client if isinstance(outlet, DurableOutlet) else self.client

    def advertise(self, name: str, offered: Filter) -> None:
        """This client is going to publish what matches."""
        if name not in self._advertised:
            self._check_room()
        granted = joined(offered, self.principal.may_publish, self._limits)
        self._advertised.add(name)
        self._offered.begin(name, offered.validity)
        self._ask(clients.AdvertiseClient(name, granted))

    def renew(self, name: str) -> None:
        """A subscription whose filter is valid for a while only is wanted for as long again."""
        self._subscribed.renew(name)

    def _expired(self, name: str) -> None:
        self.request_unsubscription(name)
        self.withdrawn(name, Refused(f"{name!r} was not renewed while it was valid"))

    def unadvertise(self, name: str) -> None:
        if name not in self._advertised:
            raise Refused(f"there is no advertisement {name!r}")
        self._advertised.discard(name)
        self._offered.forget(name)
        self._ask(clients.UnadvertiseClient(name))

    def submit_together(self, bodies: Sequence[bytes], answered: Sequence[Answered] = ()) -> None:
        """Publish all of several events, or none; `answered`, one for each, ask for their confirmations."""
        self._publishing.submit_together(bodies, answered)

    @property
    def published(self) -> int:
        """How many events this client published."""
        return self._publishing.published

    def revise(self, principal: Principal | None) -> None:
        """The grants of this client changed, or it is not known any more: what it may not hear now, it gets no more."""
        revision = revised(self.principal, principal, self._wanted)
        if revision.principal is None:
            self.end("you are not let in any more")
            return
        self.principal = revision.principal
        self._publishing.revise(revision.principal)
        self._hears_all = revision.principal.may_subscribe == Filter.everything
        for name in revision.remove:
            self.request_unsubscription(name)
            reason = NotPermitted(self.principal.name, "subscribe to that any more", "its grant has changed")
            self.withdrawn(name, reason)
        for name, granted in revision.replace.items():
            durable = isinstance(self.outlets[name], DurableOutlet)
            self._ask(clients.SubscribeClient(name, granted, durable=durable), self._owner(name))
        for outlet in self.handing.each():
            outlet.keep(lambda event: revision.keeps(codec.decode_event(event.body)))

    def _withdrawn(self, name: str, reason: PalioError) -> None:
        if not self.outlets and self.failure is None:
            self.failure = reason
            self.ended(reason)

    def more(self, name: str, events: int) -> None:
        """The client takes so many more events of a subscription, or of a group."""
        self.handing.more(name, events)
        self.woken()

    def ack(self, name: str, numbers: Iterable[int]) -> None:
        """Events of a durable subscription are dealt with."""
        outlet = self.outlets.get(name)
        if isinstance(outlet, DurableOutlet):
            outlet.ack(numbers)

    def end(self, reason: str) -> None:
        """The broker ends the session, and says why."""
        if self.failure is None and self._is_open:
            self.failure = Refused(reason)
            self.ended(self.failure)

    def close(self) -> None:
        """The client is gone; what it asked for ends, but for what is durable."""
        if not self._is_open:
            return
        self._is_open = False
        gone = Refused("the session is closed")
        subscribing, self._subscribing = self._subscribing, {}
        for answered in subscribing.values():
            answered(gone)
        for name in list(self.outlets):
            self.detach(name)
        self._host.clients.pop(self.client, None)
        self._host.give(ClientGone(self.client))
        self._offered.close()
        self._publishing.close(gone)
        self.asking.close(gone)
        self.claiming.close(gone)
        self._wake()

    # The same for those who can wait

    async def subscribe(
        self,
        name: str,
        wanted: Filter,
        *,
        durable: bool = False,
        confirm: Confirm = "edge",
        queue: int = 0,
        overflow: Overflow | None = None,
        credit: int | None = None,
    ) -> None:
        """Deliver what matches; done when the broker knows, or with `confirm="network"` when all do."""
        done, answered = waiter()
        self.request_subscription(
            name, wanted, answered, durable=durable, confirm=confirm, queue=queue, overflow=overflow, credit=credit
        )
        await done

    async def unsubscribe(self, name: str) -> None:
        self.request_unsubscription(name)

    async def publish(self, body: bytes, header: bytes = b"") -> Receipt:
        """Publish an event, and wait until it is confirmed."""
        done, answered = waiter()
        number = self.submit(body, header, answered)
        await done
        return Receipt(number)

    async def next_batch(self, most: int = 1024) -> list[Delivered]:
        """Events that wait, at least one; empty when the session is over."""
        while True:
            batch = self.take(most)
            if batch or not self._is_open or self.failure is not None:
                return batch
            self._something.clear()
            await self._something.wait()

    # What the host does

    def take(self, most: int) -> list[Delivered]:
        """Events that may leave now, without waiting."""
        return self.handing.take(most)

    def offer(self, names: tuple[str, ...], event: Publish) -> None:
        # Once more at the last moment: the grant may be smaller than when a subscription was made, and a publisher
        # that annotates its events says itself where they go.
        if not self._hears_all and not may_hear(self.principal, codec.decode_event(event.body)):
            self._host.drops["not permitted"] += 1
            return
        self.handing.offer(names, event)

    def _over(self, outlet: Outlet) -> None:
        if outlet.overflow == "block":
            self._host.block(outlet)
        elif self.failure is None:
            self.failure = LimitReached("queue", outlet.limit, f"too many events wait for {outlet.name!r}")
            self.ended(self.failure)

    def answer(self, answer: Answer) -> None:
        match answer:
            case clients.Accepted(number) if number < 0:
                self.asking.answered(number, None)
            case clients.Accepted(number):
                self._publishing.accepted(number)
            case clients.Past(number):
                self.asking.answered(number, answer)
            case clients.Refused(number=number) if number < 0:
                self.asking.answered(number, error_of(answer))
            case clients.Refused(name=name) if name in self._subscribing:
                answered = self._subscribing[name]
                self.detach(name)
                answered(error_of(answer))
            case clients.Refused():
                if not self._publishing.refused(answer):
                    self._unasked(error_of(answer))
            case clients.Proceed():
                self._publishing.proceed()
            case clients.Confirmed(name):
                self._subscribing.pop(name, _ignore)(None)
            case clients.Cancelled(name):
                self.cancelled(name)
            case clients.Claimed():
                self.claiming.answer(answer)

    def permitted(self, past: Past) -> Past:
        """What may be heard now of what was asked for; the grant may have shrunk while brokers were asked."""
        if self._hears_all:
            return past
        heard = (may_hear(self.principal, codec.decode_event(event.body)) for _, event in past.events)
        return replace(past, events=tuple(compress(past.events, heard)))

    @property
    def may_hear_all(self) -> bool:
        return self._hears_all

    def settle(self) -> None:
        self.woken()

    unasked: Answered | None = None  # what is called with the failure of an event that asked for no confirmation

    def _unasked(self, error: PalioError | None) -> None:
        self._host.drops["refused"] += 1
        if self.unasked is not None:
            self.unasked(error)

    def _wake(self) -> None:
        self._something.set()

    def _ask(self, request: ClientRequest, client: str | None = None) -> None:
        self._host.give(Requested(client or self.client, request, self._host.now()))

    def _check_room(self) -> None:
        most = self._limits.subscriptions_per_principal
        if len(self._advertised) >= most:
            raise LimitReached("subscriptions_per_principal", most, f"{self.principal.name} has enough of them")


def _ignore(error: PalioError | None) -> None:
    pass
