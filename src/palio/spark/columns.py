"""Which columns of a DataFrame do subscriptions look at, and how does Spark hand them over?

Only these leave the JVM, each under the path of the attribute it is. A name in a condition finds its column as the
session finds it, without regard to case unless the session says so; within a structure likewise. The values of an
array are the attribute's values; the entry of a map is found by its key; a text that holds JSON is read by the worker.

Conditions on several members of the structures in an array ask for one structure, so there the array is handed over,
with those members alone. A structure or a map as a whole has no value to compare, but it is there or it is not: that is
what is handed over of it.
"""

from __future__ import annotations

import logging
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from palio.errors import EventError
from palio.events.names import join_path, split_path

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType


NOTHING = "palio nothing"  # the column that is handed over where no other is
_log = logging.getLogger("palio.spark")


@dataclass(frozen=True)
class Needed:
    """The columns a job reads: expressions named by attributes' paths, and the names of texts that hold JSON."""

    columns: tuple[Column, ...]
    attributes: tuple[str, ...]
    json: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    """The attributes that no column is; to every condition they are NULL."""

    @property
    def all_columns(self) -> list[Column]:
        """The columns of attributes, then those of texts, under their own names."""
        return [*self.columns, *(column(name).alias(name) for name in self.json)]


def column(name: str) -> Column:
    """The column of exactly this name, whatever is in it."""
    from pyspark.sql import functions as sql

    return sql.col(_quoted(name))


def needed_columns(events: DataFrame, attributes: Iterable[str], json: Collection[str] = ()) -> Needed:
    """The columns of a DataFrame for the attributes that subscriptions look at; attributes without one are NULL."""
    from pyspark.sql import functions as sql

    case_sensitive = str(events.sparkSession.conf.get("spark.sql.caseSensitive")).lower() == "true"
    of_json = {_column_of_json(events.schema, name, case_sensitive) for name in json}
    columns: list[Column] = []
    found: list[str] = []
    texts: list[str] = []
    absent: list[str] = []
    paths: list[tuple[str, ...]] = []
    for path in map(split_path, sorted(attributes)):
        if len(path) == 1 or _find(events.schema, path[0], case_sensitive) not in of_json:
            paths.append(path)
        elif path[0] not in texts:
            texts.append(path[0])
    for path, members in _together(events.schema, paths, case_sensitive).items():
        column = _column(events.schema, path, case_sensitive, members)
        if column is None:
            absent.append(join_path(path))
        else:
            columns.append(column.alias(join_path(path)))
            found.append(join_path(path))
    if not columns and not texts:
        # Whoever wants every event wants it whatever it says, but a row without any column is none.
        columns, found = [sql.lit(None).cast("boolean").alias(NOTHING)], [NOTHING]
    return Needed(tuple(columns), tuple(found), tuple(texts), tuple(absent))


def _column_of_json(schema: StructType, name: str, case_sensitive: bool) -> str:
    found = _find(schema, name, case_sensitive)
    if found is None:
        raise EventError(f"there is no column {name} to read JSON from; there are {', '.join(schema.names)}")
    kind = _type_of(schema, found).typeName()
    if kind not in ("string", "char", "varchar", "binary", "void"):
        raise EventError(f"the column {found} is no text to read JSON from, but {kind}")
    return found


