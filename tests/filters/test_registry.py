"""Tests of the language registry: a faulty plugin affects only conditions in its own language."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner

from palio import BrokenLanguage, Filter, InvalidSubscription, Matcher, ParseError
from palio.cli.main import palio
from palio.filters import registry

LANGUAGES = """
import sys
from palio import Filter
from palio.errors import PalioError
from palio.filters.computed import foreign

def parse(condition, **options):
    match condition:
        case "raise":
            raise RuntimeError("boom")
        case "exit":
            sys.exit(3)
        case "deep":
            return parse(condition)
        case "number":
            return 5
        case "own":
            raise PalioError("in its own words")
        case "judged" | "cannot be judged":
            return Filter.of_tree(foreign("odd", condition), lambda: foreign("odd", condition, False))
    return Filter.parse(condition)

class Judge:
    attributes = frozenset({"x"})
    def __init__(self, text):
        if text == "cannot be judged":
            raise RuntimeError("no judge")
    def __call__(self, event):
        return {1: True, 2: False, 3: "true"}[event.get("x")]

def takes_over(condition, **options):
    return Filter.everything
"""


def announce(folder: Path, package: str, **languages: str) -> None:
    """A package as pip installs it."""
    about = folder / f"{package}-1.0.dist-info"
    about.mkdir(parents=True)
    (about / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {package}\nVersion: 1.0\n")
    lines = [f"{name} = odd_languages:{function}" for name, function in languages.items()]
    judges = "\n[palio.conditions]\nodd = odd_languages:Judge\n" if "odd" in languages else ""
    (about / "entry_points.txt").write_text("\n".join(["[palio.languages]", *lines, judges]))


@pytest.fixture(autouse=True)
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    announce(tmp_path, "odd", odd="parse", sql="takes_over", sigma="takes_over", twice="parse")
    announce(tmp_path, "other", twice="parse", broken="nowhere")
    (tmp_path / "odd_languages.py").write_text(LANGUAGES)
    monkeypatch.syspath_prepend(tmp_path)
    for known in (registry.parser_for, registry.condition_in):
        known.cache_clear()
    yield
    sys.modules.pop("odd_languages", None)
    for known in (registry.parser_for, registry.condition_in):
        known.cache_clear()


def test_no_package_takes_over_a_language_of_ours() -> None:
    assert not Filter.parse("x > 5").matches({"x": 1})
    assert Filter.parse("x > 5", language="odd") == Filter.parse("x > 5")
    assert "takes_over" not in repr(registry.parser_for("sigma"))


def test_of_two_packages_with_one_name_neither_is_used() -> None:
    with pytest.raises(BrokenLanguage, match="odd and other announce it"):
        Filter.parse("x > 5", language="twice")


def test_a_package_that_cannot_be_loaded_is_named() -> None:
    with pytest.raises(BrokenLanguage, match="other announces it, but AttributeError"):
        Filter.parse("x > 5", language="broken")


@pytest.mark.parametrize(
    ("condition", "told"),
    [
        ("raise", "RuntimeError: boom"),
        ("exit", "SystemExit: 3"),
        ("deep", "RecursionError"),
        ("number", "gave int where a Filter belongs"),
        ("cannot be judged", "no judge"),
    ],
)
def test_whatever_a_language_does_refuses_one_condition(condition: str, told: str) -> None:
    with pytest.raises(ParseError, match="'odd'") as refused:
        Filter.parse(condition, language="odd").matches({"x": 1})
    assert told in refused.value.reason
    with pytest.raises(InvalidSubscription):
        Matcher().add("a", condition, language="odd")


def test_what_a_language_says_of_itself_is_kept() -> None:
    with pytest.raises(Exception, match=r"^in its own words$"):
        Filter.parse("own", language="odd")


def test_an_event_that_a_language_cannot_judge_is_unknown_to_it() -> None:
    wanted = Filter.parse("judged", language="odd")
    assert [wanted.matches({"x": x}) for x in (1, 2, 3, 4)] == [True, False, False, False]
    assert [(~wanted).matches({"x": x}) for x in (1, 2, 3, 4)] == [False, True, False, False]


@pytest.mark.parametrize("command", ["check", "match", "convert"])
def test_a_run_goes_on_without_such_a_condition(command: str, tmp_path: Path) -> None:
    wants = tmp_path / "wants.jsonl"
    lines = [f'{{"id": "{each}", "where": "{each}", "language": "odd"}}' for each in ("raise", "number", "deep")]
    wants.write_text("\n".join([*lines, '{"id": "good", "where": "x = 1"}']))
    (tmp_path / "events.jsonl").write_text('{"x": 1}\n')
    asked = {
        "check": [str(wants)],
        "match": [str(wants), str(tmp_path / "events.jsonl")],
        "convert": [str(wants), "--to", "sql"],
    }
    answer = CliRunner().invoke(palio, [command, *asked[command]])
    assert answer.exception is None or isinstance(answer.exception, SystemExit), answer.exception
    assert "boom" in answer.output
    assert "good" in answer.output or command == "check"
