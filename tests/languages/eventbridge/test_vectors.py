"""One fact after the other, as a table."""

from __future__ import annotations

import json

import pytest

from palio import Filter
from palio.languages.eventbridge import parse
from tests.languages.eventbridge.vectors import VECTORS, Vector


@pytest.mark.parametrize("vector", VECTORS, ids=lambda vector: vector.fact)
def test_patterns_match_what_they_should(vector: Vector) -> None:
    wanted = parse(vector.pattern)
    assert parse(json.dumps(vector.pattern)) == wanted == Filter.parse(str(wanted))
    for event in vector.matching:
        assert wanted.matches(event), (str(wanted), event)
        assert wanted.matches(json.dumps(event)), (str(wanted), event)
    for event in vector.other:
        assert not wanted.matches(event), (str(wanted), event)
    for event in vector.other + vector.matching:
        if not any(isinstance(value, list) for value in event.values()):
            assert (~wanted).matches(event) is not wanted.matches(event)


@pytest.mark.parametrize(
    ("text", "matching", "other"),
    [
        ('{"x": ["a"], "x": ["b"]}', {"x": "b"}, {"x": "a"}),
        ('{"d": {"l": [{"prefix": "us-"}], "l": [{"anything-but": "us-east"}]}}', {"d": {"l": "eu"}}, {"d": {}}),
        ('{"d": {"x": [1]}, "d": {"y": [2]}}', {"d": {"x": 1, "y": 2}}, {"d": {"y": 2}}),
        ('{"$or": [{"x": [1]}, {"y": [2]}], "$or": [{"z": [3]}, {"w": [4]}]}', {"y": 2, "z": 3}, {"x": 1}),
        ('{"x": [3.0e2]}', {"x": 300}, {"x": 30}),
        (r'{"x": [{"wildcard": "\\*\\\\*"}]}', {"x": "*\\a"}, {"x": "a\\"}),
        (r'{"x": ["\u00e9"]}', {"x": "é"}, {"x": "e"}),
        ('{"x": [9007199254740993]}', {"x": 9007199254740993}, {"x": 9007199254740992}),
        ('{"x": [0.12345678901234567890]}', '{"x": 0.12345678901234567890}', {"x": 0.1}),
        (
            '{"x": [123456789012345678901234567890]}',
            '{"x": 123456789012345678901234567890}',
            {"x": 1.2345678901234568e29},
        ),
    ],
)
def test_text_keeps_what_a_dictionary_cannot_hold(text: str, matching: str, other: str) -> None:
    wanted = parse(text)
    assert wanted.matches(matching)
    assert not wanted.matches(other)
    assert parse(text.encode()) == wanted
    assert parse(f"\n {text}\t ") == wanted


@pytest.mark.parametrize("pattern", ['{"x": [1e999]}', '{"x": [1e-999]}', '{"x": [' + "9" * 50 + "]}"])
def test_a_number_no_event_can_hold_is_never_met(pattern: str) -> None:
    wanted = parse(pattern)
    assert wanted == Filter.nothing
    assert not wanted.matches({"x": float("inf")})
    assert not wanted.matches({"x": 0})
