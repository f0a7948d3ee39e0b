"""Forwarding without headers: by content at every broker, or by flooding.

`ContentForwarding` matches each event at each broker (Jerzak §2.5.3, Shen's Never-Reuse §3.3). One match gives the
links and the local keys alike, so the broker need not match again for its own clients. `FloodForwarding` serves
flooding propagation, where no filter travels: events go over all links, and are matched at the edge (Jerzak §2.5.1).
`HierarchicalForwarding` sends events up to the root of a hierarchy, and down where they match.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

import numpy as np

from palio.filters.filter import Filter
from palio.routing.codec import Arrival
from palio.routing.effects import Job
from palio.routing.forwarding.filter_index import Ints32, Ints64, filter_index_of
from palio.routing.forwarding.strategy import ForwardingConfig, Route
from palio.routing.interest_index import Interested, InterestIndex
from palio.routing.messages import LOCAL, Key

if TYPE_CHECKING:
    import pyarrow as pa


class ContentForwarding:
    """Matches content at every broker; writes no header."""

    def __init__(self, config: ForwardingConfig) -> None:
        self._matcher = config.chosen.matcher
        # Made with the first filter: a simulation has thousands of idle brokers.
        self._interest: InterestIndex | None = None

    def open_link(self, interface: int) -> None:
        pass

    def close_link(self, interface: int) -> None:
        pass

    def add_filter(self, interface: int, key: Key, wanted: Filter) -> None:
        if self._interest is None:
            self._interest = InterestIndex(filter_index_of(self._matcher))
        self._interest.add(interface, key, wanted)

    def remove_filter(self, interface: int, key: Key) -> None:
        if self._interest is not None:
            self._interest.remove(interface, key)

    def on_announcement(self, topic: str, version: int, data: bytes) -> None:
        pass

    def work(self) -> Job | None:
        return None if self._interest is None else self._interest.work()

    def find_columns(self, columns: pa.RecordBatch) -> tuple[Ints64, Ints32] | None:
        """All matches of a batch: rows, and the numbers of filters; None where the matcher takes no columns."""
        if self._interest is None or not len(self._interest):
            return np.zeros(0, np.int64), np.zeros(0, np.int32)
        return self._interest.find_columns(columns)

    def interested_in(self, numbers: bytes) -> Interested:
        """The interfaces that have any of some filters, given as the bytes of their numbers."""
        return Interested((), ()) if self._interest is None else self._interest.interested_in(numbers)

    def route(self, arrivals: Sequence[Arrival]) -> list[Route]:
        # Bodies are not decoded where there is nothing to match.
        if self._interest is None or not len(self._interest):
            return [_NO_ROUTE] * len(arrivals)
        found = self._interest.find_interested([each.event for each in arrivals])
        return [_route(each.interface, wanted) for each, wanted in zip(arrivals, found, strict=True)]


def _route(came_by: int, wanted: Interested) -> Route:
    links = wanted.links
    if came_by in links:
        links = tuple(each for each in links if each != came_by)
    return Route(((None, links),) if links else (), wanted.local)


_NO_ROUTE: Final = Route((), ())


class HierarchicalForwarding(ContentForwarding):
    """Sends each event to the parent, too: a broker of a hierarchy knows only the filters below it (Jerzak §2.4.2)."""

    def __init__(self, config: ForwardingConfig) -> None:
        super().__init__(config)
        self.parent = LOCAL  # where this broker is the root

    def route(self, arrivals: Sequence[Arrival]) -> list[Route]:
        return [
            route if self.parent in (LOCAL, arrival.interface) else Route(_with(self.parent, route), route.local)
            for arrival, route in zip(arrivals, super().route(arrivals), strict=True)
        ]


def _with(parent: int, route: Route) -> tuple[tuple[None, tuple[int, ...]], ...]:
    links = {link for _, links in route.sends for link in links}
    return ((None, tuple(sorted(links | {parent}))),)


class FloodForwarding:
    """Sends each event over all links but the one by which it came."""

    __slots__ = ("_links",)

    def __init__(self) -> None:
        self._links: tuple[int, ...] = ()

    def open_link(self, interface: int) -> None:
        self._links = tuple(sorted((*self._links, interface)))

    def close_link(self, interface: int) -> None:
        self._links = tuple(each for each in self._links if each != interface)

    def add_filter(self, interface: int, key: Key, wanted: Filter) -> None:
        pass

    def remove_filter(self, interface: int, key: Key) -> None:
        pass

    def on_announcement(self, topic: str, version: int, data: bytes) -> None:
        pass

    def route(self, arrivals: Sequence[Arrival]) -> list[Route]:
        routes = []
        for arrival in arrivals:
            links = tuple(each for each in self._links if each != arrival.interface)
            routes.append(Route(((None, links),) if links else ()))
        return routes
