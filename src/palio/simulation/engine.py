"""Discrete-event engine: hosts, links and timers in virtual time.

All that happens to a host at one time is one batch for its node. The effects of the batch are carried out one after the
other, and a crash may be set to come after any of them.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from heapq import heappop, heappush
from random import Random
from typing import Any, Final, Generic, NamedTuple, TypeAlias, TypeVar

from palio.garbage_collector import paused_collector
from palio.routing.combinations import Combination
from palio.routing.effects import (
    UNWANTED,
    CancelTimer,
    Client,
    Close,
    Deliver,
    DeliverColumns,
    Drop,
    Fetch,
    HomeEpoch,
    NotPersisted,
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
from palio.routing.event_batches import single_deliveries
from palio.routing.link_sessions import NetworkConstants, NodeEffect, Transmit
from palio.routing.messages import Publish
from palio.routing.node import Arrived, Connected, Disconnected, Node, NodeInput
from palio.routing.sealing import Keyring
from palio.routing.strategies import SimulationOptions
from palio.routing.upkeep.timeliness import clock_reading
from palio.simulation.hosts import Host, needs_space
from palio.simulation.links import Direction, Edge, LinkModel
from palio.simulation.topologies import Topology
from palio.simulation.trace import Trace, Traffic

_Event = TypeVar("_Event")
_DISK_REFUSAL_SECONDS: Final = 0.001


class EventQueue(Generic[_Event]):
    """Events to come, by their time, and within a time in the order in which they were scheduled.

    Upkeep is scheduled for ever; all other events must come to an end, and a run is over when none of them is left. The
    messages that brokers send because of nothing but upkeep are upkeep as well: some may always be under way.
    """

    __slots__ = ("_at", "_times", "_upkeep", "now", "pending")

    def __init__(self) -> None:
        self.now = 0.0
        self.pending = 0  # events that are not upkeep
        self._times: list[float] = []
        self._at: dict[float, list[_Event]] = {}
        self._upkeep: dict[float, int] = {}  # the number of upkeep events at a time

    def schedule(self, after: float, event: _Event, upkeep: bool = False) -> None:
        self.schedule_at(self.now + after, event, upkeep)

    def schedule_at(self, time: float, event: _Event, upkeep: bool = False) -> None:
        events = self._at.get(time)
        if events is None:
            self._at[time] = [event]
            heappush(self._times, time)
        else:
            events.append(event)
        # Upkeep must not keep a run from ending.
        if upkeep:
            self._upkeep[time] = self._upkeep.get(time, 0) + 1
        else:
            self.pending += 1

    def next_time(self) -> float | None:
        return self._times[0] if self._times else None

    def advance(self) -> list[_Event]:
        """Go to the next time; all events of that time."""
        self.now = heappop(self._times)
        due = self._at.pop(self.now)
        self.pending -= len(due) - self._upkeep.pop(self.now, 0)
        return due


class FrameArrival(NamedTuple):
    """Bytes on their way to an end of a link."""

    way: Direction
    generation: int
    data: bytes
    upkeep: bool


class TimerExpiry(NamedTuple):
    host: int
    name: str
    setting: int
    upkeep: bool


class HostInput(NamedTuple):
    host: int
    incarnation: int
    input: NodeInput


class DiskWrite(NamedTuple):
    """The end of a write, unless a crash came first, which loses it."""

    host: int
    incarnation: int
    persist: Persist


class LinkFree(NamedTuple):
    """A link with bounded bandwidth can take the next frame."""

    way: Direction
    generation: int


class SlowBatch(NamedTuple):
    """Inputs that a slow host gets to."""

    host: int
    incarnation: int
    inputs: Sequence[NodeInput]
    upkeep: bool


class DueCall(NamedTuple):
    """A call at a time: a fault begins or ends, or a client's lease may have ended."""

    call: Callable[[], None]


Scheduled: TypeAlias = FrameArrival | TimerExpiry | HostInput | DiskWrite | LinkFree | SlowBatch | DueCall


