"""Polars on one thread (`matching.py` says so before the import): DuckDB's plan, in lazy frames."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa

from harness.answers import Answers
from harness.clock import timed
from harness.filing import wide_table
from harness.measure import Pairs, compare, in_batches
from harness.results import Row
from harness.tasks import Task

if TYPE_CHECKING:
    import polars as pl

NAME = "Polars join"


def run(task: Task, seconds: float, reference: Answers) -> Row:
    # Loaded before the clock starts; it is not part of building.
    import polars  # noqa: F401

    row = Row(task.name, len(task), NAME)
    rules = task.rules()
    with timed() as building:
        engine = PolarsJoin(*wide_table(rules, len(task)), task.events.schema)
    row.built(len(task), building.seconds)
    row.index_bytes_per_subscription = engine.size_in_bytes / len(task)
    engine.match(task.batches(250, 250)[0])
    compare(row, in_batches(row, task, engine.match, seconds), reference)
    return row


class PolarsJoin:
    """Subscriptions whose first condition is a word, and those where it is a range, in a frame each."""

    def __init__(self, wide: pa.Table, positions: int, schema: pa.Schema) -> None:
        import polars as pl

        self._positions = positions
        self._strings = [field.name for field in schema if field.type == pa.string()]
        self._numbers = [field.name for field in schema if field.type != pa.string()]
        # Attributes as small integers join quicker than as names.
        numbers = {name: number for number, name in enumerate(schema.names)}
        self._attributes = pl.DataFrame(
            {"name": list(numbers), "attr": list(numbers.values())},
            schema={"name": pl.String, "attr": pl.Int16},
        )
        frame = pl.DataFrame(wide).with_columns(
            pl.col(f"a{k}").replace_strict(numbers, default=None, return_dtype=pl.Int16) for k in range(positions)
        )
        self._by_word = frame.filter(pl.col("w0").is_not_null())
        self._by_range = frame.filter(pl.col("w0").is_null())

    @property
    def size_in_bytes(self) -> int:
        return int(self._by_word.estimated_size() + self._by_range.estimated_size())

    def match(self, batch: pa.RecordBatch) -> Pairs:
        import polars as pl

        frame = pl.DataFrame(pa.Table.from_batches([batch])).with_row_index("row")
        words, numbers = self._long(frame)
        candidates = words.join(self._by_word.lazy(), left_on=["attr", "word"], right_on=["a0", "w0"])
        if numbers is not None:
            kept = ["row", "sub", *(f"{c}{k}" for k in range(1, self._positions) for c in "awlh")]
            ranged = numbers.join(self._by_range.lazy(), left_on="attr", right_on="a0")
            ranged = ranged.filter(pl.col("num").is_between(pl.col("l0"), pl.col("h0")))
            candidates = pl.concat([candidates.select(kept), ranged.select(kept)])
        done = []
        for k in range(1, self._positions):
            done.append(candidates.filter(pl.col(f"a{k}").is_null()).select("row", "sub"))
            candidates = self._thinned(candidates.filter(pl.col(f"a{k}").is_not_null()), k, words, numbers)
        found = pl.concat([*done, candidates.select("row", "sub")]).collect()
        return found["row"].to_numpy().astype(np.int64), found["sub"].to_numpy().astype(np.int64)

    def _long(self, frame: pl.DataFrame) -> tuple[pl.LazyFrame, pl.LazyFrame | None]:
        """A row per attribute an event has: strings, and numbers if there are such columns."""

        def unpivot(columns: list[str], value: str) -> pl.DataFrame:
            long = frame.unpivot(on=columns, index="row", variable_name="name", value_name=value)
            return long.drop_nulls(value).join(self._attributes, on="name").select("row", "attr", value)

        words = unpivot(self._strings, "word").lazy()
        return words, unpivot(self._numbers, "num").lazy() if self._numbers else None

    def _thinned(
        self, candidates: pl.LazyFrame, k: int, words: pl.LazyFrame, numbers: pl.LazyFrame | None
    ) -> pl.LazyFrame:
        """The candidates whose condition k holds."""
        import polars as pl

        if numbers is None:
            left, right = ["row", f"a{k}", f"w{k}"], ["row", "attr", "word"]
            return candidates.join(words, left_on=left, right_on=right, how="semi")
        both = pl.concat([words, numbers], how="diagonal")
        joined = candidates.join(both, left_on=["row", f"a{k}"], right_on=["row", "attr"])
        in_range = pl.col(f"w{k}").is_null() & pl.col("num").is_between(pl.col(f"l{k}"), pl.col(f"h{k}"))
        return joined.filter((pl.col("word") == pl.col(f"w{k}")) | in_range).drop("word", "num")
