"""`rule-engine` from PyPI: a rule per subscription in its own language, and a loop over all of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from harness.answers import Answers
from harness.clock import Budget, timed
from harness.measure import compare, one_by_one
from harness.results import Row
from harness.tasks import Predicate, Task

NAME = "rule-engine"


def rule_text(predicates: Iterable[Predicate]) -> str:
    """In its language null is not ordered, so a range asks for presence first."""
    terms = []
    for name, operator, value in predicates:
        if operator == "between":
            terms.append(f"{name} != null and {name} >= {value[0]} and {name} <= {value[1]}")
        elif operator == "=":
            terms.append(f"{name} == {value!r}")
        else:
            terms.append(f"{name} != null and {name} {operator} {value}")
    return " and ".join(terms)


def run(task: Task, seconds: float, reference: Answers) -> Row:
    import rule_engine

    row = Row(task.name, len(task), NAME)
    context = rule_engine.Context(default_value=None)
    rules: list[tuple[int, Any]] = []
    budget = Budget(4 * seconds)
    with timed() as building:
        for number, predicates in enumerate(task.predicates()):
            rules.append((number, rule_engine.Rule(rule_text(predicates), context=context)))
            if number % 64 == 0:
                budget.check()
    row.built(len(task), building.seconds)

    def match(event: dict[str, Any]) -> list[int]:
        return [number for number, rule in rules if rule.matches(event)]

    compare(row, one_by_one(row, task, match, seconds), reference)
    return row
