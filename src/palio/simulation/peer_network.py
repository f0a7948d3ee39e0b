"""Simulated network of peers in virtual time: a Chord ring on which subscriptions and events meet, without brokers.

`Network.chord` makes one. It begins as a stable ring, as if its peers had joined long ago; `join`, `leave` and `crash`
change it while it runs. Peers need time to repair the ring: `run` ends when nothing that clients asked for is under
way, and `run(seconds)` lets time pass. Everything follows from the seed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from random import Random
from typing import Any, Final, NamedTuple

from palio.errors import InvalidArgument
from palio.events import Event
from palio.filters.filter import Filter
from palio.peers.chord import Membership
from palio.peers.key_space import KeySpace
from palio.peers.messages import Cast, Confirmed, Deliver, Effect, Failed, Message, Send, SetTimer
from palio.peers.peer import Peer
from palio.peers.peer_context import PeerSettings
from palio.peers.rendezvous_mappings import ANY_ATTRIBUTE, MAPPINGS, KeyMapping, mapping_of
from palio.peers.ring import Ring
from palio.simulation.engine import EventQueue

_CELLS_PER_PEER: Final = 4  # of an attribute: with fewer cells than nodes, some would never own a key
KNOWN_MAPPINGS: Final = (*MAPPINGS, ANY_ATTRIBUTE, "auto")
_MAX_RUN_SECONDS: Final = 3_600.0  # without an answer to what a client asked for


class _Arrival(NamedTuple):
    sender: int
    to: int
    message: Message


class _Refusal(NamedTuple):
    """A message comes back: there is nobody where it was sent to."""

    sender: int
    to: int
    message: Message


class _Expiry(NamedTuple):
    node: int
    peer: Peer
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class PeerSubscription:
    """A subscription of a peer's client."""

    number: int
    at: int
    wanted: Filter
    durable: bool = False

    def __str__(self) -> str:
        return f"subscription {self.number} at peer {self.at}: {self.wanted}"


@dataclass(frozen=True, slots=True)
class PeerDelivery:
    """The delivery of an event to a subscription, at a virtual time."""

    subscription: PeerSubscription
    event: Event
    time: float


@dataclass(frozen=True, slots=True)
class PeerVerdict:
    """Pairs of subscriptions and events that should have been delivered and were not, or the reverse, or twice."""

    missing: tuple[tuple[PeerSubscription, Event], ...]
    wrong: tuple[tuple[PeerSubscription, Event], ...]
    repeated: tuple[tuple[PeerSubscription, Event], ...]
    required: int

    @property
    def is_right(self) -> bool:
        return not (self.missing or self.wrong or self.repeated)


