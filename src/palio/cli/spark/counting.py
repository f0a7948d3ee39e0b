"""Who was matched how often: by the files that a stream has written, of which one column is read, once; where matches
are sent to a server and leave no files, by the matches themselves, on their way.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from palio.spark.sinks import Batch, Sink


class Counted:
    """A sink that also counts what it is given, for this process to ask after; through Connect nobody can ask."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._told: dict[str, list[tuple[str, int, int]]] = {}

    def __call__(self, matches: DataFrame, batch: Batch) -> object:
        from pyspark.sql import functions as sql

        from palio.spark.matching import SUBSCRIPTION

        kept = matches.persist()  # counted after they were sent, they are not matched again
        try:
            taken = self._sink(kept, batch)
            counted = kept.groupBy(SUBSCRIPTION, sql.spark_partition_id().alias("partition")).count().collect()
        finally:
            kept.unpersist()
        self._told[batch.key] = [tuple(row) for row in counted]
        return taken

    def take(self, batch: Batch) -> list[tuple[str, int, int]] | None:
        """How often each subscription was matched in each partition of a batch, once; None where it is not known."""
        return self._told.pop(batch.key, None)


@dataclass
class Counts:
    """Matches of each subscription, and the size of each partition they were written in."""

    by_subscription: Counter[str] = field(default_factory=Counter)
    sizes: list[int] = field(default_factory=list)
    is_complete: bool = True
    """False where matches went to a place that cannot be read from here, or were counted by another process."""

    def take(self, sink: Sink, batch: Batch) -> None:
        """Count a batch that is done."""
        if isinstance(sink, Counted):
            self._take(sink.take(batch))
            return
        files = getattr(sink, "files", None)
        if files is None:
            self.is_complete = False
            return
        try:
            for address in files(batch):
                self._count(address)
        except OSError:
            self.is_complete = False

    def _take(self, counted: list[tuple[str, int, int]] | None) -> None:
        if counted is None:
            self.is_complete = False
            return
        sizes = Counter[int]()
        for id, partition, count in counted:
            self.by_subscription[id] += count
            sizes[partition] += count
        self.sizes += sizes.values()

    def _count(self, address: str) -> None:
        import pyarrow.parquet as pq

        from palio.spark.matching import SUBSCRIPTION
        from palio.spark.places import resolve

        system, path = resolve(address)
        rows = 0
        with system.open_input_file(path) as file, pq.ParquetFile(file, read_dictionary=[SUBSCRIPTION]) as parquet:
            for batch in parquet.iter_batches(columns=[SUBSCRIPTION]):
                rows += batch.num_rows
                for found in batch.column(0).value_counts().to_pylist():
                    self.by_subscription[found["values"]] += found["counts"]
        self.sizes.append(rows)

    @property
    def skew(self) -> float:
        """How many times the average the largest partition is."""
        return skew(self.sizes)


def skew(sizes: list[int]) -> float:
    """How many times the average the largest of some sizes is."""
    total = sum(sizes)
    return max(sizes) * len(sizes) / total if total else 1.0
