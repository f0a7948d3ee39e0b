"""Announcements to all brokers: flooded over the tree; the highest version of a topic holds."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from palio.routing.effects import Effect, Send
from palio.routing.forwarding.strategy import Forwarding
from palio.routing.messages import LOCAL, Announce

ROUTING_TREES_TOPIC: Final = "trees"
OPTIMISER_TIMER: Final = "trees"  # of the broker that announces them

_MAX_NUMBER_DIGITS: Final = 20


def broker_of(topic: str, prefix: str) -> int | None:
    """The broker that a topic names after a prefix; None where it is another topic."""
    number = topic.removeprefix(prefix)
    is_number = number != topic and number.isdecimal() and len(number) <= _MAX_NUMBER_DIGITS
    return int(number) if is_number else None


class Announcements:
    """The announcements known to one broker."""

    __slots__ = ("_effects", "_forwarding", "_known")

    def __init__(self, forwarding: Forwarding, effects: list[Effect]) -> None:
        self._forwarding = forwarding
        self._effects = effects
        self._known: dict[str, Announce] = {}

    def open_link(self, link: int) -> None:
        """Send a new neighbour all that was announced."""
        self._effects += [Send((link,), each) for each in self._known.values()]

    def use(self, forwarding: Forwarding) -> None:
        """Pass all that was announced, and what will be, to another forwarding."""
        self._forwarding = forwarding
        for each in self._known.values():
            forwarding.on_announcement(each.topic, each.version, each.data)

    def get(self, topic: str) -> Announce | None:
        return self._known.get(topic)

    def announce(self, topic: str, data: bytes, links: Iterable[int]) -> None:
        """Announce for this broker, as a version above all that it knows."""
        known = self._known.get(topic)
        self.receive(LOCAL, Announce(topic, 1 if known is None else known.version + 1, data), sorted(links))

    def receive(self, interface: int, message: Announce, others: Iterable[int]) -> bool:
        """Take an announcement; whether it is new: one that is goes on over all other links."""
        known = self._known.get(message.topic)
        # Two parts of a network may have announced one version each: all brokers take the same of the two.
        if known is not None and (known.version, known.data) >= (message.version, message.data):
            return False
        self._known[message.topic] = message
        self._forwarding.on_announcement(message.topic, message.version, message.data)
        links = tuple(others)
        if links:
            self._effects.append(Send(links, message))
        return True
