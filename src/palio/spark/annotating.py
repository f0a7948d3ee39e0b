"""`annotate`: the answer is attached to the event, so that whoever passes it on need not match again.

Content is examined once, at the edge, and a Spark job is a very large edge. What the answer is written as is the
`Header`'s to say. For a broker it is a `BrokerHeader`: the job matches events against what that broker knew when it
gave its `EntryTable`, and the broker need not look at their content when they come.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from palio.errors import PipelineError
from palio.matching.matcher import Matcher
from palio.routing.forwarding.annotated import EntryTable
from palio.spark.matching import needed_for
from palio.spark.shared_index import SharedIndex
from palio.spark.wants import OnError, Wants
from palio.spark.worker import Finder, Found, lists

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Header(Protocol):
    """A way to write down who wants an event. It travels to the workers."""

    @property
    def type(self) -> str:
        """Spark's type of the column."""
        ...

    def write(self, found: Found, count: int, matcher: Matcher) -> pa.Array:
        """The headers of so many events, from the rows and numbers of the matches, in the order of the rows."""
        ...


class Subscribers:
    """The subscribers who want an event, each once, in order; a subscription that has none is told by its id."""

    type = "array<string>"

    def write(self, found: Found, count: int, matcher: Matcher) -> pa.Array:
        rows, numbers = found
        at = pa.array(numbers)
        who = pc.coalesce(matcher.numbered_subscribers().take(at), matcher.numbered_ids().take(at))
        names, places = np.unique(np.array(who.to_pylist(), object), return_inverse=True)
        pairs = np.unique(np.stack([rows, places], axis=1), axis=0)
        return lists(pairs[:, 0], pa.array(names[pairs[:, 1]], pa.string()), count)


class BrokerHeader:
    """Headers as brokers write them, for the one whose table it is; what a client sends along with the event."""

    type = "binary"

    def __init__(self, table: EntryTable) -> None:
        self._writer = table.writer  # without the filters, which the workers have in the index

    def write(self, found: Found, count: int, matcher: Matcher) -> pa.Array:
        return self._writer.write(*found, count)


def annotate(
    events: DataFrame,
    subscriptions: Any,
    header: Header | None = None,
    *,
    name: str = "header",
    json: Sequence[str] = (),
    on_error: OnError = "quarantine",
) -> DataFrame:
    """The events with one more column: who wants each, written as a header says, by default as `Subscribers`.

    With a broker's `EntryTable` for subscriptions the column has the headers that this broker would write.
    """
    from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]

    if name.lower() in (each.lower() for each in events.columns):
        raise PipelineError(f"the events have a column {name} already; choose another name=")
    kind: Header
    if isinstance(subscriptions, EntryTable):
        kind = header or BrokerHeader(subscriptions)
        wants = Wants(subscriptions.matcher())
    else:
        kind = header or Subscribers()
        wants = Wants.read(events.sparkSession, subscriptions, on_error=on_error)
    needed = needed_for(events, wants.matcher, json)
    finder = Finder(wants.index or SharedIndex.publish(events.sparkSession, wants.matcher), needed.json)
    names = [*needed.attributes, *needed.json]

    def palio_annotate(*columns: pa.Array) -> pa.Array:
        batch = pa.RecordBatch.from_arrays(list(columns), names)
        return kind.write(finder.find(batch), batch.num_rows, finder.index.open())

    # Spark looks at the types themselves, not at their names.
    palio_annotate.__annotations__ = {"columns": pa.Array, "return": pa.Array}
    return events.withColumn(name, arrow_udf(palio_annotate, kind.type)(*needed.all_columns))
