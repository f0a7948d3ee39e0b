"""Channels: framing of a stream, and batching of events for which no caller waits."""

from __future__ import annotations

import asyncio
import socket
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.errors import WireError
from palio.network.channel import Channel, FrameReader, frame_header
from palio.routing.codec import MAX_FRAME_BYTES

FRAMES = st.lists(st.binary(min_size=2, max_size=300), max_size=8)


@given(FRAMES, st.lists(st.integers(0, 2600), max_size=12))
def test_a_stream_gives_its_frames_however_it_is_cut(frames: list[bytes], cuts: list[int]) -> None:
    stream = b"".join(frame_header(len(frame)) + frame for frame in frames)
    reader = FrameReader()
    found: list[bytes] = []
    places = [0, *sorted(cut for cut in cuts if cut < len(stream)), len(stream)]
    for start, end in pairwise(places):
        found += reader.feed(stream[start:end])
    assert found == frames


@pytest.mark.parametrize("length", [0, 1, 101, 2**32 - 1])
def test_a_length_that_no_frame_has_is_refused_before_its_bytes_come(length: int) -> None:
    with pytest.raises(WireError, match="where one has from 2 to 100"):
        FrameReader(limit=100).feed(frame_header(length))


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


def run(test: Any) -> None:
    with asyncio.Runner(loop_factory=Clock) as runner:
        runner.run(test())


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


def test_a_connection_that_meets_itself_is_given_up() -> None:
    """As it does now and then where a client dials, again and again, a port of its machine where nothing listens."""

    class Lost:
        reason = ""

        def on_open(self, channel: Channel) -> None:
            channel.send(ANSWER)

        def on_frames(self, channel: Channel, frames: list[bytes]) -> None:
            raise AssertionError(frames)

        def on_lost(self, channel: Channel, reason: str) -> None:
            self.reason = reason

    async def test() -> None:
        lost = Lost()
        with socket.socket() as itself:
            itself.bind(("127.0.0.1", 0))
            itself.connect(itself.getsockname())
            itself.setblocking(False)
            await asyncio.get_running_loop().create_connection(lambda: Channel(lost, 5.0), sock=itself)  # type: ignore[arg-type]
            while not lost.reason:
                await asyncio.sleep(0)
        assert lost.reason == "nothing listens there"

    asyncio.run(test())
