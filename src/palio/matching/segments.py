"""The segment set of a matcher: immutable segments, the live segment, tombstones, and merges (compaction).

Organised as Lucene organises documents, an LSM tree in memory. Additions go to the *live segment*. When that is full,
or matching goes on while nothing is added, it is *sealed*: an immutable columnar segment takes its place. Segments are
*merged* in the background, and *settled*, nearly always to one, when nothing is added any more (`compaction` says
which and when). Removing sets a *tombstone*, one bit per number; merging leaves the removed out.

Until the kernels are compiled nothing is sealed: the live segment needs none, and grows.

Readers take the present `IndexSnapshot` and hold no lock. Writers hold `SegmentSet.lock`, build what is new beside what
is there, and publish it by replacing the snapshot. A number is filed before it is published, and a tombstone is set
after its replacement is filed, so that a reader sees the old form of a replaced subscription or the new one.

Numbers are never reused; where most are dead, catalogue and segments are made anew with new numbers (`_renumber`).

A matcher has a thread of its own only while there is something to merge or to settle. The thread does not keep the
matcher: one that nobody uses any more is released, and its thread ends. A process forks without the threads of its
parent, so a fork starts anew what they were doing.
"""

from __future__ import annotations

import os
import threading
import weakref
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from palio.languages.sql.template_cache import BoundTemplate
from palio.matching.catalogue import Catalogue
from palio.matching.columnar.array_types import AnyArray, Bytes
from palio.matching.columnar.bulk_load import ReadCondition, load_conditions, load_texts
from palio.matching.columnar.conditions import ConditionsBuilder
from palio.matching.columnar.kernel_readiness import kernel_readiness
from palio.matching.columnar.segment import Segment
from palio.matching.compaction import (
    MAX_LIVE_WHEN_SETTLED,
    QUIET_SECONDS,
    MergeBudget,
    absorbable,
    segments_to_settle,
    tier_to_merge,
)
from palio.matching.live_segment import LiveSegment
from palio.matching.subscription import Subscription, Subscriptions

_QUIET_MATCHES: Final = 64  # matches without an addition after which the live segment is sealed
_QUIET_MATCHES_WITHOUT_THREADS: Final = 8  # where an owner finds the time to seal, however few are live
_MAX_LIVE_EVALUATIONS: Final = 1_024  # of a batch: more take longer than sealing the live segment
_MIN_DEAD_TO_RENUMBER: Final = 4096
_MAX_BUILT_BY_INTERPRETER: Final = 2_048  # subscriptions: a third of a second
_MAX_BULK_WITHOUT_KERNELS: Final = 20_000  # that are read one by one sooner than a compiler ends
_MAX_MERGES_AT_ONCE: Final = 2  # of all matchers of a process: each takes a processor, and memory for a second index


@dataclass(frozen=True, slots=True)
class IndexSnapshot:
    """What a reader sees. Replaced whole, never changed, except that the live segment grows and tombstones are set."""

    segments: tuple[Segment, ...]
    live: LiveSegment
    catalogue: Catalogue
    tombstones: Bytes  # a bit per number: whether its subscription is removed

    def is_dead(self, number: int) -> bool:
        # A number given out after this snapshot was taken may lie beyond its bits.
        return number < 8 * len(self.tombstones) and bool(self.tombstones[number >> 3] >> (number & 7) & 1)

    def number_of(self, id: object) -> int | None:
        """The number of a subscription that is not removed."""
        if not isinstance(id, str):
            return None
        return next((number for number in self.catalogue.numbers_of(id) if not self.is_dead(number)), None)

    def alive(self, numbers: AnyArray) -> AnyArray:
        """The numbers without those that are removed."""
        found: AnyArray = numbers[self.tombstones[numbers >> 3] >> (numbers & 7) & 1 == 0]
        return found


