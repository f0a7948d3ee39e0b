"""What happens to an event inside a broker? It is routed with all others of its batch, sent on, and delivered.

The forwarding says over which links. For the broker's own clients content decides, whatever the forwarding: either it
knows which of their keys match, or they are looked up here, in an index that is made when it is first needed.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final

from msgspec.structs import replace

from palio.errors import PalioError
from palio.filters.filter import Filter
from palio.routing.effects import UNWANTED, Deliver, Drop, Effect, Job
from palio.routing.forwarding import headers
from palio.routing.forwarding.protocol import Arrival, Forwarding, Route, Working
from palio.routing.gates import Gate, let_out, shut_out
from palio.routing.keeping.keeping import Keeping
from palio.routing.local import LocalTable
from palio.routing.messages import LOCAL, EventId, Key, Publish
from palio.routing.outbox import Outbox
from palio.routing.seen import Seen
from palio.routing.wants import Wants

_REMEMBERED: Final = 65_536  # attempts with kept events that a broker knows to have seen


class EventPath:
    """Routes events, and hears for the forwarding what is wanted."""

    __slots__ = (
        "_arrivals",
        "_attempted",
        "_clients",
        "_forwarding",
        "_index",
        "_keeping",
        "_outbox",
        "_seen",
        "_works",
        "gates",
    )

    def __init__(self, forwarding: Forwarding, outbox: Outbox, keeping: Keeping, may_circle: bool) -> None:
        self._forwarding = forwarding
        self._works = forwarding if isinstance(forwarding, Working) else None
        self._outbox = outbox
        self._keeping = keeping
        self.gates: dict[int, Gate] = {}  # those links that not everything may pass
        self._clients: LocalTable | None = None
        self._index: Wants | None = None
        self._arrivals: list[Arrival] = []
        self._seen = Seen() if may_circle else None
        self._attempted: OrderedDict[tuple[EventId, int], None] = OrderedDict()

    def serve(self, clients: LocalTable) -> None:
        """Whom to deliver to."""
        self._clients = clients

    def take(self, arrival: Arrival) -> Drop | None:
        """An event to route at the end of the batch; one that was here before, or may not come in, is dropped."""
        if self.gates and shut_out(arrival, self.gates):
            self._keeping.pass_by(arrival)
            return Drop("not admitted by its link", arrival.message)
        if self._seen is not None:
            message = arrival.message
            kept = message.kept
            if not (self._seen.add(message.id) if kept is None else self._attempts(message.id, kept.attempt)):
                self._keeping.refuse(arrival)
                return Drop("seen before", message)
        self._arrivals.append(arrival)
        return None

    def _attempts(self, id: EventId, attempt: int) -> bool:
        """Whether this is the first that is heard of an attempt with a kept event; each is an event of its own."""
        if (id, attempt) in self._attempted:
            return False
        self._attempted[id, attempt] = None
        if len(self._attempted) > _REMEMBERED:
            self._attempted.popitem(last=False)
        return True

    def route(self) -> list[Effect]:
        """What is to be done about all that was taken."""
        if not self._arrivals:
            return []
        arrivals, self._arrivals = self._arrivals, []
        effects: list[Effect] = []
        try:
            routes = self._forwarding.route(arrivals)
            local = self._local(arrivals, routes)
        except PalioError:
            arrivals, routes, local = self._one_by_one(arrivals, effects)
        for arrival, route, keys in zip(arrivals, routes, local, strict=True):
            self._carry_out(arrival, let_out(arrival, route, self.gates) if self.gates else route, keys, effects)
        return effects

    def work(self) -> list[Job]:
        """What can be done beside everything else."""
        jobs = [each.work() for each in (self._works, self._index) if each is not None]
        return [job for job in jobs if job is not None]

    def _carry_out(self, arrival: Arrival, route: Route, keys: tuple[Key, ...], effects: list[Effect]) -> None:
        came = arrival.message
        sends = route.sends
        is_of_use = keys or arrival.interface == LOCAL or len(sends) > 1 or (sends and len(sends[0][1]) > 1)
        useless = 0 if is_of_use else came.useless + 1
        for header, links in sends:
            sent = Publish(
                came.id,
                came.body,
                b"" if header is None else headers.encode(header),
                came.hops + 1,
                useless,
                came.epoch,
                came.publisher,
                came.stamps,
                came.kept,
            )
            self._outbox.send(links, sent, effects)
        if came.kept is not None or self._keeping.has_durable:
            recipients = self._clients.recipients(keys) if keys and self._clients is not None else ()
            effects += self._keeping.routed(arrival, [link for _, links in route.sends for link in links], recipients)
        elif keys and self._clients is not None:
            effects.append(Deliver(self._clients.recipients(keys), came))
        if not keys and not sends and arrival.interface != LOCAL:
            effects.append(Drop(UNWANTED, replace(came, useless=useless), arrival.interface))

    def _local(self, arrivals: Sequence[Arrival], routes: Sequence[Route]) -> list[tuple[Key, ...]]:
        """For each event the keys of local clients that match."""
        found: list[tuple[Key, ...]] = [route.local or () for route in routes]
        if self._clients is None or not len(self._clients):
            return found
        unknown = [place for place, route in enumerate(routes) if route.local is None]
        if not unknown:
            return found
        if self._index is None:
            self._index = Wants()
            for key, filter in self._clients.keys().items():
                self._index.add(LOCAL, key, filter)
        looked_up = self._index.who([arrivals[place].event for place in unknown])
        for place, wanted in zip(unknown, looked_up, strict=True):
            found[place] = wanted.local
        return found

    def _one_by_one(
        self, arrivals: Sequence[Arrival], effects: list[Effect]
    ) -> tuple[list[Arrival], list[Route], list[tuple[Key, ...]]]:
        """Where some body cannot be read, the others are routed all the same."""
        readable: list[Arrival] = []
        routes: list[Route] = []
        local: list[tuple[Key, ...]] = []
        for arrival in arrivals:
            try:
                found = self._forwarding.route([arrival])
                local += self._local([arrival], found)
            except PalioError as error:
                effects.append(Drop(f"unreadable: {error}", arrival.message))
                if arrival.message.kept is not None:
                    effects += self._keeping.routed(arrival, (), ())
                continue
            readable.append(arrival)
            routes += found
        return readable, routes, local

    # What is wanted

    def opened(self, interface: int) -> None:
        self._forwarding.opened(interface)

    def closed(self, interface: int) -> None:
        self._forwarding.closed(interface)

    def added(self, interface: int, key: Key, wanted: Filter) -> None:
        self._forwarding.added(interface, key, wanted)
        if interface == LOCAL and self._index is not None:
            self._index.add(LOCAL, key, wanted)

    def removed(self, interface: int, key: Key) -> None:
        self._forwarding.removed(interface, key)
        if interface == LOCAL and self._index is not None:
            self._index.remove(LOCAL, key)
