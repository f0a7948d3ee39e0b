"""Complete stretches over real connections."""

from __future__ import annotations

import asyncio

import pytest

import palio
from palio.network.client.event_stream import Stretch
from palio.network.server.delivery_queues import DeliveryQueue, QueueLimits
from palio.routing.client_messages import Complete
from palio.routing.messages import EventId, Publish
from tests.network.running import broker, line, run, until, url

WATERMARKS = {"completeness": 0.01}


def test_a_subscriber_hears_that_it_has_all_that_it_wanted() -> None:
    async def check() -> None:
        async with (
            line(3, propagation="covering", options=WATERMARKS) as servers,
            palio.connect(url(servers[0])) as desk,
            palio.connect(url(servers[2])) as feed,
            desk.subscribe("price > 100", confirm="network", completeness=True) as wanted,
        ):
            await feed.publish_all(palio.Event({"price": price}, source="feed") for price in (50, 120, 60, 130, 70))
            assert [(await anext(wanted)).get("price") for _ in range(2)] == [120, 130]
            await until(lambda: (told := wanted.complete_up_to("feed")) is not None and told.up_to == 5)
            told = wanted.complete_up_to("feed")
            assert told is not None
            assert (told.broker, told.incarnation, told.after) == (servers[2].node, servers[2].incarnation, 0)
            assert told.sources == {"feed"}
            assert wanted.complete_up_to("another") is None

    run(check)


def test_a_stretch_is_told_between_its_events_and_those_after_it() -> None:
    async def check() -> None:
        seen: list[object] = []
        async with (
            broker(options=WATERMARKS) as server,
            palio.connect(url(server)) as desk,
            desk.subscribe("TRUE", on_complete=seen.append) as wanted,
        ):
            for number in range(3):
                await desk.publish({"number": number})
                seen.append((await anext(wanted)).get("number"))
                # The stretch is complete when it is told, and that is before the next event is published.
                waiting = asyncio.ensure_future(anext(wanted))
                await until(lambda upto=number + 1: _is_complete_to(seen, upto))  # type: ignore[misc]
                waiting.cancel()
            numbers = [each if isinstance(each, int) else f"to {each.up_to}" for each in seen if _tells(each)]
            assert numbers == [0, "to 1", 1, "to 2", 2, "to 3"]

    run(check)


def _tells(each: object) -> bool:
    return not isinstance(each, Stretch) or each.up_to > each.after


def _is_complete_to(seen: list[object], number: int) -> bool:
    return any(isinstance(each, Stretch) and each.up_to == number for each in seen)


def test_without_watermarks_it_is_refused_and_durable_ones_are_not_told() -> None:
    async def check() -> None:
        async with broker() as server, palio.connect(url(server)) as desk:
            with pytest.raises(palio.Refused, match="--option completeness=SECONDS"):
                async with desk.subscribe("TRUE", completeness=True):
                    raise AssertionError
            with pytest.raises(palio.InvalidArgument, match="durable"):
                desk.subscribe("TRUE", durable="mine", completeness=True)

    run(check)


def test_the_blocking_client_asks_too() -> None:
    async def check() -> None:
        async with broker(options=WATERMARKS) as server:
            await asyncio.to_thread(ask, url(server))

    def ask(address: str) -> None:
        with (
            palio.connect_blocking(address) as desk,
            desk.subscribe("number >= 0", completeness=True) as wanted,
        ):
            desk.publish({"number": 1})
            assert next(wanted).get("number") == 1
            while (told := wanted.complete_up_to()) is None or told.up_to < 1:
                wanted.get(timeout=0.01)

    run(check)


def _event(number: int) -> Publish:
    return Publish(EventId(1, 1, number), b"")


def _stretch(after: int, up_to: int) -> Complete:
    return Complete(("a",), 1, 1, after, up_to, 0.0)


def test_a_stretch_leaves_after_its_events_and_not_at_all_if_one_was_dropped() -> None:
    queue = DeliveryQueue("a", QueueLimits(2, 1_000), "drop_oldest")
    queue.put(_event(1), (1,))
    queue.put_stretch(_stretch(0, 1))
    queue.put(_event(2), (1,))
    queue.put_stretch(_stretch(1, 2))
    assert queue.take_stretches() == []
    queue.take(1)
    assert [each.up_to for each in queue.take_stretches()] == [1]
    queue.put(_event(3), (1,))
    queue.put(_event(4), (1,))  # there is no room: event 2 is dropped, and with it the stretch that it is of
    queue.put_stretch(_stretch(2, 4))
    queue.take(9)
    assert queue.take_stretches() == []
    queue.put(_event(5), (1,))
    queue.put_stretch(_stretch(4, 5))
    queue.take(9)
    assert [each.up_to for each in queue.take_stretches()] == [5]
