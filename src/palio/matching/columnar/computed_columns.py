"""Computed attributes in columns: the values of expressions for all rows of a batch.

Expressions over scalar columns are evaluated in vectors (`vector_evaluation`), with what several have in common
computed once. Functions of whole arrays are evaluated row by row, except for the length of an array, which Arrow knows.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from palio.events.arrow import read_column
from palio.events.names import enclosing_paths
from palio.events.values import Scalar
from palio.filters.expressions.ast import Array, Call
from palio.filters.kinds import KIND_OF_TYPE
from palio.matching.columnar.computed_attributes import ComputedAttribute
from palio.matching.columnar.transposition import column_of
from palio.matching.columnar.vector_compiler import VectorCompiler
from palio.matching.columnar.vector_evaluation import BatchEvaluator

ComputedValues: TypeAlias = pa.Array | list[Scalar]
"""A column, or a list where the values are of several kinds."""


class ColumnComputer:
    """Evaluates the computed attributes of a segment; what it compiles for one batch serves others with its types."""

    def __init__(self, attributes: Sequence[ComputedAttribute]) -> None:
        self._attributes = attributes
        self._compilers: dict[str, VectorCompiler] = {}

    def evaluate(
        self,
        columns: Mapping[str, pa.Array],
        arrays: Mapping[str, pa.Array],
        count: int,
        known: dict[str, ComputedValues],
    ) -> Mapping[str, ComputedValues]:
        """The values of all attributes by name, from the columns of one value a row and of arrays that they read.

        `known` has those that another segment has evaluated for this batch, and gets the others.
        """
        evaluators: dict[str, BatchEvaluator] = {}
        for each in self._attributes:
            if each.name in known:
                continue
            if each.arrays:
                known[each.name] = _evaluate_rows(each, columns, arrays, count)
                continue
            zone = each.timezone
            if zone not in evaluators:
                evaluators[zone] = BatchEvaluator(columns, count, zone, self._compilers.get(zone))
                self._compilers[zone] = evaluators[zone].compiler
            known[each.name] = _without_intervals(evaluators[zone].value(each.expression))
        return {each.name: known[each.name] for each in self._attributes}


def _without_intervals(values: ComputedValues) -> ComputedValues:
    """Intervals of time, which no constant of an index compares with, count as NULL."""
    if isinstance(values, list) and any(type(value) not in KIND_OF_TYPE for value in values):
        return as_column([value if type(value) in KIND_OF_TYPE else None for value in values])
    return values


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
