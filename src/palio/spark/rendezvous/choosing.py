"""Which mapping, over which attributes, in which buckets? The one that copies least, tried on samples.

A mapping may key by any attributes. Each promising one is given scales and buckets from the samples, and then the
sampled events and subscriptions themselves are keyed by it: how often each would be copied is what it costs. Nothing of
this decides what is found, only how much is carried around.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import combinations
from math import ceil
from typing import Final

import numpy as np
import pyarrow as pa

from palio.errors import PipelineError
from palio.events import Event
from palio.events.arrow import read_column
from palio.filters.kinds import Value
from palio.matching.subscription import Subscription
from palio.peers.mappings import (
    Alternative,
    Arc,
    AttributeSplit,
    KeyMapping,
    KeySpaceSplit,
    SelectiveAttribute,
    alternatives,
)
from palio.peers.scales import Scale
from palio.spark.rendezvous.keying import BatchKeys
from palio.spark.rendezvous.placement import Keyed, Load, Placement, place

MAPPINGS: Final = ("attribute-split", "key-space-split", "selective-attribute")
_CELLS: Final = 1_024  # of an attribute
_PRODUCT: Final = 4_096  # of all attributes of a product together
_MOST_AXES: Final = 12  # attributes that are looked at, the most conditioned first
_MOST_FACTORS: Final = 3
_MOST_ASKED: Final = 1_000  # sampled subscriptions that mappings are tried on
_MOST_BUCKETS: Final = 3  # times as many as were wanted
_WIDER: Final = 1.5
_SLACK: Final = 1.2  # a bucket may have so many times its share


@dataclass(frozen=True)
class Samples:
    """Some subscriptions, and some events: as columns named by attributes, or one by one."""

    subscriptions: Sequence[Subscription]
    columns: Mapping[str, pa.Array]
    count: int
    events: Sequence[Event] | None = None

    @cached_property
    def alternatives(self) -> list[list[Alternative]]:
        step = max(1, len(self.subscriptions) // _MOST_ASKED)
        return [alternatives(each.filter) for each in self.subscriptions[::step]]

    @cached_property
    def attributes(self) -> list[str]:
        """The attributes that most subscriptions have a condition on, most first."""
        uses = Counter(name for each in self.alternatives for name in {name for one in each for name in one})
        return [name for name, _ in sorted(uses.items(), key=lambda pair: (-pair[1], pair[0]))][:_MOST_AXES]

    def scale(self, name: str, cells: int) -> Scale:
        conditions = [one[name] for each in self.alternatives for one in each if name in one]
        return Scale.of(self._values(name), cells, conditions)

    def _values(self, name: str) -> list[Value]:
        if self.events is not None:
            found = [event.get(name) for event in self.events]
        elif name in self.columns:
            found = read_column(self.columns[name])
        else:
            found = [None] * self.count
        return [one for value in found for one in (value if isinstance(value, list | tuple) else (value,))]

    def keys(self, mapping: KeyMapping) -> list[Keyed]:
        keys = BatchKeys(mapping)
        return keys.of_columns(self.columns, self.count) if self.events is None else keys.of_events(self.events)


@dataclass(frozen=True)
class Choice:
    """A mapping with its buckets, and how many copies of an event and of a subscription it makes.

    `spread` says what share of the buckets that were wanted there are, and `fits` whether they are within their bound.
    """

    mapping: KeyMapping
    placement: Placement
    event_copies: float
    subscription_copies: float
    spread: float = 1.0
    fits: bool = True

    @property
    def cost(self) -> tuple[bool, float]:
        """What fits first; then what is carried, and for how long by how few."""
        return not self.fits, (self.event_copies + self.subscription_copies) / min(1.0, self.spread)

    def __str__(self) -> str:
        keyed = ", ".join(self.mapping.scales) or "nothing"
        return (
            f"{self.mapping.name} on {keyed}: {self.placement.buckets:,} buckets, {self.event_copies:.2f} copies of an "
            f"event, {self.subscription_copies:.2f} of a subscription"
        )


def choose(samples: Samples, total: int, buckets: int, most_in_bucket: float, mapping: str | None = None) -> Choice:
    """The choice that copies least for so many subscriptions, about so many buckets, and a bound for each."""
    if mapping is not None and mapping not in MAPPINGS:
        raise PipelineError(f"there is no mapping {mapping!r}; there are {', '.join(MAPPINGS)}")
    trials = _Trials(samples, total, buckets, most_in_bucket)
    found = [trials.tried(each) for each in trials.candidates(mapping)]
    if not found:
        raise PipelineError(f"no subscription has a condition that {mapping} could key by; leave the mapping open")
    return min(found, key=lambda each: each.cost)


class _Trials:
    def __init__(self, samples: Samples, total: int, buckets: int, most_in_bucket: float) -> None:
        self._samples = samples
        self._total = total
        self._buckets = buckets
        self._most = most_in_bucket
        self._scales: dict[tuple[str, int], Scale] = {}

    def candidates(self, wanted: str | None) -> Iterator[KeyMapping]:
        names = self._samples.attributes
        if wanted in (None, "selective-attribute"):
            yield from self._selective(names)
        if wanted in (None, "attribute-split"):
            for name in names:
                yield AttributeSplit({name: self._scale(name, _CELLS)}, name)
        if wanted in (None, "key-space-split"):
            for size in range(1 if wanted else 2, _MOST_FACTORS + 1):
                cells = max(2, int(_PRODUCT ** (1 / size)))
                for few in combinations(names[: _MOST_FACTORS + 1], size):
                    yield KeySpaceSplit({name: self._scale(name, cells) for name in few})

    def _selective(self, names: Sequence[str]) -> Iterator[KeyMapping]:
        """With all attributes, then without the one that fewest subscriptions chose, and so on."""
        left = list(names)
        while True:
            mapping = SelectiveAttribute({name: self._scale(name, _CELLS) for name in left})
            yield mapping
            if not left:
                return
            chosen = Counter(axis for arcs in self._arcs(mapping) for axis in {arc.axis for arc in arcs})
            left.remove(min(left, key=lambda name: (chosen[left.index(name)], -left.index(name))))

    def _scale(self, name: str, cells: int) -> Scale:
        known = self._scales.get((name, cells))
        if known is None:
            known = self._scales[name, cells] = self._samples.scale(name, cells)
        return known

    def _arcs(self, mapping: KeyMapping) -> list[list[Arc]]:
        return [mapping.subscription_keys(each) for each in self._samples.alternatives]

    def tried(self, mapping: KeyMapping) -> Choice:
        """A mapping with buckets, and what it would cost."""
        arcs, keyed = self._arcs(mapping), self._samples.keys(mapping)
        sampled, count = max(1, len(arcs)), max(1, self._samples.count)
        loads = []
        for axis, size in enumerate(mapping.sizes):
            own = [arc for each in arcs for arc in each if arc.axis == axis]
            starts, ends = (np.bincount([arc[end] for arc in own], minlength=size).astype(float) for end in (1, 2))
            found = [each.cells for each in keyed if each.axis == axis]
            events = np.bincount(np.concatenate([np.empty(0, np.int64), *found]), minlength=size).astype(float)
            loads.append(Load(starts * self._total / sampled, ends * self._total / sampled, events / count))
        keys_each = sum(float(load.events.sum()) for load in loads)
        everywhere = len(mapping.scales) if isinstance(mapping, SelectiveAttribute) else -1
        share = min(self._most, ceil(_SLACK * self._total / self._buckets))
        events_share = _SLACK * max(1.0, keys_each) / self._buckets
        placement = place(loads, share, events_share, everywhere)
        while placement.buckets > _MOST_BUCKETS * self._buckets:
            # Where all cells have much in common, smaller buckets only repeat it.
            share, events_share = ceil(share * _WIDER), events_share * _WIDER
            placement = place(loads, share, events_share, everywhere)
        rows, _ = placement.of_events(keyed, self._samples.count, all_somewhere=False)
        copies = sum(
            last - first + 1
            for number, each in enumerate(arcs)
            for first, last in placement.of_subscription(each, str(number))
        )
        return Choice(
            mapping,
            placement,
            len(rows) / count,
            copies / sampled,
            placement.buckets / self._buckets,
            share <= self._most,
        )
