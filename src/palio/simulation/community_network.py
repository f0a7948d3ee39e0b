"""Simulated network of semantic communities in virtual time: events find those who want them by the topology alone.

`Network.communities` makes one. Subscriptions that are made before it first runs are in place as if their members had
joined one after the other long ago; later ones join by messages, each when the one before is in place, and `join`,
`leave` and `crash` change the network while it runs. `run` ends when nothing that clients asked for is under way;
`run(seconds)` lets time pass, in which peers find out who is gone. Everything follows from the seed.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import inf
from random import Random
from typing import Any, Final, NamedTuple

from palio.errors import InvalidArgument
from palio.events import Event
from palio.filters.filter import Filter
from palio.peers.communities.community_peer import CommunityPeer, Member
from palio.peers.communities.containment_member import ContainmentMember
from palio.peers.communities.event_sample import EventSample
from palio.peers.communities.messages import Address, Deliver, Effect, Forward, Message, Send, Useless
from palio.peers.communities.overlays import OVERLAYS, Overlay, member_maker
from palio.peers.communities.settings import CommunitySettings
from palio.peers.communities.similarity_member import SimilarityMember
from palio.peers.messages import Confirmed, SetTimer
from palio.simulation.community_build import build_containment, build_similarity
from palio.simulation.engine import EventQueue
from palio.simulation.peer_network import PeerDelivery, PeerSubscription, PeerVerdict

_MAX_RUN_SECONDS: Final = 3_600.0  # without an answer to what a client asked for
_KNOWN_PEERS: Final = 4  # that a peer knows from the beginning


class _Arrival(NamedTuple):
    sender: int
    to: int
    message: Message
    upkeep: bool


class _Refusal(NamedTuple):
    """A message comes back: there is nobody where it was sent to."""

    sender: int
    to: int
    message: Message
    upkeep: bool


class _Expiry(NamedTuple):
    node: int
    peer: CommunityPeer
    name: str
    upkeep: bool = True


@dataclass(frozen=True, slots=True)
class Reach:
    """What one event reached: the source's measures of accuracy (Chand §7.2). Members are subscriptions in place."""

    event: str
    members: int
    interested: int
    received: int
    """Members that received it, wanted or not."""
    delivered: int
    """Of those that wanted it and were in place when it was published."""
    useless: int
    """Members that received it and did not want it."""
    hops: int
    """The longest way from the publisher to a member, in messages."""
    messages: int

    @property
    def false_positives(self) -> float:
        """Members that received it in vain, as a share of all."""
        return self.useless / self.members if self.members else 0.0

    @property
    def false_negatives(self) -> float:
        """Members that wanted it and did not receive it, as a share of those that wanted it."""
        return 1 - self.delivered / self.interested if self.interested else 0.0


class _Publication:
    """One event, with a byte for each subscription: whether it wants the event, and how often it was delivered."""

    __slots__ = ("counts", "event", "hops", "members", "messages", "received", "useless", "wanting")

    def __init__(self, event: Event, wanting: bytearray, members: int) -> None:
        self.event = event
        self.wanting = wanting
        self.members = members
        self.counts = bytearray(len(wanting))
        self.received = self.useless = self.hops = self.messages = 0


