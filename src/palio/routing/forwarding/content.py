"""Forwarding by content: every broker asks its own index who wants an event (Jerzak §2.5.3, Shen's Never-Reuse §3.3).

One look tells the links and the local keys alike, so that the broker need not look again for its own clients.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from palio.filters.filter import Filter
from palio.routing.effects import Job
from palio.routing.forwarding.protocol import Arrival, Route, Setting
from palio.routing.messages import Key
from palio.routing.wants import Wanted, Wants


class ContentForwarding:
    """Matches content at every broker; writes no header."""

    def __init__(self, setting: Setting) -> None:
        self._wants: Wants | None = None  # a broker that nobody told anything is small

    def opened(self, interface: int) -> None:
        pass

    def closed(self, interface: int) -> None:
        pass

    def added(self, interface: int, key: Key, wanted: Filter) -> None:
        if self._wants is None:
            self._wants = Wants()
        self._wants.add(interface, key, wanted)

    def removed(self, interface: int, key: Key) -> None:
        if self._wants is not None:
            self._wants.remove(interface, key)

    def announced(self, topic: str, version: int, data: bytes) -> None:
        pass

    def work(self) -> Job | None:
        return None if self._wants is None else self._wants.work()

    def route(self, arrivals: Sequence[Arrival]) -> list[Route]:
        if self._wants is None or not len(self._wants):
            return [_NOWHERE] * len(arrivals)
        found = self._wants.who([each.event for each in arrivals])
        return [_route(each.interface, wanted) for each, wanted in zip(arrivals, found, strict=True)]


def _route(came_by: int, wanted: Wanted) -> Route:
    links = wanted.links
    if came_by in links:
        links = tuple(each for each in links if each != came_by)
    return Route(((None, links),) if links else (), wanted.local)


_NOWHERE: Final = Route((), ())
