"""SigmaHQ's rules: every active one becomes a filter or is refused with a reason, and fires where it is known to."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path
from typing import Any

import pytest
import yaml

from palio import Filter, Matcher
from palio.languages.sigma import flatten_windows_event, parse
from palio.languages.sigma.logsources import LogSources
from palio.languages.sigma.rule_files import RefusedRule, RuleFile, SigmaRule, rules_in

_STEP = 29  # of all rules, one in so many is looked at in every run


def read(files: list[RuleFile]) -> tuple[list[SigmaRule], list[RefusedRule]]:
    found = [each for file in files for each in rules_in(file, LogSources.read(None))]
    return (
        [each for each in found if isinstance(each, SigmaRule)],
        [each for each in found if isinstance(each, RefusedRule)],
    )


def test_some_rules_become_filters_that_are_written_as_sql(active_rules: list[RuleFile]) -> None:
    assert len(active_rules) == 3_757
    rules, refused = read(active_rules[::_STEP])
    assert not refused
    for rule in rules:
        assert Filter.parse(str(rule.filter)) == rule.filter


@pytest.mark.deep
def test_all_rules_become_filters_or_are_refused_with_a_reason(active_rules: list[RuleFile]) -> None:
    rules, refused = read(active_rules)
    assert len(rules) + len(refused) == 3_757
    assert len(rules) >= 0.999 * 3_757
    assert all("placeholder" in each.reason for each in refused)
    assert len({rule.id for rule in rules}) == len(rules)
    for rule in rules:
        assert Filter.parse(str(rule.filter)) == rule.filter


@pytest.mark.deep
def test_no_other_rule_of_the_collection_breaks_anything(collection: Path) -> None:
    from palio.languages.sigma import read_rules

    found = read_rules(collection)
    assert len(found) + len(found.refused) > 4_000
    assert {each.path for each in found.refused} >= {"tests/thor.yml"}


def test_every_rule_fires_for_the_events_it_is_published_with(
    active_rules: list[RuleFile], regressions: list[dict[str, Any]]
) -> None:
    wanted = {each["rule_id"] for each in regressions}
    texts = {}
    for file in active_rules:
        id = next((line[4:].strip() for line in file.text.splitlines() if line.startswith("id: ")), "")
        if id in wanted:
            texts[id] = file.text
    assert len(regressions) == 202
    silent = [
        each["title"]
        for each in regressions
        if sum(parse(texts[each["rule_id"]]).matches(flatten_windows_event(event)) for event in each["events"])
        < each["min_matches"]
    ]
    assert not silent


@pytest.fixture(scope="module")
def mappings(collection: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder with SigmaHQ's own mapping and list of log sources."""
    folder = tmp_path_factory.mktemp("mappings")
    with tarfile.open(collection) as archive:
        for name in ("thor.yml", "logsource.json"):
            stream = archive.extractfile(f"tests/{name}")
            assert stream is not None
            (folder / name).write_bytes(stream.read())
    return folder


def test_the_mapping_published_with_the_rules_can_be_used(active_rules: list[RuleFile], mappings: Path) -> None:
    thor = LogSources.read(mappings / "thor.yml")
    for file in active_rules[::_STEP]:
        (rule,) = rules_in(file, thor)
        assert isinstance(rule, SigmaRule)
    (places, others) = thor.mappings({"category": "process_creation", "product": "windows"})
    assert places.conditions == ({"EventID": 1}, {"Channel": ["Microsoft-Windows-Sysmon/Operational"]})
    assert others.names == {"Image": ("NewProcessName",), "ParentImage": ("ParentProcessName",)}


def test_every_log_source_of_a_rule_is_in_the_list_published_with_them(
    active_rules: list[RuleFile], mappings: Path
) -> None:
    listed = LogSources.read(mappings / "logsource.json")
    for file in active_rules[:: _STEP // 4]:
        logsource = yaml.load(file.text, Loader=yaml.CSafeLoader)["logsource"]
        assert listed.mappings(logsource)
    assert json.loads((mappings / "logsource.json").read_text())["legit"]


def test_the_index_answers_for_real_events_as_the_filters_do(
    active_rules: list[RuleFile], first_events: list[dict[str, Any]]
) -> None:
    rules, _ = read([file for file in active_rules[::11] if "product: windows" in file.text])
    wants = Matcher()
    for rule in rules:
        wants.add(rule.id, rule.filter, metadata=rule.metadata)
    wants.merge()
    events = first_events[::8]
    found = wants.match_batch(events)
    pairs = set(zip(found["row"].to_pylist(), found["subscription"].to_pylist(), strict=True))
    assert pairs == {(row, rule.id) for row, event in enumerate(events) for rule in rules if rule.filter.matches(event)}