class CommunityNetwork:
    """Peers in semantic communities.

    >>> net = CommunityNetwork(50, overlay="containment", seed=1)
    >>> wide = net.subscribe(at=3, where="price > 100")
    >>> narrow = net.subscribe(at=4, where="price > 150 AND city = 'Oslo'")
    >>> net.run()
    >>> net.parent(narrow) is wide
    True
    >>> event = net.publish(at=42, event={"price": 120, "city": "Oslo"})
    >>> net.run()
    >>> [(each.subscription is wide, each.event.get("price")) for each in net.deliveries]
    [(True, 120)]
    >>> net.reach()[0].useless           # the narrow one got it in vain: it hangs below the wide one
    1
    """

    def __init__(
        self,
        peers: int,
        *,
        overlay: Overlay = "containment",
        join: str = "adaptive",
        leave: str = "basic",
        seed: int = 0,
        sample: Iterable[Mapping[str, Any] | Event] = (),
        delay: float = 0.05,
        period: float = 5.0,
        **settings: Any,
    ) -> None:
        """So many peers, without subscriptions yet. Further `settings` are those of `CommunitySettings`.

        How similar two interests are is estimated by a `sample` of events, and otherwise by containment alone. The
        containment tree needs none; with one its comparisons are cheaper.
        """
        if type(peers) is not int or peers < 1:
            raise InvalidArgument(f"peers is a whole number from 1 on, not {peers!r:.80}")
        if overlay not in OVERLAYS:
            raise InvalidArgument(f"there is no overlay {overlay!r:.80}; known are {', '.join(OVERLAYS)}")
        if type(seed) is not int:
            raise InvalidArgument(f"a seed is a whole number, not {seed!r:.80}")
        if isinstance(sample, str | bytes | Mapping) or not hasattr(sample, "__iter__"):
            raise InvalidArgument(f"a sample is a list of events, not {type(sample).__name__}")
        _check_seconds(delay=delay, period=period)
        known = CommunitySettings.__dataclass_fields__.keys() - {"join", "leave", "period"}
        for name in settings:
            if name not in known:
                raise InvalidArgument(f"there is no setting {name!r}; known are {', '.join(sorted(known))}")
        self.settings = CommunitySettings(
            join=join,  # type: ignore[arg-type]  # checked there
            leave=leave,  # type: ignore[arg-type]
            period=period,
            patience=max(100 * delay, period),
            **settings,
        )
        self.overlay: Overlay = overlay
        self.delay = delay
        self.sample = EventSample(map(_event, sample))
        self.deliveries: list[PeerDelivery] = []
        self.confirmations: dict[PeerSubscription, float] = {}  # when subscriptions were in place
        self.failures: list[PeerSubscription] = []
        self.messages: Counter[str] = Counter()
        self._random = Random(seed)
        self._queue: EventQueue[_Arrival | _Refusal | _Expiry] = EventQueue()
        self._interests: dict[Filter, Filter] = {}  # one object for all that are equal
        self._subscriptions: list[PeerSubscription] = []
        self._waiting: deque[PeerSubscription] = deque()
        self._members: dict[PeerSubscription, Address] = {}
        self._wanting: dict[Filter, list[PeerSubscription]] = {}
        self._at: dict[Address, PeerSubscription] = {}
        self._published: dict[str, _Publication] = {}
        self._requests: dict[tuple[int, int], PeerSubscription] = {}
        self._is_built = False
        self._upkeep = False  # what happens now is maintenance
        self._peers: dict[int, CommunityPeer] = {}
        self._next_peer = 0
        self._make_member = member_maker(overlay, self.sample)
        for number in range(peers):
            peer = self._add_peer()
            if number == 0:
                peer.found_ring()
            else:
                peer.restore({0, *(self._random.randrange(number) for _ in range(_KNOWN_PEERS - 1))})
                peer.start(self._random.random() * period)
            self._carry_out(peer)

    @property
    def peers(self) -> int:
        """The number of peers, with those that are gone; they are numbered from 0."""
        return self._next_peer

    # Clients

    @property
    def now(self) -> float:
        return self._queue.now

    def subscribe(self, at: int, where: Any, *, language: str = "sql") -> PeerSubscription:
        """Subscribe at a peer, by its number."""
        wanted = where if isinstance(where, Filter) else Filter.parse(where, language=language)
        self._check_up(at)
        made = PeerSubscription(len(self._subscriptions) + 1, at, self._interests.setdefault(wanted, wanted))
        self._subscriptions.append(made)
        self._waiting.append(made)
        return made

    def unsubscribe(self, subscription: PeerSubscription) -> None:
        """End a subscription: its member leaves the overlay."""
        if subscription in self._waiting:
            self._waiting.remove(subscription)
            return
        if subscription not in self._members:
            raise InvalidArgument(f"there is no {subscription}")
        peer = self._peer(subscription.at)
        self._forget(subscription)
        peer.unsubscribe(str(subscription.number))
        self._carry_out(peer)

    def publish(self, at: int, event: Event | Mapping[str, Any]) -> Event:
        """Publish an event at a peer, once all subscriptions made before are in place."""
        self._check_up(at)
        self.run()
        made = _event(event)
        if made.id in self._published:
            raise InvalidArgument(f"an event with the id {made.id!r:.80} was published before")
        wanting = bytearray(len(self._subscriptions) + 1)
        members = 0
        for wanted, subscriptions in self._wanting.items():
            matches = wanted.matches(made)
            for each in subscriptions:
                if each in self.confirmations:
                    members += 1
                    wanting[each.number] = matches
        self._published[made.id] = _Publication(made, wanting, members)
        peer = self._peer(at)
        peer.publish(made)
        self._carry_out(peer)
        return made

    def verdict(self) -> PeerVerdict:
        """Compare deliveries with brute force: what every subscription in place would get by itself."""
        missing, wrong, repeated, required = [], [], [], 0
        for each in self._published.values():
            for number in range(1, len(each.wanting)):
                subscription = self._subscriptions[number - 1]
                required += each.wanting[number]
                if each.wanting[number] and not each.counts[number] and subscription in self._members:
                    missing.append((subscription, each.event))
                if each.counts[number] and not subscription.wanted.matches(each.event):
                    wrong.append((subscription, each.event))
                if each.counts[number] > 1:
                    repeated.append((subscription, each.event))
        return PeerVerdict(tuple(missing), tuple(wrong), tuple(repeated), required)

    def reach(self) -> list[Reach]:
        """What every event reached, in the order in which they were published."""
        return [_reach(each) for each in self._published.values()]

    def forget_events(self) -> None:
        """Forget the events published so far, their deliveries and measures: for long runs in bounded memory."""
        self._published.clear()
        self.deliveries.clear()

    # Peers that come and go

    def join(self, contact: int | None = None) -> int:
        """Let a new peer join, by a peer it knows; the number of the new one."""
        known = contact if contact is not None else self._random.choice(list(self._peers))
        self._peer(known)
        peer = self._add_peer()
        peer.join(known)
        self._carry_out(peer)
        return peer.node

    def leave(self, peer: int) -> None:
        """Let a peer hand over what is below its members, and go."""
        self.run()
        leaving = self._peer(peer)
        self._remove(leaving)
        leaving.leave()
        self._carry_out(leaving)

    def crash(self, peer: int) -> None:
        """Let a peer end without a word."""
        self._remove(self._peer(peer))

    def _remove(self, peer: CommunityPeer) -> None:
        del self._peers[peer.node]
        for each in [each for each in self._waiting if each.at == peer.node]:
            self._waiting.remove(each)
            self.failures.append(each)
        for key in [key for key in self._requests if key[0] == peer.node]:
            self.failures.append(self._requests.pop(key))
        for each in [self._at[member.address] for member in peer.members.values()]:
            self._forget(each)

    def _forget(self, subscription: PeerSubscription) -> None:
        address = self._members.pop(subscription)
        del self._at[address]
        self._wanting[subscription.wanted].remove(subscription)
        self._requests.pop(address, None)

    # Time

    def run(self, seconds: float | None = None) -> None:
        """Let time pass: so many seconds, or until everything that clients asked for is done."""
        if seconds is not None and seconds != 0:
            _check_seconds(seconds=seconds)
        self._build()
        if seconds is None:
            self._run_until_quiet()
            return
        until = self.now + seconds
        while (at := self._queue.next_time()) is not None and at <= until:
            self._start_next()
            self._advance()
        self._queue.now = max(self.now, until)

    def _run_until_quiet(self) -> None:
        until = self.now + _MAX_RUN_SECONDS
        while self._start_next() or self._queue.pending or self._requests:
            at = self._queue.next_time()
            if at is None or at > until:
                return
            self._advance()

    def _start_next(self) -> bool:
        """Let the next subscription join, when all before it are in place."""
        if not self._waiting or self._requests or self._queue.pending:
            return bool(self._waiting)
        made = self._waiting.popleft()
        peer = self._peer(made.at)
        self._upkeep = False
        number = peer.subscribe(str(made.number), made.wanted, self.now)
        self._register(made, (peer.node, number))
        self._requests[peer.node, number] = made
        self._carry_out(peer)
        return True

    def _register(self, made: PeerSubscription, address: Address) -> None:
        self._members[made] = address
        self._at[address] = made
        self._wanting.setdefault(made.wanted, []).append(made)

    def _advance(self) -> None:
        for each in self._queue.advance():
            self._upkeep = each.upkeep
            self._handle(each)
        self._upkeep = False

    # What researchers measure

    def members(self) -> dict[PeerSubscription, Member]:
        """The members in the overlay, by their subscriptions."""
        return {each: self._peers[peer].members[number] for each, (peer, number) in self._members.items()}

    def parent(self, subscription: PeerSubscription) -> PeerSubscription | None:
        """The parent of a member of the containment tree; None at the top level."""
        member = self.members()[subscription]
        if not isinstance(member, ContainmentMember):
            raise InvalidArgument("a similarity graph has no parents")
        return None if member.parent is None else self._at.get(member.parent)

    def depths(self) -> dict[PeerSubscription, int]:
        """The depths in the containment tree, by its links as they are now; the top level has depth 1."""
        members = self.members()
        found: dict[PeerSubscription, int] = {}
        for each in members:
            way = []
            at: PeerSubscription | None = each
            while at is not None and at not in found:
                way.append(at)
                at = self.parent(at)
            depth = 0 if at is None else found[at]
            for step in reversed(way):
                depth += 1
                found[step] = depth
        return found

    def degrees(self) -> list[int]:
        """The number of neighbours of every member."""
        return [member.degree for member in self.members().values()]

    # Internals

    def _build(self) -> None:
        """Put the subscriptions made so far in place, before the network first runs."""
        if self._is_built:
            return
        self._is_built = True
        made = list(self._waiting)
        self._waiting.clear()
        members = []
        for each in made:
            member = self._peers[each.at].add_member(str(each.number), each.wanted)
            self._register(each, member.address)
            self.confirmations[each] = self.now
            members.append(member)
        if members:
            self._peers[0].restore((), members[0].address)
        if self.overlay == "containment":
            build_containment([each for each in members if isinstance(each, ContainmentMember)])
        else:
            build_similarity([each for each in members if isinstance(each, SimilarityMember)], self.sample)

    def _handle(self, each: _Arrival | _Refusal | _Expiry) -> None:
        if isinstance(each, _Arrival):
            peer = self._peers.get(each.to)
            if peer is None:
                back = _Refusal(each.sender, each.to, each.message, each.upkeep)
                self._queue.schedule(self.delay, back, each.upkeep)
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

    def _count(self, event: Event, hops: int, useless: int) -> None:
        publication = self._published.get(event.id)
        if publication is not None:
            publication.received += bool(hops)
            publication.useless += useless
            publication.hops = max(publication.hops, hops)

    def _carry_out(self, peer: CommunityPeer) -> None:
        effects, peer.effects[:] = list(peer.effects), []
        for effect in effects:
            self._carry_out_one(peer, effect)

    def _carry_out_one(self, peer: CommunityPeer, effect: Effect) -> None:
        match effect:
            case Send(to, message):
                self.messages[type(message).__name__] += 1
                if isinstance(message, Forward) and message.event.id in self._published:
                    self._published[message.event.id].messages += 1
                self._queue.schedule(self.delay, _Arrival(peer.node, to, message, self._upkeep), self._upkeep)
            case SetTimer(name, after, upkeep):
                self._queue.schedule(after, _Expiry(peer.node, peer, name), upkeep)
            case Useless(_, event, hops):
                self._count(event, hops, 1)
            case Deliver(id, event, hops):
                self._count(event, hops, 0)
                subscription = self._subscriptions[int(id) - 1]
                self.deliveries.append(PeerDelivery(subscription, event, self.now))
                publication = self._published.get(event.id)
                if publication is not None and subscription.number < len(publication.counts):
                    publication.counts[subscription.number] += 1
            case Confirmed(number):
                made = self._requests.pop((peer.node, number), None)
                if made is not None:
                    self.confirmations[made] = self.now

    def _add_peer(self) -> CommunityPeer:
        number = self._next_peer
        peer = self._peers[number] = CommunityPeer(number, self._make_member, self.settings)
        self._next_peer += 1
        return peer

    def is_up(self, peer: int) -> bool:
        return peer in self._peers

    def _check_up(self, peer: Any) -> None:
        if type(peer) is not int or not 0 <= peer < self._next_peer:
            raise InvalidArgument(f"there is no peer {peer!r:.80}; they are 0 to {self._next_peer - 1}")
        if not self.is_up(peer):
            raise InvalidArgument(f"peer {peer} is gone")

    def _peer(self, number: Any) -> CommunityPeer:
        self._build()
        self._check_up(number)
        return self._peers[number]


def _reach(of: _Publication) -> Reach:
    interested = sum(of.wanting)
    delivered = sum(1 for wants, count in zip(of.wanting, of.counts, strict=True) if wants and count)
    return Reach(of.event.id, of.members, interested, of.received, delivered, of.useless, of.hops, of.messages)


def _event(given: Event | Mapping[str, Any]) -> Event:
    return given if isinstance(given, Event) else Event(given)


def _check_seconds(**given: Any) -> None:
    for name, value in given.items():
        if type(value) not in (int, float) or not 0 < value < inf:
            raise InvalidArgument(f"{name} is a number of seconds above 0, not {value!r:.80}")
