"""Limits over HTTP: each is reported by its name, and the broker continues."""

from __future__ import annotations

import asyncio
import contextlib
import json
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest

import palio
from palio import Event, Filter, LimitReached
from palio.events import Limits as EventLimits
from palio.network import protocol
from palio.network.gateway.authentication import TICKET_SECONDS, Tickets
from palio.network.security.authentication import Tokens
from palio.network.security.authorization import Principal
from palio.network.security.quotas import BrokerLimits
from palio.network.server.process import Server
from palio.routing import codec
from palio.routing.client_messages import Past
from palio.routing.messages import EventId, PastEvent, Publish
from tests.network.gateway.serving import listening, serving
from tests.network.running import run, url

LINES = {"Content-Type": "application/x-ndjson"}


def told(answer: httpx.Response, status: int, limit: str) -> None:
    assert answer.status_code == status, answer.text
    assert answer.json()["limit"] == limit


def test_sizes_of_requests_events_and_conditions() -> None:
    limits = BrokerLimits(
        frame_bytes=2_000,
        batch_events=3,
        filter_bytes=300,
        filter_conjunctions=16,
        event=EventLimits(json_bytes=500, depth=5, attributes=10),
    )

    async def test() -> None:
        async with serving(limits=limits) as (_, client):
            for content in (b" " * 2_001, pieces(b" " * 1_001, b" " * 1_000)):
                told(await client.post("/events", headers=LINES, content=content), 413, "frame_bytes")
            assert (await client.post("/events", headers=LINES, content=b'{"n": 1}\n' * 3)).status_code == 200
            told(await client.post("/events", headers=LINES, content=b'{"n": 1}\n' * 4), 413, "batch_events")
            for event in ({"a": "x" * 500}, {"a": {"b": {"c": {"d": {"e": {}}}}}}, {f"a{n}": n for n in range(11)}):
                assert (await client.post("/events", json=event)).status_code == 400
            told(await client.get("/events", params={"where": "x = 1 OR " * 50 + "x = 2"}), 413, "filter_bytes")
            product = " AND ".join(f"(a{n} = 1 OR b{n} = 1)" for n in range(5))
            told(await client.get("/events", params={"where": product}), 422, "filter_conjunctions")
            told(await client.post("/subscriptions", content=b" " * 301), 413, "filter_bytes")
            assert (await client.get("/health")).status_code == 200

    run(test)


async def pieces(*parts: bytes) -> Any:
    """A body of which nobody says beforehand how long it is."""
    for part in parts:
        yield part


def test_connections_of_each_and_of_all() -> None:
    async def test() -> None:
        async with (
            serving(limits=BrokerLimits(connections_per_principal=2)) as (server, client),
            AsyncExitStack() as open,
        ):
            for _ in range(2):
                await open.enter_async_context(listening(client))
            told(await client.get("/events"), 429, "connections_per_principal")
            await open.aclose()
            while server.sessions:
                await asyncio.sleep(0.01)
            async with listening(client):
                pass
        async with serving(limits=BrokerLimits(connections=2)) as (server, client), AsyncExitStack() as open:
            for _ in range(2):
                await open.enter_async_context(listening(client))
            assert (await client.get("/events")).status_code == 503

    run(test)


def test_subscriptions_of_each_over_all_its_connections() -> None:
    async def test() -> None:
        async with serving(limits=BrokerLimits(subscriptions_per_principal=2)) as (server, client):
            async with listening(client), palio.connect(url(server)) as broker, broker.subscribe("x > 1"):
                told(await client.get("/events"), 429, "subscriptions_per_principal")
            while server.sessions:
                await asyncio.sleep(0.01)
            assert len(server.quotas.subscriptions) == 0
            assert len(server.quotas.connections) == 0

    run(test)


def test_durable_subscriptions_count_while_nobody_is_connected_to_them() -> None:
    async def test() -> None:
        async with serving(limits=BrokerLimits(subscriptions_per_principal=3)) as (server, client):
            async with palio.connect(url(server)) as broker:
                for name in ("a", "b", "c"):
                    async with broker.subscribe("x > 0", durable=name):
                        pass
                for options in ({}, {"durable": "d"}):
                    with pytest.raises(LimitReached, match="3 of them durable and away"):
                        await broker.subscribe("x > 0", **options).__aenter__()
            told(await client.get("/events"), 429, "subscriptions_per_principal")
            async with (
                palio.connect(url(server)) as broker,
                broker.subscribe("x > 0", durable="a"),
                broker.subscribe("x > 0", durable="b") as events,
            ):
                with pytest.raises(LimitReached, match="1 of them durable and away"):
                    await broker.subscribe("x > 0").__aenter__()
                await events.unsubscribe()
                async with broker.subscribe("x > 0"):
                    pass

    run(test)


