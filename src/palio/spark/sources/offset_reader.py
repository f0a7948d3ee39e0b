"""Spark readers, batch and streaming, over any source that numbers its events.

A `NumberedSource` has parts, and in a part every event has a permanent number: a stream of JetStream has one part, a
topic may have several. That is all Spark needs to plan a batch, and to plan it again after a restart: the offset in its
checkpoint is the number of the next event of each part.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from palio.errors import PipelineError

if TYPE_CHECKING:
    import pyarrow as pa


try:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
except ImportError:  # Spark before 4.2 has no read limits: a batch is everything available

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Stand-in; no caller before Spark 4.2."""


Offsets = dict[str, int]
OnLoss = Literal["fail", "skip"]


class NumberedSource(Protocol):
    """A store of events in numbered order. It travels to the workers, so it holds names, not connections."""

    def bounds(self) -> Mapping[str, tuple[int, int]]:
        """For each part the number of the first retained event, and the number of the next event to come."""
        ...

    def read(self, part: str, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """The events of a part with `start <= number < stop`; numbers of deleted events are skipped."""
        ...


@dataclass(frozen=True)
class ReadOptions:
    """Options for reading a source: range, batch size and loss policy."""

    start: str = "earliest"
    """`earliest`, `latest`, or the numbers of the first events, as JSON: `{"ORDERS": 1}`."""
    until: str | None = None
    """Up to before these numbers, as JSON, for reading in a batch; by default all that is there."""
    rows_per_partition: int = 50_000
    rows_per_batch: int | None = None
    on_loss: OnLoss = "fail"
    """Policy for events that the source dropped before they were read."""

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> ReadOptions:
        on_loss = options.get("onLoss", "fail")
        if on_loss not in ("fail", "skip"):
            raise PipelineError(f"onLoss is fail or skip, not {on_loss!r}")
        most = options.get("maxRowsPerBatch")
        return cls(
            options.get("start", "earliest"),
            options.get("until"),
            _count(options.get("rowsPerPartition", "50000"), "rowsPerPartition"),
            None if most is None else _count(most, "maxRowsPerBatch"),
            "skip" if on_loss == "skip" else "fail",
        )

    def first(self, bounds: Mapping[str, tuple[int, int]]) -> Offsets:
        """The offsets at which reading begins."""
        if self.start in ("earliest", "latest"):
            return {part: ends[self.start == "latest"] for part, ends in bounds.items()}
        return {part: ends[0] for part, ends in bounds.items()} | _offsets(self.start, "start", bounds)

    def last(self, bounds: Mapping[str, tuple[int, int]]) -> Offsets:
        """The offsets at which reading in batch ends."""
        ends = {part: stop for part, (_, stop) in bounds.items()}
        return ends if self.until is None else ends | _offsets(self.until, "until", bounds)

    def plan_ranges(self, source: NumberedSource, start: Offsets, stop: Offsets) -> list[OffsetRange]:
        """Split the events between offsets into partitions."""
        bounds = source.bounds()
        pieces = []
        for part in sorted(stop):
            first = start.get(part, bounds.get(part, (1, 1))[0])
            kept = bounds.get(part, (first, first))[0]
            # The source has dropped events that this range still needs.
            if first < kept and first < stop[part]:
                self._check_loss(part, first, min(kept, stop[part]))
                first = kept
            step = self.rows_per_partition
            pieces += [OffsetRange(part, each, min(each + step, stop[part])) for each in range(first, stop[part], step)]
        return pieces

    def _check_loss(self, part: str, first: int, kept: int) -> None:
        if self.on_loss == "fail":
            raise PipelineError(
                f"{part} has removed its events {first:,} to {kept - 1:,} before they were read; keep them longer, "
                "or go on without them: option onLoss=skip"
            )


@dataclass(frozen=True)
class OffsetRange(InputPartition):
    """The events of one part with `start <= number < stop`, as a partition."""

    part: str
    start: int
    stop: int


class OffsetReader(DataSourceReader):
    """Batch reader."""

    def __init__(self, source: NumberedSource, reading: ReadOptions) -> None:
        self._source = source
        self._reading = reading

    def partitions(self) -> Sequence[InputPartition]:
        bounds = self._source.bounds()
        return self._reading.plan_ranges(self._source, self._reading.first(bounds), self._reading.last(bounds))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, OffsetRange)  # made above
        return self._source.read(partition.part, partition.start, partition.stop)


class OffsetStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Streaming reader."""

    def __init__(self, source: NumberedSource, reading: ReadOptions) -> None:
        self._source = source
        self._reading = reading
        self._target: Offsets | None = None  # end of a query with the trigger availableNow

    def initialOffset(self) -> Offsets:  # noqa: N802 (Spark's name)
        return self._reading.first(self._source.bounds())

    def latestOffset(self, start: Any = None, limit: Any = None) -> Offsets:  # noqa: N802
        ends = self._target or self._ends()
        # Spark before 4.2 passes no arguments.
        most = getattr(limit, "max_rows", None)
        if start is None or most is None:
            return ends
        return _advance(start, ends, most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._ends()

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

        most = self._reading.rows_per_batch
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def reportLatestOffset(self) -> Offsets:  # noqa: N802
        return self._ends()

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        return self._reading.plan_ranges(self._source, start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, OffsetRange)  # made above
        return self._source.read(partition.part, partition.start, partition.stop)

    def _ends(self) -> Offsets:
        return {part: stop for part, (_, stop) in self._source.bounds().items()}


def _advance(start: Offsets, ends: Offsets, most: int) -> Offsets:
    """Advance by at most `most` numbers, filling the parts in order."""
    reached = {}
    for part in sorted(ends):
        # A part that the checkpoint does not know yet is read from its first number on.
        here = start.get(part, 1)
        step = max(0, min(ends[part] - here, most))
        reached[part] = here + step
        most -= step
    return reached


def _count(text: str, name: str) -> int:
    if not (text.isascii() and text.isdecimal()) or int(text) < 1:
        raise PipelineError(f"{name} is a number of rows, not {text!r}")
    return int(text)


def _offsets(text: str, name: str, bounds: Mapping[str, Any]) -> Offsets:
    try:
        given = json.loads(text)
    except ValueError:
        given = None
    if not isinstance(given, dict) or not all(type(number) is int for number in given.values()):
        raise PipelineError(f'{name} is offsets as JSON, such as {{"{next(iter(bounds), "ORDERS")}": 1}}, not {text!r}')
    unknown = sorted(set(given) - set(bounds))
    if unknown:
        raise PipelineError(f"{name} names {unknown[0]}, which is not here; there is {', '.join(bounds)}")
    return dict(given)


READ_OPTIONS: Final = ("start", "until", "maxRowsPerBatch", "rowsPerPartition", "onLoss")
_SPARK_OPTIONS: Final = ("path", "checkpointLocation")  # passed by Spark to every source


def check_options(source: str, given: Iterable[str], known: Iterable[str]) -> None:
    """Refuse unknown options: a mistyped `where` would read everything. Spark passes them in lower case."""
    names = {name.lower(): name for name in (*known, *_SPARK_OPTIONS)}
    for name in given:
        if name.lower() not in names:
            near = get_close_matches(name.lower(), names, 1)
            meant = f"is {names[near[0]]} meant?" if near else f"it has {', '.join(known)}"
            raise PipelineError(f"the source {source} has no option {name!r}; {meant}")
