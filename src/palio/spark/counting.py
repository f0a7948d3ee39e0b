"""How many matches has a job found so far? For whoever watches it.

Tasks tell when they are done, through an accumulator of Spark's; one that is run again tells again, so this is for
progress, and never for the result. Spark Connect has no accumulators.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, TypeAlias

from palio.spark.shared_index import is_connect

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import SparkSession

    Counter: TypeAlias = Accumulator[int]

_counter: ContextVar[Counter | None] = ContextVar("matches", default=None)


@contextmanager
def counting_matches(spark: SparkSession) -> Iterator[Counter | None]:
    """What is matched by jobs that are planned within this is counted, where the session can."""
    counter = None if is_connect(spark) else spark.sparkContext.accumulator(0)
    token = _counter.set(counter)
    try:
        yield counter
    finally:
        _counter.reset(token)


def matches_counter() -> Counter | None:
    """What a job that is planned now counts its matches with, if anybody watches."""
    return _counter.get()
