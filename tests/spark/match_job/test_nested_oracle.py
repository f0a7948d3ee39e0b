"""Matches of many subscriptions together against Spark's own WHERE for each.

Random rows of what WHERE and events have different words for: structures and maps that are not there, arrays of
structures, times without a zone, times beyond the years that Python knows; in a session whose zone is not UTC.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date, datetime
from random import Random
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.sql.functions import expr

from palio.peers.mapping_choice import MAPPINGS
from palio.spark import Rendezvous, match, matches
from tests.oracles.seeds import seeds
from tests.oracles.spark_answers import session_zone
from tests.spark.match_job.queries import pairs

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ROWS = 24

TIMES = (
    "TIMESTAMP'9999-12-31 23:59:59'",
    "TIMESTAMP'0001-01-01 00:00:00Z'",
    "TIMESTAMP'0001-01-01 00:00:00+14:00'",
    "TIMESTAMP'+10000-06-01 12:00:00'",
    "TIMESTAMP'-0044-03-15 12:00:00'",
    "TIMESTAMP'2024-03-01 22:15:00'",
    "TIMESTAMP'2024-11-03 01:30:00'",
)
# Two that are both too early, or both too late, count as the same: so one of two columns has none.
NEAR = ("TIMESTAMP'2024-03-01 22:15:00'", "TIMESTAMP'9999-12-29 00:00:00'", "TIMESTAMP'0001-01-03 00:00:00'")
CLOCKS = (
    "TIMESTAMP_NTZ'2024-03-01 22:15:00'",
    "TIMESTAMP_NTZ'2024-03-02 03:15:00'",
    "TIMESTAMP_NTZ'2024-11-03 01:30:00'",
    "TIMESTAMP_NTZ'9999-12-31 23:59:59'",
    "TIMESTAMP_NTZ'0001-01-01 00:00:00'",
)
MOMENTS = (datetime(2024, 3, 1, 22, 15), datetime(2024, 3, 2, 3, 15))
DAYS = ("DATE'2024-03-01'", "DATE'9999-12-31'", "DATE'0001-01-01'", "DATE'+10000-01-01'", "DATE'-0044-03-15'")
TOLD = {"t": TIMES, "u": NEAR, "n": CLOCKS, "d": DAYS}
ZONES = ("America/New_York", "Asia/Tokyo")


def test_a_job_answers_as_where_does_in_any_company(spark: SparkSession) -> None:
    compare_all_ways(spark, 0, Rendezvous(MAPPINGS[0], 3))


@pytest.mark.deep
@pytest.mark.parametrize("seed", seeds(1, 12))
def test_more_jobs_answer_as_where_does(spark: SparkSession, seed: int) -> None:
    compare_all_ways(spark, seed, Rendezvous(MAPPINGS[seed % 3], 1 + seed % 4))


def compare_all_ways(spark: SparkSession, seed: int, plan: Rendezvous) -> None:
    random = Random(f"nested and far {seed}")
    with session_zone(spark, ZONES[seed % 2]):
        events = table(spark, random).cache()
        asked = dict(random.sample(sorted({*CONDITIONS, *(conjunction(random) for _ in range(40))}), 90))
        wanted = [{"id": said, "where": said} for said in asked]
        meant = [f"coalesce({sql}, false) AS c{place}" for place, sql in enumerate(asked.values())]
        answers = events.selectExpr("id", *meant).collect()
        expected = {(row.id, said) for row in answers for place, said in enumerate(asked) if row[f"c{place}"]}
        assert len(expected) > 300
        found: dict[str, set[tuple[int, str]]] = {
            "broadcast": pairs(match(events, wanted, plan="broadcast", columns=["id"])),
            "rendezvous": pairs(match(events, wanted, plan=plan, columns=["id"])),
            "matches": who(events.withColumn("who", matches(wanted))),
            "named": who(events.withColumn("who", matches(wanted, *(name.upper() for name in events.columns)))),
        }
        few = {said for said in asked if random.random() < 0.05}
        alone = pairs(match(events, [each for each in wanted if each["id"] in few], columns=["id"]))
        for way, answer in found.items():
            assert answer - expected == set(), way
            assert expected - answer == set(), way
        assert alone == {(id, said) for id, said in expected if said in few}
        events.unpersist()


def who(found: DataFrame) -> set[tuple[int, str]]:
    return {(row.id, each) for row in found.select("id", "who").collect() for each in row.who}


SCHEMA = """
    id LONG, t INT, u INT, n INT, d INT, s STRUCT<a: INT, b: STRUCT<x: INT, y: INT>, n: TIMESTAMP_NTZ>,
    m MAP<STRING, INT>, days MAP<DATE, INT>,
    a ARRAY<STRUCT<p: INT, r: INT, q: ARRAY<STRUCT<x: INT, y: INT>>, s: STRUCT<x: INT, y: INT>, tags: ARRAY<INT>>>,
    maps ARRAY<MAP<STRING, INT>>, nested ARRAY<ARRAY<INT>>, clocks ARRAY<TIMESTAMP_NTZ>