@pytest.mark.parametrize("confirm", [True, False])
def test_an_event_has_the_same_bounds_by_whichever_way_it_comes(confirm: bool) -> None:
    bounds = EventLimits(json_bytes=500, depth=3, attributes=4, name_length=10, array_length=5, containers=6)
    fitting = [{"a": {"b": {"c": 1}}}, {"a1": 1, "a2": 1, "a3": 1, "a4": 1}, {"n" * 10: 1}, {"a": [1, 2, 3, 4, 5]}]
    others = [
        {"a": {"b": {"c": {"d": 1}}}},
        {f"a{n}": n for n in range(5)},
        {"n" * 11: 1},
        {"a": [1, 2, 3, 4, 5, 6]},
        {"a": [{"b": 1}] * 7},
        {"a": "x" * 500},
    ]

    async def test() -> None:
        async with serving(limits=BrokerLimits(event=bounds)) as (server, client), listening(client) as heard:
            for event in others:
                assert (await client.post("/events", json=event)).status_code in (400, 413)
                with pytest.raises((palio.Refused, LimitReached)):
                    await published(server, event, confirm)
            for event in fitting:
                assert (await client.post("/events", json=event)).status_code == 200
                await published(server, event, confirm)
                for _ in range(2):
                    assert (await heard.next())["data"] == event

    run(test)


async def published(server: Server, event: dict[str, Any], confirm: bool) -> None:
    async with palio.connect(url(server)) as broker:
        await broker.publish(event, confirm=confirm)


def test_events_a_second_of_each_whatever_it_speaks() -> None:
    async def test() -> None:
        limits = BrokerLimits(events_per_second=0.001, burst_events=5)
        async with serving(limits=limits) as (server, client), listening(client) as events:
            three = b"".join(b'{"n": %d}\n' % n for n in range(3))
            assert (await client.post("/events", headers=LINES, content=three)).status_code == 200
            refused = await client.post("/events", headers=LINES, content=three)
            told(refused, 429, "events_per_second")
            assert refused.headers["retry-after"]
            async with palio.connect(url(server)) as broker:
                for n in (3, 4):
                    await broker.publish({"n": n}, confirm=True)
                with pytest.raises(LimitReached, match="too fast"):
                    await broker.publish({"n": 5}, confirm=True)
            assert [(await events.next())["data"]["n"] for _ in range(5)] == [0, 1, 2, 3, 4]

    run(test)


def test_a_filter_that_is_too_long_is_not_even_read_however_it_is_written() -> None:
    async def test() -> None:
        async with serving(limits=BrokerLimits(filter_bytes=1_000)) as (server, _):
            address = server.addresses[0]
            asked = protocol.Subscribe(1, "a", Filter.parse("x IN (" + ", ".join(map(str, range(0, 5_000, 2))) + ")"))
            short = protocol.encode(asked)
            long = b"\xdc\x00" + bytes([short[0] & 15]) + short[1:]  # an array with a longer head is the same array
            for frame in (short, long):
                reader, writer = await asyncio.open_connection(address.host, address.port)
                for each in (protocol.encode(protocol.ClientHello(protocol.VERSION)), frame):
                    writer.write(len(each).to_bytes(4, "big") + each)
                assert b"too long to be read" in await reader.read()
                writer.close()

    run(test)


async def said_slowly(server: Server, *parts: bytes) -> bytes:
    """What a connection is answered that sends these and then nothing more."""
    assert server.gateway is not None
    reader, writer = await asyncio.open_connection(*server.gateway.address)
    for part in parts:
        writer.write(part)
        await writer.drain()
    answer = await reader.read()
    writer.close()
    return answer


