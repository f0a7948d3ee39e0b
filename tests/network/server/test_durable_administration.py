"""Administration of durable subscriptions: reports, deletion and limits, from any broker, by owners and admins."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

import palio
from palio import DurableSettings, Filter
from palio.network.security.authentication import Tokens
from palio.network.security.authorization import Principal, unrestricted
from palio.network.server import durable_administration
from tests.network.running import broker, line, run, until, url


def test_a_report_has_the_condition_the_queue_the_consumers_and_the_limits() -> None:
    async def test() -> None:
        limits = DurableSettings(max_events=10, max_deliveries=3)
        async with (
            broker() as server,
            palio.connect(url(server), app="desk") as client,
            client.subscribe("x > 0", durable="desk", settings=limits) as events,
        ):
            await client.publish({"x": 1}, confirm=True)
            await (await anext(events)).reject()
            assert (await anext(events)).deliveries == 2
            found = await client.durable("desk")
            assert (found["broker"], found["address"], found["home"]) == (server.node, url(server), server.node)
            assert (found["name"], found["owner"], found["where"]) == ("desk", "anyone", "x > 0")
            assert (found["queued"], found["dead_letters"], found["oldest_failures"]) == (1, 0, 1)
            assert found["bytes"] > 0
            assert found["oldest_seconds"] >= 0
            assert found["limits"] == {
                "max_events": 10,
                "max_bytes": None,
                "on_full": None,
                "expires_after": None,
                "max_deliveries": 3,
                "standby_away": None,
            }
            [consumer] = found["consumers"]
            assert (consumer["principal"], consumer["app"], consumer["delivered"]) == ("anyone", "desk", 2)
            assert consumer["address"].startswith("127.0.0.1:")
            assert found["is_group"] is False
            async with client.subscribe("x > 5", group="billing", key="account", window=1):
                group = await client.durable("billing")
                assert (group["is_group"], group["key"], len(group["consumers"])) == (True, "account", 1)
                listed = await client.durables()
                assert [each["name"] for each in listed["durables"]] == ["billing", "desk"]
                assert listed["other_homes"] == []

    run(test)


def test_one_that_lives_elsewhere_is_administrated_at_its_home() -> None:
    async def test() -> None:
        async with line(2) as (home, other), palio.connect(url(home)) as here, palio.connect(url(other)) as there:
            async with here.subscribe("x > 0", durable="desk", confirm="network"):
                pass
            found = await there.durable("desk")
            assert (found["broker"], found["address"]) == (home.node, url(home))
            await there.limit_durable("desk", DurableSettings(max_events=5))
            assert (await here.durable("desk"))["limits"]["max_events"] == 5
            listed = await there.durables()
            assert (listed["broker"], listed["durables"], listed["other_homes"]) == (other.node, [], [home.node])
            await there.unsubscribe("desk")
            await until(lambda: home.host.durable_count == 0)

    run(test)


def test_limits_are_in_force_at_once_for_a_consumer_that_reads_and_survive_a_restart(tmp_path: Path) -> None:
    async def test() -> None:
        async with (
            broker(data=str(tmp_path)) as server,
            palio.connect(url(server)) as client,
            client.subscribe("x > 0", durable="desk") as events,
        ):
            await client.limit_durable("desk", DurableSettings(max_deliveries=1))
            await client.publish({"x": 1}, confirm=True)
            await (await anext(events)).reject()
            await until(lambda: server.store.dead_letters.size().events == 1)
        async with broker(data=str(tmp_path)) as server, palio.connect(url(server)) as client:
            found = await client.durable("desk")
            assert (found["limits"]["max_deliveries"], found["dead_letters"]) == (1, 1)

    run(test)


def test_consumers_hear_that_their_subscription_was_deleted() -> None:
    async def test() -> None:
        async with (
            broker() as server,
            palio.connect(url(server)) as client,
            palio.connect(url(server)) as operator,
            client.subscribe("x > 0", durable="desk") as events,
            client.subscribe("x > 0", group="billing") as member,
        ):
            for name, stream in (("desk", events), ("billing", member)):
                await operator.unsubscribe(name)
                with pytest.raises(palio.Refused, match=f"'{name}' was deleted by anyone"):
                    await anext(stream)
            await until(lambda: server.host.durable_count == 0)

    run(test)


def test_owners_see_their_own_and_admins_those_of_all(tmp_path: Path) -> None:
    tokens = Tokens(tmp_path)
    root = tokens.add(unrestricted("root"))
    alice, bob = (tokens.add(Principal(name, may_subscribe=Filter.parse("x < 10"))) for name in ("alice", "bob"))

    async def test() -> None:
        async with (
            broker(data=tmp_path) as server,
            palio.connect(url(server), root) as admin,
            palio.connect(url(server), alice) as owner,
            palio.connect(url(server), bob) as other,
        ):
            async with owner.subscribe("x > 0", durable="desk"), other.subscribe("x > 1", durable="desk"):
                pass
            assert [each["owner"] for each in (await admin.durables())["durables"]] == ["alice", "bob"]
            assert [each["owner"] for each in (await owner.durables())["durables"]] == ["alice"]
            with pytest.raises(palio.NotPermitted, match="promote the standby of a durable subscription"):
                await owner.promote_durable("desk")
            assert (await admin.durable("desk", owner="bob"))["where"] == "x > 1 AND x < 10"
            assert (await owner.durable("desk", owner="alice"))["owner"] == "alice"
            limits = DurableSettings(max_events=1, on_full="drop_oldest")
            for attempt in (
                other.durable("desk", owner="alice"),
                other.limit_durable("desk", limits, owner="alice"),
                other.unsubscribe("desk", owner="alice"),
            ):
                with pytest.raises(palio.NotPermitted, match="administrate the durable subscriptions of others"):
                    await attempt
            await admin.limit_durable("desk", limits, owner="alice")
            assert (await owner.durable("desk"))["limits"]["max_events"] == 1
            assert (await other.durable("desk"))["limits"]["max_events"] is None
            await admin.unsubscribe("desk", owner="alice")
            await until(lambda: server.host.durable_count == 1)
            for asking, whose in ((admin, "alice"), (owner, "")):
                with pytest.raises(palio.Refused, match="subscription 'desk': there is none"):
                    await asking.durable("desk", owner=whose)
            with pytest.raises(palio.Refused, match="subscription 'desk': there is none"):
                await owner.limit_durable("desk", limits)
            with pytest.raises(palio.Refused, match="a name is up to 64 letters"):
                await admin.durable("desk", owner="a/b")

    run(test)


def test_many_are_listed_page_by_page_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable_administration, "_PAGE_ENTRIES", 2)

    async def test() -> None:
        async with broker() as server, palio.connect(url(server)) as client:
            names = [f"desk-{number}" for number in range(5)]
            for listed in range(6):
                found = await client.durables()
                assert [each["name"] for each in found["durables"]] == names[:listed]
                if listed < 5:
                    async with client.subscribe("x > 0", durable=names[listed]):
                        pass

    run(test)


def test_settings_that_make_no_sense_are_refused_by_the_broker_too() -> None:
    async def test() -> None:
        async with broker() as server, palio.connect(url(server)) as client:
            async with client.subscribe("x > 0", durable="desk"):
                pass
            with pytest.raises(palio.InvalidArgument, match="max_events is a whole number from 1 on"):
                DurableSettings(max_events=0)
            await asyncio.gather(*(client.limit_durable("desk", DurableSettings(max_events=n)) for n in range(1, 6)))
            assert (await client.durable("desk"))["limits"]["max_events"] in range(1, 6)

    run(test)
