from __future__ import annotations

from typing import Any

import pytest

from palio.errors import InvalidArgument
from palio.filters.filter import Filter
from palio.routing.forwarding.prefix.optimiser_client import OptimiserClient
from palio.routing.forwarding.prefix.tree_codec import decode_tree
from palio.routing.messages import Report
from palio.routing.reports import TREES

FILTERS = [(bytes([number]), Filter.parse(f"x{number} > {number}")) for number in range(6)]


def test_it_begins_with_a_tree_without_conditions() -> None:
    first = OptimiserClient({}, first=5).announcement()
    assert (first.topic, first.version, len(decode_tree(first.data))) == (TREES, 5, 1)


def test_reports_make_trees_of_growing_versions() -> None:
    client = OptimiserClient({"threshold": 0})
    client.announcement()
    one = client.reported(Report(1, True, tuple(FILTERS[:2]), ()))
    assert one is not None
    two = client.reported(Report(2, False, tuple(FILTERS[2:3]), ()))
    assert two is not None
    assert (one.version, len(decode_tree(one.data)), two.version, len(decode_tree(two.data))) == (2, 3, 3, 4)
    again = client.announcement()
    assert (again.version, again.data) == (4, two.data)


def test_saying_the_same_again_changes_nothing() -> None:
    client = OptimiserClient({"threshold": 0})
    client.reported(Report(1, True, tuple(FILTERS), ()))
    assert client.reported(Report(1, True, tuple(FILTERS), ())) is None
    assert client.reported(Report(1, False, tuple(FILTERS[:1]), ())) is None
    assert client.reported(Report(1, False, (), (b"unknown",))) is None


def test_what_a_broker_reports_anew_replaces_what_it_said_before_and_nobody_elses() -> None:
    client = OptimiserClient({"threshold": 0})
    client.reported(Report(1, True, tuple(FILTERS[:3]), ()))
    client.reported(Report(2, True, tuple(FILTERS[:1]), ()))
    made = client.reported(Report(1, True, tuple(FILTERS[3:4]), ()))
    assert made is not None
    assert {leaf.attribute for leaf in decode_tree(made.data).conditions} == {"x0", "x3"}
    made = client.reported(Report(2, False, (), (FILTERS[0][0],)))
    assert made is not None
    assert {leaf.attribute for leaf in decode_tree(made.data).conditions} == {"x3"}


@pytest.mark.parametrize("threshold", [-0.1, 1, "much"])
def test_a_threshold_is_a_share(threshold: Any) -> None:
    with pytest.raises(InvalidArgument, match="threshold"):
        OptimiserClient({"threshold": threshold})
