"""Growth of the cost of an event with the number of subscriptions that do not want it.

    python benchmarks/growth.py

Uniform string equalities, with a vocabulary that grows as the square root of the number of subscriptions:
then as many subscriptions match an event at every size (those with two conditions are nearly all of them),
and what grows is only the number of those that do not. An index with one level looks at ten times as many
candidates from 10 thousand to a million; one with two levels need not. Seconds are CPU seconds on one core,
matching from Arrow batches; sizes take turns, and the best round of each counts.
"""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict, dataclass
from math import sqrt

from harness import adapter
from harness.clock import pin_to_one_core, timed
from harness.engines.palio_matcher import BATCH
from harness.report import figure, short
from rich.console import Console
from rich.table import Table

from palio.workloads import eq

SMALLEST = 10_000


@dataclass
class Point:
    """One size; `growth` is its cost over that of the smallest size."""

    subscriptions: int
    vocabulary: int
    matches_per_event: float = 0.0
    nanoseconds_per_event: float = float("inf")
    growth: float = 1.0


def measure(base: int, sizes: list[int], events: int, rounds: int) -> list[Point]:
    """The points of one line; `base` is the vocabulary at 10,000 subscriptions."""
    points, runs = [], []
    for size in sizes:
        workload = eq(value_skew=0.0, vocabulary=round(base * sqrt(size / SMALLEST)))
        subscriptions = workload.subscriptions(size)
        matcher = adapter.new_matcher()
        matcher.add_many(subscriptions["id"].to_pylist(), subscriptions["where"].to_pylist())
        batches = [workload.events(BATCH, start=start) for start in range(0, events, BATCH)]
        found = sum(matcher.match_batch(batch).num_rows for batch in batches)
        points.append(Point(size, workload.vocabulary, found / (len(batches) * BATCH)))
        runs.append((matcher, batches))
    for _ in range(rounds):
        for point, (matcher, batches) in zip(points, runs, strict=True):
            with timed() as watch:
                for batch in batches:
                    matcher.match_batch(batch)
            cost = watch.seconds / (len(batches) * BATCH) * 1e9
            point.nanoseconds_per_event = min(point.nanoseconds_per_event, cost)
    for point in points:
        point.growth = point.nanoseconds_per_event / points[0].nanoseconds_per_event
    return points


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--vocabularies", nargs="+", type=int, default=[10, 32, 100], help="at 10k subscriptions")
    parser.add_argument("--sizes", nargs="+", type=int, default=[10_000, 100_000, 1_000_000])
    parser.add_argument("--events", type=int, default=4 * BATCH)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--json", action="store_true", help="print JSON instead of the table")
    options = parser.parse_args(arguments)
    pin_to_one_core()
    lines = [measure(base, options.sizes, options.events, options.rounds) for base in options.vocabularies]
    if options.json:
        print(json.dumps([[asdict(point) for point in line] for line in lines], indent=2))
    else:
        _show(lines)
    return 0


def _show(lines: list[list[Point]]) -> None:
    table = Table(title="Cost of an event as subscriptions grow, matches per event held equal")
    for header in ("subscriptions", "vocabulary", "matches/event", "ns/event", "growth"):
        table.add_column(header, justify="right")
    for line in lines:
        for point in line:
            figures = (point.matches_per_event, point.nanoseconds_per_event)
            table.add_row(
                short(point.subscriptions),
                str(point.vocabulary),
                *map(figure, figures),
                f"{point.growth:.2f} ×",
            )
        table.add_section()
    Console().print(table)


if __name__ == "__main__":
    sys.exit(main())
