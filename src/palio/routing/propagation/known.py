"""Which ways of spreading are there? A reduction for each name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from palio.routing.combinations import Combination
from palio.routing.propagation.covering import Maximal
from palio.routing.propagation.everything import Everything, Nothing
from palio.routing.propagation.merging import Mergers
from palio.routing.propagation.protocol import Reduction


def reduction_of(combination: Combination) -> Callable[[], Reduction]:
    """What makes the reduction for one neighbour. `slack` among the options makes merging imperfect."""
    match combination.propagation:
        case "flooding":
            return Nothing
        case "covering":
            return Maximal
        case "merging":
            return partial(Mergers, float(combination.options.get("slack", 0.0)))
    return Everything
