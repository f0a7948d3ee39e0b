"""Evaluation of expressions for all rows of a batch, in columns.

The scalar evaluator (`filters.expressions.special_forms.compile_expression`) says what an expression means. Where the
types of the columns allow it, the same values are computed in vectors, some hundred times faster; where not, by the
scalar evaluator itself, once for every distinct combination of the values that the expression reads.

Cost at 8,192 rows, each alone: 5 to 25 nanoseconds a row for arithmetic, comparisons and choices, 10 to 60 for times
and for functions of text that Arrow has, and for what is computed by distinct value 50 plus a microsecond for each of
these.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from palio.events.arrow import read_column
from palio.events.values import MAX_INT64, Scalar
from palio.filters.expressions.ast import Call, Expression, Micros, attributes_of, walk
from palio.filters.expressions.extension_functions import WHOLE_EVENT_FUNCTIONS
from palio.filters.expressions.special_forms import compile_expression
from palio.matching.columnar.array_types import Int64s
from palio.matching.columnar.vector_arithmetic import ARITHMETIC_FORMS
from palio.matching.columnar.vector_cast import CAST_FORMS
from palio.matching.columnar.vector_choice import CHOICE_FORMS
from palio.matching.columnar.vector_comparison import LOGIC_FORMS
from palio.matching.columnar.vector_compiler import Batch, Form, Part, VectorCompiler
from palio.matching.columnar.vector_intervals import SUM_FORMS
from palio.matching.columnar.vector_text import TEXT_FORMS
from palio.matching.columnar.vector_time import TIME_FORMS
from palio.matching.columnar.vectors import ARROW_TYPES, Vector, check_text, combinations, dump, load

_FORMS: Final[Mapping[str, Form]] = {
    **ARITHMETIC_FORMS,
    **LOGIC_FORMS,
    **CHOICE_FORMS,
    **CAST_FORMS,
    **TEXT_FORMS,
    **TIME_FORMS,
    **SUM_FORMS,
}
_READ_WHOLE_EVENTS: Final = WHOLE_EVENT_FUNCTIONS | {"condition_in"}


def has_vector_form(function: str) -> bool:
    """Whether a function is computed in vectors for some types of columns, and not by distinct value."""
    return function in _FORMS


def vectorize(
    expression: Expression, types: Mapping[str, pa.DataType], timezone: str
) -> Callable[[Mapping[str, pa.Array], int], pa.Array] | None:
    """The function from columns of these types, and their length, to the column of an expression's values.

    None where the expression has no vector form, which gives what the scalar evaluator gives in every row.
    """
    compiler = compiler_of(types, timezone)
    part = compiler.part(expression)
    if part is None or not part.has_column:
        return None

    def run(columns: Mapping[str, pa.Array], count: int) -> pa.Array:
        batch = Batch(lambda name: _load(columns, name), count)
        return dump(batch.vector(part), part.kind, count)

    return run


def compiler_of(types: Mapping[str, pa.DataType], timezone: str) -> VectorCompiler:
    """A compiler for columns of these types; it remembers what it compiled, for batches with the same columns."""
    return VectorCompiler(types, timezone, _FORMS)


def evaluate(
    expression: Expression, columns: Mapping[str, pa.Array], count: int, timezone: str
) -> pa.Array | list[Scalar | None]:
    """The values of an expression for every row; a list where they are not of one kind."""
    return BatchEvaluator(columns, count, timezone).value(expression)


class BatchEvaluator:
    """Evaluates expressions over one batch; what several have in common is computed once."""

    def __init__(
        self,
        columns: Mapping[str, pa.Array],
        count: int,
        timezone: str,
        compiler: VectorCompiler | None = None,
    ) -> None:
        """A compiler of a batch with columns of the same types (`compiler`) saves compiling again."""
        self._columns = {name: _narrowed(column) for name, column in columns.items()}
        self._count = count
        self._timezone = timezone
        types = {name: column.type for name, column in self._columns.items()}
        is_reusable = compiler is not None and compiler.fits(types, timezone)
        self.compiler = compiler if compiler is not None and is_reusable else compiler_of(types, timezone)
        self._batch = Batch(lambda name: _load(self._columns, name), count)
        self._values: dict[int, tuple[Expression, pa.Array | list[Scalar | None]]] = {}
        self._distinct: dict[str, tuple[list[Any], Int64s]] = {}

    def value(self, expression: Expression) -> pa.Array | list[Scalar | None]:
        """The values of an expression for every row; a list where they are not of one kind."""
        # By identity; equal expressions share their parts. The expression is kept, so that no other takes its place.
        found = self._values.get(id(expression))
        if found is None:
            found = self._values[id(expression)] = (expression, self._evaluate(expression))
        return found[1]

    def micros(self, expression: Expression) -> pa.Array:
        """The microseconds of the intervals of time that an expression is, NULL where it is none."""
        part = self.compiler.part(expression)
        if part is not None and part.kind is Micros and not part.is_constant:
            return dump(self._batch.vector(part), int, self._count)
        values = self.value(expression)
        if isinstance(values, pa.Array):
            return pa.nulls(self._count)
        micros = [value.micros if isinstance(value, Micros) else None for value in values]
        return pa.array(micros, pa.int64())

    def vector(self, part: Part) -> Vector:
        """The values of a part of its compiler's."""
        return self._batch.vector(part)

    def _evaluate(self, expression: Expression) -> pa.Array | list[Scalar | None]:
        part = self.compiler.part(expression)
        if part is not None and part.has_column:
            return dump(self._batch.vector(part), part.kind, self._count)
        return self._by_combination(expression)

    def _by_combination(self, expression: Expression) -> pa.Array | list[Scalar | None]:
        """The values by the scalar evaluator, once per distinct combination of the values that it reads."""
        names = [name for name in self._columns if name in _attributes_read(expression, self._columns)]
        run = compile_expression(expression, self._timezone)
        found, places = combinations(list(map(self._distinct_values, names)), self._count)
        values: list[Any] = [run(dict(zip(names, each, strict=True)), {}) for each in found]
        column = _column_of(values)
        return [values[place] for place in places.tolist()] if column is None else column.take(pa.array(places))

    def _distinct_values(self, name: str) -> tuple[list[Any], Int64s]:
        found = self._distinct.get(name)
        if found is None:
            found = self._distinct[name] = _distinct_values(self._columns[name])
        return found