class SegmentSet:
    """The present snapshot, and all operations that replace it. Writers hold `lock`; readers take `snapshot` once."""

    def __init__(self, background: bool) -> None:
        self.snapshot = IndexSnapshot((), LiveSegment(), Catalogue(), np.zeros(64, np.uint8))
        self.removed = 0  # tombstones among the numbers of the catalogue
        self.changes = 0  # additions and removals so far
        self.lock = threading.RLock()
        self._quiet_matches = 0  # since the last addition
        self._merger: threading.Thread | None = None  # while there is something to merge or to settle
        self._settled: tuple[Segment, ...] = ()  # segments that are known to need no settling
        self._budget = MergeBudget()
        self._hurry = threading.Event()  # somebody waits for the merger
        self._background = background
        self._is_due = False
        if background:
            _process.owners.add(self)

    # Additions and removals

    def add(self, subscription: Subscription, condition: ReadCondition) -> None:
        """Add a subscription with a new id to the live segment."""
        self.changes += 1
        self._fit_tombstones(1)
        number = self.snapshot.catalogue.append(subscription)
        # Catalogue first: a reader that finds the number in the live segment looks up its id at once.
        self.snapshot.live.add(number, condition)
        self._quiet_matches = 0
        if self.snapshot.live.is_full:
            self.seal()
            self._start_due_work()
        elif self._background and self._is_unsettled():
            self._start_merger()

    def extend(self, subscriptions: Subscriptions) -> None:
        """Add many at once, as a segment of their own; nothing is changed where one of them cannot be read."""
        if not kernel_readiness.are_ready() and len(subscriptions) <= _MAX_BULK_WITHOUT_KERNELS:
            wanted = [subscriptions[at] for at in range(len(subscriptions))]
            read = [(each, read_condition(each)) for each in wanted]
            for subscription, condition in read:
                self.add(subscription, condition)
            return
        kernel_readiness.wait_until_ready()
        catalogue = self.snapshot.catalogue
        catalogue.pack()
        first = len(catalogue)
        segment = _build(range(first, first + len(subscriptions)), subscriptions)
        self._fit_tombstones(len(subscriptions))
        self.changes += 1
        # After the segment is built, which may raise: a catalogue cannot give numbers back.
        catalogue.extend(subscriptions)
        self.publish((*self.snapshot.segments, segment), self.snapshot.live)
        self._start_due_work()

    def set_tombstone(self, number: int) -> None:
        """Remove a subscription; the next reader does not see it."""
        self.changes += 1
        # Changed in place: readers of the present snapshot see it, and so do searchers, which share the array.
        self.snapshot.tombstones[number >> 3] |= 1 << (number & 7)
        self.snapshot.live.remove(number)
        self.removed += 1
        self._settled = ()

    def start_due_renumbering(self) -> None:
        """Start forgetting the dead in the background where they are the most."""
        if self._is_mostly_dead(_MIN_DEAD_TO_RENUMBER):
            self._start_merger()
        else:
            self._start_due_work()

    def _fit_tombstones(self, more: int) -> None:
        """Make room for the bits of more numbers."""
        snapshot = self.snapshot
        needed = (len(snapshot.catalogue) + more + 7) // 8
        if needed > len(snapshot.tombstones):
            grown = np.zeros(max(needed, 2 * len(snapshot.tombstones)), np.uint8)
            grown[: len(snapshot.tombstones)] = snapshot.tombstones
            self.publish(snapshot.segments, snapshot.live, tombstones=grown)

    # Sealing

    def publish(
        self,
        segments: Sequence[Segment],
        live: LiveSegment,
        catalogue: Catalogue | None = None,
        tombstones: Bytes | None = None,
    ) -> None:
        """Replace the snapshot that readers take from now on."""
        catalogue = self.snapshot.catalogue if catalogue is None else catalogue
        tombstones = self.snapshot.tombstones if tombstones is None else tombstones
        for segment in segments:
            segment.searcher.tombstones = tombstones
        self.snapshot = IndexSnapshot(tuple(segments), live, catalogue, tombstones)

    def seal_when_quiet(self, matches: int = 1) -> None:
        """Count matches, and seal the live segment when there were many without an addition."""
        if not self._background:
            self._offer_when_quiet(matches)
            return
        if len(self.snapshot.live) <= MAX_LIVE_WHEN_SETTLED:
            return
        self._quiet_matches += matches
        if self._quiet_matches > _QUIET_MATCHES:
            self._try_to_seal()

    def seal_for_batch(self, rows: int) -> None:
        """Seal the live segment where evaluating it on every row of a batch takes longer."""
        if rows * len(self.snapshot.live) > _MAX_LIVE_EVALUATIONS:
            self._try_to_seal()

    def _try_to_seal(self) -> None:
        """Seal unless another thread adds: adding never stops matching."""
        if self.lock.acquire(blocking=False):
            try:
                self.seal()
                self._start_due_work()
            finally:
                self.lock.release()

    def _offer_when_quiet(self, matches: int) -> None:
        """Where there are no threads: let `work` offer sealing, and later settling, each once.

        Settling waits for as many matches as there are subscriptions, so that it takes a small share of their time.
        """
        before, self._quiet_matches = self._quiet_matches, self._quiet_matches + matches
        snapshot = self.snapshot
        if before < _QUIET_MATCHES_WITHOUT_THREADS <= self._quiet_matches and len(snapshot.live):
            self._is_due = True
        enough = max(_QUIET_MATCHES_WITHOUT_THREADS, len(snapshot.catalogue))
        if before < enough <= self._quiet_matches and self._is_unsettled():
            self._is_due = True

    def seal(self) -> None:
        """Make an immutable segment of the live one and of small ones before it, unless kernels are missing."""
        if kernel_readiness.are_ready():
            self._seal()

    def _seal(self) -> None:
        """Live conditions are taken as they were read at `add`, those of segments from their texts."""
        live = self.snapshot.live
        if not len(live):
            return
        segments = self.snapshot.segments
        absorbed = absorbable(segments, len(live))
        builder = ConditionsBuilder()
        if absorbed:
            numbers = _alive_in(absorbed, self.snapshot)
            load_texts(builder, numbers, self.snapshot.catalogue.many(numbers))
        load_conditions(builder, live.conditions())
        kept = segments[: len(segments) - len(absorbed)]
        self.publish((*kept, Segment.build(builder)), LiveSegment())

    def _seal_now(self) -> None:
        """Seal whether kernels are there or not: interpreted where that is soon done, else when they are."""
        if len(self.snapshot.live) > _MAX_BUILT_BY_INTERPRETER:
            kernel_readiness.wait_until_ready()
        self._seal()

    def seal_for_saving(self) -> IndexSnapshot:
        """A snapshot of segments alone, and without the dead where they are the most."""
        if self._is_mostly_dead(1):
            self.merge()
        self.snapshot.catalogue.pack()
        self._seal_now()
        return self.snapshot

    def seal_for_reading(self) -> tuple[Segment, ...]:
        """All subscriptions as segments."""
        with self.lock:
            self._seal_now()
            return self.snapshot.segments

    # Merging

    def merge(self) -> None:
        """Merge everything into one segment, now; where most are dead, nothing of them is kept."""
        # A merger in the background finds its segments gone then, and drops its work.
        kernel_readiness.wait_until_ready()
        with self.lock:
            self._seal()
            segments = self.snapshot.segments
            if self._is_mostly_dead(1):
                self._renumber()
            elif len(segments) > 1 or self.removed:
                self.publish((_merge_segments(segments, self.snapshot),), self.snapshot.live)

    def _is_mostly_dead(self, least: int) -> bool:
        """Whether at least this many numbers, and more than half of all, are dead."""
        return self.removed >= least and 2 * self.removed > len(self.snapshot.catalogue)

    def _renumber(self) -> None:
        """Make a catalogue of the living, and an index of its numbers.

        Both are made beside the present ones without the lock, because that may take seconds. What is added meanwhile
        is little, and follows under the lock.
        """
        with self.lock:
            self._seal()
            before, count = self.snapshot, len(self.snapshot.catalogue)
            numbers = before.alive(np.arange(count))
        kept = before.catalogue.many(numbers.tolist())
        catalogue = Catalogue()
        catalogue.extend(kept)
        segments = [_build(range(len(kept)), kept)] if len(kept) else []
        with self.lock:
            self._seal()
            now = self.snapshot
            if now.catalogue is not before.catalogue:
                return  # another thread renumbered meanwhile
            late = now.catalogue.many(now.alive(np.arange(count, len(now.catalogue))).tolist())
            if len(late):
                segments.append(_build(catalogue.extend(late), late))
            # Removed while the new catalogue was made: dead in it from the beginning.
            gone = now.tombstones[numbers >> 3] >> (numbers & 7) & 1
            tombstones = np.packbits(np.append(gone, np.zeros(len(late), np.uint8)), bitorder="little")
            self.removed = int(gone.sum())
            self.publish(segments, LiveSegment(), catalogue, tombstones)

    # Maintenance

    def _is_unsettled(self) -> bool:
        """Whether a matcher to which nothing is added would be faster, or smaller, otherwise."""
        snapshot = self.snapshot
        if len(snapshot.live) > MAX_LIVE_WHEN_SETTLED:
            return True
        # By identity first, because this is asked at every addition.
        return snapshot.segments is not self._settled and bool(self._to_settle())

    def _to_settle(self) -> list[Segment]:
        snapshot = self.snapshot
        alive = len(snapshot.catalogue) - self.removed - len(snapshot.live)
        return segments_to_settle(snapshot.segments, alive)

    def _start_due_work(self) -> None:
        """Start merging and settling in the background where there is something to do."""
        if tier_to_merge(self.snapshot.segments) or (self._background and self._is_unsettled()):
            self._start_merger()

    def work(self) -> Callable[[], None] | None:
        """Maintenance that is due, where there is no background thread; each is returned once."""
        if not self._is_due:
            return None
        self._is_due = False
        return self._maintain

    def _maintain(self) -> None:
        with self.lock:
            self.seal()
        self._merge_due()
        if self._quiet_matches >= len(self.snapshot.catalogue):
            self._settle()

    def _start_merger(self) -> None:
        if not self._background:
            self._is_due = True
        elif self._merger is None:
            hurry = self._hurry
            # The thread waits for `hurry` alone: a matcher that is released wakes it, and it ends.
            owner = weakref.ref(self, lambda _: hurry.set())
            self._merger = threading.Thread(target=_merge, args=(owner, hurry), name="palio-merge", daemon=True)
            self._merger.start()

    def merge_and_settle(self, changes: int | None) -> tuple[int, float] | None:
        """Merge what is due, and settle if nothing has changed since there were so many changes.

        How many there are now, and after how many seconds to call again; None where nothing is left to do.
        """
        pause = 0.0
        if self.changes == changes or self._hurry.is_set():
            with self.lock:
                self.seal()
            if not self._hurry.is_set():
                pause = self._budget.seconds_until(sum(segment.size for segment in self._to_settle()))
            if not pause:
                self._settle()
        self._merge_due()
        with self.lock:
            if not self._is_unsettled():
                self._settled = self.snapshot.segments
                # Under the lock, which additions hold: one that comes now starts another merger.
                self._merger = None
                return None
        return self.changes, pause or QUIET_SECONDS

    def forget_threads(self) -> None:
        """In a forked process, where no thread of the parent runs: none that holds the lock, and no merger."""
        self.lock = threading.RLock()
        self._hurry = threading.Event()
        self._merger = None

    def _merge_due(self) -> None:
        # Before merging: renumbering builds every segment anew, and would waste the merges.
        if self._is_mostly_dead(_MIN_DEAD_TO_RENUMBER):
            self._renumber()
        while chosen := tier_to_merge(self.snapshot.segments):
            self._replace_by_merged(chosen)

    def _settle(self) -> None:
        with self.lock:
            self.seal()
        chosen = self._to_settle()
        if self._background:
            self._budget.spend(sum(segment.size for segment in chosen))
        if chosen:
            self._replace_by_merged(chosen)

    def _replace_by_merged(self, chosen: Sequence[Segment]) -> None:
        merged = _merge_segments(chosen, self.snapshot)  # without the lock: it may take seconds
        with self.lock:
            present = self.snapshot.segments
            if all(segment in present for segment in chosen):  # else another thread merged them meanwhile
                rest = [segment for segment in present if segment not in chosen]
                self.publish((merged, *rest), self.snapshot.live)

    def join_merger(self) -> None:
        """Wait until nothing is merged in the background, without waiting for additions to end."""
        merger = self._merger
        if merger is not None and merger is not threading.current_thread():
            self._hurry.set()
            merger.join()
            self._hurry.clear()


