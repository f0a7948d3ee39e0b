"""Peer: a node of a ring that stores, matches and notifies, a deterministic object without I/O.

A subscription goes by m-cast to the owners of its keys, each of which stores it with copies at its next successors. An
event goes to the owners of its keys; each matches it with what it stores and notifies the subscribers. Whoever sends
something by m-cast repeats it for the keys that nobody answered for. An owner answers for a subscription when all
copies are stored, and for an event when all subscribers were notified. So what a crash interrupts is done again by
whoever owns the keys then, and a subscriber recognises an event that it has had.
"""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field
from typing import Final

from palio.events import Event
from palio.filters.filter import Filter
from palio.peers.chord import Membership, lookup
from palio.peers.interest_store import InterestStore
from palio.peers.key_space import KeySpace
from palio.peers.messages import (
    AskInterests,
    AskNeighbours,
    Cast,
    Confirmed,
    Copies,
    Deliver,
    Digest,
    Effect,
    Failed,
    Interest,
    Leave,
    Lookup,
    Message,
    Neighbours,
    Notification,
    Notified,
    Notify,
    Occurrence,
    Payload,
    Replicate,
    Replicated,
    Send,
    SetTimer,
    Taken,
    Transfer,
    Transferred,
)
from palio.peers.multicast import split_keys
from palio.peers.ring import Runs, intersect_runs, subtract_runs

_UPKEEP_TIMER: Final = "upkeep"
_RETRY_TIMER: Final = "retry "
_MAX_REMEMBERED_EVENTS: Final = 4_096  # of one subscription, by which repeated ones are recognised


@dataclass(frozen=True, slots=True)
class PeerSettings:
    """Settings that all peers of a ring share; seconds where nothing else is said."""

    replicas: int = 3  # nodes that store an interest, its owner included
    successors: int = 8
    period: float = 1.0  # between two rounds of maintenance
    retry: float = 2.0  # after which keys without an answer are asked for again
    attempts: int = 20
    lease: float = 60.0  # of a subscription; it is renewed after a third of it


@dataclass(slots=True)
class _Request:
    """Something that this peer has sent by m-cast."""

    payload: Payload
    keys: Runs  # that nobody has answered for
    finger: int | None = None  # the power of two whose owner is looked up
    attempts: int = 1


@dataclass(slots=True)
class _Work:
    """Something that this peer does for a cast of another, as the owner of keys."""

    cast: Cast
    keys: Runs
    began_at: float
    waiting: set[int] = field(default_factory=set)  # numbers of messages without an answer


