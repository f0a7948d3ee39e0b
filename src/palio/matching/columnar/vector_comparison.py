"""Comparisons and logic on vectors: = < IN BETWEEN, AND OR NOT, and tests for NULL.

The meaning is that of `filters.expressions.value_comparison` and `special_forms`: NaN equals itself and is greater than
every number, numbers of different kinds are compared as the wider one, a string literal is converted to the kind beside
it, and other pairs of kinds do not compare.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from types import NoneType
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from palio.filters.expressions import text_cast
from palio.filters.expressions.ast import Call
from palio.filters.expressions.coercion import NUMBERS, ValueType, coerce_text, widen, widest
from palio.filters.expressions.value_comparison import COMPARATORS
from palio.matching.columnar import vector_decimals
from palio.matching.columnar.array_types import Flags
from palio.matching.columnar.vector_arithmetic import as_double
from palio.matching.columnar.vector_compiler import Form, Part, VectorCompiler
from palio.matching.columnar.vector_time import as_moment
from palio.matching.columnar.vectors import IN_NUMPY, Vector, both, of_values

_NUMPY: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "=": np.equal,
    "<>": np.not_equal,
    "<": np.less,
    "<=": np.less_equal,
    ">": np.greater,
    ">=": np.greater_equal,
}
_ARROW: Final[dict[str, Callable[[Any, Any], pa.Array]]] = {
    "=": pc.equal,
    "<>": pc.not_equal,
    "<": pc.less,
    "<=": pc.less_equal,
    ">": pc.greater,
    ">=": pc.greater_equal,
}


def compare(compiler: VectorCompiler, name: str, left: Part, right: Part) -> Part | None:
    """The comparison of two parts; NULL where either is, and where their kinds do not compare."""
    if right.text is not None and not left.is_constant:
        right = _coerced(compiler, right, left.kind)
    elif left.text is not None and not right.is_constant:
        left = _coerced(compiler, left, right.kind)
    kinds = {left.kind, right.kind}
    if NoneType in kinds:
        return compiler.null
    if kinds <= NUMBERS:
        return _compare_numbers(compiler, name, left, right)
    if kinds == {date, datetime}:
        return _compare_alike(compiler, name, as_moment(compiler, left), as_moment(compiler, right))
    if len(kinds) == 1:
        return _compare_alike(compiler, name, left, right)
    return compiler.null


def _coerced(compiler: VectorCompiler, text: Part, kind: ValueType) -> Part:
    """A string literal as a constant of the kind it is compared with."""
    return compiler.constant(None if kind is NoneType else coerce_text(text.text or "", kind, compiler.timezone))


def _compare_alike(compiler: VectorCompiler, name: str, left: Part, right: Part) -> Part | None:
    if left.kind is NoneType or right.kind is NoneType:
        return compiler.null
    if left.is_constant and right.is_constant:
        return compiler.constant(COMPARATORS[name](left.value, right.value))
    if left.kind in IN_NUMPY:
        on_numbers = _NUMPY[name]
        return compiler.strict(
            name,
            bool,
            lambda a, b: Vector(on_numbers(a.values, b.values), both(a.valid, b.valid)),
            left,
            right,
            operation=(name, int),
        )
    if left.kind not in (str, bytes):
        return None
    on_arrays = _ARROW[name]
    # The order of bytes in UTF-8 is that of code points.
    return compiler.strict(name, bool, lambda a, b: _answers(on_arrays(a.values, b.values)), left, right)


def _answers(answers: pa.Array) -> Vector:
    """A vector of Arrow's booleans."""
    if not answers.null_count:
        return Vector(np.asarray(answers))
    return Vector(np.asarray(answers.fill_null(False)), np.asarray(answers.is_valid()))


