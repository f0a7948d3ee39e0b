"""Dicts benchmark: batches of Python dicts, dense and sparse, beside matching them one at a time.

    python benchmarks/dicts.py

Dense events have all of 4 attributes; sparse ones 30 of 400, all of which some subscription reads. 10,000 subscriptions
of two conditions each. Seconds are CPU seconds of the thread that matches; both ways take turns, and the best round of
each counts. The matches of both ways are compared.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from harness import adapter
from harness.clock import pin_to_one_core, timed
from harness.report import figure
from rich.console import Console
from rich.table import Table

SHAPES = {"dense": (4, 4), "sparse": (30, 400)}  # attributes of an event, of all events
EVENTS = 8_192


@dataclass
class Row:
    """One shape of events, in batches of one length."""

    shape: str
    batch: int
    events_per_second: float = 0.0
    one_by_one: float = 0.0
    """Events a second that `match` takes one by one."""

    @property
    def microseconds_per_batch(self) -> float:
        return self.batch / self.events_per_second * 1e6


def condition(number: int, choose: random.Random) -> str:
    return f"a{number} > {choose.randrange(900, 1_000)}" if number % 2 else f"a{number} = 'v{choose.randrange(100)}'"


def value(number: int, choose: random.Random) -> Any:
    return choose.randrange(1_000) if number % 2 else f"v{choose.randrange(100)}"


def measure(shape: str, batches: list[int], subscriptions: int, events: int, rounds: int) -> list[Row]:
    """The rows of one shape; `ValueError` where a batch and single events differ in their matches."""
    width, names = SHAPES[shape]
    choose = random.Random(1)
    matcher = adapter.new_matcher()
    pairs = [choose.sample(range(names), 2) for _ in range(subscriptions)]
    wheres = [" AND ".join(condition(each, choose) for each in pair) for pair in pairs]
    matcher.add_many([str(number) for number in range(subscriptions)], wheres)
    contents = [{f"a{n}": value(n, choose) for n in choose.sample(range(names), width)} for _ in range(events)]
    _compare(matcher, contents[:200])
    rows = [Row(shape, batch) for batch in batches]
    for _ in range(rounds):
        for row in rows:
            count = max(1, min(events // row.batch, 200))
            pieces = [contents[at * row.batch : (at + 1) * row.batch] for at in range(count)]
            row.events_per_second = max(row.events_per_second, _rate(matcher.match_batch, pieces, row.batch))
            row.one_by_one = max(row.one_by_one, _rate(matcher.match, contents[:200], 1))
    return rows


def _rate(match: Callable[[Any], Any], given: list[Any], events: int) -> float:
    with timed() as watch:
        for each in given:
            match(each)
    return len(given) * events / watch.seconds


def _compare(matcher: Any, contents: list[dict[str, Any]]) -> None:
    found = matcher.match_batch(contents)
    pairs = set(zip(found.column("row").to_pylist(), found.column("subscription").to_pylist(), strict=True))
    if pairs != {(row, id) for row, content in enumerate(contents) for id in matcher.match(content)}:
        raise ValueError("a batch and its events one by one have different matches")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 100, 1_000, EVENTS], metavar="N")
    parser.add_argument("--subscriptions", type=int, default=10_000, metavar="N")
    parser.add_argument("--events", type=int, default=EVENTS, metavar="N")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    options = parser.parse_args(arguments)
    pin_to_one_core()
    rows = [
        row
        for shape in SHAPES
        for row in measure(shape, options.batches, options.subscriptions, options.events, options.rounds)
    ]
    if options.json:
        print(json.dumps([asdict(row) for row in rows], indent=2))
        return 0
    table = Table("events", "batch", "events/s", "µs a batch", "× one by one", title="Batches of Python dicts")
    for row in rows:
        ratio = row.events_per_second / row.one_by_one
        figures = map(figure, (row.events_per_second, row.microseconds_per_batch))
        table.add_row(row.shape, str(row.batch), *figures, f"{ratio:.2f}")
    Console().print(table)
    return 0


if __name__ == "__main__":
    sys.exit(main())