def all_attributes(schema: StructType) -> list[str]:
    """The paths of all columns and fields that can be attributes, for conditions that look at whole events."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    found: list[str] = []
    stack: list[tuple[tuple[str, ...], DataType]] = [
        ((field.name,), field.dataType) for field in reversed(schema.fields)
    ]
    while stack:
        path, kind = stack.pop()
        if isinstance(kind, StructType):
            stack += [((*path, field.name), field.dataType) for field in reversed(kind.fields)]
            continue
        inner = kind
        while isinstance(inner, ArrayType):
            inner = inner.elementType
        if not isinstance(inner, StructType | MapType):
            found.append(join_path(path))
    return found


def _together(
    schema: StructType, paths: Iterable[tuple[str, ...]], case_sensitive: bool
) -> dict[tuple[str, ...], list[tuple[str, ...]]]:
    """Paths that are handed over by themselves, and those of arrays of structures with the paths of their members.

    One member asks for itself, as does each where somebody also asks for the array.
    """
    found: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    within: dict[tuple[str, ...], list[tuple[str, ...]]] = {}
    for path in paths:
        array = _array_of_objects(schema, path, case_sensitive)
        if array is None:
            found[path] = []
        else:
            within.setdefault(array, []).append(path)
    for array, members in within.items():
        if len(members) == 1 or array in found:
            found |= {path: [] for path in members}
        else:
            found[array] = [path[len(array) :] for path in members]
    return found


def _array_of_objects(schema: StructType, path: tuple[str, ...], case_sensitive: bool) -> tuple[str, ...] | None:
    """The path of the outermost array of structures that an attribute is in; None where there is none."""
    from pyspark.sql.types import ArrayType, StructType

    kind: DataType = schema
    for place, segment in enumerate(path):
        if not isinstance(kind, StructType):
            return None
        name = _find(kind, segment, case_sensitive)
        if name is None:
            return None
        kind = _type_of(kind, name)
        inner = kind
        while isinstance(inner, ArrayType):
            inner = inner.elementType
        if inner is not kind and isinstance(inner, StructType) and place + 1 < len(path):
            return path[: place + 1]
    return None


def _column(
    schema: StructType, path: tuple[str, ...], case_sensitive: bool, members: Collection[tuple[str, ...]] = ()
) -> Column | None:
    """The expression for the attribute at a path, or for an array with some members; None where there is none."""
    from pyspark.sql import functions as sql
    from pyspark.sql.types import ArrayType, MapType, StructType

    name = _find(schema, path[0], case_sensitive)
    if name is None:
        return None
    column, kind = sql.col(_quoted(name)), _type_of(schema, name)
    for segment in path[1:]:
        depth = 0
        inner = kind
        while isinstance(inner, ArrayType):
            inner, depth = inner.elementType, depth + 1
        if isinstance(inner, StructType):
            field = _find(inner, segment, case_sensitive)
            if field is None:
                return None
            for _ in range(depth - 1):
                column = sql.flatten(column)
            column, kind = column.getField(field), _type_of(inner, field)
            if depth:
                kind = ArrayType(kind)
        elif isinstance(inner, MapType) and not depth and inner.keyType.typeName() == "string":
            column, kind = sql.try_element_at(column, sql.lit(segment)), inner.valueType
        else:
            return None
    if members:
        return _objects(column, kind, members, case_sensitive, join_path(path))
    return _handed_over(column, kind, join_path(path))


def _objects(
    column: Column, kind: DataType, members: Collection[tuple[str, ...]], case_sensitive: bool, name: str
) -> Column | None:
    """What is handed over of a value of which these members are looked at; all of it where there are none."""
    from pyspark.sql import functions as sql
    from pyspark.sql.types import ArrayType, MapType, StructType

    if not members:
        return _handed_over(column, kind, name)
    if isinstance(kind, ArrayType):
        inner = kind.elementType
        if _objects(sql.lit(None), inner, members, case_sensitive, name) is None:
            return None
        return sql.transform(column, lambda each: _objects(each, inner, members, case_sensitive, name))  # type: ignore[arg-type, return-value]
    fields: list[Column] = []
    for segment in dict.fromkeys(path[0] for path in members):
        inside = f"{name}.{segment}"
        within = [path[1:] for path in members if path[0] == segment and len(path) > 1]
        field = _find(kind, segment, case_sensitive) if isinstance(kind, StructType) else None
        member: Column | None = None
        if isinstance(kind, StructType) and field is not None:
            member = _objects(column.getField(field), _type_of(kind, field), within, case_sensitive, inside)
        elif isinstance(kind, MapType) and kind.keyType.typeName() == "string":
            entry = sql.try_element_at(column, sql.lit(segment))
            member = _objects(entry, kind.valueType, within, case_sensitive, inside)
        if member is not None:
            fields.append(member.alias(segment))
    return sql.when(column.isNotNull(), sql.struct(*fields)) if fields else None


def _handed_over(column: Column, kind: DataType, name: str) -> Column | None:
    """A column in a type that events have; None for types they do not have."""
    from pyspark.sql import functions as sql
    from pyspark.sql.types import (
        ArrayType,
        BinaryType,
        BooleanType,
        DateType,
        MapType,
        NullType,
        NumericType,
        StringType,
        StructType,
        TimestampNTZType,
        TimestampType,
    )

    while isinstance(kind, ArrayType) and isinstance(kind.elementType, ArrayType):
        column, kind = sql.flatten(column), kind.elementType
    inner = kind.elementType if isinstance(kind, ArrayType) else kind
    if isinstance(inner, StructType | MapType):
        return sql.transform(column, _is_there) if kind is not inner else _is_there(column)
    if isinstance(inner, TimestampNTZType):
        # As Spark compares it with a moment: on the clocks of the session's zone.
        return column.cast("array<timestamp>" if kind is not inner else "timestamp")
    if isinstance(inner, StringType) and not inner.isUTF8BinaryCollation():
        _say(f"texts of the column {name}, {inner.simpleString()}, are compared by their bytes, not by that collation")
    known = (BinaryType, BooleanType, DateType, NullType, NumericType, StringType, TimestampType)
    if isinstance(inner, known):
        return column
    _say(f"conditions cannot look at the column {name}, {inner.simpleString()}: to them it is NULL")
    return None


def _is_there(column: Column) -> Column:
    from pyspark.sql import functions as sql

    return sql.when(column.isNotNull(), sql.lit(True))


@cache
def _say(warning: str) -> None:
    """Once, not for every batch of a stream."""
    _log.warning(warning)


def _find(schema: StructType, name: str, case_sensitive: bool) -> str | None:
    names = schema.names
    if name in names:
        return name
    if case_sensitive:
        return None
    alike = [each for each in names if each.lower() == name.lower()]
    if len(alike) > 1:
        raise EventError(f"{name} may be any of the columns {', '.join(alike)}; write it as one of them is written")
    return alike[0] if alike else None


def _type_of(schema: StructType, name: str) -> DataType:
    return schema[name].dataType


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