def _compare_numbers(compiler: VectorCompiler, name: str, left: Part, right: Part) -> Part | None:
    kinds = {left.kind, right.kind}
    if float in kinds:
        on_doubles = _DOUBLES[name]
        return compiler.strict(
            ("double", name),
            bool,
            lambda a, b: Vector(on_doubles(a.values, b.values), both(a.valid, b.valid)),
            as_double(compiler, left),
            as_double(compiler, right),
            operation=(name, float),
        )
    if Decimal in kinds:
        return vector_decimals.comparison(compiler, name, left, right)
    return _compare_alike(compiler, name, left, right)


# NaN is the greatest number and equals itself; NumPy's comparisons with it are FALSE.
_DOUBLES: Final[dict[str, Callable[[Any, Any], Any]]] = {
    "=": lambda a, b: (a == b) | (np.isnan(a) & np.isnan(b)),
    "<>": lambda a, b: ~((a == b) | (np.isnan(a) & np.isnan(b))),
    "<": lambda a, b: (a < b) | (np.isnan(b) & ~np.isnan(a)),
    "<=": lambda a, b: (a <= b) | np.isnan(b),
    ">": lambda a, b: (a > b) | (np.isnan(a) & ~np.isnan(b)),
    ">=": lambda a, b: (a >= b) | np.isnan(a),
}


def _comparison(compiler: VectorCompiler, call: Call, parts: Sequence[Part]) -> Part | None:
    return compare(compiler, call.function, *parts)


def _null_safe_equal(compiler: VectorCompiler, call: Call, parts: Sequence[Part]) -> Part | None:
    left, right = parts
    equal = compare(compiler, "=", left, right)
    if equal is None:
        return None
    present = [presence(compiler, part) for part in parts]
    return compiler.derive(
        "<=>", bool, _same, compiler.derive("istrue", bool, _is_true, truth(compiler, equal)), *present
    )


def _same(equal: Vector, left: Vector, right: Vector) -> Vector:
    return Vector(equal.values | (~left.values & ~right.values))


# Logic: a vector of truths is split into where it is TRUE and where FALSE


def truth(compiler: VectorCompiler, part: Part) -> Part:
    """A condition; any value but TRUE and FALSE counts as NULL."""
    if part.kind is bool:
        return part
    if part.text is not None:
        return _boolean(compiler, text_cast.to_boolean(part.text))
    return _boolean(compiler, None)


def _boolean(compiler: VectorCompiler, value: bool | None) -> Part:
    if value is not None:
        return compiler.constant(value)
    never = np.zeros((), np.bool_)
    return compiler.derive("neither", bool, lambda: Vector(never, never))


def _true(vector: Vector) -> Flags:
    is_true: Flags = vector.values if vector.valid is None else vector.values & vector.valid
    return is_true


def _false(vector: Vector) -> Flags:
    is_false: Flags = ~vector.values if vector.valid is None else ~vector.values & vector.valid
    return is_false


def _and(*vectors: Vector) -> Vector:
    values, is_false = _true(vectors[0]), _false(vectors[0])
    for vector in vectors[1:]:
        values, is_false = values & _true(vector), is_false | _false(vector)
    return _truths(values, is_false)


def _or(*vectors: Vector) -> Vector:
    values, is_false = _true(vectors[0]), _false(vectors[0])
    for vector in vectors[1:]:
        values, is_false = values | _true(vector), is_false & _false(vector)
    return _truths(values, is_false)


def _truths(is_true: Any, is_false: Any) -> Vector:
    valid = is_true | is_false
    return Vector(is_true, None if valid.all() else valid)


def _is_true(vector: Vector) -> Vector:
    return Vector(_true(vector))


def _connective(compute: Callable[..., Vector]) -> Form:
    def form(compiler: VectorCompiler, call: Call, parts: Sequence[Part]) -> Part | None:
        truths = (truth(compiler, part) for part in parts)
        return compiler.derive(call.function, bool, compute, *truths, operation=(call.function, bool))

    return form


