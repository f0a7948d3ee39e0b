"""What drives a node on a real machine? All that happens while the loop is busy goes in as one batch.

An idle broker handles what comes in the next turn of the loop; a busy one finds more to handle together each time it
looks, and so matches many events at once without ever waiting for them. Effects are carried out in their order; what
goes to one connection leaves in one write.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any, Final, Protocol, TypeVar, cast

from palio.network.channel import Channel
from palio.network.disk import StoreDisk, Writing
from palio.network.handing import Way
from palio.network.store.interface import Acknowledged
from palio.routing import codec
from palio.routing.clients import Accepted, Answer, PublishClient, PublishTogether
from palio.routing.effects import (
    CancelTimer,
    Client,
    Close,
    Deliver,
    Drop,
    Lane,
    Persist,
    Read,
    ReadDone,
    Reply,
    Requested,
    SetTimer,
    TimerFired,
    Work,
    WorkDone,
)
from palio.routing.messages import Publish
from palio.routing.node import Arrived, Node, NodeInput
from palio.routing.recurring import Recurring
from palio.routing.session import Transmit

T = TypeVar("T")
log = logging.getLogger("palio.host")
_IDLE: Final = 0.0005  # seconds without work after which nobody waits for more to handle together
_AT_ONCE: Final = 64  # inputs of one batch: what is done leaves before more is begun, and others work on it meanwhile


class LinkEnd(Protocol):
    """One end of a link to a neighbour."""

    def transmit(self, data: bytes, lane: Lane) -> None:
        """Send; control before events that still wait."""

    def close(self, reason: str) -> None:
        """Give the link up."""


class ClientEnd(Protocol):
    """Where a client's events and answers go."""

    def offer(self, names: tuple[str, ...], event: Publish) -> None:
        """An event for some of its subscriptions."""

    def answer(self, answer: Answer) -> None:
        """What it is told beside events."""

    def settle(self) -> None:
        """A batch is over: it may look at what it got."""


class QueueEnd(ClientEnd, Protocol):
    """Where a durable subscription's events go."""

    def queued_more(self) -> None:
        """Something was written to its queue."""


