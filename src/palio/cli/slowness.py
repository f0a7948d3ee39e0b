"""Which conditions will a matcher not find by its index, and why?

The index files a subscription under a condition that every match satisfies: a value, a range, a pattern that
hits. Some conditions offer nothing to file under (what an event lacks), some must be worked out one event at
a time (several attributes computed with), and some say so little that nearly every event is a candidate.
This module reads that off the filter, without building an index; a test holds it to what the index does.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from palio.cli.terminal import bare, shorten
from palio.filters.filter import Filter
from palio.filters.kinds import Kind
from palio.filters.patterns import Computed, Like, Matching, Test
from palio.filters.printing import domain_of, to_sql
from palio.filters.tree import And, Leaf, Node, Or, Residual, leaves
from palio.filters.values import PRESENT

_LONGEST = 60
_MOST_QUOTED = 3


def why_slow(filter: Filter) -> list[str]:
    """The reasons for which a filter costs more than a look into the index, the worst first."""
    tree = filter.tree
    if tree in (Filter.everything.tree, Filter.nothing.tree):
        return []
    if is_asked_always(tree):
        return [_unfiled_reason(tree), *_pattern_reasons(tree)]
    reasons = _residual_reasons(tree)
    if not reasons and _says_only_no(tree):
        names = " and ".join(sorted(filter.attributes))
        reasons.append(f"it only says what is not wanted: nearly every event with {names} is a candidate")
    return reasons + _pattern_reasons(tree)


def is_asked_always(node: Node) -> bool:
    """Whether there is nothing that every match must have, so that the index offers it every event."""
    match node:
        case Leaf(_, values):
            return not values.parts[Kind.MISSING].is_empty and not any(test.wanted for test in values.tests)
        case And(children):
            return all(is_asked_always(child) for child in children)
        case Or(children):
            return any(is_asked_always(child) for child in children)
    return True


def _unfiled_reason(node: Node) -> str:
    lacking = list(_unfiled(node))
    why = "has no value to look up" if isinstance(lacking[0], Residual) else "holds where the attribute is missing"
    alone = ", and one such alternative is enough" if isinstance(node, Or) else ""
    return f"every event is asked: {_quoted(lacking[:1])} {why}{alone}"


def _unfiled(node: Node) -> Iterator[Leaf | Residual]:
    """The conditions that offer nothing to file under, where that matters."""
    match node:
        case And(children):
            for child in children:
                yield from _unfiled(child)
        case Or(children):
            for child in children:
                if is_asked_always(child):
                    yield from _unfiled(child)
        case Leaf() | Residual():
            yield node


def _residual_reasons(tree: Node) -> list[str]:
    found = [each for each in leaves(tree) if isinstance(each, Residual)]
    if not found:
        return []
    selects = any(isinstance(each, Leaf) and each.values != PRESENT for each in leaves(tree))
    names = sorted({name for each in found for name in each.attributes})
    whom = "that passes the rest" if selects else f"with {' and '.join(names)}"
    return [f"no index holds {_quoted(found)}: worked out for each event {whom}"]


def _says_only_no(tree: Node) -> bool:
    conditions = list(leaves(tree))
    return any(map(_is_negation, conditions)) and all(
        _is_negation(each) or (isinstance(each, Leaf) and each.values == PRESENT) for each in conditions
    )


def _is_negation(condition: Leaf | Residual) -> bool:
    """Whether a condition lets all values of a kind through but some in the middle, or those of a pattern."""
    if not isinstance(condition, Leaf) or any(test.wanted for test in condition.values.tests):
        return False
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
            if isinstance(test.pattern, Computed):
                reasons[f"{written} is worked out for {each}"] = None
            elif not _has_fixed_text(test):
                reasons[f"{written} has no fixed text to look for: tried on {each}"] = None
    return list(reasons)


def _has_fixed_text(test: Test) -> bool:
    if isinstance(test.pattern, Like):
        return bool(test.pattern.pattern.literals)
    if isinstance(test.pattern, Matching):
        return _regex_has_fixed_text(test.pattern.regex.text)
    return False


def _regex_has_fixed_text(text: str) -> bool:
    """Whether all texts that match have some one character in common, at a place of the expression."""
    from palio.filters.regex_syntax import Characters, Choice, Group, Repeat, Sequence, read

    def fixed(node: object) -> bool:
        match node:
            case Characters(ranges):
                return sum(high - low + 1 for low, high in ranges) <= 2  # a letter, in one case or both
            case Sequence(parts):
                return any(fixed(part) for part in parts)
            case Choice(options):
                return bool(options) and all(fixed(option) for option in options)
            case Repeat(body, least, _):
                return least > 0 and fixed(body)
            case Group(body):
                return fixed(body)
        return False

    return fixed(read(text))


def _quoted(conditions: Iterable[Node]) -> str:
    texts = dict.fromkeys(shorten(bare(to_sql(each)), _LONGEST) for each in conditions)
    found = list(texts) if len(texts) <= _MOST_QUOTED else [*list(texts)[:2], f"{len(texts) - 2} more"]
    return f"{', '.join(found[:-1])} and {found[-1]}" if len(found) > 1 else found[0]
