"""Is the work for an event with arrays bounded, exact below the bound, and NULL above it, whoever is asked?"""

from __future__ import annotations

import time
from collections.abc import Callable
from itertools import pairwise, product
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import Matcher
from palio.filters import choosing
from palio.filters.choosing import MOST_CHOICES
from palio.filters.expressions.comparison import COMPARISONS, comparison
from palio.filters.expressions.pairs import OPPOSITES, Elements, some_pair
from palio.filters.filter import Filter
from palio.matching.brute_force import BruteForceMatcher
from palio.matching.columnar import segment
from palio.matching.counting import CountingMatcher
from palio.matching.kdtree import KdTreeMatcher
from tests.strategies import attributes, readable_conditions, scalars

parse = Filter.parse
ZONES = ["UTC", "Asia/Tokyo", "America/New_York"]


class TestTwoAttributesCompared:
    @given(
        st.lists(scalars(), min_size=1, max_size=4),
        st.lists(scalars(), min_size=1, max_size=4),
        st.sampled_from(list(COMPARISONS)),
        st.sampled_from(ZONES),
    )
    def test_some_pair_is_found_exactly_where_one_is(
        self, left: list[Any], right: list[Any], name: str, zone: str
    ) -> None:
        compare = comparison(name, zone)
        answers = [compare(a, b) for a, b in product(left, right) if a is not None and b is not None]
        assert some_pair(name, Elements(left, zone), Elements(right, zone)) is (True in answers)
        assert some_pair(OPPOSITES[name], Elements(left, zone), Elements(right, zone)) is (False in answers)

    @pytest.mark.parametrize("operator", list(COMPARISONS))
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
        assert MOST_CHOICES == 100 * 100
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
    monkeypatch.setattr(choosing, "MOST_CHOICES", 2)
    monkeypatch.setattr(segment, "MOST_CHOICES", 2)
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
                lifted.setattr(choosing, "MOST_CHOICES", 10_000)
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
