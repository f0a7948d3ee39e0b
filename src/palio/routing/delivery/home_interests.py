"""Durable interest of home brokers: the conditions of durable subscriptions, known to all brokers also while a home is
away.

An event that is confirmed while a home broker is away must wait for it only if one of the subscriptions there wants it.
Routing tables cannot tell: they lose the filters of a broker with the link to it. So each home announces the filters
of its durable subscriptions to all brokers, which store them, and announces as well which of its queues refuse events
because they are full. A subscription is known by a digest of its owner and name (`durable_claims`).

Announcements are divided into buckets by that digest, so that a change costs a part of all subscriptions. A home with
too many subscriptions announces that anything may be for it, which is always safe; so counts one that has announced
nothing yet. The alternative, to keep the tables of lost links, would not know the subscriptions of a broker that
restarts, and would cost memory for those that are not durable.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from hashlib import blake2b
from typing import Final, Literal, NamedTuple

from msgspec import Struct
from msgspec.structs import replace

from palio.errors import PalioError
from palio.events import Event
from palio.filters.filter import Filter
from palio.routing import codec
from palio.routing.durable_settings import OnFull
from palio.routing.effects import Client, HomeInterest
from palio.routing.forwarding.filter_index import filter_index_of
from palio.routing.interest_index import InterestIndex, home_key
from palio.routing.messages import LOCAL, Announce, Key

INTEREST_TOPIC: Final = "wants "  # of announcements, followed by the number of the home and that of the bucket
_BUCKETS: Final = 16
_MAX_DURABLES_PER_BUCKET: Final = 625  # 10,000 of one home
_MAX_BUCKET_BYTES: Final = 1024 * 1024
_ANY_EVENT: Final = bytes(16)  # in place of a digest: the subscriptions of the home are not known


class DurableInterest(Struct, frozen=True, array_like=True):
    """One durable subscription of a home: the digest of its owner and name, its filter, and the policy of its queue.

    One that `is_full` takes no event for now: its policy is to refuse. One with an `epoch` has or had a standby: its
    home in that epoch and the `other` home, where there is one (`delivery.standby`). It `is_required` that both have an
    event before it is confirmed, also while one of them is away.
    """

    key: Key
    wanted: Filter
    on_full: OnFull = "refuse"
    is_full: bool = False
    epoch: int = 0
    home: int = 0
    other: int | None = None
    is_required: bool = True


class _Bucket(Struct, frozen=True, array_like=True, tag=1):
    """Content of an announcement; None where the subscriptions are too many."""

    interests: tuple[DurableInterest, ...] | None
    has_pairs: bool = False  # where they are too many: whether one of them has a standby


_decode: Final = codec.reader(_Bucket)


class Destination(NamedTuple):
    """A durable subscription that takes no event now, and why; `key` is empty where it is all of a home."""

    home: int
    key: Key
    on_full: OnFull
    state: Literal["away", "full", "not writing"]

    def __str__(self) -> str:
        match self.state:
            case "away":
                return f"broker {self.home}, which is away"
            case "full":
                return f"a durable subscription of broker {self.home}, whose queue is full"
        return f"broker {self.home}, whose disk takes nothing"


class HomeInterests:
    """The durable interest of all homes, as one broker knows it, and of its own subscriptions."""

    __slots__ = (
        "_away",
        "_buckets",
        "_dirty",
        "_epochs",
        "_full",
        "_guards",
        "_guards_index",
        "_index",
        "_known",
        "_missing",
        "_node",
        "_own",
        "_revision",
        "_seen",
        "_unwritten",
        "_version",
    )

    def __init__(self, node: int, incarnation: int, remembered: Iterable[HomeInterest]) -> None:
        self._node = node
        self._version = incarnation << 32
        self._own: dict[Key, DurableInterest] = {}
        self._dirty: set[int] = set()  # buckets to be announced
        self._known: dict[tuple[int, int], HomeInterest] = {}
        self._buckets: dict[tuple[int, int], dict[Key, DurableInterest] | None] = {}
        self._full: dict[Key, Destination] = {}
        self._epochs: dict[Key, dict[int, DurableInterest]] = {}  # of subscriptions with epochs, by home
        self._guards: dict[Key, DurableInterest] | None = None  # those of two homes; None where they may have changed
        self._guards_index: InterestIndex | None = None
        self._missing: frozenset[int] = frozenset()
        self._unwritten: dict[tuple[int, int], HomeInterest] = {}
        self._away: dict[Key, Destination] = {}
        self._revision = 0  # grows with each announcement that is taken
        self._seen: tuple[object, ...] = ()  # what `away` was last made of
        self._index: InterestIndex | None = None
        for each in remembered:
            self._put(each)

    # This broker's own

    def set_own(self, interest: DurableInterest) -> None:
        if self._own.get(interest.key) != interest:
            if not self._own:
                self._dirty.update(range(_BUCKETS))  # an empty bucket is known to be empty only when it is announced
            self._own[interest.key] = interest
            self._dirty.add(_bucket_of(interest.key))

    def remove_own(self, key: Key) -> None:
        if self._own.pop(key, None) is not None:
            self._dirty.add(_bucket_of(key))

    def set_own_full(self, key: Key, is_full: bool) -> None:
        interest = self._own.get(key)
        if interest is not None:
            self.set_own(replace(interest, is_full=is_full))

    def set_own_policy(self, key: Key, on_full: OnFull) -> None:
        interest = self._own.get(key)
        if interest is not None:
            self.set_own(replace(interest, on_full=on_full))

    def renew(self) -> None:
        """Announce everything: the buckets of an earlier life may have subscriptions that ended just before it did."""
        self._dirty.update(range(_BUCKETS))

    def take_announcements(self) -> list[Announce]:
        """The announcements that are due."""
        dirty: dict[int, list[Key]] = {bucket: [] for bucket in sorted(self._dirty)}
        self._dirty.clear()
        for key in self._own if dirty else ():
            if (keys := dirty.get(_bucket_of(key))) is not None:
                keys.append(key)
        made = []
        for bucket, keys in dirty.items():
            self._version += 1
            is_bounded = len(keys) <= _MAX_DURABLES_PER_BUCKET
            has_pairs = any(self._own[key].other is not None for key in keys)
            interests = tuple(self._own[key] for key in sorted(keys)) if is_bounded else None
            data = codec.encode_any(_Bucket(interests, has_pairs))
            if len(data) > _MAX_BUCKET_BYTES:
                data = codec.encode_any(_Bucket(None, has_pairs))
            made.append(Announce(f"{INTEREST_TOPIC}{self._node} {bucket}", self._version, data))
        return made

    @property
    def has_announcements(self) -> bool:
        return bool(self._dirty)

    # All homes

    def learn(self, message: Announce) -> bool:
        """Take the announcement of a home; whether it is one, and new."""
        home, _, bucket = message.topic.removeprefix(INTEREST_TOPIC).partition(" ")
        is_number = home.isdecimal() and bucket.isdecimal() and len(home) <= 20 and len(bucket) <= 2
        if not is_number or int(bucket) >= _BUCKETS:
            return False
        known = self._known.get((int(home), int(bucket)))
        if known is not None and known.version >= message.version:
            return False
        heard = HomeInterest(int(home), int(bucket), message.version, message.data)
        self._put(heard)
        if heard.broker != self._node:
            self._unwritten[heard.broker, heard.bucket] = heard
        return True

    def _put(self, heard: HomeInterest) -> None:
        place = heard.broker, heard.bucket
        self._revision += 1
        self._guards = None
        for key in self._buckets.get(place) or ():
            self._full.pop(home_key(heard.broker, key), None)
            if key in self._epochs:
                self._epochs[key].pop(heard.broker, None)
        self._epochs.pop(_unlisted(*place), None)
        self._known[place] = heard
        try:
            content: _Bucket = _decode(heard.data)
        except PalioError:
            content = _Bucket(None)  # a newer kind of condition, say: anything may be for that home
        interests = content.interests
        self._buckets[place] = None if interests is None else {each.key: each for each in interests}
        if interests is None and content.has_pairs:
            # Unlisted: any event may be for a subscription with a standby, which is then any broker at all.
            unlisted = _unlisted(*place)
            self._epochs[unlisted] = {heard.broker: DurableInterest(unlisted, Filter.everything, other=heard.broker)}
        for each in interests or ():
            if each.epoch:
                self._epochs.setdefault(each.key, {})[heard.broker] = each
            if each.is_full:
                self._full[home_key(heard.broker, each.key)] = Destination(heard.broker, each.key, each.on_full, "full")

    def forget(self, broker: int) -> None:
        """Drop what a home has announced that was given up; the store drops it with the home."""
        for place in [place for place in self._known if place[0] == broker]:
            self._put(HomeInterest(*place, self._known[place].version, codec.encode_any(_Bucket(()))))
            self._unwritten[place] = self._known[place]

    def may_hold(self, home: int, key: Key) -> bool:
        """Whether a home may have a durable subscription, by its digest."""
        bucket = self._buckets.get((home, _bucket_of(key)))
        return bucket is None or key in bucket

    # What is away

    def set_away(self, missing: Collection[int], not_writing: Collection[int]) -> bool:
        """Note the homes that are out of reach and those that cannot write; whether that changes `away`."""
        seen = tuple(missing), tuple(not_writing), self._revision
        if seen == self._seen:
            return False
        self._seen = seen
        self._missing = frozenset(missing)
        self._guards = None
        away: dict[Key, Destination] = {}
        for home in not_writing:
            self._add_all(away, home, "not writing")
        away.update((place, each) for place, each in self._full.items() if not self._is_over(each.home, each.key))
        for home in missing:
            self._add_all(away, home, "away")
            # A home whose standby was heard of, and itself was not, or the other way round.
            for key, known in self._epochs.items():
                for each in known.values():
                    is_named = each.epoch and home in (each.home, each.other) and home not in known
                    if is_named and not self._is_over(home, key):
                        away.setdefault(home_key(home, key), Destination(home, key, each.on_full, "away"))
        if away == self._away:
            return False
        self._away = away
        self._index = None
        return True

    def _add_all(self, away: dict[Key, Destination], home: int, state: Literal["away", "not writing"]) -> None:
        buckets = [self._buckets.get((home, bucket)) for bucket in range(_BUCKETS)]
        for interests in buckets:
            for key, each in (interests or {}).items():
                if self._is_over(home, key):
                    continue
                away[home_key(home, key)] = Destination(home, key, each.on_full, state)
        if None in buckets:
            away[home_key(home, _ANY_EVENT)] = Destination(home, b"", "refuse", state)

    @property
    def away(self) -> dict[Key, Destination]:
        """The subscriptions that take no event now."""
        return self._away

    @property
    def full(self) -> int:
        """The number of subscriptions whose queue is full and refuses events."""
        return sum(each.state == "full" for each in self._away.values())

    def is_out_of_reach(self, found: Iterable[Key]) -> bool:
        """Whether an event for some of these cannot be delivered; a home that could not write may do so again."""
        return any(self._away[each].state != "not writing" for each in found)

    def find_away(self, events: Sequence[Event]) -> list[tuple[Key, ...]]:
        """For each event those of the subscriptions in `away` that want it."""
        if not self._away:
            return [()] * len(events)
        if self._index is None:
            self._index = InterestIndex(filter_index_of("columnar"))
            for place, each in self._away.items():
                if each.key:
                    self._index.add(LOCAL, place, self._wanted(each))
        unknown = tuple(place for place, each in self._away.items() if not each.key)
        if not len(self._index):
            return [unknown] * len(events)
        return [unknown + found.local for found in self._index.find_interested(events)]

    def _wanted(self, destination: Destination) -> Filter:
        bucket = self._buckets.get((destination.home, _bucket_of(destination.key)), {})
        if bucket is None:
            return Filter.everything
        if destination.key in bucket:
            return bucket[destination.key].wanted
        return next(each.wanted for each in self._epochs[destination.key].values())  # the other home has it

    # Two homes

    def _is_over(self, home: int, key: Key) -> bool:
        """Whether another broker took over a subscription of a home, in an epoch in which this one is no home of it."""
        known = self._epochs.get(key)
        if not known:
            return False
        own = known[home].epoch if home in known else 0
        return any(each.epoch > own and home not in (each.home, each.other) for each in known.values())

    @property
    def has_epochs(self) -> bool:
        """Whether any subscription has or had a standby."""
        return bool(self._epochs)

    def partners(self) -> set[int]:
        """The brokers that another one names as home or standby of a subscription with it."""
        return {
            broker
            for key, known in self._epochs.items()
            for home, each in known.items()
            if each.epoch and each.other is not None and not self._is_over(home, key)
            for broker in (each.home, each.other)
        }

    def guards(self) -> dict[Key, DurableInterest]:
        """The subscriptions of two homes, both of which must have an event before it is confirmed."""
        if self._guards is None:
            self._guards = {}
            self._guards_index = None
            for key, known in self._epochs.items():
                for home, each in known.items():
                    if each.other is None or self._is_over(home, key):
                        continue
                    # Settings change at the home, and a standby that is away does not hear of it.
                    is_required = known.get(each.home, each).is_required
                    if is_required or not self._missing & {each.home, each.other, home}:
                        self._guards[key] = each
        return self._guards

    def find_guards(self, event: Event) -> tuple[Key, ...]:
        """Those of the subscriptions in `guards` that want an event."""
        guards = self.guards()
        if not guards:
            return ()
        if self._guards_index is None:
            self._guards_index = InterestIndex(filter_index_of("columnar"))
            for key, each in guards.items():
                self._guards_index.add(LOCAL, key, each.wanted)
        return self._guards_index.find_interested([event])[0].local

    def guards_among(self, places: Iterable[Key]) -> bool:
        """Whether one of some subscriptions in `away` has two homes, or may have."""
        guards = self.guards()
        return bool(guards) and any(self._away[each].key in guards or not self._away[each].key for each in places)

    def are_paired(self, keys: Iterable[Key]) -> bool:
        """Whether both homes of each of these subscriptions have said that they collect its events.

        An event that was sent before may have passed a broker that knew of one of them alone.
        """
        return all(self._is_paired(key) for key in keys)

    def _is_paired(self, key: Key) -> bool:
        known = self._epochs.get(key, {})
        first = next(iter(known.values()), None)
        if first is None or not first.epoch:
            return True  # it is not listed
        homes = {home: each for home, each in known.items() if not self._is_over(home, key)}
        if any(each.other is None for each in homes.values()):
            return True  # there is one home again
        named = {broker for each in homes.values() for broker in (each.home, each.other)}
        # A condition that was changed must have come to both.
        return named <= homes.keys() and len({each.wanted.digest for each in homes.values()}) == 1

    # Disk

    def take_unwritten(self) -> list[HomeInterest]:
        """The records to write since the last call."""
        records, self._unwritten = list(self._unwritten.values()), {}
        return records

    def on_write_failed(self, record: HomeInterest) -> None:
        self._unwritten.setdefault((record.broker, record.bucket), record)

    @property
    def has_unwritten(self) -> bool:
        return bool(self._unwritten)


def claim_key(client: Client, name: str) -> Key:
    """The name of a durable subscription among brokers: a digest."""
    return blake2b(f"{len(client)}\n{client}{name}".encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _unlisted(home: int, bucket: int) -> Key:
    """In place of the digests of subscriptions that a home does not list."""
    return blake2b(f"unlisted {home} {bucket}".encode(), digest_size=16).digest()


def _bucket_of(key: Key) -> int:
    return key[0] % _BUCKETS
