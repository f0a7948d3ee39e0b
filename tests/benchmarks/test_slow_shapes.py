"""Tests of what `palio check` calls slow, over all shapes: against the work that an event causes, counted."""

from __future__ import annotations

import pytest
from harness.condition_shapes import SHAPES, Shape

from palio import Event, Filter, Matcher
from palio.cli.condition_diagnostics import why_slow
from palio.filters.expressions.ast import Call, walk
from palio.matching.columnar.computed_attributes import ExpressionUses

CONDITIONS = 600  # so many that hardly an expression of `a < b` is shared by few
EVENTS = 20
SLOW = 10  # times the work of equalities
_CALL = 0.2  # the work of one operation of an expression, in look-ups
_RESIDUAL = 50.0  # and of a residual that is evaluated


def conditions_of(shape: Shape) -> list[str]:
    return shape.wheres(CONDITIONS // shape.fewer)


def work_per_event(shape: Shape) -> float:
    """Look-ups of attributes, operations of expressions, candidates, and residuals, on average."""
    wheres = conditions_of(shape)
    matcher = Matcher(background=False)
    matcher.add_many(map(str, range(len(wheres))), wheres)
    work = 0.0
    # Private: what a match does shows in nothing but its speed.
    for segment in matcher._segments.snapshot.segments:
        operations = sum(isinstance(node, Call) for each in segment.encoder.computed for node in walk(each.expression))
        residuals = set(segment.residual_numbers.tolist())
        work += len(segment.encoder.attributes) + _CALL * operations
        for event in Event.from_arrow(shape.events(EVENTS, len(wheres))):
            found = segment.match_event(event.attributes)
            work += (len(found) + _RESIDUAL * len(residuals.intersection(found))) / EVENTS
    return work


@pytest.fixture(scope="module")
def equalities() -> float:
    return work_per_event(SHAPES[0])


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.title)
def test_what_causes_ten_times_the_work_of_equalities_is_called_slow(shape: Shape, equalities: float) -> None:
    filters = [Filter.parse(where) for where in conditions_of(shape)]
    uses = ExpressionUses(each.tree for each in filters)
    called = sum(bool(why_slow(each, uses)) for each in filters)
    assert (called > len(filters) / 2) == (work_per_event(shape) > SLOW * equalities)
