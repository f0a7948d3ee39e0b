"""The command as a whole: help, version, errors and exit codes."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from palio import __version__
from palio.cli import main

COMMANDS = ["match", "check", "explain", "demo"]


def test_help_names_every_command_and_every_exit_code() -> None:
    answer = CliRunner().invoke(main.palio, ["--help"])
    assert answer.exit_code == 0
    for word in [*COMMANDS, "0 ", "1 ", "2 ", "130", "141"]:
        assert word in answer.stdout


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_of_a_command_teaches_by_examples(command: str) -> None:
    answer = CliRunner().invoke(main.palio, [command, "--help"])
    assert answer.exit_code == 0
    assert "Examples:" in answer.stdout
    assert len(re.findall(rf"^    .*palio {command}", answer.stdout, re.MULTILINE)) >= 3


@pytest.mark.parametrize("command", COMMANDS)
def test_the_help_fits_eighty_columns(command: str) -> None:
    answer = CliRunner().invoke(main.palio, [command, "--help"], terminal_width=80)
    too_long = [line for line in answer.stdout.splitlines() if len(line) > 80]
    assert all(line.startswith("    palio explain") for line in too_long)


def test_version_is_the_package_version() -> None:
    assert __version__ in CliRunner().invoke(main.palio, ["--version"]).stdout


def test_help_loads_nothing_heavy() -> None:
    code = (
        "import sys\nfrom click.testing import CliRunner\nfrom palio.cli.main import palio\n"
        "CliRunner().invoke(palio, ['--help'])\n"
        "print(*sorted(sys.modules.keys() & {'numpy', 'numba', 'pyarrow', 'rich'}))"
    )
    assert subprocess.check_output([sys.executable, "-c", code], text=True).strip() == ""


def test_a_mistyped_command_is_answered_with_the_one_that_was_meant() -> None:
    answer = CliRunner().invoke(main.palio, ["mtach"])
    assert answer.exit_code == 2
    assert "Did you mean 'match'?" in answer.stderr


def test_a_command_like_none_is_only_refused() -> None:
    answer = CliRunner().invoke(main.palio, ["zzz"])
    assert answer.exit_code == 2
    assert "No such command 'zzz'" in answer.stderr
    assert "mean" not in answer.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["explain", "x = = 1", "{}"], "= stands where a value should\n    x = = 1\n        ^"),
        (["explain", "x = 1", "{}", "--language", "klingon"], "no condition language 'klingon'"),
        (["explain", "@nowhere.sql", "{}"], "nowhere.sql: "),
        (["match", "wants.jsonl", "nowhere.jsonl"], "nowhere.jsonl: there is no such file"),
        (["check", "nowhere.jsonl"], "nowhere.jsonl: there is no such file"),
    ],
)
def test_what_cannot_be_read_is_one_message_without_a_traceback(
    arguments: list[str], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    answer = CliRunner().invoke(main.palio, arguments)
    assert answer.exit_code == 2
    assert answer.stdout == ""
    assert answer.stderr.startswith("error: ")
    assert said in answer.stderr
    assert "Traceback" not in answer.stderr


def test_ctrl_c_outside_of_a_command_that_has_something_to_show(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupted(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("palio.filters.filter.Filter.parse", interrupted)
    answer = CliRunner().invoke(main.palio, ["explain", "x = 1", "{}"])
    assert answer.exit_code == 130
    assert answer.stderr == "interrupted\n"


def test_a_system_error_names_the_file(monkeypatch: pytest.MonkeyPatch) -> None:
    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "matches.csv")

    monkeypatch.setattr("palio.filters.filter.Filter.parse", full)
    answer = CliRunner().invoke(main.palio, ["explain", "x = 1", "{}"])
    assert answer.exit_code == 2
    assert answer.stderr == "error: matches.csv: No space left on device\n"
    told = CliRunner().invoke(main.palio, ["explain", "x = 1", "{}", "--json"])
    assert told.exit_code == 2
    assert json.loads(told.stderr) == {"error": "matches.csv: No space left on device", "kind": "OSError"}


def test_a_terminal_without_our_letters_gets_other_ones() -> None:
    environment = dict(os.environ, PYTHONIOENCODING="latin-1", PYTHONUTF8="0")
    command = [sys.executable, "-m", "palio", "explain", "`naïve` = 'é→'", '{"naïve": "é→"}']
    shown = subprocess.run(command, env=environment, capture_output=True, check=False)
    assert shown.returncode == 0
    assert "naïve".encode("latin-1") in shown.stdout
    machine = subprocess.run([*command, "--json"], env=environment, capture_output=True, check=False)
    assert machine.stdout.isascii()
    assert rb"\u2192" in machine.stdout


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_reader_that_is_gone_is_no_error_to_speak_of(options: list[str]) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    try:
        ended = subprocess.run(
            [sys.executable, "-m", "palio", "explain", "x = 1", '{"x": 1}', *options],
            stdout=writing,
            stderr=subprocess.PIPE,
            check=False,
            env={name: value for name, value in os.environ.items() if name != "PYTHONUNBUFFERED"},
        )
    finally:
        os.close(writing)
    assert ended.returncode == 141
    assert ended.stderr == b""
