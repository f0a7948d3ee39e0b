"""Dead letters: screening of late and malformed events before they are matched.

Lateness is judged by the latest event time of earlier batches, not by the clock, and that time is recorded with each
batch, so that a batch that is run again judges alike. A time in the future counts as now: one wrong clock must not make
all other events late.

An event for which Spark cannot compute a condition, such as a cast of a text that is no number, becomes a dead letter.
It must never end the stream, which would meet the same event again at every start.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from palio.errors import EventError, PipelineError
from palio.events import DEFAULT_LIMITS
from palio.events.json import parse_value
from palio.events.nested_content import flatten
from palio.spark.argument_checks import check_duration, check_text
from palio.spark.projection import column
from palio.spark.record_batches import as_arrow_udf

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

REASON_COLUMN: Final = "palio_reason"
_CORRUPT_COLUMN_SETTING: Final = "spark.sql.columnNameOfCorruptRecord"
_HOLDS: Final = b"true"


@dataclass(frozen=True)
class DeadLetterRules:
    """Rules by which events become dead letters: lateness, unreadable JSON, conditions for malformed events."""

    event_time: str | None = None
    lateness: timedelta | None = None
    malformed: Mapping[str, str] | None = None
    json: Sequence[str] = ()

    def check(self, events: DataFrame) -> None:
        """Refuse rules that do not apply to these events."""
        if self.lateness is not None:
            check_duration("lateness", self.lateness)
        if self.malformed is not None:
            _check_conditions(self.malformed)
        if self.lateness is not None and self.event_time is None:
            raise PipelineError("to tell late events, say which column is the time of an event: event_time=…")
        if self.event_time is not None and self.event_time not in events.columns:
            raise PipelineError(f"there is no column {self.event_time}; there are {', '.join(events.columns)}")
        if REASON_COLUMN in events.columns:
            raise PipelineError(f"the events have a column {REASON_COLUMN} already, where the reason goes; rename it")
        self.with_reasons(events, 0)  # reports an unreadable condition now, not with the first batch

    def with_reasons(self, events: DataFrame, latest: int | None) -> DataFrame:
        """The events with the reason of dead letters, NULL for the others; `latest` as in `Progress`."""
        from pyspark.sql import functions as sql

        # The first reason counts; a malformed time is not judged late.
        reasons = [*self._malformed(events), *self._late(latest)]
        return events.withColumn(REASON_COLUMN, sql.coalesce(*reasons, sql.lit(None).cast("string")))

    def latest(self) -> Column:
        """The latest event time, in microseconds."""
        from pyspark.sql import functions as sql

        return sql.max(sql.lit(None).cast("long") if self.event_time is None else _micros(self.event_time))

    def _malformed(self, events: DataFrame) -> list[Column]:
        from pyspark.sql import functions as sql

        reasons = []
        corrupt = str(events.sparkSession.conf.get(_CORRUPT_COLUMN_SETTING))
        if corrupt in events.columns:  # first, because it is the cause of other missing values
            reasons.append(sql.when(column(corrupt).isNotNull(), sql.lit("the record could not be read")))
        for reason, condition in (self.malformed or {}).items():
            judged = _evaluate(sql.expr(condition))
            reasons.append(sql.when(judged == sql.lit(_HOLDS), sql.lit(reason)))
            reasons.append(sql.when(judged.isNull(), sql.lit(f"{reason}: this cannot be computed for the event")))
        if self.event_time is not None:
            reasons.append(sql.when(column(self.event_time).isNull(), sql.lit(f"{self.event_time} is missing")))
            reasons.append(sql.when(_micros(self.event_time).isNull(), sql.lit(f"{self.event_time} is no time")))
        return reasons + [_json_reason(name) for name in self.json]

    def _late(self, latest: int | None) -> list[Column]:
        from pyspark.sql import functions as sql

        if self.event_time is None or self.lateness is None or latest is None:
            return []
        # `latest` is that of earlier batches, so the order of events within a batch does not matter.
        limit = latest - int(self.lateness / timedelta(microseconds=1))
        late = _micros(self.event_time) < sql.lit(limit)
        return [sql.when(late, sql.lit(f"late: more than {self.lateness} behind {_shown(latest)}"))]


def _check_conditions(malformed: Any) -> None:
    if not isinstance(malformed, Mapping):
        raise PipelineError(
            f"malformed is conditions by reasons, {{'no price': 'price IS NULL'}}, not {malformed!r:.80}"
        )
    for reason, condition in malformed.items():
        check_text("a reason in malformed", reason)
        check_text("a condition in malformed", condition)


def _micros(name: str) -> Column:
    """The event time in microseconds; NULL where it is missing or no time."""
    from pyspark.sql import functions as sql

    return sql.unix_micros(column(name).try_cast("timestamp"))


def _evaluate(condition: Column) -> Column:
    """The value of a condition: `_HOLDS`, another value, or NULL where Spark cannot compute it for an event."""
    from pyspark.sql import functions as sql

    # Spark has no general `try`, but evaluates the argument of `try_to_binary` within its own.
    tried = sql.try_to_binary(sql.when(condition, sql.lit("true")).otherwise(sql.lit("false")), sql.lit("utf-8"))
    # Spark would hoist the repeated condition out of the `try`; it does not hoist out of a CASE branch.
    return sql.when(sql.spark_partition_id() >= 0, tried)


def _shown(micros: int) -> str:
    try:
        return datetime.fromtimestamp(micros / 1e6, UTC).isoformat(sep=" ", timespec="seconds")
    except ValueError:  # Python has no years before 1, Spark has
        return "a year before 1"


def _json_reason(name: str) -> Column:
    """The reason why a text is no JSON object of an event, by the rules of the matcher."""
    from pyspark.sql.types import StringType

    def palio_json_fault(texts: pa.Array) -> pa.Array:
        return pa.array([_fault(name, text) for text in texts.to_pylist()], pa.string())

    reason: Column = as_arrow_udf(palio_json_fault, StringType())(column(name))
    return reason


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
