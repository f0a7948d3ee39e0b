"""How does one client hear what all others want? The way of the maker of routing trees to "subscribe to subscriptions".

Filters are no events, so Jerzak §4.4.1, where one node subscribes to all subscriptions, leaves open how they reach it.
Here whoever makes the trees is a client like any other, and announces them. An announcement reaches every broker, and
the way back along which it came leads to its maker, as the way back along a subscription leads to a subscriber. Along
it brokers report what their own clients want, and not which clients. One that is lost costs false positives, never
events.
"""

from __future__ import annotations

from typing import Final

from palio.filters.filter import Filter
from palio.routing.forwarding.protocol import Listener
from palio.routing.messages import LOCAL, Key, Report

TREES: Final = "trees"  # the topic under which routing trees are announced


class Reports:
    """Passes on what is wanted to another listener, and remembers what its own clients want."""

    __slots__ = ("_added", "_anew", "_listener", "_node", "_removed", "_wanted", "way")

    def __init__(self, node: int, listener: Listener) -> None:
        self._node = node
        self._listener = listener
        self._wanted: dict[Key, Filter] = {}
        self._added: dict[Key, Filter] = {}
        self._removed: dict[Key, None] = {}
        self._anew = False
        self.way: int | None = None  # the interface behind which reports are wanted

    def lead(self, way: int) -> None:
        """Reports go this way from now on; what was said on another may be lost."""
        if way != self.way:
            self.way = way
            self._anew = True

    def report(self) -> Report | None:
        """What is to be told since the last call."""
        added, removed, anew = self._added, self._removed, self._anew
        self._added, self._removed = {}, {}
        if self.way is None or not (added or removed or anew):
            return None
        self._anew = False
        if anew:
            return Report(self._node, True, tuple(self._wanted.items()), ())
        return Report(self._node, False, tuple(added.items()), tuple(removed))

    # What is wanted

    def opened(self, interface: int) -> None:
        self._listener.opened(interface)

    def closed(self, interface: int) -> None:
        self._listener.closed(interface)
        if interface == self.way:
            self.way = None

    def added(self, interface: int, key: Key, wanted: Filter) -> None:
        self._listener.added(interface, key, wanted)
        if interface == LOCAL:
            self._wanted[key] = self._added[key] = wanted
            self._removed.pop(key, None)

    def removed(self, interface: int, key: Key) -> None:
        self._listener.removed(interface, key)
        if interface == LOCAL:
            del self._wanted[key]
            if self._added.pop(key, None) is None:
                self._removed[key] = None
