"""The maker of the trees as a client of a broker, without I/O: reports go in, announcements come out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from palio.errors import InvalidArgument
from palio.filters.filter import Filter
from palio.routing.clients import AnnounceClient
from palio.routing.constants import CONJUNCTION_LIMIT
from palio.routing.forwarding.prefix.optimiser import TreeOptimiser
from palio.routing.forwarding.prefix.routing_tree import RoutingTree
from palio.routing.forwarding.prefix.tree_codec import encode_tree
from palio.routing.forwarding.prefix.tree_version import TreeVersion
from palio.routing.messages import Key, Report
from palio.routing.reports import TREES

_THRESHOLD: Final = 0.3  # the lower of the two that Jerzak §9.1.1 tries


class OptimiserClient:
    """Hears what every broker's clients want. `first` is greater than any version of an earlier life.

    Options: `threshold`, the difference from which on a tree is announced.
    """

    def __init__(self, options: Mapping[str, Any], first: int = 1) -> None:
        threshold = options.get("threshold", _THRESHOLD)
        if not isinstance(threshold, int | float) or not 0 <= threshold < 1:
            raise InvalidArgument(f"trees differ by a share from 0 to less than 1; the threshold is {threshold!r}")
        self._optimiser = TreeOptimiser(threshold, CONJUNCTION_LIMIT)
        self._wanted: dict[int, dict[Key, Filter]] = {}
        self._version = first - 1
        self._data = encode_tree(TreeVersion.of(RoutingTree(), b""))

    def announcement(self) -> AnnounceClient:
        """The last tree as a new version: the way to begin, and to begin again at a broker that has restarted."""
        self._version += 1
        return AnnounceClient(TREES, self._version, self._data)

    def reported(self, report: Report) -> AnnounceClient | None:
        """A broker's clients want something else; a tree, where it is time for one."""
        known = self._wanted.setdefault(report.node, {})
        added = dict(report.added)
        for key in [each for each in known if each not in added] if report.anew else report.removed:
            gone = known.pop(key, None)
            if gone is not None:
                self._optimiser.removed(gone)
        for key, wanted in added.items():
            if key not in known:
                known[key] = wanted
                self._optimiser.added(wanted)
        tree = self._optimiser.update()
        if tree is None:
            return None
        self._data = encode_tree(tree)
        return self.announcement()
