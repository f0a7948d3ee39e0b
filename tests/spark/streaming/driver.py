"""A streaming driver as a program of its own, `python -m tests.spark.streaming.driver`, which can die anywhere.

It dies by SIGKILL, with its JVM, at a step or at a moment. A step is any call or return in the code that writes
something down, counted within a batch, so that the same step is the same place in the next run too; a moment is also
within Spark's own work.
"""

from __future__ import annotations

import argparse
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from random import Random
from types import FrameType
from typing import Any

from tests.spark.streaming.scenario import StreamScenario, run_in_small_groups

PROJECT = Path(__file__).parent.parent.parent.parent
WRITING = tuple(
    f"{os.sep}palio{os.sep}spark{os.sep}{name}.py"
    for name in ("storage", "sinks/parquet", "sinks/delta", "streaming/commit_journal", "streaming/stream")
)
STEPS_IN_BATCH = 420  # about as many as there are with Parquet


def kill_point(seed: int) -> list[str]:
    """Where a driver is to die, as arguments: one in four at a moment, the others at a step of one of its batches."""
    random = Random(f"kill {seed}")
    if random.random() < 0.25:
        return ["--moment", f"{random.uniform(0.2, 4):.3f}"]
    return ["--batch", str(random.randrange(3)), "--step", str(random.randrange(STEPS_IN_BATCH))]


def run_driver(folder: Path, sink: str, *arguments: str) -> int:
    """Run it to its end, and tell how it ended."""
    from tests.spark_session import spark_environment

    command = [sys.executable, "-m", "tests.spark.streaming.driver", str(folder), sink, *arguments]
    log = folder / "driver.log"
    with log.open("a") as output:
        print(*arguments, file=output, flush=True)
        environment = {**os.environ, **spark_environment()}
        ended = subprocess.run(
            command, cwd=PROJECT, env=environment, stdout=output, stderr=output, start_new_session=True, check=False
        )
    if ended.returncode not in (0, -signal.SIGKILL):
        raise AssertionError(f"the driver ended with {ended.returncode}:\n{log.read_text()[-5000:]}")
    return ended.returncode


class Death:
    """Waits for the moment or the step."""

    def __init__(self, batch: int | None, step: int | None, moment: float | None) -> None:
        self._batch, self._step, self._moment = batch, step, moment
        self._batches = 0
        self._steps = 0

    def begin(self) -> None:
        if self._moment is not None:
            threading.Thread(target=self._wait, args=(self._moment,), daemon=True).start()
        if self._step is not None:
            threading.setprofile(self._look)

    def _wait(self, seconds: float) -> None:
        time.sleep(seconds)
        die()

    def _look(self, frame: FrameType, event: str, _: Any) -> None:
        code = frame.f_code
        if not code.co_filename.endswith(WRITING):
            return
        at_job = code.co_qualname == "Job.__call__"
        if at_job and event == "call":
            self._batches += 1
            self._steps = 0
        if self._batches - 1 != self._batch:
            return
        self._steps += 1
        # A batch with fewer steps than chosen: right before Spark writes it down as committed.
        if self._step == self._steps - 1 or (at_job and event == "return"):
            die()


def die() -> None:
    os.killpg(0, signal.SIGKILL)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("folder", type=Path)
    parser.add_argument("sink", choices=["parquet", "delta"])
    parser.add_argument("--batch", type=int, help="the batch of this run, counted from 0, in which it dies")
    parser.add_argument("--step", type=int)
    parser.add_argument("--moment", type=float)
    given = parser.parse_args()

    from tests.spark_session import open_session

    flow = StreamScenario(given.folder)
    scratch = given.folder / f"spark-{os.getpid()}"
    scratch.mkdir()
    spark = open_session(scratch)
    Death(given.batch, given.step, given.moment).begin()
    run_in_small_groups(spark, flow, given.sink)
    spark.stop()


if __name__ == "__main__":
    main()
