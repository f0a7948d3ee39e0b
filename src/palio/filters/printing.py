"""Writing a filter as SQL that reads back as the same filter.

A set of values is written with the comparisons a person would use. SQL's comparisons reach into several kinds at
once (`x = '10'` also accepts the number 10), so what was written is checked against what it means, and where that
is not exactly the set, each kind is written for itself behind a `typeof(x) = …` guard.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Final

from palio.events.values import Scalar
from palio.filters.comparisons import day_beginning, equal_to_any
from palio.filters.expressions.printing import condition_to_sql, literal_to_sql
from palio.filters.intervals import Intervals
from palio.filters.kinds import Kind
from palio.filters.like import LikePattern
from palio.filters.names import to_sql as name_to_sql
from palio.filters.patterns import Computed, Like, Matching, Test
from palio.filters.terms import NUMBERS, Term, holes, meaning, terms
from palio.filters.tree import And, Leaf, Node, Or, Residual
from palio.filters.values import (
    ANY_VALUE,
    NO_VALUE,
    NULLS,
    PRESENT,
    STRINGS,
    ValueSet,
    after_prefix,
    union_of,
)

# What typeof() says of a kind, as the guard writes it.
TYPE_NAMES: Final[dict[Kind, str]] = {
    Kind.BOOLEAN: "boolean",
    Kind.INTEGER: "bigint",
    Kind.DECIMAL: "decimal",
    Kind.FLOAT: "double",
    Kind.STRING: "string",
    Kind.DATE: "date",
    Kind.TIMESTAMP: "timestamp",
    Kind.BYTES: "binary",
}
# SQL knows one NULL; these tell a null that is there from what is missing.
NULL_NAMES: Final[dict[Kind, str]] = {Kind.NULL: "void", Kind.MISSING: "missing"}


def to_sql(node: Node, timezone: str = "UTC") -> str:
    """A tree as SQL that means the tree where it is read in a time zone."""
    return _print(node, timezone)[0]


# Texts carry how loosely they bind: 0 an atom or comparison, 1 AND, 2 OR.
def _print(node: Node, timezone: str) -> tuple[str, int]:
    match node:
        case Leaf(attribute, values):
            return leaf_to_sql(attribute, values, timezone)
        case Residual(expression, wants, own):
            return _in_zone(condition_to_sql(expression, wants), own, timezone), 0
        case And(children):
            return _join(" AND ", 1, [_print(child, timezone) for child in children], "TRUE")
        case Or(children):
            return _join(" OR ", 2, [_print(child, timezone) for child in children], "FALSE")


def _join(word: str, binding: int, parts: list[tuple[str, int]], empty: str) -> tuple[str, int]:
    if not parts:
        return empty, 0
    if len(parts) == 1:
        return parts[0]
    return word.join(text if loose <= binding else f"({text})" for text, loose in parts), binding


def leaf_to_sql(attribute: str, values: ValueSet, timezone: str = "UTC") -> tuple[str, int]:
    """One attribute in a set of values, as SQL, with how loosely it binds."""
    return values_to_sql(name_to_sql(attribute), values, timezone)


def values_to_sql(name: str, values: ValueSet, timezone: str = "UTC") -> tuple[str, int]:
    """That what a piece of SQL names is in a set of values."""
    parts = ValueSet(values.parts)
    tests = sorted(_test_to_sql(name, test, timezone) for test in values.tests)
    if tests and parts == implied_by_tests(values.tests):
        return _join(" AND ", 1, [(text, 0) for text in tests], "")
    return _join(" AND ", 1, [_plain_to_sql(name, parts, timezone), *((text, 0) for text in tests)], "")


def implied_by_tests(tests: Iterable[Test]) -> ValueSet:
    """The values that tests leave by themselves, before any is asked: what reading them back will give."""
    total = ANY_VALUE
    for test in tests:
        total = ValueSet(total.intersect(domain_of(test)).parts)
    return total


def domain_of(test: Test) -> ValueSet:
    """The enumerable set in which a test is looked at: for LIKE 'ab%c', the strings that start with 'ab'."""
    match test.pattern:
        case Like(pattern) if test.wanted and pattern.starts and not pattern.ignore_case:
            return ValueSet.prefix(pattern.starts)
        case Like() | Matching():
            return STRINGS
        case Computed(expression, _, _):
            from palio.filters.expressions.evaluate import is_strict

            if test.pattern.is_about_text:
                return STRINGS
            return PRESENT if is_strict(expression) else ANY_VALUE
    raise TypeError(test.pattern)


def _in_zone(condition: str, own: str, timezone: str) -> str:
    """A computed condition as it is written where another zone than its own is the rule."""
    return condition if own == timezone else f"in_timezone({literal_to_sql(own)}, {condition})"


def _test_to_sql(name: str, test: Test, timezone: str) -> str:
    match test.pattern:
        case Like(pattern):
            word = "ILIKE" if pattern.ignore_case else "LIKE"
            return f"{name} {'' if test.wanted else 'NOT '}{word} {literal_to_sql(pattern.sql)}"
        case Matching(regex):
            return f"{name} {'' if test.wanted else 'NOT '}RLIKE {literal_to_sql(regex.text)}"
        case Computed(expression, wants, own):
            return _in_zone(condition_to_sql(expression, wants), own, timezone)
    raise TypeError(test.pattern)


@dataclass(frozen=True)
class _Written:
    """A piece of SQL about one attribute, and the values it accepts when read back."""

    text: str
    binding: int
    values: ValueSet


@lru_cache(maxsize=4096)  # that a number is its text, or a string any but these, is said of many attributes alike
def _plain_to_sql(name: str, wanted: ValueSet, timezone: str) -> tuple[str, int]:
    if wanted == PRESENT:
        return f"{name} IS NOT NULL", 0
    if wanted == ANY_VALUE:
        return "TRUE", 0
    absent = _nulls_to_sql(name, wanted)
    left_out = wanted.complement()
    if absent and _kinds_in(left_out) < _kinds_in(wanted):
        if left_out == ValueSet.kinds(Kind.MISSING):
            return f"typeof({name}) <> 'missing'", 0
        return f"({_plain_to_sql(name, left_out, timezone)[0]}) IS NOT TRUE", 0
    left_out = PRESENT.intersect(left_out)
    if not absent and _kinds_in(left_out) < _kinds_in(wanted):
        return f"{name} IS NOT NULL AND {_all_but(name, left_out, timezone)}", 1
    pieces = list(absent)
    for group in _GROUPS:
        have = union_of(piece.values for piece in pieces) or NO_VALUE
        if all(have.parts[kind] == wanted.parts[kind] for kind in group):
            continue
        pieces.extend(_write_group(name, group, wanted, timezone))
    total = union_of(piece.values for piece in pieces) or NO_VALUE
    if not all(total.parts[kind] == wanted.parts[kind] for kind in TYPE_NAMES):
        pieces = list(absent)
        pieces += [_guarded(name, kind, wanted) for kind in TYPE_NAMES if not wanted.parts[kind].is_empty]
    return _join(" OR ", 2, [(piece.text, piece.binding) for piece in pieces], "FALSE")


def _all_but(name: str, left_out: ValueSet, timezone: str) -> str:
    kinds = [kind for kind in TYPE_NAMES if not left_out.parts[kind].is_empty]
    if len(kinds) == 1 and left_out.parts[kinds[0]].is_full:
        return f"typeof({name}) <> '{TYPE_NAMES[kinds[0]]}'"
    return f"({_plain_to_sql(name, left_out, timezone)[0]}) IS NOT TRUE"


def _nulls_to_sql(name: str, wanted: ValueSet) -> list[_Written]:
    """What is wanted of the two kinds that SQL takes for one."""
    kinds = [kind for kind in NULL_NAMES if not wanted.parts[kind].is_empty]
    if len(kinds) == 1:
        return [_Written(f"typeof({name}) = '{NULL_NAMES[kinds[0]]}'", 0, ValueSet.kinds(*kinds))]
    return [_Written(f"{name} IS NULL", 0, NULLS)] if kinds else []


def _kinds_in(values: ValueSet) -> int:
    return sum(not part.is_empty for part in values.parts)


# Strings come first: their literals reach into the other kinds, which may then need no words of their own.
_GROUPS: Final[tuple[tuple[Kind, ...], ...]] = (
    (Kind.STRING,),
    (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT),
    (Kind.DATE, Kind.TIMESTAMP),
    (Kind.BOOLEAN,),
    (Kind.BYTES,),
)


def _write_group(name: str, group: tuple[Kind, ...], wanted: ValueSet, timezone: str) -> Iterator[_Written]:
    """The kinds of a group in one go, by the first kind whose literals give exactly what is wanted of all."""
    for written in _attempts(name, group, wanted, timezone):
        if written is not None and all(
            written.values.parts[each] == wanted.parts[each] or each not in group for each in TYPE_NAMES
        ):
            leaks = any(
                not wanted.parts[each].covers(written.values.parts[each]) for each in TYPE_NAMES if each not in group
            )
            if not leaks:
                yield written
                return
    for kind in group:
        if not wanted.parts[kind].is_empty:
            yield _guarded(name, kind, wanted)


def _attempts(name: str, group: tuple[Kind, ...], wanted: ValueSet, timezone: str) -> Iterator[_Written | None]:
    """Ways to write a group, those that read best first."""
    for kind in (Kind.DECIMAL, Kind.FLOAT) if Kind.FLOAT in group else group:
        if kind is Kind.TIMESTAMP:  # d > DATE'…' is of all days and moments, and neither kind's own cuts say it
            yield _write(name, kind, wanted.parts[kind], timezone, lambda literal: _day_at(literal, timezone))
        yield _write(name, kind, wanted.parts[kind], timezone)


def _day_at(literal: Scalar, timezone: str) -> Scalar:
    """The day that begins at a moment, where one does."""
    return day_beginning(literal, timezone) or literal if isinstance(literal, datetime) else literal


def _guarded(name: str, kind: Kind, wanted: ValueSet) -> _Written:
    guard = f"typeof({name}) = '{TYPE_NAMES[kind]}'"
    values = ValueSet.of({kind: wanted.parts[kind]})
    if wanted.parts[kind].is_full:
        return _Written(guard, 0, values)
    written = _write(name, kind, wanted.parts[kind], "UTC")  # of one kind alone: no zone matters
    assert written is not None
    text = f"({written.text})" if written.binding == 2 else written.text
    return _Written(f"{guard} AND {text}", 1, values)


def _write(
    name: str, kind: Kind, part: Intervals, timezone: str, as_literal: Callable[[Scalar], Scalar] = lambda value: value
) -> _Written | None:
    """One kind's part with comparisons; None where no comparison can say it."""
    if part.is_empty:
        return None
    if part.is_full:
        return _write_all(name, kind)
    if kind is Kind.BOOLEAN:
        truth = part.contains(1)
        return _Written(name if truth else f"NOT {name}", 0, meaning([[("=", truth)]]))
    left_out = holes(kind, part)
    if left_out is not None:
        left_out = [as_literal(each) for each in left_out]
        lists = [(_listed(name, "<>", "NOT IN", alike), 0) for alike in _alike(left_out)]
        return _Written(*_join(" AND ", 1, lists, ""), meaning([[("<>", each) for each in left_out]], timezone))
    if kind is Kind.STRING and (patterns := _patterns_left_out(part)):
        unlike = [(f"{name} NOT LIKE {literal_to_sql(pattern.sql)}", 0) for pattern in patterns]
        return _Written(*_join(" AND ", 1, unlike, ""), ValueSet.of({kind: part}))
    found = [[(operator, as_literal(each)) for operator, each in term] for term in terms(kind, part)]
    points = [term[0][1] for term in found if term[0][0] == "="]
    others = [term for term in found if term[0][0] != "="]
    pieces = [(_listed(name, "=", "IN", alike), 0) for alike in _alike(points)]
    meant = [equal_to_any(alike, timezone).true for alike in _alike(points)]
    for term in others:
        start = _prefix(term) if kind is Kind.STRING else None
        pieces.append(_interval(name, term) if start is None else (_starting(name, start), 0))
        meant.append(meaning([term], timezone) if start is None else ValueSet.prefix(start))
    text, binding = _join(" OR ", 2, pieces, "FALSE")
    return _Written(text, binding, union_of(meant) or NO_VALUE)


