"""`stream`: matching over Structured Streaming, while subscriptions change.

Spark plans a batch, and runs it again with the same events if anything dies before the end. What a batch is matched
with must not change either, so its version of the subscriptions is in the journal before its first match is anywhere;
a sink leaves the same for the same batch; and the batch is written down as done after that. Wherever it is killed, the
next run finds a batch that is done, or one that begins with the version it had.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from palio.errors import PipelineError
from palio.spark.columns import column, needed_columns
from palio.spark.log import SubscriptionLog
from palio.spark.matching import SUBSCRIBER, SUBSCRIPTION, kept_columns, match
from palio.spark.places import absolute
from palio.spark.shared_index import is_connect
from palio.spark.sinks.sink import Batch, Sink, Taken
from palio.spark.streaming.indexes import Indexes
from palio.spark.streaming.journal import Begun, Journal, Progress
from palio.spark.streaming.screening import REASON, Screening
from palio.spark.wants import Wants

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

EVERY_SECOND: Final = {"processingTime": "1 second"}


def stream(
    events: DataFrame,
    subscriptions: SubscriptionLog | str | Path,
    sink: Sink,
    *,
    checkpoint: str | Path,
    columns: Sequence[str] | None = None,
    json: Sequence[str] = (),
    event_time: str | None = None,
    lateness: timedelta | None = None,
    malformed: Mapping[str, str] | None = None,
    dead_letters: Sink | None = None,
    trigger: Mapping[str, Any] = EVERY_SECOND,
    name: str | None = None,
) -> StreamingQuery:
    """Match a stream of events with a log of subscriptions, each batch with the latest version, and start.

    `sink` takes the matches: the events' columns (or those of `columns`), `subscription_id` and `subscriber`.
    `checkpoint` is Spark's, and this stream's alone. With `dead_letters`, another sink, events that cannot be used go
    there with the reason in `palio_reason`: those whose `event_time` is missing or more than `lateness` behind what was
    seen before, those whose `json` columns hold none, those that Spark itself could not read (`_corrupt_record`), and
    those for which a condition of `malformed` holds, reasons by conditions: `{"no price": "price IS NULL"}`.

    `trigger` is as `DataStreamWriter.trigger` takes it. The query is Spark's; `progress(checkpoint)` tells what came of
    its batches.
    """
    log = subscriptions if isinstance(subscriptions, SubscriptionLog) else SubscriptionLog(subscriptions)
    _check(events, log, sink, dead_letters, columns)
    needed_columns(events, (), json)  # a column that is not there is found now, not with the first batch
    screening = None
    if dead_letters is not None:
        screening = Screening(event_time, lateness, malformed, tuple(json))
        screening.check(events)
    elif event_time is not None or lateness is not None or malformed:
        raise PipelineError("say where late and malformed events go: dead_letters=ParquetSink(…)")
    if not is_connect(events.sparkSession):  # else the server looks, with the first batch
        journal = Journal(absolute(checkpoint))
        journal.check_log(log)
        journal.check_plan()
    job = Job(log.path, absolute(checkpoint), sink, _tuple(columns), tuple(json), screening, dead_letters)
    writer = events.writeStream.foreachBatch(job).option("checkpointLocation", absolute(checkpoint))
    if name is not None:
        writer = writer.queryName(name)
    return writer.trigger(**trigger).start()


@dataclass(frozen=True)
class Job:
    """What is done with each batch. Through Spark Connect it travels to the server, so it holds nothing but names."""

    subscriptions: str
    checkpoint: str
    sink: Sink
    columns: tuple[str, ...] | None
    json: tuple[str, ...]
    screening: Screening | None
    dead_letters: Sink | None

    def __call__(self, events: DataFrame, number: int) -> None:
        journal, log, indexes = self._at_hand
        if journal.is_done(number):
            return
        begun = journal.begin(number, log)
        clock = _Clock()
        with clock.measure("index"):
            wants = indexes.at(events.sparkSession, begun.version)
        batch = Batch(journal.stream, number, begun.version, begun.time)
        before = journal.done(number - 1) if number else None
        counted = _Run(self, wants, batch, clock).run(events, None if before is None else before.latest)
        journal.finish(_progress(begun, wants, counted, clock, before))

    @cached_property
    def _at_hand(self) -> tuple[Journal, SubscriptionLog, Indexes]:
        """What is kept from batch to batch."""
        log, journal = SubscriptionLog(self.subscriptions), Journal(self.checkpoint)
        journal.check_plan()
        return journal, log, Indexes(log)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_at_hand"}


@dataclass(frozen=True)
class _Run:
    """One batch on its way into the sinks."""

    job: Job
    wants: Wants
    batch: Batch
    clock: _Clock

    def run(self, events: DataFrame, latest: int | None) -> Mapping[str, Any]:
        screening = self.job.screening
        screened = events if screening is None else screening.screened(events, latest)
        observed, counts = observe(screened, screening)
        good = observed if screening is None else observed.where(f"{REASON} IS NULL").drop(REASON)
        with self.clock.measure("sink"):
            taken = self.job.sink(matches_of(good, self.wants, self.job.columns, self.job.json), self.batch)
        # Who observes waits for the first action, and only a sink that says so is known to have had one.
        known = counts() if isinstance(taken, Taken) else None
        figures: dict[str, Any] = {"matches": taken.matches if isinstance(taken, Taken) else None}
        if known is None and screening is not None:
            known = _count(screened, screening)
        figures.update(known or {})
        if figures.get("dead"):
            assert self.job.dead_letters is not None  # where events are screened
            with self.clock.measure("dead letters"):
                self.job.dead_letters(screened.where(f"{REASON} IS NOT NULL"), self.batch)
        return figures


class _Clock:
    """What took how long."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[name] = round(time.perf_counter() - start, 6)


