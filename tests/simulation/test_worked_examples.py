"""Worked examples and formulas of the sources, in whole networks."""

from __future__ import annotations

from random import Random

import pytest

from palio import Filter, IllegalCombination
from palio.routing.combinations import PROPAGATIONS
from palio.simulation import Network, topologies
from palio.simulation.topologies import component_labels
from tests.simulation.scenarios import condition

FILTERING = [each for each in PROPAGATIONS if each != "flooding"]


def delivered(net: Network) -> list[int]:
    return [each.subscription.number for each in net.deliveries]


def test_flooding_goes_over_all_links_but_the_one_an_event_came_by() -> None:
    """Jerzak §2.5.1: an event from the first of four neighbours goes to the other three."""
    net = Network.star(5, propagation="flooding")
    net.publish(1, {"x": 1})
    net.run()
    crossed = {link: net.traffic.messages("publish", link=link) for link in net.links}
    assert crossed == {(0, 1): 1, (0, 2): 1, (0, 3): 1, (0, 4): 1}


@pytest.mark.parametrize("propagation", FILTERING)
def test_a_client_that_takes_back_the_wider_of_two_filters_keeps_the_narrower_one(propagation: str) -> None:
    """Jerzak §2.5.5: covering as printed drops what a client's own wider filter covers, and loses it."""
    net = Network.line(4, propagation=propagation)
    wide, narrow = net.subscribe(0, "x > 1"), net.subscribe(0, "x > 5")
    net.publish(3, {"x": 7})
    net.run()
    net.unsubscribe(wide)
    net.publish(3, {"x": 8})
    net.publish(3, {"x": 3})
    net.run()
    assert delivered(net) == [wide.number, narrow.number, narrow.number]
    assert net.verdict().is_right


@pytest.mark.parametrize("propagation", FILTERING)
def test_of_two_equal_filters_one_is_left_when_the_other_goes(propagation: str) -> None:
    """Jerzak §2.5.3: tables of simple routing are multisets; removing all copies would lose events."""
    net = Network.line(3, propagation=propagation)
    first, second = net.subscribe(0, "x > 1", client="a"), net.subscribe(0, "x > 1", client="b")
    net.run()
    net.unsubscribe(first)
    net.publish(2, {"x": 2})
    net.run()
    assert delivered(net) == [second.number]


@pytest.mark.parametrize("seed", range(4))
def test_how_many_messages_simple_routing_and_advertisements_cost(seed: int) -> None:
    """Jerzak §2.5.6, corrected: each advertisement is told over all links, and each subscription over those that lead
    to somebody who may serve it; without advertisements over all links."""
    random = Random(seed)
    shape = topologies.random_tree(9, random)
    plain, advertised = Network(shape, propagation="simple"), Network(shape, propagation="simple", advertisements=True)
    publishers = random.sample(range(9), 2)
    for at in publishers:
        advertised.advertise(at, "x > 0")
    advertised.run()
    subscribers = [random.randrange(9) for _ in range(6)]
    for net in (plain, advertised):
        net.run()
        for number, at in enumerate(subscribers):
            net.subscribe(at, f"x > {number}")
        net.run()
    assert plain.traffic.messages("subscribe") == 8 * 6
    assert advertised.traffic.messages("advertise") == 8 * 2
    ways = [len({link for end in publishers for link in path(shape, at, end)}) for at in subscribers]
    assert advertised.traffic.messages("subscribe") == sum(ways)


def path(shape: topologies.Topology, start: int, end: int) -> list[tuple[int, int]]:
    """The links between two brokers of a tree."""
    links = [(a, b) for a, b, _ in shape.links]
    return [each for each in links if (label := behind(shape, each))[start] != label[end]]


def behind(shape: topologies.Topology, link: tuple[int, int]) -> list[int]:
    """Which side of a link each broker is on."""
    return component_labels(shape.brokers, [(a, b) for a, b, _ in shape.links if (a, b) != link])


def test_a_subscription_settles_within_one_hop_to_as_many_as_there_are() -> None:
    """Jerzak §2.5.6: one where filters wait at the publisher's neighbour, and the diameter where it is far away."""
    for at, hops in ((3, 1), (0, 4)):
        net = Network.line(5, advertisements=True)
        net.advertise(4, "x > 0")
        net.run()
        begun = net.now
        net.subscribe(at, "x > 1")
        net.run()
        assert net.now - begun == pytest.approx(hops * 0.01)
        assert net.traffic.messages("subscribe") == hops


