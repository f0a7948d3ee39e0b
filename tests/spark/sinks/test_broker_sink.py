"""Matches as events of a real broker: let in once however often they are sent, and kept where it takes none."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow.dataset as ds
import pytest

from palio import connect_blocking
from palio.spark import PalioSink, ParquetSink
from palio.spark.sinks.sink import Batch, Taken
from tests.network.processes import served
from tests.spark.sinks.test_push import BATCH, matches

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def test_a_match_is_let_in_once_as_an_event(spark: SparkSession, tmp_path: Path) -> None:
    with served("--http", "off", data=str(tmp_path / "data")) as broker, connect_blocking(broker.url) as client:
        sink = PalioSink(broker.url, key=["id"])
        assert sink(matches(spark, 30), BATCH) == Taken(30)
        # Sent again, in other company, each has the name it had.
        assert sink(matches(spark, 20).repartition(3), Batch("another", 7, 2, datetime.now(UTC))) == Taken(20)
        logged = [each.event for each in client.read_log("subscription_id IS NOT NULL").events]
        assert sorted(each.get("id") for each in logged) == list(range(30))  # type: ignore[type-var]
        [fourth] = [each for each in logged if each.get("id") == 4]
        assert fourth.get("at") == datetime(1970, 1, 1, 0, 0, 4, tzinfo=UTC)
        assert (fourth.get("subscription_id"), fourth.get("subscriber")) == ("who/wants.it? 1", "ada")
        assert len(client.read_log("subscriber = 'ada'").events) == 15


def test_what_the_broker_never_takes_is_kept(spark: SparkSession, tmp_path: Path) -> None:
    with served("--http", "off", "--advertisements") as broker:
        sink = PalioSink(broker.url, key=["id"], dead_letters=ParquetSink(tmp_path / "dead"))
        assert sink(matches(spark, 5), BATCH) == Taken(5)
        rows = ds.dataset(tmp_path / "dead").to_table().to_pylist()
        assert len(rows) == 5
        assert {row["subscriber"] for row in rows} == {"ada", None}
        assert '"price":4' in next(row["data"] for row in rows if '"id":4' in row["data"])
        assert all("advertise" in row["reason"] for row in rows)
        with pytest.raises(Exception, match="cannot be delivered"):
            PalioSink(broker.url, key=["id"])(matches(spark, 5), BATCH)
