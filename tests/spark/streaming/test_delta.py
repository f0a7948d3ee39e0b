"""Delta tables get each batch as one commit."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from palio.spark import DeltaSink, progress
from palio.spark.sinks import delta
from palio.spark.sinks.sink import Batch, Taken
from palio.spark.streaming.commit_journal import Journal
from tests.spark.streaming.scenario import StreamScenario, write_log

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_delta_gets_each_batch_as_one_commit(spark: SparkSession, flow: StreamScenario) -> None:
    from deltalake import DeltaTable

    write_log(flow, "price > 6", "symbol = 's1' AND price < 4")
    flow.run(spark, DeltaSink(flow.out))
    assert flow.delta() == flow.expected()
    table = DeltaTable(flow.out)
    journal = Journal(flow.checkpoint)
    assert table.transaction_version(journal.stream) == 2
    assert [entry.get("palio_version") for entry in table.history()] == ["1", "1", "1", None]
    # A batch that is there already makes no commit.
    batch = Batch(journal.stream, 2, 1, journal.begun(2).time)  # type: ignore[union-attr]
    [last] = progress(flow.checkpoint)
    assert DeltaSink(flow.out)(spark.sql("SELECT 1L AS id"), batch) == Taken(last.matches or 0, is_replay=True)
    assert DeltaTable(flow.out).version() == 3


@pytest.mark.parametrize("moment", ["while it is written", "just before the commit"])
def test_of_two_drivers_with_one_batch_one_commits_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """One that was thought dead, and the one that took over."""
    from deltalake import DeltaTable

    sink, rows = DeltaSink(tmp_path / "hits"), spark.sql("SELECT 2L AS id")
    sink(spark.sql("SELECT 1L AS id"), Batch("test", 0, 1, datetime.now(UTC)))
    batch, owner, name = Batch("test", 1, 1, datetime.now(UTC)), DeltaTable, "create_write_transaction"
    if moment == "while it is written":
        owner, name = delta, "write_parts"  # type: ignore[assignment]
    plain = getattr(owner, name)

    def after_the_other(*arguments: Any, **options: Any) -> Any:
        monkeypatch.setattr(owner, name, plain)
        assert sink(rows, batch) == Taken(1)
        return plain(*arguments, **options)

    monkeypatch.setattr(owner, name, after_the_other)
    assert sink(rows, batch) == Taken(1, is_replay=True)
    table = DeltaTable(tmp_path / "hits")
    assert sorted(table.to_pyarrow_table()["id"].to_pylist()) == [1, 2]
    assert table.transaction_version("test") == 1
