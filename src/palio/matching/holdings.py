"""What does a matcher hold? Immutable segments, the newest subscriptions beside them, a bit for each that is removed.

As Lucene keeps its documents: what is added is filed among the new ones; when they are many they become a segment;
small segments are merged into larger ones in the background; removing sets a bit. A reader takes the present `State`
and needs no lock.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from palio.matching.catalogue import Catalogue
from palio.matching.columnar.bulk import add_texts
from palio.matching.columnar.conditions import ConditionsBuilder
from palio.matching.columnar.segment import Segment
from palio.matching.live import Condition, LiveSubscriptions
from palio.matching.subscription import Subscription, Subscriptions

_FEW_LIVE: Final = 16  # so few are left as they are however long nothing is added
_QUIET_MATCHES: Final = 64  # after so many matches without an addition the new ones become a segment
_QUIET_WITHOUT_THREADS: Final = 8  # the same where somebody else finds the time for it, and however few they are
_MERGE_FACTOR: Final = 8  # segments of one size class before they are merged into one of the next
_MANY_DEAD: Final = 4096  # removed subscriptions that are worth renumbering the others for


@dataclass(frozen=True, slots=True)
class State:
    """What a reader sees; replaced whole, never changed, but for what grows at its end and for bits that are set."""

    segments: tuple[Segment, ...]
    live: LiveSubscriptions
    catalogue: Catalogue
    dead: npt.NDArray[np.uint8]  # a bit per number: whether it is removed

    def is_dead(self, number: int) -> bool:
        # What was added after a reader took this may have a number beyond the bits there were.
        return number < 8 * len(self.dead) and bool(self.dead[number >> 3] >> (number & 7) & 1)

    def number_of(self, id: object) -> int | None:
        """The number of a subscription that is there."""
        if not isinstance(id, str):
            return None
        return next((number for number in self.catalogue.numbers_of(id) if not self.is_dead(number)), None)

    def alive(self, numbers: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Those of many numbers that are not removed."""
        found: npt.NDArray[Any] = numbers[self.dead[numbers >> 3] >> (numbers & 7) & 1 == 0]
        return found


