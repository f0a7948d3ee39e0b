"""Subscriptions of a job, read from a file, a table, a DataFrame or a Matcher, and indexed.

The driver indexes them, except for long DataFrames and tables, which the workers index (`index_build`). A subscription
that cannot be read must not stop the others: it is refused with its id and the reason, and the job goes on without it,
unless `on_error="fail"`.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from palio.errors import InputError, InvalidSubscription, PalioError, PipelineError
from palio.files import read_subscriptions
from palio.matching.matcher import Matcher
from palio.matching.subscription import Subscription, Subscriptions, Want
from palio.matching.subscription_screening import add_usable
from palio.spark.argument_checks import kind_of, warn_caller
from palio.spark.projection import column, session_zone
from palio.spark.subscription_columns import FIELDS, NAME_FIELDS, as_text, needed_columns, resolve_columns

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

    from palio.spark.implicit_casts import ImplicitCasts
    from palio.spark.shared_index import SharedIndex

OnError = Literal["quarantine", "fail"]
SAVED_INDEX_SUFFIX: Final = ".palio"
_MAX_INSPECTED_SUBSCRIPTIONS: Final = 1_000  # of those that workers indexed
_MAX_LOGGED_REFUSALS: Final = 5  # of those that are left out
_TEXT_FIELDS: Final = frozenset(("id", "where"))
_COMPARISON: Final = re.compile(r"[=<>]|\b(?:is|in|like|rlike|between)\b", re.IGNORECASE)
_NOTHING_ELSE: Final = [None] * (len(FIELDS) - 2)  # than an id and a condition
UTC_NAMES: Final = frozenset(("Etc/UTC", "Z"))  # a JVM on a machine in UTC calls its zone by the first of them
_log = logging.getLogger("palio.spark")


def check_on_error(on_error: str) -> None:
    if on_error not in ("quarantine", "fail"):
        raise PipelineError(f"on_error is 'quarantine' or 'fail', not {on_error!r}")


@dataclass(frozen=True, slots=True)
class Refused:
    """A subscription that cannot be used, and why."""

    id: str | None
    reason: str


@dataclass(frozen=True)
class Wants:
    """The subscriptions of a job in an index, and those that were refused."""

    matcher: Matcher
    refused: tuple[Refused, ...] = ()
    subscribers: Mapping[str, str] = field(default_factory=dict)
    index: SharedIndex | None = None
    """The index file for workers, if it was published before."""
    schema: StructType | None = None
    """The schema of the DataFrame that they came from, if any."""
    casts: ImplicitCasts | None = None
    """The casts that are in the conditions of the index already."""
    numbers: npt.NDArray[np.int64] | None = field(default=None, compare=False)
    """By number in the index, the number in results; None where they are equal."""
    _last_cast: list[tuple[int, Wants]] = field(default_factory=list, init=False, compare=False, repr=False)
    """The last answer of `with_casts`, and the revision of the matcher it was made of."""

    @classmethod
    def read(
        cls,
        spark: SparkSession,
        source: Any,
        *,
        on_error: OnError = "quarantine",
        language: str = "sql",
        timezone: str | None = None,
        casts: ImplicitCasts | None = None,
        columns: Sequence[str] | None = None,
        count: int | None = None,
    ) -> Wants:
        """Read subscriptions: a path or address, the name of a table, a DataFrame, a Matcher, or subscriptions.

        Of a `SubscriptionLog`, or the folder of one, the latest version is read.
        `language` is the default language, `timezone` the zone of literals without one, by default the session's.
        `casts`, if given, are put into the conditions while they are read. `columns` are the further columns of a
        DataFrame or table that are read as metadata, by default all whose types Python has. `count` is the number of
        its rows, where it is known; otherwise they are counted first.
        """
        check_on_error(on_error)
        if isinstance(source, Wants):
            return source
        if isinstance(source, Matcher):
            return cls(source, (), _subscribers_in(source))
        if isinstance(source, str | Path) and str(source).endswith(SAVED_INDEX_SUFFIX):
            return cls.read(spark, Matcher.open(source))
        zone = timezone or session_zone(spark)
        collector = _Collector(zone, language, casts)
        _collect(spark, source, collector, columns, count)
        return collector.finish(on_error)

    @classmethod
    def gather(cls, subscriptions: Iterable[Subscription], *, on_error: OnError = "quarantine") -> Wants:
        """Index subscriptions; needs no session."""
        collector = _Collector()
        for each in subscriptions:
            collector.take(each)
        return collector.finish(on_error)

    @contextmanager
    def shared(self, spark: SparkSession) -> Iterator[Wants]:
        """These subscriptions with an index published to the workers for the time of the block."""
        from palio.spark.shared_index import SharedIndex

        index = SharedIndex.publish(spark, self.matcher)
        try:
            yield replace(self, index=index)
        finally:
            index.release(spark)

    def with_casts(self, casts: ImplicitCasts) -> Wants:
        """These subscriptions with the casts that Spark would put into their conditions; see `implicit_casts`."""
        if self.casts == casts:
            return self
        # For the next job on these columns; subscriptions may have changed meanwhile in a matcher of the caller's.
        for revision, last in self._last_cast:
            if revision == self.matcher.revision and last.casts == casts:
                return last
        revision = self.matcher.revision
        matcher = casts.apply_to_matcher(self.matcher)
        if matcher is self.matcher:
            found = replace(self, casts=casts)
        else:
            # The new index numbers its subscriptions without the gaps of removed ones.
            numbers = self.matcher.numbers() if self.matcher.statistics().removed else None
            found = replace(self, matcher=matcher, index=None, casts=casts, numbers=numbers)
        self._last_cast[:] = [(revision, found)]
        return found

    def refused_rows(self, spark: SparkSession) -> DataFrame:
        """The refused subscriptions as a DataFrame of `id` and `reason`."""
        rows = [(each.id, each.reason) for each in self.refused]
        return spark.createDataFrame(rows, "id string, reason string")


class _Collector:
    """Collects subscriptions for a matcher, and the refused ones."""

    def __init__(self, timezone: str = "UTC", language: str = "sql", casts: ImplicitCasts | None = None) -> None:
        self.timezone = plain_zone(timezone)
        self.language = language
        self.casts = casts
        self._found: dict[str, Want] = {}
        self.refused: list[Refused] = []
        self.schema: StructType | None = None
        self._built: Wants | None = None

    @property
    def found(self) -> list[Subscription]:
        return [Subscription(id, each) if isinstance(each, str) else each for id, each in self._found.items()]

    def take_any(self, given: Any) -> None:
        """Take a subscription, or make one of a mapping or a row."""
        if isinstance(given, Subscription):
            self.take(given)
        elif isinstance(given, Mapping):
            if given.keys() == _TEXT_FIELDS and self._take_text(given["id"], given["where"]):
                return
            self.make(**{"id": None, "where": None, **given})
        elif hasattr(given, "asDict"):  # a row that was collected
            self.take_any(given.asDict(recursive=True))
        else:
            raise PipelineError(f"a subscription is a mapping with id and where, not {type(given).__name__}")

    def take(self, subscription: Subscription) -> None:
        if subscription.id in self._found:
            self.refused.append(Refused(subscription.id, "another subscription has this id"))
        else:
            self._found[subscription.id] = subscription

    def make(
        self,
        /,  # metadata may be called self
        id: Any,
        where: Any,
        language: Any = None,
        subscriber: Any = None,
        timezone: Any = None,
        **metadata: Any,
    ) -> None:
        if id is None or where is None:
            missing = "id" if id is None else "where"
            similar = next((name for name in metadata if name.lower() == missing), None)
            reason = f"there is no {missing!r}" + (f", but {similar!r}: call it {missing!r}" if similar else "")
            self.refused.append(Refused(None if id is None else str(id), reason))
            return
        own = None if subscriber is None else str(subscriber)
        zone = plain_zone(str(timezone or self.timezone))
        try:
            self.take(Subscription(str(id), where, language or self.language, own, metadata, zone))
        except InvalidSubscription as error:
            self.refused.append(Refused(str(id), error.reason))

    def take_rows(self, batch: pa.RecordBatch) -> None:
        """Take the rows of a batch of columns, each a subscription."""
        if self.timezone != "UTC" or self.language != "sql" or not set(batch.schema.names) <= set(FIELDS):
            for row in batch.to_pylist():
                self.make(**row)
            return
        found = self._found
        if (texts := _only_texts(batch)) is not None and found.keys().isdisjoint(texts):
            found.update(texts)
            return
        columns = {name: batch.column(name).to_pylist() for name in batch.schema.names}
        nothing = [None] * batch.num_rows
        for id, where, *others in zip(*(columns.get(name, nothing) for name in FIELDS), strict=True):
            if others != _NOTHING_ELSE or not self._take_text(id, where):
                self.make(id, where, *others)

    def _take_text(self, id: Any, where: Any) -> bool:
        """Keep an SQL text with an ASCII id as its text; whether it is one.

        An object of each of these common subscriptions would take a third of the time and most of the memory.
        """
        is_text = type(id) is type(where) is str and id and id.isascii() and id not in self._found
        if not is_text or self.timezone != "UTC" or self.language != "sql":
            return False
        self._found[id] = where
        return True

    def adopt(self, built: Wants) -> None:
        """Take subscriptions that the workers indexed, in place of all others."""
        self._built = replace(built, schema=self.schema)
        if self.casts is not None:  # which notes the types that do not go together, but not those seen by workers
            for id in islice(built.matcher, _MAX_INSPECTED_SUBSCRIPTIONS):
                self.casts.apply_to(built.matcher[id])

    def finish(self, on_error: OnError) -> Wants:
        """Index the subscriptions; report those that were refused."""
        wants = self._built or self.gather()
        report_refused(wants.refused, on_error)
        return wants

    def gather(self) -> Wants:
        """Index the subscriptions."""
        matcher = Matcher()
        wants: list[Want] = list(self._found.values())
        # Most often all are texts, and a look at each of a million takes longer than at their types.
        others = [] if set(map(type, wants)) <= {str} else [each for each in wants if isinstance(each, Subscription)]
        if others:
            wants = [each.want if isinstance(each, Subscription) else each for each in wants]
        if self.casts is not None:
            wants = self.casts.apply_to_wants(wants)
        unusable = add_usable(matcher, Subscriptions(list(self._found), wants))
        self.refused += [Refused(id, refusal_reason(error)) for id, error in unusable.items()]
        # A plain text has no subscriber.
        owned = (each for each in others if each.id not in unusable)
        subscribers = {each.id: each.subscriber for each in owned if each.subscriber is not None}
        return Wants(matcher, tuple(self.refused), subscribers, casts=self.casts, schema=self.schema)


def collect_batches(
    batches: Iterable[pa.RecordBatch], timezone: str, language: str, casts: ImplicitCasts | None
) -> Wants:
    """Index the rows of batches, without a report of the refused ones; needs no session."""
    collector = _Collector(timezone, language, casts)
    for batch in batches:
        collector.take_rows(batch)
    return collector.gather()


def _only_texts(batch: pa.RecordBatch) -> dict[str, str] | None:
    """SQL texts by ASCII ids, where the rows of a batch have these alone and no id twice; None for other batches."""
    if not _TEXT_FIELDS.issubset(batch.schema.names):
        return None
    ids, wheres = batch.column("id"), batch.column("where")
    if ids.type != pa.string() or wheres.type != pa.string() or ids.null_count or wheres.null_count:
        return None
    if any(batch.column(name).null_count < batch.num_rows for name in batch.schema.names if name not in _TEXT_FIELDS):
        return None
    texts = dict(zip(ids.to_pylist(), wheres.to_pylist(), strict=True))
    return texts if len(texts) == batch.num_rows and "" not in texts and all(map(str.isascii, texts)) else None


def plain_zone(timezone: str) -> str:
    """The name of a time zone, one for all names of UTC: a text in it needs no zone beside it."""
    return "UTC" if timezone in UTC_NAMES else timezone


def _subscribers_in(matcher: Matcher) -> dict[str, str]:
    """The subscribers of a matcher, read from its columns instead of subscription by subscription."""
    subscribers = matcher.numbered_subscribers()
    if subscribers.null_count == len(subscribers):
        return {}
    named = zip(matcher.numbered_ids().to_pylist(), subscribers.to_pylist(), strict=True)
    return {id: name for id, name in named if name is not None and id in matcher}


def _collect(
    spark: SparkSession, source: Any, collector: _Collector, columns: Sequence[str] | None, count: int | None
) -> None:
    """Collect the subscriptions of any other source."""
    from palio.spark.subscription_log import SubscriptionLog, open_log  # which imports this module

    if isinstance(source, str | Path):
        rows = open_frame(spark, str(source))
        found = open_log(str(source)) if rows is None else rows
        if found is None:
            _read_file(str(source), collector)
            return
        source = found
    if isinstance(source, SubscriptionLog):
        if source.staged:
            changes = f"{source.staged:,} change{'' if source.staged == 1 else 's'} of the subscription log"
            warn_caller(f"{changes} {source.path} are not committed and do not count: call commit()")
        source = source.at()
    if hasattr(source, "toArrow"):
        _read_rows(source, collector, columns, count)
        return
    if not isinstance(source, Iterable) or hasattr(source, "columns"):
        # A DataFrame of another library is iterable, too: over its names or its columns.
        hint = ": spark.createDataFrame(…)" if hasattr(source, "columns") else ""
        raise PipelineError(
            "subscriptions are a path, the name of a table, a DataFrame, a Matcher, or a list of mappings with id and "
            f"where, not {kind_of(source)}{hint}"
        )
    if isinstance(source, Mapping):  # conditions by id, as Matcher takes them
        if _TEXT_FIELDS.issubset(source):
            raise PipelineError("subscriptions are a list of mappings with id and where: put this one into brackets")
        for id, where in source.items():
            collector.make(id, where)
        return
    for each in source:
        collector.take_any(each)


def collect_given(
    subscriptions: Iterable[Subscription | Mapping[str, Any]],
) -> tuple[list[Subscription], list[Refused]]:
    """Subscriptions given as such or as mappings, and those that make none."""
    if hasattr(subscriptions, "toLocalIterator"):
        raise PipelineError("these are subscriptions or mappings, not a DataFrame: give its .toLocalIterator()")
    _check_given(subscriptions)
    collector = _Collector()
    for each in subscriptions:
        collector.take_any(each)
    return collector.found, collector.refused


def _check_given(subscriptions: Any) -> None:
    if not isinstance(subscriptions, Iterable) or isinstance(subscriptions, str | bytes | Mapping):
        given = type(subscriptions).__name__
        raise PipelineError(f"subscriptions are a list of mappings with id and where, not {given}")


def open_frame(spark: SparkSession, source: str) -> DataFrame | None:
    """The DataFrame of a table or of a folder of Parquet files; None for files that are read line by line."""
    if is_table(spark, source):
        return spark.table(source)
    return spark.read.parquet(source) if is_parquet_folder(source) else None


def is_parquet_folder(path: str) -> bool:
    """Whether a path is a folder of Parquet files, as Spark writes them."""
    return bool(path) and any(parquet_files(path))


def parquet_files(path: str) -> Iterator[str]:
    """The Parquet files in a folder, as Spark writes them."""
    folder = Path(path)
    for each in folder.rglob("*.parquet") if folder.is_dir() else ():
        if each.is_file() and not each.relative_to(folder).parts[0].startswith((".", "_")):
            yield str(each)


def read_files(paths: Iterable[str], timezone: str) -> Wants:
    """Read the subscriptions of files, without a report of the refused ones; needs no session."""
    collector = _Collector(timezone)
    for path in paths:
        _read_lines(path, collector)
    return collector.gather()


def is_table(spark: SparkSession, name: str) -> bool:
    if not _may_be_table(name):
        return False
    try:
        return bool(spark.catalog.tableExists(name))
    except Exception:  # a name that no table can have
        return False


def _may_be_table(name: str) -> bool:
    return "/" not in name and "\\" not in name and not Path(name).exists()


def _read_lines(path: str, collector: _Collector) -> None:
    def report(error: InputError) -> None:
        collector.refused.append(Refused(None, str(error)))

    for line in read_subscriptions(path, on_error=report, language=collector.language):
        collector.make(line.id, line.where, line.language, line.subscriber, line.timezone, **line.metadata)


def _read_file(path: str, collector: _Collector) -> None:
    try:
        _read_lines(path, collector)
    except InputError as error:
        if not _may_be_table(path):
            raise
        reason = f"{error.reason}, and no table of this name"
        if _COMPARISON.search(path):
            reason += "; for a condition, write [{'id': …, 'where': …}]"
        raise InputError(error.source, reason, error.line) from error


def _read_rows(rows: DataFrame, collector: _Collector, columns: Sequence[str] | None, count: int | None) -> None:
    from palio.spark.index_build import MAX_DRIVER_SUBSCRIPTIONS, build_index

    rows = resolve_columns(rows)
    collector.schema = rows.schema
    needed = needed_columns(rows, columns)
    # As text by Spark, under both plans alike: `str` of Python's writes booleans, floats and times in another way.
    rows = rows.select(*(as_text(rows, each) if each in NAME_FIELDS else column(each) for each in needed))
    if count is None:
        count = rows.count()
    if count > MAX_DRIVER_SUBSCRIPTIONS:
        collector.adopt(build_index(rows, count, collector.timezone, collector.language, collector.casts))
        return
    for batch in rows.toArrow().to_batches():
        collector.take_rows(batch)


def report_refused(refused: Sequence[Refused], on_error: OnError) -> None:
    """Raise the first refused subscription with `on_error="fail"`; otherwise log some of them."""
    if refused and on_error == "fail":
        first, more = refused[0], len(refused) - 1
        rest = f" (and {more:,} more)" if more else ""
        raise InvalidSubscription(first.id or "without an id", first.reason + rest)
    for message in refusal_messages(refused):
        _log.warning(message)


def refusal_messages(refused: Sequence[Refused]) -> Iterator[str]:
    """What is to be told of refused subscriptions: the first ones, and the number of the others."""
    for each in refused[:_MAX_LOGGED_REFUSALS]:
        yield f"subscription {each.id} is left out: {each.reason}"
    if len(refused) > _MAX_LOGGED_REFUSALS:
        yield f"{len(refused) - _MAX_LOGGED_REFUSALS:,} more subscriptions are left out"


def refusal_reason(error: PalioError) -> str:
    """The reason without the id, which `Refused` has already."""
    cause = error.__cause__
    return str(cause if isinstance(cause, PalioError) else error)
