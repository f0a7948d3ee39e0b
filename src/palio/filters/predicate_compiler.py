"""Compiler from a condition tree to a function of an event's attributes.

Compilation pays off for a filter that is evaluated on many events. A predicate on one attribute becomes a table from
the types of values to functions; integers, strings and bytes are compared directly, because Python orders them as their
kinds do. An event with several values for an attribute is left to `array_choice`. Of several conditions the cheapest is
evaluated first: a residual's candidates mostly fail, and should do so before the dearest function is computed.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Mapping
from functools import cache
from typing import Any, Final, TypeAlias

from palio.errors import PalioError
from palio.filters.expressions.ast import Call, Expression, walk
from palio.filters.kinds import KIND_OF_TYPE, LAST_FLOAT, MISSING, Kind, Missing, cut_after, float_at, position_of
from palio.filters.tree import And, Leaf, Node, Or, Residual
from palio.filters.value_predicates import Computed
from palio.filters.value_sets import Intervals, ValueSet

Test: TypeAlias = Callable[[Mapping[str, Any]], bool]
_Member: TypeAlias = Callable[[Any], bool]
# Kinds whose values are their own positions, so that a value is compared with a cut as it is.
_SELF_POSITIONED: Final = frozenset((Kind.INTEGER, Kind.STRING, Kind.BYTES))
_MAX_EQUAL_TO: Final = 4  # values of a condition that is about as selective as an equality


class MultipleValues(PalioError):
    """An attribute has several values, of which one must be chosen (internal control flow)."""


def compile_tree(node: Node) -> Test:
    """A tree as a function of attributes, which raises `MultipleValues` where the result depends on a choice."""
    match node:
        case Leaf(attribute, values):
            is_of_kinds = not values.tests and not any(part.cuts for part in values.parts)
            return _leaf(attribute, _members_of_kinds(values) if is_of_kinds else _members(values))
        case And(children):
            every = _every(tuple(map(compile_tree, cheapest_first(children))))
            # `array_choice` counts the combinations over all alternatives of an AND, whichever of them hold.
            return _single_valued(every) if sum(isinstance(child, Or) for child in children) > 1 else every
        case Or(children):
            return _some(tuple(map(compile_tree, cheapest_first(children))))
        case Residual():
            return _residual(node)


def cheapest_first(conditions: Iterable[Node]) -> list[Node]:
    """Conditions in the order in which they are best evaluated: by their cost, then equalities before others."""
    return sorted(conditions, key=_cost)


def _cost(node: Node) -> tuple[int, bool]:
    """The operations that a condition takes, and whether it is anything but an equality, which holds least often."""
    match node:
        case Leaf(_, values):
            patterns = [test.pattern for test in values.tests]
            computed = sum(_operations(each.expression) for each in patterns if isinstance(each, Computed))
            return computed + len(patterns), values.values(_MAX_EQUAL_TO) is None
        case Residual(expression):
            return _operations(expression), not (isinstance(expression, Call) and expression.function == "=")
        case And(children) | Or(children):
            return sum(_cost(child)[0] for child in children) + len(children), True


def _operations(expression: Expression) -> int:
    return sum(isinstance(each, Call) for each in walk(expression))


def _members(values: ValueSet) -> Mapping[type, _Member]:
    members = {kind: _member(values, kind) for kind in KIND_OF_TYPE}
    return members | {tuple: _member_of_array(members[Missing])}


_members_of_kinds: Final = cache(_members)
"""Tables of sets of whole kinds, such as IS NOT NULL, which accompany most computed conditions, are shared."""


def _leaf(attribute: str, members: Mapping[type, _Member]) -> Test:
    def leaf(event: Mapping[str, Any]) -> bool:
        value = event.get(attribute, MISSING)
        return members[value.__class__](value)

    return leaf


def _every(tests: tuple[Test, ...]) -> Test:
    def every(event: Mapping[str, Any]) -> bool:
        for test in tests:
            if not test(event):
                return False
        return True

    return tests[0] if len(tests) == 1 else every


def _some(tests: tuple[Test, ...]) -> Test:
    def some(event: Mapping[str, Any]) -> bool:
        for test in tests:
            if test(event):
                return True
        return False

    return tests[0] if len(tests) == 1 else some


def _single_valued(every: Test) -> Test:
    """Defer a positive result for an event with arrays: `array_choice` rejects it if the combinations are too many."""

    def single_valued(event: Mapping[str, Any]) -> bool:
        if not every(event):
            return False
        _check_single_values(event)
        return True

    return single_valued


def _residual(node: Residual) -> Test:
    def residual(event: Mapping[str, Any]) -> bool:
        if tuple not in map(type, event.values()):
            return node.holds(event, {})
        _check_single_values(event)
        scalars = {name: value for name, value in event.items() if type(value) is not tuple}
        return node.holds(scalars, {name: value for name, value in event.items() if type(value) is tuple})

    return residual


def _check_single_values(event: Mapping[str, Any]) -> None:
    """Raise for an array, unless it is empty: then there is nothing to choose, and the attribute is missing."""
    if tuple in map(type, event.values()) and any(type(value) is tuple and value for value in event.values()):
        raise MultipleValues


def _member_of_array(of_missing: _Member) -> _Member:
    def member(values: Any) -> bool:
        if values:
            raise MultipleValues
        return of_missing(MISSING)

    return member


def _member(values: ValueSet, type_: type) -> _Member:
    """Whether a value of a type is in a set."""
    kind = KIND_OF_TYPE[type_]
    intervals = values.parts[kind]
    if values.tests:
        return values.contains
    if not intervals.cuts:
        return _always if intervals.inside else _never
    if kind in _SELF_POSITIONED:
        return _points(kind, intervals) or _between(intervals)
    if kind is Kind.FLOAT:
        return _floats(intervals)
    return lambda value: intervals.contains(position_of(kind, value))


def _always(value: Any) -> bool:
    return True


def _never(value: Any) -> bool:
    return False


def _points(kind: Kind, intervals: Intervals) -> _Member | None:
    """Membership in a set of points; None where the set has an interval."""
    ends = intervals.cuts
    # A point is a pair of cuts with nothing but the value between them.
    if (
        intervals.inside
        or len(ends) % 2
        or any(cut_after(kind, ends[at]) != ends[at + 1] for at in range(0, len(ends), 2))
    ):
        return None
    return frozenset(ends[::2]).__contains__


def _between(intervals: Intervals) -> _Member:
    cuts, inside = intervals.cuts, intervals.inside
    if len(cuts) == 1:  # the bound method is called without a frame of Python's
        return cuts[0].__gt__ if inside else cuts[0].__le__  # type: ignore[no-any-return]
    # Each cut below the value flips membership, starting from `inside`.
    return lambda value: bool(bisect_right(cuts, value) & 1) is not inside


def _floats(intervals: Intervals) -> _Member:
    """Membership by Python's order of floats, except for NaN, which is the greatest."""
    # Cuts are positions of floats, so the float at a cut compares as the cut does. NaN compares false with all.
    ordered = Intervals(intervals.inside, tuple(float_at(cut) for cut in intervals.cuts if cut < LAST_FLOAT))
    is_nan_inside = intervals.contains(LAST_FLOAT)
    within = _between(ordered) if ordered.cuts else (_always if ordered.inside else _never)
    if is_nan_inside == within(float("nan")):
        return within  # gives the right result for NaN by itself
    return lambda value: within(value) if value == value else is_nan_inside
