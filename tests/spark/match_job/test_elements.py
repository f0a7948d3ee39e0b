"""Elements, keys and VARIANTs of typed columns mean what Spark means by them."""

from __future__ import annotations

import warnings
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from palio.spark import match, matches
from tests.oracles.answers import Answer
from tests.oracles.spark_answers import SparkTable
from tests.spark.match_job.queries import pairs, rendezvous, wants

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = """
SELECT * FROM VALUES
  (1, array(1, 2, 3), array('7', 'x', NULL), array(array(1, 2), NULL, array(3)), map('k', 1, 'l', NULL),
   map(1, 'a', -2, 'b'),
   named_struct('a', array(named_struct('b', 'x', 'c', array(1, 5)), NULL, named_struct('b', '9', 'c', NULL))),
   map('t', array('p', '8')), array(map('k', 3)), 'a,b,,',
   '{"a": {"b": [1, "2", 2.5]}, "n": [{"b": true}], "s": "x"}', 1),
  (2, array(), array(), array(), map(), map(), named_struct('a', array()), map(), array(), '', '{"a": [{"b": 4}]}', 0),
  (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL),
  (4, array(NULL, 5), array('5', '6'), array(array(), array(9, NULL)), map('k', NULL), map(5, NULL),
   named_struct('a', NULL), map('t', NULL), array(NULL, map('k', NULL)), '12', '"12"', -1),
  (5, array(6), array(NULL), array(array(7)), map('K', 5, 'a.b', 6), map(5, '5'),
   named_struct('a', array(named_struct('b', NULL, 'c', array()))), map('t', array()), array(map()), '5-6', '5', 3)
  AS v(id, a, ta, aa, m, mi, s, mas, ams, t, j, i)
"""

CONDITIONS = """
a[0] = 1
a[0] > 2
a[0] IS NULL
NOT (a[1] > 2)
a[5] IS NULL
get(a, 1) = 2
get(a, -1) IS NULL
get(a, i) = 2
element_at(a, 1) = 1
element_at(a, -1) > 2
try_element_at(a, -2) = 2
a[0] + a[1] = 3
a[0] IN (1, 6)
a[0] BETWEEN 1 AND 5
ta[0] > 5
ta[0] = '7'
ta[0] LIKE '7%'
aa[0][1] = 2
aa[0][0] > 5
aa[1][0] IS NULL
m['k'] = 1
m['k'] IS NULL
element_at(m, 'k') = 1
m['K'] = 5
m['a.b'] = 6
m.k = 1
map_contains_key(m, 'k')
NOT map_contains_key(m, 'k')
map_contains_key(m, 'k') IS NULL
size(m) = 2
size(m) = 0
cardinality(mi) = 1
mi[5] = '5'
mi[-2] = 'b'
mi[1] = 'a' OR mi[5] > 4
element_at(mi, 5) IS NULL
map_contains_key(mi, 5)
s.a[0].b = 'x'
s.a.b[0] = 'x'
s['a'][0]['b'] = 'x'
s.a[2].b > 8
s.a[1].b IS NULL
s.a[0].c[1] = 5
size(s.a) = 3
mas['t'][0] = 'p'
mas['t'][1] > 7
element_at(mas['t'], -1) = '8'
ams[0]['k'] = 3
ams[0].k = 3
ams[1]['k'] IS NULL
exists(a, x -> x > 2)
NOT exists(a, x -> x > 2)
exists(a, x -> x > 2) IS NULL
exists(a, x -> x > '2')
exists(a, X -> x = i)
exists(ta, x -> x > 6)
exists(ta, x -> x IS NULL)
exists(ta, x -> x LIKE 'x%')
forall(a, x -> x > 0)
NOT forall(a, x -> x > 1)
forall(a, x -> x BETWEEN i AND 10)
split(t, ',')[0] = 'a'
split(t, ',')[0] > 4
split(t, ',')[3] = ''
split(t, '[,-]')[1] = '6'
split(t, ',', 2)[1] = 'b,,'
split(t, '')[1] = '2'
element_at(split(t, ','), 2) = 'b'
size(split(t, ',')) = 4
array_contains(split(t, ','), 'b')
split_part(t, ',', 1) = 'a'
v:a.b[0]::int = 1
v:a.b[1]::int = 2
v:a.b[2]::double > 2
v:a.b[2]::int = 2
v:a[0].b::int = 4
v:n[0].b::boolean
v:s::string = 'x'
v:s::int = 5
v::int = 12
CAST(v AS STRING) = '5'
variant_get(v, '$.a.b[0]', 'string') = '1'
try_variant_get(v, '$.s', 'int') IS NULL
v IS NULL
v IS NOT NULL
""".strip().splitlines()


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    return spark.sql(f"SELECT *, parse_json(j) AS v FROM ({ROWS})").cache()


@pytest.fixture(scope="module")
def expected(spark: SparkSession, frame: DataFrame) -> dict[str, dict[Answer, set[int]]]:
    oracle = SparkTable(spark, pa.table({"id": [1, 2, 3, 4, 5]}), frame)
    assert oracle.refusals(CONDITIONS) == {}
    found: dict[str, dict[Answer, set[int]]] = {}
    for condition, answers in zip(CONDITIONS, oracle.answers(CONDITIONS), strict=True):
        for row, answer in enumerate(answers, 1):
            found.setdefault(condition, {}).setdefault(answer, set()).add(row)
    assert sum(Answer.TRUE in each for each in found.values()) > 0.8 * len(CONDITIONS)
    return found


def check(found: set[tuple[int, str]], expected: dict[str, dict[Answer, set[int]]]) -> None:
    wrong = {}
    for condition, answers in expected.items():
        ids = {id for id, each in found if each == condition} - answers.get(Answer.RAISES, set())
        if ids != answers.get(Answer.TRUE, set()):
            wrong[condition] = ids, answers
    assert wrong == {}


@pytest.mark.parametrize("plan", ["broadcast", rendezvous()], ids=["broadcast", "rendezvous"])
def test_elements_of_columns_are_those_of_spark(
    frame: DataFrame, expected: dict[str, dict[Answer, set[int]]], plan: object
) -> None:
    with warnings.catch_warnings(action="error"):
        check(pairs(match(frame, wants(*CONDITIONS), plan=plan, columns=["id"])), expected)  # type: ignore[arg-type]


@pytest.mark.parametrize("named", [True, False], ids=["named", "struct"])
def test_elements_are_the_same_in_the_function(
    frame: DataFrame, expected: dict[str, dict[Answer, set[int]]], named: bool
) -> None:
    names = [each for each in frame.columns if each not in ("id", "j")] if named else []
    rows = frame.withColumn("who", matches(wants(*CONDITIONS), *names)).select("id", "who").collect()
    check({(row["id"], id) for row in rows for id in row["who"]}, expected)
