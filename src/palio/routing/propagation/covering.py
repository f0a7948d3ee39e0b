"""Covering-based routing: a neighbour is told only the filters that no other covers (Jerzak §2.5.5, Shen §4.1).

Who covers whom is a relation graph's matter. Of filters that cover each other it forwards the one with the lower
digest, which is the key of a filter here, so that what is told depends on the set alone. What never matches is not
told.
"""

from __future__ import annotations

from collections.abc import Collection

from palio.covering.flat import FlatGraph
from palio.filters.filter import Filter
from palio.routing.messages import Key
from palio.routing.propagation.protocol import Change


class Maximal:
    """The filters that no other covers are made known."""

    __slots__ = ("_additions", "_filters", "_graph", "_withdrawals")

    def __init__(self) -> None:
        self._graph = FlatGraph()
        self._filters: dict[Key, Filter] = {}
        self._additions: dict[Key, Filter] = {}
        self._withdrawals: set[Key] = set()

    def add(self, key: Key, wanted: Filter) -> None:
        self._filters[key] = wanted
        self._note(*self._graph.insert(wanted))

    def remove(self, key: Key) -> None:
        self._note(*self._graph.remove(self._filters.pop(key)))

    @property
    def known(self) -> Collection[Filter]:
        """What should be known by now."""
        return self._graph.forwarded

    def change(self) -> Change:
        change = Change(dict(sorted(self._additions.items())), tuple(sorted(self._withdrawals)))
        self._additions, self._withdrawals = {}, set()
        return change

    def _note(self, forward: Collection[Filter], retract: Collection[Filter]) -> None:
        """What came and went since the neighbour was last told need not be told."""
        for each in forward:
            if each.digest in self._withdrawals:
                self._withdrawals.remove(each.digest)
            else:
                self._additions[each.digest] = each
        for each in retract:
            if self._additions.pop(each.digest, None) is None:
                self._withdrawals.add(each.digest)
