"""Pacing of a publisher to the broker's rate limit, so that no event is refused."""

from __future__ import annotations

import palio
from palio.network.security.quotas import BrokerLimits
from tests.network.running import broker, run, url

LIMITS = BrokerLimits(events_per_second=400, burst_events=100)


def test_many_events_go_at_the_rate_that_the_broker_allows() -> None:
    async def test() -> None:
        async with broker(limits=LIMITS) as server:
            for confirm in (True, False):  # the second finds what the first left
                async with palio.connect(url(server)) as client, client.subscribe("x > 0") as events:
                    assert client.events_per_second == 400
                    assert await client.publish_all(({"x": x} for x in range(1, 151)), confirm=confirm) == 150
                    assert [(await anext(events)).get("x") for _ in range(150)] == list(range(1, 151))

    run(test)
