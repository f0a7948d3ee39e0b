"""Who was matched how often, by the files that a stream has written: one column of each is read, once."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from palio.spark.sinks import Batch, Sink


@dataclass
class Counts:
    """Matches of each subscription, and the size of each partition they were written in."""

    by_subscription: Counter[str] = field(default_factory=Counter)
    sizes: list[int] = field(default_factory=list)
    is_complete: bool = True
    """False where matches went to somebody who keeps no files, or to a place that cannot be read from here."""

    def take(self, sink: Sink, batch: Batch) -> None:
        """Count a batch that is done."""
        files = getattr(sink, "files", None)
        if files is None:
            self.is_complete = False
            return
        try:
            for address in files(batch):
                self._count(address)
        except OSError:
            self.is_complete = False

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
