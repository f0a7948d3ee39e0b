"""Relative costs of conditions: how many times the cost of an equality a condition costs an event.

An equality among thousands costs an event of a batch a tenth of a nanosecond, because one look-up serves them all. The
figures were measured beside it, with a thousand conditions of a kind over batches of 8,192 events, and are rounded to
say of which order a cost is. A single event costs some microseconds before the first condition, so that all differences
are smaller there.
"""

from __future__ import annotations

from typing import Final

from palio.filters.expressions.ast import Call, Expression, walk
from palio.matching.columnar.expression_program import FUNCTIONS_OF_PROGRAMS
from palio.matching.columnar.vector_evaluation import has_vector_form

ASKED_ALWAYS_COST: Final = 100
"""Of a condition that every event is a candidate for: 9 nanoseconds."""
RESIDUAL_COST: Final = 300
"""Of a condition that is evaluated on a candidate: 3 microseconds, where an equality takes 10 nanoseconds."""
_IN_PROGRAM: Final = 20  # 1 to 3 nanoseconds
_IN_VECTORS: Final = 1_000  # 10 to 100 nanoseconds
_BY_DISTINCT_VALUE: Final = 20_000  # a microsecond or more for each distinct value


def relative_cost(expression: Expression) -> int:
    """What computing an expression for every event costs, in equalities."""
    functions = {node.function for node in walk(expression) if isinstance(node, Call)}
    if functions <= FUNCTIONS_OF_PROGRAMS:
        return _IN_PROGRAM
    return _IN_VECTORS if all(map(has_vector_form, functions)) else _BY_DISTINCT_VALUE


def rounded_cost(times: int) -> int:
    """One digit of a cost, because a cost is told by its order."""
    return round(times, 1 - len(str(times)))
