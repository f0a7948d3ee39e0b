"""Names of columns qualified by an alias or a table: `e.price` over `events.alias("e")`, `l.id` over a join.

Spark keeps the qualifiers of columns in its plan and not in the schema, and has no API for them. Without Connect they
are read from the analyzed plan, through several calls to the JVM for each column, but only where a part of the plan has
a name. A client of Connect knows the alias that it gave last.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

from palio.spark.attributes import Path, quoted
from palio.spark.shared_index import is_connect

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.types import DataType


def qualified_columns(events: DataFrame) -> dict[Path, tuple[str, DataType]]:
    """The columns of a DataFrame, in SQL and with their types, by each qualified name that Spark finds them by."""
    fields = events.schema.fields
    counts = Counter(field.name for field in fields)
    found: dict[Path, tuple[str, DataType]] = {}
    twice: set[Path] = set()
    for field, qualifier in zip(fields, _qualifiers(events), strict=False):
        # Of `spark_catalog.default.quotes` the last part, the last two, or all may stand before a name.
        for length in range(1, len(qualifier) + 1):
            path = (*qualifier[-length:], field.name)
            # The plain name where it is unique, so that a column which is read and kept is passed once.
            source = quoted(field.name) if counts[field.name] == 1 else ".".join(map(quoted, path))
            twice.update({path} & found.keys())
            found[path] = source, field.dataType
    return {path: each for path, each in found.items() if path not in twice}


def alias_of(events: DataFrame) -> str | None:
    """The name that qualifies all columns; None where there is none, or several."""
    names = {qualifier[-1:] for qualifier in _qualifiers(events)}
    return names.pop()[0] if len(names) == 1 and () not in names else None


def _qualifiers(events: DataFrame) -> list[Path]:
    """The qualifier of each column; none at all where no part of the plan has a name."""
    plan: Any
    if is_connect(events.sparkSession):
        plan = events._plan
        return [(plan._alias,)] * len(events.columns) if type(plan).__name__ == "SubqueryAlias" else []
    plan = events._jdf.queryExecution().analyzed()
    if "SubqueryAlias" not in plan.toString():
        return []
    columns = plan.output()
    return [_parts(columns.apply(place).qualifier()) for place in range(columns.size())]


def _parts(sequence: Any) -> Path:
    return tuple(sequence.apply(place) for place in range(sequence.size()))
