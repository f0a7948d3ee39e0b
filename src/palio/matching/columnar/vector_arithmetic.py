"""Arithmetic on vectors: + - * / % DIV, signs, bits, and rounding to whole numbers.

The meaning is that of `filters.expressions.arithmetic` and `number_functions`: integers of 64 bits, NULL on an overflow
or a division by zero. NumPy lets integers wrap around, and the overflow is found in the result. Only what IEEE 754
defines to the last bit is computed by NumPy; exp and ln are not, because NumPy's differ from those of the C library.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from types import NoneType
from typing import Any, Final

import numpy as np

from palio.events.values import MAX_INT64, MIN_INT64
from palio.filters.expressions.ast import Call
from palio.filters.expressions.coercion import INTERVALS, NUMBERS
from palio.matching.columnar import vector_decimals
from palio.matching.columnar.vector_compiler import Form, Part, VectorCompiler
from palio.matching.columnar.vectors import Vector, both, without

_TWO_63: Final = 2.0**63


def as_double(compiler: VectorCompiler, part: Part) -> Part:
    """Numbers as doubles, each the nearest."""
    if part.kind is float:
        return part
    if part.is_constant and isinstance(part.value, int | Decimal):
        return compiler.constant(float(part.value))
    if part.kind is Decimal:
        return vector_decimals.as_double(compiler, part)
    return compiler.strict(
        "double",
        float,
        lambda vector: Vector(vector.values.astype(np.float64), vector.valid),
        part,
        operation=("double", int),
    )


def _pair(compiler: VectorCompiler, parts: Sequence[Part]) -> tuple[Part, Part] | None:
    """Two operands as numbers of one kind; a string beside a number is read as one. None for other kinds."""
    left, right = parts
    if left.kind is str and right.kind in NUMBERS:
        left = compiler.read_text(left, int if right.kind is int else float)
    elif right.kind is str and left.kind in NUMBERS:
        right = compiler.read_text(right, int if left.kind is int else float)
    kinds = {left.kind, right.kind}
    if not kinds <= NUMBERS:
        return None
    if float in kinds:
        return as_double(compiler, left), as_double(compiler, right)
    return left, right


def _is_known_null(parts: Sequence[Part]) -> bool:
    """Whether the kinds of two operands make any arithmetic on them NULL: intervals and times are left open."""
    kinds = {part.kind for part in parts}
    return NoneType in kinds or kinds <= {bool, str, bytes} or (bool in kinds and kinds <= NUMBERS | {bool})


def _operator(on_integers: Callable[..., Vector], on_doubles: Callable[..., Vector] | None, decimals: str = "") -> Form:
    def form(compiler: VectorCompiler, call: Call, parts: Sequence[Part]) -> Part | None:
        if _is_known_null(parts):
            return compiler.null
        pair = _pair(compiler, parts)
        if pair is None:
            return None
        kinds = {part.kind for part in pair}
        if NoneType in kinds:
            return compiler.null  # a literal that is no number
        if Decimal in kinds:
            return vector_decimals.arithmetic(compiler, decimals, *pair) if decimals else None
        if kinds == {float}:
            if on_doubles is None:
                return None
            return compiler.strict(call.function, float, on_doubles, *pair, operation=(call.function, float))
        kind = float if on_integers is _divide_integers else int
        return compiler.strict(call.function, kind, on_integers, *pair, operation=(call.function, int))

    return form


# Integers


def _add_integers(left: Vector, right: Vector) -> Vector:
    a, b = left.values, right.values
    total = a + b
    # An overflow has happened where both operands differ in sign from the sum.
    return Vector(total, without(both(left.valid, right.valid), ((a ^ total) & (b ^ total)) < 0))


def _subtract_integers(left: Vector, right: Vector) -> Vector:
    a, b = left.values, right.values
    rest = a - b
    return Vector(rest, without(both(left.valid, right.valid), ((a ^ b) & (a ^ rest)) < 0))


def _multiply_integers(left: Vector, right: Vector) -> Vector:
    a, b = left.values, right.values
    valid = both(left.valid, right.valid)
    product = a * b
    if _magnitude(a) * _magnitude(b) <= MAX_INT64:
        return Vector(product, valid)
    # Dividing undoes a product that did not wrap; -1 is apart, because the least integer has no quotient by it.
    divisor = np.where((a == 0) | (a == -1), 1, a)
    wrapped = np.where(a == -1, b == MIN_INT64, (a != 0) & (product // divisor != b))
    return Vector(product, without(valid, wrapped))


def _magnitude(values: Any) -> int:
    return max(abs(int(values.min())), abs(int(values.max()))) if values.size else 0


def _divide_integers(left: Vector, right: Vector) -> Vector:
    quotient = left.values.astype(np.float64) / right.values.astype(np.float64)
    return Vector(quotient, without(both(left.valid, right.valid), right.values == 0))


def _integer_remainder(left: Vector, right: Vector) -> Vector:
    # By 1 in place of -1, whose remainder is 0 too, and of which the least integer has no quotient.
    divisor = np.where((right.values == 0) | (right.values == -1), 1, right.values)
    rest = np.fmod(left.values, divisor)
    return Vector(rest, without(both(left.valid, right.valid), right.values == 0))


def _whole_quotient(left: Vector, right: Vector) -> Vector:
    a, b = left.values, right.values
    overflow = (a == MIN_INT64) & (b == -1)
    divisor = np.where((b == 0) | overflow, 1, b)
    floor = a // divisor
    quotient = floor + ((floor * divisor != a) & ((a < 0) != (divisor < 0)))
    return Vector(quotient, without(both(left.valid, right.valid), (b == 0) | overflow))


# Doubles


def _on_doubles(compute: Callable[[Any, Any], Any]) -> Callable[[Vector, Vector], Vector]:
    return lambda left, right: Vector(compute(left.values, right.values), both(left.valid, right.valid))


def _divide_doubles(left: Vector, right: Vector) -> Vector:
    return Vector(left.values / right.values, without(both(left.valid, right.valid), right.values == 0))


def _double_remainder(left: Vector, right: Vector) -> Vector:
    rest = np.fmod(left.values, right.values)
    return Vector(rest, without(both(left.valid, right.valid), right.values == 0))


def _positive_integer_remainder(left: Vector, right: Vector) -> Vector:
    rest = _integer_remainder(left, right)
    # Spark lets this sum wrap around.
    again = _integer_remainder(Vector(rest.values + right.values), right)
    return Vector(np.where(rest.values < 0, again.values, rest.values), rest.valid)


def _positive_double_remainder(left: Vector, right: Vector) -> Vector:
    rest = _double_remainder(left, right)
    again = np.fmod(rest.values + right.values, right.values)
    return Vector(np.where(rest.values < 0, again, rest.values), rest.valid)


def _whole(compiler: VectorCompiler, call: Call, parts: Sequence[Part]) -> Part | None:
    """DIV, which takes exact numbers only."""
    if any(part.kind in (float, bool, bytes, date, datetime) for part in parts):
        return compiler.null
    return _operator(_whole_quotient, None)(compiler, call, parts)


def _positive_remainder(compiler: VectorCompiler, call: Call, parts: Sequence[Part]) -> Part | None:
    # Unlike an operator it reads a string as a double, whatever stands beside it.
    numbers = [compiler.read_text(part, float) if part.kind is str else part for part in parts]
    return _operator(_positive_integer_remainder, _positive_double_remainder)(compiler, call, numbers)


# Signs and rounding


def _sign(name: str, on_integers: Callable[[Any], Any], on_doubles: Callable[[Any], Any]) -> Form:
    def form(compiler: VectorCompiler, call: Call, parts: Sequence[Part]) -> Part | None:
        (part,) = parts
        if part.kind is str:
            part = compiler.read_text(part, float)
        if part.kind in INTERVALS or part.kind is Decimal:
            return None
        if part.kind is int:
            return compiler.strict(
                name,
                int,
                lambda vector: _no_opposite(vector, on_integers(vector.values)),
                part,
                operation=(name, int),
            )
        if part.kind is float:
            return compiler.strict(
                name,
                float,
                lambda vector: Vector(on_doubles(vector.values), vector.valid),
                part,
                operation=(name, float),
            )
        return compiler.null

    return form


def _no_opposite(vector: Vector, values: Any) -> Vector:
    return Vector(values, without(vector.valid, vector.values == MIN_INT64))


def _positive(compiler: VectorCompiler, call: Call, parts: Sequence[Part]) -> Part | None:
    (part,) = parts
    if part.kind is str:
        return compiler.read_text(part, float)
    if part.kind in INTERVALS:
        return None
    return part if part.kind in NUMBERS else compiler.null


def _rounded(name: str, rounding: Callable[[Any], Any]) -> Form:
    def form(compiler: VectorCompiler, call: Call, parts: Sequence[Part]) -> Part | None:
        if len(parts) > 1:
            return None
        (part,) = parts
        if part.kind is str:
            part = compiler.read_text(part, float)
        if part.kind is int:
            return part
        if part.kind is float:
            return compiler.strict(name, int, lambda vector: _as_integers(rounding(vector.values), vector.valid), part)
        return None if part.kind is Decimal else compiler.null

    return form


def _as_integers(whole: Any, valid: Any) -> Vector:
    """Doubles without fractions as integers, NaN as 0, as Java casts it; NULL beyond 64 bits."""
    inside = (whole >= -_TWO_63) & (whole < _TWO_63)
    return Vector(np.where(inside, whole, 0).astype(np.int64), without(valid, ~(inside | np.isnan(whole))))


def _real(name: str, compute: Callable[[Any], Any]) -> Form:
    """A function of one double."""

    def form(compiler: VectorCompiler, call: Call, parts: Sequence[Part]) -> Part | None:
        (part,) = parts
        if part.kind is str:
            part = compiler.read_text(part, float)
        if part.kind is Decimal:
            return None
        if part.kind not in NUMBERS:
            return compiler.null
        return compiler.strict(
            name, float, lambda vector: Vector(compute(vector.values), vector.valid), as_double(compiler, part)
        )

    return form


def _signum(values: Any) -> Any:
    return np.where(np.isnan(values) | (values == 0), values, np.copysign(1.0, values))


def _is_nan(compiler: VectorCompiler, call: Call, parts: Sequence[Part]) -> Part | None:
    (part,) = parts
    if part.kind is not float:
        return None
    return compiler.strict("isnan", bool, lambda vector: Vector(_present(vector, np.isnan(vector.values))), part)


def _present(vector: Vector, flags: Any) -> Any:
    return flags if vector.valid is None else flags & vector.valid


# Bits


def _bits(compute: Callable[[Any, Any], Any]) -> Form:
    def form(compiler: VectorCompiler, call: Call, parts: Sequence[Part]) -> Part | None:
        kinds = {part.kind for part in parts}
        if not kinds <= {int, str} or kinds == {str}:
            return compiler.null
        left, right = (compiler.read_text(part, int) if part.kind is str else part for part in parts)
        return compiler.strict(call.function, int, _on_doubles(compute), left, right)

    return form


def _bit_not(compiler: VectorCompiler, call: Call, parts: Sequence[Part]) -> Part | None:
    (part,) = parts
    if part.kind is not int:
        return compiler.null
    return compiler.strict("~", int, lambda vector: Vector(~vector.values, vector.valid), part)


ARITHMETIC_FORMS: Final[Mapping[str, Form]] = {
    "+": _operator(_add_integers, _on_doubles(np.add), "+"),
    "-": _operator(_subtract_integers, _on_doubles(np.subtract), "-"),
    "*": _operator(_multiply_integers, _on_doubles(np.multiply), "*"),
    "/": _operator(_divide_integers, _divide_doubles),
    "%": _operator(_integer_remainder, _double_remainder),
    "pmod": _positive_remainder,
    "div": _whole,
    "neg": _sign("neg", np.negative, np.negative),
    "abs": _sign("abs", np.abs, np.abs),
    "positive": _positive,
    "ceil": _rounded("ceil", np.ceil),
    "floor": _rounded("floor", np.floor),
    "sqrt": _real("sqrt", np.sqrt),
    "signum": _real("signum", _signum),
    "isnan": _is_nan,
    "&": _bits(np.bitwise_and),
    "|": _bits(np.bitwise_or),
    "^": _bits(np.bitwise_xor),
    "~": _bit_not,
}
