"""Event loop driver of a routing node: collects inputs into batches and carries out the effects.

All inputs that arrive while the loop is busy are handled as one batch. An idle broker handles an input in the next turn
of the loop; a busy one finds larger batches each time, and matches many events at once without ever waiting for them.
Effects are carried out in their order; what goes to one connection leaves in one write.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from heapq import nsmallest
from pathlib import Path
from typing import Any, Final, NamedTuple, Protocol, TypeVar, cast

from palio.errors import PalioError
from palio.filters.filter import Filter
from palio.filters.work_limit import WorkLimit, work_limit
from palio.network.channel import Channel
from palio.network.security.authorization import LinkFilters
from palio.network.security.quotas import BrokerLimits
from palio.network.server.backpressure import Backpressure
from palio.network.server.batch_delivery import Groups, SharedBatch
from palio.network.server.costly_conditions import CostlyConditions
from palio.network.server.delivery_queues import DeliveryPlan
from palio.network.server.log_queries import read_log_page
from palio.network.server.persistence import Persistence
from palio.network.store.interface import (
    Acknowledged,
    ConsumerLost,
    DeadLetterAdded,
    DeadLettersRemoved,
    DeliveriesFailed,
    Store,
)
from palio.routing import codec
from palio.routing.client_messages import (
    Accepted,
    Answer,
    ClientRequest,
    Confirmed,
    Consumed,
    DoneClient,
    PublishBatch,
    PublishClient,
    Refused,
    SubscribeClient,
    UnsubscribeClient,
)
from palio.routing.durable_settings import DurableSettings
from palio.routing.effects import (
    UNREADABLE,
    BatchRequest,
    CancelTimer,
    Client,
    Close,
    Deliver,
    DeliverColumns,
    Drop,
    Fetch,
    Fetched,
    Lane,
    Persist,
    Queued,
    Read,
    ReadDone,
    Reply,
    Requested,
    SetTimer,
    TimerFired,
    Work,
    WorkDone,
)
from palio.routing.link_sessions import Transmit
from palio.routing.memo import IdentityMemo
from palio.routing.messages import LOCAL, BrokerLogPage, EventId, HomeBroker, Publish, PublishColumns
from palio.routing.node import Arrived, Node, NodeInput

T = TypeVar("T")
log = logging.getLogger("palio.host")
_IDLE_SECONDS: Final = 0.0005  # without a batch; then an input is handled at once instead of waiting for others
# A batch ends here although more inputs wait: its effects leave, and other brokers work on them meanwhile.
_MAX_BATCH_INPUTS: Final = 64
# Backlog beyond which batches follow each other without reading from connections in between. One turn of the loop reads
# over a thousand small requests from each connection: a fast sender would outpace the batches, and fill the memory.
_MAX_BACKLOG_INPUTS: Final = 2_048
# Deliveries of several batches leave in one write for each client: of this many batches and, where these have few
# deliveries for each of many clients, of those of some time. Both are bounded in the bytes of their events.
_MIN_DEFERRED_BATCHES: Final = 16
_MAX_DEFERRED_SECONDS: Final = 0.05
_ENOUGH_DELIVERIES: Final = 32  # in one write, on average
_MAX_TRIMMED_EVENTS: Final = 4_096  # of a standby's queue that are compared with what was acknowledged at the home
_MAX_DEFERRED_BYTES: Final = 1024 * 1024


class LinkEnd(Protocol):
    """This broker's end of a link to a neighbour."""

    def transmit(self, data: bytes, lane: Lane) -> None:
        """Send; control messages overtake events that still wait."""

    def close(self, reason: str) -> None:
        """Give the link up."""


class ClientEnd(Protocol):
    """Receiver of the events and answers for one client."""

    def offer(self, names: tuple[str, ...], event: Publish) -> None:
        """Take an event for some of the client's subscriptions."""

    def offer_batch(self, groups: Groups, batch: SharedBatch) -> None:
        """Take rows of a batch of events, each for some of the client's subscriptions."""

    def answer(self, answer: Answer) -> None:
        """Take the answer to a request."""

    def on_batch_end(self) -> None:
        """Send what the batch brought."""

    def withdraw(self, name: str, reason: PalioError) -> None:
        """End a subscription from the broker's side, and tell the client why."""


