"""Time stamps of the links that an event passed."""

from __future__ import annotations

import json
import time

import pytest

import palio
from tests.network.processes import Process, command, running, served
from tests.network.running import broker, line, run, url


def test_events_are_stamped_at_every_link_live_kept_and_together() -> None:
    async def test() -> None:
        began = time.time()
        async with (
            line(3, stamps=True) as (first, middle, last),
            palio.connect(url(first)) as publisher,
            palio.connect(url(last)) as client,
            client.subscribe("x > 0", confirm="network") as live,
            client.subscribe("x > 0", durable="desk", confirm="network") as kept,
            client.subscribe_many({"a": "x > 0", "b": "x > 1"}, confirm="network") as many,
        ):
            for confirm in (True, False):
                await publisher.publish({"x": 2}, confirm=confirm)
                for events in (live, kept, many):
                    event = await anext(events)
                    assert [each.broker for each in event.stamps] == [first.node, middle.node]
                    passed = [at for each in event.stamps for at in (each.written, each.read)]
                    times = [began, *passed, time.time()]
                    assert times == sorted(times)  # brokers of one machine have one clock
                    await event.ack()

    run(test)


@pytest.mark.parametrize(("one", "other"), [(False, False), (True, False), (False, True)])
def test_where_not_all_stamp_there_is_nothing_and_events_come_all_the_same(one: bool, other: bool) -> None:
    async def test() -> None:
        async with (
            broker(stamps=one) as first,
            broker(stamps=other, connect=first.addresses) as last,
            palio.connect(url(first)) as publisher,
            palio.connect(url(last)) as client,
            client.subscribe("x > 0", confirm="network") as events,
        ):
            await publisher.publish({"x": 2}, confirm=True)
            event = await anext(events)
            assert (event.get("x"), event.stamps) == (2, ())

    run(test)


def test_subscribe_prints_them_for_programs() -> None:
    with (
        served("--stamps") as hub,
        served("--stamps", "--connect", hub.url) as edge,
        running(Process("subscribe", "x > 0", "--count", "1", "--json", "--connect", edge.url)) as subscriber,
        palio.connect_blocking(edge.url) as client,
    ):
        while client.status()["subscriptions"] == 0:
            time.sleep(0.01)
        with client.subscribe("FALSE", confirm="network"):  # which the hub hears of after the other
            assert command("publish", '{"x": 1}', "--connect", hub.url)[0] == 0
        code, out, _ = subscriber.end()
    [stamp] = json.loads(out)["stamps"]
    assert code == 0
    assert stamp["written"] <= stamp["read"] <= time.time()