def _load(columns: Mapping[str, pa.Array], name: str) -> Vector:
    column = columns.get(name)
    if column is None:
        return Vector(None)
    check_text(column, name)
    return load(column)


def _narrowed(column: pa.Array) -> pa.Array:
    """A column of unsigned integers as one of integers, where these hold them."""
    if column.type == pa.uint64() and (pc.max(column).as_py() or 0) <= MAX_INT64:
        return column.cast(pa.int64())
    return column


def _attributes_read(expression: Expression, columns: Mapping[str, pa.Array]) -> frozenset[str]:
    if any(isinstance(node, Call) and node.function in _READ_WHOLE_EVENTS for node in walk(expression)):
        return frozenset(columns)
    return attributes_of(expression)


def _distinct_values(column: pa.Array) -> tuple[list[Any], Int64s]:
    """The distinct values of a column, NULL last of them, and the place of each row's among them."""
    if pa.types.is_null(column.type):
        return [None], np.zeros(len(column), np.int64)
    if pa.types.is_dictionary(column.type):
        encoded = column
    elif pa.types.is_floating(column.type):
        # By their bits, because 0.0 and -0.0 are equal.
        encoded = _bits(column).dictionary_encode()
    else:
        encoded = column.dictionary_encode()
    entries = encoded.dictionary
    if pa.types.is_floating(column.type):
        entries = entries.view(column.type)
    places: Int64s = np.asarray(encoded.indices.cast(pa.int64()).fill_null(len(entries)))
    return [*read_column(entries), None], places


def _bits(column: pa.Array) -> pa.Array:
    return column.view({16: pa.int16(), 32: pa.int32(), 64: pa.int64()}[column.type.bit_width])


def _column_of(values: list[Any]) -> pa.Array | None:
    """A column of values of one kind; None where they are of several, or of one that has no Arrow type."""
    kinds = {type(value) for value in values if value is not None}
    if not kinds:
        return pa.nulls(len(values))
    if len(kinds) > 1:
        return None
    (kind,) = kinds
    if kind is Decimal:
        exponents = {value.as_tuple().exponent for value in values if value is not None}
        scale = -min(exponents)
        if len(exponents) > 1 or scale < 0:
            return None
        return pa.array(values, pa.decimal128(38, scale))
    try:
        return pa.array(values, ARROW_TYPES[kind]) if kind in ARROW_TYPES else None
    except UnicodeEncodeError:  # a lone surrogate, from a literal
        return None
