"""Checks of the arguments of Spark calls, before Spark or Python fails within.

A wrong argument is a `PipelineError` that names it and says what would be right. Values that only a job can judge, such
as a column that is missing, are checked where they are used.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Mapping, Sequence, Set
from datetime import timedelta
from types import FrameType
from typing import Any, Final

from palio.errors import PipelineError

_TRIGGERS: Final = ("processingTime", "once", "continuous", "availableNow", "realTime")  # of DataStreamWriter.trigger


def kind_of(given: Any) -> str:
    """The name of a value's type, with its library if that is not Python's own: several have a DataFrame."""
    library = type(given).__module__.partition(".")[0]
    name = type(given).__name__
    return name if library == "builtins" else f"{library}.{name}"


def check_session(spark: Any) -> None:
    """Refuse what is no Spark session."""
    if not hasattr(spark, "createDataFrame") or not hasattr(spark, "conf"):
        raise PipelineError(f"spark is a SparkSession, not {_shown(spark)}")


def check_names(what: str, names: Any) -> None:
    """Refuse what is no list of the names of columns."""
    if isinstance(names, str | bytes | Mapping) or not isinstance(names, Sequence | Set):
        raise PipelineError(f"{what} is a list of names, not {_shown(names)}")
    for name in names:
        check_text(f"a name in {what}", name)


def check_text(what: str, text: Any) -> None:
    """Refuse what is no text, or one that Java cannot be given."""
    if not isinstance(text, str):
        raise PipelineError(f"{what} is a text, not {_shown(text)}")
    try:
        text.encode()
    except UnicodeError:
        raise PipelineError(f"{what} is a text that can be written as UTF-8, not {_shown(text)}") from None


def check_duration(what: str, given: Any) -> None:
    """Refuse what is no duration from 0 on."""
    if not isinstance(given, timedelta) or given < timedelta(0):
        raise PipelineError(f"{what} is a timedelta from 0 on, such as timedelta(minutes=5), not {_shown(given)}")


def check_trigger(trigger: Any) -> None:
    """Refuse what `DataStreamWriter.trigger` does not take."""
    known = isinstance(trigger, Mapping) and len(trigger) == 1 and next(iter(trigger)) in _TRIGGERS
    if not known:
        raise PipelineError(
            f"trigger is one of Spark's, such as {{'processingTime': '1 second'}} or {{'availableNow': True}}, "
            f"not {_shown(trigger)}"
        )


def warn_caller(message: str) -> None:
    """Show a warning at the line that called Palio, or a method of PySpark that did."""
    libraries = ("palio", "pyspark")
    frame: FrameType | None = sys._getframe(1)
    level = 2
    while frame is not None and frame.f_globals.get("__name__", "").partition(".")[0] in libraries:
        frame, level = frame.f_back, level + 1
    warnings.warn(message, stacklevel=level)


def _shown(given: Any) -> str:
    return f"{given!r:.80}"
