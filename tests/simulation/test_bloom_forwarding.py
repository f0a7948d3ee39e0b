"""Bloom forwarding in whole networks: narrow digests send events too far, and deliver none wrongly."""

from __future__ import annotations

from typing import Any

import pytest

from palio.simulation import Network


def after_many_events(options: dict[str, Any]) -> Network:
    net = Network.tree(13, propagation="identity", forwarding="bloom", options=options)
    for at in range(13):
        net.subscribe(at, f"x = {at} AND y > {at}")
    for x in range(26):
        net.publish(at=x % 13, event={"x": x % 13, "y": x})
    net.run()
    assert net.verdict().is_right, str(net.verdict())
    return net


def test_what_goes_too_far_is_counted_where_it_ends() -> None:
    assert after_many_events({"m": 16, "k": 1}).drops["no subscription matches here"] > 0
    assert after_many_events({}).drops == {}


@pytest.mark.parametrize("options", [{"m": 16, "k": 1}, {"m": 1 << 18}, {"rate": 1e-3, "satisfied": 20, "key": "ours"}])
def test_every_shape_delivers_the_same(options: dict[str, Any]) -> None:
    def delivered(net: Network) -> set[Any]:
        return {(each.subscription.at, each.event.get("x"), each.event.get("y")) for each in net.deliveries}

    assert delivered(after_many_events(options)) == delivered(after_many_events({}))
