"""Measures of the sources in a network: what each forwarding reads, looks up, sends and updates."""

from __future__ import annotations

from typing import Any

import pytest

from palio.routing.forwarding.group import GroupHeader
from palio.routing.forwarding.headers import encode
from palio.routing.measures import Measures
from palio.simulation import Bloom, Group, Network, Prefix, Reuse


def measured(forwarding: Any, **choices: Any) -> Measures:
    """The measures of one event that goes over three links to its only subscriber."""
    net = Network.line(4, forwarding=forwarding, **choices)
    net.subscribe(0, "x > 1")
    net.run()
    before = net.measures
    net.publish(3, {"x": 2})
    net.run()
    assert len(net.deliveries) == 1
    return net.measures - before


def test_content_is_read_at_every_broker_or_at_both_ends() -> None:
    assert measured("content") == Measures(content_reads=4)
    assert measured(Group()) == Measures(content_reads=2, header_bytes=3 * len(encode(GroupHeader((0,)))))


def test_keys_are_looked_up_where_they_are_reused() -> None:
    # A byte for the kind of the header, one for its completeness, eight for the key; the last broker delivers by key.
    assert measured(Reuse(mode="always")) == Measures(content_reads=1, lookups=3, header_bytes=3 * (1 + 1 + 8))
    assert measured(Reuse(mode="never")) == Measures(content_reads=4)


def test_trees_that_brokers_build_are_counted() -> None:
    counted = measured(Prefix(patience=0))
    assert (counted.tree_updates, counted.lookups) == (4, 0)
    assert counted.header_bytes > 0


@pytest.mark.parametrize("width", [64, 65_536])
def test_false_positives_of_short_digests_are_counted(width: int) -> None:
    net = Network.line(2, forwarding=Bloom(m=width, k=1))
    for number in range(60):
        net.subscribe(0, f"x = {number} AND y = {number}")
    net.subscribe(1, "TRUE")
    for number in range(60):
        net.publish(1, {"x": number, "y": 59 - number})
    net.run()
    assert net.verdict().is_right
    assert (net.measures.false_positives > 0) is (width == 64)
    assert net.measures.false_positives == net.traffic.false_positives()
