"""DuckDB on one thread: subscriptions in a table, a batch of events joined with it."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from harness.answers import Answers
from harness.clock import timed
from harness.filing import wide_table
from harness.measure import Pairs, compare, in_batches
from harness.results import Row
from harness.tasks import Task

NAME = "DuckDB join"


def run(task: Task, seconds: float, reference: Answers) -> Row:
    import duckdb

    row = Row(task.name, len(task), NAME)
    connection = duckdb.connect()
    connection.execute("SET threads = 1")
    connection.execute("SET preserve_insertion_order = false")
    rules = task.rules()
    with timed() as building:
        table, positions = wide_table(rules, len(task))
        connection.register("arrow_wide", table)
        connection.execute("CREATE TABLE wide AS SELECT * FROM arrow_wide ORDER BY a0, w0")
        connection.unregister("arrow_wide")
    row.built(len(task), building.seconds)
    row.index_bytes_per_subscription = _bytes_in_use(connection) / len(task)
    query = join_query(task.events.schema, positions)

    def match(batch: pa.RecordBatch) -> Pairs:
        numbers = pa.array(np.arange(batch.num_rows, dtype=np.int64))
        connection.register("batch", pa.Table.from_batches([batch]).append_column("row", numbers))
        found = connection.sql(query).to_arrow_table()
        return found.column("row").to_numpy(), found.column("sub").to_numpy().astype(np.int64)

    match(task.batches(250, 250)[0])
    compare(row, in_batches(row, task, match, seconds), reference)
    connection.close()
    return row


def _bytes_in_use(connection: object) -> int:
    rows = connection.sql("SELECT sum(memory_usage_bytes) FROM duckdb_memory()").fetchall()  # type: ignore[attr-defined]
    return int(rows[0][0])


def join_query(schema: pa.Schema, positions: int) -> str:
    """Candidates by the first condition, then one join per further condition; done when a row has no more."""
    strings = [_name(field.name) for field in schema if field.type == pa.string()]
    numbers = [_name(field.name) for field in schema if field.type != pa.string()]
    long = [_unpivot(strings, "v", "v AS word, NULL::DOUBLE AS num")]
    if numbers:
        casts = ", ".join(f"{name}::DOUBLE AS {name}" for name in numbers)
        source = f"(SELECT row, {casts} FROM batch)"
        long.append(_unpivot(numbers, "v", "NULL AS word, v AS num", source))
    steps = [f"e AS MATERIALIZED ({' UNION ALL '.join(long)})"]
    by_word = f"SELECT row, sub{_rest(1, positions)} FROM e JOIN wide ON e.attr = a0 AND e.word = w0"
    by_range = (
        f"SELECT row, sub{_rest(1, positions)} FROM e JOIN wide ON e.attr = a0 AND e.num BETWEEN l0 AND h0 "
        "WHERE w0 IS NULL AND e.word IS NULL"
    )
    steps.append(f"c1 AS MATERIALIZED ({by_word}{' UNION ALL ' + by_range if numbers else ''})")
    done = []
    for k in range(1, positions):
        done.append(f"SELECT row, sub FROM c{k} WHERE a{k} IS NULL")
        if numbers:
            condition = f"WHERE e.word = w{k} OR (w{k} IS NULL AND e.num BETWEEN l{k} AND h{k})"
        else:
            condition = f"AND e.word = w{k}"
        steps.append(
            f"c{k + 1} AS MATERIALIZED (SELECT c.row, sub{_rest(k + 1, positions)} FROM c{k} c "
            f"JOIN e ON c.row = e.row AND e.attr = a{k} {condition})"
        )
    done.append(f"SELECT row, sub FROM c{positions}")
    return f"WITH {', '.join(steps)} {' UNION ALL '.join(done)}"


def _unpivot(columns: list[str], value: str, select: str, source: str = "batch") -> str:
    listed = ", ".join(columns)
    return f"SELECT row, attr, {select} FROM (UNPIVOT {source} ON {listed} INTO NAME attr VALUE {value})"


def _rest(first: int, positions: int) -> str:
    return "".join(f", a{k}, w{k}, l{k}, h{k}" for k in range(first, positions))


def _name(name: str) -> str:
    return f'"{name}"'
