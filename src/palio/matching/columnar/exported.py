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
from palio.matching.columnar.layout import ARRAY_FIELDS, ARRAY_RELEASE, COLUMN_FIELDS, KIND_TEXT32, KIND_TEXT64

_RELEASE: Final = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
_KINDS_OF_TEXT: Final = {pa.string().id: KIND_TEXT32, pa.large_string().id: KIND_TEXT64}


class ColumnPlan:
    """Which columns of a schema are read, and how."""

    __slots__ = ("_children", "_table", "asked", "columns", "schema", "texts")

    def __init__(
        self,
        schema: pa.Schema,
        table: list[int],
        children: list[int],
        asked: dict[str, int],
        texts: list[tuple[str, int]],
    ) -> None:
        self.schema = schema
        self.columns = len(children)
        # Behind the columns that axes read lie those of strings that are asked.
        self._children = array("q", [*children, *(place for _, place in texts)])
        for _, place in texts:
            table += (_KINDS_OF_TEXT[schema.field(place).type.id], *[0] * (COLUMN_FIELDS - 2), 0)
        self._table = array("q", table)
        self.asked = asked
        """Where the columns are whose values are asked questions, by the names of their attributes."""
        self.texts = texts
        """Those of them, and of all that are searched, that hold strings: their names and places."""

    @classmethod
    def of(
        cls,
        schema: pa.Schema,
        axis_of: Mapping[str, int],
        asked: Collection[str],
        searched: bool = False,
        paths: bool = False,
    ) -> ColumnPlan | None:
        """The plan for a schema; None where its columns must be looked at one by one.

        Where events are `searched`, all columns are asked; with `paths`, columns are named by attributes' paths.
        """
        table: list[int] = []
        children: list[int] = []
        places: dict[str, int] = {}
        texts: list[tuple[str, int]] = []
        read: set[str] = set()
        for place, field in enumerate(schema):
            name = field.name if paths else join_path((field.name,))
            if pa.types.is_nested(field.type):
                if searched:
                    return None
                within = name + "."
                if any(each == name or each.startswith(within) for each in (*axis_of, *asked)):
                    return None
                continue
            if name not in axis_of and name not in asked and not searched:
                continue
            if name in read:
                return None
            read.add(name)
            if name in asked or searched:
                if direct_kind(field.type) is None:
                    return None
                if field.type.id in _KINDS_OF_TEXT:
                    texts.append((name, place))
                else:
                    places[name] = place
            if name in axis_of:
                kind = direct_kind(field.type)
                if kind is None:
                    return None
                children.append(place)
                table += (kind[0], axis_of[name], 0, 0, 0, 0, 0, *kind[1], 0, 0)
        return cls(schema, table, children, places, texts)

    def bind(self, batch: pa.RecordBatch) -> ExportedColumns:
        return ExportedColumns(self._table, self._children, self.columns, batch)


class ExportedColumns(BoundColumns):
    """The columns of one batch, for as long as they are needed: what was exported must be released."""

    __slots__ = ("_exported", "_release")

    def __init__(self, template: array[int], children: array[int], columns: int, batch: pa.RecordBatch) -> None:
        self.table = template[:]
        self.address = self.table.buffer_info()[0]
        self.count = columns
        self.rows = batch.num_rows
        self.kept = []
        self._exported = array("q", bytes(8 * ARRAY_FIELDS))
        self._release: Callable[[int], Any] | None = None
        exported = self._exported.buffer_info()[0]
        batch._export_to_c(exported)
        self._release = _RELEASE(self._exported[ARRAY_RELEASE])
        kernels.bind_exported(exported, children.buffer_info()[0], len(children), self.address)

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
