"""Consumer groups on sockets: each event to one member, whoever comes, goes, hangs or crashes."""

from __future__ import annotations

import asyncio
import signal
from collections import Counter
from contextlib import AsyncExitStack
from pathlib import Path
from random import Random
from typing import Any

import pytest

import palio
from palio import DurableSettings, Filter
from palio.network.client.event_stream import ReceivedEvent
from palio.network.client.subscription import Subscription
from palio.network.security.authentication import Tokens
from palio.network.security.authorization import ANYONE, Principal, unrestricted
from palio.network.server.consumer_groups import ConsumerGroup
from palio.network.server.delivery_queues import GroupOptions, SubscribeOptions
from palio.network.server.process import Server
from palio.routing import codec
from tests.network.processes import Broker
from tests.network.running import broker, line, run, until, url


def waiting(server: Server, name: str = "billing") -> int:
    return server.store.queue(f"durable anyone/{name}", name).size().events


async def member(stack: AsyncExitStack, server: Server, **options: Any) -> Subscription:
    """A member with a connection of its own."""
    client = await stack.enter_async_context(palio.connect(url(server), patience=0))
    return await stack.enter_async_context(client.subscribe("x >= 0", group="billing", **options))


async def crash(events: Subscription) -> None:
    """Break the connection of a member, as if its process had died."""
    channel = events._connection._channel
    assert channel is not None
    channel.abort("crashed")


def test_each_event_goes_to_one_member_and_all_of_them_work(tmp_path: Path) -> None:
    async def test() -> None:
        for data in ("none", str(tmp_path)):
            async with broker(data=data) as server, AsyncExitStack() as stack, palio.connect(url(server)) as client:
                members = [await member(stack, server) for _ in range(3)]
                seen: list[Counter[object]] = [Counter() for _ in members]

                async def work(events: Subscription, mine: Counter[object]) -> None:
                    async for event in events:
                        mine[event.get("x")] += 1
                        await event.ack()

                working = [asyncio.create_task(work(*each)) for each in zip(members, seen, strict=True)]
                await client.publish_all(({"x": x} for x in range(300)), confirm=True)
                await until(lambda seen=seen: sum(map(len, seen)) == 300)
                await until(lambda server=server: waiting(server) == 0)
                assert sum(seen, Counter()) == Counter(range(300))
                assert all(len(each) > 30 for each in seen)
                for task in working:
                    task.cancel()

    run(test)


def test_a_member_that_does_not_acknowledge_gets_no_more_than_its_window() -> None:
    async def test() -> None:
        async with broker() as server, AsyncExitStack() as stack, palio.connect(url(server)) as client:
            idle = await member(stack, server, window=3)
            busy = await member(stack, server, window=3)
            await client.publish_all(({"x": x} for x in range(100)), confirm=True)
            done = []
            while len(done) < 97:
                event = await anext(busy)
                done.append(event.get("x"))
                await event.ack()
            held = [(await anext(idle)).get("x") for _ in range(3)]
            assert sorted(map(str, (*held, *done))) == sorted(map(str, range(100)))
            await until(lambda: waiting(server) == 3)

    run(test)


def test_what_a_member_leaves_behind_goes_to_the_others_however_it_goes() -> None:
    async def test() -> None:
        async with broker() as server, AsyncExitStack() as stack, palio.connect(url(server)) as client:
            leaving = await member(stack, server, window=10)
            crashing = await member(stack, server, window=10)
            await client.publish_all(({"x": x} for x in range(20)), confirm=True)
            first = [await anext(leaving) for _ in range(10)]
            second = [await anext(crashing) for _ in range(10)]
            staying = await member(stack, server)
            await first[0].ack()
            await leaving.__aexit__(None, None, None)
            await crash(crashing)
            found = [await anext(staying) for _ in range(19)]
            expected = {each.get("x") for each in (*first[1:], *second)}
            assert {each.get("x") for each in found} == expected
            # The first unacknowledged event of each counts as failed; the others were only sent ahead.
            failed = {first[1].get("x"), second[0].get("x")}
            assert {each.get("x") for each in found if each.deliveries == 2} == failed
            for each in found:
                await each.ack()
            await until(lambda: waiting(server) == 0)

    run(test)


