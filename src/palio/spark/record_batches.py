"""Matching of Arrow record batches in Spark's Python workers.

Batches are sanitized first. A string of Spark may hold bytes that are no UTF-8, and an array more values than an event
may have; such a row must not end a job, or a stream for good. Invalid bytes become U+FFFD, as in Spark's own decoding,
and an array that is too long becomes NULL.

Matches are counted through a Spark accumulator. Tasks that are run again count again, so the count serves progress
displays only. Spark Connect has no accumulators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, TypeAlias
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from palio.errors import EventError, PipelineError
from palio.events import DEFAULT_LIMITS, Event
from palio.events.arrow import read_column
from palio.events.json import parse_value
from palio.events.names import split_path
from palio.events.nested_content import Group, GroupedAttributes, flatten
from palio.spark.attributes import PRESENCE_MEMBER
from palio.spark.shared_index import SharedIndex, is_connect

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import SparkSession
    from pyspark.sql.types import DataType, StructField, StructType

    from palio.matching.matcher import Matcher

    MatchCounter: TypeAlias = Accumulator[int]

MatchPairs = tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]
"""Rows of a batch and numbers of the subscriptions that match them, ordered by row."""


@dataclass(frozen=True)
class BatchMatcher:
    """Matches batches against a shared index. It travels to the workers, where it opens the index."""

    index: SharedIndex
    json: tuple[str, ...] = ()
    counter: MatchCounter | None = None

    def match(self, batch: pa.RecordBatch) -> MatchPairs:
        found = match_batch(self.index.open(), batch, self.json)
        if self.counter is not None:
            self.counter.add(len(found[0]))
        return found


@dataclass(frozen=True)
class OutputColumns:
    """Columns of the result: the subscription's id or number, its subscriber and chosen columns, where there are any.

    An index has ids as texts; they are given out in the type of their column, `id_type`.
    """

    name: str
    numbers: bool = False
    subscriber: str | None = None
    id_type: DataType | None = None
    """None for strings."""
    chosen: tuple[StructField, ...] = ()
    renumbered: npt.NDArray[np.int64] | None = field(default=None, compare=False)
    """By number in the index, the number in the result; None where they are equal."""

    @property
    def names(self) -> list[str]:
        owner = [] if self.subscriber is None else [self.subscriber]
        return [self.name, *owner, *(field.name for field in self.chosen)]

    @property
    def arrow_type(self) -> pa.DataType:
        """The type of the ids or numbers."""
        if self.numbers:
            return pa.int32()
        return pa.string() if self.id_type is None else arrow_type(self.id_type, self.name)

    def columns(self, matcher: BatchMatcher, numbers: npt.NDArray[np.int32]) -> list[pa.Array]:
        at = pa.array(numbers)
        index = matcher.index.open()
        found = [self._numbers(at) if self.numbers else index.numbered_ids().take(at).cast(self.arrow_type)]
        if self.subscriber is not None:
            found.append(index.numbered_subscribers().take(at))
        return found + [column.take(at) for column in metadata_columns(index, self.chosen)]

    def _numbers(self, at: pa.Array) -> pa.Array:
        return at if self.renumbered is None else pa.array(self.renumbered, pa.int32()).take(at)


_metadata: WeakKeyDictionary[Matcher, dict[tuple[StructField, ...], list[pa.Array]]] = WeakKeyDictionary()


def metadata_columns(matcher: Matcher, fields: tuple[StructField, ...]) -> list[pa.Array]:
    """Members of the metadata as a column each, by the numbers of subscriptions; read once in each process."""
    known = _metadata.setdefault(matcher, {})
    if fields not in known:
        known[fields] = [
            _as_column(values, arrow_type(field.dataType, field.name))
            for field, values in zip(fields, metadata_values(matcher, [field.name for field in fields]), strict=True)
        ]
    return known[fields]


def metadata_values(matcher: Matcher, names: Sequence[str]) -> list[list[Any]]:
    """The values of members of the metadata, by the numbers of subscriptions; None where there is none."""
    if not names:
        return []
    found = [[each.get(name) for name in names] for each in matcher.numbered_metadata()]
    return [[each[place] for each in found] for place in range(len(names))]


def _as_column(values: list[Any], kind: pa.DataType) -> pa.Array:
    return pa.array([_with_entries(each, kind) for each in values] if pa.types.is_nested(kind) else values, kind)


def _with_entries(value: Any, kind: pa.DataType) -> Any:
    """A value of metadata, which has lists in place of the entries of a map, as Arrow takes it."""
    if value is None or not pa.types.is_nested(kind):
        return value
    if pa.types.is_map(kind):
        return [(key, _with_entries(each, kind.item_type)) for key, each in value]
    if pa.types.is_struct(kind):
        return {field.name: _with_entries(value.get(field.name), field.type) for field in kind}
    return [_with_entries(each, kind.value_type) for each in value]


def match_batch(matcher: Matcher, batch: pa.RecordBatch, json: tuple[str, ...]) -> MatchPairs:
    """Match a batch whose columns are named by attribute paths; the last ones, `json`, are texts of JSON."""
    batch = sanitize_batch(batch)
    # JSON, and presence beside members, have no columnar form: such rows are matched as events.
    if json or any(_has_presence(field.type) for field in batch.schema):
        return matcher.match_events(read_events(batch, json))
    return matcher.match_columns(batch)


def is_flat(batch: pa.RecordBatch, json: tuple[str, ...]) -> bool:
    """Whether every column is an attribute, without objects that need `read_events`."""
    return not json and not any(pa.types.is_struct(_element(field.type)) for field in batch.schema)


def _element(kind: pa.DataType) -> pa.DataType:
    while pa.types.is_list(kind):
        kind = kind.value_type
    return kind


def _has_presence(kind: pa.DataType) -> bool:
    kind = _element(kind)
    return pa.types.is_struct(kind) and any(each.name == PRESENCE_MEMBER or _has_presence(each.type) for each in kind)


def read_events(batch: pa.RecordBatch, json: tuple[str, ...]) -> list[Event]:
    """Convert rows one by one; a text in the `json` columns that is no JSON object counts as missing."""
    plain = batch.num_columns - len(json)
    paths = batch.schema.names[:plain]
    within = {
        name: split_path(name)
        for name, column in zip(paths, batch.columns, strict=False)
        if pa.types.is_struct(_element(column.type))
    }
    events = []
    for row in zip(*map(read_column, batch.columns), strict=True):
        alone = dict(zip(paths, row[:plain], strict=True))
        objects = [_flatten_member(path, _with_presence(alone.pop(name))) for name, path in within.items()]
        objects += [_flatten_member((name,), _parse_object(text)) for name, text in zip(json, row[plain:], strict=True)]
        groups: tuple[Group, ...] = ()
        for each in objects:
            if isinstance(each, GroupedAttributes):
                groups += each.groups
                each = each.ungrouped
            alone.update(each)
        events.append(Event(GroupedAttributes(alone, groups) if groups else alone))
    return events


def _with_presence(value: Any) -> Any:
    """Move presence members out of objects: an event has the presence as a value beside the object."""
    if isinstance(value, list):
        return [_with_presence(each) for each in value]
    if not isinstance(value, dict):
        return value
    members = {name: _with_presence(each) for name, each in value.items() if name != PRESENCE_MEMBER}
    return [value[PRESENCE_MEMBER], members] if PRESENCE_MEMBER in value else members


def _parse_object(text: str | None) -> Any:
    """Parse a JSON object; None for any other text."""
    if text is None:
        return None
    try:
        value = parse_value(text, DEFAULT_LIMITS)
    except EventError:
        return None
    return value if isinstance(value, dict) else None


def _flatten_member(path: tuple[str, ...], value: Any) -> Mapping[str, Any]:
    """The attributes within a value at a path; none where it exceeds the limits of an event."""
    if value is None:
        return {}
    for name in reversed(path):
        value = {name: value}
    try:
        return flatten(value, DEFAULT_LIMITS)
    except EventError:
        return {}


def group_into_lists(rows: npt.NDArray[np.int64], values: pa.Array, count: int) -> pa.ListArray:
    """Group values by row into lists, one for each of `count` rows; `rows` is ascending."""
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(rows, minlength=count), out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), values)


def sanitize_batch(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch itself, or a copy in which invalid values are repaired."""
    columns = batch.columns
    repaired = [_sanitize(column) for column in columns]
    if _are_same(repaired, columns):
        return batch
    return pa.RecordBatch.from_arrays(repaired, batch.schema.names)


