"""The startup barrier."""

from __future__ import annotations

import pytest

from palio.network.server.startup_barrier import StartupBarrier
from tests.network.virtual_time import VirtualTime

PATIENCE = 5.0


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> VirtualTime:
    virtual = VirtualTime()
    monkeypatch.setattr("palio.network.server.startup_barrier.asyncio.get_running_loop", lambda: virtual)
    return virtual


class Calls:
    """Calls in the order in which the barrier lets them pass."""

    def __init__(self, barrier: StartupBarrier) -> None:
        self.made: list[int] = []
        self._barrier = barrier

    def request(self, number: int) -> None:
        self._barrier.run_after(lambda: self.made.append(number))


def test_calls_wait_until_the_neighbours_are_known_and_keep_their_order(time: VirtualTime) -> None:
    known = False
    calls = Calls(StartupBarrier(lambda: known, PATIENCE))
    for number in range(3):
        calls.request(number)
    time.pass_seconds(1.0)
    assert calls.made == []
    known = True
    time.pass_seconds(1.0)
    assert calls.made == [0, 1, 2]


def test_a_barrier_that_has_opened_stays_open(time: VirtualTime) -> None:
    known = True
    calls = Calls(StartupBarrier(lambda: known, PATIENCE))
    calls.request(0)
    known = False  # a neighbour is lost later: that is no start
    calls.request(1)
    assert calls.made == [0, 1]


def test_a_broker_that_stays_away_is_waited_for_only_so_long(time: VirtualTime) -> None:
    calls = Calls(StartupBarrier(lambda: False, PATIENCE))
    calls.request(0)
    time.pass_seconds(PATIENCE / 2)
    assert calls.made == []
    time.pass_seconds(PATIENCE / 2)
    assert calls.made == [0]
    calls.request(1)
    assert calls.made == [0, 1]


def test_calls_that_wait_when_the_broker_stops_are_not_made(time: VirtualTime) -> None:
    known = False
    barrier = StartupBarrier(lambda: known, PATIENCE)
    calls = Calls(barrier)
    calls.request(0)
    barrier.stop()
    known = True
    time.pass_seconds(2 * PATIENCE)
    assert calls.made == []
