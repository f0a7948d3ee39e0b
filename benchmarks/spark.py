"""Throughput of matching on Spark, beside SQL joins, on the same rows in the same run.

    python benchmarks/spark.py                     100 to 1 million subscriptions; some minutes
    python benchmarks/spark.py --sizes 100 10k     some of them
    python benchmarks/spark.py --columns 40        events of 40 columns, all of which come back with every match
    python benchmarks/spark.py --scaling           also Palio on one CPU and on two

A million events of ten attributes in Parquet, subscriptions of three to five conditions, nearly one match for each
thousand subscriptions and event. Everything is written to `noop`, warm, the best of some rounds; slow engines get
fewer events. What is compared:

- pass-through: Arrow batches of all columns, eleven by default, through Python, one column back; no matching can be
  faster that goes
  the same way;
- Palio, one row for each event with the numbers of those who want it; with their ids; and a row for each pair;
- Palio, files: numbers for each event once more, but Python reads the files itself, and nothing but the answer passes
  between it and the JVM: what the way of the events costs;
- hash joins: subscriptions as a table with a column for each bound, joined on the rarest word each asks for, then the
  other bounds compared; those without a word by a nested loop;
- nested loop: the same table, joined on all bounds;
- explode and group: a row for each value of an event and each condition of a subscription, joined, the hits counted;
- CASE: an expression for each subscription, in one SELECT;
- pandas loop: a pandas function that asks one subscription after the other.

Answers are compared on the events that all engines of a size have seen.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from harness.engines import spark_sql
from harness.report import figure, short
from rich.console import Console
from rich.table import Table

from palio import Matcher
from palio.spark import Wants, match
from palio.spark.session import open_session
from palio.workloads import mix

WORKLOAD = mix(attributes=10, conditions=(3, 5), present=(10, 10), vocabulary=140)
SIZES = ("100", "1k", "10k", "100k", "1M")
# Events that an engine gets at each size, so that none takes long.
EVENTS = {
    "pass-through": {},
    "Palio, numbers": {"100k": 300_000, "1M": 60_000},
    "Palio, ids": {"100k": 300_000, "1M": 30_000},
    "Palio, pairs": {"100k": 300_000, "1M": 30_000},
    "Palio, files": {"100k": 300_000, "1M": 60_000},
    "hash joins": {"10k": 100_000, "100k": 10_000, "1M": 1_000},
    "nested loop": {"100": 200_000, "1k": 50_000, "10k": 4_000, "100k": 0, "1M": 0},
    "explode and group": {"100": 50_000, "1k": 5_000, "10k": 500, "100k": 0, "1M": 0},
    "pandas loop": {"100": 100_000, "1k": 20_000, "10k": 4_000, "100k": 0, "1M": 0},
    "CASE": {"100": 200_000, "1k": 20_000, "10k": 0, "100k": 0, "1M": 0},
}
NUMBER = spark_sql.NUMBER


@dataclass
class Line:
    """One row of the table."""

    engine: str
    size: str
    events: int
    seconds: float
    matches: int | None = None
    answers: str = ""

    @property
    def rate(self) -> float:
        return self.events / self.seconds


class Bench:
    def __init__(self, folder: Path, events: int, rounds: int, cpus: int | None, columns: int | None = None) -> None:
        if cpus is not None:
            os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cpus])
        self._folder = folder
        self._events = events
        self._rounds = rounds
        self._columns = columns
        settings = {"spark.sql.shuffle.partitions": "4", "spark.driver.memory": "3g"}
        self.spark = open_session("local[2]", settings)

    def lines(self, size: str, engines: list[str]) -> Iterator[Line]:
        count = size_of(size)
        wants = None
        if any(name.startswith("Palio") for name in engines):
            wants = self._wants(count)
        table = None
        if any(name in ("hash joins", "nested loop", "explode and group") for name in engines):
            table = spark_sql.subscription_table(self.spark, WORKLOAD, count, self._folder)
        jobs: dict[str, tuple[int, Callable[[Any], Any]]] = {}
        for name in engines:
            if events := min(self._events, EVENTS[name].get(_listed(count), self._events)):
                jobs[name] = (events, self._job(name, wants, table, count))
        seconds = self._seconds(size, jobs)
        found = [Line(name, size, events, min(seconds[name])) for name, (events, _) in jobs.items()]
        self._compare(found, {name: job for name, job in jobs.items() if name != "pass-through"})
        yield from found

    def _seconds(self, size: str, jobs: dict[str, tuple[int, Callable[[Any], Any]]]) -> dict[str, list[float]]:
        """Seconds of each job in each round; they take turns, so that what slows the machine down slows them all."""
        seconds: dict[str, list[float]] = {name: [] for name in jobs}
        for number in range(self._rounds + 1):  # the first is to warm up
            for name, (events, job) in jobs.items():
                if not number:
                    _say(f"{size} subscriptions: {name}, {events:,} events …")
                started = time.perf_counter()
                job(self._frame(events)).write.format("noop").mode("overwrite").save()
                if number:
                    seconds[name].append(time.perf_counter() - started)
        return seconds

    def _frame(self, events: int) -> Any:
        """So many events, from Parquet."""
        path = self._folder / f"events-{events}"
        if not path.exists():
            path.mkdir()
            for part in range(4):
                first, last = (events * place // 4 for place in (part, part + 1))
                made = pa.Table.from_batches([WORKLOAD.events(last - first, first)])
                numbers = pa.array(np.arange(first, last))
                made = with_payload(made.append_column(NUMBER, numbers), self._columns or 0)
                pq.write_table(made, path / f"{part}.parquet")
        return self.spark.read.parquet(str(path))

    def _wants(self, count: int) -> Wants:
        made = WORKLOAD.subscriptions(count)
        matcher = Matcher()
        matcher.add_many(made["id"].to_pylist(), made["where"].to_pylist())
        matcher.merge()
        path = self._folder / f"{count}.palio"
        matcher.save(path)
        return Wants.read(self.spark, str(path))

    def _job(self, name: str, wants: Wants | None, table: Any, count: int) -> Callable[[Any], Any]:
        match name:
            case "pass-through":
                return lambda events: events.mapInArrow(pass_through, f"{NUMBER} long")
            case "Palio, numbers":
                return lambda events: match(events, wants, per_event=True, numbers=True, columns=[NUMBER])
            case "Palio, ids":
                return lambda events: match(events, wants, per_event=True, columns=[NUMBER])
            case "Palio, pairs":
                kept = [NUMBER] if self._columns is None else None
                return lambda events: match(events, wants, numbers=True, columns=kept)
            case "Palio, files":
                return lambda events: read_in_python(events, wants)
            case "hash joins":
                return lambda events: spark_sql.hash_joins(events, table, WORKLOAD)
            case "nested loop":
                return lambda events: spark_sql.nested_loop(events, table, WORKLOAD)
            case "explode and group":
                return lambda events: spark_sql.exploded(events, table, WORKLOAD)
        wheres = WORKLOAD.subscriptions(count)["where"].to_pylist()
        if name == "CASE":
            return lambda events: spark_sql.case_expressions(events, wheres)
        return lambda events: spark_sql.pandas_loop(events, wheres, WORKLOAD)

    def _compare(self, lines: list[Line], jobs: dict[str, tuple[int, Callable[[Any], Any]]]) -> None:
        if not jobs:
            return
        least = min(events for events, _ in jobs.values())
        answers = {name: digest(job(self._frame(least))) for name, (_, job) in jobs.items()}
        reference = next(iter(answers.values()))
        for line in lines:
            if line.engine in answers:
                line.matches = answers[line.engine][0]
                equal = answers[line.engine] == reference
                line.answers = f"{'equal' if equal else 'DIFFERS'} on {least:,}"

    def footprint(self) -> int:
        """The memory of the Python workers, pages that they share counted once."""
        total = 0
        for each in Path("/proc").glob("[0-9]*"):
            try:
                if b"pyspark.daemon" in (each / "cmdline").read_bytes():
                    rollup = (each / "smaps_rollup").read_text()
                    total += int(rollup.partition("\nPss:")[2].split()[0]) * 1024
            except (OSError, ValueError):
                continue
        return total


def size_of(text: str) -> int:
    """A number of subscriptions: 100, 2.5k, 1M."""
    factor = {"k": 1_000, "M": 1_000_000}.get(text[-1:], 1)
    return round(float(text.rstrip("kM")) * factor)


def _listed(count: int) -> str:
    """The size of the list that a number of subscriptions is limited like."""
    return next((size for size in SIZES if size_of(size) >= count), SIZES[-1])


def with_payload(events: pa.Table, columns: int) -> pa.Table:
    """The events with further columns that no subscription reads, up to a number: words, numbers and times in turn."""
    chosen = np.random.default_rng(7)
    words = pa.array([f"payload {number:04}" for number in range(1_000)])
    for number in range(len(events.columns), columns):
        numbers = chosen.integers(0, 1_000, len(events))
        made = (
            words.take(pa.array(numbers)),
            pa.array(numbers),
            pa.array(numbers * 0.5),
            pa.array(numbers * 1_000_000, pa.timestamp("us", "UTC")),
        )
        events = events.append_column(f"payload_{number}", made[number % 4])
    return events


def pass_through(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        yield batch.select([NUMBER])


def read_in_python(events: Any, wants: Wants | None) -> Any:
    """The paths of the files are what Spark hands out; tasks read them."""
    from palio.spark.record_batches import group_into_lists
    from palio.spark.shared_index import SharedIndex

    assert wants is not None
    spark = events.sparkSession
    index = wants.index or SharedIndex.publish(spark, wants.matcher)
    looked_at = sorted(wants.matcher.attributes)

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        matcher = index.open()
        for path in (path for batch in batches for path in batch.column(0).to_pylist()):
            with pq.ParquetFile(path.removeprefix("file://")) as file:
                for events in file.iter_batches(10_000, columns=[*looked_at, NUMBER]):
                    rows, numbers = matcher.match_columns(events.select(looked_at))
                    found = group_into_lists(rows, pa.array(numbers), events.num_rows)
                    yield pa.RecordBatch.from_arrays([events[NUMBER], found], [NUMBER, "subscription_ids"])

    paths = [(path,) for path in events.inputFiles()]
    handed = spark.createDataFrame(paths, "path string").repartition(len(paths))
    return handed.mapInArrow(run, f"{NUMBER} long, subscription_ids array<int>")


def digest(found: Any) -> tuple[int, int]:
    """How many pairs there are, and a sum over them that no order changes."""
    from pyspark.sql import functions as sql

    last = found.columns[-1]
    if last == "subscription_ids":
        found = found.select(NUMBER, sql.explode(last).alias(last))
    pair = sql.xxhash64(sql.col(NUMBER).cast("long"), sql.col(last).cast("long")).cast("decimal(38)")
    row = found.agg(sql.count(sql.lit(1)), sql.sum(pair)).collect()[0]
    return int(row[0]), int(row[1] or 0)


def scaling(options: argparse.Namespace) -> dict[int, float]:
    """Events a second of Palio at 10 thousand subscriptions, on one CPU and on two."""
    found = {}
    for cpus in (1, 2):
        _say(f"on {cpus} of the CPUs …")
        command = [sys.executable, __file__, "--cpus", str(cpus), "--sizes", "10k", "--engines", "Palio, numbers"]
        ran = subprocess.run([*command, "--events", str(options.events), "--json"], capture_output=True, check=True)
        (line,) = json.loads(ran.stdout)["lines"]
        found[cpus] = line["events"] / line["seconds"]
    return found


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    lines: list[Line] = []
    footprint = None
    with tempfile.TemporaryDirectory(prefix="palio-spark-bench-") as name:
        bench = Bench(Path(name), options.events, options.rounds, options.cpus, options.columns)
        try:
            for size in options.sizes:
                lines += bench.lines(size, options.engines)
            if options.sizes[-1] == "1M":
                footprint = bench.footprint()
        finally:
            bench.spark.stop()
    speeds = scaling(options) if options.scaling else {}
    if options.json:
        print(json.dumps({"lines": [asdict(line) for line in lines], "footprint": footprint, "cpus": speeds}))
    else:
        _show(lines, footprint, speeds)
    return 1 if any("DIFFERS" in line.answers for line in lines) else 0


def _show(lines: list[Line], footprint: int | None, speeds: dict[int, float]) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=150)
    table = Table(title="Matching on Spark, local[2], a million events of ten attributes", pad_edge=False)
    for header in ("subscriptions", "engine"):
        table.add_column(header, no_wrap=True)
    for header in ("events", "events/s", "× pass-through", "× hash joins", "matches/event"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("answers")
    for size in dict.fromkeys(line.size for line in lines):
        section = [line for line in lines if line.size == size]
        beside = {line.engine: line.rate for line in section}
        for line in section:
            ratios = [
                figure(line.rate / beside[other] if other in beside else None)
                for other in ("pass-through", "hash joins")
            ]
            checked = int(line.answers.split()[-1].replace(",", "")) if line.answers else 0
            each = figure(line.matches / checked) if line.matches is not None and checked else "–"
            table.add_row(
                short(size_of(size)), line.engine, f"{line.events:,}", figure(line.rate), *ratios, each, line.answers,
                style="bold" if "Palio" in line.engine else None,
            )  # fmt: skip
        table.add_section()
    console.print(table)
    if footprint is not None:
        console.print(f"the Python workers hold {footprint / 2**20:,.0f} MB at a million subscriptions")
    if speeds:
        console.print(
            f"two CPUs are {speeds[2] / speeds[1]:.2f} times one: {speeds[1]:,.0f} and {speeds[2]:,.0f} events/s"
        )


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", nargs="+", default=list(SIZES), metavar="N", help="100, 2.5k, 1M, …")
    parser.add_argument("--columns", type=int, metavar="N", help="of an event; pairs keep all of them")
    parser.add_argument("--engines", nargs="+", choices=list(EVENTS), default=list(EVENTS), metavar="NAME")
    parser.add_argument("--events", type=int, default=1_000_000, metavar="N", help="at most, for each engine")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="after one to warm up; the best counts")
    parser.add_argument("--cpus", type=int, metavar="N", help="keep to so many CPUs")
    parser.add_argument("--scaling", action="store_true", help="also compare one CPU with two")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    return parser.parse_args(arguments)


if __name__ == "__main__":
    sys.exit(main())
