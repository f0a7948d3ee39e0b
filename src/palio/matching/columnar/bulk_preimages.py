"""Intervals of sums, differences and products with constants, for whole columns of constants.

`price * 7 > 100` and ten thousand more that differ in both numbers are ranges of `+price`, whose ends
`filters.linear_preimages` computes for each kind of number. Here they are computed for all conditions of a template,
whose expression is taken apart once, and filed as arrays of cuts. Expressions with other functions are left to
`canonical_range`, one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from functools import reduce
from math import floor
from typing import Any, Final

import numpy as np

from palio.filters.expressions.ast import Attribute, Call, Expression, Literal, Micros
from palio.filters.kinds import KINDS, NUMBERS, Kind, float_at, float_position
from palio.filters.linear_preimages import ENDS, Function, Interval, comparison, intersect
from palio.filters.rewriting import canonical_range, kinds_of
from palio.languages.sql.lowering import TruthTest
from palio.languages.sql.template_parameters import Constant, Parameter, bind_some
from palio.languages.sql.template_predicates import Comparison, Connective, ExpressionPredicate
from palio.matching.columnar.array_types import Int64s
from palio.matching.columnar.axes_builder import UNBOUNDED
from palio.matching.columnar.computed_attributes import computed_name, of_kind
from palio.matching.columnar.conditions import ConditionsBuilder
from palio.matching.columnar.predicate_groups import operator_of
from palio.matching.columnar.slot_order import EXACT_FLOATS, Region

_REGIONS: Final = {Kind.DATE: Region.DATE, Kind.TIMESTAMP: Region.TIMESTAMP}
_TIMES: Final = (Kind.DATE, Kind.TIMESTAMP)
_FUNCTIONS: Final = frozenset(("+", "-", "*", "neg", "abs", "positive", "date_add", "date_sub", "datediff"))
_DAYS_BEFORE_1970: Final = date(1970, 1, 1).toordinal()


def linear_alternatives(
    builder: ConditionsBuilder,
    predicate: ExpressionPredicate,
    test: TruthTest,
    given: Sequence[Mapping[int, Any] | None],
    taken: set[str],
    timezone: str,
) -> tuple[str, list[list[list[int]] | None]] | None:
    """The attribute that conditions of one form restrict, and for each, by its parameters, the intervals of that.

    They are alternatives, as `bulk_shifts` has them. None for conditions of another form.
    """
    chain = _Chain.of(predicate, test, given, timezone)
    if chain is None or chain.name in taken:
        return None
    found: list[list[list[int]] | None] = [None] * len(given)
    intervals = chain.intervals(given)
    numbers = [kind for kind in chain.kinds if kind in NUMBERS]
    for row in intervals:
        found[row] = []
    if len(numbers) > 1:
        alike = [row for row, known in intervals.items() if _are_alike(known)]
        other = sorted(set(intervals).difference(alike))
        _add(builder, chain.name, (Kind.DECIMAL,), alike, intervals, found)
        for kind in numbers:
            _add(builder, of_kind(chain.name, kind), (kind,), other, intervals, found)
    else:
        _add(builder, chain.name, tuple(chain.kinds), list(intervals), intervals, found)
    return chain.name, found


def is_linear(predicate: Any, test: TruthTest, example: Mapping[int, Any], timezone: str) -> bool:
    """Whether conditions of the form of an example, by its parameters, are such ranges."""
    return isinstance(predicate, ExpressionPredicate) and _Chain.of(predicate, test, [example], timezone) is not None


@dataclass(frozen=True, slots=True)
class _Chain:
    """An expression as steps from the value that it restricts outwards, and what its value is compared with."""

    name: str
    kinds: tuple[Kind, ...]
    """The kinds that the innermost value may have for a condition to hold."""
    steps: tuple[tuple[Function, Any], ...]
    """Functions with their constants, parameters or values."""
    comparisons: tuple[tuple[str, Any], ...]

    @classmethod
    def of(
        cls, predicate: ExpressionPredicate, test: TruthTest, given: Sequence[Mapping[int, Any] | None], timezone: str
    ) -> _Chain | None:
        comparisons = _comparisons(predicate, test)
        example = next((each for each in given if each is not None), None)
        if comparisons is None or example is None or (predicate.compares_times and timezone != "UTC"):
            return None
        filled = bind_some(predicate.expression, example), test is TruthTest.TRUE, timezone
        canonical = canonical_range(*filled)
        if canonical is None or canonical[1].tests:
            return None
        inner, values = canonical
        steps = _steps(predicate.value, inner)
        if not steps:
            return None
        known = kinds_of(inner, timezone)
        chain = cls("", tuple(kind for kind in ENDS if known is None or kind in known), steps, comparisons)
        kinds = tuple(kind for kind in chain.kinds if chain.has_intervals(kind, example))
        if not kinds or any(
            not values.parts[kind].is_empty for kind in KINDS if kind not in kinds and (known is None or kind in known)
        ):
            return None
        if set(kinds) <= set(_TIMES):
            name = inner.name if isinstance(inner, Attribute) else computed_name(inner, timezone)
        elif isinstance(inner, Attribute) or not set(kinds) <= set(NUMBERS):
            return None
        else:
            name = computed_name(inner, timezone)
        return cls(name, kinds, steps, comparisons)

    def has_intervals(self, kind: Kind, values: Mapping[int, Any]) -> bool:
        """Whether the values of a kind are compared with something that compares with them."""
        path = self._path(kind, values)
        return path is not None and all(
            comparison(path[-1], operator)(_value(operand, values)) is not None
            for operator, operand in self.comparisons
        )

    def _path(self, kind: Kind, values: Mapping[int, Any]) -> list[Kind] | None:
        """The kinds of the values of all functions, from that of the innermost argument on; None where not known."""
        path = [kind]
        for function, operand in self.steps:
            after = function.kind_after(path[-1], _value(operand, values))
            if after is None:
                return None
            path.append(after)
        return path

    def intervals(self, given: Sequence[Mapping[int, Any] | None]) -> dict[int, dict[Kind, list[Interval]]]:
        """The innermost values, by row and kind, for which conditions with some parameters hold, as far as known."""
        example = next(each for each in given if each is not None)
        rows = {
            row: values for row, values in enumerate(given) if values is not None and self._is_like(example, values)
        }
        found: dict[int, dict[Kind, list[Interval]]] = {row: {} for row in rows}
        for kind in self.kinds:
            path = self._path(kind, example)
            assert path is not None
            pulled = [
                (function.preimage(before, _value(operand, example)), operand)
                for (function, operand), before in zip(self.steps, path[:-1], strict=True)
            ][::-1]
            compared = [(comparison(path[-1], operator), operand) for operator, operand in self.comparisons]
            for row, values in rows.items():
                held = [each(_value(operand, values)) for each, operand in compared]
                intervals: Any = held[0] if len(held) == 1 else reduce(intersect, held)  # type: ignore[arg-type]
                for preimage, operand in pulled:
                    intervals = preimage(_value(operand, values), intervals)
                found[row][kind] = intervals
        return found

    def _is_like(self, example: Mapping[int, Any], values: Mapping[int, Any]) -> bool:
        """Whether preimages are found as those of an example are."""
        for function, operand in self.steps:
            value = _value(operand, values)
            if function.name == "*" and not value:
                return False
            if type(value) is Micros and value.is_days is not _value(operand, example).is_days:
                return False
        return all(type(each) is type(values[index]) for index, each in example.items())


def _comparisons(predicate: ExpressionPredicate, test: TruthTest) -> tuple[tuple[str, Any], ...] | None:
    """The comparisons that must hold, with their operands; None for other predicates."""
    compared = predicate.compared
    parts = compared.parts if isinstance(compared, Connective) and test is TruthTest.TRUE else (compared,)
    found = []
    for part in parts:
        operator = operator_of((part, test))  # type: ignore[arg-type]
        if operator is None or not isinstance(part, Comparison) or not isinstance(part.operand, Parameter | Constant):
            return None
        found.append((operator, part.operand if isinstance(part.operand, Parameter) else part.operand.value))
    return tuple(found)


def _steps(value: Expression | None, inner: Expression) -> tuple[tuple[Function, Any], ...] | None:
    """The functions between an expression and its innermost value, from there on; None where one is of another kind."""
    found: list[tuple[Function, Any]] = []
    while isinstance(value, Call) and value != inner:
        if value.function not in _FUNCTIONS or len(value.arguments) > 2:
            return None
        arguments: list[Any] = list(value.arguments)
        constants = [each for each in arguments if isinstance(each, Parameter | Literal)]
        varying = [each for each in arguments if not isinstance(each, Parameter | Literal)]
        if len(varying) != 1:
            return None
        constant = constants[0] if constants else None
        is_first = constant is not None and arguments[0] is constant
        found.append(
            (Function(value.function, is_first), constant.value if isinstance(constant, Literal) else constant)
        )
        value = varying[0]
    if value != inner and not (isinstance(value, Attribute) and _is_reading(inner, value)):
        return None
    return tuple(reversed(found))


def _is_reading(inner: Expression, attribute: Attribute) -> bool:
    """Whether an expression is an attribute as a function reads it, text as a number or a day."""
    match inner:
        case (
            Call("positive", (argument,))
            | Call("+", (argument, Literal(0)))
            | Call("cast", (argument, Literal("date")))
        ):
            return argument == attribute
    return False


def _value(operand: Any, values: Mapping[int, Any]) -> Any:
    return values[operand.index] if type(operand) is Parameter else operand


def _are_alike(known: Mapping[Kind, list[Interval]]) -> bool:
    """Whether comparisons with decimals say the bounds of integers and floats, too."""
    decimals = known.get(Kind.DECIMAL, [])
    if not all(-EXACT_FLOATS < end < EXACT_FLOATS for interval in decimals for end in interval):
        return False
    integers, floats = known.get(Kind.INTEGER, []), known.get(Kind.FLOAT, [])
    if not len(integers) == len(decimals) == len(floats):
        return False
    ends = [end for interval in decimals for end in interval]
    rounded = list(map(float, ends))
    return (
        [end for interval in integers for end in interval] == [floor(end) + 1 for end in ends]
        and [end - 1 for interval in floats for end in interval] == list(map(float_position, rounded))
        and len(set(rounded)) == len(rounded)
    )


def _add(
    builder: ConditionsBuilder,
    name: str,
    kinds: Sequence[Kind],
    rows: Sequence[int],
    intervals: Mapping[int, Mapping[Kind, list[Interval]]],
    found: list[list[list[int]] | None],
) -> None:
    """Add an alternative to rows: the intervals of some kinds of values of one attribute."""
    if not rows:
        return
    axis = builder.axis((name, None))
    made: dict[int, list[int]] = {row: [] for row in rows}
    for kind in kinds:
        owners = [row for row in rows for _ in intervals[row][kind]]
        held = [each for row in rows for each in intervals[row][kind]]
        lower, upper = (_cut_numbers(builder, axis, kind, places) for places in _ends(kind, held))
        handles = builder.axes.add_between(axis, _REGIONS.get(kind, Region.NUMBER), lower, upper)
        for row, handle in zip(owners, handles, strict=True):
            made[row].append(handle)
    for row in rows:
        alternatives = found[row]
        assert alternatives is not None
        alternatives.append(made[row])


def _ends(kind: Kind, held: Sequence[Interval]) -> Iterator[list[Any]]:
    """The lower and the upper places; None where these are the ends of the kind."""
    for side, end in enumerate(ENDS[kind]):
        yield [None if each[side] == end else each[side] for each in held]


def _cut_numbers(builder: ConditionsBuilder, axis: int, kind: Kind, places: Sequence[Any]) -> Int64s:
    """The numbers of the cuts at places; there is none at the end of a kind."""
    numbers = np.full(len(places), UNBOUNDED, np.int64)
    which = np.flatnonzero([place is not None for place in places])
    held = [place for place in places if place is not None]
    cuts = builder.axes.cuts
    match kind:
        case Kind.INTEGER:
            numbers[which] = cuts.add_integers(
                np.full(len(held), axis, np.int64), np.array(held, np.int64), np.zeros(len(held), np.bool_)
            )
        case Kind.DECIMAL:
            # Cuts after numbers alone: among those of one float, cuts before and after have no order for decimals.
            numbers[which] = cuts.add_after_decimals(axis, held)
        case Kind.FLOAT:
            floats = np.array(list(map(float_at, held)), np.float64)
            is_short = np.abs(floats) < EXACT_FLOATS
            numbers[which[is_short]] = cuts.add_floats(axis, floats[is_short], after=False)
            for at, value in zip(which[~is_short].tolist(), floats[~is_short].tolist(), strict=True):
                numbers[at] = cuts.add(axis, Region.NUMBER, value, False)
        case Kind.DATE:
            numbers[which] = cuts.add_instants(axis, Region.DATE, np.array(held, np.int64) - _DAYS_BEFORE_1970)
        case Kind.TIMESTAMP:
            numbers[which] = cuts.add_instants(axis, Region.TIMESTAMP, np.array(held, np.int64))
    return numbers
