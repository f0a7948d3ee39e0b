"""`vectors.txt`, line by line: what a selector says of a message, and what is refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from palio import Event, Filter, Matcher, ParseError
from palio.languages.jms import condition

WORDS = {"TRUE": True, "FALSE": False, "NULL": None}


class Vector(NamedTuple):
    """One line of the file."""

    message: dict[str, Any]
    selector: str
    said: str

    def __str__(self) -> str:
        return f"{self.said} {self.selector}"


def read_vectors() -> list[Vector]:
    message: dict[str, Any] = {}
    found = []
    for line in (Path(__file__).parent / "vectors.txt").read_text("utf-8").splitlines():
        if line.startswith("{"):
            message = json.loads(line)
        elif line and not line.startswith("# "):
            found.append(Vector(message, line[8:], line[:8].strip()))
    return found


VECTORS = read_vectors()
SAID = [each for each in VECTORS if each.said != "refused"]
REFUSED = [each.selector for each in VECTORS if each.said == "refused"]


@pytest.mark.parametrize("vector", SAID, ids=str)
def test_a_selector_says_of_a_message_what_it_should(vector: Vector) -> None:
    wanted = Filter.parse(vector.selector, language="jms")
    outcome = WORDS[vector.said]
    assert condition(vector.selector)(Event.read(vector.message).attributes) is outcome  # type: ignore[arg-type]
    assert wanted.matches(vector.message) is (outcome is True)
    assert (~wanted).matches(vector.message) is (outcome is False)
    assert Filter.parse(str(wanted)) == wanted


@pytest.mark.parametrize("selector", REFUSED)
def test_what_is_no_selector_is_refused(selector: str) -> None:
    with pytest.raises(ParseError) as caught:
        Filter.parse(selector, language="jms")
    assert caught.value.reason
    assert caught.value.text == selector


def test_a_matcher_says_the_same_of_all_of_them() -> None:
    matcher = Matcher()
    matcher.add_many([str(number) for number in range(len(SAID))], [each.selector for each in SAID], language="jms")
    for message in {json.dumps(each.message): each.message for each in SAID}.values():
        expected = {str(number) for number, each in enumerate(SAID) if condition_holds(each.selector, message)}
        assert matcher.match(message) == expected


def condition_holds(selector: str, message: dict[str, Any]) -> bool:
    return condition(selector)(Event.read(message).attributes) is True  # type: ignore[arg-type]
