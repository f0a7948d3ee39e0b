"""Command `palio spark stream`: events matched as they arrive, while subscriptions change."""

from __future__ import annotations

import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import timedelta
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final

import click

from palio.cli import terminal
from palio.cli.html_report import report_option, write_page
from palio.cli.main import INTERRUPTED
from palio.cli.spark.event_source import UNREADABLE
from palio.cli.spark.job import Stopwatch, command_session, time_fact
from palio.cli.spark.match_report import MatchCounts, Ranking, print_most_matched
from palio.cli.spark.options import StreamOptions, duration, sink_of_files, split_pair, stream_options
from palio.cli.spark.subscription_checks import find_type_mismatches, type_mismatch_facts
from palio.errors import InputError, PipelineError
from palio.spark.error_cause import cause_in

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery
    from rich.progress import Progress as Shown
    from rich.progress import TaskID

    from palio.spark.sinks.sink import Sink
    from palio.spark.streaming.commit_journal import Journal, Progress

_POLL_INTERVAL_SECONDS: Final = 0.2
_FINISH_TIMEOUT_SECONDS: Final = 30.0


@click.command()
@stream_options
@click.option("--once", is_flag=True, help="End when all events that are available now are matched.")
@click.option(
    "--every",
    callback=duration,
    default="1s",
    show_default=True,
    metavar="DURATION",
    help="How often to look for new events.",
)
@click.option("--files-per-batch", type=click.IntRange(1), metavar="N", help="Maximum number of files in a batch.")
@click.option("--dead-letters", metavar="SINK", help="Sink for events that cannot be used, with the reason.")
@click.option("--event-time", metavar="NAME", help="The column with the event time, for lag and lateness.")
@click.option("--lateness", callback=duration, metavar="DURATION",
              help="Later events become dead letters: 10m.")  # fmt: skip
@click.option("--malformed", multiple=True, metavar="REASON=CONDITION",
              help="Events that satisfy the condition become dead letters: 'no price=price IS NULL'.")  # fmt: skip
@report_option
@click.option(
    "--json", "as_json", is_flag=True, help="Print each batch as a JSON object on a line, and the summary last."
)
@click.option("--top", type=click.IntRange(0), default=10, show_default=True, metavar="N",
              help="How many of the most and least matched subscriptions the summary shows.")  # fmt: skip
