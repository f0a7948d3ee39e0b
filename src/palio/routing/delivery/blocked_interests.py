"""Blocked interest: the conditions of subscriptions whose full queue holds publishers back, as all brokers know them.

It is the credit of a destination: a broker withholds the confirmed events that such a subscription wants, and sends all
others. To withhold the credit of links instead would be simpler, but a link carries the events of all publishers, for
all subscribers behind it.

What is announced holds for some seconds and no longer, whatever becomes of its broker: that one may be gone, with the
announcement that would take it back. Nothing is kept on disk, since the queues themselves are not.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

from msgspec import Struct

from palio.errors import PalioError
from palio.events import Event
from palio.filters.filter import Filter
from palio.routing import codec
from palio.routing.announcements import broker_of
from palio.routing.effects import CancelTimer, Effect, SetTimer
from palio.routing.forwarding.filter_index import filter_index_of
from palio.routing.interest_index import InterestIndex, home_key
from palio.routing.messages import LOCAL, Announce, Key

BLOCKED_TOPIC: Final = "blocked "  # of announcements, followed by the number of the broker; of timers as well
_MAX_ANNOUNCED: Final = 1_000  # subscriptions of one broker; events for others of them are not withheld elsewhere
_MAX_ANNOUNCEMENT_BYTES: Final = 1024 * 1024
_MAX_SECONDS: Final = 600.0


class _Blocked(Struct, frozen=True, array_like=True, tag=1):
    """Content of an announcement: digests of owner and name, with the conditions, and for how long they hold."""

    interests: tuple[tuple[Key, Filter], ...]
    seconds: float


_decode: Final = codec.reader(_Blocked)


class _Own(NamedTuple):
    wanted: Filter
    until: float


class BlockedInterests:
    """The blocked interest of all other brokers, as one knows it, and what it announces of its own."""

    __slots__ = ("_effects", "_index", "_node", "_own", "_version", "has_announcement", "known", "revision")

    def __init__(self, node: int, incarnation: int, effects: list[Effect]) -> None:
        self._node = node
        self._version = incarnation << 32
        self._effects = effects
        self._own: dict[Key, _Own] = {}
        self.has_announcement = False
        self.known: dict[int, tuple[tuple[Key, Filter], ...]] = {}
        self._index: InterestIndex | None = None
        self.revision = 0  # grows with each change of what is known

    # This broker's own

    def set_own(self, key: Key, wanted: Filter, until: float) -> None:
        """Hold publishers of some events back, at other brokers, until a time."""
        self._own[key] = _Own(wanted, until)
        self.has_announcement = True

    def remove_own(self, key: Key) -> None:
        if self._own.pop(key, None) is not None:
            self.has_announcement = True

    def take_announcement(self, now: float) -> Announce | None:
        """The announcement that is due."""
        if not self.has_announcement:
            return None
        self.has_announcement = False
        self._version += 1
        own = list(self._own.items())[:_MAX_ANNOUNCED]
        seconds = max((each.until - now for _, each in own), default=0.0)
        data = codec.encode_any(_Blocked(tuple((key, each.wanted) for key, each in own), seconds))
        if len(data) > _MAX_ANNOUNCEMENT_BYTES:
            data = codec.encode_any(_Blocked((), 0.0))
        return Announce(f"{BLOCKED_TOPIC}{self._node}", self._version, data)

    # Other brokers

    def learn(self, message: Announce) -> bool:
        """Take a new announcement; whether it is one of another broker."""
        broker = broker_of(message.topic, BLOCKED_TOPIC)
        if broker is None or broker == self._node:
            return False
        try:
            blocked = _decode(message.data)
        except PalioError:
            return False
        timer = f"{BLOCKED_TOPIC}{broker}"
        self._set(broker, blocked.interests if blocked.seconds > 0 else ())
        if broker in self.known:
            self._effects.append(SetTimer(timer, min(blocked.seconds, _MAX_SECONDS)))
        else:
            self._effects.append(CancelTimer(timer))
        return True

    def on_timer(self, name: str) -> None:
        """An announcement has held for its time."""
        self._set(int(name.removeprefix(BLOCKED_TOPIC)), ())

    def _set(self, broker: int, interests: tuple[tuple[Key, Filter], ...]) -> None:
        self.revision += 1
        self._index = None
        self.known.pop(broker, None)
        if interests:
            self.known[broker] = interests

    @property
    def brokers(self) -> list[int]:
        """The brokers with subscriptions that hold publishers back."""
        return sorted(self.known)

    def find(self, events: Sequence[Event]) -> list[bool]:
        """For each event whether a subscription that holds publishers back wants it."""
        if not self.known:
            return [False] * len(events)
        if self._index is None:
            self._index = InterestIndex(filter_index_of("columnar"))
            for broker, interests in self.known.items():
                for key, wanted in interests:
                    self._index.add(LOCAL, home_key(broker, key), wanted)
        return [bool(found.local) for found in self._index.find_interested(events)]
