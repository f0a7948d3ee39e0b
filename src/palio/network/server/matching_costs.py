"""Cost of matching by subscription: measured, shown, and charged to a budget of each principal.

An index evaluates thousands of conditions together, so that the time of a batch cannot be read off any of them. The
time that batches take is therefore *attributed* by sampling: after a slow batch, and after some time of matching, each
condition with patterns or functions is evaluated by itself on the largest event, in another thread, and the time of the
batch is divided in proportion. A batch costs two readings of a clock for this, and sampling a few percent.

Conditions that take longer for an event than reading it a few times are charged to the budget of their principal.
Beyond it the worst of them is *put aside*: it is evaluated no more, and its owner is told. A durable subscription keeps
its queue. It stays put aside, over restarts too, until its owner subscribes to another condition.

Conditions of neighbours are not known by principal; their own brokers bound what each may cost (`quotas.check_cost`).
"""

from __future__ import annotations

import logging
import random
import time
from asyncio import Future
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from palio.errors import LimitReached, PalioError
from palio.events import Event
from palio.filters.evaluation_cost import EvaluationCost, evaluation_cost
from palio.filters.filter import Filter
from palio.filters.work_limit import WorkLimit, work_limit
from palio.network.security.quotas import BrokerLimits, RateLimiter
from palio.routing import codec
from palio.routing.client_messages import PublishBatch, PublishClient
from palio.routing.effects import Client, Requested
from palio.routing.messages import Publish
from palio.routing.node import Arrived, NodeInput

log = logging.getLogger("palio.matching")
Key: TypeAlias = tuple[Client, str]

SLOW_BATCH_SECONDS: Final = 0.02
_SAMPLE_EVERY_SECONDS: Final = 1.0  # of matching, while no batch is slow
_MAX_SAMPLED_CONDITIONS: Final = 512
_MAX_SAMPLING_SECONDS: Final = 1.0
# An evaluation beyond these is charged to its principal. What reads a text a few times is not: whoever publishes long
# texts could otherwise use up the budgets of others.
_USUAL_SECONDS: Final = 0.001
_USUAL_SECONDS_PER_BYTE: Final = 20e-9
_REST_FACTOR: Final = 10  # seconds without a sample for each second that one took
_MAX_CONDITION_CHARACTERS: Final = 200  # of a condition in the status


@dataclass(slots=True)
class ConditionCost:
    """A subscription whose condition has patterns or functions, and what it has cost until now."""

    client: Client
    name: str
    principal: str
    wanted: Filter
    patterns: frozenset[str]
    slow_patterns: frozenset[str]
    """Those that take as many steps for a character as they are large."""
    seconds: float = 0.0
    samples: int = 0
    unexamined: int = 0
    """Texts that were too long for one of its patterns or functions."""

    @property
    def key(self) -> Key:
        return self.client, self.name

    def describe(self, total_seconds: float) -> dict[str, Any]:
        return {
            "subscription": self.name,
            "principal": self.principal,
            "client": self.client,
            "condition": str(self.wanted)[:_MAX_CONDITION_CHARACTERS],
            "seconds": round(self.seconds, 6),
            "share": round(self.seconds / total_seconds, 4) if total_seconds else 0.0,
            "samples": self.samples,
            "unexamined": self.unexamined,
        }


class Sample(NamedTuple):
    """Seconds of processor time that conditions took for one event."""

    seconds: dict[Key, float]
    event_bytes: int


@dataclass(slots=True)
class _Batch:
    """A batch, or several, whose time is to be attributed."""

    seconds: float = 0.0
    event_bytes: int = 0
    largest: bytes = b""


