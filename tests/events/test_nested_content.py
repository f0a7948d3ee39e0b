"""Tests of flattening and unflattening."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.events import Event, Limits, Value, join_path
from palio.events.nested_content import PathCache
from tests.nested_events import has_object


@pytest.mark.parametrize(
    ("content", "attributes"),
    [
        ({"a": {"b": {"c": 1}}}, {"a.b.c": 1}),
        ({"a": [1, 2]}, {"a": (1, 2)}),
        ({"a": [1]}, {"a": (1,)}),
        ({"a": [None]}, {"a": (None,)}),
        ({"a": [1, "x", None, True]}, {"a": (1, "x", None, True)}),
        ({"a": []}, {"a": ()}),
        ({"a": [[], [[]]]}, {"a": ()}),
        ({"a": {"b": []}}, {"a.b": ()}),
        ({"a": {}}, {}),
        ({"a": [{}]}, {}),
        ({"a": [[1, [2]], 3]}, {"a": (1, 2, 3)}),
        ({"x": [{"a": 1}, {"a": 2}]}, {"x.a": (1, 2)}),
        ({"x": [{"a": 1}, {"b": 2}]}, {"x.a": (1,), "x.b": (2,)}),
        ({"x": [{"a": [1, 2]}, {"a": 3}]}, {"x.a": (1, 2, 3)}),
        ({"x": [{"a": {"b": 1}}, {"a": {"b": 2}}]}, {"x.a.b": (1, 2)}),
        ({"x": [1, {"a": 2}, [3, {"a": 4}]]}, {"x": (1, 3), "x.a": (2, 4)}),
        ({"x": [{"a": None}, None]}, {"x.a": (None,), "x": (None,)}),
        ({"x": [{"a": []}, {"a": 1}]}, {"x.a": (1,)}),
        ({"x": [{"a": []}, {"b": 1}]}, {"x.a": (), "x.b": (1,)}),
        ({"x": [{"a": []}, {"a": [{"b": 1}]}]}, {"x.a.b": (1,)}),
        ({"x": [[], {"a": 1}]}, {"x.a": (1,)}),
        ({"x": {"a": [1]}, "y": {"a": 2}}, {"x.a": (1,), "y.a": 2}),
    ],
)
def test_objects_are_paths_and_arrays_are_several_values(content: dict[str, Any], attributes: dict[str, Value]) -> None:
    assert Event.from_dict(content).attributes == attributes


def test_values_in_arrays_are_read_like_any_other() -> None:
    event = Event.from_dict({"x": [datetime(2026, 1, 1), 2**63, {"y": bytearray(b"z")}]})
    assert event.attributes == {"x": (datetime(2026, 1, 1, tzinfo=UTC), Decimal(2**63)), "x.y": (b"z",)}


def test_attributes_come_in_the_order_of_the_content() -> None:
    assert [*Event.from_dict({"z": 1, "a": {"y": 2, "b": 3}, "c": 4}).attributes] == ["z", "a.y", "a.b", "c"]


NAMES = st.text(st.sampled_from("ab.`é"), max_size=3)
SCALARS = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(st.characters(codec="utf-8"), max_size=5)
    | st.dates()
    | st.datetimes(timezones=st.just(UTC))
    | st.binary(max_size=5)
    | st.decimals(-(10**9), 10**9, places=2)
)
CONTENT = st.dictionaries(
    NAMES,
    st.recursive(
        SCALARS,
        lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
        max_leaves=10,
    ),
    max_size=4,
)


def model(content: dict[str, Any]) -> dict[str, Value]:
    """What flattening means: each leaf has a path, and a leaf below an array is one of several."""
    scalars: dict[str, Value] = {}
    several: dict[str, list[Any]] = {}
    of_objects: set[str] = set()

    def leaf(value: Any, path: list[str], in_array: bool) -> None:
        if isinstance(value, dict):
            for name, inner in value.items():
                leaf(inner, [*path, name], in_array)
        elif isinstance(value, list):
            if not value:
                several.setdefault(join_path(path), [])
            if has_object(value):
                of_objects.add(join_path(path))
            for inner in value:
                leaf(inner, path, True)
        elif in_array:
            several.setdefault(join_path(path), []).append(value)
        else:
            scalars[join_path(path)] = value

    leaf(content, [], False)
    return scalars | {path: tuple(values) for path, values in several.items() if values or path not in of_objects}


def exact(attributes: Any) -> list[tuple[str, str]]:
    """Attributes so that 1, 1.0 and True, and 0.0 and -0.0, differ."""
    return sorted((name, repr(value)) for name, value in attributes.items())


def in_any_order(attributes: Any) -> list[tuple[str, str]]:
    """The same, but values of objects in arrays may come behind those beside the objects."""
    return exact(
        {name: sorted(map(repr, value)) if type(value) is tuple else value for name, value in attributes.items()}
    )


@given(CONTENT)
def test_reading_agrees_with_the_model(content: dict[str, Any]) -> None:
    assert in_any_order(Event.from_dict(content).attributes) == in_any_order(model(content))


@given(CONTENT)
def test_content_written_and_read_again_is_the_same_event(content: dict[str, Any]) -> None:
    event = Event.from_dict(content)
    assert in_any_order(Event.from_dict(event.to_dict()).attributes) == in_any_order(event.attributes)


@given(CONTENT)
def test_attributes_can_be_given_to_the_constructor(content: dict[str, Any]) -> None:
    event = Event.from_dict(content)
    assert exact(Event(event.attributes).attributes) == exact(event.attributes)


@given(CONTENT)
def test_kinds_that_json_lacks_are_written_as_strings(content: dict[str, Any]) -> None:
    def as_json(value: Any) -> Any:
        if isinstance(value, tuple):
            return tuple(map(as_json, value))
        return value if value is None or isinstance(value, bool | int | str) else repr(value)

    event = Event.from_dict(content)
    again = Event.from_json(event.to_json())
    assert again.attributes.keys() == event.attributes.keys()
    for name, value in event.attributes.items():
        kinds = {type(one) for one in (value if isinstance(value, tuple) else (value,))}
        if kinds <= {type(None), bool, int, str}:
            assert as_json(again.attributes[name]) == as_json(value)


def test_what_json_lacks_is_written_as_spark_writes_it() -> None:
    event = Event.from_dict(
        {
            "t": datetime(2026, 1, 31, 12, 0, 0, 500000),
            "d": date(2026, 1, 31),
            "b": b"\xff\x00",
            "n": [math.nan, math.inf, -math.inf],
            "m": Decimal("12345678901234567890.10"),
        }
    )
    assert event.to_json() == (
        '{"t":"2026-01-31T12:00:00.500000Z","d":"2026-01-31","b":"/wA=",'
        '"n":["NaN","Infinity","-Infinity"],"m":12345678901234567890.10}'
    )


def test_what_is_remembered_of_names_is_bounded() -> None:
    names = PathCache()
    for i in range(3 * PathCache.MAX_ENTRIES):
        names.learn(f"n{i}", None, Limits())
    assert 0 < len(names.inside(None)) <= PathCache.MAX_ENTRIES
    names.learn("x" * (PathCache.MAX_PATH_LENGTH + 1), "place", Limits())
    assert names.inside("place") == {}