class QueueEnd(ClientEnd, Protocol):
    """Receiver for one durable subscription, whose events come by its queue on disk."""

    def on_queue_written(self) -> None:
        """Read the queue again: an event was added."""


class DurableEntry(NamedTuple):
    """A durable subscription as the broker's tables have it."""

    client: Client
    name: str
    filter: Filter


class Host:
    """One routing node with its links, its clients and its store."""

    def __init__(self, node: Node, store: Store, limits: BrokerLimits | None = None, data: Path | None = None) -> None:
        self.node = node
        self._broker = node.broker
        self.broker_id = node.broker.node
        self.links: dict[int, LinkEnd] = {}
        self.clients: dict[Client, ClientEnd] = {}
        self.delivery_plans = IdentityMemo[tuple[str, ...], DeliveryPlan]()  # by sets of subscriptions, of all clients
        self.drops: Counter[str] = Counter()
        self.counts: Counter[str] = Counter()
        self._consumed: dict[tuple[Client, str], dict[EventId, None]] = {}  # at homes, and not in the queues here yet
        self.is_handling = False
        self.is_stopping = False
        self.on_consumer_gone: Callable[[Client, str], None] = lambda client, name: None
        self._awaited: dict[tuple[Client, str], list[Callable[[Answer], None]]] = {}  # answers to `request_answered`
        # Not `loop.time`: that of uvloop stands still during a turn of the loop.
        self.now = time.monotonic
        self._store = store
        self._persistence = Persistence(store, self.enqueue, self._on_queue_written, self.drops)
        self._loop = asyncio.get_running_loop()
        self._inputs: list[NodeInput] = []
        self._after_inputs: list[tuple[int, Callable[[], None]]] = []  # inputs still before it, and the call
        self._is_scheduled = False  # a batch begins in a coming turn of the loop
        self._is_reading = False  # a connection is enqueuing; `end_reading` decides when the batch begins
        self._batch_ended = 0.0
        self._unflushed: list[Channel] = []
        self._deferred: list[Channel] = []  # those that are flushed when there is no backlog any more
        self._deferred_batches = 0
        self._deferred_bytes = 0
        self._deferred_since = 0.0
        self._deliveries_before = 0
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._touched: dict[ClientEnd, None] = {}
        self.backpressure = Backpressure(self._answer, self.enqueue, self._end_batch, self.drops)
        self._workers = ThreadPoolExecutor(1, "palio-work")
        # One reader: several threads would keep the loop waiting for the interpreter lock all the same.
        self._readers = ThreadPoolExecutor(1, "palio-read")
        self._closed = False
        self.conditions = CostlyConditions(self, limits or BrokerLimits(), data)

    # Inputs

    def enqueue(self, input: NodeInput) -> None:
        """Handle an input, together with all others that arrive before the loop gets to it."""
        self._inputs.append(input)
        if not self._is_scheduled and not self._is_reading:
            self._schedule()

    def enqueue_all(self, inputs: list[NodeInput]) -> None:
        self._inputs += inputs
        if not self._is_scheduled and not self._is_reading:
            self._schedule()

    def request(self, client: Client, request: ClientRequest | BatchRequest) -> None:
        """Hand a client's request to the broker."""
        if type(request) is SubscribeClient:
            self.conditions.add(client, request.name, request.wanted)
        elif type(request) is UnsubscribeClient:
            self.conditions.remove(client, request.name)
        self.enqueue(Requested(client, request, self.now()))

    def request_answered(self, client: Client, request: SubscribeClient, on_answer: Callable[[Answer], None]) -> None:
        """Hand a request for a durable subscription to the broker, whether or not a session reads it; `on_answer` gets
        `Confirmed` or `Refused`."""
        self._awaited.setdefault((client, request.name), []).append(on_answer)
        self.request(client, request)

    def after_pending(self, call: Callable[[], None]) -> None:
        """Call once all inputs that were enqueued until now are handled.

        The barrier of `Sync`: inputs are handled in order, so that counting those before it is enough.
        """
        if self._inputs:
            self._after_inputs.append((len(self._inputs), call))
        else:
            call()

    def begin_reading(self) -> None:
        """A connection is about to enqueue what it read: wait with the batch until `end_reading`."""
        self._is_reading = True

    def end_reading(self) -> None:
        """Handle what a connection enqueued: at once after an idle time, otherwise when the loop comes round.

        On an idle broker no other connection is likely to have anything, and waiting would only add latency.
        """
        self._is_reading = False
        if not self._inputs or self._is_scheduled:
            return
        if self.now() - self._batch_ended > _IDLE_SECONDS:
            self._is_scheduled = True
            self._run()
        else:
            self._schedule()

    def flush_later(self, channel: Channel) -> None:
        """Write what a channel has to send when the batch is done, or after the next ones where it may wait."""
        (self._deferred if channel.may_defer else self._unflushed).append(channel)

    def run_off_loop(self, call: Callable[[], T]) -> asyncio.Future[T]:
        """Run a slow computation in the reader thread; such calls run one after the other."""
        return self._loop.run_in_executor(self._readers, call)

    def close(self) -> None:
        """Handle nothing more, and wait for the threads."""
        self._closed = True
        for timer in self._timers.values():
            timer.cancel()
        self.backpressure.close()
        for each in (self._workers, self._readers):
            each.shutdown(wait=True, cancel_futures=True)

    def _schedule(self) -> None:
        self._is_scheduled = True
        self._loop.call_soon(self._run)

    def _run(self) -> None:
        try:
            while not self._closed:
                inputs, self._inputs = self._inputs[:_MAX_BATCH_INPUTS], self._inputs[_MAX_BATCH_INPUTS:]
                self._handle_batch(inputs)
                if len(self._inputs) <= _MAX_BACKLOG_INPUTS:
                    break
        finally:  # an error in one batch must not stop those that follow
            self._is_scheduled = False
            if self._inputs:
                self._schedule()

    def _handle_batch(self, inputs: list[NodeInput]) -> None:
        self.counts["batches"] += 1
        self.counts["in"] += sum(map(_count_events, inputs))
        self.is_handling = True  # channels flush after the batch, not in a turn of the loop each
        started = time.thread_time()
        try:
            with work_limit(self.conditions.costs.work):
                effects = self.node.handle_batch(inputs, self.now())
            self.conditions.costs.note_batch(time.thread_time() - started, inputs)
            for effect in effects:
                _CARRY_OUT[type(effect)](self, effect)
            # Only now is it known which events of this batch have filled a queue of policy `block`.
            self.backpressure.end_batch()
            self._end_batch()
            if self._after_inputs:
                self._call_after(len(inputs))
        finally:  # also after an error: what was sent before it must not wait for the next batch
            self.is_handling = False
            unflushed, self._unflushed = self._unflushed, []
            for channel in unflushed:
                channel.flush()
            self._flush_deferred(inputs)
            self._batch_ended = self.now()

    def _flush_deferred(self, inputs: list[NodeInput]) -> None:
        """Write to clients, unless the next batch is waiting already and has more for them.

        A write, and the wake-up of its reader, costs more than the event in it: with a thousand connections a batch
        has one event or two for each. Links are never deferred, since other brokers work on what they get meanwhile.
        """
        if not self._deferred_batches:
            self._deferred_since, self._deliveries_before = self.now(), self.counts["out"]
        self._deferred_batches += 1
        self._deferred_bytes += sum(map(_event_bytes, inputs))
        if (
            self._inputs
            and (self._deferred_batches < _MIN_DEFERRED_BATCHES or self._has_short_writes())
            and self._deferred_bytes < _MAX_DEFERRED_BYTES
            and not self._closed
        ):
            return
        self._deferred_batches = self._deferred_bytes = 0
        deferred, self._deferred = self._deferred, []
        for channel in deferred:
            channel.flush()

    def _has_short_writes(self) -> bool:
        """Whether what waits for the clients is a few deliveries for each of many, which may wait for more."""
        deliveries, clients = self.counts["out"] - self._deliveries_before, len(self._deferred)
        is_short = clients <= deliveries < _ENOUGH_DELIVERIES * clients
        return is_short and self.now() - self._deferred_since < _MAX_DEFERRED_SECONDS

    def _call_after(self, handled: int) -> None:
        waiting, self._after_inputs = self._after_inputs, []
        for before, call in waiting:
            if before > handled:
                self._after_inputs.append((before - handled, call))
            else:
                call()

    def _end_batch(self) -> None:
        touched, self._touched = self._touched, {}
        for client in touched:
            client.on_batch_end()

    # The broker's tables

    @property
    def durable_count(self) -> int:
        """Number of durable subscriptions that this broker holds."""
        return len(self._broker.durable_queues)

    def durable_keys(self) -> Iterator[tuple[Client, str]]:
        """Owner and name of all durable subscriptions whose home is this broker."""
        return (each for each in self._broker.durable_queues if not self.is_standby(*each))

    def durable_page(self, prefix: str, after: Client, limit: int) -> list[DurableEntry]:
        """The next durable subscriptions of clients whose name has a prefix, in the order of the names."""
        wants = self._broker.tables.subscriptions
        keys = (each for each in self.durable_keys() if each[0] > after and each[0].startswith(prefix))
        found = ((client, name, wants.get(client, name)) for client, name in nsmallest(limit, keys))
        return [DurableEntry(client, name, owned.filter) for client, name, owned in found if owned is not None]

    def is_durable(self, client: Client, name: str) -> bool:
        """Whether this broker is the home of a durable subscription."""
        return self._broker.durable_queues.is_durable(client, name) and not self.is_standby(client, name)

    def is_standby(self, client: Client, name: str) -> bool:
        """Whether this broker is the standby of a durable subscription, and not its home."""
        return self._broker.standbys.is_standby(client, name)

    def standby_status(self, client: Client, name: str) -> dict[str, Any] | None:
        """The standby of a durable subscription whose home is this broker; None where it has and had none. It is
        `protected` where both homes take events: each confirmed one is on two disks."""
        epoch = self._broker.standbys.epoch(client, name)
        if epoch is None:
            return None
        settings = self.durable_settings(client, name)
        state = "none" if epoch.standby is None else "away"
        if self._broker.standbys.is_in_reach(client, name):
            state = "protected"
        return {
            "epoch": epoch.epoch,
            "broker": epoch.standby,
            "address": epoch.address,
            "state": state,
            "while_away": (settings and settings.standby_away) or "refuse",
        }

    def durable_settings(self, client: Client, name: str) -> DurableSettings | None:
        """The settings of a durable subscription that this broker holds."""
        return self._broker.durable_queues.settings(client, name)

    def rival_homes(self, client: Client, name: str) -> tuple[HomeBroker, ...]:
        """Other brokers that claim the durable subscription too."""
        return self._broker.claims.rivals(client, name)

    def other_homes(self) -> list[int]:
        """The other brokers that are known to hold durable subscriptions."""
        return [broker for broker in self._broker.delivery.expected.homes() if broker != self.broker_id]

    def set_public_address(self, address: str, others: tuple[str, ...] = ()) -> None:
        """Where other brokers send the clients of durable subscriptions that this one holds, and by which other
        addresses it may be named as a standby."""
        self._broker.claims.address = address
        self._broker.claims.addresses = others

    def set_link_filters(self, link: int, filters: LinkFilters) -> None:
        """Let only matching events pass a link."""
        link_filters = self._broker.link_filters
        if filters.are_open:
            link_filters.pop(link, None)
        else:
            link_filters[link] = filters

    def has_routing_tables(self, from_neighbour: bool) -> bool:
        """Whether all neighbours sent their routing tables; with `from_neighbour` there must be at least one."""
        return self._broker.has_neighbour_tables(from_neighbour)

    def subscriptions_of_clients(self, prefix: str) -> Iterator[DurableEntry]:
        """The subscriptions of clients whose name has a prefix, in the order of the names."""
        wants = self._broker.tables.subscriptions
        for client in sorted(each for each in wants.clients() if each.startswith(prefix)):
            for name in wants.names(client):
                owned = wants.get(client, name)
                if owned is not None:
                    yield DurableEntry(client, name, owned.filter)

    def replace_sealing_keys(self, keys: list[bytes]) -> None:
        """Seal and open events with other keys from now on."""
        if self._broker.keys is not None:
            self._broker.keys.replace(keys)

    @property
    def has_completeness(self) -> bool:
        """Whether the brokers of this network send watermarks."""
        return self._broker.has_completeness

    def delivery_status(self) -> dict[str, Any]:
        """Durable delivery in numbers: events not yet delivered everywhere, and brokers that are waited for."""
        delivery = self._broker.delivery
        return {
            "unfinished": delivery.unfinished,
            "spilled": delivery.spilled,
            "away": delivery.missing,
            "withheld": delivery.withheld,
            "not_writing": delivery.not_writing,
            "full": delivery.interests.full,
            "blocking": delivery.blocked.brokers,
            "unprotected": delivery.guarded,
            "standbys": sum(self.is_standby(*each) for each in self._broker.durable_queues),
            "inversions": delivery.queues.inversions,
        }

    @property
    def brokers_away(self) -> list[int]:
        """The brokers with durable subscriptions or a log that cannot be reached."""
        return self._broker.delivery.away

    def routing_status(self) -> dict[str, Any]:
        """The broker that makes routing trees, where one does, and how many events were examined here."""
        return {"optimiser": self._broker.optimiser, "content_reads": self._broker.content_reads}

    # Effects

    def _transmit(self, effect: Transmit) -> None:
        for link in effect.links:
            end = self.links.get(link)
            if end is None:
                self.drops["lost with its link"] += 1
            else:
                end.transmit(effect.data, effect.lane)

    def _deliver(self, effect: Deliver) -> None:
        event = effect.event
        self.counts["out"] += len(effect.clients)
        plans = {} if event.stamps else self.delivery_plans.entries
        for client, names in effect.clients:
            # The common case first, without a call: the event joins others that leave for the same subscriptions.
            entry = plans.get(id(names))
            if entry is not None and (run := entry[1].run).room and run.client == client:
                run.room -= 1
                run.bodies.append(event.body)
                continue
            end = self.clients.get(client)
            if end is None:
                self.drops["client not connected"] += 1
                continue
            end.offer(names, event)
            self._touched[end] = None
        self.backpressure.on_delivered(event, effect.link)

    def _deliver_columns(self, effect: DeliverColumns) -> None:
        batch = SharedBatch(effect)
        for client, groups in effect.clients:
            count = sum(len(rows) for _, rows in groups)
            self.counts["out"] += count
            end = self.clients.get(client)
            if end is None:
                self.drops["client not connected"] += count
                continue
            end.offer_batch(groups, batch)
            self._touched[end] = None
        self.backpressure.on_delivered(None, LOCAL)

    def _reply(self, effect: Reply) -> None:
        if type(effect.answer) is Accepted:
            self.backpressure.confirm(effect)
        elif type(effect.answer) is Consumed:
            self._trim(effect.client, effect.answer)
        else:
            self._answer(effect)

    def _answer(self, effect: Reply) -> None:
        if self._awaited and isinstance(effect.answer, Confirmed | Refused):
            for on_answer in self._awaited.pop((effect.client, effect.answer.name), ()):
                on_answer(effect.answer)
        end = self.clients.get(effect.client)
        if end is not None:
            end.answer(effect.answer)
            self._touched[end] = None

    def acknowledge(self, done: Acknowledged) -> None:
        """Remove acknowledged events from a durable queue; one that was full takes more then."""
        epoch = self._broker.delivery.epochs.get((done.client, done.name))
        if epoch is not None and epoch.standby is not None and done.numbers:
            queue, numbers = self._store.queue(done.client, done.name), set(done.numbers)
            read = queue.read(min(numbers) - 1, min(max(numbers) - min(numbers) + 1, _MAX_TRIMMED_EVENTS))
            events = tuple(event.id for number, event in read if number in numbers)
            self.request(done.client, DoneClient(done.name, events))
        self._persistence.acknowledge(done)

    def _trim(self, client: Client, consumed: Consumed) -> None:
        """Remove from the queue of a standby what was acknowledged at the home, once it is there."""
        waiting = self._consumed.setdefault((client, consumed.name), {})
        waiting.update(dict.fromkeys(consumed.events))
        read = self._store.queue(client, consumed.name).read(0, _MAX_TRIMMED_EVENTS)
        found = tuple(number for number, event in read if event.id in waiting)
        for _, event in read:
            waiting.pop(event.id, None)
        while len(waiting) > _MAX_TRIMMED_EVENTS:
            del waiting[next(iter(waiting))]
        if found:
            self._persistence.acknowledge(Acknowledged(client, consumed.name, found))

    def fail_deliveries(
        self, failed: DeliveriesFailed | ConsumerLost, on_written: Callable[[], None] = lambda: None
    ) -> None:
        """Count failed deliveries of events of a durable queue, which may make dead letters of them."""
        self.counts["failed deliveries"] += 1
        self._persistence.fail_deliveries(failed, on_written)

    def queue_again(
        self, queued: Queued, removed: DeadLettersRemoved, on_answer: Callable[[PalioError | None], None]
    ) -> None:
        """Put the event of a dead letter back into a durable queue."""
        self._persistence.queue_again(queued, removed, on_answer)

    def _on_queue_written(self, client: Client) -> None:
        end = self.clients.get(client)  # none while no session reads the durable subscription
        if end is not None and hasattr(end, "on_queue_written"):
            cast(QueueEnd, end).on_queue_written()
            self.counts["out"] += 1
            # The store answers outside of a batch, so that nothing else would end one soon.
            if not self._touched:
                self._loop.call_soon(self._end_batch)
            self._touched[end] = None

    # Timers and jobs

    def _set_timer(self, effect: SetTimer) -> None:
        self._cancel_timer(CancelTimer(effect.name))
        self._timers[effect.name] = self._loop.call_later(effect.after, self._fire_timer, effect.name)

    def _fire_timer(self, name: str) -> None:
        del self._timers[name]
        self.enqueue(TimerFired(name))

    def _cancel_timer(self, effect: CancelTimer) -> None:
        timer = self._timers.pop(effect.name, None)
        if timer is not None:
            timer.cancel()

    def _work(self, effect: Work) -> None:
        self._run_job(effect.job, lambda result: WorkDone(effect.token, result))

    def _read(self, effect: Read) -> None:
        def read() -> BrokerLogPage | None:
            try:
                with work_limit(WorkLimit(self.conditions.costs.limits.call_steps)):
                    return read_log_page(effect, self._store.log, self.broker_id)
            except PalioError:
                return None

        self._run_job(read, lambda page: ReadDone(effect.token, page))

    def _fetch(self, effect: Fetch) -> None:
        def fetch() -> tuple[Publish, ...] | None:
            try:
                return tuple(self._store.unfinished(effect.ids))
            except PalioError:
                return None

        self._run_job(fetch, lambda events: Fetched(effect.token, events))

    def _run_job(self, job: Callable[[], Any], done: Callable[[Any], NodeInput]) -> None:
        """Run a job in the worker thread, and enqueue the input that is made of its result."""

        def on_done(future: asyncio.Future[Any]) -> None:
            if future.cancelled() or self._closed:
                return
            error = future.exception()
            if error is not None:
                # The node gets an empty result: it must not wait for ever for one that failed.
                log.error("a job beside the broker failed", exc_info=error)
                self.drops["job failed"] += 1
            self.enqueue(done(None if error is not None else future.result()))

        self._loop.run_in_executor(self._workers, job).add_done_callback(on_done)

    def _close_link(self, effect: Close) -> None:
        self.drops[effect.reason] += 1
        end = self.links.get(effect.link)
        if end is not None:
            end.close(effect.reason)

    def _drop(self, effect: Drop) -> None:
        self.drops[effect.reason] += 1
        if effect.reason.startswith(UNREADABLE) and isinstance(effect.message, Publish | PublishColumns):
            # Kept as it came, for an operator: a sealed event may be readable again with the right key.
            self._persistence.bury(DeadLetterAdded("", "", effect.reason, effect.message.body))


