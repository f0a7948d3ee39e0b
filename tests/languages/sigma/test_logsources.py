"""A rule's log source becomes conditions on channel and event id, by Palio's mapping or by one's own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from palio import Filter, InputError, ParseError
from tests.languages.sigma.rules import rule

SYSMON = "Microsoft-Windows-Sysmon/Operational"


def wanted(logsource: dict[str, str], selection: Any = None, mapping: Any = None) -> Filter:
    options = {} if mapping is None else {"logsources": mapping}
    return Filter.parse(rule(selection=selection or {"x": "a"}, logsource=logsource), language="sigma", **options)


@pytest.mark.parametrize(
    ("logsource", "event", "fires"),
    [
        ({"product": "windows", "service": "security"}, {"Channel": "security"}, True),
        ({"product": "windows", "service": "security"}, {"Channel": "System"}, False),
        ({"product": "windows", "service": "security"}, {}, False),
        ({"product": "windows", "category": "process_creation"}, {"Channel": SYSMON, "EventID": 1}, True),
        ({"product": "windows", "category": "process_creation"}, {"Channel": SYSMON, "EventID": "1"}, True),
        ({"product": "windows", "category": "process_creation"}, {"Channel": SYSMON, "EventID": 4688}, False),
        ({"product": "windows", "category": "process_creation"}, {"Channel": "Security", "EventID": 4688}, True),
        ({"product": "windows", "category": "registry_event"}, {"Channel": SYSMON, "EventID": 13}, True),
        ({"product": "windows", "category": "registry_add"}, {"Channel": SYSMON, "EventID": 12}, False),
        (
            {"product": "windows", "category": "registry_add"},
            {"Channel": SYSMON, "EventID": 12, "EventType": "CreateKey"},
            True,
        ),
        (
            {"product": "windows", "category": "ps_script"},
            {"Channel": "PowerShellCore/Operational", "EventID": 4104},
            True,
        ),
        ({"product": "windows"}, {}, True),
        ({"product": "linux", "category": "process_creation"}, {}, True),
        ({"product": "windows", "service": "never heard of"}, {}, True),
    ],
)
def test_where_windows_writes_what_rules_name(logsource: dict[str, str], event: dict[str, Any], fires: bool) -> None:
    assert wanted(logsource).matches({"x": "a", **event}) is fires
    assert (~wanted(logsource)).matches({"x": "a", **event}) is not fires


def test_new_processes_have_other_names_in_the_security_log() -> None:
    new = wanted({"product": "windows", "category": "process_creation"}, {"Image|endswith": "\\cmd.exe"})
    assert new.matches({"Channel": SYSMON, "EventID": 1, "Image": "C:\\cmd.exe"})
    assert new.matches({"Channel": "Security", "EventID": 4688, "NewProcessName": "C:\\cmd.exe"})
    assert not new.matches({"Channel": "Security", "EventID": 4688, "Image": "C:\\cmd.exe"})


def test_fields_of_defender_may_have_blanks() -> None:
    found = wanted({"product": "windows", "service": "windefend"}, {"ThreatName|contains": "eicar"})
    for name in ("Threat Name", "ThreatName"):
        assert found.matches({"Channel": "Microsoft-Windows-Windows Defender/Operational", name: "EICAR_Test"})


THOR = """
title: A mapping
logsources:
  new_process:
    category: process_creation
    product: windows
    conditions: {EventID: 1}
    rewrite: {product: windows, service: sysmon}
  new_process_too:
    category: process_creation
    product: windows
    conditions: {EventID: [4688, 4689]}
    rewrite: {product: windows, service: security}
    fieldmappings: {Image: NewProcessName}
  sysmon:
    product: windows
    service: sysmon
    sources: ["WinEventLog:Sysmon"]
  security:
    product: windows
    service: security
    sources: ["WinEventLog:Security", "WinEventLog:Security 2"]
  windows:
    product: windows
    conditions: {os|startswith: win}
  apache:
    category: webserver
    sources: ["File:/var/log/apache/*.log"]
fieldmappings:
  CommandLine: process.command_line
  User: [user.name, user.id]