@click.pass_context
def stream(
    ctx: click.Context,
    options: StreamOptions,
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

    Killed at any point and started again with the same --checkpoint, it loses nothing. Files and Delta tables get each
    match once; nats://, https:// and palio:// may get a match again, under the same key. Messages of NATS and events
    of brokers are read as JSON: with --schema their members are columns of the event, without it conditions write
    `data.price`. The column `message` has subject, sequence, time and headers, or node, offset, id, source and time.

    Ctrl-C and SIGTERM end it after the batch under way, with a summary.
    """
    from palio.spark.storage import absolute
    from palio.spark.streaming.commit_journal import Journal
    from palio.spark.streaming.stream import stream as start_stream

    source = replace(options.source, files_per_batch=files_per_batch, keeps_unreadable=dead_letters is not None)
    sink = options.sink
    dead = sink_of_files("--dead-letters", dead_letters)
    rules = _rules(malformed)
    _check_inputs(source.address, options.subscriptions, options.master)
    followed = StreamRun()
    times = Stopwatch()
    with command_session(options.master, options.settings, times) as spark:
        followed.starting = times.seconds["starting"]
        rows = source.follow(spark)
        _warn_about_type_mismatches(rows, options.subscriptions)
        kept = options.columns or [name for name in rows.columns if name != UNREADABLE]

        def start() -> StreamingQuery:
            return start_stream(
                rows,
                options.subscriptions,
                sink,
                checkpoint=options.checkpoint,
                columns=kept,
                json=(*options.json, *source.json),
                event_time=event_time,
                lateness=lateness,
                malformed=rules,
                dead_letters=dead,
                trigger={"availableNow": True} if once else {"processingTime": f"{every.total_seconds()} seconds"},
            )

        on_batch = _print_batch if as_json else _ignore
        bar_is_seen = not (as_json and sys.stdout.isatty())  # between lines of JSON it would spoil both
        follow(start, Journal(absolute(options.checkpoint)), sink, followed, on_batch, bar_is_seen=bar_is_seen)
    ranking = _ranking(followed, options.subscriptions)
    if report is not None:
        from palio.cli.spark.match_report import stream_page

        facts = list(_facts(followed, ranking, options, dead_letters, top))
        page = stream_page(facts, ranking, followed.counts.sizes, _times(followed), followed.batches)
        write_page(page, report)
    if as_json:
        terminal.print_json(_as_dict(followed, ranking, top))
    else:
        _print(followed, ranking, options, dead_letters, top)
    if followed.interrupted:
        ctx.exit(INTERRUPTED)


def _check_inputs(events: str, subscriptions: str, master: str | None) -> None:
    """Refuse what cannot be followed before Spark starts, which takes seconds."""
    from palio.spark.subscription_log import SubscriptionLog

    if Path(events).is_file():
        raise InputError(
            events,
            "a stream follows a folder or a pattern: 'in/*.jsonl', in quotes, so that the shell does not expand it. "
            "Read one file by palio spark match",
        )
    is_remote = master is not None and master.startswith("sc://")  # the server may see other files
    log = SubscriptionLog(subscriptions)
    if not is_remote and not log.exists():
        raise PipelineError(f"there is no subscription log at {log.path}; palio spark subscribe makes one")


def _warn_about_type_mismatches(events: DataFrame, subscriptions: str) -> None:
    """Warn of conditions of the latest version that can never match events of this schema."""
    from palio.spark.subscription_log import SubscriptionLog

    mismatches = find_type_mismatches(events, SubscriptionLog(subscriptions).at())
    for kind, message in type_mismatch_facts([each for each in mismatches if not each.is_cast]):
        terminal.fault(terminal.messages(), subscriptions, kind, None, message)


def _rules(malformed: tuple[str, ...]) -> dict[str, str]:
    return dict(split_pair(text, "--malformed", "REASON=CONDITION") for text in malformed)


def _ranking(followed: StreamRun, subscriptions: str) -> Ranking | None:
    """The ranking of subscriptions, where counts are complete, at the version of the last batch."""
    from palio.spark.subscription_log import SubscriptionLog

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


def _as_dict(followed: StreamRun, ranking: Ranking | None, top: int) -> dict[str, Any]:
    last = followed.batches[-1] if followed.batches else None
    summary: dict[str, Any] = {
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
        summary |= {**ranking.as_dict(top), "skew": round(followed.counts.skew, 3)}
    return summary


def _times(followed: StreamRun) -> dict[str, float]:
    spent = followed.seconds
    rest = max(0.0, followed.elapsed - sum(spent.values()))
    return {"starting": followed.starting, **spent, "waiting": rest}


def _rounded(value: float | None) -> float | None:
    return None if value is None else round(value, 3)


def _print(
    followed: StreamRun, ranking: Ranking | None, options: StreamOptions, dead_letters: str | None, top: int
) -> None:
    console = terminal.results()
    if ranking is not None:
        print_most_matched(console, ranking, top)
    console.print(terminal.facts(_facts(followed, ranking, options, dead_letters, top)))


def _facts(
    followed: StreamRun, ranking: Ranking | None, options: StreamOptions, dead_letters: str | None, top: int
) -> Iterator[tuple[str, str]]:
    from palio.spark.storage import redact

    batches = terminal.plural(len(followed.batches), "batch", "batches")
    busy = sum(followed.seconds.values())
    speed = f", {terminal.rate(followed.events, busy)} a second" if followed.events else ""
    yield "events", f"{followed.events:,} from {redact(options.events)} in {batches}{speed}"
    yield "matches", f"{followed.matches:,}, in {redact(options.out)}"
    if dead_letters is not None:
        yield "dead letters", f"{followed.dead:,}, in {redact(dead_letters)}"
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


@dataclass
class StreamRun:
    """Results of a stream while it was followed."""

    batches: list[Progress] = field(default_factory=list)
    counts: MatchCounts = field(default_factory=MatchCounts)
    starting: float = 0.0
    elapsed: float = 0.0
    interrupted: bool = False

    @property
    def events(self) -> int:
        return sum(each.events or 0 for each in self.batches)

    @property
    def matches(self) -> int:
        return sum(each.matches or 0 for each in self.batches)

    @property
    def dead(self) -> int:
        return sum(each.dead for each in self.batches)

    @property
    def lag(self) -> float | None:
        return self.batches[-1].lag if self.batches else None

    @property
    def seconds(self) -> dict[str, float]:
        """Durations of the steps of all batches; the rest of the time is Spark's, or waiting for events."""
        found: dict[str, float] = {}
        for batch in self.batches:
            for name, taken in batch.seconds.items():
                found[name] = found.get(name, 0.0) + taken
        return found


@contextmanager
def until_interrupted() -> Iterator[threading.Event]:
    """An event that the first Ctrl-C sets; a second one has its usual effect."""
    interrupted = threading.Event()
    before = signal.getsignal(signal.SIGINT)

    def interrupt(number: int, frame: FrameType | None) -> None:
        if interrupted.is_set() and callable(before):
            before(number, frame)
        interrupted.set()

    signal.signal(signal.SIGINT, interrupt)
    try:
        yield interrupted
    finally:
        signal.signal(signal.SIGINT, before)


def follow(
    start: Callable[[], StreamingQuery],
    journal: Journal,
    sink: Sink,
    followed: StreamRun,
    on_batch: Callable[[Progress], None],
    *,
    bar_is_seen: bool,
) -> None:
    """Start a stream and follow it to its end: the end of the available events, an error, or Ctrl-C."""
    from palio.spark.streaming.stream import MAX_START_ATTEMPTS, is_worker_timeout

    done = journal.progress(1)
    follower = _StreamFollower(journal, sink, followed, on_batch, done[0].batch + 1 if done else 0)
    began = time.perf_counter()
    with (
        until_interrupted() as interrupted,
        terminal.progress(terminal.messages(), "Streaming", None, bar_is_seen) as shown,
    ):
        task = shown.add_task("", done="waiting for events")
        for attempt in range(1, MAX_START_ATTEMPTS + 1):
            error = _follow_query(start(), follower, interrupted, shown, task)
            followed.elapsed = time.perf_counter() - began
            if error is None or followed.interrupted:
                return
            # The checkpoint is where it was: a source without its worker has read nothing.
            if not is_worker_timeout(error) or attempt == MAX_START_ATTEMPTS:
                raise PipelineError(f"the stream ended: {cause_in(error)}")


def _follow_query(
    query: StreamingQuery, follower: _StreamFollower, interrupted: threading.Event, shown: Shown, task: TaskID
) -> str | None:
    """Follow one run of a stream to its end; its error, if any."""
    followed = follower.followed
    try:
        while query.isActive and not interrupted.wait(_POLL_INTERVAL_SECONDS):
            follower.poll()
            _show(shown, task, followed)
        # A query that ended by itself just then is not interrupted: its exit code is that of its own end.
        followed.interrupted = interrupted.is_set() and query.isActive
        if followed.interrupted:
            shown.update(task, done="finishing this batch; Ctrl-C again leaves it to the next run")
            follower.await_batch(query)
    finally:
        query.stop()
    # Batches that were committed between the last poll and the end.
    follower.poll()
    error = query.exception()
    return None if error is None else str(error)


@dataclass
class _StreamFollower:
    journal: Journal
    sink: Sink
    followed: StreamRun
    on_batch: Callable[[Progress], None]
    next: int

    def poll(self) -> bool:
        """Record the batches that were finished since the last call; whether there was one."""
        from palio.spark.sinks.sink import Batch

        first = self.next
        while (done := self.journal.done(self.next)) is not None:
            self.followed.batches.append(done)
            self.followed.counts.add(self.sink, Batch(self.journal.stream, done.batch, done.version, done.begun))
            self.on_batch(done)
            self.next += 1
        return self.next > first

    def await_batch(self, query: StreamingQuery) -> None:
        """Wait for the end of the running batch, if any; the next run would have to repeat it."""
        end = time.monotonic() + _FINISH_TIMEOUT_SECONDS
        # A query between two batches has nothing to finish.
        while query.isActive and query.status["isTriggerActive"] and time.monotonic() < end:
            if self.poll():
                return
            time.sleep(_POLL_INTERVAL_SECONDS)


def _show(shown: Shown, task: TaskID, followed: StreamRun) -> None:
    if not followed.batches:
        return
    last = followed.batches[-1]
    speed = last.events_per_second
    parts = [
        f"batch {last.batch:,}",
        f"version {last.version:,}",
        terminal.plural(followed.events, "event"),
        "" if speed is None else f"{terminal.rate(speed, 1)}/s",
        terminal.plural(followed.matches, "match", "matches"),
        "" if not followed.dead else terminal.plural(followed.dead, "dead letter"),
        "" if last.lag is None else f"lag {terminal.duration(last.lag)}",
    ]
    shown.update(task, done="  ".join(each for each in parts if each))
