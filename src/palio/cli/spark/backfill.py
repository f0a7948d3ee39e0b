"""Command `palio spark backfill`: matches of new subscriptions with events that a stream has processed before."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import click

from palio.cli import terminal
from palio.cli.html_report import report_option, write_page
from palio.cli.spark.job import Stopwatch, command_session, run, time_fact
from palio.cli.spark.match import RunFigures
from palio.cli.spark.match_report import MatchCounts, Ranking, print_most_matched
from palio.cli.spark.options import StreamOptions, stream_options

if TYPE_CHECKING:
    from palio.spark.streaming.backfill import BackfillResult


@click.command()
@click.argument("ids", nargs=-1, required=True, metavar="ID…")
@stream_options
@report_option
@click.option("--json", "as_json", is_flag=True, help="Print the summary as one JSON object.")
@click.option("--top", type=click.IntRange(0), default=10, show_default=True, metavar="N",
              help="How many of the most and least matched subscriptions the summary shows.")  # fmt: skip
def backfill(ids: tuple[str, ...], options: StreamOptions, report: str | None, as_json: bool, top: int) -> None:
    """Match new subscriptions, by their ids, with the events before their first batch of the stream.

    The options are those of the stream, which may run meanwhile or not. Events are matched up to the handover, from
    which the stream matches them: no match is left out and none is repeated, however often this is run.

    \b
    Example:
      palio spark subscribe wants/ --id acme --where "symbol = 'ACME'"
      palio spark backfill acme --events 'quotes/*.jsonl' --subscriptions wants/ --out hits/ --checkpoint state/
    """
    from palio.spark.streaming.backfill import backfill as fill_back

    source, sink = options.source, options.sink
    figures = RunFigures(Stopwatch())
    with command_session(options.master, options.settings, figures.times) as spark:

        def job() -> BackfillResult:
            return fill_back(
                lambda point: source.before(spark, point),
                options.subscriptions,
                sink,
                list(ids),
                checkpoint=options.checkpoint,
                columns=options.columns,
                json=(*options.json, *source.json),
            )

        with figures.times.measure("matching"), _resumable_interrupt():
            done = run(spark, "Backfilling", job, figures.progress)
    counts = MatchCounts(is_complete=done.matches is not None)
    if counts.is_complete:
        counts.add(sink, done.batch)
    figures.sizes = counts.sizes
    ranking = Ranking(counts.by_subscription, done.handover.subscriptions) if counts.is_complete else None
    if report is not None:
        from palio.cli.spark.match_report import match_page

        facts = list(_facts(done, ranking, figures, options.out, top))
        write_page(match_page("a backfill", facts, ranking, figures), report)
    if as_json:
        terminal.print_json(_as_dict(done, ranking, figures, top))
        return
    console = terminal.results()
    if done.matches is None:
        console.print("This was done before; no match was repeated.")
        return
    if ranking is not None:
        print_most_matched(console, ranking, top)
    console.print(terminal.facts(_facts(done, ranking, figures, options.out, top)))


@contextmanager
def _resumable_interrupt() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        raise KeyboardInterrupt("interrupted; run it again, and no match is left out or repeated") from None


def _as_dict(done: BackfillResult, ranking: Ranking | None, figures: RunFigures, top: int) -> dict[str, Any]:
    point = done.handover
    summary = {
        "subscriptions": list(point.subscriptions),
        "version": point.version,
        "until_batch": point.batch,
        "offsets": point.offsets,
        "events": done.events,
        "matches": done.matches,
        "seconds": figures.times.rounded,
    }
    if done.matches is None:
        return {**summary, "done_before": True}
    return summary if ranking is None else {**summary, **ranking.as_dict(top), "skew": round(figures.skew, 3)}


def _facts(
    done: BackfillResult, ranking: Ranking | None, figures: RunFigures, out: str, top: int
) -> Iterator[tuple[str, str]]:
    from palio.spark.storage import redact

    point = done.handover
    events = done.events or 0
    speed = terminal.rate(events, figures.times.seconds["matching"])
    until = f"before batch {point.batch:,}, from which on the stream has them"
    yield "backfilled", ", ".join(point.subscriptions)
    yield "events", f"{events:,} {until}; {speed} a second"
    yield "matches", f"{done.matches or 0:,}, in {redact(out)}"
    if ranking is not None:
        yield from ranking.facts(top)
    if figures.sizes:
        yield "largest partition", f"{figures.skew:.1f} times the average"
    yield time_fact(figures.times.seconds)
