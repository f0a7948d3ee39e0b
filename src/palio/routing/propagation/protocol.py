"""What should one neighbour be told? A reduction of all that it may need to what it has to know.

A broker keeps all it was told, per interface, and drops nothing by covering on its own. For each neighbour it keeps a
reduction of what came by its other interfaces. What the neighbour should know is a pure function of that set; what is
sent is the difference to what was sent before, additions first, so that no withdrawal leaves a gap. This is the
difference method; the printed rules of Jerzak §2.5.5 lose covered filters of clients with several.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, Protocol

from palio.filters.filter import Filter
from palio.routing.messages import Key


class Change(NamedTuple):
    """What one neighbour must be told anew, and what not any more."""

    additions: Mapping[Key, Filter]
    withdrawals: tuple[Key, ...]


class Reduction(Protocol):
    """What one neighbour should know, while what it may need comes and goes."""

    def add(self, key: Key, wanted: Filter) -> None:
        """A filter that is not there yet."""

    def remove(self, key: Key) -> None:
        """A filter that is there."""

    def change(self) -> Change:
        """How what should be known differs from what it was at the last call, in the order of keys."""
        ...
