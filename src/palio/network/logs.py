"""What does a broker say about itself? One line for each thing that happened, for people or, as JSON, for programs.

A line has a message that is always the same for the same thing, and what differs as fields beside it. Nothing that
proves who somebody is ever becomes a field.
"""

from __future__ import annotations

import json
import logging
import sys
from datetime import UTC, datetime
from typing import Any, Final, TextIO

_OWN: Final = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


class _Plain(logging.Formatter):
    """For people."""

    def format(self, record: logging.LogRecord) -> str:
        fields = " ".join(f"{name}={_shown(value)}" for name, value in _fields(record).items())
        time = datetime.fromtimestamp(record.created).strftime("%H:%M:%S")
        level = "" if record.levelno <= logging.INFO else f"{record.levelname.lower()}: "
        line = f"{time} {level}{record.getMessage()} {fields}".rstrip()
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class _Json(logging.Formatter):
    """For programs."""

    def format(self, record: logging.LogRecord) -> str:
        said: dict[str, Any] = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname.lower(),
            "logger": record.name,
            "message": record.getMessage(),
            **_fields(record),
        }
        if record.exc_info:
            said["trace"] = self.formatException(record.exc_info)
        return json.dumps(said, default=str)


def log_to(stream: TextIO | None = None, *, as_json: bool = False, level: int = logging.INFO) -> None:
    """Send what Palio says to a stream, standard error where none is given."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_Json() if as_json else _Plain())
    for name in ("palio", "asyncio", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(level if name == "palio" else logging.WARNING)
        logger.propagate = False


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _OWN}


def _shown(value: Any) -> str:
    text = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return json.dumps(text).replace("\x7f", r"\u007f") if " " in text or not text.isprintable() else text
