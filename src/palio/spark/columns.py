"""Which columns of a DataFrame do subscriptions look at, and how does Spark hand them over?

Only these leave the JVM, each under the path of the attribute it is. A name in a condition finds its column as the
session finds it, without regard to case unless the session says so; within a structure likewise. The values of an
array are the attribute's values; the entry of a map is found by its key; a text that holds JSON is read by the worker.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from palio.errors import EventError
from palio.events.names import split_path

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType


NOTHING = "palio nothing"  # the column that is handed over where no other is


@dataclass(frozen=True)
class Needed:
    """The columns a job reads: expressions named by attributes' paths, and the names of texts that hold JSON."""

    columns: tuple[Column, ...]
    attributes: tuple[str, ...]
    json: tuple[str, ...] = ()

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
    for attribute in sorted(attributes):
        path = split_path(attribute)
        if len(path) > 1 and _find(events.schema, path[0], case_sensitive) in of_json:
            if path[0] not in texts:
                texts.append(path[0])
            continue
        column = _column(events.schema, path, case_sensitive)
        if column is not None:
            columns.append(column.alias(attribute))
            found.append(attribute)
    if not columns and not texts:
        # Whoever wants every event wants it whatever it says, but a row without any column is none.
        columns, found = [sql.lit(None).cast("boolean").alias(NOTHING)], [NOTHING]
    return Needed(tuple(columns), tuple(found), tuple(texts))


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
    from pyspark.sql.types import StructType

    from palio.events.names import join_path

    found: list[str] = []
    stack: list[tuple[tuple[str, ...], DataType]] = [
        ((field.name,), field.dataType) for field in reversed(schema.fields)
    ]
    while stack:
        path, kind = stack.pop()
        if isinstance(kind, StructType):
            stack += [((*path, field.name), field.dataType) for field in reversed(kind.fields)]
        else:
            found.append(join_path(path))
    return found


def _column(schema: StructType, path: tuple[str, ...], case_sensitive: bool) -> Column | None:
    """The expression for the attribute at a path; None where the schema has none."""
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
    return _handed_over(column, kind)


def _handed_over(column: Column, kind: DataType) -> Column | None:
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
        return None  # an object is no value
    if isinstance(inner, TimestampNTZType):
        # As Spark compares it with a moment: on the clocks of the session's zone.
        return column.cast("array<timestamp>" if kind is not inner else "timestamp")
    known = (BinaryType, BooleanType, DateType, NullType, NumericType, StringType, TimestampType)
    return column if isinstance(inner, known) else None


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
