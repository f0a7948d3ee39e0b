"""Semantic communities: the containment tree delivers what flooding would, its order holds under churn, and both
overlays are what the protocol makes of one member after the other."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palio.errors import InvalidArgument
from palio.filters.filter import Filter
from palio.simulation import CommunityNetwork, Network
from palio.simulation.peer_network import PeerSubscription
from tests.simulation.communities import (
    KINDS,
    check_graph,
    check_orders,
    check_tree,
    event,
    interest,
    populated,
)

JOINS = ("basic", "full", "adaptive")


def grown(peers: int, kind: str, seed: int, **choices: Any) -> tuple[CommunityNetwork, Random]:
    """A network in which every member has joined by messages."""
    random = Random(seed)
    net = CommunityNetwork(peers, seed=seed, **choices)
    net.run()
    for at in range(peers):
        net.subscribe(at, interest(kind, random))
    net.run()
    return net, random


def publish(net: CommunityNetwork, kind: str, random: Random, count: int) -> None:
    for _ in range(count):
        net.publish(random.choice(sorted(each for each in range(net.peers) if net.is_up(each))), event(kind, random))
        net.run()


# The worked example of the source


def worked_example(join: str) -> tuple[CommunityNetwork, dict[str, PeerSubscription]]:
    wanted = {"P1": "1, 2, 3, 4", "P3": "1", "P2": "1, 2", "P4": "1, 3", "P5": "9", "P6": "1, 2"}
    net = CommunityNetwork(6, join=join)
    net.run()
    subscriptions = {}
    for at, (name, values) in enumerate(wanted.items()):
        subscriptions[name] = net.subscribe(at, f"x IN ({values})")
        net.run()
    return net, subscriptions


@pytest.mark.parametrize(
    ("join", "parents", "depths", "reached"),
    [
        ("basic", "- P1 P1 P1 - P2", [1, 2, 2, 2, 1, 3], {"P3", "P4", "P5"}),
        ("full", "- P4 P1 P1 - P2", [1, 3, 2, 2, 1, 3], {"P4", "P5"}),
    ],
)
def test_the_worked_example_has_the_tree_and_the_false_positives_of_the_source(
    join: str, parents: str, depths: list[int], reached: set[str]
) -> None:
    net, named = worked_example(join)
    names = {subscription: name for name, subscription in named.items()} | {None: "-"}
    assert [names[net.parent(each)] for each in named.values()] == parents.split()
    assert [net.depths()[each] for each in named.values()] == depths
    net.publish(named["P2"].at, {"x": 2})
    net.run()
    net.publish(named["P3"].at, {"x": 1})
    net.run()
    two, one = net.reach()
    assert (two.useless, two.interested, two.delivered) == (len(reached), 3, 3)
    assert (one.useless, one.received) == (1, 5)
    assert net.verdict().is_right


# Exact without churn


@pytest.mark.parametrize("join", JOINS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_tree_delivers_what_flooding_would(kind: str, join: str) -> None:
    for seed in range(4):
        net, random = populated(40, kind, seed, join=join, equivalents=4, adaptive_children=5)
        check_tree(net, 4)
        publish(net, kind, random, 12)
        verdict = net.verdict()
        assert verdict.is_right, verdict
        assert verdict.required
        # Every member that passes an event down wants it, so what came in vain are leaves of its way (O-P3).
        assert all(each.false_negatives == 0 for each in net.reach())


@pytest.mark.deep
@pytest.mark.parametrize("join", JOINS)
@pytest.mark.parametrize("kind", KINDS)
def test_the_tree_delivers_what_flooding_would_for_a_thousand_seeds(kind: str, join: str) -> None:
    for seed in range(1_000, 2_000):
        net, random = populated(1 + seed % 50, kind, seed, join=join, equivalents=4, adaptive_children=5)
        check_tree(net, 4)
        publish(net, kind, random, 6)
        assert net.verdict().is_right, seed


@pytest.mark.parametrize("join", JOINS)
@pytest.mark.parametrize("kind", KINDS)
def test_a_tree_that_was_built_is_the_one_that_messages_make(kind: str, join: str) -> None:
    choices: dict[str, Any] = {"join": join, "equivalents": 4, "adaptive_children": 5}
    for seed in range(2):
        trees = []
        for make in (populated, grown):
            net, _ = make(30, kind, seed, **choices)
            check_tree(net, 4)
            depths = net.depths()
            trees.append(
                {
                    each.number: (member.parent, member.order, dict(member.children), depths[each])  # type: ignore[attr-defined]
                    for each, member in net.members().items()
                }
            )
        assert trees[0] == trees[1]


@pytest.mark.parametrize("kind", KINDS)
def test_a_graph_that_was_built_is_the_one_that_messages_make(kind: str) -> None:
    random = Random(7)
    sample = [event(kind, random) for _ in range(60)]
    graphs = []
    for make in (populated, grown):
        net, _ = make(25, kind, 3, overlay="similarity", semantic=4, random=2, sample=sample)
        check_graph(net)
        graphs.append(
            {
                each.number: (sorted(member.links.items()), [choice[::2] for choice in member.best])  # type: ignore[attr-defined]
                for each, member in net.members().items()
            }
        )
    assert graphs[0] == graphs[1]


def test_a_full_join_saves_false_positives_on_average() -> None:
    useless = {}
    for join in ("basic", "full"):
        useless[join] = 0
        for seed in range(6):
            net, random = populated(60, "sets", seed, join=join)
            publish(net, "sets", random, 10)
            useless[join] += sum(each.useless for each in net.reach())
    assert useless["full"] < useless["basic"]


def test_an_event_that_its_publisher_does_not_want_reaches_those_who_do() -> None:
    net = CommunityNetwork(4)
    wide, narrow = net.subscribe(0, "x > 5"), net.subscribe(1, "x > 7")
    net.subscribe(2, "x < 0")
    net.run()
    for at in (1, 2, 3):  # one whose parent wants it, one that is at the top, one without a subscription
        net.publish(at, {"x": 6})
        net.run()
    assert [each.subscription for each in net.deliveries] == [wide] * 3
    net.publish(3, {"x": 8})
    net.run()
    assert {each.subscription for each in net.deliveries[3:]} == {wide, narrow}


def test_a_peer_may_have_several_subscriptions() -> None:
    net = CommunityNetwork(2)
    for where in ("x > 5", "x > 6", "x > 6", "y > 1"):
        net.subscribe(1, where)
    net.run()
    check_tree(net)
    net.publish(0, {"x": 7, "y": 2})
    net.run()
    net.publish(1, {"x": 7})
    net.run()
    assert net.verdict().is_right
    assert len(net.deliveries) == 4 + 3


# Churn


def change(net: CommunityNetwork, kind: str, random: Random, crashes: bool) -> None:
    """One random change, and time in which all who are touched by it find their places."""
    up = [each for each in range(net.peers) if net.is_up(each)]
    match random.randrange(4 if crashes else 3):
        case 0:
            net.subscribe(net.join(), interest(kind, random))
        case 1 if len(up) > 5:
            net.leave(random.choice(up))
        case 2 if len(net.members()) > 2:
            net.unsubscribe(random.choice(list(net.members())))
        case 3 if len(up) > 5:
            for each in random.sample(up, random.randint(1, 3)):
                net.crash(each)
            net.run(400.0)
    net.run()
    check_orders(net)
    net.run(60.0)


@pytest.mark.parametrize("leave", ["basic", "full"])
@pytest.mark.parametrize("join", JOINS)
def test_members_that_come_go_and_crash_leave_a_tree_that_misses_nothing(join: str, leave: str) -> None:
    for seed, kind in enumerate(KINDS):
        net, random = populated(20, kind, seed, join=join, leave=leave, equivalents=4, adaptive_children=5)
        for _ in range(8):
            change(net, kind, random, crashes=True)
            check_tree(net)
            publish(net, kind, random, 1)
        verdict = net.verdict()
        assert verdict.is_right, verdict


@pytest.mark.deep
def test_no_schedule_of_a_thousand_tears_the_tree() -> None:
    for seed in range(2_000, 3_000):
        kind, join, leave = KINDS[seed % 3], JOINS[seed // 3 % 3], ("basic", "full")[seed // 9 % 2]
        net, random = populated(25, kind, seed, join=join, leave=leave, equivalents=4, adaptive_children=5)
        for _ in range(15):
            change(net, kind, random, crashes=True)
            check_tree(net)
            publish(net, kind, random, 1)
        assert net.verdict().is_right, seed


@settings(max_examples=25)
@given(
    st.lists(st.sets(st.integers(0, 5), min_size=1), min_size=1, max_size=10),
    st.lists(st.integers(0, 9), max_size=4),
    st.sampled_from(JOINS),
    st.sampled_from(["basic", "full"]),
)
def test_the_tree_keeps_its_order_after_every_join_and_leave(
    interests: list[set[int]], leaving: list[int], join: str, leave: str
) -> None:
    net = CommunityNetwork(10, join=join, leave=leave, equivalents=2, adaptive_children=1)
    net.run()
    made = []
    for at, values in enumerate(interests):
        made.append(net.subscribe(at, f"x IN ({', '.join(map(str, sorted(values)))})"))
        net.run()
        check_tree(net, 2)
    for place in leaving:
        if made:
            net.unsubscribe(made.pop(place % len(made)))
            net.run(60.0)  # maintenance may have noticed it too, and then takes its time
            check_tree(net)
    for value in range(6):
        net.publish(0, {"x": value})
        net.run()
    assert net.verdict().is_right


def test_the_order_holds_at_every_moment_of_a_change() -> None:
    net, random = populated(30, "sets", 5, join="full", leave="full", equivalents=4)
    for _ in range(6):
        net.subscribe(net.join(), interest("sets", random))
        net.leave(random.choice([each for each in range(net.peers) if net.is_up(each)]))
        for _ in range(40):
            net.run(0.05)
            check_orders(net)
    net.run(60.0)
    check_tree(net)


def test_an_event_from_below_a_crash_waits_until_there_is_a_way_up() -> None:
    net = CommunityNetwork(4, join="full")
    for at, where in enumerate(("x > 0", "x > 1", "x > 2")):
        net.subscribe(at, where)
    net.run()
    wide = net.subscribe(3, "x > -5")
    net.run()
    net.crash(1)
    net.publish(2, {"x": 9})
    net.run(60.0)
    assert wide in {each.subscription for each in net.deliveries}
    check_tree(net)


def test_members_whose_ancestors_all_crash_come_back() -> None:
    net = CommunityNetwork(12, join="full")
    for at in range(12):
        net.subscribe(at, f"x > {at}")
    net.run()
    for each in range(6):
        net.crash(each)
    net.run(400.0)
    check_tree(net)
    net.publish(11, {"x": 100})
    net.run()
    assert net.verdict().is_right
    assert len(net.deliveries) == 6


# The similarity graph


@pytest.mark.parametrize("leave", ["basic", "full"])
def test_a_graph_keeps_its_links_while_members_come_go_and_crash(leave: str) -> None:
    for seed, kind in enumerate(KINDS):
        random = Random(seed)
        sample = [event(kind, random) for _ in range(50)]
        choices: dict[str, Any] = {"overlay": "similarity", "semantic": 3, "random": 2, "sample": sample}
        net, random = populated(20, kind, seed, leave=leave, **choices)
        for _ in range(5):
            newcomer = net.subscribe(net.join(), interest(kind, random))
            net.run()
            assert net.members()[newcomer].degree >= min(5, len(net.members()) - 1)
            up = [each for each in range(net.peers) if net.is_up(each)]
            net.leave(random.choice(up))
            net.crash(random.choice([each for each in up if net.is_up(each)]))
            net.run(300.0)
            check_graph(net)
            publish(net, kind, random, 1)
        verdict = net.verdict()
        assert not verdict.wrong
        assert not verdict.repeated


def small_graph(**choices: Any) -> CommunityNetwork:
    random = Random(4)
    sample = [event("attributes", random) for _ in range(100)]
    net, random = populated(150, "attributes", 4, overlay="similarity", sample=sample, **choices)
    publish(net, "attributes", random, 15)
    return net


def share(net: CommunityNetwork) -> tuple[float, float]:
    reach = net.reach()
    return (
        sum(each.false_negatives for each in reach) / len(reach),
        sum(each.false_positives for each in reach) / len(reach),
    )


def test_more_neighbours_miss_less_and_more_comes_in_vain() -> None:
    few, many = share(small_graph(semantic=2)), share(small_graph(semantic=8))
    assert many[0] < few[0]
    assert many[1] > few[1]


def test_random_links_join_communities_and_bring_events_in_vain() -> None:
    without, half, all_ = (share(small_graph(semantic=3, random_share=each)) for each in (0.0, 0.5, 1.0))
    assert without[0] > all_[0]
    assert without[1] < half[1] < all_[1]


def test_indulgence_finds_members_that_no_interested_one_leads_to() -> None:
    strict, indulgent = share(small_graph(semantic=2)), share(small_graph(semantic=2, indulgence=2))
    assert indulgent[0] < strict[0]


def test_with_enough_random_links_nobody_misses_anything() -> None:
    assert share(small_graph(semantic=1, random=25))[0] == 0.0


# The network


def test_a_seed_gives_the_same_run() -> None:
    def run() -> list[tuple[int, float]]:
        net, random = populated(25, "attributes", 4, join="adaptive")
        for _ in range(5):
            net.subscribe(net.join(), interest("attributes", random))
            publish(net, "attributes", random, 2)
        return [(each.subscription.number, each.time) for each in net.deliveries]

    assert run() == run()


def test_an_ended_subscription_gets_nothing() -> None:
    net = CommunityNetwork(3)
    wide, narrow = net.subscribe(0, "x > 1"), net.subscribe(1, "x > 2")
    net.run()
    net.unsubscribe(wide)
    net.publish(2, {"x": 5})
    net.run()
    assert [each.subscription for each in net.deliveries] == [narrow]
    with pytest.raises(InvalidArgument, match="there is no subscription 1 at peer 0"):
        net.unsubscribe(wide)


def test_the_network_makes_one_whose_events_can_be_forgotten() -> None:
    net = Network.communities(50, overlay="containment", join="adaptive", seed=1)
    net.subscribe(at=2, where=Filter.parse("price > 3"))
    net.publish(at=7, event={"price": 4})
    net.run()
    assert len(net.deliveries) == len(net.reach()) == 1
    assert net.degrees() == [0]
    net.forget_events()
    assert not net.deliveries
    assert not net.reach()


@pytest.mark.parametrize(
    ("wrong", "reason"),
    [
        ({"overlay": "ring"}, "there is no overlay 'ring'; known are containment, similarity"),
        ({"join": "fast"}, "there is no join 'fast'; known are full, basic, adaptive"),
        ({"leave": 3}, "there is no leave 3; known are basic, full"),
        ({"seed": "a"}, "a seed is a whole number, not 'a'"),
        ({"sample": 5}, "a sample is a list of events, not int"),
        ({"delay": 0}, "delay is a number of seconds above 0, not 0"),
        ({"neighbours": 5}, "there is no setting 'neighbours'; known are adaptive_children"),
        ({"semantic": 0}, "semantic is a whole number from 1 on, not 0"),
        ({"random_share": 2}, "random_share is a share from 0 to 1, not 2"),
    ],
)
def test_bad_choices_say_what_would_be_right(wrong: dict[str, Any], reason: str) -> None:
    with pytest.raises(InvalidArgument, match=reason):
        CommunityNetwork(3, **wrong)


def test_bad_calls_say_what_would_be_right() -> None:
    with pytest.raises(InvalidArgument, match="peers is a whole number from 1 on, not 0"):
        CommunityNetwork(0)
    net = CommunityNetwork(3, overlay="similarity")
    made = net.subscribe(1, "x > 1")
    net.run()
    with pytest.raises(InvalidArgument, match="a similarity graph has no parents"):
        net.parent(made)
    with pytest.raises(InvalidArgument, match="there is no peer 3; they are 0 to 2"):
        net.publish(3, {})
    net.crash(2)
    with pytest.raises(InvalidArgument, match="peer 2 is gone"):
        net.subscribe(2, "x > 1")
    with pytest.raises(InvalidArgument, match="seconds is a number of seconds above 0, not 'x'"):
        net.run("x")  # type: ignore[arg-type]
    first = net.publish(0, {"x": 1})
    with pytest.raises(InvalidArgument, match="was published before"):
        net.publish(0, first)
