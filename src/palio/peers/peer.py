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

from collections.abc import Callable
from typing import Final

from msgspec.structs import replace

from palio.events import Event
from palio.filters.filter import Filter
from palio.peers.casts import RETRY_TIMER, Casts
from palio.peers.key_space import KeySpace
from palio.peers.messages import (
    Agreed,
    AskInterests,
    AskNeighbours,
    Cast,
    Collect,
    Copies,
    Digest,
    Interest,
    Leave,
    Message,
    Neighbours,
    Notification,
    Notifications,
    Notified,
    Notify,
    Occurrence,
    Released,
    Replicate,
    Replicated,
    Shed,
    Taken,
    Transfer,
    Transferred,
    Undelivered,
)
from palio.peers.notifier import FLUSH_TIMER, Notifier
from palio.peers.owner_work import OwnerWork
from palio.peers.peer_context import PeerContext, PeerSettings
from palio.peers.replication import Replication
from palio.peers.ring import Runs

_UPKEEP_TIMER: Final = "upkeep"


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
        context = self._context = PeerContext(node, keys, settings, incarnation, host_of)
        self.node = node
        self.keys = keys
        self.settings = settings
        self.effects = context.effects
        self.membership = context.membership
        self.store = context.store
        self._replication = Replication(context, self._on_answer)
        self._notifier = Notifier(context, self._on_answer, self._on_subscriber_away)
        self._deliveries = self._notifier.deliveries
        self._casts = Casts(context, self._take)
        self._work = OwnerWork(context, self._replication, self._notifier, self._casts.on_taken)
        self._mine: dict[str, Interest] = {}
        self._renew_at: dict[str, float] = {}

    def _on_answer(self, number: int) -> None:
        self._work.on_answer(number)

    def _on_subscriber_away(self, message: Notification) -> None:
        self._work.on_subscriber_away(message)

    def _take(self, cast: Cast, keys: Runs) -> None:
        self._work.take(cast, keys)

    # What this peer's own client asks for

    def found_ring(self) -> None:
        """Be the first peer of a ring."""
        self.membership.found_ring()
        self.start()

    def join(self, *contacts: int) -> None:
        """Join the ring of other peers, by one after the other until one answers."""
        self._casts.join_by(contacts)
        self.start()
        self._casts.ask_for_place()

    def add_contact(self, contact: int) -> None:
        """Name another peer to join by, where those named before are gone."""
        self._casts.join_by((contact,))

    def start(self, after: float | None = None) -> None:
        """Begin maintenance after some seconds, by default after a whole period."""
        self._context.set_timer(_UPKEEP_TIMER, self.settings.period if after is None else after, upkeep=True)

    def leave(self) -> None:
        """Hand over what this peer stores, and leave the ring; durable subscriptions stay."""
        for id in [id for id, each in self._mine.items() if not each.durable]:
            self.unsubscribe(id)
        self._notifier.flush_to_subscribers()
        low = self.membership.predecessor
        arc = self.keys.ring.arc(self.node if low is None else low, self.node)
        # Other nodes of this host leave as well: the first one behind them takes over.
        host_of = self._context.host_of
        own = host_of(self.node)
        heir = next((each for each in self.membership.successors if host_of(each) != own), self.node)
        self.membership.leave(heir, *self.store.stored(arc))

    def subscribe(self, id: str, wanted: Filter, now: float, *, durable: bool = False) -> int:
        """Subscribe, or change a subscription; the number that `Confirmed` will have."""
        self._context.now = now
        lease = self.settings.durable_lease if durable else self.settings.lease
        arcs = self.keys.arcs_of(wanted)
        interest = Interest(id, self._context.number(), self.node, wanted, arcs, lease, durable=durable)
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
        version = self._context.number()
        ended = replace(before, version=version, lease_seconds=self.settings.lease, has_ended=True)
        return self._casts.request(ended, self.keys.positions_of(ended.arcs))

    def publish(self, event: Event) -> int:
        """Publish an event; the number that `Confirmed` will have."""
        keys = self.keys.keys_of(event)
        return self._casts.request(Occurrence(event, keys), self.keys.positions_of_keys(keys))

    def _install(self, interest: Interest) -> int:
        self._renew_at[interest.id] = self._context.now + self.settings.lease / 3
        return self._casts.request(interest, self.keys.positions_of(interest.arcs))

    # What whoever runs it calls

    def on_message(self, sender: int, message: Message, now: float) -> None:
        self._context.now = now
        match message:
            case Cast():
                self._casts.on_cast(message)
            case Taken():
                self._casts.on_taken(sender, message)
            case AskNeighbours() | Neighbours() | Notify() | Transfer() | Transferred() | Leave():
                self._on_membership(sender, message)
            case Replicate() | Replicated() | Digest() | Agreed() | AskInterests() | Copies() | Released():
                self._replication.on_message(sender, message)
            case Shed():
                self._work.on_shed(sender, message)
            case Notification() | Notifications() | Notified() | Collect() | Undelivered():
                self._notifier.on_message(sender, message)

    def _on_membership(
        self, sender: int, message: AskNeighbours | Neighbours | Notify | Transfer | Transferred | Leave
    ) -> None:
        membership = self.membership
        match message:
            case AskNeighbours():
                self._context.send(sender, Neighbours(membership.predecessor, tuple(membership.successors)))
            case Neighbours():
                membership.on_neighbours(sender, message)
            case Notify():
                membership.on_notify(sender, message, self.store.stored)
            case Transfer():
                self._replication.store(message.interests, message.kept)
                membership.on_transfer(sender, message)
            case Transferred():
                membership.on_transferred(sender)
            case Leave():
                self._replication.store(message.interests, message.kept)
                membership.on_leave(sender, message)

    def on_unreachable(self, peer: int, message: Message, now: float) -> None:
        """A message could not be delivered."""
        self._context.now = now
        self.membership.forget(peer)
        self._context.shedding.forget(peer)
        match message:
            case Shed():
                self._work.on_shed_unreachable(message)
            case Cast():
                self._casts.forward(message, message.keys)
            case Notification():
                self._work.on_subscriber_away(message)
            case Notifications():
                for each in message.notifications:
                    self._work.on_subscriber_away(each)
            case Collect():
                self._notifier.on_collect_unreachable(message)
            case Replicate():
                self._work.on_answer(message.number)  # the copy is made elsewhere by the next digest

    def on_timer(self, name: str, now: float) -> None:
        self._context.now = now
        if name == _UPKEEP_TIMER:
            self._maintain()
        elif name == FLUSH_TIMER:
            self._notifier.flush()
        else:
            self._casts.retry(int(name.removeprefix(RETRY_TIMER)))

    def on_delivered(self, receipt: int) -> None:
        """Whoever runs this peer has stored an event that it was to deliver."""
        self._deliveries.on_delivered(receipt)

    def on_refused(self, receipt: int) -> None:
        """Whoever runs this peer could not store an event: it comes again."""
        self._deliveries.on_refused(receipt)

    def _maintain(self) -> None:
        self._context.set_timer(_UPKEEP_TIMER, self.settings.period, upkeep=True)
        self.store.expire(self._context.now)
        self._work.give_up()
        if not self.membership.is_member:
            self._casts.ask_for_place()
        self.membership.stabilise()
        if not self.membership.is_member:
            return
        self._casts.look_up_next_finger()
        self._replication.maintain()
        for id in [id for id, at in self._renew_at.items() if at <= self._context.now]:
            self._mine[id] = replace(self._mine[id], version=self._context.number())
            self._install(self._mine[id])