def _on_truth(name: str, compute: Callable[[Vector], Vector]) -> Form:
    def form(compiler: VectorCompiler, call: Call, parts: Sequence[Part]) -> Part | None:
        return compiler.derive(name, bool, compute, truth(compiler, parts[0]), operation=(name, bool))

    return form


def presence(compiler: VectorCompiler, part: Part) -> Part:
    """Whether a value is not NULL."""
    if part.kind is NoneType:
        return compiler.constant(False)
    return compiler.derive("isnotnull", bool, _present, part, operation=("isnotnull", bool))


def _present(vector: Vector) -> Vector:
    return Vector(np.ones((), np.bool_) if vector.valid is None else vector.valid)


def _is_not_null(compiler: VectorCompiler, call: Call, parts: Sequence[Part]) -> Part | None:
    return presence(compiler, parts[0])


def _is_null(compiler: VectorCompiler, call: Call, parts: Sequence[Part]) -> Part | None:
    return compiler.derive("not", bool, _not, presence(compiler, parts[0]), operation=("not", bool))


def _not(vector: Vector) -> Vector:
    return Vector(~vector.values, vector.valid)


def _between(compiler: VectorCompiler, call: Call, parts: Sequence[Part]) -> Part | None:
    value, low, high = parts
    above, below = compare(compiler, ">=", value, low), compare(compiler, "<=", value, high)
    if above is None or below is None:
        return None
    return compiler.derive("and", bool, _and, truth(compiler, above), truth(compiler, below), operation=("and", bool))


# IN


def _in(compiler: VectorCompiler, call: Call, parts: Sequence[Part]) -> Part | None:
    value, *items = parts
    if value.kind is NoneType:
        return compiler.null
    if all(item.is_constant for item in items):
        return None if value.is_constant else _among_constants(compiler, value, items)
    # Beside values of another kind a string literal is converted, and numbers may meet as doubles: in some rows only.
    if len({part.kind for part in parts} - {NoneType}) > 1 or Decimal in {part.kind for part in parts}:
        return None
    answers = [compare(compiler, "=", value, item) for item in items]
    truths = [truth(compiler, answer) for answer in answers if answer is not None]
    return compiler.derive("or", bool, _or, *truths, operation=("or", bool)) if len(truths) == len(items) else None


def _among_constants(compiler: VectorCompiler, value: Part, items: Sequence[Part]) -> Part | None:
    """Whether values are among constants; None where some of these do not compare with them."""
    kinds = {item.kind for item in items} - {NoneType}
    target = (
        str
        if value.kind is str and kinds <= {str}
        else None
        if value.kind is str
        else widest(frozenset({value.kind, *kinds}))
    )
    if target is float and value.kind in (int, float):
        value = as_double(compiler, value)
    if target is not value.kind or target not in (int, float, str, date, datetime, bytes):
        return None
    widened = [widen(item.value, target, compiler.timezone) for item in items]
    has_null = None in widened
    present = [each for each in widened if each is not None]
    wanted = of_values(present, target)
    has_nan = target is float and any(math.isnan(each) for each in present if isinstance(each, float))

    def compute(vector: Vector) -> Vector:
        if target in IN_NUMPY:
            found = np.isin(vector.values, wanted.values)
            if has_nan:
                found |= np.isnan(vector.values)
        else:
            found = np.asarray(pc.is_in(vector.values, wanted.values))
        return Vector(found, both(vector.valid, found) if has_null else vector.valid)

    return compiler.strict(("in", tuple(map(repr, widened))), bool, compute, value)


LOGIC_FORMS: Final[Mapping[str, Form]] = {
    **dict.fromkeys(_NUMPY, _comparison),
    "<=>": _null_safe_equal,
    "between": _between,
    "in": _in,
    "and": _connective(_and),
    "or": _connective(_or),
    "not": _on_truth("not", _not),
    "istrue": _on_truth("istrue", _is_true),
    "isfalse": _on_truth("isfalse", lambda vector: Vector(_false(vector))),
    "isnull": _is_null,
    "isnotnull": _is_not_null,
}