def test_an_event_that_is_not_acknowledged_in_time_goes_to_another_member() -> None:
    async def test() -> None:
        async with broker() as server, AsyncExitStack() as stack, palio.connect(url(server)) as client:
            hanging = await member(stack, server, ack_timeout=0.1)
            await client.publish({"x": 1}, confirm=True)
            late = await anext(hanging)
            other = await member(stack, server, window=1)
            again = await anext(other)
            assert (late.get("x"), late.deliveries, again.get("x"), again.deliveries) == (1, 1, 1, 2)
            await late.ack()  # too late: another one works on it
            await client.publish({"x": 2}, confirm=True)
            assert (await anext(hanging)).get("x") == 2  # it is alive after all
            assert waiting(server) == 2
            await again.ack()
            await until(lambda: waiting(server) == 1)

    run(test)


@pytest.mark.parametrize("key", ["", "x"])
def test_a_member_that_reads_nothing_keeps_few_bytes_in_memory_and_loses_no_event(key: str) -> None:
    async def test() -> None:
        async with broker() as server, palio.connect(url(server)) as client:
            session = server.open_session(ANYONE)
            options = SubscribeOptions(durable=True, credit=20, group=GroupOptions(key))
            await session.subscribe("billing", Filter.everything, options)
            for x in range(20):
                await client.publish({"x": x, "text": "a" * 1_000_000}, confirm=True)
            group = server.host.clients["durable anyone/billing"]
            assert isinstance(group, ConsumerGroup)
            await until(lambda: len(group.held_by(group.members[0])) == 20)
            assert 0 < sum(len(each.body) for each in group._bodies.values()) == group._body_bytes <= 8 * 2**20
            found = [codec.decode_event(each.event.body).get("x") for each in session.take(100)]
            assert found == list(range(20))
            assert group._body_bytes == 0
            server.close_session(session)

    run(test)


def test_events_of_one_key_are_processed_in_order_whoever_crashes() -> None:
    async def test() -> None:
        random = Random(7)
        accounts = ("eve", "bob", "kim", "ann")
        async with broker() as server, palio.connect(url(server)) as client:
            done: dict[str, list[int]] = {each: [] for each in accounts}
            under_way: Counter[object] = Counter()

            async def work(events: Subscription) -> None:
                taken: list[ReceivedEvent] = []
                async for event in events:
                    under_way[event.get("account")] += 1
                    assert under_way[event.get("account")] == 1, "two members work on one account"
                    taken.append(event)
                    await asyncio.sleep(0)
                    under_way[event.get("account")] -= 1
                    if random.random() < 0.02:
                        await crash(events)
                        return
                    if random.random() < 0.1:
                        await event.reject()
                        continue
                    done[str(event.get("account"))].append(int(str(event.get("x"))))
                    await event.ack()

            async def keep_working() -> None:
                while True:
                    async with palio.connect(url(server), patience=0) as mine:
                        events = mine.subscribe("x >= 0", group="billing", key="account", window=4)
                        await events.__aenter__()
                        try:
                            await work(events)
                        except palio.ConnectionFailed:
                            continue

            async with client.subscribe("x >= 0", group="billing", key="account"):
                pass
            workers = [asyncio.create_task(keep_working()) for _ in range(3)]
            events = [{"x": x, "account": random.choice(accounts)} for x in range(200)]
            await client.publish_all(events, confirm=True)
            await until(lambda: waiting(server) == 0 and sum(map(len, done.values())) >= 200)
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            for account in accounts:
                expected = [each["x"] for each in events if each["account"] == account]
                # An acknowledgement that a crash took along lets the last event come once more, and no other.
                unique = [x for at, x in enumerate(done[account]) if at == 0 or done[account][at - 1] != x]
                assert unique == expected

    run(test)


