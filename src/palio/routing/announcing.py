"""How does something reach all brokers, and how do they answer who said it? Announcements go everywhere, the highest
version of a topic holds, and reports go back along the way by which the last one came (`reports`).
"""

from __future__ import annotations

from collections.abc import Iterable

from palio.routing.effects import Client, Drop, Effect, Reply, Send
from palio.routing.forwarding.protocol import Forwarding
from palio.routing.messages import LOCAL, Announce, Report
from palio.routing.reports import TREES, Reports


class Announcing:
    """What was announced to one broker, and the way of its reports, where it makes any."""

    __slots__ = ("_announced", "_forwarding", "_maker", "_reports")

    def __init__(self, forwarding: Forwarding, reports: Reports | None) -> None:
        self._forwarding = forwarding
        self._reports = reports
        self._announced: dict[str, Announce] = {}
        self._maker: Client = ""  # who made the trees, where it is a client of this broker

    def tell(self, link: int) -> list[Effect]:
        """What a neighbour that is new must know."""
        return [Send((link,), each) for each in self._announced.values()]

    def asked(self, client: Client, message: Announce, links: Iterable[int]) -> list[Effect]:
        """A client of this broker announces something."""
        self._maker = client
        return self.heard(LOCAL, message, sorted(links))

    def heard(self, interface: int, message: Announce, others: Iterable[int]) -> list[Effect]:
        """Something was announced; where it is new, it goes on over all other links."""
        known = self._announced.get(message.topic)
        is_new = known is None or known.version < message.version
        if self._reports is not None and message.topic == TREES and (is_new or self._reports.way is None):
            self._reports.lead(interface)
        if not is_new:
            return []
        self._announced[message.topic] = message
        self._forwarding.announced(message.topic, message.version, message.data)
        links = tuple(others)
        return [Send(links, message)] if links else []

    def report(self) -> list[Effect]:
        """What this broker itself has to report since the last call."""
        report = None if self._reports is None else self._reports.report()
        return [] if report is None else self.reported(LOCAL, report)

    def reported(self, interface: int, message: Report) -> list[Effect]:
        """On towards whoever makes the trees, and never back."""
        way = None if self._reports is None else self._reports.way
        if way == LOCAL:
            return [Reply(self._maker, message)]
        if way is None or way == interface:
            return [Drop("no way to who makes the trees", message)]
        return [Send((way,), message)]
