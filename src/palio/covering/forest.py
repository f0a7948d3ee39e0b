"""The poset-derived forest: each filter below one that covers it (Jerzak §2.5.5, Shen §4.3.3).

Of all that stand above a filter it keeps one, and no two children of a filter cover each other; so the roots are the
maximal filters, however the rest lies, which depends on the order of arrival. A filter is put in by walking down one
path; what it covers there goes below it. When one goes, what stood below it is put in again from where it was.
"""

from __future__ import annotations

from collections.abc import Iterable

from palio.covering.hierarchy import Hierarchy
from palio.covering.interests import Interest
from palio.filters.filter import Filter


class PosetForest(Hierarchy):
    """One that covers each filter, and siblings of which none covers another.

    >>> from palio import Filter
    >>> forest = PosetForest()
    >>> for condition in ("x > 1", "x > 5", "x > 3"):
    ...     changes = forest.insert(Filter.parse(condition))
    >>> str(forest.parent_of(Filter.parse("x > 5")))
    'x > 3'
    """

    def __init__(self) -> None:
        super().__init__()
        self._roots: dict[Interest, None] = {}
        self._parents: dict[Interest, Interest | None] = {}

    def parent_of(self, filter: Filter) -> Filter | None:
        """The filter that another one stands below; None for a root."""
        parent = self._parents[self._interests[filter]]
        return None if parent is None else parent.filter

    def _enter(self, entering: Interest) -> tuple[Iterable[Interest], Iterable[Interest]]:
        self._children[entering] = {}
        displaced = self._place(entering, None)
        if self._parents[entering] is not None:
            return (), ()
        return (entering,), displaced

    def _leave(self, leaving: Interest) -> Iterable[Interest]:
        parent = self._parents.pop(leaving)
        del self._siblings(parent)[leaving]
        children = self._children.pop(leaving)
        for child in children:
            self._place(child, parent)
        return () if parent is not None else [child for child in children if self._parents[child] is None]

    def _place(self, entering: Interest, under: Interest | None) -> list[Interest]:
        """Put a filter, with what stands below it, somewhere under another; those whose place it took."""
        displaced = self._descend(entering, under)
        waiting = [(each, entering) for each in displaced]
        while waiting:
            each, parent = waiting.pop()
            waiting += [(other, each) for other in self._descend(each, parent)]
        return displaced

    def _descend(self, entering: Interest, under: Interest | None) -> list[Interest]:
        """Put a filter below the last that covers it on a way down; what it covers there is left without a place."""
        siblings = self._siblings(under)
        while (wider := next((each for each in siblings if self._is_above(each, entering)), None)) is not None:
            under, siblings = wider, self._children[wider]
        displaced = [each for each in siblings if self._is_above(entering, each)]
        for each in displaced:
            del siblings[each]
        siblings[entering] = None
        self._parents[entering] = under
        return displaced

    def _siblings(self, parent: Interest | None) -> dict[Interest, None]:
        return self._roots if parent is None else self._children[parent]
