"""Tests of array choice: bounded work, exact below the limit, NULL above it; objects chosen as a whole."""

from __future__ import annotations

import pickle
import time
from collections.abc import Callable
from itertools import pairwise, product
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import Matcher
from palio.events import Event
from palio.events.nested_content import GroupedAttributes
from palio.filters import array_choice
from palio.filters.array_choice import MAX_CHOICES
from palio.filters.expressions.value_comparison import COMPARATORS, OPPOSITES, Elements, comparison, some_pair
from palio.filters.filter import Filter
from palio.matching.classical.brute_force import BruteForceMatcher
from palio.matching.classical.counting import CountingMatcher
from palio.matching.classical.kdtree import KdTreeMatcher
from palio.matching.columnar import event_codes, segment_encoder
from tests.hangs import no_hang
from tests.nested_events import NAMES, nested_events, readings
from tests.strategies import attributes, readable_conditions, scalars

parse = Filter.parse
ZONES = ["UTC", "Asia/Tokyo", "America/New_York"]


class TestTwoAttributesCompared:
    @given(
        st.lists(scalars(), min_size=1, max_size=4),
        st.lists(scalars(), min_size=1, max_size=4),
        st.sampled_from(list(COMPARATORS)),
        st.sampled_from(ZONES),
    )
    def test_some_pair_is_found_exactly_where_one_is(
        self, left: list[Any], right: list[Any], name: str, zone: str
    ) -> None:
        compare = comparison(name, zone)
        answers = [compare(a, b) for a, b in product(left, right) if a is not None and b is not None]
        assert some_pair(name, Elements(left, zone), Elements(right, zone)) is (True in answers)
        assert some_pair(OPPOSITES[name], Elements(left, zone), Elements(right, zone)) is (False in answers)

    @pytest.mark.parametrize("operator", list(COMPARATORS))
    @pytest.mark.parametrize("written", ["a {} b", "NOT (a {} b)"])
    def test_long_arrays_are_compared_without_trying_every_pair(self, operator: str, written: str) -> None:
        wanted = parse(written.format(operator))
        many = list(range(50_000))
        assert wanted.matches({"a": many, "b": many})
        assert wanted.matches({"a": [*many, 7.5], "b": [*many, "x", None]})
        assert not wanted.matches({"a": many, "b": ["x", None, True]})


def seconds(work: Callable[[], object]) -> float:
    start = time.process_time()
    work()
    return time.process_time() - start


class TestWorkIsBounded:
    @pytest.mark.parametrize(
        ("condition", "event"),
        [
            ("bid < ask", {"bid": list(range(999)), "ask": [-each for each in range(999)]}),
            ("a + b + c + d > 100000", {name: list(range(31)) for name in "abcd"}),
            ("a + b > 100000 AND a - b > 5 AND a * b > 3", {name: list(range(5_000)) for name in "ab"}),
            ("a < b AND b < c AND c < a", {name: list(range(20)) for name in "abc"}),
            ("a0 < b0 AND a1 < b1 AND a2 < b2", {name + at: [1] * 10 for name in "ab" for at in "012"}),
            (
                " AND ".join(f"(x{n} = 1 OR x{(n * 7 + 3) % 40} = 2 OR x{(n * 11 + 5) % 40} = 3)" for n in range(40)),
                {f"x{at}": [1, 2, 4] for at in range(40)},
            ),
        ],
    )  # fmt: skip
    def test_a_small_event_costs_no_second(self, condition: str, event: dict[str, Any]) -> None:
        wanted = parse(condition)
        wanted.matches({})
        assert seconds(lambda: wanted.matches(event)) < 1
        assert seconds(lambda: wanted.explain(event)) < 2

    def test_a_tree_of_two_hundred_levels_is_judged_without_ending_the_stack(self) -> None:
        condition = "x0 = 0"
        for level in range(1, 90):
            condition = f"(x{level % 9} = {level} OR y > {level} AND ({condition}) AND z = {level})"
        wanted = parse(condition)
        assert (
            wanted.matches({**{f"x{at}": [at, 100] for at in range(9)}, "y": [1, 200], "z": list(range(95))}) is False
        )
        assert wanted.matches({"x8": [89, 1]})

    def test_arrays_of_one_value_are_no_choice(self) -> None:
        names = [f"x{at}" for at in range(400)]
        wanted = parse(" AND ".join(f"{one} < {two}" for one, two in pairwise(names)))
        assert wanted.matches({name: [at] for at, name in enumerate(names)})


