"""Simulated network: brokers, links and clients in virtual time, to try things out on and to test applications with.

A call takes effect at the present virtual time; `run` lets time pass until everything is quiet. Nothing depends on the
clock, the machine or the order of hashes: a seed gives the same run, step by step, everywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from math import inf
from pathlib import Path
from random import Random
from typing import Any, Self, TypeVar, get_args

from palio.errors import InvalidArgument, NotAdvertised, PalioError
from palio.events import Event
from palio.filters.filter import Filter
from palio.routing.client_messages import (
    AdvertiseClient,
    Confirm,
    ForgetClient,
    Past,
    PromoteClient,
    Refused,
    ReplayClient,
    UnadvertiseClient,
    UnsubscribeClient,
)
from palio.routing.codec import decode_event
from palio.routing.combinations import Combination
from palio.routing.durable_settings import DurableSettings
from palio.routing.effects import Deliver, HomeEpoch, Persist, QueueFree, QueueFull, Recipient, Record, Reply, Requested
from palio.routing.forwarding.precomputed_headers import TableSnapshot
from palio.routing.strategies import (
    CrashLog,
    ForwardingChoice,
    Options,
    PathUpkeep,
    Propagation,
    TableUpkeep,
    name_and_options,
)
from palio.simulation import topologies
from palio.simulation.clients import Clients
from palio.simulation.community_network import CommunityNetwork
from palio.simulation.engine import DueCall, Engine
from palio.simulation.fault_injection import FaultInjector
from palio.simulation.faults import Faults, FaultSchedule, scheduled
from palio.simulation.history import Advertisement, Completion, Delivery, History, Publication, Subscription
from palio.simulation.hosts import Host
from palio.simulation.network_changes import ChangingNetwork, check_seed
from palio.simulation.oracle import Verdict, judge
from palio.simulation.peer_network import ChordNetwork
from palio.simulation.properties import Violation, find_undelivered, find_unsafe
from palio.simulation.topologies import Topology

_Handle = TypeVar("_Handle", Subscription, Advertisement, Event)
_OPERATOR = "operator"  # the client that gives brokers up
_APPLICATION = "application"  # the client that acts where none is named
_BLOCK_SECONDS = 10.0
_NO_FAULTS = FaultSchedule()


class Network(ChangingNetwork):
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
        propagation: str | Propagation = "identity",
        forwarding: str | ForwardingChoice = "content",
        advertisements: bool = False,
        tables: str | TableUpkeep = "hard",
        crash_log: str | CrashLog = "none",
        paths: str | PathUpkeep = "tree",
        seed: int = 0,
        options: Mapping[str, Any] | Options | Sequence[Options] = (),
        sealing_keys: Mapping[int, Sequence[bytes]] | None = None,
        faults: Faults | FaultSchedule = _NO_FAULTS,
    ) -> None:
        """A network in which every broker makes the same choices; `IllegalCombination` where they do not go together.

        Strategies are names, or have options of their own: `Merging(slack=0.1)`, `Reuse(mode="always")`. `options` are
        those that go with every strategy, `BrokerOptions` and `SimulationOptions` for links, disks and clocks; or a
        mapping from the names of all options to their values, as a command line has them. Where the links have circles,
        brokers agree on a spanning tree.

        `sealing_keys` are those of each edge broker, 64 bytes each, of which the first seals: then all others are inner
        brokers, which cannot read events.

        `faults` come as time passes, until `heal`; those of links and clocks are options that they set.
        """
        if not isinstance(topology, Topology):
            raise InvalidArgument(f"a network is made of a Topology, not {type(topology).__name__}; or by Network.line")
        check_seed(seed)
        given = [name_and_options(each) for each in (propagation, forwarding, tables, crash_log, paths)]
        # Backups are found where brokers agree on a tree, also where it is the only one.
        needs_tree = topology.has_circles or given[-1][0] == "failover"
        chosen: dict[str, Any] = {"circles": True} if needs_tree else {}
        for each in (*_given_options(options), *(own for _, own in given)):
            chosen |= each
        if sealing_keys is not None:
            chosen["sealed"] = True
        self.faults = scheduled(faults, topology)
        for name in self.faults.options().keys() & chosen.keys():
            raise InvalidArgument(f"{name} is given twice: as an option, and by the faults, which set it")
        chosen |= self.faults.options()
        self.topology = topology
        spread, forward, *upkeep = (name for name, _ in given)
        self.combination = Combination(
            spread, forward, advertisements, tables=upkeep[0], crash_log=upkeep[1], paths=upkeep[2], options=chosen
        )
        self.seed = seed
        self.history = History(bool(chosen.get("disk")), advertisements)
        self._unsettled = True
        self._is_delivering = False  # within the batch of a broker, which nothing may interrupt
        self._is_calling = False  # within a scheduled call, in which no time passes
        self._wrong_until = -inf  # tables that were corrupted are right again by then
        self._parts: tuple[int, ...] | None = None
        self._engine = Engine(
            topology,
            self.combination,
            seed,
            self._on_deliver,
            self._on_reply,
            self._on_crash,
            self._on_epoch,
            self._on_late_write,
            sealing_keys or {},
        )
        self.history.clock = lambda: self._engine.now
        self._injector = FaultInjector(self, self._engine, self.faults, self._fill_disk)
        self.healed_at = 0.0
        self._clients = Clients(self.history, "completeness" in chosen)
        self.completions = self._clients.completions
        self.deliveries = self._clients.deliveries
        self.confirmations = self._clients.confirmations
        self.cancellations = self._clients.cancellations

    # Shapes

    @staticmethod
    def chord(peers: int, **choices: Any) -> ChordNetwork:
        """No brokers at all: peers on a Chord ring, on which subscriptions and events meet. Its choices are those of
        `ChordNetwork`."""
        return ChordNetwork(peers, **choices)

    @staticmethod
    def communities(peers: int, **choices: Any) -> CommunityNetwork:
        """No brokers at all: peers whose neighbours have similar interests. Its choices are those of
        `CommunityNetwork`."""
        return CommunityNetwork(peers, **choices)

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
        check_seed(seed)
        return cls(topologies.random_tree(brokers, Random(seed)), seed=seed, **choices)

    @classmethod
    def mesh(cls, brokers: int, extra: int | None = None, *, seed: int = 0, **choices: Any) -> Self:
        """A random tree with `extra` further links, by default half as many as there are brokers."""
        check_seed(seed)
        more = brokers // 2 if extra is None and isinstance(brokers, int) else extra
        return cls(topologies.random_mesh(brokers, more, Random(seed)), seed=seed, **choices)

    @classmethod
    def from_graph(cls, graph: Any, **choices: Any) -> Self:
        """The links of a networkx graph; `delay` of an edge, in seconds, is that of the link. Brokers are numbered in
        the order of the graph's nodes."""
        return cls(topologies.from_graph(graph)[0], **choices)

    @classmethod
    def from_file(cls, path: str | Path, hosts: int | None = None, **choices: Any) -> Self:
        """A real network: JSON with `nodes` and `edges`, or a matrix of measured round-trip times in milliseconds, of
        which the first `hosts` are taken."""
        return cls(topologies.from_file(path, hosts), **choices)

    # Time

    def run(self, seconds: float | None = None) -> None:
        """Let time pass, until the network is quiet and all faults have come and gone; or for some virtual seconds."""
        if seconds is not None and not _is_duration(seconds):
            raise InvalidArgument(f"time passes for some seconds from 0 on, not {seconds!r}")
        if self._is_calling or self._is_delivering:
            raise InvalidArgument("time passes already: what runs within it can only schedule what comes later")
        if seconds is not None:
            self._run(self.now + seconds)
            return
        self._run(None)
        while (fault := self._injector.next_time()) is not None:
            self._run(fault)
            self._run(None)

    def schedule(self, seconds: float, call: Callable[[], object]) -> None:
        """Call something after some virtual seconds; `run` waits for it. It may publish, subscribe, crash and cut, as
        between two runs, and schedule again. So may `on_delivery`, which thus answers events. What it publishes races
        earlier requests."""
        if not _is_duration(seconds):
            raise InvalidArgument(f"a call is scheduled after some seconds from 0 on, not {seconds!r}")
        if not callable(call):
            raise InvalidArgument(f"what is scheduled is called without arguments; {call!r:.80} cannot be called")
        self._unsettled = True
        self._engine.queue.schedule(float(seconds), DueCall(partial(self._call, call)))

    def _call(self, call: Callable[[], object]) -> None:
        self._is_calling = True
        try:
            call()
        finally:
            self._is_calling = False

    def heal(self) -> None:
        """End all faults that the network was made with: brokers restart, links are mended and lose nothing, disks have
        room, and no more faults come. What they left behind goes as the chosen upkeep says. Clocks stay as they are."""
        self._injector.heal()
        self.healed_at = self.now

    def _run(self, until: float | None) -> None:
        # Only where the network came to rest: the oracle demands nothing of requests that are still under way.
        if self._engine.run(until):
            self.history.rest(self._joined)
            for subscription in self._clients.standbys:
                if self.standby(subscription) is not None:
                    self.history.guard(subscription, self._joined())
            self._unsettled = False

    # Clients

    def subscribe(
        self,
        at: int,
        where: Any,
        *,
        language: str = "sql",
        confirm: Confirm = "no",
        client: str = _APPLICATION,
        durable: bool = False,
        settings: DurableSettings | None = None,
        standby: int | None = None,
        on_delivery: Callable[[Delivery], None] | None = None,
        lease: float | None = None,
    ) -> Subscription:
        """Subscribe at a broker by a condition: text, JSON for JSON languages, or a Filter.

        With `confirm`, `confirmations` will have the time at which the broker had stored it (`edge`) or at which all
        brokers knew that it was joined to then (`network`); links come up when a network first runs. A `durable` one
        has a queue on the broker's disk, see `queue`, with its `settings`, and perhaps another one at a `standby`,
        which can take over, see `promote`. `on_delivery` is called with each delivery as it comes; it may look at the
        network, and `schedule` what changes it.

        With a `lease` of some seconds the broker ends the subscription so long after `subscribe` or `extend`, whatever
        the tables; `run()` does not wait for that, `run(seconds)` does. A durable one has no lease.
        """
        if lease is not None and (durable or not _is_duration(lease) or not lease):
            what = "a durable subscription has no lease" if durable else f"a lease is of seconds above 0, not {lease!r}"
            raise InvalidArgument(what)
        if confirm not in get_args(Confirm):
            raise InvalidArgument(f"a subscription is confirmed by {', '.join(get_args(Confirm))}, not {confirm!r}")
        _check_client(client)
        if durable and self.combination.durable_refusal:
            raise InvalidArgument(self.combination.durable_refusal)
        wanted = where if isinstance(where, Filter) else Filter.parse(where, language=language)
        host = self._edge_host(at)
        if standby is not None and (not durable or self._edge_host(standby) is host):
            raise InvalidArgument("a standby is another broker than the home, of a durable subscription")
        made = self._clients.subscription(at, wanted, client, durable)
        if on_delivery is not None:
            self._clients.listeners[made] = on_delivery
        if standby is not None:
            self._clients.standbys[made] = str(standby)
        request = self._clients.request(made, confirm, settings, self._clients.standbys.get(made, ""))
        self._change(host, client, request)
        if lease is not None:
            self._begin_lease(made, float(lease))
        return made

    def extend(self, subscription: Subscription) -> None:
        """Begin the lease of a subscription anew, with its whole length."""
        lease = self._clients.leases.get(_made(subscription, Subscription, "subscribe"))
        if lease is None:
            raise InvalidArgument(f"{subscription} has no lease, or it has ended")
        self._begin_lease(subscription, lease[0])

    def _begin_lease(self, subscription: Subscription, seconds: float) -> None:
        self._clients.leases[subscription] = seconds, self.now + seconds
        end = DueCall(partial(self._end_lease, subscription, self.now + seconds))
        # As upkeep: a run that waits until the network is quiet does not wait for the ends of leases.
        self._engine.queue.schedule_at(self.now + seconds, end, upkeep=True)

    def _end_lease(self, subscription: Subscription, at: float) -> None:
        lease, life = self._clients.leases.get(subscription), self.history.subscriptions[subscription]
        if lease is None or lease[1] != at or life.ended is not None:
            return  # it was extended, or unsubscribed
        del self._clients.leases[subscription]
        self.history.end(life)
        host = self._engine.hosts[subscription.at]
        # A broker that is down learns of it when it restarts, as of every request without an answer.
        if host.node is not None:
            self._change(host, subscription.client, UnsubscribeClient(str(subscription.number)))

    def deliveries_of(self, subscription: Subscription) -> list[Delivery]:
        """The deliveries to one subscription, in order."""
        return list(self._clients.by_subscription.get(_made(subscription, Subscription, "subscribe"), ()))

    def complete_up_to(self, subscription: Subscription, broker: int) -> Completion | None:
        """The last stretch of a broker's events of which a subscription has all that it wanted; None before the first.
        It needs the option `completeness`."""
        stretches = (each for each in reversed(self.completions) if each.subscription is subscription)
        return next((each for each in stretches if each.broker == broker), None)

    def unsubscribe(self, subscription: Subscription) -> None:
        """End a subscription."""
        host = self._host(self.history.place(_made(subscription, Subscription, "subscribe")))
        life = self.history.subscriptions.get(subscription)
        if life is None or life.ended is not None:
            raise InvalidArgument(f"there is no {subscription}")
        self.history.end(life)
        self._change(host, subscription.client, UnsubscribeClient(str(subscription.number)))

    def advertise(self, at: int, where: Any, *, language: str = "sql", client: str = _APPLICATION) -> Advertisement:
        """Advertise, at a broker, events that will be published."""
        _check_client(client)
        offered = where if isinstance(where, Filter) else Filter.parse(where, language=language)
        host = self._edge_host(at)
        made = self._clients.advertisement(at, offered, client)
        self._change(host, client, AdvertiseClient(str(made.number), offered))
        return made

    def unadvertise(self, advertisement: Advertisement) -> None:
        """End an advertisement."""
        host = self._host(_made(advertisement, Advertisement, "advertise").at)
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
        client: str = _APPLICATION,
        header: bytes = b"",
        confirm: bool = False,
    ) -> Event:
        """Publish an event at a broker; the event as it was published.

        All earlier requests settle first; with `settled=False` the event races them. Where advertisements are
        on, `NotAdvertised` for an event that the client at this broker has not advertised. A `header` is what was
        written ahead with the broker's `entry_table`. With `confirm` the broker logs the event, and it will be
        in every durable queue that it is for, whatever breaks; see `is_confirmed`.
        """
        return self.publish_all(at, [event], settled=settled, client=client, headers=[header], confirm=confirm)[0]

    def publish_all(
        self,
        at: int,
        events: Iterable[Event | Mapping[str, Any] | str | bytes],
        *,
        settled: bool = True,
        client: str = _APPLICATION,
        headers: Iterable[bytes] = (),
        confirm: bool = False,
    ) -> list[Event]:
        """Publish events as one batch of their broker; with headers, one for each."""
        _check_client(client)
        host = self._edge_host(at)
        if settled and self._unsettled and not self._is_calling:
            self._run(None)  # not until all faults are over
        if self.now <= self._wrong_until:
            self._unsettled = True
            self.history.corrupted.add(self.history.rests)
        if isinstance(events, str | bytes | Mapping) or not hasattr(events, "__iter__"):
            raise InvalidArgument(f"publish_all takes a list of events, not {type(events).__name__}; publish takes one")
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
        guarded = tuple(each for each in owed if at in self.history.guarded.get(each, ()))
        after = self.history.rests
        published = [
            Publication(event, at, client, operation, after, components, confirm, owed, self.now, guarded)
            for event in named
        ]
        self.history.publications += published
        self._engine.handle(host, requests)
        # Refusals are answered within the batch. A refused event was never published, also for the oracle.
        if self._clients.refusals:
            [refused, *_] = self._clients.refusals
            self.history.publications = self.history.publications[: -len(published)]
            reason = f"an event at broker {at} was refused: {refused.reason}"
            raise NotAdvertised(reason) if refused.kind == "unadvertised" else PalioError(reason)
        return named

    def is_confirmed(self, event: Event) -> bool:
        """Whether the broker that accepted an event has confirmed it."""
        return _made(event, Event, "publish").id in self.history.accepted

    def queue(self, subscription: Subscription) -> list[Event]:
        """The events in the queue of a durable subscription, on the disk of its broker."""
        at = self.history.place(_made(subscription, Subscription, "subscribe"))
        kept = self._engine.hosts[at].disk.queues.get((subscription.client, str(subscription.number)), [])
        return [decode_event(each.body) for each in kept]

    def set_queue_full(self, subscription: Subscription, is_full: bool) -> None:
        """Let the queue of a durable subscription refuse events, or take them again; that of another one hold the
        publishers of its events back, at other brokers for 10 seconds at most."""
        at = self.history.place(_made(subscription, Subscription, "subscribe"))
        owner = subscription.client, str(subscription.number)
        self._unsettled = True
        self._engine.handle(self._host(at), [QueueFull(*owner, _BLOCK_SECONDS) if is_full else QueueFree(*owner)])

    def unfinished(self, at: int) -> int:
        """The number of events that a broker confirmed and that are not known to be in all their durable queues."""
        node = self._host(at).node
        return 0 if node is None else node.broker.delivery.unfinished

    def dead_letters(self, at: int) -> list[Event]:
        """The events that became dead letters at a broker."""
        return [decode_event(each.body) for each in self._engine.hosts[at].disk.dead_letters]

    def replay(
        self,
        at: int,
        where: Any = "TRUE",
        *,
        since: float = 0.0,
        places: Mapping[int, int] | None = None,
        limit: int = 500,
    ) -> Past:
        """Replay events confirmed since a virtual time, or from offsets in some logs; runs until they are there."""
        if places is not None and not isinstance(places, Mapping):
            raise InvalidArgument(f"places map brokers to offsets in their logs, not {type(places).__name__}")
        if type(limit) is not int or limit < 1:
            raise InvalidArgument(f"limit is a number of events from 1 on, not {limit!r:.80}")
        wanted = where if isinstance(where, Filter) else Filter.parse(where)
        number = len(self._clients.pasts) + 1
        request = ReplayClient(number, wanted, since, tuple(sorted((places or {}).items())), limit)
        self._engine.handle(self._host(at), [Requested(_APPLICATION, request, self.now)])
        self.run()
        return self._clients.pasts[number]

    def forget(self, at: int, broker: int) -> None:
        """Give up a broker that is not coming back, as an operator at another one: no event waits for it any more."""
        if not isinstance(broker, int):
            raise InvalidArgument(f"a broker is named by its number, not {broker!r:.80}")
        self._change(self._host(at), _OPERATOR, ForgetClient(broker))

    def standby(self, subscription: Subscription) -> int | None:
        """The standby of a durable subscription, as the disk of its home has it."""
        place = self.history.place(_made(subscription, Subscription, "subscribe"))
        epoch = self._engine.hosts[place].disk.epochs.get((subscription.client, str(subscription.number)))
        return None if epoch is None else epoch.standby

    def promote(self, subscription: Subscription) -> None:
        """Make the standby of a durable subscription its home, as an operator there. Its client goes on at that broker,
        and gets all again that waits in the queue."""
        name, client = str(_made(subscription, Subscription, "subscribe").number), subscription.client
        epochs = ((host, host.disk.epochs.get((client, name))) for host in self._engine.hosts)
        standbys = [host for host, epoch in epochs if epoch is not None and epoch.home != host.number]
        if not standbys:
            raise InvalidArgument(f"{subscription} has no standby")
        # Of several the one that was a standby last; an older one has yet to learn that it is none any more.
        last = max(standbys, key=lambda host: host.disk.epochs[client, name].epoch)
        self._change(self._host(last.number), _OPERATOR, PromoteClient(client, name))

    def _on_epoch(self, at: int, epoch: HomeEpoch) -> None:
        if epoch.home != at or epoch.former is None:
            return
        moved = self._clients.move(epoch.client, epoch.name, at)
        if moved is not None:
            for event in self._engine.hosts[at].disk.queues.get((epoch.client, epoch.name), []):
                self._on_deliver(at, Deliver((Recipient(epoch.client, (epoch.name,)),), event))

    def entry_table(self, at: int) -> TableSnapshot:
        """The tables of a broker, for a job that writes the headers of events in its stead."""
        node = self._host(at).node
        table = None if node is None else node.broker.entry_table()
        if table is None:
            raise InvalidArgument(f"{self.combination.forwarding} forwarding has no headers that others could write")
        return table

    def verdict(self) -> Verdict:
        """The judgement of the flooding oracle on all deliveries so far."""
        return judge(self.history, self.deliveries, [] if self._unsettled else self._joined())

    def safety(self, since: float = 0.0) -> list[Violation]:
        """The deliveries since a time that break safety: twice, of an event that nobody published, or unwanted. None
        since some time is eventual safety."""
        return find_unsafe(self.history, self.deliveries, since)

    def liveness(self, since: float) -> list[Violation]:
        """The deliveries that are missing of events published since a time, to subscriptions that stood by then and
        stand now; ask when the network has come to rest."""
        return find_undelivered(self.history, self.deliveries, since)

    # Internals

    def _on_deliver(self, at: int, deliver: Deliver) -> None:
        self._is_delivering = True
        try:
            self._clients.record_delivery(at, deliver, self.now, self._engine.age(at, deliver.event), self.trace)
        finally:
            self._is_delivering = False

    def _on_reply(self, at: int, reply: Reply) -> None:
        self._clients.record_reply(at, reply, self.now)
        # A slow broker may answer only after its disk had room again and the request was repeated.
        host = self._engine.hosts[at]
        if isinstance(reply.answer, Refused) and host.is_disk_full:
            name = reply.answer.name
            self._clients.postpone(at, reply.client, name, host.disk.knows(reply.client, name))

    def _on_late_write(self, at: int, persist: Persist, handled_at: float) -> None:
        for record in persist.records:
            if isinstance(record, Record) and isinstance(record.request, UnsubscribeClient):
                self._clients.end_late(at, record.client, record.request.name, handled_at)

    def _edge_host(self, at: int) -> Host:
        """A broker that may have clients."""
        host = self._host(at)
        keys = None if host.node is None else host.node.broker.keys
        if keys is not None and keys.is_empty:
            raise InvalidArgument(f"broker {at} has no key of sealed events, and only forwards them: it has no clients")
        return host


def _is_duration(seconds: Any) -> bool:
    return isinstance(seconds, int | float) and 0 <= seconds < inf


def _check_client(client: str) -> None:
    if not isinstance(client, str):
        raise InvalidArgument(f"a client is named by a text, not {client!r:.80}")


def _made(given: _Handle, kind: type[_Handle], call: str) -> _Handle:
    """What a call has returned; refused where it is something else."""
    if not isinstance(given, kind):
        raise InvalidArgument(f"the {kind.__name__} that {call} returned is needed, not {type(given).__name__}")
    return given


def _given_options(options: Any) -> list[Mapping[str, Any]]:
    if isinstance(options, Mapping):
        return [options]
    if isinstance(options, Options):
        return [options.given()]
    if isinstance(options, Sequence) and all(isinstance(each, Options) for each in options):
        return [each.given() for each in options]
    raise InvalidArgument(f"options are a mapping of names to values, or typed options, not {type(options).__name__}")
