"""Terms of leases: for how long an entry of a table holds, and by how much the way that its renewal took extends that.

An owner renews its entries every `refresh` seconds, and each renewal holds for a validity interval, which every broker
counts by its own clock from the moment of arrival (Jerzak §7.2). A renewal that takes longer than the last one would
come too late where only the interval counts. So a broker extends it:

- by the upper bound on the delay of this renewal (`upper_bound`, Jerzak §7.3): the next one may take that much longer,
- or by the spread of these bounds over the last renewals (`uncertainty`, Jerzak §7.4): where delays hardly change, the
  lease is hardly longer than its interval, and an owner that died is forgotten sooner.

The bounds are those of `timeliness`. A renewal without one is given the longest lease, because its delay may be
anything. No lease is longer than `max_validity`, which bounds how long a table is wrong after any fault.

`lease="time"` is the alternative that the source rejects, an absolute time by synchronised clocks: brokers far away
get renewals that have ended. It is here to compare with.

Utilisation is the share of a lease that was over when its renewal came. The printed formula gives the remaining share,
which contradicts its own figures.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import inf
from typing import Final, NamedTuple

from palio.routing.strategies import Leases

_BILLION: Final = 1_000_000_000


class LeaseTerms(NamedTuple):
    """Terms of a renewal: its validity in seconds, the highest age that it may have at a reading of a clock, in
    nanoseconds (`timeliness.Age`), and the end by the wall clock, where leases end at a time."""

    validity: float
    age: int
    aged_at: int
    until: float = 0.0

    @property
    def age_seconds(self) -> float | None:
        """The highest age; None where it is unknown."""
        return None if self.age < 0 else self.age / _BILLION


class Lease:
    """The lease of one entry that came by one link."""

    __slots__ = ("length", "renewed_at", "spread", "watched_at")

    def __init__(self) -> None:
        self.renewed_at = 0.0
        self.length = 0.0
        self.watched_at = inf  # when its deadline is looked at next
        self.spread: DelaySpread | None = None  # where the policy is `uncertainty`

    @property
    def deadline(self) -> float:
        return self.renewed_at + self.length


class DelaySpread:
    """The lowest and the highest bound on delays over the last renewals of one entry.

    Two halves, each with the lowest and the highest of up to `messages` samples or `seconds`: the older half is dropped
    whole. So the window has between once and twice its size, in constant memory.
    """

    __slots__ = ("_began", "_count", "_current", "_messages", "_previous", "_seconds")

    def __init__(self, messages: int, seconds: float | None) -> None:
        self._messages = messages
        self._seconds = seconds
        self._current: tuple[float, float] | None = None
        self._previous: tuple[float, float] | None = None
        self._count = 0
        self._began = 0.0

    def add(self, delay: float, now: float) -> float | None:
        """Add a sample; the spread of all in the window, None where it is the only one."""
        is_over = self._count >= self._messages if self._seconds is None else now - self._began >= self._seconds
        if self._current is None or is_over:
            self._previous, self._current = self._current, (delay, delay)
            self._count, self._began = 0, now
        self._count += 1
        low, high = self._current
        self._current = min(low, delay), max(high, delay)
        if self._previous is None and self._count < 2:
            return None
        lows, highs = zip(*(each for each in (self._current, self._previous) if each is not None), strict=True)
        return float(max(highs) - min(lows))


def lease_length(chosen: Leases, terms: LeaseTerms, lease: Lease, now: float, wall_clock: Callable[[], float]) -> float:
    """The length of a lease that is renewed now, in seconds; 0 or less where it has ended already."""
    if chosen.lease == "time":
        return min(terms.until - wall_clock(), chosen.max_validity)
    delay = terms.age_seconds
    if delay is None:
        return chosen.max_validity if chosen.extension != "none" else min(terms.validity, chosen.max_validity)
    # One that is older than any lease has gone in a circle: it must not keep itself alive.
    if delay > chosen.max_validity:
        return 0.0
    return min(terms.validity + _extension(chosen, delay, lease, now), chosen.max_validity)


def _extension(chosen: Leases, delay: float, lease: Lease, now: float) -> float:
    if chosen.extension == "none":
        return 0.0
    if chosen.extension == "upper_bound":
        return delay
    if lease.spread is None:
        lease.spread = DelaySpread(chosen.extension_messages, chosen.extension_seconds)
    spread = lease.spread.add(delay, now)
    return delay if spread is None else spread


@dataclass(frozen=True, slots=True)
class LeaseStatistics:
    """Leases of one broker since it started."""

    entries: int = 0
    """Entries of neighbours that are under lease now."""
    renewals: int = 0
    """Renewals of entries that were there."""
    expiries: int = 0
    """Entries that were forgotten because no renewal came."""
    mean_utilisation: float = 0.0
    """The share of a lease that was over when its renewal came, on average."""
    max_utilisation: float = 0.0
    """The highest such share; at 1 the lease would have ended."""


class LeaseCounters:
    """Counts for `LeaseStatistics`."""

    __slots__ = ("expiries", "highest", "renewals", "total")

    def __init__(self) -> None:
        self.renewals = self.expiries = 0
        self.total = self.highest = 0.0

    def count_renewal(self, elapsed: float, length: float) -> None:
        share = elapsed / length if length > 0 else 1.0
        self.renewals += 1
        self.total += share
        self.highest = max(self.highest, share)

    def statistics(self, entries: int) -> LeaseStatistics:
        mean = self.total / self.renewals if self.renewals else 0.0
        return LeaseStatistics(entries, self.renewals, self.expiries, mean, self.highest)