class Links:
    """All links between hosts: they carry frames, and count them."""

    def __init__(
        self, hosts: list[Host], queue: EventQueue[Scheduled], trace: Trace, drops: Counter[str], random: Random
    ) -> None:
        self._hosts = hosts
        self._queue = queue
        self._trace = trace
        self._drops = drops
        self._random = random
        self.edges: dict[tuple[int, int], Edge] = {}
        self.traffic = Traffic()
        self.hops = 0

    def build(self, links: Iterable[tuple[int, int, float | None]], options: SimulationOptions) -> None:
        """Build links as the options of a network say; one may have a delay of its own."""
        model = LinkModel.of(options)
        for a, b, delay in links:
            one, other = self._hosts[a], self._hosts[b]
            ends = len(one.ways) + 1, len(other.ways) + 1
            edge = Edge(a, b, ends, model if delay is None else replace(model, delay=delay))
            one.ways.append(edge.directions[0])
            other.ways.append(edge.directions[1])
            self.edges[min(a, b), max(a, b)] = edge

    def transmit(self, host: Host, effect: Transmit, upkeep: bool) -> None:
        """Put the bytes that a host sends on its links."""
        data, kind = effect.data, effect.kind
        now = self._queue.now
        for link in effect.links:
            way = host.ways[link - 1]
            edge = way.edge
            self._trace.record_message(now, host.number, way.to, kind, data)
            self.traffic.count(way.pair, kind, len(data))
            self.hops += 1
            # Counted as sent before: a frame that is lost has used the link of its sender.
            if edge.cut or self._hosts[way.to].node is None:
                self._drops["lost with its link"] += 1
            elif edge.keeps_time:
                self._queue.schedule_at(way.arrival(now), FrameArrival(way, edge.generation, data, upkeep), upkeep)
            elif edge.model.bandwidth is None:
                self._put(way, data, now, upkeep)
            else:
                self._enqueue(way, data, effect.lane == "events")

    def _put(self, way: Direction, data: bytes, now: float, upkeep: bool = False) -> None:
        times = way.arrivals(now, self._random)
        if not times:
            self._drops["lost by a link"] += 1
        for time in times:
            self._queue.schedule_at(time, FrameArrival(way, way.edge.generation, data, upkeep), upkeep)

    def _enqueue(self, way: Direction, data: bytes, is_event: bool) -> None:
        """Wait for a link with bounded bandwidth; control goes before events."""
        if way.waiting is None:
            way.waiting = deque(), deque()
        idle = way.busy_until <= self._queue.now and not any(way.waiting)
        way.waiting[is_event].append(data)
        if idle:
            self.send_next(way)

    def send_next(self, way: Direction) -> None:
        """Put the next frame that waits on a link with bounded bandwidth."""
        control, events = way.waiting or (deque(), deque())
        if not control and not events:
            return
        data = (control or events).popleft()
        way.busy_until = self._queue.now + len(data) / (way.edge.model.bandwidth or 1.0)
        # Its last byte leaves when the link is free again.
        self._put(way, data, way.busy_until)
        self._queue.schedule_at(way.busy_until, LinkFree(way, way.edge.generation))


