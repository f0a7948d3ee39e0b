"""Jumps of the wall clock, which change nothing unless they last."""

from __future__ import annotations

from itertools import count
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import palio
from palio.network.server.process import Server
from palio.network.server.settings import Settings
from palio.network.store.interface import Retention
from palio.network.store.sqlite import SqliteStore
from palio.network.store.writer import SteadyClock
from tests.network.running import ANY_PORT, broker, run, until, up, url
from tests.network.server.test_durable_subscriptions import take
from tests.network.store.making import logged

YEAR = 365 * 24 * 3600.0


def near(seconds: float) -> Any:
    return pytest.approx(seconds, rel=0.0, abs=0.001)


class Machine:
    """A clock on the wall that somebody sets, and one that nobody can."""

    def __init__(self) -> None:
        self.steady = 50.0
        self.offset = 1_000_000.0

    def clock(self) -> SteadyClock:
        return SteadyClock(lambda: self.steady + self.offset, lambda: self.steady)


@pytest.mark.parametrize("jump", [YEAR, -YEAR, 30.0, -30.0])
def test_a_jump_is_believed_when_it_lasts(jump: float) -> None:
    machine = Machine()
    clock = machine.clock()
    machine.offset += jump
    for _ in range(9):
        assert clock() == near(machine.steady + 1_000_000.0)
        machine.steady += 60.0
    machine.offset -= jump  # it was a mistake
    assert clock() == near(machine.steady + machine.offset)
    machine.offset += jump
    clock()
    machine.steady += 601.0
    assert clock() == near(machine.steady + machine.offset)


@given(st.lists(st.tuples(st.floats(0.001, 5_000), st.floats(-0.0005, 0.0005)), max_size=20))
def test_a_clock_that_is_put_right_little_by_little_is_always_right(steps: list[tuple[float, float]]) -> None:
    machine = Machine()
    clock = machine.clock()
    for seconds, drift in steps:
        machine.steady += seconds
        machine.offset += seconds * drift
        assert clock() == near(machine.steady + machine.offset)


def test_a_clock_that_is_wrong_at_the_start_lets_go_of_nothing_unless_it_stays_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    def life(jump: float, *pauses: float) -> list[int]:
        """What is kept of the log after a life before which the clock was set, with an event after each pause."""
        machine.offset += jump
        store = SqliteStore(tmp_path, Retention(log_seconds=3_600), clock=machine.clock())
        store.open()
        for pause in pauses:
            machine.steady += pause
            store.write([logged(next(numbers))])
            store.retain()
        kept = store.log.bounds()
        store.close()
        return list(range(*kept))

    numbers = count(1)
    machine = Machine()
    assert life(0.0, 0.0, 60.0, 60.0) == [1, 2, 3]
    assert life(YEAR) == [1, 2, 3]  # a year later, as it seems
    assert [each.__dict__["seconds"] for each in caplog.records] == [YEAR]
    assert life(-YEAR, 1.0, 700.0) == [1, 2, 3, 4, 5]  # it was a mistake
    assert life(0.0, 2_800.0) == [2, 3, 4, 5, 6]  # and age is age
    assert life(YEAR, 590.0, 20.0) == [7, 8]  # so long it was away


def test_how_long_an_event_waits_does_not_jump(monkeypatch: pytest.MonkeyPatch) -> None:
    machine = Machine()
    monkeypatch.setattr("palio.network.server.process.SteadyClock", machine.clock)

    async def test() -> None:
        async with broker() as server, palio.connect(url(server)) as client:
            async with client.subscribe("x > 0", durable="desk"):
                pass
            await client.publish({"x": 1}, confirm=True)
            machine.steady += 5.0
            machine.offset += YEAR
            await until(lambda: server.status()["queued"] == 1)
            assert server.status()["durable"][0]["lag"] == near(5.0)

    run(test)


@pytest.mark.parametrize("jump", [YEAR, -YEAR])
def test_a_jump_lets_go_of_nothing_and_stops_nothing(tmp_path: Path, jump: float) -> None:
    machine = Machine()

    async def test() -> None:
        store = SqliteStore(tmp_path, Retention(log_seconds=3_600), clock=machine.clock())
        server = Server(Settings(listen=(ANY_PORT,), heartbeat=0.05), store)
        await server.start()
        async with broker(connect=server.addresses, heartbeat=0.05) as edge, palio.connect(url(edge)) as publisher:
            await until(lambda: len(up(edge)) == 1)
            async with palio.connect(url(server)) as client:
                async with client.subscribe("x > 0", durable="desk", confirm="network"):
                    await client.publish({"x": 1}, confirm=True)
                machine.offset += jump
                await client.publish({"x": 2}, confirm=True)
                store.retain()
                await publisher.publish({"x": 3}, confirm=True)
                async with client.subscribe("x > 0", durable="desk") as events:
                    assert sorted(map(str, await take(events, 3))) == ["1", "2", "3"]
                machine.offset -= jump
                await client.publish({"x": 4}, confirm=True)
                store.retain()
                assert [each.event.get("x") for each in (await client.read_log()).events] == [1, 2, 4]
                assert len(up(server)) == 1
                assert (await client.status())["uptime"] >= 0
        await server.stop()

    run(test)
