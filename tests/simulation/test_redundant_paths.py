"""Redundant paths: no event is lost when one broker or one link fails, and none is delivered twice."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from palio import IllegalCombination
from palio.errors import WireError
from palio.routing.combinations import Combination
from palio.routing.upkeep.redundant import WaysHeader
from palio.routing.upkeep.redundant_trees import redundant_trees
from palio.simulation import Network, Topology
from palio.simulation.topologies import random_mesh
from tests.simulation.scenarios import FAULTY_LINKS, condition, event
from tests.simulation.test_durable_delivery import KeptScenario
from tests.simulation.test_recovery import assert_right

PROPAGATIONS = ("simple", "identity", "covering", "merging")
REDUNDANT: dict[str, Any] = {"forwarding": "group", "paths": "redundant"}
every_propagation = pytest.mark.parametrize(
    ("propagation", "advertisements"), [(each, told) for each in PROPAGATIONS for told in (False, True)]
)


def judged(propagation: str, advertisements: bool, seed: int, operations: int = 40) -> None:
    choices: dict[str, Any] = {
        **REDUNDANT,
        "propagation": propagation,
        "advertisements": advertisements,
        "crash_log": "recover" if seed % 3 == 2 else "none",
        "options": {"trees": "publisher", "circles": True, **(FAULTY_LINKS if seed % 2 else {})},
    }
    assert_right(KeptScenario(seed, choices, circles=True).run(operations), f"seed {seed}")


@every_propagation
def test_what_is_delivered_is_what_flooding_delivers_whatever_breaks(propagation: str, advertisements: bool) -> None:
    for seed in range(12):
        judged(propagation, advertisements, seed)


@pytest.mark.deep
@every_propagation
def test_hundreds_of_seeds(propagation: str, advertisements: bool) -> None:
    for seed in range(3000, 3300):
        judged(propagation, advertisements, seed, operations=60)


def biconnected(random: Random) -> Topology:
    """A random network that no single broker divides."""
    while True:
        brokers = random.randrange(4, 12)
        mesh = random_mesh(brokers, random.randrange(brokers), random)
        graph: dict[int, set[int]] = {each: set() for each in range(brokers)}
        for a, b, _ in mesh.links:
            graph[a].add(b)
            graph[b].add(a)
        both = redundant_trees(0, graph.__getitem__)
        if all(
            len({*way(both.first, each), *way(both.second, each)})
            == len(way(both.first, each)) + len(way(both.second, each))
            for each in range(1, brokers)
        ) and all(len(each) > 1 for each in graph.values()):
            return mesh


def way(parents: dict[int, int], node: int) -> list[int]:
    """The brokers between one and broker 0."""
    found = []
    while parents[node]:
        node = parents[node]
        found.append(node)
    return found


def lose_one(seed: int, propagation: str) -> int:
    """Publish everywhere all the time while one broker crashes or one link breaks; how many deliveries there were.

    Every event that a broker accepted which stayed must come to every subscription of a broker that stayed, once.
    """
    random = Random(seed)
    topology = biconnected(random)
    brokers = topology.brokers
    net = Network(
        topology,
        propagation=propagation,
        seed=seed,
        **REDUNDANT,
        options={"trees": "publisher", "jitter": 0.01 * (seed % 2)},
    )
    wanted = [net.subscribe(random.randrange(brokers), condition(random)) for _ in range(15)]
    net.run()
    lost = random.randrange(brokers) if random.random() < 0.7 else None
    published = []
    for step in range(40):
        if step == 10 and lost is not None:
            net.crash(lost, after=random.randrange(3))
        elif step == 10:
            net.cut(random.choice(net.links))
        if step == 12 and lost is not None and net.is_running(lost):
            net.crash(lost)
        at = random.choice([each for each in range(brokers) if each != lost])
        published.append(net.publish(at, event(random), settled=False))
        net.run(random.random() * 0.012)
    net.run()
    found = [(each.subscription, each.event.id) for each in net.deliveries if each.subscription.at != lost]
    assert len(set(found)) == len(found), f"seed {seed}: delivered twice"
    due = {(each, one.id) for each in wanted if each.at != lost for one in published if each.wanted.matches(one)}
    assert set(found) == due, f"seed {seed}: {len(due - set(found))} lost"
    return len(due)


@pytest.mark.parametrize("propagation", PROPAGATIONS)
def test_the_loss_of_one_broker_or_link_loses_no_event(propagation: str) -> None:
    """Property L-P6, of two ways."""
    assert sum(lose_one(seed, propagation) for seed in range(20)) > 1_000


@pytest.mark.deep
@pytest.mark.parametrize("propagation", PROPAGATIONS)
def test_the_loss_of_one_broker_or_link_loses_no_event_in_a_thousand_runs(propagation: str) -> None:
    for seed in range(1_000, 2_000):
        lose_one(seed, propagation)


#      0 = R, with the ways R–A1–C and R–B1–B2–C; a publisher is at C
R, A1, B1, B2, C = range(5)
TWO_WAYS = Topology(5, tuple((a, b, None) for a, b in ((R, A1), (A1, C), (R, B1), (B1, B2), (B2, C))))


def test_an_event_arrives_once_by_either_of_two_ways() -> None:
    """Vector RP-1: A1 has a filter that covers that of R; B1 crashes."""
    for crashed in (None, A1, B1, B2):
        net = Network(TWO_WAYS, propagation="covering", **REDUNDANT, options={"trees": "publisher"})
        covering, covered = net.subscribe(A1, "x > 1"), net.subscribe(R, "x > 5")
        net.run()
        if crashed is not None:
            net.crash(crashed)
        net.publish(C, {"x": 9}, settled=False)
        net.run()
        expected = [covered] if crashed == A1 else [covering, covered]
        assert sorted((each.subscription for each in net.deliveries), key=lambda each: each.number) == expected


def test_each_event_goes_twice_and_no_more() -> None:
    net = Network(TWO_WAYS, **REDUNDANT, options={"trees": "publisher"})
    net.subscribe(R, "TRUE")
    net.run()
    net.publish(C, {"x": 1})
    net.run()
    assert net.traffic.messages("publish") == 5, "once over each link of both ways"


def test_where_there_is_one_way_an_event_takes_it_once() -> None:
    #  0 ── 1 ── 2 and a circle of 2, 3, 4 behind the only way
    links = ((0, 1), (1, 2), (2, 3), (3, 4), (4, 2))
    net = Network(Topology(5, tuple((a, b, None) for a, b in links)), **REDUNDANT, options={"trees": "publisher"})
    net.subscribe(4, "TRUE")
    net.run()
    net.publish(0, {"x": 1})
    net.run()
    assert net.traffic.messages("publish", (0, 1)) == 1
    assert net.traffic.messages("publish") == 5
    assert len(net.deliveries) == 1


@pytest.mark.parametrize("trees", [((1, 2),), ((1, 0, 2, 0),), ((1,),), ((1, -2),)])
def test_ways_that_are_no_trees_are_refused(trees: tuple[tuple[int, ...], ...]) -> None:
    with pytest.raises(WireError, match="no tree"):
        WaysHeader.decode(WaysHeader(trees).encode())


def test_ways_survive_the_wire() -> None:
    header = WaysHeader(((1, 4, 2, 1, 3, 3, 4, 1), (1, 1)))
    assert WaysHeader.decode(header.encode()) == header


@pytest.mark.parametrize(
    ("choices", "reason"),
    [
        ({"options": {"circles": True, "trees": "publisher"}}, "group forwarding"),
        ({"forwarding": "group", "options": {"circles": True}}, "trees of publishers"),
        ({"forwarding": "group", "options": {"trees": "publisher"}}, "no backup"),
    ],
)
def test_redundant_paths_that_cannot_be_are_refused_with_the_reason(choices: dict[str, Any], reason: str) -> None:
    with pytest.raises(IllegalCombination, match=reason):
        Combination(**{"paths": "redundant", **choices})
