"""sbsposet: from an event to its digest, the one content match that an event needs (Jerzak §5.3.1).

Every attribute has its predicates, each kept once however many filters share it; conjunctions are not kept at all. The
digest of an event is the union of the bits of all predicates that it satisfies.

The source keeps the predicates of an attribute as a poset under covering, in which a node also has the bits of all that
cover it, so that a walk may leave out what lies above. The union is the same when each predicate has its own bits only
and all that are satisfied are looked up, which needs no covering tests when a filter comes, no counters to take
inherited bits out again, and a binary search instead of a walk. So the order is a sorted index here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from palio.events.groups import Grouped
from palio.filters.kinds import KINDS, MISSING, Kind, Value, kind_of, position_of
from palio.filters.tree import Attributes
from palio.filters.values import ValueSet
from palio.matching.stabbing import Stabbing
from palio.routing.forwarding.bloom.bits import Bits, union


@dataclass(slots=True, eq=False)
class _Predicate:
    attribute: str
    values: ValueSet
    bits: Bits
    number: int
    uses: int = 0


@dataclass(slots=True)
class _Attribute:
    """The predicates on one attribute, sorted by the ends of their intervals, one index for each kind of value."""

    by_kind: dict[Kind, Stabbing] = field(default_factory=dict)
    count: int = 0

    def add(self, number: int, values: ValueSet) -> None:
        self.count += 1
        for kind in KINDS:
            if not values.part(kind).is_empty:
                self.by_kind.setdefault(kind, Stabbing(kind)).add(number, values.part(kind))

    def remove(self, number: int, values: ValueSet) -> None:
        self.count -= 1
        for kind in KINDS:
            if not values.part(kind).is_empty:
                self.by_kind[kind].remove(number, values.part(kind))

    def find(self, value: Value) -> Iterator[int]:
        kind = kind_of(value)
        index = self.by_kind.get(kind)
        if index is not None:
            yield from index.find(position_of(kind, value))


class Sbsposet:
    """Predicates with their bits, counted, by attribute."""

    def __init__(self) -> None:
        self._predicates: dict[tuple[str, ValueSet], _Predicate] = {}
        self._by_number: dict[int, _Predicate] = {}
        self._attributes: dict[str, _Attribute] = {}
        self._when_missing: dict[int, str] = {}  # predicates that hold where the attribute is not there
        self._numbers = 0
        self.operations = 0
        """Predicates that were found satisfied, over all events."""

    def __len__(self) -> int:
        return len(self._predicates)

    def add(self, attribute: str, values: ValueSet, bits: Bits) -> None:
        """Count one more use of a predicate. Costs a binary search for each of its intervals."""
        known = self._predicates.get((attribute, values))
        if known is None:
            self._numbers += 1
            known = _Predicate(attribute, values, bits, self._numbers)
            self._predicates[attribute, values] = self._by_number[known.number] = known
            self._attributes.setdefault(attribute, _Attribute()).add(known.number, values)
            if values.contains(MISSING):
                self._when_missing[known.number] = attribute
        known.uses += 1

    def remove(self, attribute: str, values: ValueSet) -> None:
        """Count one use less; the predicate goes with the last."""
        known = self._predicates[attribute, values]
        known.uses -= 1
        if known.uses:
            return
        del self._predicates[attribute, values], self._by_number[known.number]
        self._when_missing.pop(known.number, None)
        index = self._attributes[attribute]
        index.remove(known.number, values)
        if not index.count:
            del self._attributes[attribute]

    def match(self, attributes: Attributes) -> Bits:
        """The digest of an event. An attribute of several values satisfies what any of them does."""
        found = [self._by_number[number].bits for number in self._satisfied(attributes)]
        self.operations += len(found)
        return union(found)

    def bits_at(self, attribute: str, values: ValueSet) -> Bits:
        """The bits of a predicate and of all that cover it: what its node has in the source."""
        covering = (each for each in self._predicates.values() if each.attribute == attribute)
        return union(each.bits for each in covering if each.values.covers(values))

    def layout(self) -> Mapping[tuple[str, ValueSet], tuple[Bits, int]]:
        """Every predicate with its bits and how often it is used; two that hold the same have the same layout."""
        return {place: (each.bits, each.uses) for place, each in self._predicates.items()}

    def _satisfied(self, attributes: Attributes) -> Iterator[int]:
        grouped = isinstance(attributes, Grouped)
        for name, value in attributes.items():
            index = self._attributes.get(name)
            if index is None:
                continue
            elements: tuple[Value, ...] = value if isinstance(value, tuple) else (value,)
            if grouped:  # the object that is chosen may lack the attribute
                elements = (*elements, MISSING)
            for element in elements:
                yield from index.find(element)
        for number, name in self._when_missing.items():
            if name not in attributes:
                yield number
