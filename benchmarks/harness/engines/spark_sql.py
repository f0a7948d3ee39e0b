"""Spark SQL plans that match: subscriptions as a table, as expressions, as functions in Python."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from palio.workloads import Workload
from palio.workloads.generated import EQUALS, UNUSED, Conditions

NUMBER = "number"


def subscription_table(spark: Any, workload: Workload, count: int, folder: Path) -> Any:
    """Subscriptions as rows: a word for a text attribute, two bounds for a number, NULL where nothing is asked."""
    path = folder / f"subscriptions-{count}.parquet"
    if not path.exists():
        pq.write_table(_bounds(workload, workload.subscription_conditions(count)), path)
    return spark.read.parquet(str(path))


def _bounds(workload: Workload, conditions: Conditions) -> pa.Table:
    count = len(conditions)
    columns: dict[str, Any] = {"subscription": pa.array(np.arange(count))}
    rarest = np.full(count, -1)
    access = np.full(count, -1)
    words = pa.array([f"v{number}" for number in range(workload.vocabulary)])
    for place, name in enumerate(workload.names):
        low, high = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
        for position in range(conditions.kind.shape[1]):
            here = (conditions.attribute[:, position] == place) & (conditions.kind[:, position] != UNUSED)
            low[here], high[here] = conditions.low[here, position], conditions.high[here, position]
            words_here = here & (conditions.kind[:, position] == EQUALS) & (name[0] == "s")
            better = words_here & (conditions.low[:, position] > rarest)
            rarest[better], access[better] = conditions.low[better, position], place
        if name[0] == "s":
            columns[f"s_{name}"] = words.take(pa.array(low, mask=low < 0))
        else:
            columns[f"s_{name}_low"] = pa.array(low, mask=low < 0)
            columns[f"s_{name}_high"] = pa.array(high, mask=low < 0)
    columns["access"] = pa.array(access)
    return pa.table(columns)


def _holds(names: list[str]) -> str:
    """That an event is within the bounds of a subscription, of these attributes."""
    texts = [f"(s_{name} IS NULL OR {name} = s_{name})" for name in names if name[0] == "s"]
    numbers = [
        f"(s_{name}_low IS NULL OR {name} BETWEEN s_{name}_low AND s_{name}_high)" for name in names if name[0] == "n"
    ]
    return " AND ".join([*texts, *numbers])


def nested_loop(events: Any, table: Any, workload: Workload) -> Any:
    from pyspark.sql import functions as sql

    return events.join(sql.broadcast(table), sql.expr(_holds(workload.names))).select(NUMBER, "subscription")


def hash_joins(events: Any, table: Any, workload: Workload) -> Any:
    from pyspark.sql import functions as sql

    found = []
    for place, name in [(-1, None), *((at, each) for at, each in enumerate(workload.names) if each[0] == "s")]:
        some = table.where(sql.col("access") == place)
        if name is None:
            joined = nested_loop(events, some, workload)
        else:
            others = [each for each in workload.names if each != name]
            on = sql.expr(f"{name} = s_{name} AND {_holds(others)}")
            joined = events.join(sql.broadcast(some), on).select(NUMBER, "subscription")
        found.append(joined)
    whole = found[0]
    for each in found[1:]:
        whole = whole.union(each)
    return whole


def exploded(events: Any, table: Any, workload: Workload) -> Any:
    """A row for each value of an event, joined with a row for each condition, and the hits of each pair counted."""
    from pyspark.sql import functions as sql

    def values(name: str) -> Any:
        is_text = name[0] == "s"
        text = sql.col(name) if is_text else sql.lit(None).cast("string")
        number = sql.lit(None).cast("long") if is_text else sql.col(name).cast("long")
        return sql.struct(sql.lit(name).alias("name"), text.alias("text"), number.alias("value"))

    def conditions(name: str) -> Any:
        is_text = name[0] == "s"
        word = sql.col(f"s_{name}") if is_text else sql.lit(None).cast("string")
        none = sql.lit(None).cast("long")
        low, high = (none if is_text else sql.col(f"s_{name}_{end}").cast("long") for end in ("low", "high"))
        return sql.struct(sql.lit(name).alias("asked"), word.alias("word"), low.alias("low"), high.alias("high"))

    asked = table.select("subscription", sql.explode(sql.array(*map(conditions, workload.names))).alias("c"))
    asked = asked.select("subscription", "c.*").where("word IS NOT NULL OR low IS NOT NULL")
    asked = asked.join(asked.groupBy("subscription").agg(sql.count("*").alias("wanted")), "subscription")
    said = events.select(NUMBER, sql.explode(sql.array(*map(values, workload.names))).alias("e")).select(NUMBER, "e.*")
    hits = said.join(sql.broadcast(asked), sql.expr("name = asked AND (text = word OR value BETWEEN low AND high)"))
    met = hits.groupBy(NUMBER, "subscription", "wanted").agg(sql.count("*").alias("met"))
    return met.where("met = wanted").select(NUMBER, "subscription")


def case_expressions(events: Any, wheres: list[str]) -> Any:
    """An expression for each subscription, in one SELECT."""
    from pyspark.sql import functions as sql

    found = sql.array_compact(
        sql.array(*(sql.expr(f"CASE WHEN {where} THEN {number} END") for number, where in enumerate(wheres)))
    )
    return events.select(NUMBER, sql.explode(found).alias("subscription"))


def pandas_loop(events: Any, wheres: list[str], workload: Workload) -> Any:
    """A pandas function that asks each subscription in turn, for all rows of a batch at once."""
    import pandas as pd
    from pyspark import cloudpickle
    from pyspark.sql import functions as sql
    from pyspark.sql.functions import pandas_udf

    conditions = [_in_python(where) for where in wheres]

    def ask(columns: Any) -> Any:
        values = {name: columns[name].to_numpy() for name in columns}
        found: list[list[int]] = [[] for _ in range(len(columns))]
        for number, condition in enumerate(compiled(tuple(conditions))):
            for row in np.flatnonzero(condition(values)):
                found[row].append(number)
        return pd.Series(found)

    # Spark looks at the types themselves, and its workers do not have this module.
    ask.__annotations__ = {"columns": pd.DataFrame, "return": pd.Series}
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    asked = pandas_udf(ask, "array<int>")(sql.struct(*workload.names))
    return events.select(NUMBER, sql.explode(asked).alias("subscription"))


def _in_python(where: str) -> str:
    """A condition of the workload as Python says it of arrays."""
    parts = []
    for name, operator, value in re.findall(r"(\w+) (=|>=|<=|BETWEEN) ('\w+'|\d+ AND \d+|\d+)", where):
        if operator == "BETWEEN":
            low, _, high = value.partition(" AND ")
            parts += [f"(v[{name!r}] >= {low})", f"(v[{name!r}] <= {high})"]
        else:
            parts.append(f"(v[{name!r}] {'==' if operator == '=' else operator} {value})")
    return " & ".join(parts)


_compiled: dict[tuple[str, ...], list[Callable[[Any], Any]]] = {}


def compiled(conditions: tuple[str, ...]) -> list[Callable[[Any], Any]]:
    """The functions of conditions, made once in a worker."""
    if conditions not in _compiled:
        _compiled[conditions] = [eval(f"lambda v: {condition}") for condition in conditions]
    return _compiled[conditions]
