"""Driver of one peer in real time: carries out its effects, and answers what its host asked of the ring."""

from __future__ import annotations

import asyncio
import logging
import time
from collections import Counter
from collections.abc import Callable
from typing import Any, Protocol

from palio.errors import PalioError, Refused
from palio.events import Event
from palio.filters.filter import Filter
from palio.filters.work_limit import WorkLimit, work_limit
from palio.network.log_throttle import LogThrottle
from palio.network.server.pending_requests import OnAnswer
from palio.peers.message_checks import check_message
from palio.peers.messages import Confirmed, Deliver, Effect, Failed, Message, Send, SetTimer
from palio.peers.peer import Peer

log = logging.getLogger("palio.peers")


class Sender(Protocol):
    """What carries messages to other peers."""

    def send(self, to: int, message: Message) -> None: ...


class RingDriver:
    """One peer with its timers."""

    def __init__(
        self,
        peer: Peer,
        sender: Sender,
        on_deliver: Callable[[int, tuple[str, ...], Event], None],
        call_steps: int,
    ) -> None:
        """`on_deliver` gets the receipt of an event; `on_delivered` or `on_refused` is to be called with it."""
        self.peer = peer
        self.counts: Counter[str] = Counter()
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
        """Requests that the ring has not answered yet."""
        return len(self._answers)

    # What the host asks for

    def found_ring(self) -> None:
        self.peer.found_ring()
        self._carry_out()

    def join(self, contact: int) -> None:
        self.peer.join(contact)
        self._carry_out()

    def leave(self) -> None:
        """Hand over what the peer stores."""
        self.peer.leave()
        self._carry_out()

    def subscribe(self, id: str, wanted: Filter, durable: bool, on_answer: OnAnswer) -> None:
        self._request(self.peer.subscribe(id, wanted, time.monotonic(), durable=durable), on_answer)

    def unsubscribe(self, id: str) -> None:
        self.peer.unsubscribe(id)
        self._carry_out()

    def publish(self, event: Event, on_answer: OnAnswer) -> None:
        """Publish; the answer is None when all subscribers have the event, or owners keep it for them."""
        self._request(self.peer.publish(event), on_answer)

    def on_delivered(self, receipt: int) -> None:
        self.peer.on_delivered(receipt)
        self._carry_out()

    def on_refused(self, receipt: int) -> None:
        self.peer.on_refused(receipt)
        self._carry_out()

    def close(self) -> None:
        """Stop, and answer all that is pending with an error."""
        self._is_closed = True
        for timer in self._timers.values():
            timer.cancel()
        answers, self._answers = self._answers, {}
        for on_answer in answers.values():
            on_answer(Refused("the peer is stopping"))

    # Calls of the connections

    def on_message(self, sender: int, message: Message) -> None:
        if self._is_closed:
            return
        self.counts[type(message).__name__] += 1
        self._handle(lambda now: self._take(sender, message, now))

    def _take(self, sender: int, message: Message, now: float) -> None:
        check_message(self.peer.keys, message)
        self.peer.on_message(sender, message, now)

    def on_unreachable(self, to: int, message: Message) -> None:
        if not self._is_closed:
            self._handle(lambda now: self.peer.on_unreachable(to, message, now))

    def _fire(self, name: str) -> None:
        del self._timers[name]
        self._handle(lambda now: self.peer.on_timer(name, now))

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
        effects = self.peer.effects
        while effects:  # carrying one out may lead to others
            pending, effects[:] = list(effects), []
            for effect in pending:
                self._carry_out_one(effect)

    def _carry_out_one(self, effect: Effect) -> None:
        match effect:
            case Send(to, message):
                self._sender.send(to, message)
            case SetTimer(name, after):
                if not self._is_closed:
                    self._timers[name] = self._loop.call_later(after, self._fire, name)
            case Deliver(receipt, ids, event):
                self._on_deliver(receipt, ids, event)
            case Confirmed(number):
                self._answer(number, None)
            case Failed(number, _):
                self._answer(number, Refused("the ring did not answer: too many of its peers are away"))

    def _answer(self, number: int, error: PalioError | None) -> None:
        on_answer = self._answers.pop(number, None)
        if on_answer is not None:
            on_answer(error)

    def describe(self) -> dict[str, Any]:
        """The state of the peer, as plain values."""
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
