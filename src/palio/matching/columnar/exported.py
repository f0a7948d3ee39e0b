"""The columns of a record batch by Arrow's C data interface: one call shows all of them, where asking each for its
buffers would take longer than matching a few hundred rows.

A plan says once for a schema which columns are read, as what, and for which axes; it is None for a schema with a
column that must be looked at more closely (`columns`), a dictionary or a structure, say.
"""

from __future__ import annotations

import ctypes
from array import array
from collections.abc import Callable, Collection, Mapping
from types import TracebackType
from typing import Any, Final

import pyarrow as pa

from palio.events.names import join_path
from palio.matching.columnar import encoding_kernels as kernels
from palio.matching.columnar.columns import BoundColumns, direct_kind
from palio.matching.columnar.layout import ARRAY_FIELDS, ARRAY_RELEASE, COLUMN_FIELDS

_RELEASE: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p)


class ColumnPlan:
    """Which columns of a schema are read, and how."""

    __slots__ = ("_children", "_table", "asked", "schema")

    def __init__(self, schema: pa.Schema, table: list[int], children: list[int], asked: dict[str, int]) -> None:
        self.schema = schema
        self._table = array("q", table)
        self._children = array("q", children)
        self.asked = asked
        """Where the columns are whose values are asked questions, by the names of their attributes."""

    @classmethod
    def of(cls, schema: pa.Schema, axis_of: Mapping[str, int], asked: Collection[str]) -> ColumnPlan | None:
        """The plan for a schema; None where its columns must be looked at one by one."""
        table: list[int] = []
        children: list[int] = []
        places: dict[str, int] = {}
        read: set[str] = set()
        for place, field in enumerate(schema):
            name = join_path((field.name,))
            if pa.types.is_nested(field.type):
                within = name + "."
                if any(each == name or each.startswith(within) for each in (*axis_of, *asked)):
                    return None
                continue
            if name not in axis_of and name not in asked:
                continue
            if name in read:
                return None
            read.add(name)
            if name in asked:
                places[name] = place
            if name in axis_of:
                kind = direct_kind(field.type)
                if kind is None:
                    return None
                children.append(place)
                table += (kind[0], axis_of[name], 0, 0, 0, 0, 0, *kind[1], 0, 0)
        return cls(schema, table, children, places)

    def bind(self, batch: pa.RecordBatch) -> ExportedColumns:
        return ExportedColumns(self._table, self._children, batch)


class ExportedColumns(BoundColumns):
    """The columns of one batch, for as long as they are needed: what was exported must be released."""

    __slots__ = ("_exported", "_release")

    def __init__(self, template: array[int], children: array[int], batch: pa.RecordBatch) -> None:
        self.table = template[:]
        self.address = self.table.buffer_info()[0]
        self.count = len(template) // COLUMN_FIELDS
        self.rows = batch.num_rows
        self.kept = []
        self._exported = array("q", bytes(8 * ARRAY_FIELDS))
        self._release: Callable[[int], Any] | None = None
        exported = self._exported.buffer_info()[0]
        batch._export_to_c(exported)
        self._release = _RELEASE(self._exported[ARRAY_RELEASE])
        kernels.bind_exported(exported, children.buffer_info()[0], self.count, self.address)

    def __enter__(self) -> ExportedColumns:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def release(self) -> None:
        """Give the batch back to Arrow."""
        release, self._release = self._release, None
        if release is not None:
            release(self._exported.buffer_info()[0])