class Engine:
    """Hosts, links and time. `on_deliver` and `on_reply` are called with the effects for clients, `on_crash` when a
    crash comes that was set for later, and `on_late_write` when something was written that its host has to wait for,
    with the time at which it gets to know."""

    def __init__(
        self,
        topology: Topology,
        combination: Combination,
        seed: int,
        on_deliver: Callable[[int, Deliver], None],
        on_reply: Callable[[int, Reply], None],
        on_crash: Callable[[int], None],
        on_epoch: Callable[[int, HomeEpoch], None],
        on_late_write: Callable[[int, Persist, float], None],
        sealing_keys: Mapping[int, Sequence[bytes]],
    ) -> None:
        self.combination = combination
        self._sealing_keys = sealing_keys
        self.constants = NetworkConstants.of(combination)
        self.random = Random(seed)
        self.queue: EventQueue[Scheduled] = EventQueue()
        self.trace = Trace()
        self.drops: Counter[str] = Counter()
        self._on_deliver = on_deliver
        self._on_reply = on_reply
        self._on_crash = on_crash
        self._on_epoch = on_epoch
        self._on_late_write = on_late_write
        chosen = combination.simulation
        drift, skew = chosen.drift, chosen.skew
        self._disk_delay = chosen.disk
        self._stamps = bool(chosen.stamps)
        # Random numbers are drawn only where an option needs them: runs without it stay what they were for a seed.
        rates = (1 + drift * self.random.uniform(-1, 1) if drift else 1.0 for _ in range(topology.brokers))
        self.hosts = [Host(number, rate) for number, rate in enumerate(rates)]
        if skew:
            for host in self.hosts:
                host.skew = skew * self.random.uniform(-1, 1)
        self.links = Links(self.hosts, self.queue, self.trace, self.drops, self.random)
        self.links.build(topology.links, chosen)
        for host in self.hosts:
            self.start(host)

    @property
    def now(self) -> float:
        return self.queue.now

    def _wall_clock(self, skew: float) -> float:
        return self.now + skew

    def age(self, host: int, event: Publish) -> float | None:
        """The highest age of an event at a host, by its clock; None where it is unknown."""
        at = self.hosts[host]
        if at.node is None or at.node.ages is None:
            return None
        return at.node.ages.age(event, clock_reading(self.now * at.rate))

    # Hosts and links

    def add_host(self) -> Host:
        """Start one more host, without links."""
        drift = self.combination.simulation.drift
        host = Host(len(self.hosts), 1 + drift * self.random.uniform(-1, 1) if drift else 1.0)
        self.hosts.append(host)
        self.start(host)
        return host

    def add_link(self, a: int, b: int, delay: float | None) -> None:
        """Join two hosts by one more link."""
        self.links.build([(a, b, delay)], self.combination.simulation)
        self.connect(self.links.edges[min(a, b), max(a, b)])

    def start(self, host: Host) -> None:
        """Start a node; links to hosts that run are connected."""
        host.incarnation += 1
        host.timers = {}
        host.fuse = None
        host.busy_until = 0.0
        host.is_corrupted = False
        chance, remembered = self.random.random, host.disk.remembered()
        wall = partial(self._wall_clock, host.skew) if self._stamps else None
        clock = partial(self._wall_clock, host.skew)
        keys = self._sealing_keys.get(host.number)
        host.node = Node(
            host.number,
            host.incarnation,
            self.combination,
            self.constants,
            remembered,
            chance,
            wall,
            clock,
            None if keys is None else Keyring(keys),
        )
        for way in host.ways:
            self.connect(way.edge)
        # An empty batch: unfinished events of the log are routed, and timers set, without any input for them.
        if remembered.unfinished or remembered.spilled or remembered.links:
            self.handle(host, ())

    def stop(self, host: Host) -> None:
        """Crash a node."""
        host.node = None
        host.fuse = None
        self.trace.record(self.now, host.number, "crash")
        for way in host.ways:
            if not way.edge.cut and self.hosts[way.to].node is not None:
                self.disconnect(way.edge)

    def connect(self, edge: Edge) -> None:
        if edge.cut or self.hosts[edge.a].node is None or self.hosts[edge.b].node is None:
            return
        for host, link in ((edge.a, edge.ends[0]), (edge.b, edge.ends[1])):
            self.schedule_input(host, Connected(link))

    def disconnect(self, edge: Edge) -> None:
        edge.break_off()
        for host, link in ((edge.a, edge.ends[0]), (edge.b, edge.ends[1])):
            if self.hosts[host].node is not None:
                self.schedule_input(host, Disconnected(link))

    def schedule_input(self, host: int, input: NodeInput, after: float = 0.0) -> None:
        self.queue.schedule(after, HostInput(host, self.hosts[host].incarnation, input))

    def schedule_fault(self, time: float, action: Callable[[], None]) -> None:
        """Let a fault begin or end at a time. Like upkeep it does not keep a network from being quiet."""
        self.queue.schedule(max(0.0, time - self.now), DueCall(action), upkeep=True)

    # Time

    def run(self, until: float | None) -> bool:
        """Run until nothing but upkeep is to come, or until a time; whether the former."""
        # There are no reference cycles, and looking for them takes half of the time.
        with paused_collector():
            return self._run(until)

    def _run(self, until: float | None) -> bool:
        queue = self.queue
        while queue.pending:
            time = queue.next_time()
            if until is not None and time is not None and time > until:
                queue.now = until
                return False
            self._step(queue.advance())
        if until is not None:
            self._run_upkeep(until)
        return not queue.pending

    def _run_upkeep(self, until: float) -> None:
        """Run nothing but upkeep until a time."""
        while (time := self.queue.next_time()) is not None and time <= until:
            self._step(self.queue.advance())
        self.queue.now = max(self.queue.now, until)

    def _step(self, due: list[Scheduled]) -> None:
        batches: dict[int, list[NodeInput]] = {}
        busy: set[int] = set()  # hosts to which something else happens than upkeep
        now = self.queue.now
        # All inputs of one time make one batch for each host, in the order in which they were scheduled.
        for each in due:
            if type(each) is FrameArrival:
                way, generation, data, upkeep = each
                # The generation of a link and the incarnation of a host tell what a cut or a crash has lost.
                if generation == way.edge.generation:
                    batch = batches.get(way.to)
                    if batch is None:
                        batch = batches[way.to] = []
                    batch.append(Arrived(way.link, data, now))
                    if not upkeep:
                        busy.add(way.to)
                else:
                    self.drops["lost with its link"] += 1
            elif type(each) is HostInput:
                if each.incarnation == self.hosts[each.host].incarnation:
                    batches.setdefault(each.host, []).append(each.input)
                    busy.add(each.host)
            elif type(each) is TimerExpiry:
                if self.hosts[each.host].timers.get(each.name) == each.setting:
                    batches.setdefault(each.host, []).append(TimerFired(each.name))
                    if not each.upkeep:
                        busy.add(each.host)
            else:
                self._step_other(each, batches, busy)
        for number, inputs in batches.items():
            host = self.hosts[number]
            if host.slowness or host.busy_until > now:
                self._delay(host, inputs, number not in busy)
            else:
                self.handle(host, inputs, number not in busy)

    def _step_other(self, each: Scheduled, batches: dict[int, list[NodeInput]], busy: set[int]) -> None:
        """What is rarer than frames, inputs and timers."""
        if type(each) is DiskWrite:
            host = self.hosts[each.host]
            if each.incarnation == host.incarnation and host.node is not None:
                answer = self._written(host, each.persist)
                if type(answer) is Persisted:
                    is_slow = host.slowness or host.busy_until > self.now
                    handled_at = max(self.now, host.busy_until) + host.slowness if is_slow else self.now
                    self._on_late_write(each.host, each.persist, handled_at)
                batches.setdefault(each.host, []).append(answer)
                busy.add(each.host)
        elif type(each) is LinkFree and each.generation == each.way.edge.generation:
            self.links.send_next(each.way)
        elif type(each) is SlowBatch and each.incarnation == self.hosts[each.host].incarnation:
            self.handle(self.hosts[each.host], each.inputs, each.upkeep)
        elif type(each) is DueCall:
            each.call()

    def _delay(self, host: Host, inputs: Sequence[NodeInput], upkeep: bool) -> None:
        """Let a slow host get to its inputs later, in their order; also those that come when it is slow no more."""
        host.busy_until = max(self.now, host.busy_until) + host.slowness
        batch = SlowBatch(host.number, host.incarnation, inputs, upkeep)
        self.queue.schedule_at(host.busy_until, batch, upkeep)

    # Effects

    def handle(self, host: Host, inputs: Sequence[NodeInput], upkeep: bool = False) -> None:
        """Let a node handle a batch of inputs, perhaps only of upkeep, and carry out its effects; the disk may answer
        at once."""
        waiting = deque([inputs])
        while waiting and host.node is not None:
            for effect in self._effects_of(host, host.node, waiting.popleft()):
                # A crash set for later comes between two effects: those already carried out stay.
                if host.fuse is not None:
                    if host.fuse == 0:
                        self.stop(host)
                        self._on_crash(host.number)
                        return
                    host.fuse -= 1
                if type(effect) is Transmit:
                    self.links.transmit(host, effect, upkeep)
                    continue
                answer = _EFFECT_HANDLERS[type(effect)](self, host, effect)
                if answer is not None:
                    waiting.append([answer])

    def _effects_of(self, host: Host, node: Node, inputs: Sequence[NodeInput]) -> list[NodeEffect]:
        try:
            return node.handle_batch(inputs, self.now * host.rate)
        except Exception:
            if not host.is_corrupted:
                raise
            self.stop(host)
            self._on_crash(host.number)
            return []

    def _deliver(self, host: Host, effect: Deliver) -> None:
        self._on_deliver(host.number, effect)

    def _deliver_columns(self, host: Host, effect: DeliverColumns) -> None:
        for each in single_deliveries(effect):
            self._on_deliver(host.number, each)

    def _reply(self, host: Host, effect: Reply) -> None:
        self.trace.record(self.now, host.number, type(effect.answer).__name__.lower(), detail=str(effect.answer))
        self._on_reply(host.number, effect)

    def _persist(self, host: Host, effect: Persist) -> NodeInput | None:
        if not self._disk_delay and not host.is_disk_full:
            return self._written(host, effect)
        # Also a refusal takes its time: a broker that tried again at once would never come to an end.
        delay = self._disk_delay or _DISK_REFUSAL_SECONDS
        self.queue.schedule(delay, DiskWrite(host.number, host.incarnation, effect))
        return None

    def _written(self, host: Host, effect: Persist) -> NodeInput:
        if host.is_disk_full and needs_space(effect):
            self.drops["refused by a full disk"] += 1
            return NotPersisted(effect.token, "the disk is full", "full")
        self._write(host, effect)
        return Persisted(effect.token)

    def _write(self, host: Host, effect: Persist) -> None:
        for record in effect.records:
            host.disk.write(record, self.now)
            if isinstance(record, HomeEpoch):
                self._on_epoch(host.number, record)
            if isinstance(record, Queued):
                # The client is connected to the home, and gets the contents of its queue at once.
                names = tuple(each for each in record.names if not self._is_of_standby(host, record.client, each))
                if names:
                    self._on_deliver(host.number, Deliver((Recipient(record.client, names),), record.event))
                continue
            what = record.request if isinstance(record, Record) else record
            detail = str(getattr(what, "wanted", getattr(what, "offered", "")))
            self.trace.record(self.now, host.number, type(what).__name__, detail=detail)

    def _is_of_standby(self, host: Host, client: Client, name: str) -> bool:
        """Whether a queue is that of a standby, or of one that has been told to end it."""
        epoch = host.disk.epochs.get((client, name))
        return not host.disk.knows(client, name) or (epoch is not None and epoch.home != host.number)

    def _set_timer(self, host: Host, effect: SetTimer) -> None:
        setting = host.timers[effect.name] = host.timers.get(effect.name, 0) + 1
        expiry = TimerExpiry(host.number, effect.name, setting, effect.upkeep)
        self.queue.schedule(effect.after / host.rate, expiry, effect.upkeep)

    def _cancel_timer(self, host: Host, effect: CancelTimer) -> None:
        # The expiry stays scheduled, and is ignored because its setting is not the last.
        if effect.name in host.timers:
            host.timers[effect.name] += 1

    def _read(self, host: Host, effect: Read) -> NodeInput:
        return ReadDone(effect.token, host.disk.page(host.number, effect))

    def _fetch(self, host: Host, effect: Fetch) -> NodeInput:
        return host.disk.fetch(effect)

    def _work(self, host: Host, effect: Work) -> NodeInput:
        return WorkDone(effect.token, effect.job())

    def _close(self, host: Host, effect: Close) -> None:
        way = host.ways[effect.link - 1]
        self.trace.record(self.now, host.number, "close", way.to, effect.reason)
        self.drops[effect.reason] += 1
        way.edge.cut = True
        self.disconnect(way.edge)

    def _drop(self, host: Host, effect: Drop) -> None:
        self.drops[effect.reason] += 1
        if effect.reason == UNWANTED and effect.link is not None and isinstance(effect.message, Publish):
            self.links.traffic.count_unwanted(host.ways[effect.link - 1].pair, effect.message.useless)


_EFFECT_HANDLERS: Final[dict[type, Callable[[Engine, Host, Any], NodeInput | None]]] = {
    Deliver: Engine._deliver,
    DeliverColumns: Engine._deliver_columns,
    Reply: Engine._reply,
    Persist: Engine._persist,
    SetTimer: Engine._set_timer,
    CancelTimer: Engine._cancel_timer,
    Read: Engine._read,
    Fetch: Engine._fetch,
    Work: Engine._work,
    Close: Engine._close,
    Drop: Engine._drop,
}
