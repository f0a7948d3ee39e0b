"""The rendezvous plan of `match`: two sides, keyed, through one shuffle, to where their buckets are.

    subscriptions ─ palio_rendezvous_subscriptions ─┐
                                                    ├─ union ─ a partition for each bucket ─ palio_rendezvous_pairs
    events ──────── palio_rendezvous_<mapping> ─────┘

Subscriptions come first in each partition, so that only they are held in memory, and events stream past them.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from palio.errors import PalioError, PipelineError
from palio.peers.mappings import alternatives
from palio.spark.columns import Needed, column
from palio.spark.counting import matches_counter
from palio.spark.readable import readable
from palio.spark.rendezvous.choosing import Choice
from palio.spark.rendezvous.identity import digest
from palio.spark.rendezvous.indexing import RANGES
from palio.spark.rendezvous.keying import BatchKeys
from palio.spark.rendezvous.meeting import (
    EVENT,
    SUBSCRIPTION,
    Columns,
    Meeting,
    palio_rendezvous_lists,
    palio_rendezvous_pairs,
)
from palio.spark.rendezvous.rows import SCHEMA, SubscriptionRows, read_rows
from palio.spark.worker import Output, is_flat, lists, named, read_events

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql.types import StructField


_NOT_IN_ARROW: Final = ("interval year", "interval month", "calendarinterval")


@dataclass(frozen=True)
class Sides:
    """Both sides of a rendezvous: events with the columns that are looked at and kept, and subscriptions."""

    events: DataFrame
    needed: Needed
    kept: tuple[str, ...]
    subscriptions: SubscriptionRows
    choice: Choice


def rendezvous(sides: Sides, output: Output, fields: Sequence[StructField], per_event: bool) -> DataFrame:
    """Who wants which event: `fields` are the columns that the answer has."""
    from pyspark.sql import functions as sql
    from pyspark.sql.types import StructType

    events, subscriptions = _events(sides, per_event), _subscriptions(sides)
    both = _union(subscriptions, events)
    met = both.repartitionById(sides.choice.placement.buckets, sql.expr("place DIV 2").cast("int"))
    met = met.sortWithinPartitions("place")
    columns = Columns(sides.needed.attributes, sides.needed.json, sides.kept)
    meeting = Meeting(columns, output, matches_counter())
    if not per_event:
        return met.mapInArrow(
            named(partial(palio_rendezvous_pairs, meeting), "palio_rendezvous_pairs"), StructType([*fields])
        )
    return _gathered(met, meeting, fields[-1])


def _gathered(met: DataFrame, meeting: Meeting, answer: StructField) -> DataFrame:
    """What the buckets of an event found, together."""
    from pyspark.sql import functions as sql
    from pyspark.sql.types import StructType

    schema = StructType([met.schema["row"], met.schema["keep"], answer])
    run = named(partial(palio_rendezvous_lists, meeting), "palio_rendezvous_lists")
    # Of events with the same content each is kept, and each has found the same.
    found = met.mapInArrow(run, schema).groupBy("row").agg(
        sql.first("keep", ignorenulls=True).alias("keep"),
        sql.count("keep").cast("int").alias("copies"),
        sql.array_distinct(sql.flatten(sql.collect_list(answer.name))).alias(answer.name),
    )  # fmt: skip
    each = found.select("keep", answer.name, sql.explode(sql.sequence(sql.lit(1), "copies")))
    kept = [sql.col(f"keep.k{place}").alias(name) for place, name in enumerate(meeting.columns.kept)]
    return each.select(*kept, sql.col(answer.name))


def _events(sides: Sides, per_event: bool) -> DataFrame:
    """A row for each event and bucket: the bucket, all buckets, what is looked at, what is kept."""
    from pyspark.sql import functions as sql

    events, needed = sides.events, sides.needed
    looked_at = [column.alias(f"c{place}") for place, column in enumerate(needed.all_columns)]
    kept = [column(name).alias(f"k{place}") for place, name in enumerate(sides.kept)]
    keep = sql.struct(*kept, *([] if kept else [sql.lit(True).alias("nothing")]))
    keyed = events.select(
        sql.struct(*looked_at).alias("event"),
        keep.alias("keep"),
        _bucket_function(sides, per_event)(*needed.all_columns).alias("buckets"),
    )
    content = [(sql.col(name), keyed.schema[name].dataType) for name in ("event", "keep")]
    row = digest(content) if per_event else sql.lit(0)
    copied = keyed.select("*", row.alias("row"), sql.explode("buckets").alias("bucket"))
    keep = sql.col("keep")
    if per_event:
        # What is kept goes to the first bucket alone.
        keep = sql.when(sql.col("bucket") == sql.element_at("buckets", 1), keep)
    place = (sql.col("bucket") * 2 + EVENT).alias("place")
    return copied.select(place, "buckets", "row", "event", keep.alias("keep"))


def _bucket_function(sides: Sides, per_event: bool) -> Any:
    """The function of columns that gives the buckets of each row, in order."""
    from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]
    from pyspark.sql.types import ArrayType, IntegerType

    mapping, placement = sides.choice.mapping, sides.choice.placement
    attributes, json = sides.needed.attributes, sides.needed.json
    made: list[BatchKeys] = []

    def buckets(*columns: pa.Array) -> pa.Array:
        if not made:
            made.append(BatchKeys(mapping))
        count = len(columns[0])
        batch = readable(pa.RecordBatch.from_arrays(list(columns), [*attributes, *json]))
        if is_flat(batch, json):
            keyed = made[0].of_columns(dict(zip(attributes, batch.columns, strict=True)), count)
        else:
            keyed = made[0].of_events(read_events(batch, json))
        rows, found = placement.of_events(keyed, count, all_somewhere=per_event)
        return lists(rows, pa.array(found), count)

    buckets.__name__ = buckets.__qualname__ = f"palio_rendezvous_{mapping.name.replace('-', '_')}"
    # Spark looks at the types themselves, not at their names.
    buckets.__annotations__ = {"columns": pa.Array, "return": pa.Array}
    # Called deterministic, it would be computed twice: once to see whether there is anything to explode.
    return arrow_udf(buckets, ArrayType(IntegerType())).asNondeterministic()


def _subscriptions(sides: Sides) -> DataFrame:
    """A row for each subscription and bucket: the bucket, all buckets as ranges, and the subscription."""
    from pyspark.sql import functions as sql

    frame = sides.subscriptions.frame
    own = ", ".join(f"`{field.name}` {field.dataType.simpleString()}" for field in frame.schema.fields)
    run = named(partial(_keyed_subscriptions, sides.choice), "palio_rendezvous_subscriptions")
    keyed = frame.mapInArrow(run, f"place int, {own}, {RANGES} array<int>")
    fields = [sql.col(f"`{name}`") for name in (*SCHEMA.names, RANGES)]
    return keyed.select("place", sql.struct(*fields).alias("subscription"))


def _keyed_subscriptions(choice: Choice, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        rows: list[int] = []
        places: list[int] = []
        ranges: list[list[int]] = []
        for row, subscription in enumerate(read_rows(batch)):
            try:
                arcs = choice.mapping.subscription_keys(alternatives(subscription.filter))
            except PalioError:
                continue  # it was reported when subscriptions were looked through
            found = choice.placement.of_subscription(arcs, subscription.id)
            flat = [end for each in found for end in each]
            for first, last in found:
                places += [2 * bucket + SUBSCRIPTION for bucket in range(first, last + 1)]
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


def check_kept(events: DataFrame, kept: Sequence[str]) -> None:
    """Refuse to keep a column of a type that Spark does not hand to Python, through which all that is kept goes."""
    for name in kept:
        kind = events.schema[name].dataType.simpleString()
        if any(word in kind for word in _NOT_IN_ARROW):
            raise PipelineError(
                f"the column {name} is of the type {kind}, which Spark does not hand to Python, so the rendezvous plan "
                "cannot keep it; name the columns to keep"
            )
