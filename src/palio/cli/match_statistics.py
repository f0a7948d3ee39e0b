"""Statistics of a run of `palio match`: events, matches by subscription, and the attributes that events have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from palio.events import Event
from palio.events.names import join_path

if TYPE_CHECKING:
    import pyarrow as pa

    from palio.matching.subscription import Subscription


class MatchStatistics:
    """Counters over batches of matches. Costs one pass over each batch, and one number per subscription."""

    def __init__(self, subscriptions: Sequence[Subscription], faulty: int) -> None:
        import numpy as np

        self.events = 0
        self.matches = 0
        self.wanted_events = 0
        """Events with at least one match."""
        self.subscriptions = len(subscriptions)
        self.faulty_events = 0
        self.faulty_subscriptions = faulty
        self.elapsed = 0.0
        self.interrupted = False
        self.unseen: set[str] = set()
        """Attributes of subscriptions that no event had so far."""
        self._subscriptions = subscriptions
        self._counts = np.zeros(len(subscriptions), np.int64)
        self._number_of: dict[str, int] = {}  # made at the first match, of which there may be none
        # The dictionary of all ids is the same in every batch, and resolved once; a smaller one is resolved each time.
        self._resolved: tuple[Any, pa.Array] | None = None

    def add(self, events: int, rows: Any, subscriptions: pa.DictionaryArray) -> None:
        """Count a batch of events, with its matches in the order of rows."""
        import numpy as np

        self.events += events
        self.matches += len(rows)
        if len(rows):
            # Rows ascend, so each change of the row is one more event.
            self.wanted_events += 1 + int(np.count_nonzero(np.diff(rows)))
            numbers, _ = self._resolve(subscriptions)
            # Counted by index into the batch's dictionary: ids are looked up once each, not once for each match.
            found = np.bincount(subscriptions.indices.to_numpy(), minlength=len(numbers))
            np.add.at(self._counts, numbers, found)

    def subscribers_of(self, subscriptions: pa.DictionaryArray) -> pa.Array:
        """The subscriber of each match."""
        _, subscribers = self._resolve(subscriptions)
        return subscribers.take(subscriptions.indices)

    def _resolve(self, subscriptions: pa.DictionaryArray) -> tuple[Any, pa.Array]:
        import numpy as np
        import pyarrow as pa

        ids = subscriptions.dictionary
        has_all = len(ids) == self.subscriptions
        if self._resolved is not None and has_all:
            return self._resolved
        if not self._number_of:
            self._number_of = {each.id: number for number, each in enumerate(self._subscriptions)}
        numbers = np.array([self._number_of[id] for id in ids.to_pylist()], np.int64)
        names = pa.array([self._subscriptions[number].subscriber for number in numbers.tolist()], pa.string())
        if has_all:
            self._resolved = numbers, names
        return numbers, names

    def most_matched(self, most: int) -> list[tuple[Subscription, int]]:
        """The subscriptions with most matches, with their numbers; none without a match."""
        import numpy as np

        # Stable, so that equal counts stay in the order of the file and two runs print the same.
        order = np.argsort(-self._counts, kind="stable")[:most].tolist()
        return [(self._subscriptions[n], int(self._counts[n])) for n in order if self._counts[n]]

    def never_matched(self) -> list[str]:
        """The ids of the subscriptions that no event matched."""
        import numpy as np

        return [self._subscriptions[number].id for number in np.flatnonzero(self._counts == 0).tolist()]


def attribute_names(batch: Any) -> Iterator[str]:
    """The attribute names of a list of events; of a table, those of its columns, whether empty or not."""
    if isinstance(batch, list):
        for event in batch:
            yield from event.attributes
        return
    for field in batch.schema:
        if _has_map(field.type):  # its keys are in the rows only
            yield from attribute_names(list(Event.from_arrow(batch.select([field.name]))))
        else:
            yield from _paths((field.name,), field.type)


def _paths(path: tuple[str, ...], kind: pa.DataType) -> Iterator[str]:
    if _is_list(kind):
        yield from _paths(path, kind.value_type)
    elif _fields(kind):
        for field in _fields(kind):
            yield from _paths((*path, field.name), field.type)
    else:
        yield join_path(path)


def _has_map(kind: pa.DataType) -> bool:
    import pyarrow.types as types

    if types.is_map(kind):
        return True
    return _has_map(kind.value_type) if _is_list(kind) else any(_has_map(field.type) for field in _fields(kind))


def _is_list(kind: pa.DataType) -> bool:
    import pyarrow.types as types

    return any(is_one(kind) for is_one in (types.is_list, types.is_large_list, types.is_fixed_size_list))


def _fields(kind: pa.DataType) -> list[pa.Field]:
    import pyarrow.types as types

    return [kind.field(place) for place in range(kind.num_fields)] if types.is_struct(kind) else []
