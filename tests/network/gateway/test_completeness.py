"""Complete stretches over HTTP: in the streams of Server-Sent Events and WebSocket, after the events that they end."""

from __future__ import annotations

import json

import httpx
import pytest

from tests.network.gateway.serving import listening, serving
from tests.network.gateway.test_websocket import talking
from tests.network.running import run

QUICK = {"completeness": 0.02}


async def _publish(client: httpx.AsyncClient, *prices: int) -> None:
    for price in prices:
        answer = await client.post("/events", json={"price": price})
        assert answer.status_code == 200, answer.text


def test_a_stream_tells_up_to_which_event_it_is_complete() -> None:
    async def test() -> None:
        async with (
            serving(options=QUICK) as (server, client),
            listening(client, "price > 100", completeness="true") as stream,
        ):
            await _publish(client, 120, 60)
            kinds, told, up_to = [], {}, 0
            while up_to < 2:
                line = await stream.next_line()
                if line.startswith("event: "):
                    kinds.append(line.removeprefix("event: "))
                elif line.startswith("data: ") and kinds:
                    told = json.loads(line.removeprefix("data: "))
                    assert told["after"] <= told["up_to"]
                    up_to = told["up_to"]
                elif line.startswith("data: "):
                    assert json.loads(line.removeprefix("data: "))["data"] == {"price": 120}
            assert set(kinds) == {"complete"}
            assert told["broker"] == str(server.node)
            assert told["sources"]

    run(test)


def test_a_websocket_is_told_after_the_events_of_a_stretch() -> None:
    async def test() -> None:
        async with serving(options=QUICK) as (server, client), talking(server) as talk:
            await talk.hear("welcome")
            await talk.say("subscribe", name="high", where="price > 100", completeness=True)
            await talk.hear("subscribed")
            await talk.say("subscribe", name="all", where="true")
            await talk.hear("subscribed")
            await _publish(client, 120, 60)
            prices, up_to = [], 0
            while up_to < 2:
                message = await talk.listen()
                if message["type"] == "event" and message["name"] == "high":
                    prices.append(message["event"]["data"]["price"])
                elif message["type"] == "complete":
                    assert message["name"] == "high"
                    assert prices == [120] or message["up_to"] == 0
                    up_to = message["up_to"]

    run(test)


@pytest.mark.parametrize(
    ("parameters", "status", "said"),
    [
        ({"completeness": "true"}, 409, "the brokers send no watermarks"),
        ({"completeness": "yes"}, 400, "completeness is true or false, not 'yes'"),
        ({"completeness": "true", "durable": "desk"}, 400, "a durable subscription is not told of complete stretches"),
    ],
)
def test_where_a_stream_cannot_be_told_the_reason_is(parameters: dict[str, str], status: int, said: str) -> None:
    async def test() -> None:
        async with serving() as (_, client):
            answer = await client.get("/events", params=parameters)
            assert (answer.status_code, said in answer.text) == (status, True), answer.text

    run(test)


def test_a_durable_subscription_of_a_websocket_is_not_told() -> None:
    async def test() -> None:
        async with serving(options=QUICK) as (server, _), talking(server) as talk:
            await talk.hear("welcome")
            await talk.say("subscribe", name="desk", where="true", durable=True, completeness=True)
            problem = await talk.hear("problem")
            assert "not told of complete stretches" in problem["problem"]["detail"]

    run(test)