def _are_same(some: list[Any], others: list[Any]) -> bool:
    return all(one is other for one, other in zip(some, others, strict=True))


def _sanitize(array: Any) -> Any:
    kind = array.type
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return sanitize_text(array)
    if pa.types.is_dictionary(kind):
        values = array.dictionary
        repaired = _sanitize(values)
        return array if repaired is values else pa.DictionaryArray.from_arrays(array.indices, repaired)
    if pa.types.is_struct(kind):
        members = array.flatten()
        sanitized = [_sanitize(each) for each in members]
        if _are_same(sanitized, members):
            return array
        return pa.StructArray.from_arrays(sanitized, fields=list(kind), mask=array.is_null())
    if pa.types.is_list(kind):
        return _sanitize_list(array)
    return array


def sanitize_text(array: Any) -> Any:
    """Strings with U+FFFD in place of bytes that are no UTF-8."""
    if _is_ascii(array):
        return array
    try:
        # Only full validation looks at the bytes; Arrow trusts what Spark has handed over.
        array.validate(full=True)
    except pa.ArrowInvalid:
        pieces = array.cast(pa.large_binary() if pa.types.is_large_string(array.type) else pa.binary()).to_pylist()
        texts = [None if each is None else each.decode("utf-8", "replace") for each in pieces]
        return pa.array(texts, array.type)
    return array


