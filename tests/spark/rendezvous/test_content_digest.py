"""An event is known by its content: different ones apart, equal ones together and all counted."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from pyspark.sql import functions as sql

from palio.spark import Rendezvous, match
from palio.spark.rendezvous.shuffle_plan import content_digest

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

# The rows of each are all different, though Spark's own hash takes some for the same.
DIFFERENT = """
    VALUES (NULL, 1), (1, NULL), (NULL, NULL), (0, 1), (1, 0) AS t(a, b)
"""
NESTED = """
    VALUES (array(array(1), array(2)), named_struct('x', 1, 'y', NULL)),
           (array(array(1, 2)), named_struct('x', 1, 'y', NULL)),
           (array(array(1), array(2)), named_struct('x', NULL, 'y', 1)), (array(array(1), array(2)), NULL),
           (array(array(NULL, 1)), NULL), (array(array(1, NULL)), NULL), (array(), NULL), (NULL, NULL),
           (array(NULL), NULL), (array(array()), NULL), (array(array(), array()), NULL)
    AS t(a, b)
"""
MAPS = """
    VALUES (map('a', 1, 'b', 2), 'A'), (map('a', 2, 'b', 1), 'A'), (map('a', 1), 'A'), (map(), 'A'), (NULL, 'A'),
           (map('a', 1), 'a'), (map('a', NULL), 'a') AS t(a, b)
"""


def digests(rows: DataFrame) -> list[tuple[int, int]]:
    content: list[tuple[Column, object]] = [(sql.col(field.name), field.dataType) for field in rows.schema.fields]
    return [(row.d.one, row.d.other) for row in rows.select(content_digest(content).alias("d")).collect()]  # type: ignore[arg-type]


def test_what_differs_has_another_digest(spark: SparkSession) -> None:
    for rows in (DIFFERENT, NESTED, MAPS):
        found = digests(spark.sql(f"SELECT * FROM {rows}"))
        assert len(set(found)) == len(found)
    soft = spark.sql("SELECT b COLLATE UTF8_LCASE AS b FROM VALUES ('A'), ('a') AS t(b)")
    assert len(set(digests(soft))) == 2


def test_what_is_the_same_has_the_same_digest_in_whatever_order_it_comes(spark: SparkSession) -> None:
    one = spark.sql("SELECT map('a', 1, 'b', 2) AS m, array(1, NULL) AS l, 1.50BD AS d, parse_json('{\"x\": 1}') AS v")
    other = spark.sql("SELECT map('b', 2, 'a', 1) AS m, array(1, NULL) AS l, 1.50BD AS d, parse_json('{\"x\":1}') AS v")
    assert digests(one) == digests(other)


def test_equal_events_are_all_told(spark: SparkSession) -> None:
    once = spark.sql("SELECT id % 5 AS id, map('k', id % 2) AS m, array(id % 5) AS l FROM range(10)")
    events = once.union(once).repartition(3)
    wants = [{"id": "one", "where": "l = 1"}, {"id": "small", "where": "id < 3"}, {"id": "k", "where": "m.k = 1"}]
    answers = [
        Counter((row.id, row.m["k"], tuple(sorted(row.subscription_ids))) for row in found.collect())
        for found in (
            match(events, wants, per_event=True, columns=["id", "m"], plan=plan)
            for plan in ("broadcast", Rendezvous("key-space-split", 4))
        )
    ]
    assert answers[0] == answers[1]
    assert set(answers[1].values()) == {2}
