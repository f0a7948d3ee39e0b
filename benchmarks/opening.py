"""Start-up time until a process can match: importing Palio, and opening a saved index.

    python benchmarks/opening.py                  a million subscriptions
    python benchmarks/opening.py --size 10000

Each figure is the median over fresh processes, in milliseconds of wall time as a user waits for them; files
are in the page cache. Importing Palio loads no engine; the first use of `palio.Matcher` in a process does, with
Numba and Arrow, and the first match fetches the compiled kernels from their cache.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

from harness import adapter
from rich.console import Console
from rich.table import Table

from palio.workloads import Workload

_IMPORT = "from time import perf_counter as t; a = t(); import palio; print(t() - a)"
_OPEN = """
import json, sys
from time import perf_counter as t
import palio
path, event = sys.argv[1], json.loads(sys.argv[2])
start = t()
palio.Matcher
a = t()
matcher = palio.Matcher.open(path)
b = t()
matcher.match(event)
c = t()
again = palio.Matcher.open(path)
d = t()
again.match(event)
e = t()
print(json.dumps([a - start, b - a, c - b, d - c, e - d]))
"""
_LABELS = ("loading the engine", "opening", "first match", "opening again", "first match of that")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--profile", choices=["eq", "mix"], default="mix")
    parser.add_argument("--size", type=int, default=1_000_000)
    parser.add_argument("--processes", type=int, default=7)
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    options = parser.parse_args(arguments)
    figures = {"import palio": [float(_fresh(_IMPORT)) for _ in range(options.processes)]}
    with tempfile.TemporaryDirectory(prefix="palio-bench-") as name:
        path = Path(name) / "wants.palio"
        workload = Workload(options.profile)
        subscriptions = workload.subscriptions(options.size)
        matcher = adapter.new_matcher()
        matcher.add_many(subscriptions["id"].to_pylist(), subscriptions["where"].to_pylist())
        matcher.save(path)
        del matcher
        size = sum(file.stat().st_size for file in [path, *path.rglob("*")] if file.is_file())
        event = json.dumps(next(workload.event_dicts(1)))
        runs = [json.loads(_fresh(_OPEN, str(path), event)) for _ in range(options.processes)]
    for label, times in zip(_LABELS, zip(*runs, strict=True), strict=True):
        figures[label] = list(times)
    medians = {label: 1e3 * statistics.median(values) for label, values in figures.items()}
    if options.json:
        print(json.dumps({"subscriptions": options.size, "file_bytes": size, "milliseconds": medians}, indent=2))
        return 0
    table = Table(title=f"{options.profile}, {options.size:,} subscriptions, {size / 1e6:.0f} MB on disk")
    table.add_column("what")
    table.add_column("median ms", justify="right")
    for label, value in medians.items():
        table.add_row(label, f"{value:.1f}")
    Console().print(table)
    return 0


def _fresh(code: str, *arguments: str) -> str:
    """What a new interpreter prints."""
    command = [sys.executable, "-c", code, *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    sys.exit(main())
