"""Work of one peer as the owner of keys: it stores interests, matches events, and answers when all is done.

An owner answers for an interest when all copies are stored, and for an event when all subscribers were notified, or
when the event is kept, with copies, for a durable subscription whose peer cannot be reached.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from palio.peers.messages import (
    Cast,
    Interest,
    Kept,
    Notification,
    Occurrence,
    Released,
    Replicate,
    Shed,
    Taken,
    identity,
)
from palio.peers.notifier import Notifier
from palio.peers.peer_context import PeerContext
from palio.peers.replication import Replication
from palio.peers.ring import Runs

_RELEASE_WINDOW_EVENTS: Final = 64  # kept events of one subscription that are under way to its peer


@dataclass(slots=True)
class _Work:
    """Something that this peer does for a cast, as the owner of keys."""

    cast: Cast
    keys: Runs
    began_at: float
    owner: int | None = None  # of the keys, if it is another peer
    waiting: set[int] = field(default_factory=set)  # numbers of messages without an answer


class OwnerWork:
    """What one peer does for casts that reached it."""

    def __init__(
        self,
        context: PeerContext,
        replication: Replication,
        notifier: Notifier,
        on_own: Callable[[int, Taken], None],
    ) -> None:
        """`on_own` gets the answers to casts of this peer itself."""
        self._context = context
        self._replication = replication
        self._notifier = notifier
        self._on_own = on_own
        self._works: dict[int, _Work] = {}
        self._releasing: dict[int, tuple[str, str]] = {}  # numbers of notifications of kept events
        self._released_before = 0  # numbers up to this one are of an earlier round of maintenance
        self._checked_at = 0.0  # when what was taken over before was given up
        self._checked_number = 0

    def take(self, cast: Cast, keys: Runs) -> None:
        """Do what a cast asks for, or let another peer match an event in this one's place."""
        if isinstance(cast.payload, Occurrence):
            context = self._context
            context.shedding.count()
            node = context.shedding.next_node(context.membership.predecessor)
            if node is not None:
                left = Cast(keys, cast.payload, cast.origin, cast.number, cast.sender, False, cast.hops + 1)
                context.send(node, Shed(left))
                return
        self._begin_work(cast, keys)

    def on_shed(self, sender: int, message: Shed) -> None:
        """Match an event in the place of the owner of its keys; or, what comes back, as that owner."""
        if not message.back:
            self._begin_work(message.cast, message.cast.keys, sender)
            return
        own = self._context.membership.own_keys(message.cast.keys)
        if own:  # whatever is another's by now, its publisher asks for again
            self._begin_work(message.cast, own)

    def on_shed_unreachable(self, message: Shed) -> None:
        """Whoever was to match an event is gone; one that went back comes again from its publisher."""
        if not message.back:
            self._begin_work(message.cast, message.cast.keys)

    def _begin_work(self, cast: Cast, keys: Runs, owner: int | None = None) -> None:
        context = self._context
        work = _Work(cast, keys, context.now, owner)
        payload = cast.payload
        if isinstance(payload, Interest):
            context.store.store(payload, context.now)
            holders = self._replication.holders(keys)
            context.shedding.keep(holders)
            for each in holders:
                context.send(each, Replicate(self._begin(work), (payload,)))
            self._release(payload.id)
        elif isinstance(payload, Occurrence):
            for subscriber, ids in context.store.matches(payload, keys).items():
                for agent, some in self._by_agent(ids, payload, keys).items():
                    notification = Notification(self._begin(work), tuple(some), payload.event)
                    self._notifier.notify(subscriber, notification, agent)
        if not work.waiting:
            self._answer(work)

    def _by_agent(self, ids: list[str], occurrence: Occurrence, keys: Runs) -> dict[int | None, list[str]]:
        settings = self._context.settings
        if not (settings.buffer and settings.collects):
            return {None: ids}
        found: dict[int | None, list[str]] = {}
        for id in ids:
            found.setdefault(self._context.store.agent_of(id, occurrence, keys), []).append(id)
        return found

    def _begin(self, work: _Work) -> int:
        """The number of a message on whose answer some work waits."""
        number = self._context.number()
        work.waiting.add(number)
        self._works[number] = work
        return number

    def on_answer(self, number: int) -> None:
        """A message is done on whose answer some work may wait."""
        pair = self._releasing.pop(number, None)
        if pair is not None:
            self._on_released(pair)
            return
        self._notifier.forget(number)
        work = self._works.pop(number, None)
        if work is None:
            return
        work.waiting.remove(number)
        if not work.waiting:
            self._answer(work)

    def _answer(self, work: _Work) -> None:
        node, membership, cast = self._context.node, self._context.membership, work.cast
        answer = Taken(cast.number, work.keys, membership.predecessor, tuple(membership.successors), cast.hops)
        if cast.origin == node:
            self._on_own(node, answer)
        else:
            self._context.send(cast.origin, answer)

    def give_up(self) -> None:
        """Forget work whose answers never came: whoever asked for it has asked again."""
        context, lifetime = self._context, self._context.settings.lifetime
        for number in [number for number, work in self._works.items() if work.began_at < context.now - lifetime]:
            del self._works[number]
        if context.now - self._checked_at > lifetime:
            self._notifier.forget_before(self._checked_number)
            self._checked_at, self._checked_number = context.now, context.last_number
        self._releasing = {number: pair for number, pair in self._releasing.items() if number > self._released_before}
        self._released_before = context.last_number

    # Events that are kept for durable subscriptions

    def on_subscriber_away(self, message: Notification) -> None:
        """Keep an event for the durable ones of some subscriptions; the others do without it."""
        context = self._context
        if self._releasing.pop(message.number, None) is not None:
            return  # it stays kept
        if self._notifier.give_back(message.number):
            return
        work = self._works.get(message.number)
        if work is not None and isinstance(work.cast.payload, Occurrence):
            occurrence = work.cast.payload
            if work.owner is not None and any(context.store.is_durable(id) for id in message.ids):
                del self._works[message.number]
                context.send(work.owner, Shed(work.cast, True))  # which keeps it
                return
            met = ((id, context.store.meeting_key(id, occurrence, work.keys)) for id in message.ids)
            kept = tuple(Kept(id, occurrence.event, key) for id, key in met if key is not None)
            context.store.kept.add(kept)
            for each in self._replication.holders(work.keys) if kept else ():
                context.send(each, Replicate(self._begin(work), (), kept))
        self.on_answer(message.number)

    def _release(self, id: str) -> None:
        """Send kept events to the peer of a subscription, some at a time; of those whose keys this peer owns."""
        context, store = self._context, self._context.store
        subscriber = store.subscriber_of(id)
        if subscriber is None or not store.kept.has(id):
            return
        under_way = {event for each, event in self._releasing.values() if each == id}
        for kept in list(store.kept.of(id)):  # what this peer itself has had already is released at once
            if len(under_way) >= _RELEASE_WINDOW_EVENTS:
                break
            if identity(kept.event) in under_way or not context.membership.own_keys(
                context.keys.positions_of_keys((kept.key,))
            ):
                continue
            under_way.add(identity(kept.event))
            number = context.number()
            self._releasing[number] = id, identity(kept.event)
            self._notifier.notify(subscriber, Notification(number, (id,), kept.event))

    def _on_released(self, pair: tuple[str, str]) -> None:
        self._context.store.kept.release((pair,))
        for each in self._replication.holders(()):
            self._context.send(each, Released((pair,)))
        if not any(id == pair[0] for id, _ in self._releasing.values()):
            self._release(pair[0])
