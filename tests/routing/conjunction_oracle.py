"""Oracle of the structures of conjunctions: the events that they must admit at least."""

from __future__ import annotations

from collections.abc import Iterable

from palio.filters.kinds import MISSING
from palio.filters.tree import Attributes
from palio.routing.conjunctions import Conjunction, possible_values


def admits(conjunctions: Iterable[Conjunction], event: Attributes) -> bool:
    """Whether each condition of some conjunction has a value that it holds for."""
    said = possible_values(event)
    return any(
        all(any(map(leaf.values.contains, said.get(leaf.attribute, (MISSING,)))) for leaf in conjunction)
        for conjunction in conjunctions
    )
