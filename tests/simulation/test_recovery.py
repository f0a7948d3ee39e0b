"""Routing tables that survive crashes, against the flooding oracle. A failure is one seed, which replays it."""

from __future__ import annotations

from typing import Any

import pytest

from palio import IllegalCombination
from palio.routing.combinations import Combination, legal_combinations
from palio.routing.strategies import Recover
from palio.simulation import Network
from tests.simulation.scenarios import FAULTY_LINKS, hosts
from tests.simulation.test_durable_delivery import KeptScenario


def with_crash_log(each: Combination) -> Combination | None:
    """The same choices with a crash log; None where they do not go together."""
    try:
        return Combination(
            each.propagation, each.forwarding, each.advertisements, crash_log="recover", options=each.options
        )
    except IllegalCombination:
        return None


COMBINATIONS = [made for each in legal_combinations() if (made := with_crash_log(each)) is not None]
every_combination = pytest.mark.parametrize("combination", COMBINATIONS, ids=str)


class CrashScenario(KeptScenario):
    """Durable and other subscriptions, brokers that crash between any two effects, and databases that get lost."""

    def break_something(self) -> None:
        super().break_something()
        for host in hosts(self.net):
            if host.node is None and self.random.random() < 0.1:
                host.disk.lose_links()

    def repair(self) -> None:
        super().repair()
        if self.random.random() < 0.5:
            self.wait()


def judged(combination: Combination, seed: int, operations: int = 40) -> None:
    options: dict[str, Any] = dict(combination.options)
    if seed % 2:
        options |= FAULTY_LINKS
    # Where disks are slow, an event that was not advertised is refused too late to be taken out of the history.
    if seed % 3 == 0 and not combination.advertisements:
        options["disk"] = 0.004
    if seed % 5 == 0:
        options["outage"] = 0.05  # so short that some sessions end before their neighbour is back
    choices: dict[str, Any] = {
        "propagation": combination.propagation,
        "forwarding": combination.forwarding,
        "advertisements": combination.advertisements,
        "crash_log": "recover",
        "options": options,
    }
    assert_right(CrashScenario(seed, choices, circles=seed % 4 == 3).run(operations), f"seed {seed}")


def assert_right(net: Network, said: str) -> None:
    """What is delivered and queued is what had to be, and neighbours have told each other all."""
    verdict = net.verdict()
    assert verdict.is_right, f"{said}\n{verdict}"
    for host in hosts(net):
        assert host.node is not None
        assert host.node.broker.delivery.unfinished == 0, said
    assert_sessions_agree(net, said)


def assert_sessions_agree(net: Network, said: str) -> None:
    """At rest every buffer is empty, and either end of a link has what the other end has told."""
    brokers = {host.number: host.node.broker for host in hosts(net) if host.node is not None}
    for number, broker in brokers.items():
        for session in broker.sessions:
            if session.link is None:
                continue
            assert not session.unacknowledged, said
            [other] = [each for each in brokers[session.neighbour].sessions if each.neighbour == number]
            assert (other.received_stream, other.received) == (session.sent_stream, session.sent), said
            tables = brokers[session.neighbour].tables
            assert tables.remote_subscriptions.get(other.interface, {}).keys() == session.told_subscriptions.keys()
            assert tables.remote_advertisements.get(other.interface, {}).keys() == session.told_advertisements.keys()


@every_combination
def test_what_is_delivered_is_what_flooding_delivers_whatever_crashes(combination: Combination) -> None:
    """Property L-P1: at rest tables are right and buffers empty, wherever brokers crashed."""
    for seed in range(8):
        judged(combination, seed)


@pytest.mark.deep
@every_combination
def test_hundreds_of_crashes(combination: Combination) -> None:
    for seed in range(1000, 1150):
        judged(combination, seed, operations=60)


def table_messages(net: Network) -> int:
    """The messages with changes of tables so far."""
    return sum(net.traffic.messages(kind) for kind in ("subscribe", "unsubscribe", "update"))