class Peer:
    """One peer. Every call appends to `effects`, which whoever runs it carries out and clears."""

    def __init__(self, node: int, keys: KeySpace, settings: PeerSettings) -> None:
        self.node = node
        self.keys = keys
        self.settings = settings
        self.effects: list[Effect] = []
        self.membership = Membership(keys.ring, node, settings.successors, self.effects)
        self.store = InterestStore(keys)
        self._mine: dict[str, Interest] = {}
        self._had: dict[str, OrderedDict[str, None]] = {}
        self._renew_at: dict[str, float] = {}
        self._requests: dict[int, _Request] = {}
        self._works: dict[int, _Work] = {}
        self._next_number = 0
        self._joins_by: int | None = None
        self._place_request: int | None = None
        self._now = 0.0

    # What this peer's own client asks for

    def found_ring(self) -> None:
        """Be the first peer of a ring."""
        self.membership.found_ring()
        self.start()

    def join(self, contact: int) -> None:
        """Join the ring of another peer."""
        self._joins_by = contact
        self.start()
        self._ask_for_place()

    def start(self, after: float | None = None) -> None:
        """Begin maintenance after some seconds, by default after a whole period."""
        first = self.settings.period if after is None else after
        self.effects.append(SetTimer(_UPKEEP_TIMER, first, upkeep=True))

    def leave(self) -> None:
        """Hand over what this peer stores, and leave the ring."""
        for id in list(self._mine):
            self.unsubscribe(id)
        low = self.membership.predecessor
        arc = self.keys.ring.arc(self.node if low is None else low, self.node)
        self.membership.leave(self.store.within(arc))

    def subscribe(self, id: str, wanted: Filter, now: float) -> int:
        """Subscribe; the number that `Confirmed` will have."""
        self._now = now
        interest = Interest(id, 1, self.node, wanted, self.keys.arcs_of(wanted), self.settings.lease)
        self._mine[id] = interest
        self._had.setdefault(id, OrderedDict())
        return self._install(interest)

    def unsubscribe(self, id: str) -> int:
        """End a subscription; nothing of it is delivered any more."""
        before = self._mine.pop(id)
        self._had.pop(id), self._renew_at.pop(id, None)
        ended = Interest(
            id, before.version + 1, self.node, before.wanted, before.arcs, before.lease_seconds, has_ended=True
        )
        return self._request(ended, self.keys.positions_of(ended.arcs))

    def publish(self, event: Event) -> int:
        """Publish an event; the number that `Confirmed` will have."""
        keys = self.keys.keys_of(event)
        return self._request(Occurrence(event, keys), self.keys.positions_of_keys(keys))

    # What whoever runs it calls

    def on_message(self, sender: int, message: Message, now: float) -> None:
        self._now = now
        match message:
            case Cast():
                self._on_cast(message)
            case Taken():
                self._on_taken(sender, message)
            case AskNeighbours() | Neighbours() | Notify() | Transfer() | Transferred() | Leave():
                self._on_membership(sender, message)
            case Replicate():
                self._store(message.interests)
                self._send(sender, Replicated(message.number))
            case Replicated() | Notified():
                self._on_answer(message.number)
            case Digest():
                if self.store.digest(self.keys.ring.arc(message.low, sender)) != message.digest:
                    self._send(sender, AskInterests())
            case AskInterests():
                self._send_copies(sender)
            case Copies():
                self.store.replace(self.keys.ring.arc(message.low, sender), message.interests, now)
            case Notification():
                self._on_notification(message)
                self._send(sender, Notified(message.number))

    def _on_membership(
        self, sender: int, message: AskNeighbours | Neighbours | Notify | Transfer | Transferred | Leave
    ) -> None:
        membership = self.membership
        match message:
            case AskNeighbours():
                self._send(sender, Neighbours(membership.predecessor, tuple(membership.successors)))
            case Neighbours():
                membership.on_neighbours(sender, message)
            case Notify():
                membership.on_notify(sender, message, self.store.within)
            case Transfer():
                self._store(message.interests)
                membership.on_transfer(sender, message)
            case Transferred():
                membership.on_transferred(sender)
            case Leave():
                self._store(message.interests)
                membership.on_leave(sender, message)

    def on_unreachable(self, peer: int, message: Message, now: float) -> None:
        """A message could not be delivered."""
        self._now = now
        self.membership.forget(peer)
        match message:
            case Cast():
                self._forward(message, message.keys)
            case Replicate() | Notification():
                # The copy is made elsewhere by the next digest; a subscriber that is gone needs no event.
                self._on_answer(message.number)

    def on_timer(self, name: str, now: float) -> None:
        self._now = now
        if name == _UPKEEP_TIMER:
            self._maintain()
        else:
            self._retry(int(name.removeprefix(_RETRY_TIMER)))

    # m-cast

    def _request(self, payload: Payload, keys: Runs, finger: int | None = None) -> int:
        number = self._number()
        if not keys:
            self.effects.append(Confirmed(number))  # a condition that can never match has no keys
            return number
        self._requests[number] = _Request(payload, keys, finger)
        self.effects.append(SetTimer(f"{_RETRY_TIMER}{number}", self.settings.retry, upkeep=True))
        self._on_cast(Cast(keys, payload, self.node, number, self.node, False, 0))
        return number

    def _retry(self, number: int) -> None:
        request = self._requests.get(number)
        if request is None:
            return
        request.attempts += 1
        if request.finger is not None:
            del self._requests[number]  # the next round looks up the next one
            return
        if request.attempts > self.settings.attempts:
            del self._requests[number]
            self.effects.append(Failed(number, request.keys))
            return
        self.effects.append(SetTimer(f"{_RETRY_TIMER}{number}", self.settings.retry, upkeep=True))
        self._on_cast(Cast(request.keys, request.payload, self.node, number, self.node, False, 0))

    def _on_cast(self, cast: Cast) -> None:
        own = self.membership.own_keys(cast.keys, cast.sender if cast.to_successor else None)
        if own:
            self._take(cast, own)
        rest = subtract_runs(cast.keys, own)
        if rest and cast.to_successor:
            back = self.membership.behind_sender(rest, cast.sender)
            if back and self.membership.predecessor is not None:
                passed = Cast(back, cast.payload, cast.origin, cast.number, cast.sender, True, cast.hops + 1)
                self._send(self.membership.predecessor, passed)
                rest = subtract_runs(rest, back)
        if rest:
            self._forward(cast, rest)

    def _forward(self, cast: Cast, keys: Runs) -> None:
        # While the ring changes a message might go round it; whoever sent it will repeat it.
        if cast.hops > 4 * self.keys.ring.bits:
            return
        membership = self.membership
        successor = membership.successors[0]
        if not membership.is_member:
            routes = {successor: keys} if successor != self.node else {}
        else:
            routes = split_keys(self.keys.ring, self.node, membership.routes(), keys)
        for finger, part in routes.items():
            is_next = finger == successor and membership.is_member
            self._send(finger, Cast(part, cast.payload, cast.origin, cast.number, self.node, is_next, cast.hops + 1))

    def _take(self, cast: Cast, keys: Runs) -> None:
        """Do what a cast asks for, as the owner of keys."""
        work = _Work(cast, keys, self._now)
        payload = cast.payload
        if isinstance(payload, Interest):
            self._store((payload,))
            for each in self._copy_holders(keys):
                self._send(each, Replicate(self._begin(work), (payload,)))
        elif isinstance(payload, Occurrence):
            for subscriber, ids in self.store.matches(payload, keys).items():
                if subscriber == self.node:
                    self._on_notification(Notification(0, tuple(ids), payload.event))
                else:
                    self._send(subscriber, Notification(self._begin(work), tuple(ids), payload.event))
        if not work.waiting:
            self._answer(work)

    def _begin(self, work: _Work) -> int:
        """The number of a message on whose answer some work waits."""
        number = self._number()
        work.waiting.add(number)
        self._works[number] = work
        return number

    def _on_answer(self, number: int) -> None:
        work = self._works.pop(number, None)
        if work is None:
            return
        work.waiting.remove(number)
        if not work.waiting:
            self._answer(work)

    def _answer(self, work: _Work) -> None:
        membership, cast = self.membership, work.cast
        answer = Taken(cast.number, work.keys, membership.predecessor, tuple(membership.successors), cast.hops)
        if cast.origin == self.node:
            self._on_taken(self.node, answer)
        else:
            self._send(cast.origin, answer)

    def _on_taken(self, owner: int, answer: Taken) -> None:
        self.membership.remember(owner, answer.predecessor)
        if answer.number == self._place_request:
            self.membership.on_place_found(owner, answer)
            return
        request = self._requests.get(answer.number)
        if request is None:
            return
        if request.finger is not None:
            del self._requests[answer.number]
            self.membership.on_finger_found(request.finger, owner, answer.predecessor)
            return
        request.keys = subtract_runs(request.keys, answer.keys)
        if not request.keys:
            del self._requests[answer.number]
            self.effects.append(Confirmed(answer.number))

    # Interests

    def _install(self, interest: Interest) -> int:
        self._renew_at[interest.id] = self._now + interest.lease_seconds / 3
        return self._request(interest, self.keys.positions_of(interest.arcs))

    def _store(self, interests: tuple[Interest, ...]) -> None:
        for each in interests:
            self.store.store(each, self._now)

    def _copy_holders(self, keys: Runs) -> list[int]:
        """The nodes that store what this one owns, and the one to which an arc is being transferred."""
        holders = [each for each in self.membership.successors[: self.settings.replicas - 1] if each != self.node]
        joining = self.membership.joining
        if joining is not None and joining not in holders and intersect_runs(keys, self.membership.transferred_keys()):
            holders.append(joining)
        return holders

    def _send_copies(self, to: int) -> None:
        low = self.membership.predecessor
        if low is not None and self.membership.is_member:
            self._send(to, Copies(low, self.store.within(self.keys.ring.arc(low, self.node))))

    def _on_notification(self, message: Notification) -> None:
        for id in message.ids:
            had = self._had.get(id)
            if had is None or message.event.id in had:
                continue
            had[message.event.id] = None
            if len(had) > _MAX_REMEMBERED_EVENTS:
                had.popitem(last=False)
            self.effects.append(Deliver(id, message.event))

    # Maintenance

    def _maintain(self) -> None:
        self.effects.append(SetTimer(_UPKEEP_TIMER, self.settings.period, upkeep=True))
        self.store.expire(self._now)
        self._give_up_work()
        membership = self.membership
        if not membership.is_member:
            self._ask_for_place()
        membership.stabilise()
        if not membership.is_member:
            return
        power = membership.next_finger()
        if power is not None:
            position = membership.finger_position(power)
            self._request(Lookup(), ((position, position),), finger=power)
        if membership.predecessor is not None:
            digest = Digest(
                membership.predecessor, self.store.digest(self.keys.ring.arc(membership.predecessor, self.node))
            )
            for each in self._copy_holders(()):
                self._send(each, digest)
        for id in [id for id, at in self._renew_at.items() if at <= self._now]:
            before = self._mine[id]
            renewed = Interest(id, before.version + 1, self.node, before.wanted, before.arcs, before.lease_seconds)
            self._mine[id] = renewed
            self._install(renewed)

    def _give_up_work(self) -> None:
        """Forget work whose answers never came: whoever asked for it has asked again."""
        oldest = self._now - self.settings.retry * self.settings.attempts
        for number in [number for number, work in self._works.items() if work.began_at < oldest]:
            del self._works[number]

    def _ask_for_place(self) -> None:
        """Ask the contact who owns this peer's own position; again in every period, until somebody answers."""
        if self._joins_by is None or self.membership.successors[0] != self.node:
            return
        if self._place_request is None:
            self._place_request = self._number()
        self._send(self._joins_by, lookup(self.node, self.node, self._place_request))

    def _number(self) -> int:
        self._next_number += 1
        return self._next_number

    def _send(self, to: int, message: Message) -> None:
        self.effects.append(Send(to, message))
