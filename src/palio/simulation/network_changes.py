"""Changes of a simulated network: brokers and links that come and go, crashes, full disks and corrupted tables.

The history notes each of them, since the oracle asks for nothing that a fault made impossible.
"""

from __future__ import annotations

from math import inf
from random import Random
from typing import Any, Literal

from palio.errors import InvalidArgument
from palio.routing.client_messages import ClientRequest
from palio.routing.effects import Requested
from palio.simulation.clients import Clients
from palio.simulation.corruption import Corruption, corrupt_tables
from palio.simulation.history import History
from palio.simulation.hosts import Disk, Host
from palio.simulation.links import Edge
from palio.simulation.observation import ObservedNetwork
from palio.simulation.topologies import Topology, check_delay, component_labels


class ChangingNetwork(ObservedNetwork):
    """Brokers and links, which may come, go and break at any time."""

    history: History
    _clients: Clients
    _unsettled: bool
    _is_delivering: bool
    _wrong_until: float
    _parts: tuple[int, ...] | None

    def cut(self, link: tuple[int, int]) -> None:
        """Break the link between two brokers; what is under way on it is lost."""
        edge = self._edge(link)
        if not edge.cut:
            self._disturb()
            edge.cut = True
            self._engine.disconnect(edge)

    def mend(self, link: tuple[int, int]) -> None:
        """Repair a link that was cut."""
        edge = self._edge(link)
        if edge.cut:
            self._disturb()
            edge.cut = False
            self._engine.connect(edge)

    def add_broker(self, *neighbours: int, delay: float | None = None) -> int:
        """Start one more broker, linked to some others; its number."""
        for each in neighbours:
            self._known(each)
        check_delay(delay)
        self._disturb()
        broker = self._engine.add_host().number
        self.topology = Topology(broker + 1, self.topology.links)
        for each in dict.fromkeys(neighbours):
            self.add_link((each, broker), delay)
        return broker

    def add_link(self, link: tuple[int, int], delay: float | None = None) -> None:
        """Join two brokers by one more link; one that closes a circle needs the option `circles`."""
        a, b = self._ends(link)
        made = Topology(self.topology.brokers, (*self.topology.links, (a, b, delay)))
        if made.has_circles and not self.combination.has_circles:
            raise InvalidArgument(f"a link between {a} and {b} closes a circle; make the network with circles=True")
        self._disturb()
        self.topology = made
        self._engine.add_link(a, b, delay)

    def remove_link(self, link: tuple[int, int]) -> None:
        """Break a link for good: it counts no longer for circles, and cannot be mended."""
        edge = self._edge(link)
        self.cut((edge.a, edge.b))
        del self._engine.links.edges[edge.a, edge.b]
        kept = [each for each in self.topology.links if {*each[:2]} != {edge.a, edge.b}]
        self.topology = Topology(self.topology.brokers, tuple(kept))

    def move(self, broker: int, to: int, delay: float | None = None) -> None:
        """Remove all links of a broker, and link it to another one."""
        for end in (broker, to):
            self._known(end)
        check_delay(delay)
        if broker == to:
            raise InvalidArgument(f"broker {broker} cannot be linked to itself")
        link = min(broker, to), max(broker, to)
        for each in [each for each in self.links if broker in each and each != link]:
            self.remove_link(each)
        if link in self._engine.links.edges:
            self.mend(link)
        else:
            self.add_link(link, delay)

    def crash(self, broker: int, after: int = 0, *, disk: bool = True) -> None:
        """Crash a broker: now, or after it has carried out some more effects. One that loses its `disk` as well does
        not come back: what is put in its place is another broker (`add_broker`)."""
        host = self._host(broker)
        if type(after) is not int or after < 0:
            raise InvalidArgument(f"a broker crashes after some effects from 0 on, not {after!r:.80}")
        if after and not disk:
            raise InvalidArgument("a broker loses its disk now, not after some effects")
        self._disturb()
        if not disk:
            host.is_lost, host.disk = True, Disk()
        if after:
            host.fuse = after
        else:
            self._engine.stop(host)
            self._on_crash(broker)

    def restart(self, broker: int) -> None:
        """Restart a broker that crashed, with the state on its disk; clients repeat unanswered requests."""
        host = self._known(broker)
        if host.node is not None:
            raise InvalidArgument(f"broker {broker} is running")
        if host.is_lost:
            raise InvalidArgument(f"broker {broker} was lost with its disk; add_broker makes another one in its place")
        self._disturb()
        self._engine.start(host)
        self._repeat_requests(broker)

    def defuse(self, broker: int) -> None:
        """Cancel a crash that was set for later."""
        self._known(broker).fuse = None

    def corrupt(self, brokers: int | Literal["all"] = "all", share: float = 0.2, seed: int = 0) -> Corruption:
        """Corrupt about a share of the entries in every table of routing, at one broker or at all, as a seed decides.

        With `tables="stabilising"` they are right again after `stabilisation_bound` seconds, in which the oracle
        demands nothing. With other tables it demands nothing any more, and a broker whose tables contradict each other
        crashes, as its process would.
        """
        if type(share) not in (int, float) or not 0 <= share <= 1:
            raise InvalidArgument(f"a share of the entries is from 0 to 1, not {share!r:.80}")
        check_seed(seed)
        chosen = self._engine.hosts if brokers == "all" else [self._host(brokers)]
        self._disturb()
        bound = self.stabilisation_bound
        self._wrong_until = inf if bound is None else max(self._wrong_until, self.now + bound)
        # Events under way meet them as well, and so do those that are still to be delivered or repeated.
        under_way = {event for host in self._engine.hosts for event in host.disk.unfinished_events()}
        self.history.corrupted.add(self.history.rests)
        self.history.corrupted.update(
            each.after
            for each in self.history.publications
            if each.confirm and (each.event.id in under_way or each.event.id not in self.history.accepted)
        )
        done = Corruption()
        for host in chosen:
            if host.node is not None:
                random = Random(f"{seed} {host.number}")
                done.changes.update(corrupt_tables(host.node.broker, share, random).changes)
                host.is_corrupted = bound is None
        return done

    # Internals

    def _fill_disk(self, broker: int, is_full: bool) -> None:
        self._known(broker).is_disk_full = is_full
        if is_full:
            self.history.fill(broker)
            return
        self.history.full_now.discard(broker)
        if self.is_running(broker):
            self._repeat_requests(broker)

    def _repeat_requests(self, broker: int) -> None:
        host = self._known(broker)
        for client, request in list(self._clients.unanswered(host)):
            self._change(host, client, request)

    def _change(self, host: Host, client: str, request: ClientRequest) -> None:
        self._unsettled = True
        self._engine.handle(host, [Requested(client, request, self.now)])

    def _host(self, at: int) -> Host:
        if self._is_delivering:
            raise InvalidArgument("on_delivery may look at the network; what changes it, it has to schedule")
        host = self._known(at)
        if host.node is None:
            raise InvalidArgument(f"broker {at} has crashed; restart it first")
        return host

    def _ends(self, link: Any) -> tuple[int, int]:
        if not isinstance(link, tuple | list) or len(link) != 2:
            raise InvalidArgument(f"a link is a pair of the numbers of brokers, not {link!r:.80}")
        for each in link:
            self._known(each)
        return link[0], link[1]

    def _edge(self, link: tuple[int, int]) -> Edge:
        a, b = self._ends(link)
        edge = self._engine.links.edges.get((min(a, b), max(a, b)))
        if edge is None:
            raise InvalidArgument(f"there is no link between {a} and {b}")
        return edge

    def _on_crash(self, broker: int) -> None:
        self._disturb()
        self.history.crashed.add((self.history.rests, broker))

    def _disturb(self) -> None:
        self._unsettled = True
        self._parts = None
        self.history.next()
        self.history.disturbed.add(self.history.rests)

    def _joined(self) -> list[int | None]:
        """The part of the network that each broker is in, None for those that are down."""
        pairs = zip(self._engine.hosts, self._components(), strict=True)
        return [None if host.node is None else label for host, label in pairs]

    def _components(self) -> tuple[int, ...]:
        """The part of the network that each broker is in; cached until something breaks or is repaired."""
        if self._parts is None:
            hosts = self._engine.hosts
            running = [host.node is not None for host in hosts]
            edges = self._engine.links.edges.values()
            up = [(edge.a, edge.b) for edge in edges if not edge.cut and running[edge.a] and running[edge.b]]
            self._parts = tuple(component_labels(len(hosts), up))
        return self._parts


def check_seed(seed: int) -> None:
    if not isinstance(seed, int):
        raise InvalidArgument(f"a seed is a whole number, not {seed!r:.80}")
