"""What can be published and subscribed to in a network? Real events in time order, each of a publisher that advertises
what it publishes, and subscriptions that ask for some of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, Final

from palio.workloads import flights, padres
from palio.workloads.generated import workload

_PUBLISHERS: Final = 10
_FIRST: Final = datetime(2000, 1, 1, tzinfo=UTC)
_JSON: Final = "event"  # the column of workloads whose events have too many attributes for columns


@dataclass(frozen=True, slots=True)
class Published:
    """Something that happened: when, who says so, and what."""

    time: datetime
    publisher: str
    content: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Feed:
    """A workload for a network."""

    advertisements: Mapping[str, str]
    """What each publisher publishes, as a condition."""
    subscriptions: Sequence[str]
    events: Sequence[Published]


def flights_feed(subscriptions: int, events: int, seed: int = 0) -> Feed:
    """Real flights by their scheduled departure, each airline a publisher. Where more are asked for than there are, the
    year is repeated."""
    table = sorted(flights.sample().to_pylist(), key=_departure)
    years, rest = divmod(events, len(table))
    chosen = [(year, flight) for year in range(years) for flight in table]
    chosen += [(years, flight) for flight in islice(table, rest)]
    published = [
        Published(
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
    """PADRES's stock quotes by their days, each symbol a publisher with its advertisement; their subscriptions, drawn
    from those of their covering test."""
    # Of the days on which most symbols were there: the last ones.
    dated = padres.quotes_in_time_order(quotes, events)
    published = [Published(day, str(quote["symbol"]), quote) for day, quote in dated]
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
    if batch.schema.names == [_JSON]:
        contents = [json.loads(each[_JSON]) for each in contents]
    published = [
        Published(
            _FIRST + timedelta(seconds=number),
            f"publisher {number % _PUBLISHERS}",
            {name: value for name, value in content.items() if value is not None},
        )
        for number, content in enumerate(contents)
    ]
    advertised = {f"publisher {number}": "TRUE" for number in range(_PUBLISHERS)}
    return Feed(advertised, made.subscriptions(subscriptions)["where"].to_pylist(), published)


def times_of(events: Iterable[Published]) -> Iterable[datetime]:
    """When they happened, for `arrivals.recorded`."""
    return (each.time for each in events)


def _departure(flight: Mapping[str, Any]) -> datetime:
    return datetime(flight["year"], flight["month"], flight["day"], flight["hour"], flight["minute"], tzinfo=UTC)
