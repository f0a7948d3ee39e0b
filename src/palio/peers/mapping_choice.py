"""Choice of the key mapping, its attributes and its buckets, by trials on samples.

A mapping may key by any attributes. Each promising candidate gets scales and buckets from the samples, and the sampled
events and subscriptions are keyed by it; the number of copies that it makes is its cost. The choice affects only the
amount of data shuffled, never the result.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import ceil
from typing import Final, NamedTuple, Protocol

import numpy as np
import pyarrow as pa

from palio.errors import PipelineError
from palio.events import Event
from palio.events.arrow import read_column
from palio.filters.filter import Filter
from palio.filters.kinds import Value
from palio.peers.event_keys import EventKeys
from palio.peers.histograms import Histogram
from palio.peers.placement import AxisLoad, EventCells, Placement, place_cells
from palio.peers.rendezvous_mappings import (
    MAPPINGS,
    Alternative,
    Arc,
    AttributeSplit,
    KeyMapping,
    KeySpaceSplit,
    SelectiveAttribute,
    alternatives,
)

_CELLS_PER_AXIS: Final = 1_024
_MAX_PRODUCT_CELLS: Final = 4_096  # of all axes of a product together
_MAX_AXES: Final = 12  # attributes considered, those of most conditions first
_MAX_PRODUCT_AXES: Final = 3
_MAX_TRIAL_SUBSCRIPTIONS: Final = 1_000
_MAX_BUCKET_FACTOR: Final = 3  # times the requested number of buckets
_SHARE_GROWTH: Final = 1.5
_BUCKET_SLACK: Final = 1.2  # times its share that a bucket may hold


class HasFilter(Protocol):
    @property
    def filter(self) -> Filter: ...


class Condition(NamedTuple):
    """A sampled subscription of which nothing but its condition matters."""

    filter: Filter


@dataclass(frozen=True)
class Samples:
    """Samples of both sides; events as columns named by attributes, or, where they hold objects, one by one."""

    subscriptions: Sequence[HasFilter]
    columns: Mapping[str, pa.Array]
    count: int
    events: Sequence[Event] | None = None

    @cached_property
    def alternatives(self) -> list[list[Alternative]]:
        step = max(1, len(self.subscriptions) // _MAX_TRIAL_SUBSCRIPTIONS)
        return [alternatives(each.filter) for each in self.subscriptions[::step]]

    @cached_property
    def attributes(self) -> list[str]:
        """Attributes by the number of subscriptions with a condition on them, most first."""
        uses = Counter(name for each in self.alternatives for name in {name for one in each for name in one})
        return [name for name, _ in sorted(uses.items(), key=lambda pair: (-pair[1], pair[0]))][:_MAX_AXES]

    def scale(self, name: str, cells: int) -> Histogram:
        conditions = [one[name] for each in self.alternatives for one in each if name in one]
        return Histogram.of(self._values(name), cells, conditions)

    def _values(self, name: str) -> list[Value]:
        if self.events is not None:
            found = [event.get(name) for event in self.events]
        elif name in self.columns:
            found = read_column(self.columns[name])
        else:
            found = [None] * self.count
        return [one for value in found for one in (value if isinstance(value, list | tuple) else (value,))]

    def keys(self, mapping: KeyMapping) -> list[EventCells]:
        keys = EventKeys(mapping)
        return keys.of_columns(self.columns, self.count) if self.events is None else keys.of_events(self.events)


@dataclass(frozen=True)
class MappingChoice:
    """A mapping with its buckets, and the mean copies of an event and of a subscription.

    `spread` is the ratio of actual to requested buckets; `fits` is set where every bucket is within its bound; an event
    counts as `event_weight` subscriptions.
    """

    mapping: KeyMapping
    placement: Placement
    event_copies: float
    subscription_copies: float
    spread: float = 1.0
    fits: bool = True
    event_weight: float = 1.0

    @property
    def cost(self) -> tuple[bool, float]:
        """Fitting choices first; then by the copies shuffled, weighted by the lack of parallelism."""
        copies = self.event_weight * self.event_copies + self.subscription_copies
        return not self.fits, copies / min(1.0, self.spread)

    def __str__(self) -> str:
        keyed = ", ".join(self.mapping.histograms) or "nothing"
        return (
            f"{self.mapping.name} on {keyed}: {self.placement.buckets:,} buckets, {self.event_copies:.2f} copies of an "
            f"event, {self.subscription_copies:.2f} of a subscription"
        )


def check_mapping(name: str) -> None:
    """Refuse the name of no mapping."""
    if name not in MAPPINGS:
        raise PipelineError(f"there is no mapping {name!r}; there are {', '.join(MAPPINGS)}")


def choose_mapping(
    samples: Samples,
    total: int,
    buckets: int,
    most_in_bucket: float,
    mapping: str | None = None,
    event_weight: float = 1.0,
) -> MappingChoice:
    """The cheapest choice for `total` subscriptions in about `buckets` buckets of at most `most_in_bucket` each."""
    if mapping is not None:
        check_mapping(mapping)
    trials = _MappingTrials(samples, total, buckets, most_in_bucket, event_weight)
    found = [trials.measure(each) for each in trials.candidates(mapping)]
    if not found:
        raise PipelineError(f"no subscription has a condition that {mapping} could key by; leave the mapping open")
    return min(found, key=lambda each: each.cost)


def choose_ring_mapping(
    conditions: Sequence[Filter], events: Sequence[Event], peers: int, event_weight: float = 1.0
) -> MappingChoice | None:
    """The cheapest choice for a ring of about so many peers, by the copies of an event and of a subscription, as for a
    join; None without samples of both. There are `event_weight` events for each time that a subscription is sent."""
    if not conditions or not events:
        return None
    samples = Samples([Condition(each) for each in conditions], {}, len(events), events)
    return choose_mapping(samples, len(conditions), max(2, peers), len(conditions), event_weight=event_weight)


class _MappingTrials:
    def __init__(self, samples: Samples, total: int, buckets: int, most_in_bucket: float, event_weight: float) -> None:
        self._samples = samples
        self._total = total
        self._buckets = buckets
        self._most = most_in_bucket
        self._event_weight = event_weight
        self._scales: dict[tuple[str, int], Histogram] = {}

    def candidates(self, wanted: str | None) -> Iterator[KeyMapping]:
        names = self._samples.attributes
        if wanted in (None, "selective-attribute"):
            yield from self._selective(names)
        if wanted in (None, "attribute-split"):
            for name in names:
                yield AttributeSplit({name: self._scale(name, _CELLS_PER_AXIS)}, name)
        if wanted in (None, "key-space-split"):
            for size in range(1 if wanted else 2, _MAX_PRODUCT_AXES + 1):
                cells = max(2, int(_MAX_PRODUCT_CELLS ** (1 / size)))
                for few in combinations(names[: _MAX_PRODUCT_AXES + 1], size):
                    yield KeySpaceSplit({name: self._scale(name, cells) for name in few})

    def _selective(self, names: Sequence[str]) -> Iterator[KeyMapping]:
        """Candidates with all attributes, then without the one that fewest subscriptions chose, and so on."""
        left = list(names)
        while True:
            mapping = SelectiveAttribute({name: self._scale(name, _CELLS_PER_AXIS) for name in left})
            yield mapping
            if not left:
                return
            # A rarely chosen axis costs every event a copy and spares few subscriptions.
            chosen = Counter(axis for arcs in self._arcs(mapping) for axis in {arc.axis for arc in arcs})
            left.remove(min(left, key=lambda name: (chosen[left.index(name)], -left.index(name))))

    def _scale(self, name: str, cells: int) -> Histogram:
        # Candidates share most of their attributes.
        known = self._scales.get((name, cells))
        if known is None:
            known = self._scales[name, cells] = self._samples.scale(name, cells)
        return known

    def _arcs(self, mapping: KeyMapping) -> list[list[Arc]]:
        return [mapping.subscription_keys(each) for each in self._samples.alternatives]

    def measure(self, mapping: KeyMapping) -> MappingChoice:
        """Place a mapping's keys in buckets, and measure its cost on the samples."""
        arcs, keyed = self._arcs(mapping), self._samples.keys(mapping)
        sampled, count = max(1, len(arcs)), max(1, self._samples.count)
        loads = []
        for axis, size in enumerate(mapping.sizes):
            own = [arc for each in arcs for arc in each if arc.axis == axis]
            starts, ends = (np.bincount([arc[end] for arc in own], minlength=size).astype(float) for end in (1, 2))
            found = [each.cells for each in keyed if each.axis == axis]
            events = np.bincount(np.concatenate([np.empty(0, np.int64), *found]), minlength=size).astype(float)
            loads.append(AxisLoad(starts * self._total / sampled, ends * self._total / sampled, events / count))
        keys_each = sum(float(load.events.sum()) for load in loads)
        # The last axis of a selective mapping has the subscriptions without a condition to key by.
        everywhere = len(mapping.histograms) if isinstance(mapping, SelectiveAttribute) else -1
        share = min(self._most, ceil(_BUCKET_SLACK * self._total / self._buckets))
        events_share = _BUCKET_SLACK * max(1.0, keys_each) / self._buckets
        placement = place_cells(loads, share, events_share, everywhere)
        while placement.buckets > _MAX_BUCKET_FACTOR * self._buckets:
            # Where most subscriptions span many cells, smaller buckets only repeat them.
            share, events_share = ceil(share * _SHARE_GROWTH), events_share * _SHARE_GROWTH
            placement = place_cells(loads, share, events_share, everywhere)
        # Copies are measured with the placement itself, not estimated from the loads.
        rows, _ = placement.of_events(keyed, self._samples.count, all_somewhere=False)
        copies = sum(
            last - first + 1
            for number, each in enumerate(arcs)
            for first, last in placement.of_subscription(each, str(number))
        )
        return MappingChoice(
            mapping,
            placement,
            len(rows) / count,
            copies / sampled,
            placement.buckets / self._buckets,
            share <= self._most,
            self._event_weight,
        )
