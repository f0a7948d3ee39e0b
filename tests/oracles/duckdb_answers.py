"""DuckDB as an oracle: TRUE, FALSE, NULL or an error for every row."""

from __future__ import annotations

from collections.abc import Sequence

import duckdb
import pyarrow as pa

from tests.oracles.answers import Answer


def duckdb_answers(table: pa.Table, conditions: Sequence[str]) -> list[list[Answer]]:
    """For each condition, its answer for every row; `TRY` is NULL where DuckDB would raise."""
    with duckdb.connect() as connection:
        # The optimizer computes outside of TRY what conditions share, and moves constants over a comparison.
        connection.execute("PRAGMA disable_optimizer")
        connection.register("events", table)
        answers = ", ".join(f"TRY(coalesce(CAST(({condition}) AS INT), 2))" for condition in conditions)
        rows = connection.execute(f"SELECT {answers} FROM events ORDER BY id").fetchall()
    return [[_ANSWERS[value] for value in column] for column in zip(*rows, strict=True)]


_ANSWERS = {1: Answer.TRUE, 0: Answer.FALSE, 2: Answer.NULL, None: Answer.RAISES}
