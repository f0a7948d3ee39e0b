"""What subscribers want, gathered for a Spark job: from a file, a table, a DataFrame or a Matcher.

A subscription that cannot be read must not stop the others: it is set aside with its id and the reason, and the job
goes on without it, unless it is told to fail.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Literal

from palio.errors import InputError, InvalidSubscription, PalioError, PipelineError
from palio.files import read_subscriptions
from palio.matching.matcher import Matcher
from palio.matching.subscription import Subscription

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from palio.spark.shared_index import SharedIndex

OnError = Literal["quarantine", "fail"]
_SAVED: Final = ".palio"
_GROUP: Final = 500
_MOST_TOLD: Final = 5  # of those that are left out
_log = logging.getLogger("palio.spark")


def check_on_error(on_error: str) -> None:
    """Refuse what says neither."""
    if on_error not in ("quarantine", "fail"):
        raise PipelineError(f"on_error is 'quarantine' or 'fail', not {on_error!r}")


@dataclass(frozen=True, slots=True)
class Refused:
    """A subscription that cannot be used, and why."""

    id: str | None
    reason: str


@dataclass(frozen=True)
class Wants:
    """The subscriptions of a job, indexed, and those that were refused."""

    matcher: Matcher
    refused: tuple[Refused, ...] = ()
    subscribers: Mapping[str, str] = field(default_factory=dict)
    index: SharedIndex | None = None
    """Where workers find the index, when it was published before."""

    @classmethod
    def read(
        cls,
        spark: SparkSession,
        source: Any,
        *,
        on_error: OnError = "quarantine",
        language: str = "sql",
        timezone: str | None = None,
    ) -> Wants:
        """Gather subscriptions: a path or address, the name of a table, a DataFrame, a Matcher, or subscriptions.

        Those that name no language are in `language`. Times without a zone are read in the session's, unless another
        is named.
        """
        check_on_error(on_error)
        if isinstance(source, Wants):
            return source
        if isinstance(source, Matcher):
            return cls(source, (), _subscribers_in(source))
        if isinstance(source, str | Path) and str(source).endswith(_SAVED):
            return cls.read(spark, Matcher.open(source))
        zone = timezone or str(spark.conf.get("spark.sql.session.timeZone"))
        gathering = _Gathering(zone, language)
        for each in _subscriptions(spark, source, gathering):
            gathering.take(each)
        return gathering.finish(on_error)

    @classmethod
    def gather(cls, subscriptions: Iterable[Subscription], *, on_error: OnError = "quarantine") -> Wants:
        """Index subscriptions; needs no session."""
        gathering = _Gathering()
        for each in subscriptions:
            gathering.take(each)
        return gathering.finish(on_error)

    @contextmanager
    def shared(self, spark: SparkSession) -> Iterator[Wants]:
        """These with an index that workers find while the block runs; where they are on this machine, no longer."""
        from palio.spark.shared_index import SharedIndex

        index = SharedIndex.publish(spark, self.matcher)
        try:
            yield replace(self, index=index)
        finally:
            index.release(spark)

    def refused_rows(self, spark: SparkSession) -> DataFrame:
        """The refused ones as a DataFrame of `id` and `reason`."""
        rows = [(each.id, each.reason) for each in self.refused]
        return spark.createDataFrame(rows, "id string, reason string")


class _Gathering:
    """Subscriptions on their way into a matcher."""

    def __init__(self, timezone: str = "UTC", language: str = "sql") -> None:
        self._timezone = timezone
        self.language = language
        self._found: dict[str, Subscription] = {}
        self.refused: list[Refused] = []

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
            self.refused.append(Refused(None if id is None else str(id), f"there is no {missing!r}"))
            return
        own = None if subscriber is None else str(subscriber)
        zone = str(timezone or self._timezone)
        try:
            self.take(Subscription(str(id), where, language or self.language, own, metadata, zone))
        except InvalidSubscription as error:
            self.refused.append(Refused(str(id), error.reason))

    def finish(self, on_error: OnError) -> Wants:
        matcher = Matcher()
        usable = list(self._found.values())
        try:
            matcher.add_subscriptions(usable)
        except InvalidSubscription:
            usable = list(self._usable(usable))
            matcher.add_subscriptions(usable)
        if self.refused and on_error == "fail":
            first, more = self.refused[0], len(self.refused) - 1
            rest = f" (and {more:,} more)" if more else ""
            raise InvalidSubscription(first.id or "without an id", first.reason + rest)
        for each in self.refused[:_MOST_TOLD]:
            _log.warning("subscription %s is left out: %s", each.id, each.reason)
        if len(self.refused) > _MOST_TOLD:
            _log.warning("%d more subscriptions are left out", len(self.refused) - _MOST_TOLD)
        return Wants(matcher, tuple(self.refused), _subscribers(usable))

    def _usable(self, subscriptions: list[Subscription]) -> Iterator[Subscription]:
        """Those that can be used; the others are set aside. Groups first, because nearly all of them are fine."""
        for start in range(0, len(subscriptions), _GROUP):
            group = subscriptions[start : start + _GROUP]
            try:
                Matcher().add_subscriptions(group)
            except InvalidSubscription:
                yield from (each for each in group if self._is_usable(each))
            else:
                yield from group

    def _is_usable(self, subscription: Subscription) -> bool:
        try:
            _ = subscription.filter
        except InvalidSubscription as error:
            cause = error.__cause__
            self.refused.append(Refused(subscription.id, str(cause if isinstance(cause, PalioError) else error)))
            return False
        return True


def _subscribers(subscriptions: Iterable[Subscription]) -> dict[str, str]:
    return {each.id: each.subscriber for each in subscriptions if each.subscriber is not None}


def _subscribers_in(matcher: Matcher) -> dict[str, str]:
    """The same of a matcher, without reading its subscriptions one by one."""
    subscribers = matcher.numbered_subscribers()
    if subscribers.null_count == len(subscribers):
        return {}
    named = zip(matcher.numbered_ids().to_pylist(), subscribers.to_pylist(), strict=True)
    return {id: who for id, who in named if who is not None and id in matcher}


def _subscriptions(spark: SparkSession, source: Any, gathering: _Gathering) -> Iterator[Subscription]:
    """The subscriptions of any other source; rows and lines are handed to the gathering as they are."""
    if isinstance(source, str | Path):
        rows = rows_of(spark, str(source))
        if rows is None:
            _read_file(str(source), gathering)
            return
        source = rows
    if hasattr(source, "toArrow"):
        _read_rows(source, gathering)
        return
    for each in source:
        if isinstance(each, Subscription):
            yield each
        elif isinstance(each, Mapping):
            gathering.make(**{"id": None, "where": None, **each})
        else:
            raise PipelineError(f"a subscription is a mapping with id and where, not {type(each).__name__}")


def rows_of(spark: SparkSession, source: str) -> DataFrame | None:
    """The rows of a table, or of a folder of Parquet files; None for files that are read line by line."""
    if _is_table(spark, source):
        return spark.table(source)
    return spark.read.parquet(source) if is_of_parquet(source) else None


def is_of_parquet(path: str) -> bool:
    """Whether this is a folder of Parquet files, as Spark writes them."""
    folder = Path(path)
    if not path or not folder.is_dir():
        return False
    names = (each for each in folder.rglob("*.parquet") if each.is_file())
    return any(not part.startswith((".", "_")) for each in names for part in each.relative_to(folder).parts[:1])


def _is_table(spark: SparkSession, name: str) -> bool:
    """Whether this names a table of the session."""
    if not _may_be_table(name):
        return False
    try:
        return bool(spark.catalog.tableExists(name))
    except Exception:  # a name that no table can have
        return False


def _may_be_table(name: str) -> bool:
    """Whatever looks like a path is one."""
    return "/" not in name and "\\" not in name and not Path(name).exists()


def _read_file(path: str, gathering: _Gathering) -> None:
    def report(error: InputError) -> None:
        gathering.refused.append(Refused(None, str(error)))

    try:
        for line in read_subscriptions(path, on_error=report, language=gathering.language):
            gathering.make(line.id, line.where, line.language, line.subscriber, line.timezone, **line.metadata)
    except InputError as error:
        if not _may_be_table(path):
            raise
        raise InputError(error.source, f"{error.reason}, and no table of this name", error.line) from error


def _read_rows(rows: DataFrame, gathering: _Gathering) -> None:
    missing = [name for name in ("id", "where") if name not in rows.columns]
    if missing:
        raise PipelineError(
            f"subscriptions have the columns id and where, and may have language and subscriber; {missing[0]} is not "
            f"among {', '.join(rows.columns)}"
        )
    for row in rows.toArrow().to_pylist():
        gathering.make(**row)
