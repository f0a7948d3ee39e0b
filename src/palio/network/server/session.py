"""Session of one client, whatever protocol it speaks: subscriptions, deliveries, advertisements and leases.

The seam between the broker and every front end: the binary protocol, WebSocket, server-sent events and webhooks all use
it. A request is answered by a callback (`OnAnswer`) in a later turn of the loop; the `async` methods wait for that.
What the client publishes goes by `Session.publications`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import compress
from typing import TYPE_CHECKING, Final

from msgspec.structs import replace

from palio.errors import ConfirmTimeout, LimitReached, LivesElsewhere, NotPermitted, PalioError, Refused
from palio.filters.filter import Filter
from palio.network.error_codes import error_of_refusal
from palio.network.protocol import DEFAULT_WINDOW_EVENTS
from palio.network.security.authorization import Principal, effective_filter, may_receive, revise_grants
from palio.network.security.column_grants import ColumnGrant
from palio.network.security.quotas import BrokerLimits, Quotas, restrict_filter
from palio.network.server.batch_delivery import Groups, SharedBatch, offer_batch, permitted_rows
from palio.network.server.consumer_groups import GroupMember, group_to_join
from palio.network.server.delivery_queues import (
    ClientDelivery,
    Delivered,
    DeliveryQueue,
    QueueLimits,
    SubscribeOptions,
)
from palio.network.server.durable_consumers import (
    DurableConsumer,
    ExclusiveConsumer,
    check_exclusive,
    durable_client,
)
from palio.network.server.durable_subscriptions import check_settings, check_subscription_quota, withdraw_consumers
from palio.network.server.leases import Leases
from palio.network.server.pending_requests import (
    OnAnswer,
    PendingClaims,
    PendingQueries,
    addresses,
    answer_future,
)
from palio.network.server.process_metrics import LatencyHistogram
from palio.network.server.publications import Publications
from palio.routing import client_messages, codec
from palio.routing.client_messages import Answer, ClientRequest, Confirm, Past
from palio.routing.effects import ClientGone
from palio.routing.messages import HomeBroker, Publish

if TYPE_CHECKING:
    from palio.network.server.host import Host
    from palio.network.server.settings import Flow
    from palio.network.server.startup_barrier import StartupBarrier
    from palio.network.store.interface import Store

_NETWORK_RETRY_SECONDS: Final = 0.2  # until all brokers are asked again, where one could not be


@dataclass(frozen=True, slots=True)
class BrokerServices:
    """What all sessions of one broker share."""

    host: Host
    store: Store
    limits: BrokerLimits
    flow: Flow
    quotas: Quotas
    startup_barrier: StartupBarrier
    confirm_latency: LatencyHistogram


_DEFAULT_OPTIONS: Final = SubscribeOptions()


class Session:
    """One client of the broker.

    A front end sets the callbacks: `on_ready` when events can be taken, `on_end` when the broker ends the session,
    `on_withdrawn` when it ends a subscription, `on_cancelled` when the last publisher of one is gone, `on_moved` when
    the client is to continue a durable subscription at another broker.
    """

    # A broker has one for each of tens of thousands of connections.
    __slots__ = (
        "_advertised",
        "_advertisement_leases",
        "_complete",
        "_flow",
        "_host",
        "_is_open",
        "_limits",
        "_network_requests",
        "_quotas",
        "_ready",
        "_receive_grant",
        "_startup_barrier",
        "_store",
        "_subscription_leases",
        "_unconfirmed",
        "_wanted",
        "acknowledges_later",
        "app",
        "client",
        "delivery",
        "durable_claims",
        "failure",
        "instance",
        "may_receive_all",
        "on_cancelled",
        "on_end",
        "on_moved",
        "on_ready",
        "on_withdrawn",
        "peer",
        "principal",
        "publications",
        "queries",
        "queues",
    )

    def __init__(
        self, services: BrokerServices, client: str, principal: Principal, app: str, publisher: str = ""
    ) -> None:
        self._host = services.host
        self._store = services.store
        self._limits = services.limits
        self._flow = services.flow
        self._quotas = services.quotas
        self._startup_barrier = services.startup_barrier
        self.client = client
        self.app = app
        self.peer = ""  # address of the client
        self.instance = ""  # by which a client is known over its connections; empty where it has none
        self.acknowledges_later = False  # its next session acknowledges what this one got
        self.delivery = ClientDelivery(self._host, client, self._on_queue_over)
        self.queues = self.delivery.by_subscription
        self.on_ready: Callable[[], None] = self._wake
        self.on_end: Callable[[PalioError], None] = lambda reason: self._wake()
        self.on_cancelled: Callable[[str], None] = lambda name: None
        self.on_withdrawn: Callable[[str, PalioError], None] = self._end_if_empty
        self.on_moved: Callable[[LivesElsewhere], None] = lambda where: self.end(str(where))
        self.failure: PalioError | None = None
        self._wanted: dict[str, Filter] = {}
        self._complete: set[str] = set()  # subscriptions that are told of complete stretches
        self._unconfirmed: dict[str, OnAnswer] = {}  # subscriptions that the broker has not confirmed yet
        # Those of them that all brokers are to confirm, and when that is late.
        self._network_requests: dict[str, tuple[client_messages.SubscribeClient, asyncio.TimerHandle]] = {}
        publication_key = f"{principal.name}/{publisher}" if publisher else client
        self.publications = Publications(services, client, publication_key, principal)
        self.queries = PendingQueries(self._request)
        self.durable_claims = PendingClaims(
            self._host,
            self._request,
            self._flow.patience,
            self._startup_barrier,
            self._limits.subscriptions_per_principal,
        )
        self._advertised: set[str] = set()
        self._subscription_leases = Leases(self._on_lease_expired)
        self._advertisement_leases = Leases(self.unadvertise)
        self._ready = asyncio.Event()
        self._receive_grant: ColumnGrant | None = None
        self._is_open = True
        self._apply_grants(principal)
        self._host.clients[client] = self

    # Requests of the client

    def request_subscription(
        self, name: str, wanted: Filter, on_answer: OnAnswer, options: SubscribeOptions = _DEFAULT_OPTIONS
    ) -> None:
        """Deliver the matching events that the grant admits, from the broker's confirmation on."""
        durable, set_name = options.durable, options.set_name
        if name in self.queues or self.delivery.queue_of_set(name) is not None:
            raise Refused(f"there is a subscription {name!r} already")
        if (durable and set_name) or set_name in self.queues:
            raise Refused(f"{set_name!r} is no set of subscriptions that {name!r} could be of")
        if options.completeness and not self._host.has_completeness:
            raise Refused("the brokers send no watermarks; they are started with --option completeness=SECONDS")
        if options.overflow == "block" and not self.principal.may_block:
            raise NotPermitted(
                self.principal.name, "hold publishers back", "overflow `block` needs the grant may_block"
            )
        granted = effective_filter(wanted, self.principal, self._limits)
        self._host.conditions.costs.check_slow_patterns(self.principal.name, granted)
        if durable:
            check_settings(self.principal, options.settings, self._store.retention, bool(options.standby))
        if durable:
            self._host.conditions.put_aside.check(durable_client(self.principal, name), name, granted)
        check_subscription_quota(self._host, self.principal, self._quotas, name, durable)
        self._quotas.subscriptions.take(self.principal.name)
        delivery_queue: DeliveryQueue | DurableConsumer | None = self.delivery.queue_of_set(set_name)
        if durable:
            try:
                delivery_queue = self._consumer(name, wanted, options)
            except PalioError:
                self._quotas.subscriptions.release(self.principal.name)
                raise
        elif delivery_queue is None:
            limit = min(options.queue or self._flow.queue, self._flow.longest_queue)
            overflow = options.overflow or self._flow.overflow
            bounds = QueueLimits(limit, self._flow.queue_bytes)
            delivery_queue = DeliveryQueue(set_name or name, bounds, overflow, options.credit)
        # The queue stands before the request: the batch that handles the request may deliver events already.
        self.delivery.add(name, delivery_queue, options.number, set_name)
        self._wanted[name] = wanted
        if options.completeness:
            self._complete.add(name)
        self._subscription_leases.begin(name, wanted.validity)
        self._unconfirmed[name] = on_answer
        # This broker confirms even if the client does not ask: only then does the session know that it stands.
        level: Confirm = "network" if options.confirm == "network" else "edge"
        request = client_messages.SubscribeClient(
            name, granted, level, durable, options.completeness, options.settings, options.standby
        )
        if isinstance(delivery_queue, GroupMember):
            delivery_queue.group.await_confirmation(delivery_queue)
        if level == "edge":
            self._request(request, self._owner_of(name))
        else:
            timer = asyncio.get_running_loop().call_later(
                self._flow.confirm_seconds, self._on_network_late, name, on_answer
            )
            self._network_requests[name] = request, timer
            self._startup_barrier.run_after(partial(self._request_if_pending, request, on_answer))

    def _consumer(self, name: str, wanted: Filter, options: SubscribeOptions) -> DurableConsumer:
        """This session as a consumer of a durable subscription; an error where others read it."""
        if options.group is None:
            check_exclusive(self._host, self, name)
            return ExclusiveConsumer(self._host, self._store, self, name, options.credit)
        group = group_to_join(self._host, self._store, self, name, wanted, options.group.key)
        window = DEFAULT_WINDOW_EVENTS if options.credit is None else options.credit
        member = GroupMember(self._host, self._store, self, name, group, window, options.confirm)
        group.join(member, options.group.ack_seconds)
        return member

    def _request_if_pending(self, request: client_messages.SubscribeClient, on_answer: OnAnswer) -> None:
        # While the barrier held it back, the client may have unsubscribed, and subscribed again under the name.
        if self._unconfirmed.get(request.name) is on_answer:
            self._request(request, self._owner_of(request.name))

    def _on_network_late(self, name: str, on_answer: OnAnswer) -> None:
        """A subscription is not known to all brokers in time: end it, but for the queue of a durable one."""
        if self._unconfirmed.get(name) is not on_answer:
            return
        away = ", ".join(map(str, self._host.brokers_away))
        reason = f"brokers are away: {away}" if away else "a neighbour that this broker dials is away"
        if isinstance(self.queues.get(name), DurableConsumer):
            self.detach(name)
        else:
            self.request_unsubscription(name)
        on_answer(ConfirmTimeout(self._flow.confirm_seconds, reason))

    def _on_confirmed(self, name: str) -> None:
        request, timer = self._network_requests.get(name, (None, None))
        if request is not None and not self._startup_barrier.is_open_now:
            # The brokers that could be asked have answered, and a neighbour was not among them: ask again.
            again = partial(self._request_if_pending, request, self._unconfirmed.get(name, _ignore))
            asyncio.get_running_loop().call_later(_NETWORK_RETRY_SECONDS, again)
            return
        if timer is not None:
            timer.cancel()
            del self._network_requests[name]
        self._unconfirmed.pop(name, _ignore)(None)

    def request_unsubscription(self, name: str) -> None:
        """End a subscription; a durable one with all events that wait for it."""
        if self.durable_claims.cancel(name):
            return
        owner = self._owner_of(name)
        self.detach(name)
        self._request(client_messages.UnsubscribeClient(name), owner)
        if owner != self.client:
            withdraw_consumers(self._host, owner, name, f"{name!r} was ended by another member of its group")

    def detach(self, name: str) -> None:
        """Stop delivery to this session; a durable subscription goes on collecting."""
        if name not in self.queues:
            raise Refused(f"there is no subscription {name!r}")
        delivery_queue = self.delivery.remove(name)
        del self._wanted[name]
        self._complete.discard(name)
        self._subscription_leases.forget(name)
        self._quotas.subscriptions.release(self.principal.name)
        self._unconfirmed.pop(name, None)
        if name in self._network_requests:
            self._network_requests.pop(name)[1].cancel()
        if delivery_queue is not None:
            # Nothing will empty it any more, and publishers must not wait for it.
            self._host.backpressure.unblock(delivery_queue)
            delivery_queue.close()

    def move(self, name: str, homes: Iterable[HomeBroker]) -> None:
        """Refer the client to the other homes of a durable subscription."""
        self.detach(name)
        self.on_moved(LivesElsewhere(name, addresses(homes)))

    def _owner_of(self, name: str) -> str:
        delivery_queue = self.queues.get(name)
        return delivery_queue.client if isinstance(delivery_queue, DurableConsumer) else self.client

    def advertise(self, name: str, offered: Filter) -> None:
        """Announce that this client is going to publish matching events."""
        most = self._limits.subscriptions_per_principal
        if name not in self._advertised and len(self._advertised) >= most:
            raise LimitReached("subscriptions_per_principal", most, f"{self.principal.name} has enough of them")
        granted = restrict_filter(offered, self.principal.may_publish, self._limits)
        self._advertised.add(name)
        self._advertisement_leases.begin(name, offered.validity)
        self._request(client_messages.AdvertiseClient(name, granted))

    def renew(self, name: str) -> None:
        """Renew the lease of a subscription."""
        self._subscription_leases.renew(name)

    def _on_lease_expired(self, name: str) -> None:
        self.request_unsubscription(name)
        self.on_withdrawn(name, Refused(f"{name!r} ended with its lease, which was not extended in time"))

    def unadvertise(self, name: str) -> None:
        if name not in self._advertised:
            raise Refused(f"there is no advertisement {name!r}")
        self._advertised.discard(name)
        self._advertisement_leases.forget(name)
        self._request(client_messages.UnadvertiseClient(name))

    def _apply_grants(self, principal: Principal) -> None:
        self.principal = principal
        self.may_receive_all = principal.may_subscribe == Filter.everything
        self.delivery.may_run = self.may_receive_all  # otherwise each event is looked at
        self.delivery.end_run()
        self._receive_grant = None  # made again when the next batch needs it
        self.publications.configure(principal, self._limits, self._flow)

    def change_limits(self, limits: BrokerLimits, flow: Flow) -> None:
        """Apply changed limits to what the client asks from now on."""
        self._limits = limits
        self._flow = flow
        self._apply_grants(self.principal)

    def revise(self, principal: Principal | None) -> None:
        """Apply changed grants, also to events that wait already; None ends the session: the principal was removed."""
        revision = revise_grants(self.principal, principal, self._wanted)
        if revision.principal is None:
            self.end("access was revoked")
            return
        self._apply_grants(revision.principal)
        for name in revision.remove:
            self.request_unsubscription(name)
            reason = NotPermitted(self.principal.name, "subscribe to that any more", "its grant has changed")
            self.on_withdrawn(name, reason)
        # A subscription under a known name replaces its filter at the broker; the queue stays.
        for name, granted in revision.replace.items():
            durable = isinstance(self.queues[name], DurableConsumer)
            request = client_messages.SubscribeClient(name, granted, "no", durable, name in self._complete)
            self._request(request, self._owner_of(name))
        for delivery_queue in self.delivery.queues():
            delivery_queue.retain(lambda event: revision.keeps(codec.decode_event(event.body)))

    def withdraw(self, name: str, reason: PalioError) -> None:
        """End a subscription from the broker's side; a durable one stays, with its queue."""
        if name not in self.queues:
            return
        if isinstance(self.queues[name], DurableConsumer):
            self.detach(name)
        else:
            self.request_unsubscription(name)
        self.on_withdrawn(name, reason)

    def _end_if_empty(self, name: str, reason: PalioError) -> None:
        if not self.queues and self.failure is None:
            self.failure = reason
            self.on_end(reason)

    def grant_credit(self, name: str, events: int) -> None:
        """Let more events of a subscription or set leave."""
        self.delivery.grant_credit(name, events)
        self.on_ready()

    def ack(self, name: str, numbers: Iterable[int]) -> None:
        """Acknowledge events of a durable subscription."""
        delivery_queue = self.queues.get(name)
        if isinstance(delivery_queue, DurableConsumer):
            delivery_queue.ack(numbers)

    def reject(self, name: str, numbers: Iterable[int], requeue: bool, reason: str) -> None:
        """Give back events of a durable subscription that could not be processed."""
        delivery_queue = self.queues.get(name)
        if isinstance(delivery_queue, DurableConsumer):
            delivery_queue.reject(numbers, requeue, reason)

    def end(self, reason: str) -> None:
        """End the session from the broker's side, with a reason for the client."""
        if self.failure is None and self._is_open:
            self.failure = Refused(reason)
            self.on_end(self.failure)

    def close(self) -> None:
        """Release everything but durable subscriptions: the client is gone."""
        if not self._is_open:
            return
        self._is_open = False  # first: an answer below may lead to another call of this
        gone = Refused("the session is closed")
        subscribing, self._unconfirmed = self._unconfirmed, {}
        for on_answer in subscribing.values():
            on_answer(gone)
        for name in list(self.queues):
            self.detach(name)
        # Before `ClientGone`: events that are still under way to this client count as dropped from now on.
        self._host.clients.pop(self.client, None)
        self._host.conditions.costs.remove_client(self.client)
        self._host.enqueue(ClientGone(self.client))
        self._advertisement_leases.close()
        self.publications.close(gone)
        self.queries.close(gone)
        self.durable_claims.close(gone)
        self._wake()

    # Requests that wait for their answer

    async def subscribe(self, name: str, wanted: Filter, options: SubscribeOptions = _DEFAULT_OPTIONS) -> None:
        """Subscribe; done when this broker knows, or with `confirm="network"` when all brokers do."""
        done, on_answer = answer_future()
        self.request_subscription(name, wanted, on_answer, options)
        await done

    async def unsubscribe(self, name: str) -> None:
        self.request_unsubscription(name)

    async def publish(self, body: bytes) -> None:
        """Publish an event, and wait until it is confirmed."""
        done, on_answer = answer_future()
        self.publications.submit(body, on_answer=on_answer)
        await done

    async def next_output(self, most: int = 1024) -> tuple[list[Delivered], list[client_messages.Complete]]:
        """The events that wait, and the complete stretches that they end; neither when the session is over."""
        while True:
            batch, stretches = self.take(most), self.delivery.take_stretches()
            if batch or stretches or not self._is_open or self.failure is not None:
                return batch, stretches
            self._ready.clear()
            await self._ready.wait()

    async def next_batch(self, most: int = 1024) -> list[Delivered]:
        """The events that wait, at least one, where no subscription is told of complete stretches."""
        return (await self.next_output(most))[0]

    # Calls of the host

    def take(self, most: int) -> list[Delivered]:
        """Remove the queued events that may leave now."""
        return self.delivery.take(most)

    def offer(self, names: tuple[str, ...], event: Publish) -> None:
        # The grant is checked again at the last moment: it may have shrunk since the subscription was made, and a
        # publisher that annotates its events decides by itself where they go.
        if not self.may_receive_all and not may_receive(self.principal, codec.decode_event(event.body)):
            self._host.drops["not permitted"] += 1
            return
        self.delivery.offer(names, event)

    def offer_batch(self, groups: Groups, batch: SharedBatch) -> None:
        permitted = groups if self.may_receive_all else self._receivable(groups, batch)
        offer_batch(self.delivery, permitted, batch)

    def _receivable(self, groups: Groups, batch: SharedBatch) -> Groups:
        """The rows that the grant admits now, as `offer` checks each event."""
        if self._receive_grant is None:
            self._receive_grant = ColumnGrant(self.principal.may_subscribe)
        permitted = permitted_rows(groups, self._receive_grant.admitted(batch.columns))
        count_rows = sum(len(rows) for _, rows in groups) - sum(len(rows) for _, rows in permitted)
        if count_rows:
            self._host.drops["not permitted"] += count_rows
        return permitted

    def _on_queue_over(self, delivery_queue: DeliveryQueue) -> None:
        if delivery_queue.overflow == "block":
            seconds = self._flow.block_seconds
            self._host.backpressure.block(delivery_queue, seconds, self.principal.name, self.client)
        elif self.failure is None:
            self.failure = LimitReached(
                "queue", delivery_queue.limits.events, f"too many events wait for {delivery_queue.name!r}"
            )
            self.on_end(self.failure)

    def answer(self, answer: Answer) -> None:
        match answer:
            # Publications have numbers above zero, queries those below.
            case client_messages.Accepted(number) if number > 0:
                self.publications.answer(number, None)
            case client_messages.Accepted(number):
                self.queries.answer(number, None)
            case client_messages.Past(number):
                self.queries.answer(number, answer)
            case client_messages.Refused(number=number) if number < 0:
                self.queries.answer(number, error_of_refusal(answer.kind, answer.reason))
            case client_messages.Refused(name=name) if name in self._unconfirmed:
                on_answer = self._unconfirmed[name]
                self.detach(name)
                on_answer(error_of_refusal(answer.kind, answer.reason))
            case client_messages.Refused():
                self.publications.refuse(answer)
            case client_messages.Proceed():
                self.publications.repeat_busy()
            case client_messages.Confirmed(name):
                self._on_confirmed(name)
            case client_messages.Cancelled(name):
                self.on_cancelled(name)
            case client_messages.Complete():
                self.delivery.offer_stretch(answer)
            case client_messages.Claimed():
                self.durable_claims.answer(answer)

    def permitted(self, past: Past) -> Past:
        """The past events that the grant admits now; it may have shrunk while the brokers answered."""
        if self.may_receive_all:
            return past
        permitted = (may_receive(self.principal, codec.decode_event(event.body)) for _, event in past.events)
        return replace(past, events=tuple(compress(past.events, permitted)))

    def on_batch_end(self) -> None:
        # A batch touches up to a thousand clients, of which nearly all have been sent what it brought.
        if self.delivery.has_something:
            self.on_ready()

    def _wake(self) -> None:
        self._ready.set()

    def _request(self, request: ClientRequest, client: str | None = None) -> None:
        self._host.request(client or self.client, request)


def _ignore(error: PalioError | None) -> None:
    pass
