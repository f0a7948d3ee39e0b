"""Who wants this event: a million conditions at once, coming and going while events are matched.

What it holds, and how that changes while readers read, is told in `holdings`: adding never stops matching.
`brute_force` is what all of it must agree with.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import EllipsisType
from typing import TYPE_CHECKING, Any, NoReturn

import numpy as np
import numpy.typing as npt

from palio.errors import DuplicateSubscription, InvalidArgument, PalioError, UnknownSubscription
from palio.events import Event
from palio.languages.sql.shapes import Shaped
from palio.matching.catalogue import Catalogue
from palio.matching.columnar.segment import Segment
from palio.matching.event_rows import segment_candidates
from palio.matching.holdings import Holdings, State
from palio.matching.live import Condition, LiveSubscriptions
from palio.matching.subscription import Subscription, Subscriptions

if TYPE_CHECKING:
    import pyarrow as pa


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
        self._held = Holdings(background)
        self._replaced = 0  # counts the beginnings and ends of replace(): odd while one is under way

    @property
    def _catalogue(self) -> Catalogue:
        return self._held.state.catalogue

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
        with self._held.lock:
            if self._held.state.number_of(id) is not None:
                raise DuplicateSubscription(id)
            self._held.add(subscription, condition)

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
        with self._held.lock:
            for id, number in self._catalogue.duplicates_in(ids):
                if not self._held.state.is_dead(number):
                    raise DuplicateSubscription(id)
            self._held.extend(subscriptions)

    def remove(self, id: str) -> None:
        """Take a subscription out; the next match does not see it."""
        with self._held.lock:
            number = self._held.state.number_of(id)
            if number is None:
                raise UnknownSubscription(id)
            self._held.bury(number)
            self._held.forget_later()

    def remove_many(self, ids: Iterable[str]) -> None:
        """Take many subscriptions out at once. All are removed, or none."""
        with self._held.lock:
            numbers: dict[int, None] = {}
            for id in ids:
                number = self._held.state.number_of(id)
                if number is None or number in numbers:
                    raise UnknownSubscription(id)
                numbers[number] = None
            for number in numbers:
                self._held.bury(number)
            self._held.forget_later()

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
        with self._held.lock:
            number = self._held.state.number_of(id)
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
            self._held.add(given, condition)
            self._held.bury(number)
            self._replaced += 1
            self._held.forget_later()

    # Matching

    def match(self, event: Event | Mapping[str, Any] | str | bytes) -> set[str]:
        """The ids of all subscriptions that want an event (a dict, JSON text, or an Event)."""
        attributes = Event.read(event).attributes
        self._held.settle()
        while True:
            state = self._held.state
            found = self._found(state, attributes)
            if self._held.state is state:
                return set(state.catalogue.ids_of(found))

    def match_event(self, event: Event) -> list[int]:
        """As `match`, for those who know the ids of numbers apart: the numbers of all matches, in no promised order."""
        self._held.settle()
        return self._found(self._held.state, event.attributes)

    def _found(self, state: State, attributes: Mapping[str, Any]) -> list[int]:
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

        if len(self._held.state.live) and self._held.lock.acquire(blocking=False):
            try:
                self._held.seal()
            finally:
                self._held.lock.release()
        # While another thread adds, the newest are asked one by one instead: adding never stops matching.
        state, replaced = self._held.state, self._replaced
        found = match_batch(events, state.segments, state.live, state.catalogue)
        if self._replaced == replaced and replaced % 2 == 0:
            return found
        # A subscription was replaced meanwhile, and may have been seen in both its forms, or in neither.
        with self._held.lock:
            self._held.seal()
            state = self._held.state
            return match_batch(events, state.segments, state.live, state.catalogue)

    def match_columns(self, batch: pa.RecordBatch) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """Rows and numbers of all matches of a batch whose columns are named by the paths of attributes.

        For those who match by the million and know the ids apart (`numbered_ids`), a Spark job say. Subscriptions
        must not change meanwhile.
        """
        from palio.matching.batches import match_piece

        self._held.settle(batch.num_rows)
        state = self._held.state
        return match_piece(batch, state.segments, state.live, state.catalogue, paths=True)

    def match_events(self, events: list[Event]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """As `match_columns`, for events."""
        from palio.matching.batches import match_piece

        self._held.settle(len(events))
        state = self._held.state
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
        with self._held.lock:
            self._held.seal()
            return self._held.state.segments

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
        return len(self._catalogue) - self._held.removed

    def __contains__(self, id: object) -> bool:
        return self._held.state.number_of(id) is not None

    def __getitem__(self, id: str) -> Subscription:
        """A subscription as it was added. Costs the unpacking of some hundred texts, unless it was one of the last."""
        state = self._held.state
        number = state.number_of(id)
        if number is None:
            raise UnknownSubscription(id)
        found = state.catalogue[number]
        return replace(found) if found.metadata else found  # whose metadata the caller may change

    def __iter__(self) -> Iterator[str]:
        """The ids, in the order in which they were added."""
        state = self._held.state
        for number in range(len(state.catalogue)):
            if not state.is_dead(number):
                yield state.catalogue.id_of(number)

    def subscriptions(self) -> Subscriptions:
        """All of them as columns, in the order in which they were added: some microseconds each."""
        state = self._held.state
        return state.catalogue.many(state.alive(np.arange(len(state.catalogue))).tolist())

    def __repr__(self) -> str:
        count = len(self)
        return f"<Matcher of {count:,} subscription{'' if count == 1 else 's'}>"

    def __reduce__(self) -> NoReturn:
        raise PalioError("a Matcher is not pickled: save() it to a file, and open() that where it is needed")

    def statistics(self) -> Statistics:
        """Sizes: bytes of the arrays that matching reads, and of ids and texts beside them."""
        state = self._held.state
        return Statistics(
            subscriptions=len(self),
            removed=self._held.removed,
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

        with self._held.lock:
            state = self._held.compact()
            save(Path(path), state.segments, state.catalogue, state.dead, self._held.removed)

    @classmethod
    def open(cls, path: str | Path) -> Matcher:
        """Open a saved matcher: milliseconds, whatever its size; `IndexFileError` where it is not one."""
        from palio.matching.storage import load

        matcher = cls()
        segments, catalogue, dead, matcher._held.removed = load(Path(path))
        matcher._held.publish(segments, LiveSubscriptions(), catalogue, dead)
        return matcher

    def merge(self) -> None:
        """Bring everything into one segment, now; removed subscriptions leave the index.

        Where most were removed, nothing of them is kept: those that are left get new numbers.
        """
        self._held.merge()

    def work(self) -> Callable[[], None] | None:
        """What is worth doing now, beside matching and adding, where there is no background; it may be done in any
        thread. Each thing is told once."""
        return self._held.work()


def _condition(subscription: Subscription) -> Condition:
    """What a subscription asks, in the form that is cheapest to make."""
    if subscription.language == "sql" and isinstance(subscription.where, str):
        shaped = Shaped.read(subscription.where, subscription.timezone)
        if shaped is not None:
            return shaped
    return subscription.filter


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
