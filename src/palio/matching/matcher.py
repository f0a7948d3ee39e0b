"""Who wants this event: a million conditions at once, coming and going while events are matched.

The matcher keeps immutable segments of the columnar index and a few new subscriptions beside them, as Lucene keeps
its documents. Adding files a subscription among the new ones; when they are many they become a segment; small
segments are merged into larger ones in the background; removing sets a bit. A reader takes the present list of
segments and needs no lock, so adding never stops matching. `brute_force` is what all of it must agree with.
"""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from palio.errors import DuplicateSubscription, InvalidArgument, UnknownSubscription
from palio.events import Event
from palio.filters.filter import Filter
from palio.languages.sql.shapes import Shaped
from palio.matching.catalogue import Catalogue
from palio.matching.columnar.bulk import add_texts
from palio.matching.columnar.conditions import ConditionsBuilder
from palio.matching.columnar.segment import AskTheFilters, Segment
from palio.matching.live import LiveSubscriptions
from palio.matching.subscription import Subscription

if TYPE_CHECKING:
    import pyarrow as pa

_MOST_LIVE: Final = 512  # new subscriptions that are matched one by one
_FEW_LIVE: Final = 16  # so few are left as they are however long nothing is added
_QUIET_MATCHES: Final = 64  # after so many matches without an addition the new ones become a segment
_MERGE_FACTOR: Final = 8  # segments of one size class before they are merged into one of the next


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
    """What a reader sees; replaced whole, never changed."""

    segments: tuple[Segment, ...]
    live: LiveSubscriptions


