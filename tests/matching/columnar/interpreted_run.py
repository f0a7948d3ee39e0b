"""A process in which no kernel is ever compiled: the suite of matchers, and batches, by the interpreter alone."""

from __future__ import annotations

import random
import sys
import tempfile
from pathlib import Path

import pyarrow as pa

from palio.events import Event
from palio.filters.filter import Filter
from palio.matching.columnar import kernel_readiness
from palio.matching.matcher import Matcher
from palio.matching.precompilation import kernels
from tests.matching.suite import EVENTS, SORTS, check, ids_by_row

SUBSCRIPTIONS = 600
ROWS = 40


def check_sorts() -> None:
    """Every sort of filter, live, sealed and reopened, one event at a time and in a list."""
    filters = {id: Filter.parse(where) for id, where in SORTS.items()}
    events = [Event.from_dict(each) for each in EVENTS]
    matcher = Matcher()
    matcher.add_many(SORTS, SORTS.values())
    assert matcher.statistics().segments == 0
    check(matcher, filters, events)
    with tempfile.TemporaryDirectory() as folder:
        matcher.save(Path(folder) / "wants.palio")
        opened = Matcher.open(Path(folder) / "wants.palio")
        assert opened.statistics().live == 0
        check(opened, filters, events)
        expected = [{id for id, each in filters.items() if each.matches(event)} for event in events]
        assert ids_by_row(opened.match_batch(events), len(events)) == expected


def check_columns(seed: int) -> None:
    """Columns of every kind that are encoded by kernels, with texts longer than eight bytes, and patterns."""
    choose = random.Random(seed)
    words = [choose.choice(["", "a", "Åse", "west", "a long text ", "ſ", "K"]) + str(n % 7) for n in range(30)]
    wheres = {}
    for number in range(SUBSCRIPTIONS):
        word, low = choose.choice(words), choose.randrange(50)
        wheres[f"s{number}"] = choose.choice(
            [
                f"s = '{word}' AND i > {low}",
                f"f BETWEEN {low}.5 AND {low + 9} OR i = {low}",
                f"s LIKE '%{word[-1:]}{word[:1]}%' AND NOT b",
                f"s RLIKE '^{word[:1]}.*[0-{low % 10}]$'",
                f"lower(s) = '{word.lower()}'",
                f"t >= TIMESTAMP'2024-01-01 00:00:{low:02}' AND s >= '{word}'",
            ]
        )
    batch = pa.table(
        {
            "s": [choose.choice([*words, None]) for _ in range(ROWS)],
            "i": [choose.choice([None, choose.randrange(60)]) for _ in range(ROWS)],
            "f": [choose.choice([None, choose.random() * 60, float("nan")]) for _ in range(ROWS)],
            "b": [choose.choice([None, True, False]) for _ in range(ROWS)],
            "t": pa.array([1_704_067_200 + choose.randrange(60) for _ in range(ROWS)], pa.timestamp("s", "UTC")),
        }
    )
    matcher = Matcher()
    matcher.add_many(wheres, wheres.values())
    filters = {id: Filter.parse(where) for id, where in wheres.items()}
    rows = [Event.read(row) for row in batch.to_pylist()]
    expected = [{id for id, each in filters.items() if each.matches(row)} for row in rows]
    assert any(expected)
    assert ids_by_row(matcher.match_batch(batch), ROWS) == expected
    with tempfile.TemporaryDirectory() as folder:
        matcher.save(Path(folder) / "wants.palio")
        opened = Matcher.open(Path(folder) / "wants.palio")
        assert ids_by_row(opened.match_batch(batch), ROWS) == expected
        assert [opened.match(row) for row in rows] == expected


if __name__ == "__main__":
    # No compiler is started, and none is waited for.
    kernel_readiness.KernelReadiness._start = lambda self: None  # type: ignore[method-assign]
    check_sorts()
    for seed in range(int(sys.argv[1])):
        check_columns(seed)
    assert not any(kernel.signatures for kernel in kernels())
