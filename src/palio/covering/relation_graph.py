"""Relation graph: decides which filters a broker forwards to a neighbour (Shen §4.1).

A graph holds filters and the covering relation among them. After each change it says which filters are to be forwarded
and which forwarded ones to be retracted: additions before withdrawals, so that a neighbour that applies them in this
order misses no event that is wanted throughout. One graph serves one outgoing interface, and holds all that could be
sent there. Brokers run `FlatGraph`; `classical.posets` has the graphs it is compared with.

A graph forwards exactly the maximal filters, unless it says otherwise: a function of the set of filters alone, whatever
the order in which they came and went. The source's own graph leaves forwarded what a later filter covers; to retract it
keeps the neighbours' tables smallest, and makes all graphs comparable. A filter that never matches is never forwarded.

The flat graph G_k: of all filters that cover another, any k will do (Shen §4.3.4, §4.4). A covered filter is not
forwarded, whichever filter covers it and however tightly. So a filter keeps at most k parents, the first that an index
finds; only when it has lost them all are others searched for. With k = 1 a removal costs on average no more than one
search (Lemma 1), and more parents never pay for finding them (Theorem 1); hence 1 is the default.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping
from typing import Final, NamedTuple

from palio.covering.covering_index import AdaptiveIndex, CoveringIndex
from palio.covering.extents import IndexedFilter
from palio.errors import InvalidArgument
from palio.filters.filter import Filter


class Changes(NamedTuple):
    """Filters to forward, then forwarded ones to retract, each in the order of their arrival."""

    forward: tuple[Filter, ...] = ()
    retract: tuple[Filter, ...] = ()


NO_CHANGES: Final = Changes()


class RelationGraph(ABC):
    """Filters and the covering relation among them. Equal filters are counted as one.

    `comparisons` counts the pairs of filters that were compared, a cost that does not depend on the machine.
    """

    def __init__(self) -> None:
        self._nodes: dict[Filter, IndexedFilter] = {}
        self._forwarded: dict[Filter, None] = {}
        self._arrivals = 0
        self._comparisons = 0

    def insert(self, filter: Filter) -> Changes:
        """Add a filter, or count it where there is an equal one."""
        known = self._nodes.get(filter)
        if known is not None:
            known.uses += 1
            return NO_CHANGES
        self._arrivals += 1
        entering = self._nodes[filter] = IndexedFilter(filter, self._arrivals)
        # Counted like others, so that it can be removed; never part of the graph.
        if filter == Filter.nothing:
            return NO_CHANGES
        return self._apply(*self._enter(entering))

    def remove(self, filter: Filter) -> Changes:
        """Remove one of the equal filters; with the last one, what it alone covered is forwarded."""
        known = self._nodes.get(filter)
        if known is None:
            raise InvalidArgument(f"there is no filter {str(filter)!r} to remove")
        known.uses -= 1
        if known.uses:
            return NO_CHANGES
        del self._nodes[filter]
        if filter == Filter.nothing:
            return NO_CHANGES
        retracted = (known,) if filter in self._forwarded else ()
        return self._apply(self._leave(known), retracted)

    @property
    def forwarded(self) -> Collection[Filter]:
        """The filters that the neighbour has, if all changes were sent."""
        return self._forwarded.keys()

    @property
    def comparisons(self) -> int:
        return self._comparisons

    def __len__(self) -> int:
        """The number of distinct filters."""
        return len(self._nodes)

    def __contains__(self, filter: object) -> bool:
        return filter in self._nodes

    def _is_above(self, one: IndexedFilter, other: IndexedFilter) -> bool:
        self._comparisons += 1
        return one.is_above(other)

    def _apply(self, forward: Iterable[IndexedFilter], retract: Iterable[IndexedFilter]) -> Changes:
        changes = Changes(_by_arrival(forward), _by_arrival(retract))
        self._forwarded.update(dict.fromkeys(changes.forward))
        for filter in changes.retract:
            del self._forwarded[filter]
        return changes

    @abstractmethod
    def _enter(self, entering: IndexedFilter) -> tuple[Iterable[IndexedFilter], Iterable[IndexedFilter]]:
        """Add a new filter; returns what is forwarded and what is retracted for it."""

    @abstractmethod
    def _leave(self, leaving: IndexedFilter) -> Iterable[IndexedFilter]:
        """Remove a filter; returns what is forwarded in its place."""


def _by_arrival(nodes: Iterable[IndexedFilter]) -> tuple[Filter, ...]:
    return tuple(each.filter for each in sorted(nodes, key=lambda each: each.arrival))


class LazyFlatGraph(RelationGraph):
    """The flat graph as its inventor has it: a forwarded filter stays so when a wider one comes.

    Nothing is retracted but what is removed. Every filter is covered by a forwarded one, and the maximal ones are among
    these. Which ones are forwarded does not depend on k, nor on the index where that is exact.
    """

    def __init__(self, k: int = 1, index: Callable[[], CoveringIndex] = AdaptiveIndex) -> None:
        super().__init__()
        if k < 1:
            raise InvalidArgument(f"a filter keeps at least one of those that cover it, not {k}")
        self._max_parents = k
        self._index = index()
        self._parents: dict[IndexedFilter, dict[IndexedFilter, None]] = {}
        self._children: dict[IndexedFilter, dict[IndexedFilter, None]] = {}
        self.searches = 0  # searches for parents: the source's measure of cost

    @property
    def parents(self) -> Mapping[Filter, list[Filter]]:
        """For each filter the ones that are known to cover it, at most k."""
        return {each.filter: [parent.filter for parent in found] for each, found in self._parents.items()}

    @property
    def comparisons(self) -> int:
        return self._index.comparisons

    def _enter(self, entering: IndexedFilter) -> tuple[Iterable[IndexedFilter], Iterable[IndexedFilter]]:
        # Searched before it is added to the index: a filter must not be found as its own parent.
        self._children[entering] = {}
        is_covered = self._find_parents(entering)
        self._index.add(entering)
        return () if is_covered else (entering,), ()

    def _leave(self, leaving: IndexedFilter) -> Iterable[IndexedFilter]:
        # First: orphans must not find the leaving filter as a parent again.
        self._index.remove(leaving)
        for parent in self._parents.pop(leaving):
            del self._children[parent][leaving]
        orphans = []
        for child in self._children.pop(leaving):
            parents = self._parents[child]
            del parents[leaving]
            if not parents:
                orphans.append(child)
        return [orphan for orphan in orphans if not self._find_parents(orphan)]

    def _find_parents(self, child: IndexedFilter) -> bool:
        """Search for filters that cover one; returns whether there are any."""
        self.searches += 1
        found = self._index.covering(child, self._max_parents)
        self._parents[child] = dict.fromkeys(found)
        for parent in found:
            self._children[parent][child] = None
        return bool(found)


class FlatGraph(LazyFlatGraph):
    """The flat graph that brokers run: it forwards the maximal filters alone, and retracts what comes to be covered.

    Only a forwarded filter can come to be covered, and only by one that is forwarded itself; so the forwarded ones have
    an index of their own.

    >>> from palio import Filter
    >>> graph = FlatGraph()
    >>> graph.insert(Filter.parse("price > 100")).forward
    (Filter.parse('price > 100'),)
    >>> graph.insert(Filter.parse("price > 150 AND symbol = 'ACME'"))
    Changes(forward=(), retract=())
    >>> graph.remove(Filter.parse("price > 100")).forward
    (Filter.parse("price > 150 AND symbol = 'ACME'"),)
    """

    def __init__(self, k: int = 1, index: Callable[[], CoveringIndex] = AdaptiveIndex) -> None:
        super().__init__(k, index)
        self._maximal = index()

    @property
    def comparisons(self) -> int:
        return self._index.comparisons + self._maximal.comparisons

    def _enter(self, entering: IndexedFilter) -> tuple[Iterable[IndexedFilter], Iterable[IndexedFilter]]:
        forward, _ = super()._enter(entering)
        if not forward:
            return (), ()
        # Exact: a filter that comes to be covered was forwarded, and all forwarded ones are in this index.
        retract = self._maximal.covered(entering)
        for each in retract:
            self._maximal.remove(each)
            self._parents[each][entering] = None
            self._children[entering][each] = None
        self._maximal.add(entering)
        return forward, retract

    def _leave(self, leaving: IndexedFilter) -> Iterable[IndexedFilter]:
        # Without a parent it was forwarded.
        if not self._parents[leaving]:
            self._maximal.remove(leaving)
        forward = list(super()._leave(leaving))
        for each in forward:
            self._maximal.add(each)
        return forward
