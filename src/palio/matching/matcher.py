"""The matcher: which of a million subscriptions want an event, while subscriptions come and go.

Matching asks every immutable segment for candidates, evaluates residual conditions on them (`residuals`), and asks the
live segment. `segments` says how both change without stopping readers; `catalogue` keeps ids and texts. All of it must
agree with the oracle, `classical.brute_force`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from types import EllipsisType
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeVar

import numpy as np
import numpy.typing as npt

from palio.errors import DuplicateSubscription, InvalidArgument, PalioError, UnknownSubscription
from palio.events import Event
from palio.filters.explanation import Explanation, explain
from palio.filters.filter import LONG_CHARACTERS
from palio.garbage_collector import paused_collector
from palio.matching.access_paths import AccessPaths
from palio.matching.batch_match import segment_candidates
from palio.matching.catalogue import Catalogue
from palio.matching.columnar.computed_attributes import of_any_kind
from palio.matching.columnar.segment import Segment
from palio.matching.live_segment import LiveSegment
from palio.matching.residuals import check_residuals
from palio.matching.segments import IndexSnapshot, SegmentSet, read_condition
from palio.matching.subscription import Subscription, Subscriptions, columns_of_pairs, list_of

if TYPE_CHECKING:
    import pyarrow as pa

_T = TypeVar("_T")
_SAVED: Final = "a saved matcher"


@dataclass(frozen=True, slots=True)
class Statistics:
    """The size of a matcher and of its parts."""

    subscriptions: int
    removed: int
    segments: int
    live: int
    index_bytes: int
    beside_bytes: int
    slow: int
    """Subscriptions that cost an event more than ten equalities do: those without a value to file under, those that
    only exclude, those with a slow pattern or an expression that few share, and the residuals; `palio check` says why.
    """
    computed: int
    """Expressions that are computed for every event, or for a batch in columns."""
    residuals: int
    """Subscriptions whose candidates are checked, because of expressions that the index does not hold."""

    @property
    def bytes_per_subscription(self) -> float:
        return self.index_bytes / max(1, self.subscriptions)


class Matcher:
    """Holds subscriptions and tells which of them want an event. Safe to use from many threads.

    It takes a mapping of ids to conditions, and is used like one: `wants[id] = where` adds or replaces.
    With `background=False` it starts no thread of its own, for owners that must say themselves what is done when: they
    ask for `work` now and then, and call what that returns.

    >>> wants = Matcher({"all": "symbol = 'ACME'"})
    >>> wants.add("desk", "symbol = 'ACME' AND price > 100")
    >>> sorted(wants.match({"symbol": "ACME", "price": 120}))
    ['all', 'desk']
    """

    def __init__(
        self, subscriptions: Mapping[str, Any] | Iterable[tuple[str, Any]] = (), *, background: bool = True
    ) -> None:
        """A matcher of subscriptions as `add_many` takes them."""
        self._segments = SegmentSet(background)
        self._replace_epoch = 0  # goes up at the beginning and at the end of replace(): odd while one is under way
        if subscriptions != ():
            self.add_many(subscriptions)

    @property
    def _catalogue(self) -> Catalogue:
        return self._segments.snapshot.catalogue

    # Adding and removing

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

        Costs the parsing, some microseconds where an earlier condition differs in its literals alone, and a share of
        the merging to come.
        """
        subscription = Subscription(id, where, language, subscriber, {} if metadata is None else metadata, timezone)
        is_long = isinstance(where, str) and len(where) > LONG_CHARACTERS
        with paused_collector() if is_long else nullcontext():
            condition = read_condition(subscription)
            with self._segments.lock:
                if self._segments.snapshot.number_of(id) is not None:
                    raise DuplicateSubscription(id)
                self._segments.add(subscription, condition)

    def add_many(
        self,
        ids: Iterable[str] | Mapping[str, Any] | Iterable[tuple[str, Any]],
        wheres: Iterable[Any] | None = None,
        *,
        language: str = "sql",
        timezone: str = "UTC",
    ) -> None:
        """Add many subscriptions at once: several times as fast as one by one. All are added, or none.

        Takes ids and their conditions; or, alone, a mapping of ids to conditions, or pairs of both. Costs some
        microseconds each for conditions that differ from others in their literals alone, the parsing for the rest.
        """
        names, conditions = (
            columns_of_pairs(ids)
            if wheres is None
            else (list_of(ids.keys() if isinstance(ids, Mapping) else ids, "ids"), list_of(wheres, "conditions"))
        )
        if len(names) != len(conditions):
            raise InvalidArgument(f"every id has one condition; there are {len(names)} ids and {len(conditions)}")
        self._add_many(Subscriptions.of_texts(names, conditions, language, timezone))

    def add_subscriptions(self, subscriptions: Sequence[Subscription] | Subscriptions) -> None:
        """Add many subscriptions, each with its language, subscriber and metadata. All are added, or none."""
        if not isinstance(subscriptions, Subscriptions):
            subscriptions = Subscriptions.of(list_of(subscriptions, "subscriptions", "add_subscriptions"))
        self._add_many(subscriptions)

    def _add_many(self, subscriptions: Subscriptions) -> None:
        ids = subscriptions.ids
        if len(set(ids)) < len(ids):
            raise DuplicateSubscription(_first_repeated(ids))
        with self._segments.lock:
            for id, number in self._catalogue.duplicates_in(ids):
                if not self._segments.snapshot.is_dead(number):
                    raise DuplicateSubscription(id)
            self._segments.extend(subscriptions)

    def remove(self, id: str) -> None:
        """Take a subscription out; the next match does not see it."""
        with self._segments.lock:
            number = self._segments.snapshot.number_of(id)
            if number is None:
                raise UnknownSubscription(id)
            self._segments.set_tombstone(number)
            self._segments.start_due_renumbering()

    def discard(self, id: str) -> None:
        """Take a subscription out if it is there."""
        with self._segments.lock:
            if id in self:
                self.remove(id)

    def clear(self) -> None:
        """Take all subscriptions out."""
        with self._segments.lock:
            self.remove_many(list(self))

    def remove_many(self, ids: Iterable[str]) -> None:
        """Take many subscriptions out at once. All are removed, or none."""
        with self._segments.lock:
            numbers: dict[int, None] = {}
            for id in list_of(ids, "ids", "remove_many", "remove"):
                number = self._segments.snapshot.number_of(id)
                if number is None or number in numbers:
                    raise UnknownSubscription(id)
                numbers[number] = None
            for number in numbers:
                self._segments.set_tombstone(number)
            self._segments.start_due_renumbering()

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
        condition = read_condition(given)
        with self._segments.lock:
            number = self._segments.snapshot.number_of(id)
            if number is None:
                raise UnknownSubscription(id)
            if (subscriber is ... or metadata is ...) and not self._catalogue.is_bare(number):
                known = self._catalogue[number]
                given = replace(
                    given,
                    subscriber=known.subscriber if subscriber is ... else given.subscriber,
                    metadata=known.metadata if metadata is ... else given.metadata,
                )
            # Added before the old one is removed: between the two, a reader sees both, never neither.
            self._replace_epoch += 1
            self._segments.add(given, condition)
            self._segments.set_tombstone(number)
            self._replace_epoch += 1
            self._segments.start_due_renumbering()

    def __setitem__(self, id: str, where: Any) -> None:
        """As `replace` where the id is there, and as `add` where it is not; a `Subscription` brings all it has."""
        if isinstance(where, Subscription):
            others = {"subscriber": where.subscriber, "metadata": where.metadata}
            options: dict[str, Any] = {"language": where.language, "timezone": where.timezone, **others}
            where = where.where
        else:
            options = {}
        with self._segments.lock:
            put = self.replace if id in self else self.add
            put(id, where, **options)

    def __delitem__(self, id: str) -> None:
        self.remove(id)

    # Matching

    def match(self, event: Any) -> set[str]:
        """The ids of all subscriptions that want an event: an Event, or what `Event.read` takes."""
        attributes = Event.read(event).attributes
        self._segments.seal_when_quiet()
        while True:
            snapshot = self._segments.snapshot
            found = self._match(snapshot, attributes)
            # A snapshot that was replaced meanwhile lacks what was added since, but shares the tombstones: of a
            # subscription that was replaced too, it would have neither form. Match again.
            if self._segments.snapshot is snapshot:
                return set(snapshot.catalogue.ids_of(found))

    def explain(self, id: str, event: Any) -> Explanation:
        """Which conditions of a subscription held and which failed, and by which part of the index each is decided.

        As `Filter.explain`. Costs some milliseconds, and more where subscriptions were added just now: they are sealed.
        """
        attributes = Event.read(event).attributes
        with self._segments.lock:
            self._segments.seal()
            snapshot = self._segments.snapshot
        number = snapshot.number_of(id)
        if number is None:
            raise UnknownSubscription(id)
        found = snapshot.catalogue[number].filter
        # No segment holds a condition that nothing can satisfy.
        segment = next((each for each in snapshot.segments if each.holds(number)), None)
        paths = AccessPaths(found.tree, segment.encoder.indexed if segment else ())
        return explain(found.written, attributes, found.timezone, paths.of)

    def match_event(self, event: Event) -> list[int]:
        """As `match`, but the numbers of all matches (`numbered_ids` has their ids), in no promised order."""
        if not isinstance(event, Event):
            raise _no_event("match_event", event)
        self._segments.seal_when_quiet()
        return self._match(self._segments.snapshot, event.attributes)

    def _match(self, snapshot: IndexSnapshot, attributes: Mapping[str, Any]) -> list[int]:
        found: list[int] = []
        for segment in snapshot.segments:
            candidates = segment_candidates(segment, attributes, snapshot.catalogue)
            found += check_residuals(segment, candidates, attributes, snapshot.catalogue)
        # After the segments: a subscription that is replaced meanwhile leaves a segment and is found here.
        if len(snapshot.live):
            found += snapshot.live.match(attributes)
        return found

    def match_batch(self, events: Any) -> pa.Table:
        """All matches of a batch, as a table of `row` (int64) and `subscription` (dictionary of ids), by row.

        Those of one row are in no promised order. Takes a pyarrow Table or RecordBatch, a frame of pandas or Polars,
        or a sequence of events as `match` takes them. Costs less per event than `match`, because the values of a column
        are looked up together.
        """
        from palio.matching.batch_match import count_rows, match_batch

        if len(self._segments.snapshot.live):
            self._segments.seal_for_batch(count_rows(events))
        snapshot, epoch = self._segments.snapshot, self._replace_epoch
        found = match_batch(events, snapshot.segments, snapshot.live, snapshot.catalogue)
        if self._replace_epoch == epoch and epoch % 2 == 0:
            return found
        # A subscription was replaced meanwhile, and may have been seen in both forms, or in neither: match again.
        with self._segments.lock:
            self._segments.seal()
            snapshot = self._segments.snapshot
            return match_batch(events, snapshot.segments, snapshot.live, snapshot.catalogue)

    def match_columns(self, batch: pa.RecordBatch) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """Rows and numbers of all matches of a batch whose columns are named by the paths of attributes.

        For matching by the million, in a Spark job say; `numbered_ids` has the ids. Subscriptions must not change
        meanwhile.
        """
        from palio.matching.batch_match import match_piece

        self._segments.seal_when_quiet(batch.num_rows)
        snapshot = self._segments.snapshot
        return match_piece(batch, snapshot.segments, snapshot.live, snapshot.catalogue, paths=True)

    def match_events(self, events: Sequence[Event]) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]:
        """As `match_columns`, for events."""
        from palio.matching.batch_match import EventPiece, match_piece

        _check_events(events)
        self._segments.seal_when_quiet(len(events))
        snapshot = self._segments.snapshot
        piece = EventPiece([event.attributes for event in events])
        return match_piece(piece, snapshot.segments, snapshot.live, snapshot.catalogue)

    def numbered_subscribers(self) -> pa.StringArray:
        """The subscriber of every number, null where there is none; made at the first call, from all subscriptions."""
        return self._catalogue.subscribers()

    def numbered_metadata(self) -> Iterator[Mapping[str, Any]]:
        """The metadata of every number, also of those that are removed; not a copy, so not to be changed."""
        return self._catalogue.metadata()

    def numbered_ids(self) -> pa.StringArray:
        """The id of every number, also of those that are removed."""
        return self._catalogue.names()

    @property
    def attributes(self) -> frozenset[str]:
        """The attributes that some subscription looks at; a subscription may name more that it never needs."""
        found = {name for segment in self._sealed() for name in segment.encoder.attributes | segment.encoder.arrays}
        for number in self._residual_numbers():
            found |= self._catalogue[number].filter.attributes
        return frozenset(found)

    @property
    def reads_whole_events(self) -> bool:
        """Whether some subscription looks at attributes that it does not name."""
        if any(segment.encoder.reads_whole_event for segment in self._sealed()):
            return True
        return any(self._catalogue[number].filter.reads_whole_event for number in self._residual_numbers())

    def _sealed(self) -> tuple[Segment, ...]:
        """All segments, after the live one is sealed."""
        return self._segments.seal_for_reading()

    def _residual_numbers(self) -> Iterator[int]:
        """The numbers of the subscriptions with residual conditions."""
        return (number for segment in self._sealed() for number in segment.residual_numbers.tolist())

    # Subscriptions

    @property
    def revision(self) -> int:
        """A number that goes up with every change of the subscriptions."""
        return self._segments.changes

    def __len__(self) -> int:
        return len(self._catalogue) - self._segments.removed

    def __contains__(self, id: object) -> bool:
        return self._segments.snapshot.number_of(id) is not None

    def __getitem__(self, id: str) -> Subscription:
        """A subscription as it was added. Costs the unpacking of some hundred texts, unless it was one of the last."""
        snapshot = self._segments.snapshot
        number = snapshot.number_of(id)
        if number is None:
            raise UnknownSubscription(id)
        found = snapshot.catalogue[number]
        return replace(found) if found.metadata else found  # whose metadata the caller may change

    def get(self, id: str, default: _T | None = None) -> Subscription | _T | None:
        """A subscription as it was added, or the default where there is none."""
        try:
            return self[id]
        except UnknownSubscription:
            return default

    def keys(self) -> Iterator[str]:
        """The ids, in the order in which they were added; `dict(matcher)` is ids with subscriptions."""
        return iter(self)

    def items(self) -> Iterator[tuple[str, Subscription]]:
        """Ids and subscriptions, in the order in which they were added; `Matcher(items)` is a copy."""
        subscriptions = self.subscriptions()
        return ((id, replace(subscriptions[at])) for at, id in enumerate(subscriptions.ids))

    def __iter__(self) -> Iterator[str]:
        """The ids, in the order in which they were added."""
        snapshot = self._segments.snapshot
        for number in range(len(snapshot.catalogue)):
            if not snapshot.is_dead(number):
                yield snapshot.catalogue.id_of(number)

    def subscriptions(self) -> Subscriptions:
        """All of them as columns, in the order in which they were added: some microseconds each."""
        snapshot = self._segments.snapshot
        return snapshot.catalogue.many(snapshot.alive(np.arange(len(snapshot.catalogue))).tolist())

    def numbers(self) -> npt.NDArray[np.int64]:
        """The numbers of all subscriptions, in the order of `subscriptions()`."""
        snapshot = self._segments.snapshot
        return snapshot.alive(np.arange(len(snapshot.catalogue)))

    def __repr__(self) -> str:
        count = len(self)
        return f"<Matcher of {count:,} subscription{'' if count == 1 else 's'}>"

    def __reduce__(self) -> NoReturn:
        raise PalioError("a Matcher is not pickled: save() it to a file, and open() that where it is needed")

    def statistics(self) -> Statistics:
        """Sizes: bytes of the arrays that matching reads, and of ids and texts beside them."""
        snapshot = self._segments.snapshot
        return Statistics(
            subscriptions=len(self),
            removed=self._segments.removed,
            segments=len(snapshot.segments),
            live=len(snapshot.live),
            index_bytes=sum(segment.nbytes for segment in snapshot.segments) + snapshot.tombstones.nbytes,
            beside_bytes=snapshot.catalogue.nbytes,
            slow=sum(
                int(segment.postings.always) + segment.slow + len(segment.residual_numbers)
                for segment in snapshot.segments
            ),
            computed=len(
                {of_any_kind(each.name) for segment in snapshot.segments for each in segment.encoder.computed}
            ),
            residuals=sum(len(segment.residual_numbers) for segment in snapshot.segments),
        )

    # Saving and maintenance

    def save(self, path: str | Path) -> None:
        """Write the matcher to a file that `open` maps into memory; the file is there whole or not at all."""
        from palio.files.file_path import checked_path
        from palio.matching.index_file import save

        target = checked_path(path, _SAVED)
        with self._segments.lock:
            snapshot = self._segments.seal_for_saving()
            save(target, snapshot.segments, snapshot.catalogue, snapshot.tombstones, self._segments.removed)

    @classmethod
    def open(cls, path: str | Path) -> Matcher:
        """Open a saved matcher: milliseconds, whatever its size; `IndexFileError` where it is not one."""
        from palio.files.file_path import checked_path
        from palio.matching.index_file import load

        matcher = cls()
        segments, catalogue, dead, matcher._segments.removed = load(checked_path(path, _SAVED))
        matcher._segments.publish(segments, LiveSegment(), catalogue, dead)
        return matcher

    def merge(self) -> None:
        """Bring everything into one segment, now; removed subscriptions leave the index.

        Where most were removed, nothing of them is kept: those that are left get new numbers.
        """
        self._segments.merge()

    def work(self) -> Callable[[], None] | None:
        """Maintenance that is due (sealing, merging), for an owner without background threads; None where none is.

        It may be called in any thread. Each is returned once.
        """
        return self._segments.work()


def _check_events(given: Any) -> None:
    if not isinstance(given, Sequence) or isinstance(given, str | bytes):
        raise InvalidArgument(f"match_events takes a list of Events, not {type(given).__name__}")
    for event in given:
        if not isinstance(event, Event):
            raise _no_event("match_events", event)


def _no_event(call: str, given: Any) -> InvalidArgument:
    return InvalidArgument(
        f"{call} takes an Event, not {type(given).__name__}; Event.read makes one, and match and match_batch call it"
    )


def _first_repeated(ids: Sequence[str]) -> str:
    seen: set[str] = set()
    for id in ids:
        if id in seen:
            return id
        seen.add(id)
    raise ValueError("no id is repeated")
