"""What runs in Spark's Python workers: Arrow batches in, who wants their rows out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from palio.errors import EventError
from palio.events import DEFAULT_LIMITS, Event
from palio.events.arrow import read_column
from palio.events.flatten import flatten
from palio.events.groups import Group, Grouped
from palio.events.json import parse_value
from palio.events.names import split_path
from palio.spark.attributes import THERE
from palio.spark.readable import readable
from palio.spark.shared_index import SharedIndex

if TYPE_CHECKING:
    from palio.matching.matcher import Matcher
    from palio.spark.counting import Counter

Found = tuple[npt.NDArray[np.int64], npt.NDArray[np.int32]]


@dataclass(frozen=True)
class Finder:
    """Finds who wants the rows of a batch; travels to the workers, where it opens the index."""

    index: SharedIndex
    json: tuple[str, ...] = ()
    counter: Counter | None = None

    def find(self, batch: pa.RecordBatch) -> Found:
        """Rows and numbers of the matches of a batch: columns named by the paths of attributes, then texts of JSON."""
        found = matches_in(self.index.open(), batch, self.json)
        if self.counter is not None:
            self.counter.add(len(found[0]))
        return found

    def ids(self) -> pa.StringArray:
        return self.index.open().numbered_ids()

    def subscribers(self) -> pa.StringArray:
        return self.index.open().numbered_subscribers()


@dataclass(frozen=True)
class Output:
    """How those who want an event are told: by id or by number, with or without their subscribers."""

    name: str
    numbers: bool = False
    subscriber: str | None = None

    @property
    def names(self) -> list[str]:
        return [self.name] if self.subscriber is None else [self.name, self.subscriber]

    def columns(self, finder: Finder, numbers: npt.NDArray[np.int32]) -> list[pa.Array]:
        at = pa.array(numbers)
        found = [at if self.numbers else finder.ids().take(at)]
        return found if self.subscriber is None else [*found, finder.subscribers().take(at)]


def matches_in(matcher: Matcher, batch: pa.RecordBatch, json: tuple[str, ...]) -> Found:
    """Rows and numbers of the matches of a batch: columns named by the paths of attributes, then texts of JSON."""
    batch = readable(batch)
    if json or any(_says_what_is_there(field.type) for field in batch.schema):
        return matcher.match_events(read_events(batch, json))
    return matcher.match_columns(batch)


def is_flat(batch: pa.RecordBatch, json: tuple[str, ...]) -> bool:
    """Whether every column is an attribute, and none holds objects."""
    return not json and not any(pa.types.is_struct(_element(field.type)) for field in batch.schema)


def _element(kind: pa.DataType) -> pa.DataType:
    while pa.types.is_list(kind):
        kind = kind.value_type
    return kind


def _says_what_is_there(kind: pa.DataType) -> bool:
    kind = _element(kind)
    return pa.types.is_struct(kind) and any(each.name == THERE or _says_what_is_there(each.type) for each in kind)


def read_events(batch: pa.RecordBatch, json: tuple[str, ...]) -> list[Event]:
    """Rows one by one: the last columns are texts that hold JSON, and what is no JSON object counts as missing."""
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
        objects = [_flat(path, _told(alone.pop(name))) for name, path in within.items()]
        objects += [_flat((name,), _parsed(text)) for name, text in zip(json, row[plain:], strict=True)]
        groups: tuple[Group, ...] = ()
        for each in objects:
            if isinstance(each, Grouped):
                groups += each.groups
                each = each.alone
            alone.update(each)
        events.append(Event(Grouped(alone, groups) if groups else alone))
    return events


def _told(value: Any) -> Any:
    """Values with what says of objects that they are there as a value beside each, which is how events say it."""
    if isinstance(value, list):
        return [_told(each) for each in value]
    if not isinstance(value, dict):
        return value
    members = {name: _told(each) for name, each in value.items() if name != THERE}
    return [value[THERE], members] if THERE in value else members


def _parsed(text: str | None) -> Any:
    """The object that a text holds; None where it holds none."""
    if text is None:
        return None
    try:
        value = parse_value(text, DEFAULT_LIMITS)
    except EventError:
        return None
    return value if isinstance(value, dict) else None


def _flat(path: tuple[str, ...], value: Any) -> Mapping[str, Any]:
    """The attributes in a value that holds objects, by their whole names; none where it is too much for an event."""
    if value is None:
        return {}
    for name in reversed(path):
        value = {name: value}
    try:
        return flatten(value, DEFAULT_LIMITS)
    except EventError:
        return {}


def named(function: Any, name: str) -> Any:
    """A function of batches under a name that `explain()` shows."""

    def run(batches: Any) -> Any:
        return function(batches)

    run.__name__ = run.__qualname__ = name
    return run


def lists(rows: npt.NDArray[np.int64], values: pa.Array, count: int) -> pa.ListArray:
    """The values of each of so many rows; the rows are in order."""
    offsets = np.zeros(count + 1, np.int32)
    np.cumsum(np.bincount(rows, minlength=count), out=offsets[1:])
    return pa.ListArray.from_arrays(pa.array(offsets), values)


@dataclass(frozen=True)
class Task:
    """What a task is asked to do with batches: the columns of attributes come first, then those to keep."""

    finder: Finder
    attributes: tuple[str, ...]
    kept: tuple[str, ...]
    output: Output

    def found(self, batch: pa.RecordBatch) -> Found:
        names = [*self.attributes, *self.finder.json]
        return self.finder.find(pa.RecordBatch.from_arrays(batch.columns[: len(names)], names))

    def keep(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = batch.columns[len(self.attributes) + len(self.finder.json) :]
        return pa.RecordBatch.from_arrays(columns, list(self.kept))


def palio_broadcast_lists(task: Task, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A row for each event: what is kept of it, and the list of those who want it."""
    for batch in batches:
        rows, numbers = task.found(batch)
        (found,) = task.output.columns(task.finder, numbers)[:1]
        columns = [*task.keep(batch).columns, lists(rows, found, batch.num_rows)]
        yield pa.RecordBatch.from_arrays(columns, [*task.kept, task.output.name])


def palio_broadcast_pairs(task: Task, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A row for each match: what is kept of the event, and who wants it."""
    for batch in batches:
        rows, numbers = task.found(batch)
        found = task.output.columns(task.finder, numbers)
        taken = task.keep(batch).take(pa.array(rows))
        yield pa.RecordBatch.from_arrays([*taken.columns, *found], [*task.kept, *task.output.names])
