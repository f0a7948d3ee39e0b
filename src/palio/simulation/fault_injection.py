"""Injection of a schedule of faults into a simulated network, and their end.

Faults use the calls that a test has too: crash, restart, cut, mend. Where two of a kind overlap on one target the later
end counts. A link that somebody else has cut stays cut when a partition ends.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from palio.simulation.faults import (
    ClockJump,
    Crash,
    DiskFull,
    Fault,
    FaultSchedule,
    LinkCut,
    Partition,
    SlowBroker,
    TableCorruption,
)

if TYPE_CHECKING:
    from palio.simulation.engine import Engine
    from palio.simulation.network import Network

_Link: TypeAlias = tuple[int, int]  # the lower number first


class FaultInjector:
    """The faults of one network, as time brings them."""

    def __init__(
        self, network: Network, engine: Engine, schedule: FaultSchedule, fill_disk: Callable[[int, bool], None]
    ) -> None:
        """`fill_disk` lets the disk of a broker refuse writes, or take them again."""
        self._network = network
        self._engine = engine
        self._fill_disk = fill_disk
        self._under_way: Counter[tuple[str, Hashable]] = Counter()
        self._cut: set[_Link] = set()
        self._left: Counter[float] = Counter()
        self._is_over = False
        for each in schedule.faults:
            self._at(each.time, partial(self._begin, each))

    def next_time(self) -> float | None:
        """When the next fault begins or ends; None after the last."""
        return min(self._left, default=None)

    def heal(self) -> None:
        """End all faults, also those of links, and let no more come. Clocks stay as they are."""
        self._is_over = True
        self._left.clear()
        for (kind, target), count in list(self._under_way.items()):
            if count > 0:
                self._under_way[kind, target] = 0
                _ENDS[kind](self, target)
        for host in self._engine.hosts:
            if host.node is None and host.is_corrupted:
                self._network.restart(host.number)
        for edge in self._engine.links.edges.values():
            edge.model = replace(edge.model, loss=0.0, duplication=0.0, reordering=0.0)

    def _at(self, time: float, action: Callable[[], None]) -> None:
        self._left[time] += 1
        self._engine.schedule_fault(time, partial(self._due, time, action))

    def _due(self, time: float, action: Callable[[], None]) -> None:
        if self._is_over:
            return
        self._left[time] -= 1
        if not self._left[time]:
            del self._left[time]
        action()

    def _begin(self, fault: Fault) -> None:
        match fault:
            case Crash(broker=broker, after=after, seconds=seconds):
                if self._network.is_running(broker):
                    self._network.crash(broker, after)
                self._lasts("crash", broker, seconds)
            case LinkCut(link=(a, b), seconds=seconds):
                self._break(((min(a, b), max(a, b)),), seconds)
            case Partition(brokers=brokers, seconds=seconds):
                between = tuple(each for each in self._network.links if (each[0] in brokers) != (each[1] in brokers))
                self._break(between, seconds)
            case SlowBroker(broker=broker, delay=delay, seconds=seconds):
                self._engine.hosts[broker].slowness = delay
                self._lasts("slow", broker, seconds)
            case DiskFull(broker=broker, seconds=seconds):
                self._fill_disk(broker, True)
                self._lasts("disk full", broker, seconds)
            case ClockJump(broker=broker, by=by):
                self._engine.hosts[broker].skew += by
            case TableCorruption(share=share, seed=seed):
                self._network.corrupt("all", share, seed)

    def _lasts(self, kind: str, target: Hashable, seconds: float) -> None:
        self._under_way[kind, target] += 1
        self._at(self._network.now + seconds, partial(self._end, kind, target))

    def _end(self, kind: str, target: Hashable) -> None:
        self._under_way[kind, target] -= 1
        if not self._under_way[kind, target]:
            _ENDS[kind](self, target)

    def _break(self, links: tuple[_Link, ...], seconds: float) -> None:
        for link in links:
            if not self._engine.links.edges[link].cut:
                self._cut.add(link)
                self._network.cut(link)
            self._lasts("cut", link, seconds)

    # Ends

    def _restart(self, broker: int) -> None:
        # One that was to crash after some more effects may not have carried out so many.
        if self._network.is_running(broker):
            self._network.defuse(broker)
        else:
            self._network.restart(broker)

    def _mend(self, link: _Link) -> None:
        if link in self._cut:
            self._cut.discard(link)
            self._network.mend(link)

    def _end_slowness(self, broker: int) -> None:
        self._engine.hosts[broker].slowness = 0.0

    def _free_disk(self, broker: int) -> None:
        self._fill_disk(broker, False)


_ENDS: Final[dict[str, Callable[[FaultInjector, Any], None]]] = {
    "crash": FaultInjector._restart,
    "cut": FaultInjector._mend,
    "slow": FaultInjector._end_slowness,
    "disk full": FaultInjector._free_disk,
}