def _prefix(term: Term) -> str | None:
    """The text with which all strings of an interval start, where they are all the strings that do."""
    match term:
        case [(">=", str(low)), ("<", str(high))] if low and after_prefix(low) == high:
            return low
    return None


def _patterns_left_out(part: Intervals) -> list[LikePattern]:
    """The patterns of the strings that a set leaves out, where it is all strings but those of some prefixes."""
    left_out: list[LikePattern] = []
    for term in terms(Kind.STRING, part.complement()):
        start = _prefix(term)
        if start is not None:
            left_out.append(LikePattern.starting(start))
        elif len(term) == 1 and term[0][0] == "=":
            left_out.append(LikePattern.exactly(str(term[0][1])))
        else:
            return []
    return left_out


def _starting(name: str, start: str) -> str:
    return f"{name} LIKE {literal_to_sql(LikePattern.starting(start).sql)}"


def _write_all(name: str, kind: Kind) -> _Written | None:
    if kind is Kind.STRING:
        return _Written(f"{name} LIKE '%'", 0, STRINGS)
    if kind is Kind.BOOLEAN:
        return _Written(f"{name} IN (FALSE, TRUE)", 0, meaning([[("=", False)], [("=", True)]]))
    if kind in NUMBERS:
        names = ", ".join(literal_to_sql(TYPE_NAMES[each]) for each in NUMBERS)
        return _Written(f"typeof({name}) IN ({names})", 0, ValueSet.kinds(*NUMBERS))
    return None


def _alike(literals: list[Scalar]) -> list[list[Scalar]]:
    """The literals that may stand in one list: beside a float, IN would take all numbers as floats."""
    floats: list[Scalar] = [each for each in literals if isinstance(each, float)]
    others: list[Scalar] = [each for each in literals if not isinstance(each, float)]
    return [alike for alike in (others, floats) if alike]


def _listed(name: str, single: str, several: str, literals: list[Scalar]) -> str:
    if len(literals) == 1:
        return f"{name} {single} {literal_to_sql(literals[0])}"
    return f"{name} {several} ({', '.join(literal_to_sql(each) for each in literals)})"


def _interval(name: str, term: Term) -> tuple[str, int]:
    if [operator for operator, _ in term] == [">=", "<="]:
        return f"{name} BETWEEN {literal_to_sql(term[0][1])} AND {literal_to_sql(term[1][1])}", 0
    texts = [f"{name} {operator} {literal_to_sql(literal)}" for operator, literal in term]
    return _join(" AND ", 1, [(text, 0) for text in texts], "TRUE")
