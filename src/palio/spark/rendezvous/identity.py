"""What is the same event, wherever and however often Spark computes it?

What the buckets of an event found has to come together again. A number given to rows as they pass would do, but for a
lost executor: Spark computes again what it had, and rows that come out of a shuffle may then come in another order,
have other numbers, and be put together with what other rows found. So an event is known by a digest of its content.
Events with the same content are found together, and since the same subscriptions want them, only counted.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import Column
    from pyspark.sql.types import DataType


def digest(columns: Sequence[tuple[Column, DataType]]) -> Column:
    """128 bits of the values of some columns."""
    from pyspark.sql import functions as sql

    return _hashes(*(_told_apart(column, kind) for column, kind in columns), sql.lit(0))


def _hashes(*columns: Column) -> Column:
    from pyspark.sql import functions as sql

    return sql.struct(sql.xxhash64(*columns).alias("one"), sql.xxhash64(sql.lit(1), *columns).alias("other"))


def _told_apart(column: Column, kind: DataType) -> Column:
    """A value in a form in which different ones are hashed differently.

    Spark's hash passes over what is NULL and where an array ends, takes no maps, and follows the collation of a text.
    """
    from pyspark.sql import functions as sql
    from pyspark.sql.types import ArrayType, MapType, StringType, StructType, VariantType

    if isinstance(kind, StructType):
        fields = [_told_apart(column.getField(field.name), field.dataType) for field in kind.fields]
        return sql.struct(column.isNull(), *fields)
    if isinstance(kind, ArrayType):
        inner = kind.elementType
        return sql.struct(_length(column), sql.transform(column, lambda each: _told_apart(each, inner)))
    if isinstance(kind, MapType):
        entries = sql.transform(
            sql.map_entries(column),
            lambda each: _hashes(
                _told_apart(each.getField("key"), kind.keyType), _told_apart(each.getField("value"), kind.valueType)
            ),
        )
        return sql.struct(_length(column), sql.array_sort(entries))
    if isinstance(kind, VariantType):
        column = sql.to_json(column)
    elif isinstance(kind, StringType):
        column = column.cast("binary")
    return sql.struct(column.isNull(), column)


def _length(column: Column) -> Column:
    from pyspark.sql import functions as sql

    return sql.coalesce(sql.when(column.isNotNull(), sql.size(column)), sql.lit(-1))
