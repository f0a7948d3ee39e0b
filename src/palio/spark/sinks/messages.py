"""Matches as messages: identity, content, and dead letters of those that a server refuses.

A push sink cannot promise exactly-once delivery, because an answer may be lost. It promises an id that is the same for
every retransmission, so that the receiver can deduplicate. The id is a digest of the event's key columns and the
subscription, and of nothing else: neither batch nor time. A message is a CloudEvent in binary form: the headers are its
context, the body is the event as JSON.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import quote

import pyarrow as pa

from palio.errors import PipelineError
from palio.spark.match_job import SUBSCRIBER_COLUMN, SUBSCRIPTION_COLUMN
from palio.spark.projection import column
from palio.spark.sinks.sink import Batch, Sink, Taken

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TYPE: Final = "palio.match"
_JSON: Final = {"ignoreNullFields": "false", "timeZone": "UTC"}
_ANSWER: Final = (
    f"sent long, id string, {SUBSCRIPTION_COLUMN} string, {SUBSCRIBER_COLUMN} string, data string, reason string"
)
# Characters that a CloudEvents header holds unescaped; the rest is percent-encoded.
_PLAIN: Final = "!#$&'()*+,-./:;<=>?@[\\]^_`{|}~"


@dataclass(frozen=True, slots=True)
class Message:
    """A match, to be sent."""

    id: str
    subscription: str
    subscriber: str | None
    data: str

    def headers(self, source: str) -> dict[str, str]:
        """The context attributes of the CloudEvent."""
        context = {
            "specversion": "1.0",
            "id": self.id,
            "source": source,
            "type": TYPE,
            "subject": self.subscription,
        }
        if self.subscriber is not None:
            context["subscriber"] = self.subscriber
        headers = {f"ce-{name}": quote(value, safe=_PLAIN) for name, value in context.items()}
        return {**headers, "Content-Type": "application/json"}

    def fill(self, template: str) -> str:
        """Fill a template with the escaped subscription and subscriber.

        A missing subscriber becomes an underscore, because no token of a subject may be empty.
        """
        names = {SUBSCRIPTION_COLUMN: self.subscription, SUBSCRIBER_COLUMN: self.subscriber or "_"}
        return template.format(**{name: _escape_token(value) for name, value in names.items()})


Send = Callable[[Iterator[list[Message]]], Iterator[tuple[Message, str] | int]]
"""Sends messages from a worker; yields the number sent, and each refused message with the reason."""


SendRows = Callable[[Iterator[pa.RecordBatch]], Iterator[tuple[Message, str] | int]]
"""As `Send`, from rows that are not converted to messages."""


def push_messages(matches: DataFrame, batch: Batch, key: Sequence[str], send: Send, dead_letters: Sink | None) -> Taken:
    """Send all matches from the workers; refused ones go to the dead letters, or, without any, are an error."""
    return deliver_rows(_messages(matches, key), batch, partial(_send_messages, send), dead_letters)


def deliver_rows(rows: DataFrame, batch: Batch, send: SendRows, dead_letters: Sink | None) -> Taken:
    """Send rows, one for each match, with dead letters as in `push_messages`."""
    from pyspark.sql import functions as sql

    # Persisted, because the answers are read twice and sending again would repeat every message.
    answers = rows.mapInArrow(partial(_send_all, send, dead_letters is not None), _ANSWER).persist()
    try:
        row = answers.agg(sql.sum("sent").alias("sent"), sql.count("reason").alias("dead")).collect()[0]
        if row.dead and dead_letters is not None:
            dead_letters(answers.where("reason IS NOT NULL").drop("sent"), batch)
    finally:
        answers.unpersist()
    return Taken((row.sent or 0) + row.dead)


def check_template(template: str, what: str) -> None:
    """Refuse a template with names other than those of the subscription and the subscriber."""
    try:
        Message("", "s", "s", "").fill(template)
    except (KeyError, IndexError, ValueError) as error:
        raise PipelineError(
            f"{what} may hold {{{SUBSCRIPTION_COLUMN}}} and {{{SUBSCRIBER_COLUMN}}}, and no other braces: "
            f"{template!r} ({error})"
        ) from None


def match_id(matches: DataFrame, key: Sequence[str]) -> Column:
    """The id of each match: a digest of the event's key columns and the subscription."""
    from pyspark.sql import functions as sql

    unknown = [name for name in key if name not in matches.columns]
    if unknown or not key:
        what = f"there is no column {unknown[0]}" if unknown else "no column is named"
        raise PipelineError(f"{what} to tell one event from another; there are {', '.join(matches.columns)}")
    # As JSON: it keeps apart what concatenated texts would not.
    named = sql.to_json(sql.struct(*map(column, key), column(SUBSCRIPTION_COLUMN)), _JSON)
    return sql.substring(sql.sha2(named, 256), 1, 32)


def _messages(matches: DataFrame, key: Sequence[str]) -> DataFrame:
    """The columns of messages; computed by Spark, so that only they leave the JVM."""
    from pyspark.sql import functions as sql

    event = [column(name) for name in matches.columns if name not in (SUBSCRIPTION_COLUMN, SUBSCRIBER_COLUMN)]
    return matches.select(
        match_id(matches, key).alias("id"),
        SUBSCRIPTION_COLUMN,
        SUBSCRIBER_COLUMN,
        sql.to_json(sql.struct(*event), _JSON).alias("data"),
    )


def _send_all(send: SendRows, collect: bool, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for sent in send(batches):
        if isinstance(sent, int):
            yield _answer(sent=sent)
            continue
        message, reason = sent
        if not collect:
            raise PipelineError(f"a match of {message.subscription!r} cannot be delivered: {reason}")
        owner = {SUBSCRIPTION_COLUMN: message.subscription, SUBSCRIBER_COLUMN: message.subscriber}
        yield _answer(id=message.id, data=message.data, reason=reason, **owner)


def _send_messages(send: Send, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[Message, str] | int]:
    return send(_read(batches))


def _read(batches: Iterator[pa.RecordBatch]) -> Iterator[list[Message]]:
    for batch in batches:
        yield [Message(*row) for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)]


def _answer(**values: Any) -> pa.RecordBatch:
    names = ("id", SUBSCRIPTION_COLUMN, SUBSCRIBER_COLUMN, "data", "reason")
    texts = {name: pa.array([values.get(name)], pa.string()) for name in names}
    return pa.RecordBatch.from_pydict({"sent": pa.array([values.get("sent")], pa.int64()), **texts})


def _escape_token(text: str) -> str:
    """Escape separators, so that a text stays one token of a subject and one segment of a path."""
    return quote(text, safe="").replace(".", "%2E")
