"""Publishing over HTTP in every form of the CloudEvents binding, and streams of what was published."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tests.network.gateway.serving import Stream, listening, serving
from tests.network.running import run

CONTEXT = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "sold"}
STRUCTURED = {"Content-Type": "application/cloudevents+json; charset=utf-8"}
BATCH = {"Content-Type": "application/cloudevents-batch+json"}
LINES = {"Content-Type": "application/x-ndjson"}
JSON = {"Content-Type": "application/json"}
BINARY = {f"ce-{name}": value for name, value in CONTEXT.items()}


@pytest.mark.parametrize(
    ("headers", "body", "expected"),
    [
        (STRUCTURED, {**CONTEXT, "data": {"price": 5, "tags": ["a", "b"]}}, {"data": {"price": 5, "tags": ["a", "b"]}}),
        (
            {**JSON, **BINARY, "ce-place": "Rome%20%E2%82%AC"},
            {"price": 5},
            {"place": "Rome €", "datacontenttype": "application/json", "data": {"price": 5}},
        ),
        (JSON, {**CONTEXT, "data": {"price": 5}}, {"data": {"price": 5}}),
    ],
)
def test_a_cloudevent_comes_out_as_it_went_in(headers: dict[str, str], body: Any, expected: dict[str, Any]) -> None:
    async def test() -> None:
        async with serving() as (_, client), listening(client, "data.price = 5 AND source = '/shop'") as events:
            answer = await client.post("/events", headers=headers, content=json.dumps(body))
            assert (answer.status_code, answer.json()) == (200, {"events": 1, "confirmed": True})
            assert await events.next() == {**CONTEXT, **expected}

    run(test)


def test_binary_data_come_out_as_base64() -> None:
    async def test() -> None:
        async with serving() as (_, client), listening(client) as events:
            await client.post("/events", headers={**BINARY, "Content-Type": "image/png"}, content=b"\x00\xff")
            event = await events.next()
            assert event["data_base64"] == "AP8="
            assert "data" not in event
            again = await client.post("/events", headers=STRUCTURED, content=json.dumps({**event, "id": "2"}))
            assert again.status_code == 200
            assert (await events.next())["data_base64"] == "AP8="

    run(test)


def test_an_event_that_is_plain_json_is_the_data_of_a_cloudevent() -> None:
    async def test() -> None:
        async with serving() as (_, client), listening(client, "price > 100") as events:
            await client.post("/events", json={"symbol": "ACME", "price": 90})
            await client.post("/events", json={"symbol": "ACME", "price": 120, "note": None})
            event = await events.next()
            assert event["data"] == {"symbol": "ACME", "price": 120, "note": None}
            assert (event["type"], event["specversion"]) == ("palio.event", "1.0")
            assert event["id"]
            assert event["source"]

    run(test)


@pytest.mark.parametrize("media", ["application/xml", "text/xml; charset=utf-8", "application/jats+xml"])
def test_an_xml_document_is_an_event_of_its_own(media: str) -> None:
    async def test() -> None:
        wanted = "xpath_boolean(xml, '/quote[price > 100]')"
        async with serving() as (_, client), listening(client, wanted) as events:
            for price in (90, 120):
                content = f"<quote><price>{price}</price></quote>"
                answer = await client.post("/events", headers={"Content-Type": media}, content=content)
                assert answer.status_code == 200
            assert (await events.next())["data"] == {"xml": "<quote><price>120</price></quote>"}
            refused = await client.post("/events", headers={"Content-Type": media}, content="<quote>")
            assert refused.status_code == 400
            assert "line 1" in refused.text

    run(test)


async def numbers(events: Stream, count: int) -> list[int]:
    return [(await events.next())["data"]["n"] for _ in range(count)]


def test_batches_and_lines_come_out_in_their_order() -> None:
    async def test() -> None:
        async with serving() as (_, client), listening(client) as events:
            batch = [{**CONTEXT, "id": str(n), "data": {"n": n}} for n in range(3_000)]
            answer = await client.post("/events", headers=BATCH, content=json.dumps(batch))
            assert answer.json()["events"] == 3_000
            assert await numbers(events, 3_000) == list(range(3_000))
            lines = b'{"n": 1}\r\n\n' + json.dumps({**batch[2], "id": "new"}).encode() + b'\n{"n": 3}'
            await client.post("/events", headers=LINES, content=lines)
            assert await numbers(events, 3) == [1, 2, 3]

    run(test)


def test_who_does_not_want_to_wait_is_answered_at_once() -> None:
    async def test() -> None:
        async with serving() as (_, client), listening(client) as events:
            answer = await client.post("/events", json={"n": 1}, headers={"Prefer": "respond-async"})
            assert (answer.status_code, answer.json()["confirmed"]) == (202, False)
            assert await numbers(events, 1) == [1]

    run(test)


UNREADABLE: list[tuple[dict[str, str], bytes, int, dict[str, Any]]] = [
    (JSON, b"{", 400, {"title": "event error"}),
    (JSON, b"[]", 400, {}),
    (JSON, b'{"a": 1, "a": 2}', 400, {"path": "a"}),
    ({"Content-Type": "text/plain"}, b"hello", 400, {}),
    ({}, b"hello", 400, {}),
    (STRUCTURED, b'{"specversion": "1.0", "id": "1", "source": "/s"}', 400, {"path": "type"}),
    (STRUCTURED, b'{"specversion": "0.3", "id": "1", "source": "/s", "type": "t"}', 400, {"path": "specversion"}),
    ({"Content-Type": "application/cloudevents+avro"}, b"", 400, {}),
    (BATCH, b'{"a": 1}', 400, {}),
    (BATCH, b"[1]", 400, {"detail": "event 0: a CloudEvent is a JSON object"}),
    (LINES, b'{"a": 1}\n{', 400, {}),
    ({**JSON, "Content-Encoding": "gzip"}, b"\x1f\x8b", 415, {}),
    (JSON, b'{"a":' * 150 + b"1" + b"}" * 150, 400, {}),
]


def test_what_cannot_be_read_is_refused_with_the_reason() -> None:
    async def test() -> None:
        async with serving() as (_, client):
            for headers, body, status, said in UNREADABLE:
                answer = await client.post("/events", headers=headers, content=body)
                assert answer.status_code == status, answer.text
                assert answer.headers["content-type"] == "application/problem+json"
                problem = answer.json()
                assert problem["status"] == status
                assert problem["detail"]
                assert said.items() <= problem.items()

    run(test)


def test_of_a_batch_that_has_one_bad_event_none_is_published() -> None:
    async def test() -> None:
        async with serving() as (_, client), listening(client) as events:
            answer = await client.post("/events", headers=LINES, content=b'{"n": 1}\n{"n": 2')
            assert answer.json()["detail"].startswith("event 1:")
            await client.post("/events", json={"n": 3})
            assert await numbers(events, 1) == [3]

    run(test)