"""


@pytest.fixture
def thor(tmp_path: Path) -> Path:
    path = tmp_path / "mapping.yml"
    path.write_text(THOR)
    return path


@pytest.mark.parametrize(
    ("event", "fires"),
    [
        ({"os": "Windows", "Channel": "Sysmon", "EventID": 1, "Image": "a"}, True),
        ({"os": "Linux", "Channel": "Sysmon", "EventID": 1, "Image": "a"}, False),
        ({"os": "Windows", "Channel": "Security 2", "EventID": 4689, "NewProcessName": "a"}, True),
        ({"os": "Windows", "Channel": "Security", "EventID": 1, "NewProcessName": "a"}, False),
        ({"os": "Windows", "Channel": "Sysmon", "EventID": 1, "NewProcessName": "a"}, False),
    ],
)
def test_a_mapping_in_a_file_has_alternatives_rewriting_and_names(
    thor: Path, event: dict[str, Any], fires: bool
) -> None:
    logsource = {"product": "windows", "category": "process_creation"}
    assert wanted(logsource, {"Image": "a"}, thor).matches(event) is fires
    assert wanted(logsource, {"Image": "a"}, str(thor)).matches(event) is fires


def test_a_field_may_be_mapped_to_a_path_or_to_several(thor: Path) -> None:
    web = {"category": "webserver"}
    assert wanted(web, {"CommandLine": "a"}, thor).matches({"process": {"command_line": "A"}})
    either = wanted(web, {"User": "a"}, thor)
    assert either.matches({"user": {"name": "x", "id": "a"}})
    assert either.matches({"user": {"name": "a"}})
    assert (~either).matches({"user": {"name": "x"}})
    assert not (~either).matches({"user": {"name": "x", "id": "a"}})
    both = wanted(web, {"User|fieldref": "CommandLine"}, thor)
    assert both.matches({"user": {"id": "A"}, "process": {"command_line": "a"}})


def test_a_mapping_may_be_a_dict_a_list_or_nothing_at_all() -> None:
    entry = {"category": "c", "conditions": {"kind": "c"}}
    for mapping in ({"any name": entry}, {"logsources": [entry]}, {"logsources": {"any name": entry}}):
        found = wanted({"category": "c"}, mapping=mapping)
        assert found.matches({"x": "a", "kind": "C"})
        assert not found.matches({"x": "a"})
    assert wanted({"product": "windows", "service": "security"}, mapping={}).matches({"x": "a"})
    assert wanted({"category": "c"}, mapping={"fieldmappings": {"x": "y"}}).matches({"y": "a"})


def test_a_list_of_log_sources_says_which_there_are(tmp_path: Path) -> None:
    path = tmp_path / "logsource.json"
    kinds = {"common": [], "empty": [], "category": {"process_creation": ["Image"]}, "service": {"security": []}}
    none = {"common": [], "empty": [], "category": {"webserver": []}, "service": {"apache": []}}
    path.write_text(json.dumps({"title": "x", "legit": {"windows": kinds, "empty": none}, "addon": {}}))
    known = wanted({"product": "windows", "category": "process_creation"}, mapping=path)
    assert known.matches({"x": "a", "Channel": SYSMON, "EventID": 1})
    assert not known.matches({"x": "a"})
    assert wanted({"category": "webserver"}, mapping=path).matches({"x": "a"})
    assert wanted({"product": "windows"}, mapping=path).matches({"x": "a"})
    with pytest.raises(ParseError, match="category 'proces_creation' is not in the list"):
        wanted({"category": "proces_creation"}, mapping=path)


@pytest.mark.parametrize(
    ("mapping", "reason"),
    [
        ({"a": 5}, "is no mapping"),
        ({"logsources": "a"}, "a mapping or a list"),
        ({"a": {"conditions": {"x": 1}}}, "names no category, product or service"),
        ({"a": {"category": "c", "condition": {"x": 1}}}, "has 'condition'; known are"),
        ({"a": {"category": "c", "conditions": [1]}}, "are mappings"),
        ({"a": {"category": "c", "rewrite": "x"}}, "are mappings"),
        ({"a": {"category": "c", "fieldmappings": ["x"]}}, "`fieldmappings` is a mapping"),
        ({"a": {"category": "c", "fieldmappings": {"x": 5}}}, "a name or a list of names"),
        ({"legit": {"windows": 5}}, "is no mapping"),
    ],
)
def test_what_is_wrong_with_a_mapping_is_said(mapping: Any, reason: str) -> None:
    with pytest.raises(InputError, match=reason):
        wanted({"category": "c"}, mapping=mapping)


@pytest.mark.parametrize("text", ["a: [", "- 1\n- 2\n", "a: 1\n---\nb: 2\n"])
def test_a_file_that_is_no_mapping_is_refused_by_name(tmp_path: Path, text: str) -> None:
    path = tmp_path / "mapping.yml"
    path.write_text(text)
    with pytest.raises(InputError, match=r"mapping\.yml"):
        wanted({"category": "c"}, mapping=path)
    with pytest.raises(InputError, match="cannot be read"):
        wanted({"category": "c"}, mapping=tmp_path / "nothing.yml")


def test_a_mapping_that_goes_round_in_a_circle_is_refused() -> None:
    mapping = {"a": {"category": "c", "rewrite": {"category": "c"}}}
    with pytest.raises(ParseError, match="goes round in a circle"):
        wanted({"category": "c"}, mapping=mapping)


def test_a_condition_of_a_mapping_that_cannot_be_asked_is_refused() -> None:
    with pytest.raises(ParseError, match="there is no modifier"):
        wanted({"category": "c"}, mapping={"a": {"category": "c", "conditions": {"x|like": "a"}}})
