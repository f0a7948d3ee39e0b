"""What is on the links of a simulated world? Everything that was put on them and has not arrived, been lost, or been
cut off with its link.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import replace
from random import Random
from typing import Any

from palio.routing.session import Transmit
from palio.simulation.agenda import Agenda
from palio.simulation.hosts import Host
from palio.simulation.links import Direction, Edge, LinkModel
from palio.simulation.plans import Frame, Free, Planned
from palio.simulation.trace import Trace
from palio.simulation.traffic import Traffic


class Wires:
    """All links between hosts: they carry, and count what they carry."""

    def __init__(
        self, hosts: list[Host], agenda: Agenda[Planned], trace: Trace, drops: Counter[str], random: Random
    ) -> None:
        self._hosts = hosts
        self._agenda = agenda
        self._trace = trace
        self._drops = drops
        self._random = random
        self.edges: dict[tuple[int, int], Edge] = {}
        self.traffic = Traffic()
        self.hops = 0

    def lay(self, links: Iterable[tuple[int, int, float | None]], options: Mapping[str, Any]) -> None:
        """Links as the options of a network say; one may have a delay of its own."""
        model = LinkModel.of(options)
        for a, b, delay in links:
            one, other = self._hosts[a], self._hosts[b]
            ends = len(one.ways) + 1, len(other.ways) + 1
            edge = Edge(a, b, ends, model if delay is None else replace(model, delay=delay))
            one.ways.append(edge.directions[0])
            other.ways.append(edge.directions[1])
            self.edges[min(a, b), max(a, b)] = edge

    def carry(self, host: Host, effect: Transmit) -> None:
        """Put what a host sends on its links."""
        data, kind = effect.data, effect.kind
        now = self._agenda.now
        for link in effect.links:
            way = host.ways[link - 1]
            edge = way.edge
            self._trace.sent(now, host.number, way.to, kind, data)
            self.traffic.count(way.pair, kind, len(data))
            self.hops += 1
            if edge.cut or self._hosts[way.to].node is None:
                self._drops["lost with its link"] += 1
            elif edge.keeps_time:
                self._agenda.plan_at(way.arrival(now), Frame(way, edge.generation, data))
            elif edge.model.bandwidth is None:
                self._put(way, data, now)
            else:
                self._queue(way, data, effect.lane == "events")

    def _put(self, way: Direction, data: bytes, now: float) -> None:
        times = way.arrivals(now, self._random)
        if not times:
            self._drops["lost by a link"] += 1
        for time in times:
            self._agenda.plan_at(time, Frame(way, way.edge.generation, data))

    def _queue(self, way: Direction, data: bytes, is_event: bool) -> None:
        """On a link that is busy, control goes before events."""
        if way.waiting is None:
            way.waiting = deque(), deque()
        idle = way.busy_until <= self._agenda.now and not any(way.waiting)
        way.waiting[is_event].append(data)
        if idle:
            self.send_next(way)

    def send_next(self, way: Direction) -> None:
        """A link with bounded bandwidth takes the next that waits for it."""
        control, events = way.waiting or (deque(), deque())
        if not control and not events:
            return
        data = (control or events).popleft()
        way.busy_until = self._agenda.now + len(data) / (way.edge.model.bandwidth or 1.0)
        # Its last byte leaves when the link is free again.
        self._put(way, data, way.busy_until)
        self._agenda.plan_at(way.busy_until, Free(way, way.edge.generation))
