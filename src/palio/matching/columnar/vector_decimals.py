"""Decimals in vectors: sums, differences, products and comparisons, where 38 digits hold every result.

A decimal is computed by Arrow in the type that holds every result exactly. Where that type would need more than 38
digits a result may have to be rounded, and there is no vector form; nor is there one of quotients and remainders.
"""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from palio.events.values import MAX_DECIMAL_DIGITS
from palio.filters.expressions.coercion import scale_of
from palio.matching.columnar.array_types import AnyArray
from palio.matching.columnar.vector_compiler import Part, VectorCompiler
from palio.matching.columnar.vectors import Vector, both, dump, of_arrow

_INTEGER_TYPE: Final = pa.decimal128(19, 0)
# A double holds every integer of so many digits, and every power of ten up to this one.
_EXACT_DIGITS: Final = 15
_EXACT_POWER: Final = 22
_OPERATORS: Final[dict[str, Callable[[Any, Any], pa.Array]]] = {"+": pc.add, "-": pc.subtract, "*": pc.multiply}
_COMPARISONS: Final[dict[str, Callable[[Any, Any], pa.Array]]] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def as_double(compiler: VectorCompiler, part: Part) -> Part:
    """Decimals as the nearest doubles."""
    data_type = part.decimal_type
    assert data_type is not None
    if data_type.precision > _EXACT_DIGITS or data_type.scale > _EXACT_POWER:
        return compiler.mapped("double", float, float, part)
    power = 10.0**data_type.scale
    # Both are exact as doubles, so their quotient is rounded once.
    return compiler.strict(
        "double", float, lambda vector: Vector(_low_words(vector.values).astype(np.float64) / power, vector.valid), part
    )


def _low_words(array: pa.Array) -> AnyArray:
    """The lower 64 bits of each decimal, which are its digits where 64 bits hold them."""
    words = np.frombuffer(array.buffers()[1], np.int64) if len(array) else np.zeros(0, np.int64)
    return words[2 * array.offset : 2 * (array.offset + len(array)) : 2]


def arithmetic(compiler: VectorCompiler, name: str, left: Part, right: Part) -> Part | None:
    """A sum, difference or product of exact numbers, one of them a decimal at least; None where digits may be lost."""
    mine, theirs = _type_of(left), _type_of(right)
    if mine is None or theirs is None or (left.is_constant and right.is_constant):
        return None
    if name == "*":
        precision, scale = mine.precision + theirs.precision + 1, mine.scale + theirs.scale
    else:
        scale = max(mine.scale, theirs.scale)
        precision = max(mine.precision - mine.scale, theirs.precision - theirs.scale) + scale + 1
    if precision > MAX_DECIMAL_DIGITS:
        return None
    result = pa.decimal128(precision, scale)
    operator = _OPERATORS[name]

    def compute(first: Vector, second: Vector) -> Vector:
        return of_arrow(operator(_decimals(first, left, mine), _decimals(second, right, theirs)).cast(result))

    return Part(Decimal, compute, (left, right), decimal_type=result)


def comparison(compiler: VectorCompiler, name: str, left: Part, right: Part) -> Part | None:
    """A comparison of exact numbers, one of them a decimal at least; None where no decimal type has both."""
    mine, theirs = _type_of(left), _type_of(right)
    if mine is None or theirs is None or (left.is_constant and right.is_constant):
        return None
    scale = max(mine.scale, theirs.scale)
    precision = max(mine.precision - mine.scale, theirs.precision - theirs.scale) + scale
    if precision > MAX_DECIMAL_DIGITS:
        return None
    common = pa.decimal128(precision, scale)
    compare = _COMPARISONS[name]

    def compute(first: Vector, second: Vector) -> Vector:
        answers = compare(
            _decimals(first, left, mine).cast(common), _decimals(second, right, theirs).cast(common)
        ).fill_null(False)
        return Vector(np.asarray(answers), both(first.valid, second.valid))

    return compiler.strict(name, bool, compute, left, right)


def _type_of(part: Part) -> pa.DataType | None:
    if part.is_constant and isinstance(part.value, int | Decimal):
        exact = Decimal(part.value)
        _, digits, exponent = exact.as_tuple()
        if not isinstance(exponent, int) or exponent > 0:
            return None
        return pa.decimal128(max(len(digits), scale_of(exact), 1), scale_of(exact))
    return _INTEGER_TYPE if part.kind is int else part.decimal_type


def _decimals(vector: Vector, part: Part, data_type: pa.DataType) -> Any:
    if part.is_constant:
        assert isinstance(part.value, int | Decimal)
        return pa.scalar(Decimal(part.value), data_type)
    if part.kind is int:
        return dump(vector, int, len(vector.values)).cast(data_type)
    return vector.values
