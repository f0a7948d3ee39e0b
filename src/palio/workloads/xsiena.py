"""Workload of XSiena: filters and events of all sizes, names and values (Jerzak §9.1, Table 9.1).

Every parameter of the table is a parameter here. Filters are conjunctions of comparisons; one that could never match is
drawn again, as are repeated names of an event. Names are numbered words in place of the thesis's word list.

A filter may name any of thousands of attributes, more than a table has columns. Above `MOST_COLUMNS`, an event is one
column `event` of JSON text, and conditions say `event.w00017`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from palio.workloads.distributions import UNIFORM, Distribution, Extent, Ints, Numbers, distinct
from palio.workloads.generated import (
    STREAM_OF_COUNTS,
    STREAM_OF_EVENTS,
    STREAM_OF_SUBSCRIPTIONS,
    WorkloadError,
    chunks,
    table_of,
)

MAX_COLUMNS: Final = 1_000
OPERATORS: Final = (">", ">=", "<", "<=", "=")
_SIZE, _NAME, _VALUE, _OPERATOR = range(4)
# Defaults of Table 9.1.
_DEFAULT_VALUES: Final = Extent(-50, 50)
_DEFAULT_COUNT: Final = Extent(1_000, 1_000)


@dataclass(frozen=True)
class Side:
    """One column of Table 9.1, for filters or for events."""

    count: Extent
    size: Extent
    names: int = 2_000
    names_by: Distribution = UNIFORM
    values: Extent = _DEFAULT_VALUES


@dataclass(frozen=True)
class XSiena:
    """Filters and events of Table 9.1; values are whole numbers unless `integers` is false."""

    filters: Side = field(default_factory=lambda: Side(_DEFAULT_COUNT, Extent(2, 8)))
    events_side: Side = field(default_factory=lambda: Side(_DEFAULT_COUNT, Extent(2, 12)))
    operators: tuple[str, ...] = OPERATORS
    operators_by: Distribution = UNIFORM
    integers: bool = True
    seed: int = 2009
    form: Literal["columns", "json"] | None = None

    def __post_init__(self) -> None:
        for side in (self.filters, self.events_side):
            if not 1 <= side.size.low <= side.size.high:
                raise WorkloadError(
                    f"sizes go from at least 1 to no less, not from {side.size.low} to {side.size.high}"
                )
            if side.values.low > side.values.high or side.count.low > side.count.high:
                raise WorkloadError("the least count and the least value are no greater than the greatest")
            if side.names < 1:
                raise WorkloadError(f"there is at least one name, not {side.names}")
        if self.events_side.names < self.events_side.size.high:
            raise WorkloadError(
                f"an event has up to {self.events_side.size.high} names, all different, of {self.events_side.names}"
            )
        if not self.operators or not set(self.operators) <= set(OPERATORS):
            raise WorkloadError(f"operators are among {', '.join(OPERATORS)}, not {', '.join(self.operators)}")

    @cached_property
    def names(self) -> list[str]:
        """All names of filters and events, most of them rare."""
        return [f"w{place:05d}" for place in range(max(self.filters.names, self.events_side.names))]

    @property
    def is_json(self) -> bool:
        return self.form == "json" if self.form else len(self.names) > MAX_COLUMNS

    @cached_property
    def schema(self) -> pa.Schema:
        if self.is_json:
            return pa.schema([("event", pa.string())])
        kind = pa.int64() if self.integers else pa.float64()
        return pa.schema([(name, kind) for name in self.names[: self.events_side.names]])

    @property
    def filter_count(self) -> int:
        """The number of filters, drawn by the distribution of the table."""
        return self._count(self.filters, 0)

    @property
    def event_count(self) -> int:
        """The number of events, drawn by the distribution of the table."""
        return self._count(self.events_side, 1)

    def _count(self, side: Side, which: int) -> int:
        return int(side.count.integers(Numbers(self.seed, STREAM_OF_COUNTS, np.array([which])), _SIZE, 1)[0, 0])

    # Filters

    def subscriptions(self, count: int, start: int = 0) -> pa.Table:
        """`id` and `where`; some microseconds each."""
        return table_of((int(rows[0]), self._as_sql(rows)) for rows in chunks(start, count))

    def _as_sql(self, rows: Ints) -> pa.StringArray:
        name, operator, value = self.comparisons(rows)
        prefix = "event." if self.is_json else ""
        names = pa.array([prefix + each for each in self.names[: self.filters.names]])
        operators = pa.array(OPERATORS)
        texts = []
        for place in range(name.shape[1]):
            unused = name[:, place] < 0
            parts = [
                names.take(pa.array(name[:, place], mask=unused)),
                operators.take(pa.array(operator[:, place])),
                pa.array(value[:, place]).cast(pa.string()),
            ]
            texts.append(pc.binary_join_element_wise(*parts, " "))
        return pc.binary_join_element_wise(*texts, " AND ", null_handling="skip")

    def comparisons(self, rows: Ints) -> tuple[Ints, Ints, npt.NDArray[Any]]:
        """Names, operators (by place in `OPERATORS`) and values of filters' comparisons; -1 marks an unused place."""
        most = int(self.filters.size.high)
        counts = self.filters.size.integers(Numbers(self.seed, STREAM_OF_SUBSCRIPTIONS, rows), _SIZE, 1)[:, 0]
        known = np.array([OPERATORS.index(each) for each in self.operators])
        shape = (len(rows), most)
        name, operator = np.empty(shape, np.int64), np.empty(shape, np.int64)
        value = np.empty(shape, np.int64 if self.integers else np.float64)
        # Filters that could never match are drawn again, all of their comparisons, until none is left.
        again = np.arange(len(rows))
        attempt = 0
        while len(again):
            numbers = Numbers(self.seed, STREAM_OF_SUBSCRIPTIONS, rows[again])
            units = self.filters.names_by.units(numbers, _NAME, most, attempt)
            used = np.arange(most) < counts[again][:, None]
            name[again] = np.where(used, np.floor(units * self.filters.names).astype(np.int64), -1)
            chosen = self.operators_by.units(numbers, _OPERATOR, most, attempt) * len(known)
            operator[again] = known[np.floor(chosen).astype(np.int64)]
            value[again] = self._values(self.filters, numbers, most, attempt)
            again = again[_contradict(name[again], operator[again], value[again])]
            attempt += 1
        return name, operator, value

    def _values(self, side: Side, numbers: Numbers, count: int, attempt: int = 0) -> npt.NDArray[Any]:
        if self.integers:
            return side.values.integers(numbers, _VALUE, count, attempt)
        return np.round(side.values.reals(numbers, _VALUE, count, attempt), 6) + 0.0

    # Events

    def events(self, count: int, start: int = 0) -> pa.RecordBatch:
        if self.is_json:
            return pa.RecordBatch.from_arrays([self._as_json(np.arange(start, start + count))], schema=self.schema)
        name, value = self.pairs(np.arange(start, start + count))
        columns = np.zeros((count, self.events_side.names), value.dtype)
        absent = np.ones(columns.shape, np.bool_)
        row, place = np.nonzero(name >= 0)
        columns[row, name[row, place]] = value[row, place]
        absent[row, name[row, place]] = False
        arrays = [pa.array(columns[:, each], mask=absent[:, each]) for each in range(columns.shape[1])]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def _as_json(self, rows: Ints) -> pa.StringArray:
        name, value = self.pairs(rows)
        names = pa.array([f'"{each}":' for each in self.names[: self.events_side.names]])
        members = [
            pc.binary_join_element_wise(
                names.take(pa.array(which, mask=which < 0)), pa.array(values).cast(pa.string()), ""
            )
            for which, values in zip(name.T, value.T, strict=True)
        ]
        return pc.binary_join_element_wise(
            "{", pc.binary_join_element_wise(*members, ",", null_handling="skip"), "}", ""
        )

    def event_dicts(self, count: int, start: int = 0) -> Iterator[dict[str, Any]]:
        """The events one by one."""
        name, value = self.pairs(np.arange(start, start + count))
        for places, values in zip(name.tolist(), value.tolist(), strict=True):
            yield {self.names[place]: value for place, value in zip(places, values, strict=True) if place >= 0}

    def pairs(self, rows: Ints) -> tuple[Ints, npt.NDArray[Any]]:
        """Names and values of events; -1 marks an unused place."""
        side, most = self.events_side, int(self.events_side.size.high)
        numbers = Numbers(self.seed, STREAM_OF_EVENTS, rows)
        counts = side.size.integers(numbers, _SIZE, 1)[:, 0]
        name = distinct(side.names_by, side.names, counts, most, numbers, _NAME)
        return name, self._values(side, numbers, most)


def _contradict(name: Ints, operator: Ints, value: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Which filters can never match. Intervals that intersect pairwise have a common point, so pairs suffice."""
    low, high, low_in, high_in = _bounds(operator, value)
    contradictory = np.zeros(len(name), np.bool_)
    for one in range(name.shape[1]):
        for other in range(name.shape[1]):
            same = (name[:, one] == name[:, other]) & (name[:, one] >= 0)
            apart = (low[:, one] > high[:, other]) | (
                (low[:, one] == high[:, other]) & ~(low_in[:, one] & high_in[:, other])
            )
            contradictory |= same & apart
    return contradictory


def _bounds(operator: Ints, value: npt.NDArray[Any]) -> tuple[Any, Any, Any, Any]:
    """The ends of comparisons, and whether they are included."""
    more, at_least, less, at_most, _ = range(len(OPERATORS))
    numbers = value.astype(np.float64)
    low = np.where((operator == less) | (operator == at_most), -np.inf, numbers)
    high = np.where((operator == more) | (operator == at_least), np.inf, numbers)
    return low, high, operator != more, operator != less
