"""A session of Spark for the time of a command, which Ctrl-C ends without a word of Java's.

Spark's own handler of Ctrl-C cancels its jobs, and then says at length that they were cancelled. Here nothing is logged
from that moment on, and where the JVM is ours it has ended when the command goes on to clear away: a task that is slow
to die would write again what was removed.
"""

from __future__ import annotations

import logging
import signal
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, NoReturn

from palio.cli.spark.timing import Times

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_SECONDS_TO_CANCEL: Final = 5.0
_SECONDS_TO_END: Final = 10.0


@contextmanager
def opened_session(master: str | None, settings: Mapping[str, str], times: Times) -> Iterator[SparkSession]:
    """A session, stopped at the end; what it takes to start is `starting` in the times."""
    from palio.spark.session import open_session

    with _quietly_interrupted() as handler:
        with times.measure("starting"):
            spark = open_session(master, settings)
        handler.take_over(spark)
        try:
            yield spark
        finally:
            spark.stop()


class _Handler:
    """What is done at Ctrl-C."""

    def __init__(self) -> None:
        self._spark: SparkSession | None = None

    def take_over(self, spark: SparkSession | None = None) -> None:
        """Be the handler; again when Spark has started, because it makes its own the handler then."""
        self._spark = spark
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, self)

    def __call__(self, number: int, frame: FrameType | None) -> NoReturn:
        signal.signal(signal.SIGINT, signal.default_int_handler)  # a second one does not wait
        logging.disable(logging.CRITICAL)
        if self._spark is not None:
            # In a thread of its own: the connection of this one waits for an answer.
            cancelling = threading.Thread(target=_cancel, args=(self._spark,), daemon=True)
            cancelling.start()
            cancelling.join(_SECONDS_TO_CANCEL)
        raise KeyboardInterrupt


@contextmanager
def _quietly_interrupted() -> Iterator[_Handler]:
    before, handler = signal.getsignal(signal.SIGINT), _Handler()
    handler.take_over()
    try:
        yield handler
    except KeyboardInterrupt:
        _end_java()
        raise
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, before)
        logging.disable(logging.NOTSET)


def _cancel(spark: SparkSession) -> None:
    from palio.spark.shared_index import is_connect

    with suppress(Exception):  # whatever it says, nobody wants to hear it now
        if is_connect(spark):
            spark.interruptAll()
            return
        spark.sparkContext.setLogLevel("OFF")
        spark.sparkContext.cancelAllJobs()


def _end_java() -> None:
    """End the JVM that this process started, if any: it ends when nobody can talk to it any more."""
    from pyspark import SparkContext

    gateway: Any = SparkContext._gateway
    process = getattr(gateway, "proc", None)
    if process is None:
        return
    with suppress(Exception):
        gateway.shutdown()
        process.stdin.close()
        process.wait(_SECONDS_TO_END)
