"""What does a broker do for its own clients? It carries out what they ask for, once that is written down."""

from __future__ import annotations

from typing import Final

from palio.routing.announcing import Announcing
from palio.routing.claims import Claims
from palio.routing.clients import (
    Accepted,
    AdvertiseClient,
    AnnounceClient,
    ClaimClient,
    ClientRequest,
    Confirmed,
    ForgetClient,
    PublishClient,
    PublishTogether,
    Refused,
    ReplayClient,
    SubscribeClient,
    UnadvertiseClient,
    UnsubscribeClient,
)
from palio.routing.effects import Client, Effect, Reply
from palio.routing.entrance import Entrance
from palio.routing.keeping.keeping import Keeping
from palio.routing.messages import LOCAL, Announce
from palio.routing.neighbours import Neighbours
from palio.routing.replays import Replays
from palio.routing.tables import Tables
from palio.routing.waves import Waves

_GONE: Final = "gone "  # with the number of a broker that is not coming back: a topic of announcements


class Serving:
    """One broker's clients, as its other parts see them."""

    __slots__ = ("_announcing", "_claims", "_entrance", "_keeping", "_neighbours", "_replays", "_tables", "_waves")

    def __init__(
        self,
        tables: Tables,
        keeping: Keeping,
        entrance: Entrance,
        neighbours: Neighbours,
        waves: Waves,
        announcing: Announcing,
        replays: Replays,
        claims: Claims,
    ) -> None:
        self._tables = tables
        self._keeping = keeping
        self._entrance = entrance
        self._neighbours = neighbours
        self._waves = waves
        self._announcing = announcing
        self._replays = replays
        self._claims = claims

    def carry_out(self, client: Client, request: ClientRequest) -> list[Effect]:
        if type(request) is PublishClient:  # before all others: there are so many more of them
            return self._entrance.let_in(client, request, self._epoch)
        match request:
            case SubscribeClient():
                self._tables.subscribe(client, request.name, request.wanted)
                self._keeping.subscribed(client, request.name, request.durable)
                self._claims.subscribed(client, request.name, request.durable)
                return self._confirm(client, request)
            case UnsubscribeClient():
                self._tables.unsubscribe(client, request.name)
                self._keeping.subscribed(client, request.name, durable=False)
                self._claims.subscribed(client, request.name, durable=False)
            case AdvertiseClient():
                self._tables.advertise(client, request.name, request.offered)
                self._keeping.advertised()
            case UnadvertiseClient():
                self._tables.unadvertise(client, request.name)
            case PublishTogether():
                return self._entrance.let_in_together(client, request.events, self._epoch)
            case AnnounceClient():
                said = Announce(request.topic, request.version, request.data)
                return self._announcing.asked(client, said, self._neighbours.in_use)
            case ForgetClient():
                standing = self._keeping.standing_of(request.broker)
                if standing is None:
                    reason = f"nobody waits for a broker {request.broker} that is away"
                    return [Reply(client, Refused(reason, number=request.number))]
                told = self.announced(LOCAL, Announce(f"{_GONE}{request.broker}", standing, b""))
                return [*told, Reply(client, Accepted(request.number))]
            case ReplayClient():
                return self._replays.ask(client, request, self._neighbours.in_use, self._keeping.awaited.logs())
            case ClaimClient():
                return self._claims.ask(client, request, self._neighbours.in_use)
        return []

    @property
    def _epoch(self) -> int:
        return self._neighbours.spanning.epoch if self._neighbours.spanning is not None else 0

    def gone(self, client: Client) -> list[ClientRequest]:
        """What a client that left does not ask for any more: all but what is durable."""
        self._entrance.gone(client)
        is_durable = self._keeping.queues.is_durable
        wants = [each for each in self._tables.wants.names(client) if not is_durable(client, each)]
        offers = self._tables.offers.names(client)
        return [*map(UnsubscribeClient, wants), *map(UnadvertiseClient, offers)]

    def announced(self, interface: int, message: Announce) -> list[Effect]:
        """Something was announced to all brokers, perhaps that one of them is not coming back."""
        if message.topic.startswith(_GONE) and message.topic[len(_GONE) :].isdecimal():
            self._keeping.give_up(int(message.topic[len(_GONE) :]), message.version)
            self._claims.given_up(int(message.topic[len(_GONE) :]))
        return self._announcing.heard(interface, message, self._neighbours.others(interface))

    def _confirm(self, client: Client, request: SubscribeClient) -> list[Effect]:
        if request.confirm == "edge":
            return [Reply(client, Confirmed(request.name))]
        if request.confirm == "no":
            return []
        effects = self._tables.differences() + self._keeping.tell()
        return effects + self._waves.ask(client, request.name, self._neighbours.in_use)
