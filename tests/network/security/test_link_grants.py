"""Grants of a neighbour: what leaves and enters over its link, also after they change."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import palio
from palio import Filter
from palio.network.client.subscription import Subscription
from palio.network.security.authentication import PRINCIPALS_FILE, Tokens
from palio.network.security.authorization import Principal, unrestricted
from palio.network.server.process import Server
from tests.network.running import broker, run, until, up, url

LEAF = Principal("leaf", "broker", Filter.parse("region = 'eu'"), Filter.parse("public"))


@asynccontextmanager
async def linked(
    folder: Path, principal: Principal = LEAF, **changes: Any
) -> AsyncIterator[tuple[Server, Server, str]]:
    """A hub with tokens, a leaf that dialled it, and the hub's owner's token."""
    tokens = Tokens(folder)
    owner, leaf = tokens.add(unrestricted("owner")), tokens.add(principal)
    async with broker(data=folder, watch=0.05) as hub, broker(connect=hub.addresses, token=leaf, **changes) as there:
        await until(lambda: bool(up(hub) and up(there)))
        yield hub, there, owner


async def heard(events: Subscription, count: int) -> list[object]:
    return [(await anext(events)).get("n") for _ in range(count)]


def test_what_leaves_and_what_comes_in_is_what_was_granted(tmp_path: Path) -> None:
    async def test() -> None:
        async with (
            linked(tmp_path) as (hub, leaf, owner),
            palio.connect(url(hub), token=owner) as at_hub,
            palio.connect(url(leaf)) as at_leaf,
            at_hub.subscribe("n > 0", confirm="network") as of_hub,
            at_leaf.subscribe("n > 0", confirm="network") as of_leaf,
        ):
            for confirm in (False, True):
                for n, region in ((1, "eu"), (2, "us"), (3, "eu")):
                    await at_hub.publish({"n": n, "region": region}, confirm=confirm)
                assert await heard(of_leaf, 2) == [1, 3]
                assert await heard(of_hub, 3) == [1, 2, 3]
                for n, public in ((4, True), (5, False), (6, True)):
                    await at_leaf.publish({"n": n, "public": public}, confirm=confirm)
                assert await heard(of_hub, 2) == [4, 6]
                assert await heard(of_leaf, 3) == [4, 5, 6]
            assert hub.host.drops["not admitted by its link"] == 2

    run(test)


def test_what_may_not_pass_is_not_told_as_past(tmp_path: Path) -> None:
    async def test() -> None:
        async with (
            linked(tmp_path) as (hub, leaf, owner),
            palio.connect(url(hub), token=owner) as at_hub,
            palio.connect(url(leaf)) as at_leaf,
        ):
            for n, region in ((1, "eu"), (2, "us")):
                await at_hub.publish({"n": n, "region": region}, confirm=True)
            for n, public in ((3, True), (4, False)):
                await at_leaf.publish({"n": n, "public": public}, confirm=True)
            for client, told in ((at_hub, [1, 2, 3]), (at_leaf, [1, 3, 4])):
                past = await client.replay("n > 0")
                assert ([each.event.get("n") for each in past.events], past.missing) == (told, [])

    run(test)


def test_a_confirmed_event_that_may_not_pass_is_dealt_with_and_not_sent_for_ever(tmp_path: Path) -> None:
    async def test() -> None:
        async with (
            linked(tmp_path) as (hub, leaf, owner),
            palio.connect(url(hub), token=owner) as at_hub,
            palio.connect(url(leaf)) as at_leaf,
            at_hub.subscribe("n > 0", durable="all", confirm="network") as events,
        ):
            for n in (1, 2):
                await at_leaf.publish({"n": n, "public": n == 2}, confirm=True)
            assert await heard(events, 1) == [2]
            # An attempt that never ended would show nowhere else.
            await until(lambda: not leaf.host.node.broker.delivery._attempts._under_way)
            assert hub.host.drops["not admitted by its link"] == 1

    run(test)


def test_a_link_follows_its_principal(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    async def test() -> None:
        async with (
            linked(tmp_path) as (hub, leaf, owner),
            palio.connect(url(hub), token=owner) as at_hub,
            palio.connect(url(leaf)) as at_leaf,
            at_leaf.subscribe("n > 0", confirm="network") as events,
        ):
            kept = (tmp_path / PRINCIPALS_FILE).read_bytes()
            (tmp_path / PRINCIPALS_FILE).write_text("not what it should be")
            # A file that cannot be read changes nothing, and is looked at again.
            await until(lambda: "cannot read the principals file" in caplog.messages)
            (tmp_path / PRINCIPALS_FILE).write_bytes(kept)
            Tokens(tmp_path).change(replace(LEAF, may_subscribe=Filter.parse("region = 'us'")))
            link_filters = hub.host.node.broker.link_filters
            await until(lambda: all(str(each.exports) == "region = 'us'" for each in link_filters.values()))
            for n, region in ((1, "eu"), (2, "us")):
                await at_hub.publish({"n": n, "region": region})
            assert await heard(events, 1) == [2]
            Tokens(tmp_path).remove("leaf")
            await until(lambda: not up(hub))

    run(test)


def test_who_dials_has_a_say_too(tmp_path: Path) -> None:
    async def test() -> None:
        async with broker() as hub:
            address = url(hub)
            links = {address: {"imports": "n > 1", "exports": "n < 5"}}
            async with (
                broker(connect=address, links=links) as leaf,
                palio.connect(address) as at_hub,
                palio.connect(url(leaf)) as at_leaf,
            ):
                await until(lambda: bool(up(hub) and up(leaf)))
                async with (
                    at_hub.subscribe("n > 0", confirm="network") as of_hub,
                    at_leaf.subscribe("n > 0", confirm="network") as of_leaf,
                ):
                    for n in (1, 2):
                        await at_hub.publish({"n": n})
                    assert await heard(of_leaf, 1) == [2]
                    assert await heard(of_hub, 2) == [1, 2]
                    for n in (6, 3):
                        await at_leaf.publish({"n": n})
                    assert await heard(of_hub, 1) == [3]

    run(test)


def test_a_client_cannot_be_a_broker(tmp_path: Path) -> None:
    token = Tokens(tmp_path).add(Principal("desk", may_subscribe=Filter.everything))

    async def test() -> None:
        async with broker(data=tmp_path) as hub, broker(connect=hub.addresses, token=token) as leaf:
            await until(lambda: "broker" in leaf.neighbours.describe()[0]["reason"])
            assert not up(hub)

    run(test)


def test_a_broker_with_sources_of_its_own_brings_events_of_no_others(tmp_path: Path) -> None:
    async def test() -> None:
        bound = replace(LEAF, may_publish=Filter.everything, sources=("shop",))
        async with (
            linked(tmp_path, bound) as (hub, leaf, owner),
            palio.connect(url(hub), token=owner) as at_hub,
            palio.connect(url(leaf)) as at_leaf,
            at_hub.subscribe("n > 0", confirm="network") as events,
        ):
            for n, source in enumerate(("owner", "shop/7", None, "shops", "leaf"), 1):
                await at_leaf.publish(palio.Event.from_dict({"n": n}, source=source), confirm=True)
            await at_leaf.publish({"n": 6, "source": "owner"}, confirm=True)
            await at_leaf.publish({"n": 7}, confirm=True)
            assert await heard(events, 4) == [2, 3, 5, 7]
            assert hub.host.drops["not admitted by its link"] == 3

    run(test)
