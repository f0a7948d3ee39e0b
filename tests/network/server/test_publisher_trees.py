"""Trees of publishers over sockets: brokers in a ring send events over the link between publisher and subscriber."""

from __future__ import annotations

from typing import Any

import pytest

import palio
from tests.network.running import broker, run, until, url


@pytest.mark.parametrize("choices", [{}, {"propagation": "covering", "forwarding": "group"}], ids=["content", "group"])
def test_of_three_brokers_in_a_ring_any_two_are_neighbours(choices: dict[str, Any]) -> None:
    async def doing() -> None:
        settings = {"options": {"circles": True, "trees": "publisher"}, **choices}
        async with (
            broker(**settings) as first,
            broker(connect=first.addresses, **settings) as second,
            broker(connect=(*first.addresses, *second.addresses), **settings) as third,
        ):
            servers = sorted((first, second, third), key=lambda each: each.node)

            def knows_the_ring(at: int) -> bool:
                states = servers[at].host.node.broker._states
                return states is not None and len(set(states.branches(servers[at].node).values())) == 2

            await until(lambda: all(map(knows_the_ring, range(3))))
            # The lowest number is the root of the shared tree, which lies between the other two.
            root, one, other = servers
            before = root.status()["counts"].get("in", 0)
            async with (
                palio.connect(url(one)) as publisher,
                palio.connect(url(other)) as subscriber,
                subscriber.subscribe("x > 1", confirm="network") as events,
            ):
                for number in range(10):
                    await publisher.publish({"x": number})
                seen = []
                async for event in events:
                    seen.append(event["x"])
                    if event["x"] == 9:
                        break
                assert seen == list(range(2, 10))
            assert root.status()["counts"].get("in", 0) == before

    run(doing)
