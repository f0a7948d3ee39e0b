"""Columns of subscriptions: their names, the type of ids, and the chosen ones that matches have.

The columns of a DataFrame of subscriptions are found as the session finds names. Whole and decimal numbers as ids keep
their type in the matches; all other ids are strings there, as they are in an index. Columns other than those of
`FIELDS` are metadata, and matches have those that are chosen: with the type that they have in the DataFrame, or, where
subscriptions come without a schema, that of their values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from palio.errors import PipelineError
from palio.matching.matcher import Matcher
from palio.spark.argument_checks import check_names
from palio.spark.attributes import find_name, is_case_sensitive
from palio.spark.record_batches import arrow_type, metadata_values

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructField, StructType

NAME_FIELDS: Final = ("id", "language", "subscriber", "timezone")
FIELDS: Final = ("id", "where", *NAME_FIELDS[1:])
_IN_MATCHES: Final = ("id", "subscriber")


def resolve_columns(rows: DataFrame) -> DataFrame:
    """A DataFrame of subscriptions with the columns of `FIELDS` under these names; refused without id or where."""
    case_sensitive = is_case_sensitive(rows.sparkSession)
    names = {name: find_name(rows.schema, name, case_sensitive) for name in FIELDS}
    for name in ("id", "where"):
        if names[name] is None:
            raise PipelineError(
                f"subscriptions have the columns id and where, and may have language and subscriber; {name} is not "
                f"among {', '.join(rows.columns)}"
            )
    renamed = {found: name for name, found in names.items() if found is not None and found != name}
    return rows.withColumnsRenamed(renamed) if renamed else rows


def as_text(rows: DataFrame, name: str) -> Column:
    """An id, or another name in a column, as Spark writes it in a string; bytes, which need not be text, as digits."""
    from pyspark.sql import functions as sql
    from pyspark.sql.types import BinaryType

    is_binary = isinstance(rows.schema[name].dataType, BinaryType)
    return (sql.hex(name) if is_binary else sql.col(name).cast("string")).alias(name)


def needed_columns(rows: DataFrame, chosen: Sequence[str] | None) -> list[str]:
    """The columns of a DataFrame of subscriptions that are read: those of conditions, and the chosen ones.

    Where nothing is chosen yet (None), all columns are read whose types Spark hands to Python.
    """
    fields = [name for name in FIELDS if name in rows.columns]
    if chosen is not None:
        found = choose_from_schema(rows.schema, chosen, is_case_sensitive(rows.sparkSession))
        return [*fields, *(field.name for field in found)]
    others = [each for each in rows.schema.fields if each.name not in FIELDS and rows.columns.count(each.name) == 1]
    return [*fields, *(each.name for each in others if _is_readable(each))]


def _is_readable(field: StructField) -> bool:
    try:
        arrow_type(field.dataType, field.name)
    except PipelineError:
        return False
    return True


def id_type(schema: StructType | None) -> DataType | None:
    """The type of ids in matches; None for strings."""
    from pyspark.sql.types import DecimalType, IntegralType

    kind = None if schema is None else schema["id"].dataType
    return kind if isinstance(kind, IntegralType | DecimalType) else None


def check_chosen(names: Sequence[str], per_event: bool) -> None:
    """Refuse a choice of columns that no subscriptions could meet."""
    check_names("subscription_columns", names)
    if names and per_event:
        raise PipelineError(
            "subscription_columns are of one subscription, but with per_event=True a row has many; leave one out"
        )
    for name in names:
        if name.lower() in _IN_MATCHES:
            raise PipelineError(f"{name} is in the matches already; subscription_columns are further columns")
        if name.lower() in FIELDS:
            raise PipelineError(f"{name} is no column that matches can have; subscription_columns are further columns")


def choose_from_schema(schema: StructType, names: Sequence[str], case_sensitive: bool) -> tuple[StructField, ...]:
    """The fields of chosen columns of a DataFrame of subscriptions."""
    from pyspark.sql.types import StructField, StructType

    offered = StructType([field for field in schema.fields if field.name not in FIELDS])
    chosen = [StructField(name, offered[name].dataType) for name in _find_all(offered.names, names, case_sensitive)]
    for field in chosen:
        if not _is_readable(field):
            raise PipelineError(
                f"the column {field.name} of subscriptions is of the type {field.dataType.simpleString()}, which Spark "
                "does not hand to Python; cast it"
            )
    return tuple(chosen)


def choose_from_values(matcher: Matcher, names: Sequence[str], case_sensitive: bool) -> tuple[StructField, ...]:
    """The fields of chosen metadata; reads that of all subscriptions."""
    if not names:
        return ()
    offered = sorted({name for each in matcher.numbered_metadata() for name in each})
    found = _find_all(offered, names, case_sensitive)
    return tuple(map(_inferred, found, metadata_values(matcher, found)))


def _find_all(offered: Sequence[str], names: Sequence[str], case_sensitive: bool) -> list[str]:
    from pyspark.sql.types import NullType, StructField, StructType

    schema = StructType([StructField(name, NullType()) for name in offered])
    found: list[str] = []
    for each in names:
        name = find_name(schema, each, case_sensitive)
        if name is None:
            there = f"there are {', '.join(offered)}" if offered else "there are none but those of the condition"
            raise PipelineError(f"the subscriptions have no column {each}; {there}")
        if name in found:
            raise PipelineError(f"the column {name} of subscriptions is chosen twice")
        found.append(name)
    return found


def _inferred(name: str, values: list[Any]) -> StructField:
    from pyspark.sql.pandas.types import from_arrow_type
    from pyspark.sql.types import StringType, StructField

    try:
        kind = pa.array(values).type
    except (pa.ArrowException, OverflowError) as error:
        raise PipelineError(
            f"the values of {name} of subscriptions are of several types, or too large: {error}; a DataFrame of "
            "subscriptions says what type they have"
        ) from None
    return StructField(name, StringType() if pa.types.is_null(kind) else from_arrow_type(kind))
