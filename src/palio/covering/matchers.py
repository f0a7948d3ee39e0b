"""Matchers made of relation graphs: who covers whom tells which filters an event need not be held against."""

from __future__ import annotations

from collections.abc import Iterator

from palio.covering.forest import PosetForest
from palio.covering.hierarchy import Hierarchy
from palio.covering.poset import SienaPoset
from palio.filters.filter import Filter
from palio.filters.tree import Attributes
from palio.matching.finding import FindingMatcher


class HierarchyMatcher(FindingMatcher):
    """Subscriptions in a graph that is walked down from its roots; equal filters are asked once."""

    def __init__(self, graph: Hierarchy) -> None:
        self.graph = graph
        self._filters: dict[str, Filter] = {}
        self._ids: dict[Filter, dict[str, None]] = {}

    def __len__(self) -> int:
        return len(self._filters)

    def __contains__(self, id: object) -> bool:
        return id in self._filters

    def _file(self, id: str, filter: Filter) -> None:
        self._filters[id] = filter
        self._ids.setdefault(filter, {})[id] = None
        self.graph.insert(filter)

    def _unfile(self, id: str) -> None:
        filter = self._filters.pop(id)
        self.graph.remove(filter)
        del self._ids[filter][id]
        if not self._ids[filter]:
            del self._ids[filter]

    def _find(self, attributes: Attributes) -> Iterator[str]:
        for filter in self.graph.matching(attributes):
            yield from self._ids[filter]


class PosetMatcher(HierarchyMatcher):
    """Subscriptions in a Siena poset.

    >>> wants = PosetMatcher()
    >>> wants.add("desk", "symbol = 'ACME' AND price > 100")
    >>> wants.match({"symbol": "ACME", "price": 120})
    {'desk'}
    """

    def __init__(self) -> None:
        super().__init__(SienaPoset())


class ForestMatcher(HierarchyMatcher):
    """Subscriptions in a poset-derived forest.

    >>> wants = ForestMatcher()
    >>> wants.add("desk", "symbol = 'ACME' AND price > 100")
    >>> wants.match({"symbol": "ACME", "price": 120})
    {'desk'}
    """

    def __init__(self) -> None:
        super().__init__(PosetForest())
