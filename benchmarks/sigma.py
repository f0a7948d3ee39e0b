"""Sigma benchmark: all rules for Windows over real logs, beside SQL engines that run the rules' SQL.

    python benchmarks/sigma.py                       100,000 events; some minutes
    python benchmarks/sigma.py --events 956701       all of them
    python benchmarks/sigma.py --events 2000 --rules 200 --quick

Rules are SigmaHQ's, events those of OTRF's recorded attacks, spread evenly over the file. Palio gets them as Arrow
batches, each value seen for the first time, and, for a second line, as lines of JSON. DuckDB and SQLite get the
same events as a table of texts, and one query for every rule, whose SQL pySigma writes; loading the table is not
counted. All run in this process on one core, and seconds are CPU seconds. All answers are compared, pair by pair.
SQLite is slow, and gets fewer events.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sqlite3
import sys
import tempfile
from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

if __name__ == "__main__":
    os.environ["OMP_NUM_THREADS"] = "1"
    # pySigma's package has the name of this file, and this file's folder comes first: it is imported without it.
    here = sys.path.pop(0)
    with suppress(ImportError):
        import sigma.collection  # noqa: F401
    sys.path.insert(0, here)

import pyarrow as pa
from harness.clock import pin_to_one_core, timed
from harness.report import figure
from harness.sigma_data import EVENT_COUNT, EVENTS, RULES, Events, Rule, read_rules
from harness.tasks import data_folder
from rich.console import Console
from rich.table import Table

from palio import Matcher
from palio.matching.subscription import Subscription

Pairs = set[tuple[int, str]]
_DIALECTS = ("DuckDB", "SQLite")


@dataclass
class Line:
    """One row of the table; None is not measured."""

    engine: str
    events: int
    rules: int
    events_per_second: float | None = None
    ratio: float | None = None
    build_seconds: float | None = None
    matches: int | None = None
    note: str = ""
    pairs: Pairs = field(default_factory=set, repr=False)


def main(arguments: list[str] | None = None) -> int:
    options = _options(arguments)
    folder = data_folder()
    if folder is None or not ((folder / RULES).is_file() and (folder / EVENTS).is_file()):
        print(
            "skipped: the rules and events are not here (set PALIO_DATA to the folder that has them)", file=sys.stderr
        )
        return 0
    core = pin_to_one_core()
    _say("reading rules …")
    with timed() as reading:
        rules, refused = read_rules(folder, product=None)
    count = len(rules)
    rules = [rule for rule in rules if "product: windows" in rule.text]
    rules = rules[:: max(1, len(rules) // options.rules)] if options.rules else rules
    _say(f"reading {options.events:,} events …")
    events = Events(folder, options.events)
    lines = _palio(rules, events, options)
    for line in _sql(rules, events, options):
        if line.events:
            _compare(line, lines[0].pairs)
        lines.append(line)
    for line in lines:
        beside = next((each for each in lines if each.engine == "DuckDB"), None)
        if line.events_per_second and beside is not None and beside.events_per_second:
            line.ratio = line.events_per_second / beside.events_per_second
    where = "unpinned" if core is None else f"core {core}"
    facts = f"{count:,} rules read in {reading.seconds:.1f} s, {len(refused)} refused; {where}"
    if options.json:
        shown = [{name: value for name, value in asdict(line).items() if name != "pairs"} for line in lines]
        print(
            json.dumps(
                {
                    "rules": len(rules),
                    "read": count,
                    "refused": len(refused),
                    "reading": reading.seconds,
                    "lines": shown,
                }
            )
        )
    else:
        _show(lines, facts)
    return 1 if any("DIFFERS" in line.note for line in lines) else 0


def _palio(rules: list[Rule], events: Events, options: argparse.Namespace) -> list[Line]:
    _say("Palio: compiling, building …")
    table = events.table
    warm = Matcher()
    warm.add_subscriptions([Subscription(rule.id, rule.read.filter) for rule in rules[:50]])
    warm.match_batch(table.slice(0, 50))
    gc.collect()
    with timed() as building, tempfile.TemporaryDirectory(prefix="palio-bench-") as name:
        matcher = Matcher()
        matcher.add_subscriptions([Subscription(rule.id, rule.read.filter) for rule in rules])
        path = Path(name) / "rules.palio"
        matcher.save(path)
        opened = [Matcher.open(path) for _ in range(options.rounds)]
    index = matcher.statistics().index_bytes
    columns = Line("Palio, Arrow batches", len(events), len(rules), build_seconds=building.seconds)
    for number, each in enumerate(opened):  # each has seen no value yet
        _say(f"Palio: {len(events):,} events, round {number + 1} …")
        each.match_batch(table.slice(0, 0))
        each.match_batch(table.slice(0, 1))
        with timed() as watch:
            found = each.match_batch(table)
        columns.pairs, columns.matches = _pairs(found), len(found)
        columns.events_per_second = max(columns.events_per_second or 0.0, len(events) / watch.seconds)
    columns.note = f"{index / len(rules):,.0f} bytes of index a rule"
    few = events.lines[: options.json_events]
    objects = Line("Palio, JSON lines", len(few), len(rules))
    _say(f"Palio: {len(few):,} lines of JSON …")
    matcher.match_batch(few[:1])
    with timed() as watch:
        found = matcher.match_batch(few)
    objects.pairs, objects.matches = _pairs(found), len(found)
    objects.events_per_second = len(few) / watch.seconds
    _compare(objects, columns.pairs)
    return [columns, objects]


def _pairs(found: pa.Table) -> Pairs:
    return set(zip(found["row"].to_pylist(), found["subscription"].to_pylist(), strict=True))


def _sql(rules: list[Rule], events: Events, options: argparse.Namespace) -> list[Line]:
    try:
        from harness import sigma_sql
    except ImportError as error:
        return [Line(name, 0, 0, note=f"skipped: {error.name} is not installed") for name in _DIALECTS]
    names = sorted({name for rule in rules for name in rule.read.filter.attributes})
    places, table = events.texts(names, sigma_sql.EVERYTHING)
    _say("writing the rules as SQL …")
    duck = {rule.id: sigma_sql.where(rule.text, rule.logsource, places) for rule in rules}
    lite = {rule.id: sigma_sql.where(rule.text, rule.logsource, places, sigma_sql.ForSQLite) for rule in rules}
    few = table.slice(0, options.sqlite_events)
    return [
        _run("DuckDB", table, duck, _duckdb(table)),
        _run("SQLite", few, lite, _sqlite(few, sigma_sql.regexp)),
    ]


Ask = Callable[[str], Iterable[tuple[Any, ...]]]


def _run(engine: str, table: pa.Table, conditions: dict[str, str], ask: Ask) -> Line:
    """One query for every rule."""
    line = Line(engine, len(table), len(conditions))
    _say(f"{engine}: {len(table):,} events …")
    with timed() as watch:
        for id, condition in conditions.items():
            line.pairs.update((row, id) for (row,) in ask(condition))
    line.events_per_second = len(table) / watch.seconds
    line.matches = len(line.pairs)
    return line


def _duckdb(table: pa.Table) -> Ask:
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    connection.register("arrow", table)
    connection.execute("CREATE TABLE logs AS SELECT * FROM arrow")
    return lambda condition: connection.execute(f"SELECT rowid FROM logs WHERE {condition}").fetchall()


def _sqlite(table: pa.Table, regexp: Callable[[str, str | None], bool | None]) -> Ask:
    connection = sqlite3.connect(":memory:")
    connection.create_function("REGEXP", 2, regexp, deterministic=True)
    columns = ", ".join(f"{name} TEXT COLLATE NOCASE" for name in table.column_names)
    connection.execute(f"CREATE TABLE logs ({columns})")
    marks = ", ".join("?" * table.num_columns)
    connection.executemany(f"INSERT INTO logs VALUES ({marks})", zip(*table.to_pydict().values(), strict=True))
    return lambda condition: connection.execute(f"SELECT rowid - 1 FROM logs WHERE {condition}").fetchall()


def _compare(line: Line, reference: Pairs) -> None:
    """Note whether an engine's answers are the reference's on the events it saw."""
    expected = {pair for pair in reference if pair[0] < line.events}
    if line.pairs == expected:
        line.note = f"equal on {line.events:,} {line.note}".rstrip()
    else:
        more, fewer = len(line.pairs - expected), len(expected - line.pairs)
        line.note = f"DIFFERS: {more} more, {fewer} fewer {line.note}".rstrip()


def _show(lines: list[Line], facts: str) -> None:
    console = Console()
    if not console.is_terminal:
        console = Console(width=150)
    table = Table(
        title="Sigma rules for Windows over OTRF events, one core, CPU time", caption=facts,
        title_justify="left", caption_justify="left", pad_edge=False,
    )  # fmt: skip
    table.add_column("engine", no_wrap=True)
    for header in ("rules", "events", "events/s", "× DuckDB", "build s", "matches"):
        table.add_column(header, justify="right", no_wrap=True)
    table.add_column("answers")
    for line in lines:
        table.add_row(
            line.engine, f"{line.rules:,}", f"{line.events:,}", figure(line.events_per_second), figure(line.ratio),
            figure(line.build_seconds), "–" if line.matches is None else f"{line.matches:,}", line.note,
            style="bold" if "Palio" in line.engine else None,
        )  # fmt: skip
    console.print(table)


def _say(message: str) -> None:
    print(message, file=sys.stderr, flush=True)


def _options(arguments: list[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--events", type=int, default=100_000, metavar="N", help=f"up to {EVENT_COUNT:,}")
    parser.add_argument("--rules", type=int, metavar="N", help="about so many of the rules (default: all)")
    parser.add_argument("--json-events", type=int, default=20_000, metavar="N", help="as lines of JSON")
    parser.add_argument("--sqlite-events", type=int, default=2_000, metavar="N", help="for SQLite")
    parser.add_argument("--rounds", type=int, default=3, metavar="N", help="of Palio, of which the best counts")
    parser.add_argument("--quick", action="store_true", help="one round, and 200 events for SQLite")
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    options = parser.parse_args(arguments)
    if options.quick:
        options.rounds, options.sqlite_events = 1, 200
    return options


if __name__ == "__main__":
    sys.exit(main())
