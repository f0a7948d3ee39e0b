"""What is a generated workload? Events and subscriptions by number, the same for everyone, any stretch alone."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from importlib import import_module
from inspect import signature
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from palio.workloads.synthetic import WorkloadError

SUBSCRIPTIONS: Final = pa.schema([("id", pa.string()), ("where", pa.string())])
STREAM_OF_SUBSCRIPTIONS, STREAM_OF_EVENTS, STREAM_OF_COUNTS = range(3)
_STRETCH: Final = 100_000  # subscriptions written at a time, far below what 32-bit offsets can address

_HOMES: Final = {
    "eq": "palio.workloads.synthetic:eq",
    "mix": "palio.workloads.synthetic:mix",
    "xsiena": "palio.workloads.xsiena:XSiena",
    "shen": "palio.workloads.shen:Shen",
    "shen-letters": "palio.workloads.shen:Letters",
    "baldoni": "palio.workloads.baldoni:Baldoni",
}
WORKLOADS: Final = tuple(_HOMES)
"""The names that `workload` takes."""


class Generated(Protocol):
    """Rows by number: `start` is the first of `count`."""

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


def workload(name: str, **parameters: Any) -> Generated:
    """A workload by its name, with other parameters than its own where they are given."""
    if name not in _HOMES:
        raise WorkloadError(f"there is no workload {name!r}; there are {', '.join(_HOMES)}")
    module, _, function = _HOMES[name].partition(":")
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
    """Subscriptions from stretches of conditions, each with the number of its first."""
    batches = [
        pa.RecordBatch.from_arrays(
            [pa.array(np.arange(first, first + len(where))).cast(pa.string()), where], schema=SUBSCRIPTIONS
        )
        for first, where in texts
    ]
    return pa.Table.from_batches(batches, SUBSCRIPTIONS)


def stretches(start: int, count: int) -> Iterator[np.ndarray[tuple[int], np.dtype[np.int64]]]:
    """The numbers of rows, so many at a time as can be written at once."""
    for first in range(start, start + count, _STRETCH):
        yield np.arange(first, min(first + _STRETCH, start + count))


def ranges_as_sql(names: Sequence[str], lows: Any, highs: Any) -> pa.StringArray:
    """`name BETWEEN low AND high` for every attribute, joined by AND; a column of both arrays for each."""
    texts = [
        pc.binary_join_element_wise(
            name, "BETWEEN", pa.array(lows[:, place]).cast(pa.string()), "AND",
            pa.array(highs[:, place]).cast(pa.string()), " ",
        )
        for place, name in enumerate(names)
    ]  # fmt: skip
    return pc.binary_join_element_wise(*texts, " AND ")
