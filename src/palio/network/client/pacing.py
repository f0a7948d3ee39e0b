"""How fast may a client publish? As the broker says when it greets; many events together are sent no faster.

The broker counts what comes from all connections of a principal, and when it comes: this end stays below, and takes
half of a burst at most, so that what is under way and what follows it are not too many where they come together.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from math import inf
from typing import Final, TypeVar

from palio.network.protocol import Welcome
from palio.network.security.limits import Rate

_Item = TypeVar("_Item")
_SHARE: Final = 0.95


class Pace:
    """What may be sent, and when."""

    def __init__(self, welcome: Welcome) -> None:
        self._now = asyncio.get_running_loop().time
        self._rate: Rate | None = None
        if welcome.events_per_second != inf:
            burst = max(1.0, welcome.events_left / 2)
            self._rate = Rate(_SHARE * welcome.events_per_second, burst, self._now())
            if welcome.events_left < 2.0:
                self._rate.take(1, self._now())

    async def wait(self) -> None:
        """Until one more event may be sent."""
        if self._rate is None:
            return
        while not self._rate.take(1, self._now()):
            await asyncio.sleep(self._rate.wait(1, self._now()))


async def publish_each(
    events: Iterable[_Item] | AsyncIterable[_Item],
    publish: Callable[[_Item], Awaitable[None]],
    pace: Pace,
    window: int,
    show: Callable[[int], None],
) -> int:
    """Publish events in their order and say how many; with a `window` so many at most are under way at a time."""
    waiting: deque[asyncio.Future[None]] = deque()
    source, failure = _each(events), None
    done = 0
    try:
        while True:
            try:
                event = await anext(source)
            except StopAsyncIteration:
                break
            except Exception as error:  # whatever it is, it is raised when all before it is done
                failure = error
                break
            await pace.wait()
            if window:
                waiting.append(asyncio.ensure_future(publish(event)))
            else:
                await publish(event)
            while (waiting and waiting[0].done()) or (window and len(waiting) >= window):
                await waiting.popleft()
                done += 1
            done += not window
            show(done)
        while waiting:
            await waiting.popleft()
            done += 1
            show(done)
    finally:
        for each in waiting:
            each.cancel()
    if failure is not None:
        raise failure
    return done


async def _each(items: Iterable[_Item] | AsyncIterable[_Item]) -> AsyncIterator[_Item]:
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item
