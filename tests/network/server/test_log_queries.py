"""Queries of a broker's event log: requested and granted events, without gaps."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta
from pathlib import Path
from threading import RLock

import pytest

import palio
from palio import Event, ExpiredOffset, Filter, LimitReached
from palio.network.client.log_pages import LogPage
from palio.network.protocol import LogQuery
from palio.network.security.authorization import Principal
from palio.network.server.log_queries import answer_log_query
from palio.network.server.process import Server
from palio.network.server.settings import Settings
from palio.network.store.interface import Retention
from palio.network.store.memory import MemoryLog, MemoryStore
from palio.routing import codec
from palio.routing.effects import Finished, Logged
from palio.routing.messages import EventId, Publish
from tests.network.running import ANY_PORT, broker, run, url


def logged(number: int, padding: int = 0) -> Logged:
    body = codec.encode_event(Event.from_dict({"price": number, "note": "x" * padding}, id=f"e{number}"))
    return Logged(Publish(EventId(1, 1, number), body), "exchange")


def fill(server: Server, events: int) -> None:
    server.store.write(
        [each for number in range(1, events + 1) for each in (logged(number), Finished(EventId(1, 1, number)))]
    )


def test_a_client_reads_the_log_piece_by_piece(tmp_path: Path) -> None:
    async def test() -> None:
        async with broker(data=tmp_path) as server, palio.connect(url(server)) as client:
            fill(server, 25)
            page = await client.read_log("price > 8", limit=10)
            assert (page.node, page.oldest, page.after, page.next) == (server.node, 1, 26, 11)
            assert [(each.offset, each.event.id) for each in page.events] == [(9, "e9"), (10, "e10")]
            page = await client.read_log("price > 8", start=page.next, limit=100)
            assert [each.offset for each in page.events] == list(range(11, 26))
            assert page.next == 26
            assert (await client.read_log(start=26)).events == []
            only_bounds = await client.read_log(limit=0)
            assert (only_bounds.oldest, only_bounds.after, only_bounds.next, only_bounds.events) == (1, 26, 1, [])

    run(test)


def test_a_client_reads_the_log_from_a_time(tmp_path: Path) -> None:
    async def test() -> None:
        async with broker(data=tmp_path) as server, palio.connect(url(server)) as client:
            fill(server, 3)
            now = datetime.now(UTC)
            assert len((await client.read_log(since=now - timedelta(hours=1))).events) == 3
            assert (await client.read_log(since=now + timedelta(hours=1))).events == []
            [first, *_] = (await client.read_log()).events
            assert abs(first.time - now) < timedelta(minutes=5)

    run(test)


def test_what_is_gone_is_an_error_and_never_a_gap(tmp_path: Path) -> None:
    async def test() -> None:
        async with broker(data=tmp_path, keeping={"log_bytes": 500}) as server, palio.connect(url(server)) as client:
            fill(server, 50)
            server.store.retain()
            oldest, after = server.store.log.bounds()
            assert 1 < oldest < after
            with pytest.raises(ExpiredOffset) as expired:
                await client.read_log(start=1)
            assert (expired.value.offset, expired.value.oldest, expired.value.broker) == (1, oldest, server.node)
            with pytest.raises(palio.InvalidArgument, match=f"the next event gets {after}"):
                await client.read_log(start=after + 1)
            assert (await client.read_log(start=after)).events == []
            with pytest.raises(palio.InvalidArgument, match="limit is a whole number from 0 on"):
                await client.read_log(limit=-1)
            assert [each.offset for each in (await client.read_log()).events] == list(range(oldest, after))

    run(test)


def test_a_log_is_read_only_as_far_as_the_grant_goes() -> None:
    store = MemoryStore(Retention())
    store.write([logged(number) for number in range(1, 11)])
    reader = Principal("desk", "client", may_subscribe=Filter.parse("price <= 5"))
    answer = answer_log_query(LogQuery(1, Filter.parse("price >= 4")), store.log, 7, reader)
    assert [each.offset for each in answer.events] == [4, 5]
    with pytest.raises(palio.NotPermitted):
        answer_log_query(LogQuery(1, Filter.parse("price > 5")), store.log, 7, reader)


def test_an_answer_has_a_bounded_size() -> None:
    store = MemoryStore(Retention())
    store.write([logged(number, padding=300_000) for number in range(1, 11)])
    answer = answer_log_query(LogQuery(1, Filter.everything), store.log, 7, Principal("x", "admin", Filter.everything))
    assert (len(answer.events), answer.next) == (4, 5)


def test_a_client_may_have_a_few_queries_under_way(tmp_path: Path) -> None:
    async def test() -> None:
        async with broker(data=tmp_path) as server, palio.connect(url(server)) as client:
            fill(server, 2_000)
            answers = await asyncio.gather(*(client.read_log("price < 0") for _ in range(20)), return_exceptions=True)
            assert {type(answer) for answer in answers} == {LogPage, LimitReached}

    run(test)


def test_a_script_reads_the_log_too(tmp_path: Path) -> None:
    async def test() -> None:
        async with broker(data=tmp_path) as server:
            fill(server, 3)

            def read() -> list[int]:
                with palio.connect_blocking(url(server)) as client:
                    return [each.offset for each in client.read_log("price > 1").events]

            assert await asyncio.to_thread(read) == [2, 3]

    run(test)


class Unreadable(MemoryLog):
    """A log that fails in a way that nobody foresaw."""

    def find(self, time: float) -> int:
        raise ZeroDivisionError


def test_a_log_that_fails_is_missing_from_a_replay_and_not_waited_for(caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        store = MemoryStore()
        store.log = Unreadable(RLock())
        server = Server(Settings(listen=(ANY_PORT,)), store)
        await server.start()
        try:
            async with palio.connect(url(server)) as client:
                await client.publish({"price": 1}, confirm=True)
                past = await client.replay("price > 0")
                assert (past.events, past.missing) == ([], [server.node])
            assert server.host.drops["job failed"] == 1
        finally:
            await server.stop()

    run(test)
    assert "a job beside the broker failed" in caplog.text
