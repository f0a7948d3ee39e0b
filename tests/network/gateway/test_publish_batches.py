"""Requests with several events: all or none are accepted, each once however often it is sent."""

from __future__ import annotations

import json
from pathlib import Path

from tests.network.gateway.serving import listening, serving
from tests.network.running import run

LINES = {"Content-Type": "application/x-ndjson"}
EVENT = {"specversion": "1.0", "id": "1", "source": "/shop", "type": "sold", "data": {"price": 5}}


def lines(events: int, padding: int = 0) -> str:
    return "\n".join(json.dumps({"n": n, "note": "x" * padding}) for n in range(events))


def test_of_a_request_that_finds_no_room_on_disk_nothing_is_let_in(tmp_path: Path) -> None:
    async def test() -> None:
        async with serving(data=tmp_path, keeping={"disk_bytes": 600_000}) as (server, client):
            answer = await client.post("/events", headers=LINES, content=lines(3_000, padding=500))
            assert answer.status_code == 507
            assert server.store.log.bounds() == (1, 1)
            assert (await client.post("/events", headers=LINES, content=lines(3))).status_code == 200
            assert server.store.log.bounds() == (1, 4)

    run(test)


def test_a_request_may_have_more_events_than_a_publisher_may_have_under_way() -> None:
    async def test() -> None:
        async with serving(flow={"window": 100}) as (_, client), listening(client) as events:
            for _ in range(2):
                answer = await client.post("/events", headers=LINES, content=lines(150))
                assert answer.json() == {"events": 150, "confirmed": True}
                assert [(await events.next())["data"]["n"] for _ in range(150)] == list(range(150))

    run(test)


def test_a_cloudevent_that_is_sent_again_is_let_in_once_also_after_a_restart(tmp_path: Path) -> None:
    async def test() -> None:
        for _ in range(2):
            async with serving(data=tmp_path) as (server, client):
                for id in ("1", "2", "1"):
                    assert (await client.post("/events", json={**EVENT, "id": id})).status_code == 200
                assert server.store.log.bounds() == (1, 3)

    run(test)


def test_a_request_that_is_more_than_a_burst_is_too_large_and_not_too_early() -> None:
    async def test() -> None:
        async with serving(limits={"events_per_second": 1_000.0, "burst_events": 10}) as (_, client):
            answer = await client.post("/events", headers=LINES, content=lines(11))
            assert (answer.status_code, answer.json()["limit"]) == (413, "burst_events")
            assert "Retry-After" not in answer.headers
            assert (await client.post("/events", headers=LINES, content=lines(10))).status_code == 200

    run(test)