class TestTheLimit:
    def test_below_it_every_choice_is_tried_and_above_it_the_condition_is_null(self) -> None:
        wanted, otherwise = parse("a + b = 198"), ~parse("a + b = 198")
        most = {"a": list(range(100)), "b": list(range(100))}
        assert MAX_CHOICES == 100 * 100
        assert wanted.matches(most)
        assert otherwise.matches(most)
        more = {**most, "b": list(range(101))}
        assert not wanted.matches(more)
        assert not otherwise.matches(more)

    def test_elements_that_nothing_tells_apart_count_once(self) -> None:
        assert parse("a + b = 2").matches({"a": [1] * 1_000, "b": [0, 1] * 500})
        two_of_each = parse("(a > 5 OR b > 5) AND (a < 3 OR b < 3) AND (a = 4 OR b <> 4)")
        assert two_of_each.matches({"a": list(range(1_000)), "b": list(range(1_000))})

    def test_a_condition_on_one_attribute_leaves_what_is_chosen_among(self) -> None:
        assert parse("a = 7 AND a + b = 9 AND b < 5").matches({"a": list(range(1_000)), "b": list(range(1_000))})

    def test_it_is_counted_for_each_group_of_conditions_that_share_an_array(self) -> None:
        event = {name: list(range(90)) for name in "abcd"}
        assert parse("a + b = 178 AND c + d = 178").matches(event)
        assert parse("a + b = 178 OR a + b + c = 0").matches(event)
        assert parse("a + b = 178 AND b + c = 178").matches(event)
        assert not parse("a + b = 178 AND b + c = 178 AND a + c = 178").matches(event)

    def test_nobody_else_loses_the_event(self) -> None:
        event = {"symbol": "A", "a": list(range(500)), "b": list(range(500)), "c": 1}
        wants = Matcher()
        wants.add_many(["sum", "other", "one", "a"], ["a + b = 3", "symbol = 'A'", "c = 1", "a = 499 AND b = 1"])
        for _ in range(2):
            assert wants.match(event) == {"other", "one", "a"}
            batch = wants.match_batch(pa.Table.from_pylist([event, {"symbol": "A"}]))
            assert sorted(zip(*batch.to_pydict().values(), strict=True)) == [
                (0, "a"), (0, "one"), (0, "other"), (1, "other"),
            ]  # fmt: skip
            wants.merge()


def test_every_matcher_says_what_the_filter_says_on_either_side_of_the_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    # With a limit of a few choices small events are on both sides of it.
    monkeypatch.setattr(array_choice, "MAX_CHOICES", 2)
    monkeypatch.setattr(segment_encoder, "MAX_CHOICES", 2)
    monkeypatch.setattr(event_codes, "MAX_CHOICES", 2)
    # The last has more than 16 conjunctions, so that the index holds it as a program.
    often = [
        "a < b AND b <= c AND a <> c",
        "(a IS NULL OR b > 1) AND (a > 0 OR c < 2) AND (a < 5 OR b < 0 OR c IS NULL) AND (b <> 0 OR c <> 1 OR a <> 1)",
    ]
    limited = 0

    several = st.lists(st.integers(0, 6), min_size=1, max_size=4).map(tuple)
    numbers = st.fixed_dictionaries({name: several | st.integers(0, 6) for name in "abc"})

    @given(st.lists(readable_conditions(), max_size=4), st.lists(attributes() | numbers, min_size=1, max_size=4))
    def check(conditions: list[str], events: list[dict[str, Any]]) -> None:
        nonlocal limited
        found = dict(zip(map(str, range(9)), map(parse, often + conditions), strict=False))
        columnar = Matcher()
        columnar.add_many(list(found), list(found.values()))
        columnar.merge()
        matchers: list[Any] = [columnar, BruteForceMatcher(), CountingMatcher(), KdTreeMatcher()]
        for matcher in matchers[1:]:
            for name, wanted in found.items():
                matcher.add(name, wanted)
        for event in events:
            expected = {name for name, wanted in found.items() if wanted.matches_attributes(event)}
            with pytest.MonkeyPatch.context() as lifted:
                lifted.setattr(array_choice, "MAX_CHOICES", 10_000)
                exact = {name for name, wanted in found.items() if wanted.matches_attributes(event)}
            assert expected <= exact
            limited += expected < exact
            for matcher in matchers:
                assert matcher.match(_event(event)) == expected

    check()
    assert limited


def _event(attributes: dict[str, Any]) -> Any:
    from palio.events import Event

    return Event(attributes)


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
    assert not isinstance(Event.from_dict({"x": [1, [2]], "y": {"z": [3]}, "w": [{}]}).attributes, GroupedAttributes)
    assert isinstance(Event.from_dict({"y": {"z": [{"a": 1}]}}).attributes, GroupedAttributes)
