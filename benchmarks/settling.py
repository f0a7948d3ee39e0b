"""Settling benchmark: speed and segments after subscriptions came one by one, beside the same added in bulk.

    python benchmarks/settling.py
    python benchmarks/settling.py --size 100000 --seconds 10

Each way of adding is measured at once, and again after some seconds in which nothing is asked of the matcher. Both
matchers are measured in turns; seconds are CPU seconds of the thread that matches.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable

import pyarrow as pa
from harness.report import figure
from numpy.random import default_rng
from rich.console import Console
from rich.table import Table

import palio

ROWS = 8_192


def condition(number: int) -> str:
    return f"city = 'c{number % 4_000}' AND price > {number % 997} AND qty BETWEEN {number % 50} AND {number % 50 + 9}"


def batch(seed: int) -> pa.RecordBatch:
    choose = default_rng(seed)
    cities = [f"c{n}" for n in choose.integers(0, 4_000, ROWS)]
    columns = {"city": cities, "price": choose.integers(0, 1_000, ROWS), "qty": choose.integers(0, 60, ROWS)}
    return pa.RecordBatch.from_pydict(columns)


def singly(size: int) -> palio.Matcher:
    matcher = palio.Matcher()
    for number in range(size):
        matcher.add(str(number), condition(number))
    return matcher


def in_rounds(size: int) -> palio.Matcher:
    matcher = in_bulk(size)
    events = [{"city": f"c{n}", "price": 500, "qty": 30} for n in range(16)]
    for number in range(size, size + 600):
        matcher.add(str(number), condition(number))
        matcher.match_batch(events)
    return matcher


def by_replacing(size: int) -> palio.Matcher:
    matcher = in_bulk(size)
    for number in range(10 * size):
        matcher.replace(str(number % size), condition(number))
    return matcher


def half_removed(size: int) -> palio.Matcher:
    matcher = in_bulk(2 * size)
    matcher.remove_many([str(2 * number + 1) for number in range(size)])
    return matcher


def in_bulk(size: int) -> palio.Matcher:
    matcher = palio.Matcher()
    matcher.add_many([str(n) for n in range(size)], [condition(n) for n in range(size)])
    return matcher


WAYS: dict[str, Callable[[int], palio.Matcher]] = {
    "added one by one": singly,
    "bulk, then 600 × (add, batch of 16)": in_rounds,
    "each replaced ten times": by_replacing,
    "half of twice as many removed": half_removed,
}


def rates(matchers: list[palio.Matcher], rounds: int) -> list[float]:
    """Events a second of each matcher, the best of some rounds in turns."""
    batches = [batch(seed) for seed in range(4)]
    best = [0.0] * len(matchers)
    for _ in range(rounds):
        for place, matcher in enumerate(matchers):
            start = time.thread_time()
            for each in batches:
                matcher.match_batch(each)
            best[place] = max(best[place], len(batches) * ROWS / (time.thread_time() - start))
    return best


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--size", type=int, default=10_000, metavar="N", help="subscriptions (default 10000)")
    parser.add_argument("--seconds", type=float, default=5.0, help="of rest before the second measurement")
    options = parser.parse_args()
    table = Table(
        "way", "segments", "× bulk", f"segments after {options.seconds:g} s", "events/s", "× bulk", "index MB"
    )
    for title, make in WAYS.items():
        matcher = make(options.size)
        # The size of a matcher that has what this one has, whatever its history.
        alike = palio.Matcher()
        alike.add_subscriptions(matcher.subscriptions())
        at_once = matcher.statistics()
        before, beside = rates([matcher, alike], 1)
        time.sleep(options.seconds)
        after, of_bulk = rates([matcher, alike], 3)
        settled = matcher.statistics()
        table.add_row(
            title,
            str(at_once.segments),
            f"{before / beside:.2f}",
            str(settled.segments),
            figure(after),
            f"{after / of_bulk:.2f}",
            f"{settled.index_bytes / 1e6:.1f} ({alike.statistics().index_bytes / 1e6:.1f})",
        )
    Console().print(table)


if __name__ == "__main__":
    main()
