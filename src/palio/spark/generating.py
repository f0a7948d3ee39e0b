"""`generate`: workloads of any size, made where they are needed.

A row of a workload is a function of its number and the seed, so tasks make their stretches without knowing of each
other: the same seed gives the same rows, whatever the number of partitions, and nothing passes through the driver.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import pyarrow as pa

from palio.errors import InvalidArgument
from palio.workloads.generated import SUBSCRIPTIONS, Generated, workload

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Kind = Literal["events", "subscriptions"]
NUMBER: Final = "number"


def generate(
    spark: SparkSession,
    name: str | Generated,
    kind: Kind,
    count: int,
    *,
    start: int = 0,
    partitions: int | None = None,
    **parameters: Any,
) -> DataFrame:
    """The events or subscriptions of a workload, by its name and parameters, those from `start` on.

    Events have a column `number` before those of the workload: which of its events each is. Subscriptions have `id`,
    their number as text, and `where`.
    """
    from pyspark.sql.pandas.types import from_arrow_schema

    if kind not in ("events", "subscriptions"):
        raise InvalidArgument(f"a workload has 'events' and 'subscriptions', not {kind!r}")
    if count < 0 or start < 0:
        raise InvalidArgument("the rows of a workload are counted from 0 on")
    made = workload(name, **parameters) if isinstance(name, str) else name
    schema = pa.schema([(NUMBER, pa.int64()), *made.schema]) if kind == "events" else SUBSCRIPTIONS

    def palio_generate(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for first, size in _stretches(batch.column(0).to_numpy()):
                yield from _rows(made, kind, first, size, schema)

    numbers = spark.range(start, start + count, 1, partitions)
    return numbers.mapInArrow(palio_generate, from_arrow_schema(schema))


def _stretches(numbers: np.ndarray[Any, np.dtype[np.int64]]) -> Iterator[tuple[int, int]]:
    """The first and the size of each run of numbers that follow each other."""
    if not len(numbers):
        return
    breaks = np.flatnonzero(np.diff(numbers) != 1) + 1
    for run in np.split(numbers, breaks):
        yield int(run[0]), len(run)


def _rows(made: Generated, kind: Kind, first: int, size: int, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    if kind == "subscriptions":
        yield from made.subscriptions(size, first).to_batches()
        return
    events = made.events(size, first)
    numbers = pa.array(np.arange(first, first + size))
    yield pa.RecordBatch.from_arrays([numbers, *events.columns], schema=schema)
