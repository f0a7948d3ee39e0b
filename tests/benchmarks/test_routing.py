"""Routing: every part runs small, and what it compares agrees."""

from __future__ import annotations

import pytest
import routing
import routing_bloom
import routing_prefix
import routing_reuse
from harness import hops


def test_the_front_door_names_its_parts(capsys: pytest.CaptureFixture[str]) -> None:
    assert routing.main([]) == 0
    assert {"bloom", "prefix", "reuse"} <= set(routing.parts())
    assert "Parts: " in capsys.readouterr().out
    assert routing.main(["nothing"]) == 2


def test_every_way_to_the_links_of_an_event_agrees(capsys: pytest.CaptureFixture[str]) -> None:
    rows = routing_bloom.measure(60, events=20, poset_up_to=60)
    assert {row.way for row in rows} >= {hops.POSET, hops.COLUMNAR, "sbstree", "digest: batches"}
    assert all(row.operations is not None for row in rows if "columnar" not in row.way)
    hops.show(rows)
    assert "Siena poset" in capsys.readouterr().out


def test_every_way_along_a_forwarding_tree_agrees() -> None:
    rows = routing_prefix.measure(60, events=20, poset_up_to=60)
    assert {row.way for row in rows} >= {hops.POSET, hops.COLUMNAR, routing_prefix.HEADER}
    assert all(row.operations is not None for row in rows if "columnar" not in row.way)
    by_way = {row.way: row for row in rows}
    assert by_way[routing_prefix.HEADER].false_links == 0


def test_every_mode_of_reuse_delivers_the_same_with_fewer_looks(capsys: pytest.CaptureFixture[str]) -> None:
    assert routing.main("reuse --densities 0.1 --routers 7 --subscriptions 70 --events 14 --rounds 1".split()) == 0
    assert "partial:20" in capsys.readouterr().out
    never, partial, always = routing_reuse.measure(0.1, ["never", "partial:2", "always"], 7, 70, 14, 1, "uniform")
    assert always.looks < partial.looks < never.looks
    assert never.lookups == 0 < partial.lookups
