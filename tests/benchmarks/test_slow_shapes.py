"""Tests of what `palio check` calls slow, over all shapes: against the work that an event causes, counted."""

from __future__ import annotations

from itertools import islice

import pytest
from harness.condition_shapes import SHAPES, Shape
from harness.everyday_shapes import EVERYDAY_SHAPES
from numpy.random import default_rng

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


# How often a pattern is tried does not show in a match.
@pytest.mark.parametrize("shape", [each for each in SHAPES if "LIKE" not in each.title], ids=lambda shape: shape.title)
def test_what_causes_ten_times_the_work_of_equalities_is_called_slow(shape: Shape, equalities: float) -> None:
    filters = [Filter.parse(where) for where in conditions_of(shape)]
    uses = ExpressionUses(each.tree for each in filters)
    called = sum(bool(why_slow(each, uses)) for each in filters)
    assert (called > len(filters) / 2) == (work_per_event(shape) > SLOW * equalities)


# Where statistics and check judge alike, one by one, and in bulk.
@pytest.mark.parametrize("shape", [*SHAPES, *EVERYDAY_SHAPES], ids=lambda shape: shape.title)
def test_statistics_count_the_conditions_that_check_calls_slow(shape: Shape) -> None:
    judge_alike(shape.wheres(40 // shape.fewer))


# With numbers and texts in place of {}: those that leave out a few values are slow, those that leave out a range not.
EXCLUSIONS = {
    "x <> {}": True, "x <> {}.5": True, "x <> {}.5D": True, "x NOT IN ({}, 7)": True, "name <> 'w{}'": True,
    "name NOT LIKE 'w{}%'": True, "day <> DATE '2024-01-{}'": True, "ts <> TIMESTAMP '2024-01-01 00:00:{}'": True,
    "a + b <> {}": True, "lower(s) NOT IN ('w{}', 'v')": True, "NOT (lower(s) = 'w{}')": True, "year(ts) <> {}": True,
    "lower(s) NOT LIKE '%ab{}%'": True, "NOT array_contains(tags, 'w{}')": True, "x <> {} AND y IS NOT NULL": True,
    "x <> {} AND y > 3": False, "x NOT BETWEEN 3 AND {}": False, "x < 3 OR x > {}": False,
    "a + b NOT BETWEEN 3 AND {}": False, "abs(price - {}) > 5": False, "day NOT BETWEEN DATE '2023-01-01' AND "
    "DATE '2024-01-{}'": False, "name NOT BETWEEN 'a' AND 'm{}'": False, "lower(s) LIKE '%abcde%{}%'": False,
    "upper(s) RLIKE 'A[0-9]+{}'": True, "upper(s) = upper('w{}')": False, "locate('a{}', s) > 0": False,
}  # fmt: skip


@pytest.mark.parametrize("form", EXCLUSIONS)
def test_what_excludes_a_few_values_is_slow_and_what_excludes_a_range_is_not(form: str) -> None:
    assert judge_alike([form.replace("{}", str(number)) for number in range(10, 30)]) == 20 * EXCLUSIONS[form]


def judge_alike(wheres: list[str]) -> int:
    """How many conditions are slow, by all judges alike."""
    filters = [Filter.parse(where) for where in wheres]
    uses = ExpressionUses(each.tree for each in filters)
    called = sum(bool(why_slow(each, uses)) for each in filters)
    bulk, single = Matcher(background=False), Matcher(background=False)
    bulk.add_many(map(str, range(len(wheres))), wheres)
    for number, where in enumerate(wheres):
        single.add(str(number), where)
    single.merge()
    assert bulk.statistics().slow == single.statistics().slow == called
    return called


# The classes as `benchmarks/shapes.py` measured them, with ten thousand conditions.
MEASURED_SLOW = {
    "name RLIKE 'ab[a-m]+c'", "a * i + b * j > k, all different", "city <> '{word}'",
    "city NOT IN ('{word}', '{word}')", "code NOT IN ({n}, {n})", "NOT (city = '{word}')",
    "city IS DISTINCT FROM '{word}'", "NOT (lower(city) = '{word}')", "name NOT LIKE '%{abcd}%'",
    "name RLIKE '^{bc}[a-m]+{bc}'",
    "name RLIKE '{bc}[a-m]+{bc}'", "name RLIKE '{abcd}|{abcd}'", "name RLIKE '[{bc}][{bc}]+'",
    "price / {n} > 500", "qty % {n} = 99",
    "ended > started + INTERVAL {n} SECONDS",
    "region IS NULL",
}  # fmt: skip


def test_the_shapes_that_were_measured_to_be_slow_are_called_slow() -> None:
    found = set()
    for shape in (*SHAPES, *EVERYDAY_SHAPES):
        sample = 400 if shape.title == "a < b" else 20  # of whose expressions there are a hundred
        wheres = islice(shape.conditions(default_rng(0), 10_000), sample)
        filters = [Filter.parse(where) for where in wheres]
        uses = ExpressionUses(each.tree for each in filters)
        if sum(bool(why_slow(each, uses)) for each in filters) > len(filters) / 2:
            found.add(shape.title)
    assert found == MEASURED_SLOW
