"""What happens in a simulated network: who lives where, what is asked for, and what is published when?"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from heapq import merge
from itertools import islice, takewhile
from random import Random
from typing import TYPE_CHECKING, Final

from palio.workloads.arrivals import PROCESSES, recorded
from palio.workloads.churn import churn
from palio.workloads.feeds import Feed, times_of
from palio.workloads.placement import PLACEMENTS

if TYPE_CHECKING:
    from palio.simulation import Network
    from palio.simulation.history import Subscription

QUIET: Final = "quiet"
RECORDED: Final = "recorded"
ARRIVALS: Final = (QUIET, *PROCESSES, RECORDED)
_AT_ONCE: Final = 100  # events between two rests, and between two looks at the progress

_Happening = tuple[float, int, Callable[[], object]]


@dataclass(frozen=True, slots=True)
class Script:
    """A workload, and how it is performed."""

    feed: Feed
    placement: str
    arrivals: str
    rate: float
    stay: float
    """Seconds that subscribers stay in the mean; 0 is for ever."""
    seed: int


class Performance:
    """One script in one network."""

    def __init__(self, net: Network, script: Script) -> None:
        self._net = net
        self._script = script
        brokers = net.topology.brokers
        random = Random(script.seed)
        self._home = {each: random.randrange(brokers) for each in script.feed.advertisements}
        self._place = PLACEMENTS[script.placement](brokers, script.seed)
        self._there: dict[int, Subscription] = {}

    def perform(self, done: Callable[[int], None]) -> None:
        """All of it; `done` hears how many events were published."""
        net, feed = self._net, self._script.feed
        if net.combination.advertisements:
            for publisher, where in feed.advertisements.items():
                net.advertise(self._home[publisher], where)
        for number in range(len(feed.subscriptions)):
            self._comes(number)
        net.run()
        if self._script.arrivals == QUIET:
            for number in range(len(feed.events)):
                self._publish(number)
                if number % _AT_ONCE == 0:
                    net.run()
                    done(number)
        else:
            self._in_time(done)
        net.run()

    def _in_time(self, done: Callable[[int], None]) -> None:
        begun = self._net.now
        times = list(self._times())
        published: Iterator[_Happening] = (
            (time, 0, partial(self._publish, number)) for number, time in enumerate(times)
        )
        last = times[-1] if times else 0.0
        happenings = merge(published, self._changes(last), key=lambda each: each[:2])
        for number, (time, _, happen) in enumerate(happenings):
            self._net.run(max(0.0, begun + time - self._net.now))
            happen()
            if number % _AT_ONCE == 0:
                done(min(number, len(times)))

    def _times(self) -> Iterator[float]:
        """When each event is published, in seconds from now."""
        script, events = self._script, self._script.feed.events
        if script.arrivals != RECORDED:
            yield from islice(PROCESSES[script.arrivals](script.rate, script.seed), len(events))
        elif events:
            # So much faster that they come at the rate in the mean.
            span = (events[-1].time - events[0].time).total_seconds()
            yield from recorded(times_of(events), max(1.0, span) * script.rate / len(events))

    def _changes(self, last: float) -> Iterator[_Happening]:
        """Subscribers that go, and others that come, up to a time; the first ones are there."""
        script, population = self._script, len(self._script.feed.subscriptions)
        if not script.stay:
            return
        for change in takewhile(lambda each: each.time <= last, churn(population, script.stay, script.seed)):
            if change.time > 0:
                yield change.time, 1, partial(self._comes if change.comes else self._goes, change.number)

    def _publish(self, number: int) -> None:
        event = self._script.feed.events[number]
        self._net.publish(self._home[event.publisher], event.content, settled=False)

    def _comes(self, number: int) -> None:
        known = self._script.feed.subscriptions
        where = known[number % len(known)]
        self._there[number] = self._net.subscribe(self._place(where), where)

    def _goes(self, number: int) -> None:
        self._net.unsubscribe(self._there.pop(number))
