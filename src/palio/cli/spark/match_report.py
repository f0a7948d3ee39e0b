"""Match statistics of a run: counts by subscription and partition, rankings, and HTML report pages.

Counts are read from the files that a sink has written, one column, once. Matches that are pushed to a server leave no
files and are counted on their way (`CountingSink`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final

from palio.cli import terminal
from palio.cli.html_report import Page, Point, bars, columns, line, plain

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from rich.console import Console

    from palio.cli.spark.job import JobProgress
    from palio.cli.spark.match import RunFigures
    from palio.spark.experiment_jobs import Kind
    from palio.spark.sinks.sink import Batch, Sink
    from palio.spark.streaming.commit_journal import Progress
    from palio.spark.subscription_analysis import Estimate

_MAX_LEAST_MATCHED: Final = 3  # in a summary
_MAX_BARS: Final = 20  # in a plot
_MAX_NAMES: Final = 60  # in a list
Facts = Sequence[tuple[str, str]]
Ranked = Sequence[tuple[str, int]]
PartitionCounts = list[tuple[str, int, int]]
"""Subscription, partition and number of matches."""


class CountingSink:
    """A sink that also counts matches, in this process; through Connect the counts stay at the server."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._counts: dict[str, PartitionCounts] = {}

    def __call__(self, matches: DataFrame, batch: Batch) -> object:
        from pyspark.sql import functions as sql

        from palio.spark.match_job import SUBSCRIPTION_COLUMN

        kept = matches.persist()  # counting must not match again
        try:
            taken = self._sink(kept, batch)
            counted = kept.groupBy(SUBSCRIPTION_COLUMN, sql.spark_partition_id().alias("partition")).count().collect()
        finally:
            kept.unpersist()
        self._counts[batch.key] = [tuple(row) for row in counted]
        return taken

    def pop_counts(self, batch: Batch) -> PartitionCounts | None:
        """The counts of a batch, once; None where they are unknown."""
        return self._counts.pop(batch.key, None)


@dataclass
class MatchCounts:
    """Matches of each subscription, and of each partition."""

    by_subscription: Counter[str] = field(default_factory=Counter)
    sizes: list[int] = field(default_factory=list)
    is_complete: bool = True
    """False where matches cannot be read from here, or were counted by another process."""

    def add(self, sink: Sink, batch: Batch) -> None:
        """Add a finished batch."""
        if isinstance(sink, CountingSink):
            self._add_counts(sink.pop_counts(batch))
            return
        files = getattr(sink, "files", None)
        if files is None:
            self.is_complete = False
            return
        try:
            for address in files(batch):
                self._add_file(address)
        except OSError:
            self.is_complete = False

    def _add_counts(self, counted: PartitionCounts | None) -> None:
        if counted is None:
            self.is_complete = False
            return
        sizes = Counter[int]()
        for id, partition, count in counted:
            self.by_subscription[id] += count
            sizes[partition] += count
        self.sizes += sizes.values()

    def _add_file(self, address: str) -> None:
        import pyarrow.parquet as pq

        from palio.spark.match_job import SUBSCRIPTION_COLUMN
        from palio.spark.storage import resolve

        system, path = resolve(address)
        rows = 0
        with (
            system.open_input_file(path) as file,
            pq.ParquetFile(file, read_dictionary=[SUBSCRIPTION_COLUMN]) as parquet,
        ):
            for batch in parquet.iter_batches(columns=[SUBSCRIPTION_COLUMN]):
                rows += batch.num_rows
                # Counted by distinct id, of which a file has few.
                for found in batch.column(0).value_counts().to_pylist():
                    self.by_subscription[found["values"]] += found["counts"]
        self.sizes.append(rows)

    @property
    def skew(self) -> float:
        """Size of the largest partition relative to the mean."""
        return skew(self.sizes)


def skew(sizes: list[int]) -> float:
    """The largest size relative to the mean."""
    total = sum(sizes)
    return max(sizes) * len(sizes) / total if total else 1.0


class Ranking:
    """Subscriptions by their matches."""

    def __init__(self, counts: Mapping[str, int], ids: Collection[str]) -> None:
        self._counts = counts
        self._ids = ids

    @cached_property
    def ranked(self) -> list[tuple[str, int]]:
        """Subscriptions with matches, the most matched first."""
        return sorted(self._counts.items(), key=lambda each: (-each[1], each[0]))

    def most(self, top: int) -> list[tuple[str, int]]:
        return self.ranked[:top]

    def least(self, top: int) -> list[tuple[str, int]]:
        """The least matched first, without those that never matched."""
        return self.ranked[::-1][:top]

    @cached_property
    def never(self) -> list[str]:
        return sorted(id for id in self._ids if id not in self._counts)

    def as_dict(self, top: int) -> dict[str, Any]:
        return {
            "never_matched": len(self.never),
            "most_matched": dict(self.most(top)),
            "least_matched": dict(self.least(top)),
        }

    def facts(self, top: int, since: str = "") -> list[tuple[str, str]]:
        """Lines of a summary."""
        facts = [("subscriptions", f"{len(self._ids):,}{since}, of which {len(self.never):,} never matched")]
        if self.ranked and top:
            few = self.least(min(top, _MAX_LEAST_MATCHED))
            facts.append(("least matched", ", ".join(f"{id} ({count:,})" for id, count in few)))
        return facts


