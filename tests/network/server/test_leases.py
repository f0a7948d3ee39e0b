"""Leases of subscriptions and advertisements, and heartbeats of clients."""

from __future__ import annotations

from typing import Any

import pytest

import palio
from palio.errors import InvalidArgument, NotAdvertised, Refused
from palio.network.channel import Channel
from palio.network.server.leases import MAX_LEASE_SECONDS, Leases
from palio.routing.messages import Subscribe
from tests.network.running import broker, line, run, until, url
from tests.network.virtual_time import VirtualTime


@pytest.fixture
def time(monkeypatch: pytest.MonkeyPatch) -> VirtualTime:
    virtual = VirtualTime()
    monkeypatch.setattr("palio.network.server.leases.asyncio.get_running_loop", lambda: virtual)
    return virtual


def test_a_lease_ends_once_unless_it_is_renewed_in_time(time: VirtualTime) -> None:
    ended: list[str] = []
    leases = Leases(ended.append)
    leases.begin("a", 10.0)
    leases.begin("b", 10.0)
    leases.begin("for ever", None)
    time.pass_seconds(9.0)
    leases.renew("a")
    time.pass_seconds(2.0)
    assert ended == ["b"]
    time.pass_seconds(8.0)
    assert ended == ["b", "a"]
    time.pass_seconds(2 * MAX_LEASE_SECONDS)
    assert ended == ["b", "a"]
    for name in ("a", "for ever"):
        with pytest.raises(Refused, match="has no lease to extend"):
            leases.renew(name)


def test_a_lease_that_is_forgotten_does_not_end(time: VirtualTime) -> None:
    ended: list[str] = []
    leases = Leases(ended.append)
    for name in ("a", "b", "c"):
        leases.begin(name, 10.0)
    leases.forget("a")
    leases.begin("b", 30.0)  # begun anew: its first length does not count any more
    time.pass_seconds(20.0)
    assert ended == ["c"]
    leases.close()
    time.pass_seconds(20.0)
    assert ended == ["c"]


def test_a_subscription_that_is_not_renewed_ends_and_its_subscriber_hears_why() -> None:
    async def test() -> None:
        async with (
            broker() as server,
            palio.connect(url(server)) as client,
            client.subscribe(palio.Filter.parse("x > 0").valid_for(0.2)) as events,
            client.subscribe("x > 0") as others,
        ):
            await client.publish({"x": 1})
            assert (await anext(events)).get("x") == 1
            with pytest.raises(Refused, match="was not extended in time"):
                await anext(events)
            await client.publish({"x": 2})
            assert [(await anext(others)).get("x") for _ in range(2)] == [1, 2]
            with pytest.raises(Refused, match="was not extended in time"):
                await events.extend()
            with pytest.raises(Refused, match="has no lease to extend"):
                await others.extend()

    run(test)


def test_a_subscription_that_is_renewed_stands() -> None:
    async def test() -> None:
        async with (
            broker() as server,
            palio.connect(url(server)) as client,
            client.subscribe(palio.Filter.parse("x > 0").valid_for(5.0)) as events,
        ):
            [session] = server.sessions
            # Private: when a lease ends shows only by letting it end, which takes as long.
            timers = session._subscription_leases._timers
            before = timers[events.name]
            await events.extend()
            assert before.cancelled()
            assert timers[events.name].when() > before.when()
            await client.publish({"x": 1})
            assert (await anext(events)).get("x") == 1

    run(test)


def test_a_client_that_lives_extends_its_lease_by_itself() -> None:
    async def test() -> None:
        async with (
            broker() as server,
            palio.connect(url(server)) as client,
            client.subscribe("x > 0", lease=0.3) as events,
        ):
            [session] = server.sessions
            timers = session._subscription_leases._timers
            first = timers[events.name]
            # Beyond the end of the first lease.
            await until(lambda: timers[events.name].when() > first.when() + 0.3)
            await client.publish({"x": 1})
            assert (await anext(events)).get("x") == 1
        assert events._extension is not None
        assert events._extension.cancelled()

    run(test)


def test_a_subscription_may_be_awaited_where_no_block_bounds_it() -> None:
    async def test() -> None:
        async with broker() as server, palio.connect(url(server)) as client:
            subscription = await client.subscribe("x > 0", lease=600)
            await subscription.extend()
            await client.publish({"x": 1})
            assert (await anext(subscription)).get("x") == 1
            await subscription.unsubscribe()
            [session] = server.sessions
            assert not session._subscription_leases._timers
            with pytest.raises(palio.PalioError):
                await client.subscribe("x >", lease=600)

    run(test)


