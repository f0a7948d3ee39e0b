"""How do filters spread? For each neighbour a reduction of what came by all other interfaces, and its differences."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import NamedTuple

from palio.filters.filter import Filter
from palio.routing.messages import Key
from palio.routing.propagation.advertisements import Served
from palio.routing.propagation.protocol import Reduction


class Differences(NamedTuple):
    """What is to be said, additions before withdrawals, each to several links at once."""

    additions: list[tuple[Key, Filter, tuple[int, ...]]]
    withdrawals: list[tuple[Key, tuple[int, ...]]]


class Spread:
    """What came by which interface, and what each neighbour must be told of it."""

    __slots__ = ("_reduce", "_sources", "_touched", "neighbours")

    def __init__(self, reduce: Callable[[], Reduction]) -> None:
        self._reduce = reduce
        self._sources: dict[Key, dict[int, Filter]] = {}
        self.neighbours: dict[int, Reduction] = {}
        self._touched: dict[int, None] = {}

    def opened(self, link: int) -> None:
        reduction = self.neighbours[link] = self._reduce()
        for key, sources in self._sources.items():
            wanted = next((each for source, each in sources.items() if source != link), None)
            if wanted is not None:
                reduction.add(key, wanted)
        self._touched[link] = None

    def closed(self, link: int) -> None:
        """The neighbour is gone; what came from it must have been removed."""
        del self.neighbours[link]
        self._touched.pop(link, None)

    def added(self, interface: int, key: Key, wanted: Filter) -> None:
        sources = self._sources.setdefault(key, {})
        sources[interface] = wanted
        if len(sources) == 1:
            for link in self.neighbours:
                if link != interface:
                    self._add(link, key, wanted)
        elif len(sources) == 2:
            # The one by which it had come alone hears of it now.
            [first] = [each for each in sources if each != interface]
            if first in self.neighbours:
                self._add(first, key, wanted)

    def removed(self, interface: int, key: Key) -> None:
        sources = self._sources[key]
        del sources[interface]
        if not sources:
            del self._sources[key]
            for link in self.neighbours:
                if link != interface:
                    self._remove(link, key)
        elif len(sources) == 1:
            [last] = sources
            if last in self.neighbours:
                self._remove(last, key)

    def differences(self) -> Differences:
        """What is to be said since the last call, in the order of keys."""
        added: dict[Key, tuple[Filter, list[int]]] = {}
        withdrawn: dict[Key, list[int]] = {}
        for link in sorted(self._touched):
            change = self.neighbours[link].change()
            for key, wanted in change.additions.items():
                added.setdefault(key, (wanted, []))[1].append(link)
            for key in change.withdrawals:
                withdrawn.setdefault(key, []).append(link)
        self._touched = {}
        return Differences(
            [(key, wanted, tuple(links)) for key, (wanted, links) in sorted(added.items())],
            [(key, tuple(links)) for key, links in sorted(withdrawn.items())],
        )

    @property
    def is_touched(self) -> bool:
        return bool(self._touched)

    def _add(self, link: int, key: Key, wanted: Filter) -> None:
        self.neighbours[link].add(key, wanted)
        self._touched[link] = None

    def _remove(self, link: int, key: Key) -> None:
        self.neighbours[link].remove(key)
        self._touched[link] = None


class ServedSpread(Spread):
    """Tells each neighbour only what something that it advertised may serve."""

    __slots__ = ()

    def __init__(self, reduce: Callable[[], Reduction]) -> None:
        super().__init__(lambda: Served(reduce()))

    def offered(self, link: int, offer: Hashable, offered: Filter) -> None:
        self._served(link).offer(offer, offered)

    def withdrawn(self, link: int, offer: Hashable) -> None:
        self._served(link).withdraw(offer)

    def _served(self, link: int) -> Served:
        reduction = self.neighbours[link]
        if not isinstance(reduction, Served):
            raise AssertionError("every neighbour's reduction is of what is served")
        self._touched[link] = None
        return reduction
