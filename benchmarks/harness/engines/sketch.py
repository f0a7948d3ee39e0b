"""The C++ sketch: the line to reach. It runs as a process of its own and reports its own CPU time."""

from __future__ import annotations

import json
import resource
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from harness.answers import Answers
from harness.results import Row
from harness.tasks import Task
from palio.workloads.generated import Notation

SOURCE = Path(__file__).resolve().parents[2] / "sketch.cpp"
NAME = "C++ sketch"
CHECKED = 2000
_NOTATION = Notation(
    equals='{"a":"{name}","op":"=","v":"v{low}"}',
    between='{"a":"{name}","op":"between","v":[{low},{high}]}',
    at_least='{"a":"{name}","op":">=","v":{low}}',
    at_most='{"a":"{name}","op":"<=","v":{high}}',
    conjunction=",",
)


class Unavailable(Exception):
    """The sketch cannot run here; the message says why."""


def compile_sketch(folder: Path) -> Path:
    """The program, compiled into `folder`."""
    compiler = shutil.which("g++")
    if compiler is None:
        raise Unavailable("no g++ here")
    program = folder / "sketch"
    done = subprocess.run(
        [compiler, "-O3", "-std=c++17", "-o", program, SOURCE], capture_output=True, text=True, check=False
    )
    if done.returncode:
        raise Unavailable(f"g++ failed: {done.stderr.strip().splitlines()[-1]}")
    return program


class Sketch:
    """The sketch on one task: files written once, run as often as asked, the best run kept."""

    def __init__(self, program: Path, task: Task, folder: Path) -> None:
        if task.workload is None:
            raise Unavailable(f"it cannot express {task.name}")
        self._program = program
        self._task = task
        self._folder = folder / f"{task.name}{len(task)}"
        self._folder.mkdir()
        _write(task, self._folder)
        self._best: dict[str, Any] | None = None

    def run(self, seconds: float) -> None:
        before = _children_seconds()
        output = subprocess.run(
            [self._program, self._folder, str(self._task.events.num_rows), str(seconds)],
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        found = json.loads(output)
        # The program times itself; the kernel's account of it must be at least as much.
        assert found["insert_s"] + found["match_s"] <= _children_seconds() - before + 0.05
        if self._best is None or found["events_per_s"] > self._best["events_per_s"]:
            self._best = found

    def row(self, reference: Answers) -> Row:
        found = self._best
        assert found is not None
        row = Row(self._task.name, len(self._task), NAME)
        events = int(found["events"])
        row.rate(events, int(found["matches"]), events / float(found["events_per_s"]))
        row.microseconds_per_event = 1e6 / float(found["events_per_s"])
        row.built(len(self._task), float(found["insert_s"]))
        # It reports whole megabytes, which say nothing of a small index.
        if found["heap_mb"] >= 5:
            row.index_bytes_per_subscription = found["heap_mb"] * 2**20 / len(self._task)
        row.differs = int(found["matches"]) != reference.first(events).total
        row.checked_events = 0
        if events >= CHECKED and len(reference) >= CHECKED:
            head = reference.first(CHECKED)
            row.differs |= int(found["matches_2000"]) != head.total
            row.differs |= int(found["checksum_2000"], 16) != head.sum()
            row.checked_events = CHECKED
        row.note = f"and in number on {events:,}"
        return row


def _children_seconds() -> float:
    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def _write(task: Task, folder: Path) -> None:
    """The task in the sketch's own format."""
    assert task.workload is not None
    step = 100_000
    with (folder / "subscriptions.jsonl").open("w") as file:
        for start in range(0, len(task), step):
            conditions = task.workload.subscription_conditions(min(step, len(task) - start), start)
            texts = _NOTATION.render(conditions, task.workload.names)
            numbers = pa.array(range(start, start + len(texts))).cast(pa.string())
            lines = pc.binary_join_element_wise('{"id":', numbers, ',"preds":[', texts, "]}\n", "")
            file.write("".join(lines.to_pylist()))
    with (folder / "events.jsonl").open("w") as file:
        for event in task.workload.event_dicts(task.events.num_rows):
            file.write(json.dumps(event, separators=(",", ":")) + "\n")