def test_members_agree_on_condition_and_key_and_may_change_them_when_all_have_left() -> None:
    async def test() -> None:
        async with (
            broker() as server,
            palio.connect(url(server)) as first,
            palio.connect(url(server)) as second,
        ):
            async with first.subscribe("x > 0", group="billing", key="account"):
                for wrong, message in (
                    ({"where": "x > 1", "key": "account"}, "agree on the condition: theirs is x > 0, not x > 1"),
                    ({"where": "x > 0"}, "agree on the key: theirs is account, not no key"),
                ):
                    with pytest.raises(palio.Refused, match=message):
                        await second.subscribe(group="billing", **wrong).__aenter__()
                with pytest.raises(palio.DurableInUse, match="it is a consumer group; join it: --group billing"):
                    await second.subscribe("x > 0", durable="billing").__aenter__()
                async with second.subscribe("0 < x", group="billing", key="account"):
                    pass
            await until(lambda: "durable anyone/billing" not in server.host.clients)
            async with second.subscribe("x > 1", group="billing") as events:
                await first.publish({"x": 1}, confirm=True)
                await first.publish({"x": 2}, confirm=True)
                assert (await anext(events)).get("x") == 2

    run(test)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"durable": "desk", "group": "billing"}, "a consumer group is the durable subscription of its name"),
        ({"durable": "desk", "key": "account"}, "key orders the events of a consumer group"),
        ({"group": "billing", "ack_timeout": 0}, "ack_timeout is a positive number of seconds"),
        ({"group": "billing", "window": 0}, "window is a whole number from 1 on"),
        ({"group": ""}, "the name of a subscription has from 1 to"),
    ],
)
def test_options_that_do_not_go_together_are_refused(options: dict[str, Any], message: str) -> None:
    async def test() -> None:
        async with broker() as server, palio.connect(url(server)) as client:
            with pytest.raises(palio.InvalidArgument, match=message):
                client.subscribe("x > 0", **options)

    run(test)


def test_a_group_survives_its_members_and_a_restart_with_its_limits(tmp_path: Path) -> None:
    async def test() -> None:
        async with broker(data=str(tmp_path)) as server, AsyncExitStack() as stack:
            settings = DurableSettings(max_deliveries=3)
            events = await member(stack, server, settings=settings)
            await events.__aexit__(None, None, None)
            client = await stack.enter_async_context(palio.connect(url(server)))
            await client.publish_all(({"x": x} for x in range(4)), confirm=True)
            events = await member(stack, server)
            await (await anext(events)).reject()
            again = await anext(events)
            while again.deliveries == 1:
                again = await anext(events)
            assert (again.get("x"), again.deliveries) == (0, 2)
            await events.__aexit__(None, None, None)  # it leaves without an acknowledgement: the second failure
            queue = server.store.queue("durable anyone/billing", "billing")
            await until(lambda: queue.failures([1]) == {1: 2})
        async with broker(data=str(tmp_path)) as server, AsyncExitStack() as stack:
            events = await member(stack, server)
            found = {event.get("x"): event for event in [await anext(events) for _ in range(4)]}
            assert [found[x].deliveries for x in range(4)] == [3, 1, 1, 1]
            await found[0].reject()
            for x in (1, 2, 3):
                await found[x].ack()
            await until(lambda: waiting(server) == 0)
            [letter] = server.store.dead_letters.read(0, 10)
            assert letter.reason == "3 deliveries without an acknowledgement; rejected by its consumer"

    run(test)


def test_a_broker_that_stops_gives_the_events_of_a_member_to_no_other(tmp_path: Path) -> None:
    async def test() -> None:
        async with (
            broker(data=str(tmp_path)) as server,
            palio.connect(url(server)) as other,
            other.subscribe("x >= 0", group="billing", window=8) as mine,
        ):
            async with (
                palio.connect(url(server)) as client,
                client.subscribe("x >= 0", group="billing", window=8) as events,
            ):
                await client.publish_all(({"x": x} for x in range(8)), confirm=True)
                await anext(events)
                await anext(mine)
                group = server.host.clients["durable anyone/billing"]
                assert isinstance(group, ConsumerGroup)
                [here] = [each for each in group.members if each.session.instance == other.connection._instance]
                held = group.held_by(here)
                assert len(held) < 8
                server.host.is_stopping = True  # as at the beginning of `stop`, which ends the connections later
            await until(lambda: group.members == [here])
            for _ in range(5):  # turns of the loop, in one of which they would be given out
                await asyncio.sleep(0)
            assert group.held_by(here) == held
        async with broker(data=str(tmp_path)) as server, AsyncExitStack() as stack:
            again = await member(stack, server)
            found = [await anext(again) for _ in range(8)]
            assert [each.get("x") for each in found] == list(range(8))
            assert {each.deliveries for each in found} == {1}

    run(test)


