"""`palio demo --spark`: the flights and subscriptions of the demonstration as a Spark job."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from palio.cli import terminal
from palio.cli.demo import Answers

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from palio.spark.subscriptions import Wants
    from palio.workloads.flights import FlightSubscription

_MEASURED_FLIGHTS: Final = 1_000_000
_ROW: Final = "row"


@dataclass(frozen=True)
class _Times:
    starting: float
    indexing: float
    asking: float
    measured: float


def match_flights_on_spark(wants: list[FlightSubscription], flights: pa.Table) -> tuple[Answers, list[tuple[str, str]]]:
    """Match on Spark, and then run a larger job to measure."""
    from palio.cli.spark.job import run
    from palio.spark import Wants
    from palio.spark import match as spark_match
    from palio.spark.session import open_session

    started = time.perf_counter()
    with terminal.status("Starting Spark"):
        spark = open_session()
    opened = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="palio-demo-") as folder:
        try:
            rows = [{"id": each.id, "where": each.where, "subscriber": each.subscriber} for each in wants]
            with terminal.status(f"Indexing {len(wants):,} subscriptions"):
                indexed = Wants.read(spark, rows)
            ready = time.perf_counter()
            events = _read(spark, flights, Path(folder))
            pairs = run(spark, "Matching", lambda: spark_match(events, indexed, columns=[_ROW]).toArrow())
            pairs = pairs.sort_by(_ROW)
            asked = time.perf_counter()
            many = _repeated(spark, events, len(flights))
            run(spark, "Measuring", lambda: _measure(many, indexed))
            times = _Times(opened - started, ready - opened, asked - ready, time.perf_counter() - asked)
            facts = list(_facts(spark, indexed, len(flights), pairs.num_rows, times))
        finally:
            spark.stop()
    ids = pairs["subscription_id"].combine_chunks().dictionary_encode()
    return Answers.of_ids(pairs[_ROW].to_numpy(), ids, wants), facts


def _read(spark: SparkSession, flights: pa.Table, folder: Path) -> DataFrame:
    """The flights from a file, each with the number of its row."""
    import numpy as np
    import pyarrow as pa
    import pyarrow.parquet as pq

    numbers = pa.array(np.arange(len(flights)))
    pq.write_table(flights.append_column(_ROW, numbers), folder / "flights.parquet")
    return spark.read.parquet(str(folder / "flights.parquet"))


def _repeated(spark: SparkSession, events: DataFrame, count: int) -> DataFrame:
    """The flights repeated, in as many partitions as there are cores."""
    times = -(-_MEASURED_FLIGHTS // count)
    again = spark.range(0, times, 1, min(times, spark.sparkContext.defaultParallelism)).withColumnRenamed("id", "time")
    return again.crossJoin(events).drop("time")


def _measure(events: DataFrame, wants: Wants) -> None:
    from palio.spark import match

    found = match(events, wants, per_event=True, numbers=True, columns=[])
    found.write.format("noop").mode("overwrite").save()


def _facts(spark: SparkSession, wants: Wants, events: int, matches: int, times: _Times) -> Iterator[tuple[str, str]]:
    cores = spark.sparkContext.defaultParallelism
    many = len(wants.matcher)
    where = f"on {terminal.plural(cores, 'core')} of this machine"
    yield "spark", f"{spark.version} {where}, started in {terminal.duration(times.starting)}"
    yield "indexed", f"{terminal.plural(many, 'subscription')} in {terminal.duration(times.indexing)}"
    asked = f"asked one by one that is {terminal.plural(events * many, 'question')}"
    yield "answered", f"{matches:,} matches in {terminal.duration(times.asking)}; {asked}"
    measured = -(-_MEASURED_FLIGHTS // events) * events
    speed = f"{terminal.rate(measured, times.measured)} events/s"
    yield "measured", f"{measured:,} flights, the same ones again, in {terminal.duration(times.measured)}: {speed}"
