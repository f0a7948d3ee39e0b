"""`stream`: matching over Structured Streaming, while subscriptions change.

Spark plans a batch, and runs it again with the same events if anything dies before the end. What a batch is matched
with must not change either, so its version of the subscriptions is in the journal before its first match is anywhere;
a sink leaves the same for the same batch; and the batch is recorded as done after that. Wherever it is killed, the next
run finds a batch that is done, or one that begins with the version it had.

The index of a version is derived from the saved index of the version before: its arrays are mapped, not built, and the
changes are added and removed as in any matcher. When removed subscriptions outweigh the live ones, or the versions
between were compacted away, it is built anew from the log.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from palio.errors import PipelineError, VersionNotKept
from palio.matching.matcher import Matcher
from palio.matching.subscription import Subscription
from palio.spark.argument_checks import check_text, check_trigger
from palio.spark.implicit_casts import ImplicitCasts
from palio.spark.match_job import SUBSCRIBER_COLUMN, SUBSCRIPTION_COLUMN, check_events, kept_columns, match
from palio.spark.projection import column, project_attributes
from palio.spark.qualified_names import alias_of
from palio.spark.shared_index import SharedIndex, is_connect
from palio.spark.sinks.sink import Batch, Sink, Taken
from palio.spark.storage import absolute
from palio.spark.streaming.commit_journal import BatchStart, Journal, Progress
from palio.spark.streaming.dead_letters import REASON_COLUMN, DeadLetterRules
from palio.spark.subscription_log import SubscriptionLog
from palio.spark.subscriptions import Wants
from palio.spark.workers import check_python_of_batches, choose_worker_python

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery
    from pyspark.sql.streaming.readwriter import DataStreamWriter


EVERY_SECOND: Final = {"processingTime": "1 second"}
MAX_START_ATTEMPTS: Final = 6


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
    check_events(events)
    check_trigger(trigger)
    if name is not None:
        check_text("the name of a query", name)
    _check(events, log, sink, dead_letters, columns)
    project_attributes(events, (), json)  # reports a missing column now, not with the first batch
    rules = None
    if dead_letters is not None:
        rules = DeadLetterRules(event_time, lateness, malformed, tuple(json))
        rules.check(events)
    elif event_time is not None or lateness is not None or malformed:
        raise PipelineError("say where late and malformed events go: dead_letters=ParquetSink(…)")
    if not is_connect(events.sparkSession):  # else the server checks, with the first batch
        journal = Journal(absolute(checkpoint))
        journal.check_log(log)
        journal.check_plan()
    choose_worker_python(events.sparkSession)
    check_python_of_batches(events.sparkSession)
    job = Job(log.path, absolute(checkpoint), sink, _tuple(columns), tuple(json), rules, dead_letters, alias_of(events))
    writer = events.writeStream.foreachBatch(job).option("checkpointLocation", absolute(checkpoint))
    if name is not None:
        writer = writer.queryName(name)
    return _start(writer.trigger(**trigger))


def _start(writer: DataStreamWriter) -> StreamingQuery:
    """Start a query; again where the worker of Spark Connect's foreachBatch was too slow."""
    for _ in range(MAX_START_ATTEMPTS - 1):
        try:
            return writer.start()
        except Exception as error:
            if not is_worker_timeout(str(error)):
                raise
    return writer.start()


def is_worker_timeout(error: str) -> bool:
    """Whether a query failed because a Python worker of Spark took too long to start.

    Spark gives the workers of streaming sources and of Connect's foreachBatch 10 seconds to start Python and connect
    (`PythonWorkerFactory`; there is no setting). The start takes a second of CPU, most of it to compile pyspark, which
    is imported from a zip, so a machine with 15 busy processes exceeds the limit. Nothing was read by then: the query
    can be started again.
    """
    return "to connect back" in error  # "Python worker failed …", "Timed out while waiting for the Python worker …"


