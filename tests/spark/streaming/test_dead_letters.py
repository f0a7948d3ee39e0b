"""Events that cannot be used are put aside with the reason, once, and all others are matched as ever."""

from __future__ import annotations

import json
import os
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

from palio.spark import ParquetSink, SubscriptionLog, progress, stream
from palio.spark.sinks.sink import Batch
from palio.spark.streaming.dead_letters import REASON_COLUMN, DeadLetterRules

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

NOON = datetime(2024, 5, 1, 12, tzinfo=UTC)
SCHEMA = "id long, at timestamp, price int, payload string"
GOOD = '{"kind": "order"}'


class Letters:
    """A stream with a place for dead letters."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        (folder / "events").mkdir()
        log = SubscriptionLog(folder / "log")
        log.add("all", "TRUE")
        log.add("orders", "payload.kind = 'order'")
        log.commit()

    def add(self, name: int, *rows: tuple[int, datetime | None, int | None, str | None]) -> None:
        names = ("id", "at", "price", "payload")
        kinds = (pa.int64(), pa.timestamp("us", "UTC"), pa.int32(), pa.string())
        columns = [pa.array(column, kind) for column, kind in zip(zip(*rows, strict=True), kinds, strict=True)]
        path = self.folder / "events" / f"{name}.parquet"
        pq.write_table(pa.table(dict(zip(names, columns, strict=True))), path)
        # Spark takes files by their time, to the millisecond, and two may be written within one.
        os.utime(path, (NOON.timestamp() + name, NOON.timestamp() + name))

    def run(self, spark: SparkSession, sink: Any = None, **options: Any) -> None:
        events = spark.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1).parquet(str(self.folder / "events"))
        chosen = {
            "dead_letters": ParquetSink(self.folder / "dead"),
            "json": ["payload"],
            "event_time": "at",
            "lateness": timedelta(minutes=10),
            "malformed": {"no price": "price IS NULL", "a price below zero": "price < 0"},
            **options,
        }
        stream(
            events,
            self.folder / "log",
            sink or ParquetSink(self.folder / "hits"),
            checkpoint=self.folder / "checkpoint",
            trigger={"availableNow": True},
            **chosen,
        ).awaitTermination()

    def dead(self) -> dict[int, str]:
        rows = ds.dataset(self.folder / "dead").to_table().to_pylist()
        assert len(rows) == len({row["id"] for row in rows})
        return {row["id"]: row["palio_reason"] for row in rows}

    def matched(self) -> Counter[tuple[int, str]]:
        rows = ds.dataset(self.folder / "hits").to_table(columns=["id", "subscription_id"]).to_pylist()
        return Counter((row["id"], row["subscription_id"]) for row in rows)


def minutes(count: float) -> datetime:
    return NOON + timedelta(minutes=count)


@pytest.fixture
def letters(tmp_path: Path) -> Letters:
    made = Letters(tmp_path)
    made.add(
        0,
        (1, minutes(0), 5, GOOD),
        (2, minutes(-60), 5, GOOD),  # old, but nothing newer was seen in a batch before
        (3, None, 5, GOOD),
        (4, minutes(1), None, GOOD),
        (5, minutes(1), -1, GOOD),
        (6, minutes(1), 5, "{broken"),
        (7, minutes(1), 5, "[1]"),
        (8, minutes(1), 5, None),
        (9, minutes(1), 5, '{"kind": 1, "kind": 2}'),
        (10, datetime(2999, 1, 1, tzinfo=UTC), 5, GOOD),  # from the future, which makes nobody late
    )
    return made


def test_what_cannot_be_used_is_put_aside_with_the_reason(spark: SparkSession, letters: Letters) -> None:
    letters.run(spark)
    dead = letters.dead()
    assert {id: reason.partition(":")[0] for id, reason in dead.items()} == {
        3: "at is missing",
        4: "no price",
        5: "a price below zero",
        6: "payload",
        7: "payload is no JSON object",
        8: "payload is missing",
        9: "payload",
    }
    assert "kind" in dead[9]
    assert letters.matched() == Counter({(id, who): 1 for id in (1, 2, 10) for who in ("all", "orders")})
    [told] = progress(letters.folder / "checkpoint")
    assert (told.events, told.dead, told.matches) == (10, 7, 6)
    assert told.lag is not None
    assert set(told.seconds) == {"index", "sink", "dead letters"}
    # A dead letter is the whole event, so that it can be mended and sent again.
    assert ds.dataset(letters.folder / "dead").schema.names[:4] == ["id", "at", "price", "payload"]


def test_all_may_be_put_aside_by_a_condition_that_spark_sees_through(spark: SparkSession, letters: Letters) -> None:
    letters.run(spark, malformed={"closed": "TRUE"})
    assert letters.dead() == dict.fromkeys(range(1, 11), "closed")
    [told] = progress(letters.folder / "checkpoint")
    assert (told.events, told.dead, told.matches) == (10, 10, 0)


def test_late_is_what_is_behind_the_batches_before(spark: SparkSession, tmp_path: Path) -> None:
    letters = Letters(tmp_path)
    letters.add(0, (1, minutes(0), 5, GOOD))
    letters.add(1, (2, minutes(-9), 5, GOOD), (3, minutes(-11), 5, GOOD), (4, minutes(30), 5, GOOD))
    letters.add(2, (5, minutes(19), 5, GOOD), (6, minutes(21), 5, GOOD))
    letters.run(spark)
    assert set(letters.dead()) == {3, 5}
    assert letters.dead()[5] == "late: more than 0:10:00 behind 2024-05-01 12:30:00+00:00"
    assert [each.latest for each in progress(tmp_path / "checkpoint", 3)] == [
        int(minutes(0).timestamp() * 1e6),
        int(minutes(30).timestamp() * 1e6),
        int(minutes(30).timestamp() * 1e6),
    ]


@pytest.mark.parametrize("counts", [True, False])
def test_a_batch_that_is_run_again_judges_as_it_did(spark: SparkSession, tmp_path: Path, counts: bool) -> None:
    """Also where the sink does not tell how much it took."""
    letters = Letters(tmp_path)
    letters.add(0, (1, minutes(0), 5, GOOD), (2, minutes(0), None, GOOD))
    letters.add(1, (3, minutes(-11), 5, GOOD), (4, minutes(5), 5, GOOD))

    def dies_after(matches: DataFrame, batch: Batch) -> object:
        taken = ParquetSink(tmp_path / "hits")(matches, batch)
        if batch.number == 1 and not died:
            died.append(batch)
            raise RuntimeError("killed")
        return taken if counts else None

    died: list[Batch] = []
    with pytest.raises(Exception, match="killed"):
        letters.run(spark, dies_after)
    letters.run(spark, dies_after)
    assert set(letters.dead()) == {2, 3}
    assert letters.matched() == Counter({(id, who): 1 for id in (1, 4) for who in ("all", "orders")})


def test_records_that_spark_cannot_read_are_dead_letters(spark: SparkSession, tmp_path: Path) -> None:
    folder = tmp_path / "events"
    folder.mkdir()
    (folder / "1.json").write_text('{"id": 1}\n{"id": oops\n{"id": 3}\n')
    log = SubscriptionLog(tmp_path / "log")
    log.add("all", "TRUE")
    log.commit()
    events = spark.readStream.schema("id long, _corrupt_record string").json(str(folder))
    stream(
        events,
        log,
        ParquetSink(tmp_path / "hits"),
        checkpoint=tmp_path / "checkpoint",
        dead_letters=ParquetSink(tmp_path / "dead"),
        columns=["id"],
        trigger={"availableNow": True},
    ).awaitTermination()
    [row] = ds.dataset(tmp_path / "dead").to_table().to_pylist()
    assert (row["_corrupt_record"], row["palio_reason"]) == ('{"id": oops', "the record could not be read")
    assert ds.dataset(tmp_path / "hits").to_table().column("id").to_pylist() == [1, 3]
    assert json.loads(json.dumps(row["id"])) is None


def test_what_spark_cannot_compute_for_an_event_puts_that_event_aside(spark: SparkSession, tmp_path: Path) -> None:
    """And does not end the stream, which would meet the same event again at every start."""
    letters = Letters(tmp_path)
    (tmp_path / "texts").mkdir()
    lines = [
        {"id": 1, "at": "2024-05-01 12:00:00", "price": 5, "size": "2"},
        {"id": 2, "at": "noon", "price": 5, "size": "2"},
        {"id": 3, "at": "2024-05-01T12:01:00Z", "price": 0, "size": "2"},
        {"id": 4, "at": "2024-05-01", "price": 5, "size": "large"},
        {"id": 5, "at": "2024-05-01", "price": 5, "size": "9"},
        {"id": 6, "price": 5, "size": "1"},
        {"id": 7, "at": "2024-05-01", "price": None},
        {"id": 8, "at": "-5000-01-01 00:00:00", "price": 5, "size": "3"},
    ]
    (tmp_path / "texts" / "1.json").write_text("".join(json.dumps(line) + "\n" for line in lines))
    events = spark.readStream.schema("id long, at string, price int, size string").json(str(tmp_path / "texts"))
    stream(
        events,
        letters.folder / "log",
        ParquetSink(tmp_path / "hits"),
        checkpoint=tmp_path / "checkpoint",
        event_time="at",
        lateness=timedelta(minutes=10),
        # What stands twice in a condition is computed once, and before it: that must not raise either.
        malformed={
            "a fraction": "100 / price < 10 OR 100 / price > 1000",
            "too large": "CAST(size AS INT) + CAST(size AS INT) > 10",
        },
        dead_letters=ParquetSink(tmp_path / "dead"),
        trigger={"availableNow": True},
    ).awaitTermination()
    assert letters.dead() == {
        2: "at is no time",
        3: "a fraction: this cannot be computed for the event",
        4: "too large: this cannot be computed for the event",
        5: "too large",
        6: "at is missing",
    }
    assert set(letters.matched()) == {(id, "all") for id in (1, 7, 8)}


def test_a_time_of_long_ago_can_be_the_latest(spark: SparkSession) -> None:
    """Spark has years that Python has not."""
    rows = spark.sql("SELECT '-4000-01-01' AS at UNION ALL SELECT '-6000-01-01'")
    screening = DeadLetterRules("at", timedelta(days=1))
    latest = rows.agg(screening.latest()).first()[0]  # type: ignore[index]
    found = {row["at"]: row[REASON_COLUMN] for row in screening.with_reasons(rows, latest).collect()}
    assert found == {"-4000-01-01": None, "-6000-01-01": "late: more than 1 day, 0:00:00 behind a year before 1"}
