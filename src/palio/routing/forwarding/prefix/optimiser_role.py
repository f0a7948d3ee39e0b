"""Role of the tree optimiser: the broker that has it, the reports that reach it, and the trees that it announces.

All brokers elect one of them (`election`): one that is named by the option `optimiser`, else the lowest-numbered. When
it goes, or the way to it, those that are left elect another, which begins with the tree that is in use. So the role
needs no operator and survives any failure; the source assumes one node that never fails (Jerzak §4.4.1, §10.2).

Filters are no events, so that the source, where one node subscribes to all subscriptions, leaves open how they reach
it. Here brokers report along the way that the election gives: which filters their own clients have, and not which
clients. All is reported when the winner or the way to it changes, differences otherwise. The winner forgets what came
by a link that closes: those behind it report anew when they are back. A lost report costs false positives, never
events.

Trees are built in a background job, which alone touches the optimiser while it runs; reports that come meanwhile wait.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Final

from palio.errors import InvalidArgument
from palio.filters.filter import Filter
from palio.routing.announcements import OPTIMISER_TIMER, ROUTING_TREES_TOPIC, Announcements
from palio.routing.effects import Drop, Effect, Job, Send, SetTimer
from palio.routing.election import Election, candidate_of
from palio.routing.forwarding.prefix.optimiser import TreeOptimiser
from palio.routing.forwarding.prefix.routing_tree import RoutingTree
from palio.routing.forwarding.prefix.tree_version import TreeVersion, decode_tree, encode_tree
from palio.routing.forwarding.strategy import InterestListener
from palio.routing.messages import LOCAL, Announce, Candidate, Key, Report
from palio.routing.strategies import Prefix

_GATHERING_SECONDS: Final = 1.0  # in which brokers report to a new optimiser, before it compares its tree


class InterestReports:
    """Listener that passes on which filters come and go, and reports those of this broker's own clients."""

    __slots__ = ("_added", "_is_complete_due", "_listener", "_node", "_removed", "_to", "_wanted", "way")

    def __init__(self, node: int, listener: InterestListener) -> None:
        self._node = node
        self._listener = listener
        self._wanted: dict[Key, Filter] = {}
        self._added: dict[Key, Filter] = {}
        self._removed: dict[Key, None] = {}
        self._is_complete_due = False
        self._to: Candidate | None = None
        self.way: int | None = None  # the interface behind which the optimiser is

    def lead(self, to: Candidate, way: int) -> None:
        """Report to this broker from now on; reports to another one, or another way, may be lost: all is reported."""
        if (to, way) != (self._to, self.way):
            self._to, self.way = to, way
            self._is_complete_due = True

    def restore(self, wanted: Mapping[Key, Filter]) -> None:
        """Report all filters of this broker's clients, where those that were taken note of are others."""
        if self._wanted != wanted:
            self._wanted = dict(wanted)
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


