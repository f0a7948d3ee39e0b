"""The technology compatibility kit of CESQL 1.0: 275 expressions with the values and errors they must have."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
import yaml

from palio import Event, Filter, ParseError
from palio.languages import cesql

ARCHIVE = Path("conformance") / "cesql_tck_275.tar.xz"
ANY_EVENT = {"specversion": "1.0", "id": "1", "source": "/tests", "type": "test"}


class Loader(yaml.SafeLoader):
    """YAML without its timestamps, which in the kit are texts."""

    yaml_implicit_resolvers: ClassVar = {
        first: [(tag, shape) for tag, shape in resolvers if tag != "tag:yaml.org,2002:timestamp"]
        for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


def read_cases(folder: Path) -> Iterator[dict[str, Any]]:
    with tarfile.open(folder / ARCHIVE) as archive:
        for member in archive:
            file = archive.extractfile(member) if member.name.endswith(".yaml") else None
            if file is not None:
                yield from yaml.load(file, Loader)["tests"]


@pytest.fixture(scope="module")
def cases(data_folder: Path) -> list[dict[str, Any]]:
    if not (data_folder / ARCHIVE).is_file():
        pytest.skip(f"the compatibility kit is not here: there is no {data_folder / ARCHIVE}")
    return list(read_cases(data_folder))


def event_of(case: dict[str, Any]) -> dict[str, Any]:
    return {**case.get("event", ANY_EVENT), **case.get("eventOverrides", {})}


def test_the_kit_is_whole(cases: list[dict[str, Any]]) -> None:
    assert len(cases) == 275


def test_every_expression_has_its_value_and_its_error(cases: list[dict[str, Any]]) -> None:
    wrong = []
    for case in cases:
        value, errors = cesql.evaluate(case["expression"], event_of(case))
        expected, kinds = case.get("result", value), [case[each] for each in ("error",) if each in case]
        if (type(value), value, errors) != (type(expected), expected, kinds):
            wrong.append((case, value, errors))
    assert wrong == []


def test_a_filter_matches_where_the_expression_is_true_and_nothing_failed(cases: list[dict[str, Any]]) -> None:
    wrong = []
    for case in cases:
        expression, event = str(case["expression"]), event_of(case)
        passes = case.get("result") is True and "error" not in case
        try:
            wanted = Filter.parse(expression, language="cesql")
        except ParseError:
            if case.get("error") not in ("parse", "missingFunction"):
                wrong.append(case)
            continue
        found = {wanted.matches(event), wanted.matches(Event.from_cloudevent(event))}
        if found != {passes} or Filter.parse(str(wanted)) != wanted:
            wrong.append(case)
    assert wrong == []
