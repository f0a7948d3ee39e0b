"""Trees of publishers: events take shortest paths over all links, each broker gets them once, and flooding agrees."""

from __future__ import annotations

from collections import deque
from random import Random

import pytest

from palio.errors import IllegalCombination
from palio.routing.effects import Effect, Send
from palio.routing.link_states import LinkStates
from palio.routing.messages import LinkState
from palio.simulation import Network, Topology, topologies

PUBLISHER = {"trees": "publisher"}


def distances(topology: Topology, source: int) -> dict[int, int]:
    """The length of the shortest path to every broker."""
    linked: dict[int, list[int]] = {}
    for a, b, _ in topology.links:
        linked.setdefault(a, []).append(b)
        linked.setdefault(b, []).append(a)
    found, waiting = {source: 0}, deque([source])
    while waiting:
        here = waiting.popleft()
        for each in linked.get(here, ()):
            if each not in found:
                found[each] = found[here] + 1
                waiting.append(each)
    return found


@pytest.mark.parametrize(
    ("propagation", "forwarding"),
    [
        ("flooding", "content"),
        ("identity", "content"),
        ("covering", "reuse"),
        ("simple", "bloom"),
        ("merging", "group"),
    ],
)
def test_events_take_a_shortest_path_to_every_subscriber(propagation: str, forwarding: str) -> None:
    for seed in range(4):
        shape = topologies.random_mesh(14, 12, Random(seed))
        net = Network(shape, propagation=propagation, forwarding=forwarding, options=PUBLISHER, seed=seed)
        for broker in range(14):
            net.subscribe(broker, f"x > {broker % 3}")
        net.run()
        for source in range(14):
            net.publish(source, {"x": 9, "source": source})
        net.run()
        assert net.verdict().is_right
        for each in net.deliveries:
            assert each.hops == distances(shape, each.event["source"])[each.at]
        # A tree for each event, and together more links than one tree has.
        assert net.traffic.messages("publish") == 14 * 13
        used = {flow.link for flow in net.traffic if flow.kind == "publish"}
        assert len(used) > len(net.tree_links) == 13
        assert net.traffic.false_positives() == 0


def test_a_ring_carries_events_both_ways_round() -> None:
    ring = Topology(6, tuple((each, (each + 1) % 6, None) for each in range(6)))
    shared, own = Network(ring), Network(ring, options=PUBLISHER)
    for net in (shared, own):
        net.subscribe(3, "TRUE")
        for source in (2, 4):
            net.publish(source, {})
        net.run()
        assert len(net.deliveries) == 2
    assert [each.hops for each in own.deliveries] == [1, 1]
    assert sorted(each.hops for each in shared.deliveries) == [1, 5]  # the link between 3 and 4 is not in the tree


def test_covering_holds_among_the_filters_of_one_broker() -> None:
    net = Network.mesh(5, 3, propagation="covering", options=PUBLISHER)
    broad, narrow = net.subscribe(0, "x > 1"), net.subscribe(0, "x > 5")
    other = net.subscribe(1, "x > 5")
    net.run()
    # The broad filter of broker 0, and the narrow one of broker 1: on the tree of a publisher their ways differ.
    assert net.traffic.messages("subscribe") == 2 * 4
    net.unsubscribe(broad)
    net.publish(4, {"x": 9})
    net.run()
    assert {each.subscription for each in net.deliveries} == {narrow, other}
    assert net.verdict().is_right


def test_trees_follow_links_that_break_and_brokers_that_come() -> None:
    ring = Topology(4, tuple((each, (each + 1) % 4, None) for each in range(4)))
    net = Network(ring, options=PUBLISHER)
    desk = net.subscribe(0, "TRUE")
    net.publish(1, {})
    net.run()
    net.cut((0, 1))
    net.publish(1, {})
    net.run()
    branch = net.add_broker(1, 0)
    net.publish(1, {})
    net.run()
    net.crash(branch)
    net.publish(1, {})
    net.run()
    net.mend((0, 1))
    net.publish(1, {})
    net.run()
    assert [each.hops for each in net.deliveries_of(desk)] == [1, 3, 2, 3, 1]
    assert net.verdict().is_right


def test_a_statement_is_passed_on_once_and_an_older_one_never() -> None:
    effects: list[Effect] = []
    states = LinkStates(1, 1, effects)
    states.on_link_up(1, 2, [])
    newer, older = LinkState(2, 1, 2, (1, 3)), LinkState(2, 1, 1, (1,))
    states.receive(newer, [2, 3])
    states.receive(newer, [2, 3])
    states.receive(older, [2, 3])
    assert effects == [Send((2, 3), newer)]
    assert states.branches(1) == {2: 1}
    # Broker 3 counts when it names the link, too; a later life of a broker outranks all versions of the one before.
    states.receive(LinkState(3, 1, 1, (2,)), [])
    assert states.branches(1) == {2: 1, 3: 1}
    assert states.branches(3) == {}
    states.receive(LinkState(2, 2, 1, (1,)), [])
    assert states.branches(1) == {2: 1}


def test_what_does_not_go_with_trees_of_publishers_is_refused_with_the_reason() -> None:
    with pytest.raises(IllegalCombination, match="every event goes through the root"):
        Network.mesh(3, options={**PUBLISHER, "hierarchy": True})
    with pytest.raises(IllegalCombination, match="take group forwarding"):
        Network.mesh(3, advertisements=True, options=PUBLISHER)
    with pytest.raises(IllegalCombination, match="lacks bits of filters"):
        Network.mesh(3, propagation="covering", forwarding="bloom", options=PUBLISHER)
