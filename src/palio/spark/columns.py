"""Which columns of a DataFrame do subscriptions look at, and how does Spark hand them over?

Only these leave the JVM, each under the path of the attribute it is; `attributes` says what of a row that is. A text
that holds JSON is read by the worker.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from palio.errors import EventError
from palio.events.names import split_path
from palio.spark.attributes import NOTHING, Path, Row, find_name, is_case_sensitive

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructType


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


def needed_columns(
    events: DataFrame,
    attributes: Iterable[str],
    json: Collection[str] = (),
    zone: Callable[[str], str] | None = None,
) -> Needed:
    """The columns of a DataFrame for the attributes that subscriptions look at; attributes without one are NULL.

    `zone` says in which zone a column without one is read, by default in the session's.
    """
    from pyspark.sql import functions as sql

    case_sensitive = is_case_sensitive(events.sparkSession)
    of_json = {_column_of_json(events.schema, name, case_sensitive) for name in json}
    texts: list[str] = []
    paths: list[Path] = []
    for path in map(split_path, sorted(attributes)):
        if len(path) == 1 or find_name(events.schema, path[0], case_sensitive) not in of_json:
            paths.append(path)
        elif path[0] not in texts:
            texts.append(path[0])
    given: dict[Path, ColumnValues] = {
        (field.name,): ColumnValues(column(field.name), field.dataType) for field in events.schema.fields
    }
    session = str(events.sparkSession.conf.get("spark.sql.session.timeZone"))
    found, absent = Row(given, case_sensitive, zone or (lambda _: session)).attributes(paths)
    columns = {name: values.column for name, values in found.items()}
    if not columns and not texts:
        # Whoever wants every event wants it whatever it says, but a row without any column is none.
        columns = {NOTHING: sql.lit(None).cast("boolean")}
    named = tuple(each.alias(name) for name, each in columns.items())
    return Needed(named, tuple(columns), tuple(texts), tuple(absent))


@dataclass(frozen=True)
class ColumnValues:
    """The values of a column, or of an expression: see `attributes`."""

    column: Column
    kind: DataType

    def field(self, name: str) -> ColumnValues:
        return ColumnValues(self.column.getField(name), self.kind[name].dataType)  # type: ignore[index]

    def entry(self, key: str) -> ColumnValues:
        from pyspark.sql import functions as sql

        return ColumnValues(sql.try_element_at(self.column, sql.lit(key)), self.kind.valueType)  # type: ignore[attr-defined]

    def each(self, change: Callable[[ColumnValues], ColumnValues]) -> ColumnValues:
        from pyspark.sql import functions as sql
        from pyspark.sql.types import ArrayType

        inner = self.kind.elementType  # type: ignore[attr-defined]
        kind = change(ColumnValues(sql.lit(None), inner)).kind
        column = sql.transform(self.column, lambda each: change(ColumnValues(each, inner)).column)
        return ColumnValues(column, ArrayType(kind))

    def joined(self) -> ColumnValues:
        from pyspark.sql import functions as sql
        from pyspark.sql.types import ArrayType

        inner = self.kind.elementType  # type: ignore[attr-defined]
        if not self.kind.containsNull:  # type: ignore[attr-defined]
            return ColumnValues(sql.flatten(self.column), inner)
        none = sql.array(sql.lit(None).cast(inner.elementType))
        whole = sql.transform(self.column, lambda each: sql.coalesce(each, none))
        return ColumnValues(sql.flatten(whole), ArrayType(inner.elementType))

    def without_nulls(self) -> ColumnValues:
        from pyspark.sql import functions as sql

        if not self.kind.containsNull:  # type: ignore[attr-defined]
            return self
        return ColumnValues(sql.filter(self.column, lambda each: each.isNotNull()), self.kind)

    def is_there(self) -> ColumnValues:
        from pyspark.sql import functions as sql
        from pyspark.sql.types import BooleanType

        return ColumnValues(sql.when(self.column.isNotNull(), sql.lit(True)), BooleanType())

    def structure(self, members: Mapping[str, ColumnValues]) -> ColumnValues:
        from pyspark.sql import functions as sql
        from pyspark.sql.types import StructField, StructType

        made = sql.struct(*(member.column.alias(name) for name, member in members.items()))
        kind = StructType([StructField(name, member.kind) for name, member in members.items()])
        return ColumnValues(sql.when(self.column.isNotNull(), made), kind)

    def at_zone(self, zone: str) -> ColumnValues:
        from pyspark.sql import functions as sql

        if zone == "UTC":
            return self
        return ColumnValues(sql.convert_timezone(sql.lit(zone), sql.lit("UTC"), self.column), self.kind)


def _column_of_json(schema: StructType, name: str, case_sensitive: bool) -> str:
    found = find_name(schema, name, case_sensitive)
    if found is None:
        raise EventError(f"there is no column {name} to read JSON from; there are {', '.join(schema.names)}")
    kind = schema[found].dataType.typeName()
    if kind not in ("string", "char", "varchar", "binary", "void"):
        raise EventError(f"the column {found} is no text to read JSON from, but {kind}")
    return found


def all_paths(given: Iterable[tuple[Path, DataType]]) -> list[Path]:
    """The paths of all columns and fields that can be attributes, for conditions that look at whole events."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    found: list[Path] = []
    stack = list(given)[::-1]
    while stack:
        path, kind = stack.pop()
        if isinstance(kind, StructType):
            stack += [((*path, field.name), field.dataType) for field in reversed(kind.fields)]
            continue
        inner = kind
        while isinstance(inner, ArrayType):
            inner = inner.elementType
        if not isinstance(inner, StructType | MapType):
            found.append(path)
    return found


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
