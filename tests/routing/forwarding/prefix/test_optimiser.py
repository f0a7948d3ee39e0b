from __future__ import annotations

from itertools import pairwise

from palio.filters.filter import Filter
from palio.routing.forwarding.prefix.comparison import wdiff
from palio.routing.forwarding.prefix.optimiser import TreeOptimiser
from palio.routing.forwarding.prefix.tree_codec import encode_tree
from palio.routing.forwarding.prefix.tree_version import TreeVersion
from tests.routing.forwarding.prefix.trees import conjunctions_of, tree_of


def _filters(count: int) -> list[Filter]:
    return [Filter.parse(f"a{number % 7} > {number} AND b{number % 11} <= {-number}") for number in range(count)]


def _versions(optimiser: TreeOptimiser, wanted: list[Filter]) -> list[TreeVersion]:
    made = []
    for each in wanted:
        optimiser.added(each)
        if (version := optimiser.update()) is not None:
            made.append(version)
    return made


def test_the_first_filter_makes_a_version() -> None:
    optimiser = TreeOptimiser(0.8, 8)
    assert optimiser.update() is None
    assert len(_versions(optimiser, _filters(1))) == 1
    assert optimiser.update() is None


def test_versions_differ_by_more_than_the_threshold_and_become_rarer() -> None:
    wanted = _filters(120)
    counts = []
    for threshold in (0.1, 0.3, 0.8):
        made = _versions(TreeOptimiser(threshold, 8), wanted)
        assert all(wdiff(one, other) > threshold for one, other in pairwise(made))
        counts.append(len(made))
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[-1] >= 1


def test_a_version_is_the_tree_of_the_filters_there_are() -> None:
    wanted = _filters(9)
    optimiser = TreeOptimiser(0, 8)
    last = _versions(optimiser, wanted)[-1]
    assert encode_tree(last) == encode_tree(TreeVersion.of(tree_of(conjunctions_of(wanted)), b""))
    for each in wanted:
        optimiser.removed(each)
    empty = optimiser.update()
    assert empty is not None
    assert len(empty) == 1


def test_filters_that_never_match_make_no_version() -> None:
    optimiser = TreeOptimiser(0, 8)
    optimiser.added(Filter.nothing)
    assert optimiser.update() is None
