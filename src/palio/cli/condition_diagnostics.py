"""Diagnostics of conditions: why no event can match one, and why one costs more than a look-up in the index.

The index files a subscription under a condition that every match satisfies: a value, a range, a pattern with a fixed
text, a value of an expression. Some conditions offer nothing to file under (an absent attribute), and some exclude so
little that nearly every event is a candidate. An expression is computed once for an event, however many subscriptions
compare it with constants, so that it costs next to nothing where many share it, and an evaluation where few do. This is
read off the filters, without building an index; a test compares it with the index.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import combinations
from typing import Any, Final

from palio.cli.terminal import shorten, strip_parentheses
from palio.filters.explanation import as_written
from palio.filters.expressions.ast import Call, Expression, Literal, walk
from palio.filters.filter import Filter
from palio.filters.kinds import Kind
from palio.filters.normal_form import normal
from palio.filters.sql_writer import to_sql
from palio.filters.tree import NOTHING, And, Leaf, Node, Or, Residual, domain_of, leaves
from palio.filters.value_predicates import Computed, Like, Rlike, Test
from palio.filters.value_sets import PRESENT
from palio.matching.columnar.array_members import membership_in
from palio.matching.columnar.computed_attributes import MIN_SHARING_CONDITIONS, ExpressionUses, lift_tree

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


def why_slow(filter: Filter, uses: ExpressionUses | None = None) -> list[str]:
    """The reasons why a filter costs more than ten look-ups in the index, the worst first.

    `uses` has the expressions of all subscriptions beside which it is asked; by default it is alone.
    """
    tree = filter.tree
    if tree in (Filter.everything.tree, Filter.nothing.tree):
        return []
    if is_always_candidate(tree):
        return [_unindexed_reason(tree), *_pattern_reasons(tree)]
    reasons = _expression_reasons((uses or ExpressionUses([tree])).unshared(tree))
    if not reasons and _only_excludes(tree):
        names = " and ".join(sorted(filter.attributes))
        reasons.append(f"it only says what is not wanted: nearly every event with {names} is a candidate")
    return reasons + _pattern_reasons(tree)


def is_always_candidate(node: Node) -> bool:
    """Whether no condition is one that every match satisfies, so that every event is a candidate."""
    return _is_always_candidate(lift_tree(node))


def _is_always_candidate(node: Node) -> bool:
    match node:
        case Leaf(_, values):
            return not values.parts[Kind.MISSING].is_empty and not any(test.wanted for test in values.tests)
        case And(children):
            return all(_is_always_candidate(child) for child in children)
        case Or(children):
            return any(_is_always_candidate(child) for child in children)
        case Residual():
            return membership_in(node) is None


def _unindexed_reason(node: Node) -> str:
    lacking = list(_unindexed(node))
    why = "has no value to look up" if isinstance(lacking[0], Residual) else "holds where the attribute is missing"
    alone = ", and one such alternative is enough" if isinstance(node, Or) else ""
    return f"every event is asked: {_quoted(lacking[:1])} {why}{alone}"


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


def _expression_reasons(expressions: list[str]) -> list[str]:
    if not expressions:
        return []
    shown = [shorten(strip_parentheses(each), _MAX_CONDITION_WIDTH) for each in expressions]
    few = f"fewer than {MIN_SHARING_CONDITIONS} subscriptions share that"
    remedy = "compared with constants, one expression serves any number of them"
    return [f"{_listed(shown)} computed for each event, and {few}; {remedy}"]


def _listed(texts: list[str]) -> str:
    found = texts if len(texts) <= _MAX_QUOTED_CONDITIONS else [*texts[:2], f"{len(texts) - 2} more"]
    return f"{', '.join(found[:-1])} and {found[-1]} are" if len(found) > 1 else f"{found[0]} is"


def _only_excludes(tree: Node) -> bool:
    conditions = list(leaves(tree))
    return any(map(_is_negation, conditions)) and all(
        _is_negation(each) or (isinstance(each, Leaf) and each.values == PRESENT) for each in conditions
    )


def _is_negation(condition: Leaf | Residual) -> bool:
    """Whether a condition admits all values of a kind but some in the middle, or but those of a pattern."""
    if not isinstance(condition, Leaf) or any(test.wanted for test in condition.values.tests):
        return False
    # Inside at the lowest value and an even number of cuts: unbounded at both ends, with gaps in between.
    parts = [part for part in condition.values.parts if not part.is_empty]
    if not all(part.inside and len(part.cuts) % 2 == 0 for part in parts):
        return False
    return bool(condition.values.tests) or any(part.cuts for part in parts)


def _pattern_reasons(tree: Node) -> list[str]:
    reasons: dict[str, None] = {}
    for condition in leaves(tree):
        if not isinstance(condition, Leaf):
            continue
        for test in condition.values.tests:
            written = _quoted([Leaf(condition.attribute, domain_of(test).where([test]))])
            each = f"each distinct value of {condition.attribute}"
            if not isinstance(test.pattern, Computed) and not _has_fixed_text(test):
                reasons[f"{written} has no fixed text to look for: tried on {each}"] = None
    return list(reasons)


def _has_fixed_text(test: Test) -> bool:
    if isinstance(test.pattern, Like):
        return bool(test.pattern.pattern.literals)
    if isinstance(test.pattern, Rlike):
        return _regex_has_fixed_text(test.pattern.regex.text)
    return False


def _regex_has_fixed_text(text: str) -> bool:
    """Whether some position of the expression has one character in all matching texts."""
    from palio.filters.regex_parser import Alternation, CapturingGroup, Characters, Repeat, Sequence, parse

    def fixed(node: object) -> bool:
        match node:
            case Characters(ranges):
                return sum(high - low + 1 for low, high in ranges) <= 2  # a letter, in one case or both
            case Sequence(parts):
                return any(fixed(part) for part in parts)
            case Alternation(options):
                return bool(options) and all(fixed(option) for option in options)
            case Repeat(body, least, _):
                return least > 0 and fixed(body)
            case CapturingGroup(body):
                return fixed(body)
        return False

    return fixed(parse(text))


def _quoted(conditions: Iterable[Node]) -> str:
    texts = dict.fromkeys(shorten(strip_parentheses(to_sql(each)), _MAX_CONDITION_WIDTH) for each in conditions)
    found = list(texts) if len(texts) <= _MAX_QUOTED_CONDITIONS else [*list(texts)[:2], f"{len(texts) - 2} more"]
    return f"{', '.join(found[:-1])} and {found[-1]}" if len(found) > 1 else found[0]
