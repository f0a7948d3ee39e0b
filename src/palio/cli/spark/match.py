"""`palio spark match`: subscriptions against files of events, on Spark."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, Final

import click

from palio.cli import terminal
from palio.cli.language import language_option
from palio.cli.report import report_option, write_page
from palio.cli.spark.events import FORMATS, read_events
from palio.cli.spark.gathering import absent_facts, gather, refused_as_dicts, refused_facts
from palio.cli.spark.options import session_options
from palio.cli.spark.output import output_folder
from palio.cli.spark.ranking import Ranking, print_most_matched
from palio.cli.spark.sessions import opened_session
from palio.cli.spark.timing import Times, time_fact
from palio.cli.spark.unlike import unlike_facts

if TYPE_CHECKING:
    from palio.cli.spark.summary import Figures
    from palio.spark.wants import Wants

_PLANS: Final = {
    "broadcast": "broadcast: one index, on every executor",
    "rendezvous": "rendezvous: events and subscriptions meet by keys",
}


@click.command()
@click.option("--events", required=True, metavar="PATHS", help="Events: 'events/*.parquet', a folder, a table.")
@click.option("--subscriptions", required=True, metavar="PATH", help="A file or folder of subscriptions, or a table.")
@language_option()
@click.option("--out", metavar="FOLDER", help="Write the matches there, as Parquet.")
@click.option("--format", type=click.Choice(FORMATS), help="What the events are, where their names do not say.")
@click.option("--schema", metavar="COLUMNS",
              help="The events' columns, as SQL writes them: 'id long, price double'; else as found.")  # fmt: skip
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
    language: str,
    out: str | None,
    format: str | None,
    schema: str | None,
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

    figures = Figures(Times())
    with (
        output_folder(out, events, subscriptions) as folder,
        opened_session(master, settings, figures.times) as spark,
    ):
        with figures.times.measure("indexing"):
            wants = gather(spark, subscriptions, language, strict=strict)
        kept = columns.split(",") if columns else None
        rows = read_events(spark, events, format, schema)
        match_and_count(spark, rows, wants, folder, figures, per_event=per_event, columns=kept, json=json, plan=plan)
    ranking = Ranking(figures.counts, wants.matcher)
    if report is not None:
        from palio.cli.spark.reporting import match_page

        facts = list(_facts(figures, wants, ranking, events, out, top))
        write_page(match_page("a match", facts, ranking, figures), report)
    if as_json:
        terminal.print_json(_as_dict(figures, wants, ranking, top))
    else:
        _print(figures, wants, ranking, events, out, top)


def _as_dict(figures: Figures, wants: Wants, ranking: Ranking, top: int) -> dict[str, Any]:
    return {
        "events": figures.events,
        "matches": figures.matches,
        "subscriptions": len(wants.matcher),
        "plan": figures.plan,
        "refused": refused_as_dicts(wants),
        "absent": list(figures.absent),
        "unlike": [each.as_dict() for each in figures.unlike],
        **ranking.as_dict(top),
        "skew": round(figures.skew, 3),
        "seconds": figures.times.rounded,
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
    matching = figures.times.seconds["matching"]
    speed = terminal.rate(figures.events, matching)
    yield "events", f"{figures.events:,} from {events} in {terminal.duration(matching)}, {speed} a second"
    yield "matches", f"{figures.matches:,}" + (f", in {out}" if out else "")
    yield from ranking.facts(top)
    yield "plan", _PLANS[figures.plan]
    yield "largest partition", f"{figures.skew:.1f} times the average"
    yield time_fact(figures.times.seconds)
    yield from absent_facts(figures.absent)
    yield from unlike_facts(figures.unlike)
    yield from refused_facts(wants)