@dataclass(frozen=True)
class Job:
    """The function of a batch. Through Spark Connect it travels to the server, so it holds names only."""

    subscriptions: str
    checkpoint: str
    sink: Sink
    columns: tuple[str, ...] | None
    json: tuple[str, ...]
    rules: DeadLetterRules | None
    dead_letters: Sink | None
    alias: str | None = None
    """The name that qualifies columns in conditions; the DataFrame of a batch has lost it."""

    def __call__(self, events: DataFrame, number: int) -> None:
        if self.alias is not None:
            events = events.alias(self.alias)
        journal, log, indexes = self._state
        if journal.is_done(number):
            return
        # From here on the batch has its version, in this run and in every later one.
        begun = journal.begin(number, log)
        clock = _Stopwatch()
        with clock.measure("index"):
            wants = indexes.at(events.sparkSession, begun.version, ImplicitCasts.of(events))
        batch = Batch(journal.stream, number, begun.version, begun.time)
        before = journal.done(number - 1) if number else None
        counted = _BatchRun(self, wants, batch, clock).run(events, None if before is None else before.latest)
        # The commit. A crash before it repeats the batch, and the sink recognises it by its key.
        journal.finish(_progress(begun, wants, counted, clock, before))

    @cached_property
    def _state(self) -> tuple[Journal, SubscriptionLog, VersionIndexes]:
        """State across batches, made where the batches run."""
        log, journal = SubscriptionLog(self.subscriptions), Journal(self.checkpoint)
        journal.check_plan()
        return journal, log, VersionIndexes(log)

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in self.__dict__.items() if name != "_state"}


@dataclass(frozen=True)
class _BatchRun:
    """One batch on its way into the sinks."""

    job: Job
    wants: Wants
    batch: Batch
    clock: _Stopwatch

    def run(self, events: DataFrame, latest: int | None) -> Mapping[str, Any]:
        rules = self.job.rules
        screened = events if rules is None else rules.with_reasons(events, latest)
        observed, counts = observe(screened, rules)
        good = observed if rules is None else observed.where(f"{REASON_COLUMN} IS NULL").drop(REASON_COLUMN)
        with self.clock.measure("sink"):
            taken = self.job.sink(matches_of(good, self.wants, self.job.columns, self.job.json), self.batch)
        figures: dict[str, Any] = {"matches": taken.matches if isinstance(taken, Taken) else None}
        # `counts` blocks until an action has run, and only this answer proves that the sink ran one.
        if isinstance(taken, Taken) and not taken.is_replay:
            figures.update(counts())
        elif isinstance(taken, Taken) or rules is not None:
            figures.update(_count(screened, rules))
        if figures.get("dead"):
            assert self.job.dead_letters is not None  # where events are screened
            with self.clock.measure("dead letters"):
                self.job.dead_letters(screened.where(f"{REASON_COLUMN} IS NOT NULL"), self.batch)
        return figures


