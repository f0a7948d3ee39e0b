"""A batch has the version of the subscriptions that was written down for it, and no other."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from palio.spark import ParquetSink, progress
from palio.spark.sinks.sink import Batch
from tests.spark.streaming.scenario import StreamScenario, write_log

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


def test_a_batch_that_is_run_again_has_the_version_it_had(spark: SparkSession, flow: StreamScenario) -> None:
    log = write_log(flow, "price > 6")

    def fails_once(matches: DataFrame, batch: Batch) -> object:
        if batch.number == 1 and not failed:
            failed.append(batch)
            # The batch has its version by now, and these come too late for it.
            log.replace("price > 6", "price > 100")
            log.add("late", "TRUE")
            log.commit()
            raise RuntimeError("the sink is out of order")
        return sink(matches, batch)

    failed: list[Batch] = []
    sink = ParquetSink(flow.out)
    with pytest.raises(Exception, match="out of order"):
        flow.run(spark, fails_once)
    flow.run(spark, fails_once)
    assert len(failed) == 1
    assert flow.versions() == [1, 1, 2]
    assert flow.parquet() == flow.expected()


def test_a_batch_that_is_published_but_not_done_is_not_published_again(
    spark: SparkSession, flow: StreamScenario
) -> None:
    write_log(flow, "price > 6")

    def dies_after(matches: DataFrame, batch: Batch) -> object:
        taken = ParquetSink(flow.out)(matches, batch)
        if batch.number == 1 and not died:
            died.append(batch)
            raise RuntimeError("killed")
        return taken

    died: list[Batch] = []
    with pytest.raises(Exception, match="killed"):
        flow.run(spark, dies_after)
    left = flow.out.parent / ".hits.drafts" / f"{died[0].key}.1234"
    left.mkdir(parents=True)
    (left / "part-00000.parquet").write_bytes(b"half")
    flow.run(spark, dies_after)
    assert flow.parquet() == flow.expected()
    assert not left.exists()
    # What was there already is counted, too.
    counted = [each.matches for each in progress(flow.checkpoint, 3)]
    assert None not in counted
    assert sum(each or 0 for each in counted) == flow.parquet().total()


def test_changes_take_effect_within_one_trigger(spark: SparkSession, tmp_path: Path) -> None:
    """And from exactly the batch on whose version is written down; each of them is made in another way."""
    flow = StreamScenario(tmp_path)
    log = write_log(flow, "price > 6", *(f"id = {id}" for id in range(50)))
    changes = [
        lambda: log.add("a", "symbol = 's0'", subscriber="ada"),
        lambda: log.replace("a", "symbol = 's1'"),
        lambda: (log.remove("a"), log.add("b", "price < 2")),
        lambda: [log.remove(f"id = {id}") for id in range(50)],  # most of them: the index is built anew
        lambda: (log.add("c", "TRUE"), log.commit(), log.compact(keep=timedelta(0)), log.remove("c")),
    ]
    query = flow.start(spark, ParquetSink(flow.out), trigger={"processingTime": "0 seconds"})
    try:
        for number, change in enumerate(changes):
            flow.add_events(number)
            query.processAllAvailable()
            assert flow.versions()[-1] == log.version
            change()
            log.commit()
        flow.add_events(len(changes))
        query.processAllAvailable()
    finally:
        query.stop()
    versions = flow.versions()
    assert versions == [1, 2, 3, 4, 5, 7]
    # The log has forgotten the versions before the compaction; the last batches can still be asked.
    found = flow.parquet()
    assert {id for id, who in found if who == "a"} == {
        *(id for id in range(1000, 1010) if id % 3 == 0),
        *(id for id in range(2000, 2010) if id % 3 == 1),
    }
    assert {id // 1000 for id, who in found if who == "b"} == {3, 4, 5}
    assert {id // 1000 for id, who in found if who == "price > 6"} == set(range(6))
    assert not [who for _, who in found if who == "c"]


def test_conditions_are_cast_in_every_version(spark: SparkSession, tmp_path: Path) -> None:
    flow = StreamScenario(tmp_path)
    log = write_log(flow, "price LIKE '1%'", *(f"id = {id}" for id in range(9)))
    query = flow.start(spark, ParquetSink(flow.out), trigger={"processingTime": "0 seconds"})
    try:
        flow.add_events(0)
        query.processAllAvailable()
        log.add("added", "price LIKE '%2'")  # into the index of the first version
        log.commit()
        flow.add_events(1)
        query.processAllAvailable()
    finally:
        query.stop()
    prices = {id: str((id * 7) % 13) for id in [*range(10), *range(1000, 1010)]}
    found = flow.parquet()
    assert {id for id, who in found if who == "price LIKE '1%'"} == {
        id for id, price in prices.items() if price.startswith("1")
    }
    assert {id for id, who in found if who == "added"} == {
        id for id, price in prices.items() if price.endswith("2") and id >= 1000
    }


def test_the_file_of_an_index_that_is_not_needed_any_more_is_removed(spark: SparkSession, flow: StreamScenario) -> None:
    from palio.spark.implicit_casts import ImplicitCasts
    from palio.spark.shared_index import SharedIndex
    from palio.spark.streaming.stream import VersionIndexes

    log = write_log(flow, "price > 6 AND price < 1234567")  # as no other test has it
    indexes, casts = VersionIndexes(log), ImplicitCasts({}, False)
    first = indexes.at(spark, 1, casts)
    assert indexes.at(spark, 1, casts) is first
    assert first.index is not None
    shared = SharedIndex.publish(spark, first.matcher)  # somebody else has the same
    log.add("a", "price = 1")
    log.commit()
    second = indexes.at(spark, 2, casts)
    assert second.index is not None
    assert Path(first.index.path).exists()
    shared.release(spark)
    assert not Path(first.index.path).exists()
    assert second.matcher.match({"price": 1}) == {"a"}
    # Back to a version that was: built from the log.
    assert len(indexes.at(spark, 1, casts).matcher.match({"price": 7})) == 1
