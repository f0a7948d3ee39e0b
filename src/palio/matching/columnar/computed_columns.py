"""Computed attributes in columns: the values of expressions for all rows of a batch.

Expressions over scalar columns are evaluated in vectors (`vector_evaluation`), with what several have in common
computed once. Functions of whole arrays are evaluated row by row, except for the length of an array, which Arrow knows.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from types import NoneType
from typing import Any, Final, NamedTuple, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from palio.events.arrow import read_column
from palio.events.names import enclosing_paths
from palio.events.values import Scalar
from palio.filters.expressions.ast import Array, Call
from palio.filters.kinds import KIND_OF_TYPE, Kind
from palio.filters.tree import Attributes
from palio.matching.columnar.axes import Axes
from palio.matching.columnar.computed_attributes import ComputedAttribute
from palio.matching.columnar.expression_program import BoundProgram, ExpressionProgram, is_compilable
from palio.matching.columnar.transposition import column_of
from palio.matching.columnar.vector_compiler import Part, VectorCompiler
from palio.matching.columnar.vector_evaluation import BatchEvaluator, compiler_of
from palio.matching.columnar.vectors import ARROW_TYPES

ComputedValues: TypeAlias = pa.Array | list[Scalar]
"""A column, or a list where the values are of several kinds."""
MIN_PROGRAM_EXPRESSIONS: Final = 32
"""Expressions that are worth a program."""
_MAX_TYPES: Final = 8  # combinations of the types of values that programs for single events are kept for


class ComputedColumns(NamedTuple):
    """The values of computed attributes for a batch: columns by name, and a program for those that it computes."""

    columns: Mapping[str, ComputedValues]
    program: BoundProgram | None


_HOLDS: Final[Mapping[Kind, Callable[[pa.DataType], bool]]] = {
    Kind.INTEGER: pa.types.is_integer,
    Kind.DECIMAL: pa.types.is_decimal,
    Kind.FLOAT: pa.types.is_floating,
}


class ColumnComputer:
    """Evaluates the computed attributes of a segment; what it compiles for one batch serves others with its types.

    Where many attributes are each compared with few constants, an `ExpressionProgram` evaluates those it can.
    """

    def __init__(self, attributes: Sequence[ComputedAttribute], axes: Axes, sparse: Mapping[str, int]) -> None:
        """`sparse` has the axes of attributes whose value says something for few events, by name."""
        self._attributes = attributes
        self._axes = axes
        self._sparse = {each: sparse[each.name] for each in attributes if each.name in sparse and not each.arrays}
        if len(self._sparse) < MIN_PROGRAM_EXPRESSIONS:
            self._sparse = {}
        self._zones = sorted({each.timezone for each in self._sparse})
        self._names = sorted(frozenset[str]().union(*(each.scalars for each in self._sparse)))
        self._compilers: dict[str, VectorCompiler] = {}
        self._program: CompiledProgram | None = None
        self._by_types: dict[tuple[type, ...], CompiledProgram] = {}  # for single events

    def evaluate(
        self,
        columns: Mapping[str, pa.Array],
        arrays: Mapping[str, pa.Array],
        count: int,
        known: dict[str, ComputedValues],
        *,
        in_program: bool = True,
    ) -> ComputedColumns:
        """The values of all attributes, from the columns of one value a row and of arrays that they read.

        `known` has those that another segment has evaluated for this batch, and gets the others. `in_program` says
        that all attributes are to be computed from the columns.
        """
        evaluators = _Evaluators(columns, count, self._compilers)
        program = self._program_for(evaluators) if in_program else None
        others = self._attributes if program is None else program.others
        for each in others:
            if each.name in known:
                continue
            if each.arrays:
                known[each.name] = _evaluate_rows(each, columns, arrays, count)
            elif each.is_of_intervals:
                known[each.name] = evaluators[each.timezone].micros(each.expression)
            else:
                values = _without_intervals(evaluators[each.timezone].value(each.expression))
                known[each.name] = values if each.kind is None else _of_kind(values, each.kind)
        found = {each.name: known[each.name] for each in others}
        return ComputedColumns(found, None if program is None else program.bind(evaluators))

    def _program_for(self, evaluators: _Evaluators) -> CompiledProgram | None:
        """The program for columns of some types; None where it would evaluate too few attributes."""
        if not self._sparse:
            return None
        compilers = {zone: evaluators[zone].compiler for zone in self._zones}
        program = self._program
        if program is None or program.compilers != compilers:
            chosen = _compilable(self._sparse, compilers)
            program = self._program = CompiledProgram(compilers, chosen, self._attributes, self._axes)
        return program if program.size >= MIN_PROGRAM_EXPRESSIONS else None

    def codes_of(self, attributes: Attributes) -> tuple[list[int], CompiledProgram | None]:
        """The codes of the computed attributes of an event that have a program, and the program; None where none has.

        The event has one value of each attribute that they read.
        """
        if not self._sparse:
            return [], None
        types = tuple([type(attributes.get(name)) for name in self._names])
        program = self._by_types.get(types)
        if program is None:
            program = self._compile_for(types)
        if program.size >= MIN_PROGRAM_EXPRESSIONS:
            with suppress(OverflowError):  # an integer of more than 64 bits
                return program.program.run_one([attributes.get(name) for name in program.columns]), program
        return [], None

    def _compile_for(self, types: tuple[type, ...]) -> CompiledProgram:
        if len(self._by_types) >= _MAX_TYPES:
            self._by_types.clear()
        arrow = {name: ARROW_TYPES.get(kind) for name, kind in zip(self._names, types, strict=True)}
        columns = {name: data_type for name, data_type in arrow.items() if data_type is not None}
        # Values of other types, decimals, have no one type of column.
        unreadable = {name for name, kind in zip(self._names, types, strict=True) if kind is not NoneType}
        unreadable -= columns.keys()
        readable = {each: axis for each, axis in self._sparse.items() if unreadable.isdisjoint(each.scalars)}
        compilers = {zone: compiler_of(columns, zone) for zone in self._zones}
        chosen = _compilable(readable, compilers, only_columns=True)
        found = self._by_types[types] = CompiledProgram(compilers, chosen, self._attributes, self._axes)
        return found


class _Evaluators(dict[str, BatchEvaluator]):
    """The evaluators of a batch by time zone, made when they are needed."""

    def __init__(self, columns: Mapping[str, pa.Array], count: int, compilers: dict[str, VectorCompiler]) -> None:
        super().__init__()
        self.count = count
        self._columns = columns
        self._compilers = compilers

    def __missing__(self, zone: str) -> BatchEvaluator:
        found = self[zone] = BatchEvaluator(self._columns, self.count, zone, self._compilers.get(zone))
        self._compilers[zone] = found.compiler
        return found


def _compilable(
    attributes: Mapping[ComputedAttribute, int], compilers: Mapping[str, VectorCompiler], *, only_columns: bool = False
) -> dict[ComputedAttribute, tuple[Part, int]]:
    """The attributes that a program can compute, with their axes; with `only_columns`, from columns alone."""
    found: dict[ComputedAttribute, tuple[Part, int]] = {}
    for each, axis in attributes.items():
        part = compilers[each.timezone].part(each.expression)
        # Values of one kind alone are chosen after they are computed, which a program does not do.
        if each.is_of_intervals:
            continue
        if each.kind is None and part is not None and (part.kind is NoneType or is_compilable(part, only_columns)):
            found[each] = part, axis
    return found


class CompiledProgram:
    """A program for columns of some types."""

    def __init__(
        self,
        compilers: Mapping[str, VectorCompiler],
        chosen: Mapping[ComputedAttribute, tuple[Part, int]],
        attributes: Sequence[ComputedAttribute],
        axes: Axes,
    ) -> None:
        self.compilers = compilers
        self.size = len(chosen)
        self.others = [each for each in attributes if each not in chosen]
        """The attributes that it does not compute."""
        # What is NULL in every row is asked for by no condition of a program.
        self.program = ExpressionProgram(
            [(part, axis) for part, axis in chosen.values() if part.kind is not NoneType], axes
        )
        self.columns = [part.attribute or "" for part in self.program.leaves]

    def bind(self, evaluators: _Evaluators) -> BoundProgram:
        leaves = self.program.leaves
        # A vector is the same whatever the zone of the evaluator: its part knows its own.
        vectors = list(map(evaluators[next(iter(self.compilers))].vector, leaves))
        return self.program.bind(vectors, evaluators.count)


def _without_intervals(values: ComputedValues) -> ComputedValues:
    """Intervals of time, which no constant of an index compares with, count as NULL."""
    if isinstance(values, list) and any(type(value) not in KIND_OF_TYPE for value in values):
        return as_column([value if type(value) in KIND_OF_TYPE else None for value in values])
    return values


def _of_kind(values: ComputedValues, kind: Kind) -> ComputedValues:
    """The values of one kind; the others count as NULL."""
    if isinstance(values, list):
        return as_column([value if KIND_OF_TYPE[type(value)] is kind else None for value in values])
    return values if _HOLDS[kind](values.type) else pa.nulls(len(values))


def _evaluate_rows(
    attribute: ComputedAttribute, columns: Mapping[str, pa.Array], arrays: Mapping[str, pa.Array], count: int
) -> ComputedValues:
    # A function of an array within objects also reads the arrays around it.
    names = attribute.arrays.union(*map(enclosing_paths, attribute.arrays))
    lists = {name: arrays[name] for name in names if name in arrays}
    match attribute.expression:
        case Call("size", (Array(name),)) if name in lists:
            return pc.list_value_length(lists[name]).cast(pa.int64())
    scalars = _rows({name: read_column(columns[name]) for name in attribute.scalars if name in columns}, count)
    whole = _rows({name: _tuples(read_column(column)) for name, column in lists.items()}, count)
    return as_column([attribute.value(row, own) for row, own in zip(scalars, whole, strict=True)])


def _tuples(values: Iterable[Any]) -> list[tuple[Any, ...] | None]:
    return [None if each is None else tuple(each) for each in values]


def _rows(columns: Mapping[str, Sequence[Any]], count: int) -> list[dict[str, Any]]:
    if not columns:
        return [{}] * count
    return [
        {name: value for name, value in zip(columns, values, strict=True) if value is not None}
        for values in zip(*columns.values(), strict=True)
    ]


def as_column(values: list[Scalar]) -> ComputedValues:
    """Values as a column, where they are of one kind that a column can hold."""
    found = column_of(values)
    return values if found is None else found
