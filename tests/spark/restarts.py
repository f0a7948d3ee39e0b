"""Streaming queries that survive a slow start of Spark's Python workers, as a supervised query does."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from palio.spark.streaming.stream import MAX_START_ATTEMPTS, is_worker_timeout

if TYPE_CHECKING:
    from pyspark.sql.streaming.query import StreamingQuery


def run_to_end(start: Callable[[], StreamingQuery]) -> None:
    """Run a query to its end; again where Spark gave up on its worker after ten seconds, too few on a busy machine."""
    from pyspark.errors import StreamingQueryException

    for attempt in range(1, MAX_START_ATTEMPTS + 1):
        try:
            start().awaitTermination()
            return
        except StreamingQueryException as error:
            if not is_worker_timeout(str(error)) or attempt == MAX_START_ATTEMPTS:
                raise
