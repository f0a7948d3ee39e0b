"""Events that nobody waits for travel together where there are many, and at once where there are few."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from palio.network.channel import Channel, FrameReader
from palio.routing.codec import MAX_FRAME_BYTES

EVENT = b"\x01\x00event"
ANSWER = b"\x01\x00answer"


class Clock(asyncio.SelectorEventLoop):
    """A loop whose time passes when a test says so."""

    at = 0.0

    def time(self) -> float:
        return self.at


class Written(asyncio.Transport):
    """Takes what is written."""

    def __init__(self) -> None:
        super().__init__()
        self.writes: list[bytes] = []

    def is_closing(self) -> bool:
        return False

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        pass

    def write(self, data: Any) -> None:
        self.writes.append(bytes(data))

    @property
    def frames(self) -> list[bytes]:
        return FrameReader(MAX_FRAME_BYTES).feed(b"".join(self.writes))


class Nobody:
    def on_open(self, channel: Channel) -> None:
        pass


async def sent(count: int, gap: float) -> tuple[Clock, Channel, Written]:
    """A channel on which some events were sent, with a pause in seconds after each."""
    loop = asyncio.get_running_loop()
    assert isinstance(loop, Clock)
    channel = Channel(Nobody(), heartbeat=60)  # type: ignore[arg-type]
    written = Written()
    channel.connection_made(written)
    for _ in range(count):
        loop.at += gap
        channel.send_event(EVENT)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
    return loop, channel, written


def run(test: Any) -> None:
    with asyncio.Runner(loop_factory=Clock) as runner:
        runner.run(test())


@pytest.mark.parametrize("gap", [0.00025, 0.001, 10.0])
def test_few_leave_at_once(gap: float) -> None:
    async def test() -> None:
        _, _, written = await sent(1_000, gap)
        assert len(written.writes) == len(written.frames) == 1_000

    run(test)


def test_many_leave_together_and_none_waits_longer_than_a_millisecond() -> None:
    async def test() -> None:
        loop, _, written = await sent(10_000, 0.0001)
        assert len(written.writes) < 1_200
        loop.at += 0.001
        await asyncio.sleep(0.0)
        await asyncio.sleep(0.0)
        assert written.frames == [EVENT] * 10_000

    run(test)


def test_what_is_waited_for_takes_along_what_gathers() -> None:
    async def test() -> None:
        _, channel, written = await sent(1_000, 0.00001)
        channel.send_event(EVENT)
        channel.send(ANSWER)
        await asyncio.sleep(0)
        assert written.frames == [*[EVENT] * 1_001, ANSWER]

    run(test)


def test_after_a_pause_an_event_leaves_at_once_again() -> None:
    async def test() -> None:
        loop, channel, written = await sent(1_000, 0.0001)
        for _ in range(3):
            loop.at += 1.0
            await asyncio.sleep(0)
            channel.send_event(EVENT)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        loop.at += 1.0
        before = len(written.frames)
        channel.send_event(EVENT)
        await asyncio.sleep(0)
        assert len(written.frames) == before + 1

    run(test)
