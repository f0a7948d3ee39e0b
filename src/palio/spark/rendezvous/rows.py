"""Subscriptions as rows of a DataFrame: how they stay on the cluster, however many they are.

What was gathered already, from a file or a matcher, is sent out again. A DataFrame or table never comes to the driver:
it is looked through where it is, and what cannot be used is reported and left out.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from palio.errors import InvalidSubscription, PalioError, PipelineError
from palio.filters.filter import Filter
from palio.matching.matcher import Matcher
from palio.matching.subscription import Subscription
from palio.spark.wants import OnError, Refused, Wants
from palio.spark.zones import zone_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA: Final = pa.schema(
    [
        ("number", pa.int64()),
        ("id", pa.string()),
        ("where", pa.string()),
        ("is_json", pa.bool_()),
        ("language", pa.string()),
        ("subscriber", pa.string()),
        ("timezone", pa.string()),
    ]
)
_SAMPLE: Final = 4_096
_log = logging.getLogger("palio.spark")


@dataclass(frozen=True)
class SubscriptionRows:
    """The subscriptions of a job as a DataFrame of `SCHEMA`, how many there are, a sample, and what was refused.

    `numbered` says whether the numbers are those of a matcher, which nothing else gives out.
    """

    frame: DataFrame
    count: int
    sample: tuple[Subscription, ...]
    attributes: frozenset[str]
    reads_whole_events: bool
    has_subscribers: bool
    zones: frozenset[str]
    """In which they read times without a zone."""
    refused: tuple[Refused, ...] = ()
    numbered: bool = False

    @property
    def bytes_each(self) -> float:
        """What a subscription takes in an index, measured on the sample."""
        if not self.sample:
            return 0.0
        matcher = Matcher()
        matcher.add_subscriptions(self.sample)
        return size_of(matcher) / len(self.sample)


def size_of(matcher: Matcher) -> int:
    """The bytes that a matcher takes on an executor: what matching reads, ids, and texts."""
    found = matcher.statistics()
    return found.index_bytes + found.beside_bytes


def from_wants(spark: SparkSession, wants: Wants) -> SubscriptionRows:
    """The rows of subscriptions that were gathered."""
    matcher = wants.matcher
    subscriptions = [matcher[id] for id in matcher]
    ids = matcher.numbered_ids().to_pylist()
    numbers = {id: number for number, id in enumerate(ids) if id in matcher}
    table = pa.Table.from_pylist([_row(numbers[each.id], each) for each in subscriptions], SCHEMA)
    step = max(1, len(subscriptions) // _SAMPLE)
    return SubscriptionRows(
        spark.createDataFrame(table),
        len(subscriptions),
        tuple(subscriptions[::step][:_SAMPLE]),
        matcher.attributes,
        matcher.reads_whole_events,
        bool(wants.subscribers),
        frozenset(map(zone_of, subscriptions)),
        wants.refused,
        numbered=True,
    )


def from_frame(rows: DataFrame, on_error: OnError) -> SubscriptionRows:
    """The rows of a DataFrame with the columns `id` and `where`; looks through all of them once, where they are."""
    frame = normal(rows)
    examined = frame.mapInArrow(palio_examine, _EXAMINED).toArrow().to_pylist()
    refused = [Refused(row["id"], row["reason"]) for row in examined if row["reason"] is not None]
    usable = frame.where("id IS NOT NULL AND where IS NOT NULL")
    repeated = usable.groupBy("id").count().where("count > 1").toArrow().to_pylist()
    refused += [
        Refused(row["id"], "another subscription has this id") for row in repeated for _ in range(row["count"] - 1)
    ]
    _report(refused, on_error)
    if repeated:
        usable = _first_of_each(usable)
    found = [row for row in examined if row["reason"] is None]
    count = sum(row["count"] for row in found) - sum(row["count"] - 1 for row in repeated)
    return SubscriptionRows(
        usable,
        count,
        tuple(_sample(usable)),
        frozenset(name for row in found for name in row["attributes"]),
        any(row["reads_whole_events"] for row in found),
        any(row["has_subscribers"] for row in found),
        frozenset([_session_zone(rows)]),
        tuple(refused),
    )


def normal(rows: DataFrame) -> DataFrame:
    """Rows of `SCHEMA` from a DataFrame of subscriptions; numbers keep its order, and say nothing else."""
    from pyspark.sql import functions as sql
    from pyspark.sql.types import ArrayType, MapType, StructType

    for name in ("id", "where"):
        if name not in rows.columns:
            raise PipelineError(
                f"subscriptions have the columns id and where, and may have language and subscriber; {name} is not "
                f"among {', '.join(rows.columns)}"
            )
    is_json = isinstance(rows.schema["where"].dataType, StructType | MapType | ArrayType)
    where = sql.to_json("where") if is_json else sql.col("where").cast("string")
    return rows.select(
        sql.monotonically_increasing_id().alias("number"),
        sql.col("id").cast("string").alias("id"),
        where.alias("where"),
        sql.lit(is_json).alias("is_json"),
        (sql.col("language") if "language" in rows.columns else sql.lit("sql")).cast("string").alias("language"),
        (sql.col("subscriber") if "subscriber" in rows.columns else sql.lit(None)).cast("string").alias("subscriber"),
        sql.lit(_session_zone(rows)).alias("timezone"),
    )


def _session_zone(rows: DataFrame) -> str:
    return str(rows.sparkSession.conf.get("spark.sql.session.timeZone"))


def read_rows(table: pa.Table | pa.RecordBatch, refused: list[Refused] | None = None) -> Iterator[Subscription]:
    """The subscriptions of rows of `SCHEMA`; of those that are none, the reason."""
    columns = [table.column(name).to_pylist() for name in SCHEMA.names[1:]]
    for id, where, is_json, language, subscriber, timezone in zip(*columns, strict=True):
        try:
            if id is None or where is None:
                raise InvalidSubscription(id or "without an id", f"there is no {'id' if id is None else 'where'!r}")
            condition = json.loads(where) if is_json else where
            yield Subscription(id, condition, language or "sql", subscriber, {}, timezone)
        except InvalidSubscription as error:
            if refused is not None:
                refused.append(Refused(id, error.reason))


def _row(number: int, subscription: Subscription) -> Mapping[str, Any]:
    where = subscription.where
    if isinstance(where, Filter):
        where = str(where)
    is_json = not isinstance(where, str)
    return {
        "number": number,
        "id": subscription.id,
        "where": json.dumps(where, ensure_ascii=False) if is_json else where,
        "is_json": is_json,
        "language": subscription.language,
        "subscriber": subscription.subscriber,
        "timezone": zone_of(subscription),
    }


_EXAMINED: Final = (
    "id string, reason string, count long, attributes array<string>, reads_whole_events boolean, "
    "has_subscribers boolean"
)


def palio_examine(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """A row for each subscription that cannot be used, and one for all others of the partition."""
    count, whole, subscribers = 0, False, False
    attributes: set[str] = set()
    for batch in batches:
        refused: list[Refused] = []
        for subscription in read_rows(batch, refused):
            filter = _filter(subscription, refused)
            if filter is None:
                continue
            count += 1
            subscribers = subscribers or subscription.subscriber is not None
            whole = whole or filter.reads_whole_event
            attributes |= filter.attributes
        if refused:
            yield _examined([each.id for each in refused], [each.reason for each in refused])
    yield _examined([None], [None], count, sorted(attributes), whole, subscribers)


def _filter(subscription: Subscription, refused: list[Refused]) -> Filter | None:
    """What a subscription asks for; None where it cannot be used."""
    try:
        return subscription.filter
    except PalioError as error:
        cause = error.__cause__
        refused.append(Refused(subscription.id, str(cause if isinstance(cause, PalioError) else error)))
        return None


def _examined(
    ids: Sequence[str | None],
    reasons: Sequence[str | None],
    count: int = 0,
    attributes: Sequence[str] = (),
    whole: bool = False,
    subscribers: bool = False,
) -> pa.RecordBatch:
    size = len(ids)
    columns = [
        pa.array(ids, pa.string()),
        pa.array(reasons, pa.string()),
        pa.array([count] * size, pa.int64()),
        pa.array([attributes] * size, pa.list_(pa.string())),
        pa.array([whole] * size),
        pa.array([subscribers] * size),
    ]
    names = ["id", "reason", "count", "attributes", "reads_whole_events", "has_subscribers"]
    return pa.RecordBatch.from_arrays(columns, names)


def _report(refused: Sequence[Refused], on_error: OnError) -> None:
    if refused and on_error == "fail":
        first, more = refused[0], len(refused) - 1
        rest = f" (and {more:,} more)" if more else ""
        raise InvalidSubscription(first.id or "without an id", first.reason + rest)
    for each in refused:
        _log.warning("subscription %s is left out: %s", each.id, each.reason)


def _first_of_each(rows: DataFrame) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    first = Window.partitionBy("id").orderBy("number")
    return rows.withColumn("place", sql.row_number().over(first)).where("place = 1").drop("place")


def _sample(rows: DataFrame) -> Iterator[Subscription]:
    """Some of the subscriptions that can be used, always the same ones."""
    from pyspark.sql import functions as sql

    taken = rows.orderBy(sql.xxhash64("id"), "number").limit(_SAMPLE).toArrow()
    return usable(read_rows(taken))


def usable(subscriptions: Iterable[Subscription]) -> Iterator[Subscription]:
    """Those that can be used; of several with one id the first."""
    seen: set[str] = set()
    for each in subscriptions:
        if each.id not in seen and _filter(each, []) is not None:
            seen.add(each.id)
            yield each
