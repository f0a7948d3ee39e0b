"""A stream on a Spark of another kind, as a program of its own: `python -m tests.spark.streaming.remote_stream`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING

from palio.spark import ParquetSink, backfill
from tests.spark.streaming.scenario import SCHEMA, StreamScenario, write_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def open_remote_session(kind: str) -> SparkSession:
    from pyspark.sql import SparkSession

    if kind == "connect":
        return SparkSession.builder.remote("local[2]").getOrCreate()
    # Two executors, each a process of its own, which see nothing of the driver's memory.
    builder = SparkSession.builder.master("local-cluster[2,1,1024]").config("spark.ui.enabled", "false")
    builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    return builder.config("spark.executor.memory", "768m").getOrCreate()


def main(folder: Path, kind: str) -> None:
    spark, flow = open_remote_session(kind), StreamScenario(folder)
    log, sink = write_log(flow, "price > 6", "symbol = 's1' AND price < 4"), ParquetSink(flow.out)
    dead = {"dead_letters": ParquetSink(flow.dead), "malformed": {"far away": "id < 0"}}
    for batch in range(2):
        flow.add_events(batch)
    flow.run(spark, sink, **dead)
    log.add("new", "symbol = 's2'", subscriber="ada")
    log.commit()
    flow.add_events(2)
    backfill(
        lambda point: spark.read.schema(SCHEMA).parquet(*point.files()), log, sink, ["new"], checkpoint=flow.checkpoint
    )
    flow.run(spark, sink, **dead)
    spark.stop()


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2])