def print_most_matched(console: Console, ranking: Ranking, top: int) -> None:
    from rich.table import Column
    from rich.text import Text

    most = ranking.most(top)
    if not most:
        return
    room = 24 if console.width >= terminal.WIDE_COLUMNS else 12
    table = terminal.table("most matched", terminal.numbers("matches"), Column("", width=room))
    for id, count in most:
        table.add_row(Text(id, style="name"), f"{count:,}", terminal.bar(count / most[0][1], room))
    console.print(table)
    console.print()


def match_page(what: str, facts: Facts, ranking: Ranking | None, figures: RunFigures) -> Page:
    """The report of a batch job."""
    page = Page(f"Palio on Spark: {what}", facts)
    if ranking is not None:
        _rank(page, ranking)
    _share(page, figures.sizes, figures.times.seconds)
    _rows(page, "Rows read", figures.progress)
    return page


def stream_page(
    facts: Facts,
    ranking: Ranking | None,
    sizes: list[int],
    seconds: dict[str, float],
    batches: Sequence[Progress],
) -> Page:
    """The report of a stream, for the time that it was followed."""
    page = Page("Palio on Spark: a stream", facts)
    if batches:
        begin = batches[0].begun
        ends = [(each.finished - begin).total_seconds() for each in batches]
        speeds = [Point(at, each.events_per_second or 0.0) for at, each in zip(ends, batches, strict=True)]
        page.plot("Events a second", line(speeds, "seconds since the first batch began"), "In each batch, at its end.")
        found = [Point(at, float(each.matches or 0)) for at, each in zip(ends, batches, strict=True)]
        page.plot("Matches in each batch", line(found, "seconds since the first batch began"))
        lags = [Point(at, each.lag) for at, each in zip(ends, batches, strict=True) if each.lag is not None]
        if lags:
            page.plot("Lag", line(lags, "seconds since the first batch began", lambda lag: f"{plain(lag)} s"))
    if ranking is not None:
        _rank(page, ranking)
    _share(page, sizes, seconds)
    return page


def estimate_page(condition: str, facts: Facts, found: Estimate, seconds: dict[str, float]) -> Page:
    page = Page(f"Palio on Spark: how often {condition}?", facts)
    counted = found.sampled == found.events
    rates = [("rate", found.rate)] if counted else [("low", found.low), ("rate", found.rate), ("high", found.high)]
    page.plot("Share of events", bars(rates, terminal.percent))
    if found.overlaps:
        alike = [(each.id, each.similarity) for each in found.overlaps]
        note = "Of the events that either fires for, those that both fire for."
        page.plot("Fires with", bars(alike, terminal.percent), note)
    _time(page, seconds)
    return page


def covering_page(facts: Facts, covered: int, left: int, widest: Ranked, seconds: dict[str, float]) -> Page:
    page = Page("Palio on Spark: subscriptions that others cover", facts)
    page.plot("Subscriptions", bars([("covered", covered), ("left", left)]))
    if widest:
        page.plot("Cover most others", bars(widest))
    _time(page, seconds)
    return page


def generate_page(workload: str, facts: Facts, made: Mapping[Kind, JobProgress], seconds: dict[str, float]) -> Page:
    page = Page(f"Palio on Spark: a workload of {workload}", facts)
    for kind, progress in made.items():
        if len(progress.points) > 1:
            page.plot(
                f"Rows of {kind}", line(progress.points, "seconds since the job began"), "As its tasks came to an end."
            )
    _time(page, seconds)
    return page


def _rank(page: Page, ranking: Ranking) -> None:
    if ranking.ranked:
        page.plot("Most matched subscriptions", bars(ranking.most(_MAX_BARS)))
    if len(ranking.ranked) > _MAX_BARS:  # else all are shown already
        page.plot("Least matched subscriptions", bars(ranking.least(_MAX_BARS)), "Of those that were matched at all.")
    never = ranking.never
    if never:
        more = f" The first {_MAX_NAMES}:" if len(never) > _MAX_NAMES else ""
        note = f"{terminal.plural(len(never), 'subscription')}.{more}"
        page.names("Never matched", never[:_MAX_NAMES], note)


def _share(page: Page, sizes: list[int], seconds: dict[str, float]) -> None:

    if sizes:
        note = f"The largest is {skew(sizes):.1f} times the average."
        page.plot("Matches in each partition", columns(sizes, f"{terminal.plural(len(sizes), 'partition')}"), note)
    _time(page, seconds)


def _rows(page: Page, heading: str, progress: JobProgress) -> None:
    if len(progress.points) > 1:
        page.plot(heading, line(progress.points, "seconds since the job began"), "As its tasks came to an end.")


def _time(page: Page, seconds: dict[str, float]) -> None:
    page.plot("Time", bars(list(seconds.items()), terminal.duration))
