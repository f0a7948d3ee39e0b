"""What a job is like: a sample of its events and subscriptions, and how many buckets they need."""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from palio.errors import PipelineError
from palio.spark.columns import Needed
from palio.spark.readable import readable
from palio.spark.rendezvous.choosing import Choice, Samples, choose
from palio.spark.rendezvous.rows import SubscriptionRows
from palio.spark.shared_index import is_connect
from palio.spark.worker import is_flat, read_events

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_log = logging.getLogger("palio.spark")

_HEAD: Final = 256  # rows of each partition that events are sampled from
_SAMPLED: Final = 4_096  # of which so many are looked at
_MOST_IN_BUCKET: Final = 250_000  # subscriptions; building an index takes several times its size
_UNKNOWN_CORES: Final = 8
_WORTH_A_BUCKET: Final = 5_000  # subscriptions, below which another bucket is more trouble than help


@dataclass(frozen=True)
class Rendezvous:
    """How the rendezvous plan is carried out, where that is not left to Palio.

    `mapping` is one of `palio.spark.rendezvous.choosing.MAPPINGS`; `buckets` is about how many there are, each a
    partition of the shuffle.
    """

    mapping: str | None = None
    buckets: int | None = None

    def __post_init__(self) -> None:
        if self.buckets is not None and self.buckets < 1:
            raise PipelineError(f"there is at least one bucket, not {self.buckets}")


def choose_for(
    events: DataFrame, needed: Needed, subscriptions: SubscriptionRows, options: Rendezvous, memory: int
) -> Choice:
    """The mapping and the buckets for a job, from a sample of each side; looks at the beginning of every partition."""
    bytes_each = max(1.0, subscriptions.bytes_each)
    most = max(1, min(_MOST_IN_BUCKET, int(memory / bytes_each)))
    buckets = options.buckets or _buckets(events.sparkSession, subscriptions.count, most)
    samples = sample(events, needed, subscriptions)
    choice = choose(samples, subscriptions.count, buckets, most, options.mapping)
    _log.info("rendezvous by %s", choice)
    return choice


def _buckets(spark: SparkSession, count: int, most: int) -> int:
    """As many as memory asks for; more where there are cores and subscriptions for them."""
    parallel = int(str(spark.conf.get("spark.sql.shuffle.partitions")))
    return max(ceil(2 * count / most), min(parallel, ceil(count / _WORTH_A_BUCKET)), 1)


def slots(spark: SparkSession) -> int:
    """How many tasks an executor runs at a time, and so how many buckets it holds."""
    given = spark.conf.get("spark.executor.cores", None)
    if given is not None:
        return max(1, int(str(given)))
    master = "" if is_connect(spark) else spark.sparkContext.master or ""
    if not master.startswith("local"):
        # A standalone cluster gives an executor all cores of its machine, and does not say how many these are.
        return _UNKNOWN_CORES
    threads = master.partition("[")[2].partition("]")[0].partition(",")[0] or "1"
    return (os.cpu_count() or 1) if threads == "*" else int(threads)


def sample(events: DataFrame, needed: Needed, subscriptions: SubscriptionRows) -> Samples:
    """Some of the events and of the subscriptions."""
    from pyspark.sql import functions as sql

    looked_at = events.select(*(each.alias(f"c{place}") for place, each in enumerate(needed.all_columns)))
    heads = looked_at.mapInArrow(palio_rendezvous_sample, looked_at.schema)
    taken = heads.orderBy(sql.rand(seed=1)).limit(_SAMPLED).toArrow()
    whole = [pa.concat_arrays([pa.array([], each.type), *each.chunks]) for each in taken.columns]
    batch = readable(pa.RecordBatch.from_arrays(whole, [*needed.attributes, *needed.json]))
    read = None if is_flat(batch, needed.json) else read_events(batch, needed.json)
    columns = dict(zip(batch.schema.names, batch.columns, strict=True))
    return Samples(subscriptions.sample, columns, batch.num_rows, read)


def palio_rendezvous_sample(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The first rows of a partition."""
    for batch in batches:
        yield batch.slice(0, _HEAD)
        return
