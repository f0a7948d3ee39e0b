"""Relation graphs on real subscriptions: no other search finds a forwarded filter covered."""

from __future__ import annotations

from pathlib import Path

from palio.covering.classical.kdtree import KdTreeIndex
from palio.covering.covering_search import CoveringSearch
from palio.covering.relation_graph import FlatGraph
from palio.filters.filter import Filter
from palio.workloads.padres import read_subscriptions, to_sql


def test_the_subscriptions_of_padres(data_folder: Path) -> None:
    """Its covering test has ten thousand subscriptions, half of them equal to another one."""
    texts = read_subscriptions(data_folder / "subscriptions" / "padres_subscriptions_11.9k.tar.xz")
    filters = list(dict.fromkeys(Filter.parse(to_sql(text)) for text in texts[::4]))
    search = CoveringSearch(filters.__getitem__, len(filters), None).covered_by(range(len(filters)))
    expected = {each for each, by in zip(filters, search, strict=True) if by < 0}
    for graph in (FlatGraph(), FlatGraph(index=KdTreeIndex)):
        for each in filters:
            graph.insert(each)
        assert set(graph.forwarded) == expected
        for each in filters[::2]:
            graph.remove(each)
        fresh = FlatGraph()
        for each in filters[1::2]:
            fresh.insert(each)
        assert set(graph.forwarded) == set(fresh.forwarded)
    assert 0 < len(expected) < len(filters)