class Matcher:
    """Holds subscriptions and tells which of them want an event. Safe to use from many threads.

    >>> wants = Matcher()
    >>> wants.add("desk", "symbol = 'ACME' AND price > 100")
    >>> wants.match({"symbol": "ACME", "price": 120})
    {'desk'}
    """

    def __init__(self) -> None:
        self._catalogue = Catalogue()
        self._state = _State((), LiveSubscriptions())
        self._dead = np.zeros(64, np.uint8)
        self._removed = 0
        self._replaced = 0  # counts the beginnings and ends of replace(): odd while one is under way
        self._lock = threading.RLock()
        self._quiet = 0
        self._merging: threading.Thread | None = None

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
            if self._number_of(id) is not None:
                raise DuplicateSubscription(id)
            self._add(subscription, condition)

    def add_many(self, ids: Iterable[str], wheres: Iterable[Any], *, language: str = "sql") -> None:
        """Add many subscriptions at once: about ten times as fast as one by one. All are added, or none."""
        names, conditions = list(ids), list(wheres)
        if len(names) != len(conditions):
            raise InvalidArgument(f"every id has one condition; there are {len(names)} ids and {len(conditions)}")
        self.add_subscriptions([Subscription(id, where, language) for id, where in zip(names, conditions, strict=True)])

    def add_subscriptions(self, subscriptions: Sequence[Subscription]) -> None:
        """Add many subscriptions, each with its language, subscriber and metadata. All are added, or none."""
        ids = [each.id for each in subscriptions]
        if len(set(ids)) < len(ids):
            raise DuplicateSubscription(_first_repeated(ids))
        with self._lock:
            for id, number in self._catalogue.duplicates_in(ids):
                if not self._is_dead(number):
                    raise DuplicateSubscription(id)
            self._catalogue.pack()
            first = len(self._catalogue)
            segment = _build(range(first, first + len(subscriptions)), subscriptions)
            self._catalogue.extend(subscriptions)
            self._grow_dead()
            self._publish((*self._state.segments, segment), self._state.live)
            self._merge_later()

    def remove(self, id: str) -> None:
        """Take a subscription out; the next match does not see it."""
        with self._lock:
            number = self._number_of(id)
            if number is None:
                raise UnknownSubscription(id)
            self._bury(number)

    def remove_many(self, ids: Iterable[str]) -> None:
        """Take many subscriptions out at once. All are removed, or none."""
        with self._lock:
            numbers: dict[int, None] = {}
            for id in ids:
                number = self._number_of(id)
                if number is None or number in numbers:
                    raise UnknownSubscription(id)
                numbers[number] = None
            for number in numbers:
                self._bury(number)

    def replace(
        self,
        id: str,
        where: Any,
        *,
        language: str = "sql",
        subscriber: str | None = None,
        metadata: Mapping[str, Any] | None = None,
        timezone: str = "UTC",
    ) -> None:
        """Change a subscription; a reader sees the old condition or the new one, and never neither."""
        subscription = Subscription(id, where, language, subscriber, {} if metadata is None else metadata, timezone)
        condition = _condition(subscription)
        with self._lock:
            number = self._number_of(id)
            if number is None:
                raise UnknownSubscription(id)
            self._replaced += 1
            self._add(subscription, condition)
            self._bury(number)
            self._replaced += 1

    def _add(self, subscription: Subscription, condition: Filter | Shaped) -> None:
        number = self._catalogue.append(subscription)
        self._grow_dead()
        self._state.live.add(number, condition)
        self._quiet = 0
        if len(self._state.live) >= _MOST_LIVE:
            self._seal()
            self._merge_later()

    def _bury(self, number: int) -> None:
        self._dead[number >> 3] |= 1 << (number & 7)
        self._state.live.remove(number)
        self._removed += 1

    # Matching

    def match(self, event: Event | Mapping[str, Any] | str | bytes) -> set[str]:
        """The ids of all subscriptions that want an event (a dict, JSON text, or an Event)."""
        attributes = Event.read(event).attributes
        self._settle()
        while True:
            state = self._state
            found: list[int] = []
            for segment in state.segments:
                found += self._sure(segment, segment_candidates(segment, attributes, self._catalogue), attributes)
            # After the segments, so that what replaces one of theirs while they are searched is found here.
            if len(state.live):
                found += state.live.match(attributes)
            if self._state is state:
                return set(self._catalogue.ids_of(found))

    def match_batch(self, events: Any) -> pa.Table:
        """All matches of a batch, as a table of `row` (int64) and `subscription` (dictionary of ids), by row.

        Takes a pyarrow Table or RecordBatch, or a sequence of events as `match` takes them. Costs less per event
        than `match`, because the values of a column are looked up together.
        """
        from palio.matching.batches import match_batch

        if len(self._state.live) and self._lock.acquire(blocking=False):
            try:
                self._seal()
            finally:
                self._lock.release()
        # While another thread adds, the newest are asked one by one instead: adding never stops matching.
        state, replaced = self._state, self._replaced
        found = match_batch(events, state.segments, state.live, self._catalogue)
        if self._replaced == replaced and replaced % 2 == 0:
            return found
        # A subscription was replaced meanwhile, and may have been seen in both its forms, or in neither.
        with self._lock:
            self._seal()
            return match_batch(events, self._state.segments, self._state.live, self._catalogue)

    def match_columns(self, batch: pa.RecordBatch) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """Rows and numbers of all matches of a batch whose columns are named by the paths of attributes.

        For those who match by the million and know the ids apart (`numbered_ids`), a Spark job say. Subscriptions
        must not change meanwhile.
        """
        from palio.matching.batches import match_piece

        state = self._state
        return match_piece(batch, state.segments, state.live, self._catalogue, paths=True)

    def match_events(self, events: list[Event]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """As `match_columns`, for events."""
        from palio.matching.batches import match_piece

        state = self._state
        return match_piece(events, state.segments, state.live, self._catalogue)

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

    def _sure(self, segment: Segment, numbers: list[int], attributes: Mapping[str, Any]) -> list[int]:
        """Without the candidates whose residual conditions do not hold."""
        if not len(segment.unsure):
            return numbers
        return [
            number
            for number in numbers
            if not _contains(segment.unsure, number) or self._catalogue[number].filter.matches_attributes(attributes)
        ]

    # Looking

    def __len__(self) -> int:
        return len(self._catalogue) - self._removed

    def __contains__(self, id: object) -> bool:
        return self._number_of(id) is not None

    def __getitem__(self, id: str) -> Subscription:
        number = self._number_of(id)
        if number is None:
            raise UnknownSubscription(id)
        found = self._catalogue[number]
        return replace(found) if found.metadata else found  # whose metadata the caller may change

    def __iter__(self) -> Iterator[str]:
        """The ids, in the order in which they were added."""
        for number in range(len(self._catalogue)):
            if not self._is_dead(number):
                yield self._catalogue.id_of(number)

    def statistics(self) -> Statistics:
        """Sizes: bytes of the arrays that matching reads, and of ids and texts beside them."""
        state = self._state
        return Statistics(
            subscriptions=len(self),
            removed=self._removed,
            segments=len(state.segments),
            live=len(state.live),
            index_bytes=sum(segment.nbytes for segment in state.segments) + self._dead.nbytes,
            beside_bytes=self._catalogue.nbytes,
            slow=sum(int(segment.postings.always) for segment in state.segments),
        )

    # Keeping

    def save(self, path: str | Path) -> None:
        """Write the matcher to a file that `open` maps into memory; the file is there whole or not at all."""
        from palio.matching.storage import save

        with self._lock:
            self._catalogue.pack()
            self._seal()
            save(Path(path), self._state.segments, self._catalogue, self._dead, self._removed)

    @classmethod
    def open(cls, path: str | Path) -> Matcher:
        """Open a saved matcher: milliseconds, whatever its size; `IndexFileError` where it is not one."""
        from palio.matching.storage import load

        matcher = cls()
        segments, matcher._catalogue, matcher._dead, matcher._removed = load(Path(path))
        matcher._publish(segments, LiveSubscriptions())
        return matcher

    def merge(self) -> None:
        """Bring everything into one segment, now; removed subscriptions leave the index."""
        # Whoever merges in the background meanwhile finds its segments gone, and drops its work.
        with self._lock:
            self._seal()
            segments = self._state.segments
            if len(segments) > 1 or self._removed:
                self._publish((self._merged(segments),), self._state.live)

    # Segments

    def _number_of(self, id: object) -> int | None:
        if not isinstance(id, str):
            return None
        return next((number for number in self._catalogue.numbers_of(id) if not self._is_dead(number)), None)

    def _is_dead(self, number: int) -> bool:
        return bool(self._dead[number >> 3] >> (number & 7) & 1)

    def _grow_dead(self) -> None:
        needed = (len(self._catalogue) + 7) // 8
        if needed > len(self._dead):
            grown = np.zeros(max(needed, 2 * len(self._dead)), np.uint8)
            grown[: len(self._dead)] = self._dead
            self._dead = grown
            self._publish(self._state.segments, self._state.live)

    def _publish(self, segments: Sequence[Segment], live: LiveSubscriptions) -> None:
        for segment in segments:
            segment.searcher.dead = self._dead
        self._state = _State(tuple(segments), live)

    def _settle(self) -> None:
        """Make a segment of the new ones when matching goes on and adding does not."""
        if len(self._state.live) <= _FEW_LIVE:
            return
        self._quiet += 1
        if self._quiet > _QUIET_MATCHES and self._lock.acquire(blocking=False):
            try:
                self._seal()
                self._merge_later()
            finally:
                self._lock.release()

    def _seal(self) -> None:
        if not len(self._state.live):
            return
        segment = self._build(self._state.live.numbers())
        self._publish((*self._state.segments, segment), LiveSubscriptions())

    def _merge_later(self) -> None:
        """Start merging in the background where enough segments of one size are there."""
        if (self._merging is None or not self._merging.is_alive()) and _mergeable(self._state.segments):
            self._merging = threading.Thread(target=self._merge_some, name="palio-merge", daemon=True)
            self._merging.start()

    def _merge_some(self) -> None:
        while chosen := _mergeable(self._state.segments):
            merged = self._merged(chosen)
            with self._lock:
                present = self._state.segments
                if all(segment in present for segment in chosen):  # else somebody else merged them meanwhile
                    rest = [segment for segment in present if segment not in chosen]
                    self._publish((merged, *rest), self._state.live)

    def _merged(self, segments: Sequence[Segment]) -> Segment:
        """One segment in place of several, built anew from the texts: what was removed is left out."""
        return self._build(np.sort(np.concatenate([segment.numbers for segment in segments])).tolist())

    def _build(self, numbers: Sequence[int]) -> Segment:
        alive = [number for number in numbers if not self._is_dead(number)]
        return _build(alive, [self._catalogue[number] for number in alive])

    def _wait(self) -> None:
        merging = self._merging
        if merging is not None and merging is not threading.current_thread():
            merging.join()


def _condition(subscription: Subscription) -> Filter | Shaped:
    """What a subscription asks, in the form that is cheapest to make."""
    if subscription.language == "sql" and isinstance(subscription.where, str):
        shaped = Shaped.read(subscription.where, subscription.timezone)
        if shaped is not None:
            return shaped
    return subscription.filter


def _build(numbers: Sequence[int], subscriptions: Sequence[Subscription]) -> Segment:
    builder = ConditionsBuilder()
    add_texts(builder, numbers, subscriptions)
    return Segment.build(builder)


def segment_candidates(segment: Segment, attributes: Mapping[str, Any], catalogue: Catalogue) -> list[int]:
    """The candidates of a segment for one event; asked one by one where its arrays allow too many choices."""
    try:
        return segment.match_event(attributes)
    except AskTheFilters:
        return [number for number in segment.alive() if catalogue[number].filter.matches_attributes(attributes)]


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
    at = int(np.searchsorted(numbers, number))
    return at < len(numbers) and int(numbers[at]) == number


def _first_repeated(ids: Sequence[str]) -> str:
    seen: set[str] = set()
    for id in ids:
        if id in seen:
            return id
        seen.add(id)
    raise ValueError("no id is repeated")
