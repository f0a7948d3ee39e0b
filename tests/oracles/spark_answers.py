"""Spark SQL as an oracle: TRUE, FALSE, NULL or an error for every row.

Spark ends a query at the first error, so one bad row hides all others. Rather than one query per row and
condition, each condition is wrapped in Catalyst's `TryEval`, the expression that Spark's own `try_add` and its
like are made of: it is NULL where its child raises. A condition that is NULL is written as a number, to be told
apart. Plain `SELECT` and `WHERE` answer a sample again (`where`), to hold the wrapper to account.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Any

from pyspark.errors import AnalysisException, ParseException, PySparkException
from pyspark.sql.classic.column import Column

from tests.oracles.answers import Answer

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


VIEW = "events"

# What Spark 4.1 answers and later ones answer otherwise is nothing to compare with: there, a whole number too large for
# 64 bits is the largest, and not an error; and binaries are turned around as texts.
_OLDEST = "4.1."
_MEANT_OTHERWISE = re.compile(r"\b(ceil|ceiling|floor|reverse)\b", re.IGNORECASE)

# What conditions share, and what one of them says twice, would be computed outside of the wrappers and raise there.
_SEPARATE = {
    "spark.sql.subexpressionElimination.enabled": "false",
    "spark.sql.alwaysInlineCommonExpr": "true",
}


@contextmanager
def _settings(spark: SparkSession, settings: dict[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name, None) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)


def session_zone(spark: SparkSession, zone: str) -> AbstractContextManager[None]:
    """Another time zone for a while."""
    return _settings(spark, {"spark.sql.session.timeZone": zone})


class SparkTable:
    """A table in Spark that conditions can be asked about."""

    def __init__(self, spark: SparkSession, table: pa.Table, frame: DataFrame | None = None) -> None:
        """`frame` has the rows of the table in other types, if given."""
        # pyspark logs every refusal with its whole stack; here they are answers.
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
        self._spark = spark
        self._rows = table.num_rows
        self._frame: DataFrame = frame or spark.createDataFrame(table)
        self._frame.createOrReplaceTempView(VIEW)

    def refusals(self, conditions: Sequence[str]) -> dict[str, str]:
        """The conditions that Spark does not even begin to run, and the first line of why."""
        try:
            self._frame.selectExpr(*conditions)
            return {}
        except (AnalysisException, ParseException) as error:
            if len(conditions) == 1:
                return {conditions[0]: str(error).strip().splitlines()[0]}
        half = len(conditions) // 2
        return {**self.refusals(conditions[:half]), **self.refusals(conditions[half:])}

    def answers(self, conditions: Sequence[str]) -> list[list[Answer]]:
        """For each condition, its answer for every row, in the order of `id`."""
        found = self._asked(conditions)
        if self._spark.version.startswith(_OLDEST):
            silent = [Answer.RAISES] * self._rows
            return [
                silent if _MEANT_OTHERWISE.search(each) else own for each, own in zip(conditions, found, strict=True)
            ]
        return found

    def _asked(self, conditions: Sequence[str]) -> list[list[Answer]]:
        if not conditions:
            return []
        with _settings(self._spark, _SEPARATE):
            try:
                found = self._frame.select("id", *self._wrapped(conditions)).toArrow().sort_by("id")
            except PySparkException:
                found = None
        if found is not None:
            return [[_ANSWERS[value] for value in found[f"c{i}"].to_pylist()] for i in range(len(conditions))]
        if len(conditions) == 1:
            return [[self.answer(conditions[0], row) for row in range(self._rows)]]
        half = len(conditions) // 2
        return self._asked(conditions[:half]) + self._asked(conditions[half:])

    def answer(self, condition: str, row: int) -> Answer:
        """What plain SELECT and WHERE say of one row, each in a query of its own."""
        try:
            if self.where_row(condition, row):
                return Answer.TRUE
            return Answer.FALSE if self.where_row(f"NOT ({condition})", row) else Answer.NULL
        except PySparkException:
            return Answer.RAISES

    def where(self, condition: str) -> set[int]:
        """The ids for which plain `WHERE` keeps a row."""
        rows = self._spark.sql(f"SELECT id FROM {VIEW} WHERE {condition}").collect()
        return {row["id"] for row in rows}

    def where_row(self, condition: str, row: int) -> bool:
        """Whether plain `WHERE` keeps one row; raises what Spark raises."""
        return bool(
            self._spark.sql(f"SELECT id FROM (SELECT * FROM {VIEW} WHERE id = {row}) WHERE {condition}").collect()
        )

    def _wrapped(self, conditions: Iterable[str]) -> list[Column]:
        # PySpark has no public way to Spark's own SQL parser.
        jvm: Any = self._spark._jvm
        parser = self._spark._jsparkSession.sessionState().sqlParser()
        catalyst = jvm.org.apache.spark.sql.catalyst.expressions
        to_column = jvm.org.apache.spark.sql.classic.ExpressionUtils.column
        columns = []
        for number, condition in enumerate(conditions):
            answer = parser.parseExpression(f"coalesce(CAST(({condition}) AS INT), {_NULL})")
            columns.append(Column(to_column(catalyst.TryEval(answer)).alias(f"c{number}")))
        return columns


_NULL = 2
_ANSWERS = {1: Answer.TRUE, 0: Answer.FALSE, _NULL: Answer.NULL, None: Answer.RAISES}
