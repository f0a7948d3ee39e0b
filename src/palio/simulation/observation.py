"""Observation of a simulated network: traffic, tables, links in use, measures, and a drawing.

Whatever is asked here changes nothing, and may be asked at any time, also while a delivery is reported.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palio.errors import InvalidArgument
from palio.filters.filter import Filter
from palio.routing.combinations import Combination
from palio.routing.measures import Measures
from palio.routing.strategies import Stabilising
from palio.simulation.engine import Engine
from palio.simulation.hosts import Host
from palio.simulation.topologies import Topology, longest_path
from palio.simulation.trace import Trace, Traffic

if TYPE_CHECKING:
    from palio.simulation.table_errors import TableErrors


class ObservedNetwork:
    """The state of a network, as its users may see it."""

    topology: Topology
    combination: Combination
    seed: int
    _engine: Engine

    def __repr__(self) -> str:
        return f"<Network of {self.topology.brokers:,} brokers: {self.combination}, seed {self.seed!r}>"

    def is_running(self, broker: int) -> bool:
        return self._known(broker).node is not None

    @property
    def now(self) -> float:
        """The virtual time, in seconds."""
        return self._engine.now

    @property
    def links(self) -> list[tuple[int, int]]:
        """All links, also those that are cut."""
        return list(self._engine.links.edges)

    @property
    def traffic(self) -> Traffic:
        """Messages and bytes per link and kind."""
        return self._engine.links.traffic

    @property
    def content_reads(self) -> dict[int, int]:
        """How many events each running broker has examined the content of, since it started."""
        hosts = self._engine.hosts
        return {host.number: host.node.broker.content_reads for host in hosts if host.node is not None}

    @property
    def trace(self) -> Trace:
        """The run, step by step, and its hash."""
        return self._engine.trace

    @property
    def drops(self) -> dict[str, int]:
        """The numbers of dropped and lost messages, by reason."""
        return dict(sorted(self._engine.drops.items()))

    @property
    def tree_links(self) -> list[tuple[int, int]]:
        """The links that both ends use: all that are up, or those of the spanning tree."""
        uses: Counter[tuple[int, int]] = Counter()
        for host in self._engine.hosts:
            for link in host.node.broker.links if host.node is not None else ():
                other = host.ways[link - 1].to
                uses[min(host.number, other), max(host.number, other)] += 1
        return sorted(link for link, ends in uses.items() if ends == 2)

    @property
    def hops(self) -> int:
        """All messages on all links."""
        return self._engine.links.hops

    @property
    def tables(self) -> dict[int, dict[int | str, list[Filter]]]:
        """The filters of each running broker: those of each neighbour, and those of its own `clients`."""
        found: dict[int, dict[int | str, list[Filter]]] = {}
        for host in self._engine.hosts:
            if host.node is None:
                continue
            known = host.node.broker.tables
            here: dict[int | str, list[Filter]] = {
                host.ways[link - 1].to: _in_order(filters) for link, filters in known.remote_subscriptions.items()
            }
            here["clients"] = _in_order(known.subscriptions.keys())
            found[host.number] = {interface: filters for interface, filters in here.items() if filters}
        return found

    @property
    def stabilisation_rounds(self) -> int:
        """The rounds after which self-stabilising tables are right, whatever they were before: one more than links on
        the longest path between two brokers, with advertisements that path twice."""
        longest = longest_path(self.topology.brokers, self.tree_links)
        return (2 if self.combination.advertisements else 1) * longest + 1

    @property
    def stabilisation_bound(self) -> float | None:
        """The seconds that these rounds take at most; None where tables are not self-stabilising."""
        chosen = self.combination.table_upkeep
        if not isinstance(chosen, Stabilising):
            return None
        slowest = max((edge.model.longest_delay for edge in self._engine.links.edges.values()), default=0.0)
        drift = 1 + self.combination.simulation.drift
        rounds = self.stabilisation_rounds
        # What a round finds is observed, listed and corrected, and passed on along the longest path.
        return rounds * chosen.round_period * drift + (rounds + 3) * slowest

    def table_errors(self) -> TableErrors:
        """The entries of all tables of neighbours' filters that are not as they should be."""
        from palio.simulation.table_errors import find_table_errors

        return find_table_errors(self)

    def draw(self, path: str | Path) -> None:
        """Draw the network with the traffic on its links; `path` ends with .svg or .png."""
        from palio.simulation.drawing import draw

        draw(self, path)

    @property
    def measures(self) -> Measures:
        """What events cost the running brokers since they started, all together; snapshots subtract."""
        nodes = [host.node for host in self._engine.hosts if host.node is not None]
        counted = sum((node.broker.measures for node in nodes), Measures())
        return counted + Measures(false_positives=self.traffic.false_positives())

    def _known(self, at: int) -> Host:
        hosts = self._engine.hosts
        if at not in range(len(hosts)):
            raise InvalidArgument(f"there is no broker {at!r}; they are numbered from 0 to {len(hosts) - 1}")
        return hosts[at]


def _in_order(filters: Mapping[Any, Filter]) -> list[Filter]:
    return sorted(filters.values(), key=str)
