"""Rules from files, folders and archives: all that can be filters, and why the others cannot."""

from __future__ import annotations

import io
import tarfile
import zipfile
from pathlib import Path

import pytest

from palio import InputError, Matcher
from palio.languages.sigma import read_rules
from palio.matching.subscription import Subscription

GOOD = """
title: Whoami
id: 0e1a4d4b-0000-4000-8000-000000000001
status: test
level: medium
tags: [attack.discovery, attack.t1033]
logsource: {product: windows, category: process_creation}
detection:
  selection: {Image|endswith: '\\whoami.exe'}
  condition: selection
"""
OTHER = GOOD.replace("0001", "0002").replace("whoami", "net").replace("title: Whoami", "title: Net")
NAMELESS = "detection: {a: {x: 1}, condition: a}\n"
BAD = GOOD.replace("0001", "0003").replace("condition: selection", "condition: selection | count() > 5")
FILES = {
    "rules/a/whoami.yml": GOOD,
    "rules/net.yaml": OTHER,
    "rules/nameless.yml": NAMELESS,
    "rules/several.yml": NAMELESS + "---\n" + NAMELESS.replace("x", "y"),
    "deprecated/count.yml": BAD,
    "rules/.hidden/never.yml": "[",
    "rules/README.md": "no rule",
}


def as_folder(path: Path) -> Path:
    for name, text in FILES.items():
        (path / name).parent.mkdir(parents=True, exist_ok=True)
        (path / name).write_text(text)
    return path


def as_tar(path: Path) -> Path:
    with tarfile.open(path / "rules.tar.xz", "w:xz") as archive:
        for name, text in FILES.items():
            member = tarfile.TarInfo(f"./{name}")
            member.size = len(text.encode())
            archive.addfile(member, io.BytesIO(text.encode()))
    return path / "rules.tar.xz"


def as_zip(path: Path) -> Path:
    with zipfile.ZipFile(path / "rules.zip", "w") as archive:
        for name, text in FILES.items():
            archive.writestr(name, text)
    return path / "rules.zip"


@pytest.mark.parametrize("make", [as_folder, as_tar, as_zip])
def test_a_collection_is_read_from_a_folder_or_an_archive(make: object, tmp_path: Path) -> None:
    found = read_rules(make(tmp_path))  # type: ignore[operator]
    assert [rule.id for rule in found] == [
        "0e1a4d4b-0000-4000-8000-000000000001",
        "rules/nameless.yml",
        "0e1a4d4b-0000-4000-8000-000000000002",
        "rules/several.yml#1",
        "rules/several.yml#2",
    ]
    assert len(found) == 5
    (refused,) = found.refused
    assert (refused.path, refused.title) == ("deprecated/count.yml", "Whoami")
    assert refused.id == "0e1a4d4b-0000-4000-8000-000000000003"
    assert "an aggregation counts events over time" in refused.reason
    assert not read_rules(tmp_path, folders=["rules"]).refused


def test_a_rule_brings_what_a_subscription_needs(tmp_path: Path) -> None:
    path = tmp_path / "whoami.yml"
    path.write_text(GOOD)
    (rule,) = read_rules(path)
    assert (rule.title, rule.level, rule.path) == ("Whoami", "medium", "whoami.yml")
    assert rule.metadata == {
        "title": "Whoami",
        "level": "medium",
        "status": "test",
        "tags": ["attack.discovery", "attack.t1033"],
        "logsource": {"category": "process_creation", "product": "windows"},
    }
    wants = Matcher()
    wants.add_subscriptions([Subscription(rule.id, rule.filter, metadata=rule.metadata)])
    wants.save(tmp_path / "wants.palio")
    opened = Matcher.open(tmp_path / "wants.palio")
    event = {"Channel": "Security", "EventID": 4688, "NewProcessName": "C:\\WHOAMI.exe"}
    assert opened.match(event) == {rule.id}
    assert opened[rule.id].metadata["title"] == "Whoami"
    assert opened[rule.id].filter == rule.filter


def test_a_rule_that_says_nothing_of_itself_has_no_level(tmp_path: Path) -> None:
    path = tmp_path / "nameless.yml"
    path.write_text(NAMELESS)
    (rule,) = read_rules(path)
    assert (rule.id, rule.title, rule.level, rule.metadata) == ("nameless.yml", "", None, {})


def test_an_own_mapping_is_used(tmp_path: Path) -> None:
    path = tmp_path / "whoami.yml"
    path.write_text(GOOD)
    (rule,) = read_rules(path, logsources={})
    assert rule.filter.matches({"Image": "C:\\whoami.exe"})


@pytest.mark.parametrize("text", ["a: [", "- a", "", "a: 1"])
def test_a_file_that_holds_no_rule_is_among_the_refused(tmp_path: Path, text: str) -> None:
    path = tmp_path / "rule.yml"
    path.write_text(text)
    found = read_rules(path)
    assert not found.rules
    assert all(refused.reason for refused in found.refused)


def test_what_cannot_be_read_at_all_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="cannot be read"):
        read_rules(tmp_path / "nothing.tar.xz")
    (tmp_path / "text.tar").write_text("this is no archive")
    with pytest.raises(InputError, match="cannot be read"):
        read_rules(tmp_path / "text.tar")
    (tmp_path / "latin.yml").write_bytes(b"title: \xe9")
    with pytest.raises(InputError, match="invalid UTF-8"):
        read_rules(tmp_path / "latin.yml")
    (tmp_path / "latin.yml").write_bytes(b"#" * 4_000_001)
    with pytest.raises(InputError, match="more than"):
        read_rules(tmp_path / "latin.yml")
