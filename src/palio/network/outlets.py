"""What happens to events that a subscriber does not take? They wait, up to a bound; then its rule decides.

Each subscription has a queue of its own, unless several form a group: then an event waits once for all of them.

`block` holds confirmed publishers back, by their confirmations and by the credit of links; what they have under way by
then still finds a place. Those who ask for no confirmation cannot be held back, and what finds the queue full is
dropped. Every drop is counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from palio.network.protocol import Overflow
from palio.routing.messages import Publish

_UNDER_WAY: Final = 65_536  # events of confirmed publishers, each of whom has a window, that come after `block`
OVERFLOWS: Final[tuple[Overflow, ...]] = ("block", "drop_oldest", "drop_newest", "disconnect")


class Waiting(NamedTuple):
    """An event, and which of the subscriptions of its outlet want it, by their numbers."""

    event: Publish
    subscriptions: tuple[int, ...]


class Outlet:
    """Events that wait for one subscription or group. `credit` is how many its subscriber takes; None is no bound.

    `numbers` are its subscriptions by name: what the subscriber calls each on the wire.
    """

    __slots__ = ("credit", "dropped", "is_over", "limit", "name", "numbers", "overflow", "taken", "waiting")

    def __init__(self, name: str, limit: int, overflow: Overflow, credit: int | None = None) -> None:
        self.name = name
        self.limit = limit
        self.overflow: Overflow = overflow
        self.credit = credit
        self.numbers: dict[str, int] = {}
        self.waiting: deque[Waiting] = deque()
        self.dropped = 0
        self.taken = 0
        self.is_over = False  # whether it blocks or ends its session

    def put(self, event: Publish, subscriptions: tuple[int, ...]) -> None:
        waiting = self.waiting
        if len(waiting) < self.limit:
            waiting.append(Waiting(event, subscriptions))
            return
        match self.overflow:
            case "drop_oldest":
                waiting.popleft()
                waiting.append(Waiting(event, subscriptions))
                self.dropped += 1
            case "drop_newest":
                self.dropped += 1
            case "disconnect":
                self.is_over = True
                self.dropped += 1
            case "block":
                self.is_over = True
                if event.kept is not None and len(waiting) < self.limit + _UNDER_WAY:
                    waiting.append(Waiting(event, subscriptions))
                else:
                    self.dropped += 1

    def numbers_of(self, names: Iterable[str]) -> list[int]:
        """The numbers of subscriptions; those that are gone have none."""
        try:
            return list(map(self.numbers.__getitem__, names))
        except KeyError:
            return [self.numbers[name] for name in names if name in self.numbers]

    def pass_by(self) -> None:
        """An event leaves that need not wait."""
        self.taken += 1
        if self.credit is not None:
            self.credit -= 1

    @property
    def queued(self) -> int:
        return len(self.waiting)

    @property
    def is_waiting(self) -> bool:
        """Whether there is something to take."""
        return bool(self.waiting)

    def take(self, most: int) -> list[Waiting]:
        """What may leave now."""
        count = min(most, len(self.waiting), most if self.credit is None else self.credit)
        if count <= 0:
            return []
        if self.credit is not None:
            self.credit -= count
        self.taken += count
        next_one = self.waiting.popleft
        return [next_one() for _ in range(count)]

    def keep(self, may_stay: Callable[[Publish], bool]) -> None:
        """Throw away what may not be handed over any more."""
        self.waiting = deque(each for each in self.waiting if may_stay(each.event))

    def leave(self) -> None:
        """Nobody takes anything any more."""

    @property
    def has_room(self) -> bool:
        """Whether a blocked publisher may go on: not before half of the queue is empty."""
        return len(self.waiting) <= self.limit // 2
