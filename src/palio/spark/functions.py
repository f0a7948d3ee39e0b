"""`matches`: who wants a row, as a function of its columns, for wherever Spark takes a function: SQL, `withColumn`,
Declarative Pipelines.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from palio.errors import PipelineError
from palio.events.names import split_path
from palio.matching.matcher import Matcher
from palio.spark.arrow_values import ArrowValues
from palio.spark.attributes import NOTHING, Path, Row, is_case_sensitive
from palio.spark.columns import all_paths
from palio.spark.shared_index import SharedIndex
from palio.spark.wants import OnError, Wants
from palio.spark.worker import Finder, Output, lists
from palio.spark.zones import reading_zone, zones_of

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
    from pyspark.sql import SparkSession as Session
    from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]
    from pyspark.sql.types import ArrayType, StringType

    session = spark or Session.getActiveSession()
    if session is None:
        raise PipelineError("there is no Spark session yet; start one, or hand it in as spark=…")
    wants = Wants.read(session, subscriptions, on_error=on_error)
    finder = Finder(SharedIndex.publish(session, wants.matcher))
    output = Output("ids")
    case_sensitive = is_case_sensitive(session)
    zone = str(session.conf.get("spark.sql.session.timeZone"))
    paths = [split_path(name) for name in names]
    made: list[Reading] = []

    def palio_matches(*columns: pa.Array) -> pa.Array:
        if not made:  # with what only a worker has, and only once
            made.append(Reading(finder.index.open(), case_sensitive, zone))
        batch = made[0].batch(columns, paths)
        rows, numbers = finder.find(batch)
        (ids,) = output.columns(finder, numbers)
        return lists(rows, ids, len(columns[0]))

    # Spark looks at the types themselves, not at their names.
    palio_matches.__annotations__ = {"columns": pa.Array, "return": pa.Array}
    return arrow_udf(palio_matches, ArrayType(StringType()))


class Reading:
    """How a worker reads columns that Spark handed over as they are: as `match` has Spark hand them over."""

    def __init__(self, matcher: Matcher, case_sensitive: bool, session_zone: str) -> None:
        self._attributes = sorted(map(split_path, matcher.attributes))
        self._reads_whole_events = matcher.reads_whole_events
        self._case_sensitive = case_sensitive
        self._zone = reading_zone(lambda: zones_of(matcher), session_zone)

    def batch(self, columns: Sequence[pa.Array], paths: Sequence[Path]) -> pa.RecordBatch:
        """The attributes that subscriptions look at; with no paths, one structure is all there is."""
        if paths:
            given = {path: ArrowValues.of(column) for path, column in zip(paths, columns, strict=True)}
        else:
            given = {(name,): values for name, values in ArrowValues.of(columns[0]).fields().items()}
        wanted = set(self._attributes)
        if self._reads_whole_events:
            wanted.update(all_paths((path, values.kind) for path, values in given.items()))
        found, _ = Row(given, self._case_sensitive, self._zone).attributes(sorted(wanted))
        arrays = {name: values.array for name, values in found.items()}
        if not arrays:  # a row without any column is none
            arrays[NOTHING] = pa.nulls(len(columns[0]))
        return pa.RecordBatch.from_arrays(list(arrays.values()), list(arrays))


def _name_of(column: str | Column) -> str:
    if isinstance(column, str):
        return column
    raise PipelineError("name the columns by strings, so that conditions can name them too")
