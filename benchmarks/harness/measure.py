"""Timed run of one engine over the events of a task."""

from __future__ import annotations

from collections.abc import Callable, Collection
from time import process_time
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from harness.answers import Answers
from harness.clock import Budget
from harness.results import Row
from harness.tasks import Task

Pairs = tuple[NDArray[np.int64], NDArray[np.int64]]
SMALL_BATCH = 250


def one_by_one(row: Row, task: Task, match: Callable[[dict[str, Any]], Collection[int]], seconds: float) -> Answers:
    """Events one at a time, in order, until the seconds are over; at least one."""
    found: list[Collection[int]] = []
    budget = Budget(seconds)
    events = task.dicts
    start = process_time()
    for event in events:
        found.append(match(event))
        if budget.spent:
            break
    elapsed = process_time() - start
    row.rate(len(found), sum(map(len, found)), elapsed)
    row.microseconds_per_event = 1e6 * elapsed / len(found)
    return Answers.of_lists(found)


def in_batches(row: Row, task: Task, match: Callable[[pa.RecordBatch], Pairs], seconds: float) -> Answers:
    """Small batches, in order, until the seconds are over; at least one. Rows count from 0 in each batch."""
    batches = task.batches(SMALL_BATCH, 20_000)
    found: list[Pairs] = []
    budget = Budget(seconds)
    start = process_time()
    for batch in batches:
        found.append(match(batch))
        if budget.spent:
            break
    elapsed = process_time() - start
    events = sum(batch.num_rows for batch in batches[: len(found)])
    rows = np.concatenate([rows + number * SMALL_BATCH for number, (rows, _) in enumerate(found)])
    subscriptions = np.concatenate([subscriptions for _, subscriptions in found])
    row.rate(events, len(rows), elapsed)
    return Answers.of_pairs(rows, subscriptions, events)


def compare(row: Row, answers: Answers, reference: Answers) -> None:
    """Note in the row whether the answers are the reference's."""
    row.checked_events = min(len(answers), len(reference))
    row.differs = not answers.agrees_with(reference)
