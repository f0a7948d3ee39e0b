"""Sink to a URL: each match posted at least once, with an idempotency key.

A request that fails in a way that may pass (no connection, no answer, 408, 425, 429, 5xx) is retried with exponential
backoff and jitter; `Retry-After` is honoured. A match that is refused for good, or too often, becomes a dead letter,
and the stream goes on.
"""

from __future__ import annotations

import random
import time
from base64 import b64encode
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from http.client import HTTPConnection, HTTPException, HTTPSConnection
from threading import local
from typing import TYPE_CHECKING, Final
from urllib.parse import SplitResult, unquote, urlsplit

from palio.errors import PipelineError
from palio.spark.sinks.messages import Message, check_template, push_messages
from palio.spark.sinks.sink import Batch, Sink, Taken
from palio.spark.storage import redact

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TOO_MANY_REQUESTS: Final = 429
_RETRYABLE_STATUSES: Final = frozenset({408, 425, _TOO_MANY_REQUESTS})


class HttpSink:
    """Posts each match to a URL, which may hold `{subscription_id}` and `{subscriber}`.

    The request is a CloudEvent in binary form; its `ce-id` is also the `Idempotency-Key`. `key` names the columns that
    identify an event. A user and a password in the URL are sent as basic authorization. Each task has `connections` at
    a time, and tries a message `attempts` times.
    """

    def __init__(
        self,
        url: str,
        *,
        key: Sequence[str],
        dead_letters: Sink | None = None,
        headers: Mapping[str, str] | None = None,
        source: str = "palio",
        attempts: int = 8,
        timeout: float = 10.0,
        longest_pause: float = 30.0,
        connections: int = 8,
    ) -> None:
        check_template(url, "a URL")
        if urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname:
            raise PipelineError(f"matches are posted to http://… or https://…, not to {redact(url)!r}")
        own = {**_authorization(urlsplit(url)), **(headers or {})}
        self._delivery = HttpDelivery(url, own, source, attempts, timeout, longest_pause, connections)
        self._key = tuple(key)
        self._dead_letters = dead_letters

    def __call__(self, matches: DataFrame, batch: Batch) -> Taken:
        return push_messages(matches, batch, self._key, self._delivery, self._dead_letters)


def _authorization(url: SplitResult) -> dict[str, str]:
    if url.username is None:
        return {}
    credentials = f"{unquote(url.username)}:{unquote(url.password or '')}"
    return {"Authorization": f"Basic {b64encode(credentials.encode()).decode()}"}


@dataclass(frozen=True)
class HttpDelivery:
    """Work of a task: post messages, several at a time."""

    url: str
    headers: Mapping[str, str]
    source: str
    attempts: int
    timeout: float
    max_backoff: float
    connections: int

    def __call__(self, messages: Iterator[list[Message]]) -> Iterator[tuple[Message, str] | int]:
        poster = _Poster(self)
        with ThreadPoolExecutor(self.connections, "palio-http") as pool:
            for each in messages:
                reasons = list(pool.map(poster.post, each))
                refused = [(one, reason) for one, reason in zip(each, reasons, strict=True) if reason is not None]
                yield from refused
                yield len(each) - len(refused)


@dataclass(frozen=True)
class _Poster:
    """Posts messages; each thread has a connection of its own, which it keeps."""

    delivery: HttpDelivery
    kept: local = field(default_factory=local)
    down: set[str] = field(default_factory=set)
    """Circuit breaker: hosts that answered no attempt of a message, and URLs whose answers were all failures. Further
    messages to them are tried once, until one succeeds. A host that answers is up, also where one of its URLs fails.
    Threads share it without a lock: a stale view costs one attempt.
    """

    def post(self, message: Message) -> str | None:
        """Post a message; the reason where it was not accepted."""
        url = message.fill(self.delivery.url)
        parts = urlsplit(url)
        reason, failed, attempt = "", None, 0
        # Every attempt has the same idempotency key.
        for attempt in range(self.delivery.attempts):
            try:
                status, wait = self._request(message, parts)
            except (OSError, HTTPException) as error:
                self._close_connection()
                reason, wait, failed = f"{type(error).__name__}: {error}", None, parts.netloc
            else:
                self.down.discard(parts.netloc)
                if 200 <= status < 300:
                    self.down.discard(url)
                    return None
                reason = f"the answer was {status}"
                if status < 500 and status not in _RETRYABLE_STATUSES:
                    return reason
                # A receiver that throttles is not down.
                failed = None if status == _TOO_MANY_REQUESTS else url
            if failed in self.down:
                break
            if attempt + 1 < self.delivery.attempts:
                time.sleep(self._backoff(attempt, wait))
        if failed is not None:
            self.down.add(failed)
        return f"{reason}, after {attempt + 1} attempt{'s' if attempt else ''}"

    def _request(self, message: Message, parts: SplitResult) -> tuple[int, float | None]:
        """The status of the answer, and its `Retry-After` in seconds."""
        target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        headers = {
            **self.delivery.headers,
            **message.headers(self.delivery.source),
            "Idempotency-Key": message.id,
        }
        connection = self._connection(parts.scheme, parts.netloc.rpartition("@")[2])
        connection.request("POST", target, message.data.encode(), headers)
        response = connection.getresponse()
        # To its end: otherwise the connection could not be used again.
        response.read()
        wait = response.getheader("Retry-After", "")
        return response.status, float(wait) if wait.isascii() and wait.isdecimal() else None

    def _connection(self, scheme: str, host: str) -> HTTPConnection:
        known = getattr(self.kept, "connection", None)
        if known is None or known[0] != (scheme, host):
            self._close_connection()
            kind = HTTPSConnection if scheme == "https" else HTTPConnection
            known = self.kept.connection = (scheme, host), kind(host, timeout=self.delivery.timeout)
        connection: HTTPConnection = known[1]
        return connection

    def _close_connection(self) -> None:
        known = getattr(self.kept, "connection", None)
        if known is not None:
            known[1].close()
            self.kept.connection = None

    def _backoff(self, attempt: int, wait: float | None) -> float:
        if wait is not None:
            return min(wait, self.delivery.max_backoff)
        return float(min(0.1 * 2**attempt, self.delivery.max_backoff)) * random.uniform(0.5, 1.5)
