"""Checkers of safety and liveness: each finds what it is for, in runs that were tampered with."""

from __future__ import annotations

from dataclasses import replace

from palio import Event
from palio.simulation import Network, Violation


def run_of_one_event() -> Network:
    net = Network.line(2)
    net.subscribe(0, "x > 1")
    net.run()
    net.publish(1, {"x": 2})
    net.run()
    return net


def broken(found: list[Violation]) -> list[str]:
    return [each.property for each in found]


def test_a_run_without_faults_is_safe_and_live() -> None:
    net = run_of_one_event()
    assert net.safety() == net.liveness(since=0.01) == []


def test_a_second_delivery_is_not_at_most_once() -> None:
    net = run_of_one_event()
    [delivery] = net.deliveries
    net.deliveries.append(replace(delivery, time=delivery.time + 1))
    assert broken(net.safety()) == ["at most once"]
    assert "not 'at most once' at" in str(net.safety()[0])


def test_an_event_that_nobody_published_is_not_delivered() -> None:
    net = run_of_one_event()
    [delivery] = net.deliveries
    net.deliveries.append(replace(delivery, event=Event.from_dict({"x": 3}, id="forged")))
    assert broken(net.safety()) == ["only published"]


def test_an_event_does_not_come_before_it_was_published() -> None:
    net = run_of_one_event()
    net.deliveries[0] = replace(net.deliveries[0], time=0.0)
    assert broken(net.safety()) == ["only published"]


def test_an_event_that_is_not_wanted_is_not_delivered() -> None:
    net = run_of_one_event()
    event = net.publish(1, {"x": 0})
    net.run()
    net.deliveries.append(replace(net.deliveries[0], event=event, time=net.now))
    assert broken(net.safety()) == ["only subscribed"]


def test_no_event_comes_after_the_end_of_a_subscription() -> None:
    net = run_of_one_event()
    [delivery] = net.deliveries
    net.unsubscribe(delivery.subscription)
    net.run(1.0)
    event = net.publish(1, {"x": 5})
    net.run()
    net.deliveries.append(replace(delivery, event=event, time=net.now))
    assert broken(net.safety()) == ["only subscribed"]


def test_safety_is_eventual_where_only_early_deliveries_break_it() -> None:
    net = run_of_one_event()
    [delivery] = net.deliveries
    net.deliveries.append(replace(delivery, time=delivery.time + 1))
    assert net.safety(since=delivery.time + 2) == []


def test_an_event_that_did_not_come_is_not_live() -> None:
    net = run_of_one_event()
    net.deliveries.clear()
    assert broken(net.liveness(since=0.01)) == ["delivered"]


def test_liveness_asks_nothing_for_events_before_a_time_nor_for_subscriptions_after_it() -> None:
    net = run_of_one_event()
    net.deliveries.clear()
    assert net.liveness(since=net.now + 1) == []
    late = net.subscribe(0, "TRUE")
    net.publish(1, {"x": 1})
    net.run()
    net.deliveries.clear()
    assert all(each.subscription is not late for each in net.liveness(since=0.01))


def test_liveness_asks_for_no_way_across_a_cut() -> None:
    net = Network.line(2)
    net.subscribe(0, "TRUE")
    net.run()
    net.cut((0, 1))
    net.run()
    net.publish(1, {"x": 1})
    net.run()
    assert net.liveness(since=0.01) == []
