"""Spark's readers, in batches and without end, over any place that keeps events in numbered order.

Such a place (`Numbered`) has parts, and in a part every event has a number that stays its own: a stream of JetStream
has one part, a topic may have several. That is all Spark needs to plan a batch, and to plan the same batch again after
a restart: the offset that it writes into its checkpoint is the number of the next event of each part.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, Protocol

from pyspark.sql.datasource import DataSourceReader, DataSourceStreamReader, InputPartition

from palio.errors import PipelineError

if TYPE_CHECKING:
    import pyarrow as pa

try:
    from pyspark.sql.streaming.datasource import SupportsTriggerAvailableNow
except ImportError:  # before Spark 4.2, which knows no limits: a batch is all that is there

    class SupportsTriggerAvailableNow:  # type: ignore[no-redef]
        """Nothing asks for it."""


Offsets = dict[str, int]
OnLoss = Literal["fail", "skip"]


class Numbered(Protocol):
    """A place that keeps events in order. It travels to the workers, so it holds names, not connections."""

    def bounds(self) -> Mapping[str, tuple[int, int]]:
        """For each part the number of the first event that is kept, and the number that the next one will get."""
        ...

    def read(self, part: str, start: int, stop: int) -> Iterator[pa.RecordBatch]:
        """The events of a part from a number up to before another; numbers whose events are gone are left out."""
        ...


@dataclass(frozen=True)
class Reading:
    """How a place is read: from where, up to where, in pieces of which size."""

    start: str = "earliest"
    """`earliest`, `latest`, or the numbers of the first events, as JSON: `{"ORDERS": 1}`."""
    until: str | None = None
    """Up to before these numbers, as JSON, for reading in a batch; by default all that is there."""
    rows_per_partition: int = 50_000
    rows_per_batch: int | None = None
    on_loss: OnLoss = "fail"
    """What to do when events are gone that were not read yet."""

    @classmethod
    def from_options(cls, options: Mapping[str, str]) -> Reading:
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
        """Where reading begins."""
        if self.start in ("earliest", "latest"):
            return {part: ends[self.start == "latest"] for part, ends in bounds.items()}
        return {part: ends[0] for part, ends in bounds.items()} | _offsets(self.start, "start", bounds)

    def last(self, bounds: Mapping[str, tuple[int, int]]) -> Offsets:
        """Where reading in a batch ends."""
        ends = {part: stop for part, (_, stop) in bounds.items()}
        return ends if self.until is None else ends | _offsets(self.until, "until", bounds)

    def pieces(self, place: Numbered, start: Offsets, stop: Offsets) -> list[Piece]:
        """The partitions from some offsets to others."""
        bounds = place.bounds()
        pieces = []
        for part in sorted(stop):
            first = start.get(part, bounds.get(part, (1, 1))[0])
            kept = bounds.get(part, (first, first))[0]
            if first < kept and first < stop[part]:
                self._lost(part, first, min(kept, stop[part]))
                first = kept
            step = self.rows_per_partition
            pieces += [Piece(part, each, min(each + step, stop[part])) for each in range(first, stop[part], step)]
        return pieces

    def _lost(self, part: str, first: int, kept: int) -> None:
        if self.on_loss == "fail":
            raise PipelineError(
                f"{part} has let go of its events {first:,} to {kept - 1:,} before they were read; keep them longer, "
                "or go on without them: option onLoss=skip"
            )


@dataclass(frozen=True)
class Piece(InputPartition):
    """The events of one part from a number up to before another."""

    part: str
    start: int
    stop: int


class NumberedReader(DataSourceReader):
    """Reads what is there."""

    def __init__(self, place: Numbered, reading: Reading) -> None:
        self._place = place
        self._reading = reading

    def partitions(self) -> Sequence[InputPartition]:
        bounds = self._place.bounds()
        return self._reading.pieces(self._place, self._reading.first(bounds), self._reading.last(bounds))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Piece)  # made above
        return self._place.read(partition.part, partition.start, partition.stop)


class NumberedStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Reads what is there, and what will be."""

    def __init__(self, place: Numbered, reading: Reading) -> None:
        self._place = place
        self._reading = reading
        self._target: Offsets | None = None  # of a query that ends with what is there when it begins

    def initialOffset(self) -> Offsets:  # noqa: N802 (Spark's name)
        return self._reading.first(self._place.bounds())

    def latestOffset(self, start: Any = None, limit: Any = None) -> Offsets:  # noqa: N802
        ends = self._target or self._ends()
        # Before Spark 4.2 there are no arguments.
        most = getattr(limit, "max_rows", None)
        if start is None or most is None:
            return ends
        return _advanced(start, ends, most)

    def prepareForTriggerAvailableNow(self) -> None:  # noqa: N802
        self._target = self._ends()

    def getDefaultReadLimit(self) -> Any:  # noqa: N802
        from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxRows

        most = self._reading.rows_per_batch
        return ReadAllAvailable() if most is None else ReadMaxRows(most)

    def reportLatestOffset(self) -> Offsets:  # noqa: N802
        return self._ends()

    def partitions(self, start: Offsets, end: Offsets) -> Sequence[InputPartition]:
        return self._reading.pieces(self._place, start, end)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Piece)  # made above
        return self._place.read(partition.part, partition.start, partition.stop)

    def _ends(self) -> Offsets:
        return {part: stop for part, (_, stop) in self._place.bounds().items()}


def _advanced(start: Offsets, ends: Offsets, most: int) -> Offsets:
    """So many numbers further, shared among the parts in their order."""
    reached = {}
    for part in sorted(ends):
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
