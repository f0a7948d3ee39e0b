"""Table session: what two neighbours have told each other of their routing tables, as one of them knows it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from palio.routing import codec
from palio.routing.messages import Advertise, Key, Resume, Subscribe, TableChange, Unadvertise, Unsubscribe, Update

_MAX_UPDATE_BYTES: Final = 16 * 1024  # of the changes in one update, where it has more than one


@dataclass(slots=True)
class TableSession:
    """What two neighbours have told each other, as one of them knows it."""

    neighbour: int
    interface: int  # under which the tables keep what came from the neighbour
    link: int | None = None  # while it is in use, or both ends are about to take it into use
    sent_stream: int = 0
    sent: int = 0  # number of the last update
    unacknowledged: dict[int, Update] = field(default_factory=dict)
    told_subscriptions: dict[Key, None] = field(default_factory=dict)
    told_advertisements: dict[Key, None] = field(default_factory=dict)
    received_stream: int = 0
    received: int = 0  # number of the last update that was applied
    is_resuming: bool = False  # the next updates are those that it lacks
    owes_acknowledgement: bool = False
    has_gap: bool = False  # an update came before its turn

    def difference(self, changes: Sequence[TableChange]) -> list[TableChange]:
        """The changes that lead from what was told to what should have been, of which there are only additions."""
        subscriptions = {each.key for each in changes if isinstance(each, Subscribe)}
        advertisements = {each.key for each in changes if isinstance(each, Advertise)}
        new = [each for each in changes if not self._is_told(each)]
        # Advertisements enclose subscriptions, as in `RoutingTables.send_updates`.
        return [
            *new,
            *(Unsubscribe(key) for key in self.told_subscriptions if key not in subscriptions),
            *(Unadvertise(key) for key in self.told_advertisements if key not in advertisements),
        ]

    def _is_told(self, change: TableChange) -> bool:
        told = self.told_subscriptions if isinstance(change, Subscribe) else self.told_advertisements
        return change.key in told

    def can_resume(self, resume: Resume) -> bool:
        """Whether the updates after those that a neighbour has are all in the buffer."""
        first = self.sent - len(self.unacknowledged)
        return resume.stream == self.sent_stream != 0 and first <= resume.received <= self.sent


def updates_of(changes: Sequence[TableChange]) -> Iterator[tuple[TableChange, ...]]:
    """Changes in pieces that are not too long for one message."""
    piece: list[TableChange] = []
    size = 0
    for each in changes:
        length = len(codec.encode(each))
        if piece and size + length > _MAX_UPDATE_BYTES:
            yield tuple(piece)
            piece, size = [], 0
        piece.append(each)
        size += length
    if piece:
        yield tuple(piece)