class _Stopwatch:
    """Durations of the steps of a batch, by name."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}

    @contextmanager
    def measure(self, name: str) -> Iterator[None]:
        start = time.perf_counter()
        yield
        self.seconds[name] = round(time.perf_counter() - start, 6)


def matches_of(events: DataFrame, wants: Wants, columns: Sequence[str] | None, json: Sequence[str]) -> DataFrame:
    """As `match`, with the column `subscriber` even where no subscription has one."""
    from pyspark.sql import functions as sql

    # Always broadcast: the index is published already, and derived from version to version.
    found = match(events, wants, columns=columns, json=json, plan="broadcast")
    if SUBSCRIBER_COLUMN in found.columns[-1:]:
        return found
    return found.withColumn(SUBSCRIBER_COLUMN, sql.lit(None).cast("string"))


def observe(events: DataFrame, rules: DeadLetterRules | None) -> tuple[DataFrame, Callable[[], dict[str, Any]]]:
    """The events, counted as they pass; the counts are available when all have passed."""
    from py4j.protocol import Py4JJavaError
    from pyspark.sql import Observation

    observation = Observation()

    def counts() -> dict[str, Any]:
        try:
            return observation.get
        except (AssertionError, Py4JJavaError):
            # Spark has optimised the events away, because nothing of them was needed.
            return _count(events, rules)

    return events.observe(observation, *_observed_figures(rules)), counts


def _count(events: DataFrame, rules: DeadLetterRules | None) -> dict[str, Any]:
    return events.agg(*_observed_figures(rules)).collect()[0].asDict()


def _observed_figures(rules: DeadLetterRules | None) -> list[Any]:
    from pyspark.sql import functions as sql

    figures = [sql.count(sql.lit(1)).alias("events")]
    if rules is not None:
        figures += [sql.count(REASON_COLUMN).alias("dead"), rules.latest().alias("latest")]
    return figures


def _progress(
    begun: BatchStart, wants: Wants, counted: Mapping[str, Any], clock: _Stopwatch, before: Progress | None
) -> Progress:
    latest = None if before is None else before.latest
    times = [each for each in (latest, counted.get("latest")) if each is not None]
    # The latest event time is bounded by the clock: one event from the future must not make all others late.
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
    for each in (sink, *(() if dead_letters is None else (dead_letters,))):
        if not callable(each):
            raise PipelineError(f"a sink is called with matches and a batch: ParquetSink(…), say, not {each!r}")
    if not is_connect(events.sparkSession) and not log.exists():
        raise PipelineError(f"there is no subscription log at {log.path}; SubscriptionLog(…).commit() makes one")
    kept = kept_columns(events, columns)
    for each, names in ((sink, kept), (dead_letters, events.columns)):
        schema = events.select(*map(column, names)).schema
        # Through Connect, the sink may be out of reach here; the server compares, before each batch.
        for check in ("check",) if is_connect(events.sparkSession) else ("check", "check_stored"):
            if each is not None and hasattr(each, check):
                getattr(each, check)(schema)
    taken = {name.lower() for name in kept} & {SUBSCRIPTION_COLUMN, SUBSCRIBER_COLUMN}
    if taken:
        raise PipelineError(f"the events have a column {min(taken)} already; rename it, or do not keep it")


def _tuple(names: Sequence[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(names)


class VersionIndexes:
    """The index of the latest version of a log that was needed."""

    def __init__(self, log: SubscriptionLog) -> None:
        self._log = log
        self._latest: tuple[int, Wants] | None = None

    def at(self, spark: SparkSession, version: int, casts: ImplicitCasts) -> Wants:
        """The subscriptions at a version, for events of certain columns, with an index published to the workers."""
        if self._latest is not None and self._latest[0] == version and self._latest[1].casts == casts:
            return self._latest[1]
        wants = self._derive(version, casts) or _gather(self._log.at(version), casts)
        # Published before the old one is released: equal content keeps its file.
        index = SharedIndex.publish(spark, wants.matcher)
        if self._latest is not None and (old := self._latest[1].index) is not None:
            old.release(spark)
        self._latest = version, replace(wants, index=index)
        return self._latest[1]

    def _derive(self, version: int, casts: ImplicitCasts) -> Wants | None:
        """The version derived from the current index; None where that is impossible or not worthwhile."""
        if self._latest is None or self._latest[0] > version or self._latest[1].casts != casts:
            return None
        old = self._latest[1]
        assert old.index is not None  # it was published
        try:
            touched: dict[str, Subscription | None] = {
                change.id: change.subscription
                for each in self._log.versions(self._latest[0], version)
                for change in each.changes
            }
        except VersionNotKept:
            return None
        figures = old.matcher.statistics()
        # Removed subscriptions stay in the index as tombstones; a rebuild pays off when they prevail.
        if figures.removed + len(touched) > figures.subscriptions:
            return None
        changed = _gather([each for each in touched.values() if each is not None], casts)
        # Mapped from the file; `old.matcher` stays as it was published.
        matcher = Matcher.open(old.index.path)
        matcher.remove_many([id for id in touched if id in matcher])
        matcher.add_subscriptions([changed.matcher[id] for id in changed.matcher])
        kept = tuple(each for each in old.refused if each.id not in touched)
        subscribers = {id: name for id, name in old.subscribers.items() if id not in touched}
        return Wants(matcher, (*kept, *changed.refused), {**subscribers, **changed.subscribers}, casts=casts)


def _gather(subscriptions: Iterable[Subscription], casts: ImplicitCasts) -> Wants:
    return replace(Wants.gather(map(casts.apply_to, subscriptions)), casts=casts)
