"""Shuffle of the rendezvous plan: both sides keyed, united and partitioned by bucket.

    subscriptions ─ palio_rendezvous_subscriptions ─┐
                                                    ├─ union ─ a partition for each bucket ─ palio_rendezvous_pairs
    events ──────── palio_rendezvous_<mapping> ─────┘

Subscriptions come first in each partition, so that only they are held in memory while events stream past.

With `per_event` the results of an event's buckets are grouped again, by a digest of the event's content. Rejected: a
row number. Spark recomputes the rows of a lost executor, rows that come out of a shuffle may then come in another
order, and their numbers would join them with the results of other rows. Events of equal content match the same
subscriptions, so they share a group and are only counted.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from palio.errors import PalioError, PipelineError
from palio.peers.event_keys import EventKeys
from palio.peers.mapping_choice import MappingChoice
from palio.peers.rendezvous_mappings import alternatives
from palio.spark.projection import Projection, as_column, column
from palio.spark.record_batches import (
    OutputColumns,
    active_match_counter,
    as_arrow_udf,
    counted,
    group_into_lists,
    is_flat,
    read_events,
    sanitize_batch,
    with_plan_name,
)
from palio.spark.rendezvous.bucket_join import (
    EVENT_SIDE,
    RANGES,
    SUBSCRIPTION_SIDE,
    BucketJoin,
    JoinColumns,
    palio_rendezvous_lists,
    palio_rendezvous_pairs,
)
from palio.spark.subscription_frame import CHOSEN, SUBSCRIPTION_SCHEMA, SubscriptionFrame, decode_rows

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import DataType, StructField


# Types that Spark does not convert to Arrow.
_NOT_IN_ARROW: Final = ("interval year", "interval month", "calendarinterval")


@dataclass(frozen=True)
class JoinSides:
    """Both sides of the join, with the choice of mapping and buckets."""

    events: DataFrame
    projection: Projection
    kept: tuple[str, ...]
    subscriptions: SubscriptionFrame
    choice: MappingChoice


def join_by_rendezvous(
    sides: JoinSides, output: OutputColumns, fields: Sequence[StructField], per_event: bool
) -> DataFrame:
    """Join both sides; `fields` are the columns of the result."""
    from pyspark.sql import functions as sql
    from pyspark.sql.types import StructType

    both = _union(_keyed_subscriptions(sides), _keyed_events(sides, per_event))
    # `repartitionById` takes the partition itself, where a hash of the bucket would put several into one partition.
    met = both.repartitionById(sides.choice.placement.buckets, sql.expr("place DIV 2").cast("int"))
    met = met.sortWithinPartitions("place")
    columns = JoinColumns(sides.projection.attributes, sides.projection.json, sides.kept)
    join = BucketJoin(columns, output, active_match_counter())
    if not per_event:
        run = with_plan_name(partial(palio_rendezvous_pairs, join), _plan_name("palio_rendezvous_pairs", sides))
        return met.mapInArrow(run, StructType([*fields]))
    run = with_plan_name(partial(palio_rendezvous_lists, join), _plan_name("palio_rendezvous_lists", sides))
    return _merge_buckets(met, join, run, fields[-1])


def _plan_name(function: str, sides: JoinSides) -> str:
    count, buckets = sides.subscriptions.count, sides.choice.placement.buckets
    return f"{function}[{counted(count, 'subscription')}, {counted(buckets, 'bucket')}]"


def _merge_buckets(met: DataFrame, join: BucketJoin, run: Any, answer: StructField) -> DataFrame:
    """Merge the results of the buckets of an event."""
    from pyspark.sql import functions as sql
    from pyspark.sql.types import StructType

    schema = StructType([met.schema["row"], met.schema["keep"], answer])
    # Events of equal content form one group. Each contributes one non-NULL `keep`, from its first bucket.
    found = met.mapInArrow(run, schema).groupBy("row").agg(
        sql.first("keep", ignorenulls=True).alias("keep"),
        sql.count("keep").cast("int").alias("copies"),
        sql.array_distinct(sql.flatten(sql.collect_list(answer.name))).alias(answer.name),
    )  # fmt: skip
    each = found.select("keep", answer.name, sql.explode(sql.sequence(sql.lit(1), "copies")))
    kept = [sql.col(f"keep.k{place}").alias(name) for place, name in enumerate(join.columns.kept)]
    return each.select(*kept, sql.col(answer.name))


def _keyed_events(sides: JoinSides, per_event: bool) -> DataFrame:
    """One row for each event and bucket: place, all buckets, projection, kept columns."""
    from pyspark.sql import functions as sql

    events, projection = sides.events, sides.projection
    projected = [as_column(each).alias(f"c{place}") for place, each in enumerate(projection.all_columns)]
    kept = [column(name).alias(f"k{place}") for place, name in enumerate(sides.kept)]
    # Spark has no struct without fields.
    keep = sql.struct(*kept, *([] if kept else [sql.lit(True).alias("nothing")]))
    keyed = events.select(
        sql.struct(*projected).alias("event"),
        keep.alias("keep"),
        _bucket_function(sides, per_event)(*projection.all_columns).alias("buckets"),
    )
    content = [(sql.col(name), keyed.schema[name].dataType) for name in ("event", "keep")]
    row = content_digest(content) if per_event else sql.lit(0)
    copied = keyed.select("*", row.alias("row"), sql.explode("buckets").alias("bucket"))
    keep = sql.col("keep")
    if per_event:
        # The kept columns travel to the first bucket only.
        keep = sql.when(sql.col("bucket") == sql.element_at("buckets", 1), keep)
    place = (sql.col("bucket") * 2 + EVENT_SIDE).alias("place")
    return copied.select(place, "buckets", "row", "event", keep.alias("keep"))


def _bucket_function(sides: JoinSides, per_event: bool) -> Any:
    """UDF from the projection to the sorted buckets of each row."""
    from pyspark.sql.types import ArrayType, IntegerType

    mapping, placement = sides.choice.mapping, sides.choice.placement
    attributes, json = sides.projection.attributes, sides.projection.json
    keys: list[EventKeys] = []  # made once in each worker

    def buckets(*columns: pa.Array) -> pa.Array:
        if not keys:
            keys.append(EventKeys(mapping))
        count = len(columns[0])
        batch = sanitize_batch(pa.RecordBatch.from_arrays(list(columns), [*attributes, *json]))
        if is_flat(batch, json):
            keyed = keys[0].of_columns(dict(zip(attributes, batch.columns, strict=True)), count)
        else:
            keyed = keys[0].of_events(read_events(batch, json))
        rows, found = placement.of_events(keyed, count, all_somewhere=per_event)
        return group_into_lists(rows, pa.array(found), count)

    buckets.__name__ = buckets.__qualname__ = f"palio_rendezvous_{mapping.name.replace('-', '_')}"
    # Spark evaluates a deterministic UDF twice here: once more to see whether there is anything to explode.
    return as_arrow_udf(buckets, ArrayType(IntegerType())).asNondeterministic()


def _keyed_subscriptions(sides: JoinSides) -> DataFrame:
    """One row for each subscription and bucket: place, the subscription, and all its buckets as ranges."""
    from pyspark.sql import functions as sql
    from pyspark.sql.types import ArrayType, IntegerType, StructField, StructType

    frame = sides.subscriptions.frame
    own = [StructField(field.name, field.dataType) for field in frame.schema.fields]
    keys = StructField("place", IntegerType()), StructField(RANGES, ArrayType(IntegerType()))
    run = with_plan_name(partial(_key_subscriptions, sides.choice), "palio_rendezvous_subscriptions")
    keyed = frame.mapInArrow(run, StructType([keys[0], *own, keys[1]]))
    chosen = (CHOSEN,) if sides.subscriptions.chosen else ()
    fields = [sql.col(f"`{name}`") for name in (*SUBSCRIPTION_SCHEMA.names, *chosen, RANGES)]
    return keyed.select("place", sql.struct(*fields).alias("subscription"))


def _key_subscriptions(choice: MappingChoice, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows: list[int] = []
        places: list[int] = []
        ranges: list[list[int]] = []
        for row, subscription in enumerate(decode_rows(batch)):
            try:
                arcs = choice.mapping.subscription_keys(alternatives(subscription.filter))
            except PalioError:
                continue  # reported when the frame was inspected
            found = choice.placement.of_subscription(arcs, subscription.id)
            flat = [end for each in found for end in each]
            for first, last in found:
                places += [2 * bucket + SUBSCRIPTION_SIDE for bucket in range(first, last + 1)]
                rows += [row] * (last - first + 1)
                ranges += [flat] * (last - first + 1)
        copied = batch.take(pa.array(rows, pa.int64()))
        columns = [pa.array(places, pa.int32()), *copied.columns, pa.array(ranges, pa.list_(pa.int32()))]
        yield pa.RecordBatch.from_arrays(columns, ["place", *copied.schema.names, RANGES])


def _union(subscriptions: DataFrame, events: DataFrame) -> DataFrame:
    from pyspark.sql import functions as sql

    def columns(own: DataFrame, other: DataFrame) -> list[Column]:
        names = dict.fromkeys([*subscriptions.columns, *events.columns])
        return [
            sql.col(name) if name in own.columns else sql.lit(None).cast(other.schema[name].dataType).alias(name)
            for name in names
        ]

    return subscriptions.select(columns(subscriptions, events)).union(events.select(columns(events, subscriptions)))


def check_kept_types(events: DataFrame, kept: Sequence[str]) -> None:
    """Refuse kept columns of types that Spark cannot pass through Python."""
    for name in kept:
        kind = events.schema[name].dataType.simpleString()
        if any(word in kind for word in _NOT_IN_ARROW):
            raise PipelineError(
                f"the column {name} is of the type {kind}, which Spark does not hand to Python, so the rendezvous plan "
                "cannot keep it; name the columns to keep"
            )


def content_digest(columns: Sequence[tuple[Column, DataType]]) -> Column:
    """A 128-bit digest of the values of columns."""
    from pyspark.sql import functions as sql

    return _hashes(*(_hash_input(column, kind) for column, kind in columns), sql.lit(0))


def _hashes(*columns: Column) -> Column:
    from pyspark.sql import functions as sql

    return sql.struct(sql.xxhash64(*columns).alias("one"), sql.xxhash64(sql.lit(1), *columns).alias("other"))


def _hash_input(column: Column, kind: DataType) -> Column:
    """A value in a form in which Spark hashes different values differently.

    Spark's hash skips NULLs and array boundaries, refuses maps, and follows the collation of a string.
    """
    from pyspark.sql import functions as sql
    from pyspark.sql.types import ArrayType, MapType, StringType, StructType, VariantType

    if isinstance(kind, StructType):
        fields = [_hash_input(column.getField(field.name), field.dataType) for field in kind.fields]
        return sql.struct(column.isNull(), *fields)
    if isinstance(kind, ArrayType):
        inner = kind.elementType
        return sql.struct(_length(column), sql.transform(column, lambda each: _hash_input(each, inner)))
    if isinstance(kind, MapType):
        entries = sql.transform(
            sql.map_entries(column),
            lambda each: _hashes(
                _hash_input(each.getField("key"), kind.keyType), _hash_input(each.getField("value"), kind.valueType)
            ),
        )
        return sql.struct(_length(column), sql.array_sort(entries))
    if isinstance(kind, VariantType):
        column = sql.to_json(column)
    elif isinstance(kind, StringType):
        column = column.cast("binary")
    return sql.struct(column.isNull(), column)


def _length(column: Column) -> Column:
    from pyspark.sql import functions as sql

    return sql.coalesce(sql.when(column.isNotNull(), sql.size(column)), sql.lit(-1))
