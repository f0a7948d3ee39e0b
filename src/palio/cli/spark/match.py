"""`palio spark match`: subscriptions against files of events, on Spark."""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import click

from palio.cli import terminal
from palio.errors import InputError, PipelineError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from palio.cli.spark.summary import Figures
    from palio.spark.wants import Wants

_FORMATS: Final = ("parquet", "json", "csv", "orc", "delta")
_MOST_REFUSED: Final = 5


@click.command()
@click.option("--events", required=True, metavar="PATHS", help="Events: 'events/*.parquet', a folder, a table.")
@click.option("--subscriptions", required=True, metavar="PATH", help="A file or folder of subscriptions, or a table.")
@click.option("--out", metavar="FOLDER", help="Write the matches there, as Parquet.")
@click.option("--format", type=click.Choice(_FORMATS), help="What the events are, where their names do not say.")
@click.option("--per-event", is_flag=True, help="One row for each event, with the list of those who want it.")
@click.option("--columns", metavar="NAMES", help="The columns of an event to keep, with commas; by default all.")
@click.option("--json-column", "json", multiple=True, metavar="NAME", help="A column whose texts hold JSON.")
@click.option("--master", metavar="URL", help="Where to run: local[4], spark://…, sc://…; by default all cores here.")
@click.option("--conf", multiple=True, metavar="NAME=VALUE", help="A setting of Spark.")
@click.option("--strict", is_flag=True, help="Refuse to run where a subscription cannot be used.")
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object.")
@click.option("--top", type=click.IntRange(0), default=10, show_default=True, metavar="N",
              help="How many of the most and least matched subscriptions the summary shows.")  # fmt: skip
def match(
    events: str,
    subscriptions: str,
    out: str | None,
    format: str | None,
    per_event: bool,
    columns: str | None,
    json: tuple[str, ...],
    master: str | None,
    conf: tuple[str, ...],
    strict: bool,
    as_json: bool,
    top: int,
) -> None:
    """Find who wants which event, on a cluster or on all cores of this machine.

    \b
    Examples:
      palio spark match --events 'events/*.parquet' --subscriptions wants.jsonl --out hits/
      palio spark match --events flights.csv --subscriptions wants.jsonl --per-event --json
      palio spark match --events db.orders --subscriptions db.wants --master spark://hub:7077

    A match has the columns of the event, and subscription_id (and subscriber, where there are any). Without
    --out, matches are only counted.
    """
    from palio.cli.spark.summary import Figures, match_and_count
    from palio.spark.session import open_session
    from palio.spark.wants import Wants

    settings = _settings(conf)
    started = time.perf_counter()
    spark = open_session(master, settings)
    try:
        opened = time.perf_counter()
        wants = Wants.read(spark, subscriptions, on_error="fail" if strict else "quarantine")
        _show_refused(wants, subscriptions)
        figures = Figures(opened - started, time.perf_counter() - opened)
        kept = columns.split(",") if columns else None
        rows = _read(spark, events, format)
        match_and_count(spark, rows, wants, out, figures, per_event=per_event, columns=kept, json=json)
    finally:
        spark.stop()
    if as_json:
        terminal.print_json(_as_dict(figures, wants, top))
    else:
        _print(figures, wants, events, out, top)


def _settings(given: tuple[str, ...]) -> dict[str, str]:
    settings: dict[str, str] = {}
    for each in given:
        name, equals, value = each.partition("=")
        if not equals:
            raise click.BadParameter(f"{each!r} is no setting; write NAME=VALUE", param_hint="--conf")
        settings[name.strip()] = value.strip()
    return settings


def _read(spark: SparkSession, events: str, format: str | None) -> DataFrame:
    """The events of files, by the end of their name, or of a table."""
    from pyspark.errors import AnalysisException

    found = format or _format_of(events)
    try:
        if found is None:
            return spark.table(events)
        reader = spark.read.format(found)
        if found == "csv":
            reader = reader.options(header=True, inferSchema=True)
        return reader.load(events)
    except AnalysisException as error:
        reason = str(error).strip().splitlines()[0]
        raise InputError(events, f"Spark cannot read it: {reason}") from None


