"""Tables over real sockets: subscribers, logs and queues get the events that single publications would give them."""

from __future__ import annotations

import asyncio
from datetime import datetime
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from msgspec.structs import replace

import palio
from palio import Event, Filter
from palio.errors import EventError, LimitReached, NotPermitted
from palio.events.batches import batches_of
from palio.network import protocol
from palio.network.protocol import PublishColumns
from palio.network.security.authorization import Principal
from palio.network.server.process import Server
from palio.network.server.session import Session
from palio.routing import codec, messages
from palio.routing.columnar_codec import encode_batch
from tests.network.running import broker, line, run, until, url

ROWS = 300


def quotes(count: int = ROWS) -> pa.Table:
    return pa.table(
        {
            "symbol": pa.array(["ACME" if n % 3 else None for n in range(count)]).dictionary_encode(),
            "price": pa.array(range(count), pa.int32()),
            "at": pa.array([datetime(2024, 1, 1)] * count, pa.timestamp("s")),
        }
    )


def contents(events: list[Any]) -> list[dict[str, Any]]:
    return [dict(each) for each in events]


async def take(stream: Any, count: int) -> list[Any]:
    return [await anext(stream) for _ in range(count)]


@pytest.mark.parametrize("brokers", [1, 2])
def test_a_table_arrives_as_the_events_of_its_rows(brokers: int) -> None:
    async def doing() -> None:
        async with (
            line(brokers) as servers,
            palio.connect(url(servers[0])) as desk,
            palio.connect(url(servers[-1])) as client,
            client.subscribe("price >= 0", confirm="network") as everything,
            client.subscribe("price < 5", confirm="network") as few,
            client.subscribe_many({"a": "symbol IS NULL", "b": "price % 2 = 0"}, confirm="network") as group,
        ):
            assert await desk.publish_many(quotes(), source="desk", ids=map(str, range(ROWS))) == ROWS
            whole = await take(everything, ROWS)
            expected = contents(list(Event.from_arrow(quotes())))
            assert contents(whole) == expected
            assert [(each.id, each.source) for each in whole] == [(str(n), "desk") for n in range(ROWS)]
            assert contents(await take(few, 5)) == expected[:5]
            grouped = await take(group, ROWS * 2 // 3)
            names = [tuple(["a"] * (n % 3 == 0) + ["b"] * (n % 2 == 0)) for n in range(ROWS)]
            assert [each.subscriptions for each in grouped] == [each for each in names if each]

    run(doing)


def test_batches_of_a_stream_are_the_columns_that_were_published() -> None:
    async def doing() -> None:
        async with broker() as server, palio.connect(url(server)) as client, client.subscribe("price >= 100") as events:
            await client.publish_many(quotes())
            await client.publish({"price": 1_000})
            stream = events.batches()
            first, second = await anext(stream), await anext(stream)
            assert first.to_arrow().column("price").to_pylist() == list(range(100, ROWS))
            assert (len(first), first.subscriptions[0], first.ids[0][-4:]) == (200, (events.name,), "-100")
            assert [dict(each) for each in second] == [{"price": 1_000}]
            assert second.to_arrow().to_pylist() == [{"price": 1_000}]

    run(doing)


def test_events_that_are_not_alike_are_published_in_their_order() -> None:
    async def doing() -> None:
        async with broker() as server, palio.connect(url(server)) as client, client.subscribe("TRUE") as events:
            given = [{"n": n} if n % 50 else {"n": n, "tags": ["a"]} for n in range(200)]
            assert await client.publish_many(given) == 200
            assert [each["n"] for each in await take(events, 200)] == list(range(200))

    run(doing)


@pytest.mark.parametrize("confirm", [False, True])
def test_the_rows_for_durable_queues_and_the_log_are_single_events(confirm: bool, tmp_path: Path) -> None:
    async def doing() -> None:
        async with broker(data=str(tmp_path)) as server, palio.connect(url(server)) as client:
            async with client.subscribe("price < 250", durable="kept") as kept:
                assert await client.publish_many(quotes(), confirm=confirm) == ROWS
                arrived = await take(kept, 250)
                assert [each["price"] for each in arrived] == list(range(250))
                for each in arrived:
                    await each.ack()
            logged = (await client.read_log()).events
            assert [each.event["price"] for each in logged] == (list(range(ROWS)) if confirm else [])

    run(doing)


def test_a_confirmed_table_that_is_sent_twice_is_accepted_once(tmp_path: Path) -> None:
    async def doing() -> None:
        async with broker(data=str(tmp_path)) as server:
            for _ in range(2):
                async with palio.connect(url(server), publisher="desk") as client:
                    await client.publish_many(quotes(), confirm=True, ids=map(str, range(ROWS)))
            async with palio.connect(url(server)) as client:
                assert len((await client.read_log()).events) == ROWS

    run(doing)


def restricted(server: Server, **grants: Any) -> None:
    """Let every connection have these grants alone."""
    principal = Principal("desk", **grants)
    server.authenticate = lambda token, channel: principal  # type: ignore[method-assign]


def test_a_grant_holds_for_every_row() -> None:
    async def doing() -> None:
        async with broker() as server, palio.connect(url(server)) as reader, reader.subscribe("TRUE") as events:
            restricted(server, may_publish=Filter.parse("price < 200"))
            async with palio.connect(url(server)) as client:
                with pytest.raises(NotPermitted, match="event 201 of the batch"):
                    await client.publish_many(quotes(), confirm=True)
                await client.publish_many(quotes(200))
                arrived = await take(events, 200)
                assert {each.source for each in arrived} == {"desk"}
                with pytest.raises(NotPermitted, match="publish as 'bank'"):
                    await client.publish_many(quotes(50), source="bank", confirm=True)
                claimed = quotes(50).append_column("source", pa.array(["bank"] * 50))
                with pytest.raises(NotPermitted, match="publish as 'bank'"):
                    await client.publish_many(claimed, confirm=True)
                await client.publish_many(quotes(50), source="desk/7", confirm=True)

    run(doing)


def test_a_subscriber_gets_the_rows_that_its_grant_admits_now() -> None:
    async def doing() -> None:
        async with broker() as server, palio.connect(url(server)) as desk:
            restricted(server, may_subscribe=Filter.parse("price < 100"))
            async with palio.connect(url(server)) as client, client.subscribe("price >= 50") as events:
                session = next(
                    each for each in server.host.clients.values() if isinstance(each, Session) and each.queues
                )
                # Changed past the subscription, as where the change is still under way to the broker's tables.
                session._apply_grants(Principal("desk", may_subscribe=Filter.parse("price < 60")))
                await desk.publish_many(quotes())
                assert [each["price"] for each in await take(events, 10)] == list(range(50, 60))
                await until(lambda: server.host.drops["not permitted"] == 40)

    run(doing)


def test_what_exceeds_a_limit_is_refused_by_its_name() -> None:
    async def doing() -> None:
        limits = {"batch_events": 100, "event": palio.events.Limits(json_bytes=2_000)}
        async with broker(limits=limits) as server, palio.connect(url(server)) as client:
            async with client.subscribe("price >= 0") as events:
                assert await client.publish_many(quotes()) == ROWS  # in batches that the broker takes
                await take(events, ROWS)
            long = pa.table({"text": ["a" * 10] * 20 + ["a" * 3_000]})
            with pytest.raises(LimitReached, match="event_bytes"):
                await client.publish_many(long, confirm=True)
            assert await client.publish_many(pa.table({"text": ["a" * 1_900] * 20}), confirm=True) == 20

    run(doing)


def test_a_batch_beyond_the_limit_of_a_broker_ends_no_connection() -> None:
    async def doing() -> None:
        async with broker(limits={"batch_events": 100}) as server, palio.connect(url(server)) as client:
            [batch] = batches_of(quotes())
            body = encode_batch(batch)  # type: ignore[arg-type]
            with pytest.raises(LimitReached, match="batch_events"):
                await client.connection.request(lambda number: PublishColumns(number, body))
            with pytest.raises(palio.errors.WireError):
                await client.connection.request(lambda number: PublishColumns(number, b"\x95" + body[1:50]))
            await client.publish({"price": 1}, confirm=True)

    run(doing)


def test_greetings_without_the_word_on_batches_are_read_as_those_of_ends_that_take_none() -> None:
    old_client = bytes.fromhex("95 50 01 a4 64 65 73 6b a0 a0")
    assert protocol.decode_greeting(old_client) == protocol.ClientHello(1, "desk", columns=False)
    hello = messages.Hello(7, 1, {}, 1_024, columns=True)
    old_broker = msgspec.msgpack.encode(msgspec.msgpack.decode(codec.encode(hello))[:-1])
    assert codec.decode(old_broker) == replace(hello, columns=False)
    # And a later version may say more: what this one does not know is ignored.
    longer = msgspec.msgpack.encode([*msgspec.msgpack.decode(codec.encode(hello)), "more"])
    assert codec.decode(longer) == hello


def test_a_client_that_takes_no_batches_gets_each_event_by_itself() -> None:
    async def doing() -> None:
        async with broker() as server, palio.connect(url(server)) as client:
            old = palio.connect(url(server))._broker
            old.connection.takes_batches = False
            await old.open()
            old.connection.on_batch = lambda message: pytest.fail("a batch for a client that takes none")
            async with old.subscribe("price >= 0") as events:
                await client.publish_many(quotes())
                assert [each["price"] for each in await take(events, ROWS)] == list(range(ROWS))
            await old.close()

    run(doing)


def test_a_broker_that_takes_no_batches_gets_each_event_by_itself() -> None:
    async def doing() -> None:
        async with broker() as server, palio.connect(url(server)) as client, client.subscribe("price >= 0") as events:
            assert client.connection.welcome is not None
            client.connection.welcome = replace(client.connection.welcome, batch_events=0)
            assert await client.publish_many(quotes()) == ROWS
            assert [each["price"] for each in await take(events, ROWS)] == list(range(ROWS))

    run(doing)


def test_rows_wait_in_the_queue_of_a_slow_subscriber_and_overflow_it_event_by_event() -> None:
    async def doing() -> None:
        async with (
            broker() as server,
            palio.connect(url(server)) as client,
            client.subscribe("price >= 0", queue=500, overflow="drop_newest") as events,
        ):
            for _ in range(10):
                await client.publish_many(quotes())
            await client.publish({"price": -1}, confirm=True)
            # The window of 1,024 is exceeded by the last batch that begins within it; 500 events wait.
            came = await take(events, 1_700)
            assert [each["price"] for each in came] == [n % ROWS for n in range(1_700)]
            await until(lambda: events.dropped == 10 * ROWS - 1_700)

    run(doing)


def test_what_is_no_table_is_refused_before_anything_is_sent() -> None:
    async def doing() -> None:
        async with broker() as server, palio.connect(url(server)) as client:
            for wrong in ({"price": 1}, "{}", 7):
                with pytest.raises(palio.errors.InvalidArgument, match="table"):
                    await client.publish_many(wrong)
            with pytest.raises(palio.errors.InvalidArgument, match="id"):
                await client.publish_many(quotes(), ids=["one"])
            with pytest.raises(EventError, match="duration"):
                await client.publish_many(pa.table({"x": pa.array([1], pa.duration("s"))}))

    run(doing)


def test_batches_of_two_tasks_share_the_window_of_confirmations() -> None:
    async def doing() -> None:
        async with broker() as server, palio.connect(url(server)) as client:
            assert (
                await asyncio.gather(*(client.publish_many(quotes(2_000), confirm=True) for _ in range(3)))
                == [2_000] * 3
            )

    run(doing)