def test_heads_and_bodies_that_do_not_come_are_not_waited_for() -> None:
    async def test() -> None:
        async with serving(limits=BrokerLimits(handshake_seconds=0.3)) as (server, client):
            assert await said_slowly(server) == b""
            assert await said_slowly(server, b"GET /health HTTP/1.1\r\nHost: localhost\r\n") == b""
            second = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"
            answered = await said_slowly(server, second, b"GET /heal")
            assert answered.count(b"HTTP/1.1 200 OK") == 1
            with contextlib.suppress(ConnectionError):  # an answer may be lost where more was sent than is read
                endless = await said_slowly(server, second[:-2] + b"X: ", *[b"x" * 100_000] * 50)
                assert b"200 OK" not in endless
            head = b"POST /events HTTP/1.1\r\nHost: localhost\r\nContent-Length: 9\r\n\r\n"
            assert b"HTTP/1.1 408" in await said_slowly(server, head, b'{"n"')
            async with listening(client) as events:  # a stream may be silent for as long as it likes
                for _ in range(2):  # longer than the broker waits for a request, as this connection shows
                    assert await said_slowly(server) == b""
                await client.post("/events", json={"n": 1})
                assert (await events.next())["data"] == {"n": 1}

    run(test)


def test_a_listener_that_does_not_read_loses_events_by_its_own_rule_and_not_the_brokers_memory() -> None:
    async def test() -> None:
        async with serving(flow={"queue": 10}) as (server, client):
            assert server.gateway is not None
            reader, writer = await asyncio.open_connection(*server.gateway.address, limit=1_000)
            writer.write(b"GET /events HTTP/1.1\r\nHost: localhost\r\n\r\n")
            await reader.readuntil(b"retry")
            lines = b"".join(json.dumps({"n": n, "text": "x" * 20_000}).encode() + b"\n" for n in range(100))
            (queue,) = [each for session in server.sessions for each in session.queues.values()]
            while not queue.waiting:
                assert (await client.post("/events", headers=LINES, content=lines)).status_code == 200
            assert len(queue.waiting) == 10
            assert server.host.drops["subscriber slow: drop_oldest"] == queue.dropped > 0
            writer.close()

    run(test)


def test_conditions_that_could_take_for_ever_are_refused() -> None:
    async def test() -> None:
        async with serving() as (_, client):
            for pattern in ("(a+)+\\\\1", "(?=a)b", "a{1,5000}{1,5000}"):
                answer = await client.get("/events", params={"where": f"x RLIKE '{pattern}'"})
                assert answer.status_code == 400, pattern

    run(test)


def test_tickets_end_and_there_are_not_too_many() -> None:
    tickets = Tickets()
    ticket = tickets.issue("desk", 0.0)
    assert tickets.redeem(ticket, TICKET_SECONDS - 0.1) == "desk"
    late = tickets.issue("desk", 0.0)
    with pytest.raises(palio.AuthenticationFailed):
        tickets.redeem(late, TICKET_SECONDS)
    given = [tickets.issue("desk", 100.0) for _ in range(1_000)]
    with pytest.raises(LimitReached, match="tickets"):
        tickets.issue("desk", 100.0)
    tickets.issue("other", 100.0)  # who is not kept from it by that
    tickets.redeem(given[0], 100.0)
    tickets.issue("desk", 100.0)
    tickets.issue("desk", 100.0 + TICKET_SECONDS)


def test_what_is_not_granted_is_not_handed_over_even_where_a_subscription_asks_for_it(tmp_path: Path) -> None:
    """An annotated event says itself where it goes; the last look, at delivery, is what keeps it from going there."""
    tokens = Tokens(tmp_path)
    desk = Principal("desk", may_subscribe=Filter.parse("n > 1"))
    tokens.add(desk)

    async def test() -> None:
        async with serving(data=tmp_path) as (server, _):
            session = server.open_session(desk, "test")
            await session.subscribe("mine", Filter.everything)
            for n in (1, 2):
                body = codec.encode_event(Event.from_dict({"n": n}))
                session.offer(("mine",), Publish(EventId(1, 1, n), body))
            assert [codec.decode_event(each.event.body).get("n") for each in session.take(10)] == [2]
            assert server.host.drops["not permitted"] == 1
            found = tuple((1, PastEvent(n, 0.0, b"", codec.encode_event(Event.from_dict({"n": n})))) for n in range(4))
            past = session.permitted(Past(1, found, (), (), (), True))  # asked for before the grant became so small
            assert [codec.decode_event(each.body).get("n") for _, each in past.events] == [2, 3]
            server.close_session(session)

    run(test)
