"""Command `palio spark match`: subscriptions matched against files of events."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

import click

from palio.cli import terminal
from palio.cli.common_options import language_option
from palio.cli.html_report import report_option, write_page
from palio.cli.spark.event_source import FORMATS, read_events
from palio.cli.spark.job import JobProgress, Stopwatch, command_session, run, time_fact
from palio.cli.spark.match_report import Ranking, print_most_matched, skew
from palio.cli.spark.options import session_options
from palio.cli.spark.output_folder import output_folder
from palio.cli.spark.subscription_checks import (
    TypeMismatch,
    absent_facts,
    find_type_conflicts,
    find_type_mismatches,
    gather,
    refused_as_dicts,
    refused_facts,
    type_conflict_facts,
    type_mismatch_facts,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from palio.cli.spark.output_folder import OutputFolder
    from palio.spark.subscriptions import Wants


_PLANS: Final = {
    "broadcast": "broadcast: one index, on every executor",
    "rendezvous": "rendezvous: events and subscriptions meet by keys",
}
_EXCLUDED_RULES: Final = "spark.sql.adaptive.optimizer.excludedRules"
_EMPTY_RELATION_RULE: Final = "org.apache.spark.sql.execution.adaptive.AQEPropagateEmptyRelation"


@click.command()
@click.option("--events", required=True, metavar="PATHS", help="Events: 'events/*.parquet', a folder, a table.")
@click.option("--subscriptions", required=True, metavar="PATH", help="A file or folder of subscriptions, or a table.")
@language_option()
@click.option("--out", metavar="FOLDER", help="Write the matches there, as Parquet.")
@click.option("--format", type=click.Choice(FORMATS), help="The format of the events, if their names do not say.")
@click.option("--schema", metavar="COLUMNS",
              help="The events' columns, in SQL: 'id long, price double'; by default inferred.")  # fmt: skip
@click.option("--per-event", is_flag=True, help="One row for each event, with the list of matching subscriptions.")
@click.option("--columns", metavar="NAMES", help="Columns of the event to keep, separated by commas; by default all.")
@click.option("--json-column", "json", multiple=True, metavar="NAME", help="A column of JSON texts.")
@click.option(
    "--xml", metavar="NAME", help="The column of XML texts that XPath subscriptions ask about; by default xml."
)
@click.option("--plan", type=click.Choice(["auto", "broadcast", "rendezvous"]), default="auto", show_default=True,
              help="One index on every executor, or a shuffle of events and subscriptions by keys.")  # fmt: skip
@session_options
@report_option
@click.option("--strict", is_flag=True, help="Refuse to run if a subscription cannot be used.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object.")
@click.option("--top", type=click.IntRange(0), default=10, show_default=True, metavar="N",
              help="How many of the most and least matched subscriptions the summary shows.")  # fmt: skip
def match(
    events: str,
    subscriptions: str,
    language: str,
    out: str | None,
    format: str | None,
    schema: str | None,
    per_event: bool,
    columns: str | None,
    json: tuple[str, ...],
    xml: str | None,
    plan: str,
    master: str | None,
    settings: dict[str, str],
    report: str | None,
    strict: bool,
    as_json: bool,
    top: int,
) -> None:
    """Match events against subscriptions, on all cores of this machine or on a cluster.

    \b
    Examples:
      palio spark match --events 'events/*.parquet' --subscriptions wants.jsonl --out hits/
      palio spark match --events flights.csv --subscriptions wants.jsonl --per-event --json
      palio spark match --events articles/ --format xml --subscriptions xpaths.jsonl --out hits/
      palio spark match --events db.orders --subscriptions db.wants --master spark://hub:7077

    A match has the columns of the event, and subscription_id (and subscriber, if any subscription has one). Without
    --out, matches are only counted.
    """

    figures = RunFigures(Stopwatch())
    with (
        output_folder(out, events, subscriptions) as folder,
        command_session(master, settings, figures.times) as spark,
    ):
        with figures.times.measure("indexing"):
            wants = gather(spark, subscriptions, language, strict=strict)
        kept = columns.split(",") if columns else None
        rows = read_events(spark, events, format, schema)
        match_and_count(
            spark, rows, wants, folder, figures, per_event=per_event, columns=kept, json=json, xml=xml, plan=plan
        )
    ranking = Ranking(figures.counts, wants.matcher)
    if report is not None:
        from palio.cli.spark.match_report import match_page

        facts = list(_facts(figures, wants, ranking, events, out, top))
        write_page(match_page("a match", facts, ranking, figures), report)
    if as_json:
        terminal.print_json(_as_dict(figures, wants, ranking, top))
    else:
        _print(figures, wants, ranking, events, out, top)


def _as_dict(figures: RunFigures, wants: Wants, ranking: Ranking, top: int) -> dict[str, Any]:
    return {
        "events": figures.events,
        "matches": figures.matches,
        "subscriptions": len(wants.matcher),
        "plan": figures.plan,
        "refused": refused_as_dicts(wants),
        "absent": list(figures.absent),
        "unlike": [each.as_dict() for each in figures.mismatches],
        "conflicts": [{"condition": each, "reason": reason} for each, reason in figures.conflicts.items()],
        **ranking.as_dict(top),
        "skew": round(figures.skew, 3),
        "seconds": figures.times.rounded,
    }


def _print(figures: RunFigures, wants: Wants, ranking: Ranking, events: str, out: str | None, top: int) -> None:
    console = terminal.results()
    print_most_matched(console, ranking, top)
    console.print(terminal.facts(_facts(figures, wants, ranking, events, out, top)))
    if out is None and figures.matches:
        console.print("\nMatches were only counted: --out FOLDER keeps them.", style="quiet")


def _facts(
    figures: RunFigures, wants: Wants, ranking: Ranking, events: str, out: str | None, top: int
) -> Iterator[tuple[str, str]]:
    matching = figures.times.seconds["matching"]
    speed = terminal.rate(figures.events, matching)
    yield "events", f"{figures.events:,} from {events} in {terminal.duration(matching)}, {speed} a second"
    yield "matches", f"{figures.matches:,}" + (f", in {out}" if out else "")
    yield from ranking.facts(top)
    yield "plan", _PLANS[figures.plan]
    yield "largest partition", f"{figures.skew:.1f} times the average"
    yield time_fact(figures.times.seconds)
    yield from absent_facts(figures.absent)
    yield from type_mismatch_facts(figures.mismatches)
    yield from type_conflict_facts(figures.conflicts)
    yield from refused_facts(wants)


@dataclass
class RunFigures:
    """Figures of a run, for the summary."""

    times: Stopwatch
    """`starting` Spark, `indexing`, `matching`, `counting` of written matches."""
    events: int = 0
    matches: int = 0
    sizes: list[int] = field(default_factory=list)
    """Matches in each partition that has any."""
    counts: dict[str, int] = field(default_factory=dict)
    progress: JobProgress = field(default_factory=JobProgress)
    plan: str = ""
    """The physical plan: `broadcast` or `rendezvous`."""
    absent: tuple[str, ...] = ()
    """Attributes without a column, perhaps mistyped."""
    mismatches: tuple[TypeMismatch, ...] = ()
    """String columns that subscriptions compare with other kinds of values."""
    conflicts: dict[str, str] = field(default_factory=dict)
    """Conditions that Spark refuses by the types of columns, with the reason."""

    @property
    def skew(self) -> float:
        return skew(self.sizes)


def match_and_count(
    spark: SparkSession,
    events: DataFrame,
    wants: Wants,
    out: OutputFolder | None,
    figures: RunFigures,
    **options: Any,
) -> None:
    """Match, write to the output folder if any, and count, in one pass over the events."""
    from pyspark.sql import Observation
    from pyspark.sql import functions as sql

    from palio.spark import match as match_on_spark
    from palio.spark.match_job import project_for, with_document
    from palio.spark.physical_plan import choose_plan, index_memory_bytes

    _keep_observed_counts(spark)
    xml = options.get("xml")
    matched = events if xml is None else with_document(events, xml)
    figures.absent = project_for(matched, wants.matcher, options.get("json", ())).absent
    figures.mismatches = find_type_mismatches(matched, map(wants.matcher.__getitem__, wants.matcher))
    figures.conflicts = find_type_conflicts(matched, map(wants.matcher.__getitem__, wants.matcher))
    figures.plan = choose_plan(wants.matcher, options.get("plan", "auto"), index_memory_bytes(spark))
    passing = Observation("palio events")
    observed = events.observe(passing, sql.count(sql.lit(1)).alias("events"))
    with figures.times.measure("matching"):
        counted = run(
            spark,
            "Matching",
            lambda: _write_or_count(match_on_spark(observed, wants, **options), out),
            figures.progress,
        )
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


def _keep_observed_counts(spark: SparkSession) -> None:
    """Exclude the rule by which Spark drops a plan, and its observed counts, once it finds that nothing matches."""
    excluded = spark.conf.get(_EXCLUDED_RULES, None)
    spark.conf.set(_EXCLUDED_RULES, f"{excluded},{_EMPTY_RELATION_RULE}" if excluded else _EMPTY_RELATION_RULE)


def _write_or_count(found: DataFrame, out: OutputFolder | None) -> Sequence[tuple[str, int, int]] | None:
    """Write the matches, or, without a folder, count them."""
    if out is None:
        return _counts(found)
    out.write(found)
    return None


def _counts(found: DataFrame) -> Sequence[tuple[str, int, int]]:
    """Matches of each subscription in each partition; few rows for any number of matches."""
    from pyspark.sql import functions as sql

    from palio.spark.match_job import SUBSCRIPTION_COLUMN, SUBSCRIPTIONS_COLUMN

    if SUBSCRIPTIONS_COLUMN in found.columns:
        found = found.select(sql.explode(SUBSCRIPTIONS_COLUMN).alias(SUBSCRIPTION_COLUMN))
    # As texts, as a matcher has them.
    found = found.withColumn(SUBSCRIPTION_COLUMN, sql.col(SUBSCRIPTION_COLUMN).cast("string"))
    counted = found.groupBy(SUBSCRIPTION_COLUMN, sql.spark_partition_id().alias("partition")).count()
    return [tuple(row) for row in counted.collect()]
