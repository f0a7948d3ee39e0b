"""A small stream whose every part can be looked at: events as files, one file a batch, and what each batch should give.

The oracle knows nothing of the stream: it reads from Spark's checkpoint which files made up a batch, from the journal
which version the batch was matched with, and asks the brute-force filters of that version.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from palio import Event
from palio.spark import DeltaSink, ParquetSink, SubscriptionLog, stream
from palio.spark.streaming.commit_journal import Journal

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming import StreamingQuery

SCHEMA = "id long, price int, symbol string"
Pairs = Counter[tuple[int, str]]


class StreamScenario:
    """A folder with the events, the log, the checkpoint and the output of one stream."""

    def __init__(self, folder: Path) -> None:
        self.events = folder / "events"
        self.log = folder / "log"
        self.checkpoint = folder / "checkpoint"
        self.out = folder / "hits"
        self.dead = folder / "dead"
        self.events.mkdir(parents=True, exist_ok=True)

    def add_events(self, name: int, rows: int = 10) -> None:
        """One more file, of events with the ids from `name * 1000` on."""
        ids = [name * 1000 + row for row in range(rows)]
        table = pa.table(
            {
                "id": pa.array(ids, pa.int64()),
                "price": pa.array([(id * 7) % 13 for id in ids], pa.int32()),
                "symbol": [f"s{id % 3}" for id in ids],
            }
        )
        # In one step: the stream must not see a file that is half written.
        draft = self.events / f".{name:05}.parquet"
        pq.write_table(table, draft)
        draft.rename(self.events / f"{name:05}.parquet")

    def source(self, spark: SparkSession) -> DataFrame:
        reader = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
        return reader.parquet(str(self.events))

    def start(self, spark: SparkSession, sink: Any, **options: Any) -> StreamingQuery:
        chosen = {"trigger": {"availableNow": True}, **options}
        return stream(self.source(spark), self.log, sink, checkpoint=self.checkpoint, **chosen)

    def run(self, spark: SparkSession, sink: Any, **options: Any) -> None:
        """Until everything that is there is done."""
        self.start(spark, sink, **options).awaitTermination()

    # What came out, and what should have

    def parquet(self) -> Pairs:
        """All pairs in the output folder, read as by someone who knows nothing of Spark or Palio."""
        if not self.out.is_dir():
            return Counter()
        table = ds.dataset(self.out, partitioning="hive").to_table(columns=["id", "subscription_id"])
        return Counter(zip(*table.to_pydict().values(), strict=True))

    def delta(self) -> Pairs:
        from deltalake import DeltaTable

        table = DeltaTable(self.out).to_pyarrow_table(columns=["id", "subscription_id"])
        return Counter(zip(*table.to_pydict().values(), strict=True))

    def expected(self) -> Pairs:
        """What the batches should have given, by the files and the version of each."""
        log, found = SubscriptionLog(self.log), Counter[tuple[int, str]]()
        for files, version in zip(self.files(), self.versions(), strict=True):
            wants = list(log.at(version))
            for file in files:
                for row in pq.read_table(file).to_pylist():
                    event = Event(row)
                    found.update((row["id"], each.id) for each in wants if each.filter.matches(event))
        return found

    def versions(self) -> list[int]:
        """The version of each batch, by the journal."""
        journal, versions = Journal(self.checkpoint), list[int]()
        while (begun := journal.begun(len(versions))) is not None:
            versions.append(begun.version)
        return versions

    def files(self) -> list[list[str]]:
        """The files of each batch, by Spark's own log of its source."""
        batches: dict[int, dict[str, None]] = {}
        for path in (self.checkpoint / "sources" / "0").iterdir():
            if path.name.startswith("."):
                continue
            for line in path.read_text().splitlines()[1:]:
                entry = json.loads(line)
                batches.setdefault(entry["batchId"], {})[entry["path"].removeprefix("file://")] = None
        return [list(batches[number]) for number in sorted(batches)]


ROW_GROUP_ROWS = 8
ARROW_ROWS = 3


def run_in_small_groups(spark: SparkSession, flow: StreamScenario, sink: str) -> None:
    """Run a stream to its end; a few rows fill a row group of its files, and some batches of Arrow end with it."""
    name = "spark.sql.execution.arrow.maxRecordsPerBatch"
    before = spark.conf.get(name)
    spark.conf.set(name, str(ARROW_ROWS))
    kind = ParquetSink if sink == "parquet" else DeltaSink
    try:
        flow.run(spark, kind(flow.out, row_group_rows=ROW_GROUP_ROWS))
    finally:
        spark.conf.set(name, str(before))


def write_log(flow: StreamScenario, *conditions: str) -> SubscriptionLog:
    """A log with these conditions, each its own id, committed."""
    log = SubscriptionLog(flow.log)
    for condition in conditions:
        log.add(condition, condition)
    log.commit()
    return log


Change = Callable[[SubscriptionLog], object]