class _ProcessThreads:
    """What the mergers of all matchers of a process share."""

    def __init__(self) -> None:
        self.owners: weakref.WeakSet[SegmentSet] = weakref.WeakSet()
        self.merges = threading.Semaphore(_MAX_MERGES_AT_ONCE)

    def forget(self) -> None:
        """In a forked process, which has none of the threads."""
        self.merges = threading.Semaphore(_MAX_MERGES_AT_ONCE)
        for segments in list(self.owners):
            segments.forget_threads()


_process = _ProcessThreads()
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_process.forget)


def _merge(owner: weakref.ref[SegmentSet], hurry: threading.Event) -> None:
    """Merge and settle until nothing is left to do, or the segment set is released."""
    kernel_readiness.wait_until_ready()
    changes: int | None = None
    while True:
        with _process.merges:
            segments = owner()
            again = None if segments is None else segments.merge_and_settle(changes)
            del segments  # which would keep it while the thread waits
        if again is None:
            return
        changes, pause = again
        hurry.wait(pause)


def read_condition(subscription: Subscription) -> ReadCondition:
    """The condition of a subscription, in the form that is cheapest to read."""
    if subscription.language == "sql" and isinstance(subscription.where, str):
        # No filter is made: the live segment and sealing work on templates. With it, a condition that is seen for the
        # first time would take twice as long (510 instead of 270 µs, measured).
        bound = BoundTemplate.parse(subscription.where, subscription.timezone)
        if bound is not None:
            return bound
    return subscription.filter


def _alive_in(segments: Sequence[Segment], snapshot: IndexSnapshot) -> list[int]:
    """The numbers of the subscriptions of some segments that are not removed."""
    numbers = snapshot.alive(np.sort(np.concatenate([segment.numbers for segment in segments])))
    return numbers.tolist()  # type: ignore[no-any-return]


def _merge_segments(segments: Sequence[Segment], snapshot: IndexSnapshot) -> Segment:
    """One segment in place of several, built anew from the texts, without the dead.

    Rejected: merging the arrays. Slots are numbered by the constants of a segment, so that all intervals would have to
    be translated; reading texts of known skeletons costs a few microseconds each, about as much as laying them out.
    """
    numbers = _alive_in(segments, snapshot)
    return _build(numbers, snapshot.catalogue.many(numbers))


def _build(numbers: Sequence[int], subscriptions: Subscriptions) -> Segment:
    builder = ConditionsBuilder()
    load_texts(builder, numbers, subscriptions)
    return Segment.build(builder)
