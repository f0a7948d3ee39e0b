"""Plain Python loop: a compiled function per subscription, and a loop over all of them."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from math import nan
from typing import Any

from harness.answers import Answers
from harness.clock import Budget, timed
from harness.measure import compare, one_by_one
from harness.results import Row
from harness.tasks import Predicate, Task

NAME = "Python loop"
Test = Callable[[Callable[..., Any]], bool]

# One for all functions: a dictionary each would not fit the cache.
_GLOBALS: dict[str, Any] = {"nan": nan}


def compile_predicates(predicates: Iterable[Predicate]) -> Test:
    """A function of an event's `get`. An absent number is NaN, which no comparison accepts."""
    terms = []
    for name, operator, value in predicates:
        if operator == "between":
            terms.append(f"{value[0]!r} <= g({name!r}, nan) <= {value[1]!r}")
        elif operator == "=":
            terms.append(f"g({name!r}) == {value!r}")
        else:
            terms.append(f"g({name!r}, nan) {operator} {value!r}")
    test: Test = eval(compile(f"lambda g: {' and '.join(terms)}", "<subscription>", "eval"), _GLOBALS)
    return test


def run(task: Task, seconds: float, reference: Answers) -> Row:
    row = Row(task.name, len(task), NAME)
    tests: list[Test] = []
    budget = Budget(4 * seconds)
    with timed() as building:
        for predicates in task.predicates():
            tests.append(compile_predicates(predicates))
            if len(tests) % 256 == 0:
                budget.check()
    row.built(len(task), building.seconds)
    numbered = list(enumerate(tests))

    def match(event: dict[str, Any]) -> list[int]:
        get = event.get
        return [number for number, test in numbered if test(get)]

    compare(row, one_by_one(row, task, match, seconds), reference)
    return row
