"""`palio spark subscribe`: files into a log, changes, removals; needs no Spark."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from palio.cli.main import palio
from palio.spark import SubscriptionLog

WANTS: list[dict[str, Any]] = [
    {"id": "desk", "where": "price > 100", "subscriber": "ops"},
    {"id": "cheap", "where": "price < 50", "team": "value"},
    {"id": "typo", "where": "price >"},
]


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    write("wants.jsonl", WANTS)


def write(name: str, subscriptions: list[dict[str, Any]]) -> None:
    Path(name).write_text("".join(json.dumps(each) + "\n" for each in subscriptions))


def subscribe(*arguments: str) -> Result:
    return CliRunner().invoke(palio, ["spark", "subscribe", "log", *arguments])


def told(*arguments: str) -> dict[str, Any]:
    answer = subscribe(*arguments, "--json")
    assert answer.exit_code == 0, answer.stderr
    found: dict[str, Any] = json.loads(answer.stdout)
    return found


def counts(given: dict[str, Any]) -> tuple[int, int, int, int, int]:
    return tuple(given[name] for name in ("version", "added", "changed", "removed", "unchanged"))  # type: ignore[return-value]


def test_a_file_becomes_a_version_and_the_second_time_there_is_nothing_to_do() -> None:
    first = told("wants.jsonl")
    assert counts(first) == (1, 2, 0, 0, 0)
    assert first["left_out"] == 1
    assert counts(told("wants.jsonl")) == (1, 0, 0, 0, 2)
    log = SubscriptionLog("log")
    assert log.at()["desk"].subscriber == "ops"
    assert log.at()["cheap"].metadata == {"team": "value"}


def test_what_differs_is_changed_and_the_rest_stays() -> None:
    subscribe("wants.jsonl")
    write("wants.jsonl", [{"id": "desk", "where": "price > 120", "subscriber": "ops"}, {"id": "new", "where": "a = 1"}])
    assert counts(told("wants.jsonl")) == (2, 1, 1, 0, 0)
    assert {each.id: each.where for each in SubscriptionLog("log").at()} == {
        "desk": "price > 120",
        "cheap": "price < 50",
        "new": "a = 1",
    }
    assert counts(told("wants.jsonl", "--exact")) == (3, 0, 0, 1, 2)
    assert {each.id for each in SubscriptionLog("log").at()} == {"desk", "new"}


def test_one_by_its_id() -> None:
    answer = subscribe("--id", "acme", "--where", "symbol = 'ACME'", "--subscriber", "ada")
    assert answer.exit_code == 0
    assert "1 added" in answer.stdout
    assert counts(told("--id", "acme", "--where", "symbol = 'INIT'", "--subscriber", "ada")) == (2, 0, 1, 0, 0)
    assert counts(told("--remove", "acme")) == (3, 0, 0, 1, 0)
    assert len(SubscriptionLog("log").at()) == 0


def test_what_is_listed_can_be_given_back() -> None:
    write("all.jsonl", [*WANTS[:2], {"id": "z", "where": "t > '2024-01-01'", "timezone": "Europe/Oslo"},
                        {"id": "sns", "where": {"price": [{"numeric": [">", 5]}]}, "language": "sns"}])  # fmt: skip
    subscribe("all.jsonl")
    listed = subscribe("--list").stdout
    Path("listed.jsonl").write_text(listed)
    assert len(listed.splitlines()) == 4
    assert counts(told("listed.jsonl", "--exact")) == (1, 0, 0, 0, 4)


def test_strict_writes_nothing() -> None:
    answer = subscribe("wants.jsonl", "--strict")
    assert answer.exit_code == 1
    assert "typo" in answer.stderr
    assert not SubscriptionLog("log").exists()


def test_versions_are_forgotten_when_asked_to(monkeypatch: pytest.MonkeyPatch) -> None:
    subscribe("wants.jsonl")
    subscribe("--remove", "cheap", "--compact")
    assert list(Path("log/snapshots").iterdir())
    assert [each.id for each in SubscriptionLog("log").at()] == ["desk"]


def test_a_log_that_is_not_there_is_not_made_by_looking() -> None:
    answer = subscribe()
    assert "There is no subscription log" in answer.stdout
    assert not Path("log").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--id", "a"], "--id and --where go together"),
        (["--exact"], "--exact needs a FILE"),
        (["--remove", "nobody"], "there is none with this id"),
        (["nowhere.jsonl"], "nowhere.jsonl"),
        (["--list"], "there is no subscription log at"),
        (["--id", "a", "--where", "x = 1", "--language", "latin"], "no condition language 'latin'"),
        (["--id", "a", "--where", "price >"], "where a value should stand"),
    ],
)
def test_what_makes_no_sense_is_refused(arguments: list[str], said: str) -> None:
    answer = subscribe(*arguments)
    assert answer.exit_code == 2
    assert said in answer.stderr
    assert not SubscriptionLog("log").exists()


def test_to_add_and_to_remove_one_is_refused() -> None:
    subscribe("wants.jsonl")
    answer = subscribe("wants.jsonl", "--remove", "desk")
    assert answer.exit_code == 2
    assert "to be added and to be removed" in answer.stderr
    assert SubscriptionLog("log").version == 1


def test_of_many_who_write_at_once_none_is_lost() -> None:
    """Each has some that others have too: whoever comes second finds that there is nothing left to do for these."""
    for name in "abc":
        shared = [{"id": f"shared{number}", "where": f"x = {number}"} for number in range(5)]
        write(f"{name}.jsonl", [*shared, *({"id": f"{name}{number}", "where": "x = 1"} for number in range(5))])
    program = [sys.executable, "-m", "palio", "spark", "subscribe", "log"]
    running = [subprocess.Popen([*program, f"{name}.jsonl"], stdout=subprocess.DEVNULL) for name in "abc"]
    assert [each.wait() for each in running] == [0, 0, 0]
    assert len(SubscriptionLog("log").at()) == 20


def test_a_writer_that_was_overtaken_looks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Another adds the same between the look at the log and the commit."""
    commit, overtaken = SubscriptionLog.commit, threading.Event()

    def slow(self: SubscriptionLog) -> int:
        if not overtaken.is_set():
            overtaken.set()
            other = SubscriptionLog(self.path)
            other.add("desk", "price > 1")
            commit(other)
        return commit(self)

    monkeypatch.setattr(SubscriptionLog, "commit", slow)
    assert counts(told("wants.jsonl")) == (2, 1, 1, 0, 0)
    assert SubscriptionLog("log").at()["desk"].where == "price > 100"
