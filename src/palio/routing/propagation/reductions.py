"""Reductions: what one neighbour has to know of all the filters that it may need.

A broker keeps all filters that it was sent, per interface, and drops none by covering on its own. For each neighbour it
keeps a reduction of those that came by its other interfaces. What the neighbour should know is a pure function of that
set; an update is the difference to what it was sent before, additions first, so that no withdrawal leaves a gap. This
is the difference method; the printed rules of Jerzak §2.5.5 lose covered filters of clients with several.

- `Unreduced` is simple and identity routing (Jerzak §2.5.3, §2.5.4): which of the two, the keys decide, one for each
  subscription or one for each filter.
- `Suppressed` is flooding of events (Jerzak §2.5.1): no neighbour is sent any filter.
- `Covering` sends only filters that no other covers (Jerzak §2.5.5, Shen §4.1). Of filters that cover each other it
  sends the one with the lower digest, which is the key of a filter here, so that the result depends on the set alone. A
  filter that never matches is not sent.
- `merging.Merging` sends one filter in place of several.
- `Uplink` sends what another one gives to the parent of a hierarchy, and nothing to other neighbours (Jerzak §2.4.2).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import NamedTuple, Protocol

from palio.covering.relation_graph import FlatGraph, RelationGraph
from palio.filters.filter import Filter
from palio.routing.messages import Key


class Change(NamedTuple):
    """Additions and withdrawals for one neighbour, in the order of keys."""

    additions: Mapping[Key, Filter]
    withdrawals: tuple[Key, ...]


class Reduction(Protocol):
    """The filters that one neighbour should know, while those that it may need come and go."""

    def add(self, key: Key, wanted: Filter) -> None:
        """Add a filter under a new key."""

    def remove(self, key: Key) -> None:
        """Remove the filter of a key."""

    def change(self) -> Change:
        """The difference since the last call."""
        ...


class Unreduced:
    """All filters."""

    __slots__ = ("_added", "_removed")

    def __init__(self) -> None:
        self._added: dict[Key, Filter] = {}
        self._removed: dict[Key, None] = {}

    def add(self, key: Key, wanted: Filter) -> None:
        if key in self._removed:
            del self._removed[key]
        else:
            self._added[key] = wanted

    def remove(self, key: Key) -> None:
        if key in self._added:
            del self._added[key]
        else:
            self._removed[key] = None

    def change(self) -> Change:
        change = Change(dict(sorted(self._added.items())), tuple(sorted(self._removed)))
        self._added, self._removed = {}, {}
        return change


class Suppressed:
    """No filter."""

    __slots__ = ()

    def add(self, key: Key, wanted: Filter) -> None:
        pass

    def remove(self, key: Key) -> None:
        pass

    def change(self) -> Change:
        return Change({}, ())


class Covering:
    """The filters that no other covers."""

    __slots__ = ("_additions", "_filters", "_graph", "_withdrawals")

    def __init__(self, graph: Callable[[], RelationGraph] = FlatGraph) -> None:
        self._graph = graph()
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
        """All that should be known."""
        return self._graph.forwarded

    def change(self) -> Change:
        change = Change(dict(sorted(self._additions.items())), tuple(sorted(self._withdrawals)))
        self._additions, self._withdrawals = {}, set()
        return change

    def _note(self, forward: Collection[Filter], retract: Collection[Filter]) -> None:
        """Collect changes; a filter that comes and goes between two calls of `change` is none."""
        # A filter that was withdrawn and comes back before it was sent is no change at all.
        for each in forward:
            if each.digest in self._withdrawals:
                self._withdrawals.remove(each.digest)
            else:
                self._additions[each.digest] = each
        for each in retract:
            if self._additions.pop(each.digest, None) is None:
                self._withdrawals.add(each.digest)


class Uplink:
    """What another reduction gives, while the link leads to the parent; nothing otherwise."""

    __slots__ = ("_filters", "_is_begun", "_known", "_reduce", "_reduction")

    def __init__(self, reduce: Callable[[], Reduction]) -> None:
        self._reduce = reduce
        self._reduction: Reduction | None = None  # None where the link does not lead to the parent
        self._is_begun = False  # whether the first change of the reduction was taken, which has all that is known
        self._filters: dict[Key, Filter] = {}
        self._known: dict[Key, Filter] = {}

    def add(self, key: Key, wanted: Filter) -> None:
        self._filters[key] = wanted
        if self._reduction is not None:
            self._reduction.add(key, wanted)

    def remove(self, key: Key) -> None:
        del self._filters[key]
        if self._reduction is not None:
            self._reduction.remove(key)

    def direct(self, is_parent: bool) -> bool:
        """Say whether the link leads to the parent; whether that has changed."""
        if is_parent is (self._reduction is not None):
            return False
        self._reduction, self._is_begun = self._reduce() if is_parent else None, False
        if self._reduction is not None:
            for key, wanted in self._filters.items():
                self._reduction.add(key, wanted)
        return True

    def change(self) -> Change:
        if self._reduction is None:
            known, self._known = self._known, {}
            return Change({}, tuple(sorted(known)))
        additions, withdrawals = self._reduction.change()
        if not self._is_begun:
            # What the neighbour has of an earlier time, where nothing was sent since.
            withdrawals = tuple(sorted(self._known.keys() - additions.keys()))
            self._is_begun = True
        new = {key: wanted for key, wanted in additions.items() if key not in self._known}
        self._known |= new
        gone = tuple(key for key in withdrawals if self._known.pop(key, None) is not None)
        return Change(new, gone)
