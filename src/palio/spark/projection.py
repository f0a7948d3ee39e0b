"""Projection of a DataFrame onto the attributes that subscriptions read.

Only these columns leave the JVM, each named by the path of its attribute; `attributes` has the rules. A text column
that holds JSON is passed whole and parsed by the worker.

Time zone of a column without one (TIMESTAMP_NTZ): the zone in which the conditions read their own literals without a
zone, so that `n > TIMESTAMP_NTZ'…'` and `hour(n) = 22` mean the same in every session. A column is passed once, so
conditions in several zones cannot all be right; it is then read in the session's zone, as Spark converts it, with a
warning.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING

from palio.errors import EventError
from palio.events.names import split_path
from palio.filters.filter import Filter
from palio.spark.argument_checks import check_names
from palio.spark.attributes import (
    PLACEHOLDER_ATTRIBUTE,
    AttributeResolver,
    Path,
    find_name,
    is_case_sensitive,
    quoted,
    type_of_target,
    warn_once,
)
from palio.spark.qualified_names import qualified_columns

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql._typing import ColumnOrName
    from pyspark.sql.types import DataType, MapType, StructType

    from palio.matching.matcher import Matcher
    from palio.matching.subscription import Subscription


@dataclass(frozen=True)
class Projection:
    """The columns that a job reads: expressions, the attributes they are of, and the names of text columns with JSON.

    They have no names of their own: workers know them by their places, and naming one costs milliseconds of the driver.
    """

    columns: tuple[ColumnOrName, ...]
    """A column of the events that is passed as it is stands here by its quoted name."""
    attributes: tuple[str, ...]
    json: tuple[str, ...] = ()
    absent: tuple[str, ...] = ()
    """Attributes without a column; conditions see them as NULL."""

    @property
    def all_columns(self) -> list[ColumnOrName]:
        """The columns of attributes, then the JSON columns."""
        return [*self.columns, *map(quoted, self.json)]


def column(name: str) -> Column:
    """The column of exactly this name, dots and backticks included."""
    return as_column(quoted(name))


def as_column(given: ColumnOrName) -> Column:
    """An expression; a quoted name becomes the column of this name."""
    from pyspark.sql import functions as sql

    return sql.col(given) if isinstance(given, str) else given


def select_by_place(events: DataFrame, columns: Sequence[ColumnOrName]) -> DataFrame:
    """Columns named c0, c1, … by their places: Spark would read a name with a dot as a field of a struct."""
    names = [each for each in columns if isinstance(each, str)]
    if len(names) == len(columns):
        # Names travel to the JVM in one list; every expression costs the driver several calls.
        return events.selectExpr(*(f"{name} AS c{place}" for place, name in enumerate(names)))
    return events.select(*columns).toDF(*(f"c{place}" for place in range(len(columns))))


def session_zone(spark: SparkSession) -> str:
    return str(spark.conf.get("spark.sql.session.timeZone"))


def project_attributes(
    events: DataFrame,
    attributes: Iterable[str],
    json: Collection[str] = (),
    zone: Callable[[str], str] | None = None,
) -> Projection:
    """Project a DataFrame onto attributes; those without a column are NULL.

    `zone` maps a column without a time zone to the zone in which it is read, by default the session's.
    """
    from pyspark.sql import functions as sql

    check_names("json", json)
    case_sensitive = is_case_sensitive(events.sparkSession)
    of_json = {_json_column(events.schema, name, case_sensitive) for name in json}
    texts: list[str] = []
    paths: list[Path] = []
    for path in map(split_path, sorted(attributes)):
        if len(path) == 1 or find_name(events.schema, path[0], case_sensitive) not in of_json:
            paths.append(path)
        # As the condition writes it: the worker puts this name before the paths within the JSON.
        elif path[0] not in texts:
            texts.append(path[0])
    given: dict[Path, ColumnValues] = {
        (field.name,): ColumnValues(quoted(field.name), field.dataType) for field in events.schema.fields
    }
    # Only what has a dot can be qualified; else Spark is not asked for its plan.
    if any(len(path) > 1 for path in paths):
        given = {path: ColumnValues(*each) for path, each in qualified_columns(events).items()} | given
    session = session_zone(events.sparkSession)
    found, absent = AttributeResolver(given, case_sensitive, zone or (lambda _: session), session).resolve(paths)
    columns = {name: values.source for name, values in found.items()}
    if not columns and not texts:
        # Subscriptions without conditions read no attribute, but Arrow has no rows without columns.
        columns = {PLACEHOLDER_ATTRIBUTE: sql.lit(None).cast("boolean")}
    return Projection(tuple(columns.values()), tuple(columns), tuple(texts), tuple(absent))


@dataclass(frozen=True)
class ColumnValues:
    """`attributes.Values` as a Spark expression."""

    source: ColumnOrName
    """An expression, or the quoted name of a column."""
    kind: DataType

    @property
    def column(self) -> Column:
        return as_column(self.source)

    def field(self, name: str) -> ColumnValues:
        return ColumnValues(self.column.getField(name), self.kind[name].dataType)  # type: ignore[index]

    def entry(self, key: str) -> ColumnValues:
        from pyspark.sql import functions as sql

        kind: MapType = self.kind  # type: ignore[assignment]
        return ColumnValues(sql.try_element_at(self.column, sql.lit(key).cast(kind.keyType)), kind.valueType)

    def keys(self) -> ColumnValues:
        from pyspark.sql import functions as sql
        from pyspark.sql.types import ArrayType

        return ColumnValues(sql.map_keys(self.column), ArrayType(self.kind.keyType))  # type: ignore[attr-defined]

    def variant(self, path: str, target: str, zone: str) -> ColumnValues:
        from pyspark.sql import functions as sql

        return ColumnValues(sql.try_variant_get(self.column, path, target), type_of_target(target))

    def element(self, place: int) -> ColumnValues:
        from pyspark.sql import functions as sql

        kind = self.kind.elementType  # type: ignore[attr-defined]
        # Even `try_element_at` raises at 0.
        found = sql.try_element_at(self.column, sql.lit(place)) if place else sql.lit(None).cast(kind)
        return ColumnValues(found, kind)

    def map_elements(self, change: Callable[[ColumnValues], ColumnValues]) -> ColumnValues:
        from pyspark.sql import functions as sql
        from pyspark.sql.types import ArrayType

        inner = self.kind.elementType  # type: ignore[attr-defined]
        # Spark gives the type of a lambda only after analysis, so it is computed on a placeholder.
        kind = change(ColumnValues(sql.lit(None), inner)).kind
        column = sql.transform(self.column, lambda each: change(ColumnValues(each, inner)).column)
        return ColumnValues(column, ArrayType(kind))

    def flatten_arrays(self) -> ColumnValues:
        from pyspark.sql import functions as sql
        from pyspark.sql.types import ArrayType

        inner = self.kind.elementType  # type: ignore[attr-defined]
        if not self.kind.containsNull:  # type: ignore[attr-defined]
            return ColumnValues(sql.flatten(self.column), inner)
        # `flatten` gives NULL as soon as one inner array is NULL.
        none = sql.array(sql.lit(None).cast(inner.elementType))
        whole = sql.transform(self.column, lambda each: sql.coalesce(each, none))
        return ColumnValues(sql.flatten(whole), ArrayType(inner.elementType))

    def drop_nulls(self) -> ColumnValues:
        from pyspark.sql import functions as sql

        if not self.kind.containsNull:  # type: ignore[attr-defined]
            return self
        return ColumnValues(sql.filter(self.column, lambda each: each.isNotNull()), self.kind)

    def as_moments(self) -> ColumnValues:
        return ColumnValues(self.source, type_of_moments(self.kind))

    def presence(self) -> ColumnValues:
        from pyspark.sql import functions as sql
        from pyspark.sql.types import BooleanType

        return ColumnValues(sql.when(self.column.isNotNull(), sql.lit(True)), BooleanType())

    def struct(self, members: Mapping[str, ColumnValues]) -> ColumnValues:
        from pyspark.sql import functions as sql
        from pyspark.sql.types import StructField, StructType

        # `struct` itself is never NULL, whatever its members are.
        made = sql.struct(*(member.column.alias(name) for name, member in members.items()))
        kind = StructType([StructField(name, member.kind) for name, member in members.items()])
        return ColumnValues(sql.when(self.column.isNotNull(), made), kind)

    def to_utc(self, zone: str) -> ColumnValues:
        from pyspark.sql import functions as sql

        if zone == "UTC":
            return self
        return ColumnValues(sql.convert_timezone(sql.lit(zone), sql.lit("UTC"), self.column), self.kind)

    def try_cast(self, target: str, zone: str) -> ColumnValues:
        return ColumnValues(self.column.try_cast(target), type_of_target(target))


def type_of_moments(kind: DataType) -> DataType:
    """The type that local times have as moments: what has no zone in Arrow is read as a moment of UTC."""
    from pyspark.sql.types import ArrayType, TimestampType

    return ArrayType(type_of_moments(kind.elementType)) if isinstance(kind, ArrayType) else TimestampType()


def _json_column(schema: StructType, name: str, case_sensitive: bool) -> str:
    found = find_name(schema, name, case_sensitive)
    if found is None:
        raise EventError(f"there is no column {name} to read JSON from; there are {', '.join(schema.names)}")
    kind = schema[found].dataType.typeName()
    if kind not in ("string", "char", "varchar", "binary", "void"):
        raise EventError(f"the column {found} is no text to read JSON from, but {kind}")
    return found


def leaf_paths(given: Iterable[tuple[Path, DataType]]) -> list[Path]:
    """Paths of all columns and fields that can be attributes, for conditions that read whole events."""
    from pyspark.sql.types import ArrayType, MapType, StructType

    found: list[Path] = []
    stack = list(given)[::-1]
    while stack:
        path, kind = stack.pop()
        if isinstance(kind, StructType):
            # Reversed, so that the stack gives the fields in the order of the schema.
            stack += [((*path, field.name), field.dataType) for field in reversed(kind.fields)]
            continue
        inner = kind
        while isinstance(inner, ArrayType):
            inner = inner.elementType
        if not isinstance(inner, StructType | MapType):
            found.append(path)
    return found


def subscription_zone(subscription: Subscription) -> str:
    """The time zone of a subscription's literals without one."""
    where = subscription.where
    return where.timezone if isinstance(where, Filter) else subscription.timezone


def matcher_zones(matcher: Matcher) -> frozenset[str]:
    """The time zones of a matcher's subscriptions; unpacks all of them."""
    wants: Iterable[str | Subscription] = matcher.subscriptions().wants
    return frozenset("UTC" if isinstance(want, str) else subscription_zone(want) for want in wants)


def column_zones(zones: Callable[[], Set[str]], session: str) -> Callable[[str], str]:
    """A function from a column without a time zone to the zone in which it is read.

    `zones` are those of the subscriptions; finding them may cost a pass over all, so they are computed on first use.
    """
    known = cache(zones)

    def zone_of(column: str) -> str:
        own = known()
        if len(own) == 1:
            return next(iter(own))
        if own:
            several = ", ".join(sorted(own))
            warn_once(f"{column} has times without a zone, conditions read theirs in {several}: here it is {session}")
        return session

    return zone_of
