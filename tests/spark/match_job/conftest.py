"""A table with a column of every kind."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

EVENTS = """
    SELECT id, cast(id % 7 AS INT) AS price, concat('s', id % 3) AS symbol,
           named_struct('a', id, 'List', array(id, id + 1),
                        'deep', array(named_struct('x', id), named_struct('x', -id))) AS s,
           map('k', id, 'dot.ted', id + 1) AS m, date_add(DATE'2024-01-01', cast(id AS INT)) AS day,
           cast(id AS DECIMAL(10, 2)) AS money, encode(cast(id AS STRING), 'UTF-8') AS raw,
           timestamp_seconds(id * 3600) AS at, cast(timestamp_seconds(id * 3600) AS TIMESTAMP_NTZ) AS local,
           array(array(id), array(id + 1)) AS nested, concat('{"x": ', id, ', "y": {"z": ["a", "b"]}}') AS payload,
           if(id % 2 = 0, named_struct('x', nullif(id, -1)), NULL) AS half,
           if(id % 3 = 0, map('x', nullif(id, -1)), NULL) AS whole,
           id AS `dot.ted`, INTERVAL '1' DAY AS span, cast(NULL AS STRING) AS nothing
    FROM range(24)
"""


@pytest.fixture(scope="module")
def events(spark: SparkSession) -> DataFrame:
    return spark.sql(EVENTS).cache()
