"""What do the brokers of a simulated network know, and which links do they use?"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from palio.filters.filter import Filter
from palio.simulation.hosts import Host
from palio.simulation.links import Edge
from palio.simulation.topologies import component_labels


def tables(hosts: Iterable[Host]) -> dict[int, dict[int | str, list[Filter]]]:
    """The filters that each broker got from each neighbour, and from its own `clients`."""
    found: dict[int, dict[int | str, list[Filter]]] = {}
    for host in hosts:
        if host.node is None:
            continue
        known = host.node.broker.tables
        here: dict[int | str, list[Filter]] = {
            host.ways[link - 1].to: _in_order(wanted) for link, wanted in known.wanted.items()
        }
        here["clients"] = _in_order(known.wants.keys())
        found[host.number] = {interface: filters for interface, filters in here.items() if filters}
    return found


def links_in_use(hosts: Iterable[Host]) -> list[tuple[int, int]]:
    """The links that both ends use."""
    uses: Counter[tuple[int, int]] = Counter()
    for host in hosts:
        for link in host.node.broker.links if host.node is not None else ():
            other = host.ways[link - 1].to
            uses[min(host.number, other), max(host.number, other)] += 1
    return sorted(link for link, ends in uses.items() if ends == 2)


def components(hosts: list[Host], edges: Iterable[Edge]) -> tuple[int, ...]:
    """Which brokers are joined, by a number for each part."""
    up = [(edge.a, edge.b) for edge in edges if not edge.cut and hosts[edge.a].node and hosts[edge.b].node]
    return tuple(component_labels(len(hosts), up))


def _in_order(filters: Mapping[Any, Filter]) -> list[Filter]:
    return sorted(filters.values(), key=str)
