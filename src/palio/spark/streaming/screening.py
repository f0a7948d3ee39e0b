"""Which events are not matched but put aside, and why: those that came too late, and those that say nothing sensible.

Whether an event is late is judged by what was seen in the batches before, not by the clock, and the latest time seen is
written down with each batch, so that a batch that is run again judges as it did. A time in the future counts as now:
one wrong clock must not make everybody else late.

What Spark cannot compute for one event, a cast of a text that is no number, say, is a reason to put that event aside,
never to end the stream: it would end with the same event again at every start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Final

import pyarrow as pa

from palio.errors import EventError, PipelineError
from palio.events import DEFAULT_LIMITS
from palio.events.flatten import flatten
from palio.events.json import parse_value
from palio.spark.columns import column

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

REASON: Final = "palio_reason"
_CORRUPT: Final = "spark.sql.columnNameOfCorruptRecord"
_HOLDS: Final = b"true"


@dataclass(frozen=True)
class Screening:
    """What is asked of events: a time that is not too late, JSON that can be read, conditions that must not hold."""

    event_time: str | None = None
    lateness: timedelta | None = None
    malformed: Mapping[str, str] | None = None
    json: Sequence[str] = ()

    def check(self, events: DataFrame) -> None:
        """Whether this can be asked of such events."""
        if self.lateness is not None and self.event_time is None:
            raise PipelineError("to tell late events, say which column is the time of an event: event_time=…")
        if self.event_time is not None and self.event_time not in events.columns:
            raise PipelineError(f"there is no column {self.event_time}; there are {', '.join(events.columns)}")
        if REASON in events.columns:
            raise PipelineError(f"the events have a column {REASON} already, where the reason goes; rename it")
        self.screened(events, 0)  # a condition that Spark cannot read is found now, not with the first batch

    def screened(self, events: DataFrame, latest: int | None) -> DataFrame:
        """The events with the reason why each is put aside, null for most; `latest` as `Progress` has it."""
        from pyspark.sql import functions as sql

        reasons = [*self._malformed(events), *self._late(latest)]
        return events.withColumn(REASON, sql.coalesce(*reasons, sql.lit(None).cast("string")))

    def latest(self) -> Column:
        """The latest time among events, in microseconds."""
        from pyspark.sql import functions as sql

        return sql.max(sql.lit(None).cast("long") if self.event_time is None else _micros(self.event_time))

    def _malformed(self, events: DataFrame) -> list[Column]:
        from pyspark.sql import functions as sql

        reasons = []
        corrupt = str(events.sparkSession.conf.get(_CORRUPT))
        if corrupt in events.columns:  # first: whatever else is missing is missing because of this
            reasons.append(sql.when(column(corrupt).isNotNull(), sql.lit("the record could not be read")))
        for reason, condition in (self.malformed or {}).items():
            judged = _judged(sql.expr(condition))
            reasons.append(sql.when(judged == sql.lit(_HOLDS), sql.lit(reason)))
            reasons.append(sql.when(judged.isNull(), sql.lit(f"{reason}: this cannot be computed for the event")))
        if self.event_time is not None:
            reasons.append(sql.when(column(self.event_time).isNull(), sql.lit(f"{self.event_time} is missing")))
            reasons.append(sql.when(_micros(self.event_time).isNull(), sql.lit(f"{self.event_time} is no time")))
        return reasons + [_no_json(name) for name in self.json]

    def _late(self, latest: int | None) -> list[Column]:
        from pyspark.sql import functions as sql

        if self.event_time is None or self.lateness is None or latest is None:
            return []
        limit = latest - int(self.lateness / timedelta(microseconds=1))
        late = _micros(self.event_time) < sql.lit(limit)
        return [sql.when(late, sql.lit(f"late: more than {self.lateness} behind {_shown(latest)}"))]


def _micros(name: str) -> Column:
    """The time of an event in microseconds; null where there is none, and where a text is no time."""
    from pyspark.sql import functions as sql

    return sql.unix_micros(column(name).try_cast("timestamp"))


def _judged(condition: Column) -> Column:
    """Whether a condition holds: `_HOLDS`, something else, or null where Spark cannot compute it for an event."""
    from pyspark.sql import functions as sql

    # Spark has no `try` for any expression, but what `try_to_binary` is given is computed within its own.
    tried = sql.try_to_binary(sql.when(condition, sql.lit("true")).otherwise(sql.lit("false")), sql.lit("utf-8"))
    # Spark would compute what a condition says twice before all else, and outside: but not what a CASE may not need.
    return sql.when(sql.spark_partition_id() >= 0, tried)


def _shown(micros: int) -> str:
    try:
        return datetime.fromtimestamp(micros / 1e6, UTC).isoformat(sep=" ", timespec="seconds")
    except ValueError:  # of Python; Spark has years before 1
        return "a year before 1"


def _no_json(name: str) -> Column:
    """The reason why a text is no JSON object that can be an event's; judged as the matcher judges."""
    from pyspark.sql.functions import arrow_udf  # type: ignore[attr-defined]
    from pyspark.sql.types import StringType

    def palio_json_fault(texts: pa.Array) -> pa.Array:
        return pa.array([_fault(name, text) for text in texts.to_pylist()], pa.string())

    # Spark looks at the types themselves, not at their names.
    palio_json_fault.__annotations__ = {"texts": pa.Array, "return": pa.Array}
    found: Column = arrow_udf(palio_json_fault, StringType())(column(name))
    return found


def _fault(name: str, text: str | None) -> str | None:
    if text is None:
        return f"{name} is missing"
    try:
        value = parse_value(text, DEFAULT_LIMITS)
        if not isinstance(value, dict):
            return f"{name} is no JSON object"
        flatten({name: value}, DEFAULT_LIMITS)
    except EventError as error:
        return f"{name}: {error}"
    return None
