"""Which type of Arrow holds a column of Spark? Spark's own answer is not public, and differs between its versions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import pyarrow as pa

from palio.errors import PipelineError

if TYPE_CHECKING:
    from pyspark.sql.types import DataType, StructType

_SCALARS: Final = {
    "binary": pa.binary(),
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "date": pa.date32(),
    "double": pa.float64(),
    "float": pa.float32(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "short": pa.int16(),
    "string": pa.string(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}


def arrow_schema(schema: StructType) -> pa.Schema:
    """The columns of a DataFrame, in Arrow."""
    return pa.schema([(field.name, _arrow_type(field.dataType, field.name)) for field in schema.fields])


def _arrow_type(type: DataType, name: str) -> pa.DataType:
    from pyspark.sql.types import ArrayType, DecimalType, MapType, StructType

    if isinstance(type, StructType):
        return pa.struct([(field.name, _arrow_type(field.dataType, field.name)) for field in type.fields])
    if isinstance(type, ArrayType):
        return pa.list_(_arrow_type(type.elementType, name))
    if isinstance(type, MapType):
        return pa.map_(_arrow_type(type.keyType, name), _arrow_type(type.valueType, name))
    if isinstance(type, DecimalType):
        return pa.decimal128(type.precision, type.scale)
    found = _SCALARS.get(type.typeName())
    if found is None:
        raise PipelineError(f"a column {name!r} of type {type.simpleString()} cannot be read from events")
    return found
