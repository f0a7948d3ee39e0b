"""A header says of each event what matching says."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from palio.errors import PipelineError
from palio.filters.filter import Filter
from palio.matching.matcher import Matcher
from palio.simulation import Network
from palio.spark import annotate
from palio.spark.record_batches import MatchPairs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WANTS = [
    {"id": "a", "where": "price > 10", "subscriber": "zoe"},
    {"id": "b", "where": "price > 20", "subscriber": "ann"},
    {"id": "c", "where": "symbol = 'A'", "subscriber": "zoe"},
    {"id": "d", "where": "price < 5"},
]


class Bits:
    """Whoever wants an event, as the sum of powers of two."""

    type = "bigint"

    def write(self, found: MatchPairs, count: int, matcher: Matcher) -> pa.Array:
        bits = [0] * count
        for row, number in zip(*found, strict=True):
            bits[row] |= 1 << int(number)
        return pa.array(bits, pa.int64())


@pytest.mark.connect
def test_each_event_has_its_subscribers_once_and_in_order(spark: SparkSession) -> None:
    events = spark.range(40).selectExpr("id", "id AS price", "IF(id % 3 = 0, 'A', 'B') AS symbol")
    rows = annotate(events, WANTS).collect()
    filters = [(each.get("subscriber", each["id"]), Filter.parse(each["where"])) for each in WANTS]
    for row in rows:
        event = {"price": row.price, "symbol": row.symbol}
        assert row.header == sorted({who for who, wanted in filters if wanted.matches(event)})
    assert len(rows) == 40


def test_where_nobody_has_a_name_who_wants_an_event_is_told_from_who_does_not(spark: SparkSession) -> None:
    rows = annotate(spark.range(3), [{"id": "d", "where": "id < 2"}]).orderBy("id").collect()
    assert [row.header for row in rows] == [["d"], ["d"], []]


def test_nobody_wants_anything(spark: SparkSession) -> None:
    assert [row.header for row in annotate(spark.range(2), []).collect()] == [[], []]


def test_a_header_of_ones_own(spark: SparkSession) -> None:
    events = spark.range(30).selectExpr("id AS price", "'A' AS symbol")
    for row in annotate(events, WANTS, Bits(), name="who").collect():
        assert row.who == (row.price > 10) + 2 * (row.price > 20) + 4 + 8 * (row.price < 5)


@pytest.mark.parametrize(("propagation", "forwarding"), [("identity", "bloom"), ("identity", "reuse")])
def test_a_broker_gets_the_headers_it_would_write_itself(
    spark: SparkSession, propagation: str, forwarding: str
) -> None:
    net = Network.line(4, propagation=propagation, forwarding=forwarding)
    for at, where in enumerate(["price > 10", "price > 20 AND symbol = 'A'", "symbol = 'B' OR price = 3", "price < 5"]):
        net.subscribe(at, where)
    net.run()
    events = spark.range(40).selectExpr("id AS price", "IF(id % 3 = 0, 'A', 'B') AS symbol")
    rows = annotate(events, net.entry_table(1)).collect()
    net.subscribe(3, "price = 39")  # which the headers do not know
    for row in rows:
        net.publish(1, {"price": row.price, "symbol": row.symbol}, header=bytes(row.header))
    net.run()
    assert net.verdict().is_right, str(net.verdict())
    assert len(net.deliveries) > 40


def test_a_column_is_not_replaced(spark: SparkSession) -> None:
    with pytest.raises(PipelineError, match="have a column ID already"):
        annotate(spark.range(3), WANTS, name="ID")
