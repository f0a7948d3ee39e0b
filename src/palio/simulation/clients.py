"""Clients of a simulated network: their requests, and the deliveries and answers they got."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from palio.events import Event
from palio.filters.filter import Filter
from palio.routing.client_messages import (
    Accepted,
    AdvertiseClient,
    Cancelled,
    ClientRequest,
    Complete,
    Confirm,
    Confirmed,
    Past,
    PublishClient,
    Refused,
    SubscribeClient,
    UnadvertiseClient,
    UnsubscribeClient,
)
from palio.routing.codec import decode_event, encode_event
from palio.routing.durable_settings import DurableSettings
from palio.routing.effects import Deliver, Reply
from palio.routing.messages import EventId
from palio.simulation.history import Advertisement, Completion, Delivery, History, Lifetime, Subscription
from palio.simulation.hosts import Host
from palio.simulation.trace import Trace


class Clients:
    """All clients of all brokers."""

    def __init__(self, history: History, completeness: bool) -> None:
        self.history = history
        self._asks_for_completeness = completeness
        self.completions: list[Completion] = []
        self.deliveries: list[Delivery] = []
        self.by_subscription: dict[Subscription, list[Delivery]] = {}
        self.listeners: dict[Subscription, Callable[[Delivery], None]] = {}
        self.confirmations: dict[Subscription, float] = {}
        self.cancellations: list[Subscription] = []
        self.refusals: list[Refused] = []
        self.pasts: dict[int, Past] = {}
        self._names: dict[tuple[int, str, str], Subscription] = {}
        self._events: dict[EventId, Event] = {}
        self.leases: dict[Subscription, tuple[float, float]] = {}  # length, and end by the virtual clock
        self._numbers = 0
        self.standbys: dict[Subscription, str] = {}  # that were asked for
        self._asked: dict[tuple[int, int], Event] = {}  # events that are to be confirmed, by broker and number
        self._published = 0

    def subscription(self, at: int, wanted: Filter, client: str, durable: bool) -> Subscription:
        """A new subscription, which begins now."""
        self._numbers += 1
        made = Subscription(self._numbers, at, wanted, client, durable)
        self._names[at, client, str(made.number)] = made
        self.history.subscriptions[made] = self.history.begin()
        if durable:
            self.history.settled[made] = set()
        return made

    def advertisement(self, at: int, offered: Filter, client: str) -> Advertisement:
        """A new advertisement, which begins now."""
        self._numbers += 1
        made = Advertisement(self._numbers, at, offered, client)
        self.history.advertisements[made] = self.history.begin()
        return made

    def event(self, given: Event | Mapping[str, Any] | str | bytes) -> Event:
        """An event with an id that depends on nothing but the run; an `Event` stays as it is."""
        if isinstance(given, Event):
            return given
        self._published += 1
        id = f"event-{self._published}"
        if isinstance(given, Mapping):
            return Event.from_dict(given, id=id)
        return Event.from_json(given, id=id)

    def publish(self, at: int, event: Event, header: bytes, confirm: bool) -> PublishClient:
        """The request to publish an event, numbered where it is to be confirmed."""
        if not confirm:
            return PublishClient(encode_event(event), header)
        number = len(self._asked) + 1
        self._asked[at, number] = event
        return PublishClient(encode_event(event), header, confirm=True, number=number)

    def record_delivery(self, at: int, deliver: Deliver, now: float, age: float | None, trace: Trace) -> None:
        id = deliver.event.id
        event = self._events.get(id)
        # Decoded once, however many subscriptions it is delivered to.
        if event is None:
            event = self._events[id] = decode_event(deliver.event.body)
        for client, names in deliver.clients:
            for name in names:
                subscription = self._names[at, client, name]
                delivery = Delivery(subscription, event, at, now, deliver.event, age)
                self.deliveries.append(delivery)
                self.by_subscription.setdefault(subscription, []).append(delivery)
                if subscription in self.listeners:
                    self.listeners[subscription](delivery)
                trace.record(now, at, "deliver", detail=f"{event.id} to {subscription.number}")

    def record_reply(self, at: int, reply: Reply, now: float) -> None:
        match reply.answer:
            case Confirmed(name):
                self.confirmations.setdefault(self._names[at, reply.client, name], now)
            case Cancelled(name):
                if (at, reply.client, name) in self._names:  # else it is that of a standby
                    self.cancellations.append(self._names[at, reply.client, name])
            case Accepted(number):
                if number:  # an operator's request has none
                    self.history.accepted.add(self._asked[at, number].id)
            case Complete():
                self._record_completion(at, reply.client, reply.answer)
            case Past(number):
                self.pasts[number] = reply.answer
            case Refused():
                self.refusals.append(reply.answer)
                if reply.answer.number:
                    self.history.refused.add(self._asked[at, reply.answer.number].id)

    def postpone(self, at: int, client: str, name: str, is_stored: bool) -> None:
        """A request was refused by a full disk: it takes effect only when it is repeated."""
        lives: list[tuple[Subscription | Advertisement, Lifetime]] = [
            *self.history.subscriptions.items(),
            *self.history.advertisements.items(),
        ]
        for handle, life in lives:
            # The answer to a begin may come when its end is under way as well, which is not refused then.
            is_refused = (life.ended is None) != is_stored
            if is_refused and (handle.at, handle.client, str(handle.number)) == (at, client, name):
                self.history.postpone(life)

    def end_late(self, at: int, client: str, name: str, time: float) -> None:
        """A subscription ends when its broker gets to know that its end is on disk."""
        ended = self._names.get((at, client, name))
        if ended is not None:
            self.history.subscriptions[ended].ended_at = time

    def _record_completion(self, at: int, client: str, told: Complete) -> None:
        for name in told.names:
            subscription = self._names[at, client, name]
            deliveries = len(self.by_subscription.get(subscription, ()))
            stretch = told.broker, told.incarnation, told.after, told.up_to, told.time, told.sources
            self.completions.append(Completion(subscription, *stretch, deliveries))

    def request(
        self,
        subscription: Subscription,
        confirm: Confirm = "no",
        settings: DurableSettings | None = None,
        standby: str = "",
    ) -> SubscribeClient:
        name, wanted = str(subscription.number), subscription.wanted
        durable, complete = subscription.durable, self._asks_for_completeness
        return SubscribeClient(name, wanted, confirm, durable, complete, settings, standby)

    def move(self, client: str, name: str, to: int) -> Subscription | None:
        """Let the client of a durable subscription go on at another broker."""
        found = next((each for (_, *place), each in self._names.items() if place == [client, name]), None)
        if found is not None and found.durable:
            self._names[to, client, name] = found
            self.history.places[found] = to
            self.history.guarded.pop(found, None)
        return found

    def unanswered(self, host: Host) -> Iterator[tuple[str, ClientRequest]]:
        """The requests that clients repeat after a crash: all that the disk does not know."""
        kept = {(client, request.name) for client, request in host.disk.read()}
        for subscription, life in self.history.subscriptions.items():
            name, client = str(subscription.number), subscription.client
            if self.history.place(subscription) != host.number or (life.ended is None) == ((client, name) in kept):
                continue
            self.history.resume(life)
            if life.ended is not None:
                life.ended_after, life.ended_at = self.history.rests, self.history.clock()  # only now will it end
                yield client, UnsubscribeClient(name)
            else:
                yield client, self.request(subscription, standby=self.standbys.get(subscription, ""))
        for advertisement, life in self.history.advertisements.items():
            name, client = str(advertisement.number), advertisement.client
            if advertisement.at == host.number and (life.ended is None) != ((client, name) in kept):
                self.history.resume(life)
                yield client, UnadvertiseClient(name) if life.ended else AdvertiseClient(name, advertisement.offered)
        for publication in self.history.publications:
            asked = publication.confirm and publication.at == host.number
            if asked and publication.event.id not in self.history.accepted:
                yield publication.client, self.publish(host.number, publication.event, b"", confirm=True)
