"""Columns computed by matching: the UDFs `matches` and `matching_function`, and `annotate`.

`matches` gives the ids of the subscriptions that match a row, wherever Spark takes a function: SQL, `withColumn`,
Declarative Pipelines. `annotate` attaches the result to the event in a form that its receiver can use without matching
again. For a broker that form is a `BrokerHeader`: the job matches events against the `TableSnapshot` that the broker
gave out, and the broker forwards them without evaluating their content.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, time
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from palio.errors import PipelineError
from palio.events.arrow import read_column
from palio.events.names import join_path, split_path
from palio.filters.expressions import text_cast
from palio.filters.expressions.cast import target_of
from palio.filters.expressions.coercion import moment_of
from palio.matching.columnar.array_types import Int64s
from palio.matching.columnar.arrow_columns import list_lengths
from palio.matching.matcher import Matcher
from palio.routing.forwarding.precomputed_headers import TableSnapshot
from palio.spark.argument_checks import check_names, check_session, check_text
from palio.spark.attributes import (
    PLACEHOLDER_ATTRIBUTE,
    AttributeResolver,
    Path,
    is_case_sensitive,
    type_of_target,
)
from palio.spark.implicit_casts import ImplicitCasts, type_conflict_message, warn_about_type_conflicts
from palio.spark.match_job import check_events, missing_columns_message, project_for, warn_about_missing_columns
from palio.spark.projection import column_zones, leaf_paths, matcher_zones, session_zone, type_of_moments
from palio.spark.record_batches import (
    BatchMatcher,
    MatchPairs,
    OutputColumns,
    arrow_type,
    as_arrow_udf,
    group_into_lists,
    match_batch,
    sanitize_text,
)
from palio.spark.shared_index import SharedIndex
from palio.spark.subscription_columns import id_type
from palio.spark.subscriptions import OnError, Wants
from palio.spark.variant_values import variant_value
from palio.spark.worker_warnings import WorkerWarnings
from palio.spark.workers import choose_worker_python

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import DataType

_NOT_GIVEN_WARNING: Final = "no column is given for"


def matches(
    subscriptions: Any, *columns: str | Column, spark: SparkSession | None = None, on_error: OnError = "quarantine"
) -> Column:
    """The ids of the subscriptions that match a row, as an array.

    `columns` are those that subscriptions read, by name (`"price"`, `"quote.price"`) or as a Column with a name
    (`F.col("price")`, `(F.col("cents") / 100).alias("price")`), by default all. Attributes without a column are
    named in a warning. Subscriptions are given as to `match`, and are read once, now.
    """
    from pyspark.sql import functions as sql

    named = [_named_column(each) for each in columns]
    function = _build_function(subscriptions, [name for name, _ in named], spark, on_error)
    found: Column = function(*(column for _, column in named)) if named else function(sql.struct("*"))
    return found


_SEGMENT = r"(?:`(?:[^`]|``)+`|[\w ]+)"
_REFERENCE = re.compile(rf"{_SEGMENT}(?:\.{_SEGMENT})*")


def _named_column(given: str | Column) -> tuple[str, Column]:
    """A column with the name that conditions have for it."""
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql import functions as sql

    if isinstance(given, str):
        check_text("the name of a column", given)
        return given, sql.col(given)
    if not isinstance(given, SparkColumn):
        raise PipelineError(f"a column is a name or a Column, not {type(given).__name__}")
    name = _name_of(given)
    if name is None:
        raise PipelineError(f'{given} has no name for conditions; give it one by .alias("price")')
    return name, given


def _name_of(column: Column) -> str | None:
    """The alias of a Column, or the path that it refers to; None where it is any other expression.

    Spark has no API for it. It prints both alike with and without Connect, and other expressions with signs that no
    reference has.
    """
    printed = str(column).removeprefix("Column<'").removesuffix("'>")
    referred, has_alias, alias = printed.rpartition(" AS ")
    if not has_alias:
        return printed if _REFERENCE.fullmatch(printed) else None
    if not re.fullmatch(r"\w+", alias):
        return None
    # `events["quote.price"]`: Spark adds the alias itself, and quotes the member, which only it does here.
    is_member = referred.endswith(f".`{alias}`") and _REFERENCE.fullmatch(referred)
    return join_path(split_path(referred)) if is_member else alias


def matching_function(
    subscriptions: Any, *names: str, spark: SparkSession | None = None, on_error: OnError = "quarantine"
) -> Any:
    """The UDF behind `matches`, for registration in SQL: `spark.udf.register("who", matching_function(…))`.

    It takes the columns of these names, in this order; without names, one struct of all columns: `who(struct(*))`.
    """
    return _build_function(subscriptions, names, spark, on_error)


def _build_function(subscriptions: Any, names: Sequence[str], spark: SparkSession | None, on_error: OnError) -> Any:
    from pyspark.sql import SparkSession as Session
    from pyspark.sql.types import ArrayType, StringType

    session = Session.getActiveSession() if spark is None else spark
    if session is None:
        raise PipelineError("there is no Spark session yet; start one, or hand it in as spark=…")
    check_session(session)
    check_names("columns", names)
    choose_worker_python(session)
    wants = Wants.read(session, subscriptions, on_error=on_error, columns=())
    case_sensitive = is_case_sensitive(session)
    zone = session_zone(session)
    paths = [split_path(name) for name in names]
    absent = _check_paths(paths, wants.matcher, case_sensitive) if paths else []
    index = SharedIndex.publish(session, wants.matcher)
    output = OutputColumns("ids", id_type=id_type(wants.schema))
    warn = WorkerWarnings(session).warn
    opened: list[TypedMatcher] = []  # in the worker, once; the closure is pickled on the driver

    def palio_matches(*columns: pa.Array) -> pa.Array:
        check_arguments(columns, names)
        if not opened:
            opened.append(TypedMatcher(index.open(), case_sensitive, zone, warn, absent))
        rows, ids = opened[0].match(given_columns(columns, paths), len(columns[0]))
        return group_into_lists(rows, ids.cast(output.arrow_type), len(columns[0]))

    return as_arrow_udf(palio_matches, ArrayType(output.id_type or StringType()))


def _check_paths(paths: Sequence[Path], matcher: Matcher, case_sensitive: bool) -> list[str]:
    """Refuse a column that is given twice, and return attributes for which none is given, with a warning."""
    known: set[Path] = set()
    for path in paths:
        if (found := _as_found(path, case_sensitive)) in known:
            raise PipelineError(f"the column {join_path(path)} is given twice")
        known.add(found)
    wanted = ((name, _as_found(split_path(name), case_sensitive)) for name in sorted(matcher.attributes))
    absent = [name for name, path in wanted if not any(path[:size] in known for size in range(1, len(path) + 1))]
    warn_about_missing_columns(absent, matcher, _NOT_GIVEN_WARNING)
    return absent


def _as_found(path: Path, case_sensitive: bool) -> Path:
    return path if case_sensitive else tuple(segment.lower() for segment in path)


def check_arguments(columns: Sequence[pa.Array], names: Sequence[str]) -> None:
    """Refuse a call with other columns than a function takes; Spark itself does not count them."""
    if names:
        if len(columns) != len(names):
            given = f"{len(columns)} {'is' if len(columns) == 1 else 'are'} given"
            expected = f"{len(names)} column{'' if len(names) == 1 else 's'}"
            raise PipelineError(f"this function takes {expected}, in this order: {', '.join(names)}; {given}")
    elif len(columns) != 1 or not pa.types.is_struct(columns[0].type):
        given = f"{len(columns)} columns" if len(columns) != 1 else ArrowValues.of(columns[0]).kind.simpleString()
        raise PipelineError(f"this function takes one struct of all columns, as in who(struct(*)), not {given}")


def given_columns(columns: Sequence[pa.Array], paths: Sequence[Path]) -> dict[Path, ArrowValues]:
    """The arguments of a function by path; without paths, the only argument is a struct of all columns."""
    if paths:
        return {path: ArrowValues.of(column) for path, column in zip(paths, columns, strict=True)}
    return {(name,): values for name, values in ArrowValues.of(columns[0]).fields().items()}


class TypedMatcher:
    """Matching in a worker, for a UDF that gets columns as they are; the rules are those of `projection`.

    Only here are the columns' types known. Conditions with casts are indexed again, once in each worker. `warn` takes
    warnings about columns that are missing, other than those `known_absent`, and about types that do not go together.
    """

    def __init__(
        self,
        matcher: Matcher,
        case_sensitive: bool,
        zone: str,
        warn: Callable[[str], None],
        known_absent: Collection[str] = (),
    ) -> None:
        self._warn = warn
        self._known_absent = known_absent
        self._uncast = matcher
        self._has_warned = False
        self._matcher: Matcher | None = None
        self._case_sensitive = case_sensitive
        self._session_zone = zone
        self._zone = column_zones(lambda: matcher_zones(matcher), zone)

    def match(self, given: Mapping[Path, ArrowValues], count: int) -> tuple[Int64s, pa.StringArray]:
        """Rows and the ids of the subscriptions that match them, ordered by row."""
        if self._matcher is None:
            casts = ImplicitCasts({path: values.kind for path, values in given.items()}, self._case_sensitive)
            self._matcher = casts.apply_to_matcher(self._uncast)
            self._attributes = sorted(map(split_path, self._matcher.attributes))
            self._reads_whole_events = self._matcher.reads_whole_events  # looks through all residual conditions
            if casts.conflicts:
                self._warn(type_conflict_message(casts.conflicts))
        wanted = set(self._attributes)
        if self._reads_whole_events:
            wanted.update(leaf_paths((path, values.kind) for path, values in given.items()))
        resolver = AttributeResolver(given, self._case_sensitive, self._zone, self._session_zone)
        found, absent = resolver.resolve(sorted(wanted))
        if not self._has_warned:  # only here are the members of structs known
            self._has_warned = True
            missing = [name for name in absent if name not in self._known_absent]
            if missing:
                self._warn(missing_columns_message(missing, self._matcher))
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
    check_events(events)
    check_text("the name of a column", name)
    if name.lower() in (each.lower() for each in events.columns):
        raise PipelineError(f"the events have a column {name} already; choose another name=")
    choose_worker_python(events.sparkSession)
    kind: Header
    if isinstance(subscriptions, TableSnapshot):
        kind = header or BrokerHeader(subscriptions)
        wants = Wants(subscriptions.matcher())
    else:
        kind = header or Subscribers()
        wants = Wants.read(events.sparkSession, subscriptions, on_error=on_error, columns=())
        casts = ImplicitCasts.of(events)
        wants = wants.with_casts(casts)
        warn_about_type_conflicts(wants.casts or casts)
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
        key_type = self.array.type.key_type
        sought = pa.scalar(int(key) if pa.types.is_integer(key_type) else key, key_type)
        return ArrowValues(pc.map_lookup(self.array, sought, "first"), self.kind.valueType)  # type: ignore[attr-defined]

    def keys(self) -> ArrowValues:
        from pyspark.sql.types import ArrayType

        entries = self.array.cast(
            pa.list_(pa.struct([("key", self.array.type.key_type), ("value", self.array.type.item_type)]))
        )
        keys = pc.struct_field(entries.flatten(), [0])
        return ArrowValues(entries, ArrayType(self.kind))._of_elements(keys, list_lengths(entries), self.kind.keyType)  # type: ignore[attr-defined]

    def variant(self, path: str, target: str, zone: str) -> ArrowValues:
        found = [None if each is None else variant_value(each, path, target, zone) for each in self.array.to_pylist()]
        kind = type_of_target(target)
        return ArrowValues(pa.array(found, arrow_type(kind, target)), kind)

    def element(self, place: int) -> ArrowValues:
        lengths = list_lengths(self.array)
        starts = np.cumsum(lengths) - lengths
        at = starts + (place - 1 if place > 0 else lengths + place)
        is_there = (np.abs(place) <= lengths) & (place != 0)
        found = self.array.flatten().take(pa.array(np.where(is_there, at, 0), mask=~is_there))
        return ArrowValues(found, self.kind.elementType)  # type: ignore[attr-defined]

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

    def as_moments(self) -> ArrowValues:
        return ArrowValues(self.array, type_of_moments(self.kind))

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
        is_text = isinstance(value, str)
        return text_cast.to_local_timestamp(value) if is_text else datetime.combine(value, time())
    return target_of(target).convert(value, zone)


def _moment(clock: datetime | None, zone: str) -> datetime | None:
    """The moment of a local time in a zone, clamped to the range of `datetime`."""
    if clock is None:
        return None
    try:
        return moment_of(clock.replace(tzinfo=None), zone)
    except OverflowError:
        return (datetime.min if clock.year == 1 else datetime.max).replace(tzinfo=UTC)
