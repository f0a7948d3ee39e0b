"""Updates to neighbours: the difference between what each should know and what it was sent.

For each neighbour there is a reduction of the filters that came by all other interfaces (`reductions`). An update is
the change of that reduction since the last one.

With advertisements a neighbour is sent only filters that something it advertised may serve (Jerzak §2.5.6). Overlap is
tested in its sound form, in which filters without a common attribute overlap: the printed rule loses events. A filter
that nothing serves waits, and is sent when something does. For each that was sent, one advertisement that serves it is
remembered; only when that one goes is another sought.

An event may have several values for an attribute, one of which is advertised and another one wanted. It is admitted
only where it is advertised wholly, whichever of its values are chosen: then what is wanted overlaps what is advertised.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from functools import partial
from itertools import product
from math import prod
from typing import Any, Final, NamedTuple

from palio.filters.array_choice import ArrayChoice
from palio.filters.filter import Filter
from palio.filters.kinds import MISSING
from palio.filters.tree import Attributes
from palio.routing import strategies
from palio.routing.combinations import Combination
from palio.routing.conjunctions import possible_values
from palio.routing.messages import Key
from palio.routing.propagation.merging import Merging
from palio.routing.propagation.reductions import Change, Covering, Reduction, Suppressed, Unreduced, Uplink
from palio.routing.structures import relation_graph_of

_MAX_VALUE_CHOICES: Final = 4096  # of an event's values; one that has more is not admitted


class Advertised:
    """Reduction of those filters that some advertisement may serve."""

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

    def advertise(self, offer: Hashable, offered: Filter) -> None:
        """Add an advertisement, and send what waited for it."""
        self._offers[offer] = offered
        for key in [key for key, wanted in self._waiting.items() if offered.overlaps(wanted)]:
            wanted = self._waiting.pop(key)
            self._served[key] = wanted, offer
            self._reduction.add(key, wanted)

    def withdraw(self, offer: Hashable) -> None:
        """Remove an advertisement; what it served looks for another one."""
        del self._offers[offer]
        # Removed and added again: where another advertisement serves it, both cancel out in the reduction.
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
    # Refused rather than guessed: an event that is only partly advertised would not reach all its subscribers.
    if prod(map(len, values.values())) > _MAX_VALUE_CHOICES:
        return False
    # Functions of whole arrays see all elements, whatever is chosen.
    choice = ArrayChoice({name: value for name, value in event.items() if isinstance(value, tuple)})
    for chosen in product(*values.values()):
        scalars: dict[str, Any] = {
            name: value for name, value in zip(values, chosen, strict=True) if value is not MISSING
        }
        if not any(choice.holds(offered.tree, scalars, {}) for offered in offers):
            return False
    return True


class Updates(NamedTuple):
    """Additions and withdrawals in the order of keys, each for several links at once."""

    additions: list[tuple[Key, Filter, tuple[int, ...]]]
    withdrawals: list[tuple[Key, tuple[int, ...]]]


_NO_UPDATES: Final = Updates([], [])
_NO_SOURCES: Final[Mapping[int, Filter]] = {}


class NeighbourUpdates:
    """The filters that came by each interface, and the updates that each neighbour is owed."""

    __slots__ = ("_dirty", "_neighbours", "_reduce", "_sources", "told")

    def __init__(self, reduce: Callable[[], Reduction], keeps_told: bool = False) -> None:
        """With `keeps_told` all that each neighbour was sent is kept, to be compared with what it has."""
        self._reduce = reduce
        self.told: dict[int, dict[Key, Filter]] | None = {} if keeps_told else None
        self._sources: dict[Key, dict[int, Filter]] = {}
        self._neighbours: dict[int, Reduction] = {}
        self._dirty: dict[int, None] = {}

    def open_link(self, link: int) -> None:
        reduction = self._neighbours[link] = self._reduce()
        if self.told is not None:
            self.told[link] = {}
        for key, sources in self._sources.items():
            wanted = next((each for source, each in sources.items() if source != link), None)
            if wanted is not None:
                reduction.add(key, wanted)
        self._dirty[link] = None

    def __contains__(self, link: int) -> bool:
        return link in self._neighbours

    def close_link(self, link: int) -> None:
        """Send a neighbour no more updates; what came from it stays until it is removed."""
        del self._neighbours[link]
        self._dirty.pop(link, None)
        if self.told is not None:
            self.told.pop(link, None)

    def add(self, interface: int, key: Key, wanted: Filter) -> None:
        # A neighbour needs a filter as long as any other interface has it. So only the first two sources of a key, and
        # the last two on removal, change what a neighbour needs.
        sources = self._sources.setdefault(key, {})
        sources[interface] = wanted
        if len(sources) == 1:
            for link in self._neighbours:
                if link != interface:
                    self._add_for(link, key, wanted)
        elif len(sources) == 2:
            # The neighbour that was its only source learns that it comes from elsewhere, too.
            [first] = [each for each in sources if each != interface]
            if first in self._neighbours:
                self._add_for(first, key, wanted)

    def remove(self, interface: int, key: Key) -> None:
        sources = self._sources[key]
        del sources[interface]
        if not sources:
            del self._sources[key]
            for link in self._neighbours:
                if link != interface:
                    self._remove_for(link, key)
        elif len(sources) == 1:
            # To the neighbour that is its last source, no other interface supplies it any more.
            [last] = sources
            if last in self._neighbours:
                self._remove_for(last, key)

    def sources(self, key: Key) -> Mapping[int, Filter]:
        """The interfaces that have a key, with its filter."""
        return self._sources.get(key, _NO_SOURCES)

    def keys_from(self, interface: int) -> list[Key]:
        """The keys that an interface has."""
        return [key for key, sources in self._sources.items() if interface in sources]

    def filters_from_others(self, link: int) -> Iterator[tuple[Key, Filter]]:
        """The keys that any other interface than one has, with their filters."""
        for key, sources in self._sources.items():
            for interface, wanted in sources.items():
                if interface != link:
                    yield key, wanted
                    break

    def move(self, key: Key, before: int, after: int) -> None:
        """A filter comes by another interface from now on, which changes nothing for neighbours."""
        sources = self._sources[key]
        sources[after] = sources.pop(before)

    def take(self) -> Updates:
        """The updates since the last call."""
        if not self._dirty:
            return _NO_UPDATES
        added: dict[Key, tuple[Filter, list[int]]] = {}
        withdrawn: dict[Key, list[int]] = {}
        for link in sorted(self._dirty):
            change = self._neighbours[link].change()
            for key, wanted in change.additions.items():
                added.setdefault(key, (wanted, []))[1].append(link)
            for key in change.withdrawals:
                withdrawn.setdefault(key, []).append(link)
            if self.told is not None:
                told = self.told.setdefault(link, {})
                told |= change.additions
                for key in change.withdrawals:
                    told.pop(key, None)
        self._dirty = {}
        return Updates(
            [(key, wanted, tuple(links)) for key, (wanted, links) in sorted(added.items())],
            [(key, tuple(links)) for key, links in sorted(withdrawn.items())],
        )

    def direct(self, parent: int) -> bool:
        """Send filters to one neighbour alone, the parent of a hierarchy; whether that changes anything."""
        changed = [
            link for link, each in self._neighbours.items() if isinstance(each, Uplink) and each.direct(link == parent)
        ]
        self._dirty.update(dict.fromkeys(changed))
        return bool(changed)

    def _add_for(self, link: int, key: Key, wanted: Filter) -> None:
        self._neighbours[link].add(key, wanted)
        self._dirty[link] = None

    def _remove_for(self, link: int, key: Key) -> None:
        self._neighbours[link].remove(key)
        self._dirty[link] = None


class AdvertisedUpdates(NeighbourUpdates):
    """Updates with only those filters that something which the neighbour advertised may serve."""

    __slots__ = ()

    def __init__(self, reduce: Callable[[], Reduction], keeps_told: bool = False) -> None:
        super().__init__(lambda: Advertised(reduce()), keeps_told)

    def advertise(self, link: int, offer: Hashable, offered: Filter) -> None:
        self._reduction_of(link).advertise(offer, offered)

    def withdraw(self, link: int, offer: Hashable) -> None:
        self._reduction_of(link).withdraw(offer)

    def _reduction_of(self, link: int) -> Advertised:
        reduction = self._neighbours[link]
        if not isinstance(reduction, Advertised):
            raise AssertionError("every reduction is of advertised filters")
        self._dirty[link] = None
        return reduction


def reduction_of(combination: Combination) -> Callable[[], Reduction]:
    """The constructor of the reduction for one neighbour. The option `slack` makes merging imperfect."""
    reduce = _reduction_by_propagation(combination)
    return partial(Uplink, reduce) if combination.is_hierarchical else reduce


def _reduction_by_propagation(combination: Combination) -> Callable[[], Reduction]:
    match combination.spread:
        case strategies.Flooding():
            return Suppressed
        case strategies.Merging() as chosen:
            return partial(Merging, float(chosen.slack), relation_graph_of(chosen))
        case strategies.Covering() as chosen:
            return partial(Covering, relation_graph_of(chosen))
        case strategies.XRoute():
            return Covering
    return Unreduced
