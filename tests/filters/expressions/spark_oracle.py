"""Spark as an oracle of expressions, row by row: a value, an error, or rejection of the expression.

A SELECT that raises on one row says nothing of the others, and a job per row and expression takes a tenth
of a second. So Spark analyses and optimises an expression as for a SELECT, and the expression that comes of
it is asked for its value on each row in turn.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from palio.filters.expressions.ast import Micros, Months

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

RAISES = object()
REFUSED = object()

COLUMNS = {
    "i": "bigint",
    "j": "bigint",
    "n": "int",
    "d": "double",
    "e": "double",
    "m": "decimal(10,2)",
    "k": "decimal(10,2)",
    "s": "string",
    "r": "string",
    "w": "string",
    "t": "date",
    "u": "date",
    "ts": "timestamp",
    "us": "timestamp",
    "b": "boolean",
    "c": "boolean",
    "x": "binary",
    "y": "binary",
    "a": "array<bigint>",
    "g": "array<double>",
    "h": "array<string>",
}


# A common part of an expression would be computed below it, and a sum or product in an order of the
# optimiser's choosing, so that what overflows as it is written may not.
_SETTINGS = {
    "spark.sql.alwaysInlineCommonExpr": "true",
    "spark.sql.optimizer.excludedRules": "org.apache.spark.sql.catalyst.optimizer.ReorderAssociativeOperator",
}


class SparkOracle:
    """A table of rows in a Spark session, and the values of expressions over it."""

    def __init__(self, spark: SparkSession, rows: Sequence[dict[str, Any]], folder: Path, zone: str = "UTC") -> None:
        self._spark = spark
        self._zone = zone
        self.rows = rows
        schema = "id int, " + ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
        data = [(at, *(row.get(name) for name in COLUMNS)) for at, row in enumerate(rows)]
        # A table in a file: of rows in memory the optimiser would compute everything at once.
        spark.createDataFrame(data, schema).coalesce(1).write.mode("overwrite").parquet(str(folder))
        self.table = f"rows_{abs(hash(str(folder)))}"
        spark.read.parquet(str(folder)).createOrReplaceTempView(self.table)
        frame = spark.sql(f"SELECT * FROM {self.table} ORDER BY id")
        # PySpark has no public way to Catalyst's expressions and plans.
        self._rows = list(frame._jdf.queryExecution().executedPlan().executeCollect())
        package = spark._jvm.org.apache.spark.sql.catalyst.expressions
        self._sequence = getattr(package, "package$AttributeSeq")
        self._binder = getattr(getattr(package, "BindReferences$"), "MODULE$")

    def values(self, expression: str) -> list[Any] | object:
        """The value on every row, or RAISES; REFUSED if Spark does not take the expression at all."""
        from py4j.protocol import Py4JJavaError
        from pyspark.errors import AnalysisException, PySparkException

        for name, setting in {**_SETTINGS, "spark.sql.session.timeZone": self._zone}.items():
            self._spark.conf.set(name, setting)
        try:
            frame = self._spark.sql(f"SELECT *, {expression} AS value FROM {self.table}")
            kind = frame.schema["value"].dataType.simpleString()
            # As above.
            plan = frame._jdf.queryExecution().optimizedPlan()
        except AnalysisException:
            return REFUSED
        except (PySparkException, Py4JJavaError):
            return [RAISES] * len(self._rows)
        finally:
            for name in _SETTINGS:
                self._spark.conf.unset(name)
            self._spark.conf.set("spark.sql.session.timeZone", "UTC")
        computed = plan.projectList().last().child()
        bound = self._binder.bindReference(computed, self._sequence(plan.child().output()), False)
        values = []
        for row in self._rows:
            try:
                values.append(_received(bound.eval(row), kind))
            except (Py4JJavaError, PySparkException, OverflowError):
                values.append(RAISES)
        return values


def _received(value: Any, kind: str) -> Any:
    """A value of Spark's inside as the Python value it stands for."""
    if value is None:
        return None
    if kind == "string":
        return value.toString()
    if kind.startswith("decimal"):
        return value.toJavaBigDecimal()
    if kind == "date":
        return date(1970, 1, 1) + timedelta(days=value)
    if kind == "timestamp":
        return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=value)
    if kind.startswith("interval"):
        return Months(value) if "month" in kind or "year" in kind else Micros(value)
    return bytes(value) if kind == "binary" else value
