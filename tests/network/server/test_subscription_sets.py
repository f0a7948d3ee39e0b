"""Sets of subscriptions with one stream: each event once, with the names of those that match."""

from __future__ import annotations

from random import Random

import pytest

import palio
from palio import Filter
from palio.errors import InvalidArgument
from palio.network.client.broker import Broker
from palio.network.client.subscription import SubscriptionSet
from tests.network.running import broker, line, run, until, url

CONDITIONS = {
    f"{kind}{number}": where
    for number in range(12)
    for kind, where in (
        ("above", f"price > {10 * number}"),
        ("of", f"symbol = '{'ABCDEF'[number % 6]}' AND price < {20 * number}"),
    )
}


def events(count: int, seed: int = 1) -> list[dict[str, object]]:
    random = Random(seed)
    return [{"n": n, "price": random.randrange(130), "symbol": random.choice("ABCDEFG")} for n in range(count)]


def wanted(event: dict[str, object], conditions: dict[str, str]) -> list[str]:
    return sorted(name for name, where in conditions.items() if Filter.parse(where).matches(event))


async def take(stream: SubscriptionSet, count: int) -> list[tuple[object, list[str]]]:
    found = []
    async for event in stream:
        found.append((event.get("n"), sorted(event.subscriptions)))
        if len(found) == count:
            break
    return found


async def publish(client: Broker, published: list[dict[str, object]]) -> None:
    for each in published:
        await client.publish(each)


def test_an_event_comes_once_with_the_names_of_all_that_want_it() -> None:
    async def test() -> None:
        published = events(400)
        expected = [(each["n"], names) for each in published if (names := wanted(each, CONDITIONS))]
        async with (
            line(2) as (first, last),
            palio.connect(url(first)) as publisher,
            palio.connect(url(last)) as subscriber,
            subscriber.subscribe_many(CONDITIONS, confirm="network") as stream,
        ):
            await publish(publisher, published)
            assert await take(stream, len(expected)) == expected

    run(test)


def test_subscriptions_of_one_connection_get_what_they_want_whether_of_a_set_or_not() -> None:
    async def test() -> None:
        published = events(300, seed=2)
        alone = {"cheap": "price < 50", "dear": "price > 50", "all": "price >= 0"}
        of_a_set = {name: where for name, where in CONDITIONS.items() if name.startswith("above")}
        async with broker() as server, palio.connect(url(server)) as client, client.subscribe_many(of_a_set) as stream:
            singles = {name: await client.subscribe(where, name=name).__aenter__() for name, where in alone.items()}
            await publish(client, published)
            for name, single in singles.items():
                expected = [each["n"] for each in published if Filter.parse(alone[name]).matches(each)]
                found = [await anext(single) for _ in expected]
                assert [each.get("n") for each in found] == expected
                assert {each.subscriptions for each in found} == {(name,)}
            expected = [(each["n"], names) for each in published if (names := wanted(each, of_a_set))]
            assert await take(stream, len(expected)) == expected

    run(test)


def test_a_set_that_takes_nothing_has_one_bounded_queue() -> None:
    async def test() -> None:
        conditions = {"one": "n >= 0", "other": "n >= 5"}
        count = 4_000
        async with (
            broker() as server,
            palio.connect(url(server)) as client,
            client.subscribe_many(conditions, queue=10, overflow="drop_oldest") as stream,
        ):
            await publish(client, [{"n": n} for n in range(count)])
            [session] = server.sessions
            queue = session.queues["one"]
            assert queue is session.queues["other"]
            await until(lambda: queue.taken + queue.dropped + queue.queued == count)
            assert queue.queued == 10
            assert queue.dropped > 0
            found = [(await anext(stream)).get("n") for _ in range(count - queue.dropped)]
            assert found == sorted(found)
            assert found[-10:] == list(range(count - 10, count))
            await until(lambda: stream.dropped == queue.dropped)

    run(test)


def test_conditions_come_and_go_while_events_are_read() -> None:
    async def test() -> None:
        async with (
            broker() as server,
            palio.connect(url(server)) as client,
            client.subscribe_many({"low": "n < 10"}) as stream,
        ):
            await stream.add("odd", "n % 2 = 1")
            await client.publish({"n": 1})
            assert (await anext(stream)).subscriptions == ("low", "odd")
            await stream.remove("low")
            await client.publish({"n": 2})
            await client.publish({"n": 3})
            event = await anext(stream)
            assert (event.get("n"), event.subscriptions) == (3, ("odd",))
            assert stream.names == ["odd"]
        assert not server.sessions

    run(test)


def test_names_that_are_taken_are_refused_and_nothing_stays() -> None:
    async def test() -> None:
        async with (
            broker() as server,
            palio.connect(url(server)) as client,
            client.subscribe("n > 0", name="mine") as events,
        ):
            with pytest.raises(InvalidArgument, match="mine"):
                await client.subscribe_many({"other": "n > 0", "mine": "n > 1"}).__aenter__()
            [session] = server.sessions
            await client.publish({"n": 5})
            assert (await anext(events)).subscriptions == ("mine",)
            assert list(session.queues) == ["mine"]

    run(test)


def test_a_set_is_asked_for_again_over_a_new_connection() -> None:
    async def test() -> None:
        async with broker() as server, palio.connect(url(server)) as client:
            async with client.subscribe_many({"low": "n < 10", "odd": "n % 2 = 1"}) as stream:
                await client.publish({"n": 1})
                await until(lambda: server.host.counts["out"] == 1)
                [session] = server.sessions
                session.end("a test")
                await until(lambda: bool(server.sessions) and session not in server.sessions)
                await until(lambda: all(len(each.queues) == 2 for each in server.sessions))
                await client.publish({"n": 3})
                found = [
                    (each.get("n"), sorted(each.subscriptions)) for each in [await anext(stream), await anext(stream)]
                ]
                assert found == [(1, ["low", "odd"]), (3, ["low", "odd"])]
            await until(lambda: all(not each.queues for each in server.sessions))

    run(test)
