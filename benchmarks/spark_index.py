"""Building the index of a long table of subscriptions: by the driver alone, and by the workers.

    python benchmarks/spark_index.py                     a million subscriptions, three rounds
    python benchmarks/spark_index.py --subscriptions 200000 --rounds 1
    python benchmarks/spark_index.py --unreadable 1000   one in a thousand is no condition
    python benchmarks/spark_index.py --baseline v0.1.0   also what `Wants.read` of that commit did

All ways read the same Parquet files on `local[2]`, each in a process of its own, so that the memory is its own. They
run in turns, and the median counts. The driver's way brings all rows to the driver and makes a subscription of each;
the workers' way is that of `Wants.read`, and so is that of a baseline, however its commit read them. Seconds are from
the DataFrame to an index that can match, after a smaller build, which starts the workers. CPU seconds are those of all
processes, JVM and workers included: on a busy machine they say more. Memory is what the peak of the driver's Python
grew by. All indexes then match the same events, and must agree.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import subprocess
import sys
import tempfile
import time
from contextlib import ExitStack, suppress
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from harness.checkout import checkout
from rich.console import Console
from rich.table import Table

from palio.spark import Wants, generate, match
from palio.spark.session import open_session
from palio.workloads import mix

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

WORKLOAD = mix(attributes=10, conditions=(3, 5), present=(10, 10), vocabulary=140)
WAYS = ("driver", "workers")
BASELINE = "baseline"
SMALL = 210_000  # subscriptions of the build before the timed one; enough for the workers to build it
EVENTS = 2_000


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--subscriptions", type=int, default=1_000_000)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--unreadable", type=int, default=0, metavar="N", help="every N-th condition cannot be read")
    parser.add_argument("--baseline", metavar="REF", help="a commit to measure beside this one")
    parser.add_argument("--way", choices=(*WAYS, BASELINE), help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.way is not None:
        print(json.dumps(_measure(options.way, options.folder)))
        return 0
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="palio-bench-")))
        _write(folder, options.subscriptions, options.unreadable)
        before = stack.enter_context(checkout(options.baseline)) if options.baseline else None
        ways = WAYS if before is None else (BASELINE, *WAYS)
        runs: dict[str, list[dict[str, Any]]] = {way: [] for way in ways}
        for _ in range(options.rounds):
            for way in ways:
                runs[way].append(_in_process(way, folder, before if way == BASELINE else None))
    return _report(runs, options.subscriptions)


def _write(folder: Path, count: int, unreadable: int) -> None:
    spark = open_session("local[2]")
    for name, many in (("wants", count), ("small", SMALL)):
        rows = generate(spark, WORKLOAD, "subscriptions", many, partitions=8)
        if unreadable:
            rows = rows.selectExpr("id", f"IF(id % {unreadable} = 0, concat(where, ' AND'), where) AS where")
        rows.write.parquet(str(folder / name))
    generate(spark, WORKLOAD, "events", EVENTS, partitions=2).write.parquet(str(folder / "events"))
    spark.stop()


def _in_process(way: str, folder: Path, source: Path | None) -> dict[str, Any]:
    """Measure one way, with this commit's source or that of another one."""
    command = [sys.executable, __file__, "--way", way, "--folder", str(folder)]
    environment = os.environ if source is None else {**os.environ, "PYTHONPATH": str(source)}
    ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, env=environment)
    found: dict[str, Any] = json.loads(ended.stdout.splitlines()[-1])
    return found


def _measure(way: str, folder: Path) -> dict[str, Any]:
    spark = open_session("local[2]", {"spark.driver.memory": "3g"})
    build = _on_driver if way == "driver" else Wants.read
    build(spark, spark.read.parquet(str(folder / "small")))
    before, begun, used, all_used = _peak(), time.perf_counter(), time.process_time(), _cpu_seconds()
    wants = build(spark, spark.read.parquet(str(folder / "wants")))
    seconds, used, all_used = time.perf_counter() - begun, time.process_time() - used, _cpu_seconds() - all_used
    grown = _peak() - before
    events = spark.read.parquet(str(folder / "events"))
    matches = match(events, wants, per_event=True, columns=["number"])
    counts = matches.selectExpr("count(*)", "sum(size(subscription_ids))", "sum(hash(sort_array(subscription_ids)))")
    return {
        "seconds": seconds,
        "driver_cpu": used,
        "cpu": all_used,
        "grown": grown,
        "segments": wants.matcher.statistics().segments,
        "refused": len(wants.refused),
        "answer": [int(each) for each in counts.head() or ()],
    }


def _on_driver(spark: SparkSession, rows: DataFrame) -> Wants:
    return Wants.read(spark, rows.toArrow().to_pylist())


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def _cpu_seconds() -> float:
    """CPU seconds of this process and all that it started, however indirectly."""
    parents: dict[int, int] = {}
    seconds: dict[int, float] = {}
    for entry in Path("/proc").glob("[0-9]*"):
        with suppress(OSError):  # ended meanwhile
            fields = (entry / "stat").read_text().rpartition(")")[2].split()
            parents[int(entry.name)] = int(fields[1])
            # Its own in user and system mode, and that of its children that have ended.
            seconds[int(entry.name)] = sum(map(int, fields[11:15])) / os.sysconf("SC_CLK_TCK")

    def is_ours(process: int) -> bool:
        while process not in (0, os.getpid()):
            process = parents.get(process, 0)
        return process != 0

    return sum(used for process, used in seconds.items() if is_ours(process))


def _report(runs: dict[str, list[dict[str, Any]]], count: int) -> int:
    table = Table(title=f"Index of {count:,} subscriptions, local[2]; median of {len(runs['driver'])} rounds")
    for name in ("", "seconds", "× workers", "CPU s", "of driver", "driver +MB", "segments", "refused"):
        table.add_column(name, justify="right" if name else "left")
    middle = {
        way: {key: median(run[key] for run in own) for key in own[0] if key != "answer"} for way, own in runs.items()
    }
    for way, found in middle.items():
        ratios = [one["seconds"] / workers["seconds"] for one, workers in zip(runs[way], runs["workers"], strict=True)]
        ratio = "" if way == "workers" else f"{median(ratios):.2f} ({min(ratios):.2f}-{max(ratios):.2f})"
        cells = [way, f"{found['seconds']:.1f}", ratio, f"{found['cpu']:.1f}", f"{found['driver_cpu']:.1f}"]
        table.add_row(*cells, f"{found['grown']:,.0f}", f"{found['segments']:.0f}", f"{found['refused']:,.0f}")
    Console().print(table)
    answers = {tuple(run["answer"]) for own in runs.values() for run in own}
    if len(answers) > 1:
        print("answers differ", file=sys.stderr)
    return int(len(answers) > 1)


if __name__ == "__main__":
    sys.exit(main())
