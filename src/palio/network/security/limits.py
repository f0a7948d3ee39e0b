"""How much may anybody ask of a broker? Everything that can grow has a bound, and each has a name.

What is within a bound is served; what is not is refused with the name of the bound, before it costs more than looking
at it. Nothing that comes in is ever decompressed: a compressed message is refused, so that its size is what it costs.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from math import inf, prod
from typing import Final

from palio.errors import InvalidArgument, LimitReached
from palio.events import Limits as EventLimits
from palio.events.limits import DEFAULT_LIMITS
from palio.filters.filter import Filter
from palio.filters.tree import And, Node, Or
from palio.network.choices import check_lowest, check_positive
from palio.routing.codec import LONGEST_FRAME

_GREETING: Final = 512  # bytes without which nobody could say who it is
LONG: Final = 1_024  # bytes of a message, or characters of a condition, that are read beside the loop


@dataclass(frozen=True, slots=True)
class Limits:
    """The bounds of a server; each is the largest value that is still accepted."""

    connections: int = 20_000
    """Connections of everybody together."""
    connections_per_principal: int = 10_000
    handshake_seconds: float = 10.0
    """Until a connection has said who it is."""
    subscriptions_per_principal: int = 1_000_000
    filter_bytes: int = 16 * 1024
    """Characters of a condition, as it was written and as it is kept; the worst of this size takes half a second."""
    filter_conjunctions: int = 4_096
    """Conjunctions that a subscription and its grant take together; a product of disjunctions grows fast."""
    frame_bytes: int = 8 * 1024 * 1024
    """Bytes of one frame, or of one request or message over HTTP."""
    batch_events: int = 10_000
    """Events of one request."""
    events_per_second: float = inf
    """Events that one principal publishes, on average; none is too many unless it is said."""
    burst_events: float = 10_000.0
    """Events that it may publish at once, after a while without any."""
    event: EventLimits = field(default_factory=lambda: EventLimits(json_bytes=1024 * 1024))
    """Size, depth and width of one event."""

    @property
    def event_bytes(self) -> int:
        """Bytes of an event as it is kept and sent: whoever lets it in can hand it on, with all that is written on its
        envelope, over links and to clients whose own bounds are others."""
        return min(self.event.json_bytes, self.frame_bytes // 2, LONGEST_FRAME // 2)

    @property
    def is_event_usual(self) -> bool:
        """Whether events have the bounds, their size aside, under which everybody reads them."""
        return replace(self.event, json_bytes=DEFAULT_LIMITS.json_bytes) == DEFAULT_LIMITS

    def __post_init__(self) -> None:
        check_positive(self, *(each.name for each in fields(self) if each.name != "event"))
        for each in fields(self.event):
            most = getattr(DEFAULT_LIMITS, each.name)
            if getattr(self.event, each.name) > most:  # as which no other broker, and no client, would read it
                raise InvalidArgument(f"event.{each.name} is a number up to {most:,} for a broker")
        check_lowest(self, frame_bytes=_GREETING)


def check_condition(text: str, limits: Limits) -> str:
    """The text of a condition, before it is parsed; LimitReached where it is too long."""
    if len(text) > limits.filter_bytes:
        raise LimitReached("filter_bytes", limits.filter_bytes, f"a condition of {len(text):,} characters")
    return text


def check_filter(wanted: Filter, limits: Limits) -> Filter:
    """A filter, as it would be kept; LimitReached where it is too long, or takes too many conjunctions.

    Costs time in the size of the filter.
    """
    check_condition(str(wanted), limits)
    most = limits.filter_conjunctions
    if _conjunctions(wanted.tree) > most:
        raise LimitReached("filter_conjunctions", most, "a condition that is too many alternatives, written out")
    return wanted


def joined(wanted: Filter, grant: Filter, limits: Limits) -> Filter:
    """What is both wanted and granted, as it would be kept; LimitReached where that is too much.

    For long filters that takes up to seconds. So it is remembered for the last of them: whoever asks in another thread
    first does not keep the loop from its work.
    """
    if len(str(wanted)) <= LONG:
        return check_filter(wanted & grant, limits)
    found = _joined(wanted, grant, limits)
    if isinstance(found, LimitReached):
        raise found.with_traceback(None)
    return found


@lru_cache(64)
def _joined(wanted: Filter, grant: Filter, limits: Limits) -> Filter | LimitReached:
    try:
        return check_filter(wanted & grant, limits)
    except LimitReached as error:
        return error


def _conjunctions(node: Node) -> int:
    """How many conjunctions a tree takes at most, counted and not made: a product of two sums is millions soon."""
    match node:
        case Or(children):
            return sum(map(_conjunctions, children))
        case And(children):
            return prod(map(_conjunctions, children))
    return 1


class Rate:
    """How often something may happen: a bucket that fills at a steady rate, and from which everything takes.

    >>> rate = Rate(per_second=10, burst=2, now=0.0)
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
        """Whether so many may happen now; if not, none is taken."""
        self._left = self.left(now)
        self._at = max(now, self._at)
        if amount > self._left + 1e-9:  # what is a tenth of ten, added up, is a little less than one
            return False
        self._left -= amount
        return True

    def left(self, now: float) -> float:
        """How many may happen now."""
        return min(self._burst, self._left + max(0.0, now - self._at) * self._per_second)

    def wait(self, amount: float, now: float) -> float:
        """Seconds until so many could happen; infinite where they are more than a burst."""
        if amount > self._burst:
            return float("inf")
        missing = amount - self._left - max(0.0, now - self._at) * self._per_second
        return max(0.0, missing / self._per_second)


class Places:
    """So many places for everybody together, and so many for each."""

    __slots__ = ("_each", "_limit", "_taken", "_total", "_what")

    def __init__(self, limit: str, total: int, each: int, what: str) -> None:
        """`limit` names the bound, `what` is what takes a place, in plural."""
        self._limit = limit
        self._total = total
        self._each = each
        self._what = what
        self._taken: Counter[str] = Counter()

    def __len__(self) -> int:
        return self._taken.total()

    def of(self, who: str) -> int:
        """How many places somebody has."""
        return self._taken[who]

    @property
    def most_each(self) -> int:
        return self._each

    def take(self, who: str, amount: int = 1) -> None:
        """Take places; LimitReached where there are no more."""
        if self._taken[who] + amount > self._each:
            raise LimitReached(f"{self._limit}_per_principal", self._each, f"{who} has enough {self._what}")
        if len(self) + amount > self._total:
            raise LimitReached(self._limit, self._total, f"there are enough {self._what}")
        self._taken[who] += amount

    def leave(self, who: str, amount: int = 1) -> None:
        """Give places back."""
        self._taken[who] -= amount
        if self._taken[who] <= 0:
            del self._taken[who]
