"""Role of the tree optimiser: reports of interest, and how trees are announced in a network of brokers."""

from __future__ import annotations

import pytest

from palio.errors import InvalidArgument
from palio.filters.filter import Filter
from palio.routing.forwarding.content import ContentForwarding
from palio.routing.forwarding.prefix.optimiser_role import InterestReports
from palio.routing.forwarding.strategy import ForwardingConfig
from palio.routing.messages import LOCAL, Candidate, Report
from palio.simulation import Network
from tests.simulation.scenarios import hosts

WANTED = Filter.parse("x > 1")
OTHER = Filter.parse("y > 1")
FIRST, SECOND = Candidate(1, 1, 1), Candidate(1, 2, 1)


def _reports() -> InterestReports:
    return InterestReports(7, ContentForwarding(ForwardingConfig()))


def test_nothing_is_reported_before_somebody_asks_and_then_everything() -> None:
    reports = _reports()
    reports.add_filter(LOCAL, b"a", WANTED)
    reports.add_filter(1, b"b", OTHER)
    assert reports.report() is None
    reports.lead(FIRST, 1)
    assert reports.report() == Report(7, True, ((b"a", WANTED),), ())
    assert reports.report() is None


def test_changes_are_reported_once() -> None:
    reports = _reports()
    reports.lead(FIRST, 1)
    assert reports.report() == Report(7, True, (), ())
    reports.add_filter(LOCAL, b"a", WANTED)
    reports.add_filter(LOCAL, b"b", OTHER)
    reports.remove_filter(LOCAL, b"b")
    assert reports.report() == Report(7, False, ((b"a", WANTED),), ())
    reports.remove_filter(LOCAL, b"a")
    assert reports.report() == Report(7, False, (), (b"a",))


def test_on_another_way_everything_is_reported_again() -> None:
    reports = _reports()
    reports.lead(FIRST, 1)
    reports.add_filter(LOCAL, b"a", WANTED)
    reports.open_link(1)
    assert reports.report() == Report(7, True, ((b"a", WANTED),), ())
    reports.lead(FIRST, 1)
    assert reports.report() is None
    reports.lead(FIRST, 2)
    assert reports.report() == Report(7, True, ((b"a", WANTED),), ())


def test_to_another_optimiser_everything_is_reported_again() -> None:
    reports = _reports()
    reports.lead(FIRST, 1)
    reports.add_filter(LOCAL, b"a", WANTED)
    assert reports.report() is not None
    reports.lead(SECOND, 1)
    assert reports.report() == Report(7, True, ((b"a", WANTED),), ())


@pytest.mark.parametrize("threshold", [1, 1.5])
def test_a_threshold_is_a_share(threshold: float) -> None:
    with pytest.raises(InvalidArgument, match="threshold"):
        Network.line(2, propagation="covering", forwarding="prefix", options={"threshold": threshold})


def _optimisers(net: Network) -> list[int | None]:
    return [None if host.node is None else host.node.broker.optimiser for host in hosts(net)]


def test_the_lowest_number_is_elected_and_another_when_it_goes() -> None:
    net = Network.line(5, propagation="covering", forwarding="prefix")
    net.run()
    assert _optimisers(net) == [0] * 5
    net.crash(0)
    net.run()
    assert _optimisers(net) == [None, 1, 1, 1, 1]
    net.cut((2, 3))
    net.run()
    assert _optimisers(net) == [None, 1, 1, 3, 3]
    net.restart(0)
    net.mend((2, 3))
    net.run()
    assert _optimisers(net) == [0] * 5


def test_a_broker_that_is_named_is_elected_before_others() -> None:
    net = Network.line(4, propagation="covering", forwarding="prefix", options={"optimiser": 2})
    net.run()
    assert _optimisers(net) == [2] * 4
    net.crash(2)
    net.run()
    assert _optimisers(net) == [0, 0, None, 3]


def test_another_optimiser_goes_on_where_the_last_one_was() -> None:
    net = Network.line(4, propagation="covering", forwarding="prefix", options={"threshold": 0})
    for at in range(1, 4):
        net.subscribe(at, f"x = {at}")
    net.run()
    announced = net.traffic.messages("announce")
    net.crash(0)
    net.run()
    assert net.traffic.messages("announce") == announced  # the tree is the same
    net.subscribe(3, "x = 9")
    net.run()
    assert net.traffic.messages("announce") > announced
    for value in (3, 7, 9):
        net.publish(1, {"x": value})
    net.run()
    assert [each.event.get("x") for each in net.deliveries] == [3, 9]
    assert net.traffic.false_positives() == 0


def test_a_small_difference_is_announced_after_a_while() -> None:
    net = Network.line(3, propagation="covering", forwarding="prefix", options={"threshold": 0.9, "interval": 5})
    for value in range(10):
        net.subscribe(2, f"x = {value}")
    net.run()
    net.subscribe(2, "y = 1")
    net.run()
    net.publish(0, {"y": 2})
    net.run()
    assert net.traffic.false_positives() == 1
    net.run(6)
    net.publish(0, {"y": 2})
    net.run()
    assert net.traffic.false_positives() == 1


def test_before_the_first_tree_events_go_by_content() -> None:
    net = Network.line(3, propagation="covering", forwarding="prefix", options={"delay": 1.0})
    net.run()
    net.subscribe(2, "x = 1")
    net.run(2.1)  # the subscription has come to broker 0, the tree of broker 0 has come nowhere yet
    net.publish(0, {"x": 1}, settled=False)
    net.publish(0, {"x": 2}, settled=False)
    net.run()
    assert len(net.deliveries) == 1
    assert net.traffic.false_positives() == 0