def crashed_and_restarted(crash_log: str) -> tuple[Network, int]:
    """A line with many filters at either end, and the messages about tables since its middle crashed."""
    net = Network.line(5, propagation="simple", crash_log=crash_log)
    for number in range(50):
        net.subscribe(0, f"x > {number}")
        net.subscribe(4, f"y > {number}")
    net.run()
    before = table_messages(net)
    net.crash(2)
    net.run()
    net.restart(2)
    net.run()
    return net, table_messages(net) - before


def test_a_broker_that_was_away_is_told_nothing_that_it_knew() -> None:
    net, told = crashed_and_restarted("recover")
    assert not told
    net.publish(0, {"y": 100})
    net.publish(4, {"x": 100})
    net.run()
    assert len(net.deliveries) == 100
    _, told = crashed_and_restarted("none")
    assert told > 300


def test_a_filter_that_came_and_went_while_a_broker_was_away_is_not_told() -> None:
    net = Network.line(3, crash_log="recover")
    net.run()
    before = table_messages(net)
    net.crash(1)
    net.run()
    stays, goes = net.subscribe(0, "x = 1"), net.subscribe(0, "x = 2")
    net.run()
    net.unsubscribe(goes)
    net.run()
    net.restart(1)
    net.run()
    assert table_messages(net) - before == 2, "one filter over two links"
    net.publish(2, {"x": 1})
    net.run()
    assert [each.subscription for each in net.deliveries] == [stays]


def test_a_filter_that_ended_just_before_a_crash_is_withdrawn_after_it() -> None:
    net = Network.line(3, crash_log="recover")
    ends = net.subscribe(1, "x = 1")
    net.run()
    net.crash(1, after=1)
    net.unsubscribe(ends)
    net.run()
    assert hosts(net)[1].node is None, "it crashed with the end on disk, before neighbours heard of it"
    net.restart(1)
    net.run()
    for at in (0, 2):
        node = hosts(net)[at].node
        assert node is not None
        assert not any(node.broker.tables.remote_subscriptions.values())


def test_a_database_that_was_lost_falls_back_to_tables_told_anew() -> None:
    net = Network.line(3, propagation="covering", crash_log="recover")
    ends = net.subscribe(0, "x > 1"), net.subscribe(2, "x > 1")
    net.run()
    net.crash(1)
    hosts(net)[1].disk.lose_links()
    net.restart(1)
    net.run()
    net.publish(1, {"x": 5})
    net.run()
    assert {each.subscription for each in net.deliveries} == set(ends)
    assert_sessions_agree(net, "after the loss")


def test_tables_of_a_broker_that_does_not_come_back_are_withdrawn() -> None:
    net = Network.line(3, crash_log=Recover(outage=10))
    net.subscribe(2, "x > 1")
    net.run()
    net.crash(1)
    net.run(9)
    keeps = hosts(net)[0].node
    assert keeps is not None
    assert any(keeps.broker.tables.remote_subscriptions.values())
    net.run(2)
    assert not any(keeps.broker.tables.remote_subscriptions.values())
    assert not keeps.broker.sessions
    net.restart(1)
    net.run()
    net.publish(0, {"x": 5})
    net.run()
    assert len(net.deliveries) == 1


def test_both_ends_of_a_link_crash_and_come_back_in_any_order() -> None:
    for first, second in ((1, 2), (2, 1)):
        net = Network.line(4, crash_log="recover")
        net.subscribe(3, "x > 1")
        net.run()
        net.subscribe(3, "y > 1")
        net.crash(2, after=1)
        net.run()
        net.crash(1)
        net.restart(first)
        net.run()
        net.restart(second)
        net.run()
        net.publish(0, {"x": 2, "y": 2})
        net.run()
        assert net.verdict().is_right
        assert len(net.deliveries) == 2
        assert_sessions_agree(net, f"{first} first")


@pytest.mark.parametrize(
    ("choices", "reason"),
    [
        ({"propagation": "flooding"}, "no filter travels"),
        ({"options": {"hierarchy": True}}, "elected anew"),
        ({"options": {"completeness": 1.0}}, "watermarks count"),
    ],
)
def test_a_crash_log_without_a_meaning_is_refused_with_the_reason(choices: dict[str, Any], reason: str) -> None:
    with pytest.raises(IllegalCombination, match=reason):
        Combination(**{"crash_log": "recover", **choices})
