"""Ages of events at clients of real brokers: bounds by the clocks of both ends, late events, status."""

from __future__ import annotations

import asyncio
from time import monotonic
from typing import Any

import pyarrow as pa
import pytest

import palio
from palio.errors import InvalidArgument, Refused
from palio.network.protocol import (
    Matched,
    Publish,
    Welcome,
    decode_from_client,
    decode_from_server,
    encode,
    encode_numbers,
)
from palio.network.server.process import Server
from palio.routing.messages import BEGINS_AT_BROKER, UNKNOWN_AGE
from tests.network.running import broker, run, until, url

TIMELY: dict[str, Any] = {"options": {"timeliness": True}}


def knows_delays(client: Any) -> bool:
    """Whether both ends of a connection have exchanged references."""
    delays = client.connection.clock._delays
    return delays is not None and delays.last_upper_bound is not None


async def with_references(server: Server, *clients: Any) -> None:
    for each in clients:
        await until(lambda each=each: knows_delays(each))  # type: ignore[misc]


def test_an_event_says_how_old_it_is_at_most() -> None:
    async def test() -> None:
        async with (
            broker(**TIMELY) as server,
            palio.connect(url(server)) as publisher,
            palio.connect(url(server)) as subscriber,
            subscriber.subscribe("x > 0") as events,
        ):
            await with_references(server, publisher, subscriber)
            for confirm in (False, True):
                before = monotonic()
                await publisher.publish({"x": 1}, confirm=confirm)
                event = await anext(events)
                # All clients and brokers of a test have one clock, so that the truth is known.
                took = monotonic() - before
                assert event.age is not None
                assert event.age > 0
                assert event.is_timely(event.age)
                assert not event.is_timely(event.age / 2)
                assert not event.is_late
                assert event.age < took + 60

    run(test)


def test_an_event_grows_older_while_it_waits_in_the_stream() -> None:
    async def test() -> None:
        async with (
            broker(**TIMELY) as server,
            palio.connect(url(server)) as client,
            client.subscribe("x > 0") as events,
        ):
            await with_references(server, client)
            before = monotonic()
            await client.publish({"x": 1}, confirm=True)
            await until(lambda: bool(events._waiting))
            await until(lambda: monotonic() > before + 0.05)
            received = await anext(events)
            assert received.age is not None
            assert received.age >= 0.05

    run(test)


def test_batches_have_ages_too() -> None:
    async def test() -> None:
        async with (
            broker(**TIMELY) as server,
            palio.connect(url(server)) as client,
            client.subscribe("x >= 0") as events,
        ):
            await with_references(server, client)
            for rows in (3, 200):
                await client.publish_many(pa.table({"x": list(range(rows))}))
                seen = 0
                async for batch in events.batches():
                    assert batch.age is not None
                    assert batch.is_timely(batch.age)
                    seen += len(batch)
                    if seen == rows:
                        break

    run(test)


def test_late_events_are_marked_or_dropped_as_asked() -> None:
    async def test() -> None:
        async with (
            broker(**TIMELY) as server,
            palio.connect(url(server)) as client,
            client.subscribe("x > 0", timely=1e-9) as marked,
            client.subscribe("x > 0", timely=1e-9, late="drop") as dropped,
            client.subscribe("x > 0", timely=3600, late="drop") as kept,
        ):
            await with_references(server, client)
            await client.publish({"x": 1}, confirm=True)
            event = await anext(marked)
            assert event.is_late
            assert (await anext(kept)).get("x") == 1
            waiting = asyncio.ensure_future(anext(dropped))
            await until(lambda: dropped.late == 1)
            assert not waiting.done()
            waiting.cancel()
            assert (dropped.late, kept.late, marked.late) == (1, 0, 0)

    run(test)


@pytest.mark.parametrize(
    ("wrong", "match"),
    [
        ({"timely": 0}, "above 0"),
        ({"timely": "soon"}, "above 0"),
        ({"late": "drop"}, "timely="),
        ({"timely": 1.0, "late": "ignore"}, "mark, drop"),
        ({"timely": 1.0, "late": "drop", "durable": "desk"}, "loses no events"),
    ],
)
def test_a_wrong_threshold_is_refused(wrong: dict[str, Any], match: str) -> None:
    async def test() -> None:
        async with broker(**TIMELY) as server, palio.connect(url(server)) as client:
            with pytest.raises(InvalidArgument, match=match):
                client.subscribe("x > 0", **wrong)

    run(test)


def test_without_timeliness_there_are_no_ages_and_a_threshold_is_refused() -> None:
    async def test() -> None:
        async with broker() as server, palio.connect(url(server)) as client, client.subscribe("x > 0") as events:
            with pytest.raises(Refused, match="--timeliness"):
                client.subscribe("x > 0", timely=0.05)
            await client.publish({"x": 1})
            event = await anext(events)
            assert event.age is None
            assert not event.is_timely(1e9)
            assert not event.is_late

    run(test)


def test_ages_add_up_over_two_brokers_and_status_has_the_bound_of_a_link() -> None:
    async def test() -> None:
        async with (
            broker(**TIMELY) as hub,
            broker(**TIMELY, connect=(url(hub),)) as edge,
            palio.connect(url(hub)) as publisher,
            palio.connect(url(edge)) as subscriber,
            subscriber.subscribe("x > 0", confirm="network") as events,
        ):
            await with_references(hub, publisher, subscriber)
            await until(lambda: bool(edge.host.node.ages and edge.host.node.ages.last_upper_bounds()))
            before = monotonic()
            await publisher.publish({"x": 1})
            event = await anext(events)
            assert event.age is not None
            assert event.age < monotonic() - before + 60
            [neighbour] = edge.status()["neighbours"]
            assert 0 < neighbour["delay_bound"] < 60

    run(test)


def test_an_event_whose_publisher_knows_no_age_begins_at_the_broker() -> None:
    assert Publish(0, b"").age == BEGINS_AT_BROKER
    assert Matched(encode_numbers((1,)), b"").age == UNKNOWN_AGE
    # What is written without the newer fields is read with their defaults.
    old = encode((88, 0, b"", b""))  # type: ignore[arg-type]
    assert decode_from_client(old) == Publish(0, b"")
    assert decode_from_server(encode((82, 1, 2, 3, 4, 5, 6.0, 7))) == Welcome(1, 2, 3, 4, 5, 6.0, 7)  # type: ignore[arg-type]
