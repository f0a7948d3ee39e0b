"""Palio itself: from Arrow batches, one event at a time, and while subscriptions come and go."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from itertools import islice
from time import process_time
from typing import Any

import numpy as np

from harness import adapter
from harness.answers import Answers, pairs_of_table
from harness.clock import Budget, timed
from harness.engines.python_loop import compile_predicates
from harness.measure import SMALL_BATCH, Pairs
from harness.results import Row
from harness.tasks import Task

BATCH = 8192
_HEAD = 2000
_CHANGES_PER_EVENT = 10


def warm_up(task: Task) -> float:
    """Call everything once, so that every kernel is compiled; the CPU seconds the compiler took.

    A second matcher does the same work with the kernels at hand; the difference is the compiler's.
    """
    seconds = []
    for _ in range(2):
        with timed() as watch:
            matcher = adapter.new_matcher()
            matcher.add_many(task.ids, task.wheres)
            for batch in task.batches(BATCH, BATCH)[:1] + task.batches(SMALL_BATCH, SMALL_BATCH)[:1]:
                matcher.match_batch(batch)
            # As many as `change` adds: enough of them bring the engine to build and merge parts of its index.
            for number, (id, where) in enumerate(zip(task.spare_ids, task.spare_wheres, strict=True)):
                matcher.add(id, where)
                if number % _CHANGES_PER_EVENT == 0:
                    matcher.match(task.dicts[number % len(task.dicts)])
            for id in task.spare_ids:
                matcher.remove(id)
            matcher.match(task.dicts[0])
            matcher.match_batch(task.batches(SMALL_BATCH, SMALL_BATCH)[0])
        seconds.append(watch.seconds)
    return max(0.0, seconds[0] - seconds[1])


class Palio:
    """A matcher on one task: built once, run as often as asked, the best run kept."""

    def __init__(self, task: Task, compile_seconds: float | None) -> None:
        self._task = task
        self._matcher = adapter.new_matcher()
        gc.collect()
        with timed() as building:
            self._matcher.add_many(task.ids, task.wheres)
        self.large = Row(task.name, len(task), f"Palio, batches of {BATCH:,}")
        self.small = Row(task.name, len(task), f"Palio, batches of {SMALL_BATCH}")
        self.single = Row(task.name, len(task), "Palio, one event at a time")
        self.large.built(len(task), building.seconds)
        self.large.compile_seconds = compile_seconds
        self._large_batches, self._small_batches = task.batches(BATCH), task.batches(SMALL_BATCH)
        self.answers, self._head = self._answer_all()
        index, beside = adapter.sizes_in_bytes(self._matcher)
        self.large.index_bytes_per_subscription = index / len(task)
        self.large.beside_bytes_per_subscription = beside / len(task)

    @property
    def rows(self) -> list[Row]:
        return [self.large, self.small, self.single]

    def _answer_all(self) -> tuple[Answers, Pairs]:
        """What it says of every event, and the pairs of the first ones. Not timed."""
        rows, subscriptions = _pairs(self._matcher, self._large_batches, BATCH)
        head = rows < _HEAD
        answers = Answers.of_pairs(rows, subscriptions, self._task.events.num_rows)
        return answers, (rows[head], subscriptions[head])

    def check(self) -> None:
        """Whether small batches and single events say what large batches say, the reference of the rest."""
        small = self._small_batches[: _HEAD // SMALL_BATCH]
        events = sum(batch.num_rows for batch in small)
        by_batch = Answers.of_pairs(*_pairs(self._matcher, small, SMALL_BATCH), events)
        singles = [self._matcher.match(event) for event in self._task.dicts[:events]]
        by_event = Answers.of_lists([map(int, found) for found in singles])
        for row, answers in ((self.small, by_batch), (self.single, by_event)):
            row.checked_events = min(len(answers), len(self.answers))
            row.differs = not answers.agrees_with(self.answers)
        self.large.note = "the reference of this section"

    def run(self, seconds: float) -> None:
        """One timed pass each; a result is dropped before the next is made, as a consumer would."""
        self._pass(self.large, self._large_batches, BATCH, seconds)
        self._pass(self.small, self._small_batches, SMALL_BATCH, seconds)
        match = self._matcher.match
        found = events = 0
        budget = Budget(seconds)
        start = process_time()
        for event in self._task.dicts:
            found += len(match(event))
            events += 1
            if events % 16 == 0 and budget.spent:
                break
        _keep_best(self.single, events, found, process_time() - start)
        self.single.microseconds_per_event = 1e6 / (self.single.events_per_second or 1)

    def _pass(self, row: Row, batches: Sequence[Any], size: int, seconds: float) -> None:
        match = self._matcher.match_batch
        found = events = 0
        budget = Budget(seconds)
        start = process_time()
        for batch in batches:
            found += match(batch).num_rows
            events += batch.num_rows
            if budget.spent:
                break
        _keep_best(row, events, found, process_time() - start)

    def change(self, seconds: float) -> None:
        """Add and remove one at a time while events are matched; then check that the answers followed.

        What a change costs includes what it makes later matches dearer, so that putting the work off does not
        look like doing none: the matches in between are charged at the price they had before.
        """
        task, matcher = self._task, self._matcher
        events = task.dicts[:500]
        for event in events:
            matcher.match(event)
        with timed() as watch:
            for event in events:
                matcher.match(event)
        price = watch.seconds / len(events)
        additions = zip(task.spare_ids, task.spare_wheres, strict=True)
        adds: list[Callable[[], None]] = [lambda i=i, w=w: matcher.add(i, w) for i, w in additions]
        added, cost = self._changes(adds, price, seconds)
        self.single.adds_per_second = added / max(cost, 1e-9)
        self._check_after(added, removed=np.empty(0, np.int64))
        chosen = np.random.default_rng(0).permutation(len(task))[: min(len(task) // 2, added)]
        gone = [*task.spare_ids[:added], *(task.ids[i] for i in chosen)]
        removals: list[Callable[[], None]] = [lambda i=i: matcher.remove(i) for i in gone]
        done, cost = self._changes(removals, price, seconds)
        self.single.removals_per_second = done / max(cost, 1e-9)
        for removal in removals[done:]:
            removal()
        self._check_after(0, removed=chosen)

    def _changes(self, changes: Sequence[Callable[[], None]], price: float, seconds: float) -> tuple[int, float]:
        """(how many were made, the CPU seconds they cost)."""
        events, match = self._task.dicts, self._matcher.match
        budget = Budget(seconds)
        matched = 0
        start = process_time()
        for number, change in enumerate(changes, 1):
            change()
            if number % _CHANGES_PER_EVENT == 0:
                match(events[matched % len(events)])
                matched += 1
                if budget.spent:
                    break
        return number, process_time() - start - matched * price

    def _check_after(self, added: int, removed: np.ndarray[Any, Any]) -> None:
        """The first events again: what was there before, less the removed, and the added where they apply."""
        events = min(100, self._task.events.num_rows)
        rows, subscriptions = self._head
        kept = (rows < events) & ~np.isin(subscriptions, removed)
        tests = [compile_predicates(each) for each in islice(self._task.spare_predicates(), added)]
        extra = [
            (row, len(self._task) + number)
            for row, event in enumerate(self._task.dicts[:events])
            for number, test in enumerate(tests)
            if test(event.get)
        ]
        more = np.array(extra, np.int64).reshape(-1, 2)
        rows = np.concatenate([rows[kept], more[:, 0]])
        expected = Answers.of_pairs(rows, np.concatenate([subscriptions[kept], more[:, 1]]), events)
        batches = self._task.batches(SMALL_BATCH, events)
        actual = Answers.of_pairs(*_pairs(self._matcher, batches, SMALL_BATCH), events)
        if not actual.agrees_with(expected):
            self.single.differs = True
            self.single.note = "after changes"


def _pairs(matcher: adapter.Matcher, batches: Sequence[Any], size: int) -> Pairs:
    rows, subscriptions = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for number, batch in enumerate(batches):
        row, subscription = pairs_of_table(matcher.match_batch(batch))
        rows.append(row + number * size)
        subscriptions.append(subscription)
    return np.concatenate(rows), np.concatenate(subscriptions)


def _keep_best(row: Row, events: int, matches: int, seconds: float) -> None:
    if row.events_per_second is None or events / max(seconds, 1e-9) > row.events_per_second:
        row.rate(events, matches, seconds)
