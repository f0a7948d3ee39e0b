"""Log replay: all logs in the order of time, each event once, and the logs that are missing."""

from __future__ import annotations

from random import Random

from palio import Event, Filter
from palio.routing.client_messages import Past, ReplayClient
from palio.routing.codec import decode_event
from palio.routing.effects import Requested
from palio.simulation import Network
from tests.simulation.scenarios import hosts


def numbers(past: Past) -> list[int]:
    return [decode_event(event.body).get("x") for _, event in past.events]


def published(brokers: int, events: int, seed: int = 0) -> Network:
    random = Random(seed)
    net = Network.random(brokers, seed=seed)
    for number in range(events):
        net.publish(random.randrange(brokers), {"x": number}, confirm=True)
        net.run(0.1)
    net.run()
    return net


def test_the_logs_of_all_brokers_are_merged_by_time() -> None:
    net = published(5, 20)
    past = net.replay(at=3)
    assert numbers(past) == list(range(20))
    assert (past.missing, past.expired, past.complete) == ((), (), True)
    assert numbers(net.replay(at=0, where="x >= 15")) == [15, 16, 17, 18, 19]
    assert len(numbers(net.replay(at=0, since=net.now / 2))) in range(5, 16)


def test_pages_go_on_from_their_places_and_miss_and_double_nothing() -> None:
    for seed in range(10):
        net = published(4, 30, seed)
        found: list[int] = []
        past = net.replay(at=1, where="x <> 7", limit=3)
        while not past.complete:
            found += numbers(past)
            past = net.replay(at=1, where="x <> 7", limit=3, places=dict(past.places))
        assert found + numbers(past) == [number for number in range(30) if number != 7]


def test_an_event_that_was_let_in_by_two_brokers_is_told_once() -> None:
    net = Network.line(3)
    event = Event.from_dict({"x": 1}, id="1")
    for at in (0, 2):
        net.publish(at, event, confirm=True)
        net.run()
    assert numbers(net.replay(at=1)) == [1]


def test_a_log_that_cannot_be_asked_is_named() -> None:
    net = Network.line(4)
    for at in range(4):
        net.publish(at, {"x": at}, confirm=True)
        net.run()
    net.cut((1, 2))
    net.run()
    past = net.replay(at=0)
    assert (numbers(past), past.missing) == ([0, 1], (2, 3))
    net.crash(0)
    net.restart(0)  # and remembers who has one
    net.run()
    assert net.replay(at=0).missing == (2, 3)
    net.mend((1, 2))
    net.run()
    assert (numbers(net.replay(at=0)), net.replay(at=0).missing) == ([0, 1, 2, 3], ())


def test_a_link_that_breaks_meanwhile_makes_it_partial() -> None:
    net = Network.line(3)
    for at in range(3):
        net.publish(at, {"x": at}, confirm=True)
        net.run()
    request = ReplayClient(1, Filter.parse("TRUE"))
    # Private: `Network.replay` would wait for the answer.
    net._engine.handle(hosts(net)[0], [Requested("somebody", request, net.now)])
    net.run(0.012)
    net.cut((1, 2))
    net.run()
    # What a client was replayed is recorded with the simulated clients.
    past = net._clients.pasts[1]
    assert (numbers(past), past.missing) == ([0, 1], (2,))
