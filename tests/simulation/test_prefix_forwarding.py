"""Prefix forwarding in whole networks: trees are announced, and keep events off useless links."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import pytest

from palio import Filter
from palio.routing.combinations import Combination, legal_combinations
from palio.simulation import Network
from tests.simulation.scenarios import FAULTY_LINKS, Scenario

COMBINATIONS = [each for each in legal_combinations() if each.forwarding == "prefix"]
OPTIMISED: dict[str, Any] = {"propagation": "covering", "forwarding": "prefix", "options": {"threshold": 0.0}}


def _published(net: Network) -> int:
    return net.traffic.messages("publish")


def test_an_event_goes_where_the_optimisers_tree_says_it_is_wanted() -> None:
    net = Network.star(10, **OPTIMISED)
    for at in range(1, 9):
        net.subscribe(at, f"x = {at}")
    net.run()
    assert net.traffic.messages("report") >= 8
    assert net.traffic.messages("announce") >= 9
    net.publish(9, {"x": 3})
    net.run()
    assert [each.at for each in net.deliveries] == [3]
    assert _published(net) == 2


def test_of_twenty_brokers_with_clients_only_the_first_and_the_one_that_delivers_read_an_event() -> None:
    net = Network.line(20, **OPTIMISED)
    for at in range(20):
        net.subscribe(at, f"x = {at}")
    net.run()
    net.publish(0, {"x": 19})
    net.run()
    assert [each.at for each in net.deliveries] == [19]
    assert [broker for broker, reads in net.content_reads.items() if reads] == [0, 19]


def test_mergers_send_no_event_where_nobody_wants_it() -> None:
    net = Network.line(4, propagation="merging", forwarding="prefix", options={"threshold": 0})
    for number in (1, 3, 6):
        net.subscribe(at=0, where=f"x = {number}")
    net.run()
    assert net.tables[1] == {0: [Filter.parse("x IN (1, 3, 6)")]}
    for x in range(8):
        net.publish(at=3, event={"x": x})
    net.run()
    assert len(net.deliveries) == 3
    assert net.traffic.messages("publish") == 9


def test_a_new_filter_is_served_before_there_is_a_tree_that_knows_it() -> None:
    net = Network.line(4, propagation="covering", forwarding="prefix", options={"threshold": 0.99})
    net.subscribe(3, "x > 1")
    net.run()
    announced = net.traffic.messages("announce")
    net.subscribe(3, "y > 1")
    net.publish(0, {"y": 2})
    net.publish(0, {"z": 2})
    net.run()
    assert net.traffic.messages("announce") == announced
    assert len(net.deliveries) == 1
    assert net.drops == {"no subscription matches here": 1}


def test_trees_are_made_again_after_the_makers_broker_or_the_way_to_it_broke() -> None:
    net = Network.line(4, **OPTIMISED)
    net.crash(0)
    net.subscribe(3, "x = 1")
    net.subscribe(3, "x = 2")
    net.run()
    net.restart(0)
    net.cut((1, 2))
    net.run()
    net.subscribe(3, "x = 3")
    net.mend((1, 2))
    net.run()
    for value in range(5):
        net.publish(0, {"x": value})
    net.run()
    assert [each.event.get("x") for each in net.deliveries] == [1, 2, 3]
    assert "no subscription matches here" not in net.drops
    assert _published(net) == 9


def test_the_maker_may_be_a_client_of_any_broker() -> None:
    net = Network.line(3, propagation="merging", forwarding="prefix", options={"optimiser": 2, "threshold": 0.0})
    net.subscribe(1, "x = 1")
    net.publish(0, {"x": 1})
    net.publish(0, {"x": 2})
    net.run()
    assert (len(net.deliveries), _published(net)) == (1, 1)


def test_trees_that_each_builds_are_the_same_for_who_knows_the_same() -> None:
    net = Network.tree(13, propagation="identity", forwarding="prefix", options={"tree": "local", "patience": 0})
    for at in range(13):
        net.subscribe(at, f"x > {at} AND y <= {at}")
    net.run()
    for value in range(13):
        net.publish(12 - value, {"x": value, "y": 3})
    net.run()
    assert net.verdict().is_right
    assert "no subscription matches here" not in net.drops


@pytest.mark.parametrize("combination", COMBINATIONS, ids=str)
def test_with_eager_trees_and_cut_ones_everything_still_arrives(combination: Combination) -> None:
    """The flooding oracle with options that make trees of the few filters of a short run."""
    for seed, extra in enumerate([{"patience": 0, "threshold": 0.0}, {"patience": 0, "threshold": 0.1, "height": 1}]):
        choices = {
            "propagation": combination.propagation,
            "forwarding": "prefix",
            "advertisements": combination.advertisements,
            "options": {**combination.options, **extra, **(FAULTY_LINKS if seed else {})},
        }
        verdict = Scenario(seed, choices, breaks=bool(seed)).run(30).verdict()
        assert verdict.is_right, f"seed {seed}\n{verdict}"


@pytest.mark.deep
@pytest.mark.parametrize("faulty", [False, True])
@pytest.mark.parametrize("combination", COMBINATIONS, ids=str)
def test_so_it_does_for_a_thousand_seeds(combination: Combination, faulty: bool) -> None:
    for seed in range(2000, 2500):
        choices = {
            "propagation": combination.propagation,
            "forwarding": "prefix",
            "advertisements": combination.advertisements,
            "options": {
                **combination.options,
                **(FAULTY_LINKS if faulty else {}),
                "patience": seed % 2,
                "threshold": (seed % 4) / 5,
                "height": seed % 3,
            },
        }
        verdict = Scenario(seed, choices, breaks=seed % 2 == 0).run(40).verdict()
        assert verdict.is_right, f"seed {seed}\n{verdict}"


_RUN = """
from tests.simulation.scenarios import FAULTY_LINKS, Scenario
for tree in ("local", "optimiser"):
    choices = {"propagation": "identity", "forwarding": "prefix",
               "options": {"tree": tree, "patience": 0, "threshold": 0.1, **FAULTY_LINKS}}
    print(Scenario(5, choices, breaks=True).run(30).trace.hash)
"""


def test_one_seed_gives_one_run_in_every_process() -> None:
    found = {
        subprocess.run(
            [sys.executable, "-c", _RUN],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": os.pathsep.join(sys.path)},
            check=True,
            capture_output=True,
            text=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(found) == 1
