"""Shapes benchmark: conditions of every shape by the ten thousand, beside another commit and beside DuckDB.

    python benchmarks/shapes.py                             10,000 conditions of each shape; some minutes
    python benchmarks/shapes.py --baseline v0.1.0           beside that commit, in turns
    python benchmarks/shapes.py --sizes 10k 100k --only lower tags
    python benchmarks/shapes.py --everyday                  other shapes that users write, without DuckDB

Events come in Arrow batches of 8,192. Every commit runs in a process of its own on one core, and they take turns shape
by shape; seconds are CPU seconds. A sample of the matches is compared with brute force, with the other commit and with
DuckDB, and a difference ends the run with status 1. DuckDB counts the events of each condition, all conditions in one
query; where ten thousand take it too long it gets fewer, and `~` marks its speed scaled to all of them.

`× equality` is how many times as long an event takes as with as many equalities, the first of the everyday shapes;
`check` is how many of a sample of conditions `palio check` calls slow, which is to be all of them above ten, and none
below: `?` marks where it is not, by more than a factor of two.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"

from harness.checkout import REPOSITORY, checkout
from harness.clock import pin_to_one_core
from harness.condition_shapes import SHAPES, Shape
from harness.engines import duckdb_conditions
from harness.engines.duckdb_conditions import Counted
from harness.everyday_shapes import EVERYDAY_SHAPES
from harness.report import figure, short
from harness.shape_worker import BATCH, SAMPLE_EVENTS, Measured
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

_WORKER = Path(__file__).resolve().parent / "harness" / "shape_worker.py"
_SLOW = 10  # times an equality
_NOISE = 2  # times, between two measurements on a shared machine
_CHECKED = 300  # conditions that are given to `palio check`


@dataclass
class Line:
    """One shape at one size; None is not measured."""

    now: Measured
    baseline: Measured | None = None
    duckdb: Counted | None = None
    error: str = ""
    times_equality: float = 0.0
    slow_share: float = 0.0
    """The share of a sample of conditions that `palio check` calls slow."""

    @property
    def is_misjudged(self) -> bool:
        """Whether `palio check` says something else than the measurement, by more than its noise."""
        if self.slow_share > 0.5:
            return self.times_equality < _SLOW / _NOISE
        return self.times_equality > _SLOW * _NOISE


class Worker:
    """A process that measures one commit of Palio."""

    def __init__(self, source: Path) -> None:
        environment = {**os.environ, "PYTHONPATH": str(source)}
        pipe = subprocess.PIPE
        self._process = subprocess.Popen(
            [sys.executable, str(_WORKER)], stdin=pipe, stdout=pipe, env=environment, text=True
        )

    def measure(self, shape: Shape, size: int, options: argparse.Namespace) -> Measured:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        request = {"shape": shape.title, "size": size, "seconds": options.seconds, "seed": options.seed}
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"measuring {shape.title!r} failed, see above")
        found = Measured(**json.loads(line))
        found.pairs = [(row, number) for row, number in found.pairs]
        return found

    def close(self) -> None:
        with self._process:  # closes the pipes, and waits
            self._process.terminate()


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    offered = EVERYDAY_SHAPES if options.everyday else SHAPES
    shapes = [shape for shape in offered if any(each.lower() in shape.title.lower() for each in options.only)]
    core = pin_to_one_core()
    lines: list[Line] = []
    with ExitStack() as stack:
        baseline = None
        if options.baseline:
            source = stack.enter_context(checkout(options.baseline))
            baseline = None if source is None else Worker(source)
        now = Worker(REPOSITORY / "src")
        for worker in (now, baseline):
            if worker is not None:
                stack.callback(worker.close)
        progress = stack.enter_context(_progress())
        task = progress.add_task("", total=len(shapes) * len(options.sizes))
        try:
            for size in options.sizes:
                equality = now.measure(EVERYDAY_SHAPES[0], size, options).events_per_second
                for shape in shapes:
                    progress.update(task, description=f"{short(size)}, {shape.title}")
                    lines.append(_measure(shape, size, now, baseline, options))
                    lines[-1].times_equality = equality / lines[-1].now.events_per_second
                    lines[-1].slow_share = _called_slow(shape, lines[-1].now.subscriptions, options)
                    progress.advance(task)
        except KeyboardInterrupt:
            _say("interrupted; what was measured until now:")
    if options.json:
        print(json.dumps({"baseline": options.baseline, "lines": [_plain(line) for line in lines]}, indent=2))
    else:
        _show(lines, options, "unpinned" if core is None else f"core {core}")
    different = [line for line in lines if line.error]
    for line in different:
        _say(f"answers differ: {line.now.shape}: {line.error}")
    return 1 if different else 0


def _measure(shape: Shape, size: int, now: Worker, baseline: Worker | None, options: argparse.Namespace) -> Line:
    rounds: dict[Worker, list[Measured]] = {now: []} if baseline is None else {now: [], baseline: []}
    for number in range(options.rounds):
        for worker in rounds if number % 2 == 0 else reversed(rounds):  # nobody always comes first
            rounds[worker].append(worker.measure(shape, size, options))
    line = Line(_best(rounds[now]))
    line.error = line.now.error
    if baseline is not None:
        line.baseline = _best(rounds[baseline])
        if not line.error and line.baseline.pairs != line.now.pairs:
            line.error = "the baseline has other matches"
    if options.duckdb_seconds and not options.everyday:
        line.duckdb = _duckdb(shape, line.now, options)
        if not line.error and line.duckdb.conditions and not _agree(line.now, line.duckdb):
            line.error = "DuckDB has other matches"
    return line


def _best(rounds: list[Measured]) -> Measured:
    """The best figures of all rounds, because disturbances only make a measurement slower."""
    return replace(
        rounds[0],
        events_per_second=max([each.events_per_second for each in rounds]),
        microseconds_single=min([each.microseconds_single for each in rounds]),
        adds_per_second=max([each.adds_per_second for each in rounds]),
        error=next((each.error for each in rounds if each.error), ""),
    )


def _duckdb(shape: Shape, now: Measured, options: argparse.Namespace) -> Counted:
    wheres = shape.wheres(now.subscriptions, options.seed)
    batch = shape.events(BATCH, now.subscriptions, [options.seed, 0])  # the first of the worker's
    try:
        return duckdb_conditions.run(shape, wheres, batch, SAMPLE_EVENTS, options.duckdb_seconds)
    except ImportError:
        return Counted(note="DuckDB is not installed")


def _called_slow(shape: Shape, size: int, options: argparse.Namespace) -> float:
    """The share of some conditions of a shape that `palio check` calls slow, beside each other."""
    from palio import Filter
    from palio.cli.condition_diagnostics import why_slow
    from palio.matching.columnar.computed_attributes import ExpressionUses

    filters = [Filter.parse(where) for where in shape.wheres(size, options.seed)[: _CHECKED // shape.fewer]]
    uses = ExpressionUses(each.tree for each in filters)
    return sum(bool(why_slow(each, uses)) for each in filters) / len(filters)


def _agree(now: Measured, counted: Counted) -> bool:
    counts = [0] * counted.conditions
    for _, number in now.pairs:
        if number < counted.conditions:
            counts[number] += 1
    return counts == counted.sample


# --- report ------------------------------------------------------------------------------------------------


def _show(lines: list[Line], options: argparse.Namespace, where: str) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=220)
    beside = options.baseline or "no baseline"
    table = Table(
        title="Conditions of one shape, CPU time", caption=f"{where}; baseline: {beside}",
        title_justify="left", caption_justify="left", pad_edge=False,
    )  # fmt: skip
    table.add_column("shape", no_wrap=True)
    headers = [
        "conditions", "events/s", "× base", "µs single", "× base", "adds/s", "× base", "×\nequality", "slow",
        "check", "matches\n/event",
        "DuckDB\nevents/s", "× DuckDB", "answers",
    ]  # fmt: skip
    for header in headers:
        table.add_column(header, justify="right", no_wrap=True)
    size = 0
    for line in lines:
        now, counted = line.now, line.duckdb
        if size and now.subscriptions > 2 * size:
            table.add_section()
        size = max(size, now.subscriptions)
        table.add_row(
            escape(now.shape), short(now.subscriptions),
            figure(now.events_per_second), _ratio(line, "events_per_second"),
            figure(now.microseconds_single), _ratio(line, "microseconds_single"),
            figure(now.adds_per_second), _ratio(line, "adds_per_second"),
            figure(line.times_equality), "–" if now.slow is None else f"{now.slow:,}",
            f"{line.slow_share:.0%}" + "?" * line.is_misjudged, figure(now.matches_per_event),
            _duckdb_figure(line), _times(now.events_per_second, counted and counted.events_per_second),
            "[red]DIFFER[/red]" if line.error else "equal",
        )  # fmt: skip
    console.print(table)
    for line in lines:
        if line.duckdb is not None and line.duckdb.note:
            console.print(f"{line.now.shape}: DuckDB: {line.duckdb.note}", highlight=False, markup=False)


def _ratio(line: Line, name: str) -> str:
    """How many times as fast as the baseline."""
    if line.baseline is None:
        return "–"
    now, then = getattr(line.now, name), getattr(line.baseline, name)
    return _times(then, now) if name == "microseconds_single" else _times(now, then)


def _times(value: float, other: float | None) -> str:
    return figure(value / other) if other else "–"


def _duckdb_figure(line: Line) -> str:
    if line.duckdb is None or line.duckdb.events_per_second is None:
        return "–"
    scaled = line.duckdb.conditions < line.now.subscriptions
    return ("~" if scaled else "") + figure(line.duckdb.events_per_second)


def _plain(line: Line) -> dict[str, Any]:
    """For JSON: without the sample, which only comparing needs."""
    found = asdict(line)
    for part, name in (("now", "pairs"), ("baseline", "pairs"), ("duckdb", "sample")):
        if found[part] is not None:
            del found[part][name]
    return found


def _progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True)


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def _count(text: str) -> int:
    """10k, 1M and 5000 as numbers."""
    scale = {"k": 1_000, "m": 1_000_000}.get(text[-1:].lower(), 1)
    return int(text if scale == 1 else text[:-1]) * scale


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", type=_count, default=[10_000], metavar="N", help="conditions: 10k, 1M")
    parser.add_argument(
        "--only", nargs="+", default=[""], metavar="TEXT", help="shapes with one of these in their title"
    )
    parser.add_argument("--everyday", action="store_true", help="the everyday shapes in place of the table's")
    parser.add_argument("--baseline", metavar="COMMIT", help="another commit of Palio to measure in the same run")
    parser.add_argument("--seconds", type=float, default=0.5, help="of CPU time for each measurement (default 0.5)")
    parser.add_argument("--rounds", type=int, default=2, help="in turns, of which the best counts (default 2)")
    parser.add_argument("--duckdb-seconds", type=float, default=10.0, help="for DuckDB with a shape; 0 leaves it out")
    parser.add_argument("--seed", type=int, default=0, help="of conditions and events")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
