"""Who wants this event: a million conditions at once, coming and going while events are matched.

The matcher keeps immutable segments of the columnar index and a few new subscriptions beside them, as Lucene keeps
its documents. Adding files a subscription among the new ones; when they are many they become a segment; small
segments are merged into larger ones in the background; removing sets a bit. A reader takes the present list of
segments and needs no lock, so adding never stops matching. `brute_force` is what all of it must agree with.
"""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Final, NoReturn

import numpy as np
import numpy.typing as npt

from palio.errors import DuplicateSubscription, InvalidArgument, PalioError, UnknownSubscription
from palio.events import Event
from palio.languages.sql.shapes import Shaped
from palio.matching.catalogue import Catalogue
from palio.matching.columnar.bulk import add_texts
from palio.matching.columnar.conditions import ConditionsBuilder
from palio.matching.columnar.segment import Segment
from palio.matching.event_rows import segment_candidates
from palio.matching.live import Condition, LiveSubscriptions
from palio.matching.subscription import Subscription, Subscriptions

if TYPE_CHECKING:
    import pyarrow as pa

_FEW_LIVE: Final = 16  # so few are left as they are however long nothing is added
_QUIET_MATCHES: Final = 64  # after so many matches without an addition the new ones become a segment
_QUIET_WITHOUT_THREADS: Final = 8  # the same where somebody else finds the time for it, and however few they are
_MERGE_FACTOR: Final = 8  # segments of one size class before they are merged into one of the next
_MANY_DEAD: Final = 4096  # removed subscriptions that are worth renumbering the others for


@dataclass(frozen=True, slots=True)
class Statistics:
    """How large a matcher is and of what it consists."""

    subscriptions: int
    removed: int
    segments: int
    live: int
    index_bytes: int
    beside_bytes: int
    slow: int

    @property
    def bytes_per_subscription(self) -> float:
        return self.index_bytes / max(1, self.subscriptions)


@dataclass(frozen=True, slots=True)
class _State:
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


