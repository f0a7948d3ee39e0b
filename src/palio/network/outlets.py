"""What happens to events that a subscriber does not take? They wait, up to a bound; then its rule decides.

`block` holds confirmed publishers back, by their confirmations and by the credit of links; what they have under way by
then still finds a place. Those who ask for no confirmation cannot be held back, and what finds the queue full is
dropped. Every drop is counted.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Final

from palio.network.protocol import Overflow
from palio.routing.messages import Publish

_UNDER_WAY: Final = 65_536  # events of confirmed publishers, each of whom has a window, that come after `block`
OVERFLOWS: Final[tuple[Overflow, ...]] = ("block", "drop_oldest", "drop_newest", "disconnect")


class Outlet:
    """Events that wait for one subscription. `credit` is how many its subscriber takes; None is no bound."""

    __slots__ = ("credit", "dropped", "is_over", "limit", "name", "overflow", "taken", "told", "waiting")

    def __init__(self, name: str, limit: int, overflow: Overflow, credit: int | None = None) -> None:
        self.name = name
        self.limit = limit
        self.overflow: Overflow = overflow
        self.credit = credit
        self.waiting: deque[Publish] = deque()
        self.dropped = 0
        self.told = 0  # of those dropped, how many its subscriber has heard of
        self.taken = 0
        self.is_over = False  # whether it blocks or ends its session

    def put(self, event: Publish) -> None:
        waiting = self.waiting
        if len(waiting) < self.limit:
            waiting.append(event)
            return
        match self.overflow:
            case "drop_oldest":
                waiting.popleft()
                waiting.append(event)
                self.dropped += 1
            case "drop_newest":
                self.dropped += 1
            case "disconnect":
                self.is_over = True
                self.dropped += 1
            case "block":
                self.is_over = True
                if event.kept is not None and len(waiting) < self.limit + _UNDER_WAY:
                    waiting.append(event)
                else:
                    self.dropped += 1

    @property
    def queued(self) -> int:
        return len(self.waiting)

    @property
    def is_waiting(self) -> bool:
        """Whether there is something to take."""
        return bool(self.waiting)

    def take(self, most: int) -> list[tuple[int, Publish]]:
        """What may leave now; nobody acknowledges it, so all have the number 0."""
        count = min(most, len(self.waiting), most if self.credit is None else self.credit)
        if count <= 0:
            return []
        if self.credit is not None:
            self.credit -= count
        self.taken += count
        next_one: Callable[[], Publish] = self.waiting.popleft
        return [(0, next_one()) for _ in range(count)]

    def keep(self, may_stay: Callable[[Publish], bool]) -> None:
        """Throw away what may not be handed over any more."""
        self.waiting = deque(event for event in self.waiting if may_stay(event))

    def leave(self) -> None:
        """Nobody takes anything any more."""

    @property
    def has_room(self) -> bool:
        """Whether a blocked publisher may go on: not before half of the queue is empty."""
        return len(self.waiting) <= self.limit // 2