@dataclass(slots=True)
class MatchingCosts:
    """Costs of all subscriptions of a broker's own clients."""

    limits: BrokerLimits
    now: Callable[[], float]
    run_off_loop: Callable[[Callable[[], Sample]], Future[Sample]]
    principal_of: Callable[[Client, str], str]
    on_over_budget: Callable[[ConditionCost, LimitReached], None]
    work: WorkLimit = field(init=False)
    total_seconds: float = 0.0
    _costs: dict[Key, ConditionCost] = field(default_factory=dict)
    _of_pattern: dict[str, dict[Key, None]] = field(default_factory=dict)
    _of_client: dict[Client, dict[str, None]] = field(default_factory=dict)
    _slow_patterns: dict[str, Counter[str]] = field(default_factory=dict)
    _budgets: dict[str, RateLimiter] = field(default_factory=dict)
    _pending: _Batch = field(default_factory=_Batch)
    _is_sampling: bool = False
    _rests_until: float = 0.0

    def __post_init__(self) -> None:
        self.work = WorkLimit(self.limits.call_steps)

    def change_limits(self, limits: BrokerLimits) -> None:
        """Apply changed limits from now on; every principal may use a whole burst again."""
        self.limits = limits
        self.work = WorkLimit(limits.call_steps)
        self._budgets.clear()

    # Subscriptions

    def add(self, client: Client, name: str, wanted: Filter) -> None:
        """A subscription begins, or has another condition now."""
        self.remove(client, name)
        cost = evaluation_cost(wanted)
        if not cost.parts:
            return
        patterns = frozenset(part.noted for part in cost.parts)
        made = ConditionCost(client, name, self.principal_of(client, name), wanted, patterns, _slow_patterns(cost))
        self._costs[made.key] = made
        self._of_client.setdefault(client, {})[name] = None
        for pattern in made.patterns:
            self._of_pattern.setdefault(pattern, {})[made.key] = None
        if made.slow_patterns:
            self._slow_patterns.setdefault(made.principal, Counter()).update(made.slow_patterns)

    def check_slow_patterns(self, principal: str, wanted: Filter) -> None:
        """LimitReached where a principal would have too many slow patterns: each may keep megabytes of states."""
        new, most = _slow_patterns(evaluation_cost(wanted)), self.limits.slow_patterns_per_principal
        if new and len(new | self._slow_patterns.get(principal, Counter()).keys()) > most:
            reason = f"{principal} has enough patterns that take more than one step for each character of a text"
            raise LimitReached("slow_patterns_per_principal", most, reason)

    def remove(self, client: Client, name: str) -> None:
        cost = self._costs.pop((client, name), None)
        if cost is None:
            return
        names = self._of_client[client]
        del names[name]
        if not names:
            del self._of_client[client]
        for pattern in cost.patterns:
            keys = self._of_pattern[pattern]
            del keys[cost.key]
            if not keys:
                del self._of_pattern[pattern]
        if cost.slow_patterns:
            slow = self._slow_patterns[cost.principal]
            slow.subtract(cost.slow_patterns)
            self._slow_patterns[cost.principal] = +slow  # without those of no condition any more
            if not self._slow_patterns[cost.principal]:
                del self._slow_patterns[cost.principal]

    def remove_client(self, client: Client) -> None:
        for name in list(self._of_client.get(client, ())):
            self.remove(client, name)

    def describe_slowest(self, most: int) -> list[dict[str, Any]]:
        """The costliest subscriptions, the worst first."""
        known = [each for each in self._costs.values() if each.seconds or each.unexamined]
        known.sort(key=lambda each: (-each.seconds, -each.unexamined, each.key))
        return [each.describe(self.total_seconds) for each in known[:most]]

    # Batches

    def note_batch(self, seconds: float, inputs: Sequence[NodeInput]) -> None:
        """Count the processor time of a batch; a slow one is attributed now, others together."""
        if self.work.reached:
            self._note_unexamined()
        if not self._costs:
            return
        pending = self._pending
        pending.seconds += seconds
        if seconds < SLOW_BATCH_SECONDS and pending.seconds < _SAMPLE_EVERY_SECONDS:
            return
        for body in _bodies(inputs):
            pending.event_bytes += len(body)
            if len(body) > len(pending.largest):
                pending.largest = body
        if pending.largest and not self._is_sampling and self.now() >= self._rests_until:
            self._pending = _Batch()
            self._is_sampling = True
            sampled = self._sampled()
            sample = partial(_sample, sampled, pending.largest, self.limits.call_steps)
            self.run_off_loop(sample).add_done_callback(partial(self._on_sampled, pending))

    def _sampled(self) -> list[ConditionCost]:
        """The conditions to evaluate: all, or the costliest known and some others by chance."""
        every = list(self._costs.values())
        if len(every) <= _MAX_SAMPLED_CONDITIONS:
            return every
        every.sort(key=lambda each: -each.seconds)
        known = every[: _MAX_SAMPLED_CONDITIONS // 2]
        return known + random.sample(every[len(known) :], _MAX_SAMPLED_CONDITIONS - len(known))

    def _on_sampled(self, batch: _Batch, sampling: Future[Sample]) -> None:
        self._is_sampling = False
        if sampling.cancelled():
            return
        if sampling.exception() is not None:
            log.error("a sample of conditions failed", exc_info=sampling.exception())
            return
        sample = sampling.result()
        self._rests_until = self.now() + _REST_FACTOR * sum(sample.seconds.values())
        self.attribute(batch.seconds, batch.event_bytes, sample)

    def attribute(self, seconds: float, event_bytes: int, sample: Sample) -> None:
        """Divide the time of batches among the sampled conditions, and put aside what is over its budget."""
        # Other events are taken to cost as much for a byte; the sum cannot be more than was measured.
        factor = event_bytes / max(1, sample.event_bytes)
        estimated = factor * sum(sample.seconds.values())
        factor *= min(1.0, seconds / estimated) if estimated else 0.0
        self.total_seconds += seconds
        usual = _USUAL_SECONDS + _USUAL_SECONDS_PER_BYTE * sample.event_bytes
        charged: Counter[str] = Counter()
        for key, each in sample.seconds.items():
            cost = self._costs.get(key)
            if cost is None:  # it ended meanwhile
                continue
            cost.seconds += factor * each
            cost.samples += 1
            if each > usual:
                charged[cost.principal] += factor * each  # type: ignore[assignment]
        for principal, amount in charged.items():
            self._charge(principal, amount, sample)

    def _charge(self, principal: str, seconds: float, sample: Sample) -> None:
        budget = self._budgets.get(principal)
        if budget is None:
            share, burst = self.limits.matching_share, self.limits.matching_burst_seconds
            budget = self._budgets[principal] = RateLimiter(share, burst, self.now())
        left = budget.left(self.now())
        if budget.take(seconds, self.now()):
            return
        budget.take(left, self.now())
        own = [cost for key in sample.seconds if (cost := self._costs.get(key)) and cost.principal == principal]
        worst = max(own, key=lambda cost: sample.seconds[cost.key])
        reason = (
            f"matching {worst.name!r} took {sample.seconds[worst.key]:.3f} s for an event of "
            f"{sample.event_bytes:,} bytes, and {principal} has used up its seconds; change the condition"
        )
        self.on_over_budget(worst, LimitReached("matching_share", self.limits.matching_share, reason))

    def _note_unexamined(self) -> None:
        reached = dict(self.work.reached)
        self.work.reached.clear()
        for pattern, count in reached.items():
            for key in self._of_pattern.get(pattern, ()):
                self._costs[key].unexamined += count


def _slow_patterns(cost: EvaluationCost) -> frozenset[str]:
    return frozenset(part.noted for part in cost.parts if part.size)


def _sample(costs: Iterable[ConditionCost], body: bytes, call_steps: int) -> Sample:
    """Evaluate conditions one by one; runs beside the loop, and stops after some time."""
    found: dict[Key, float] = {}
    end = time.thread_time() + _MAX_SAMPLING_SECONDS
    try:
        attributes = codec.decode_event_as(Event, body).attributes
    except PalioError:
        return Sample(found, len(body))
    with work_limit(WorkLimit(call_steps)):
        for each in costs:
            # The processor time of this thread: others may have the interpreter lock meanwhile.
            started = time.thread_time()
            if started > end:
                break
            each.wanted.matches_attributes(attributes)
            found[each.key] = time.thread_time() - started
    return Sample(found, len(body))


def _bodies(inputs: Iterable[NodeInput]) -> Iterable[bytes]:
    """The encoded events among the inputs of a batch."""
    for each in inputs:
        if type(each) is Requested:
            request = each.request
            if type(request) is PublishClient:
                yield request.body
            elif type(request) is PublishBatch:
                yield from (event.body for event in request.events)
        elif type(each) is Arrived and codec.kind_of(each.data) == codec.PUBLISH:
            try:
                message = codec.decode(each.data)
            except PalioError:
                continue
            if type(message) is Publish:
                yield message.body
