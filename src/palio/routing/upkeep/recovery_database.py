"""Recovery database: rows that are written at the end of each batch, and the control messages that wait for them.

A row belongs to a neighbour, a part and a key; what it means is a matter of `recovery`. All rows of a batch are one
`Persist`, and every control message of the batch is held back until that is answered, in order. Messages of later
batches queue behind them, whether or not they wrote anything.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from palio.routing.effects import Effect, LinkRecord, NotPersisted, Persist, Send
from palio.routing.messages import Message, Publish, PublishColumns, Watermark


class RecoveryDatabase:
    """Rows that are to be written, and the control messages that wait until they are."""

    __slots__ = ("_deferred", "_held", "_records", "_released", "_tokens", "_written")

    def __init__(self, tokens: Iterator[int]) -> None:
        self._tokens = tokens
        self._records: list[LinkRecord] = []
        self._deferred: list[LinkRecord] = []  # rows that wait for the next write of others
        self._written: dict[int, list[LinkRecord]] = {}  # under way to the disk, by token
        self._held: deque[tuple[int, list[Effect]]] = deque()
        self._released: list[Effect] = []

    def put(self, neighbour: int, part: int, key: bytes, data: bytes = b"") -> None:
        self._records.append(LinkRecord(neighbour, part, key, data))

    def remove(self, neighbour: int, part: int, key: bytes) -> None:
        self._records.append(LinkRecord(neighbour, part, key, None))

    def remove_some_time(self, neighbour: int, part: int, key: bytes) -> None:
        """Remove a row that does no harm, with the next write."""
        self._deferred.append(LinkRecord(neighbour, part, key, None))

    def clear(self, neighbour: int, parts: Iterable[int]) -> None:
        self._records += [LinkRecord(neighbour, part, None, None) for part in parts]

    def commit(self, effects: list[Effect]) -> list[Effect]:
        """The effects of a batch, of which control messages are held back until its rows are on disk."""
        # Those that were released go first, and do not wait once more for the rows of this batch.
        kept, self._released = self._released, []
        if not self._records and not self._held:
            return kept + effects
        if self._records:
            token = next(self._tokens)
            records = self._deferred + self._records
            self._deferred, self._records = [], []
            self._written[token] = records
            self._held.append((token, []))
            kept.append(Persist(tuple(records), token))
        held = self._held[-1][1]
        for each in effects:
            (held if type(each) is Send and _is_control(each.message) else kept).append(each)
        return kept

    def on_persisted(self, token: int) -> None:
        """Release the messages that waited for a write."""
        if self._written.pop(token, None) is not None:
            self._release(token)

    def on_not_persisted(self, failure: NotPersisted) -> None:
        """Release the messages that waited for a write that failed; its rows go with the next one."""
        records = self._written.pop(failure.token, None)
        if records is not None:
            # Not at once: a full disk would be asked again without end.
            self._deferred = records + self._deferred
            self._release(failure.token)

    def _release(self, token: int) -> None:
        # Writes are answered in their order; those before this one were released before.
        while self._held and self._held[0][0] <= token:
            self._released += self._held.popleft()[1]


def write_row(rows: dict[tuple[int, int, bytes], LinkRecord], record: LinkRecord) -> None:
    """Apply a record to rows that are held in memory."""
    neighbour, part, key, data = record
    if key is None:
        for place in [each for each in rows if each[:2] == (neighbour, part)]:
            del rows[place]
    elif data is None:
        rows.pop((neighbour, part, key), None)
    else:
        rows[neighbour, part, key] = record


class NoDatabase(RecoveryDatabase):
    """Sessions that a crash ends: nothing is written, and nothing waits."""

    __slots__ = ()

    def put(self, neighbour: int, part: int, key: bytes, data: bytes = b"") -> None:
        pass

    def remove(self, neighbour: int, part: int, key: bytes) -> None:
        pass

    def remove_some_time(self, neighbour: int, part: int, key: bytes) -> None:
        pass

    def clear(self, neighbour: int, parts: Iterable[int]) -> None:
        pass


def _is_control(message: Message) -> bool:
    return not isinstance(message, Publish | PublishColumns | Watermark)
