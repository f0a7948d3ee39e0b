"""The window within which a broker knows an event again: its size is what was set, also in the broker's next life."""

from __future__ import annotations

from pathlib import Path

import palio
from palio import Event
from palio.routing.delivery.event_log import DeduplicationWindow
from tests.network.running import broker, run, url


def test_the_window_has_the_size_that_was_set_and_outlives_the_broker(tmp_path: Path) -> None:
    async def publish(*ids: str) -> list[str]:
        """Publish, and say what is in the log then."""
        async with (
            broker(data=tmp_path, keeping={"duplicates": 2}) as server,
            palio.connect(url(server), publisher="feed") as client,
        ):
            for id in ids:
                await client.publish(Event.from_dict({"x": 1}, id=id), confirm=True)
            return [each.event.id for each in (await client.read_log()).events]

    async def test() -> None:
        assert await publish("a", "b", "c", "b") == ["a", "b", "c"]
        assert await publish("c", "b") == ["a", "b", "c"]
        assert await publish("a") == ["a", "b", "c", "a"]

    run(test)


def test_the_oldest_goes_first() -> None:
    window = DeduplicationWindow([b"a", b"b", b"c"], size=2)
    assert [key in window for key in (b"a", b"b", b"c")] == [False, True, True]
    window.discard(b"b")
    window.add(b"d")
    assert [key in window for key in (b"b", b"c", b"d")] == [False, True, True]
