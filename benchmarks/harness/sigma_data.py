"""Real rules and real events: SigmaHQ's rules for Windows, and recorded attacks from OTRF's Security-Datasets."""

from __future__ import annotations

import lzma
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import yaml

from palio.garbage_collector import paused_collector
from palio.languages.sigma.logsources import LogSources
from palio.languages.sigma.rule_files import RefusedRule, SigmaRule, rule_files, rules_in

RULES = "subscriptions/sigma_rules.tar.xz"
EVENTS = "events/otrf_windows_956701.jsonl.xz"
EVENT_COUNT = 956_701
FOLDERS = ("rules", "rules-emerging-threats", "rules-threat-hunting", "rules-compliance")
"""The folders of active rules; the others hold deprecated and unsupported ones, and ones with placeholders."""


@dataclass(frozen=True)
class Rule:
    """A rule as a filter, and as the YAML it was written in."""

    read: SigmaRule
    text: str

    @property
    def id(self) -> str:
        return self.read.id

    @cached_property
    def logsource(self) -> Mapping[str, Any]:
        found: Mapping[str, Any] = yaml.load(self.text, Loader=yaml.CSafeLoader)["logsource"]
        return found


def read_rules(folder: Path, product: str | None = "windows") -> tuple[list[Rule], list[RefusedRule]]:
    """The active rules of a product, or of all, and those that are no filters."""
    rules: list[Rule] = []
    refused: list[RefusedRule] = []
    mapping = LogSources.read(None)
    with paused_collector():  # as Palio's own reader of rules
        for file in rule_files(folder / RULES, folders=FOLDERS):
            if product is not None and f"product: {product}" not in file.text:
                continue
            for found in rules_in(file, mapping):
                if isinstance(found, SigmaRule):
                    rules.append(Rule(found, file.text))
                else:
                    refused.append(found)
    return rules, refused


class Events:
    """Events spread evenly over the file, as lines of JSON, as columns, and as columns of texts for SQL."""

    def __init__(self, folder: Path, count: int) -> None:
        self.lines = list(_spread(folder / EVENTS, count))

    @classmethod
    def of_rows(cls, rows: list[dict[str, Any]]) -> Events:
        """Events that were read already."""
        events = cls.__new__(cls)
        events.lines = [msgspec.json.encode(row) for row in rows]
        return events

    def __len__(self) -> int:
        return len(self.lines)

    @cached_property
    def rows(self) -> list[dict[str, Any]]:
        decode = msgspec.json.Decoder().decode
        return [decode(line) for line in self.lines]

    @cached_property
    def table(self) -> pa.Table:
        """One column for every attribute; one whose values are of several kinds is a column of their texts."""
        columns: dict[str, pa.Array] = {}
        for name, kinds in self._kinds.items():
            values = [row.get(name) for row in self.rows]
            if kinds == {int}:
                columns[name] = pa.array(values, pa.int64())
            elif kinds == {bool}:
                columns[name] = pa.array(values, pa.bool_())
            elif kinds and list not in kinds:
                columns[name] = pa.array([None if each is None else _text(each) for each in values], pa.string())
        return pa.table(columns)

    @cached_property
    def _kinds(self) -> dict[str, set[type]]:
        kinds: dict[str, set[type]] = {}
        for row in self.rows:
            for name, value in row.items():
                kinds.setdefault(name, set()).update([type(value)] if value is not None else [])
        return kinds

    def texts(self, names: Sequence[str], everything: str) -> tuple[dict[str, int], pa.Table]:
        """Numbered columns of texts, those of some names that events have, with all values of an event in one more."""
        known = set(self.table.column_names)
        places = {name: number for number, name in enumerate(name for name in names if name in known)}
        columns = {f"c{number}": self.table[name].cast(pa.string()) for name, number in places.items()}
        joined = ["\x1f".join(_all_texts(row)) for row in self.rows]
        places[everything] = len(places)
        return places, pa.table({**columns, f"c{places[everything]}": pa.array(joined, pa.string())})


def _text(value: Any) -> str:
    return {True: "true", False: "false"}[value] if isinstance(value, bool) else str(value)


def _all_texts(row: Mapping[str, Any]) -> Iterator[str]:
    for value in row.values():
        for each in value if isinstance(value, list) else (value,):
            if each is not None:
                yield _text(each)


def _spread(path: Path, count: int) -> Iterator[bytes]:
    with lzma.open(path) as file:
        for number, line in enumerate(file):
            if number * count // EVENT_COUNT != (number - 1) * count // EVENT_COUNT or count >= EVENT_COUNT:
                yield line
