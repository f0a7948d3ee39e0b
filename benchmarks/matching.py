"""Matching benchmark: Palio beside what one would use instead, in one table.

    python benchmarks/matching.py                    everything; takes a while
    python benchmarks/matching.py --sizes 10k 100k --workloads eq
    python benchmarks/matching.py --quick            a small run of every engine

All engines do the same work in this process, on one core, and their answers are compared. Seconds are CPU
seconds. The fast engines run several rounds in turns, and the best round of each counts; the slow ones run
for `--seconds`. An engine that cannot be built in four times as long is skipped, there and at larger sizes.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

if __name__ == "__main__":
    # Before any of them is imported: one thread each.
    os.environ["POLARS_MAX_THREADS"] = "1"
    os.environ["OMP_NUM_THREADS"] = "1"

from harness.answers import Answers
from harness.clock import OutOfTime, pin_to_one_core
from harness.engines import duckdb_join, polars_join, python_loop, rules, sketch
from harness.engines.palio_matcher import BATCH, Palio, warm_up
from harness.report import short, show
from harness.results import Row
from harness.tasks import PadresTask, SyntheticTask, Task, data_folder

Run = Callable[[Task, float, Answers], Row]
ALTERNATIVES: dict[str, Run] = {module.NAME: module.run for module in (python_loop, rules, duckdb_join, polars_join)}


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    core = pin_to_one_core()
    with tempfile.TemporaryDirectory(prefix="palio-bench-") as name:
        if not options.quick:
            os.environ["NUMBA_CACHE_DIR"] = str(Path(name) / "numba")
        rows: list[Row] = []
        try:
            for section in measure(options, Path(name)):
                rows += section
        except KeyboardInterrupt:
            _say("interrupted; what was measured until now:")
    if options.json:
        print(json.dumps({"machine": _machine(), "rows": [row.to_json() for row in rows]}, indent=2))
    else:
        where = "unpinned" if core is None else f"core {core}"
        caption = f"{_machine()['cpu']}, {where}; best of {options.rounds} rounds"
        show(rows, "Matching, one core, CPU time", caption)
    different = [row for row in rows if row.differs]
    for row in different:
        _say(f"answers differ: {row.engine} on {row.workload} {short(row.subscriptions)}")
    return 1 if different else 0


def measure(options: argparse.Namespace, folder: Path) -> Iterator[list[Row]]:
    """The sections of the table, one after the other."""
    gave_up: set[tuple[str, str]] = set()
    program = _sketch_program(folder)
    for workload in options.workloads:
        compile_seconds: float | None = None
        for size in [10_000] if workload == "padres" else options.sizes:
            _say(f"{workload} {short(size)}: making the workload …")
            task = _task(workload, size, options.events or _events_for(size))
            if task is None:
                _say(f"{workload}: skipped, its data is not here (set PALIO_DATA to the folder that has it)")
                continue
            if compile_seconds is None:
                _say(f"{workload}: compiling kernels …")
                compile_seconds = warm_up(_task(workload, min(size, 10_000), BATCH) or task)
            assert task.dicts  # made here, and not while an engine is timed
            gc.collect()
            gc.freeze()  # so that the collector walks what an engine makes, and not what it is given
            yield _section(task, program, compile_seconds, options, folder, gave_up)
            gc.unfreeze()
            del task
            gc.collect()


def _section(
    task: Task,
    program: Path | sketch.Unavailable,
    compile_seconds: float,
    options: argparse.Namespace,
    folder: Path,
    gave_up: set[tuple[str, str]],
) -> list[Row]:
    """Every engine on one task."""
    label = f"{task.name} {short(len(task))}"
    _say(f"{label}: Palio and the sketch …")
    line = _sketch(task, program, folder)
    palio = Palio(task, compile_seconds)
    palio.check()
    for _ in range(options.rounds):
        if isinstance(line, sketch.Sketch):
            line.run(4 * options.seconds)
        palio.run(options.seconds)
    palio.change(options.seconds)
    rows = palio.rows
    if isinstance(line, sketch.Sketch):
        rows.append(line.row(palio.answers))
        if not rows[-1].differs:
            palio.large.note, palio.large.checked_events = "with the sketch", rows[-1].checked_events
    else:
        rows.append(Row(task.name, len(task), sketch.NAME, note=f"skipped: {line}"))
    reference = palio.answers
    del palio
    gc.collect()
    for engine in options.engines:
        _say(f"{label}: {engine} …")
        rows.append(_alternative(task, engine, options.seconds, reference, gave_up))
    for row in rows:
        line_speed, speed = rows[3].events_per_second, row.events_per_second
        row.ratio_to_sketch = speed / line_speed if speed and line_speed else None
    return rows


def _alternative(task: Task, engine: str, seconds: float, reference: Answers, gave_up: set[tuple[str, str]]) -> Row:
    skipped = Row(task.name, len(task), engine)
    if (task.name, engine) in gave_up:
        skipped.note = "skipped: too slow at a smaller size"
        return skipped
    try:
        return ALTERNATIVES[engine](task, seconds, reference)
    except OutOfTime:
        gave_up.add((task.name, engine))
        skipped.note = f"skipped: not built in {4 * seconds:g} s"
    except ImportError as error:
        skipped.note = f"skipped: {error.name} is not installed"
    return skipped


def _sketch_program(folder: Path) -> Path | sketch.Unavailable:
    try:
        return sketch.compile_sketch(folder)
    except sketch.Unavailable as reason:
        _say(f"the C++ sketch is skipped: {reason}")
        return reason


def _sketch(task: Task, program: Path | sketch.Unavailable, folder: Path) -> sketch.Sketch | sketch.Unavailable:
    if isinstance(program, sketch.Unavailable):
        return program
    try:
        return sketch.Sketch(program, task, folder)
    except sketch.Unavailable as reason:
        return reason


def _task(workload: str, size: int, events: int) -> Task | None:
    if workload != "padres":
        return SyntheticTask(workload, size, events)
    folder = data_folder()
    return PadresTask(folder, events) if folder else None


def _events_for(size: int) -> int:
    """Enough for a pass to last some tenths of a second, and for whole batches."""
    return BATCH * (24 if size <= 10_000 else 8 if size <= 100_000 else 2)


def _machine() -> dict[str, str]:
    cpu = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        named = [line for line in information.read_text().splitlines() if line.startswith("model name")]
        cpu = named[0].partition(":")[2].strip() if named else cpu
    return {"cpu": cpu, "system": platform.system(), "python": platform.python_version()}


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def _count(text: str) -> int:
    """10k, 1M and 5000 as numbers."""
    scale = {"k": 1_000, "m": 1_000_000}.get(text[-1:].lower(), 1)
    return int(text if scale == 1 else text[:-1]) * scale


def _options(arguments: list[str] | None) -> argparse.Namespace:
    as_written = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=as_written)
    parser.add_argument("--workloads", nargs="+", choices=["eq", "mix", "padres"], metavar="NAME")
    parser.add_argument("--sizes", nargs="+", type=_count, metavar="N", help="subscriptions: 10k, 1M")
    parser.add_argument("--events", type=_count, metavar="N", help="events per task (default: by size)")
    parser.add_argument("--engines", nargs="*", choices=list(ALTERNATIVES), help="others to run")
    parser.add_argument("--seconds", type=float, help="of CPU time for each measurement (default 5)")
    parser.add_argument("--rounds", type=int, help="of Palio and the sketch in turns (default 3)")
    parser.add_argument("--quick", action="store_true", help="1k subscriptions, 2,048 events, 0.2 s each")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    options = parser.parse_args(arguments)
    quick = options.quick
    defaults = {
        "workloads": ["eq", "mix"] if quick else ["eq", "mix", "padres"],
        "sizes": [1_000] if quick else [1_000, 10_000, 100_000, 1_000_000],
        "events": 2_048 if quick else None,
        "engines": list(ALTERNATIVES),
        "seconds": 0.2 if quick else 5.0,
        "rounds": 1 if quick else 3,
    }
    for name, value in defaults.items():
        if getattr(options, name) is None:
            setattr(options, name, value)
    return options


if __name__ == "__main__":
    sys.exit(main())
