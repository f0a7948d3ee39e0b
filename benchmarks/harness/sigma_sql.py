"""Sigma rules as SQL, written by pySigma and its SQLite backend, so that their meaning is not ours.

Two dialects. SQLite gets the backend's own SQL. DuckDB's differs in a few words: ILIKE, which ignores case, where
SQLite's LIKE does; `lower(x) = …`, because it knows no collation that does; `regexp_matches`. Columns are numbered,
because both take `ProcessId` and `ProcessID` for one name; a field that no event has is NULL.

Where a rule's log source is found comes from Palio's mapping, so that both ask of the same events; it is applied by
pySigma's own pipelines.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from sigma.backends.sqlite import sqliteBackend
from sigma.collection import SigmaCollection
from sigma.conditions import ConditionFieldEqualsValueExpression
from sigma.processing.pipeline import ProcessingItem, ProcessingPipeline
from sigma.processing.transformations import AddConditionTransformation, FieldMappingTransformation

from palio.languages.sigma.logsources import LogSourceMapping, LogSources

EVERYTHING = "everything"
"""The column that keywords are looked for in: all values of an event, one after the other."""


class _Numbered(sqliteBackend):
    """Fields by the numbers of their columns."""

    fulltext_field = EVERYTHING
    bool_expression = "{field} = {value}"  # all columns are texts

    def __init__(self, columns: Mapping[str, int], pipeline: ProcessingPipeline) -> None:
        super().__init__(pipeline)
        self._columns = columns

    def escape_and_quote_field(self, field: str) -> str:
        number = self._columns.get(field)
        return "CAST(NULL AS VARCHAR)" if number is None else f"c{number}"

    def convert_condition_field_eq_val_num(self, cond: ConditionFieldEqualsValueExpression, state: Any) -> str:
        return f"{self.escape_and_quote_field(cond.field)} = '{cond.value}'"  # all columns are texts


class ForSQLite(_Numbered):
    """For columns that are declared COLLATE NOCASE."""


class ForDuckDB(_Numbered):
    """For columns of texts."""

    wildcard_match_expression = "{field} ILIKE '{value}' ESCAPE '\\'"
    contains_expression = "{field} ILIKE '%{value}%' ESCAPE '\\'"
    null_safe_expression = "COALESCE({expr}, FALSE)"
    re_expression = "regexp_matches({field}, '{regex}')"
    bool_expression = "lower({field}) = {value}"
    field_equals_field_expression = "lower({field1}) = lower({field2})"

    def convert_condition_field_eq_val_str(self, cond: ConditionFieldEqualsValueExpression, state: Any) -> str:
        if cond.value.contains_special():
            return super().convert_condition_field_eq_val_str(cond, state)
        text = "".join(cond.value.s).lower().replace("'", "''")
        return f"lower({self.escape_and_quote_field(cond.field)}) = '{text}'"


def where(
    text: str, logsource: Mapping[str, Any], columns: Mapping[str, int], dialect: type[_Numbered] = ForDuckDB
) -> str:
    """The condition of a rule, given as its YAML."""
    alternatives: list[str] = []
    for place in LogSources.read(None).mappings(logsource):
        queries = dialect(columns, _pipeline(place)).convert(SigmaCollection.from_yaml(text))
        alternatives += [query.split(" WHERE ", 1)[1] for query in queries]
    return " OR ".join(f"({each})" for each in alternatives)


def _pipeline(place: LogSourceMapping) -> ProcessingPipeline:
    names = {field: list(names) for field, names in place.names.items()}
    renaming = [ProcessingItem(FieldMappingTransformation(names))] if names else []
    adding = [ProcessingItem(AddConditionTransformation(dict(each))) for each in place.conditions]
    return ProcessingPipeline(items=[*renaming, *adding])


def regexp(pattern: str, value: str | None) -> bool | None:
    """What SQLite's REGEXP does, which it leaves to whoever opens it."""
    return None if value is None else re.search(pattern, value) is not None
