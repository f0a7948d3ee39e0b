"""Dispatch of a consumer group: the assignment of queued events to members, without I/O and without a clock.

An event is held by one member at a time, until that member acknowledges it, gives it back or goes. A member holds at
most as many events as its window, so that one that does not read, or does not acknowledge, keeps no more from the
others. Members with room take turns.

With a key, of all events that share a key only the oldest is given out; the next one follows when that one is
acknowledged. So the events of a key are processed one after the other and in order, also when one of them is delivered
again, to whichever member. The price is one round trip for each event of a key. The alternative, several events of a
key with one member, cannot keep the order when the first of them is rejected while the member works on the second.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from heapq import heappop, heappush
from typing import Final, Generic, TypeVar

MAX_BACKLOG_EVENTS: Final = 1_024  # read ahead of what is given out, to find events of other keys

Member = TypeVar("Member", bound=Hashable)


class _Holding:
    """The events that one member holds, each with the time by which it is to be acknowledged."""

    __slots__ = ("deadlines", "is_stalled", "seconds", "window")

    def __init__(self, window: int, seconds: float) -> None:
        self.window = window
        self.seconds = seconds
        self.deadlines: dict[int, float] = {}  # by number, in the order of assignment, and so of the deadlines
        self.is_stalled = False  # an event was overdue, and no sign of life came since

    @property
    def has_room(self) -> bool:
        return len(self.deadlines) < self.window and not self.is_stalled


class GroupDispatch(Generic[Member]):
    """The members of one group, the events that they hold, and those that were read from the queue and wait."""

    __slots__ = ("_behind", "_count", "_keys", "_members", "_oldest", "_ready", "_turns")

    def __init__(self) -> None:
        self._members: dict[Member, _Holding] = {}
        self._turns: dict[Member, None] = {}  # members with room, the next one first
        self._ready: list[int] = []  # heap of the events that may be given out
        self._keys: dict[int, Hashable] = {}  # of events that have one: those that wait and those that are held
        self._oldest: dict[Hashable, int] = {}  # by key: the one event that is given out, or may be
        self._behind: dict[Hashable, list[int]] = {}  # by key: heap of the events that wait for that one
        self._count = 0  # events that wait

    @property
    def members(self) -> Iterable[Member]:
        return self._members.keys()

    @property
    def waiting(self) -> int:
        """Number of events that were read and are held by no member."""
        return self._count

    def held(self, member: Member) -> list[int]:
        """The events that a member holds, in the order in which it got them."""
        return list(self._members[member].deadlines)

    def demand(self, is_ordered: bool) -> int:
        """How many more events are worth reading from the queue now."""
        if not self._turns:
            return 0
        if is_ordered:
            return MAX_BACKLOG_EVENTS - self._count
        room = sum(each.window - len(each.deadlines) for each in map(self._members.__getitem__, self._turns))
        return min(MAX_BACKLOG_EVENTS, room) - self._count

    def join(self, member: Member, window: int, seconds: float) -> None:
        """Add a member, which holds up to `window` events for up to `seconds` each."""
        self._members[member] = _Holding(window, seconds)
        self._turns[member] = None

    def leave(self, member: Member) -> list[int]:
        """Remove a member; the events that it held, which stay with nobody until `give_back` or `finish`."""
        self._turns.pop(member, None)
        return sorted(self._members.pop(member).deadlines)

    def add(self, number: int, key: Hashable | None) -> None:
        """Add an event that was read from the queue; numbers grow."""
        self._count += 1
        if key is None:
            heappush(self._ready, number)
            return
        self._keys[number] = key
        if key in self._oldest:
            heappush(self._behind.setdefault(key, []), number)
        else:
            self._oldest[key] = number
            heappush(self._ready, number)

    def assign(self, now: float) -> list[tuple[Member, int]]:
        """Give out the events that members have room for, the oldest first."""
        given: list[tuple[Member, int]] = []
        while self._ready and self._turns:
            member = next(iter(self._turns))
            del self._turns[member]
            number = heappop(self._ready)
            self._count -= 1
            holding = self._members[member]
            holding.deadlines[number] = now + holding.seconds
            self._update_turn(member)
            given.append((member, number))
        return given

    def release(self, member: Member, numbers: Iterable[int]) -> list[int]:
        """Take events from a member that is done with them; those that it held. It also shows that the member lives."""
        holding = self._members[member]
        released = [number for number in dict.fromkeys(numbers) if holding.deadlines.pop(number, None) is not None]
        holding.is_stalled = False
        self._update_turn(member)
        return released

    def finish(self, number: int) -> None:
        """Forget a released event: it is processed, or gone from the queue. The next one of its key may follow."""
        key = self._keys.pop(number, None)
        if key is None:
            return
        behind = self._behind.get(key)
        if behind:
            self._oldest[key] = heappop(behind)
            heappush(self._ready, self._oldest[key])
        else:
            self._behind.pop(key, None)
            del self._oldest[key]

    def give_back(self, number: int) -> None:
        """Let a released event be given out again; it is still the oldest of its key."""
        self._count += 1
        heappush(self._ready, number)

    def overdue(self, now: float) -> list[tuple[Member, list[int]]]:
        """Take the events whose time is over from their members. These get no other event until they show that they
        live: a member that hangs would otherwise delay one event after the other."""
        late: list[tuple[Member, list[int]]] = []
        for member, holding in self._members.items():
            numbers = []
            for number, deadline in holding.deadlines.items():
                if deadline > now:
                    break
                numbers.append(number)
            if numbers:
                for number in numbers:
                    del holding.deadlines[number]
                holding.is_stalled = True
                self._turns.pop(member, None)
                late.append((member, numbers))
        return late

    def next_deadline(self) -> float | None:
        """When the first event is overdue."""
        firsts = (next(iter(each.deadlines.values()), None) for each in self._members.values())
        return min((each for each in firsts if each is not None), default=None)

    def _update_turn(self, member: Member) -> None:
        if self._members[member].has_room:
            self._turns.setdefault(member)
        else:
            self._turns.pop(member, None)