class OptimiserRole:
    """One broker's part in making routing trees: that of all who report, and that of the one who is elected.

    Options: `optimiser`, whether this broker is to be elected before others (true, or its number), or only where there
    is no other (false); `threshold`, the `wdiff` above which a tree is announced; `interval`, the seconds after which
    one that differs less is announced.
    """

    def __init__(
        self,
        node: int,
        incarnation: int,
        chosen: Prefix,
        listener: InterestListener,
        announcements: Announcements,
        links: Collection[int],
        effects: list[Effect],
    ) -> None:
        self._threshold = chosen.threshold
        if not 0 <= self._threshold < 1:
            raise InvalidArgument(f"trees differ by a share from 0 to less than 1; the threshold is {self._threshold}")
        self._interval = float(chosen.interval)
        self._announcements = announcements
        self._links = links
        self._effects = effects
        self.reports = InterestReports(node, listener)
        self._optimiser: TreeOptimiser | None = None
        self._waiting: list[Report] = []
        self._came_by: dict[int, int] = {}  # the interface of each broker's reports
        self._announced_elsewhere: TreeVersion | None = None
        self._is_gathering = False
        self._is_running = False
        self._is_timer_set = False
        self._is_refresh_due = False
        own = candidate_of(node, incarnation, chosen.optimiser)
        self._election = Election(own, self._on_elected, effects)
        self._on_elected(own, LOCAL)

    @property
    def elected(self) -> int:
        """The number of the broker that makes the trees."""
        return self._election.winner.node

    # Links

    def open_link(self, link: int) -> None:
        self._election.open_link(link)

    def close_link(self, link: int) -> None:
        gone = [node for node, came_by in self._came_by.items() if came_by == link]
        for node in gone:
            del self._came_by[node]
            self._waiting.append(Report(node, True, (), ()))
        self._election.close_link(link)

    def restart_link(self, link: int) -> None:
        self._election.restart_link(link)

    def on_candidate(self, link: int, message: Candidate) -> None:
        self._election.on_candidate(link, message)

    # Reports

    def send_report(self) -> None:
        """Report the changes of interest at this broker since the last call."""
        # A broker without neighbours needs no tree; what changes meanwhile is reported with the first link.
        report = self.reports.report() if self._links else None
        if report is not None:
            self.on_report(LOCAL, report)

    def restore_reports(self, wanted: Mapping[Key, Filter]) -> None:
        """Report the filters of this broker's clients to the winner, in case others or another way were noted."""
        self.reports.lead(self._election.winner, self._election.way)
        self.reports.restore(wanted)

    def on_report(self, interface: int, report: Report) -> None:
        """Take a report, or pass it on towards the broker that is elected, and never back."""
        way = self.reports.way
        if self._optimiser is not None:
            self._came_by[report.node] = interface
            self._waiting.append(report)
        elif way is None or way in (interface, LOCAL):
            self._effects.append(Drop("no way to the optimiser of routing trees", report))
        else:
            self._effects.append(Send((way,), report))

    # Trees

    def on_announcement(self, message: Announce) -> None:
        """Take note of the tree of another broker, which was elected in a part of the network."""
        if self._optimiser is not None:
            # Compared at once: the two parts have joined, and each knows only the filters of its own in its tree. The
            # other broker has resigned before its tree came here, because links keep order.
            self._announced_elsewhere, self._is_refresh_due = _decoded(message), True

    def on_timer(self) -> None:
        self._is_timer_set = False
        self._is_refresh_due = self._optimiser is not None and not self._is_gathering
        self._is_gathering = False

    def work(self) -> Job | None:
        """The job that takes the reports that wait into the tree."""
        if self._optimiser is None or self._is_running or self._is_gathering:
            return None
        if not self._waiting and not self._is_refresh_due:
            return None
        # Not while a job runs, which has the optimiser to itself.
        if self._announced_elsewhere is not None:
            self._optimiser.on_announcement(self._announced_elsewhere)
            self._announced_elsewhere = None
        reports, self._waiting = self._waiting, []
        refresh, self._is_refresh_due, self._is_running = self._is_refresh_due, False, True
        return partial(self._build, self._optimiser, reports, refresh)

    def _build(self, optimiser: TreeOptimiser, reports: list[Report], refresh: bool) -> Callable[[], None]:
        """Runs in any thread; returns what is left to do in the broker's."""
        for report in reports:
            optimiser.on_report(report)
        tree = optimiser.refresh() if refresh else optimiser.update()
        return partial(self._finish, optimiser, None if tree is None else encode_tree(tree), refresh)

    def _finish(self, optimiser: TreeOptimiser, data: bytes | None, was_refresh: bool) -> None:
        if optimiser is not self._optimiser:
            return  # another broker was elected meanwhile, perhaps this one again with a new optimiser
        self._is_running = False
        if data is not None:
            self._announcements.announce(ROUTING_TREES_TOPIC, data, self._links)
        elif not was_refresh:
            self._set_timer()

    def _set_timer(self) -> None:
        if not self._is_timer_set:
            self._is_timer_set = True
            self._effects.append(SetTimer(OPTIMISER_TIMER, self._interval, upkeep=True))

    def _gather(self) -> None:
        """Wait for the reports of all: the tree of the first few is worse than the one in use."""
        self._is_gathering = self._is_timer_set = True
        self._effects.append(SetTimer(OPTIMISER_TIMER, _GATHERING_SECONDS))

    def _on_elected(self, winner: Candidate, way: int) -> None:
        self.reports.lead(winner, way)
        if (way == LOCAL) is (self._optimiser is not None):
            return
        self._waiting, self._came_by, self._announced_elsewhere, self._is_refresh_due = [], {}, None, False
        if way != LOCAL:
            self._optimiser = None
            return
        known = self._announcements.get(ROUTING_TREES_TOPIC)
        self._optimiser = TreeOptimiser(self._threshold, None if known is None else _decoded(known))
        self._is_running = self._is_gathering = False
        if known is not None:
            self._gather()


def _decoded(message: Announce) -> TreeVersion:
    try:
        return decode_tree(message.data)
    except InvalidArgument:
        return TreeVersion.of(RoutingTree(), b"")  # brokers go by the trees that they had before
