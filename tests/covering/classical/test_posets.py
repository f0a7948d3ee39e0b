"""Siena poset and forest: the transitive reduction of covering, the forest invariants, and matching by descent."""

from __future__ import annotations

from collections.abc import Iterable

from hypothesis import given

from palio.covering.classical.posets import ForestMatcher, PosetForest, PosetMatcher, SienaPoset
from palio.filters.filter import Filter
from tests.covering.graph_suite import Step, apply, box, histories, live_after, stands_above


def live(steps: Iterable[Step]) -> set[Filter]:
    return {each for each in live_after(list(steps)) if each != Filter.nothing}


@given(histories())
def test_nothing_stands_between_parents_and_children_of_the_poset(steps: list[Step]) -> None:
    poset = SienaPoset()
    for step in steps:
        apply(poset, step)
    filters = live(steps)
    for wide in filters:
        below = {each for each in filters if stands_above(wide, each)}
        immediate = {each for each in below if not any(stands_above(other, each) for other in below)}
        assert set(poset.children_of(wide)) == immediate


@given(histories())
def test_a_poset_of_many_filters_is_the_one_that_they_make_one_by_one(steps: list[Step]) -> None:
    filters = [step.filter for step in steps]
    one_by_one, together = SienaPoset(), SienaPoset.of(filters)
    for each in filters:
        one_by_one.insert(each)
    assert list(together.forwarded) == [each for each in dict.fromkeys(filters) if each in one_by_one.forwarded]
    for each in set(filters) - {Filter.nothing}:
        assert set(together.children_of(each)) == set(one_by_one.children_of(each))
    for each in filters:  # what comes and goes later finds them alike
        removed = together.remove(each), one_by_one.remove(each)
        assert removed[0] == removed[1]


@given(histories())
def test_parents_in_the_forest_cover_their_children_and_siblings_do_not_cover_each_other(steps: list[Step]) -> None:
    forest = PosetForest()
    for step in steps:
        apply(forest, step)
    filters = live(steps)
    siblings: dict[Filter | None, list[Filter]] = {}
    for each in filters:
        parent = forest.parent_of(each)
        assert parent is None or stands_above(parent, each)
        assert (parent is None) == (each in forest.forwarded)
        siblings.setdefault(parent, []).append(each)
    for each in siblings.values():
        assert not any(stands_above(one, other) for one in each for other in each)


def test_a_filter_that_goes_leaves_its_place_to_those_below_it() -> None:
    poset, forest = SienaPoset(), PosetForest()
    a, b, c, d = box((0, 9)), box((1, 8)), box((2, 7)), box((3, 4))
    for each in (a, b, c, d):
        poset.insert(each)
        forest.insert(each)
    for graph in (poset, forest):
        graph.remove(b)
        graph.remove(c)
    assert poset.children_of(a) == [d]
    assert forest.parent_of(d) == a


def test_what_stands_below_a_filter_that_does_not_match_is_not_asked() -> None:
    for matcher in (PosetMatcher(), ForestMatcher()):
        for number in range(100):
            matcher.add(str(number), f"x > {number}")
        matcher.add("other", "y > 5")
        assert matcher.match({"x": 3}) == {"0", "1", "2"}
        assert matcher.graph.questions == 5  # those three, the first that does not match, the other root


def test_a_chain_of_thousands_is_no_recursion() -> None:
    for graph in (SienaPoset(), PosetForest()):
        filters = [Filter.parse(f"x > {number}") for number in range(2_000, 0, -1)]
        for each in filters:
            graph.insert(each)
        assert list(graph.forwarded) == [filters[-1]]
        assert len(list(graph.matching({"x": 1_500}))) == 1_499
