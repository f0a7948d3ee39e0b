"""Limits and quotas: bounds on everything that a client can make grow, each with a name.

A request beyond a bound is refused with the name of the bound, before it costs more than looking at it. Input is never
decompressed: a compressed message is refused, so that its size is what it costs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from math import inf, prod
from typing import Final

from palio.errors import InvalidArgument, LimitReached
from palio.events import Limits as EventLimits
from palio.events.values import DEFAULT_LIMITS
from palio.filters.evaluation_cost import MAX_CALL_STEPS, evaluation_cost
from palio.filters.filter import Filter
from palio.filters.tree import And, Node, Or
from palio.languages.grammar import MAX_CONDITIONS
from palio.network.settings_validation import check_minimum, check_positive
from palio.routing.codec import MAX_FRAME_BYTES

_MIN_FRAME_BYTES: Final = 512  # that a greeting needs
OFF_LOOP_BYTES: Final = 1_024  # of a message or condition, beyond which it is parsed in another thread


@dataclass(frozen=True, slots=True)
class BrokerLimits:
    """The limits of a server; each is the largest value that is still accepted."""

    connections: int = 20_000
    """Connections of all principals together."""
    connections_per_principal: int = 10_000
    connections_per_address: int = 10_000
    """Connections from one address, over HTTP and the binary protocol together; from this machine too."""
    handshake_seconds: float = 10.0
    """Until a connection must be authenticated, or the head of a request complete."""
    request_seconds: float = 60.0
    """Until a request over HTTP must have arrived, and for which a reader over HTTP may take nothing."""
    bytes_per_second: float = 4_096.0
    """Least rate at which a frame, or the body of a request, must arrive."""
    unread_bytes: int = 256 * 1024 * 1024
    """Bytes of incomplete frames, and of incomplete requests, of all connections together."""
    subscriptions_per_principal: int = 1_000_000
    filter_bytes: int = 16 * 1024
    """Characters of a condition, as written and as stored; the worst of this size takes half a second."""
    filter_conjunctions: int = 4_096
    """Conjunctions of the normal form of subscription AND grant; a product of disjunctions grows fast."""
    filter_steps: int = 64
    """Steps for each character of a text that the patterns and functions of a condition may take."""
    pattern_size: int = 1_000
    """Characters, repetitions written out, of a pattern that takes as many steps for each character of a text."""
    slow_patterns_per_principal: int = 64
    """Different patterns of one principal that take more than one step for each character of a text."""
    call_steps: int = MAX_CALL_STEPS * 2**20
    """Steps that one search or one call may take for one event; beyond it a pattern does not match."""
    matching_share: float = 0.25
    """Seconds of each second that matching may take for the conditions of one principal."""
    matching_burst_seconds: float = 2.0
    """Seconds that matching may take for the conditions of one principal at once, after a pause."""
    frame_bytes: int = 8 * 1024 * 1024
    """Bytes of one frame, or of one request or message over HTTP."""
    batch_events: int = 10_000
    """Events of one request."""
    events_per_second: float = inf
    """Mean rate at which one principal may publish."""
    burst_events: float = 10_000.0
    """Events that a principal may publish at once after a pause."""
    event: EventLimits = field(default_factory=lambda: EventLimits(json_bytes=1024 * 1024))
    """Size, depth and width of one event."""

    @property
    def event_bytes(self) -> int:
        """Bytes of an accepted event: small enough that it can be forwarded, with its envelope, to links and clients
        whose own limits are the defaults."""
        return min(self.event.json_bytes, self.frame_bytes // 2, MAX_FRAME_BYTES // 2)

    @property
    def is_event_usual(self) -> bool:
        """Whether the limits of an event, its size aside, are the defaults by which every decoder reads."""
        return replace(self.event, json_bytes=DEFAULT_LIMITS.json_bytes) == DEFAULT_LIMITS

    def __post_init__(self) -> None:
        check_positive(self, *(each.name for each in fields(self) if each.name != "event"))
        for each in fields(self.event):
            most = getattr(DEFAULT_LIMITS, each.name)
            if getattr(self.event, each.name) > most:  # no other broker or client would decode it
                raise InvalidArgument(f"event.{each.name} is a number up to {most:,} for a broker")
        check_minimum(self, frame_bytes=_MIN_FRAME_BYTES)


def is_read_off_loop(text: bytes) -> bool:
    """Whether a condition, or a message with one, is parsed in another thread: it is long, or has patterns.

    Whether a regular expression has a small automaton takes up to a tenth of a second to find out, and is remembered.
    """
    return len(text) > OFF_LOOP_BYTES or _PATTERN_WORDS.search(text) is not None


_PATTERN_WORDS: Final = re.compile(rb"(?i)like|regexp|split")


def check_condition(text: str, limits: BrokerLimits) -> str:
    """Check the length of a condition before it is parsed."""
    if len(text) > limits.filter_bytes:
        raise LimitReached("filter_bytes", limits.filter_bytes, f"a condition of {len(text):,} characters")
    return text


def check_filter(wanted: Filter, limits: BrokerLimits) -> Filter:
    """Check the length of a filter, the number of its conjunctions, and what evaluating it costs at worst.

    Costs time in the size of the filter.
    """
    text = check_condition(str(wanted), limits)
    if len(text) > MAX_CONDITIONS:  # a shorter one cannot have more of them
        # As stored it may have more than as written, and neighbours and this broker after a restart have to read it.
        Filter.parse(text, timezone=wanted.timezone)
    most = limits.filter_conjunctions
    if _conjunctions(wanted.tree) > most:
        raise LimitReached("filter_conjunctions", most, "a condition that is too many alternatives, written out")
    check_cost(wanted, limits)
    return wanted


def check_cost(wanted: Filter, limits: BrokerLimits) -> None:
    """Check what evaluating a filter may cost for one event."""
    cost = evaluation_cost(wanted)
    if cost.largest.size > limits.pattern_size:
        name, size = cost.largest.name, cost.largest.size
        reason = (
            f"{name:.60} may take {size:,} steps for each character of a text; "
            "write fewer repetitions, or an anchor, so that fewer ways lead to a match"
        )
        raise LimitReached("pattern_size", limits.pattern_size, reason)
    if cost.steps > limits.filter_steps:
        reason = (
            f"the patterns and functions of the condition may take {cost.steps:,.0f} steps for each character of a "
            f"text, {cost.costliest.steps:,.0f} of them {cost.costliest.name:.60}"
        )
        raise LimitReached("filter_steps", limits.filter_steps, reason)


def restrict_filter(wanted: Filter, grant: Filter, limits: BrokerLimits) -> Filter:
    """The conjunction of a request and a grant; LimitReached where it is too large.

    Long filters take up to seconds, so that the last results are cached: a first call in another thread spares the
    loop.
    """
    if len(str(wanted)) <= OFF_LOOP_BYTES:
        return check_filter(wanted & grant, limits)
    joined = _joined(wanted, grant, limits)
    if isinstance(joined, LimitReached):
        raise joined.with_traceback(None)  # a cached error would collect the tracebacks of all its calls
    return joined


# Errors are cached as values: a cache forgets calls that raise, and the loop would repeat the slow ones.
@lru_cache(64)
def _joined(wanted: Filter, grant: Filter, limits: BrokerLimits) -> Filter | LimitReached:
    try:
        return check_filter(wanted & grant, limits)
    except LimitReached as error:
        return error


def _conjunctions(node: Node) -> int:
    """Upper bound of the conjunctions of a tree, computed without expanding: a product of sums soon has millions."""
    match node:
        case Or(children):
            return sum(map(_conjunctions, children))
        case And(children):
            return prod(map(_conjunctions, children))
    return 1


class RateLimiter:
    """Token bucket: it fills at a steady rate up to a burst, and every occurrence takes from it.

    >>> rate = RateLimiter(per_second=10, burst=2, now=0.0)
    >>> [rate.take(1, now) for now in (0.0, 0.0, 0.0, 0.1)]
    [True, True, False, True]
    """

    __slots__ = ("_at", "_burst", "_left", "_per_second")

    def __init__(self, per_second: float, burst: float, now: float) -> None:
        self._per_second = per_second
        self._burst = burst
        self._left = burst
        self._at = now

    def take(self, amount: float, now: float) -> bool:
        """Take an amount where the bucket has it; if not, nothing is taken."""
        self._left = self.left(now)
        self._at = max(now, self._at)
        if amount > self._left + 1e-9:  # ten tenths add up to a little less than one
            return False
        self._left -= amount
        return True

    def left(self, now: float) -> float:
        """The amount that the bucket has now."""
        return min(self._burst, self._left + max(0.0, now - self._at) * self._per_second)

    def wait(self, amount: float, now: float) -> float:
        """Seconds until an amount can be taken; infinite where it exceeds the burst."""
        if amount > self._burst:
            return float("inf")
        missing = amount - self._left - max(0.0, now - self._at) * self._per_second
        return max(0.0, missing / self._per_second)


class Quota:
    """Bounded number of things of one kind, in total and for each principal."""

    __slots__ = ("_each", "_limit", "_taken", "_total", "_what")

    def __init__(self, limit: str, total: int, each: int, what: str) -> None:
        """`limit` is the name of the limit, `what` the plural of what is counted."""
        self._limit = limit
        self._total = total
        self._each = each
        self._what = what
        self._taken: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._taken.total()

    def change_limits(self, total: int, each: int) -> None:
        """Bound what is taken from now on; what is taken already stays."""
        self._total = total
        self._each = each

    def used_by(self, principal: str) -> int:
        """Number that a principal has."""
        return self._taken[principal]

    @property
    def most_each(self) -> int:
        return self._each

    def take(self, principal: str, amount: int = 1) -> None:
        """Count more for a principal; LimitReached where it would exceed a bound."""
        if self._taken[principal] + amount > self._each:
            raise LimitReached(f"{self._limit}_per_principal", self._each, f"{principal} has enough {self._what}")
        if len(self) + amount > self._total:
            raise LimitReached(self._limit, self._total, f"there are enough {self._what}")
        self._taken[principal] += amount

    def release(self, principal: str, amount: int = 1) -> None:
        """Count fewer for a principal."""
        self._taken[principal] -= amount
        if self._taken[principal] <= 0:
            del self._taken[principal]


class HeldBytes:
    """Bytes of incomplete input of all connections together, of which each beyond a small share is refused."""

    __slots__ = ("most", "total")

    def __init__(self, most: int) -> None:
        self.most = most
        self.total = 0

    def check(self, own: int) -> None:
        """LimitReached where there are too many, and a connection holds more than most of the others ever do."""
        if self.total > self.most and own > _MAX_SMALL_INPUT_BYTES:
            raise LimitReached("unread_bytes", self.most, "too much input of all connections is incomplete")


_MAX_SMALL_INPUT_BYTES: Final = 64 * 1024
_ALL_SUBSCRIPTIONS: Final = 2**62  # in total: unbounded but for each principal's own bound


class Quotas:
    """Quotas of all principals. Rate limits outlive connections: reconnecting does not refill the bucket."""

    def __init__(self, limits: BrokerLimits, now: Callable[[], float]) -> None:
        """`now` is a monotonic clock."""
        self.connections = Quota("connections", limits.connections, limits.connections_per_principal, "connections")
        self.subscriptions = Quota(
            "subscriptions", _ALL_SUBSCRIPTIONS, limits.subscriptions_per_principal, "subscriptions"
        )
        self.addresses = Counter[str]()
        self.held_frames = HeldBytes(limits.unread_bytes)
        self.held_requests = HeldBytes(limits.unread_bytes)
        self.has_rate_limit = limits.events_per_second != inf  # checked by callers on the hot path
        self._limits = limits
        self._now = now
        self._rate_limiters: dict[str, RateLimiter] = {}

    def change_limits(self, limits: BrokerLimits) -> None:
        """Apply changed limits; every principal may publish a whole burst again."""
        self.connections.change_limits(limits.connections, limits.connections_per_principal)
        self.subscriptions.change_limits(_ALL_SUBSCRIPTIONS, limits.subscriptions_per_principal)
        self.held_frames.most = self.held_requests.most = limits.unread_bytes
        self.has_rate_limit = limits.events_per_second != inf
        self._limits = limits
        self._rate_limiters.clear()

    def take_address(self, address: str) -> None:
        """Count a connection from an address; LimitReached where there are too many."""
        most = self._limits.connections_per_address
        if self.addresses[address] >= most:
            raise LimitReached("connections_per_address", most, f"{address} has enough connections")
        self.addresses[address] += 1

    def release_address(self, address: str) -> None:
        self.addresses[address] -= 1
        if self.addresses[address] <= 0:
            del self.addresses[address]

    def events_left(self, principal: str) -> float:
        """Number of events that a principal may publish now."""
        rate = self._rate_limiters.get(principal)
        if not self.has_rate_limit:
            return inf
        return self._limits.burst_events if rate is None else rate.left(self._now())

    def take_events(self, principal: str, events: int) -> None:
        """Count published events; LimitReached where a principal publishes too fast."""
        if not self.has_rate_limit:
            return
        if events > self._limits.burst_events:
            most = self._limits.burst_events
            raise LimitReached("burst_events", most, f"{events:,} events at once are never accepted")
        now = self._now()
        rate = self._rate_limiters.get(principal)
        if rate is None:
            rate = self._rate_limiters[principal] = RateLimiter(
                self._limits.events_per_second, self._limits.burst_events, now
            )
        if not rate.take(events, now):
            raise LimitReached("events_per_second", self._limits.events_per_second, f"{principal} publishes too fast")
