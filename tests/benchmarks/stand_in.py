"""A matcher that tries everything: it knows the conditions of the synthetic workloads and nothing else.

With it the measuring is tested for itself: what it times may be slow, what it compares must be right.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from types import SimpleNamespace
from typing import Any

import pyarrow as pa

Test = Callable[[dict[str, Any]], bool]
_CONDITION = re.compile(r"(\w+) (?:(=|<=|>=|<|>) (?:'(\w+)'|([\d.]+))|BETWEEN (\d+) AND (\d+))(?: AND |$)")


def condition(where: str) -> Test:
    code = []
    for name, operator, text, number, low, high in _CONDITION.findall(where):
        if text:
            code.append(f"event.get({name!r}) == {text!r}")
        elif operator:
            code.append(f"{name!r} in event and event[{name!r}] {operator} {number}")
        else:
            code.append(f"{name!r} in event and {low} <= event[{name!r}] <= {high}")
    test: Test = eval(f"lambda event: {' and '.join(code)}")
    return test


class StandIn:
    def __init__(self) -> None:
        self._tests: dict[str, Test] = {}

    def add(self, id: str, where: str) -> None:
        self._tests[id] = condition(where)

    def add_many(self, ids: Iterable[str], wheres: Iterable[str]) -> None:
        for id, where in zip(ids, wheres, strict=True):
            self.add(id, where)

    def remove(self, id: str) -> None:
        del self._tests[id]

    def match(self, event: dict[str, Any]) -> set[str]:
        return {id for id, test in self._tests.items() if test(event)}

    def match_batch(self, batch: pa.RecordBatch) -> pa.Table:
        rows, found = [], []
        for row, event in enumerate(batch.to_pylist()):
            present = {name: value for name, value in event.items() if value is not None}
            for id in sorted(self.match(present)):
                rows.append(row)
                found.append(id)
        subscriptions = pa.array(found, pa.string()).dictionary_encode()
        return pa.table({"row": pa.array(rows, pa.int64()), "subscription": subscriptions})

    def statistics(self) -> SimpleNamespace:
        return SimpleNamespace(index_bytes=100 * len(self._tests), beside_bytes=50 * len(self._tests))


class Forgetful(StandIn):
    """Loses one match in a hundred: what a benchmark must notice."""

    def match_batch(self, batch: pa.RecordBatch) -> pa.Table:
        found = super().match_batch(batch)
        keep = [row for row in range(found.num_rows) if row % 100 != 50]
        return found.take(pa.array(keep, pa.int64()))
