"""Measuring process of the benchmark of shapes: one commit of Palio, one shape after the other.

    PYTHONPATH=<a checkout>/src python benchmarks/harness/shape_worker.py

Reads requests from standard input and writes results to standard output, each a line of JSON, so that two commits can
take turns. Calls only what every commit has: `Matcher.add_many`, `match_batch`, `match`, `statistics`, `Filter.parse`.

A slow shape is measured on fewer events: their number grows until the measurement has lasted its time and more events
make none of them cheaper. What a batch costs whatever its length, ten thousand expressions say, is so shared by as many
events as a batch has. Every batch is matched once, so that no measured event was seen before.
"""

from __future__ import annotations

import gc
import json
import sys
from dataclasses import asdict, dataclass, field
from math import inf
from pathlib import Path
from time import process_time
from typing import Any

import numpy as np
import pyarrow as pa

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from harness import adapter
from harness.answers import pairs_of_table
from harness.clock import Budget, timed
from harness.condition_shapes import SHAPES, Shape
from harness.everyday_shapes import EVERYDAY_SHAPES

BATCH = 8_192
MAX_BATCHES = 24
SAMPLE_EVENTS = 16  # compared with brute force
SAMPLE_SUBSCRIPTIONS = 200  # beside those that match
_SINGLE_EVENTS = 512
_ROUNDS = 3
_WARM_UP_SUBSCRIPTIONS = 300
_GROWTH = 8
_CHEAPER = 2  # times, where more events share what a batch costs


@dataclass
class Measured:
    """What one commit does with one shape; `error` says what was wrong with its answers."""

    shape: str
    subscriptions: int
    events_per_second: float = 0.0
    microseconds_single: float = 0.0
    adds_per_second: float = 0.0
    slow: int | None = None
    matches_per_event: float = 0.0
    events: int = 0
    pairs: list[tuple[int, int]] = field(default_factory=list)  # of event and subscription, on the sample
    error: str = ""


def measure(shape: Shape, size: int, seconds: float, seed: int = 0) -> Measured:
    """One shape at one size; `seconds` of CPU time for matching batches, and half of that for single events."""
    count = max(1, size // shape.fewer)
    wheres = shape.wheres(count, seed)
    batches = [shape.events(BATCH, count, [seed, number]) for number in range(MAX_BATCHES)]
    sample = batches[0].slice(0, SAMPLE_EVENTS)
    _warm_up(shape, sample)
    gc.collect()
    matcher = adapter.new_matcher()
    with timed() as adding:
        matcher.add_many([str(number) for number in range(count)], wheres)
    found = Measured(shape.title, count, adds_per_second=count / max(adding.seconds, 1e-9))
    rows, subscriptions = pairs_of_table(matcher.match_batch(sample))
    found.pairs = sorted(zip(rows.tolist(), subscriptions.tolist(), strict=True))
    found.error = _compare(matcher, wheres, sample, found.pairs)
    _measure_batches(found, matcher, batches[1:], seconds)
    _measure_singles(found, matcher, batches[0].slice(SAMPLE_EVENTS, _SINGLE_EVENTS), seconds / 2)
    found.slow = getattr(matcher.statistics(), "slow", None)
    return found


def _warm_up(shape: Shape, sample: pa.RecordBatch) -> None:
    """Call everything once, so that no kernel is compiled and no skeleton is new while it is measured."""
    matcher = adapter.new_matcher()
    count = _WARM_UP_SUBSCRIPTIONS // shape.fewer
    matcher.add_many([str(number) for number in range(count)], shape.wheres(count, 1))
    matcher.match_batch(sample)
    matcher.match(_dicts(sample)[0])


def _compare(matcher: adapter.Matcher, wheres: list[str], sample: pa.RecordBatch, pairs: list[tuple[int, int]]) -> str:
    """How the matches of a sample differ from brute force, or from those of single events; empty if they do not."""
    from palio import Filter

    chosen = np.random.default_rng(0).permutation(len(wheres))[:SAMPLE_SUBSCRIPTIONS].tolist()
    filters = {number: Filter.parse(wheres[number]) for number in {*chosen, *(number for _, number in pairs)}}
    for row, event in enumerate(_dicts(sample)):
        found = {number for at, number in pairs if at == row}
        if matcher.match(event) != {str(number) for number in found}:
            return f"event {row} matches otherwise alone"
        for number, condition in filters.items():
            if condition.matches(event) is not (number in found):
                return f"event {row} and {wheres[number]:.80}"
    return ""


def _measure_batches(found: Measured, matcher: adapter.Matcher, batches: list[pa.RecordBatch], seconds: float) -> None:
    left = list(batches)
    rows = SAMPLE_EVENTS
    cost = inf  # of one event
    while rows < BATCH:
        passes = [_pass(matcher, [left.pop().slice(0, rows)], Budget(seconds))]
        before, cost = cost, passes[0][2] / rows
        if passes[0][2] > seconds / 2 and cost > before / _CHEAPER:
            break
        rows *= _GROWTH
    else:
        passes = [_pass(matcher, left[number::_ROUNDS], Budget(seconds / _ROUNDS)) for number in range(_ROUNDS)]
    found.events = sum([events for _, events, _ in passes])
    found.matches_per_event = sum([matches for matches, _, _ in passes]) / found.events
    found.events_per_second = max([events / elapsed for _, events, elapsed in passes])


def _pass(matcher: adapter.Matcher, batches: list[pa.RecordBatch], budget: Budget) -> tuple[int, int, float]:
    """Matches, events and seconds; at least one batch."""
    matched = events = 0
    start = process_time()
    for batch in batches:
        matched += matcher.match_batch(batch).num_rows
        events += batch.num_rows
        if budget.spent:
            break
    return matched, events, max(process_time() - start, 1e-9)


def _measure_singles(found: Measured, matcher: adapter.Matcher, events: pa.RecordBatch, seconds: float) -> None:
    budget = Budget(seconds)
    done = 0
    singles = _dicts(events)
    start = process_time()
    for event in singles:
        matcher.match(event)
        done += 1
        if budget.spent:
            break
    found.microseconds_single = 1e6 * (process_time() - start) / done


def _dicts(batch: pa.RecordBatch) -> list[dict[str, Any]]:
    """Events without the attributes they lack."""
    return [{name: value for name, value in row.items() if value is not None} for row in batch.to_pylist()]


def main() -> None:
    adapter.wait_for_kernels()
    shapes = {shape.title: shape for shape in (*SHAPES, *EVERYDAY_SHAPES)}
    results, sys.stdout = sys.stdout, sys.stderr  # whatever is printed on the way is no result
    for line in sys.stdin:
        request = json.loads(line)
        found = measure(shapes[request["shape"]], request["size"], request["seconds"], request["seed"])
        print(json.dumps(asdict(found)), file=results, flush=True)


if __name__ == "__main__":
    main()