def _count_events(input: NodeInput) -> int:
    if type(input) is Arrived:
        kind = codec.kind_of(input.data)
        return codec.count_of_batch(input.data) if kind == codec.PUBLISH_COLUMNS else kind == codec.PUBLISH
    if type(input) is not Requested:
        return 0
    request = input.request
    if type(request) is PublishBatch:
        return len(request.events)
    return len(request.batch) if type(request) is BatchRequest else type(request) is PublishClient


def _event_bytes(input: NodeInput) -> int:
    """The bytes of a published event, or of one that came by a link; of another input they do not matter."""
    if type(input) is Arrived:
        return len(input.data)
    body: bytes = getattr(input.request, "body", b"") if type(input) is Requested else b""
    return len(body)


_CARRY_OUT: Final[dict[type, Callable[[Host, Any], None]]] = {
    Transmit: Host._transmit,
    Deliver: Host._deliver,
    DeliverColumns: Host._deliver_columns,
    Reply: Host._reply,
    Persist: lambda host, effect: host._persistence.persist(effect),
    SetTimer: Host._set_timer,
    CancelTimer: Host._cancel_timer,
    Read: Host._read,
    Fetch: Host._fetch,
    Work: Host._work,
    Close: Host._close_link,
    Drop: Host._drop,
}
