"""Notifier: the way of events to the peers of subscribers, and of their answers back.

Notifications go at once, or are held back and collected; see `notification_buffer`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from palio.peers.deliveries import Deliveries
from palio.peers.messages import Collect, Notification, Notifications, Notified, Undelivered
from palio.peers.notification_buffer import NotificationBuffer
from palio.peers.peer_context import PeerContext

FLUSH_TIMER: Final = "flush"


class Notifier:
    """Notifications from one peer and to it."""

    def __init__(
        self, context: PeerContext, on_answer: Callable[[int], None], on_away: Callable[[Notification], None]
    ) -> None:
        """`on_answer` gets the number of an own notification that is done, `on_away` one that cannot be delivered."""
        self._context = context
        self._on_answer = on_answer
        self._on_away = on_away
        self._buffer = NotificationBuffer()
        self.deliveries = Deliveries(context.effects, context.number, self._answer)

    def __len__(self) -> int:
        """Notifications that are held back."""
        return len(self._buffer)

    def notify(self, subscriber: int, message: Notification, agent: int | None = None) -> None:
        """Send an event to the peer of a subscriber; where notifications are collected, by the node of an agent."""
        if subscriber == self._context.node:
            self.deliveries.on_notification(subscriber, message)
        elif self._context.settings.buffer:
            self._hold_back(subscriber, agent, message)
        else:
            self._context.send(subscriber, message)

    def on_message(self, sender: int, message: Notification | Notifications | Notified | Collect | Undelivered) -> None:
        match message:
            case Notification():
                self.deliveries.on_notification(sender, message)
            case Notifications():
                for notification in message.notifications:
                    self.deliveries.on_notification(sender, notification)
            case Notified():
                self._on_notified(message.numbers)
            case Collect():
                self._on_collect(sender, message)
            case Undelivered():
                self._on_undelivered(message.numbers)

    # Answers

    def _answer(self, sender: int, number: int) -> None:
        """Tell the sender of a notification that it is done."""
        if sender == self._context.node:
            self._on_notified((number,))
        elif self._context.settings.buffer:
            self._set_flush_timer()
            self._buffer.add_answer(sender, number)
        else:
            self._context.send(sender, Notified((number,)))

    def _on_notified(self, numbers: tuple[int, ...]) -> None:
        for node, back in self._buffer.way_back(numbers).items():
            self._context.send(node, Notified(back))
        for number in numbers:
            self._on_answer(number)

    def _on_undelivered(self, numbers: tuple[int, ...]) -> None:
        for node, back in self._buffer.way_back(numbers).items():
            self._context.send(node, Undelivered(back))
        for number in numbers:
            message = self._buffer.undelivered(number)
            if message is not None:
                self._on_away(message)

    def give_back(self, number: int) -> bool:
        """Return a notification that was taken over from another node, which cannot be delivered; whether it was."""
        if not self._buffer.was_taken(number):
            return False
        self._on_undelivered((number,))
        return True

    def forget(self, number: int) -> None:
        """An own notification is done."""
        self._buffer.forget(number)

    def forget_before(self, number: int) -> None:
        """Give up what was taken over long ago."""
        self._buffer.forget_before(number)

    # Notifications that are held back, and collected

    def _hold_back(self, subscriber: int, agent: int | None, message: Notification, steps: int = 0) -> None:
        self._set_flush_timer()
        self._buffer.add(subscriber, agent, message, steps)
        if self._buffer.is_full:
            self.flush()

    def _set_flush_timer(self) -> None:
        if self._buffer.is_empty:
            self._context.set_timer(FLUSH_TIMER, self._context.settings.buffer)

    def flush(self) -> None:
        """Send what is held back, each towards its agent."""
        self._flush(self._next_step)

    def flush_to_subscribers(self) -> None:
        """Send what is held back to the subscribers: this peer leaves."""
        self._flush(lambda agent: None)

    def _flush(self, next_step: Callable[[int], int | None]) -> None:
        for to, message in self._buffer.flush(next_step):
            self._context.send(to, message)

    def _next_step(self, agent: int) -> int | None:
        """The neighbour that is nearer to the owner of a key; None where this node is that owner, or knows none."""
        node, membership, ring = self._context.node, self._context.membership, self._context.keys.ring
        if not membership.is_member or membership.own_keys(((agent, agent),)):
            return None
        is_before = ring.distance(node, agent) <= ring.distance(agent, node)
        neighbour = membership.successors[0] if is_before else membership.predecessor
        return None if neighbour == node else neighbour

    def _on_collect(self, sender: int, message: Collect) -> None:
        for entry in message.entries:
            taken = self._buffer.take_over(sender, entry, self._context.number())
            if entry.subscriber == self._context.node:
                self.deliveries.on_notification(self._context.node, taken)
            else:
                self._hold_back(entry.subscriber, entry.agent, taken, entry.steps + 1)

    def on_collect_unreachable(self, message: Collect) -> None:
        """The neighbour nearer to the agents is gone: subscribers are told from here."""
        for entry in message.entries:
            self._hold_back(entry.subscriber, None, entry.notification)
