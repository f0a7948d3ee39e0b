"""Subscriptions as a DataFrame, for jobs whose subscriptions do not fit into the driver.

A DataFrame or table is inspected on the cluster; unusable subscriptions are reported and left out. Subscriptions that
the driver holds already, from a file or a matcher, are sent out again.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from palio.errors import InvalidSubscription, PalioError
from palio.filters.filter import Filter
from palio.matching.matcher import Matcher
from palio.matching.subscription import Subscription
from palio.spark.attributes import is_case_sensitive
from palio.spark.projection import column, session_zone, subscription_zone
from palio.spark.record_batches import metadata_columns
from palio.spark.subscription_columns import as_text, choose_from_schema, choose_from_values, resolve_columns
from palio.spark.subscriptions import UTC_NAMES, OnError, Refused, Wants, plain_zone, refusal_reason, report_refused

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructField, StructType

    from palio.spark.implicit_casts import ImplicitCasts

SUBSCRIPTION_SCHEMA: Final = pa.schema(
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
CHOSEN: Final = "chosen"
_SAMPLE_SUBSCRIPTIONS: Final = 4_096
_log = logging.getLogger("palio.spark")


@dataclass(frozen=True)
class SubscriptionFrame:
    """The subscriptions of a job as a DataFrame of `SUBSCRIPTION_SCHEMA`, with a sample and the refused ones.

    `numbered` is set where the numbers are those of a matcher; only those may appear in results.
    """

    frame: DataFrame
    count: int
    sample: tuple[Subscription, ...]
    attributes: frozenset[str]
    reads_whole_events: bool
    has_subscribers: bool
    zones: frozenset[str]
    """Time zones of literals without one."""
    refused: tuple[Refused, ...] = ()
    numbered: bool = False
    schema: StructType | None = None
    """The schema of the DataFrame that they came from, if any."""
    chosen: tuple[StructField, ...] = ()
    """The fields of the struct `CHOSEN` in each row: columns of subscriptions for the matches."""

    @property
    def bytes_each(self) -> float:
        """Bytes of a subscription in an index, measured on the sample."""
        if not self.sample:
            return 0.0
        matcher = Matcher()
        matcher.add_subscriptions(self.sample)
        return index_bytes(matcher) / len(self.sample)


def index_bytes(matcher: Matcher) -> int:
    """The memory of a matcher on an executor: the index, ids and texts."""
    found = matcher.statistics()
    return found.index_bytes + found.beside_bytes


def choose_columns(wants: Wants, names: Sequence[str], case_sensitive: bool) -> tuple[StructField, ...]:
    """The fields of chosen columns of subscriptions that the driver has indexed."""
    if wants.schema is None:
        return choose_from_values(wants.matcher, names, case_sensitive)
    return choose_from_schema(wants.schema, names, case_sensitive)


def from_wants(spark: SparkSession, wants: Wants, columns: Sequence[str] = ()) -> SubscriptionFrame:
    """The frame of subscriptions that the driver has indexed, with these columns of theirs."""
    matcher = wants.matcher
    chosen = choose_columns(wants, columns, is_case_sensitive(spark))
    subscriptions = [matcher[id] for id in matcher]
    ids = matcher.numbered_ids().to_pylist()
    # `numbered_ids` has the ids of removed subscriptions, too.
    numbers = {id: number for number, id in enumerate(ids) if id in matcher}
    table = pa.Table.from_pylist([_row(numbers[each.id], each) for each in subscriptions], SUBSCRIPTION_SCHEMA)
    if chosen:
        values = pa.StructArray.from_arrays(metadata_columns(matcher, chosen), [field.name for field in chosen])
        table = table.append_column(CHOSEN, values.take(table["number"].combine_chunks()))
    step = max(1, len(subscriptions) // _SAMPLE_SUBSCRIPTIONS)
    return SubscriptionFrame(
        spark.createDataFrame(table),
        len(subscriptions),
        tuple(subscriptions[::step][:_SAMPLE_SUBSCRIPTIONS]),
        matcher.attributes,
        matcher.reads_whole_events,
        bool(wants.subscribers),
        frozenset(map(subscription_zone, subscriptions)),
        wants.refused,
        numbered=True,
        schema=wants.schema,
        chosen=chosen,
    )


def from_frame(
    rows: DataFrame, on_error: OnError, casts: ImplicitCasts | None = None, columns: Sequence[str] = ()
) -> SubscriptionFrame:
    """The frame of a DataFrame with the columns `id` and `where`; inspects all rows once, on the cluster."""
    rows = resolve_columns(rows)
    chosen = choose_from_schema(rows.schema, columns, is_case_sensitive(rows.sparkSession))
    frame = normalize(rows, chosen)
    if casts is not None:
        frame = frame.mapInArrow(casts.apply_to_batches, frame.schema)
    examined = frame.drop(CHOSEN).mapInArrow(palio_examine, _INSPECTION_SCHEMA).toArrow().to_pylist()
    refused = [Refused(row["id"], row["reason"]) for row in examined if row["reason"] is not None]
    # Rows with an unreadable condition stay; `shuffle_plan` skips them when it computes keys.
    usable = frame.where("id IS NOT NULL AND where IS NOT NULL")
    repeated = usable.groupBy("id").count().where("count > 1").toArrow().to_pylist()
    refused += [
        Refused(row["id"], "another subscription has this id") for row in repeated for _ in range(row["count"] - 1)
    ]
    report_refused(refused, on_error)
    if repeated:
        usable = _first_of_each(usable)
    found = [row for row in examined if row["reason"] is None]
    count = sum(row["count"] for row in found) - sum(row["count"] - 1 for row in repeated)
    return SubscriptionFrame(
        usable,
        count,
        tuple(_sample(usable.drop(CHOSEN))),
        frozenset(name for row in found for name in row["attributes"]),
        any(row["reads_whole_events"] for row in found),
        any(row["has_subscribers"] for row in found),
        frozenset(zone for row in found for zone in row["zones"]),
        tuple(refused),
        schema=rows.schema,
        chosen=chosen,
    )


def normalize(rows: DataFrame, chosen: Sequence[StructField] = ()) -> DataFrame:
    """Convert a DataFrame of subscriptions to `SUBSCRIPTION_SCHEMA`; the numbers only keep its order."""
    from pyspark.sql import functions as sql
    from pyspark.sql.types import ArrayType, MapType, StructType

    rows = resolve_columns(rows)
    further = [sql.struct(*(column(field.name) for field in chosen)).alias(CHOSEN)] if chosen else []
    nothing = sql.lit(None).cast("string")
    is_json = isinstance(rows.schema["where"].dataType, StructType | MapType | ArrayType)
    where = sql.to_json("where") if is_json else sql.col("where").cast("string")
    return rows.select(
        # Not consecutive, but without a pass over the rows.
        sql.monotonically_increasing_id().alias("number"),
        as_text(rows, "id"),
        where.alias("where"),
        sql.lit(is_json).alias("is_json"),
        as_text(rows, "language") if "language" in rows.columns else sql.lit("sql").alias("language"),
        as_text(rows, "subscriber") if "subscriber" in rows.columns else nothing.alias("subscriber"),
        _zone_column(rows).alias("timezone"),
        *further,
    )


def _zone_column(rows: DataFrame) -> Column:
    """The time zone of each subscription's literals without one: its own, or the session's."""
    from pyspark.sql import functions as sql

    session = sql.lit(plain_zone(session_zone(rows.sparkSession)))
    if "timezone" not in rows.columns:
        return session
    own = sql.nullif(sql.col("timezone").cast("string"), sql.lit(""))
    return sql.when(own.isin(*UTC_NAMES), sql.lit("UTC")).otherwise(sql.coalesce(own, session))


def decode_rows(table: pa.Table | pa.RecordBatch, refused: list[Refused] | None = None) -> Iterator[Subscription]:
    """Decode rows of `SUBSCRIPTION_SCHEMA`; rows that are no subscriptions go to `refused`."""
    columns = [table.column(name).to_pylist() for name in SUBSCRIPTION_SCHEMA.names[1:]]
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
        "timezone": subscription_zone(subscription),
    }


_INSPECTION_SCHEMA: Final = (
    "id string, reason string, count long, attributes array<string>, reads_whole_events boolean, "
    "has_subscribers boolean, zones array<string>"
)


def palio_examine(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """One row for each unusable subscription, and one that summarises all others of the partition."""
    count, whole, subscribers = 0, False, False
    attributes: set[str] = set()
    zones: set[str] = set()
    for batch in batches:
        refused: list[Refused] = []
        for subscription in decode_rows(batch, refused):
            filter = _filter(subscription, refused)
            if filter is None:
                continue
            count += 1
            subscribers = subscribers or subscription.subscriber is not None
            whole = whole or filter.reads_whole_event
            attributes |= filter.attributes
            zones.add(subscription_zone(subscription))
        if refused:
            yield _inspection([each.id for each in refused], [each.reason for each in refused])
    yield _inspection([None], [None], count, sorted(attributes), whole, subscribers, sorted(zones))


def _filter(subscription: Subscription, refused: list[Refused]) -> Filter | None:
    """The filter of a subscription; None where it cannot be used."""
    try:
        return subscription.filter
    except PalioError as error:
        refused.append(Refused(subscription.id, refusal_reason(error)))
        return None


def _inspection(
    ids: Sequence[str | None],
    reasons: Sequence[str | None],
    count: int = 0,
    attributes: Sequence[str] = (),
    whole: bool = False,
    subscribers: bool = False,
    zones: Sequence[str] = (),
) -> pa.RecordBatch:
    size = len(ids)
    columns = [
        pa.array(ids, pa.string()),
        pa.array(reasons, pa.string()),
        pa.array([count] * size, pa.int64()),
        pa.array([attributes] * size, pa.list_(pa.string())),
        pa.array([whole] * size),
        pa.array([subscribers] * size),
        pa.array([zones] * size, pa.list_(pa.string())),
    ]
    names = ["id", "reason", "count", "attributes", "reads_whole_events", "has_subscribers", "zones"]
    return pa.RecordBatch.from_arrays(columns, names)


def _first_of_each(rows: DataFrame) -> DataFrame:
    from pyspark.sql import Window
    from pyspark.sql import functions as sql

    first = Window.partitionBy("id").orderBy("number")
    return rows.withColumn("place", sql.row_number().over(first)).where("place = 1").drop("place")


def _sample(rows: DataFrame) -> Iterator[Subscription]:
    """Sample usable subscriptions, deterministically."""
    from pyspark.sql import functions as sql

    # By a hash of the id: the sample depends neither on partitions nor on the order of rows.
    taken = rows.orderBy(sql.xxhash64("id"), "number").limit(_SAMPLE_SUBSCRIPTIONS).toArrow()
    return drop_unusable(decode_rows(taken))


def drop_unusable(subscriptions: Iterable[Subscription]) -> Iterator[Subscription]:
    """The usable subscriptions; of several with one id the first."""
    seen: set[str] = set()
    for each in subscriptions:
        if each.id not in seen and _filter(each, []) is not None:
            seen.add(each.id)
            yield each
