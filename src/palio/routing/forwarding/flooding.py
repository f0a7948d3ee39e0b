"""Forwarding where nobody said what is wanted: events go everywhere, and are matched at the edge (Jerzak §2.5.1)."""

from __future__ import annotations

from collections.abc import Sequence

from palio.filters.filter import Filter
from palio.routing.forwarding.protocol import Arrival, Route
from palio.routing.messages import Key


class FloodForwarding:
    """Sends each event over all links but the one by which it came."""

    __slots__ = ("_links",)

    def __init__(self) -> None:
        self._links: tuple[int, ...] = ()

    def opened(self, interface: int) -> None:
        self._links = tuple(sorted((*self._links, interface)))

    def closed(self, interface: int) -> None:
        self._links = tuple(each for each in self._links if each != interface)

    def added(self, interface: int, key: Key, wanted: Filter) -> None:
        pass

    def removed(self, interface: int, key: Key) -> None:
        pass

    def announced(self, topic: str, version: int, data: bytes) -> None:
        pass

    def route(self, arrivals: Sequence[Arrival]) -> list[Route]:
        routes = []
        for arrival in arrivals:
            links = tuple(each for each in self._links if each != arrival.interface)
            routes.append(Route(((None, links),) if links else ()))
        return routes
