"""Preimages under sums and products: at every end, and beside it, what the evaluator says of the condition."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Context, Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from palio.events.values import MAX_INT64, MICROS_PER_DAY, MIN_INT64
from palio.filters.expressions.ast import Attribute, Call, Literal, Micros
from palio.filters.expressions.special_forms import compile_expression
from palio.filters.kinds import NUMBERS, Kind, float_at, float_position, timestamp_at
from palio.filters.linear_preimages import ENDS, Function, Interval, comparison

LATTICE = Context(prec=38, Emin=-1, Emax=37, traps=[])
SMALLEST, LARGEST = Decimal(1 - 10**38), Decimal(10**38 - 1)

integers = st.sampled_from([1, 2, 3, 7, 10, -1, -3, 1000, 0, MAX_INT64]) | st.integers(MIN_INT64, MAX_INT64)
decimals = st.sampled_from(["0.1", "-0.1", "2.50", "3", "1e-10", "99999999999999999999.5"]).map(Decimal) | st.builds(
    lambda number, scale: Decimal(number).scaleb(-scale, LATTICE),
    st.integers(1 - 10**38, 10**38 - 1),
    st.integers(0, 38),
)
micros = st.sampled_from([0, 1, -1]) | st.integers(-(10**18), 10**18)
intervals = micros.map(Micros) | st.integers(-3000, 3000).map(lambda days: Micros(days * MICROS_PER_DAY, True))
moments = st.datetimes().map(lambda each: each.replace(tzinfo=UTC)) | st.dates()


@st.composite
def functions(draw: st.DrawFn, kind: Kind) -> tuple[list[tuple[Kind, Function, Any]], Kind]:
    """Up to three functions, each of the value of the one before, with the kind of its argument; and of the last."""
    found: list[tuple[Kind, Function, Any]] = []
    for _ in range(draw(st.integers(1, 3))):
        constant: Any = None
        if kind in NUMBERS:
            name = draw(st.sampled_from(["+", "-", "*", "neg", "abs", "positive"]))
            constant = draw(integers | decimals) if name in "+-*" else None
        else:
            name = draw(st.sampled_from(["+", "-", "date_add", "date_sub", "datediff"]))
            constant = draw(st.dates()) if name == "datediff" else draw(intervals | st.integers(0, 5000))
        function = Function(name, constant is not None and draw(st.booleans()))
        after = function.kind_after(kind, constant)
        if after is not None:
            found.append((kind, function, constant))
            kind = after
    return found, kind


def around(kind: Kind, place: Any) -> Iterator[Any]:
    """The values next to a place."""
    first, end = ENDS[kind]
    if kind is Kind.DECIMAL:
        near = (place, LATTICE.next_minus(place), LATTICE.next_plus(place))
        yield from (each for each in near if SMALLEST <= each <= LARGEST)
        return
    for at in range(max(place - 2, first), min(place + 2, end)):
        match kind:
            case Kind.FLOAT:
                yield float_at(at)
            case Kind.DATE:
                yield date.fromordinal(at)
            case Kind.TIMESTAMP:
                yield timestamp_at(at)
            case _:
                yield at


def has(kind: Kind, value: Any, intervals: list[Interval]) -> bool:
    match kind:
        case Kind.DECIMAL:
            return any(low < value <= high for low, high in intervals)
        case Kind.FLOAT:
            value = float_position(value)
        case Kind.DATE:
            value = value.toordinal()
        case Kind.TIMESTAMP:
            value = (value - datetime(1970, 1, 1, tzinfo=UTC)) // (timestamp_at(1) - timestamp_at(0))
    return any(low <= value < high for low, high in intervals)


@given(st.data(), st.sampled_from(list(ENDS)), st.sampled_from(["<", "<=", ">", ">=", "=", "<>"]))
def test_a_preimage_ends_where_the_condition_does(data: st.DataObject, kind: Kind, operator: str) -> None:
    steps, last = data.draw(functions(kind))
    constant: Any = data.draw(integers | decimals) if last in NUMBERS else data.draw(moments)
    held = comparison(last, operator)(constant)
    assert held is not None
    expression: Any = Attribute("x")
    for _, function, operand in steps:
        arguments = [expression] if operand is None else [expression, Literal(operand)]
        expression = Call(function.name, tuple(reversed(arguments) if function.is_first else arguments))
    for before, function, operand in reversed(steps):
        held = function.preimage(before, operand)(operand, held)
    run = compile_expression(Call(operator, (expression, Literal(constant))), "UTC")
    ends = [end for interval in (*held, ENDS[kind]) for end in interval]
    for value in (value for end in ends for value in around(kind, end)):
        assert has(kind, value, held) is (run({"x": value}, {}) is True)
