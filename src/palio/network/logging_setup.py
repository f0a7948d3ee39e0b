"""Log output in plain or JSON lines.

A line has a message that is constant for one kind of event, and fields for what differs. Credentials never become a
field, and neither does the content of a refused request: it may be a secret.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, Final, TextIO

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
