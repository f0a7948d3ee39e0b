"""Benchmark tasks: subscriptions and events of one workload and size, in the forms that engines take."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from palio.workloads import Workload, eq, mix, padres
from palio.workloads.generated import AT_LEAST, AT_MOST, BETWEEN, EQUALS, UNUSED, Conditions

Predicate: TypeAlias = tuple[str, str, Any]
"""(attribute, operator, value); operators are = < <= > >= and between, whose value is a pair."""

SPARE = 5000
"""How many further subscriptions a task has, to be added one at a time."""


@dataclass(frozen=True)
class Rules:
    """Every condition of every subscription as a row: a word, or an interval with both ends included."""

    names: list[str]
    words: list[str]
    subscription: NDArray[np.int32]
    attribute: NDArray[np.int16]
    word: NDArray[np.int32]
    low: NDArray[Any]
    high: NDArray[Any]


class Task(ABC):
    """One workload at one size. Subscription number i has the id str(i)."""

    name: str
    workload: Workload | None = None
    ids: list[str]
    wheres: list[str]
    spare_ids: list[str]
    spare_wheres: list[str]
    events: pa.RecordBatch

    def __len__(self) -> int:
        return len(self.ids)

    @abstractmethod
    def predicates(self) -> Iterator[list[Predicate]]:
        """The conditions of each subscription in turn."""

    @abstractmethod
    def spare_predicates(self) -> Iterator[list[Predicate]]:
        """The same of the spare ones."""

    @abstractmethod
    def rules(self) -> Rules:
        """The same of all subscriptions at once, as arrays."""

    def batches(self, size: int, events: int | None = None) -> list[pa.RecordBatch]:
        """The events in batches with buffers of their own, as they would arrive; not slices of one."""
        rows = self.events.num_rows if events is None else min(events, self.events.num_rows)
        chosen = [np.arange(start, min(start + size, rows)) for start in range(0, rows, size)]
        return [self.events.take(pa.array(each)) for each in chosen]

    @cached_property
    def dicts(self) -> list[dict[str, Any]]:
        """The first events as dicts without the attributes they lack."""
        rows = self.events.slice(0, 20_000).to_pylist()
        return [{name: value for name, value in row.items() if value is not None} for row in rows]


class SyntheticTask(Task):
    """`eq` or `mix`."""

    def __init__(self, profile: str, subscriptions: int, events: int) -> None:
        self.workload = workload = {"eq": eq, "mix": mix}[profile]()
        self.name = profile
        table = workload.subscriptions(subscriptions)
        self.ids, self.wheres = table["id"].to_pylist(), table["where"].to_pylist()
        spare = workload.subscriptions(min(SPARE, subscriptions), start=subscriptions)
        self.spare_ids, self.spare_wheres = spare["id"].to_pylist(), spare["where"].to_pylist()
        self.events = workload.events(events)

    def predicates(self) -> Iterator[list[Predicate]]:
        return self._predicates(len(self.ids), 0)

    def spare_predicates(self) -> Iterator[list[Predicate]]:
        return self._predicates(len(self.spare_ids), len(self.ids))

    def _predicates(self, count: int, start: int) -> Iterator[list[Predicate]]:
        assert self.workload is not None
        step = 10_000
        for first in range(start, start + count, step):
            conditions = self.workload.subscription_conditions(min(step, start + count - first), first)
            yield from _predicates_of(conditions, self.workload.names)

    def rules(self) -> Rules:
        assert self.workload is not None
        conditions = self.workload.subscription_conditions(len(self.ids))
        subscription, _ = used = np.nonzero(conditions.kind != UNUSED)
        equals = conditions.kind[used] == EQUALS
        return Rules(
            self.workload.names,
            [f"v{i}" for i in range(self.workload.vocabulary)],
            subscription.astype(np.int32),
            conditions.attribute[used],
            np.where(equals, conditions.low[used], -1),
            conditions.low[used],
            conditions.high[used],
        )


def _predicates_of(conditions: Conditions, names: Sequence[str]) -> Iterator[list[Predicate]]:
    columns = (conditions.attribute, conditions.kind, conditions.low, conditions.high)
    for row in zip(*(column.tolist() for column in columns), strict=True):
        predicates: list[Predicate] = []
        for attribute, kind, low, high in zip(*row, strict=True):
            name = names[attribute]
            if kind == EQUALS:
                predicates.append((name, "=", f"v{low}"))
            elif kind == BETWEEN:
                predicates.append((name, "between", (low, high)))
            elif kind == AT_LEAST:
                predicates.append((name, ">=", low))
            elif kind == AT_MOST:
                predicates.append((name, "<=", high))
        yield predicates


class PadresTask(Task):
    """The quotes of PADRES against the 10,000 subscriptions of its covering test."""

    name = "padres"

    def __init__(self, folder: Path, events: int) -> None:
        archive = folder / "subscriptions" / "padres_subscriptions_11.9k.tar.xz"
        self._lines = padres.read_subscriptions(archive)
        self._spare_lines = padres.read_subscriptions(archive, "stockSubscriptions.txt")
        self.wheres = [padres.to_sql(line) for line in self._lines]
        self.spare_wheres = [padres.to_sql(line) for line in self._spare_lines]
        self.ids = [str(i) for i in range(len(self._lines))]
        self.spare_ids = [str(len(self.ids) + i) for i in range(len(self._spare_lines))]
        # The file is sorted by symbol and date; every nth quote sees all symbols.
        step = max(1, 245_190 // events)
        quotes = padres.read_quotes(folder / "events" / "padres_stockquotes_245k.txt.xz")
        self.events = padres.quotes_batch(list(islice(quotes, 0, step * events, step)))

    def predicates(self) -> Iterator[list[Predicate]]:
        return map(_predicates_of_line, self._lines)

    def spare_predicates(self) -> Iterator[list[Predicate]]:
        return map(_predicates_of_line, self._spare_lines)

    def rules(self) -> Rules:
        names = self.events.schema.names
        words: dict[str, int] = {}
        rows = []
        for number, predicates in enumerate(self.predicates()):
            for name, operator, value in predicates:
                attribute, low, high = names.index(name), -np.inf, np.inf
                if operator == "=" and isinstance(value, str):
                    rows.append((number, attribute, words.setdefault(value, len(words)), low, high))
                    continue
                # An open end is the neighbouring float as a closed one.
                if operator in (">", ">=", "="):
                    low = np.nextafter(value, np.inf) if operator == ">" else value
                if operator in ("<", "<=", "="):
                    high = np.nextafter(value, -np.inf) if operator == "<" else value
                rows.append((number, attribute, -1, low, high))
        subscription, attribute_, word, low_, high_ = (np.array(column) for column in zip(*rows, strict=True))
        return Rules(
            names,
            list(words),
            subscription.astype(np.int32),
            attribute_.astype(np.int16),
            word.astype(np.int32),
            low_.astype(np.float64),
            high_.astype(np.float64),
        )


def _predicates_of_line(line: str) -> list[Predicate]:
    spelling = {"eq": "="}
    return [(t.name, spelling.get(t.operator, t.operator), t.value) for t in padres.parse_subscription(line)]


def data_folder() -> Path | None:
    """Where the real data is: $PALIO_DATA, or `shared/data` beside the repository; None if in neither."""
    given = os.environ.get("PALIO_DATA")
    folder = Path(given) if given else Path(__file__).resolve().parents[3] / "shared" / "data"
    return folder if (folder / "events").is_dir() else None
