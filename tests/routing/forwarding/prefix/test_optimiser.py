"""Tree optimiser: it announces a version when the tree has changed enough, from the reports of brokers."""

from __future__ import annotations

from itertools import pairwise

from palio.filters.filter import Filter
from palio.routing.forwarding.prefix.optimiser import TreeOptimiser, wdiff
from palio.routing.forwarding.prefix.tree_version import TreeVersion, encode_tree
from palio.routing.messages import Report
from tests.routing.forwarding.prefix.trees import conjunctions_of, tree_of


def _filters(count: int) -> list[Filter]:
    return [Filter.parse(f"a{number % 7} > {number} AND b{number % 11} <= {-number}") for number in range(count)]


def _versions(optimiser: TreeOptimiser, wanted: list[Filter]) -> list[TreeVersion]:
    made = []
    for each in wanted:
        optimiser.add(each)
        if (version := optimiser.update()) is not None:
            made.append(version)
    return made


def test_the_first_filter_makes_a_version() -> None:
    optimiser = TreeOptimiser(0.8)
    assert optimiser.update() is None
    assert len(_versions(optimiser, _filters(1))) == 1
    assert optimiser.update() is None


def test_versions_differ_by_more_than_the_threshold_and_become_rarer() -> None:
    wanted = _filters(120)
    counts = []
    for threshold in (0.1, 0.3, 0.8):
        made = _versions(TreeOptimiser(threshold), wanted)
        assert all(wdiff(one, other) > threshold for one, other in pairwise(made))
        counts.append(len(made))
    assert counts == sorted(counts, reverse=True)
    assert counts[0] > counts[-1] >= 1


def test_a_version_is_the_tree_of_the_filters_there_are() -> None:
    wanted = _filters(9)
    optimiser = TreeOptimiser(0)
    last = _versions(optimiser, wanted)[-1]
    assert encode_tree(last) == encode_tree(TreeVersion.of(tree_of(conjunctions_of(wanted)), b""))
    for each in wanted:
        optimiser.remove(each)
    empty = optimiser.update()
    assert empty is not None
    assert len(empty) == 1


def test_filters_that_never_match_make_no_version() -> None:
    optimiser = TreeOptimiser(0)
    optimiser.add(Filter.nothing)
    assert optimiser.update() is None


FILTERS = [(bytes([number]), Filter.parse(f"x{number} > {number}")) for number in range(6)]


def _attributes(version: TreeVersion | None) -> set[str]:
    assert version is not None
    return {leaf.attribute for leaf in version.conditions}


def test_reports_make_trees() -> None:
    optimiser = TreeOptimiser(0)
    optimiser.on_report(Report(1, True, tuple(FILTERS[:2]), ()))
    assert _attributes(optimiser.update()) == {"x0", "x1"}
    optimiser.on_report(Report(2, False, tuple(FILTERS[2:3]), ()))
    assert _attributes(optimiser.update()) == {"x0", "x1", "x2"}


def test_saying_the_same_again_changes_nothing() -> None:
    optimiser = TreeOptimiser(0)
    optimiser.on_report(Report(1, True, tuple(FILTERS), ()))
    assert optimiser.update() is not None
    optimiser.on_report(Report(1, True, tuple(FILTERS), ()))
    optimiser.on_report(Report(1, False, tuple(FILTERS[:1]), ()))
    optimiser.on_report(Report(1, False, (), (b"unknown",)))
    assert optimiser.refresh() is None


def test_what_a_broker_reports_anew_replaces_what_it_said_before_and_nobody_elses() -> None:
    optimiser = TreeOptimiser(0)
    optimiser.on_report(Report(1, True, tuple(FILTERS[:3]), ()))
    optimiser.on_report(Report(2, True, tuple(FILTERS[:1]), ()))
    optimiser.on_report(Report(1, True, tuple(FILTERS[3:4]), ()))
    assert _attributes(optimiser.update()) == {"x0", "x3"}
    optimiser.on_report(Report(2, False, (), (FILTERS[0][0],)))
    assert _attributes(optimiser.update()) == {"x3"}


def test_an_optimiser_that_takes_over_announces_what_differs_from_the_tree_in_use() -> None:
    before = TreeOptimiser(0)
    before.on_report(Report(1, True, tuple(FILTERS), ()))
    in_use = before.update()
    optimiser = TreeOptimiser(0.3, in_use)
    optimiser.on_report(Report(1, True, tuple(FILTERS), ()))
    assert optimiser.update() is None
    optimiser.on_report(Report(1, False, (), (FILTERS[0][0],)))
    assert optimiser.update() is None
    assert _attributes(optimiser.refresh()) == {"x1", "x2", "x3", "x4", "x5"}
