"""The flat graph G_k: of all that covers a filter, any few will do (Shen §4.3.4, §4.4).

Who is covered is not forwarded, whoever covers it and however tightly. So a filter keeps at most k parents, the first
that an index finds; only when it has lost them all are others looked for. With k = 1 a removal costs on average no more
than one search (Lemma 1), and never do more parents pay for finding them (Theorem 1); hence 1 is the default.

Two of them: `LazyFlatGraph` is the source's, and `FlatGraph` also retracts what a later filter covers.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from palio.covering.graph import RelationGraph
from palio.covering.indexes.growing import GrowingIndex
from palio.covering.indexes.protocol import CoveringIndex
from palio.covering.interests import Interest
from palio.errors import InvalidArgument
from palio.filters.filter import Filter


class LazyFlatGraph(RelationGraph):
    """A filter is forwarded where nothing covered it when it came, or when what covered it went.

    What is forwarded stays so when something wider comes, as in the source; nothing is ever retracted but what is
    removed. Every filter is covered by a forwarded one, and the maximal ones are among these. Which they are does not
    depend on k, nor on the index where that is exact.
    """

    def __init__(self, k: int = 1, index: Callable[[], CoveringIndex] = GrowingIndex) -> None:
        super().__init__()
        if k < 1:
            raise InvalidArgument(f"a filter keeps at least one of those that cover it, not {k}")
        self._most_parents = k
        self._index = index()
        self._parents: dict[Interest, dict[Interest, None]] = {}
        self._children: dict[Interest, dict[Interest, None]] = {}
        self.searches = 0  # how often the index was asked who covers a filter: the source's cost

    @property
    def parents(self) -> Mapping[Filter, list[Filter]]:
        """For each filter those that are known to cover it, at most k."""
        return {each.filter: [parent.filter for parent in found] for each, found in self._parents.items()}

    @property
    def comparisons(self) -> int:
        return self._index.comparisons

    def _enter(self, entering: Interest) -> tuple[Iterable[Interest], Iterable[Interest]]:
        self._children[entering] = {}
        is_covered = self._find_parents(entering)
        self._index.add(entering)
        return () if is_covered else (entering,), ()

    def _leave(self, leaving: Interest) -> Iterable[Interest]:
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

    def _find_parents(self, child: Interest) -> bool:
        """Look for some that cover a filter; whether there are any."""
        self.searches += 1
        found = self._index.covering(child, self._most_parents)
        self._parents[child] = dict.fromkeys(found)
        for parent in found:
            self._children[parent][child] = None
        return bool(found)


class FlatGraph(LazyFlatGraph):
    """The flat graph that forwards the maximal filters alone: who comes to be covered is retracted.

    Only a forwarded filter can come to need it, and only by one that is forwarded itself; so the forwarded ones have an
    index of their own, to be looked up in.

    >>> from palio import Filter
    >>> graph = FlatGraph()
    >>> graph.insert(Filter.parse("price > 100")).forward
    (Filter.parse('price > 100'),)
    >>> graph.insert(Filter.parse("price > 150 AND symbol = 'ACME'"))
    Changes(forward=(), retract=())
    >>> graph.remove(Filter.parse("price > 100")).forward
    (Filter.parse("price > 150 AND symbol = 'ACME'"),)
    """

    def __init__(self, k: int = 1, index: Callable[[], CoveringIndex] = GrowingIndex) -> None:
        super().__init__(k, index)
        self._maximal = index()

    @property
    def comparisons(self) -> int:
        return self._index.comparisons + self._maximal.comparisons

    def _enter(self, entering: Interest) -> tuple[Iterable[Interest], Iterable[Interest]]:
        forward, _ = super()._enter(entering)
        if not forward:
            return (), ()
        retract = self._maximal.covered(entering)
        for each in retract:
            self._maximal.remove(each)
            self._parents[each][entering] = None
            self._children[entering][each] = None
        self._maximal.add(entering)
        return forward, retract

    def _leave(self, leaving: Interest) -> Iterable[Interest]:
        if not self._parents[leaving]:
            self._maximal.remove(leaving)
        forward = list(super()._leave(leaving))
        for each in forward:
            self._maximal.add(each)
        return forward