class Holdings:
    """The present state, and all that changes it. Who changes holds `lock`; who reads takes `state` once."""

    def __init__(self, background: bool) -> None:
        self.state = State((), LiveSubscriptions(), Catalogue(), np.zeros(64, np.uint8))
        self.removed = 0  # numbers of the catalogue that are dead
        self.lock = threading.RLock()
        self._quiet = 0
        self._merging: threading.Thread | None = None
        self._background = background
        self._is_due = False

    # Coming and going

    def add(self, subscription: Subscription, condition: Condition) -> None:
        """File one subscription whose id is not there."""
        self._grow_dead(1)
        number = self.state.catalogue.append(subscription)
        self.state.live.add(number, condition)
        self._quiet = 0
        if self.state.live.is_full:
            self.seal()
            self._merge_later()

    def extend(self, subscriptions: Subscriptions) -> None:
        """File many at once, as a segment of their own; nothing is changed where one of them cannot be read."""
        catalogue = self.state.catalogue
        catalogue.pack()
        first = len(catalogue)
        segment = _build(range(first, first + len(subscriptions)), subscriptions)
        self._grow_dead(len(subscriptions))
        catalogue.extend(subscriptions)
        self.publish((*self.state.segments, segment), self.state.live)
        self._merge_later()

    def bury(self, number: int) -> None:
        """Remove one; the next reader does not see it."""
        self.state.dead[number >> 3] |= 1 << (number & 7)
        self.state.live.remove(number)
        self.removed += 1

    def forget_later(self) -> None:
        """Start forgetting in the background where most was removed."""
        if self._is_mostly_dead(_MANY_DEAD):
            self._start_merging()

    def _grow_dead(self, more: int) -> None:
        """Make room for the bits of so many numbers more."""
        state = self.state
        needed = (len(state.catalogue) + more + 7) // 8
        if needed > len(state.dead):
            grown = np.zeros(max(needed, 2 * len(state.dead)), np.uint8)
            grown[: len(state.dead)] = state.dead
            self.publish(state.segments, state.live, dead=grown)

    # Segments

    def publish(
        self,
        segments: Sequence[Segment],
        live: LiveSubscriptions,
        catalogue: Catalogue | None = None,
        dead: npt.NDArray[np.uint8] | None = None,
    ) -> None:
        """Let readers see this from now on."""
        catalogue = self.state.catalogue if catalogue is None else catalogue
        dead = self.state.dead if dead is None else dead
        for segment in segments:
            segment.searcher.dead = dead
        self.state = State(tuple(segments), live, catalogue, dead)

    def settle(self, matches: int = 1) -> None:
        """Make a segment of the new ones when matching goes on and adding does not."""
        if not len(self.state.live):
            return
        if not self._background:
            before, self._quiet = self._quiet, self._quiet + matches
            self._is_due = self._is_due or before < _QUIET_WITHOUT_THREADS <= self._quiet
            return
        if len(self.state.live) <= _FEW_LIVE:
            return
        self._quiet += matches
        if self._quiet > _QUIET_MATCHES and self.lock.acquire(blocking=False):
            try:
                self.seal()
                self._merge_later()
            finally:
                self.lock.release()

    def seal(self) -> None:
        """Make a segment of the new ones."""
        if not len(self.state.live):
            return
        segment = _built(np.array(self.state.live.numbers(), np.int64), self.state)
        self.publish((*self.state.segments, segment), LiveSubscriptions())

    def merge(self) -> None:
        """Bring everything into one segment, now; where most were removed, nothing of them is kept."""
        # Whoever merges in the background meanwhile finds its segments gone, and drops its work.
        with self.lock:
            self.seal()
            segments = self.state.segments
            if self._is_mostly_dead(1):
                self._renumber()
            elif len(segments) > 1 or self.removed:
                self.publish((_merged(segments, self.state),), self.state.live)

    def compact(self) -> State:
        """The state to be kept in a file: sealed, and without the dead where they are most."""
        if self._is_mostly_dead(1):
            self.merge()
        self.state.catalogue.pack()
        self.seal()
        return self.state

    def _is_mostly_dead(self, least: int) -> bool:
        """Whether at least so many numbers, and more than half of all, are of removed subscriptions."""
        return self.removed >= least and 2 * self.removed > len(self.state.catalogue)

    def _renumber(self) -> None:
        """A catalogue of what is left, and an index that speaks of its numbers.

        Both are made beside what is there, without the lock, because it may take seconds. What has come meanwhile
        is added at the end, under the lock; it is little.
        """
        with self.lock:
            self.seal()
            before, count = self.state, len(self.state.catalogue)
            numbers = before.alive(np.arange(count))
        kept = before.catalogue.many(numbers.tolist())
        catalogue = Catalogue()
        catalogue.extend(kept)
        segments = [_build(range(len(kept)), kept)] if len(kept) else []
        with self.lock:
            self.seal()
            now = self.state
            if now.catalogue is not before.catalogue:
                return  # somebody else did the same
            late = now.catalogue.many(now.alive(np.arange(count, len(now.catalogue))).tolist())
            if len(late):
                segments.append(_build(catalogue.extend(late), late))
            gone = now.dead[numbers >> 3] >> (numbers & 7) & 1
            dead = np.packbits(np.append(gone, np.zeros(len(late), np.uint8)), bitorder="little")
            self.removed = int(gone.sum())
            self.publish(segments, LiveSubscriptions(), catalogue, dead)

    def _merge_later(self) -> None:
        """Start merging in the background where enough segments of one size are there."""
        if _mergeable(self.state.segments):
            self._start_merging()

    def work(self) -> Callable[[], None] | None:
        """What is worth doing now where there is no background; each thing is told once."""
        if not self._is_due:
            return None
        self._is_due = False
        return self._catch_up

    def _catch_up(self) -> None:
        with self.lock:
            self.seal()
        self._merge_some()

    def _start_merging(self) -> None:
        if not self._background:
            self._is_due = True
        elif self._merging is None or not self._merging.is_alive():
            self._merging = threading.Thread(target=self._merge_some, name="palio-merge", daemon=True)
            self._merging.start()

    def _merge_some(self) -> None:
        if self._is_mostly_dead(_MANY_DEAD):
            self._renumber()
        while chosen := _mergeable((state := self.state).segments):
            merged = _merged(chosen, state)
            with self.lock:
                present = self.state.segments
                if all(segment in present for segment in chosen):  # else somebody else merged them meanwhile
                    rest = [segment for segment in present if segment not in chosen]
                    self.publish((merged, *rest), self.state.live)

    def wait(self) -> None:
        """Until nothing is merged in the background."""
        merging = self._merging
        if merging is not None and merging is not threading.current_thread():
            merging.join()


def _merged(segments: Sequence[Segment], state: State) -> Segment:
    """One segment in place of several, built anew from the texts: what was removed is left out.

    Reading texts of known shapes costs a few microseconds each, about what laying them out does.
    """
    return _built(np.sort(np.concatenate([segment.numbers for segment in segments])), state)


def _built(numbers: npt.NDArray[Any], state: State) -> Segment:
    alive = state.alive(numbers).tolist()
    return _build(alive, state.catalogue.many(alive))


def _build(numbers: Sequence[int], subscriptions: Subscriptions) -> Segment:
    builder = ConditionsBuilder()
    add_texts(builder, numbers, subscriptions)
    return Segment.build(builder)


def _mergeable(segments: Sequence[Segment]) -> list[Segment]:
    """The smallest segments that together are due: as many of one size class as the factor says."""
    classes: dict[int, list[Segment]] = {}
    for segment in segments:
        size = max(1, segment.size)
        classes.setdefault(int(np.log(size) / np.log(_MERGE_FACTOR)), []).append(segment)
    for size in sorted(classes):
        if len(classes[size]) >= _MERGE_FACTOR:
            return classes[size]
    return []
