"""Running a match on Spark, and what came of it: who was matched most, least and never, and where the time went."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from palio.cli.spark.counting import skew
from palio.cli.spark.running import Seen, run
from palio.cli.spark.timing import Times
from palio.cli.spark.unlike import Unlike, find_unlike

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from palio.cli.spark.output import OutputFolder
    from palio.spark.wants import Wants

_EXCLUDED: Final = "spark.sql.adaptive.optimizer.excludedRules"
_FORGETS: Final = "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation"


@dataclass
class Figures:
    """What is said of a run."""

    times: Times
    """`starting` Spark, `indexing`, `matching`, `counting` what was written."""
    events: int = 0
    matches: int = 0
    sizes: list[int] = field(default_factory=list)
    """How many matches are in each partition that has any."""
    counts: dict[str, int] = field(default_factory=dict)
    seen: Seen = field(default_factory=Seen)
    plan: str = ""
    """By which plan it was matched: `broadcast` or `rendezvous`."""
    absent: tuple[str, ...] = ()
    """What subscriptions look at and no column of the events is: perhaps a name was mistyped."""

    unlike: tuple[Unlike, ...] = ()
    """Columns of texts that subscriptions compare with what is no text."""

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
    from palio.spark.matching import needed_for
    from palio.spark.planning import index_memory, plan_for

    _keep_what_is_counted(spark)
    figures.absent = needed_for(events, wants.matcher, options.get("json", ())).absent
    figures.unlike = find_unlike(events, map(wants.matcher.__getitem__, wants.matcher))
    figures.plan = plan_for(wants.matcher, options.get("plan", "auto"), index_memory(spark))
    passing = Observation("palio events")
    observed = events.observe(passing, sql.count(sql.lit(1)).alias("events"))
    with figures.times.measure("matching"):
        counted = run(spark, "Matching", lambda: _told(match(observed, wants, **options), out), figures.seen)
    if counted is None:
        assert out is not None  # else it was counted at once
        with figures.times.measure("counting"):
            counted = run(spark, "Counting", lambda: _counts(spark.read.parquet(out.address)))
    figures.events = int(passing.get["events"])
    sizes: dict[int, int] = {}
    for id, partition, count in counted:
        figures.counts[id] = figures.counts.get(id, 0) + count
        sizes[partition] = sizes.get(partition, 0) + count
    figures.matches = sum(figures.counts.values())
    figures.sizes = [sizes[partition] for partition in sorted(sizes)]


def _keep_what_is_counted(spark: SparkSession) -> None:
    """Where nothing matches, Spark would find out in the middle of the job, and forget what it had counted before."""
    excluded = spark.conf.get(_EXCLUDED, None)
    spark.conf.set(_EXCLUDED, f"{excluded},{_FORGETS}" if excluded else _FORGETS)


def _told(found: DataFrame, out: OutputFolder | None) -> Sequence[tuple[str, int, int]] | None:
    """Write the matches, or only count them."""
    if out is None:
        return _counts(found)
    out.write(found)
    return None


def _counts(found: DataFrame) -> Sequence[tuple[str, int, int]]:
    """How often each subscription was matched in each partition; few rows, whatever the number of matches."""
    from pyspark.sql import functions as sql

    from palio.spark.matching import SUBSCRIPTION, SUBSCRIPTIONS

    if SUBSCRIPTIONS in found.columns:
        found = found.select(sql.explode(SUBSCRIPTIONS).alias(SUBSCRIPTION))
    counted = found.groupBy(SUBSCRIPTION, sql.spark_partition_id().alias("partition")).count()
    return [tuple(row) for row in counted.collect()]
