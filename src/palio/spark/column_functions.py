"""Columns computed by matching: the UDFs `matches` and `matching_function`, and `annotate`.

`matches` gives the ids of the subscriptions that match a row, wherever Spark takes a function: SQL, `withColumn`,
Declarative Pipelines. `annotate` attaches the result to the event in a form that its receiver can use without matching
again. For a broker that form is a `BrokerHeader`: the job matches events against the `TableSnapshot` that the broker
gave out, and the broker forwards them without evaluating their content.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from palio.errors import PipelineError
from palio.events.arrow import read_column
from palio.events.names import split_path
from palio.filters.expressions import text_cast
from palio.filters.expressions.cast import target_of
from palio.filters.expressions.coercion import moment_of
from palio.matching.columnar.array_types import Int64s
from palio.matching.columnar.arrow_columns import list_lengths
from palio.matching.matcher import Matcher
from palio.routing.forwarding.precomputed_headers import TableSnapshot
from palio.spark.attributes import PLACEHOLDER_ATTRIBUTE, AttributeResolver, Path, is_case_sensitive, type_of_target
from palio.spark.implicit_casts import ImplicitCasts
from palio.spark.match_job import project_for
from palio.spark.projection import column_zones, leaf_paths, matcher_zones, session_zone
from palio.spark.record_batches import (
    BatchMatcher,
    MatchPairs,
    arrow_type,
    as_arrow_udf,
    group_into_lists,
    match_batch,
    sanitize_text,
)
from palio.spark.shared_index import SharedIndex
from palio.spark.subscriptions import OnError, Wants
from palio.spark.workers import choose_worker_python

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType


def matches(
    subscriptions: Any, *columns: str | Column, spark: SparkSession | None = None, on_error: OnError = "quarantine"
) -> Column:
    """The ids of the subscriptions that match a row, as an array of strings.

    `columns` are the names of the columns that subscriptions read (`"price"`, `"quote.price"`), by default all.
    Subscriptions are given as to `match`, and are read once, now.
    """
    from pyspark.sql import functions as sql

    names: list[str] = []
    for column in columns:
        if not isinstance(column, str):
            raise PipelineError("name the columns by strings, so that conditions can name them too")
        names.append(column)
    function = matching_function(subscriptions, *names, spark=spark, on_error=on_error)
    found: Column = function(*map(sql.col, names)) if names else function(sql.struct("*"))
    return found


def matching_function(
    subscriptions: Any, *names: str, spark: SparkSession | None = None, on_error: OnError = "quarantine"
) -> Any:
    """The UDF behind `matches`, for registration in SQL: `spark.udf.register("who", matching_function(…))`.

    It takes the columns of these names, in this order; without names, one struct of all columns.
    """
    from pyspark.sql import SparkSession as Session
    from pyspark.sql.types import ArrayType, StringType

    session = spark or Session.getActiveSession()
    if session is None:
        raise PipelineError("there is no Spark session yet; start one, or hand it in as spark=…")
    choose_worker_python(session)
    wants = Wants.read(session, subscriptions, on_error=on_error)
    index = SharedIndex.publish(session, wants.matcher)
    case_sensitive = is_case_sensitive(session)
    zone = session_zone(session)
    paths = [split_path(name) for name in names]
    readers: list[_TypedMatcher] = []  # made in the worker, once, because it needs the opened index

    def palio_matches(*columns: pa.Array) -> pa.Array:
        # In the worker: the closure is pickled on the driver, and must not hold an open index.
        given = _given_columns(columns, paths)
        if not readers:
            readers.append(_TypedMatcher(index.open(), given, case_sensitive, zone))
        rows, ids = readers[0].match(given, len(columns[0]))
        return group_into_lists(rows, ids, len(columns[0]))

    return as_arrow_udf(palio_matches, ArrayType(StringType()))


def _given_columns(columns: Sequence[pa.Array], paths: Sequence[Path]) -> dict[Path, ArrowValues]:
    """The arguments of the function by path; without paths, the only argument is a struct of all columns."""
    if paths:
        return {path: ArrowValues.of(column) for path, column in zip(paths, columns, strict=True)}
    return {(name,): values for name, values in ArrowValues.of(columns[0]).fields().items()}


class _TypedMatcher:
    """Matching in a worker, for a UDF that gets columns as they are.

    Only here are the columns' types known. Conditions with casts are indexed again, once in each worker.
    """

    def __init__(self, matcher: Matcher, given: Mapping[Path, ArrowValues], case_sensitive: bool, zone: str) -> None:
        casts = ImplicitCasts({path: values.kind for path, values in given.items()}, case_sensitive)
        self._matcher = casts.apply_to_matcher(matcher)
        self._attributes = sorted(map(split_path, self._matcher.attributes))
        self._case_sensitive = case_sensitive
        self._session_zone = zone
        self._zone = column_zones(lambda: matcher_zones(matcher), zone)

    def match(self, given: Mapping[Path, ArrowValues], count: int) -> tuple[Int64s, pa.StringArray]:
        """Rows and the ids of the subscriptions that match them, ordered by row."""
        wanted = set(self._attributes)
        if self._matcher.reads_whole_events:
            wanted.update(leaf_paths((path, values.kind) for path, values in given.items()))
        resolver = AttributeResolver(given, self._case_sensitive, self._zone, self._session_zone)
        found, _ = resolver.resolve(sorted(wanted))
        arrays = {name: values.array for name, values in found.items()}
        if not arrays:  # Arrow has no rows without columns
            arrays[PLACEHOLDER_ATTRIBUTE] = pa.nulls(count)
        batch = pa.RecordBatch.from_arrays(list(arrays.values()), list(arrays))
        rows, numbers = match_batch(self._matcher, batch, ())
        return rows, self._matcher.numbered_ids().take(pa.array(numbers))


class Header(Protocol):
    """Encoding of the matches of an event in a column. It travels to the workers."""

    @property
    def type(self) -> str:
        """The Spark type of the column."""
        ...

    def write(self, found: MatchPairs, count: int, matcher: Matcher) -> pa.Array:
        """Encode the headers of `count` events."""
        ...


class Subscribers:
    """Header with the distinct subscribers of an event, sorted; a subscription without one counts by its id."""

    type = "array<string>"

    def write(self, found: MatchPairs, count: int, matcher: Matcher) -> pa.Array:
        rows, numbers = found
        at = pa.array(numbers)
        names_at = pc.coalesce(matcher.numbered_subscribers().take(at), matcher.numbered_ids().take(at))
        # Distinct pairs of row and subscriber, ordered by row, as `group_into_lists` needs them.
        names, places = np.unique(np.array(names_at.to_pylist(), object), return_inverse=True)
        pairs = np.unique(np.stack([rows, places], axis=1), axis=0)
        return group_into_lists(pairs[:, 0], pa.array(names[pairs[:, 1]], pa.string()), count)


class BrokerHeader:
    """Header as a broker computes it, for the broker of the table; a client sends it along with the event."""

    type = "binary"

    def __init__(self, table: TableSnapshot) -> None:
        self._writer = table.writer  # without the filters; the workers have them in the index

    def write(self, found: MatchPairs, count: int, matcher: Matcher) -> pa.Array:
        return self._writer.write(*found, count)


def annotate(
    events: DataFrame,
    subscriptions: Any,
    header: Header | None = None,
    *,
    name: str = "header",
    json: Sequence[str] = (),
    on_error: OnError = "quarantine",
) -> DataFrame:
    """The events with one more column: their matches as a header, by default `Subscribers`.

    With a broker's `TableSnapshot` for subscriptions the column has the headers that this broker would compute.
    """
    if name.lower() in (each.lower() for each in events.columns):
        raise PipelineError(f"the events have a column {name} already; choose another name=")
    choose_worker_python(events.sparkSession)
    kind: Header
    if isinstance(subscriptions, TableSnapshot):
        kind = header or BrokerHeader(subscriptions)
        wants = Wants(subscriptions.matcher())
    else:
        kind = header or Subscribers()
        wants = Wants.read(events.sparkSession, subscriptions, on_error=on_error)
        wants = wants.with_casts(ImplicitCasts.of(events))
    projection = project_for(events, wants.matcher, json)
    matcher = BatchMatcher(wants.index or SharedIndex.publish(events.sparkSession, wants.matcher), projection.json)
    names = [*projection.attributes, *projection.json]

    def palio_annotate(*columns: pa.Array) -> pa.Array:
        batch = pa.RecordBatch.from_arrays(list(columns), names)
        return kind.write(matcher.match(batch), batch.num_rows, matcher.index.open())

    return events.withColumn(name, as_arrow_udf(palio_annotate, kind.type)(*projection.all_columns))


@dataclass(frozen=True)
class ArrowValues:
    """`attributes.Values` as an Arrow array, with its Spark type."""

    array: Any
    kind: DataType

    @classmethod
    def of(cls, array: Any) -> ArrowValues:
        from pyspark.sql.pandas.types import from_arrow_type

        # Newer versions of Spark prefer it by themselves.
        return cls(array, from_arrow_type(array.type, prefer_timestamp_ntz=True))

    def fields(self) -> dict[str, ArrowValues]:
        return {name: self.field(name) for name in self.kind.names}  # type: ignore[attr-defined]

    def field(self, name: str) -> ArrowValues:
        place = self.kind.names.index(name)  # type: ignore[attr-defined]
        return ArrowValues(pc.struct_field(self.array, [place]), self.kind[name].dataType)  # type: ignore[index]

    def entry(self, key: str) -> ArrowValues:
        return ArrowValues(pc.map_lookup(self.array, pa.scalar(key), "first"), self.kind.valueType)  # type: ignore[attr-defined]

    def map_elements(self, change: Callable[[ArrowValues], ArrowValues]) -> ArrowValues:
        changed = change(ArrowValues(self.array.flatten(), self.kind.elementType))  # type: ignore[attr-defined]
        return self._of_elements(changed.array, list_lengths(self.array), changed.kind)

    def flatten_arrays(self) -> ArrowValues:
        inner = self.array.flatten()
        is_null = inner.is_null().to_numpy(zero_copy_only=False)
        lengths = list_lengths(inner)
        filled = np.where(is_null, 1, lengths)
        # Position of each element among those of all inner arrays; a NULL inner array counts as one NULL element.
        starts = np.cumsum(lengths) - lengths
        within = np.arange(filled.sum()) - np.repeat(np.cumsum(filled) - filled, filled)
        places = pa.array(np.repeat(starts, filled) + within, mask=np.repeat(is_null, filled))
        kind = self.kind.elementType.elementType  # type: ignore[attr-defined]
        return self._of_elements(inner.flatten().take(places), self._summed(filled), kind)

    def drop_nulls(self) -> ArrowValues:
        elements = self.array.flatten()
        kept = elements.is_valid().to_numpy(zero_copy_only=False).astype(np.int64)
        return self._of_elements(elements.filter(elements.is_valid()), self._summed(kept), self.kind.elementType)  # type: ignore[attr-defined]

    def presence(self) -> ArrowValues:
        from pyspark.sql.types import BooleanType

        found = pc.if_else(self.array.is_valid(), pa.scalar(True), pa.scalar(None, pa.bool_()))
        return ArrowValues(found, BooleanType())

    def struct(self, members: Mapping[str, ArrowValues]) -> ArrowValues:
        from pyspark.sql.types import StructField, StructType

        arrays = [member.array for member in members.values()]
        kind = StructType([StructField(name, member.kind) for name, member in members.items()])
        return ArrowValues(pa.StructArray.from_arrays(arrays, list(members), mask=self.array.is_null()), kind)

    def to_utc(self, zone: str) -> ArrowValues:
        if zone == "UTC":
            return self
        # The conversion is done in Python, so once for each distinct time.
        encoded = self.array.dictionary_encode()
        moments = [_moment(clock, zone) for clock in read_column(encoded.dictionary)]
        found = pa.array(moments, pa.timestamp("us", "UTC")).cast(pa.timestamp("us"))
        return ArrowValues(found.take(encoded.indices), self.kind)

    def try_cast(self, target: str, zone: str) -> ArrowValues:
        # In Python, so once for each distinct value.
        encoded = self.array.dictionary_encode()
        found = [None if each is None else _cast(each, target, zone) for each in _scalars(encoded.dictionary)]
        kind = type_of_target(target)
        return ArrowValues(pa.array(found, arrow_type(kind, target)).take(encoded.indices), kind)

    def _summed(self, of_elements: Int64s) -> Int64s:
        """Sum a number of each element over its array."""
        lengths = list_lengths(self.array)
        ends = np.cumsum(lengths)
        sums = np.concatenate([[0], np.cumsum(of_elements)])
        found: Int64s = sums[ends] - sums[ends - lengths]
        return found

    def _of_elements(self, elements: Any, lengths: Int64s, kind: DataType) -> ArrowValues:
        """Arrays of these lengths over the elements, NULL where these values are."""
        from pyspark.sql.types import ArrayType

        offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
        return ArrowValues(pa.ListArray.from_arrays(offsets, elements, mask=self.array.is_null()), ArrayType(kind))


def _scalars(array: Any) -> list[Any]:
    if pa.types.is_string(array.type):
        array = sanitize_text(array)
    if pa.types.is_float32(array.type):
        # The shortest decimal that rounds to the single, which Spark writes; as a double it would have 17 digits.
        return [None if each is None else float(str(np.float32(each))) for each in array.to_pylist()]
    return read_column(array)


def _cast(value: Any, target: str, zone: str) -> Any:
    if target == "timestamp_ntz":
        return text_cast.to_local_timestamp(value)
    return target_of(target).convert(value, zone)


def _moment(clock: datetime | None, zone: str) -> datetime | None:
    """The moment of a local time in a zone, clamped to the range of `datetime`."""
    if clock is None:
        return None
    try:
        return moment_of(clock.replace(tzinfo=None), zone)
    except OverflowError:
        return (datetime.min if clock.year == 1 else datetime.max).replace(tzinfo=UTC)
