"""`palio doctor`: findings about the installation, each with its remedy."""

from __future__ import annotations

import json
import sys
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from palio.cli import doctor
from palio.cli.main import palio


def findings(*arguments: str) -> tuple[int, dict[str, dict[str, Any]]]:
    answer = CliRunner().invoke(palio, ["doctor", "--json", *arguments])
    return answer.exit_code, {each["what"]: each for each in map(json.loads, answer.stdout.splitlines())}


@pytest.fixture(autouse=True)
def settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("PYSPARK_PYTHON", "SPARK_HOME"):
        monkeypatch.delenv(name, raising=False)


def test_a_machine_on_which_the_tests_run_is_fine() -> None:
    code, found = findings()
    assert code == 0, found
    assert {each["state"] for each in found.values()} <= {"fine", "absent"}
    assert {"Python", "Palio", "matching", "Spark", "Java", "Delta tables", "NATS JetStream"} <= set(found)
    assert sys.version.split()[0] in found["Python"]["seen"]


def test_the_table_says_the_same() -> None:
    answer = CliRunner().invoke(palio, ["doctor"])
    assert answer.exit_code == 0
    assert "✓   matching" in answer.stdout


@pytest.mark.parametrize(
    ("versions", "what", "remedy"),
    [
        ({"pyspark": "3.5.1"}, "Spark", "pyspark>=4.1,<5"),
        ({"pandas": "3.0.0"}, "pandas", "pandas>=2.2,<3"),
        ({"pandas": None}, "pandas", "pandas>=2.2,<3"),
    ],
)
def test_a_version_that_does_not_work_is_broken(
    monkeypatch: pytest.MonkeyPatch, versions: dict[str, str | None], what: str, remedy: str
) -> None:
    # Private: the versions of installed packages cannot be changed otherwise.
    real = doctor._version_of
    monkeypatch.setattr(doctor, "_version_of", lambda name: versions[name] if name in versions else real(name))
    code, found = findings()
    assert code == 1
    assert found[what]["state"] == "broken"
    assert remedy in found[what]["remedy"]


def test_what_is_not_installed_is_absent_and_not_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor, "_version_of", lambda name: None)
    code, found = findings()
    assert code == 0
    assert found["Spark"]["state"] == "absent"
    assert "palio[spark]" in found["Spark"]["remedy"]
    assert found["Sigma rules"]["state"] == "absent"


def test_another_spark_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPARK_HOME", "/nowhere/another")
    code, found = findings()
    assert code == 1
    assert "unset it" in found["SPARK_HOME"]["remedy"]


@pytest.mark.parametrize(
    ("script", "state", "seen"),
    [
        (None, "fine", "not on this machine"),
        ("exit 1", "broken", "cannot import palio"),
        ("echo 0.0.1", "broken", "has palio 0.0.1"),
        (f"echo {version('palio')}", "fine", "python"),
    ],
    ids=["of-a-cluster", "without-palio", "other-version", "with-palio"],
)
def test_the_python_of_the_workers(
    script: str | None, state: str, seen: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python"
    if script is not None:
        python.write_text(f"#!/bin/sh\n{script}\n")
        python.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(python))
    code, found = findings()
    assert code == (state == "broken")
    finding = found["PYSPARK_PYTHON"]
    assert finding["state"] == state
    assert seen in finding["seen"]
    assert (sys.executable in finding["remedy"]) == (script == "exit 1")


def test_no_java_is_told_with_every_place_that_was_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    from palio.spark import java

    def nowhere() -> java.JavaHome:
        raise java.JavaNotFound(["JAVA_HOME: not set", "PATH: no java"])

    monkeypatch.setattr(java, "find_java", nowhere)
    code, found = findings()
    assert code == 1
    assert "PATH: no java" in found["Java"]["remedy"]


def test_an_engine_that_fails_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    from palio.matching.matcher import Matcher

    def fail(*_: Any) -> None:
        raise RuntimeError("no kernels today")

    monkeypatch.setattr(Matcher, "match", fail)
    code, found = findings()
    assert code == 1
    assert "no kernels today" in found["matching"]["seen"]
