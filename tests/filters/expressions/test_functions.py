"""Tests of the function catalogue and of its documentation."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from palio.filters.expressions.ast import Expression
from palio.filters.expressions.functions import FUNCTIONS
from palio.filters.expressions.special_forms import compile_expression
from palio.filters.expressions.validation import refusal
from palio.languages.sql.parser import parse_condition

PAGE = Path(__file__).parents[3] / "docs" / "functions.md"
ROW = re.compile(r"^\| `(.+?)` \| (.+?) \| `(.+?)` \| `(.+?)` \|$", re.MULTILINE)


def examples() -> list[tuple[str, str, str]]:
    """The function, the example and its value, of every row of the page."""
    text = PAGE.read_text(encoding="utf-8").replace(r"\|", "\0")
    return [
        tuple(cell.replace("\0", "|") for cell in (found[1], found[3], found[4]))  # type: ignore[misc]
        for found in ROW.finditer(text)
    ]


def parse(sql: str) -> Expression:
    expression = parse_condition(sql, timezone="UTC")
    assert refusal(expression) is None
    return expression


def test_every_function_has_an_example() -> None:
    # What stands for `x -> …` in the tree has no example of its own, but those of exists and forall. A field of
    # from_json() is another function in the tree.
    in_tree = {"from_json": "json_field"}
    named = {in_tree.get(name, name) for name, _, _ in examples()}
    assert named == set(FUNCTIONS) - {"lambda", "variable"}


@pytest.mark.parametrize(("name", "example", "value"), examples())
def test_the_examples_of_the_page_are_true(name: str, example: str, value: str) -> None:
    computed = compile_expression(parse(example))({}, {"x": (1, 2)})
    expected = compile_expression(parse(value))({}, {})
    assert (type(computed), computed) == (type(expected), expected)


@pytest.mark.parametrize("name", FUNCTIONS)
def test_a_function_is_known_by_its_own_name_and_its_counts_make_sense(name: str) -> None:
    function = FUNCTIONS[name]
    assert function.name == name
    assert function.maximum is None or 0 <= function.minimum <= function.maximum
    assert function.summary


def test_the_table_is_cheap_to_import() -> None:
    code = "import sys, palio.filters.expressions.special_forms; print(*sys.modules)"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert {"numpy", "pyarrow", "re2"}.isdisjoint(run.stdout.split())
