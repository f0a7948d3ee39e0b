"""Workloads of simulated networks: event feeds, arrival processes, churn, placement of subscribers.

A feed has events in time order, each with a publisher that advertises it, and subscriptions. An arrival process is an
endless sequence of times in seconds from 0. Churn has exponential interarrival and lifetimes, with a constant mean
population. A placement assigns subscribers to brokers, numbered from 0. All are deterministic in their arguments.
"""

from __future__ import annotations

import json
from bisect import bisect
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from hashlib import blake2b
from heapq import heappop, heappush
from itertools import accumulate, islice
from math import inf, log1p
from pathlib import Path
from random import Random
from typing import Any, Final, NamedTuple, TypeAlias

from palio.errors import InvalidArgument
from palio.workloads import flights, padres
from palio.workloads.generated import workload

_PUBLISHERS: Final = 10
_FIRST: Final = datetime(2000, 1, 1, tzinfo=UTC)
_JSON_COLUMN: Final = "event"  # of workloads whose events have too many attributes for columns
_MEAN_BURST_EVENTS: Final = 10.0
_ZIPF_EXPONENT: Final = 1.0
_SHARE_AT_HOME: Final = 0.8


@dataclass(frozen=True, slots=True)
class TimedEvent:
    """An event with its time and publisher."""

    time: datetime
    publisher: str
    content: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Feed:
    """A workload for a network."""

    advertisements: Mapping[str, str]
    """Condition on the events of each publisher."""
    subscriptions: Sequence[str]
    events: Sequence[TimedEvent]


def flights_feed(subscriptions: int, events: int, seed: int = 0) -> Feed:
    """Real flights by scheduled departure, each airline a publisher; the year repeats where more are requested."""
    table = sorted(flights.sample().to_pylist(), key=_departure)
    years, rest = divmod(events, len(table))
    chosen = [(year, flight) for year in range(years) for flight in table]
    chosen += [(years, flight) for flight in islice(table, rest)]
    published = [
        TimedEvent(
            _departure(flight) + timedelta(days=365 * year),
            flight["carrier"],
            {name: value for name, value in flight.items() if value is not None},
        )
        for year, flight in chosen
    ]
    airlines = sorted({flight["carrier"] for flight in table})
    wanted = [*flights.SUBSCRIPTIONS, *flights.generated_subscriptions(subscriptions, seed)][:subscriptions]
    return Feed({each: f"carrier = '{each}'" for each in airlines}, [each.where for each in wanted], published)


def padres_feed(quotes: str | Path, wanted: str | Path, subscriptions: int, events: int, seed: int = 0) -> Feed:
    """PADRES's stock quotes by day, each symbol a publisher with its advertisement; subscriptions are drawn from those
    of its covering test."""
    # The last days, on which most symbols were traded.
    dated = padres.quotes_in_time_order(quotes, events)
    published = [TimedEvent(day, str(quote["symbol"]), quote) for day, quote in dated]
    symbols = sorted({each.publisher for each in published})
    texts = padres.read_subscriptions(wanted)
    drawn = Random(seed).choices(texts, k=subscriptions) if texts else []
    advertised = {symbol: padres.to_sql(padres.advertisement_of(symbol)) for symbol in symbols}
    return Feed(advertised, [padres.to_sql(text) for text in drawn], published)


def generated_feed(name: str, subscriptions: int, events: int, seed: int = 0) -> Feed:
    """A generated workload (`generated.workload`), an event a second, of publishers that may publish anything."""
    made = workload(name, seed=seed)
    batch = made.events(events)
    contents: list[dict[str, Any]] = batch.to_pylist()
    if batch.schema.names == [_JSON_COLUMN]:
        contents = [json.loads(each[_JSON_COLUMN]) for each in contents]
    published = [
        TimedEvent(
            _FIRST + timedelta(seconds=number),
            f"publisher {number % _PUBLISHERS}",
            {name: value for name, value in content.items() if value is not None},
        )
        for number, content in enumerate(contents)
    ]
    advertised = {f"publisher {number}": "TRUE" for number in range(_PUBLISHERS)}
    return Feed(advertised, made.subscriptions(subscriptions)["where"].to_pylist(), published)


def times_of(events: Iterable[TimedEvent]) -> Iterable[datetime]:
    """The times of events, for `recorded`."""
    return (each.time for each in events)


def _departure(flight: Mapping[str, Any]) -> datetime:
    return datetime(flight["year"], flight["month"], flight["day"], flight["hour"], flight["minute"], tzinfo=UTC)


def periodic(rate: float, seed: int = 0) -> Iterator[float]:
    """Constant interarrival times, `rate` a second, the first at 0."""
    _check_rate(rate)
    number = 0
    while True:
        yield number / rate
        number += 1


