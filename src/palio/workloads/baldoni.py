"""Workload of Baldoni et al. for rendezvous overlays: ranges over a few integer attributes.

An event is built to match some subscription with a given probability, and is uniform otherwise; this requires the
number of subscriptions. The paper leaves three points open: here a range that would leave the domain is cut off, and
the Zipf law of selective attributes has the exponent one over a thousand ranks.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from palio.workloads.distributions import Floats, Ints, Numbers
from palio.workloads.generated import (
    STREAM_OF_EVENTS,
    STREAM_OF_SUBSCRIPTIONS,
    WorkloadError,
    events_of,
    range_subscriptions,
)

_LENGTH, _CENTRE = range(2)  # of a range
_MATCHES, _WHICH, _WITHIN = range(3)  # of an event


@dataclass(frozen=True)
class Baldoni:
    """Ranges on integers from 0 to `largest`; the first `selective` attributes are narrow, and popular by Zipf's law.

    Lengths are uniform up to a share of the domain: `widest`, or `narrow` where the attribute is selective. An event
    matches one of the first `subscribers` subscriptions with the probability `matching`.
    """

    seed: int = 2005
    attributes: int = 4
    largest: int = 1_000_000
    widest: float = 0.03
    selective: int = 0
    narrow: float = 0.001
    exponent: float = 1.0
    places: int = 1_000
    matching: float = 0.5
    subscribers: int = 25_000

    def __post_init__(self) -> None:
        if not 0 <= self.selective <= self.attributes or self.attributes < 1:
            raise WorkloadError(f"{self.selective} of {self.attributes} attributes cannot be selective")
        if not 0.0 <= self.matching <= 1.0 or min(self.widest, self.narrow) <= 0.0:
            raise WorkloadError(f"matching is a probability and widths are shares, not {self.matching}, {self.widest}")
        if min(self.largest, self.places, self.subscribers) < 1:
            raise WorkloadError("there is at least one integer, one place and one subscription")

    @cached_property
    def names(self) -> list[str]:
        return [f"a{place}" for place in range(1, self.attributes + 1)]

    @cached_property
    def schema(self) -> pa.Schema:
        return pa.schema([(name, pa.int64()) for name in self.names])

    def subscriptions(self, count: int, start: int = 0) -> pa.Table:
        """`id` and `where`; about 1 µs each."""
        return range_subscriptions(self.names, self.ranges, count, start)

    def ranges(self, rows: Ints) -> tuple[Ints, Ints]:
        """The first and last values of subscriptions' ranges, a column for each attribute."""
        numbers = Numbers(self.seed, STREAM_OF_SUBSCRIPTIONS, rows)
        is_selective = np.arange(self.attributes) < self.selective
        most = np.maximum(1, np.where(is_selective, self.narrow, self.widest) * self.largest).astype(np.int64)
        length = 1 + np.floor(numbers.uniform(_LENGTH, self.attributes) * most).astype(np.int64)
        units = numbers.uniform(_CENTRE, self.attributes)
        anywhere = np.floor(units * (self.largest + 1))
        popular = np.searchsorted(self._popularity, units) * (self.largest / self.places)
        centre = np.where(is_selective, np.floor(popular), anywhere).astype(np.int64)
        low = np.maximum(0, centre - length // 2)
        return low, np.minimum(self.largest, centre - length // 2 + length - 1)

    def events(self, count: int, start: int = 0) -> pa.RecordBatch:
        return events_of(self.event_values(np.arange(start, start + count)), self.schema)

    def event_values(self, rows: Ints) -> Ints:
        """The events as a matrix, a column for each attribute."""
        numbers = Numbers(self.seed, STREAM_OF_EVENTS, rows)
        matches = numbers.uniform(_MATCHES, 1) < self.matching
        which = np.floor(numbers.uniform(_WHICH, 1)[:, 0] * self.subscribers).astype(np.int64)
        low, high = self.ranges(which)
        low, high = np.where(matches, low, 0), np.where(matches, high, self.largest)
        within: Floats = numbers.uniform(_WITHIN, self.attributes)
        return np.asarray(low + np.floor(within * (high - low + 1)).astype(np.int64))

    @cached_property
    def _popularity(self) -> Floats:
        weights = 1.0 / np.arange(1, self.places + 1, dtype=np.float64) ** self.exponent
        # Without the last entry, 1 up to rounding: `searchsorted` then never points beyond the last place.
        return np.asarray(np.cumsum(weights / weights.sum()))[:-1]
