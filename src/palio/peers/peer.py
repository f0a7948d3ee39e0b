"""Peer: a node of a ring that stores, matches and notifies, a deterministic object without I/O.

A subscription goes by m-cast to the owners of its keys, each of which stores it with copies at its next successors. An
event goes to the owners of its keys; each matches it with what it stores and notifies the subscribers. Whoever sends
something by m-cast repeats it for the keys that nobody answered for. An owner answers for a subscription when all
copies are stored, and for an event when all subscribers were notified. So what a crash interrupts is done again by
whoever owns the keys then, and a subscriber recognises an event that it has had.

For a durable subscription whose peer cannot be reached, an owner answers when the event is kept, with copies, until the
subscription is renewed: by the same peer, or by one that has come back at another position.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from msgspec.structs import replace

from palio.events import Event
from palio.filters.filter import Filter
from palio.peers.chord import Membership, lookup
from palio.peers.deliveries import Deliveries
from palio.peers.interest_store import InterestStore
from palio.peers.key_space import KeySpace
from palio.peers.load_shedding import LoadShedding
from palio.peers.messages import (
    Agreed,
    AskInterests,
    AskNeighbours,
    Cast,
    Collect,
    Confirmed,
    Copies,
    Digest,
    Effect,
    Failed,
    Interest,
    Kept,
    Leave,
    Lookup,
    Message,
    Neighbours,
    Notification,
    Notifications,
    Notified,
    Notify,
    Occurrence,
    Payload,
    Released,
    Replicate,
    Replicated,
    Send,
    SetTimer,
    Shed,
    Taken,
    Transfer,
    Transferred,
    Undelivered,
    identity,
)
from palio.peers.multicast import split_keys
from palio.peers.notification_buffer import MAX_COLLECT_STEPS, NotificationBuffer
from palio.peers.ring import Runs, intersect_runs, subtract_runs, union_runs

_UPKEEP_TIMER: Final = "upkeep"
_RETRY_TIMER: Final = "retry "
_FLUSH_TIMER: Final = "flush"
_COPY_GRACE_PERIODS: Final = 20  # of maintenance, in which the owner of a copy has not been heard of
_NEW_ARC_PERIODS: Final = 4  # in which the owner of an arc asks those with copies for what it may lack
_RELEASE_WINDOW_EVENTS: Final = 64  # kept events of one subscription that are under way to its peer


@dataclass(frozen=True, slots=True)
class PeerSettings:
    """Settings that all peers of a ring share; seconds where nothing else is said."""

    replicas: int = 3  # nodes that store an interest, its owner included
    successors: int = 8
    period: float = 1.0  # between two rounds of maintenance
    retry: float = 2.0  # after which keys without an answer are asked for again
    attempts: int = 20
    lease: float = 60.0  # of a subscription; it is renewed after a third of it
    durable_lease: float = 7 * 86_400.0  # of a durable one, whose peer may be away
    buffer: float = 0.0  # in which notifications are held back, to be sent together
    shed_above: int = 0  # events of a node in a period, above which it leaves some to its neighbours; 0 is never
    collects: bool = False  # whether those of one subscription are collected by the node in the middle of its keys

    @property
    def patience(self) -> float:
        """After which keys without an answer are asked for again, however long notifications are held back."""
        return self.retry + self.buffer * (MAX_COLLECT_STEPS + 2 if self.collects else 2)


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
    owner: int | None = None  # of the keys, if it is another peer
    waiting: set[int] = field(default_factory=set)  # numbers of messages without an answer


class Peer:
    """One peer. Every call appends to `effects`, which whoever runs it carries out and clears."""

    def __init__(
        self,
        node: int,
        keys: KeySpace,
        settings: PeerSettings,
        incarnation: int = 0,
        host_of: Callable[[int], int] = lambda node: node,
    ) -> None:
        """`incarnation` is larger in each life of one that comes back with the same ids of subscriptions. A host may
        have several nodes (virtual nodes), which crash together: copies go to other hosts.
        """
        self.node = node
        self.keys = keys
        self.settings = settings
        self.effects: list[Effect] = []
        self.membership = Membership(keys.ring, node, settings.successors, self.effects)
        self.store = InterestStore(keys)
        self._mine: dict[str, Interest] = {}
        self._deliveries = Deliveries(self.effects, self._number, self._answer_notification)
        self._buffer = NotificationBuffer()
        self._shedding = LoadShedding(settings.shed_above)
        self._host_of = host_of
        self._renew_at: dict[str, float] = {}
        self._requests: dict[int, _Request] = {}
        self._works: dict[int, _Work] = {}
        self._releasing: dict[int, tuple[str, str]] = {}  # numbers of notifications of kept events
        self._next_number = incarnation << 32
        self._digested: dict[int, tuple[int, float]] = {}  # arcs of which this peer has copies: low end, and last heard
        self._swept_at: float | None = None
        self._low: int | None = None  # end of the own arc at the last round of maintenance
        self._grew_at = 0.0
        self._released_before = 0  # numbers up to this one are of an earlier round of maintenance
        self._contacts: deque[int] = deque()
        self._place_request: int | None = None
        self._checked_at = 0.0  # when what was taken over before was given up
        self._checked_number = 0
        self._now = 0.0

    # What this peer's own client asks for

    def found_ring(self) -> None:
        """Be the first peer of a ring."""
        self.membership.found_ring()
        self.start()

    def join(self, *contacts: int) -> None:
        """Join the ring of other peers, by one after the other until one answers."""
        self._contacts.extend(contacts)
        self.start()
        self._ask_for_place()

    def add_contact(self, contact: int) -> None:
        """Name another peer to join by, where those named before are gone."""
        if contact not in self._contacts:
            self._contacts.append(contact)

    def start(self, after: float | None = None) -> None:
        """Begin maintenance after some seconds, by default after a whole period."""
        first = self.settings.period if after is None else after
        self.effects.append(SetTimer(_UPKEEP_TIMER, first, upkeep=True))

    def leave(self) -> None:
        """Hand over what this peer stores, and leave the ring; durable subscriptions stay."""
        for id in [id for id, each in self._mine.items() if not each.durable]:
            self.unsubscribe(id)
        self._flush(lambda agent: None)
        low = self.membership.predecessor
        arc = self.keys.ring.arc(self.node if low is None else low, self.node)
        # Other nodes of this host leave as well: the first one behind them takes over.
        own = self._host_of(self.node)
        heir = next((each for each in self.membership.successors if self._host_of(each) != own), self.node)
        self.membership.leave(heir, *self.store.stored(arc))

    def subscribe(self, id: str, wanted: Filter, now: float, *, durable: bool = False) -> int:
        """Subscribe, or change a subscription; the number that `Confirmed` will have."""
        self._now = now
        lease = self.settings.durable_lease if durable else self.settings.lease
        arcs = self.keys.arcs_of(wanted)
        interest = Interest(id, self._number(), self.node, wanted, arcs, lease, durable=durable)
        self._mine[id] = interest
        self._deliveries.begin(id)
        return self._install(interest)

    def has(self, id: str) -> bool:
        """Whether there is a subscription of this peer's client."""
        return id in self._mine

    def unsubscribe(self, id: str) -> int:
        """End a subscription; nothing of it is delivered any more."""
        before = self._mine.pop(id)
        self._deliveries.end(id)
        self._renew_at.pop(id, None)
        ended = replace(before, version=self._number(), lease_seconds=self.settings.lease, has_ended=True)
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
            case Replicate() | Replicated() | Digest() | Agreed() | AskInterests() | Copies() | Released():
                self._on_replication(sender, message)
            case Shed():
                self._on_shed(sender, message)
            case Notification() | Notifications() | Notified() | Collect() | Undelivered():
                self._on_notification(sender, message)

    def _on_replication(
        self,
        sender: int,
        message: Replicate | Replicated | Digest | Agreed | AskInterests | Copies | Released,
    ) -> None:
        match message:
            case Replicate():
                self._store(message.interests, message.kept)
                if message.number:
                    self._send(sender, Replicated(message.number))
                    for each in self.membership.nodes_since(sender):
                        self._send(each, Replicate(0, message.interests, message.kept))
            case Replicated():
                self._on_answer(message.number)
            case Digest():
                self._on_digest(sender, message)
            case Agreed():
                if sender in self._copy_holders(()):
                    self._shedding.agree(sender, message.low, message.load)
            case AskInterests():
                self._shedding.forget(sender)
                self._store(message.interests, message.kept)
                self._send_copies(sender)
            case Copies():
                arc = self.keys.ring.arc(message.low, sender)
                self.store.replace(arc, message.interests, self._now)
                self.store.kept.replace(arc, message.kept)
            case Released():
                self.store.kept.remove(message.pairs)

    def _on_digest(self, sender: int, message: Digest) -> None:
        self._digested[sender] = message.low, self._now
        arc = self.keys.ring.arc(message.low, sender)
        if self.store.digest(arc) != message.digest:
            held = self.store.stored(arc) if message.is_new else ((), ())
            self._send(sender, AskInterests(*held))
        elif message.is_hot:
            self._send(sender, Agreed(message.low, self._shedding.load))

    def _on_notification(
        self, sender: int, message: Notification | Notifications | Notified | Collect | Undelivered
    ) -> None:
        match message:
            case Notification():
                self._deliveries.on_notification(sender, message)
            case Notifications():
                for notification in message.notifications:
                    self._deliveries.on_notification(sender, notification)
            case Notified():
                self._on_notified(message.numbers)
            case Collect():
                self._on_collect(sender, message)
            case Undelivered():
                self._on_undelivered(message.numbers)

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
                membership.on_notify(sender, message, self.store.stored)
            case Transfer():
                self._store(message.interests, message.kept)
                membership.on_transfer(sender, message)
            case Transferred():
                membership.on_transferred(sender)
            case Leave():
                self._store(message.interests, message.kept)
                membership.on_leave(sender, message)

    def on_unreachable(self, peer: int, message: Message, now: float) -> None:
        """A message could not be delivered."""
        self._now = now
        self.membership.forget(peer)
        self._shedding.forget(peer)
        match message:
            case Shed():
                if not message.back:
                    self._take(message.cast, message.cast.keys)
            case Cast():
                self._forward(message, message.keys)
            case Notification():
                self._on_subscriber_away(message)
            case Notifications():
                for each in message.notifications:
                    self._on_subscriber_away(each)
            case Collect():
                for entry in message.entries:  # its subscriber is told from here
                    self._hold_back(entry.subscriber, None, entry.notification)
            case Replicate():
                self._on_answer(message.number)  # the copy is made elsewhere by the next digest

    def on_timer(self, name: str, now: float) -> None:
        self._now = now
        if name == _UPKEEP_TIMER:
            self._maintain()
        elif name == _FLUSH_TIMER:
            self._flush(self._next_step)
        else:
            self._retry(int(name.removeprefix(_RETRY_TIMER)))

    # m-cast

    def _request(self, payload: Payload, keys: Runs, finger: int | None = None) -> int:
        number = self._number()
        if not keys:
            self.effects.append(Confirmed(number))  # a condition that can never match has no keys
            return number
        self._requests[number] = _Request(payload, keys, finger)
        self.effects.append(SetTimer(f"{_RETRY_TIMER}{number}", self.settings.patience, upkeep=True))
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
        self.effects.append(SetTimer(f"{_RETRY_TIMER}{number}", self.settings.patience, upkeep=True))
        self._on_cast(Cast(request.keys, request.payload, self.node, number, self.node, False, 0))

    def _on_cast(self, cast: Cast) -> None:
        own = self.membership.own_keys(cast.keys, cast.sender if cast.to_successor else None)
        if own and not self._is_shed(cast, own):
            self._take(cast, own)
        rest = subtract_runs(cast.keys, own)
        back = self.membership.behind_sender(rest, cast.sender) if cast.sender != self.node else ()
        if back and self.membership.predecessor is not None:
            if not cast.to_successor and cast.hops:  # a newcomer that looks for its place has no fingers
                # The sender's finger is out of date. Uncorrected, both could pass the keys to each other for ever.
                neighbours = Neighbours(self.membership.predecessor, tuple(self.membership.successors))
                self._send(cast.sender, neighbours)
            elif cast.to_successor:
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

    def _is_shed(self, cast: Cast, keys: Runs) -> bool:
        """Whether another peer matches an event in this one's place."""
        if not isinstance(cast.payload, Occurrence):
            return False
        self._shedding.count()
        node = self._shedding.next_node(self.membership.predecessor)
        if node is not None:
            self._send(
                node, Shed(Cast(keys, cast.payload, cast.origin, cast.number, cast.sender, False, cast.hops + 1))
            )
        return node is not None

    def _on_shed(self, sender: int, message: Shed) -> None:
        if not message.back:
            self._take(message.cast, message.cast.keys, sender)
            return
        own = self.membership.own_keys(message.cast.keys)
        if own:  # whatever is another's by now, its publisher asks for again
            self._take(message.cast, own)

    def _take(self, cast: Cast, keys: Runs, owner: int | None = None) -> None:
        """Do what a cast asks for, as the owner of keys or in its place."""
        work = _Work(cast, keys, self._now, owner)
        payload = cast.payload
        if isinstance(payload, Interest):
            self.store.store(payload, self._now)
            holders = self._copy_holders(keys)
            self._shedding.keep(holders)
            for each in holders:
                self._send(each, Replicate(self._begin(work), (payload,)))
            self._release(payload.id)
        elif isinstance(payload, Occurrence):
            for subscriber, ids in self.store.matches(payload, keys).items():
                for agent, some in self._by_agent(ids, payload, keys).items():
                    self._notify(subscriber, Notification(self._begin(work), tuple(some), payload.event), agent)
        if not work.waiting:
            self._answer(work)

    def _by_agent(self, ids: list[str], occurrence: Occurrence, keys: Runs) -> dict[int | None, list[str]]:
        if not (self.settings.buffer and self.settings.collects):
            return {None: ids}
        found: dict[int | None, list[str]] = {}
        for id in ids:
            found.setdefault(self.store.agent_of(id, occurrence, keys), []).append(id)
        return found

    def _begin(self, work: _Work) -> int:
        """The number of a message on whose answer some work waits."""
        number = self._number()
        work.waiting.add(number)
        self._works[number] = work
        return number

    def _on_answer(self, number: int) -> None:
        pair = self._releasing.pop(number, None)
        if pair is not None:
            self._on_released(pair)
            return
        self._buffer.forget(number)
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
        self._renew_at[interest.id] = self._now + self.settings.lease / 3
        return self._request(interest, self.keys.positions_of(interest.arcs))

    def _store(self, interests: tuple[Interest, ...], kept: tuple[Kept, ...] = ()) -> None:
        for each in interests:
            if self._shedding.is_hot and not self.store.knows(each):
                self._shedding.forget()  # those who have copies of the own arc may not have heard of it
            self.store.store(each, self._now)
        self.store.kept.add(kept)

    def _copy_holders(self, keys: Runs) -> list[int]:
        """The nodes that store what this one owns, and the one to which an arc is being transferred."""
        holders: list[int] = []
        hosts = {self._host_of(self.node)}
        for each in self.membership.successors:
            if len(holders) == self.settings.replicas - 1:
                break
            if (host := self._host_of(each)) not in hosts:
                holders.append(each)
                hosts.add(host)
        joining = self.membership.joining
        if joining is not None and joining not in holders and intersect_runs(keys, self.membership.transferred_keys()):
            holders.append(joining)
        return holders

    def _send_copies(self, to: int) -> None:
        low = self.membership.predecessor
        if low is not None and self.membership.is_member:
            self._send(to, Copies(low, *self.store.stored(self.keys.ring.arc(low, self.node))))

    # Notifications

    def _notify(self, subscriber: int, message: Notification, agent: int | None = None) -> None:
        if subscriber == self.node:
            self._deliveries.on_notification(subscriber, message)
        elif self.settings.buffer:
            self._hold_back(subscriber, agent, message)
        else:
            self._send(subscriber, message)

    def on_delivered(self, receipt: int) -> None:
        """Whoever runs this peer has stored an event that it was to deliver."""
        self._deliveries.on_delivered(receipt)

    def on_refused(self, receipt: int) -> None:
        """Whoever runs this peer could not store an event: it comes again."""
        self._deliveries.on_refused(receipt)

    def _answer_notification(self, sender: int, number: int) -> None:
        if sender == self.node:
            self._on_notified((number,))
        elif self.settings.buffer:
            self._set_flush_timer()
            self._buffer.add_answer(sender, number)
        else:
            self._send(sender, Notified((number,)))

    def _on_notified(self, numbers: tuple[int, ...]) -> None:
        for node, back in self._buffer.way_back(numbers).items():
            self._send(node, Notified(back))
        for number in numbers:
            self._on_answer(number)

    # Notifications that are held back, and collected

    def _hold_back(self, subscriber: int, agent: int | None, message: Notification, steps: int = 0) -> None:
        self._set_flush_timer()
        self._buffer.add(subscriber, agent, message, steps)
        if self._buffer.is_full:
            self._flush(self._next_step)

    def _set_flush_timer(self) -> None:
        if self._buffer.is_empty:
            self.effects.append(SetTimer(_FLUSH_TIMER, self.settings.buffer))

    def _flush(self, next_step: Callable[[int], int | None]) -> None:
        for to, message in self._buffer.flush(next_step):
            self._send(to, message)

    def _next_step(self, agent: int) -> int | None:
        """The neighbour that is nearer to the owner of a key; None where this node is that owner, or knows none."""
        membership, ring = self.membership, self.keys.ring
        if not membership.is_member or membership.own_keys(((agent, agent),)):
            return None
        is_before = ring.distance(self.node, agent) <= ring.distance(agent, self.node)
        neighbour = membership.successors[0] if is_before else membership.predecessor
        return None if neighbour == self.node else neighbour

    def _on_collect(self, sender: int, message: Collect) -> None:
        for entry in message.entries:
            taken = self._buffer.take_over(sender, entry, self._number())
            if entry.subscriber == self.node:
                self._deliveries.on_notification(self.node, taken)
            else:
                self._hold_back(entry.subscriber, entry.agent, taken, entry.steps + 1)

    def _on_undelivered(self, numbers: tuple[int, ...]) -> None:
        for node, back in self._buffer.way_back(numbers).items():
            self._send(node, Undelivered(back))
        for number in numbers:
            message = self._buffer.undelivered(number)
            if message is not None:
                self._on_subscriber_away(message)

    # Events that are kept for durable subscriptions

    def _on_subscriber_away(self, message: Notification) -> None:
        """Keep an event for the durable ones of some subscriptions; the others do without it."""
        if self._releasing.pop(message.number, None) is not None:
            return  # it stays kept
        if self._buffer.was_taken(message.number):
            self._on_undelivered((message.number,))
            return
        work = self._works.get(message.number)
        if work is not None and isinstance(work.cast.payload, Occurrence):
            occurrence = work.cast.payload
            if work.owner is not None and any(self.store.is_durable(id) for id in message.ids):
                del self._works[message.number]
                self._send(work.owner, Shed(work.cast, True))  # which keeps it
                return
            met = ((id, self.store.meeting_key(id, occurrence, work.keys)) for id in message.ids)
            kept = tuple(Kept(id, occurrence.event, key) for id, key in met if key is not None)
            self.store.kept.add(kept)
            for each in self._copy_holders(work.keys) if kept else ():
                self._send(each, Replicate(self._begin(work), (), kept))
        self._on_answer(message.number)

    def _release(self, id: str) -> None:
        """Send kept events to the peer of a subscription, some at a time; of those whose keys this peer owns."""
        subscriber = self.store.subscriber_of(id)
        if subscriber is None or not self.store.kept.has(id):
            return
        under_way = {event for each, event in self._releasing.values() if each == id}
        for kept in list(self.store.kept.of(id)):  # what this peer itself has had already is released at once
            if len(under_way) >= _RELEASE_WINDOW_EVENTS:
                break
            if identity(kept.event) in under_way or not self.membership.own_keys(
                self.keys.positions_of_keys((kept.key,))
            ):
                continue
            under_way.add(identity(kept.event))
            number = self._number()
            self._releasing[number] = id, identity(kept.event)
            self._notify(subscriber, Notification(number, (id,), kept.event))

    def _on_released(self, pair: tuple[str, str]) -> None:
        self.store.kept.remove((pair,))
        for each in self._copy_holders(()):
            self._send(each, Released((pair,)))
        if not any(id == pair[0] for id, _ in self._releasing.values()):
            self._release(pair[0])

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
        self._drop_strange_copies()
        self._shedding.on_period()
        if membership.predecessor is not None:
            arc = self.keys.ring.arc(membership.predecessor, self.node)
            is_hot = self._shedding.is_hot
            digest = Digest(membership.predecessor, self.store.digest(arc), self._is_arc_new(), is_hot)
            for each in self._copy_holders(()):
                self._send(each, digest)
        for id in [id for id, at in self._renew_at.items() if at <= self._now]:
            self._mine[id] = replace(self._mine[id], version=self._number())
            self._install(self._mine[id])

    def _is_arc_new(self) -> bool:
        """Whether this peer owns a part of its arc since a few periods only."""
        ring, low, before = self.keys.ring, self.membership.predecessor, self._low
        grew = before is None or low is None or ring.distance(low, self.node) > ring.distance(before, self.node)
        if grew:
            self._grew_at = self._now
        self._low = low
        return self._now - self._grew_at < _NEW_ARC_PERIODS * self.settings.period

    def _drop_strange_copies(self) -> None:
        """Drop what this peer neither owns nor has copies of any more: others have come between it and the owner."""
        grace = _COPY_GRACE_PERIODS * self.settings.period
        if self._swept_at is None or self.membership.predecessor is None:
            self._swept_at = self._now
        if self._now - self._swept_at < grace:
            return
        self._swept_at = self._now
        self._digested = {node: (low, at) for node, (low, at) in self._digested.items() if self._now - at < grace}
        ring = self.keys.ring
        predecessor = self.membership.predecessor
        own = ring.arc(self.node if predecessor is None else predecessor, self.node)
        self.store.retain(union_runs((own, *(ring.arc(low, node) for node, (low, _) in self._digested.items()))))

    def _give_up_work(self) -> None:
        """Forget work whose answers never came: whoever asked for it has asked again."""
        lifetime = self.settings.patience * self.settings.attempts
        for number in [number for number, work in self._works.items() if work.began_at < self._now - lifetime]:
            del self._works[number]
        if self._now - self._checked_at > lifetime:
            self._buffer.forget_before(self._checked_number)
            self._checked_at, self._checked_number = self._now, self._next_number
        self._releasing = {number: pair for number, pair in self._releasing.items() if number > self._released_before}
        self._released_before = self._next_number

    def _ask_for_place(self) -> None:
        """Ask a contact who owns this peer's own position; the next one in every period, until somebody answers."""
        if not self._contacts or self.membership.successors[0] != self.node:
            return
        if self._place_request is None:
            self._place_request = self._number()
        self._send(self._contacts[0], lookup(self.node, self.node, self._place_request))
        self._contacts.rotate(-1)

    def _number(self) -> int:
        self._next_number += 1
        return self._next_number

    def _send(self, to: int, message: Message) -> None:
        self.effects.append(Send(to, message))
