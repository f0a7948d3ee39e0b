"""Listener that brings the result of a batch together with Spark's progress report of the batch.

`StreamingQueryProgress` has what Spark measures, and `observedMetrics` of what is in the plan of the query. A stream of
Palio's matches within `foreachBatch`, from where nothing reaches that report, so its version, matches and lag are in
the commit journal. The number of the batch joins the two: a batch is in the journal before Spark reports it.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec
from pyspark.sql.streaming.listener import StreamingQueryListener

from palio.spark.storage import absolute
from palio.spark.streaming.commit_journal import Journal, Progress

if TYPE_CHECKING:
    from pyspark.sql.streaming.listener import (
        QueryIdleEvent,
        QueryProgressEvent,
        QueryStartedEvent,
        QueryTerminatedEvent,
        StreamingQueryProgress,
    )


class ProgressListener(StreamingQueryListener):
    """Calls `on_batch` with Spark's progress and Palio's result after each batch of the stream with this checkpoint.

    Register it before the stream starts: `spark.streams.addListener(listener)`. Through Spark Connect it is called at
    the client, from where the checkpoint must be readable. The call is asynchronous, as that of every listener.
    """

    def __init__(self, checkpoint: str | Path, on_batch: Callable[[StreamingQueryProgress, Progress], object]) -> None:
        self._journal = Journal(absolute(checkpoint))
        self._on_batch = on_batch
        self._query: str | None = None

    def onQueryProgress(self, event: QueryProgressEvent) -> None:  # noqa: N802
        """Spark calls this for every query of the session."""
        if str(event.progress.id) != self._query_id():
            return
        result = self._journal.done(event.progress.batchId)
        if result is not None:
            self._on_batch(event.progress, result)

    def _query_id(self) -> str | None:
        """The id of the query, which Spark keeps in its checkpoint; None before its first start."""
        if self._query is None:
            with suppress(FileNotFoundError):
                self._query = str(msgspec.json.decode(self._journal.read_file("metadata"))["id"])
        return self._query

    def onQueryStarted(self, event: QueryStartedEvent) -> None:  # noqa: N802
        """Nothing is known of a query that has run no batch."""

    def onQueryIdle(self, event: QueryIdleEvent) -> None:  # noqa: N802
        """An idle query has run no batch."""

    def onQueryTerminated(self, event: QueryTerminatedEvent) -> None:  # noqa: N802
        """The last batch was reported before."""