def _format_of(events: str) -> str | None:
    name = events.lower().rstrip("/*")
    for compression in (".gz", ".zst", ".bz2", ".xz"):
        name = name.removesuffix(compression)
    ending = name.rpartition(".")[2]
    if ending in ("jsonl", "ndjson", "json"):
        return "json"
    if ending in _FORMATS:
        return ending
    if "/" in events or "*" in events:
        raise InputError(events, f"its name does not say what it holds; say it with --format: {', '.join(_FORMATS)}")
    return None


def _show_refused(wants: Wants, source: str) -> None:
    console = terminal.messages()
    for each in wants.refused[:_MOST_REFUSED]:
        terminal.fault(console, source, "left out", each.id, each.reason)
    if len(wants.refused) > _MOST_REFUSED:
        console.print(f"… and {len(wants.refused) - _MOST_REFUSED:,} more", style="quiet")
    if not len(wants.matcher):
        raise PipelineError(f"{source}: there is no subscription in it that can be used")


def _as_dict(figures: Figures, wants: Wants, top: int) -> dict[str, Any]:
    ranked = _ranked(figures)
    return {
        "events": figures.events,
        "matches": figures.matches,
        "subscriptions": len(wants.matcher),
        "refused": [{"id": each.id, "reason": each.reason} for each in wants.refused],
        "never_matched": len(wants.matcher) - len(figures.counts),
        "most_matched": dict(ranked[:top]),
        "least_matched": dict(ranked[::-1][:top]),
        "skew": round(figures.skew, 3),
        "seconds": {
            "starting": round(figures.starting, 3),
            "indexing": round(figures.indexing, 3),
            "matching": round(figures.matching, 3),
        },
    }


def _ranked(figures: Figures) -> list[tuple[str, int]]:
    return sorted(figures.counts.items(), key=lambda each: (-each[1], each[0]))


def _print(figures: Figures, wants: Wants, events: str, out: str | None, top: int) -> None:
    from rich.table import Column
    from rich.text import Text

    console = terminal.results()
    ranked = _ranked(figures)
    if ranked and top:
        room = 24 if console.width >= terminal.WIDE else 12
        table = terminal.table("most matched", terminal.numbers("matches"), Column("", width=room))
        for id, count in ranked[:top]:
            table.add_row(Text(id, style="name"), f"{count:,}", terminal.bar(count / ranked[0][1], room))
        console.print(table)
        console.print()
    console.print(terminal.facts(_facts(figures, wants, events, out, ranked[::-1][:top])))
    if out is None and figures.matches:
        console.print("\nMatches were only counted: --out FOLDER keeps them.", style="quiet")


def _facts(
    figures: Figures, wants: Wants, events: str, out: str | None, least: list[tuple[str, int]]
) -> Iterator[tuple[str, str]]:
    speed = terminal.rate(figures.events, figures.matching)
    yield "events", f"{figures.events:,} from {events} in {terminal.duration(figures.matching)}, {speed} a second"
    yield "matches", f"{figures.matches:,}" + (f", in {out}" if out else "")
    never = len(wants.matcher) - len(figures.counts)
    yield "subscriptions", f"{len(wants.matcher):,}, of which {never:,} never matched"
    if least:
        yield "least matched", ", ".join(f"{id} ({count:,})" for id, count in least[:3])
    yield "largest partition", f"{figures.skew:.1f} times the average"
    parts = {"starting Spark": figures.starting, "indexing": figures.indexing, "matching": figures.matching}
    yield "time", ", ".join(f"{name} {terminal.duration(taken)}" for name, taken in parts.items())
    if wants.refused:
        yield "left out", terminal.plural(len(wants.refused), "subscription")
