"""Announcements to all brokers, and the reports of their interest back to the announcer.

An announcement is flooded over the tree; the highest version of a topic holds.

Reports are how the optimiser of routing trees "subscribes to subscriptions". Filters are no events, so Jerzak §4.4.1,
where one node subscribes to all subscriptions, leaves open how they reach it. Here the optimiser is a client like any
other, and announces its trees. The way back along which an announcement came leads to its announcer, as the way back
along a subscription leads to a subscriber. Along it brokers report which filters their own clients have, and not which
clients. A lost report costs false positives, never events.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from palio.filters.filter import Filter
from palio.routing.effects import Client, Drop, Effect, Reply, Send
from palio.routing.forwarding.strategy import Forwarding, InterestListener
from palio.routing.messages import LOCAL, Announce, Key, Report

ROUTING_TREES_TOPIC: Final = "trees"


class InterestReports:
    """Listener that passes on which filters come and go, and reports those of this broker's own clients."""

    __slots__ = ("_added", "_is_complete_due", "_listener", "_node", "_removed", "_wanted", "way")

    def __init__(self, node: int, listener: InterestListener) -> None:
        self._node = node
        self._listener = listener
        self._wanted: dict[Key, Filter] = {}
        self._added: dict[Key, Filter] = {}
        self._removed: dict[Key, None] = {}
        self._is_complete_due = False
        self.way: int | None = None  # the interface behind which the announcer is

    def lead(self, way: int) -> None:
        """Send reports this way from now on; those sent another way may be lost, so the next is complete."""
        if way != self.way:
            self.way = way
            self._is_complete_due = True

    def report(self) -> Report | None:
        """The changes since the last call, or all filters where a complete report is due."""
        added, removed, is_complete = self._added, self._removed, self._is_complete_due
        self._added, self._removed = {}, {}
        if self.way is None or not (added or removed or is_complete):
            return None
        self._is_complete_due = False
        if is_complete:
            return Report(self._node, True, tuple(self._wanted.items()), ())
        return Report(self._node, False, tuple(added.items()), tuple(removed))

    # Listener

    def open_link(self, interface: int) -> None:
        self._listener.open_link(interface)

    def close_link(self, interface: int) -> None:
        self._listener.close_link(interface)
        if interface == self.way:
            self.way = None

    def add_filter(self, interface: int, key: Key, wanted: Filter) -> None:
        self._listener.add_filter(interface, key, wanted)
        if interface == LOCAL:
            self._wanted[key] = self._added[key] = wanted
            self._removed.pop(key, None)

    def remove_filter(self, interface: int, key: Key) -> None:
        self._listener.remove_filter(interface, key)
        if interface == LOCAL:
            del self._wanted[key]
            # One that was not reported yet need not be reported as removed.
            if self._added.pop(key, None) is None:
                self._removed[key] = None


class Announcements:
    """The announcements known to one broker, and the way of its reports, where it makes any."""

    __slots__ = ("_announcer", "_effects", "_forwarding", "_known", "_reports", "has_reports")

    def __init__(self, forwarding: Forwarding, reports: InterestReports | None, effects: list[Effect]) -> None:
        self._forwarding = forwarding
        self._reports = reports
        self.has_reports = reports is not None
        self._effects = effects
        self._known: dict[str, Announce] = {}
        self._announcer: Client = ""  # of the routing trees, where it is a client of this broker

    def open_link(self, link: int) -> None:
        """Send a new neighbour all that was announced."""
        self._effects += [Send((link,), each) for each in self._known.values()]

    def announce(self, client: Client, message: Announce, links: Iterable[int]) -> None:
        """Announce for a client of this broker."""
        self._announcer = client
        self.receive(LOCAL, message, sorted(links))

    def receive(self, interface: int, message: Announce, others: Iterable[int]) -> None:
        """Take an announcement; one that is new goes on over all other links."""
        known = self._known.get(message.topic)
        is_new = known is None or known.version < message.version
        # A known announcement gives a way too, where the former one was lost with its link.
        reports = self._reports
        if reports is not None and message.topic == ROUTING_TREES_TOPIC and (is_new or reports.way is None):
            reports.lead(interface)
        if not is_new:
            return
        self._known[message.topic] = message
        self._forwarding.on_announcement(message.topic, message.version, message.data)
        links = tuple(others)
        if links:
            self._effects.append(Send(links, message))

    def send_report(self) -> None:
        """Report the changes of interest at this broker since the last call."""
        report = None if self._reports is None else self._reports.report()
        if report is not None:
            self.forward_report(LOCAL, report)

    def forward_report(self, interface: int, message: Report) -> None:
        """Pass a report on towards the announcer, and never back."""
        way = None if self._reports is None else self._reports.way
        if way == LOCAL:
            self._effects.append(Reply(self._announcer, message))
        elif way is None or way == interface:
            self._effects.append(Drop("no way to the announcer of the routing trees", message))
        else:
            self._effects.append(Send((way,), message))
