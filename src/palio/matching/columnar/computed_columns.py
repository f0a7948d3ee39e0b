"""Computed attributes in columns: the values of an expression for all rows of a batch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa

from palio.events.arrow import read_column
from palio.events.values import Scalar
from palio.matching.columnar.computed_attributes import ComputedAttribute
from palio.matching.columnar.transposition import column_of

ComputedColumns: TypeAlias = dict[str, pa.Array | list[Scalar]]
"""The values of computed attributes of one batch, by name: a column, or a list where they are of several kinds."""


def evaluate_columns(
    attribute: ComputedAttribute, columns: Mapping[str, pa.Array], count: int
) -> pa.Array | list[Scalar]:
    """The values of a computed attribute for the rows of a batch, from the columns that it reads."""
    scalars = {name: read_column(columns[name]) for name in attribute.scalars if name in columns}
    arrays = {
        name: read_column(columns[name])
        for name in attribute.arrays
        if name in columns and pa.types.is_nested(columns[name].type)
    }
    rows = _rows(scalars, count)
    lists = _rows({name: [None if each is None else tuple(each) for each in of] for name, of in arrays.items()}, count)
    return as_column([attribute.value(row, own) for row, own in zip(rows, lists, strict=True)])


def _rows(columns: Mapping[str, Sequence[Any]], count: int) -> list[dict[str, Any]]:
    if not columns:
        return [{}] * count
    return [
        {name: value for name, value in zip(columns, values, strict=True) if value is not None}
        for values in zip(*columns.values(), strict=True)
    ]


def as_column(values: list[Scalar]) -> pa.Array | list[Scalar]:
    """Values as a column, where they are of one kind that a column can hold."""
    found = column_of(values)
    return values if found is None else found
