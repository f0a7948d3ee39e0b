"""Compaction policy: which segments of a matcher are merged, and when.

Every segment costs each event a search of its own, so a matcher is fastest with one, as bulk adding leaves it. Three
rules keep it near that:

- *Absorbing*: a live segment that is sealed takes the small segments sealed before it along. Those of k seals are as
  few as the ones in the binary number k, however few subscriptions each brings.
- *Tiers*: eight segments of one size class become one of the next, also while additions go on. A subscription is
  merged log8(n) times in its life.
- *Settling*: where nothing was added for a second, all segments become one, or those that are not too large for it.
  Segments of which an eighth is removed are made anew.

Work is bounded: `MergeBudget` lets the background settle so many subscriptions a second on average, whatever comes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Final, Protocol, TypeVar

import numpy as np

MAX_LIVE_WHEN_SETTLED: Final = (
    16  # subscriptions that stay live however long nothing is added: evaluating them is cheap
)
QUIET_SECONDS: Final = 1.0  # without a change, after which a matcher is settled
_MERGE_FACTOR: Final = 8  # segments of one size class that are merged into one of the next
_MAX_ABSORBED: Final = 2_048  # subscriptions of the segments that sealing takes along: some ten milliseconds
_MAX_SETTLED: Final = 262_144  # subscriptions that settling merges: about two seconds
_MAX_REMOVED_SHARE: Final = 1 / 8  # of a segment set, before settling makes it anew
_SETTLED_PER_SECOND: Final = 50_000  # subscriptions, on average: about half of a processor
_MAX_SAVED_BUDGET: Final = 1_000_000


class Sized(Protocol):
    """A segment, of which only the size counts here."""

    @property
    def size(self) -> int: ...


AnySegment = TypeVar("AnySegment", bound=Sized)


def absorbable(segments: Sequence[AnySegment], sealed: int) -> list[AnySegment]:
    """The newest segments that are as small as what is sealed with them: `sealed` subscriptions and those before."""
    taken: list[AnySegment] = []
    for segment in reversed(segments):
        if segment.size > sealed or sealed + segment.size > _MAX_ABSORBED:
            break
        taken.append(segment)
        sealed += segment.size
    return taken


def tier_to_merge(segments: Sequence[AnySegment]) -> list[AnySegment]:
    """The segments of the smallest size class that has enough of them to be merged."""
    classes: dict[int, list[AnySegment]] = {}
    for segment in segments:
        classes.setdefault(int(np.log(max(1, segment.size)) / np.log(_MERGE_FACTOR)), []).append(segment)
    for size in sorted(classes):
        if len(classes[size]) >= _MERGE_FACTOR:
            return classes[size]
    return []


def segments_to_settle(segments: Sequence[AnySegment], alive: int) -> list[AnySegment]:
    """The segments to merge when nothing is added: as many as are not too large, of which `alive` are not removed."""
    indexed = sum(segment.size for segment in segments)
    if indexed <= _MAX_SETTLED:
        is_worn = indexed - alive > indexed * _MAX_REMOVED_SHARE
        return list(segments) if len(segments) > 1 or is_worn else []
    chosen: list[AnySegment] = []
    total = 0
    for segment in sorted(segments, key=lambda each: each.size):
        total += segment.size
        if total > _MAX_SETTLED:
            break
        chosen.append(segment)
    return chosen if len(chosen) > 1 else []


class MergeBudget:
    """A token bucket of subscriptions that may be settled."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._saved = float(_MAX_SAVED_BUDGET)
        self._counted_at = clock()

    def seconds_until(self, subscriptions: int) -> float:
        """How long to wait before merging so many."""
        now = self._clock()
        earned = (now - self._counted_at) * _SETTLED_PER_SECOND
        self._saved, self._counted_at = min(self._saved + earned, _MAX_SAVED_BUDGET), now
        return max(0.0, (subscriptions - self._saved) / _SETTLED_PER_SECOND)

    def spend(self, subscriptions: int) -> None:
        self._saved -= subscriptions
