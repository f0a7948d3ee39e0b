"""Log output: plain or JSON lines, a throttle for repeated ones, and the log of refused requests.

A line has a message that is constant for one kind of event, and fields for what differs. Credentials never become a
field, and neither does the content of a refused request: it may be a secret.
"""

from __future__ import annotations

import json
import logging
import sys
from collections import Counter
from collections.abc import Callable, Hashable
from datetime import UTC, datetime
from typing import Any, Final, Generic, TextIO, TypeVar

from palio.errors import PalioError
from palio.network.error_codes import code_of
from palio.network.protocol import ErrorCode

_RECORD_ATTRIBUTES: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class _PlainFormatter(logging.Formatter):
    """One line of text for people."""

    def format(self, record: logging.LogRecord) -> str:
        fields = " ".join(f"{name}={_format_value(value)}" for name, value in _fields(record).items())
        time = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        level = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
        line = f"{time} {level}{record.getMessage()} {fields}".rstrip()
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class _JsonFormatter(logging.Formatter):
    """One JSON object for programs."""

    def format(self, record: logging.LogRecord) -> str:
        line: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            line["trace"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)


def configure_logging(stream: TextIO | None = None, *, as_json: bool = False, level: int = logging.INFO) -> None:
    """Send the log of Palio to a stream, standard error by default."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_JsonFormatter() if as_json else _PlainFormatter())
    for name in ("palio", "asyncio", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(level if name == "palio" else logging.WARNING)
        logger.propagate = False


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _RECORD_ATTRIBUTES}


def _format_value(value: Any) -> str:
    text = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return json.dumps(text).replace("\x7f", r"\u007f") if " " in text or not text.isprintable() else text


LOG_INTERVAL_SECONDS: Final = 5.0  # between two lines of one kind
_refusals = logging.getLogger("palio.refusals")
_Kind = TypeVar("_Kind", bound=Hashable)


class LogThrottle(Generic[_Kind]):
    """Rate limiter for repeated log lines: one line of each kind in an interval, with the number of occurrences."""

    def __init__(self, now: Callable[[], float]) -> None:
        """`now` is a monotonic clock."""
        self.counts: Counter[_Kind] = Counter()
        self._now = now
        self._logged: dict[_Kind, tuple[float, int]] = {}  # time of the last line, and the count by then

    def note(self, kind: _Kind) -> int:
        """Count an occurrence; the number since the last line where a line is due, otherwise 0."""
        self.counts[kind] += 1
        now = self._now()
        at, before = self._logged.get(kind, (now - LOG_INTERVAL_SECONDS, 0))
        if now - at < LOG_INTERVAL_SECONDS:
            return 0
        count = self.counts[kind]
        self._logged[kind] = now, count
        return count - before


class RefusalLog:
    """Counts and throttled log of refused requests, by wire code.

    A peer that guesses tokens or repeats what it may not do would fill an unthrottled log.
    """

    def __init__(self, now: Callable[[], float]) -> None:
        self._throttle = LogThrottle[ErrorCode](now)
        self.counts: Counter[ErrorCode] = self._throttle.counts

    def note(self, error: PalioError, peer: str) -> None:
        """Count an error that was sent to a principal or an address."""
        kind = code_of(error)
        count = self._throttle.note(kind)
        if count:
            _refusals.warning("refused", extra={"kind": kind, "who": peer, "reason": str(error), "count": count})
