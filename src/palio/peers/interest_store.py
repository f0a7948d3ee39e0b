"""Interests that a peer stores for others, those of its own arc and the copies of its predecessors' arcs.

There is one store for both: which interests a peer matches events with follows from the keys of the event, which it is
responsible for or not. So a copy needs no promotion when its owner has crashed. Interests that nobody renews end with
their leases.
"""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b

from palio.peers.kept_events import KeptEvents
from palio.peers.key_space import KeySpace
from palio.peers.messages import Interest, Kept, Occurrence, identity
from palio.peers.rendezvous_mappings import Arc, Key
from palio.peers.ring import Runs, contains, intersect_runs, subtract_runs
from palio.routing.forwarding.filter_index import FilterIndex


class InterestStore:
    """Interests by id, the newest version of each, and the events that wait for durable ones."""

    def __init__(self, keys: KeySpace) -> None:
        self.kept = KeptEvents(keys)
        self._keys = keys
        self._interests: dict[str, Interest] = {}
        self._expires_at: dict[str, float] = {}
        self._positions: dict[str, Runs] = {}
        self._numbers: dict[str, int] = {}
        self._id_of: dict[int, str] = {}
        self._index = FilterIndex()

    def __len__(self) -> int:
        return len(self._numbers)

    def store(self, interest: Interest, now: float) -> None:
        """Store an interest, unless a newer version of it is here."""
        known = self._interests.get(interest.id)
        if known is not None and known.version > interest.version:
            return
        self._expires_at[interest.id] = now + interest.lease_seconds
        if known is not None and known.version == interest.version:
            return
        self._remove_from_index(interest.id)
        self._interests[interest.id] = interest
        self._positions[interest.id] = self._keys.positions_of(interest.arcs)
        if interest.has_ended:
            self.kept.forget(interest.id)
        # One that has ended stays until its lease ends, or a late message would bring it back.
        if not interest.has_ended:
            number = self._numbers[interest.id] = self._index.add(interest.wanted)
            self._id_of[number] = interest.id

    def knows(self, interest: Interest) -> bool:
        """Whether an interest is here with the same condition, in whatever version."""
        known = self._interests.get(interest.id)
        return known is not None and known.arcs == interest.arcs and known.wanted == interest.wanted

    def expire(self, now: float) -> None:
        """Drop interests whose leases have ended."""
        for id in [id for id, at in self._expires_at.items() if at < now]:
            self.kept.forget(id)
            self._drop(id)

    def within(self, keys: Runs) -> tuple[Interest, ...]:
        """The interests that have some of these keys."""
        found = (id for id, positions in self._positions.items() if intersect_runs(positions, keys))
        return tuple(self._interests[id] for id in found)

    def stored(self, keys: Runs) -> tuple[tuple[Interest, ...], tuple[Kept, ...]]:
        """All that has some of these keys."""
        return self.within(keys), self.kept.within(keys)

    def digest(self, keys: Runs) -> bytes:
        """A digest of all that has some of these keys, whatever the order it came in."""
        interests, kept = self.stored(keys)
        listed = (
            sorted((each.id, each.version) for each in interests),
            sorted((each.id, identity(each.event)) for each in kept),
        )
        return blake2b(repr(listed).encode("utf-8", "surrogatepass"), digest_size=16).digest()

    def subscriber_of(self, id: str) -> int | None:
        """The peer of a subscription that has not ended."""
        return self._interests[id].subscriber if id in self._numbers else None

    def is_durable(self, id: str) -> bool:
        """Whether events are kept for a subscription whose peer is away."""
        return id in self._numbers and self._interests[id].durable

    def meeting_key(self, id: str, occurrence: Occurrence, owned: Runs) -> Key | None:
        """The first owned key that an event and a durable subscription share; None where it has ended."""
        if not self.is_durable(id):
            return None
        arcs = self._interests[id].arcs
        shared = (key for key in occurrence.keys if any(_is_under(key, arc) for arc in arcs))
        return next((key for key in shared if contains(owned, self._keys.position_of(key))), None)

    def agent_of(self, id: str, occurrence: Occurrence, owned: Runs) -> int | None:
        """The middle of the range of keys under which an event and a subscription meet here (Baldoni et al. §4.4)."""
        for key in occurrence.keys:
            if not contains(owned, self._keys.position_of(key)):
                continue
            for arc in self._interests[id].arcs:
                if _is_under(key, arc):
                    return self._keys.middle_of(arc)
        return None

    def replace(self, keys: Runs, interests: Iterable[Interest], now: float) -> None:
        """Take over all interests with some of these keys; those that have no others, and are not among them, go."""
        given = {each.id: each for each in interests}
        for each in self.within(keys):
            if each.id not in given and not subtract_runs(self._positions[each.id], keys):
                self._drop(each.id)
        for each in given.values():
            self.store(each, now)

    def retain(self, keys: Runs) -> None:
        """Drop all that has none of these keys."""
        for id in [id for id, positions in self._positions.items() if not intersect_runs(positions, keys)]:
            self._drop(id)
        self.kept.retain(keys)

    def matches(self, occurrence: Occurrence, owned: Runs) -> dict[int, list[str]]:
        """The ids of interests that want an event and share an owned key with it, by subscriber."""
        keys = [key for key in occurrence.keys if contains(owned, self._keys.position_of(key))]
        found: dict[int, list[str]] = {}
        [numbers] = self._index.find_each([occurrence.event])
        for number in memoryview(numbers).cast("i"):
            interest = self._interests[self._id_of[number]]
            # By axis as well: under the key of another attribute it would be notified by two owners.
            if any(_is_under(key, arc) for key in keys for arc in interest.arcs):
                found.setdefault(interest.subscriber, []).append(interest.id)
        return {subscriber: sorted(ids) for subscriber, ids in sorted(found.items())}

    def _drop(self, id: str) -> None:
        self._remove_from_index(id)
        del self._interests[id], self._expires_at[id], self._positions[id]

    def _remove_from_index(self, id: str) -> None:
        number = self._numbers.pop(id, None)
        if number is not None:
            del self._id_of[number]
            self._index.remove(number)


def _is_under(key: Key, arc: Arc) -> bool:
    return key.axis == arc.axis and arc.first <= key.cell <= arc.last
