"""Diagnostics of conditions: why no event can match one, and why one costs more than a look-up in the index.

The index files a subscription under a condition that every match satisfies: a value, a range, a pattern with a fixed
text, a value of an expression. Some conditions offer nothing to file under (an absent attribute), and some exclude so
little that nearly every event is a candidate. An expression is computed once for an event, however many subscriptions
compare it with constants, so that it costs next to nothing where many share it, and an evaluation where few do
(`relative_costs` says how much that is). This is read off the filters, without building an index; a test compares it
with the index.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import Any, Final, NamedTuple

from palio.cli.terminal import shorten, strip_parentheses
from palio.errors import LimitReached
from palio.filters.explanation import as_written
from palio.filters.expressions.ast import Call, Expression, Literal, walk
from palio.filters.filter import Filter
from palio.filters.normal_form import normal
from palio.filters.sql_writer import to_sql
from palio.filters.tree import NOTHING, And, Leaf, Node, Or, Residual, domain_of, leaves
from palio.filters.value_predicates import Like, Rlike, Test
from palio.matching.access_paths import AccessPaths, is_always_candidate, only_excludes
from palio.matching.columnar.computed_attributes import (
    MIN_SHARING_CONDITIONS,
    ExpressionUses,
    computed_attribute,
    expression_text,
    is_computed,
    lift_tree,
)
from palio.matching.columnar.pattern_costs import pattern_cost
from palio.matching.relative_costs import (
    ASKED_ALWAYS_COST,
    RESIDUAL_COST,
    relative_cost,
    rounded_cost,
)
from palio.network.security.quotas import BrokerLimits, check_cost

_MAX_CONDITION_WIDTH: Final = 60
_MAX_QUOTED_CONDITIONS: Final = 3
_MAX_COMPARED_LEAVES: Final = 100  # of one AND; every pair is compared
_COMPARISONS: Final = frozenset(["=", "<>", "<", "<=", ">", ">=", "like", "ilike", "rlike"])


def why_unsatisfiable(wanted: Filter, where: Any, language: str) -> str | None:
    """The reason why a filter matches nothing, and what to write instead; None if no common mistake is found."""
    if language == "sql":
        reason = next(_null_comparisons(str(where)), None)
        if reason is not None:
            return reason
    return _contradiction(as_written(wanted.written))


def doubtful_dates(where: Any, language: str) -> list[str]:
    """Dates without quotes, which are differences of numbers, and what to write instead."""
    if language != "sql":
        return []
    from palio.languages.sql.parser import parse_condition

    text = str(where)
    found = []
    for node in walk(parse_condition(text)):
        match node:
            case Call("-", (Call("-", (Literal(int() as year), Literal(int() as month))), Literal(int() as day))):
                written = _source_text(node, text)
                if _BARE_DATE.fullmatch(written) and 1 <= month <= 12 and 1 <= day <= 31:
                    means = f"{written} is {year} minus {month} minus {day}, which is {year - month - day}"
                    found.append(f"{means}; did you mean DATE'{year:04}-{month:02}-{day:02}'?")
    return found[::-1]


_BARE_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}")


def _null_comparisons(text: str) -> Iterator[str]:
    """Reasons for comparisons with NULL, which are NULL themselves and never TRUE."""
    from palio.languages.sql.parser import parse_condition

    for node in walk(parse_condition(text)):
        match node:
            case Call("not", (Call("in", (_, *items)) as inside,)) if any(map(_is_null, items)):
                written = _source_text(inside, text)
                yield f"with a NULL in its list, {written} is never TRUE; leave the NULL out"
            case Call(function, arguments) if function in _COMPARISONS and any(map(_is_null, arguments)):
                yield _null_advice(node, text)
            case Call("in", (value, *items)) if all(map(_is_null, items)):
                yield f"{_source_text(node, text)} is never TRUE; write {_source_text(value, text)} IS NULL"


def _is_null(expression: Expression) -> bool:
    return isinstance(expression, Literal) and expression.value is None


def _null_advice(call: Call, text: str) -> str:
    """What to write for a comparison with NULL."""
    value = next((each for each in call.arguments if not _is_null(each)), None)
    if call.function in ("=", "<>") and value is not None:
        test = "IS NULL" if call.function == "=" else "IS NOT NULL"
        return f"{_source_text(call, text)} is never TRUE; write {_source_text(value, text)} {test}"
    return f"{_source_text(call, text)} is never TRUE: nothing compares with NULL"


def _source_text(expression: Expression, text: str) -> str:
    return shorten(" ".join(text[slice(*expression.span)].split()), _MAX_CONDITION_WIDTH)


def _contradiction(node: Node) -> str | None:
    """The reason for two conditions on one attribute that no value satisfies both."""
    if isinstance(node, Or):
        return next((reason for child in node.children if (reason := _contradiction(child))), None)
    if not isinstance(node, And):
        return None
    leaves = [child for child in node.children if isinstance(child, Leaf)]
    for first, second in combinations(leaves[:_MAX_COMPARED_LEAVES], 2):
        if first.attribute == second.attribute and first.values.intersect(second.values).is_empty:
            return f"{_written(first)} and {_written(second)} exclude each other"
    # No pair excludes each other, so some child is a contradiction by itself.
    for child in node.children:
        if normal(child) == NOTHING:
            return _contradiction(child)
    return None


def _written(leaf: Leaf) -> str:
    return shorten(strip_parentheses(to_sql(leaf)), _MAX_CONDITION_WIDTH)


class SlowCondition(NamedTuple):
    """Why a condition is slow, and by how much; and how to write it so that it is not."""

    reason: str
    remedy: str


def why_slow(filter: Filter, uses: ExpressionUses | None = None) -> list[SlowCondition]:
    """The reasons why a filter costs an event more than ten equalities do, the worst first.

    `uses` has the expressions of all subscriptions beside which it is asked; by default it is alone.
    """
    return [*_broker_reasons(filter), *_index_reasons(filter, uses)]


def _broker_reasons(filter: Filter) -> list[SlowCondition]:
    """Why a broker with the default limits refuses a condition."""
    try:
        check_cost(filter, BrokerLimits())
    except LimitReached as error:
        return [SlowCondition(f"brokers refuse it: {error}", "a condition that reads each text once is accepted")]
    return []


def _index_reasons(filter: Filter, uses: ExpressionUses | None) -> list[SlowCondition]:
    tree = filter.tree
    if tree in (Filter.everything.tree, Filter.nothing.tree):
        return []
    if is_always_candidate(tree):
        return [_unindexed_reason(tree), *_pattern_reasons(tree)]
    if uses is None:
        uses = ExpressionUses([tree])
    reasons = [*_expression_reasons(uses.unshared(tree)), *_residual_reasons(filter, uses)]
    if not reasons and only_excludes(tree):
        names = " and ".join(sorted(filter.attributes))
        reason = f"it only says what is not wanted: nearly every event with {names} is a candidate"
        reasons.append(SlowCondition(_with_cost(reason, ASKED_ALWAYS_COST), "add a condition that says what is wanted"))
    return reasons + _pattern_reasons(tree)


def _with_cost(reason: str, times: int) -> str:
    return f"{reason} (about {rounded_cost(times):,} × an equality)"


def _unindexed_reason(node: Node) -> SlowCondition:
    lacking = list(_unindexed(node))
    why = "has no value to look up" if isinstance(lacking[0], Residual) else "holds where the attribute is missing"
    alone = ", and one such alternative is enough" if isinstance(node, Or) else ""
    reason = f"every event is asked: {_quoted(lacking[:1])} {why}{alone}"
    remedy = "add a condition that an event without the attribute does not meet, such as an equality with AND"
    return SlowCondition(_with_cost(reason, ASKED_ALWAYS_COST), remedy)


def _unindexed(node: Node) -> Iterator[Leaf | Residual]:
    """The conditions that offer nothing to file under, and make every event a candidate."""
    match node:
        case And(children):
            for child in children:
                yield from _unindexed(child)
        case Or(children):
            for child in children:
                if is_always_candidate(child):
                    yield from _unindexed(child)
        case Leaf() | Residual():
            yield node


_SHARE: Final = "compare one expression with constants, and any number of conditions share it; or publish its value"


def _expression_reasons(names: list[str]) -> list[SlowCondition]:
    if not names:
        return []
    shown = [shorten(strip_parentheses(expression_text(each)), _MAX_CONDITION_WIDTH) for each in names]
    times = sum(relative_cost(computed_attribute(each).expression) for each in names)
    reason = (
        f"{_listed(shown)} computed for each event, and fewer than {MIN_SHARING_CONDITIONS} subscriptions share that"
    )
    return [SlowCondition(_with_cost(reason, times), _SHARE)]


def _residual_reasons(filter: Filter, uses: ExpressionUses) -> list[SlowCondition]:
    paths = AccessPaths(filter.tree, uses.indexed(filter.tree))
    found = [each for each in leaves(as_written(filter.written)) if paths.of(each).kind == "residual"]
    cost = f"(about {RESIDUAL_COST:,} × an equality there)"
    if found:
        return [SlowCondition(f"{_quoted(found)} is evaluated on each event that meets the rest {cost}", _SHARE)]
    if uses.is_checked(filter.tree):
        reason = "integers, decimals and doubles have different bounds here, and each candidate is checked"
        return [
            SlowCondition(f"{reason} {cost}", "write constants of the kind that the values have: 0.03D for doubles")
        ]
    return []


def _listed(texts: list[str]) -> str:
    found = texts if len(texts) <= _MAX_QUOTED_CONDITIONS else [*texts[:2], f"{len(texts) - 2} more"]
    return f"{', '.join(found[:-1])} and {found[-1]} are" if len(found) > 1 else f"{found[0]} is"


def _pattern_reasons(tree: Node) -> list[SlowCondition]:
    reasons: dict[SlowCondition, None] = {}
    for condition in leaves(lift_tree(tree)):
        if not isinstance(condition, Leaf):
            continue
        for test in condition.values.tests:
            cost = pattern_cost(test.pattern)
            if cost.is_slow:
                name = strip_parentheses(expression_text(condition.attribute))
                reason = f"{_quoted([_of_test(condition.attribute, test)])} {_tried_on(cost.reason, name)}"
                reasons[SlowCondition(_with_cost(reason, cost.times), cost.remedy)] = None
    return list(reasons)


def _tried_on(reason: str, name: str) -> str:
    return reason.format(values=f"distinct value of {name}")


def _of_test(attribute: str, test: Test) -> Node:
    """A test of an attribute, or of an expression, as a condition by itself."""
    if not is_computed(attribute):
        return Leaf(attribute, domain_of(test).where([test]))
    computed = computed_attribute(attribute)
    match test.pattern:
        case Rlike(regex):
            asked = Call("rlike", (computed.expression, Literal(regex.text)))
        case Like(pattern):
            asked = Call("ilike" if pattern.ignore_case else "like", (computed.expression, Literal(pattern.sql)))
        case _:
            return Leaf(expression_text(attribute), domain_of(test).where([test]))
    return Residual(asked, test.wanted, computed.timezone)


def _quoted(conditions: Iterable[Node]) -> str:
    texts = dict.fromkeys(shorten(strip_parentheses(to_sql(each)), _MAX_CONDITION_WIDTH) for each in conditions)
    found = list(texts) if len(texts) <= _MAX_QUOTED_CONDITIONS else [*list(texts)[:2], f"{len(texts) - 2} more"]
    return f"{', '.join(found[:-1])} and {found[-1]}" if len(found) > 1 else found[0]
