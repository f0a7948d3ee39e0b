"""Sigma rules on real events against SQLite and DuckDB with the SQL of pySigma.

Differences that are none of these tests' business, because the events do not show them: SQLite ignores the case of
ASCII letters only; a keyword with a wildcard is found by SQL across two values of an event.
"""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

from palio import Matcher
from palio.languages.sigma.logsources import LogSources
from palio.languages.sigma.rule_files import RuleFile, SigmaRule, rules_in
from palio.matching.subscription import Subscription

Pairs = set[tuple[int, str]]


class _Sample:
    """Events in the forms that the engines want."""

    def __init__(self, events: list[dict[str, Any]]) -> None:
        from harness.sigma_data import Events

        self.events = Events.of_rows(events)

    def palio(self, rules: list[SigmaRule]) -> Pairs:
        wants = Matcher()
        wants.add_subscriptions([Subscription(rule.id, rule.filter) for rule in rules])
        found = wants.match_batch(self.events.table)
        assert len(found) == len(_pairs(found))
        return _pairs(found)

    def sql(self, rules: list[SigmaRule], texts: dict[str, str], engine: str) -> Pairs:
        from harness import sigma_sql

        names = sorted({name for rule in rules for name in rule.filter.attributes})
        places, table = self.events.texts(names, sigma_sql.EVERYTHING)
        dialect = sigma_sql.ForDuckDB if engine == "duckdb" else sigma_sql.ForSQLite
        ask = _duckdb(table) if engine == "duckdb" else _sqlite(table, sigma_sql.regexp)
        pairs: Pairs = set()
        for rule in rules:
            logsource = rule.metadata["logsource"]
            condition = sigma_sql.where(texts[rule.id], logsource, places, dialect)
            pairs.update((row, rule.id) for (row,) in ask(condition))
        return pairs


def _pairs(found: pa.Table) -> Pairs:
    return set(zip(found["row"].to_pylist(), found["subscription"].to_pylist(), strict=True))


def _duckdb(table: pa.Table) -> Any:
    connection = duckdb.connect()
    connection.register("arrow", table)
    connection.execute("CREATE TABLE logs AS SELECT * FROM arrow")
    return lambda condition: connection.execute(f"SELECT rowid FROM logs WHERE {condition}").fetchall()


def _sqlite(table: pa.Table, regexp: Any) -> Any:
    connection = sqlite3.connect(":memory:")
    connection.create_function("REGEXP", 2, regexp, deterministic=True)
    connection.execute(f"CREATE TABLE logs ({', '.join(f'{name} TEXT COLLATE NOCASE' for name in table.column_names)})")
    marks = ", ".join("?" * table.num_columns)
    connection.executemany(f"INSERT INTO logs VALUES ({marks})", zip(*table.to_pydict().values(), strict=True))
    return lambda condition: connection.execute(f"SELECT rowid - 1 FROM logs WHERE {condition}").fetchall()


def windows_rules(files: list[RuleFile]) -> tuple[list[SigmaRule], dict[str, str]]:
    rules: list[SigmaRule] = []
    texts: dict[str, str] = {}
    for file in files:
        if "product: windows" in file.text:
            for found in rules_in(file, LogSources.read(None)):
                if isinstance(found, SigmaRule):
                    rules.append(found)
                    texts[found.id] = file.text
    return rules, texts


@pytest.mark.parametrize("engine", ["sqlite", "duckdb"])
def test_rules_find_what_their_sql_finds(
    active_rules: list[RuleFile], first_events: list[dict[str, Any]], engine: str
) -> None:
    rules, texts = windows_rules(active_rules[::17])
    sample = _Sample(first_events[::2])
    assert sample.palio(rules) == sample.sql(rules, texts, engine)


@pytest.mark.deep
def test_all_rules_find_in_many_events_what_their_sql_finds(active_rules: list[RuleFile], data_folder: Path) -> None:
    from harness.sigma_data import Events

    rules, texts = windows_rules(active_rules)
    sample = _Sample(Events(data_folder, 30_000).rows)
    found = sample.palio(rules)
    assert len(found) > 100
    assert found == sample.sql(rules, texts, "duckdb")
