"""Patterns that people wrote, from templates of serverless applications."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from palio import Filter, ParseError
from tests.languages.eventbridge.oracle import matches

FILE = "subscriptions/eventbridge_patterns_serverless_93.json"


@pytest.fixture(scope="module")
def patterns(data_folder: Path) -> list[Any]:
    path = data_folder / FILE
    if not path.is_file():
        pytest.skip(f"the real patterns are not here: {path}")
    return [each["pattern"] for each in json.loads(path.read_text(encoding="utf-8"))]


def is_description(pattern: dict[str, Any]) -> bool:
    """Whether this is no event pattern: the file has some descriptions of API shapes, which are called patterns too."""
    return any(not isinstance(value, list | dict) for value in pattern.values())


def test_every_event_pattern_is_read(patterns: list[Any]) -> None:
    events = [pattern for pattern in patterns if not is_description(pattern)]
    assert len(events) == 66
    for pattern in events:
        wanted = Filter.parse(pattern, language="eventbridge")
        assert wanted.is_conjunction
        assert Filter.parse(str(wanted)) == wanted
        example = an_event_for(pattern)
        assert wanted.matches(example)
        assert matches(pattern, example)


def test_what_eventbridge_refuses_is_read_where_bare_values_may_stand(patterns: list[Any]) -> None:
    descriptions = [pattern for pattern in patterns if is_description(pattern)]
    assert len(descriptions) == 27
    for pattern in descriptions:
        with pytest.raises(ParseError, match="a field asks with an array"):
            Filter.parse(pattern, language="eventbridge")
    for pattern in patterns:
        assert Filter.parse(pattern, language="eventbridge", strict=False) != Filter.nothing


def an_event_for(pattern: dict[str, Any]) -> dict[str, Any]:
    """An event that has the first value asked for in each field."""
    return {
        name: an_event_for(asked) if isinstance(asked, dict) else a_value_for(asked[0])
        for name, asked in pattern.items()
    }


def a_value_for(asked: Any) -> Any:
    match asked:
        case {"prefix": text}:
            return f"{text}x"
        case {"wildcard": text}:
            return text.replace("*", "x")
        case {"exists": True}:
            return None
        case {"numeric": [">", bound]}:
            return bound + 1
    return asked
