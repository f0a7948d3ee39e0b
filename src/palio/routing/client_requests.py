"""Requests of clients: their order on disk, the admission of their events, and their effect on tables and protocols.

A subscription that neighbours know and a crash forgets would draw events in vain. So a request that changes tables is
carried out when it is on disk. All requests of a batch share one write, also those of one client, where they follow
each other. A request that a client makes while one of its own is being written waits for it; those of others do not.

An event is admitted if it can be read and, where advertisements are needed, if its publisher has advertised it; else it
is refused with the reason. One that is to be confirmed is logged first, and routed from the log (`delivery`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Final

from msgspec.structs import replace

from palio.errors import PalioError
from palio.routing.announcements import Announcements, broker_of
from palio.routing.client_messages import (
    Accepted,
    AdvertiseClient,
    ClaimClient,
    ClientRequest,
    Confirmed,
    DoneClient,
    ForgetClient,
    PromoteClient,
    PublishBatch,
    PublishClient,
    Refused,
    ReplayClient,
    SubscribeClient,
    UnadvertiseClient,
    UnsubscribeClient,
)
from palio.routing.codec import Arrival
from palio.routing.columnar_codec import bodies_of
from palio.routing.completeness import Completeness
from palio.routing.delivery.durable_delivery import DurableDelivery
from palio.routing.delivery.home_interests import INTEREST_TOPIC
from palio.routing.delivery.standby import Standbys
from palio.routing.delivery.standing_advertisements import StandingAdvertisements
from palio.routing.durable_claims import DurableClaims
from palio.routing.durable_settings import DEFAULT_DURABLE_SETTINGS, DurableSettings
from palio.routing.echo import Settlement
from palio.routing.effects import BatchRequest, Client, Effect, NotPersisted, Persist, Record, Reply
from palio.routing.event_batches import BatchArrival
from palio.routing.event_router import EventRouter
from palio.routing.log_replay import LogReplay
from palio.routing.messages import LOCAL, UNKNOWN_AGE, Announce, EventId, Publish, PublishColumns
from palio.routing.propagation.neighbour_updates import is_advertised
from palio.routing.routing_tables import RoutingTables
from palio.routing.sealing import Keyring
from palio.routing.spanning_tree import ActiveLinks

DURABLE_REQUESTS: Final = (SubscribeClient, UnsubscribeClient, AdvertiseClient, UnadvertiseClient)
_REQUESTS_WITH_CONTENT: Final = (
    SubscribeClient,
    AdvertiseClient,
    PublishClient,
    PublishBatch,
    BatchRequest,
    ReplayClient,
)
_GIVEN_UP_TOPIC: Final = "gone "  # of announcements, followed by the number of a broker that is not coming back


class RequestQueue:
    """Requests that wait for the disk, and those that wait for them."""

    __slots__ = (
        "_behind",
        "_carry_out",
        "_collected",
        "_durable_refusal",
        "_effects",
        "_joining",
        "_keys",
        "_settings_of",
        "_tokens",
        "_withdrawals",
        "_writing",
    )

    def __init__(
        self,
        carry_out: Callable[[Client, ClientRequest | BatchRequest], None],
        withdrawals: Callable[[Client], list[ClientRequest]],
        settings_of: Callable[[Client, str], DurableSettings | None],
        tokens: Iterator[int],
        effects: list[Effect],
        keys: Keyring | None = None,
        durable_refusal: str = "",
    ) -> None:
        """`carry_out` is called at once or when the disk has answered; `withdrawals` are the requests by which a client
        takes back what it has when it leaves; `settings_of` finds the settings that a durable subscription has. `keys`
        are those of a network with sealed events. `durable_refusal` is the reason why no subscription can be durable
        here, if there is one."""
        self._keys = keys
        self._durable_refusal = durable_refusal
        self._settings_of = settings_of
        self._carry_out = carry_out
        self._withdrawals = withdrawals
        self._tokens = tokens
        self._effects = effects
        self._collected: list[Record] = []
        self._joining: set[Client] = set()  # clients all of whose waiting requests are collected
        self._writing: dict[int, list[Record]] = {}
        self._behind: dict[Client, list[ClientRequest | BatchRequest | None]] = {}  # None where the client left

    def take(self, client: Client, request: ClientRequest | BatchRequest) -> None:
        if self._keys is not None and self._keys.is_empty and isinstance(request, _REQUESTS_WITH_CONTENT):
            self._refuse_sealed(client, request)
            return
        if self._durable_refusal and type(request) is SubscribeClient and request.durable:
            self._effects.append(Reply(client, Refused(self._durable_refusal, name=request.name)))
            return
        behind = self._behind.get(client)  # None where nothing of this client waits for the disk
        if isinstance(request, DURABLE_REQUESTS) and (behind is None or client in self._joining):
            self._collected.append(Record(client, self._with_settings(client, request)))
            self._behind[client] = []
            self._joining.add(client)
        elif behind is None:
            self._carry_out(client, request)
        else:
            # It waits for the write, and so do all later requests of this client: none may join the write before it.
            behind.append(request)
            self._joining.discard(client)

    def _with_settings(self, client: Client, request: ClientRequest) -> ClientRequest:
        """A durable subscription that is requested without settings keeps those that it has, also on disk."""
        if type(request) is not SubscribeClient or not request.durable or request.settings is not None:
            return request
        settings = self._settings_of(client, request.name)
        return request if settings is None else replace(request, settings=settings)

    def _refuse_sealed(self, client: Client, request: ClientRequest | BatchRequest) -> None:
        refusal = Refused("this broker has no key of sealed events, and only forwards them; connect to an edge broker")
        if isinstance(request, PublishBatch):
            self._effects += [Reply(client, replace(refusal, number=each.number)) for each in request.events]
        else:
            number, name = getattr(request, "number", 0), getattr(request, "name", "")
            self._effects.append(Reply(client, replace(refusal, number=number, name=name)))

    def leave(self, client: Client) -> None:
        """Withdraw what a client has that left; requests on their way to the disk are withdrawn when they are there."""
        behind = self._behind.get(client)
        if behind is not None:
            behind.append(None)
            self._joining.discard(client)
            return
        for request in self._withdrawals(client):
            self.take(client, request)

    def write(self) -> None:
        """Write the requests that were collected in this batch."""
        if self._collected:
            token = next(self._tokens)
            self._writing[token] = self._collected
            self._effects.append(Persist(tuple(self._collected), token))
            self._collected = []
            self._joining.clear()

    def on_persisted(self, token: int) -> None:
        records = self._writing.pop(token, None)
        if records is None:
            return  # a write of durable delivery
        for client, request in records:
            self._carry_out(client, request)
        self._take_those_behind(records)

    def on_not_persisted(self, failure: NotPersisted) -> None:
        """Refuse requests that could not be written."""
        records = self._writing.pop(failure.token, [])
        # Requests that waited behind the failed ones are tried by themselves.
        self._take_those_behind(records)
        for client, request in records:
            if isinstance(request, DURABLE_REQUESTS):
                self._effects.append(Reply(client, Refused(failure.reason, failure.kind, name=request.name)))

    def _take_those_behind(self, records: list[Record]) -> None:
        """Take the requests that waited for a write; a durable one makes those after it wait again."""
        for client in dict.fromkeys(client for client, _ in records):
            for further in self._behind.pop(client, ()):
                if further is None:
                    self.leave(client)
                else:
                    self.take(client, further)


@dataclass(slots=True)
class ClientRequests:
    """Carries out the requests of one broker's clients."""

    node: int
    incarnation: int
    must_advertise: bool
    tables: RoutingTables
    router: EventRouter
    delivery: DurableDelivery
    links: ActiveLinks
    settlement: Settlement
    announcements: Announcements
    replay: LogReplay
    claims: DurableClaims
    standbys: Standbys
    standing_advertisements: StandingAdvertisements
    effects: list[Effect]
    completeness: Completeness | None = None
    _sequence: int = 0
    _published: dict[Client, int] = field(default_factory=dict)  # the number of admitted events of each client
    _unsettled: list[Reply] = field(default_factory=list)  # confirmations that wait for brokers that are away

    def carry_out(self, client: Client, request: ClientRequest | BatchRequest) -> None:
        if type(request) is PublishClient:  # before all others: by far the most frequent
            self._publish(client, request)
            return
        match request:
            case SubscribeClient():
                self._subscribe(client, request)
            case UnsubscribeClient():
                self.tables.unsubscribe(client, request.name)
                self._end_durable(client, request.name)
                if self.completeness is not None:
                    self.completeness.unsubscribe(client, request.name)
            case AdvertiseClient():
                self.standing_advertisements.withdraw(client, request.name)  # one that this replaces
                self.tables.advertise(client, request.name, request.offered)
                self.delivery.on_advertise()
            case UnadvertiseClient():
                self.standing_advertisements.withdraw(client, request.name)
            case PublishBatch():
                self._publish_batch(client, request.events)
            case BatchRequest():
                self._publish_columns(client, request)
            case ForgetClient():
                self._give_up(client, request)
            case ReplayClient():
                self.replay.start(client, request, self.delivery.expected.logs())
            case ClaimClient():
                self.claims.claim(client, request)
            case DoneClient():
                self.standbys.send_done(client, request)
            case PromoteClient():
                self.standbys.promote(client, request)

    def withdrawals(self, client: Client) -> list[ClientRequest]:
        """The requests by which a client that left takes back all that it has, but for what is durable."""
        self._published.pop(client, None)
        self._unsettled = [each for each in self._unsettled if each.client != client]
        is_durable = self.delivery.queues.is_durable
        subscriptions = [name for name in self.tables.subscriptions.names(client) if not is_durable(client, name)]
        advertisements = self.tables.advertisements.names(client)
        return [*map(UnsubscribeClient, subscriptions), *map(UnadvertiseClient, advertisements)]

    def on_announce(self, interface: int, message: Announce) -> bool:
        """Take an announcement to all brokers, perhaps that one of them is given up; whether it is new."""
        if message.topic.startswith(INTEREST_TOPIC) and self.delivery.interests.learn(message):
            self.delivery.is_dirty = True
        gone = broker_of(message.topic, _GIVEN_UP_TOPIC)
        if gone is not None:
            self.delivery.give_up(gone, message.version)
            self.claims.give_up(gone)
            self.standbys.on_given_up(gone)
        is_new = self.announcements.receive(interface, message, self.links.others(interface))
        if is_new and self.delivery.blocked.learn(message):
            self.delivery.is_dirty = True
        return is_new

    # Subscriptions

    def _subscribe(self, client: Client, request: SubscribeClient) -> None:
        self.tables.subscribe(client, request.name, request.wanted)
        # A start carries out what is on disk, and with it what this broker is the standby of: its home has the claim.
        is_home = request.durable and not self.standbys.is_standby(client, request.name)
        if request.durable:
            settings = request.settings or DEFAULT_DURABLE_SETTINGS
            self.delivery.set_durable(client, request.name, request.wanted, settings)
        else:
            self._end_durable(client, request.name)
        if is_home:
            self.claims.set_durable(client, request.name, True)
        if self.completeness is not None:
            self.completeness.unsubscribe(client, request.name)
            if request.completeness and not request.durable:
                self.completeness.subscribe(client, request.name)
        if is_home:
            self.standbys.prepare(client, request, partial(self._confirm, client, request))
        else:
            self._confirm(client, request)

    def announce_interests(self) -> None:
        """Announce which events this broker's durable subscriptions want, where that has changed."""
        for each in self.delivery.interests.take_announcements():
            self.on_announce(LOCAL, each)

    def announce_blocked(self, now: float) -> None:
        """Announce which events have full queues here that hold publishers back, where that has changed."""
        if (announcement := self.delivery.blocked.take_announcement(now)) is not None:
            self.on_announce(LOCAL, announcement)

    def _end_durable(self, client: Client, name: str) -> None:
        self.standbys.end(client, name)
        self.delivery.end_durable(client, name)
        self.claims.set_durable(client, name, False)

    def _confirm(self, client: Client, request: SubscribeClient) -> None:
        confirmed = Reply(client, Confirmed(request.name))
        if request.confirm == "edge":
            self.effects.append(confirmed)
        elif request.confirm == "network":
            # The query must follow the subscription on every link.
            self.announce_interests()
            self.tables.send_updates()
            self.delivery.reachable.send_additions()
            self._settle(confirmed)

    def _settle(self, confirmed: Reply) -> None:
        """Ask all brokers, and confirm when they have answered; not while one is away that events may come from or go
        to."""
        if self.delivery.away:
            self._unsettled.append(confirmed)
        else:
            self.settlement.start(partial(self._on_settled, confirmed))

    def _on_settled(self, confirmed: Reply) -> None:
        # One may have left meanwhile, after it was asked or before.
        if self.delivery.away:
            self._unsettled.append(confirmed)
        else:
            self.effects.append(confirmed)

    def resume_settlement(self) -> None:
        """Ask all brokers again, where confirmations wait and none is away any more."""
        if self._unsettled and not self.delivery.away:
            waiting, self._unsettled = self._unsettled, []
            for each in waiting:
                self._settle(each)

    def _give_up(self, client: Client, request: ForgetClient) -> None:
        standing = self.delivery.standing_of(request.broker)
        if standing is None:
            reason = f"no event waits for broker {request.broker}"
            if request.broker in self.delivery.reachable:
                reason = f"broker {request.broker} is within reach, or its end was not noticed yet"
            self.effects.append(Reply(client, Refused(reason, number=request.number)))
        else:
            self.on_announce(LOCAL, Announce(f"{_GIVEN_UP_TOPIC}{request.broker}", standing, b""))
            self.effects.append(Reply(client, Accepted(request.number)))

    # Admission of events

    def _publish(self, client: Client, request: PublishClient) -> None:
        arrival = self._arrival(client, request, 1)
        refused = self._refusal(client, arrival)
        if refused is not None:
            self.effects.append(Reply(client, replace(refused, number=request.number)))
            return
        # Counted only when admitted, so that the numbers of a publisher have no gaps.
        self._count(client, [arrival])
        if request.confirm:
            self.delivery.publish(client, request, arrival.message, arrival.event)
        else:
            self.router.take(arrival)

    def _publish_batch(self, client: Client, requests: Sequence[PublishClient]) -> None:
        """Admit all of several events, or none; either all are to be confirmed or none is."""
        arrivals = [self._arrival(client, request, ahead) for ahead, request in enumerate(requests, 1)]
        for arrival in arrivals:
            refused = self._refusal(client, arrival)
            if refused is not None:
                self.effects += [Reply(client, replace(refused, number=request.number)) for request in requests]
                return
        self._count(client, arrivals)
        if requests[0].confirm:
            self.delivery.publish_batch(client, requests, arrivals)
        else:
            for arrival in arrivals:
                self.router.take(arrival)

    def _publish_columns(self, client: Client, request: BatchRequest) -> None:
        """Admit the events of a batch: together, or one by one where advertisements or watermarks look at each."""
        if self.must_advertise or self.completeness is not None:
            for body in bodies_of(request.batch):
                self._publish(client, PublishClient(body, age=request.age, aged_at=request.aged_at))
            return
        count = len(request.batch)
        id = EventId(self.node, self.incarnation, self._sequence + 1)
        number = self._published.get(client, 0) + 1
        tree = self.links.tree  # None where the network has no circles
        epoch = 0 if tree is None else tree.epoch
        age, aged_at = max(request.age, UNKNOWN_AGE), request.aged_at
        message = PublishColumns(id, count, request.body, epoch=epoch, publisher=number, age=age, aged_at=aged_at)
        self._sequence += count
        self._published[client] = number + count - 1
        self.router.take_batch(BatchArrival(LOCAL, message, request.batch))

    def _arrival(self, client: Client, request: PublishClient, ahead: int) -> Arrival:
        """An event under the number that is `ahead` of the last one."""
        id = EventId(self.node, self.incarnation, self._sequence + ahead)
        number = self._published.get(client, 0) + ahead
        tree = self.links.tree  # None where the network has no circles
        epoch = 0 if tree is None else tree.epoch
        age, aged_at = max(request.age, UNKNOWN_AGE), request.aged_at
        event = Publish(id, request.body, request.header, epoch=epoch, publisher=number, age=age, aged_at=aged_at)
        return Arrival(LOCAL, event)

    def _refusal(self, client: Client, arrival: Arrival) -> Refused | None:
        try:
            attributes = arrival.event.attributes
        except PalioError as error:
            return Refused(str(error))
        if self.must_advertise and not is_advertised(self.tables.advertisements.filters(client), attributes):
            return Refused("its publisher has not advertised events like this one", "unadvertised")
        return None

    def _count(self, client: Client, arrivals: Sequence[Arrival]) -> None:
        self._sequence += len(arrivals)
        self._published[client] = self._published.get(client, 0) + len(arrivals)
        if self.completeness is not None:
            for arrival in arrivals:
                self.completeness.accept(arrival.message.id.sequence, arrival.event.source)
