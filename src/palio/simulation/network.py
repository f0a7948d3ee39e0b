"""A network of brokers in virtual time, to try things out on, and to test applications with.

Whatever is asked of it takes effect at the present virtual time; `run` lets time pass until everything is quiet.
Nothing depends on the clock, the machine or the order of hashes: a seed gives the same run, step by step, everywhere.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path
from random import Random
from typing import Any, Self, get_args

from palio.errors import InvalidArgument, NotAdvertised, PalioError
from palio.events import Event
from palio.filters.filter import Filter
from palio.routing.clients import (
    AdvertiseClient,
    AnnounceClient,
    ClientRequest,
    Confirm,
    ForgetClient,
    Past,
    ReplayClient,
    UnadvertiseClient,
    UnsubscribeClient,
)
from palio.routing.codec import decode_event
from palio.routing.combinations import Combination
from palio.routing.effects import Deliver, Reply, Requested
from palio.routing.forwarding.prefix.optimiser_client import OptimiserClient
from palio.routing.messages import Report
from palio.simulation import measured, topologies
from palio.simulation.brokers import Brokers
from palio.simulation.clients import Clients
from palio.simulation.history import Advertisement, Publication, Subscription
from palio.simulation.hosts import Host
from palio.simulation.oracle import Verdict, judge
from palio.simulation.topologies import Topology

_OPERATOR = "operator"  # the client that gives brokers up
_EVERYBODY = "application"  # the client that acts where none is named
_OPTIMISER = "optimiser"  # the client that makes routing trees


class Network(Brokers):
    """Brokers and links. `Network.line`, `star`, `tree`, `random`, `mesh` and `from_graph` make the usual ones.

    >>> net = Network.line(3, propagation="covering")
    >>> desk = net.subscribe(at=0, where="price > 100")
    >>> event = net.publish(at=2, event={"price": 120})
    >>> net.run()
    >>> [(each.subscription is desk, each.event.get("price"), each.at) for each in net.deliveries]
    [(True, 120, 0)]
    """

    def __init__(
        self,
        topology: Topology,
        *,
        propagation: str = "identity",
        forwarding: str = "content",
        advertisements: bool = False,
        upkeep: str = "hard",
        seed: int = 0,
        options: Mapping[str, Any] | None = None,
    ) -> None:
        """A network in which every broker makes the same choices; `IllegalCombination` where they do not go together.

        Options: how links behave (`delay`, `jitter`, `loss`, `duplication`, `reordering`, `bandwidth`), `session` to
        repair them, `disk` for the seconds that writing takes, `drift` for the share by which clocks go wrong, `queue`
        for the events that may wait for a link, and those of propagation and forwarding: `slack` of merging, `mode` and
        `n` of reuse, `tree` of prefix (with `threshold` and, for the broker at which trees are made, `optimiser`).
        Where the links have circles, brokers agree on a spanning tree.
        """
        chosen = {**({"circles": True} if topology.has_circles else {}), **(options or {})}
        super().__init__(topology, Combination(propagation, forwarding, advertisements, upkeep, chosen), seed)
        self._clients = Clients(self.history)
        self.deliveries = self._clients.deliveries
        self.confirmations = self._clients.confirmations
        self.cancellations = self._clients.cancellations
        self._optimiser = OptimiserClient(self.combination.options) if self.combination.has_optimiser else None
        if self._optimiser is not None:
            self._announce(self._optimiser.announcement())

    # Shapes

    @classmethod
    def line(cls, brokers: int, **choices: Any) -> Self:
        """One after the other."""
        return cls(topologies.line(brokers), **choices)

    @classmethod
    def star(cls, brokers: int, **choices: Any) -> Self:
        """All around broker 0."""
        return cls(topologies.star(brokers), **choices)

    @classmethod
    def tree(cls, brokers: int, children: int = 3, **choices: Any) -> Self:
        """A hierarchy with broker 0 at its top."""
        return cls(topologies.tree(brokers, children), **choices)

    @classmethod
    def random(cls, brokers: int, *, seed: int = 0, **choices: Any) -> Self:
        """Peers in a random tree, which the seed decides as well."""
        return cls(topologies.random_tree(brokers, Random(seed)), seed=seed, **choices)

    @classmethod
    def mesh(cls, brokers: int, extra: int | None = None, *, seed: int = 0, **choices: Any) -> Self:
        """A random tree with so many links more, half as many as brokers unless given."""
        more = brokers // 2 if extra is None else extra
        return cls(topologies.random_mesh(brokers, more, Random(seed)), seed=seed, **choices)

    @classmethod
    def from_graph(cls, graph: Any, **choices: Any) -> Self:
        """The links of a networkx graph; `delay` of an edge, in seconds, is that of the link. Brokers are numbered in
        the order of the graph's nodes."""
        return cls(measured.from_graph(graph)[0], **choices)

    @classmethod
    def from_file(cls, path: str | Path, hosts: int | None = None, **choices: Any) -> Self:
        """A real network: JSON with `nodes` and `edges`, or a matrix of measured round-trip times in milliseconds, of
        which the first so many hosts are taken."""
        return cls(measured.from_file(path, hosts), **choices)

    # What clients do

    def subscribe(
        self,
        at: int,
        where: Any,
        *,
        language: str = "sql",
        confirm: Confirm = "no",
        client: str = _EVERYBODY,
        durable: bool = False,
    ) -> Subscription:
        """Somebody at a broker wants events: text, JSON for JSON languages, or a Filter.

        With `confirm`, `confirmations` will have the time at which the broker had stored it (`edge`) or at which all
        brokers knew that it was joined to then (`network`); links come up when a network first runs. A `durable` one
        has a queue on the broker's disk, see `queue`.
        """
        if confirm not in get_args(Confirm):
            raise InvalidArgument(f"a subscription is confirmed by {', '.join(get_args(Confirm))}, not {confirm!r}")
        wanted = where if isinstance(where, Filter) else Filter.parse(where, language=language)
        host = self._host(at)
        made = self._clients.subscription(at, wanted, client, durable)
        self._change(host, client, self._clients.request(made, confirm))
        return made

    def unsubscribe(self, subscription: Subscription) -> None:
        """Its subscriber wants no more."""
        host = self._host(subscription.at)
        life = self.history.subscriptions.get(subscription)
        if life is None or life.ended is not None:
            raise InvalidArgument(f"there is no {subscription}")
        self.history.end(life)
        self._change(host, subscription.client, UnsubscribeClient(str(subscription.number)))

    def advertise(self, at: int, where: Any, *, language: str = "sql", client: str = _EVERYBODY) -> Advertisement:
        """Somebody at a broker is going to publish such events."""
        offered = where if isinstance(where, Filter) else Filter.parse(where, language=language)
        host = self._host(at)
        made = self._clients.advertisement(at, offered, client)
        self._change(host, client, AdvertiseClient(str(made.number), offered))
        return made

    def unadvertise(self, advertisement: Advertisement) -> None:
        """They are not going to any more."""
        host = self._host(advertisement.at)
        life = self.history.advertisements.get(advertisement)
        if life is None or life.ended is not None:
            raise InvalidArgument(f"advertisement {advertisement.number} is not there")
        self.history.end(life)
        self._change(host, advertisement.client, UnadvertiseClient(str(advertisement.number)))

    def publish(
        self,
        at: int,
        event: Event | Mapping[str, Any] | str | bytes,
        *,
        settled: bool = True,
        client: str = _EVERYBODY,
        header: bytes = b"",
        confirm: bool = False,
    ) -> Event:
        """Something happened, and somebody at a broker says so; the event as it was published.

        Whatever was asked for before settles first; with `settled=False` the event races it. Where advertisements are
        on, `NotAdvertised` for an event that the client at this broker has not advertised. A `header` is what was
        written ahead with the broker's `entry_table`. With `confirm` the broker writes the event down, and it will be
        in every durable queue that it is for, whatever breaks; see `is_confirmed`.
        """
        return self.publish_all(at, [event], settled=settled, client=client, headers=[header], confirm=confirm)[0]

    def publish_all(
        self,
        at: int,
        events: Iterable[Event | Mapping[str, Any] | str | bytes],
        *,
        settled: bool = True,
        client: str = _EVERYBODY,
        headers: Iterable[bytes] = (),
        confirm: bool = False,
    ) -> list[Event]:
        """Many events at once, as one batch of their broker; with headers, one for each."""
        host = self._host(at)
        if settled and self._unsettled:
            self.run()
        named = [self._clients.event(event) for event in events]
        ahead = list(headers) or [b""] * len(named)
        requests = [
            Requested(client, self._clients.publish(at, event, header, confirm), self.now)
            for event, header in zip(named, ahead, strict=True)
        ]
        self._clients.refusals.clear()
        operation = self.history.next()
        components = self._components()
        owed = self.history.owed(at) if confirm else ()
        after = self.history.rests
        published = [Publication(event, at, client, operation, after, components, confirm, owed) for event in named]
        self.history.publications += published
        self._world.handle(host, requests)
        if self._clients.refusals:
            [refused, *_] = self._clients.refusals
            self.history.publications = self.history.publications[: -len(published)]
            reason = f"an event at broker {at} was refused: {refused.reason}"
            raise NotAdvertised(reason) if refused.kind == "unadvertised" else PalioError(reason)
        return named

    def is_confirmed(self, event: Event) -> bool:
        """Whether the broker that let an event in has confirmed it."""
        return event.id in self.history.accepted

    def queue(self, subscription: Subscription) -> list[Event]:
        """What is in the queue of a durable subscription, on the disk of its broker."""
        kept = self._world.hosts[subscription.at].disk.queues.get((subscription.client, str(subscription.number)), [])
        return [decode_event(each.body) for each in kept]

    def replay(
        self,
        at: int,
        where: Any = "TRUE",
        *,
        since: float = 0.0,
        places: Mapping[int, int] | None = None,
        limit: int = 500,
    ) -> Past:
        """What was confirmed since a virtual time, or from places in some logs; asked at a broker, and waited for."""
        wanted = where if isinstance(where, Filter) else Filter.parse(where)
        number = len(self._clients.pasts) + 1
        request = ReplayClient(number, wanted, since, tuple(sorted((places or {}).items())), limit)
        self._world.handle(self._host(at), [Requested(_EVERYBODY, request, self.now)])
        self.run()
        return self._clients.pasts[number]

    def forget(self, at: int, broker: int) -> None:
        """An operator at a broker says that another one is not coming back: no event waits for it any more."""
        self._change(self._host(at), _OPERATOR, ForgetClient(broker))

    def restart(self, broker: int) -> None:
        """Begin a new life of a broker that crashed, with what it had written down.

        Clients ask again for what they were not answered.
        """
        super().restart(broker)
        if self._optimiser is not None and broker == self.combination.options.get("optimiser", 0):
            self._announce(self._optimiser.announcement())
        host = self._host(broker)
        for client, request in list(self._clients.unanswered(host)):
            self._change(host, client, request)

    def verdict(self) -> Verdict:
        """What the flooding oracle says of all deliveries so far."""
        return judge(self.history, self.deliveries, [] if self._unsettled else self._joined())

    def draw(self, path: str | Path) -> None:
        """Draw the network with the traffic on its links; `path` ends with .svg or .png."""
        from palio.simulation.drawing import draw

        draw(self, path)

    # How it is done

    def _change(self, host: Host, client: str, request: ClientRequest) -> None:
        self._unsettled = True
        self._world.handle(host, [Requested(client, request, self.now)])

    def _delivered(self, at: int, deliver: Deliver) -> None:
        self._clients.delivered(at, deliver, self.now, self.trace)

    def _replied(self, at: int, reply: Reply) -> None:
        if not isinstance(reply.answer, Report):
            self._clients.replied(at, reply, self.now)
        elif self._optimiser is not None:
            made = self._optimiser.reported(reply.answer)
            if made is not None:
                self._announce(made)

    def _announce(self, made: AnnounceClient) -> None:
        """Let the maker of routing trees say something to its broker."""
        host = self._host(int(self.combination.options.get("optimiser", 0)))
        self._world.plan_input(host.number, Requested(_OPTIMISER, made, self.now))
