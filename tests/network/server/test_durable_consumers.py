"""Exclusive consumers of durable subscriptions: one at a time, rejections, and limits of redelivery."""

from __future__ import annotations

import asyncio
import struct
from pathlib import Path
from typing import Any

import pytest

import palio
from palio import DurableSettings, Filter
from palio.network import protocol
from palio.network.client.subscription import Subscription
from palio.network.protocol import Acknowledge, ClientHello, Delivery, Done, Failed, Goodbye, Reject, Subscribe, Welcome
from palio.network.server.process import Server
from palio.routing import codec
from tests.network.running import broker, run, until, url

THRICE = DurableSettings(max_deliveries=3)


class RawClient:
    """A client that says what a test wants it to say, and does not notice anything by itself."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def open(self, instance: str) -> RawClient:
        address = self._server.addresses[0]
        self._reader, self._writer = await asyncio.open_connection(address.host, address.port)
        self.send(ClientHello(protocol.VERSION, instance=instance))
        assert isinstance(await self.receive(), Welcome)
        return self

    def send(self, message: Any) -> None:
        frame = protocol.encode(message)
        self._writer.write(struct.pack(">I", len(frame)) + frame)

    async def receive(self) -> Any:
        while True:
            [length] = struct.unpack(">I", await self._reader.readexactly(4))
            message = protocol.decode_from_server(await self._reader.readexactly(length))
            if not isinstance(message, protocol.Ping):
                return message

    async def subscribe(self, name: str, request: int = 1) -> Any:
        self.send(Subscribe(request, name, Filter.everything, durable=True))
        return await self.receive()

    def close(self) -> None:
        self._writer.close()


def letters(server: Server) -> list[tuple[str, str, object]]:
    """Owner, reason and content of the dead letters."""
    found = server.store.dead_letters.read(0, 100)
    return [(each.client, each.reason, codec.decode_event(each.data).get("x")) for each in found]


@pytest.mark.parametrize("in_batches", [False, True])
def test_an_event_whose_acknowledgement_was_lost_comes_to_the_program_once(in_batches: bool) -> None:
    async def test() -> None:
        async with (
            broker() as server,
            palio.connect(url(server)) as client,
            client.subscribe("x > 0", durable="desk") as events,
        ):
            for x in (1, 2, 3):
                await client.publish({"x": x}, confirm=True)
            first = await anext(events)
            # The broker ends, or the connection does, before the acknowledgement has come to it.
            assert client.connection._channel is not None
            client.connection._channel.abort("crashed")
            await first.ack()
            found: list[Any] = [first.get("x")]
            await client.publish({"x": 4}, confirm=True)  # over the next connection
            if in_batches:
                async for batch in events.batches():
                    found += [event.get("x") for event in batch]
                    await batch.ack()
                    if found[-1] == 4:
                        break
            else:
                while found[-1] != 4:
                    event = await anext(events)
                    found.append(event.get("x"))
                    await event.ack()
            assert found == [1, 2, 3, 4]
            await until(lambda: server.store.queue("durable anyone/desk", "desk").size().events == 0)

    run(test)


def test_an_event_that_was_not_acknowledged_comes_again_over_the_next_connection() -> None:
    async def test() -> None:
        async with (
            broker() as server,
            palio.connect(url(server)) as client,
            client.subscribe("x > 0", durable="desk") as events,
        ):
            await client.publish({"x": 1}, confirm=True)
            first = await anext(events)
            assert client.connection._channel is not None
            client.connection._channel.abort("crashed")
            again = await anext(events)
            assert (again.id, again.number) == (first.id, first.number)

    run(test)


def test_a_second_consumer_is_refused_and_told_who_reads_and_what_to_do() -> None:
    async def test() -> None:
        async with (
            broker() as server,
            palio.connect(url(server)) as first,
            palio.connect(url(server)) as second,
            first.subscribe("x > 0", durable="desk") as events,
        ):
            with pytest.raises(palio.DurableInUse) as refused:
                await second.subscribe("x > 0", durable="desk").__aenter__()
            message = str(refused.value)
            assert "read by anyone at 127.0.0.1:" in message
            assert ", since 20" in message
            assert "--group desk" in message
            with pytest.raises(palio.DurableInUse, match="read by anyone at 127"):
                await second.subscribe("x > 0", group="desk").__aenter__()
            await second.publish({"x": 1}, confirm=True)
            assert (await anext(events)).get("x") == 1
            await events.__aexit__(None, None, None)
            await until(lambda: not _has_consumer(server))
            async with second.subscribe("x > 0", durable="desk") as after:
                assert (await anext(after)).get("x") == 1

    run(test)


def test_a_client_that_is_back_takes_over_from_its_own_connection_before_its_loss_is_noticed() -> None:
    async def test() -> None:
        async with broker() as server:
            lost = await RawClient(server).open("one")
            assert isinstance(await lost.subscribe("desk"), Done)
            stranger = await RawClient(server).open("two")
            refusal = await stranger.subscribe("desk")
            assert isinstance(refusal, Failed)
            assert refusal.kind == "in use"
            nameless = await RawClient(server).open("")
            assert isinstance(await nameless.subscribe("desk"), Failed)
            back = await RawClient(server).open("one")
            assert isinstance(await back.subscribe("desk"), Done)
            goodbye = await lost.receive()
            assert isinstance(goodbye, Goodbye)
            assert "another connection of this client" in goodbye.reason
            assert isinstance(await stranger.subscribe("desk", 2), Failed)
            for each in (stranger, nameless, back, lost):
                each.close()
            await until(lambda: not server.sessions)
            late = await RawClient(server).open("two")
            assert isinstance(await late.subscribe("desk"), Done)
            late.close()

    run(test)


def test_what_a_lost_connection_still_acknowledges_does_not_count_once_the_client_is_back() -> None:
    async def test() -> None:
        async with broker() as server, palio.connect(url(server)) as publisher:
            lost = await RawClient(server).open("one")
            await lost.subscribe("desk")
            await publisher.publish({"x": 1}, confirm=True)
            delivery = await lost.receive()
            assert isinstance(delivery, Delivery)
            back = await RawClient(server).open("one")
            back.send(Subscribe(1, "desk", Filter.everything, durable=True))
            again = [await back.receive(), await back.receive()]
            [redelivered] = [each for each in again if isinstance(each, Delivery)]
            assert (redelivered.number, redelivered.deliveries) in ((delivery.number, 1), (delivery.number, 2))
            lost.send(Acknowledge("desk", (delivery.number,)))
            assert isinstance(await lost.receive(), Goodbye)
            assert server.store.queue("durable anyone/desk", "desk").size().events == 1
            back.send(Acknowledge("desk", (redelivered.number,)))
            await until(lambda: server.store.queue("durable anyone/desk", "desk").size().events == 0)
            back.close()
            lost.close()

    run(test)


def test_a_rejected_event_comes_again_until_its_deliveries_are_used_up(tmp_path: Path) -> None:
    async def test() -> None:
        for data in ("none", str(tmp_path)):
            async with (
                broker(data=data) as server,
                palio.connect(url(server)) as client,
                client.subscribe("x > 0", durable="desk", settings=THRICE) as events,
            ):
                for x in (1, 2):
                    await client.publish({"x": x}, confirm=True)
                seen = []
                while len(seen) < 4:
                    event = await anext(events)
                    seen.append((event.get("x"), event.deliveries))
                    if event.get("x") == 1:
                        await event.reject(reason="no such account")
                    else:
                        await event.ack()
                assert sorted(map(str, seen)) == ["(1, 1)", "(1, 2)", "(1, 3)", "(2, 1)"]
                await until(lambda server=server: len(letters(server)) == 1)
                reason = "3 deliveries without an acknowledgement; rejected: no such account"
                assert letters(server) == [("durable anyone/desk", reason, 1)]
                await until(lambda server=server: server.status()["queued"] == 0)

    run(test)


def test_an_event_that_is_rejected_for_good_is_a_dead_letter_at_once() -> None:
    async def test() -> None:
        async with (
            broker() as server,
            palio.connect(url(server)) as client,
            client.subscribe("x > 0", durable="desk") as events,
        ):
            await client.publish({"x": 7}, confirm=True)
            await (await anext(events)).reject(requeue=False)
            await until(lambda: bool(letters(server)))
            reason = "1 delivery without an acknowledgement; rejected by its consumer"
            assert letters(server) == [("durable anyone/desk", reason, 7)]
            await client.publish({"x": 8}, confirm=True)
            event = await anext(events)
            with pytest.raises(palio.InvalidArgument, match="the reason of a rejection"):
                await event.reject(reason="x" * 501)

    run(test)


def test_a_message_rejects_a_bounded_number_of_events() -> None:
    async def test() -> None:
        async with broker() as server:
            client = await RawClient(server).open("one")
            assert isinstance(await client.subscribe("desk"), Done)
            client.send(Reject("desk", tuple(range(protocol.MAX_REJECTED_EVENTS + 1))))
            assert isinstance(await client.receive(), Goodbye)
            client.close()

    run(test)


async def crash_on(server: Server, poison: int) -> list[tuple[object, int]]:
    """What a consumer sees that acknowledges everything up to one event, and dies on that."""
    seen: list[tuple[object, int]] = []
    async with palio.connect(url(server), patience=0) as client:
        events: Subscription = await client.subscribe("x > 0", durable="desk").__aenter__()
        async for event in events:
            seen.append((event.get("x"), event.deliveries))
            if event.get("x") == poison:
                break
            await event.ack()
        await asyncio.sleep(0)  # the acknowledgements leave
        assert client.connection._channel is not None
        client.connection._channel.flush()
        client.connection._channel.abort("crashed")
    return seen


def test_an_event_that_kills_its_consumers_goes_to_the_dead_letters_and_no_other_with_it(tmp_path: Path) -> None:
    async def test() -> None:
        async with broker(data=str(tmp_path)) as server, palio.connect(url(server)) as client:
            async with client.subscribe("x > 0", durable="desk", settings=THRICE):
                pass
            await client.publish_all(({"x": x} for x in range(1, 21)), confirm=True)
            assert (await crash_on(server, 5))[-1] == (5, 1)
            await until(lambda: not _has_consumer(server))
            assert (await crash_on(server, 5))[-1] == (5, 2)
            await until(lambda: not _has_consumer(server))
        async with broker(data=str(tmp_path)) as server, palio.connect(url(server)) as client:
            assert (await crash_on(server, 5))[-1] == (5, 3)
            await until(lambda: len(letters(server)) == 1)
            assert letters(server)[0][2] == 5
            async with client.subscribe("x > 0", durable="desk") as events:
                left = [await anext(events) for _ in range(15)]
            assert [each.get("x") for each in left] == list(range(6, 21))
            assert {each.deliveries for each in left} == {1}

    run(test)


def _has_consumer(server: Server) -> bool:
    return "durable anyone/desk" in server.host.clients


def test_a_broker_that_stops_is_no_failure_of_a_delivery(tmp_path: Path) -> None:
    async def test() -> None:
        once = DurableSettings(max_deliveries=1)
        async with broker(data=str(tmp_path)) as server, palio.connect(url(server), patience=0) as client:
            events = await client.subscribe("x > 0", durable="desk", settings=once).__aenter__()
            await client.publish({"x": 1}, confirm=True)
            assert (await anext(events)).get("x") == 1
            await server.stop()
        async with broker(data=str(tmp_path)) as server, palio.connect(url(server)) as client:
            async with client.subscribe("x > 0", durable="desk") as events:
                event = await anext(events)
                assert (event.get("x"), event.deliveries) == (1, 1)
            await until(lambda: len(letters(server)) == 1)

    run(test)


def test_a_durable_subscription_ends_after_its_time_without_a_consumer_also_in_the_next_life(tmp_path: Path) -> None:
    async def test() -> None:
        soon, late = DurableSettings(expires_after=0.05), DurableSettings(expires_after=3_600)
        async with broker(data=str(tmp_path)) as server, palio.connect(url(server)) as client:
            async with (
                client.subscribe("x > 0", durable="kept"),
                client.subscribe("x > 0", durable="left", settings=late),
                client.subscribe("x > 0", durable="read", settings=soon) as events,
            ):
                await client.limit_durable("left", soon)
                await client.publish({"x": 1}, confirm=True)
                await events.__aexit__(None, None, None)
                await until(lambda: server.host.durable_count == 2)  # nobody reads it any more; the others are read
            await until(lambda: server.host.durable_count == 1)
            assert server.host.counts["expired subscriptions"] == 2
            async with client.subscribe("x > 0", durable="next", settings=late):
                pass
        async with broker(data=str(tmp_path)) as server, palio.connect(url(server)) as client:
            assert server.host.durable_count == 2
            await client.limit_durable("next", soon)
            await until(lambda: server.host.durable_count == 1)

    run(test)
