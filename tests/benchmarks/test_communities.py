"""The benchmark of semantic communities: a row for each overlay and size, and what holds of them at any size."""

from __future__ import annotations

import communities
import pytest


def test_no_tree_misses_anything_and_fewer_links_bring_less_in_vain() -> None:
    rows = {name: communities.measure(name, claim, choices, 80, 6) for name, claim, choices in communities.CHOICES}
    assert all(rows[name].false_negatives == 0 for name in rows if name.startswith("tree"))
    assert rows["graph, ρ = 0"].false_positives < rows["graph, n = 10"].false_positives
    assert rows["graph, n = 5"].degree < rows["graph, n = 10"].degree
    assert all(0 < row.interested < 1 for row in rows.values())
    assert rows["tree, basic"].probed < rows["tree, full"].probed


def test_a_power_is_fitted_to_sizes() -> None:
    row = communities.measure(*communities.CHOICES[2], 20, 2)
    sizes = [
        communities.Row(**{**vars(row), "peers": peers, "messages": 3.0 * peers**0.5}) for peers in (10, 100, 1000)
    ]
    assert communities.exponent(sizes, "messages") == pytest.approx(0.5)
    assert communities.exponent(sizes[:1], "messages") is None
