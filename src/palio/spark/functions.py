"""`matches`: who wants a row, as a function of its columns, for wherever Spark takes a function: SQL, `withColumn`,
Declarative Pipelines.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from palio.errors import PipelineError
from palio.events.names import join_path, split_path
from palio.spark.shared_index import SharedIndex
from palio.spark.wants import OnError, Wants
from palio.spark.worker import Finder, Output, flattened, lists

if TYPE_CHECKING:
    from pyspark.sql import Column, SparkSession


def matches(
    subscriptions: Any, *columns: str | Column, spark: SparkSession | None = None, on_error: OnError = "quarantine"
) -> Column:
    """The ids of those who want a row, as an array of strings.

    `columns` are the names of the columns that subscriptions look at (`"price"`, `"quote.price"`); without any, all
    columns are looked at. Subscriptions are given as to `match`, and are read once, now.
    """
    from pyspark.sql import functions as sql

    names = [_name_of(column) for column in columns]
    function = matching_function(subscriptions, *names, spark=spark, on_error=on_error)
    given = [sql.col(column) if isinstance(column, str) else column for column in columns]
    found: Column = function(*given) if given else function(sql.struct("*"))
    return found


def matching_function(
    subscriptions: Any, *names: str, spark: SparkSession | None = None, on_error: OnError = "quarantine"
) -> Any:
    """The function behind `matches`, to be registered for SQL: `spark.udf.register("who", matching_function(…))`.

    It takes the columns of these names, in this order; without names, one structure of all columns.
    """
    import pyarrow as pa
    from pyspark.sql import SparkSession as Session
    from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]
    from pyspark.sql.types import ArrayType, StringType

    session = spark or Session.getActiveSession()
    if session is None:
        raise PipelineError("there is no Spark session yet; start one, or hand it in as spark=…")
    wants = Wants.read(session, subscriptions, on_error=on_error)
    finder = Finder(SharedIndex.publish(session, wants.matcher))
    output = Output("ids")
    paths = [join_path(split_path(name)) for name in names]

    def palio_matches(*columns: pa.Array) -> pa.Array:
        batch = flattened(columns, paths)
        rows, numbers = finder.find(batch)
        (ids,) = output.columns(finder, numbers)
        return lists(rows, ids, len(columns[0]))

    # Spark looks at the types themselves, not at their names.
    palio_matches.__annotations__ = {"columns": pa.Array, "return": pa.Array}
    return arrow_udf(palio_matches, ArrayType(StringType()))


def _name_of(column: str | Column) -> str:
    if isinstance(column, str):
        return column
    raise PipelineError("name the columns by strings, so that conditions can name them too")
