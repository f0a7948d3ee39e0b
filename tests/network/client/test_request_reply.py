"""Request and reply: the first reply to a request, in time or not at all."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

import palio
from palio.network.client import request_reply
from palio.network.client.broker import Broker
from palio.network.security.authentication import Tokens
from palio.network.security.authorization import Principal, unrestricted
from tests.network.running import broker, line, run, until, url


@asynccontextmanager
async def responding(client: Broker, where: str, answer: Any, **options: Any) -> AsyncIterator[list[object]]:
    """A responder, and what it was asked."""
    asked: list[object] = []
    async with client.requests(where, **options) as requests:

        async def respond() -> None:
            async for request in requests:
                asked.append(request.event.get("n"))
                await request.reply(answer(request.event))

        task = asyncio.create_task(respond())
        try:
            yield asked
        finally:
            task.cancel()


def test_many_requests_get_each_its_own_reply_across_brokers() -> None:
    async def test() -> None:
        async with line(2) as (first, last), palio.connect(url(first)) as asking, palio.connect(url(last)) as answering:
            double = responding(answering, "kind = 'double'", lambda event: {"result": 2 * int(str(event.get("n")))})
            async with double, answering.subscribe("FALSE", confirm="network"):
                requests = (asking.request({"kind": "double", "n": n}, timeout=60) for n in range(50))
                replies = await asyncio.gather(*requests)
                assert [reply.get("result") for reply in replies] == [2 * n for n in range(50)]
                assert not asking._requester._pending

    run(test)


def test_a_request_that_nobody_answers_fails_in_time_and_leaves_nothing_behind() -> None:
    async def test() -> None:
        async with broker() as server, palio.connect(url(server)) as client:
            with pytest.raises(palio.NoReply, match=r"no reply within 0\.05 seconds") as failure:
                await client.request({"kind": "unknown"}, timeout=0.05)
            assert isinstance(failure.value, TimeoutError)
            assert not client._requester._pending

    run(test)


def test_only_the_first_reply_counts_and_a_group_of_responders_shares_the_requests() -> None:
    async def test() -> None:
        async with (
            broker() as server,
            palio.connect(url(server)) as asking,
            palio.connect(url(server)) as one,
            palio.connect(url(server)) as two,
        ):
            async with (
                responding(one, "n >= 0", lambda event: {"by": 1}) as first,
                responding(two, "n >= 0", lambda event: {"by": 2}) as second,
            ):
                assert (await asking.request({"n": 1})).get("by") in (1, 2)
                await until(lambda: first == [1] and second == [1])
            async with (
                responding(one, "n >= 0", lambda event: {"by": 1}, group="answers") as first,
                responding(two, "n >= 0", lambda event: {"by": 2}, group="answers") as second,
            ):
                for n in range(10):
                    await asking.request({"n": n})
                assert sorted(map(str, (*first, *second))) == sorted(map(str, range(10)))
                await until(lambda: server.store.queue("durable anyone/answers", "answers").size().events == 0)

    run(test)


def test_requests_are_bounded_and_wrong_ones_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_reply, "MAX_PENDING_REQUESTS", 2)

    async def test() -> None:
        async with broker() as server, palio.connect(url(server)) as client:
            waiting = [asyncio.create_task(client.request({"n": n}, timeout=60)) for n in range(2)]
            await until(lambda: len(client._requester._pending) == 2)
            with pytest.raises(palio.LimitReached, match="too many requests of this client"):
                await client.request({"n": 3})
            for task in waiting:
                task.cancel()
            await asyncio.gather(*waiting, return_exceptions=True)
            for wrong, message in (
                (client.request({"reply_to": "me"}), "reply_to is set by request and reply"),
                (client.request({"n": 1}, timeout=0), "timeout is a positive number of seconds"),
            ):
                with pytest.raises(palio.InvalidArgument, match=message):
                    await wrong

    run(test)


def test_a_request_that_the_grant_does_not_admit_says_so(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    tokens.add(unrestricted("root"))
    silent = tokens.add(Principal("silent", may_subscribe=palio.Filter.everything))

    async def test() -> None:
        async with broker(data=tmp_path) as server, palio.connect(url(server), silent) as client:
            with pytest.raises(palio.NotPermitted, match="publish that event"):
                await client.request({"n": 1}, timeout=0.2)

    run(test)


def test_blocking_clients_ask_and_answer_too() -> None:
    async def test() -> None:
        async with broker() as server, palio.connect(url(server)) as client:

            def answer_once(is_ready: Callable[[], object]) -> None:
                with palio.connect_blocking(url(server)) as blocking, blocking.requests("n > 0") as requests:
                    is_ready()
                    request = next(requests)
                    request.reply({"result": request.event.get("n")})

            def ask() -> object:
                with palio.connect_blocking(url(server)) as blocking:
                    return blocking.request({"n": 7}, timeout=60).get("result")

            ready = asyncio.Event()
            loop = asyncio.get_running_loop()
            answering = asyncio.create_task(
                asyncio.to_thread(answer_once, lambda: bool(loop.call_soon_threadsafe(ready.set)))
            )
            await ready.wait()
            assert await asyncio.to_thread(ask) == 7
            await answering
            with pytest.raises(palio.NoReply):
                await client.request({"n": 8}, timeout=0.05)

    run(test)
