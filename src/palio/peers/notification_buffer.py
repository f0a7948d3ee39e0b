"""Buffering and collecting of notifications (Baldoni et al. §4.4): fewer, longer messages for some delay.

A node that buffers holds its notifications back for a period, and sends each subscriber one message. Where it collects
too, the nodes on which a subscription is spread hand their notifications from neighbour to neighbour towards the one in
the middle of its keys, the *agent*, and it alone writes to the subscriber; what neighbours hand to each other is one
message for all subscriptions. An agent that is far away is not waited for: after a few steps a notification goes to its
subscriber from where it is.

Every notification is answered the way it came, so that an owner still knows when a subscriber has an event. Answers
wait for the end of the period too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, TypeAlias

from msgspec.structs import replace

from palio.peers.messages import Collect, Collected, Notification, Notifications, Notified

MAX_COLLECT_STEPS: Final = 4
_MAX_BUFFERED: Final = 16_384  # notifications, with which a node does not wait any longer
_MAX_IN_MESSAGE: Final = 256

NextStep: TypeAlias = Callable[[int], int | None]  # the neighbour towards an agent; None is this node itself
Outgoing: TypeAlias = list[tuple[int, Notification | Notifications | Collect | Notified]]


class NotificationBuffer:
    """What one node holds back, and the way back of what it has taken over from others."""

    def __init__(self) -> None:
        self._waiting: list[Collected] = []
        self._answers: dict[int, list[int]] = {}  # numbers, by those who wait for them
        self._taken: dict[int, tuple[int, int]] = {}  # from others: who sent it, and its number there
        self._handed_on: dict[int, Notification] = {}  # own ones, which others carry on

    def __len__(self) -> int:
        return len(self._waiting)

    @property
    def is_empty(self) -> bool:
        return not (self._waiting or self._answers)

    @property
    def is_full(self) -> bool:
        return len(self._waiting) >= _MAX_BUFFERED

    def add(self, subscriber: int, agent: int | None, notification: Notification, steps: int = 0) -> None:
        self._waiting.append(Collected(subscriber, agent, steps, notification))

    def take_over(self, sender: int, entry: Collected, number: int) -> Notification:
        """Carry a notification of another node on, under a number of this one."""
        self._taken[number] = sender, entry.notification.number
        return replace(entry.notification, number=number)

    def add_answer(self, to: int, number: int) -> None:
        self._answers.setdefault(to, []).append(number)

    def flush(self, next_step: NextStep) -> Outgoing:
        """All that waits, with whom it goes to."""
        waiting, self._waiting = self._waiting, []
        answers, self._answers = self._answers, {}
        direct: dict[int, list[Notification]] = {}
        handed_on: dict[int, list[Collected]] = {}
        for each in waiting:
            far = each.agent is None or each.steps >= MAX_COLLECT_STEPS
            to = None if far or each.agent is None else next_step(each.agent)
            if to is None:
                direct.setdefault(each.subscriber, []).append(each.notification)
            else:
                if each.notification.number not in self._taken:
                    self._handed_on[each.notification.number] = each.notification
                handed_on.setdefault(to, []).append(each)
        found: Outgoing = []
        for to, notifications in direct.items():
            for start in range(0, len(notifications), _MAX_IN_MESSAGE):
                part = tuple(notifications[start : start + _MAX_IN_MESSAGE])
                found.append((to, part[0] if len(part) == 1 else Notifications(part)))
        for to, entries in handed_on.items():
            for start in range(0, len(entries), _MAX_IN_MESSAGE):
                found.append((to, Collect(tuple(entries[start : start + _MAX_IN_MESSAGE]))))
        found += [(to, Notified(tuple(numbers))) for to, numbers in answers.items()]
        return found

    def was_taken(self, number: int) -> bool:
        return number in self._taken

    def way_back(self, numbers: Iterable[int]) -> dict[int, tuple[int, ...]]:
        """The numbers of others under which they wait, by node, for numbers that are done or cannot be."""
        found: dict[int, list[int]] = {}
        for number in numbers:
            pair = self._taken.pop(number, None)
            if pair is not None:
                found.setdefault(pair[0], []).append(pair[1])
        return {node: tuple(each) for node, each in found.items()}

    def undelivered(self, number: int) -> Notification | None:
        """An own notification that others could not deliver."""
        return self._handed_on.pop(number, None)

    def forget(self, number: int) -> None:
        """An own notification is done."""
        self._handed_on.pop(number, None)

    def forget_before(self, number: int) -> None:
        """Give up what was taken over long ago: whoever published it asks again."""
        self._taken = {each: way for each, way in self._taken.items() if each >= number}
        self._handed_on = {each: kept for each, kept in self._handed_on.items() if each >= number}
