"""The oracle itself: a judge that always says right would pass every other test."""

from __future__ import annotations

from dataclasses import replace

from palio.simulation import Network
from palio.simulation.oracle import judge


def small_network() -> Network:
    net = Network.line(3)
    net.subscribe(0, "x > 1")
    net.subscribe(2, "x > 5")
    net.publish(1, {"x": 3})
    net.run()
    assert net.verdict().is_right
    assert net.verdict().required == 1
    return net


def test_a_delivery_that_is_missing() -> None:
    net = small_network()
    verdict = judge(net.history, [])
    assert not verdict.is_right
    assert str(verdict) == 'missing: {"x":3} for subscription 1 at broker 0: x > 1'


def test_a_delivery_too_many() -> None:
    net = small_network()
    verdict = judge(net.history, net.deliveries * 2)
    assert [len(each) for each in (verdict.missing, verdict.wrong, verdict.repeated)] == [0, 0, 1]


def test_a_delivery_to_somebody_who_does_not_want_it() -> None:
    net = small_network()
    other = list(net.history.subscriptions)[1]
    verdict = judge(net.history, [*net.deliveries, replace(net.deliveries[0], subscription=other)])
    assert [len(each) for each in (verdict.missing, verdict.wrong, verdict.repeated)] == [0, 1, 0]


def test_advertisements_that_nobody_asks_for_excuse_nothing() -> None:
    net = Network.line(3, advertisements=False)
    net.advertise(1, "x > 100")
    net.subscribe(0, "x > 1")
    net.publish(1, {"x": 3})
    net.run()
    assert net.verdict().required == 1
    assert len(judge(net.history, []).missing) == 1


def test_who_came_later_or_left_before_must_not_hear() -> None:
    net = Network.line(2)
    gone = net.subscribe(0, "TRUE")
    net.run()
    net.unsubscribe(gone)
    net.publish(1, {}, settled=False)
    net.run()
    late = net.subscribe(0, "TRUE")
    stayed = net.subscribe(1, "TRUE")
    net.run()
    net.publish(1, {})
    net.unsubscribe(stayed)  # while the event is under way: it may hear
    net.run()
    [heard] = [each for each in net.deliveries if each.subscription is late]
    assert net.verdict().is_right
    for wrong in (gone, late):
        first = replace(heard, subscription=wrong, event=net.history.publications[0].event)
        assert len(judge(net.history, [*net.deliveries, first]).wrong) == 1
    assert net.verdict().allowed == 1


def test_who_leaves_while_a_disk_is_slow_may_still_hear() -> None:
    net = Network.line(2, options={"disk": 0.1})
    gone = net.subscribe(0, "TRUE")
    net.run()
    net.unsubscribe(gone)
    net.publish(1, {}, settled=False)
    net.run()
    assert len(net.deliveries) == 1
    verdict = net.verdict()
    assert (verdict.is_right, verdict.required, verdict.allowed) == (True, 0, 1)


def test_nobody_must_hear_across_a_network_that_is_torn() -> None:
    net = Network.line(3)
    net.subscribe(0, "TRUE")
    net.run()
    net.cut((1, 2))
    net.publish(2, {})
    net.run()
    verdict = net.verdict()
    assert (verdict.is_right, verdict.required, verdict.lost) == (True, 0, 1)


def test_what_a_slow_disk_lets_a_client_take_back_first_is_not_published() -> None:
    net = Network.line(2, advertisements=True, options={"disk": 0.1})
    net.subscribe(0, "TRUE")
    offer = net.advertise(1, "TRUE")
    net.run()
    net.unadvertise(offer)
    net.publish(1, {}, settled=False)  # which waits for that, and is refused when it is its turn
    net.run()
    assert net.deliveries == []
    assert net.verdict().is_right


def test_an_unsubscription_that_a_crash_kept_from_the_disk_ends_nothing_until_it_is_asked_for_again() -> None:
    net = Network.line(2, options={"disk": 0.1})
    desk = net.subscribe(0, "TRUE", client="desk")
    net.run()
    net.unsubscribe(desk)
    net.crash(0)
    net.run()
    net.restart(0)
    event = net.publish(0, {}, settled=False)
    net.run()
    assert [each.event for each in net.deliveries] == [event]
    net.publish(0, {})
    net.run()
    assert len(net.deliveries) == 1
    assert net.verdict().is_right
    late = replace(net.deliveries[0], event=net.history.publications[1].event)
    assert len(judge(net.history, [*net.deliveries, late]).wrong) == 1
