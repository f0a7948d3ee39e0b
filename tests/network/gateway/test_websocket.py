"""WebSocket: messages, authentication, and the end of a conversation."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from websockets.asyncio.client import ClientConnection, connect
from websockets.exceptions import ConnectionClosed, InvalidStatus

from palio import Filter
from palio.network.gateway.settings import HttpSettings
from palio.network.security.authentication import Tokens
from palio.network.security.authorization import Principal, unrestricted
from palio.network.security.quotas import BrokerLimits
from palio.network.server.process import Server
from tests.network.gateway.serving import base, bearing, client_of, serving
from tests.network.running import run

DESK = Principal("desk", may_subscribe=Filter.parse("symbol = 'ACME'"), may_publish=Filter.everything)


class Talk:
    """A WebSocket, message by message."""

    def __init__(self, socket: ClientConnection) -> None:
        self.socket = socket

    async def say(self, type: str, **members: Any) -> None:
        await self.socket.send(json.dumps({"type": type, **members}))

    async def listen(self) -> dict[str, Any]:
        message: dict[str, Any] = json.loads(await self.socket.recv())
        return message

    async def hear(self, type: str) -> dict[str, Any]:
        message = await self.listen()
        assert message["type"] == type, message
        return message


@asynccontextmanager
async def talking(server: Server, query: str = "", **options: Any) -> AsyncIterator[Talk]:
    async with connect(f"{base(server, 'ws')}/ws{query}", proxy=None, **options) as socket:
        yield Talk(socket)


def test_a_subscription_with_a_lease_ends_unless_it_is_extended() -> None:
    async def test() -> None:
        async with serving() as (server, _), talking(server) as talk:
            await talk.hear("welcome")
            await talk.say("subscribe", name="brief", where="price > 100", lease=0.3)
            await talk.hear("subscribed")
            await talk.say("extend", name="brief")
            assert await talk.hear("extended") == {"type": "extended", "name": "brief"}
            ended = await talk.hear("problem")
            assert ended["name"] == "brief"
            assert "not extended in time" in ended["problem"]["detail"]
            await talk.say("extend", name="brief")
            assert "no lease to extend" in (await talk.hear("problem"))["problem"]["detail"]
            await talk.say("subscribe", name="desk", durable=True, lease=5)
            assert "has no lease" in (await talk.hear("problem"))["problem"]["detail"]
            await talk.say("subscribe", name="brief", lease=0)
            assert "problem" in (await talk.hear("problem"))

    run(test)


def test_events_go_both_ways() -> None:
    async def test() -> None:
        async with serving() as (server, client), talking(server) as talk:
            assert (await talk.hear("welcome"))["principal"] == "anyone"
            await talk.say("subscribe", name="dear", where="price > 100")
            assert await talk.hear("subscribed") == {"type": "subscribed", "name": "dear", "where": "price > 100"}
            await client.post("/events", json={"price": 90})
            await client.post("/events", json={"price": 120})
            heard = await talk.hear("event")
            assert (heard["name"], heard["event"]["data"]) == ("dear", {"price": 120})
            await talk.say("publish", request=7, event={"price": 130})
            assert {(await talk.listen())["type"] for _ in range(2)} == {"event", "published"}
            await talk.say("unsubscribe", name="dear")
            await talk.hear("unsubscribed")
            await talk.say("publish", request=8, event={"price": 140})
            assert (await talk.hear("published"))["request"] == 8

    run(test)


def test_what_is_wrong_is_told_and_the_conversation_goes_on() -> None:
    async def test() -> None:
        async with serving() as (server, _), talking(server) as talk:
            await talk.hear("welcome")
            for text, status in [
                ("{", 400),
                ("[]", 400),
                ('{"type": "dance"}', 400),
                ('{"type": "subscribe"}', 400),
                ('{"type": "subscribe", "name": "a", "where": "x >"}', 400),
                ('{"type": "subscribe", "name": "", "where": "x > 1"}', 400),
                ('{"type": "subscribe", "name": "a", "language": "klingon"}', 400),
                ('{"type": "unsubscribe", "name": "nobody"}', 409),
                ('{"type": "publish", "event": {"a": 1, "a": 2}, "request": 3}', 400),
                ('{"type": "publish", "event": [1]}', 400),
                ('{"type": "hello"}', 400),
                ('{"a":' * 5_000, 400),
            ]:
                await talk.socket.send(text)
                assert (await talk.hear("problem"))["problem"]["status"] == status, text
            await talk.say("subscribe", name="a", where="x >")
            problem = await talk.hear("problem")
            assert (problem["name"], problem["problem"]["position"]) == ("a", 3)
            await talk.say("subscribe", name="a")
            await talk.hear("subscribed")
            assert len(server.sessions) == 1
        async with serving() as (server, _):
            async with talking(server) as talk:
                await talk.socket.send(b"bytes")
                await talk.hear("welcome")
                assert (await talk.hear("problem"))["problem"]["status"] == 415
                with pytest.raises(ConnectionClosed):
                    await talk.socket.recv()
                assert talk.socket.close_code == 1003
            while server.sessions:
                await asyncio.sleep(0.01)

    run(test)


def test_a_token_comes_first_by_header_by_ticket_or_by_the_first_message(tmp_path: Path) -> None:
    token = Tokens(tmp_path).add(DESK)

    async def test() -> None:
        async with serving(data=tmp_path) as (server, _), client_of(server, token) as client:
            async with talking(server, additional_headers=bearing(token)) as talk:
                assert (await talk.hear("welcome"))["principal"] == "desk"
                await talk.say("subscribe", name="other", where="symbol = 'INIT'")
                assert (await talk.hear("problem"))["problem"]["status"] == 403
            async with talking(server) as talk:
                await talk.say("hello", token=token)
                assert (await talk.hear("welcome"))["principal"] == "desk"
            ticket = (await client.post("/tickets")).json()["ticket"]
            async with talking(server, f"?ticket={ticket}") as talk:
                await talk.hear("welcome")
            for query, first in [
                (f"?ticket={ticket}", None),
                ("", {"type": "hello", "token": "wrong"}),
                ("", {"type": "subscribe", "name": "a"}),
            ]:
                async with talking(server, query) as talk:
                    if first:
                        await talk.socket.send(json.dumps(first))
                    assert (await talk.hear("problem"))["problem"]["status"] == 401
                    with pytest.raises(ConnectionClosed) as closed:
                        await talk.socket.recv()
                    assert closed.value.rcvd is not None
                    assert closed.value.rcvd.code == 4401

    run(test)


def test_who_says_nothing_is_not_waited_for(tmp_path: Path) -> None:
    Tokens(tmp_path).add(DESK)

    async def test() -> None:
        async with (
            serving(data=tmp_path, limits=BrokerLimits(handshake_seconds=0.2)) as (server, _),
            talking(server) as talk,
        ):
            assert (await talk.hear("problem"))["problem"]["status"] == 408

    run(test)


def test_a_page_of_another_origin_is_turned_away() -> None:
    async def test() -> None:
        async with serving(HttpSettings(port=0, origins=("https://app.example",))) as (server, _):
            for origin in (None, base(server), "https://app.example"):
                async with talking(server, origin=origin) as talk:
                    await talk.hear("welcome")
            for origin in ("https://evil.example", "null"):
                with pytest.raises(InvalidStatus) as refused:
                    async with talking(server, origin=origin):
                        pass
                assert refused.value.response.status_code == 403

    run(test)


def test_who_is_not_known_yet_may_not_say_much(tmp_path: Path) -> None:
    token = Tokens(tmp_path).add(unrestricted("root"))

    async def test() -> None:
        async with serving(data=tmp_path) as (server, _):
            async with talking(server) as talk:
                await talk.say("hello", token="x" * 70_000)
                with pytest.raises(ConnectionClosed) as closed:
                    await talk.listen()
                assert closed.value.rcvd is not None
                assert closed.value.rcvd.code == 1009
            async with talking(server) as talk:
                await talk.say("hello", token=token)
                await talk.hear("welcome")
                await talk.say("publish", request=1, event={"text": "x" * 70_000})
                await talk.hear("published")

    run(test)


def test_messages_are_neither_compressed_nor_without_bounds() -> None:
    async def test() -> None:
        async with serving(limits=BrokerLimits(frame_bytes=1_000)) as (server, _), talking(server) as talk:
            assert talk.socket.protocol.extensions == []
            await talk.hear("welcome")
            await talk.socket.send(" " * 1_001)
            with pytest.raises(ConnectionClosed) as closed:
                await talk.socket.recv()
            assert closed.value.rcvd is not None
            assert closed.value.rcvd.code == 1009

    run(test)


def test_members_of_a_group_share_events_reject_them_and_are_told_of_deliveries() -> None:
    async def test() -> None:
        async with serving() as (server, client), talking(server) as one, talking(server) as two:
            for talk in (one, two):
                await talk.hear("welcome")
                await talk.say("subscribe", name="billing", where="n > 0", group=True, key="account", window=1)
                await talk.hear("subscribed")
            for n in (1, 2):
                await client.post("/events", json={"n": n, "account": f"a{n}"})
            first, second = await one.hear("event"), await two.hear("event")
            assert {each["event"]["data"]["n"] for each in (first, second)} == {1, 2}
            assert (first["deliveries"], second["deliveries"]) == (1, 1)
            # The other one holds an event, which fills its window: what this one rejects comes back to it.
            await one.say("reject", name="billing", numbers=[first["number"]], reason="not now")
            again = await one.hear("event")
            assert (again["number"], again["deliveries"]) == (first["number"], 2)
            await one.say("reject", name="billing", numbers=[first["number"]], requeue=False, reason="nobody's")
            while not (letters := (await client.get("/dead-letters")).json()):
                await asyncio.sleep(0.01)
            [letter] = letters
            assert (letter["owner"], letter["subscription"]) == ("anyone", "billing")
            assert letter["reason"] == "2 deliveries without an acknowledgement; rejected: nobody's"
            assert json.loads(letter["data"]) == first["event"]["data"]
            await one.say("subscribe", name="other", where="n > 0", group=True, window=0)
            assert (await one.hear("problem"))["problem"]["status"] == 400

    run(test)
