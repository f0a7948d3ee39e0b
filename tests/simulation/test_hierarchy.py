"""Hierarchical protocol: filters go up to the root, events go up and down again where they are wanted."""

from __future__ import annotations

from typing import Any

import pytest

from palio.errors import IllegalCombination
from palio.filters.filter import Filter
from palio.routing.propagation.reductions import Change, Unreduced, Uplink
from palio.simulation import Network
from tests.simulation.scenarios import FAULTY_LINKS, Scenario

CHOICES: dict[str, Any] = {"propagation": "covering", "options": {"hierarchy": True}}


def test_a_subscription_goes_up_to_the_root_and_nowhere_else() -> None:
    net = Network.tree(40, **CHOICES)
    net.run()
    net.subscribe(39, "x > 1")
    net.run()
    assert net.traffic.messages("subscribe") == 3
    assert [each for each, stored in net.tables.items() if stored] == [0, 3, 12, 39]
    net.publish(30, {"x": 2})
    net.publish(30, {"x": 0})
    net.run()
    assert [each.at for each in net.deliveries] == [39]
    # Three links up to the root and three down; the other one goes up in vain.
    assert net.traffic.messages("publish") == 3 + 3 + 3


def test_the_root_may_be_named_and_another_one_takes_its_place() -> None:
    net = Network.line(5, propagation="identity", options={"hierarchy": True, "root": 2})
    net.subscribe(0, "x > 1")
    net.subscribe(4, "x > 2")
    net.run()
    assert net.traffic.messages("subscribe") == 4
    assert [each for each, stored in net.tables.items() if set(stored) - {"clients"}] == [1, 2, 3]
    net.publish(4, {"x": 3})
    net.run()
    assert sorted(each.at for each in net.deliveries) == [0, 4]
    net.crash(2)
    net.run()
    net.restart(2)
    net.run()
    net.publish(0, {"x": 3})
    net.run()
    assert len(net.deliveries) == 4
    assert net.verdict().is_right


def test_an_uplink_that_turns_away_and_back_at_once_withdraws_what_is_gone() -> None:
    stays, goes = Filter.parse("x = 1"), Filter.parse("x = 2")
    uplink = Uplink(Unreduced)
    for each in (stays, goes):
        uplink.add(each.digest, each)
    assert uplink.change() == Change({}, ())
    assert uplink.direct(True)
    assert set(uplink.change().additions.values()) == {stays, goes}
    uplink.direct(False)
    uplink.remove(goes.digest)
    uplink.direct(True)
    assert uplink.change() == Change({}, (goes.digest,))
    uplink.direct(False)
    assert uplink.change() == Change({}, (stays.digest,))


def test_filters_follow_the_parent_when_the_tree_changes() -> None:
    net = Network.mesh(9, extra=5, seed=4, **CHOICES)
    net.subscribe(8, "x > 1")
    net.run()
    for link in list(net.tree_links)[:4]:
        net.cut(link)
        net.run()
        net.publish(3, {"x": 2})
        net.run()
        net.mend(link)
        net.run()
    assert net.verdict().is_right
    net.unsubscribe(net.deliveries[0].subscription)
    net.run()
    assert not any(net.tables.values())


@pytest.mark.parametrize("propagation", ["simple", "identity", "covering", "merging"])
def test_what_is_delivered_is_what_flooding_delivers(propagation: str) -> None:
    for seed in range(6):
        options = {"hierarchy": True, **(FAULTY_LINKS if seed % 2 else {})}
        scenario = Scenario(seed, {"propagation": propagation, "options": options}, seed % 3 > 0, seed % 2 == 0)
        verdict = scenario.run(30).verdict()
        assert verdict.is_right, f"seed {seed}\n{verdict}"


@pytest.mark.parametrize(
    "choices",
    [{"propagation": "flooding"}, {"propagation": "covering", "advertisements": True}, {"forwarding": "bloom"}],
)
def test_what_does_not_go_with_a_hierarchy_is_refused(choices: dict[str, Any]) -> None:
    with pytest.raises(IllegalCombination, match="hierarchy"):
        Network.line(2, **choices, options={"hierarchy": True})
