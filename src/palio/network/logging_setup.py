"""Log output in plain or JSON lines, and its levels.

A line has a message that is constant for one kind of event, and fields for what differs. Credentials never become a
field, and neither does the content of a refused request: it may be a secret.
"""

from __future__ import annotations

import json
import logging
import sys
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from difflib import get_close_matches
from typing import Any, Final, Literal, TextIO, get_args

from palio.errors import InvalidArgument

LogLevel = Literal["debug", "info", "warning", "error"]
LEVELS: Final[tuple[str, ...]] = get_args(LogLevel)
# The parts of a broker that log, each by the logger `palio.` and its name.
MODULES: Final = ("disk", "host", "http", "kernels", "links", "push", "refusals", "server", "store")
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


@dataclass(frozen=True, slots=True)
class LogSettings:
    """The form of log lines, and the least level that is logged, of all modules and of some."""

    level: LogLevel = "info"
    json: bool = False
    modules: Mapping[str, str] = field(default_factory=dict)  # levels of single modules, by name

    def __post_init__(self) -> None:
        if not isinstance(self.modules, Mapping):
            raise InvalidArgument(f"modules is a table, not {self.modules!r:.80}")
        for name, level in self.modules.items():
            if name not in MODULES:
                close = get_close_matches(name, MODULES, 1)
                hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(MODULES)}"
                raise InvalidArgument(f"modules.{name} is no module that logs; {hint}")
            if level not in LEVELS:
                raise InvalidArgument(f"modules.{name} is one of {', '.join(LEVELS)}, not {level!r:.80}")


def configure_logging(settings: LogSettings, stream: TextIO | None = None) -> None:
    """Send the log of Palio to a stream, standard error by default."""
    handler = logging.StreamHandler(stream or sys.stderr)
    handler.setFormatter(_JsonFormatter() if settings.json else _PlainFormatter())
    for name in ("palio", "asyncio", "uvicorn"):
        logger = logging.getLogger(name)
        logger.handlers[:] = [handler]
        logger.setLevel(logging.WARNING)
        logger.propagate = False
    set_levels(settings)


def set_levels(settings: LogSettings) -> None:
    """Log from these levels on; a module without one has that of all."""
    logging.getLogger("palio").setLevel(settings.level.upper())
    for name in MODULES:
        level = settings.modules.get(name)
        logging.getLogger(f"palio.{name}").setLevel(logging.NOTSET if level is None else level.upper())


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _RECORD_ATTRIBUTES}


def _format_value(value: Any) -> str:
    text = ",".join(map(str, value)) if isinstance(value, list | tuple) else str(value)
    return json.dumps(text).replace("\x7f", r"\u007f") if " " in text or not text.isprintable() else text
