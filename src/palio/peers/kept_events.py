"""Events that wait at the owners of their keys for peers of durable subscriptions that cannot be reached.

They are stored like interests: by the owner of the key under which event and subscription met, with copies at its
successors, and they move with the arc. A subscription that its peer renews gets them. Memory is bounded; what does not
fit is dropped, the oldest first, and counted.

What a subscriber has is remembered for a while: a node that had a copy before others joined in front of it was not
told, and would bring it back when it has copies of the arc again.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Iterator
from typing import Final

from palio.peers.key_space import KeySpace
from palio.peers.messages import Kept, identity
from palio.peers.ring import Runs, contains
from palio.routing import codec

MAX_KEPT_BYTES: Final = 64 * 1024 * 1024  # at one peer, copies included
MAX_KEPT_EVENTS: Final = 100_000
_MAX_RELEASED_EVENTS: Final = 16_384  # that are remembered

Pair = tuple[str, str]  # ids of a subscription and of an event


class KeptEvents:
    """Kept events by subscription, each in the order in which they came."""

    def __init__(self, keys: KeySpace, max_bytes: int = MAX_KEPT_BYTES, max_events: int = MAX_KEPT_EVENTS) -> None:
        self.dropped = 0  # for want of room
        self._keys = keys
        self._max_bytes = max_bytes
        self._max_events = max_events
        self._all: OrderedDict[Pair, tuple[Kept, int, int]] = OrderedDict()
        self._by_subscription: dict[str, dict[str, Kept]] = {}
        self._bytes = 0
        self._released: OrderedDict[Pair, None] = OrderedDict()

    def __len__(self) -> int:
        return len(self._all)

    def add(self, kept: Iterable[Kept]) -> None:
        for each in kept:
            pair = each.id, identity(each.event)
            if pair in self._all or pair in self._released:
                continue
            size = len(codec.encode_event(each.event))
            self._all[pair] = each, self._keys.position_of(each.key), size
            self._by_subscription.setdefault(each.id, {})[identity(each.event)] = each
            self._bytes += size
        while self._bytes > self._max_bytes or len(self._all) > self._max_events:
            self.remove((next(iter(self._all)),))
            self.dropped += 1

    def remove(self, pairs: Iterable[Pair]) -> None:
        for pair in pairs:
            found = self._all.pop(pair, None)
            if found is not None:
                self._bytes -= found[2]
                own = self._by_subscription[pair[0]]
                del own[pair[1]]
                if not own:
                    del self._by_subscription[pair[0]]

    def release(self, pairs: Iterable[Pair]) -> None:
        """Drop what subscribers have, and keep it no more."""
        for pair in pairs:
            self.remove((pair,))
            self._released[pair] = None
            if len(self._released) > _MAX_RELEASED_EVENTS:
                self._released.popitem(last=False)

    def of(self, id: str) -> Iterator[Kept]:
        """What waits for a subscription, the oldest first."""
        return iter(self._by_subscription.get(id, {}).values())

    def has(self, id: str) -> bool:
        return id in self._by_subscription

    def forget(self, id: str) -> None:
        """Drop all that waits for a subscription that has ended."""
        self.remove([(id, event) for event in self._by_subscription.get(id, ())])

    def within(self, keys: Runs) -> tuple[Kept, ...]:
        """The events that have one of these keys."""
        return tuple(each for each, position, _ in self._all.values() if contains(keys, position))

    def retain(self, keys: Runs) -> None:
        """Drop all that has none of these keys."""
        self.remove([pair for pair, (_, position, _) in self._all.items() if not contains(keys, position)])

    def replace(self, keys: Runs, kept: Iterable[Kept]) -> None:
        """Take over all events with one of these keys; those that are not among them go."""
        given = list(kept)
        pairs = {(each.id, identity(each.event)) for each in given}
        self.remove([
            pair for pair, (_, position, _) in self._all.items() if pair not in pairs and contains(keys, position)
        ])  # fmt: skip
        self.add(given)
