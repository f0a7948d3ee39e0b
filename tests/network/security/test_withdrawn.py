"""Withdrawn subscriptions: a changed grant ends them with a reason, and nothing else."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

import palio
from palio import Filter, NotPermitted
from palio.network.security.authentication import Tokens
from palio.network.security.authorization import Principal, unrestricted
from tests.network.gateway.serving import client_of, listening, serving
from tests.network.running import broker, run, until, url

DESK = Principal("desk", may_subscribe=Filter.parse("g > 0"))
LESS = replace(DESK, may_subscribe=Filter.parse("g > 10"))


def test_a_subscription_of_which_nothing_is_left_ends_and_says_why(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    owner, desk = tokens.add(unrestricted("owner")), tokens.add(DESK)

    async def test() -> None:
        async with (
            broker(data=tmp_path, watch=0.05) as server,
            palio.connect(url(server), token=owner) as publisher,
            palio.connect(url(server), token=desk) as client,
            client.subscribe("g > 0") as some,
        ):
            for durable in ("low-desk", None):
                Tokens(tmp_path).change(DESK)
                await publisher.publish({"g": 1}, confirm=True)
                while True:
                    try:
                        low = await client.subscribe("g < 5", durable=durable).__aenter__()
                        break
                    except NotPermitted:  # the broker has not looked yet
                        await publisher.publish({"g": 20}, confirm=True)
                await publisher.publish({"g": 2}, confirm=True)
                while (await anext(low)).get("g") != 2:
                    pass
                Tokens(tmp_path).change(LESS)
                with pytest.raises(NotPermitted, match="its grant has changed"):
                    await anext(low)
                await low.__aexit__(None, None, None)
            await publisher.publish({"g": 30}, confirm=True)
            while (await anext(some)).get("g") != 30:
                pass

    run(test)


def test_a_stream_over_http_ends_with_the_reason(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    desk = tokens.add(DESK)

    async def test() -> None:
        async with (
            serving(data=tmp_path, watch=0.05) as (server, _),
            client_of(server, desk) as client,
            listening(client, "g < 5") as events,
        ):
            Tokens(tmp_path).change(LESS)
            # All that is left of the stream; its last event says why it ended.
            told = [line async for line in events._lines if line.startswith("data: ")]
            assert json.loads(told[-1].removeprefix("data: "))["title"] == "not permitted"

    run(test)


def test_the_first_token_keeps_the_durable_subscriptions_of_an_open_broker(tmp_path: Path) -> None:
    async def test() -> None:
        async with broker(data=tmp_path, watch=0.05) as server:
            async with palio.connect(url(server), patience=0) as client, client.subscribe("g > 0", durable="desk"):
                await client.publish({"g": 1}, confirm=True)
                owner = Tokens(tmp_path).add(unrestricted("owner"))
                await until(lambda: not server.authenticator.is_open)
            async with palio.connect(url(server), owner) as publisher:
                await publisher.publish({"g": 2}, confirm=True)
            token = Tokens(tmp_path).add(replace(DESK, name="anyone"))
            await until(lambda: "anyone" in server.authenticator)
            async with (
                palio.connect(url(server), token) as client,
                client.subscribe("g > 0", durable="desk") as events,
            ):
                assert [(await anext(events)).get("g") for _ in range(2)] == [1, 2]

    run(test)
