"""`palio explain`: the tree, the verdict, the exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from palio.cli.main import palio


def explain(*arguments: str, input: str | bytes | None = None, columns: int = 80) -> Result:
    return CliRunner(env={"COLUMNS": str(columns)}).invoke(palio, ["explain", *arguments], input=input)


def test_a_match_says_so_and_ends_with_0() -> None:
    answer = explain("price > 100 AND symbol = 'ACME'", '{"symbol": "ACME", "price": 120}')
    assert answer.exit_code == 0
    assert answer.stdout == (
        "✓ all of\n"
        "├── ✓ price > 100       price is 120\n"
        "└── ✓ symbol = 'ACME'   symbol is 'ACME'\n"
        "\n"
        "Matched: all 2 conditions held.\n"
    )


def test_the_condition_to_blame_is_named_with_what_it_saw() -> None:
    answer = explain("price > 100 AND symbol = 'ACME'", '{"symbol": "ACME", "price": 80}')
    assert answer.exit_code == 1
    assert "├── ✗ price > 100       price is 80\n" in answer.stdout
    assert answer.stdout.endswith("\nNot matched because of price > 100 (price is 80).\n")


def test_an_xpath_says_which_step_fails_and_where(tmp_path: Path) -> None:
    document = "<?xml version='1.0' encoding='iso-8859-1'?><a><b n='1'>é</b></a>"
    (tmp_path / "a.xml").write_bytes(document.encode("iso-8859-1"))
    answer = explain("/a/b[@n=2]", f"@{tmp_path / 'a.xml'}", "--language", "xpath", columns=200)
    assert answer.exit_code == 1
    assert "/a/b/@n is '1', not =2." in answer.stdout
    assert explain("/a/b", "<a><b/></a>", "--language", "xpath").exit_code == 0
    malformed = explain("/a", "<a>", "--language", "xpath")
    assert malformed.exit_code == 2
    assert "line 1, column 4" in malformed.stderr


def test_a_date_without_quotes_is_questioned() -> None:
    means = "2024-01-31 is 2024 minus 1 minus 31, which is 1992; did you mean DATE'2024-01-31'?"
    given = ("day > 2024-01-31", '{"day": "2024-02-01"}')
    assert means in explain(*given).stdout.splitlines()
    assert json.loads(explain(*given, "--json").stdout)["warnings"] == [means]


@pytest.mark.parametrize(
    ("condition", "event", "verdict"),
    [
        ("x = 1", '{"x": 1}', "Matched."),
        ("x = 1 OR y = 2", '{"x": 1}', "Matched: 1 of 2 conditions held, and that is enough."),
        (
            "x = 1 OR y = 2",
            "{}",
            "Not matched, none of the alternatives holds: x = 1 (x is missing); y = 2 (y is missing).",
        ),
        (
            "x > 5 AND x < 3",
            '{"x": 4}',
            "Not matched: no event can satisfy this condition: x > 5 and x < 3 exclude each other.",
        ),
        (
            "x = NULL",
            '{"x": 4}',
            "Not matched: no event can satisfy this condition: x = NULL is never TRUE; write x IS NULL.",
        ),
        ("FALSE", "{}", "Not matched: no event can satisfy this condition."),
        (
            "(a = 1 OR c = 1) AND (a = 2 OR c = 2)",
            '{"a": [3, 4], "c": null}',
            "Not matched because of a = 1 (a is [3, 4]); c = 1 (c is null); a = 2 (a is [3, 4]); and 1 more.",
        ),
        (
            "a < b AND a > 5",
            '{"a": [1, 7], "b": 3}',
            "Not matched: each condition holds for some element of an array, but no one choice...",
        ),
        (
            "x + y > 3 AND z = 1",
            '{"x": 1, "y": 2, "z": 1}',
            "Not matched because of (x + y) > 3 (x is 1, y is 2).",
        ),
    ],
)
def test_verdicts(condition: str, event: str, verdict: str) -> None:
    last = explain(condition, event).stdout.splitlines()[-1]
    assert last.startswith(verdict[:-3]) if verdict.endswith("...") else last == verdict


def test_many_conditions_to_blame_are_cut_to_three() -> None:
    answer = explain(" AND ".join(f"x{number} = 1" for number in range(6)), "{}")
    assert answer.stdout.endswith("x2 = 1 (x2 is missing); and 3 more.\n")


@pytest.mark.parametrize(
    ("condition", "event", "near"),
    [
        ("price > 1", '{"Price": 2}', "Price"),
        ("volume > 1", '{"volumes": 2}', "volumes"),
        ("price > 1", '{"quote": {"price": 2}}', "quote.price"),
    ],
)
def test_a_name_that_the_event_lacks_is_answered_with_the_nearest_it_has(condition: str, event: str, near: str) -> None:
    said = explain(condition, event).stdout
    assert f"but it has {near}; did you mean that?" in said


def test_nested_alternatives_are_drawn_as_a_tree() -> None:
    answer = explain("a = 1 AND (b = 2 OR c = 3 AND d = 4)", '{"a": 1, "c": 3}')
    assert answer.exit_code == 1
    lines = answer.stdout.splitlines()
    assert lines[:6] == [
        "✗ all of",
        "├── ✓ a = 1           a is 1",
        "└── ✗ some of",
        "    ├── ✗ b = 2       b is missing",
        "    └── ✗ all of",
        "        ├── ✓ c = 3   c is 3",
    ]


def test_a_value_of_another_kind_is_answered_with_the_cast_that_helps() -> None:
    said = explain("x > 5", '{"x": "10"}').stdout.splitlines()
    assert said[-1] == "x is a string, and the condition asks about numbers; write CAST(x AS INT) > 5."


def test_json_says_the_same_to_programs() -> None:
    answer = explain("x = 1 AND y = 2", '{"x": 1, "y": 3}', "--json")
    assert answer.exit_code == 1
    said = json.loads(answer.stdout)
    assert said["matched"] is False
    index = {"kind": "attribute", "key": "y", "meaning": "looked up by y"}
    assert said["blamed"] == [
        {"condition": "y = 2", "matched": False, "values": {"y": 3}, "missing": [], "index": index}
    ]
    assert said["explanation"]["operator"] == "AND"
    assert [part["matched"] for part in said["explanation"]["parts"]] == [True, False]


def test_filter_and_event_come_from_files_and_standard_input(tmp_path: Path) -> None:
    (tmp_path / "desk.sql").write_text("price > 100\n  AND symbol = 'ACME'\n")
    (tmp_path / "event.json").write_bytes(b'\xef\xbb\xbf{"symbol": "ACME", "price": 120}')
    condition, event = f"@{tmp_path / 'desk.sql'}", f"@{tmp_path / 'event.json'}"
    assert explain(condition, event).exit_code == 0
    assert explain(condition, "-", input='{"symbol": "ACME", "price": 1}').exit_code == 1


@pytest.mark.parametrize(
    ("arguments", "input", "said"),
    [
        (("price >", "{}"), None, "    price >\n           ^\n"),
        (("x = 1", "{"), None, "EVENT: not JSON"),
        (("x = 1", "[1]"), None, "EVENT: an event is a JSON object"),
        (("x = 1", "-"), b"\xff{}", "invalid UTF-8 at byte 0"),
        (("x = 1", "@nowhere.json"), None, "nowhere.json"),
    ],
)
def test_what_cannot_be_read_ends_with_2(arguments: tuple[str, str], input: bytes | None, said: str) -> None:
    answer = explain(*arguments, input=input)
    assert answer.exit_code == 2
    assert said in answer.stderr


def test_the_caret_stays_under_its_place_however_long_the_line() -> None:
    condition = " AND ".join(f"attribute_{number} = 1" for number in range(30)) + " AND oops = = 3"
    lines = explain(condition, "{}", columns=60).stderr.splitlines()
    excerpt, caret = lines[1], lines[2]
    assert len(excerpt) <= 60
    assert excerpt[: caret.index("^")].endswith("oops = ")


def test_a_caret_counts_wide_letters_twice() -> None:
    lines = explain("`価格` = '円' AND = 3", "{}").stderr.splitlines()
    assert lines[2].index("^") == lines[1].index("= 3") + len("価格円")


def test_how_an_index_decides_is_said_where_it_is_not_by_the_attribute() -> None:
    answer = explain("lower(s) = 'a' AND x = 1", '{"s": "A", "x": 1}', columns=140)
    meaning = "residual: evaluated where the other conditions hold (slow: about 300 × an equality)"
    assert answer.stdout.splitlines()[1:3] == [
        f"├── ✓ lower(s) = 'a'   s is 'A'; {meaning}",
        "└── ✓ x = 1            x is 1",
    ]
    answer = explain("lower(s) = 'a'", '{"s": "A"}', columns=120)
    assert answer.stdout.startswith("✓ lower(s) = 'a'   s is 'A'; looked up by the computed value lower(s)\n")