"""


def table(spark: SparkSession, random: Random) -> DataFrame:
    """Random rows. Python cannot say all the times, so it says which one of them is meant."""
    rows = [row(random, id) for id in range(ROWS)]
    chosen = {name: f"element_at(array({', '.join(values)}), {name})" for name, values in TOLD.items()}
    return spark.createDataFrame(rows, SCHEMA).withColumns({name: expr(said) for name, said in chosen.items()})


def row(random: Random, id: int) -> dict[str, Any]:
    def perhaps(value: Callable[[], Any]) -> Any:
        return None if random.random() < 0.2 else value()

    def array(value: Callable[[], Any]) -> list[Any]:
        return [perhaps(value) for _ in range(random.randint(0, 3))]

    def small() -> int:
        return random.randint(1, 2)

    def part() -> dict[str, Any]:
        return {"x": perhaps(small), "y": perhaps(small)}

    def item() -> dict[str, Any]:
        more = {"q": perhaps(lambda: array(part)), "s": perhaps(part), "tags": perhaps(lambda: array(small))}
        return {"p": perhaps(small), "r": perhaps(small), **more}

    def mapping() -> dict[str, Any]:
        return {"k": perhaps(small), random.choice("lm"): perhaps(small)}

    return {
        "id": id,
        **{name: perhaps(lambda: random.randint(1, len(values))) for name, values in TOLD.items()},  # noqa: B023
        "s": perhaps(lambda: {"a": perhaps(small), "b": perhaps(part), "n": random.choice(MOMENTS)}),
        "m": perhaps(mapping),
        "days": perhaps(lambda: {date(2024, 3, 1): 5}),
        "a": perhaps(lambda: array(item)),
        "maps": perhaps(lambda: array(mapping)),
        "nested": perhaps(lambda: array(lambda: array(small))),
        "clocks": perhaps(lambda: array(lambda: random.choice(MOMENTS))),
    }


def conditions() -> Iterator[tuple[str, str]]:
    """Conditions as Palio says them, and as Spark does."""
    for name, times in (("t", TIMES), ("n", CLOCKS), ("d", DAYS), ("s.n", CLOCKS[:2])):
        near = [each for each in times if "'2" in each]
        for value in near:
            for operator in ("=", "<>", "<", ">="):
                yield f"{name} {operator} {value}", f"{name} {operator} {value}"
        if name != "t":
            yield f"year({name}) > 2000", f"year({name}) > 2000"
        yield f"{name} IS NULL", f"{name} IS NULL"
        yield f"{name} IS NOT NULL OR id + 1 = 3", f"{name} IS NOT NULL OR id + 1 = 3"
    for same in (
        "hour(n) = 22", "hour(t) = 3 OR id >= 0", "minute(n) = 30", "n = '2024-03-01 22:15:00'", "n = u", "n < u",
        "t < u", "t <> u",
        "CAST(n AS DATE) = DATE'2024-03-01'", "id > 5 AND t < u", "N < U AND ID % 2 = 0", "t BETWEEN '1900' AND u",
        "s IS NULL", "s IS NOT NULL", "s.b IS NULL", "S.B IS NOT NULL", "s.b.x = 1", "s.b.x IS NULL", "s.A = 1",
        "m IS NULL", "m IS NOT NULL AND id > 3", "days IS NULL", "days IS NOT NULL",
    ):  # fmt: skip
        yield same, same
    yield "m.k = 1", "m['k'] = 1"
    yield "m.l IS NULL", "m['l'] IS NULL"
    yield "nested = 1", "exists(nested, i -> exists(i, j -> j = 1))"
    yield "clocks = TIMESTAMP_NTZ'2024-03-01 22:15:00'", "array_contains(clocks, TIMESTAMP_NTZ'2024-03-01 22:15:00')"
    yield "maps.k = 1", "exists(maps, i -> i['k'] = 1)"
    yield "maps.k = 1 AND maps.l = 2", "exists(maps, i -> i['k'] = 1 AND i['l'] = 2)"
    yield "a.tags = 1", "exists(a, i -> exists(i.tags, j -> j = 1))"
    yield "a.q.x = 1", "exists(a, i -> exists(i.q, j -> j.x = 1))"
    yield "a.q.x = 1 AND a.q.y = 2", "exists(a, i -> exists(i.q, j -> j.x = 1 AND j.y = 2))"
    yield "a.p = 1 AND a.q.y = 2", "exists(a, i -> i.p = 1 AND exists(i.q, j -> j.y = 2))"
    # Functions of whole arrays; a NULL among objects is no object, and arrays in arrays are one array.
    for sized in ("a", "maps", "clocks"):
        yield f"size({sized}) = 0", f"size({sized}) = 0"
        yield f"size({sized}) = 2", f"size({sized}) = 2"
        yield f"size({sized}) IS NULL", f"{sized} IS NULL"
    noon = "TIMESTAMP_NTZ'2024-03-01 22:15:00'"
    yield f"NOT array_contains(clocks, {noon})", f"NOT array_contains(clocks, {noon})"
    yield f"array_contains(clocks, {noon}) IS NULL", f"array_contains(clocks, {noon}) IS NULL"
    tags = flat("transform(filter(a, i -> i IS NOT NULL), i -> i.tags)")
    members = "transform(filter(a, i -> i IS NOT NULL), i -> i.{})"
    values = {"a.p": members.format("p"), "a.s.x": members.format("s.x"), "a.tags": tags, "nested": flat("nested")}
    for said, array in values.items():
        yield f"size({said}) = 0", f"size({array}) = 0"
        yield f"size({said}) > 1", f"size({array}) > 1"
        yield f"array_contains({said}, 1)", f"array_contains({array}, 1)"
        yield f"NOT array_contains({said}, 1)", f"NOT array_contains({array}, 1)"
        yield f"array_contains({said}, 1) IS NULL", f"array_contains({array}, 1) IS NULL"
    # An array column is NULL as a whole; of a member, whether it is NULL in an object, or there is no object.
    yield "a IS NULL", "a IS NULL"
    yield "a IS NOT NULL OR id = 2", "a IS NOT NULL OR id = 2"
    yield "a.p IS NULL", "a IS NULL OR exists(a, i -> i IS NOT NULL AND i.p IS NULL) OR forall(a, i -> i IS NULL)"


def flat(arrays: str) -> str:
    """Arrays in an array as one array; one that is NULL is a NULL in it."""
    return f"flatten(transform({arrays}, i -> coalesce(i, array(CAST(NULL AS INT)))))"


VALUED = ("p = 1", "p = 2", "q.x = 1", "s.x = 1")
ELEMENT = {
    "p = 1": "i.p = 1", "p = 2": "i.p = 2", "r = 1": "i.r = 1", "r IS NULL": "i.r IS NULL", "p <> r": "i.p <> i.r",
    "s IS NULL": "i.s IS NULL", "s IS NOT NULL": "i.s IS NOT NULL", "s.x = 1": "i.s.x = 1", "s.y > 1": "i.s.y > 1",
    "q.x = 1": "exists(i.q, j -> j.x = 1)", "tags = 2": "exists(i.tags, j -> j = 2)",
}  # fmt: skip
"""Conditions on the elements of the array `a`."""

CONDITIONS = tuple(conditions())


def conjunction(random: Random) -> tuple[str, str]:
    """Conditions that ask for one element of `a` that satisfies all."""
    # One of them needs a value: else they hold where there is no array, too.
    chosen = [random.choice(sorted(VALUED)), *random.sample(sorted({*ELEMENT} - {*VALUED}), random.randint(1, 2))]
    said = " AND ".join(each.replace("p <> r", "a.p <> a.r") if "<> r" in each else f"a.{each}" for each in chosen)
    return said, f"exists(a, i -> i IS NOT NULL AND {' AND '.join(ELEMENT[each] for each in chosen)})"
