"""Absent homes and full queues: a confirmed event waits only for durable subscriptions that want it."""

from __future__ import annotations

import pytest

from palio import DurableSettings, Event, PalioError
from palio.simulation import Network, hosts


def confirmed(net: Network, at: int, *contents: dict[str, object]) -> list[Event]:
    """Publish events one after the other, each when the last one is as far as it gets."""
    events = []
    for each in contents:
        events.append(net.publish(at, each, confirm=True))
        net.run()
    return events


def test_a_broker_that_is_away_and_wants_nothing_stops_no_publisher() -> None:
    net = Network.line(3, options={"spill": 3})
    net.subscribe(0, "x < 0", durable=True)
    desk = net.subscribe(2, "x > 0", durable=True)
    net.run()
    net.crash(0)
    net.run()
    events = confirmed(net, 1, *({"x": x} for x in range(1, 30)))
    assert net.queue(desk) == events
    assert net.unfinished(1) == 0
    assert net.verdict().is_right


def test_events_for_a_broker_that_is_away_are_bounded_and_stop_no_others() -> None:
    net = Network.line(3, options={"spill": 3})
    away = net.subscribe(0, "symbol = 'A'", durable=True)
    desk = net.subscribe(2, "symbol = 'B'", durable=True)
    net.run()
    net.crash(0)
    net.run()
    waiting = confirmed(net, 1, *({"symbol": "A", "x": x} for x in range(3)))
    with pytest.raises(PalioError, match="busy: 3 confirmed events wait for broker 0, which is away"):
        net.publish(1, {"symbol": "A"}, confirm=True)
    others = confirmed(net, 1, *({"symbol": "B", "x": x} for x in range(20)))
    assert net.queue(desk) == others
    net.restart(0)
    net.run()
    assert net.queue(away) == waiting
    assert net.verdict().is_right


def test_what_homes_want_is_known_after_a_restart_while_they_are_away() -> None:
    net = Network.line(2, options={"spill": 2})
    away = net.subscribe(0, "x < 0", durable=True)
    net.run()
    net.crash(0)
    net.crash(1)
    net.restart(1)
    net.run()
    confirmed(net, 1, *({"x": x} for x in range(1, 9)))
    assert net.unfinished(1) == 0
    kept = confirmed(net, 1, {"x": -1})
    net.restart(0)
    net.run()
    assert net.queue(away) == kept


def test_a_restart_reads_a_few_of_many_unfinished_events_and_the_others_when_there_is_room(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(hosts, "RECOVERED_EVENTS", 3)
    net = Network.line(3, options={"spill": 50, "window": 4})
    away = net.subscribe(0, "x >= 0", durable=True)
    desk = net.subscribe(2, "x < 0", durable=True)
    net.run()
    net.crash(0)
    net.run()
    waiting = confirmed(net, 1, *({"x": x} for x in range(30)))
    net.crash(1)
    net.restart(1)
    net.run()
    assert net.unfinished(1) == 30
    others = confirmed(net, 1, {"x": -1}, {"x": -2})
    assert net.queue(desk) == others
    net.restart(0)
    net.run()
    assert net.queue(away) == waiting
    assert net.unfinished(1) == 0
    assert net.verdict().is_right


@pytest.mark.parametrize(("on_full", "kept", "letters"), [("drop_oldest", [3, 4], 0), ("dead_letter", [3, 4], 3)])
def test_a_spill_that_is_full_follows_the_policy_of_the_subscription(
    on_full: str, kept: list[int], letters: int
) -> None:
    net = Network.line(2, options={"spill": 2})
    settings = DurableSettings(on_full=on_full)  # type: ignore[arg-type]
    away = net.subscribe(0, "x >= 0", durable=True, settings=settings)
    net.run()
    net.crash(0)
    net.run()
    confirmed(net, 1, *({"x": x} for x in range(5)))
    net.restart(0)
    net.run()
    assert [event.get("x") for event in net.queue(away)] == kept
    assert len(net.dead_letters(1)) == letters


def test_a_full_queue_stops_only_the_events_that_it_wants() -> None:
    net = Network.line(2, options={"spill": 2})
    full = net.subscribe(0, "symbol = 'A' OR symbol = 'C'", durable=True)
    desk = net.subscribe(0, "symbol = 'B' OR symbol = 'C'", durable=True)
    net.run()
    net.set_queue_full(full, True)
    net.run()
    both = confirmed(net, 1, *({"symbol": "C", "x": x} for x in range(2)))
    with pytest.raises(PalioError, match="busy: 2 confirmed events wait for a durable subscription of broker 0, whose"):
        net.publish(1, {"symbol": "A"}, confirm=True)
    others = confirmed(net, 1, *({"symbol": "B", "x": x} for x in range(9)))
    assert net.queue(full) == []
    assert net.queue(desk) == both + others
    net.set_queue_full(full, False)
    net.run()
    assert net.queue(full) == both
    assert net.queue(desk) == both + others  # none of them twice


def test_confirmation_by_the_whole_network_waits_for_brokers_that_are_away() -> None:
    net = Network.line(3)
    net.subscribe(2, "x > 0", durable=True)
    net.run()
    net.crash(2)
    net.run()
    desk = net.subscribe(0, "x > 1", confirm="network")
    net.run()
    assert desk not in net.confirmations
    net.restart(2)
    net.run()
    assert desk in net.confirmations
