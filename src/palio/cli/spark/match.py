"""`palio spark match`: subscriptions against files of events, on Spark."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from palio.cli import terminal
from palio.cli.report import report_option, write_page
from palio.cli.spark.events import FORMATS, read_events
from palio.cli.spark.options import session_options
from palio.cli.spark.output import output_folder
from palio.cli.spark.ranking import Ranking, print_most_matched
from palio.errors import PipelineError

if TYPE_CHECKING:
    from palio.cli.spark.summary import Figures
    from palio.spark.wants import Wants

_MOST_REFUSED: Final = 5


@click.command()
@click.option("--events", required=True, metavar="PATHS", help="Events: 'events/*.parquet', a folder, a table.")
@click.option("--subscriptions", required=True, metavar="PATH", help="A file or folder of subscriptions, or a table.")
@click.option("--out", metavar="FOLDER", help="Write the matches there, as Parquet.")
@click.option("--format", type=click.Choice(FORMATS), help="What the events are, where their names do not say.")
@click.option("--per-event", is_flag=True, help="One row for each event, with the list of those who want it.")
@click.option("--columns", metavar="NAMES", help="The columns of an event to keep, with commas; by default all.")
@click.option("--json-column", "json", multiple=True, metavar="NAME", help="A column whose texts hold JSON.")
@click.option("--plan", type=click.Choice(["auto", "broadcast", "rendezvous"]), default="auto", show_default=True,
              help="One index for every executor, or events and subscriptions that meet by keys.")  # fmt: skip
@session_options
@report_option
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
    plan: str,
    master: str | None,
    settings: dict[str, str],
    report: str | None,
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

    started = time.perf_counter()
    folder = output_folder(out, events, subscriptions)
    spark = open_session(master, settings)
    try:
        opened = time.perf_counter()
        with _untold():  # what is refused is shown below
            wants = Wants.read(spark, subscriptions, on_error="fail" if strict else "quarantine")
        _show_refused(wants, subscriptions)
        figures = Figures({"starting": opened - started, "indexing": time.perf_counter() - opened})
        kept = columns.split(",") if columns else None
        rows = read_events(spark, events, format)
        match_and_count(spark, rows, wants, folder, figures, per_event=per_event, columns=kept, json=json, plan=plan)
    finally:
        spark.stop()
    ranking = Ranking(figures.counts, wants.matcher)
    if report is not None:
        from palio.cli.spark.reporting import match_page

        facts = list(_facts(figures, wants, ranking, events, out, top))
        write_page(match_page(facts, ranking, figures.sizes, figures.seconds, figures.tasks), report)
    if as_json:
        terminal.print_json(_as_dict(figures, wants, ranking, top))
    else:
        _print(figures, wants, ranking, events, out, top)


@contextmanager
def _untold() -> Iterator[None]:
    log = logging.getLogger("palio.spark")
    log.disabled = True
    try:
        yield
    finally:
        log.disabled = False


def _show_refused(wants: Wants, source: str) -> None:
    console = terminal.messages()
    for each in wants.refused[:_MOST_REFUSED]:
        terminal.fault(console, source, "left out", each.id, each.reason)
    if len(wants.refused) > _MOST_REFUSED:
        console.print(f"… and {len(wants.refused) - _MOST_REFUSED:,} more", style="quiet")
    if not len(wants.matcher):
        raise PipelineError(f"{source}: there is no subscription in it that can be used")


def _as_dict(figures: Figures, wants: Wants, ranking: Ranking, top: int) -> dict[str, Any]:
    return {
        "events": figures.events,
        "matches": figures.matches,
        "subscriptions": len(wants.matcher),
        "refused": [{"id": each.id, "reason": each.reason} for each in wants.refused],
        **ranking.as_dict(top),
        "skew": round(figures.skew, 3),
        "seconds": {name: round(taken, 3) for name, taken in figures.seconds.items()},
    }


def _print(figures: Figures, wants: Wants, ranking: Ranking, events: str, out: str | None, top: int) -> None:
    console = terminal.results()
    print_most_matched(console, ranking, top)
    console.print(terminal.facts(_facts(figures, wants, ranking, events, out, top)))
    if out is None and figures.matches:
        console.print("\nMatches were only counted: --out FOLDER keeps them.", style="quiet")


def _facts(
    figures: Figures, wants: Wants, ranking: Ranking, events: str, out: str | None, top: int
) -> Iterator[tuple[str, str]]:
    matching = figures.seconds["matching"]
    speed = terminal.rate(figures.events, matching)
    yield "events", f"{figures.events:,} from {events} in {terminal.duration(matching)}, {speed} a second"
    yield "matches", f"{figures.matches:,}" + (f", in {out}" if out else "")
    yield from ranking.facts(top)
    yield "largest partition", f"{figures.skew:.1f} times the average"
    yield "time", ", ".join(f"{name} {terminal.duration(taken)}" for name, taken in figures.seconds.items())
    if wants.refused:
        yield "left out", terminal.plural(len(wants.refused), "subscription")
