"""Matches as messages: what one is called, what is in it, and what becomes of those that nobody takes.

Whoever pushes cannot promise to push once: an answer may get lost. What can be promised is a name that stays the same
however often a message is sent, so that the receiver can tell. It is made of what tells one event from another and of
the subscription, and of nothing else, neither batch nor time. A message is a CloudEvent in binary form: headers are the
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
from palio.spark.columns import column
from palio.spark.matching import SUBSCRIBER, SUBSCRIPTION
from palio.spark.sinks.sink import Batch, Sink, Taken

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

TYPE: Final = "palio.match"
_JSON: Final = {"ignoreNullFields": "false", "timeZone": "UTC"}
_ANSWER: Final = f"sent long, id string, {SUBSCRIPTION} string, {SUBSCRIBER} string, data string, reason string"
# What a CloudEvents header may hold as it is; the rest is percent-encoded.
_PLAIN: Final = "!#$&'()*+,-./:;<=>?@[\\]^_`{|}~"


@dataclass(frozen=True, slots=True)
class Message:
    """One match, to be sent."""

    id: str
    subscription: str
    subscriber: str | None
    data: str

    def headers(self, source: str) -> dict[str, str]:
        """The context of the CloudEvent."""
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
        """A template with the subscription and the subscriber in it, as parts that cannot mean anything else.

        Where there is no subscriber there is an underscore, because no part of a subject may be empty.
        """
        names = {SUBSCRIPTION: self.subscription, SUBSCRIBER: self.subscriber or "_"}
        return template.format(**{name: _inert(value) for name, value in names.items()})


Send = Callable[[Iterator[list[Message]]], Iterator[tuple[Message, str] | int]]
"""Sends messages, as they come; tells how many were sent, and which were not, with the reason."""


SendRows = Callable[[Iterator[pa.RecordBatch]], Iterator[tuple[Message, str] | int]]
"""The same of rows, by one who makes something else of them than messages."""


def push(matches: DataFrame, batch: Batch, key: Sequence[str], send: Send, dead_letters: Sink | None) -> Taken:
    """Send all matches from the workers. What cannot be sent goes to the dead letters; without any, it is an error."""
    return deliver(_messages(matches, key), batch, partial(_send_messages, send), dead_letters)


def deliver(rows: DataFrame, batch: Batch, send: SendRows, dead_letters: Sink | None) -> Taken:
    """Send rows, one for each match, as `push` does."""
    from pyspark.sql import functions as sql

    told = rows.mapInArrow(partial(_send_all, send, dead_letters is not None), _ANSWER).persist()
    try:
        row = told.agg(sql.sum("sent").alias("sent"), sql.count("reason").alias("dead")).collect()[0]
        if row.dead and dead_letters is not None:
            dead_letters(told.where("reason IS NOT NULL").drop("sent"), batch)
    finally:
        told.unpersist()
    return Taken((row.sent or 0) + row.dead)


def check_template(template: str, what: str) -> None:
    """Whether a template has no other names than those that there are."""
    try:
        Message("", "s", "s", "").fill(template)
    except (KeyError, IndexError, ValueError) as error:
        raise PipelineError(
            f"{what} may hold {{{SUBSCRIPTION}}} and {{{SUBSCRIBER}}}, and no other braces: {template!r} ({error})"
        ) from None


def name_of_match(matches: DataFrame, key: Sequence[str]) -> Column:
    """The name of each match: of what tells one event from another, and of the subscription."""
    from pyspark.sql import functions as sql

    unknown = [name for name in key if name not in matches.columns]
    if unknown or not key:
        what = f"there is no column {unknown[0]}" if unknown else "no column is named"
        raise PipelineError(f"{what} to tell one event from another; there are {', '.join(matches.columns)}")
    named = sql.to_json(sql.struct(*map(column, key), column(SUBSCRIPTION)), _JSON)
    return sql.substring(sql.sha2(named, 256), 1, 32)


def _messages(matches: DataFrame, key: Sequence[str]) -> DataFrame:
    """The columns of messages; made by Spark, so that only they leave the JVM."""
    from pyspark.sql import functions as sql

    event = [column(name) for name in matches.columns if name not in (SUBSCRIPTION, SUBSCRIBER)]
    return matches.select(
        name_of_match(matches, key).alias("id"),
        SUBSCRIPTION,
        SUBSCRIBER,
        sql.to_json(sql.struct(*event), _JSON).alias("data"),
    )


def _send_all(send: SendRows, collect: bool, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for told in send(batches):
        if isinstance(told, int):
            yield _answer(sent=told)
            continue
        message, reason = told
        if not collect:
            raise PipelineError(f"a match of {message.subscription!r} cannot be delivered: {reason}")
        who = {SUBSCRIPTION: message.subscription, SUBSCRIBER: message.subscriber}
        yield _answer(id=message.id, data=message.data, reason=reason, **who)


def _send_messages(send: Send, batches: Iterator[pa.RecordBatch]) -> Iterator[tuple[Message, str] | int]:
    return send(_read(batches))


def _read(batches: Iterator[pa.RecordBatch]) -> Iterator[list[Message]]:
    for batch in batches:
        yield [Message(*row) for row in zip(*(column.to_pylist() for column in batch.columns), strict=True)]


def _answer(**told: Any) -> pa.RecordBatch:
    names = ("id", SUBSCRIPTION, SUBSCRIBER, "data", "reason")
    texts = {name: pa.array([told.get(name)], pa.string()) for name in names}
    return pa.RecordBatch.from_pydict({"sent": pa.array([told.get("sent")], pa.int64()), **texts})


def _inert(text: str) -> str:
    """A text in which nothing separates: one token of a subject, one segment of a path."""
    return quote(text, safe="").replace(".", "%2E")
