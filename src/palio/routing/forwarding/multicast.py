"""Multicast over links: from the home brokers that an event is for to the links that lead there.

Any forwarding finds the home brokers, each under an interface of its own (`home_tables`). Here those become links:
along the tree of the broker that accepted the event where publishers have trees (`link_states`), otherwise along the
shared tree, by the links that the filters of the home brokers came by.

Confirmed events always go along the shared tree. Their acknowledgements prove that every home broker has them only
because its filters were sent over the very links that the events take, before them (`delivery`).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Protocol, runtime_checkable

from palio.filters.filter import Filter
from palio.routing.codec import Arrival
from palio.routing.effects import Job
from palio.routing.forwarding.content import FloodForwarding
from palio.routing.forwarding.headers import Header
from palio.routing.forwarding.strategy import Forwarding, HasBackgroundWork, Route
from palio.routing.home_tables import NEIGHBOUR, HomeBrokers
from palio.routing.link_states import LinkStates
from palio.routing.messages import LOCAL, Key, Publish


@runtime_checkable
class HasHeaderPerBroker(Protocol):
    """A forwarding whose headers differ by home broker, so that those behind one link need one of their own."""

    def join_headers(self, parts: Sequence[tuple[Header | None, int]]) -> Header | None:
        """The header for several interfaces, from the headers for each."""
        ...


class MulticastForwarding:
    """Sends events over the links that lead to the interfaces which another forwarding finds."""

    __slots__ = ("_forwarding", "_homes", "_joins", "_states", "_working")

    def __init__(self, forwarding: Forwarding, homes: HomeBrokers, states: LinkStates | None) -> None:
        """`states` where events go along trees of publishers."""
        self._forwarding = forwarding
        self._homes = homes
        self._states = states
        self._joins = forwarding if isinstance(forwarding, HasHeaderPerBroker) else None
        self._working = forwarding if isinstance(forwarding, HasBackgroundWork) else None

    def open_link(self, interface: int) -> None:
        """No matter of the forwarding, which knows home brokers."""

    def close_link(self, interface: int) -> None:
        """No matter of the forwarding."""

    def add_filter(self, interface: int, key: Key, wanted: Filter) -> None:
        self._forwarding.add_filter(interface, key, wanted)

    def remove_filter(self, interface: int, key: Key) -> None:
        self._forwarding.remove_filter(interface, key)

    def on_announcement(self, topic: str, version: int, data: bytes) -> None:
        self._forwarding.on_announcement(topic, version, data)

    def work(self) -> Job | None:
        return None if self._working is None else self._working.work()

    def route(self, arrivals: Sequence[Arrival]) -> list[Route]:
        came_by = [each.interface for each in arrivals]
        # In place, because an arrival remembers its decoded content. The number of a link would mean a home broker.
        for each in arrivals:
            each.interface = LOCAL if each.interface == LOCAL else NEIGHBOUR
        try:
            found = self._forwarding.route(arrivals)
        finally:
            for each, link in zip(arrivals, came_by, strict=True):
                each.interface = link
        return [self._over_links(arrival, route) for arrival, route in zip(arrivals, found, strict=True)]

    def _over_links(self, arrival: Arrival, route: Route) -> Route:
        if not route.sends:
            return route
        parts: dict[int, list[tuple[Header | None, int]]] = {}
        branches = branches_of(self._states, arrival.message)
        nodes = self._homes.nodes
        for header, interfaces in route.sends:
            for interface in interfaces:
                if branches is None:
                    links: Iterable[int] = self._homes.links_to(interface)
                else:
                    link = branches.get(nodes[interface])
                    links = () if link is None else (link,)
                for link in links:
                    if link != arrival.interface:
                        parts.setdefault(link, []).append((header, interface))
        by_header: dict[Header | None, list[int]] = {}
        for link in sorted(parts):
            header = parts[link][0][0] if self._joins is None else self._joins.join_headers(parts[link])
            by_header.setdefault(header, []).append(link)
        return Route(tuple((header, tuple(links)) for header, links in by_header.items()), route.local)


class TreeFlooding(FloodForwarding):
    """Sends each event to all brokers, along the tree of the one that accepted it."""

    __slots__ = ("_states",)

    def __init__(self, states: LinkStates) -> None:
        super().__init__()
        self._states = states

    def route(self, arrivals: Sequence[Arrival]) -> list[Route]:
        routes = super().route(arrivals)  # along the shared tree
        for place, arrival in enumerate(arrivals):
            branches = branches_of(self._states, arrival.message)
            if branches is not None:
                links = tuple(sorted(set(branches.values()) - {arrival.interface}))
                routes[place] = Route(((None, links),) if links else ())
        return routes


def branches_of(states: LinkStates | None, event: Publish) -> Mapping[int, int] | None:
    """The brokers below this one in the tree of an event, with their links; None where it goes along the shared
    tree."""
    return None if states is None or event.kept is not None else states.branches(event.id.node)
