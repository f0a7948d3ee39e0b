"""Durable subscriptions over Server-Sent Events: events wait, and are acknowledged by the last id."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path

import httpx

from palio import Filter
from palio.network.security.authentication import Tokens
from palio.network.security.authorization import Principal, unrestricted
from palio.network.server.process import Server
from palio.routing.durable_settings import DurableSettings
from tests.network.gateway.serving import Stream, client_of, serving
from tests.network.running import run, until


async def numbered(stream: Stream, count: int) -> list[tuple[int, int]]:
    """The ids of events and what they say."""
    found, number = [], 0
    while len(found) < count:
        line = await stream.next_line()
        if line.startswith("id: "):
            number = int(line.removeprefix("id: "))
        elif line.startswith("data: "):
            found.append((number, int(line.split('"n":')[1].split("}")[0])))
    return found


@asynccontextmanager
async def streamed(client: httpx.AsyncClient, last: int = 0) -> AsyncIterator[httpx.Response]:
    """The stream of a durable subscription, which is made first."""
    made = await client.post("/durable/desk", json={"where": "n > 0"})
    assert made.status_code == 201, made.text
    headers = {"Last-Event-ID": str(last)} if last else {}
    async with client.stream("GET", "/events", params={"durable": "desk"}, headers=headers) as response:
        yield response


def waiting(server: Server) -> int:
    return server.store.queue("durable anyone/desk", "desk").size().events


def test_a_stream_goes_on_behind_the_last_event_that_was_seen(tmp_path: Path) -> None:
    async def test() -> None:
        async with serving(data=tmp_path) as (server, client):
            async with streamed(client) as response:
                for n in (1, 0, 2, 3):
                    await client.post("/events", json={"n": n})
                first = await numbered(Stream(response), 3)
                assert [n for _, n in first] == [1, 2, 3]
            async with streamed(client) as response:  # nothing was said to be dealt with
                assert await numbered(Stream(response), 3) == first
            await client.post("/events", json={"n": 4})
            async with streamed(client, last=first[1][0]) as response:
                assert [n for _, n in await numbered(Stream(response), 2)] == [3, 4]
                await until(lambda: waiting(server) == 2)
                answer = await client.post("/durable/desk/acknowledge", params={"through": first[2][0]})
                assert answer.status_code == 204
                await until(lambda: waiting(server) == 1)
        async with serving(data=tmp_path) as (server, client):
            async with streamed(client) as response:
                assert [n for _, n in await numbered(Stream(response), 1)] == [4]
            assert (await client.delete("/durable/desk")).status_code == 204
            await until(lambda: not server.host.node.broker.tables.subscriptions.clients())
            assert (await client.get("/events", headers={"Last-Event-ID": "x"})).status_code == 400
            for name in ("x" * 201, ""):
                assert (await client.get("/events", params={"durable": name})).status_code == 400

    run(test)


def test_a_durable_subscription_has_the_limits_that_it_was_made_with() -> None:
    async def test() -> None:
        def limits(server: Server) -> DurableSettings | None:
            return server.host.durable_settings("durable anyone/desk", "desk")

        async with serving() as (server, client):
            asked = {"where": "n > 0", "limits": {"max_events": 2, "on_full": "drop_oldest"}}
            assert (await client.post("/durable/desk", json=asked)).status_code == 201
            assert limits(server) == DurableSettings(2, None, "drop_oldest")
            await client.post("/durable/desk", json={"where": "n > 0"})
            assert limits(server) == DurableSettings(2, None, "drop_oldest")  # nothing was said of them
            async with client.stream("GET", "/events", params={"durable": "desk"}):  # which this does not disturb
                other = {"where": "n > 0", "limits": {"expires_after": 60}}
                assert (await client.post("/durable/desk", json=other)).status_code == 201
                assert limits(server) == DurableSettings(expires_after=60)
            for wrong, said in (
                ({"max_events": 0}, "max_events is a whole number from 1 on, not 0"),
                ({"max_event": 5}, "max_event"),
                ({"on_full": "panic"}, "on_full"),
            ):
                answer = await client.post("/durable/desk", json={"where": "n > 0", "limits": wrong})
                assert answer.status_code == 400
                assert said in answer.json()["detail"]

    run(test)


def test_a_get_neither_makes_a_durable_subscription_nor_changes_its_condition() -> None:
    async def test() -> None:
        async with serving() as (server, client):
            assert (await client.get("/events", params={"durable": "desk"})).status_code == 404
            made = await client.post("/durable/desk", json={"where": "n > 0 AND n > 1"})
            assert made.json() == {"name": "desk", "where": "n > 1"}
            asked = await client.get("/events", params={"durable": "desk", "where": "n > 7"})
            assert asked.status_code == 400
            assert "POST /durable/desk" in asked.json()["detail"]
            wants = server.host.node.broker.tables.subscriptions
            assert [str(each) for each in wants.filters("durable anyone/desk")] == ["n > 1"]
            await client.post("/durable/desk", json={"where": '{"n": [3]}', "language": "eventbridge"})
            assert [str(each) for each in wants.filters("durable anyone/desk")] == ["n = 3"]
            for wrong in ({}, {"where": 3}, {"where": "n >"}, {"where": "TRUE", "name": "x"}, []):
                assert (await client.post("/durable/desk", json=wrong)).status_code == 400

    run(test)


def test_what_waits_for_those_who_are_away_follows_their_grants(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    root = tokens.add(unrestricted("root"))
    desk = Principal("desk", may_subscribe=Filter.parse("n < 10"))
    token = tokens.add(desk)

    async def test() -> None:
        async with (
            serving(data=tmp_path, watch=0.05) as (server, _),
            client_of(server, root) as owner,
            client_of(server, token) as client,
        ):
            async with streamed(client):
                pass
            for n in (1, 5, 20):
                await owner.post("/events", json={"n": n})
            tokens.change(replace(desk, may_subscribe=Filter.parse("n < 10 AND n > 3")))
            wants = server.host.node.broker.tables.subscriptions
            await until(lambda: [str(each) for each in wants.filters("durable desk/desk")] == ["n > 3 AND n < 10"])
            async with streamed(client) as response:
                assert [n for _, n in await numbered(Stream(response), 1)] == [5]
            tokens.remove("desk")
            await until(lambda: not wants.clients())
            await until(lambda: server.store.queue("durable desk/desk", "desk").size().events == 0)

    run(test)


def test_whose_subscription_lives_elsewhere_is_told_where() -> None:
    async def test() -> None:
        async with serving() as (home, first), serving(connect=home.addresses) as (_, second):
            async with streamed(first) as response:
                assert response.status_code == 200
            lives = [{"broker": home.node, "address": str(home.addresses[0])}]
            for answer in (
                await second.get("/events", params={"durable": "desk"}),
                await second.post("/durable/desk", json={"where": "n > 0"}),
            ):
                assert answer.status_code == 421
                assert (answer.json()["subscription"], answer.json()["homes"]) == ("desk", lives)
            assert (await second.post("/durable/desk/acknowledge", params={"through": 1})).status_code == 421
            assert (await second.delete("/durable/desk")).status_code == 421
            assert (await first.delete("/durable/desk")).status_code == 204

    run(test)


def test_a_second_stream_is_refused_and_one_that_goes_on_takes_over() -> None:
    async def test() -> None:
        async with serving() as (_, client):
            await client.post("/durable/desk", json={"where": "n > 0"})
            await client.post("/events", json={"n": 1})
            reading = {"durable": "desk", "consumer": "page-1"}
            async with client.stream("GET", "/events", params=reading) as first:
                lines = Stream(first)  # a stream that nothing refers to is closed
                [(number, _)] = await numbered(lines, 1)
                refused = await client.get("/events", params={"durable": "desk"})
                assert refused.status_code == 409
                assert "read by anyone at 127.0.0.1:" in refused.json()["detail"]
                again = await client.post("/durable/desk", json={"where": "n > 0"})
                assert again.status_code == 201  # what stands already disturbs nobody
                other = await client.post("/durable/desk", json={"where": "n > 1"})
                assert other.status_code == 409
                async with client.stream("GET", "/events", params=reading) as second:
                    more = Stream(second)
                    assert await numbered(more, 1) == [(number, 1)]
                    last = {"Last-Event-ID": str(number)}
                    await client.post("/events", json={"n": 2})
                    async with client.stream("GET", "/events", params={"durable": "desk"}, headers=last) as third:
                        assert [n for _, n in await numbered(Stream(third), 1)] == [2]

    run(test)


def test_what_a_stream_has_got_and_the_next_one_acknowledges_has_not_failed(tmp_path: Path) -> None:
    async def test() -> None:
        async with serving(data=tmp_path) as (server, client):
            async with streamed(client) as response:
                await client.post("/events", json={"n": 1})
                [(number, _)] = await numbered(Stream(response), 1)
            await until(lambda: "durable anyone/desk" not in server.host.clients)
            assert server.store.queue("durable anyone/desk", "desk").failures([number]) == {}
            async with streamed(client, last=number):
                await until(lambda: waiting(server) == 0)
            assert server.store.dead_letters.size().events == 0

    run(test)


def test_streams_of_a_group_share_the_events_and_acknowledge_one_by_one() -> None:
    async def test() -> None:
        async with serving() as (server, client):
            await client.post("/durable/desk", json={"where": "n > 0"})
            reading = {"durable": "desk", "group": "true"}
            async with (
                client.stream("GET", "/events", params=reading) as first,
                client.stream("GET", "/events", params=reading) as second,
            ):
                for n in (1, 2):
                    await client.post("/events", json={"n": n})
                streams = Stream(first), Stream(second)
                got = [(await numbered(each, 1))[0] for each in streams]
                assert {n for _, n in got} == {1, 2}
                all_up_to = await client.post("/durable/desk/acknowledge", params={"through": got[0][0]})
                assert all_up_to.status_code == 409
                for number, _ in got:
                    answer = await client.post("/durable/desk/acknowledge", params={"number": number})
                    assert answer.status_code == 204
                await until(lambda: waiting(server) == 0)

    run(test)
