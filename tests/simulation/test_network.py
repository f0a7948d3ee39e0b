"""Simulated network, as a user sees it."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from contextlib import suppress
from itertools import product
from pathlib import Path
from random import Random
from typing import Any

import networkx
import pytest

from palio import Event, IllegalCombination, InvalidArgument, NotAdvertised
from palio.routing.combinations import FORWARDINGS, PROPAGATIONS
from palio.simulation import Network, Topology
from tests.simulation.scenarios import FAULTY_LINKS, Scenario, condition, hosts, topology


def received(net: Network) -> list[tuple[int, str]]:
    return sorted((each.subscription.number, each.event.id) for each in net.deliveries)


def test_an_event_reaches_its_subscriber() -> None:
    net = Network.tree(27, propagation="identity", forwarding="content", advertisements=False, tables="hard", seed=7)
    desk = net.subscribe(at=3, where="price > 100")
    event = net.publish(at=21, event={"price": 120})
    net.publish(at=21, event={"price": 80})
    net.run()
    [delivery] = net.deliveries
    assert (delivery.subscription, delivery.event, delivery.at) == (desk, event, 3)
    assert delivery.event.to_dict() == {"price": 120}
    assert net.traffic.messages("subscribe") == 26
    assert net.traffic.messages("publish") == 4
    assert net.traffic.messages("publish", link=(0, 1)) == 1
    assert net.traffic.bytes("publish") > 0
    assert net.traffic.kinds() == ["begin", "hello", "publish", "subscribe"]
    assert net.tables[0] == {3: [desk.wanted]}
    assert net.tables[3] == {"clients": [desk.wanted]}
    net.unsubscribe(desk)
    net.run()
    assert not any(net.tables.values())


@pytest.mark.parametrize("shape", [Network.line, Network.star, Network.tree, Network.random])
def test_the_usual_shapes(shape: Any) -> None:
    net = shape(6, propagation="covering")
    assert len(net.links) == 5
    for at in range(6):
        net.subscribe(at, "x > 1")
    net.publish(3, {"x": 2})
    net.run()
    assert sorted(each.at for each in net.deliveries) == list(range(6))


def test_the_links_of_a_graph() -> None:
    graph = networkx.Graph()
    graph.add_edge("Oslo", "Rome", delay=0.5)
    graph.add_edge("Rome", "Bonn", dist=1000.0)
    graph.add_edge("Bonn", "Bonn")
    net = Network.from_graph(graph)
    net.subscribe(0, "TRUE")
    net.run()
    begun = net.now
    net.publish(2, {})
    net.run()
    assert net.deliveries[0].time - begun == pytest.approx(0.505)


def test_what_is_no_graph_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="a networkx graph, not list"):
        Network.from_graph([1, 2])
    with pytest.raises(InvalidArgument, match="the delay of a link is a number of seconds, not 'soon'"):
        Network.from_graph(networkx.Graph([(1, 2, {"delay": "soon"})]))


def test_choices_that_do_not_go_together_are_refused() -> None:
    with pytest.raises(IllegalCombination, match="bloom"):
        Network.line(2, propagation="covering", forwarding="bloom")


def test_what_was_not_advertised_is_refused() -> None:
    net = Network.line(3, advertisements=True)
    with pytest.raises(NotAdvertised, match="broker 2"):
        net.publish(2, {"x": 1})
    offer = net.advertise(2, "x > 0")
    net.subscribe(0, "x = 1")
    net.publish(2, {"x": 1})
    net.unadvertise(offer)
    with pytest.raises(NotAdvertised):
        net.publish(2, {"x": 1})
    net.run()
    assert len(net.deliveries) == 1
    assert net.verdict().is_right


def test_what_is_advertised_in_part_only_is_refused() -> None:
    net = Network.line(2, advertisements=True)
    net.advertise(1, "x < 3")
    net.advertise(1, "x > 7 AND y = 1")
    net.subscribe(0, "x > 5")
    assert 1 not in net.tables[0]
    net.publish(1, {"x": [1, 8], "y": 1, "z": list(range(500))})
    for content in ({"x": [1, 5]}, {"x": [1, 8], "y": [1, 2]}, {"x": list(range(-5000, 0)), "y": list(range(5))}):
        with pytest.raises(NotAdvertised):
            net.publish(1, content)
    net.run()
    assert len(net.deliveries) == 1
    assert net.verdict().is_right


@pytest.mark.parametrize(
    ("propagation", "forwarding"),
    [("flooding", "content"), ("simple", "bloom"), *product(PROPAGATIONS[2:], ("content", "reuse", "prefix"))],
)
def test_events_keep_their_empty_arrays_on_the_way(propagation: str, forwarding: str) -> None:
    net = Network.line(3, propagation=propagation, forwarding=forwarding)
    wheres = ("size(x) = 0", "NOT array_contains(x, 5)", "x IS NULL", "x = 5", "y = 1 AND size(x) = 0", "size(o.x) = 0")
    where_of = {net.subscribe(at=0, where=where).number: where for where in wheres}
    contents: tuple[dict[str, Any], ...] = ({"x": [], "y": 1}, {"x": [5]}, {"o": [], "x": [4]}, {"y": 1})
    net.run()
    for content in contents:
        net.publish(at=2, event=content)
    net.run()
    found = [(each.event.to_dict(), where_of[each.subscription.number]) for each in net.deliveries]
    assert sorted(found, key=str) == sorted(
        [
            *((contents[0], where) for where in (*wheres[:3], wheres[4])),
            (contents[1], "x = 5"),
            *((contents[2], where) for where in ("NOT array_contains(x, 5)", "size(o.x) = 0")),
            (contents[3], "x IS NULL"),
        ],
        key=str,
    )
    assert net.verdict().is_right


def test_an_advertisement_may_speak_of_whole_arrays() -> None:
    net = Network.line(2, advertisements=True)
    net.advertise(1, "size(x) <= 1 AND NOT array_contains(x, 7)")
    net.subscribe(0, "size(x) = 0")
    net.publish(1, {"x": []})
    net.publish(1, {"x": [5]})
    for refused in ({"x": [7]}, {"x": [1, 2]}, {}):
        with pytest.raises(NotAdvertised):
            net.publish(1, refused)
    net.run()
    assert [each.event.to_dict() for each in net.deliveries] == [{"x": []}]


def test_a_subscriber_hears_when_the_last_that_could_serve_it_goes() -> None:
    net = Network.line(4, propagation="covering", advertisements=True)
    desk, other = net.subscribe(0, "x > 5"), net.subscribe(0, "y > 5")
    offers = [net.advertise(3, "x > 0 AND y < 3"), net.advertise(2, "x > 7 AND y < 2")]
    net.run()
    net.unadvertise(offers[0])
    net.run()
    assert net.cancellations == []
    net.unadvertise(offers[1])
    net.run()
    assert net.cancellations == [desk]
    assert other not in net.cancellations


@pytest.mark.parametrize("options", [{}, FAULTY_LINKS])
def test_confirmation_by_the_network_comes_when_all_know(options: dict[str, Any]) -> None:
    net = Network.line(5, options=options, seed=3)
    net.run()
    edge = net.subscribe(0, "x > 1", confirm="edge")
    desk = net.subscribe(0, "x > 2", confirm="network")
    assert edge in net.confirmations
    while desk not in net.confirmations:
        assert 0 in net.tables[4] or desk not in net.confirmations
        net.run(0.001)
    assert all(desk.wanted in net.tables[at][at - 1] for at in range(1, 5))


def test_a_crash_forgets_nothing_that_was_confirmed() -> None:
    net = Network.line(3, options={"disk": 0.005})
    net.run()
    desk = net.subscribe(0, "x > 1", confirm="edge")
    late = net.subscribe(0, "y > 1", confirm="edge")
    net.run(0.004)
    assert desk not in net.confirmations
    net.run()
    assert {desk, late} == set(net.confirmations)
    net.crash(0)
    net.run()
    assert not any(net.tables.values())
    net.restart(0)
    net.publish(2, {"x": 2})
    net.run()
    assert received(net) == [(desk.number, "event-1")]


def test_what_a_crash_kept_from_the_disk_is_asked_for_again() -> None:
    net = Network.line(2, advertisements=True, options={"disk": 0.1})
    kept = net.subscribe(0, "x > 1")
    offer = net.advertise(1, "TRUE")
    net.run()
    net.subscribe(0, "x > 2")
    net.unsubscribe(kept)
    net.unadvertise(offer)
    net.advertise(1, "x > 0")
    for broker in (0, 1):
        net.crash(broker)
        net.restart(broker)
    net.publish(1, '{"x": 3}')
    net.run()
    assert [each.subscription.number for each in net.deliveries] == [3]
    assert net.verdict().is_right


def test_neighbours_that_begin_at_once_and_again_come_to_rest() -> None:
    for seed in range(6):
        net = Network.line(2, propagation="covering", seed=seed, options={"jitter": 0.01} if seed % 2 else {})
        net.subscribe(0, "x > 1")
        net.subscribe(1, "y > 1")
        for broker in (0, 1, 0, 1)[seed // 2 :]:
            net.crash(broker)
            net.restart(broker)
        net.run()
        assert net.traffic.messages("begin") < 20
        assert [len(net.tables[broker]) for broker in (0, 1)] == [2, 2]


@pytest.mark.parametrize("after", range(1, 12))
def test_a_crash_between_any_two_effects_is_recovered_from(after: int) -> None:
    net = Network.star(5, propagation="covering")
    net.subscribe(1, "x > 5")
    net.subscribe(2, "x > 1")
    net.run()
    net.crash(0, after=after)
    net.subscribe(0, "x > 0", confirm="network")
    with suppress(InvalidArgument):  # it may be down already
        net.publish(0, {"x": 3}, settled=False)
    net.run()
    if 0 in net.tables:
        net.crash(0)
    net.restart(0)
    net.run()
    last = net.publish(3, {"x": 9})
    net.run()
    assert net.verdict().is_right
    assert len([each for each in net.deliveries if each.event == last]) == 3


def test_a_neighbour_of_another_network_is_refused() -> None:
    net = Network.line(2)
    host = hosts(net)[1]
    other = Network.line(2, propagation="covering")
    # Private: no public way leads to a broker with other constants.
    net._engine.constants = other._engine.constants
    net.crash(1)
    net.restart(1)
    net.run()
    assert host.node is not None
    assert any("propagation is 'identity' here and 'covering' there" in reason for reason in net.drops)
    net.subscribe(0, "TRUE")
    net.run()
    assert 0 not in net.tables[1]


def test_control_is_never_behind_events_on_a_slow_link() -> None:
    net = Network.line(2, options={"bandwidth": 10_000.0})
    net.subscribe(1, "x > 0")
    net.run()
    net.publish_all(0, [{"x": 1, "text": "a" * 900}] * 20)  # two seconds of sending
    net.subscribe(0, "y > 0", confirm="network")
    begun = net.now
    net.run()
    [confirmed] = net.confirmations.values()
    assert confirmed - begun < 0.5
    assert net.now - begun > 1.5
    assert len(net.deliveries) == 20


@pytest.mark.parametrize("propagation", PROPAGATIONS)
def test_tables_depend_on_what_is_subscribed_and_not_on_how_it_came_to_be(propagation: str) -> None:
    """After any operations that return to a set, tables are those of a fresh network that was given the set."""
    for seed in range(8):
        for advertisements in (False, True):
            choices = {"propagation": propagation, "advertisements": advertisements}
            scenario = Scenario(seed, choices, breaks=seed % 2 == 0)
            net = scenario.run(40)
            fresh = Network(net.topology, seed=seed + 1, **choices)
            for advertisement in reversed(scenario.advertisements):
                fresh.advertise(advertisement.at, advertisement.offered)
            for subscription in reversed(scenario.subscriptions):
                fresh.subscribe(subscription.at, subscription.wanted)
            fresh.run()
            assert fresh.tables == net.tables, f"seed {seed}"


def test_all_is_empty_when_all_is_taken_back() -> None:
    net = Network.random(9, propagation="merging", advertisements=True, seed=5)
    random = Random(5)
    made = [net.subscribe(random.randrange(9), condition(random)) for _ in range(30)]
    offers = [net.advertise(random.randrange(9), condition(random)) for _ in range(10)]
    net.run()
    for subscription in made:
        net.unsubscribe(subscription)
    for offer in offers:
        net.unadvertise(offer)
    net.run()
    assert not any(net.tables.values())


def test_the_better_a_propagation_the_fewer_subscriptions_it_sends() -> None:
    """Jerzak §2.5.5: covering sends at most what identity sends, and that at most what simple routing sends."""
    for seed in range(5):
        counts = []
        for propagation in ("simple", "identity", "covering"):
            random = Random(seed)
            net = Network(topology(random), propagation=propagation)
            for _ in range(20):
                net.subscribe(random.randrange(net.topology.brokers), condition(random, 0))
            net.run()
            counts.append(net.traffic.messages("subscribe"))
        assert counts == sorted(counts, reverse=True)


def test_simple_routing_tells_every_broker_of_every_subscription_once() -> None:
    """Jerzak §2.5.6, as a tree has it: one message less than there are brokers for each."""
    net = Network.random(9, propagation="simple", seed=2)
    for at in (0, 0, 4, 8):
        net.subscribe(at, "x > 1")
    net.run()
    assert net.traffic.messages("subscribe") == 8 * 4


def test_a_subscription_and_an_advertisement_that_cross_find_each_other() -> None:
    """Jerzak, Figure 7.1: the filter passes a broker before the advertisement that it overlaps has come there."""
    for subscribed, advertised in ((0.0, 0.015), (0.015, 0.0), (0.0, 0.0)):
        net = Network.line(3, advertisements=True)
        net.run()
        begun = net.now
        for time, act in sorted([(subscribed, 0), (advertised, 1)]):
            net.run(begun + time - net.now)
            if act:
                net.advertise(2, "x > 0")
            else:
                net.subscribe(0, "x > 5")
        net.publish(2, {"x": 6})
        net.run()
        assert len(net.deliveries) == 1


def test_the_latencies_of_three_brokers_in_a_chain() -> None:
    """Jerzak §8.1: a publisher tells the time when it publishes, and its subscriber how long that took."""
    net = Network.line(3, advertisements=True, options={"delay": 0.002})
    net.advertise(0, "ST > 0")
    net.subscribe(2, "ST > 0")
    net.run()
    for _ in range(5):
        net.run(0.1)
        net.publish(0, {"ST": round(net.now * 1e9)})
    net.run()
    took = [each.time * 1e9 - each.event.get("ST") for each in net.deliveries]
    assert took == pytest.approx([4e6] * 5)


def test_no_event_crosses_a_link_twice() -> None:
    for seed in range(10):
        random = Random(seed)
        net = Network(topology(random), propagation="identity")
        for _ in range(10):
            net.subscribe(random.randrange(net.topology.brokers), "TRUE")
        net.publish(random.randrange(net.topology.brokers), {"x": 1})
        net.run()
        assert all(net.traffic.messages("publish", link) <= 1 for link in net.links)


REPLAY = """
from tests.simulation.scenarios import Scenario, FAULTY_LINKS
net = Scenario(11, {"propagation": "covering", "advertisements": True, "options": FAULTY_LINKS}, True).run(40)
print(net.trace.hash, len(net.deliveries))
"""


def test_a_seed_replays_whatever_the_order_of_hashes(project_folder: Path) -> None:
    answers = {
        subprocess.check_output(
            [sys.executable, "-c", REPLAY],
            env={**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": f"{project_folder}:{project_folder / 'src'}"},
            text=True,
        )
        for seed in ("1", "2")
    }
    assert len(answers) == 1


def test_another_seed_is_another_run() -> None:
    hashes = set()
    for seed in (1, 2):
        net = Network.line(3, options={"jitter": 0.1}, seed=seed)
        net.run()
        hashes.add(net.trace.hash)
    assert len(hashes) == 2


def test_the_trace_can_be_read() -> None:
    net = Network.line(2)
    net.subscribe(0, "x > 1")
    net.publish(1, Event.from_dict({"x": 2}, id="mine"))
    net.run()
    text = str(net.trace)
    assert "0 → 1      subscribe" in text
    assert "deliver  mine to 1" in text


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        (lambda net: net.subscribe(9, "x > 1"), "there is no broker 9"),
        (lambda net: net.cut((0, 2)), "no link between 0 and 2"),
        (lambda net: net.restart(0), "is running"),
        (lambda net: (net.crash(0), net.publish(0, {})), "restart it first"),
        (lambda net: [net.unsubscribe(each) for each in [net.subscribe(0, "TRUE")] * 2], "there is no subscription"),
        (lambda net: [net.unadvertise(each) for each in [net.advertise(0, "TRUE")] * 2], "is not there"),
        (lambda net: Network.line(0), "at least one broker"),
        (lambda net: Network.line(2, options={"loss": 1.5}), "a share"),
        (lambda net: net.restart(3), "there is no broker 3; they are numbered from 0 to 2"),
        (lambda net: net.is_running(-1), "there is no broker -1"),
        (lambda net: net.publish("1", {}), "there is no broker '1'"),
        (lambda net: net.crash(1, after=-1), "some effects from 0 on, not -1"),
        (lambda net: net.run(-1), "some seconds from 0 on, not -1"),
        (lambda net: net.subscribe(0, "TRUE", confirm="all"), "confirmed by no, edge, network, not 'all'"),
        (lambda net: net.traffic.messages("publishes"), "no kind of message 'publishes'; known are .*publish"),
        (lambda net: net.draw("nowhere/net.svg"), "no folder 'nowhere'"),
        (lambda net: Network.mesh(4, extra=-1), "links from 0 on"),
        (lambda net: Network(Topology(2, ((0, 1, float("nan")),))), "a delay of some seconds"),
    ],
)
def test_what_cannot_be_done_says_why(wrong: Any, said: str) -> None:
    with pytest.raises(InvalidArgument, match=said):
        wrong(Network.line(3))


def test_a_mesh_has_as_many_links_more_as_it_is_told() -> None:
    assert [len(Network.mesh(6, extra).links) for extra in (None, 0, 2, 99)] == [8, 5, 7, 15]


def test_a_network_says_what_it_is() -> None:
    said = "<Network of 3 brokers: covering propagation and content forwarding, seed 5>"
    assert repr(Network.line(3, propagation="covering", seed=5)) == said


def test_traffic_counts_what_came_for_nothing_and_over_how_many_links() -> None:
    net = Network.line(5, propagation="flooding")
    net.subscribe(1, "x > 1")
    net.publish(0, {"x": 2})
    net.publish(0, {"x": 1})
    net.run()
    # The first was of use at broker 1, and went over three links after it; the other one over all four.
    assert (net.traffic.false_positives(), net.traffic.useless_hops) == (2, 3 + 4)
    assert (net.traffic.false_positives((4, 3)), net.traffic.false_positives((0, 1))) == (2, 0)
    content = Network.line(5)
    content.subscribe(1, "x > 1")
    content.publish(0, {"x": 2})
    content.publish(0, {"x": 1})
    content.run()
    assert (content.traffic.false_positives(), content.traffic.useless_hops) == (0, 0)


def test_traffic_shows_what_it_counts() -> None:
    net = Network.line(3)
    assert repr(net.traffic) == "<Traffic over 0 links: nothing>"
    net.subscribe(at=0, where="x > 1")
    net.publish(at=2, event={"x": 2})
    net.run()
    assert "over 2 links" in repr(net.traffic)
    assert "2 publish, 2 subscribe" in repr(net.traffic)


@pytest.mark.parametrize("forwarding", FORWARDINGS)
def test_a_broker_starts_no_thread(forwarding: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its indexes are merged where it says so, as work beside everything else."""

    def refuse(thread: threading.Thread) -> None:
        raise AssertionError(f"{thread.name} was started")

    monkeypatch.setattr(threading.Thread, "start", refuse)
    net = Network.line(2, forwarding=forwarding)
    wanted = [net.subscribe(number % 2, f"x BETWEEN {number} AND {number + 9}") for number in range(30)]
    for group in range(10):
        wanted += [net.subscribe(0, f"x = {20 * group + number}") for number in range(20)]
        net.publish(1, {"x": 20 * group})
    for each in wanted[::2]:
        net.unsubscribe(each)
    net.publish_all(1, [{"x": number} for number in range(200)])
    net.run()
    assert net.verdict().is_right
