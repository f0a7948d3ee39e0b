"""Palio: the broker finds out who wants what, and sends it to nobody else.

Or to one consumer that has all conditions, as a consumer with a `palio.Matcher` has them: it gets each event once, with
the names of those that match.
"""

from __future__ import annotations

import tempfile
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

from broker_processes import served

import palio
from beside.system import Publish, Running, System, each_on_its_own, in_background
from beside.tally import Tally
from beside.work import condition


@contextmanager
def serve() -> Iterator[Running]:
    with tempfile.TemporaryDirectory() as place:
        config = Path(place) / "broker.toml"
        config.write_text("[limits]\nconnections_per_principal = 20000\n")
        with served("--http", "off", "--config", str(config)) as broker:
            yield Running(broker.pid, broker.url)


async def subscribe(url: str, numbers: Sequence[int], tally: Tally) -> None:
    async def listen(events: Any) -> None:
        async for event in events:
            tally.saw(event.get("sent"))

    async def one(number: int) -> None:
        client = await palio.connect(url, timeout=60).__aenter__()
        events = await client.subscribe(condition(number), queue=100_000).__aenter__()
        in_background(listen(events))
        tally.ready()

    await each_on_its_own(numbers, one)


async def consume_all(url: str, subscriptions: int, tally: Tally) -> None:
    conditions = {str(number): condition(number) for number in range(subscriptions)}
    async with (
        palio.connect(url, timeout=60) as client,
        client.subscribe_many(conditions, queue=100_000) as events,
    ):
        tally.ready()
        async for event in events:
            tally.aged(event.get("sent"), len(event.subscriptions))


@asynccontextmanager
async def publisher(url: str) -> AsyncIterator[Publish]:
    async with palio.connect(url) as broker:
        yield broker.publish


PALIO = System("palio", serve, subscribe, publisher)
PALIO_ALL = System("palio, 1 consumer", serve, subscribe, publisher, dispatch=consume_all, hands_over=False)