def test_a_client_that_is_cut_off_lets_its_lease_end() -> None:
    async def test() -> None:
        async with (
            broker() as server,
            palio.connect(url(server)) as client,
            client.subscribe("x > 0", lease=0.2) as events,
        ):
            # As in a program whose event loop hangs, whose connection the machine keeps open.
            assert events._extension is not None
            events._extension.cancel()
            with pytest.raises(Refused, match="ended with its lease"):
                await anext(events)

    run(test)


@pytest.mark.parametrize("lease", [0, -1, float("inf"), "10m"])
def test_a_lease_is_a_number_of_seconds(lease: Any) -> None:
    async def test() -> None:
        async with broker() as server, palio.connect(url(server)) as client:
            with pytest.raises(InvalidArgument, match="number of seconds above 0"):
                client.subscribe("x > 0", lease=lease)

    run(test)


def test_an_advertisement_that_is_not_said_again_ends() -> None:
    async def test() -> None:
        async with broker(advertisements=True) as server, palio.connect(url(server)) as client:
            await client.advertise(palio.Filter.parse("x > 0").valid_for(0.2))
            await client.publish({"x": 1}, confirm=True)
            [session] = server.sessions
            # Advertisements are not listed publicly.
            await until(lambda: not session._advertised)
            with pytest.raises(NotAdvertised):
                await client.publish({"x": 2}, confirm=True)

    run(test)


def test_of_many_conditions_none_has_a_validity() -> None:
    async def test() -> None:
        lease = palio.Filter.parse("x > 0").valid_for(5.0)
        async with broker() as server, palio.connect(url(server)) as client:
            with pytest.raises(InvalidArgument, match="alone"):
                client.subscribe_many({"a": lease})
            async with client.subscribe_many({"a": "x > 0"}) as events:
                with pytest.raises(InvalidArgument, match="alone"):
                    await events.add("b", lease)

    run(test)


def test_what_is_durable_has_no_validity() -> None:
    async def test() -> None:
        async with broker() as server, palio.connect(url(server)) as client:
            with pytest.raises(InvalidArgument, match="durable"):
                client.subscribe(palio.Filter.parse("x > 0").valid_for(1), durable="desk")
            with pytest.raises(InvalidArgument, match="durable"):
                client.subscribe("x > 0", durable="desk", lease=60)

    run(test)


def test_a_client_says_something_as_often_as_its_broker_wants_to_hear_it(monkeypatch: pytest.MonkeyPatch) -> None:
    beats = 0
    # Heartbeats are counted where they are sent.
    beat = Channel._beat

    def counted(channel: Channel) -> None:
        nonlocal beats
        beats += 1
        beat(channel)

    async def test() -> None:
        monkeypatch.setattr(Channel, "_beat", counted)
        async with broker(heartbeat=0.1) as server, palio.connect(url(server)) as client:
            await client.status()
            [session] = server.sessions
            await until(lambda: beats > 15)  # of both ends; one that is silent for three of them is gone
            assert server.sessions == {session}

    run(test)


def test_leased_tables_over_sockets_lose_what_is_wrong_and_regain_what_is_missing() -> None:
    async def test() -> None:
        settings = {"tables": "leases", "options": {"validity": 0.9, "refresh": 0.3, "max_validity": 1.5}}
        async with (
            line(3, **settings) as [first, middle, last],
            palio.connect(url(first)) as publisher,
            palio.connect(url(last)) as subscriber,
            subscriber.subscribe("x > 0", confirm="network") as events,
        ):
            tables = middle.host.node.broker.tables
            link, known = next((link, known) for link, known in tables.remote_subscriptions.items() if known)
            [right] = known
            tables.on_unsubscribe(link, right)
            wrong = palio.Filter.parse("y > 0")
            tables.on_subscribe(link, Subscribe(wrong.digest, wrong))
            # The wrong entry stands for `max_validity`, in which the lease of the right one is renewed several times.
            await until(lambda: [*tables.remote_subscriptions[link]] == [right])
            await publisher.publish({"x": 1})
            assert (await anext(events)).get("x") == 1

    run(test)
