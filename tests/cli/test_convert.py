"""`palio convert`: subscriptions rewritten in another language."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from palio import Filter
from palio.cli.main import palio


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def convert(*arguments: str, stdin: str | None = None) -> Result:
    return CliRunner().invoke(palio, ["convert", *arguments], input=stdin)


def lines(text: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in text.splitlines()]


WANTS = [
    {"id": "desk", "where": "NOT (price <= 100 OR symbol <> 'ACME')", "subscriber": "ops", "team": "red"},
    {"id": "typo", "where": "price >"},
    {"id": "desk", "where": "price > 5"},
    {"id": "any", "where": "any_value_ilike('%evil%')"},
]


@pytest.fixture
def wants() -> str:
    Path("wants.jsonl").write_text("".join(json.dumps(each) + "\n" for each in WANTS))
    return "wants.jsonl"


def test_what_can_be_written_is_and_the_rest_is_said(wants: str) -> None:
    answer = convert(wants)
    assert answer.exit_code == 0
    first, second = lines(answer.stdout)
    assert first == {"id": "desk", "where": "price > 100 AND symbol = 'ACME'", "subscriber": "ops", "team": "red"}
    assert Filter.parse(second["where"]) == Filter.parse(WANTS[3]["where"])
    assert "wants.jsonl:2: not written: typo: the condition ends where a value should stand" in answer.stderr
    assert "wants.jsonl:3: not written: desk: the id is taken already, in wants.jsonl:1" in answer.stderr
    assert "2 subscriptions written, 2 not; 1 with functions that only Palio has" in answer.stderr


def test_strict_fails_after_writing_the_rest(wants: str) -> None:
    answer = convert(wants, "--strict", "--out", "out.jsonl.gz")
    assert answer.exit_code == 1
    assert answer.stdout == ""
    assert [each["id"] for each in lines(gzip.decompress(Path("out.jsonl.gz").read_bytes()).decode())] == [
        "desk",
        "any",
    ]
    assert "written to out.jsonl.gz" in answer.stderr


def test_what_comes_out_goes_in_again(wants: str) -> None:
    Path("again.jsonl").write_text(convert(wants).stdout)
    assert convert("again.jsonl").stdout == Path("again.jsonl").read_text()


def test_standard_input_is_read() -> None:
    answer = convert("-", stdin='{"id": "a", "where": "1 < x"}\n')
    assert lines(answer.stdout) == [{"id": "a", "where": "x > 1"}]


@pytest.mark.parametrize("out", ["out.csv", "out", "out.parquet"])
def test_only_lines_of_json_are_written(wants: str, out: str) -> None:
    answer = convert(wants, "--out", out)
    assert answer.exit_code == 2
    assert "let its name end in .jsonl" in answer.stderr
    assert not Path(out).exists()


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["nowhere.jsonl"], "nowhere.jsonl"),
        (["empty.jsonl"], "there is no subscription in it"),
        (["wants.jsonl", "--to", "klingon"], "'klingon' is not"),
        (["bare"], "there is no condition in it, a file whose name ends in"),
    ],
)
def test_what_cannot_be_read_is_an_error(wants: str, arguments: list[str], reason: str) -> None:
    Path("empty.jsonl").touch()
    Path("bare").mkdir()
    answer = convert(*arguments)
    assert answer.exit_code == 2
    assert reason in answer.stderr


def test_a_folder_holds_a_condition_in_each_file() -> None:
    for name, text in {
        "rules/a.sql": "x > 3\n",
        "rules/deep/er/b.sql": "\ufeffx < 5",
        "rules/.hidden/c.sql": "x = 1",
        "rules/notes.md": "not a condition",
        "rules/c.txt": "y = 'in the language asked for'",
    }.items():
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text(text)
    Path("rules/bad.sql").write_bytes(b"x = '\xff'")
    answer = convert("rules")
    assert lines(answer.stdout) == [
        {"id": "a", "where": "x > 3"},
        {"id": "c", "where": "y = 'in the language asked for'"},
        {"id": "deep/er/b", "where": "x < 5"},
    ]
    assert f"{Path('rules/bad.sql')}: not written: invalid UTF-8 at byte 5" in answer.stderr


def test_a_file_may_be_a_condition() -> None:
    Path("one.sql").write_text("x IN (1, 2)")
    assert lines(convert("one.sql").stdout) == [{"id": "one", "where": "x IN (1, 2)"}]
