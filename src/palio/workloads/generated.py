"""Generated workloads: the protocol, the registry by name, and conditions as arrays and text.

Rows are identified by number and do not depend on machine or process; any range can be made alone.

The conditions of a million subscriptions are rectangular arrays, not a million objects: a row for each subscription, a
column for each position. Every condition is an interval of integers `low <= value <= high`, where a word of the
vocabulary counts as its number. They are rendered by column: Arrow joins the pieces of all first conditions, then of
all second ones, and a last join makes the lines. A `Notation` is a set of templates and knows nothing else of a
language.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from inspect import signature
from typing import TYPE_CHECKING, Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from palio.errors import PalioError

if TYPE_CHECKING:
    from numpy.typing import NDArray


SUBSCRIPTIONS: Final = pa.schema([("id", pa.string()), ("where", pa.string())])
STREAM_OF_SUBSCRIPTIONS, STREAM_OF_EVENTS, STREAM_OF_COUNTS = range(3)
_CHUNK_SUBSCRIPTIONS: Final = 100_000  # rendered at a time, far below the limit of 32-bit offsets

_FACTORIES: Final = {
    "eq": "palio.workloads.synthetic:eq",
    "mix": "palio.workloads.synthetic:mix",
    "xsiena": "palio.workloads.xsiena:XSiena",
    "shen": "palio.workloads.shen:Shen",
    "shen-letters": "palio.workloads.shen:Letters",
    "baldoni": "palio.workloads.baldoni:Baldoni",
}
WORKLOADS: Final = tuple(_FACTORIES)
"""The names that `workload` takes."""


class WorkloadError(PalioError, ValueError):
    """A workload with parameters that describe no workload."""


class Generated(Protocol):
    """A workload whose rows are identified by number; `start` is the first of `count`."""

    @property
    def seed(self) -> int: ...

    @property
    def schema(self) -> pa.Schema:
        """The columns of the events."""
        ...

    def subscriptions(self, count: int, start: int = 0) -> pa.Table:
        """`id`, the number as text, and `where`."""
        ...

    def events(self, count: int, start: int = 0) -> pa.RecordBatch: ...


def range_subscriptions(
    names: Sequence[str], ranges: Callable[[NDArray[np.int64]], tuple[Any, Any]], count: int, start: int
) -> pa.Table:
    """`id` and `where` of subscriptions that are ranges on all attributes; `ranges` gives the bounds of some rows."""
    return table_of((int(rows[0]), ranges_as_sql(names, *ranges(rows))) for rows in chunks(start, count))


def events_of(values: NDArray[Any], schema: pa.Schema) -> pa.RecordBatch:
    """The events of a matrix with a column for each attribute."""
    return pa.RecordBatch.from_arrays([pa.array(column) for column in values.T], schema=schema)


def workload(name: str, **parameters: Any) -> Generated:
    """Make a workload by its name; `parameters` replace its defaults."""
    if name not in _FACTORIES:
        raise WorkloadError(f"there is no workload {name!r}; there are {', '.join(_FACTORIES)}")
    # Imported by name, because the modules of the workloads import this one.
    module, _, function = _FACTORIES[name].partition(":")
    make: Callable[..., Generated] = getattr(import_module(module), function)
    known = list(signature(type(make())).parameters)
    unknown = [each for each in parameters if each not in known]
    if unknown:
        raise WorkloadError(f"{name} has no parameter {unknown[0]!r}; it has {', '.join(known)}")
    try:
        return make(**parameters)
    except TypeError as error:
        raise WorkloadError(f"{name}: {error}") from None


def table_of(texts: Iterator[tuple[int, pa.StringArray]]) -> pa.Table:
    """The table of subscriptions, from chunks of conditions with the number of their first."""
    batches = [
        pa.RecordBatch.from_arrays(
            [pa.array(np.arange(first, first + len(where))).cast(pa.string()), where], schema=SUBSCRIPTIONS
        )
        for first, where in texts
    ]
    return pa.Table.from_batches(batches, SUBSCRIPTIONS)


def chunks(start: int, count: int) -> Iterator[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """The numbers of rows, in chunks that can be rendered at once."""
    for first in range(start, start + count, _CHUNK_SUBSCRIPTIONS):
        yield np.arange(first, min(first + _CHUNK_SUBSCRIPTIONS, start + count))


def ranges_as_sql(names: Sequence[str], lows: Any, highs: Any) -> pa.StringArray:
    """`name BETWEEN low AND high` for every attribute, joined by AND; both arrays have a column for each."""
    texts = [
        pc.binary_join_element_wise(
            name, "BETWEEN", pa.array(lows[:, place]).cast(pa.string()), "AND",
            pa.array(highs[:, place]).cast(pa.string()), " ",
        )
        for place, name in enumerate(names)
    ]  # fmt: skip
    return pc.binary_join_element_wise(*texts, " AND ")


UNUSED, EQUALS, BETWEEN, AT_LEAST, AT_MOST = range(5)


@dataclass(frozen=True)
class Conditions:
    """Conjunctions as arrays of one shape; a cell whose kind is `UNUSED` holds nothing."""

    attribute: NDArray[np.int16]
    kind: NDArray[np.int8]
    low: NDArray[np.int32]
    high: NDArray[np.int32]

    def __len__(self) -> int:
        return len(self.kind)

    @classmethod
    def none(cls, most: int) -> Conditions:
        """No subscription, with `most` positions."""
        attribute, kind = np.empty((0, most), np.int16), np.empty((0, most), np.int8)
        return cls(attribute, kind, np.empty((0, most), np.int32), np.empty((0, most), np.int32))

    @classmethod
    def concatenate(cls, parts: Sequence[Conditions]) -> Conditions:
        """The subscriptions of all parts, in order."""
        return cls(
            np.concatenate([part.attribute for part in parts]),
            np.concatenate([part.kind for part in parts]),
            np.concatenate([part.low for part in parts]),
            np.concatenate([part.high for part in parts]),
        )


@dataclass(frozen=True)
class Notation:
    """Templates with `{name}`, `{low}`, `{high}`, one per kind of condition, and the conjunction."""

    equals: str
    between: str
    at_least: str
    at_most: str
    conjunction: str

    def render(self, conditions: Conditions, names: Sequence[str]) -> pa.StringArray:
        """One text per subscription."""
        sides = {AT_LEAST: self.at_least, AT_MOST: self.at_most}
        templates = {EQUALS: self.equals, BETWEEN: self.between, **sides}
        attributes = pa.array(names, pa.string())
        texts = []
        for position in range(conditions.kind.shape[1]):
            kind = conditions.kind[:, position]
            name = attributes.take(pa.array(conditions.attribute[:, position]))
            low = pa.array(conditions.low[:, position]).cast(pa.string())
            high = pa.array(conditions.high[:, position]).cast(pa.string())
            text = pa.nulls(len(kind), pa.string())
            for wanted, template in templates.items():
                chosen = pa.array(kind == wanted)
                parts = {"name": name.filter(chosen), "low": low.filter(chosen), "high": high.filter(chosen)}
                if len(parts["name"]):
                    text = pc.replace_with_mask(text, chosen, _fill(template, parts))
            texts.append(text)
        return pc.binary_join_element_wise(*texts, self.conjunction, null_handling="skip")


def _fill(template: str, parts: dict[str, Any]) -> pa.StringArray:
    """Replace every placeholder of a template by its column; other braces stay."""
    pieces = re.split(r"\{(name|low|high)\}", template)
    return pc.binary_join_element_wise(*(parts[p] if i % 2 else p for i, p in enumerate(pieces)), "")


SQL = Notation(
    equals="{name} = 'v{low}'",
    between="{name} BETWEEN {low} AND {high}",
    at_least="{name} >= {low}",
    at_most="{name} <= {high}",
    conjunction=" AND ",
)
