"""`palio spark stream`: matching events as they come, while subscriptions change."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import click

from palio.cli import terminal
from palio.cli.report import report_option, write_page
from palio.cli.spark.events import UNREADABLE
from palio.cli.spark.options import Flow, duration, flow_options, sink_of_files
from palio.cli.spark.ranking import Ranking, print_most_matched
from palio.cli.spark.sessions import opened_session
from palio.cli.spark.timing import Times, time_fact
from palio.cli.spark.unlike import find_unlike, unlike_facts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

    from palio.cli.spark.following import Followed
    from palio.spark.streaming.journal import Progress

_INTERRUPTED = 130


@click.command()
@flow_options
@click.option("--once", is_flag=True, help="End when everything is matched that is there now.")
@click.option(
    "--every",
    callback=duration,
    default="1s",
    show_default=True,
    metavar="DURATION",
    help="How often to look for new events.",
)
@click.option("--files-per-batch", type=click.IntRange(1), metavar="N", help="At most so many files in a batch.")
@click.option("--dead-letters", metavar="SINK", help="Where events go that cannot be used, with the reason.")
@click.option(
    "--event-time", metavar="NAME", help="The column that says when an event happened: for lag, and lateness."
)
@click.option("--lateness", callback=duration, metavar="DURATION",
              help="Events that are later than this are dead letters: 10m.")  # fmt: skip
@click.option("--malformed", multiple=True, metavar="REASON=CONDITION",
              help="Events for which this holds are dead letters: 'no price=price IS NULL'.")  # fmt: skip
@report_option
@click.option(
    "--json", "as_json", is_flag=True, help="Print each batch as a JSON object on a line, and the summary last."
)
@click.option("--top", type=click.IntRange(0), default=10, show_default=True, metavar="N",
              help="How many of the most and least matched subscriptions the summary shows.")  # fmt: skip
@click.pass_context
def stream(
    ctx: click.Context,
    flow: Flow,
    once: bool,
    every: timedelta,
    files_per_batch: int | None,
    dead_letters: str | None,
    event_time: str | None,
    lateness: timedelta | None,
    malformed: tuple[str, ...],
    report: str | None,
    as_json: bool,
    top: int,
) -> None:
    """Match events as they come, each batch with the latest subscriptions.

    \b
    Examples:
      palio spark subscribe wants/ wants.jsonl
      palio spark stream --events 'quotes/*.jsonl' --subscriptions wants/ --out hits/ --checkpoint state/
      palio spark stream --events nats://localhost:4222/ORDERS --schema 'id long, price double' \\
          --subscriptions wants/ --out 'nats://localhost:4222/hits.{subscriber}' --key id --checkpoint state/
      palio spark stream --events palio://localhost:7420 --where "price > 0" --schema 'symbol string, price double' \\
          --subscriptions wants/ --out delta:hits --checkpoint state/

    Killed at any point and started again with the same --checkpoint, it loses nothing and repeats nothing in files
    and Delta tables; to nats://, https:// and palio:// a match may come again, under the same key. Messages of NATS
    and events of brokers are read as JSON: with --schema their members are the event's columns, without it conditions
    say `data.price`; the column `message` has subject, sequence, time and headers, or node, offset, id, source and
    time.

    Ctrl-C and SIGTERM end it after the batch under way, with a summary.
    """
    from palio.cli.spark.following import Followed, follow
    from palio.spark.places import absolute
    from palio.spark.streaming.journal import Journal
    from palio.spark.streaming.stream import stream as start_stream

    source = replace(flow.source, files_per_batch=files_per_batch, keeps_unreadable=dead_letters is not None)
    sink = flow.sink
    dead = sink_of_files("--dead-letters", dead_letters)
    rules = _rules(malformed)
    followed = Followed()
    times = Times()
    with opened_session(flow.master, flow.settings, times) as spark:
        followed.starting = times.seconds["starting"]
        rows = source.follow(spark)
        _warn_of_unlike(rows, flow.subscriptions)
        kept = flow.columns or [name for name in rows.columns if name != UNREADABLE]

        def start() -> StreamingQuery:
            return start_stream(
                rows,
                flow.subscriptions,
                sink,
                checkpoint=flow.checkpoint,
                columns=kept,
                json=(*flow.json, *source.json),
                event_time=event_time,
                lateness=lateness,
                malformed=rules,
                dead_letters=dead,
                trigger={"availableNow": True} if once else {"processingTime": f"{every.total_seconds()} seconds"},
            )

        tell = _print_batch if as_json else _ignore
        bar_is_seen = not (as_json and sys.stdout.isatty())  # between lines of JSON it would spoil both
        follow(start, Journal(absolute(flow.checkpoint)), sink, followed, tell, bar_is_seen=bar_is_seen)
    ranking = _ranking(followed, flow.subscriptions)
    if report is not None:
        from palio.cli.spark.reporting import stream_page

        facts = list(_facts(followed, ranking, flow, dead_letters, top))
        page = stream_page(facts, ranking, followed.counts.sizes, _times(followed), followed.batches)
        write_page(page, report)
    if as_json:
        terminal.print_json(_as_dict(followed, ranking, top))
    else:
        _print(followed, ranking, flow, dead_letters, top)
    if followed.interrupted:
        ctx.exit(_INTERRUPTED)


def _warn_of_unlike(events: DataFrame, subscriptions: str) -> None:
    """Say whose conditions can never match such events, by the version that there is now."""
    from palio.spark.log import SubscriptionLog

    for told, said in unlike_facts(find_unlike(events, SubscriptionLog(subscriptions).at())):
        terminal.fault(terminal.messages(), subscriptions, told, None, said)


def _rules(malformed: tuple[str, ...]) -> dict[str, str]:
    rules: dict[str, str] = {}
    for each in malformed:
        reason, equals, condition = each.partition("=")
        if not equals or not reason.strip():
            raise click.BadParameter(f"{each!r} is no rule; write 'REASON=CONDITION'", param_hint="--malformed")
        rules[reason.strip()] = condition.strip()
    return rules


def _ranking(followed: Followed, subscriptions: str) -> Ranking | None:
    """Who was matched, where that can be known, by the version that the last batch had."""
    from palio.spark.log import SubscriptionLog

    if not followed.counts.is_complete or not followed.batches:
        return None
    now = SubscriptionLog(subscriptions).at(followed.batches[-1].version)
    return Ranking(followed.counts.by_subscription, {each.id for each in now})


def _print_batch(batch: Progress) -> None:
    terminal.print_json(
        {
            "batch": batch.batch,
            "version": batch.version,
            "subscriptions": batch.subscriptions,
            "refused": batch.refused,
            "begun": batch.begun.isoformat(),
            "finished": batch.finished.isoformat(),
            "events": batch.events,
            "matches": batch.matches,
            "dead": batch.dead,
            "events_per_second": _rounded(batch.events_per_second),
            "lag": _rounded(batch.lag),
            "seconds": batch.seconds,
        },
        at_once=True,
    )


def _ignore(batch: Progress) -> None:
    return None


def _as_dict(followed: Followed, ranking: Ranking | None, top: int) -> dict[str, Any]:
    last = followed.batches[-1] if followed.batches else None
    told: dict[str, Any] = {
        "ended": "interrupted" if followed.interrupted else "done",
        "batches": len(followed.batches),
        "events": followed.events,
        "matches": followed.matches,
        "dead": followed.dead,
        "version": None if last is None else last.version,
        "subscriptions": None if last is None else last.subscriptions,
        "refused": None if last is None else last.refused,
        "lag": _rounded(followed.lag),
        "seconds": {name: round(taken, 3) for name, taken in _times(followed).items()},
    }
    if ranking is not None:
        told |= {**ranking.as_dict(top), "skew": round(followed.counts.skew, 3)}
    return told


def _times(followed: Followed) -> dict[str, float]:
    spent = followed.seconds
    rest = max(0.0, followed.elapsed - sum(spent.values()))
    return {"starting": followed.starting, **spent, "waiting": rest}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _print(followed: Followed, ranking: Ranking | None, flow: Flow, dead_letters: str | None, top: int) -> None:
    console = terminal.results()
    if ranking is not None:
        print_most_matched(console, ranking, top)
    console.print(terminal.facts(_facts(followed, ranking, flow, dead_letters, top)))


def _facts(
    followed: Followed, ranking: Ranking | None, flow: Flow, dead_letters: str | None, top: int
) -> Iterator[tuple[str, str]]:
    from palio.spark.places import public

    batches = terminal.plural(len(followed.batches), "batch", "batches")
    busy = sum(followed.seconds.values())
    speed = f", {terminal.rate(followed.events, busy)} a second" if followed.events else ""
    yield "events", f"{followed.events:,} from {public(flow.events)} in {batches}{speed}"
    yield "matches", f"{followed.matches:,}, in {public(flow.out)}"
    if dead_letters is not None:
        yield "dead letters", f"{followed.dead:,}, in {public(dead_letters)}"
    if followed.batches:
        last = followed.batches[-1]
        at = f" at version {last.version:,}"
        yield from [("subscriptions", f"{last.subscriptions:,}{at}")] if ranking is None else ranking.facts(top, at)
        if last.refused:
            yield "left out", terminal.plural(last.refused, "subscription")
    if followed.lag is not None:
        yield "lag", terminal.duration(followed.lag)
    if followed.counts.sizes:
        yield "largest partition", f"{followed.counts.skew:.1f} times the average"
    yield time_fact(_times(followed))
    if followed.interrupted:
        yield "ended", "by Ctrl-C; the next run goes on from here"
