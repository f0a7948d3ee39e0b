"""Classical relation graphs: dense graph, Siena poset and poset-derived forest, and matchers made of them.

Tests and benchmarks compare the flat graph, which brokers run, with these.

* `DenseGraph`, G* (Shen §4.3.1): every pair of filters of which one covers the other; the yardstick.
* `SienaPoset` (Jerzak §2.5.5, Shen §4.3.2): each filter with those immediately above and below it, the transitive
  reduction of the dense graph.
* `PosetForest` (Jerzak §2.5.5, Shen §4.3.3): each filter below one that covers it.

The last two are also matchers. An event that a filter does not match, none of the filters that it covers matches; so
the forwarded filters are evaluated, and then those directly below a match.
"""

from __future__ import annotations

from abc import ABC
from collections import Counter
from collections.abc import Iterable, Iterator

from palio.covering.extents import IndexedFilter
from palio.covering.relation_graph import RelationGraph
from palio.filters.filter import Filter
from palio.filters.tree import Attributes
from palio.matching.classical.brute_force import LazyMatcher


class DenseGraph(RelationGraph):
    """For each filter all that cover it, and all that it covers.

    Insertion costs two comparisons with every filter, and as many edges as there are pairs; removal costs none.

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
        self._above: dict[IndexedFilter, dict[IndexedFilter, None]] = {}
        self._below: dict[IndexedFilter, dict[IndexedFilter, None]] = {}

    def _enter(self, entering: IndexedFilter) -> tuple[Iterable[IndexedFilter], Iterable[IndexedFilter]]:
        above = dict.fromkeys(each for each in self._above if self._is_above(each, entering))
        below = dict.fromkeys(each for each in self._above if self._is_above(entering, each))
        retracted = [each for each in below if not self._above[each]]
        for each in above:
            self._below[each][entering] = None
        for each in below:
            self._above[each][entering] = None
        self._above[entering], self._below[entering] = above, below
        return () if above else (entering,), retracted

    def _leave(self, leaving: IndexedFilter) -> Iterable[IndexedFilter]:
        below = self._below.pop(leaving)
        for each in self._above.pop(leaving):
            del self._below[each][leaving]
        for each in below:
            del self._above[each][leaving]
        return [each for each in below if not self._above[each]]


class CoveringHierarchy(RelationGraph, ABC):
    """A graph in which all filters can be reached from the forwarded ones, and so searched for an event.

    `questions` counts the filters that were evaluated on events.
    """

    def __init__(self) -> None:
        super().__init__()
        self._children: dict[IndexedFilter, dict[IndexedFilter, None]] = {}
        self.questions = 0

    def matching(self, attributes: Attributes) -> Iterator[Filter]:
        """The filters that match an event, as they are found; evaluates the matches and their children."""
        pending = [self._nodes[filter] for filter in self._forwarded]
        # `pending` grows while it is walked. Below a filter that does not match, none does.
        seen = set(pending)
        for each in pending:
            self.questions += 1
            if each.filter.matches_attributes(attributes):
                yield each.filter
                for child in self._children[each]:
                    if child not in seen:
                        seen.add(child)
                        pending.append(child)


class SienaPoset(CoveringHierarchy):
    """The filters immediately above and below each filter; nothing stands between.

    To insert a filter, all of both must be found, by walking down from the roots: comparisons with most filters, which
    makes it the most expensive of the graphs to change.

    >>> from palio import Filter
    >>> poset = SienaPoset()
    >>> for condition in ("x > 1", "x > 5", "x > 3"):
    ...     changes = poset.insert(Filter.parse(condition))
    >>> [str(filter) for filter in poset.children_of(Filter.parse("x > 1"))]
    ['x > 3']
    """

    def __init__(self) -> None:
        super().__init__()
        self._parents: dict[IndexedFilter, dict[IndexedFilter, None]] = {}

    @classmethod
    def of(cls, filters: Iterable[Filter]) -> SienaPoset:
        """The poset of many filters, as if each had been inserted; for filters of many attributes in far less time.

        A filter that covers another constrains no attribute that the other does not. So each is listed under its rarest
        attribute, and compared only with the filters listed under the attributes of the other.
        """
        poset = cls()
        for filter in filters:
            known = poset._nodes.get(filter)
            if known is not None:
                known.uses += 1
            else:
                poset._arrivals += 1
                poset._nodes[filter] = IndexedFilter(filter, poset._arrivals)
        entering = [each for filter, each in poset._nodes.items() if filter != Filter.nothing]
        poset._parents = {each: {} for each in entering}
        poset._children = {each: {} for each in entering}
        above = poset._all_above(entering)
        for each in entering:
            for parent in above[each]:
                # A filter that is above another one above this is not immediately above it.
                if not any(parent in above[other] for other in above[each]):
                    poset._link(parent, each)
        poset._forwarded = dict.fromkeys(each.filter for each in entering if not above[each])
        return poset

    def _all_above(self, entering: list[IndexedFilter]) -> dict[IndexedFilter, set[IndexedFilter]]:
        common = Counter(axis for each in entering for axis in each.extent)
        filed: dict[str | None, list[IndexedFilter]] = {}
        for each in entering:
            filed.setdefault(min(each.extent, key=common.__getitem__, default=None), []).append(each)
        return {
            each: {
                other for axis in (None, *each.extent) for other in filed.get(axis, ()) if self._is_above(other, each)
            }
            for each in entering
        }

    def children_of(self, filter: Filter) -> list[Filter]:
        """The filters immediately below one."""
        return [each.filter for each in self._children[self._nodes[filter]]]

    def _enter(self, entering: IndexedFilter) -> tuple[Iterable[IndexedFilter], Iterable[IndexedFilter]]:
        parents = self._immediately_above(entering)
        children = self._immediately_below(entering, parents)
        # Children without a parent were roots, and so forwarded.
        retract = [each for each in children if not self._parents[each]]
        for parent in parents:
            for child in children:
                self._unlink(parent, child)
        self._parents[entering], self._children[entering] = {}, {}
        for parent in parents:
            self._link(parent, entering)
        for child in children:
            self._link(entering, child)
        return () if parents else (entering,), retract

    def _leave(self, leaving: IndexedFilter) -> Iterable[IndexedFilter]:
        parents, children = self._parents.pop(leaving), self._children.pop(leaving)
        for parent in parents:
            del self._children[parent][leaving]
        for child in children:
            del self._parents[child][leaving]
            others = list(self._parents[child])
            for parent in parents:
                # Where another parent of the child stands below this one, the child is linked through that.
                if not any(self._is_above(parent, other) for other in others):
                    self._link(parent, child)
        return [child for child in children if not self._parents[child]]

    def _immediately_above(self, entering: IndexedFilter) -> list[IndexedFilter]:
        """The filters above one that have no child above it."""
        found = []
        pending = [each for each in self._roots() if self._is_above(each, entering)]
        verdicts = dict.fromkeys(pending, True)
        for each in pending:
            is_tightest = True
            for child in self._children[each]:
                if child not in verdicts:
                    verdicts[child] = self._is_above(child, entering)
                    if verdicts[child]:
                        pending.append(child)
                if verdicts[child]:
                    is_tightest = False
            if is_tightest:
                found.append(each)
        return found

    def _immediately_below(self, entering: IndexedFilter, parents: list[IndexedFilter]) -> list[IndexedFilter]:
        """The filters below one that have no parent below it; all of them stand below each of its parents."""
        pending = list(self._children[parents[0]] if parents else self._roots())
        verdicts: dict[IndexedFilter, bool] = {}
        seen = set(pending)
        for each in pending:
            verdicts[each] = self._is_above(entering, each)
            if not verdicts[each]:
                for child in self._children[each]:
                    if child not in seen:
                        seen.add(child)
                        pending.append(child)
        return [
            each
            for each, is_below in verdicts.items()
            if is_below and not self._has_parent_below(each, entering, verdicts)
        ]

    def _has_parent_below(
        self, child: IndexedFilter, entering: IndexedFilter, verdicts: dict[IndexedFilter, bool]
    ) -> bool:
        for parent in self._parents[child]:
            is_below = verdicts.get(parent)
            if is_below or (is_below is None and self._is_above(entering, parent)):
                return True
        return False

    def _roots(self) -> Iterable[IndexedFilter]:
        return (self._nodes[filter] for filter in self._forwarded)

    def _link(self, parent: IndexedFilter, child: IndexedFilter) -> None:
        self._children[parent][child] = None
        self._parents[child][parent] = None

    def _unlink(self, parent: IndexedFilter, child: IndexedFilter) -> None:
        # The default is an object that no dictionary of children holds as a value.
        if self._children[parent].pop(child, self) is not self:
            del self._parents[child][parent]


class PosetForest(CoveringHierarchy):
    """For each filter one that covers it, and siblings of which none covers another.

    So the roots are the maximal filters, however the rest lies, which depends on the order of arrival. A filter is
    inserted by walking down one path; what it covers there goes below it. On removal, the children are inserted again.

    >>> from palio import Filter
    >>> forest = PosetForest()
    >>> for condition in ("x > 1", "x > 5", "x > 3"):
    ...     changes = forest.insert(Filter.parse(condition))
    >>> str(forest.parent_of(Filter.parse("x > 5")))
    'x > 3'
    """

    def __init__(self) -> None:
        super().__init__()
        self._roots: dict[IndexedFilter, None] = {}
        self._parents: dict[IndexedFilter, IndexedFilter | None] = {}

    def parent_of(self, filter: Filter) -> Filter | None:
        """The parent of a filter; None for a root."""
        parent = self._parents[self._nodes[filter]]
        return None if parent is None else parent.filter

    def _enter(self, entering: IndexedFilter) -> tuple[Iterable[IndexedFilter], Iterable[IndexedFilter]]:
        self._children[entering] = {}
        displaced = self._place(entering, None)
        if self._parents[entering] is not None:
            return (), ()
        return (entering,), displaced

    def _leave(self, leaving: IndexedFilter) -> Iterable[IndexedFilter]:
        parent = self._parents.pop(leaving)
        del self._siblings(parent)[leaving]
        children = self._children.pop(leaving)
        for child in children:
            self._place(child, parent)
        return () if parent is not None else [child for child in children if self._parents[child] is None]

    def _place(self, entering: IndexedFilter, under: IndexedFilter | None) -> list[IndexedFilter]:
        """Insert a filter with its descendants somewhere under another; returns the filters whose place it took."""
        displaced = self._descend(entering, under)
        # Each moves below `entering`, whose own descendants may cover it or be covered by it, and so on down.
        pending = [(each, entering) for each in displaced]
        while pending:
            each, parent = pending.pop()
            pending += [(other, each) for other in self._descend(each, parent)]
        return displaced

    def _descend(self, entering: IndexedFilter, under: IndexedFilter | None) -> list[IndexedFilter]:
        """Insert a filter below the last one that covers it on a path down; detaches and returns what it covers."""
        siblings = self._siblings(under)
        while (wider := next((each for each in siblings if self._is_above(each, entering)), None)) is not None:
            under, siblings = wider, self._children[wider]
        displaced = [each for each in siblings if self._is_above(entering, each)]
        for each in displaced:
            del siblings[each]
        siblings[entering] = None
        self._parents[entering] = under
        return displaced

    def _siblings(self, parent: IndexedFilter | None) -> dict[IndexedFilter, None]:
        return self._roots if parent is None else self._children[parent]


class HierarchyMatcher(LazyMatcher):
    """Subscriptions in a graph that is searched from its roots; equal filters are evaluated once."""

    def __init__(self, graph: CoveringHierarchy) -> None:
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

    >>> matcher = PosetMatcher()
    >>> matcher.add("desk", "symbol = 'ACME' AND price > 100")
    >>> matcher.match({"symbol": "ACME", "price": 120})
    {'desk'}
    """

    def __init__(self) -> None:
        super().__init__(SienaPoset())


class ForestMatcher(HierarchyMatcher):
    """Subscriptions in a poset-derived forest.

    >>> matcher = ForestMatcher()
    >>> matcher.add("desk", "symbol = 'ACME' AND price > 100")
    >>> matcher.match({"symbol": "ACME", "price": 120})
    {'desk'}
    """

    def __init__(self) -> None:
        super().__init__(PosetForest())
