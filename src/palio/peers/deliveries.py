"""Deliveries of a peer to its own clients: each event once for each subscription, and answered when it is safe."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from palio.events import Event
from palio.peers.messages import Deliver, Effect, Notification, identity

_MAX_REMEMBERED_EVENTS: Final = 16_384  # of one subscription, by which repeated ones are recognised


@dataclass(slots=True)
class _Delivery:
    """An event that whoever runs this peer is storing, with those who wait for that: sender and number."""

    ids: tuple[str, ...]
    event: Event
    waiting: list[tuple[int, int]]


class Deliveries:
    """Events that came for the own subscriptions, and the memory of those that did."""

    def __init__(
        self, effects: list[Effect], next_number: Callable[[], int], answer: Callable[[int, int], None]
    ) -> None:
        """`answer` is called with the sender and the number of a notification that is done."""
        self._effects = effects
        self._next_number = next_number
        self._answer = answer
        self._had: dict[str, OrderedDict[str, None]] = {}  # by subscription
        self._deliveries: dict[int, _Delivery] = {}  # by receipt
        self._delivering: dict[tuple[str, str], int] = {}  # receipts, by ids of subscription and event

    def begin(self, id: str) -> None:
        """A subscription begins, or changes."""
        self._had.setdefault(id, OrderedDict())

    def end(self, id: str) -> None:
        """A subscription has ended: nothing of it is delivered any more."""
        del self._had[id]

    def on_notification(self, sender: int, message: Notification) -> None:
        new: list[str] = []
        receipt = None
        for id in message.ids:
            had = self._had.get(id)
            if had is None or identity(message.event) in had:
                continue
            receipt = self._delivering.get((id, identity(message.event)), receipt)
            if (id, identity(message.event)) not in self._delivering:
                new.append(id)
        if new:
            receipt = self._next_number()
            self._deliveries[receipt] = _Delivery(tuple(new), message.event, [(sender, message.number)])
            self._delivering.update(((id, identity(message.event)), receipt) for id in new)
            self._effects.append(Deliver(receipt, tuple(new), message.event))
        elif receipt is not None:
            self._deliveries[receipt].waiting.append((sender, message.number))
        else:
            self._answer(sender, message.number)

    def on_delivered(self, receipt: int) -> None:
        """Whoever runs this peer has stored an event that it was to deliver."""
        delivery = self.on_refused(receipt)
        for id in delivery.ids:
            had = self._had.get(id)
            if had is not None:
                had[identity(delivery.event)] = None
                if len(had) > _MAX_REMEMBERED_EVENTS:
                    had.popitem(last=False)
        for sender, number in delivery.waiting:
            self._answer(sender, number)

    def on_refused(self, receipt: int) -> _Delivery:
        """Whoever runs this peer could not store an event: it comes again."""
        delivery = self._deliveries.pop(receipt)
        for id in delivery.ids:
            del self._delivering[id, identity(delivery.event)]
        return delivery
