"""Client-side rate pacing: publishing many events no faster than the broker accepts them.

The broker announces its rate limit in its welcome. It counts the events of all connections of a principal at their
arrival. So the pacer stays below the rate, and takes at most half of the burst: events under way and those that follow
may arrive together.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Awaitable, Callable, Iterable
from math import inf
from typing import Final, TypeVar

from palio.network.protocol import Welcome
from palio.network.security.quotas import RateLimiter

_Item = TypeVar("_Item")
_RATE_SHARE: Final = 0.95  # of the announced rate


class RatePacer:
    """Token bucket filled at the announced rate; without a limit it never waits."""

    def __init__(self, welcome: Welcome) -> None:
        self._now = asyncio.get_running_loop().time
        self._rate: RateLimiter | None = None
        self.burst = inf  # events that may be sent together
        if welcome.events_per_second != inf:
            self.burst = max(1.0, welcome.events_left / 2)
            self._rate = RateLimiter(_RATE_SHARE * welcome.events_per_second, self.burst, self._now())
            if welcome.events_left < 2.0:  # half of it is less than one event
                self._rate.take(1, self._now())

    async def wait(self, events: int = 1) -> None:
        """Wait until some more events may be sent, at most `burst` of them."""
        if self._rate is None:
            return
        while not self._rate.take(events, self._now()):
            await asyncio.sleep(self._rate.wait(events, self._now()))


async def publish_paced(
    events: Iterable[_Item] | AsyncIterable[_Item],
    publish: Callable[[_Item], Awaitable[None]],
    pace: RatePacer,
    window: int,
    show: Callable[[int], None],
) -> int:
    """Publish events in order; returns their number. With a `window`, at most that many are unconfirmed at a time."""
    unconfirmed: deque[asyncio.Future[None]] = deque()
    source, failure = _iterate(events), None
    done = 0
    try:
        while True:
            try:
                event = await anext(source)
            except StopAsyncIteration:
                break
            except Exception as error:  # of the caller's iterator: raised when the events before it are published
                failure = error
                break
            await pace.wait()
            if window:
                unconfirmed.append(asyncio.ensure_future(publish(event)))
            else:
                await publish(event)
            # Confirmed events leave at the front, so that `done` counts in order; a full window waits for its oldest.
            while (unconfirmed and unconfirmed[0].done()) or (window and len(unconfirmed) >= window):
                await unconfirmed.popleft()
                done += 1
            done += not window
            show(done)
        while unconfirmed:
            await unconfirmed.popleft()
            done += 1
            show(done)
    finally:
        for each in unconfirmed:
            each.cancel()
    if failure is not None:
        raise failure
    return done


async def _iterate(items: Iterable[_Item] | AsyncIterable[_Item]) -> AsyncIterator[_Item]:
    if isinstance(items, AsyncIterable):
        async for item in items:
            yield item
    else:
        for item in items:
            yield item
