"""Failover to backups in networks with circles, against the flooding oracle and against tree repair."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from palio import IllegalCombination
from palio.routing.combinations import Combination, legal_combinations
from palio.routing.messages import Offer
from palio.routing.strategies import Failover
from palio.routing.upkeep.failover import FailoverTree
from palio.simulation import Network, Topology
from palio.simulation.topologies import component_labels
from tests.simulation.scenarios import FAULTY_LINKS, condition, hosts
from tests.simulation.test_durable_delivery import KeptScenario
from tests.simulation.test_recovery import assert_right


def with_failover(each: Combination, crash_log: str) -> Combination | None:
    """The same choices with failover; None where they do not go together."""
    options = {**each.options, "circles": True}
    try:
        return Combination(
            each.propagation,
            each.forwarding,
            each.advertisements,
            crash_log=crash_log,
            paths="failover",
            options=options,
        )
    except IllegalCombination:
        return None


COMBINATIONS = [made for each in legal_combinations() if (made := with_failover(each, "none")) is not None]
every_combination = pytest.mark.parametrize("combination", COMBINATIONS, ids=str)


def judged(combination: Combination, seed: int, operations: int = 40) -> None:
    options: dict[str, Any] = {**combination.options, **(FAULTY_LINKS if seed % 2 else {})}
    options["handover"] = (0.0, 0.05, 2.0)[seed % 3]
    options["grace"] = (0.0, 0.5)[seed // 2 % 2]
    choices: dict[str, Any] = {
        "propagation": combination.propagation,
        "forwarding": combination.forwarding,
        "advertisements": combination.advertisements,
        "crash_log": "recover" if seed % 4 == 3 else "none",
        "paths": "failover",
        "options": options,
    }
    assert_right(KeptScenario(seed, choices, circles=True).run(operations), f"seed {seed}")


@every_combination
def test_what_is_delivered_is_what_flooding_delivers_whatever_breaks(combination: Combination) -> None:
    for seed in range(6):
        judged(combination, seed)


@pytest.mark.deep
@every_combination
def test_hundreds_of_seeds(combination: Combination) -> None:
    for seed in range(2000, 2150):
        judged(combination, seed, operations=60)


def assert_tree(net: Network, said: str) -> None:
    """Brokers that can reach each other do so by exactly one way."""
    brokers = net.topology.brokers
    running = [host.number for host in hosts(net) if host.node is not None]
    edges = net._engine.links.edges.values()
    up = [(each.a, each.b) for each in edges if not each.cut and each.a in running and each.b in running]
    joined, by_tree = component_labels(brokers, up), component_labels(brokers, net.tree_links)
    assert [joined[each] for each in running] == [by_tree[each] for each in running], said
    assert len(net.tree_links) == len(running) - len({joined[each] for each in running}), said


def break_and_repair(seed: int) -> None:
    """Several brokers and links at once: backups that are below each other make loops, which must be cut."""
    random = Random(seed)
    brokers = random.randrange(4, 16)
    options = FAULTY_LINKS if seed % 3 == 0 else {"jitter": 0.02}
    net = Network.mesh(
        brokers,
        random.randrange(2, 2 * brokers),
        seed=seed,
        paths=Failover(handover=0.5, grace=(0.0, 0.0, 0.03, 0.3)[seed % 4]),
        options=options,
    )
    for at in range(brokers):
        net.subscribe(at, condition(random))
    net.run()
    down: list[int] = []
    cut: list[tuple[int, int]] = []
    for _ in range(6):
        for _ in range(random.randrange(1, 5)):
            running = [each for each in range(brokers) if each not in down]
            match random.randrange(4):
                case 0 if len(running) > 2:
                    down.append(random.choice(running))
                    net.crash(down[-1])
                case 1:
                    cut.append(random.choice(net.links))
                    net.cut(cut[-1])
                case 2 if cut:
                    net.mend(cut.pop())
                case 3 if down:
                    net.restart(down.pop(0))
            if random.random() < 0.3:
                net.run(random.random() * 0.05)
        net.run()
        assert_tree(net, f"seed {seed}")
        at = random.choice([each for each in range(brokers) if each not in down])
        net.publish(at, {"x": random.randrange(6), "y": 3, "s": "ab"})
        net.run()
    verdict = net.verdict()
    assert verdict.is_right, f"seed {seed}\n{verdict}"


def test_a_tree_is_found_again_whatever_fails_together() -> None:
    for seed in range(40):
        break_and_repair(seed)


@pytest.mark.deep
def test_a_tree_is_found_again_in_thousands_of_runs() -> None:
    for seed in range(1000, 4000):
        break_and_repair(seed)


#     0 ── 1 ── 2 ── 5 ── 6       P = 0, U = 1, R = 2, and D = 5 with another broker below it;
#     └─ 3 ── 4 ─────┘            B' = 4 is the backup of D, at the same distance as R
LADDER = Topology(7, tuple((a, b, None) for a, b in ((0, 1), (1, 2), (2, 5), (5, 6), (0, 3), (3, 4), (4, 5))))


def columns(net: Network, at: int) -> dict[int, set[str]]:
    """The filters that a broker has from each neighbour."""
    node = hosts(net)[at].node
    assert node is not None
    neighbours = {each.interface: each.neighbour for each in node.broker.sessions}
    tables = node.broker.tables.remote_subscriptions
    return {neighbours[link]: {str(each) for each in column.values()} for link, column in tables.items() if column}


def test_a_backup_is_told_the_top_filters_and_the_lost_column_is_withdrawn() -> None:
    """Vector FO-1 in sets: D has A for one client, and B, which A covers, for two."""
    net = Network(LADDER, propagation="covering", paths=Failover(handover=1))
    for where in ("x > 1", "x > 5", "x > 5"):
        net.subscribe(5, where)
    net.run()
    assert (2, 5) in net.tree_links
    assert columns(net, 0) == {1: {"x > 1"}}
    net.crash(2)
    net.run(0.5)
    assert columns(net, 0) == {1: {"x > 1"}, 3: {"x > 1"}}, "registered at the backup before the rest is cancelled"
    net.run()
    assert columns(net, 0) == {3: {"x > 1"}}
    assert columns(net, 1) == {0: {"x > 1"}}, "nothing from below; P tells it what it would tell any publisher"


def test_a_wrong_suspicion_ends_as_a_right_one() -> None:
    """Property L-P5."""
    ends = []
    for is_wrong in (True, False):
        net = Network(LADDER, propagation="covering", paths="failover")
        for at, where in ((5, "x > 1"), (6, "x > 5"), (0, "y > 1"), (1, "y > 2")):
            net.subscribe(at, where)
        net.run()
        if is_wrong:
            net.cut((2, 5))
        else:
            net.crash(2)
        net.run()
        ends.append({at: columns(net, at) for at in (0, 3, 4, 5, 6)})
        net.publish(0, {"x": 9})
        net.publish(6, {"y": 9})
        net.run()
        assert net.verdict().is_right
    assert ends[0] == ends[1]


def test_tables_after_a_failover_are_those_of_a_network_that_never_had_the_broker() -> None:
    """Property L-P4."""
    for seed in range(12):
        random = Random(seed)
        wants = [(random.choice((0, 1, 3, 4, 5, 6)), condition(random)) for _ in range(12)]
        net = Network(LADDER, propagation="covering", paths="failover")
        for at, where in wants:
            net.subscribe(at, where)
        net.run()
        net.crash(2)
        net.run()
        others = tuple(each for each in LADDER.links if 2 not in each[:2])
        fresh = Network(Topology(7, others), propagation="covering", paths="failover", options={"circles": True})
        for at, where in wants:
            fresh.subscribe(at, where)
        fresh.run()
        for at in (0, 1, 3, 4, 5, 6):
            assert columns(net, at) == columns(fresh, at), f"seed {seed}, broker {at}"


def test_a_backup_lies_neither_below_a_broker_nor_behind_its_parent() -> None:
    tree = FailoverTree(5, 1, lambda: 0.5, [])
    for link, neighbour in ((1, 2), (2, 3), (3, 4), (4, 6)):
        tree.on_link_up(link, neighbour)
    tree.on_offer(1, Offer(0, 1, 2, 0, (0, 1, 2)))
    tree.on_offer(2, Offer(0, 1, 4, 0, (0, 9, 8, 7, 3)))
    tree.on_offer(3, Offer(0, 1, 3, 0, (0, 1, 2, 4)))
    tree.on_offer(4, Offer(0, 1, 4, 0, (0, 1, 2, 5, 6)))
    assert tree.parent == 1
    assert tree.backups == [3]
    tree.on_link_down(1)
    assert tree.parent == 2, "though it is farther than the lost parent was"


def test_a_parent_that_is_back_in_time_keeps_its_place() -> None:
    """The threshold between recovery and failover: a short outage is no change for anybody."""
    net = Network(LADDER, propagation="covering", crash_log="recover", paths=Failover(grace=1))
    for at, where in ((5, "x > 1"), (6, "x > 5"), (0, "y > 1")):
        net.subscribe(at, where)
    net.run()
    links, before = net.tree_links, net.traffic.snapshot()
    net.crash(2)
    net.run(0.5)
    net.restart(2)
    net.run()
    assert net.tree_links == links
    assert (net.traffic - before).messages("update") == 0
    net.publish(0, {"x": 9})
    net.publish(6, {"y": 9})
    net.run()
    assert net.verdict().is_right
    assert len(net.deliveries) == 3


def test_a_backup_is_taken_when_the_grace_period_is_over() -> None:
    net = Network(LADDER, propagation="covering", crash_log="recover", paths=Failover(grace=1))
    net.subscribe(5, "x > 1")
    net.run()
    net.crash(2)
    net.run(0.9)
    assert (4, 5) not in net.tree_links
    net.run(0.2)
    assert (4, 5) in net.tree_links
    net.run()
    net.publish(0, {"x": 9})
    net.run()
    assert len(net.deliveries) == 1
    net.restart(2)
    net.run()
    assert_tree(net, "the broker is back")


def test_where_there_is_no_backup_a_parent_is_waited_for_however_long() -> None:
    """Its backup is gone as well."""
    net = Network(LADDER, propagation="covering", crash_log="recover", paths=Failover(grace=1))
    net.subscribe(6, "x > 1")
    net.run()
    net.crash(4)
    net.crash(2)
    net.run()
    net.run(5)
    net.restart(2)
    net.run()
    net.publish(0, {"x": 9})
    net.run()
    assert len(net.deliveries) == 1
    assert_tree(net, "the parent is back")


def test_failover_needs_circles() -> None:
    with pytest.raises(IllegalCombination, match="no backup"):
        Combination(paths="failover")
