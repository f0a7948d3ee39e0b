"""What the members of every semantic overlay have in common: their peer, and the memory of events."""

from __future__ import annotations

from typing import Any, Final, Protocol
from zlib import crc32

from palio.events import Event
from palio.peers.communities.messages import Address, MemberMessage

FACTORS: Final = (0x9E3779B97F4A7C15, 0xC2B2AE3D27D4EB4F, 0x165667B19E3779F9)  # odd, of many ones and zeros
LONELY_ROUNDS: Final = 5  # of maintenance, after which a member that nobody answers has an overlay of its own
_ALL_BITS: Final = (1 << 64) - 1


class MemberHost(Protocol):
    """The peer of a member, which carries out what it asks for."""

    def send(self, to: Address, message: MemberMessage) -> None: ...

    def deliver(self, member: int, event: Event, hops: int) -> None:
        """The member wants an event."""

    def ignore(self, member: int, event: Event, hops: int) -> None:
        """An event came to the member that it does not want."""

    def set_timer(self, member: int, number: int, after: float) -> None:
        """Call `on_patience_ended` with this number later."""

    def on_placed(self, member: int) -> None:
        """The member has its place."""

    def contacts(self, without: int) -> list[Address]:
        """Members, or peers that may have some, by which the overlay can be entered; not the member itself."""
        ...


class RecentIds:
    """The last ids, in two halves, of which the older is dropped when the newer is full."""

    __slots__ = ("_before", "_half", "_now")

    def __init__(self, limit: int) -> None:
        self._half = max(1, limit // 2)
        self._now: set[Any] = set()
        self._before: set[Any] = set()

    def add(self, id: Any) -> bool:
        """Whether an id is new; from now on it is not."""
        if id in self:
            return False
        if len(self._now) >= self._half:
            self._before, self._now = self._now, set()
        self._now.add(id)
        return True

    def __contains__(self, id: object) -> bool:
        return id in self._now or id in self._before


def draw_pair(one: Address, other: Address) -> float:
    """A number from 0 up to 1 for two members, as if drawn at random."""
    mixed = (_key(one) * FACTORS[0] ^ _key(other) * FACTORS[1]) & _ALL_BITS
    mixed = (mixed ^ mixed >> 29) * FACTORS[2] & _ALL_BITS
    return (mixed >> 11) / 2**53


def _key(member: Address) -> int:
    return (member[0] << 20) + member[1] & _ALL_BITS


def draw(*of: object) -> float:
    """A number from 0 up to 1, as if drawn at random: the same everywhere for the same things."""
    return crc32(repr(of).encode()) / 2**32