class Host:
    """One node, its links and its clients. `now` is the clock of this machine that never jumps."""

    def __init__(self, node: Node, disk: StoreDisk) -> None:
        self.node = node
        self.links: dict[int, LinkEnd] = {}
        self.clients: dict[Client, ClientEnd] = {}
        self.ways = Recurring[tuple[str, ...], Way]()  # of all clients, for sets of subscriptions that events had
        self.drops: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self._disk = disk
        self._writing = Writing(disk, self.give, self._queued, self.drops)
        self._loop = asyncio.get_running_loop()
        self.now = time.monotonic  # the clock of asyncio's loop; uvloop's only knows when its turn began
        self._inputs: list[NodeInput] = []
        self._behind: list[tuple[int, Callable[[], None]]] = []  # how many inputs are before, and what is done then
        self._is_due = False
        self._is_reading = False
        self._ended = 0.0  # when the last batch was done
        self.is_handling = False
        self._unwritten: list[Channel] = []
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._touched: dict[ClientEnd, None] = {}
        self._blocking: set[object] = set()
        self._held: list[Transmit | Reply] = []
        self._workers = ThreadPoolExecutor(1, "palio-work")
        self._readers = ThreadPoolExecutor(1, "palio-read")  # one: several would keep the loop waiting all the same
        self._closed = False

    def give(self, input: NodeInput) -> None:
        """Something happened; it is handled with all that happens before the loop gets to it."""
        self._inputs.append(input)
        if not self._is_due and not self._is_reading:
            self._is_due = True
            self._loop.call_soon(self._run)

    def give_all(self, inputs: list[NodeInput]) -> None:
        """Several things happened."""
        self._inputs += inputs
        if not self._is_due and not self._is_reading:
            self._is_due = True
            self._loop.call_soon(self._run)

    def then(self, done: Callable[[], None]) -> None:
        """Do something when all that happened until now is handled."""
        if self._inputs:
            self._behind.append((len(self._inputs), done))
        else:
            done()

    def begin_reading(self) -> None:
        """A connection is about to give what it read."""
        self._is_reading = True

    def end_reading(self) -> None:
        """It has. After a while without work that is handled at once: waiting for the others to be read would make it
        late, and there are likely none. Otherwise it waits for them, until the loop comes round."""
        self._is_reading = False
        if not self._inputs or self._is_due:
            return
        if self.now() - self._ended > _IDLE:
            self._run()
        else:
            self._is_due = True
            self._loop.call_soon(self._run)

    def flush_later(self, channel: Channel) -> None:
        """Write what a channel has to send when the batch is done."""
        self._unwritten.append(channel)

    def close(self) -> None:
        """Handle nothing more."""
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()
        for each in (self._workers, self._readers):
            each.shutdown(wait=True, cancel_futures=True)

    def beside(self, reading: Callable[[], T]) -> asyncio.Future[T]:
        """Read something that takes long, in another thread; what is outside waits its turn, and the loop goes on."""
        return self._loop.run_in_executor(self._readers, reading)

    def _run(self) -> None:
        self._is_due = False
        if self._closed:
            return
        inputs, self._inputs = self._inputs[:_AT_ONCE], self._inputs[_AT_ONCE:]
        if self._inputs:
            self._is_due = True
            self._loop.call_soon(self._run)
        self.counts["batches"] += 1
        self.counts["in"] += sum(map(_events_in, inputs))
        self.is_handling = True
        try:
            for effect in self.node.handle_batch(inputs, self.now()):
                _CARRY_OUT[type(effect)](self, effect)
            if self._held and not self._blocking:
                self._release()
            self._settle()
            if self._behind:
                self._pass_behind(len(inputs))
        finally:
            self.is_handling = False
            unwritten, self._unwritten = self._unwritten, []
            for channel in unwritten:
                channel.flush()
            self._ended = self.now()

    def _pass_behind(self, handled: int) -> None:
        behind, self._behind = self._behind, []
        for before, done in behind:
            if before > handled:
                self._behind.append((before - handled, done))
            else:
                done()

    def _settle(self) -> None:
        touched, self._touched = self._touched, {}
        for client in touched:
            client.settle()

    # What slow subscribers hold back: confirmations here, and credit to neighbours. Never reads.

    def block(self, who: object) -> None:
        """Let no confirmed publisher go on until `unblock`; what is on its way still comes."""
        self._blocking.add(who)

    def unblock(self, who: object) -> None:
        self._blocking.discard(who)
        if not self._blocking and self._held:
            self._release()
            self._settle()

    def _release(self) -> None:
        held, self._held = self._held, []
        for effect in held:
            if isinstance(effect, Reply):
                self._tell(effect)
            else:
                self._transmit(effect)

    @property
    def is_blocked(self) -> bool:
        return bool(self._blocking)

    # Effects

    def _transmit(self, effect: Transmit) -> None:
        if self._blocking and effect.kind == codec.GRANT:
            self._held.append(effect)
            return
        for link in effect.links:
            end = self.links.get(link)
            if end is None:
                self.drops["lost with its link"] += 1
            else:
                end.transmit(effect.data, effect.lane)

    def _deliver(self, effect: Deliver) -> None:
        event = effect.event
        self.counts["out"] += len(effect.clients)
        for client, names in effect.clients:
            end = self.clients.get(client)
            if end is None:
                self.drops["client not connected"] += 1
                continue
            end.offer(names, event)
            self._touched[end] = None

    def _reply(self, effect: Reply) -> None:
        if type(effect.answer) is Accepted:
            # At the end of the batch it is known whether its events have filled a queue.
            self._held.append(effect)
        else:
            self._tell(effect)

    def _tell(self, effect: Reply) -> None:
        end = self.clients.get(effect.client)
        if end is not None:
            end.answer(effect.answer)
            self._touched[end] = None

    def _persist(self, effect: Persist) -> None:
        self._writing.persist(effect)

    def acknowledge(self, done: Acknowledged) -> None:
        """Events of a durable subscription need not be kept any more."""
        self._writing.acknowledge(done)

    def _queued(self, client: Client) -> None:
        """Something was written to a queue of a client."""
        end = self.clients.get(client)
        if end is not None and hasattr(end, "queued_more"):
            cast(QueueEnd, end).queued_more()
            self.counts["out"] += 1
            self._wake(end)

    def _wake(self, end: ClientEnd) -> None:
        """Let a client look, at the end of the batch or, outside of one, in the next turn of the loop."""
        if not self._touched:
            self._loop.call_soon(self._settle)
        self._touched[end] = None

    def _set_timer(self, effect: SetTimer) -> None:
        self._cancel_timer(CancelTimer(effect.name))
        self._timers[effect.name] = self._loop.call_later(effect.after, self._fire, effect.name)

    def _fire(self, name: str) -> None:
        del self._timers[name]
        self.give(TimerFired(name))

    def _cancel_timer(self, effect: CancelTimer) -> None:
        timer = self._timers.pop(effect.name, None)
        if timer is not None:
            timer.cancel()

    def _work(self, effect: Work) -> None:
        self._beside(effect.job, lambda result: WorkDone(effect.token, result))

    def _read(self, effect: Read) -> None:
        read = partial(self._disk.read, effect, self.node.broker.node)
        self._beside(read, lambda page: ReadDone(effect.token, page))

    def _beside(self, job: Callable[[], Any], done: Callable[[Any], NodeInput]) -> None:
        """Do something in another thread, and give the node what comes of it."""

        def finished(future: asyncio.Future[Any]) -> None:
            if future.cancelled() or self._closed:
                return
            error = future.exception()
            if error is not None:
                # Whoever waits is answered as if nothing had come of it, and not left to wait for ever.
                log.error("a job beside the broker failed", exc_info=error)
                self.drops["job failed"] += 1
            self.give(done(None if error is not None else future.result()))

        self._loop.run_in_executor(self._workers, job).add_done_callback(finished)

    def _close(self, effect: Close) -> None:
        self.drops[effect.reason] += 1
        end = self.links.get(effect.link)
        if end is not None:
            end.close(effect.reason)

    def _drop(self, effect: Drop) -> None:
        self.drops[effect.reason] += 1


def _events_in(input: NodeInput) -> int:
    if type(input) is Arrived:
        return codec.kind_of(input.data) == codec.PUBLISH
    if type(input) is not Requested:
        return 0
    request = input.request
    return len(request.events) if type(request) is PublishTogether else type(request) is PublishClient


_CARRY_OUT: Final[dict[type, Callable[[Host, Any], None]]] = {
    Transmit: Host._transmit,
    Deliver: Host._deliver,
    Reply: Host._reply,
    Persist: Host._persist,
    SetTimer: Host._set_timer,
    CancelTimer: Host._cancel_timer,
    Read: Host._read,
    Work: Host._work,
    Close: Host._close,
    Drop: Host._drop,
}