class ChordNetwork:
    """Peers on a Chord ring.

    >>> net = ChordNetwork(100, mapping="selective-attribute", seed=1)
    >>> desk = net.subscribe(at=3, where="price > 100")
    >>> event = net.publish(at=42, event={"price": 120})
    >>> net.run()
    >>> [(each.subscription is desk, each.event.get("price")) for each in net.deliveries]
    [(True, 120)]
    """

    def __init__(
        self,
        peers: int,
        *,
        mapping: str | KeyMapping = "selective-attribute",
        replicas: int = 3,
        seed: int = 0,
        bits: int = 64,
        sample: Iterable[Mapping[str, Any] | Event] = (),
        delay: float = 0.05,
        period: float = 1.0,
        lease: float = 60.0,
        buffer: float = 0.0,
        collects: bool = False,
        virtual_nodes: int = 1,
        shed_above: int = 0,
    ) -> None:
        """A stable ring of so many peers, whose positions are drawn from the seed.

        The `mapping` from subscriptions and events to keys is one that was made, or a name. A name needs to know which
        attributes there are and how their values are spread: by a `sample` of events, or else by the subscriptions that
        were made before the network first runs. Any mapping is right for every subscription and event; how evenly the
        load is spread depends on the sample.

        Nodes hold notifications back for `buffer` seconds, to send them together. With `collects`, those of one
        subscription go from neighbour to neighbour to the node in the middle of its keys, which sends them.

        A peer has as many places on the ring as it has `virtual_nodes`, which evens out what peers store. A node with
        more events in a period than `shed_above` leaves some to the neighbours that have copies of what it stores.
        """
        _check_count("peers", peers)
        _check_count("replicas", replicas)
        _check_count("virtual_nodes", virtual_nodes)
        if shed_above:
            _check_count("shed_above", shed_above)
        _check_seconds(delay=delay, period=period, lease=lease)
        if buffer != 0:
            _check_seconds(buffer=buffer)
        if collects and not buffer:
            raise InvalidArgument("what is collected is held back on the way; give buffer, the seconds of each step")
        if type(seed) is not int:
            raise InvalidArgument(f"a seed is a whole number, not {seed!r:.80}")
        is_known = mapping in KNOWN_MAPPINGS if isinstance(mapping, str) else hasattr(mapping, "event_keys")
        if not is_known:
            raise InvalidArgument(f"there is no mapping {mapping!r:.80}; known are {', '.join(KNOWN_MAPPINGS)}")
        if isinstance(sample, str | bytes | Mapping) or not hasattr(sample, "__iter__"):
            raise InvalidArgument(f"a sample is a list of events, not {type(sample).__name__}")
        self.ring = Ring(bits)
        if peers * virtual_nodes > self.ring.size:
            raise InvalidArgument(f"a ring of {bits} bits has no room for {peers * virtual_nodes} peers")
        self.settings = PeerSettings(
            replicas=replicas,
            successors=max(2 * replicas, 4) * virtual_nodes,
            period=period,
            retry=20 * delay + period,
            lease=lease,
            buffer=float(buffer),
            collects=collects,
            shed_above=shed_above,
        )
        self.delay = delay
        self.deliveries: list[PeerDelivery] = []
        self.confirmations: dict[PeerSubscription | str, float] = {}  # when subscriptions, and events by id, were done
        self.failures: list[PeerSubscription | str] = []
        self.messages: Counter[str] = Counter()
        self.hops: Counter[str] = Counter()  # one-hop messages, by what the m-cast carries
        self._random = Random(seed)
        self._queue: EventQueue[_Arrival | _Refusal | _Expiry] = EventQueue()
        self._mapping = mapping
        self._sample = [_event(each) for each in sample]
        self._keys: KeySpace | None = None if isinstance(mapping, str) else KeySpace(self.ring, mapping)
        self._positions: list[int] = []  # by number, also of peers that are gone
        self._virtual: list[list[int]] = []  # their further positions
        self._virtual_nodes = virtual_nodes
        self._hosts: dict[int, int] = {}  # numbers of peers, by position
        self._taken: set[int] = set()
        self._lives: Counter[int] = Counter()  # of peers, by number
        for _ in range(peers):
            self._add_position()
        self._peers: dict[int, Peer] = {}  # by position, those that are up
        self._waiting: list[PeerSubscription] = []
        self._subscriptions: list[PeerSubscription] = []
        self._ended: set[PeerSubscription] = set()
        self._published: list[tuple[Event, frozenset[PeerSubscription]]] = []
        self._requests: dict[tuple[int, int], PeerSubscription | str] = {}
        self._subscribing = 0  # of those requests
        if self._keys is not None:
            self._build()

    # Clients

    @property
    def now(self) -> float:
        return self._queue.now

    def subscribe(self, at: int, where: Any, *, language: str = "sql", durable: bool = False) -> PeerSubscription:
        """Subscribe at a peer, by its number. While the peer is away, events wait for what is `durable`."""
        wanted = where if isinstance(where, Filter) else Filter.parse(where, language=language)
        self._check_up(at)
        made = PeerSubscription(len(self._subscriptions) + 1, at, wanted, durable)
        self._subscriptions.append(made)
        if self._keys is None:
            self._waiting.append(made)
        else:
            self._install(made)
        return made

    def unsubscribe(self, subscription: PeerSubscription) -> None:
        """End a subscription."""
        if subscription in self._ended or subscription not in self._subscriptions:
            raise InvalidArgument(f"there is no {subscription}")
        self._ended.add(subscription)
        if subscription in self._waiting:
            self._waiting.remove(subscription)
            return
        peer = self._peer(subscription.at)
        self._begin(peer, peer.unsubscribe(str(subscription.number)), subscription)
        self._carry_out(peer)

    def publish(self, at: int, event: Event | Mapping[str, Any]) -> Event:
        """Publish an event at a peer, once all subscriptions made before are in place."""
        self._check_up(at)
        self._run(self.now + _MAX_RUN_SECONDS, lambda: not self._subscribing)
        made = _event(event)
        wanting = frozenset(
            each for each in self._subscriptions if self._is_in_place(each) and each.wanted.matches(made)
        )
        self._published.append((made, wanting))
        peer = self._peer(at)
        self._begin(peer, peer.publish(made), made.id)
        self._carry_out(peer)
        return made

    def _is_in_place(self, subscription: PeerSubscription) -> bool:
        is_there = self.is_up(subscription.at) or subscription.durable
        return subscription in self.confirmations and subscription not in self._ended and is_there

    def verdict(self) -> PeerVerdict:
        """Compare deliveries with brute force: what every subscription in place would get by itself."""
        delivered = Counter((each.subscription, each.event.id) for each in self.deliveries)
        missing, wrong, repeated, required = [], [], [], 0
        for event, wanting in self._published:
            for subscription in self._subscriptions:
                count = delivered[subscription, event.id]
                pair = subscription, event
                required += subscription in wanting
                if subscription in wanting and not count and self.is_up(subscription.at):
                    missing.append(pair)
                if count and not subscription.wanted.matches(event):
                    wrong.append(pair)
                if count > 1:
                    repeated.append(pair)
        return PeerVerdict(tuple(missing), tuple(wrong), tuple(repeated), required)

    # Peers that come and go

    def join(self, contact: int | None = None) -> int:
        """Let a new peer join, by a peer it knows; the number of the new one."""
        known = contact if contact is not None else self._random.choice(self._numbers_up())
        asked = self._peer(known)
        self._add_position()
        made = len(self._positions) - 1
        for position in self._all_positions(made):
            peer = self._make_peer(position)
            peer.join(asked.node)
            self._carry_out(peer)
        return made

    def leave(self, peer: int) -> None:
        """Let a peer finish what its client asked for, hand over what it stores, and go."""
        self.run()
        self._check_up(peer)
        for position in self._all_positions(peer):
            leaving = self._peers[position]
            leaving.leave()
            self._carry_out(leaving)
        self._remove(peer)

    def crash(self, peer: int) -> None:
        """Let a peer end without a word."""
        self._start()
        self._check_up(peer)
        self._remove(peer)

    def restart(self, peer: int) -> None:
        """Bring a peer back that is gone, at another position, with its durable subscriptions; it joins by some peers
        that it knows."""
        if self.is_up(peer):
            raise InvalidArgument(f"peer {peer} is up")
        up = self._numbers_up()
        known = self._random.sample(up, min(self.settings.replicas, len(up)))
        self._draw_positions(peer)
        self._lives[peer] += 1
        for position in self._all_positions(peer):
            back = self._make_peer(position)
            back.join(*(self._positions[each] for each in known))
            self._carry_out(back)
        for each in self._subscriptions:
            if each.at == peer and each.durable and each not in self._ended:
                self._install(each)

    def _remove(self, peer: int) -> None:
        for position in self._all_positions(peer):
            del self._peers[position]
        for node, number in [each for each in self._requests if each[0] == self._positions[peer]]:
            self._fail(node, number)

    # Time

    def run(self, seconds: float | None = None) -> None:
        """Let time pass: so many seconds, or until everything that clients asked for is done."""
        if seconds is not None and seconds != 0:
            _check_seconds(seconds=seconds)
        if seconds is None:
            self._run(self.now + _MAX_RUN_SECONDS, lambda: not self._requests)
            return
        until = self.now + seconds
        self._run(until, lambda: False)
        self._queue.now = max(self.now, until)

    def _run(self, until: float, is_done: Callable[[], bool]) -> None:
        self._start()
        while (at := self._queue.next_time()) is not None and at <= until:
            if is_done():
                return
            for each in self._queue.advance():
                self._handle(each)

    # What researchers measure

    def stored(self) -> list[int]:
        """The number of interests that each peer stores, copies included; once for each of its virtual nodes."""
        found: Counter[int] = Counter()
        for position, peer in self._peers.items():
            found[self._hosts[position]] += len(peer.store)
        return list(found.values())

    def memberships(self) -> dict[int, Membership]:
        """The places of all peers on the ring, by position."""
        return {position: peer.membership for position, peer in self._peers.items()}

    # Internals

    def _handle(self, each: _Arrival | _Refusal | _Expiry) -> None:
        if isinstance(each, _Arrival):
            peer = self._peers.get(each.to)
            if peer is None:
                self._queue.schedule(self.delay, _Refusal(each.sender, each.to, each.message))
                return
            peer.on_message(each.sender, each.message, self.now)
        elif isinstance(each, _Refusal):
            peer = self._peers.get(each.sender)
            if peer is None:
                return
            peer.on_unreachable(each.to, each.message, self.now)
        else:
            peer = self._peers.get(each.node)
            if peer is not each.peer:
                return
            peer.on_timer(each.name, self.now)
        self._carry_out(peer)

    def _carry_out(self, peer: Peer) -> None:
        effects, peer.effects[:] = list(peer.effects), []
        for effect in effects:
            self._carry_out_one(peer, effect)

    def _carry_out_one(self, peer: Peer, effect: Effect) -> None:
        match effect:
            case Send(to, message):
                self.messages[type(message).__name__] += 1
                if isinstance(message, Cast):
                    self.hops[type(message.payload).__name__] += 1
                self._queue.schedule(self.delay, _Arrival(peer.node, to, message))
            case SetTimer(name, after, upkeep):
                self._queue.schedule(after, _Expiry(peer.node, peer, name), upkeep)
            case Deliver(receipt, ids, event):
                self.deliveries += [PeerDelivery(self._subscriptions[int(id) - 1], event, self.now) for id in ids]
                peer.on_delivered(receipt)
                self._carry_out(peer)
            case Confirmed(number):
                what = self._end(peer.node, number)
                if what is not None:
                    self.confirmations[what] = self.now
            case Failed(number, _):
                self._fail(peer.node, number)

    # Requests of clients that are under way

    def _begin(self, peer: Peer, number: int, what: PeerSubscription | str) -> None:
        self._requests[peer.node, number] = what
        self._subscribing += isinstance(what, PeerSubscription)

    def _end(self, node: int, number: int) -> PeerSubscription | str | None:
        what = self._requests.pop((node, number), None)
        self._subscribing -= isinstance(what, PeerSubscription)
        return what

    def _fail(self, node: int, number: int) -> None:
        what = self._end(node, number)
        if what is not None:
            self.failures.append(what)

    # Construction

    def _install(self, made: PeerSubscription) -> None:
        peer = self._peer(made.at)
        number = peer.subscribe(str(made.number), made.wanted, self.now, durable=made.durable)
        self._begin(peer, number, made)
        self._carry_out(peer)

    def _start(self) -> None:
        """Settle the mapping, and build the ring, when the network first runs."""
        if self._keys is None:
            assert isinstance(self._mapping, str)  # one that was made is in use from the beginning
            wanted = [each.wanted for each in self._waiting]
            cells = _CELLS_PER_PEER * len(self._hosts)
            self._keys = KeySpace(self.ring, self._make_mapping(self._mapping, wanted, cells))
            self._build()
            waiting, self._waiting = self._waiting, []
            for each in waiting:
                self._install(each)

    def _make_mapping(self, name: str, wanted: list[Filter], cells: int) -> KeyMapping:
        if name != "auto":
            return mapping_of(name, wanted, self._sample, cells)
        from palio.peers.ring_description import plan_ring  # loads NumPy

        plan = plan_ring(wanted, self._sample, len(self._hosts))
        return mapping_of(plan.mapping, wanted, self._sample, cells, plan.attributes, plan.chosen)

    def _make_peer(self, position: int) -> Peer:
        assert self._keys is not None
        life = self._lives[self._hosts[position]]
        peer = self._peers[position] = Peer(
            position, self._keys, self.settings, life, host_of=lambda node: self._hosts.get(node, node)
        )
        return peer

    def _build(self) -> None:
        """Peers on a stable ring, with the tables that maintenance would arrive at."""
        ordered = sorted(self._hosts)
        places = {position: place for place, position in enumerate(ordered)}
        for position in self._hosts:
            peer = self._make_peer(position)
            place, count = places[position], len(ordered)
            following = [
                ordered[(place + each) % count] for each in range(1, min(self.settings.successors, count - 1) + 1)
            ]
            if not following:
                peer.membership.found_ring()
            else:
                peer.membership.restore(ordered[place - 1], following, self._fingers(position, ordered))
            peer.start(self._random.random() * self.settings.period)
            self._carry_out(peer)

    def _fingers(self, position: int, ordered: Sequence[int]) -> dict[int, tuple[int, int | None]]:
        found: dict[int, tuple[int, int | None]] = {}
        nearest: int | None = None
        for power in range(self.ring.bits):
            target = (position + (1 << power)) % self.ring.size
            place = bisect_left(ordered, target) % len(ordered)
            owner = ordered[place]
            if owner not in (position, nearest):
                found[power] = owner, ordered[place - 1]
            nearest = owner
        return found

    def _add_position(self) -> None:
        """Draw free positions for one more peer."""
        self._positions.append(-1)
        self._virtual.append([])
        self._draw_positions(len(self._positions) - 1)

    def _draw_positions(self, peer: int) -> None:
        self._positions[peer] = self._free_position()
        self._virtual[peer] = [self._free_position() for _ in range(self._virtual_nodes - 1)]
        self._hosts.update(dict.fromkeys(self._all_positions(peer), peer))

    def _all_positions(self, peer: int) -> list[int]:
        return [self._positions[peer], *self._virtual[peer]]

    def _free_position(self) -> int:
        if len(self._taken) == self.ring.size:
            raise InvalidArgument(f"a ring of {self.ring.bits} bits has no room for another peer")
        position = self._random.getrandbits(self.ring.bits)
        while position in self._taken:
            position = (position + 1) % self.ring.size
        self._taken.add(position)
        return position

    def _numbers_up(self) -> list[int]:
        return [number for number in range(len(self._positions)) if self.is_up(number)]

    def is_up(self, peer: int) -> bool:
        return self._keys is None or self._positions[peer] in self._peers

    def _check_up(self, peer: Any) -> None:
        if type(peer) is not int or not 0 <= peer < len(self._positions):
            raise InvalidArgument(f"there is no peer {peer!r:.80}; they are 0 to {len(self._positions) - 1}")
        if not self.is_up(peer):
            raise InvalidArgument(f"peer {peer} is gone")

    def _peer(self, number: Any) -> Peer:
        self._start()
        self._check_up(number)
        return self._peers[self._positions[number]]


def _event(given: Event | Mapping[str, Any]) -> Event:
    return given if isinstance(given, Event) else Event(given)


def _check_count(name: str, given: Any) -> None:
    if type(given) is not int or given < 1:
        raise InvalidArgument(f"{name} is a whole number from 1 on, not {given!r:.80}")


def _check_seconds(**given: Any) -> None:
    for name, value in given.items():
        if type(value) not in (int, float) or not 0 < value < inf:
            raise InvalidArgument(f"{name} is a number of seconds above 0, not {value!r:.80}")
