"""Fuzzing of EventBridge patterns: any text gives a filter or an error of Palio."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import Filter, PalioError
from tests.hangs import no_hang
from tests.languages.eventbridge.strategies import patterns

WORDS = st.sampled_from(
    "a a.b $or prefix suffix equals-ignore-case wildcard anything-but numeric cidr exists = < 10.0.0.0/8 *".split()
)
ANY_JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), WORDS, st.text(max_size=5)),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4), st.dictionaries(WORDS | st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=12,
)


def read(condition: Any, language: str, **options: Any) -> Filter | None:
    try:
        return Filter.parse(condition, language=language, **options)
    except PalioError as error:
        assert str(error)
        return None


@given(ANY_JSON, st.sampled_from(["eventbridge", "sns"]), st.booleans())
def test_any_json_is_read_or_refused(condition: Any, language: str, strict: bool) -> None:
    found = read(condition, language, strict=strict)
    if found is not None:
        assert Filter.parse(str(found)) == found
        found.matches({"a": 1, "$or": "x"})


@given(st.one_of(st.text(), st.binary(), st.text('{}[]",:$orexists 0.1e\\')), st.sampled_from(["eventbridge", "sns"]))
def test_any_text_is_read_or_refused(condition: Any, language: str) -> None:
    read(condition, language)


@given(patterns(), st.data())
def test_damaged_patterns_are_read_or_refused(pattern: dict[str, Any], data: st.DataObject) -> None:
    text = json.dumps(pattern)
    at = data.draw(st.integers(0, len(text)))
    length = data.draw(st.integers(0, 3))
    put = data.draw(st.text('{}[]",:0a\\', max_size=2))
    read(text[:at] + put + text[at + length :], "eventbridge")


LARGE: dict[str, Any] = {
    "values": {"a": [f"value-{number}" for number in range(50_000)]},
    "suffixes": {"a": [{"suffix": f"x{number}"} for number in range(5_000)]},
    "excluded": {"a": [{"anything-but": {"suffix": [f"x{number}" for number in range(5_000)]}}]},
    "wildcards": {"a": [{"wildcard": f"x{number}*y*z"} for number in range(3_000)]},
    "fields": {f"f{number}": ["x"] for number in range(5_000)},
    "ranges": {"a": [{"numeric": [">", number, "<", number + 0.5]} for number in range(5_000)]},
    "networks": {"a": [{"cidr": f"10.{number // 256}.{number % 256}.0/24"} for number in range(3_000)]},
    "choices": {"$or": [{f"a{number}": [number], "b": ["x"]} for number in range(900)]},
    "many choices": {f"x{number}": {"$or": [{"a": [1]}, {"b": [2]}]} for number in range(200)},
    "one wildcard": {"a": [{"wildcard": "ab*" * 30_000 + "x"}]},
    "a long name": {"a" * 1_000_000: ["x"]},
    "dots": {"." * 1_000_000: ["x"]},
    "digits": '{"a": [' + "9" * 1_000_000 + "]}",
    "an exponent": '{"a": [1e' + "9" * 15 + "]}",
    "brackets": "[" * 1_000_000,
    "braces": '{"a":' * 200_000,
    "spaces": " " * 1_000_000,
    "quotes": '"' * 1_000_000,
}


@pytest.mark.parametrize("name", LARGE)
@pytest.mark.parametrize("strict", [True, False])
def test_large_patterns_end(name: str, strict: bool) -> None:
    with no_hang():
        found = read(LARGE[name], "eventbridge", strict=strict)
        if found is not None:
            found.matches({"a": "value-7", "b": "x"})
            _ = ~found
