"""Warnings of workers, shown by the driver.

A function that is called from SQL learns only in a worker which columns it is given and what the subscriptions are, and
Spark runs none of its code before. What it has to warn of would end in the worker's log, which nobody reads. So it goes
back to the driver by an accumulator, with the end of the task. Spark Connect has no accumulators: there it stays in the
worker's log.
"""

from __future__ import annotations

import logging
import warnings
from typing import TYPE_CHECKING, Final

from pyspark.accumulators import AccumulatorParam

from palio.spark.attributes import warn_once
from palio.spark.shared_index import is_connect

if TYPE_CHECKING:
    from pyspark import Accumulator
    from pyspark.sql import SparkSession

_MAX_WARNINGS: Final = 100  # of one function
_log = logging.getLogger("palio.spark")
_Messages = tuple[str, ...]


class _ShownOnDriver(AccumulatorParam[_Messages]):
    """Joins warnings, and shows on the driver those that are new."""

    def zero(self, value: _Messages) -> _Messages:
        return ()

    def addInPlace(self, value1: _Messages, value2: _Messages) -> _Messages:  # noqa: N802
        from pyspark import TaskContext

        new = tuple(message for message in value2 if message not in value1)[: _MAX_WARNINGS - len(value1)]
        if TaskContext.get() is None:
            for message in new:
                _show(message)
        return value1 + new


def _show(message: str) -> None:
    try:
        warnings.warn(message, stacklevel=2)
    except Warning:  # where warnings are errors: one here would end the thread that serves all accumulators
        _log.warning(message)


class WorkerWarnings:
    """Takes the warnings of one function in the workers. It travels to them."""

    def __init__(self, spark: SparkSession) -> None:
        self._accumulator: Accumulator[_Messages] | None = (
            None if is_connect(spark) else spark.sparkContext.accumulator((), _ShownOnDriver())
        )

    def warn(self, message: str) -> None:
        if self._accumulator is None:
            warn_once(message)
        else:
            self._accumulator.add((message,))
