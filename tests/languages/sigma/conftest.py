"""Real rules and events, read once for all tests that want them."""

from __future__ import annotations

import json
import lzma
import sys
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import sigma.collection  # noqa: F401 - before there is a benchmark of the same name

from palio.languages.sigma.rule_files import RuleFile, rule_files

sys.path.insert(0, str(Path(__file__).parents[3] / "benchmarks"))

ACTIVE = ("rules", "rules-emerging-threats", "rules-threat-hunting", "rules-compliance")


@pytest.fixture(scope="session")
def collection(data_folder: Path) -> Path:
    """The archive of all rules."""
    return data_folder / "subscriptions" / "sigma_rules.tar.xz"


@pytest.fixture(scope="session")
def active_rules(collection: Path) -> list[RuleFile]:
    """The files of all rules that are neither deprecated nor unsupported."""
    return list(rule_files(collection, folders=ACTIVE))


@pytest.fixture(scope="session")
def regressions(data_folder: Path) -> list[dict[str, Any]]:
    """Rules, by their ids, with events for which they are known to fire."""
    with lzma.open(data_folder / "subscriptions" / "sigma_regression_pairs.jsonl.xz", "rt") as file:
        return [json.loads(line) for line in file]


@pytest.fixture(scope="session")
def first_events(data_folder: Path) -> list[dict[str, Any]]:
    """Some of the first events of the recorded attacks: every thirteenth, so that they are of many kinds."""
    with lzma.open(data_folder / "events" / "otrf_windows_956701.jsonl.xz") as file:
        return list(_decoded(islice(file, 0, 26_000, 13)))


def _decoded(lines: Iterator[bytes]) -> Iterator[dict[str, Any]]:
    return (json.loads(line) for line in lines)
