"""The Siena poset: each filter with those immediately above and below it (Jerzak §2.5.5, Shen §4.3.2).

Nothing stands between a filter and its parents, nor between it and its children: the transitive reduction of the dense
graph. To put a filter in, all of both must be found, by walking down from the roots; that is what makes it the
dearest of the graphs to change. Costs comparisons with most filters for each one that comes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

from palio.covering.hierarchy import Hierarchy
from palio.covering.interests import Interest
from palio.filters.filter import Filter


class SienaPoset(Hierarchy):
    """Who stands immediately above and below each filter.

    >>> from palio import Filter
    >>> poset = SienaPoset()
    >>> for condition in ("x > 1", "x > 5", "x > 3"):
    ...     changes = poset.insert(Filter.parse(condition))
    >>> [str(filter) for filter in poset.children_of(Filter.parse("x > 1"))]
    ['x > 3']
    """

    def __init__(self) -> None:
        super().__init__()
        self._parents: dict[Interest, dict[Interest, None]] = {}

    @classmethod
    def of(cls, filters: Iterable[Filter]) -> SienaPoset:
        """The poset of many filters, as if each had been inserted; for filters of many attributes in far less time.

        Who covers a filter says nothing of attributes that the filter does not speak of. So each is looked up under its
        rarest attribute, and compared with those alone that the other could have found there.
        """
        poset = cls()
        for filter in filters:
            known = poset._interests.get(filter)
            if known is not None:
                known.wanted += 1
            else:
                poset._arrivals += 1
                poset._interests[filter] = Interest(filter, poset._arrivals)
        entering = [each for filter, each in poset._interests.items() if filter != Filter.nothing]
        poset._parents = {each: {} for each in entering}
        poset._children = {each: {} for each in entering}
        above = poset._all_above(entering)
        for each in entering:
            for parent in above[each]:
                if not any(parent in above[other] for other in above[each]):
                    poset._link(parent, each)
        poset._forwarded = dict.fromkeys(each.filter for each in entering if not above[each])
        return poset

    def _all_above(self, entering: list[Interest]) -> dict[Interest, set[Interest]]:
        common = Counter(axis for each in entering for axis in each.extent)
        filed: dict[str | None, list[Interest]] = {}
        for each in entering:
            filed.setdefault(min(each.extent, key=common.__getitem__, default=None), []).append(each)
        return {
            each: {
                other for axis in (None, *each.extent) for other in filed.get(axis, ()) if self._is_above(other, each)
            }
            for each in entering
        }

    def children_of(self, filter: Filter) -> list[Filter]:
        """Those immediately below a filter."""
        return [each.filter for each in self._children[self._interests[filter]]]

    def _enter(self, entering: Interest) -> tuple[Iterable[Interest], Iterable[Interest]]:
        parents = self._immediately_above(entering)
        children = self._immediately_below(entering, parents)
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

    def _leave(self, leaving: Interest) -> Iterable[Interest]:
        parents, children = self._parents.pop(leaving), self._children.pop(leaving)
        for parent in parents:
            del self._children[parent][leaving]
        for child in children:
            del self._parents[child][leaving]
            others = list(self._parents[child])
            for parent in parents:
                if not any(self._is_above(parent, other) for other in others):
                    self._link(parent, child)
        return [child for child in children if not self._parents[child]]

    def _immediately_above(self, entering: Interest) -> list[Interest]:
        """Those above a filter that have no child above it."""
        found = []
        waiting = [each for each in self._roots() if self._is_above(each, entering)]
        judged = dict.fromkeys(waiting, True)
        for each in waiting:
            is_tightest = True
            for child in self._children[each]:
                if child not in judged:
                    judged[child] = self._is_above(child, entering)
                    if judged[child]:
                        waiting.append(child)
                if judged[child]:
                    is_tightest = False
            if is_tightest:
                found.append(each)
        return found

    def _immediately_below(self, entering: Interest, parents: list[Interest]) -> list[Interest]:
        """Those below a filter that have no parent below it; all of them stand below each of its parents."""
        waiting = list(self._children[parents[0]] if parents else self._roots())
        judged: dict[Interest, bool] = {}
        seen = set(waiting)
        for each in waiting:
            judged[each] = self._is_above(entering, each)
            if not judged[each]:
                for child in self._children[each]:
                    if child not in seen:
                        seen.add(child)
                        waiting.append(child)
        return [
            each for each, is_below in judged.items() if is_below and not self._has_parent_below(each, entering, judged)
        ]

    def _has_parent_below(self, child: Interest, entering: Interest, judged: dict[Interest, bool]) -> bool:
        for parent in self._parents[child]:
            is_below = judged.get(parent)
            if is_below or (is_below is None and self._is_above(entering, parent)):
                return True
        return False

    def _roots(self) -> Iterable[Interest]:
        return (self._interests[filter] for filter in self._forwarded)

    def _link(self, parent: Interest, child: Interest) -> None:
        self._children[parent][child] = None
        self._parents[child][parent] = None

    def _unlink(self, parent: Interest, child: Interest) -> None:
        if self._children[parent].pop(child, self) is not self:
            del self._parents[child][parent]
