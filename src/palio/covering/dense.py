"""The dense graph G*: every pair of filters of which one covers the other (Shen §4.3.1).

Costs a comparison with every filter for each one that comes, twice, and as many edges as there are pairs; nothing is
asked when one goes. It is the yardstick of the other graphs.
"""

from __future__ import annotations

from collections.abc import Iterable

from palio.covering.graph import RelationGraph
from palio.covering.interests import Interest


class DenseGraph(RelationGraph):
    """All that covers each filter, and all that it covers.

    >>> from palio import Filter
    >>> graph = DenseGraph()
    >>> graph.insert(Filter.parse("x > 5"))
    Changes(forward=(Filter.parse('x > 5'),), retract=())
    >>> graph.insert(Filter.parse("x > 1"))
    Changes(forward=(Filter.parse('x > 1'),), retract=(Filter.parse('x > 5'),))
    >>> graph.remove(Filter.parse("x > 1"))
    Changes(forward=(Filter.parse('x > 5'),), retract=(Filter.parse('x > 1'),))
    """

    def __init__(self) -> None:
        super().__init__()
        self._above: dict[Interest, dict[Interest, None]] = {}
        self._below: dict[Interest, dict[Interest, None]] = {}

    def _enter(self, entering: Interest) -> tuple[Iterable[Interest], Iterable[Interest]]:
        above = dict.fromkeys(each for each in self._above if self._is_above(each, entering))
        below = dict.fromkeys(each for each in self._above if self._is_above(entering, each))
        retracted = [each for each in below if not self._above[each]]
        for each in above:
            self._below[each][entering] = None
        for each in below:
            self._above[each][entering] = None
        self._above[entering], self._below[entering] = above, below
        return () if above else (entering,), retracted

    def _leave(self, leaving: Interest) -> Iterable[Interest]:
        below = self._below.pop(leaving)
        for each in self._above.pop(leaving):
            del self._below[each][leaving]
        for each in below:
            del self._above[each][leaving]
        return [each for each in below if not self._above[each]]