def poisson(rate: float, seed: int = 0) -> Iterator[float]:
    """Poisson process of `rate` a second."""
    _check_rate(rate)
    random = Random(seed)
    time = 0.0
    while True:
        time += _exponential(random, rate)
        yield time


def bursts(rate: float, seed: int = 0, size: float = _MEAN_BURST_EVENTS) -> Iterator[float]:
    """Bursts at the times of a Poisson process, of `size` events in the mean (geometric), `rate` a second in all."""
    _check_rate(rate)
    if not 1 <= size < inf:
        raise InvalidArgument(f"a burst has at least one event in the mean, not {size!r}")
    random = Random(seed)
    # Another seed for the times, so that they do not depend on the sizes of bursts.
    for time in poisson(rate / size, seed + 1):
        yield time
        while random.random() < 1 - 1 / size:
            yield time


def recorded(times: Iterable[datetime], rate: float) -> Iterator[float]:
    """Recorded times, `rate` times faster: seconds since the first, divided by the rate. They must be in order."""
    _check_rate(rate)
    first = before = None
    for time in times:
        first = time if first is None else first
        if before is not None and time < before:
            raise InvalidArgument(f"{time} is not after {before}, and times are given in order")
        before = time
        yield (time - first).total_seconds() / rate


PROCESSES: Final[dict[str, Callable[[float, int], Iterator[float]]]] = {
    "periodic": periodic,
    "poisson": poisson,
    "bursts": bursts,
}


def _exponential(random: Random, rate: float) -> float:
    return -log1p(-random.random()) / rate


def _check_rate(rate: float) -> None:
    if not 0 < rate < inf:
        raise InvalidArgument(f"a rate is a positive number, not {rate!r}")


class MembershipChange(NamedTuple):
    """Arrival or departure of a member, by its unique number."""

    time: float
    number: int
    comes: bool


def churn(population: int, stay: float, seed: int = 0) -> Iterator[MembershipChange]:
    """Endless changes in order of time: a first population arrives at 0, members stay for `stay` seconds in the mean,
    and newcomers replace them at the same rate."""
    if population < 0 or not 0 < stay < inf:
        raise InvalidArgument("a population is not negative, and its members stay for a positive time")
    random = Random(seed)
    leaving: list[tuple[float, int]] = []

    def come(time: float, number: int) -> MembershipChange:
        heappush(leaving, (time - stay * log1p(-random.random()), number))
        return MembershipChange(time, number, True)

    for number in range(population):
        yield come(0.0, number)
    newcomers = poisson(population / stay, seed + 1) if population else iter(())
    # Departures before the next arrival come first, so that changes are in the order of time.
    for number, time in enumerate(newcomers, population):
        while leaving and leaving[0][0] <= time:
            yield MembershipChange(*heappop(leaving), False)
        yield come(time, number)


Placement: TypeAlias = Callable[[str], int]
"""Maps the condition of a subscriber to its broker; called for each subscriber in turn."""


def uniform(brokers: int, seed: int = 0) -> Placement:
    """Uniform placement."""
    _check_brokers(brokers)
    random = Random(seed)
    return lambda wanted: random.randrange(brokers)


def popular(brokers: int, seed: int = 0, skew: float = _ZIPF_EXPONENT) -> Placement:
    """Placement by Zipf's law over a random order of the brokers."""
    _check_brokers(brokers)
    random = Random(seed)
    order = random.sample(range(brokers), brokers)
    below = list(accumulate((rank + 1) ** -skew for rank in range(brokers)))  # cumulative weights, not normalised

    def place(wanted: str) -> int:
        return order[bisect(below, random.random() * below[-1], 0, brokers - 1)]

    return place


def alike(brokers: int, seed: int = 0, at_home: float = _SHARE_AT_HOME) -> Placement:
    """Subscribers with equal conditions at one broker, except for a share of `1 - at_home`, placed uniformly."""
    _check_brokers(brokers)
    if not 0 <= at_home <= 1:
        raise InvalidArgument(f"a share is from 0 to 1, not {at_home!r}")
    random = Random(seed)
    key = seed.to_bytes(16, "little", signed=True)

    def place(wanted: str) -> int:
        # Both are drawn for every subscriber, so that `at_home` changes no draw of the subscribers after it.
        elsewhere, anywhere = random.random() >= at_home, random.randrange(brokers)
        # Not hash(): its seed differs from process to process.
        home = int.from_bytes(blake2b(wanted.encode(), digest_size=8, key=key).digest(), "little") % brokers
        return anywhere if elsewhere else home

    return place


PLACEMENTS: Final[dict[str, Callable[[int, int], Placement]]] = {
    "uniform": uniform,
    "popular": popular,
    "alike": alike,
}


def _check_brokers(brokers: int) -> None:
    if brokers < 1:
        raise InvalidArgument(f"subscribers live at one of at least one broker, not of {brokers}")