def matches_of(events: DataFrame, wants: Wants, columns: Sequence[str] | None, json: Sequence[str]) -> DataFrame:
    """As `match`, with the same columns whoever subscribes."""
    from pyspark.sql import functions as sql

    # The index is published already, and carried on from version to version.
    found = match(events, wants, columns=columns, json=json, plan="broadcast")
    if SUBSCRIBER in found.columns[-1:]:
        return found
    return found.withColumn(SUBSCRIBER, sql.lit(None).cast("string"))


def observe(events: DataFrame, screening: Screening | None) -> tuple[DataFrame, Callable[[], dict[str, Any]]]:
    """The events, counted as they pass; the counts are there when all have passed."""
    from py4j.protocol import Py4JJavaError
    from pyspark.sql import Observation

    observation = Observation()

    def counts() -> dict[str, Any]:
        try:
            return observation.get
        except (AssertionError, Py4JJavaError):
            # Spark has seen from the plan that nobody wants anything of these events, and did not look at them.
            return _count(events, screening)

    return events.observe(observation, *_figures(screening)), counts


def _count(events: DataFrame, screening: Screening | None) -> dict[str, Any]:
    return events.agg(*_figures(screening)).collect()[0].asDict()


def _figures(screening: Screening | None) -> list[Any]:
    from pyspark.sql import functions as sql

    figures = [sql.count(sql.lit(1)).alias("events")]
    if screening is not None:
        figures += [sql.count(REASON).alias("dead"), screening.latest().alias("latest")]
    return figures


def _progress(
    begun: Begun, wants: Wants, counted: Mapping[str, Any], clock: _Clock, before: Progress | None
) -> Progress:
    latest = None if before is None else before.latest
    times = [each for each in (latest, counted.get("latest")) if each is not None]
    now = int(begun.time.timestamp() * 1e6)
    totals = {} if before is None else before.totals
    names = ("events", "matches", "dead")
    return Progress(
        begun.batch,
        begun.version,
        len(wants.matcher),
        len(wants.refused),
        begun.time,
        datetime.now(UTC),
        counted.get("events"),
        counted.get("matches"),
        counted.get("dead") or 0,
        min(max(times), now) if times else None,
        clock.seconds,
        {name: totals.get(name, 0) + (counted.get(name) or 0) for name in names},
    )


def _check(
    events: DataFrame, log: SubscriptionLog, sink: Sink, dead_letters: Sink | None, columns: Sequence[str] | None
) -> None:
    if not events.isStreaming:
        raise PipelineError("these events are no stream; match() takes them as they are")
    for each in (sink, dead_letters):
        if each is not None and not callable(each):
            raise PipelineError(f"a sink is called with matches and a batch: ParquetSink(…), say, not {each!r}")
    if not is_connect(events.sparkSession) and not log.exists():
        raise PipelineError(f"there is no subscription log at {log.path}; SubscriptionLog(…).commit() makes one")
    kept = kept_columns(events, columns)
    for each, names in ((sink, kept), (dead_letters, events.columns)):
        check = getattr(each, "check", None)
        if check is not None:
            check(events.select(*map(column, names)).schema)
    taken = {name.lower() for name in kept} & {SUBSCRIPTION, SUBSCRIBER}
    if taken:
        raise PipelineError(f"the events have a column {min(taken)} already; rename it, or do not keep it")


def _tuple(names: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(names)
