"""`palio spark backfill`: what new subscriptions would have been told before a stream had them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from palio.cli import terminal
from palio.cli.report import report_option, write_page
from palio.cli.spark.counting import Counts
from palio.cli.spark.options import Flow, flow_options
from palio.cli.spark.ranking import Ranking, print_most_matched
from palio.cli.spark.running import run
from palio.cli.spark.sessions import opened_session
from palio.cli.spark.summary import Figures
from palio.cli.spark.timing import Times, time_fact

if TYPE_CHECKING:
    from palio.spark.streaming.backfill import Backfilled


@click.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID…")
@flow_options
@report_option
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object.")
@click.option("--top", type=click.IntRange(0), default=10, show_default=True, metavar="N",
              help="How many of the most and least matched subscriptions the summary shows.")  # fmt: skip
def backfill(ids: tuple[str, ...], flow: Flow, report: str | None, as_json: bool, top: int) -> None:
    """Tell new subscriptions, by their ids, what happened before the stream had them.

    The options are those of the stream, which may run meanwhile or not. Events are matched up to the point from
    which the stream does it: no event is left out and none is told twice, however often this is run.

    \b
    Example:
      palio spark subscribe wants/ --id acme --where "symbol = 'ACME'"
      palio spark backfill acme --events 'quotes/*.jsonl' --subscriptions wants/ --out hits/ --checkpoint state/
    """
    from palio.spark.streaming.backfill import backfill as fill_back

    source, sink = flow.source, flow.sink
    figures = Figures(Times())
    with opened_session(flow.master, flow.settings, figures.times) as spark:

        def job() -> Backfilled:
            return fill_back(
                lambda point: source.before(spark, point),
                flow.subscriptions,
                sink,
                list(ids),
                checkpoint=flow.checkpoint,
                columns=flow.columns,
                json=(*flow.json, *source.json),
            )

        with figures.times.measure("matching"), _told_what_to_do():
            done = run(spark, "Backfilling", job, figures.seen)
    counts = Counts(is_complete=done.matches is not None)
    if counts.is_complete:
        counts.take(sink, done.batch)
    figures.sizes = counts.sizes
    ranking = Ranking(counts.by_subscription, done.handover.subscriptions) if counts.is_complete else None
    if report is not None:
        from palio.cli.spark.reporting import match_page

        facts = list(_facts(done, ranking, figures, flow.out, top))
        write_page(match_page("a backfill", facts, ranking, figures), report)
    if as_json:
        terminal.print_json(_as_dict(done, ranking, figures, top))
        return
    console = terminal.results()
    if done.matches is None:
        console.print("This was done before; nothing was told again.")
        return
    if ranking is not None:
        print_most_matched(console, ranking, top)
    console.print(terminal.facts(_facts(done, ranking, figures, flow.out, top)))


@contextmanager
def _told_what_to_do() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt("interrupted; run it again, and nothing is left out or told twice") from None


def _as_dict(done: Backfilled, ranking: Ranking | None, figures: Figures, top: int) -> dict[str, Any]:
    point = done.handover
    told = {
        "subscriptions": list(point.subscriptions),
        "version": point.version,
        "until_batch": point.batch,
        "offsets": point.offsets,
        "events": done.events,
        "matches": done.matches,
        "seconds": figures.times.rounded,
    }
    if done.matches is None:
        return {**told, "done_before": True}
    return told if ranking is None else {**told, **ranking.as_dict(top), "skew": round(figures.skew, 3)}


def _facts(
    done: Backfilled, ranking: Ranking | None, figures: Figures, out: str, top: int
) -> Iterator[tuple[str, str]]:
    from palio.spark.places import public

    point = done.handover
    events = done.events or 0
    speed = terminal.rate(events, figures.times.seconds["matching"])
    until = f"before batch {point.batch:,}, from which on the stream has them"
    yield "backfilled", ", ".join(point.subscriptions)
    yield "events", f"{events:,} {until}; {speed} a second"
    yield "matches", f"{done.matches or 0:,}, in {public(out)}"
    if ranking is not None:
        yield from ranking.facts(top)
    if figures.sizes:
        yield "largest partition", f"{figures.skew:.1f} times the average"
    yield time_fact(figures.times.seconds)