@pytest.mark.parametrize("propagation", FILTERING)
def test_when_an_advertisement_goes_so_do_the_subscriptions_it_drew_and_no_others(propagation: str) -> None:
    """Jerzak §2.5.6, the steps of unadvertising: nothing is kept towards who offers nothing."""
    net = Network.line(4, propagation=propagation, advertisements=True)
    low, high = net.advertise(3, "x < 5"), net.advertise(3, "x > 8")
    one, both = net.subscribe(0, "x = 3"), net.subscribe(0, "x > 2")
    net.run()
    net.unadvertise(low)
    net.run()
    assert net.tables[3] == {2: [Filter.parse("x > 2")]}
    assert net.cancellations == [one]
    net.unadvertise(high)
    net.run()
    assert net.tables[3] == {}
    assert net.cancellations == [one, both]
    net.advertise(3, "x = 3")
    net.publish(3, {"x": 3})
    net.run()
    assert sorted(delivered(net)) == [one.number, both.number]


@pytest.mark.parametrize("propagation", FILTERING)
def test_a_link_that_goes_takes_advertisements_and_subscriptions_along(propagation: str) -> None:
    net = Network.line(4, propagation=propagation, advertisements=True)
    net.advertise(3, "x > 0")
    net.subscribe(0, "x > 1")
    net.run()
    before = net.tables
    net.cut((1, 2))
    net.run()
    assert [net.tables[each] for each in (1, 2, 3)] == [{}, {}, {}]
    net.mend((1, 2))
    net.run()
    assert net.tables == before


@pytest.mark.parametrize("advertisements", [False, True])
def test_a_broker_stores_of_each_neighbour_what_is_wanted_behind_it(advertisements: bool) -> None:
    """No filter goes back to where it came from (Jerzak §2.5.4), and none is kept that nobody wants."""
    for seed in range(6):
        random = Random(seed)
        shape = topologies.random_tree(random.randrange(2, 8), random)
        net = Network(shape, advertisements=advertisements)
        if advertisements:
            for at in range(shape.brokers):
                net.advertise(at, "TRUE")
        made = [net.subscribe(random.randrange(shape.brokers), condition(random)) for _ in range(12)]
        for each in random.sample(made, 5):
            made.remove(each)
            net.unsubscribe(each)
        net.run()
        for a, b, _ in shape.links:
            sides = behind(shape, (a, b))
            for here, there in ((a, b), (b, a)):
                wanted = {each.wanted for each in made if sides[each.at] == sides[there]}
                # Whether one is told that never matches makes no difference.
                assert set(net.tables[here].get(there, [])) - {Filter.nothing} == wanted - {Filter.nothing}


def test_what_covers_is_told_and_what_is_covered_is_told_when_that_goes() -> None:
    """Shen §4.1: an offer of any airline below 350 covers one of a certain airline below 300."""
    net = Network.line(3, propagation="covering")
    wide, narrow = "price < 350", "airline = 'UA' AND price < 300"
    assert Filter.parse(wide).covers(Filter.parse(narrow))
    first = net.subscribe(0, wide)
    net.subscribe(0, narrow)
    net.run()
    assert net.tables[2] == {1: [Filter.parse(wide)]}
    net.unsubscribe(first)
    net.run()
    assert net.tables[2] == {1: [Filter.parse(narrow)]}
    assert Filter.parse("zoom >= 6 AND resolution > 4").matches({"zoom": 10.5, "resolution": 5.0})


def test_covering_breaks_always_reuse_and_not_partial() -> None:
    """Shen §3.6: the narrow filter of the last broker is kept back by the one before it, whose own covers it."""
    with pytest.raises(IllegalCombination, match="cannot name all that match"):
        Network.line(3, propagation="covering", forwarding="reuse", options={"mode": "always"})
    net = Network.line(3, propagation="covering", forwarding="reuse")
    wide, narrow = net.subscribe(1, "x BETWEEN 0 AND 10"), net.subscribe(2, "x BETWEEN 2 AND 8")
    net.run()
    assert net.tables[0] == {1: [wide.wanted]}
    net.publish(0, {"x": 5})
    net.run()
    assert delivered(net) == [wide.number, narrow.number]


def test_the_counter_of_useless_links() -> None:
    """Shen §5.6: of use where a local client matches beside the way on, then one link to who only passes it on, and one
    to whom it is of no use any more."""
    net = Network.line(4)
    net.subscribe(1, "x > 1")
    gone = net.subscribe(3, "x > 1")
    net.run()
    net.publish(0, {"x": 2})
    net.run(0.025)  # it is on its way from the second to the third
    net.unsubscribe(gone)
    net.run()
    assert (net.traffic.false_positives(), net.traffic.useless_hops) == (1, 2)
    assert net.traffic.false_positives((2, 3)) == 1
