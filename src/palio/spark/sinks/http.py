"""Matches pushed to a URL, at least once, each with a key by which the receiver can leave repeats out.

A request that fails in a way that may pass (no connection, no answer, 408, 425, 429, 5xx) is made again, after pauses
that grow and vary, so that a receiver that comes back is not met by all at once; `Retry-After` is kept to. What is
refused for good, or too often, goes to the dead letters, and the stream goes on.
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
from palio.spark.places import public
from palio.spark.sinks.messages import Message, check_template, push
from palio.spark.sinks.sink import Batch, Sink, Taken

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_TOO_MANY: Final = 429
_MAY_PASS: Final = frozenset({408, 425, _TOO_MANY})


class HttpSink:
    """Posts each match to a URL, which may hold `{subscription_id}` and `{subscriber}`.

    The request is a CloudEvent in binary form; its `ce-id` is also the `Idempotency-Key`. `key` names the columns that
    tell one event from another. A user and a password in the URL are sent as basic authorization. Each task has
    `connections` at a time, and tries a message `attempts` times.
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
            raise PipelineError(f"matches are posted to http://… or https://…, not to {public(url)!r}")
        own = {**_authorization(urlsplit(url)), **(headers or {})}
        self._sending = Posting(url, own, source, attempts, timeout, longest_pause, connections)
        self._key = tuple(key)
        self._dead_letters = dead_letters

    def __call__(self, matches: DataFrame, batch: Batch) -> Taken:
        return push(matches, batch, self._key, self._sending, self._dead_letters)


def _authorization(url: SplitResult) -> dict[str, str]:
    if url.username is None:
        return {}
    who = f"{unquote(url.username)}:{unquote(url.password or '')}"
    return {"Authorization": f"Basic {b64encode(who.encode()).decode()}"}


@dataclass(frozen=True)
class Posting:
    """What a worker does."""

    url: str
    headers: Mapping[str, str]
    source: str
    attempts: int
    timeout: float
    longest_pause: float
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
    """Posts one message at a time for each thread, over a connection that the thread keeps."""

    posting: Posting
    kept: local = field(default_factory=local)
    down: set[str] = field(default_factory=set)
    """Hosts that did not answer any of the attempts for a message, and URLs whose answers all were failures: the next
    are tried once, until one succeeds. A host that answers is not down, whatever it says to one of its subscribers.
    """

    def post(self, message: Message) -> str | None:
        """Why a message was not taken, or None when it was."""
        url = message.fill(self.posting.url)
        parts = urlsplit(url)
        reason, failed, attempt = "", None, 0
        for attempt in range(self.posting.attempts):
            try:
                status, wait = self._request(message, parts)
            except (OSError, HTTPException) as error:
                self._forget()
                reason, wait, failed = f"{type(error).__name__}: {error}", None, parts.netloc
            else:
                self.down.discard(parts.netloc)
                if 200 <= status < 300:
                    self.down.discard(url)
                    return None
                reason = f"the answer was {status}"
                if status < 500 and status not in _MAY_PASS:
                    return reason
                failed = None if status == _TOO_MANY else url
            if failed in self.down:
                break
            if attempt + 1 < self.posting.attempts:
                time.sleep(self._pause(attempt, wait))
        if failed is not None:
            self.down.add(failed)
        return f"{reason}, after {attempt + 1} attempt{'s' if attempt else ''}"

    def _request(self, message: Message, parts: SplitResult) -> tuple[int, float | None]:
        """The status of the answer, and how long it asks to wait."""
        target = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
        headers = {
            **self.posting.headers,
            **message.headers(self.posting.source),
            "Idempotency-Key": message.id,
        }
        connection = self._connection(parts.scheme, parts.netloc.rpartition("@")[2])
        connection.request("POST", target, message.data.encode(), headers)
        response = connection.getresponse()
        response.read()
        wait = response.getheader("Retry-After", "")
        return response.status, float(wait) if wait.isascii() and wait.isdecimal() else None

    def _connection(self, scheme: str, host: str) -> HTTPConnection:
        known = getattr(self.kept, "connection", None)
        if known is None or known[0] != (scheme, host):
            self._forget()
            kind = HTTPSConnection if scheme == "https" else HTTPConnection
            known = self.kept.connection = (scheme, host), kind(host, timeout=self.posting.timeout)
        connection: HTTPConnection = known[1]
        return connection

    def _forget(self) -> None:
        known = getattr(self.kept, "connection", None)
        if known is not None:
            known[1].close()
            self.kept.connection = None

    def _pause(self, attempt: int, wait: float | None) -> float:
        if wait is not None:
            return min(wait, self.posting.longest_pause)
        return float(min(0.1 * 2**attempt, self.posting.longest_pause)) * random.uniform(0.5, 1.5)
