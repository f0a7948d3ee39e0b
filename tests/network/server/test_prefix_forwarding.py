"""Prefix forwarding over sockets: an elected optimiser, events only where they are wanted, content read once."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest

import palio
from palio.network.client.broker import Broker
from palio.network.server.process import Server
from tests.network.running import broker, line, run, until, url

CHOICES: dict[str, Any] = {"propagation": "covering", "forwarding": "prefix"}


def _reads(servers: list[Server]) -> list[int]:
    return [server.status()["content_reads"] for server in servers]


def _received(servers: list[Server]) -> list[int]:
    return [server.status()["counts"].get("in", 0) for server in servers]


@pytest.mark.parametrize(
    "choices",
    [{"propagation": "covering"}, {"propagation": "merging"}, {"propagation": "identity", "advertisements": True}],
    ids=["covering", "merging", "advertisements"],
)
def test_once_the_tree_is_known_no_unwanted_event_crosses_a_link_and_content_is_read_at_one_broker(
    choices: dict[str, Any],
) -> None:
    async def doing() -> None:
        options = {"circles": True, "threshold": 0.0}
        async with line(3, options=options, **{**CHOICES, **choices}) as servers:
            first, middle, last = servers
            async with (
                palio.connect(url(first)) as publisher,
                palio.connect(url(middle)) as neighbour,
                palio.connect(url(last)) as subscriber,
                _publishing(publisher, choices),
                subscriber.subscribe("x = 1 AND kind = 'a'", confirm="network") as events,
                neighbour.subscribe("x = 5", confirm="network"),
            ):
                await until(lambda: len({server.status()["optimiser"] for server in servers}) == 1)
                await until(lambda: all(_conditions(server) == 3 for server in servers))
                assert first.status()["optimiser"] == min(server.node for server in servers)
                before, received = _reads(servers), _received(servers)
                for number in range(50):
                    await publisher.publish({"x": 2, "kind": "a", "number": number})
                await publisher.publish({"x": 1, "kind": "a"})
                async for event in events:
                    assert event["x"] == 1
                    break
                assert [after - each for after, each in zip(_received(servers), received, strict=True)] == [51, 1, 1]
                # The broker that delivers looks at the content; none on the way does.
                assert [after - each for after, each in zip(_reads(servers), before, strict=True)] == [51, 0, 1]

    run(doing)


@asynccontextmanager
async def _publishing(publisher: Broker, choices: dict[str, Any]) -> AsyncIterator[None]:
    """A publisher that has advertised all, where brokers need that."""
    if choices.get("advertisements"):
        await publisher.advertise("TRUE")
    yield


def _conditions(server: Server) -> int:
    """The conditions of the newest tree of a broker."""
    trees = server.host.node.broker._forwarding._trees._trees  # type: ignore[attr-defined]
    return len(trees[-1]._index.tree.conditions) if trees else 0


def test_another_broker_makes_the_trees_when_the_first_one_stops() -> None:
    async def doing() -> None:
        async with line(3, **CHOICES) as servers:
            await until(lambda: len({server.status()["optimiser"] for server in servers}) == 1)
            # Stopped at an end, so that the other two stay linked.
            gone = servers[0]
            await gone.stop()
            left = servers[1:]
            expected = min(server.node for server in left)
            await until(lambda: all(server.status()["optimiser"] == expected for server in left))

    run(doing)


def test_a_broker_may_be_named() -> None:
    async def doing() -> None:
        async with (
            line(2, **CHOICES) as servers,
            broker(connect=servers[-1].addresses, options={"optimiser": True}, **CHOICES) as named,
        ):
            await until(lambda: all(each.status()["optimiser"] == named.node for each in (*servers, named)))

    run(doing)
