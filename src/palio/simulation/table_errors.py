"""Errors in routing tables: the difference between what brokers have of their neighbours and what they should have.

What they should have is found by a second network with the same links and the same requests, whose tables nobody has
touched: by the same protocols, and by nothing that the first network knows.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from palio.filters.filter import Filter
from palio.routing.effects import Requested
from palio.routing.messages import Key
from palio.simulation.topologies import Topology

if TYPE_CHECKING:
    from palio.simulation.observation import ObservedNetwork

_Tables = dict[tuple[int, int, str], dict[Key, bytes]]


class TableErrors(NamedTuple):
    """Entries of all brokers that are missing, and those that should not be there, or have another filter."""

    missing: int
    wrong: int


def find_table_errors(net: ObservedNetwork) -> TableErrors:
    """Compare the tables of a network with those that it should have."""
    here, right = _tables_of(net), _tables_of(_copy_of(net))
    missing = wrong = 0
    for place in here.keys() | right.keys():
        found, expected = here.get(place, {}), right.get(place, {})
        missing += len(expected.keys() - found.keys())
        wrong += sum(expected.get(key) != digest for key, digest in found.items())
    return TableErrors(missing, wrong)


def _copy_of(net: ObservedNetwork) -> ObservedNetwork:
    """A network with the links in use and the requests in force, at rest."""
    from palio.simulation.network import Network

    combination = net.combination
    options = {name: value for name, value in combination.options.items() if name in _KEPT_OPTIONS}
    for spread in (combination.spread, combination.forward):
        options |= spread.given()
    copy = Network(
        Topology(net.topology.brokers, tuple((a, b, None) for a, b in net.tree_links)),
        propagation=combination.propagation,
        forwarding=combination.forwarding,
        advertisements=combination.advertisements,
        options=options,
    )
    copy.run()
    for host in net._engine.hosts:
        for client, request in host.disk.read() if host.node is not None else ():
            copy._engine.handle(copy._engine.hosts[host.number], [Requested(client, request, 0.0)])
    copy.run()
    return copy


_KEPT_OPTIONS = ("hierarchy", "root")


def _tables_of(net: ObservedNetwork) -> _Tables:
    """Digests of filters by key, for each broker, neighbour and kind of table."""
    found: _Tables = {}
    for host in net._engine.hosts:
        if host.node is None:
            continue
        tables = host.node.broker.tables
        for kind, by_link in (
            ("subscriptions", tables.remote_subscriptions),
            ("advertisements", tables.remote_advertisements),
        ):
            for link, filters in by_link.items():
                neighbour = host.ways[link - 1].to if 0 < link <= len(host.ways) else -1
                found[host.number, neighbour, kind] = _digests(filters)
    return found


def _digests(filters: dict[Key, Filter]) -> dict[Key, bytes]:
    return {key: wanted.digest for key, wanted in filters.items()}
