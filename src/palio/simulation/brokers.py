"""Brokers and links in virtual time: what befalls them, and what can be seen of them."""

from __future__ import annotations

from math import inf

from palio.errors import InvalidArgument
from palio.filters.filter import Filter
from palio.routing.combinations import Combination
from palio.routing.effects import Deliver, Reply
from palio.routing.forwarding.annotated import EntryTable
from palio.simulation.history import History
from palio.simulation.hosts import Host
from palio.simulation.links import Edge
from palio.simulation.topologies import Topology
from palio.simulation.trace import Trace
from palio.simulation.traffic import Traffic
from palio.simulation.views import components, links_in_use, tables
from palio.simulation.world import World


class Brokers:
    """A network without clients: it runs, breaks, is repaired, and can be looked at."""

    def __init__(self, topology: Topology, combination: Combination, seed: int) -> None:
        self.topology = topology
        self.combination = combination
        self.seed = seed
        self.history = History(bool(combination.options.get("disk")), combination.advertisements)
        self._unsettled = True
        self._parts: tuple[int, ...] | None = None
        self._world = World(topology, combination, seed, self._delivered, self._replied, self._crashed)

    def run(self, seconds: float | None = None) -> None:
        """Let time pass, until nothing is to come; or for so many virtual seconds."""
        if seconds is not None and not 0 <= seconds < inf:
            raise InvalidArgument(f"time passes for some seconds from 0 on, not {seconds!r}")
        if self._world.run(None if seconds is None else self.now + seconds):
            self.history.rest(self._joined)
            self._unsettled = False

    def cut(self, link: tuple[int, int]) -> None:
        """Break the link between two brokers; what is under way on it is lost."""
        edge = self._edge(link)
        if not edge.cut:
            self._disturb()
            edge.cut = True
            self._world.disconnect(edge)

    def mend(self, link: tuple[int, int]) -> None:
        """Repair a link that was cut."""
        edge = self._edge(link)
        if edge.cut:
            self._disturb()
            edge.cut = False
            self._world.connect(edge)

    def crash(self, broker: int, after: int = 0) -> None:
        """End a broker without a word: now, or after it has carried out so many more effects."""
        host = self._host(broker)
        if after < 0:
            raise InvalidArgument(f"a broker crashes after some effects from 0 on, not {after}")
        self._disturb()
        if after:
            host.fuse = after
        else:
            self._world.stop(host)
            self._crashed(broker)

    def restart(self, broker: int) -> None:
        """Begin a new life of a broker that crashed, with what it had written down."""
        host = self._known(broker)
        if host.node is not None:
            raise InvalidArgument(f"broker {broker} is running")
        self._disturb()
        self._world.start(host)

    def defuse(self, broker: int) -> None:
        """Take back a crash that was set for later."""
        self._known(broker).fuse = None

    # What can be seen

    def __repr__(self) -> str:
        return f"<Network of {self.topology.brokers:,} brokers: {self.combination}, seed {self.seed!r}>"

    def is_running(self, broker: int) -> bool:
        return self._known(broker).node is not None

    @property
    def now(self) -> float:
        """The virtual time, in seconds."""
        return self._world.now

    @property
    def links(self) -> list[tuple[int, int]]:
        """All links, also those that are cut."""
        return list(self._world.wires.edges)

    @property
    def traffic(self) -> Traffic:
        """Messages and bytes per link and kind."""
        return self._world.wires.traffic

    @property
    def trace(self) -> Trace:
        """What happened, step by step, and its hash."""
        return self._world.trace

    @property
    def drops(self) -> dict[str, int]:
        """What was thrown away or lost, by the reason."""
        return dict(sorted(self._world.drops.items()))

    @property
    def tree_links(self) -> list[tuple[int, int]]:
        """The links that both ends use: all that are up, or those of the spanning tree."""
        return links_in_use(self._world.hosts)

    @property
    def hops(self) -> int:
        """All messages on all links."""
        return self._world.wires.hops

    @property
    def tables(self) -> dict[int, dict[int | str, list[Filter]]]:
        """What each broker that runs stores: the filters it got from each neighbour, and from its own `clients`."""
        return tables(self._world.hosts)

    def entry_table(self, at: int) -> EntryTable:
        """What a broker knows now, for a job that writes the headers of events in its stead."""
        node = self._host(at).node
        table = None if node is None else node.broker.entry_table()
        if table is None:
            raise InvalidArgument(f"{self.combination.forwarding} forwarding has no headers that others could write")
        return table

    # How it is done

    def _delivered(self, at: int, deliver: Deliver) -> None:
        """Clients hear it."""

    def _replied(self, at: int, reply: Reply) -> None:
        """Clients hear it."""

    def _known(self, at: int) -> Host:
        hosts = self._world.hosts
        if at not in range(len(hosts)):
            raise InvalidArgument(f"there is no broker {at!r}; they are numbered from 0 to {len(hosts) - 1}")
        return hosts[at]

    def _host(self, at: int) -> Host:
        host = self._known(at)
        if host.node is None:
            raise InvalidArgument(f"broker {at} has crashed; restart it first")
        return host

    def _edge(self, link: tuple[int, int]) -> Edge:
        edge = self._world.wires.edges.get((min(link), max(link)))
        if edge is None:
            raise InvalidArgument(f"there is no link between {link[0]} and {link[1]}")
        return edge

    def _crashed(self, broker: int) -> None:
        self._disturb()
        self.history.crashed.add((self.history.rests, broker))

    def _disturb(self) -> None:
        self._unsettled = True
        self._parts = None
        self.history.next()
        self.history.disturbed.add(self.history.rests)

    def _joined(self) -> list[int | None]:
        """Which brokers are joined, and None for those that are down."""
        pairs = zip(self._world.hosts, self._components(), strict=True)
        return [None if host.node is None else label for host, label in pairs]

    def _components(self) -> tuple[int, ...]:
        """Which brokers are joined; known until something breaks or is repaired."""
        if self._parts is None:
            self._parts = components(self._world.hosts, self._world.wires.edges.values())
        return self._parts
