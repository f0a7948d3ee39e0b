"""Schemas of sinks that store columns, and the changes of a schema that a restarted stream may bring.

A folder or a table is read as a whole, by one schema. Columns may be added and left out, because every reader fills
what a file lacks with NULL. The type of a column may not change, not even to a wider one: readers take the schema of
one file and cast the others to it, so that which rows can be read would depend on the file that comes first.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa

from palio.errors import PipelineError
from palio.spark.record_batches import arrow_schema

if TYPE_CHECKING:
    from pyspark.sql.types import StructType


def check_types(schema: StructType, sink: object) -> pa.Schema:
    """The schema as it is stored; refuses columns that would be read back as another type.

    Those are intervals, which would become numbers, and VARIANT, which would become a struct.
    """
    from pyspark.sql.types import StructType

    for field in schema.fields:
        try:
            arrow_schema(StructType([field]))
        except PipelineError:
            raise PipelineError(
                f"{sink} cannot keep the column {field.name}, of type {field.dataType.simpleString()}; CAST it to "
                "another, or leave it out: columns=[…]"
            ) from None
    return stored_schema(arrow_schema(schema))


def stored_schema(schema: pa.Schema) -> pa.Schema:
    """A schema as it is stored: nullable, as Spark's own writers store it, so that a column may be left out later.

    Timestamps are in UTC: Spark passes them in the session's zone, and Delta knows only UTC.
    """
    return pa.schema([_stored_field(field) for field in schema])


def _stored_field(field: pa.Field) -> pa.Field:
    return pa.field(field.name, _stored_type(field.type))


def _stored_type(kind: pa.DataType) -> pa.DataType:
    if pa.types.is_timestamp(kind) and kind.tz is not None:
        return pa.timestamp(kind.unit, "UTC")
    if pa.types.is_struct(kind):
        return pa.struct([_stored_field(kind.field(place)) for place in range(kind.num_fields)])
    if pa.types.is_list(kind):
        return pa.list_(_stored_field(kind.value_field))
    if pa.types.is_map(kind):
        return pa.map_(_stored_type(kind.key_type), _stored_field(kind.item_field))
    return kind


def refuse_changed_types(known: pa.Schema, new: pa.Schema, sink: object) -> None:
    """Refuse a schema with a column that is stored with another type, or in another case, already.

    Spark does not distinguish `x` and `X`; other readers do, and would read one of them as NULL.
    """
    stored = {field.name.lower(): field for field in known}
    for field in new:
        before = stored.get(field.name.lower())
        if before is None:
            continue
        if before.name != field.name:
            raise PipelineError(
                f"{sink} has the column {before.name}, and now it is {field.name}; rename it to the former"
            )
        if _sql_type(before.type) != _sql_type(field.type):
            raise PipelineError(
                f"{sink} has the column {before.name} as {_sql_type(before.type)}, and now it is "
                f"{_sql_type(field.type)}; read it as {_sql_type(before.type)} (in the schema, or by CAST), give it "
                "another name, or choose another place"
            )


def added_fields(known: pa.Schema, new: pa.Schema) -> list[pa.Field]:
    """The columns of a schema that another one lacks."""
    return [field for field in new if field.name not in known.names]


def _sql_type(kind: pa.DataType) -> str:
    """The type as SQL writes it. Nullability and the width of Arrow's offsets are not stored, so they are not told."""
    from pyspark.errors import PySparkTypeError
    from pyspark.sql.pandas.types import from_arrow_type

    try:
        return from_arrow_type(kind, prefer_timestamp_ntz=True).simpleString()
    except PySparkTypeError:  # of a table that others write too
        return str(kind)
