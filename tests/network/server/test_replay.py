"""Replay of confirmed events at any broker, and brokers that are given up."""

from __future__ import annotations

from pathlib import Path

import pytest

import palio
from palio.errors import ExpiredOffset, InvalidArgument, NotPermitted, Refused
from palio.network.client.log_pages import decode_replay_page
from palio.network.security.authorization import Principal, check_operator
from palio.routing.client_messages import Past
from tests.network.running import broker, line, run, until, url


def test_the_logs_of_all_brokers_are_asked() -> None:
    async def doing() -> None:
        async with line(3, data="none") as servers:
            for number, server in enumerate([*servers, *servers]):
                async with palio.connect(url(server)) as client:
                    await client.publish({"x": number}, confirm=True)
            async with palio.connect(url(servers[0])) as client:
                page = await client.replay("x > 0", limit=2)
                found = [each.event.get("x") for each in page.events]
                while not page.complete:
                    page = await client.replay("x > 0", limit=2, places=page.places)
                    found += [each.event.get("x") for each in page.events]
                assert (found, page.missing) == ([1, 2, 3, 4, 5], [])
                await servers[2].stop()
                away = servers[2].node
                await until(lambda: len(servers[1].host.node.broker.links) == 1)
                assert (page.partial, page.complete, page.more) == (False, True, False)
                page = await client.replay()
                assert ([each.event.get("x") for each in page.events], page.missing) == ([0, 1, 3, 4], [away])
                assert (page.partial, page.complete, page.more) == (True, False, False)

    run(doing)


def test_an_expired_place_is_an_error_that_names_the_brokers() -> None:
    with pytest.raises(ExpiredOffset, match=r"broker 7 no longer has offset 3.*; nor have those of 9") as caught:
        decode_replay_page(Past(1, (), ((7, 3), (9, 1)), (), ((7, 5), (9, 2)), complete=False))
    assert caught.value.expired == {7: 5, 9: 2}


def test_a_place_that_another_broker_has_let_go_of_is_an_error(tmp_path: Path) -> None:
    async def doing() -> None:
        async with (
            line(2) as [first, _],
            broker(connect=first.addresses, data=tmp_path, keeping={"log_bytes": 500}) as third,
        ):
            await until(lambda: len(third.host.node.broker.links) == 1)
            async with palio.connect(url(third)) as client:
                for number in range(50):
                    await client.publish({"x": number}, confirm=True)
            await until(lambda: third.host.node.broker.delivery.unfinished == 0)
            third.store.retain()
            oldest, after = third.store.log.bounds()
            async with palio.connect(url(first)) as client:
                with pytest.raises(ExpiredOffset) as expired:
                    await client.replay(places={third.node: 1})
                assert (expired.value.offset, expired.value.oldest) == (1, oldest)
                assert (expired.value.broker, expired.value.expired) == (third.node, {third.node: oldest})
                assert f"the log of broker {third.node} no longer has offset 1" in str(expired.value)
                with pytest.raises(InvalidArgument, match=f"broker {third.node} has not come to offset {after + 1}"):
                    await client.replay(places={third.node: after + 1})
                assert (await client.replay(places={third.node: after})).events == []
                for limit in (0, -1, 2**63, True, "5"):
                    with pytest.raises(InvalidArgument, match="limit is a whole number from 1 on"):
                        await client.replay(limit=limit)
                for places in ({third.node: -1}, {third.node: 1.5}, {"a": 1}, {2**64: 1}):
                    with pytest.raises(InvalidArgument, match="is a whole number from 0 on"):
                        await client.replay(places=places)  # type: ignore[arg-type]
                page = await client.replay(places={third.node: oldest})
                assert [each.offset for each in page.events] == list(range(oldest, after))

    run(doing)


def test_events_wait_for_a_broker_that_is_away_until_it_is_given_up() -> None:
    async def doing() -> None:
        async with line(2, data="none") as [first, second]:
            async with palio.connect(url(second)) as desk:
                events = desk.subscribe("TRUE", durable="desk", confirm="network")
                await events.__aenter__()
            await until(lambda: second.node in first.host.node.broker.delivery.reachable)
            await second.stop()
            await until(lambda: first.host.node.broker.delivery.missing == [second.node])
            async with palio.connect(url(first)) as client:
                await client.publish({"x": 1}, confirm=True)
                status = await client.status()
                assert (status["unfinished"], status["away"]) == (1, [second.node])
                with pytest.raises(Refused, match="is within reach"):
                    await client.forget(first.node)
                await client.forget(second.node)
                await until(lambda: first.host.node.broker.delivery.unfinished == 0)

    run(doing)


def test_only_an_operator_gives_brokers_up() -> None:
    with pytest.raises(NotPermitted):
        check_operator(Principal("desk"))
