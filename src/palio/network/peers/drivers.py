"""Drivers of one peer in real time: carry out its effects, and answer what its host asked of the other peers.

A peer is a node of a ring, or one of a semantic overlay. Both have the same calls; what differs is what they promise:
an overlay keeps no event for anybody, so that a durable subscription is refused.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, Protocol, TypeAlias, get_args

from palio.errors import PalioError, Refused, WireError
from palio.events import Event
from palio.filters.filter import Filter
from palio.filters.work_limit import WorkLimit, work_limit
from palio.network.log_throttle import LogThrottle
from palio.network.peers.wire import AnyMessage
from palio.network.server.pending_requests import OnAnswer
from palio.peers.communities import message_checks as community_checks
from palio.peers.communities import messages as community
from palio.peers.communities.community_peer import CommunityPeer
from palio.peers.message_checks import check_message
from palio.peers.messages import Confirmed, Deliver, Effect, Failed, Message, Send, SetTimer
from palio.peers.peer import Peer

log = logging.getLogger("palio.peers")
_RING_MESSAGES: Final = frozenset(get_args(Message))


class Sender(Protocol):
    """What carries messages to other peers."""

    def send(self, to: int, message: AnyMessage) -> None: ...


OnDeliver: TypeAlias = Callable[[int, tuple[str, ...], Event], None]


class PeerDriver:
    """One peer with its timers."""

    def __init__(self, peer: Peer | CommunityPeer, sender: Sender, on_deliver: OnDeliver, call_steps: int) -> None:
        """`on_deliver` gets the receipt of an event; `on_delivered` or `on_refused` is to be called with it."""
        self.counts: Counter[str] = Counter()
        self._node = peer
        self._sender = sender
        self._on_deliver = on_deliver
        self._call_steps = call_steps
        self._answers: dict[int, OnAnswer] = {}
        self._timers: dict[str, asyncio.TimerHandle] = {}
        self._loop = asyncio.get_running_loop()
        self._errors = LogThrottle[str](time.monotonic)
        self._is_closed = False

    @property
    def pending(self) -> int:
        """Requests that the other peers have not answered yet."""
        return len(self._answers)

    @property
    def is_member(self) -> bool:
        """Whether this peer has its place among the others."""
        raise NotImplementedError

    def describe(self) -> dict[str, Any]:
        """The state of the peer, as plain values."""
        raise NotImplementedError

    # What the host asks for

    def found(self) -> None:
        """Be the first peer."""
        self._node.found_ring()
        self._carry_out()

    def join(self, contact: int) -> None:
        self._node.join(contact)
        self._carry_out()

    def add_contact(self, contact: int) -> None:
        """Name another peer to join by."""
        self._node.add_contact(contact)
        self._carry_out()

    def leave(self) -> None:
        """Hand over what the peer stores, or who is below it."""
        self._node.leave()
        self._carry_out()

    def subscribe(self, id: str, wanted: Filter, durable: bool, on_answer: OnAnswer) -> None:
        raise NotImplementedError

    def unsubscribe(self, id: str) -> None:
        if self._node.has(id):  # a peer that has left has ended all; one that was refused never began
            self._node.unsubscribe(id)
            self._carry_out()

    def publish(self, event: Event, on_answer: OnAnswer) -> None:
        """Publish; the answer is None when all that the peer promises is done."""
        self._request(self._node.publish(event), on_answer)

    def on_delivered(self, receipt: int) -> None:
        """Whoever runs the peer has stored an event that was delivered."""

    def on_refused(self, receipt: int) -> None:
        """Whoever runs the peer could not store it."""

    def close(self) -> None:
        """Stop, and answer all that is pending with an error."""
        self._is_closed = True
        for timer in self._timers.values():
            timer.cancel()
        answers, self._answers = self._answers, {}
        for on_answer in answers.values():
            on_answer(Refused("the peer is stopping"))

    # Calls of the connections

    def on_message(self, sender: int, message: AnyMessage) -> None:
        if self._is_closed:
            return
        self.counts[type(message).__name__] += 1
        self._handle(lambda now: self._take(sender, message, now))

    def _take(self, sender: int, message: Any, now: float) -> None:
        """Check a message, and hand it to the peer."""
        raise NotImplementedError

    def on_unreachable(self, to: int, message: Any) -> None:
        if not self._is_closed:
            self._handle(lambda now: self._node.on_unreachable(to, message, now))

    def _fire(self, name: str) -> None:
        self._timers.pop(name, None)  # another of this name may have been set meanwhile
        self._handle(lambda now: self._node.on_timer(name, now))

    def _handle(self, call: Callable[[float], None]) -> None:
        try:
            with work_limit(WorkLimit(self._call_steps)):
                call(time.monotonic())
        except PalioError as error:  # a message that cannot be: nothing of it was done, or it comes again
            count = self._errors.note(type(error).__name__)
            if count:
                log.warning("a message of a peer was dropped", extra={"reason": str(error), "count": count})
        self._carry_out()

    # Effects

    def _request(self, number: int, on_answer: OnAnswer) -> None:
        self._answers[number] = on_answer
        self._carry_out()

    def _carry_out(self) -> None:
        effects: list[Any] = self._node.effects
        while effects:  # carrying one out may lead to others
            pending, effects[:] = list(effects), []
            for effect in pending:
                self._carry_out_one(effect)

    def _carry_out_one(self, effect: Effect | community.Effect) -> None:
        match effect:
            case Send(to, message) | community.Send(to, message):
                self._sender.send(to, message)
            case SetTimer(name, after):
                if not self._is_closed:
                    self._timers[name] = self._loop.call_later(after, self._fire, name)
            case Deliver(receipt, ids, event):
                self._on_deliver(receipt, ids, event)
            case community.Deliver(id, event):
                self._on_deliver(0, (id,), event)
            case community.Useless():
                self.counts["in vain"] += 1
            case Confirmed(number):
                self._answer(number, None)
            case Failed(number, _):
                self._answer(number, Refused("the ring did not answer: too many of its peers are away"))

    def _answer(self, number: int, error: PalioError | None) -> None:
        on_answer = self._answers.pop(number, None)
        if on_answer is not None:
            on_answer(error)


class RingDriver(PeerDriver):
    """A node of a ring. A publication is answered when all subscribers have the event, or owners keep it for them."""

    def __init__(self, peer: Peer, sender: Sender, on_deliver: OnDeliver, call_steps: int) -> None:
        super().__init__(peer, sender, on_deliver, call_steps)
        self.peer = peer

    @property
    def is_member(self) -> bool:
        return self.peer.membership.is_member

    def subscribe(self, id: str, wanted: Filter, durable: bool, on_answer: OnAnswer) -> None:
        self._request(self.peer.subscribe(id, wanted, time.monotonic(), durable=durable), on_answer)

    def on_delivered(self, receipt: int) -> None:
        self.peer.on_delivered(receipt)
        self._carry_out()

    def on_refused(self, receipt: int) -> None:
        self.peer.on_refused(receipt)
        self._carry_out()

    def _take(self, sender: int, message: Any, now: float) -> None:
        if type(message) not in _RING_MESSAGES:
            raise WireError("a message of an overlay that is no ring")
        check_message(self.peer.keys, message)
        self.peer.on_message(sender, message, now)

    def describe(self) -> dict[str, Any]:
        peer = self.peer
        place = peer.membership
        return {
            "position": f"{peer.node:016x}",
            "is_member": place.is_member,
            "predecessor": None if place.predecessor is None else f"{place.predecessor:016x}",
            "successors": [f"{each:016x}" for each in place.successors],
            "known": len(place.routes()),
            "mapping": peer.keys.mapping.name,
            "replicas": peer.settings.replicas,
            "stored": len(peer.store),
            "kept": len(peer.store.kept),
            "kept_dropped": peer.store.kept.dropped,
            "requests": self.pending,
            "received": dict(self.counts),
        }


class CommunityDriver(PeerDriver):
    """A peer of a semantic overlay. A publication is answered when it is on its way."""

    def __init__(
        self, peer: CommunityPeer, overlay: str, sender: Sender, on_deliver: OnDeliver, call_steps: int
    ) -> None:
        super().__init__(peer, sender, on_deliver, call_steps)
        self.peer = peer
        self.overlay = overlay

    @property
    def is_member(self) -> bool:
        return self.peer.is_connected

    def subscribe(self, id: str, wanted: Filter, durable: bool, on_answer: OnAnswer) -> None:
        if durable:
            on_answer(Refused(
                f"in a {self.overlay} overlay nobody keeps events for a subscription whose peer is away; subscribe "
                "without durable, or use a ring (--mapping auto)"
            ))  # fmt: skip
            return
        self._request(self.peer.subscribe(id, wanted, time.monotonic()), on_answer)

    def _take(self, sender: int, message: Any, now: float) -> None:
        if type(message) in _RING_MESSAGES:
            raise WireError("a message of a ring, which this overlay is not")
        community_checks.check_message(sender, message)
        self.peer.on_message(sender, message, now)

    def describe(self) -> dict[str, Any]:
        members = self.peer.members.values()
        return {
            "position": f"{self.peer.node:016x}",
            "is_member": self.is_member,
            "overlay": self.overlay,
            "members": len(members),
            "placed": sum(each.is_placed for each in members),
            "neighbours": sum(each.degree for each in members),
            "requests": self.pending,
            "in_vain": self.counts["in vain"],
            "received": {name: count for name, count in self.counts.items() if name != "in vain"},
        }
