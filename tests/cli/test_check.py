"""`palio check`: errors with their place, and unsatisfiable, always true, redundant and slow conditions."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from palio.cli.main import palio


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def check(*wants: dict[str, Any] | str, options: tuple[str, ...] = (), columns: int = 80) -> Result:
    lines = [want if isinstance(want, str) else json.dumps(want) for want in wants]
    Path("wants.jsonl").write_text("".join(line + "\n" for line in lines))
    return CliRunner(env={"COLUMNS": str(columns)}).invoke(palio, ["check", "wants.jsonl", *options])


def want(id: str, where: Any, **more: Any) -> dict[str, Any]:
    return {"id": id, "where": where, **more}


def findings(answer: Result) -> dict[str | None, list[str]]:
    return {
        entry["id"]: [each["kind"] for each in entry["findings"]]
        for entry in map(json.loads, answer.stdout.splitlines())
    }


def count_of(answer: Result, kind: str) -> int:
    [line] = [line for line in answer.stdout.splitlines() if line.startswith(f"{kind} ")]
    return int(line.split()[1].replace(",", ""))


def test_nothing_to_say_is_said() -> None:
    answer = check(want("a", "x = 1"), want("b", "y = 2"))
    assert answer.exit_code == 0
    assert answer.stdout.startswith("wants.jsonl: 2 subscriptions\n")
    assert count_of(answer, "fine") == 2
    assert all(count_of(answer, kind) == 0 for kind in ["error", "never", "always", "redundant", "slow"])


def test_errors_are_all_shown_with_file_line_caret_and_hint() -> None:
    answer = check(
        want("a", "price > AND symbol = 'ACME'"),
        want("b", "x = 1"),
        "oops",
        want("b", "x = 2"),
        {"where": "x = 3"},
        want("c", "x = 4", language="klingon"),
        want("d", "x RLIKE '(?=a)'"),
    )
    assert answer.exit_code == 1
    assert "wants.jsonl:1: error: a: " in answer.stdout
    assert "    price > AND symbol = 'ACME'\n            ^\n" in answer.stdout
    assert "wants.jsonl:3: error: not JSON" in answer.stdout
    assert "wants.jsonl:4: error: b: the id is taken already, in wants.jsonl:2" in answer.stdout
    assert 'wants.jsonl:5: error: there is no "id"' in answer.stdout
    assert "wants.jsonl:6: error: c: there is no condition language 'klingon'" in answer.stdout
    assert "wants.jsonl:7: error: d: " in answer.stdout
    assert count_of(answer, "error") == 6


def test_warnings_alone_do_not_fail() -> None:
    answer = check(want("a", "price > 100 AND price < 50"), want("b", "TRUE"), want("c", "x IS NULL"))
    assert answer.exit_code == 0
    assert "wants.jsonl:1: never matches: a: price > 100 AND price < 50" in answer.stdout
    assert "wants.jsonl:2: always matches: b: TRUE" in answer.stdout
    assert "wants.jsonl:3: slow: c: every event is asked" in answer.stdout


@pytest.mark.parametrize(
    ("condition", "reason"),
    [
        ("price > 100 AND price < 50", "price > 100 and price < 50 exclude each other"),
        ("x = 1 AND (y = 'a' OR y = 'b') AND y > 'c'", "y IN ('a', 'b') and y > 'c' exclude each other"),
        ("x = 1 AND (y = 1 AND z = 1 OR y = 2 AND x = 2) AND y > 3", None),
        ("z = 1 OR a = 1 AND a = 2", None),
        ("x =  NULL", "x = NULL is never TRUE; write x IS NULL"),
        ("NULL <> x.y AND z = 1", "NULL <> x.y is never TRUE; write x.y IS NOT NULL"),
        ("x NOT IN (1, NULL)", "with a NULL in its list, x NOT IN (1, NULL) is never TRUE; leave the NULL out"),
        ("x IN (NULL)", "x IN (NULL) is never TRUE; write x IS NULL"),
        ("x > NULL", "x > NULL is never TRUE: nothing compares with NULL"),
        ("x IN (1, NULL) AND x > 3", "x = 1 and x > 3 exclude each other"),
        ("FALSE", None),
    ],
)
def test_why_a_condition_never_matches_is_said(condition: str, reason: str | None) -> None:
    answer = check(want("a", condition))
    (entry,) = [json.loads(line) for line in check(want("a", condition), options=["--json"]).stdout.splitlines()]
    hints = [finding.get("hint") for finding in entry["findings"] if finding["kind"] == "never"]
    assert hints == ([] if condition.startswith("z") else [reason])
    assert reason is None or f"\n    {reason}\n" in answer.stdout


def test_redundant_means_equal_or_covered_for_the_same_subscriber() -> None:
    answer = check(
        want("a", "x > 3", subscriber="one"),
        want("b", "x > 5 AND y = 'a'", subscriber="one"),
        want("c", "3 < x", subscriber="one"),
        want("d", "x > 5", subscriber="two"),
    )
    assert answer.exit_code == 0
    assert "wants.jsonl:2: redundant: b: covered by a, in wants.jsonl:1" in answer.stdout
    assert "wants.jsonl:3: redundant: c: equal to a, in wants.jsonl:1" in answer.stdout
    assert count_of(answer, "redundant") == 2
    assert count_of(answer, "fine") == 2


def test_without_subscribers_all_are_compared() -> None:
    answer = check(want("a", "x > 3"), want("b", "x > 5"), options=("--json",))
    assert findings(answer) == {"a": [], "b": ["redundant"]}


def test_json_has_one_object_for_each_subscription() -> None:
    answer = check(want("a", "x >", subscriber="s"), want("b", "x > 3 AND x > 5"), options=("--json", "--normal-form"))
    assert answer.exit_code == 1
    first, second = map(json.loads, answer.stdout.splitlines())
    assert first["line"] == 1
    assert first["subscriber"] == "s"
    assert first["normal_form"] is None
    [error] = first["findings"]
    assert error["kind"] == "error"
    assert error["position"] == 3
    assert "message" in error
    place = {"place": "wants.jsonl:2", "line": 2}
    assert second == {**place, "id": "b", "subscriber": None, "findings": [], "normal_form": "x > 5"}


def test_json_names_what_makes_redundant() -> None:
    answer = check(want("a", "x > 3"), want("b", "x > 5"), options=("--json",))
    [finding] = json.loads(answer.stdout.splitlines()[1])["findings"]
    assert finding["by"] == "a"


def test_the_normal_form_is_shown_on_request() -> None:
    answer = check(want("a", "NOT (x > 3 OR y <> 'a')"), options=("--normal-form",))
    assert "wants.jsonl:1: a: x <= 3 AND y = 'a'\n" in answer.stdout


def test_of_many_findings_of_a_kind_the_first_are_shown_unless_all_are_asked_for() -> None:
    wants = [want(str(number), "x >") for number in range(30)]
    few = check(*wants)
    assert few.stdout.count("error: ") == 10
    assert "… and 20 × error; --all shows them" in few.stdout
    assert check(*wants, options=("--all",)).stdout.count("error: ") == 30


def test_a_file_of_another_format_and_standard_input() -> None:
    Path("wants.csv").write_text("id,where\na,x = 1\nb,x >\n")
    answer = CliRunner().invoke(palio, ["check", "wants.csv"])
    assert answer.exit_code == 1
    assert "wants.csv:3: error: b: " in answer.stdout
    lines = json.dumps(want("a", "x = 1")) + "\n"
    answer = CliRunner().invoke(palio, ["check", "-"], input=lines)
    assert answer.exit_code == 0
    assert answer.stdout.startswith("standard input: 1 subscription\n")


def test_ctrl_c_shows_what_was_found_until_then(monkeypatch: pytest.MonkeyPatch) -> None:
    from palio.filters.filter import Filter

    parse = Filter.parse

    def interrupted(condition: Any, language: str = "sql", **options: Any) -> Filter:
        if condition == "stop = 1":
            raise KeyboardInterrupt
        return parse(condition, language, **options)

    monkeypatch.setattr(Filter, "parse", interrupted)
    answer = check(want("a", "x >"), want("b", "stop = 1"), want("c", "y >"))
    assert answer.exit_code == 130
    assert "wants.jsonl:1: error: a" in answer.stdout
    assert "until Ctrl-C" in answer.stdout


def test_a_date_without_quotes_is_doubtful() -> None:
    wants = [want("a", "day > 2024-01-31"), want("b", "day > DATE'2024-01-31'"), want("c", "x > 2024 - 1 - 31")]
    answer = check(*wants, options=("--json",))
    assert findings(answer) == {"a": ["doubtful"], "b": [], "c": []}
    assert answer.exit_code == 0
    assert "2024-01-31 is 2024 minus 1 minus 31, which is 1992; did you mean DATE'2024-01-31'?" in answer.stdout


def test_which_part_of_the_index_decides_a_condition_is_shown() -> None:
    wants = [want(f"l{n}", f"lower(s) = '{n}' AND x > {n}") for n in range(4)] + [want("r", "x = 9 AND a < b")]
    answer = check(*wants, options=("--index",))
    assert "wants.jsonl:1: l0: lower(s) = '0': looked up by the computed value lower(s)\n" in answer.stdout
    assert "wants.jsonl:1: l0: x > 0: looked up by x\n" in answer.stdout
    meaning = "residual: evaluated where the other conditions hold (slow: about 300 × an equality)"
    assert f"wants.jsonl:5: r: a < b: {meaning}\n" in answer.stdout
    last = json.loads(check(*wants, options=("--json", "--index")).stdout.splitlines()[-1])
    assert last["index"] == [
        {"condition": "x = 9", "kind": "attribute", "key": "x", "meaning": "looked up by x"},
        {"condition": "a < b", "kind": "residual", "times_equality": 300, "meaning": meaning},
    ]


def test_a_condition_that_brokers_refuse_is_found_with_its_size_and_the_bound() -> None:
    hostile = want("a", "t RLIKE '(a|b)*a(a|b){900}c'")
    [entry] = [json.loads(line) for line in check(hostile, options=("--json",)).stdout.splitlines()]
    assert "brokers refuse it" in entry["findings"][0]["message"]
    assert "1,804 steps" in entry["findings"][0]["message"]
    assert "pattern_size = 1,000" in entry["findings"][0]["message"]


def test_a_slow_condition_has_a_cost_and_a_remedy() -> None:
    [entry] = [json.loads(line) for line in check(want("a", "a * 2 > b"), options=("--json",)).stdout.splitlines()]
    [finding] = entry["findings"]
    assert finding["message"].endswith("(about 20 × an equality)")
    assert finding["hint"].startswith("compare one expression with constants")
