"""Tests of attribute names and their canonical spelling."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.errors import EventError
from palio.events import Event, Limits, join_path, quote_segment, split_path

NAMES = st.text(st.sampled_from("ab.` é") | st.characters(codec="utf-8"), max_size=8)


def test_only_dots_and_back_quotes_need_quoting() -> None:
    assert quote_segment("@timestamp") == "@timestamp"
    assert quote_segment("two words") == "two words"
    assert quote_segment("") == ""
    assert quote_segment("a.b") == "`a.b`"
    assert quote_segment("`") == "````"


def test_nested_names_and_names_with_dots_are_different_attributes() -> None:
    assert Event.from_dict({"a": {"b": 1}, "a.b": 2}).attributes == {"a.b": 1, "`a.b`": 2}


def test_names_may_be_empty_at_every_level() -> None:
    event = Event.from_dict({"": 1, "a": {"": 2, "b": {"": 3}}, "b": {"": {"": 4}}})
    assert event.attributes == {"": 1, "a.": 2, "a.b.": 3, "b..": 4}
    assert Event.from_dict({"": {"": 1}}).attributes == {".": 1}


def test_names_keep_control_characters_and_case() -> None:
    assert set(Event.from_dict({"a\x00\n": 1, "A": 2, "a": 3}).attributes) == {"a\x00\n", "A", "a"}


@given(st.lists(NAMES, min_size=1, max_size=5))
def test_a_path_splits_into_what_it_was_joined_of(segments: list[str]) -> None:
    assert split_path(join_path(segments)) == tuple(segments)


@given(st.lists(NAMES, min_size=1, max_size=3), st.lists(NAMES, min_size=1, max_size=3))
def test_different_segments_have_different_paths(one: list[str], other: list[str]) -> None:
    assert (join_path(one) == join_path(other)) == (one == other)


@given(st.lists(NAMES, min_size=1, max_size=5))
def test_nested_content_is_found_at_the_joined_path(segments: list[str]) -> None:
    content: object = 1
    for name in reversed(segments):
        content = {name: content}
    assert Event.from_dict(content).attributes == {join_path(segments): 1}  # type: ignore[arg-type]


@given(st.text(st.sampled_from("ab.`"), max_size=10))
def test_any_text_is_a_path_in_its_one_spelling_or_refused(text: str) -> None:
    try:
        event = Event({text: 1})
    except EventError:
        return
    assert join_path(split_path(text)) == text
    assert event.get(text) == 1


@pytest.mark.parametrize("name", [1, None, 1.5, True, b"x", ("a",)])
def test_names_that_are_no_strings_are_refused(name: object) -> None:
    with pytest.raises(EventError, match="a: a name in an event must be a string, not "):
        Event.from_dict({"a": {name: 1}})
    with pytest.raises(EventError, match="a name in an event must be a string, not "):
        Event.from_dict({name: 1})  # type: ignore[dict-item]


def test_names_that_are_not_unicode_are_refused() -> None:
    with pytest.raises(EventError, match=r"a: a name has a lone surrogate, U\+DC00, at character 1"):
        Event.from_dict({"a": {"x\udc00": 1}})


def test_equal_names_are_one_object_in_all_events() -> None:
    one, other = (next(iter(Event.from_json('{"who": {"name": 1}}').attributes)) for _ in range(2))
    assert one is other


def test_a_limit_on_names_holds_for_names_met_before() -> None:
    Event.from_dict({"abcdef": {"g": 1}})
    with pytest.raises(EventError, match="abcdef: an attribute's name of more than 5 characters"):
        Event.from_dict({"abcdef": {"g": 1}}, limits=Limits(name_length=5))
    with pytest.raises(EventError, match=r"abcdef\.g: an attribute's name of more than 7 characters"):
        Event.from_dict({"abcdef": {"g": 1}}, limits=Limits(name_length=7))