class Matcher:
    """Holds subscriptions and tells which of them want an event. Safe to use from many threads.

    With `background=False` it starts no thread of its own, for owners that must say themselves what is done when: they
    ask for `work` now and then, and call what that returns.

    >>> wants = Matcher()
    >>> wants.add("desk", "symbol = 'ACME' AND price > 100")
    >>> wants.match({"symbol": "ACME", "price": 120})
    {'desk'}
    """

    def __init__(self, *, background: bool = True) -> None:
        self._state = _State((), LiveSubscriptions(), Catalogue(), np.zeros(64, np.uint8))
        self._removed = 0  # numbers of the catalogue that are dead
        self._replaced = 0  # counts the beginnings and ends of replace(): odd while one is under way
        self._lock = threading.RLock()
        self._quiet = 0
        self._merging: threading.Thread | None = None
        self._background = background
        self._is_due = False

    @property
    def _catalogue(self) -> Catalogue:
        return self._state.catalogue

    # Changing what is wanted

    def add(
        self,
        id: str,
        where: Any,
        *,
        language: str = "sql",
        subscriber: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        timezone: str = "UTC",
    ) -> None:
        """Add a subscription: text, JSON for JSON languages, or a Filter.

        Costs the parsing, some microseconds for a shape that was seen before, and a share of the merging to come.
        """
        subscription = Subscription(id, where, language, subscriber, {} if metadata is None else metadata, timezone)
        condition = _condition(subscription)
        with self._lock:
            if self._state.number_of(id) is not None:
                raise DuplicateSubscription(id)
            self._add(subscription, condition)

    def add_many(
        self, ids: Iterable[str], wheres: Iterable[Any], *, language: str = "sql", timezone: str = "UTC"
    ) -> None:
        """Add many subscriptions at once: several times as fast as one by one. All are added, or none.

        Costs some microseconds each for conditions of shapes that several of them share, the parsing for others.
        """
        names, conditions = list(ids), list(wheres)
        if len(names) != len(conditions):
            raise InvalidArgument(f"every id has one condition; there are {len(names)} ids and {len(conditions)}")
        self._add_many(Subscriptions.of_texts(names, conditions, language, timezone))

    def add_subscriptions(self, subscriptions: Sequence[Subscription]) -> None:
        """Add many subscriptions, each with its language, subscriber and metadata. All are added, or none."""
        self._add_many(Subscriptions.of(subscriptions))

    def _add_many(self, subscriptions: Subscriptions) -> None:
        ids = subscriptions.ids
        if len(set(ids)) < len(ids):
            raise DuplicateSubscription(_first_repeated(ids))
        with self._lock:
            for id, number in self._catalogue.duplicates_in(ids):
                if not self._state.is_dead(number):
                    raise DuplicateSubscription(id)
            self._catalogue.pack()
            first = len(self._catalogue)
            segment = _build(range(first, first + len(subscriptions)), subscriptions)
            self._grow_dead(len(subscriptions))
            self._catalogue.extend(subscriptions)
            self._publish((*self._state.segments, segment), self._state.live)
            self._merge_later()

    def remove(self, id: str) -> None:
        """Take a subscription out; the next match does not see it."""
        with self._lock:
            number = self._state.number_of(id)
            if number is None:
                raise UnknownSubscription(id)
            self._bury(number)
            self._renumber_later()

    def remove_many(self, ids: Iterable[str]) -> None:
        """Take many subscriptions out at once. All are removed, or none."""
        with self._lock:
            numbers: dict[int, None] = {}
            for id in ids:
                number = self._state.number_of(id)
                if number is None or number in numbers:
                    raise UnknownSubscription(id)
                numbers[number] = None
            for number in numbers:
                self._bury(number)
            self._renumber_later()

    def replace(
        self,
        id: str,
        where: Any,
        *,
        language: str = "sql",
        subscriber: str | EllipsisType | None = ...,
        metadata: Mapping[str, Any] | EllipsisType | None = ...,
        timezone: str = "UTC",
    ) -> None:
        """Change a subscription; a reader sees the old condition or the new one, and never neither.

        Its subscriber and metadata stay what they are where they are not given; None takes them away.
        """
        given = Subscription(
            id,
            where,
            language,
            None if subscriber is ... else subscriber,
            {} if metadata is ... or metadata is None else metadata,
            timezone,
        )
        condition = _condition(given)
        with self._lock:
            number = self._state.number_of(id)
            if number is None:
                raise UnknownSubscription(id)
            if (subscriber is ... or metadata is ...) and not self._catalogue.is_bare(number):
                known = self._catalogue[number]
                given = replace(
                    given,
                    subscriber=known.subscriber if subscriber is ... else given.subscriber,
                    metadata=known.metadata if metadata is ... else given.metadata,
                )
            self._replaced += 1
            self._add(given, condition)
            self._bury(number)
            self._replaced += 1
            self._renumber_later()

    def _add(self, subscription: Subscription, condition: Condition) -> None:
        self._grow_dead(1)
        number = self._catalogue.append(subscription)
        self._state.live.add(number, condition)
        self._quiet = 0
        if self._state.live.is_full:
            self._seal()
            self._merge_later()

    def _bury(self, number: int) -> None:
        self._state.dead[number >> 3] |= 1 << (number & 7)
        self._state.live.remove(number)
        self._removed += 1

    # Matching

    def match(self, event: Event | Mapping[str, Any] | str | bytes) -> set[str]:
        """The ids of all subscriptions that want an event (a dict, JSON text, or an Event)."""
        attributes = Event.read(event).attributes
        self._settle()
        while True:
            state = self._state
            found = self._found(state, attributes)
            if self._state is state:
                return set(state.catalogue.ids_of(found))

    def match_event(self, event: Event) -> list[int]:
        """As `match`, for those who know the ids of numbers apart: the numbers of all matches, in no promised order."""
        self._settle()
        return self._found(self._state, event.attributes)

    def _found(self, state: _State, attributes: Mapping[str, Any]) -> list[int]:
        found: list[int] = []
        for segment in state.segments:
            candidates = segment_candidates(segment, attributes, state.catalogue)
            found += self._sure(segment, candidates, attributes, state.catalogue)
        # After the segments, so that what replaces one of theirs while they are searched is found here.
        if len(state.live):
            found += state.live.match(attributes)
        return found

    def match_batch(self, events: Any) -> pa.Table:
        """All matches of a batch, as a table of `row` (int64) and `subscription` (dictionary of ids), by row.

        Those of one row are in no promised order. Takes a pyarrow Table or RecordBatch, or a sequence of events as
        `match` takes them. Costs less per event than `match`, because the values of a column are looked up together.
        """
        from palio.matching.batches import match_batch

        if len(self._state.live) and self._lock.acquire(blocking=False):
            try:
                self._seal()
            finally:
                self._lock.release()
        # While another thread adds, the newest are asked one by one instead: adding never stops matching.
        state, replaced = self._state, self._replaced
        found = match_batch(events, state.segments, state.live, state.catalogue)
        if self._replaced == replaced and replaced % 2 == 0:
            return found
        # A subscription was replaced meanwhile, and may have been seen in both its forms, or in neither.
        with self._lock:
            self._seal()
            state = self._state
            return match_batch(events, state.segments, state.live, state.catalogue)

    def match_columns(self, batch: pa.RecordBatch) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """Rows and numbers of all matches of a batch whose columns are named by the paths of attributes.

        For those who match by the million and know the ids apart (`numbered_ids`), a Spark job say. Subscriptions
        must not change meanwhile.
        """
        from palio.matching.batches import match_piece

        self._settle(batch.num_rows)
        state = self._state
        return match_piece(batch, state.segments, state.live, state.catalogue, paths=True)

    def match_events(self, events: list[Event]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """As `match_columns`, for events."""
        from palio.matching.batches import match_piece

        self._settle(len(events))
        state = self._state
        return match_piece(events, state.segments, state.live, state.catalogue)

    def numbered_subscribers(self) -> pa.StringArray:
        """The subscriber of every number, null where there is none; made at the first call, from all subscriptions."""
        return self._catalogue.subscribers()

    def numbered_ids(self) -> pa.StringArray:
        """The id of every number, also of those that are removed."""
        return self._catalogue.names()

    @property
    def attributes(self) -> frozenset[str]:
        """The attributes that some subscription looks at; a subscription may name more that it never needs."""
        found = {name for segment in self._sealed() for name in segment.attributes}
        for number in self._unsure():
            found |= self._catalogue[number].filter.attributes
        return frozenset(found)

    @property
    def reads_whole_events(self) -> bool:
        """Whether some subscription looks at attributes that it does not name."""
        if any(segment.reads_whole_event for segment in self._sealed()):
            return True
        return any(self._catalogue[number].filter.reads_whole_event for number in self._unsure())

    def _sealed(self) -> tuple[Segment, ...]:
        """The segments, when all subscriptions are in one."""
        with self._lock:
            self._seal()
            return self._state.segments

    def _unsure(self) -> Iterator[int]:
        """The numbers of the subscriptions with residual conditions."""
        return (number for segment in self._sealed() for number in segment.unsure.tolist())

    def _sure(
        self, segment: Segment, numbers: list[int], attributes: Mapping[str, Any], catalogue: Catalogue
    ) -> list[int]:
        """Without the candidates whose residual conditions do not hold."""
        if not len(segment.unsure):
            return numbers
        return [
            number
            for number in numbers
            if not _contains(segment.unsure, number) or catalogue.filter(number).matches_attributes(attributes)
        ]

    # Looking

    def __len__(self) -> int:
        return len(self._catalogue) - self._removed

    def __contains__(self, id: object) -> bool:
        return self._state.number_of(id) is not None

    def __getitem__(self, id: str) -> Subscription:
        """A subscription as it was added. Costs the unpacking of some hundred texts, unless it was one of the last."""
        state = self._state
        number = state.number_of(id)
        if number is None:
            raise UnknownSubscription(id)
        found = state.catalogue[number]
        return replace(found) if found.metadata else found  # whose metadata the caller may change

    def __iter__(self) -> Iterator[str]:
        """The ids, in the order in which they were added."""
        state = self._state
        for number in range(len(state.catalogue)):
            if not state.is_dead(number):
                yield state.catalogue.id_of(number)

    def __repr__(self) -> str:
        count = len(self)
        return f"<Matcher of {count:,} subscription{'' if count == 1 else 's'}>"

    def __reduce__(self) -> NoReturn:
        raise PalioError("a Matcher is not pickled: save() it to a file, and open() that where it is needed")

    def statistics(self) -> Statistics:
        """Sizes: bytes of the arrays that matching reads, and of ids and texts beside them."""
        state = self._state
        return Statistics(
            subscriptions=len(self),
            removed=self._removed,
            segments=len(state.segments),
            live=len(state.live),
            index_bytes=sum(segment.nbytes for segment in state.segments) + state.dead.nbytes,
            beside_bytes=state.catalogue.nbytes,
            slow=sum(int(segment.postings.always) for segment in state.segments),
        )

    # Keeping

    def save(self, path: str | Path) -> None:
        """Write the matcher to a file that `open` maps into memory; the file is there whole or not at all."""
        from palio.matching.storage import save

        with self._lock:
            if self._is_mostly_dead(1):
                self.merge()
            self._catalogue.pack()
            self._seal()
            state = self._state
            save(Path(path), state.segments, state.catalogue, state.dead, self._removed)

    @classmethod
    def open(cls, path: str | Path) -> Matcher:
        """Open a saved matcher: milliseconds, whatever its size; `IndexFileError` where it is not one."""
        from palio.matching.storage import load

        matcher = cls()
        segments, catalogue, dead, matcher._removed = load(Path(path))
        matcher._publish(segments, LiveSubscriptions(), catalogue, dead)
        return matcher

    def merge(self) -> None:
        """Bring everything into one segment, now; removed subscriptions leave the index.

        Where most were removed, nothing of them is kept: those that are left get new numbers.
        """
        # Whoever merges in the background meanwhile finds its segments gone, and drops its work.
        with self._lock:
            self._seal()
            segments = self._state.segments
            if self._is_mostly_dead(1):
                self._renumber()
            elif len(segments) > 1 or self._removed:
                self._publish((_merged(segments, self._state),), self._state.live)

    # Segments

    def _is_mostly_dead(self, least: int) -> bool:
        """Whether at least so many numbers, and more than half of all, are of removed subscriptions."""
        return self._removed >= least and 2 * self._removed > len(self._catalogue)

    def _renumber(self) -> None:
        """A catalogue of what is left, and an index that speaks of its numbers.

        Both are made beside what is there, without the lock, because it may take seconds. What has come meanwhile
        is added at the end, under the lock; it is little.
        """
        with self._lock:
            self._seal()
            before, count = self._state, len(self._catalogue)
            numbers = before.alive(np.arange(count))
        kept = before.catalogue.many(numbers.tolist())
        catalogue = Catalogue()
        catalogue.extend(kept)
        segments = [_build(range(len(kept)), kept)] if len(kept) else []
        with self._lock:
            self._seal()
            now = self._state
            if now.catalogue is not before.catalogue:
                return  # somebody else did the same
            late = now.catalogue.many(now.alive(np.arange(count, len(now.catalogue))).tolist())
            if len(late):
                segments.append(_build(catalogue.extend(late), late))
            gone = now.dead[numbers >> 3] >> (numbers & 7) & 1
            dead = np.packbits(np.append(gone, np.zeros(len(late), np.uint8)), bitorder="little")
            self._removed = int(gone.sum())
            self._publish(segments, LiveSubscriptions(), catalogue, dead)

    def _grow_dead(self, more: int) -> None:
        """Make room for the bits of so many numbers more."""
        state = self._state
        needed = (len(state.catalogue) + more + 7) // 8
        if needed > len(state.dead):
            grown = np.zeros(max(needed, 2 * len(state.dead)), np.uint8)
            grown[: len(state.dead)] = state.dead
            self._publish(state.segments, state.live, dead=grown)

    def _publish(
        self,
        segments: Sequence[Segment],
        live: LiveSubscriptions,
        catalogue: Catalogue | None = None,
        dead: npt.NDArray[np.uint8] | None = None,
    ) -> None:
        catalogue = self._state.catalogue if catalogue is None else catalogue
        dead = self._state.dead if dead is None else dead
        for segment in segments:
            segment.searcher.dead = dead
        self._state = _State(tuple(segments), live, catalogue, dead)

    def _settle(self, matches: int = 1) -> None:
        """Make a segment of the new ones when matching goes on and adding does not."""
        if not len(self._state.live):
            return
        if not self._background:
            before, self._quiet = self._quiet, self._quiet + matches
            self._is_due = self._is_due or before < _QUIET_WITHOUT_THREADS <= self._quiet
            return
        if len(self._state.live) <= _FEW_LIVE:
            return
        self._quiet += matches
        if self._quiet > _QUIET_MATCHES and self._lock.acquire(blocking=False):
            try:
                self._seal()
                self._merge_later()
            finally:
                self._lock.release()

    def _seal(self) -> None:
        if not len(self._state.live):
            return
        segment = _built(np.array(self._state.live.numbers(), np.int64), self._state)
        self._publish((*self._state.segments, segment), LiveSubscriptions())

    def _merge_later(self) -> None:
        """Start merging in the background where enough segments of one size are there."""
        if _mergeable(self._state.segments):
            self._start_merging()

    def _renumber_later(self) -> None:
        """Start forgetting in the background where most was removed."""
        if self._is_mostly_dead(_MANY_DEAD):
            self._start_merging()

    def work(self) -> Callable[[], None] | None:
        """What is worth doing now, beside matching and adding, where there is no background; it may be done in any
        thread. Each thing is told once."""
        if not self._is_due:
            return None
        self._is_due = False
        return self._catch_up

    def _catch_up(self) -> None:
        with self._lock:
            self._seal()
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
        while chosen := _mergeable((state := self._state).segments):
            merged = _merged(chosen, state)
            with self._lock:
                present = self._state.segments
                if all(segment in present for segment in chosen):  # else somebody else merged them meanwhile
                    rest = [segment for segment in present if segment not in chosen]
                    self._publish((merged, *rest), self._state.live)

    def _wait(self) -> None:
        merging = self._merging
        if merging is not None and merging is not threading.current_thread():
            merging.join()


def _condition(subscription: Subscription) -> Condition:
    """What a subscription asks, in the form that is cheapest to make."""
    if subscription.language == "sql" and isinstance(subscription.where, str):
        shaped = Shaped.read(subscription.where, subscription.timezone)
        if shaped is not None:
            return shaped
    return subscription.filter


def _merged(segments: Sequence[Segment], state: _State) -> Segment:
    """One segment in place of several, built anew from the texts: what was removed is left out.

    Reading texts of known shapes costs a few microseconds each, about what laying them out does.
    """
    return _built(np.sort(np.concatenate([segment.numbers for segment in segments])), state)


def _built(numbers: npt.NDArray[Any], state: _State) -> Segment:
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


def _contains(numbers: npt.NDArray[np.int32], number: int) -> bool:
    sorted_numbers = numbers.data  # for one look-up, far quicker than NumPy's search
    at = bisect_left(sorted_numbers, number)
    return at < len(sorted_numbers) and sorted_numbers[at] == number


def _first_repeated(ids: Sequence[str]) -> str:
    seen: set[str] = set()
    for id in ids:
        if id in seen:
            return id
        seen.add(id)
    raise ValueError("no id is repeated")
