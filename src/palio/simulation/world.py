"""How do many nodes run in virtual time? All that happens to a node at one time is one batch; its effects are carried
out one after the other, and a crash may be set to come after any of them.
"""

from __future__ import annotations

import gc
from collections import Counter, deque
from collections.abc import Callable, Sequence
from functools import partial
from random import Random
from typing import Any, Final

from palio.routing.combinations import Combination
from palio.routing.constants import Constants
from palio.routing.effects import (
    UNWANTED,
    CancelTimer,
    Close,
    Deliver,
    Drop,
    Persist,
    Persisted,
    Queued,
    Read,
    ReadDone,
    Recipient,
    Record,
    Reply,
    SetTimer,
    TimerFired,
    Work,
    WorkDone,
)
from palio.routing.messages import Publish
from palio.routing.node import Arrived, Connected, Disconnected, Node, NodeInput
from palio.routing.session import Transmit
from palio.simulation.agenda import Agenda
from palio.simulation.hosts import Host
from palio.simulation.links import Edge
from palio.simulation.plans import Frame, Free, Input, Planned, Timer, Written
from palio.simulation.topologies import Topology
from palio.simulation.trace import Trace
from palio.simulation.wires import Wires


class World:
    """Hosts, links and time. `delivered` and `replied` are called with what comes out at clients, and `crashed` when a
    crash comes that was set for later."""

    def __init__(
        self,
        topology: Topology,
        combination: Combination,
        seed: int,
        delivered: Callable[[int, Deliver], None],
        replied: Callable[[int, Reply], None],
        crashed: Callable[[int], None],
    ) -> None:
        self.combination = combination
        self.constants = Constants.of(combination)
        self.random = Random(seed)
        self.agenda: Agenda[Planned] = Agenda()
        self.trace = Trace()
        self.drops: Counter[str] = Counter()
        self._delivered = delivered
        self._replied = replied
        self._crashed = crashed
        self._disk_delay = float(combination.options.get("disk", 0.0))
        drift = float(combination.options.get("drift", 0.0))
        skew = float(combination.options.get("skew", 0.0))
        self._stamps = bool(combination.options.get("stamps", False))
        rates = (1 + drift * self.random.uniform(-1, 1) if drift else 1.0 for _ in range(topology.brokers))
        self.hosts = [Host(number, rate) for number, rate in enumerate(rates)]
        if skew:
            for host in self.hosts:
                host.skew = skew * self.random.uniform(-1, 1)
        self.wires = Wires(self.hosts, self.agenda, self.trace, self.drops, self.random)
        self.wires.lay(topology.links, combination.options)
        for host in self.hosts:
            self.start(host)

    @property
    def now(self) -> float:
        return self.agenda.now

    def _wall(self, skew: float) -> float:
        """The time on the wall of a host."""
        return self.now + skew

    # Hosts and links

    def start(self, host: Host) -> None:
        """Begin a life; links to hosts that run are connected."""
        host.incarnation += 1
        host.timers = {}
        host.fuse = None
        chance, remembered = self.random.random, host.disk.remembered()
        wall = partial(self._wall, host.skew) if self._stamps else None
        host.node = Node(host.number, host.incarnation, self.combination, self.constants, remembered, chance, wall)
        for way in host.ways:
            self.connect(way.edge)
        if remembered.unfinished:
            self.handle(host, ())

    def stop(self, host: Host) -> None:
        """End a life without a word."""
        host.node = None
        host.fuse = None
        self.trace.did(self.now, host.number, "crash")
        for way in host.ways:
            if not way.edge.cut and self.hosts[way.to].node is not None:
                self.disconnect(way.edge)

    def connect(self, edge: Edge) -> None:
        if edge.cut or self.hosts[edge.a].node is None or self.hosts[edge.b].node is None:
            return
        for host, link in ((edge.a, edge.ends[0]), (edge.b, edge.ends[1])):
            self.plan_input(host, Connected(link))

    def disconnect(self, edge: Edge) -> None:
        edge.break_off()
        for host, link in ((edge.a, edge.ends[0]), (edge.b, edge.ends[1])):
            if self.hosts[host].node is not None:
                self.plan_input(host, Disconnected(link))

    def plan_input(self, host: int, input: NodeInput, after: float = 0.0) -> None:
        self.agenda.plan(after, Input(host, self.hosts[host].incarnation, input))

    # Time

    def run(self, until: float | None) -> bool:
        """Go on until nothing but upkeep is to come, or until a time; whether the former.

        Meanwhile Python looks for no circles of references: there are none, and looking takes half of the time.
        """
        collects = gc.isenabled()
        gc.disable()
        try:
            return self._run(until)
        finally:
            if collects:
                gc.enable()

    def _run(self, until: float | None) -> bool:
        agenda = self.agenda
        while agenda.awaited:
            time = agenda.next_time()
            if until is not None and time is not None and time > until:
                agenda.now = until
                return False
            self._step(agenda.advance())
        if until is not None:
            self._keep_up(until)
        return True

    def _keep_up(self, until: float) -> None:
        """Nothing but upkeep, for as long as somebody wants to see it."""
        while (time := self.agenda.next_time()) is not None and time <= until:
            self._step(self.agenda.advance())
        self.agenda.now = max(self.agenda.now, until)

    def _step(self, due: list[Planned]) -> None:
        batches: dict[int, list[NodeInput]] = {}
        now = self.agenda.now
        for each in due:
            if type(each) is Frame:
                way, generation, data = each
                if generation == way.edge.generation:
                    batch = batches.get(way.to)
                    if batch is None:
                        batch = batches[way.to] = []
                    batch.append(Arrived(way.link, data, now))
                else:
                    self.drops["lost with its link"] += 1
            elif type(each) is Input:
                if each.incarnation == self.hosts[each.host].incarnation:
                    batches.setdefault(each.host, []).append(each.input)
            elif type(each) is Timer:
                if self.hosts[each.host].timers.get(each.name) == each.setting:
                    batches.setdefault(each.host, []).append(TimerFired(each.name))
            elif type(each) is Written:
                host = self.hosts[each.host]
                if each.incarnation == host.incarnation and host.node is not None:
                    self._write(host, each.persist)
                    batches.setdefault(each.host, []).append(Persisted(each.persist.token))
            elif type(each) is Free and each.generation == each.way.edge.generation:
                self.wires.send_next(each.way)
        for number, inputs in batches.items():
            self.handle(self.hosts[number], inputs)

    # Effects

    def handle(self, host: Host, inputs: Sequence[NodeInput]) -> None:
        """Let a node handle what happened to it, and do what it wants done; the disk may answer at once."""
        waiting = deque([inputs])
        while waiting and host.node is not None:
            node = host.node
            for effect in node.handle_batch(waiting.popleft(), self.now * host.rate):
                if host.fuse is not None:
                    if host.fuse == 0:
                        self.stop(host)
                        self._crashed(host.number)
                        return
                    host.fuse -= 1
                if type(effect) is Transmit:
                    self.wires.carry(host, effect)
                    continue
                answer = _CARRY_OUT[type(effect)](self, host, effect)
                if answer is not None:
                    waiting.append([answer])

    def _deliver(self, host: Host, effect: Deliver) -> None:
        self._delivered(host.number, effect)

    def _reply(self, host: Host, effect: Reply) -> None:
        self.trace.did(self.now, host.number, type(effect.answer).__name__.lower(), detail=str(effect.answer))
        self._replied(host.number, effect)

    def _persist(self, host: Host, effect: Persist) -> NodeInput | None:
        if not self._disk_delay:
            self._write(host, effect)
            return Persisted(effect.token)
        self.agenda.plan(self._disk_delay, Written(host.number, host.incarnation, effect))
        return None

    def _write(self, host: Host, effect: Persist) -> None:
        for record in effect.records:
            host.disk.write(record, self.now)
            if isinstance(record, Queued):
                # Its client is there, and hears of what is in its queue at once.
                self._delivered(host.number, Deliver((Recipient(record.client, record.names),), record.event))
                continue
            what = record.request if isinstance(record, Record) else record
            detail = str(getattr(what, "wanted", getattr(what, "offered", "")))
            self.trace.did(self.now, host.number, type(what).__name__, detail=detail)

    def _set_timer(self, host: Host, effect: SetTimer) -> None:
        setting = host.timers[effect.name] = host.timers.get(effect.name, 0) + 1
        self.agenda.plan(effect.after / host.rate, Timer(host.number, effect.name, setting), effect.upkeep)

    def _cancel_timer(self, host: Host, effect: CancelTimer) -> None:
        if effect.name in host.timers:
            host.timers[effect.name] += 1

    def _read(self, host: Host, effect: Read) -> NodeInput:
        return ReadDone(effect.token, host.disk.page(host.number, effect))

    def _work(self, host: Host, effect: Work) -> NodeInput:
        return WorkDone(effect.token, effect.job())

    def _close(self, host: Host, effect: Close) -> None:
        way = host.ways[effect.link - 1]
        self.trace.did(self.now, host.number, "close", way.to, effect.reason)
        self.drops[effect.reason] += 1
        way.edge.cut = True
        self.disconnect(way.edge)

    def _drop(self, host: Host, effect: Drop) -> None:
        self.drops[effect.reason] += 1
        if effect.reason == UNWANTED and effect.link is not None and isinstance(effect.message, Publish):
            self.wires.traffic.count_unwanted(host.ways[effect.link - 1].pair, effect.message.useless)


_CARRY_OUT: Final[dict[type, Callable[[World, Host, Any], NodeInput | None]]] = {
    Deliver: World._deliver,
    Reply: World._reply,
    Persist: World._persist,
    SetTimer: World._set_timer,
    CancelTimer: World._cancel_timer,
    Read: World._read,
    Work: World._work,
    Close: World._close,
    Drop: World._drop,
}
