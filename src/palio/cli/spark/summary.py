"""Running a match on Spark, and what came of it: who was matched most, least and never, and where the time went."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from palio.cli.report import Point
from palio.cli.spark.counting import skew
from palio.cli.spark.running import run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from palio.cli.spark.output import OutputFolder
    from palio.spark.wants import Wants


@dataclass
class Figures:
    """What is said of a run."""

    seconds: dict[str, float] = field(default_factory=dict)
    """What took how long: `starting` Spark, `indexing`, `matching`."""
    events: int = 0
    matches: int = 0
    sizes: list[int] = field(default_factory=list)
    """How many matches are in each partition that has any."""
    counts: dict[str, int] = field(default_factory=dict)
    tasks: list[Point] = field(default_factory=list)
    """How many tasks were done at which moment."""

    @property
    def skew(self) -> float:
        """How many times the average the largest partition of matches is."""
        return skew(self.sizes)


def match_and_count(
    spark: SparkSession,
    events: DataFrame,
    wants: Wants,
    out: OutputFolder | None,
    figures: Figures,
    **options: Any,
) -> None:
    """Match, write where asked to, and count, in one pass over the events."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as sql

    from palio.spark import match

    seen = Observation("palio events")
    found = match(events.observe(seen, sql.count(sql.lit(1)).alias("events")), wants, **options)
    started = time.perf_counter()
    if out is None:
        counted = run(spark, "Matching", lambda: _counts(found), figures.tasks)
    else:
        run(spark, "Matching", lambda: out.write(found), figures.tasks)
        counted = run(spark, "Counting", lambda: _counts(spark.read.parquet(out.address)))
    figures.seconds["matching"] = time.perf_counter() - started
    figures.events = int(seen.get["events"])
    sizes: dict[int, int] = {}
    for id, partition, count in counted:
        figures.counts[id] = figures.counts.get(id, 0) + count
        sizes[partition] = sizes.get(partition, 0) + count
    figures.matches = sum(figures.counts.values())
    figures.sizes = [sizes[partition] for partition in sorted(sizes)]


def _counts(found: DataFrame) -> Sequence[tuple[str, int, int]]:
    """How often each subscription was matched in each partition; few rows, whatever the number of matches."""
    from pyspark.sql import functions as sql

    from palio.spark.matching import SUBSCRIPTION, SUBSCRIPTIONS

    if SUBSCRIPTIONS in found.columns:
        found = found.select(sql.explode(SUBSCRIPTIONS).alias(SUBSCRIPTION))
    counted = found.groupBy(SUBSCRIPTION, sql.spark_partition_id().alias("partition")).count()
    return [tuple(row) for row in counted.collect()]