def test_members_are_found_from_every_broker_and_read_at_the_home() -> None:
    async def test() -> None:
        async with (
            line(2) as (home, other),
            palio.connect(url(home)) as first,
            palio.connect(url(other)) as second,
            first.subscribe("x >= 0", group="billing", window=1) as here,
            second.subscribe("x >= 0", group="billing", window=1) as there,
        ):
            assert there.address == url(home)
            await first.publish_all(({"x": x} for x in range(2)), confirm=True)
            assert {(await anext(each)).get("x") for each in (here, there)} == {0, 1}

    run(test)


def test_members_of_a_group_have_the_grant_of_their_principal(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    root = tokens.add(unrestricted("root"))
    desk = tokens.add(Principal("desk", may_subscribe=Filter.parse("x < 10")))

    async def test() -> None:
        async with (
            broker(data=tmp_path) as server,
            palio.connect(url(server), root) as owner,
            palio.connect(url(server), desk) as client,
            client.subscribe("x >= 0", group="billing") as events,
            owner.subscribe("x >= 0", group="billing") as others,
        ):
            for x in (20, 5):
                await owner.publish({"x": x}, confirm=True)
            assert (await anext(events)).get("x") == 5  # a group belongs to a principal, as every durable subscription
            assert {(await anext(others)).get("x") for _ in range(2)} == {20, 5}

    run(test)


def test_all_members_hear_that_one_of_them_has_ended_the_group() -> None:
    async def test() -> None:
        async with broker() as server, AsyncExitStack() as stack:
            ending, other = await member(stack, server), await member(stack, server)
            await ending.unsubscribe()
            with pytest.raises(palio.Refused, match="ended by another member of its group"):
                await anext(other)
            await until(lambda: server.host.durable_count == 0)

    run(test)


def test_a_member_that_lost_its_connection_is_a_member_again() -> None:
    async def test() -> None:
        async with (
            broker() as server,
            palio.connect(url(server)) as client,
            palio.connect(url(server)) as publisher,
            client.subscribe("x >= 0", group="billing") as events,
        ):
            await publisher.publish({"x": 1}, confirm=True)
            before = await anext(events)
            await crash(events)
            again = await anext(events)
            assert (before.get("x"), again.get("x"), again.deliveries) == (1, 1, 2)
            await again.ack()
            await until(lambda: waiting(server) == 0)

    run(test)


def test_what_was_confirmed_reaches_the_members_of_a_group_although_its_broker_is_killed(tmp_path: Path) -> None:
    serving = Broker(data=str(tmp_path))
    try:
        asyncio.run(_work_while_the_broker_is_killed(serving, str(tmp_path)))
    finally:
        serving.kill()


async def _work_while_the_broker_is_killed(serving: Broker, data: str) -> None:
    """Two members process events of three accounts; the broker is killed in the middle, and comes back."""
    done: list[tuple[str, int]] = []
    confirmed: list[dict[str, Any]] = []

    async def work(is_member: asyncio.Event) -> None:
        async with (
            palio.connect(serving.url, patience=60) as client,
            client.subscribe("x >= 0", group="billing", key="account", window=4) as events,
        ):
            is_member.set()
            async for event in events:
                done.append((str(event.get("account")), int(str(event.get("x")))))
                await event.ack()

    async def publish(client: palio.network.client.broker.Broker, start: int) -> None:
        for x in range(start, start + 150):
            await client.publish(event := {"x": x, "account": f"a{x % 3}"}, confirm=True)
            confirmed.append(event)

    joined = [asyncio.Event() for _ in range(2)]
    workers = [asyncio.create_task(work(each)) for each in joined]
    for each in joined:
        await each.wait()
    async with palio.connect(serving.url, patience=60, publisher="shop") as client:
        await publish(client, 0)
        serving.send(signal.SIGKILL)
        serving.end()
        again = Broker(data=data, listen=serving.url)
        try:
            await publish(client, 150)
            while len(set(done)) < len(confirmed):
                await asyncio.sleep(0.01)
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
        finally:
            again.kill()
    for account in ("a0", "a1", "a2"):
        # What the kill took back of acknowledgements comes again; nothing comes before an earlier one.
        first_times = list(dict.fromkeys(x for its, x in done if its == account))
        assert first_times == [each["x"] for each in confirmed if each["account"] == account]
