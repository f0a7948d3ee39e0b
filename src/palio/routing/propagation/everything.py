"""Reductions that reduce nothing, or everything.

`Everything` is simple and identity routing (Jerzak §2.5.3, §2.5.4): which of the two, the keys decide, one for each
subscription or one for each filter. `Nothing` is flooding of events (Jerzak §2.5.1): no neighbour is told anything.
"""

from __future__ import annotations

from palio.filters.filter import Filter
from palio.routing.messages import Key
from palio.routing.propagation.protocol import Change


class Everything:
    """All filters are made known."""

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


class Nothing:
    """No filter is made known."""

    __slots__ = ()

    def add(self, key: Key, wanted: Filter) -> None:
        pass

    def remove(self, key: Key) -> None:
        pass

    def change(self) -> Change:
        return Change({}, ())
