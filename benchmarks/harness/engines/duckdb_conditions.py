"""DuckDB on one thread: all conditions in one query that counts the rows of each.

The query is prepared once, and preparing is not counted. Ten thousand conditions may take DuckDB longer to prepare than
anyone waits: the number of conditions grows tenfold while time allows, and the speed of the largest query is scaled to
all of them. That is fair to DuckDB, whose time for a row grows with the conditions, and which computes an expression
that they share once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from threading import Timer
from time import process_time
from typing import Any

import pyarrow as pa

from harness.condition_shapes import Shape

NAME = "DuckDB, one query"
_FIRST_CONDITIONS = 10
_GROWTH = 10


@dataclass
class Counted:
    """Events a second with all conditions; `conditions` is how many of them ran."""

    events_per_second: float | None = None
    conditions: int = 0
    sample: list[int] = field(default_factory=list)  # matches of each of these on the first events
    note: str = ""


def run(shape: Shape, wheres: list[str], batch: pa.RecordBatch, sample_events: int, seconds: float) -> Counted:
    """As many of the conditions as take no longer than that to prepare and to count."""
    import duckdb

    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    connection.execute("SET TimeZone = 'UTC'")
    connection.register("arrow", pa.Table.from_batches([batch]))
    connection.execute("CREATE TABLE events AS SELECT * FROM arrow")
    found = Counted()
    conditions = min(_FIRST_CONDITIONS, len(wheres))
    try:
        while True:
            start = process_time()
            elapsed, found.sample = _count(connection, shape, wheres[:conditions], sample_events, seconds)
            found.events_per_second = batch.num_rows / elapsed * conditions / len(wheres)
            found.conditions = conditions
            if conditions == len(wheres) or _GROWTH * (process_time() - start) > seconds:
                break
            conditions = min(len(wheres), _GROWTH * conditions)
    except duckdb.InterruptException:
        if not found.conditions:
            found.note = f"not {conditions} conditions in {seconds:g} s"
    except duckdb.Error as error:
        found.note = str(error).strip().splitlines()[0]
    connection.close()
    return found


def _count(
    connection: Any, shape: Shape, wheres: list[str], sample_events: int, seconds: float
) -> tuple[float, list[int]]:
    """CPU seconds for the batch, and the matches of each condition on its first events."""
    counts = ", ".join([f"count_if({shape.to_duckdb(where)})" for where in wheres])
    timer = Timer(seconds, connection.interrupt)
    timer.start()
    try:
        connection.execute(f"PREPARE counts_{len(wheres)} AS SELECT {counts} FROM events WHERE rowid < $1")
        sample = connection.execute(f"EXECUTE counts_{len(wheres)}({sample_events})").fetchone()
        start = process_time()
        connection.execute(f"EXECUTE counts_{len(wheres)}(1_000_000_000)").fetchone()
        return max(process_time() - start, 1e-9), list(sample)
    finally:
        timer.cancel()
