"""The worked example of Jerzak's chapter 5 (Table 5.1): six filters, their bits, and the matches of events."""

from __future__ import annotations

from typing import Any

import pytest

from palio.filters.filter import Filter
from palio.filters.tree import And, Leaf
from palio.routing.forwarding.bloom.classical import CountingSbstree, Sbsposet, Skiptree
from palio.routing.forwarding.bloom.digest import union
from tests.routing.forwarding.bloom.structures import STRUCTURES, WIDTH, Structure

BITS = {  # given data: the hash that made them is not
    "x > 5": (6066, 8581),
    "x >= 0.7": (2787, 12518),
    "x > 15": (6441, 10582),
    "y < 5": (5037, 8516),
    "y = 0": (5001, 8507),
    "y > 0": (5102, 8636),
}
FILTERS = {1: ["x > 5"], 2: ["x >= 0.7"], 3: ["x > 15"], 4: ["y < 5"], 5: ["y = 0"], 6: ["x > 15", "y > 0"]}
EVENTS: list[tuple[dict[str, Any], int, set[int]]] = [
    ({"x": 7, "y": -2}, 6, {1, 2, 4}),
    ({"x": 3}, 2, {2}),
    ({"x": 0.7}, 2, {2}),
    ({"x": 15}, 4, {1, 2}),
    ({"x": 20, "y": 3}, 10, {1, 2, 3, 4, 6}),
    ({"x": 16, "y": 7}, 8, {1, 2, 3, 6}),
    ({"y": 0}, 4, {4, 5}),
    ({"z": 1}, 0, set()),
]


def leaf(condition: str) -> Leaf:
    tree = Filter.parse(condition).tree
    assert isinstance(tree, Leaf)
    return tree


@pytest.fixture
def poset() -> Sbsposet:
    made = Sbsposet()
    for conditions in FILTERS.values():
        for condition in conditions:
            made.add(leaf(condition).attribute, leaf(condition).values, BITS[condition])
    return made


def filled(structure: Structure) -> Structure:
    for interface, conditions in FILTERS.items():
        structure.add(interface, f"f{interface}", union(BITS[each] for each in conditions))
    return structure


def test_shared_predicates_are_kept_once(poset: Sbsposet) -> None:
    assert len(poset) == 6
    assert poset.layout()["x", leaf("x > 15").values] == ((6441, 10582), 2)


@pytest.mark.parametrize(
    ("condition", "bits"),
    [
        ("x >= 0.7", {2787, 12518}),
        ("x > 5", {2787, 12518, 6066, 8581}),
        ("x > 15", {2787, 12518, 6066, 8581, 6441, 10582}),
        ("y < 5", {5037, 8516}),
        ("y = 0", {5001, 5037, 8507, 8516}),
        ("y > 0", {5102, 8636}),
    ],
)
def test_a_predicate_has_the_bits_of_those_that_cover_it(poset: Sbsposet, condition: str, bits: set[int]) -> None:
    assert set(poset.bits_at(leaf(condition).attribute, leaf(condition).values)) == bits


@pytest.mark.parametrize(("event", "count", "wanted"), EVENTS)
@pytest.mark.parametrize("name", STRUCTURES)
def test_an_event_finds_who_wants_it(
    poset: Sbsposet, name: str, event: dict[str, Any], count: int, wanted: set[int]
) -> None:
    digest = poset.match(event)
    assert len(digest) == count
    assert filled(STRUCTURES[name]()).match(digest) == wanted


def test_the_digest_of_the_first_event(poset: Sbsposet) -> None:
    assert poset.match({"x": 7, "y": -2}) == (2787, 5037, 6066, 8516, 8581, 12518)


def test_the_event_of_the_worked_example_has_the_digest_of_what_it_satisfies() -> None:
    both = Filter.parse("x > 15 AND y > 0").tree
    assert isinstance(both, And)
    assert [each for each in both.children if isinstance(each, Leaf)] == [leaf("x > 15"), leaf("y > 0")]


def test_who_is_in_which_list_of_the_counting_tree() -> None:
    tree = CountingSbstree()
    filled(tree)
    layout = {bit: {key for (_, key), _ in entries} for bit, entries in tree.layout().items() if bit >= 0}
    assert layout.pop(6441) == layout.pop(10582) == {"f3", "f6"}
    assert all(len(owners) == 1 for owners in layout.values())
    assert len(layout) == 10


def test_a_skiptree_has_fingers_over_128_bits_and_four_times_more_each_level() -> None:
    assert Skiptree(WIDTH).spans == (128, 512, 2048, 8192)
    assert [WIDTH // span for span in Skiptree(WIDTH).spans] == [128, 32, 8, 2]


def test_a_skiptree_fills_a_gap_with_the_largest_fingers_and_no_gap_is_left_out() -> None:
    tree = Skiptree(WIDTH)
    filled(tree)
    assert tree.fingers_within(2788, 12518) == [(4096, 6143), (6144, 8191), (8192, 10239), (10240, 12287)]
    assert tree.fingers_within(2688, 2816) == [(2688, 2815)]
    assert tree.match((2787, 12518)) == {2}
    for bit in (0, WIDTH - 1):  # before the first bit of the event, and after its last
        tree.add(7, "edge", (bit,))
        assert 7 not in tree.match((2787, 12518))
        tree.remove(7, "edge", (bit,))
