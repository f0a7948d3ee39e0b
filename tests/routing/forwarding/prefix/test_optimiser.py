"""Tree optimiser: it announces a version when the tree has changed enough, from the reports of brokers."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest

from palio.errors import InvalidArgument
from palio.filters.filter import Filter
from palio.routing.announcements import ROUTING_TREES_TOPIC
from palio.routing.forwarding.prefix.optimiser import OptimiserClient, TreeOptimiser, wdiff
from palio.routing.forwarding.prefix.tree_version import TreeVersion, decode_tree, encode_tree
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
        optimiser.remove(each)
    empty = optimiser.update()
    assert empty is not None
    assert len(empty) == 1


def test_filters_that_never_match_make_no_version() -> None:
    optimiser = TreeOptimiser(0, 8)
    optimiser.add(Filter.nothing)
    assert optimiser.update() is None


FILTERS = [(bytes([number]), Filter.parse(f"x{number} > {number}")) for number in range(6)]


def test_it_begins_with_a_tree_without_conditions() -> None:
    first = OptimiserClient({}, first=5).announcement()
    assert (first.topic, first.version, len(decode_tree(first.data))) == (ROUTING_TREES_TOPIC, 5, 1)


def test_reports_make_trees_of_growing_versions() -> None:
    client = OptimiserClient({"threshold": 0})
    client.announcement()
    one = client.on_report(Report(1, True, tuple(FILTERS[:2]), ()))
    assert one is not None
    two = client.on_report(Report(2, False, tuple(FILTERS[2:3]), ()))
    assert two is not None
    assert (one.version, len(decode_tree(one.data)), two.version, len(decode_tree(two.data))) == (2, 3, 3, 4)
    again = client.announcement()
    assert (again.version, again.data) == (4, two.data)


def test_saying_the_same_again_changes_nothing() -> None:
    client = OptimiserClient({"threshold": 0})
    client.on_report(Report(1, True, tuple(FILTERS), ()))
    assert client.on_report(Report(1, True, tuple(FILTERS), ())) is None
    assert client.on_report(Report(1, False, tuple(FILTERS[:1]), ())) is None
    assert client.on_report(Report(1, False, (), (b"unknown",))) is None


def test_what_a_broker_reports_anew_replaces_what_it_said_before_and_nobody_elses() -> None:
    client = OptimiserClient({"threshold": 0})
    client.on_report(Report(1, True, tuple(FILTERS[:3]), ()))
    client.on_report(Report(2, True, tuple(FILTERS[:1]), ()))
    made = client.on_report(Report(1, True, tuple(FILTERS[3:4]), ()))
    assert made is not None
    assert {leaf.attribute for leaf in decode_tree(made.data).conditions} == {"x0", "x3"}
    made = client.on_report(Report(2, False, (), (FILTERS[0][0],)))
    assert made is not None
    assert {leaf.attribute for leaf in decode_tree(made.data).conditions} == {"x3"}


@pytest.mark.parametrize("threshold", [-0.1, 1, "much"])
def test_a_threshold_is_a_share(threshold: Any) -> None:
    with pytest.raises(InvalidArgument, match="threshold"):
        OptimiserClient({"threshold": threshold})
