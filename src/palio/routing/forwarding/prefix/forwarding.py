"""Prefix forwarding: the first broker finds the branches of a tree that an event satisfies, others go along them.

The first broker looks at content once and writes a forwarding tree on the event; every broker, the first included,
goes along it in its own copy of the tree and gathers the links that it has tagged there (Jerzak §4.3). Costs the size
of the forwarding tree, whatever the number of filters. A broker that does not have the version of the tree, or was sent
one that cannot be, looks at content anew and writes its own.

Where a broker builds its tree itself, what its own clients want is in it. An event that leads to none of them is not
read there at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Final, Protocol

from palio.errors import InvalidArgument
from palio.filters.filter import Filter
from palio.routing.combinations import Combination
from palio.routing.effects import Job
from palio.routing.forwarding.content import ContentForwarding
from palio.routing.forwarding.prefix.announced_trees import AnnouncedTrees
from palio.routing.forwarding.prefix.forwarding_tree import GREATEST_HEIGHT
from palio.routing.forwarding.prefix.header import PrefixHeader
from palio.routing.forwarding.prefix.local_trees import LocalTrees
from palio.routing.forwarding.prefix.tagged_tree import TaggedTree
from palio.routing.forwarding.protocol import Arrival, Route, Setting
from palio.routing.messages import LOCAL, Key
from palio.routing.reports import TREES

_PATIENCE: Final = 1.0
_MOST_REMEMBERED: Final = 4096


class Trees(Protocol):
    """The versions of the tree that a broker has, with its tags; also for what its own clients want, or not."""

    has_local_tags: bool

    def add(self, interface: int, key: Key, wanted: Filter) -> None: ...

    def remove(self, interface: int, key: Key) -> None: ...

    def announce(self, version: int, data: bytes) -> None: ...

    def work(self) -> Job | None: ...

    def of_version(self, version: bytes) -> TaggedTree | None: ...

    def current(self, events: int) -> TaggedTree | None: ...


class PrefixForwarding:
    """Forwarding trees over a routing tree that all brokers share.

    Options, constants of the network: `tree`, whether each broker builds it (`local`) or all have the `optimiser`'s;
    `height`, at which forwarding trees are cut, 0 for not at all; `patience`, how many events a broker that builds its
    own lets pass for each filter after a change before it builds a tree again.
    """

    def __init__(self, setting: Setting) -> None:
        height = setting.options.get("height", 0)
        if not isinstance(height, int) or not 0 <= height <= GREATEST_HEIGHT:
            raise InvalidArgument(f"forwarding trees are cut at a height from 0 to {GREATEST_HEIGHT}, not {height!r}")
        choice = Combination(setting.propagation, "prefix", setting.advertisements, options=setting.options)
        self._trees: Trees = AnnouncedTrees(height)
        self._content: ContentForwarding | None = None
        if choice.tree == "local":
            self._trees = LocalTrees(height, float(setting.options.get("patience", _PATIENCE)))
            self._content = ContentForwarding(setting)

    def opened(self, interface: int) -> None:
        pass

    def closed(self, interface: int) -> None:
        pass

    def added(self, interface: int, key: Key, wanted: Filter) -> None:
        self._trees.add(interface, key, wanted)
        if self._content is not None:
            self._content.added(interface, key, wanted)

    def removed(self, interface: int, key: Key) -> None:
        self._trees.remove(interface, key)
        if self._content is not None:
            self._content.removed(interface, key)

    def announced(self, topic: str, version: int, data: bytes) -> None:
        if topic == TREES:
            self._trees.announce(version, data)

    def work(self) -> Job | None:
        return self._trees.work() or (None if self._content is None else self._content.work())

    def route(self, arrivals: Sequence[Arrival]) -> list[Route]:
        routes: list[Route | None] = [None] * len(arrivals)
        by_version: dict[bytes, list[tuple[int, PrefixHeader]]] = {}
        for place, arrival in enumerate(arrivals):
            header = arrival.header if arrival.interface != LOCAL else None  # clients may write what they like
            if type(header) is PrefixHeader:
                by_version.setdefault(header.version, []).append((place, header))
        for version, headers in by_version.items():
            tree = self._trees.of_version(version)
            if tree is not None:
                self._go(tree, headers, arrivals, routes)
        new = [place for place, route in enumerate(routes) if route is None]
        if new:
            self._look_at_content(new, arrivals, routes)
        return routes  # type: ignore[return-value]

    def _look_at_content(self, new: list[int], arrivals: Sequence[Arrival], routes: list[Route | None]) -> None:
        tree = self._trees.current(len(new))
        if tree is not None:
            written = tree.headers([arrivals[place].event.attributes for place in new])
            self._go(tree, list(zip(new, written, strict=True)), arrivals, routes)
        elif self._content is not None:
            for place, route in zip(new, self._content.route([arrivals[place] for place in new]), strict=True):
                routes[place] = route

    def _go(
        self,
        tree: TaggedTree,
        headers: list[tuple[int, PrefixHeader]],
        arrivals: Sequence[Arrival],
        routes: list[Route | None],
    ) -> None:
        """Fill in the routes of some arrivals, but for headers that this tree cannot have made."""
        found = tree.interfaces([header for _, header in headers])
        knows_local = self._trees.has_local_tags
        for (place, header), interfaces in zip(headers, found, strict=True):
            if interfaces is not None:
                links, local = _ways(interfaces, arrivals[place].interface, knows_local)
                routes[place] = Route(((header, links),) if links else (), local)


@lru_cache(_MOST_REMEMBERED)
def _ways(
    interfaces: tuple[int, ...], came_by: int, knows_local: bool
) -> tuple[tuple[int, ...], tuple[Key, ...] | None]:
    """Links, and the local keys that match where it is known that none does: few sets of neighbours occur."""
    links = tuple(each for each in interfaces if each not in (came_by, LOCAL))
    return links, () if knows_local and LOCAL not in interfaces else None
