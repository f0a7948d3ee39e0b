"""Tests of the limits on the size of an event, and of their messages."""

from __future__ import annotations

from typing import Any

import pytest

from palio.errors import EventError
from palio.events import DEFAULT_LIMITS, Event, Limits
from tests.hangs import no_hang


def nested(depth: int, array: bool = False) -> dict[str, Any]:
    content: Any = 1
    for _ in range(depth - 1):
        content = [content] if array else {"a": content}
    return {"x": content}


@pytest.mark.parametrize("array", [False, True])
def test_depth_is_counted_in_objects_and_arrays(array: bool) -> None:
    limits = Limits(depth=5)
    assert len(Event.from_dict(nested(5, array), limits=limits).attributes) == 1
    with pytest.raises(EventError, match=r"x.*: nested deeper than 5 levels"):
        Event.from_dict(nested(6, array), limits=limits)


def test_a_flat_event_has_depth_one() -> None:
    assert Event.from_dict({"x": 1}, limits=Limits(depth=1)).get("x") == 1
    with pytest.raises(EventError, match="x: nested deeper than 1 levels"):
        Event.from_dict({"x": {}}, limits=Limits(depth=1))


def test_attributes_are_counted_over_all_objects() -> None:
    limits = Limits(attributes=3)
    assert len(Event.from_dict({"a": 1, "b": {"c": 2, "d": 3}}, limits=limits).attributes) == 3
    for content in (
        {"a": 1, "b": 2, "c": 3, "d": 4},
        {"a": 1, "b": {"c": 2, "d": 3, "e": 4}},
        {"a": 1, "b": {"c": 2, "d": 3}, "e": 4},
        {"x": [{"a": 1, "b": 2}, {"c": 3, "d": 4}]},
    ):
        with pytest.raises(EventError, match="more than 3 attributes in one event"):
            Event.from_dict(content, limits=limits)


def test_the_length_of_a_name_is_that_of_the_whole_path() -> None:
    limits = Limits(name_length=5)
    assert Event.from_dict({"ab": {"cd": 1}}, limits=limits).get("ab.cd") == 1
    with pytest.raises(EventError, match=r"ab\.cde: an attribute's name of more than 5 characters"):
        Event.from_dict({"ab": {"cde": 1}}, limits=limits)


def test_a_name_that_is_too_long_is_not_shown_whole() -> None:
    with pytest.raises(EventError) as caught:
        Event.from_dict({"x" * 100_000: 1})
    assert len(str(caught.value)) < 200


def test_the_length_of_an_array_is_that_of_all_its_values() -> None:
    limits = Limits(array_length=3)
    assert Event.from_dict({"x": [1, [2, 3]]}, limits=limits).get("x") == (1, 2, 3)
    for array in ([1, 2, 3, 4], [1, [2, 3, 4]], [[1, 2], [3, 4]]):
        with pytest.raises(EventError, match=r"x: .*arrays? of more than 3 values"):
            Event.from_dict({"x": array}, limits=limits)
    with pytest.raises(EventError, match=r"x\.a: nested arrays of more than 3 values"):
        Event.from_dict({"x": [{"a": [1, 2]}, {"a": [3, 4]}]}, limits=limits)


def test_containers_are_counted_even_when_empty() -> None:
    limits = Limits(containers=3)
    Event.from_dict({"x": [[], {}]}, limits=limits)
    with pytest.raises(EventError, match="x: more than 3 objects and arrays in one event"):
        Event.from_dict({"x": [[], {}, []]}, limits=limits)


def test_content_that_holds_itself_is_refused() -> None:
    array: list[Any] = []
    array.append(array)
    with pytest.raises(EventError, match="nested deeper than 100 levels"):
        Event.from_dict({"x": array})
    content: dict[str, Any] = {}
    content["self"] = content
    with pytest.raises(EventError, match="nested deeper than 100 levels"):
        Event.from_dict(content)


@pytest.mark.parametrize("array", [False, True])
def test_content_that_shares_its_parts_is_refused_before_it_explodes(array: bool) -> None:
    content: Any = [] if array else {}
    for _ in range(60):
        content = [content, content] if array else {"a": content, "b": content}
    with no_hang(), pytest.raises(EventError, match="more than 100,000 objects and arrays in one event"):
        Event.from_dict({"x": content})


def test_the_defaults_read_what_is_large_but_sane() -> None:
    event = Event.from_dict({f"k{i}": i for i in range(10_000)})
    assert len(event.attributes) == 10_000
    assert len(Event.from_dict({"x": [*range(100_000)]}).attributes["x"]) == 100_000  # type: ignore[arg-type]
    assert Event.from_json('{"x": "' + "y" * 1_000_000 + '"}').get("x") == "y" * 1_000_000
    assert Event.from_dict(nested(100)).attributes


@pytest.mark.parametrize("name", list(Limits.__dataclass_fields__))
@pytest.mark.parametrize("value", [0, -1, 1.5, "10", None, True])
def test_a_limit_that_is_no_positive_integer_is_refused(name: str, value: object) -> None:
    with pytest.raises(ValueError, match=f"{name} must be a positive integer"):
        Limits(**{name: value})  # type: ignore[arg-type]


def test_a_depth_that_python_could_not_follow_is_refused() -> None:
    with pytest.raises(ValueError, match="depth must be at most 200"):
        Limits(depth=201)
    limits = Limits(depth=200)
    assert len(Event.from_dict(nested(200), limits=limits).attributes) == 1


def test_limits_are_values() -> None:
    assert Limits() == DEFAULT_LIMITS
    with pytest.raises(AttributeError):
        DEFAULT_LIMITS.depth = 5  # type: ignore[misc]