def _is_ascii(array: Any) -> bool:
    """Whether the bytes around an array of strings are ASCII, ten times faster found than that they are UTF-8."""
    data = array.buffers()[-1]
    return data is None or bool(np.frombuffer(data, np.int8).min(initial=0) >= 0)


def _sanitize_list(array: Any) -> Any:
    lengths = pc.list_value_length(array)
    if (pc.max(lengths).as_py() or 0) > DEFAULT_LIMITS.array_length:
        short = pc.less_equal(lengths, DEFAULT_LIMITS.array_length)
        array = pc.if_else(short, array, pa.scalar(None, array.type))
    values = array.flatten()
    repaired = _sanitize(values)
    if repaired is values:
        return array
    # `flatten` has dropped the elements of NULL lists, so the offsets are computed anew.
    counts = pc.fill_null(pc.list_value_length(array), 0).to_numpy()
    offsets = pa.array([0, *counts.cumsum().tolist()], pa.int32())
    return pa.ListArray.from_arrays(offsets, repaired, array.type, mask=array.is_null())


def as_arrow_udf(function: Callable[..., pa.Array], result: DataType | str) -> Any:
    """A function of Arrow arrays as a UDF; `explain()` shows its name."""
    from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]

    # Spark reads the types themselves; postponed annotations are strings.
    function.__annotations__ = {function.__code__.co_varnames[0]: pa.Array, "return": pa.Array}
    return arrow_udf(function, result)


def with_plan_name(function: Any, name: str) -> Any:
    """A function of batches under a name that `explain()` shows."""

    def run(batches: Any) -> Any:
        return function(batches)

    run.__name__ = run.__qualname__ = name
    return run


def counted(count: int, noun: str) -> str:
    """A number of things, for the name of a function in a plan."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


_counter: ContextVar[MatchCounter | None] = ContextVar("matches", default=None)


@contextmanager
def count_matches(spark: SparkSession) -> Iterator[MatchCounter | None]:
    """Count the matches of jobs that are planned within the block; None where the session has no accumulators."""
    counter = None if is_connect(spark) else spark.sparkContext.accumulator(0)
    token = _counter.set(counter)
    try:
        yield counter
    finally:
        _counter.reset(token)


def active_match_counter() -> MatchCounter | None:
    """The counter for a job that is planned now, if any."""
    return _counter.get()


# Spark has such a mapping, but not as public API, and it differs between versions.
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
    """The Arrow schema of a DataFrame's schema."""
    return pa.schema([(field.name, arrow_type(field.dataType, field.name)) for field in schema.fields])


def arrow_type(type: DataType, name: str) -> pa.DataType:
    """The Arrow type of a Spark type; `name` is that of the column, for the error."""
    from pyspark.sql.types import ArrayType, DecimalType, MapType, StructType

    if isinstance(type, StructType):
        return pa.struct([(field.name, arrow_type(field.dataType, field.name)) for field in type.fields])
    if isinstance(type, ArrayType):
        return pa.list_(arrow_type(type.elementType, name))
    if isinstance(type, MapType):
        return pa.map_(arrow_type(type.keyType, name), arrow_type(type.valueType, name))
    if isinstance(type, DecimalType):
        return pa.decimal128(type.precision, type.scale)
    found = _SCALARS.get(type.typeName())
    if found is None:
        raise PipelineError(f"a column {name!r} of type {type.simpleString()} cannot be read from events")
    return found
