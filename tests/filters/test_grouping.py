"""Of an array of objects one object is chosen, for all conditions together."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given

from palio.events import Event
from palio.events.groups import Grouped
from palio.filters.filter import Filter
from tests.hangs import no_hang
from tests.nested_events import NAMES, nested_events, readings
from tests.strategies import readable_conditions

BASKET = {"buyer": "ann", "items": [{"sku": "x", "size": 2}, {"sku": "y", "size": 7, "gift": True}]}


def matches(condition: str, event: Any) -> bool:
    return Filter.parse(condition).matches(event)


@given(condition=readable_conditions(NAMES, arrays=False), event=nested_events())
def test_an_event_matches_if_some_reading_of_it_does(condition: str, event: dict[str, Any]) -> None:
    wanted = Filter.parse(condition)
    assert wanted.matches(event) is any(wanted.matches(Event(reading)) for reading in readings(event))


@given(event=nested_events())
def test_what_is_written_down_is_read_as_the_same_event(event: dict[str, Any]) -> None:
    read = Event.from_dict(event)
    for again in (Event.from_dict(read.to_dict()), Event.from_json(read.to_json()), pickle.loads(pickle.dumps(read))):
        assert again.attributes == read.attributes
        assert {str(each) for each in map(_sorted, readings(again.to_dict()))} == {
            str(each) for each in map(_sorted, readings(event))
        }


def _sorted(reading: dict[str, tuple[Any, ...]]) -> list[tuple[str, tuple[Any, ...]]]:
    return sorted((path, tuple(sorted(values, key=repr))) for path, values in reading.items() if values)


class TestOneObjectIsAskedForAllConditions:
    @pytest.mark.parametrize(
        ("condition", "expected"),
        [
            ("items.sku = 'x' AND items.size = 2", True),
            ("items.sku = 'x' AND items.size = 7", False),
            ("items.sku = 'x' AND (items.size > 5 OR buyer = 'ann')", True),
            ("items.sku = 'x' AND items.gift", False),
            ("items.sku = 'x' AND items.gift IS NULL", True),
            ("items.sku = 'y' AND items.gift IS NULL", False),
            ("items.gift IS NULL", True),
            ("NOT (items.sku = 'x' AND items.size = 2)", True),
            ("items.sku = 'x' OR items.size = 9", True),
            ("array_contains(items.sku, 'x') AND array_contains(items.size, 7)", True),
            ("array_contains(items.sku, 'x') AND items.size = 7", True),
            ("items.size + 1 = 3 AND items.sku = 'x'", True),
            ("items.size + 1 = 3 AND items.sku = 'y'", False),
        ],
    )
    def test_of_one_array(self, condition: str, expected: bool) -> None:
        assert matches(condition, BASKET) is expected

    def test_arrays_of_objects_are_chosen_from_within_the_chosen_object(self) -> None:
        event = {"songs": [{"name": "p", "by": [{"first": 1, "last": 2}, {"first": 3, "last": 4}]}, {"name": "q"}]}
        assert matches("songs.name = 'p' AND songs.by.first = 3 AND songs.by.last = 4", event)
        assert not matches("songs.name = 'p' AND songs.by.first = 3 AND songs.by.last = 2", event)
        assert not matches("songs.name = 'q' AND songs.by.first = 3", event)

    def test_two_arrays_are_chosen_from_apart(self) -> None:
        event = {"x": [{"a": 1}, {"b": 2}], "y": [{"a": 3}, {"b": 4}]}
        assert matches("x.a = 1 AND y.b = 4", event)
        assert not matches("x.a = 1 AND x.b = 2 AND y.b = 4", event)

    def test_an_array_in_an_array_is_chosen_like_an_object(self) -> None:
        event = {"x": [[{"a": 1}, {"b": 2}, 3], [{"a": 4}, 5]]}
        assert matches("x = 3 AND x.a = 1", event)
        assert not matches("x = 5 AND x.a = 1", event)
        assert not matches("x.b = 2 AND x.a = 1", event)

    def test_values_beside_objects_belong_to_none_of_them(self) -> None:
        event = {"x": [1, {"a": 2}, {"b": 3}]}
        assert matches("x = 1 AND x.a = 2", event)
        assert matches("x = 1 AND x.b = 3 AND x.a IS NULL", event)


class TestManyObjects:
    def test_conditions_on_different_arrays_do_not_multiply(self) -> None:
        many = [{"a": number, "b": -number} for number in range(2_000)]
        event = Event.from_dict(dict.fromkeys("tuvwxyz", many))
        condition = " AND ".join(f"{name}.a = 7 AND {name}.b = -7" for name in "tuvwxyz")
        with no_hang():
            assert matches(condition, event)
            assert not matches(condition + " AND t.a = 8", event)

    def test_a_condition_on_too_many_choices_is_unknown(self) -> None:
        many = [{"a": number} for number in range(101)]
        event = {"x": many, "y": many}
        assert matches("x.a + y.a = 3", {"x": many[:90], "y": many[:90]})
        assert not matches("x.a + y.a = 3", event)
        assert not matches("NOT (x.a + y.a = 3)", event)

    def test_objects_that_say_the_same_are_one(self) -> None:
        event = {
            "x": [{"a": 1, "b": number} for number in range(500)],
            "y": [{"a": 2, "b": number} for number in range(500)],
        }
        assert matches("x.a + y.a = 3", event)


def test_only_events_with_objects_in_arrays_are_grouped() -> None:
    assert not isinstance(Event.from_dict({"x": [1, [2]], "y": {"z": [3]}, "w": [{}]}).attributes, Grouped)
    assert isinstance(Event.from_dict({"y": {"z": [{"a": 1}]}}).attributes, Grouped)
