"""Advertisements: a neighbour is told only what something it advertised may serve (Jerzak §2.5.6).

Overlap is asked in its sound form, in which filters without a common attribute overlap: the printed rule loses events.
A filter that nothing serves waits, and goes out when something does. For each that went, one advertisement that serves
it is remembered; only when that one goes is another sought.

An event may have several values for an attribute, one of which is advertised and another one wanted. It is let in only
where it is advertised wholly, whichever of its values are chosen: then what is wanted overlaps what is advertised.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from itertools import product
from math import prod
from typing import Any, Final

from palio.filters.filter import Filter
from palio.filters.kinds import MISSING
from palio.filters.tree import Attributes
from palio.routing.conjunctive import possible_values
from palio.routing.messages import Key
from palio.routing.propagation.protocol import Change, Reduction

_MOST_CHOICES: Final = 4096  # of an event's values; one that has more is not let in


class Served:
    """A reduction of those filters that some advertisement may serve."""

    __slots__ = ("_offers", "_reduction", "_served", "_waiting")

    def __init__(self, reduction: Reduction) -> None:
        self._reduction = reduction
        self._offers: dict[Hashable, Filter] = {}
        self._served: dict[Key, tuple[Filter, Hashable]] = {}
        self._waiting: dict[Key, Filter] = {}

    def add(self, key: Key, wanted: Filter) -> None:
        for offer, offered in self._offers.items():
            if offered.overlaps(wanted):
                self._served[key] = wanted, offer
                self._reduction.add(key, wanted)
                return
        self._waiting[key] = wanted

    def remove(self, key: Key) -> None:
        if self._waiting.pop(key, None) is None:
            del self._served[key]
            self._reduction.remove(key)

    def offer(self, offer: Hashable, offered: Filter) -> None:
        """An advertisement that is not there yet."""
        self._offers[offer] = offered
        for key in [key for key, wanted in self._waiting.items() if offered.overlaps(wanted)]:
            wanted = self._waiting.pop(key)
            self._served[key] = wanted, offer
            self._reduction.add(key, wanted)

    def withdraw(self, offer: Hashable) -> None:
        """An advertisement that is there."""
        del self._offers[offer]
        for key in [key for key, (_, by) in self._served.items() if by == offer]:
            wanted, _ = self._served.pop(key)
            self._reduction.remove(key)
            self.add(key, wanted)

    def change(self) -> Change:
        return self._reduction.change()


def is_advertised(offers: Sequence[Filter], event: Attributes) -> bool:
    """Whether every choice of an event's values matches some advertisement."""
    if tuple not in map(type, event.values()):
        return any(offered.matches_attributes(event) for offered in offers)
    looked_at = {name for offered in offers for name in offered.attributes}
    whole = any(offered.reads_whole_event for offered in offers)
    values = {name: some for name, some in possible_values(event).items() if whole or name in looked_at}
    if prod(map(len, values.values())) > _MOST_CHOICES:
        return False
    for chosen in product(*values.values()):
        choice: dict[str, Any] = {
            name: value for name, value in zip(values, chosen, strict=True) if value is not MISSING
        }
        if not any(offered.matches_attributes(choice) for offered in offers):
            return False
    return True
