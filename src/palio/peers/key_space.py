"""Key space: rendezvous keys of a mapping as positions on a ring.

The cells of an axis keep their order on the ring, so that a range of values is a run of positions, which few nodes own.
Each axis begins somewhere else, by its number; otherwise the low values of all attributes would meet at one node.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Final

from palio.events import Event
from palio.filters.filter import Filter
from palio.peers.histograms import on_ring
from palio.peers.rendezvous_mappings import AnyAttribute, Arc, Key, KeyMapping, alternatives
from palio.peers.ring import Ring, Runs, union_runs

_MAX_REMEMBERED_AXES: Final = 4_096


@dataclass(frozen=True)
class KeySpace:
    """A mapping on a ring: what every peer must know to find the keys of subscriptions and events."""

    ring: Ring
    mapping: KeyMapping
    _begins: dict[int, int] = field(default_factory=dict, init=False, repr=False, compare=False)  # of axes, remembered

    def arcs_of(self, wanted: Filter) -> tuple[Arc, ...]:
        """The keys of a subscription (SK)."""
        return tuple(self.mapping.subscription_keys(alternatives(wanted)))

    def keys_of(self, event: Event) -> tuple[Key, ...]:
        """The keys of an event (EK)."""
        return tuple(self.mapping.event_keys(event.attributes))

    def position_of(self, key: Key) -> int:
        """The position of a key."""
        return (on_ring(key.cell, self.axis_size(key.axis), self.ring.bits) + self._begin(key.axis)) % self.ring.size

    def axis_size(self, axis: int) -> int:
        """The number of cells of an axis."""
        return self.mapping.axis_size(axis) if isinstance(self.mapping, AnyAttribute) else self.mapping.sizes[axis]

    def positions_of(self, arcs: Iterable[Arc]) -> Runs:
        """The positions of ranges of keys."""
        return union_runs(
            self.ring.runs(self.position_of(Key(arc.axis, arc.first)), self.position_of(Key(arc.axis, arc.last)))
            for arc in arcs
        )

    def middle_of(self, arc: Arc) -> int:
        """The position half way from the first key of a range to its last."""
        low, high = self.position_of(Key(arc.axis, arc.first)), self.position_of(Key(arc.axis, arc.last))
        return (low + self.ring.distance(low, high) // 2) % self.ring.size

    def positions_of_keys(self, keys: Iterable[Key]) -> Runs:
        return union_runs(((place, place),) for place in map(self.position_of, keys))

    def _begin(self, axis: int) -> int:
        begin = self._begins.get(axis)
        if begin is None:
            if len(self._begins) >= _MAX_REMEMBERED_AXES:
                self._begins.clear()
            begin = self._begins[axis] = self.ring.position_of(f"axis {axis}") if axis else 0
        return begin
