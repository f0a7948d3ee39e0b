"""Classical structures of Bloom forwarding as Jerzak describes them: for comparisons.

Brokers run `PredicateIndex` and `DigestTable`, the batch forms of these, unless their options say otherwise.

* `Sbsposet`: from an event to its digest (§5.3.1).
* `Sbstree`: from a digest to the interfaces that want the event, by a trie over bits (§5.3.2).
* `CountingSbstree`: from a digest to interfaces, by counters, with a posting list for each bit (§5.5).
* `Skiptree`: from a digest to interfaces, by elimination, with fingers over ranges of bits (§5.6.1).
* `CountingBloom`: a Bloom filter with removal.

A filter is identified by its key and interface, never by its bits: two filters may share their bits, and only a key
says which of them is removed.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Hashable, Iterator, Mapping
from dataclasses import dataclass, field
from math import log2
from typing import Any, Final, TypeAlias

from palio.events.nested_content import GroupedAttributes
from palio.filters.kinds import KINDS, MISSING, Kind, Value, kind_of, position_of
from palio.filters.tree import Attributes
from palio.filters.value_sets import ValueSet
from palio.matching.classical.interval_tree import IntervalIndex
from palio.routing.forwarding.bloom.digest import Bits, union


def has_all(bits: Bits, asked: Bits) -> bool:
    """Whether all bits of an element are set: if so it is probably in the filter, if not certainly not."""
    return set(asked).issubset(bits)


def is_smaller_sparse(width: int, count: int) -> bool:
    """Whether `count` indices take less space than a bitmap (Jerzak §5.2.3)."""
    return count < width / log2(width)


class CountingBloom:
    """A Bloom filter with removal: it counts the elements of each bit. One added twice must be removed twice."""

    def __init__(self) -> None:
        self._counts: Counter[int] = Counter()

    @property
    def bits(self) -> Bits:
        return tuple(sorted(self._counts))

    def add(self, bits: Bits) -> None:
        self._counts.update(bits)

    def remove(self, bits: Bits) -> None:
        """Remove an element; `KeyError` where some bit of it is not set."""
        missing = [bit for bit in bits if bit not in self._counts]
        if missing:
            raise KeyError(missing[0])
        for bit in bits:
            self._counts[bit] -= 1
            if not self._counts[bit]:
                del self._counts[bit]

    def __eq__(self, other: object) -> bool:
        return self._counts == other._counts if isinstance(other, CountingBloom) else NotImplemented

    __hash__ = None  # type: ignore[assignment]


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

    by_kind: dict[Kind, IntervalIndex] = field(default_factory=dict)
    count: int = 0

    def add(self, number: int, values: ValueSet) -> None:
        self.count += 1
        for kind in KINDS:
            if not values.part(kind).is_empty:
                self.by_kind.setdefault(kind, IntervalIndex(kind)).add(number, values.part(kind))

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
    """Predicates with their bits, counted, by attribute; conjunctions are not kept at all.

    The digest of an event is the union of the bits of all predicates that it satisfies. The source keeps the predicates
    of an attribute as a poset under covering, in which a node also has the bits of all that cover it, so that a walk
    may skip what lies above. The union is the same when each predicate has its own bits only and all satisfied ones are
    looked up, which needs no covering tests on insertion, no counters for inherited bits, and a binary search instead
    of a walk. So the order is a sorted index here.
    """

    def __init__(self) -> None:
        self._predicates: dict[tuple[str, ValueSet], _Predicate] = {}
        self._by_number: dict[int, _Predicate] = {}
        self._attributes: dict[str, _Attribute] = {}
        self._when_missing: dict[int, str] = {}  # predicates that hold where the attribute is missing
        self._numbers = 0
        self.operations = 0
        """Predicates that were satisfied, over all events."""

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
        """Count one use less; the last one removes the predicate."""
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
        """Every predicate with its bits and how often it is used; equal contents have equal layouts."""
        return {place: (each.bits, each.uses) for place, each in self._predicates.items()}

    def _satisfied(self, attributes: Attributes) -> Iterator[int]:
        grouped = isinstance(attributes, GroupedAttributes)
        for name, value in attributes.items():
            index = self._attributes.get(name)
            if index is None:
                continue
            elements: tuple[Value, ...] = value if isinstance(value, tuple) else (value,)
            if grouped or not elements:  # one of several objects may lack the attribute; an empty array is missing
                elements = (*elements, MISSING)
            for element in elements:
                yield from index.find(element)
        for number, name in self._when_missing.items():
            if name not in attributes:
                yield number


Owner: TypeAlias = tuple[int, Hashable]
"""An interface, and the key of a filter that came by it."""


@dataclass(slots=True)
class _TrieNode:
    children: dict[int, _TrieNode] = field(default_factory=dict)
    owners: Counter[Owner] = field(default_factory=Counter)
    interfaces: Counter[int] = field(default_factory=Counter)


class Sbstree:
    """A trie over the indices of bits; finds the interfaces with a filter that a digest satisfies.

    The path from the root to a node lists the bits of a filter in ascending order, so the layout depends on the filters
    and not on the order in which they came. A filter without bits wants everything and stands at the root.
    """

    def __init__(self) -> None:
        self._root = _TrieNode()
        self._size = 0
        self.operations = 0
        """Nodes that were visited, over all digests."""

    def __len__(self) -> int:
        return self._size

    def add(self, interface: int, key: Hashable, bits: Bits) -> None:
        """Add a filter, or one more conjunction of it. Costs a step for each bit."""
        place = self._root
        for bit in bits:
            place = place.children.setdefault(bit, _TrieNode())
        place.owners[interface, key] += 1
        place.interfaces[interface] += 1
        self._size += 1

    def remove(self, interface: int, key: Hashable, bits: Bits) -> None:
        """Undo an `add`; `KeyError` where there was none."""
        path = [self._root]
        for bit in bits:
            path.append(path[-1].children[bit])
        place = path[-1]
        if (interface, key) not in place.owners:
            raise KeyError(key)
        _decrement(place.owners, (interface, key))
        _decrement(place.interfaces, interface)
        self._size -= 1
        for parent, child, bit in zip(path[-2::-1], path[:0:-1], reversed(bits), strict=True):
            if child.children or child.owners:
                break
            del parent.children[bit]

    def match(self, bits: Bits) -> set[int]:
        """The interfaces with a filter all of whose bits are set."""
        found: set[int] = set()
        present = frozenset(bits)
        stack = [(self._root, 0)]
        visits = 0
        while stack:
            place, start = stack.pop()
            visits += 1
            found.update(place.interfaces)
            children = place.children
            if len(children) < len(bits) - start:
                stack += [(child, bisect_right(bits, bit, start)) for bit, child in children.items() if bit in present]
            else:
                stack += [(children[bits[at]], at + 1) for at in range(start, len(bits)) if bits[at] in children]
        self.operations += visits
        return found

    def layout(self) -> Any:
        """The whole trie as nested mappings of bits, with the owners of each node."""
        return _layout(self._root)


def _layout(place: _TrieNode) -> Any:
    return dict(place.owners), {bit: _layout(child) for bit, child in place.children.items()}


def _decrement(counts: Counter[Any], key: Any) -> None:
    counts[key] -= 1
    if not counts[key]:
        del counts[key]


OwnedBits: TypeAlias = tuple[Owner, Bits]


class ConjunctionCounts:
    """Conjunctions with their owners, counted: the first of equal ones enters a structure, the last leaves it."""

    def __init__(self) -> None:
        self._uses: Counter[OwnedBits] = Counter()

    def __len__(self) -> int:
        """The number of conjunctions, equal ones included."""
        return self._uses.total()

    def __iter__(self) -> Iterator[OwnedBits]:
        return iter(self._uses)

    def add(self, interface: int, key: Hashable, bits: Bits) -> OwnedBits | None:
        """Count one more; returns it where it is the first."""
        entry = ((interface, key), bits)
        self._uses[entry] += 1
        return entry if self._uses[entry] == 1 else None

    def remove(self, interface: int, key: Hashable, bits: Bits) -> OwnedBits | None:
        """Count one less; returns it where it was the last, `KeyError` where there is none."""
        entry = ((interface, key), bits)
        if entry not in self._uses:
            raise KeyError(key)
        self._uses[entry] -= 1
        if self._uses[entry]:
            return None
        del self._uses[entry]
        return entry


class CountingSbstree:
    """Filters in the posting lists of their bits; finds the interfaces with one that a digest satisfies.

    A filter's counter starts at the number of its bits, each bit of a digest counts down all filters in its list, and a
    counter at zero is a match. The work is the length of the lists of the digest's bits. The source calls that
    independent of the number of filters; it is so only while the lists stay short, and they grow where filters share
    predicates.
    """

    def __init__(self) -> None:
        self._entries = ConjunctionCounts()
        self._postings: dict[int, dict[OwnedBits, None]] = {}
        self._unconditional: Counter[int] = Counter()
        self.operations = 0
        """Counters that were decremented, over all digests."""

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, interface: int, key: Hashable, bits: Bits) -> None:
        """Add a filter, or one more conjunction of it."""
        entry = self._entries.add(interface, key, bits)
        if entry is not None:
            self._unconditional.update([interface] if not bits else ())
            for bit in bits:
                self._postings.setdefault(bit, {})[entry] = None

    def remove(self, interface: int, key: Hashable, bits: Bits) -> None:
        """Undo an `add`; `KeyError` where there was none."""
        entry = self._entries.remove(interface, key, bits)
        if entry is not None:
            self._unconditional -= Counter([interface] if not bits else ())
            for bit in bits:
                del self._postings[bit][entry]
                if not self._postings[bit]:
                    del self._postings[bit]

    def match(self, bits: Bits) -> set[int]:
        """The interfaces with a filter all of whose bits are set."""
        found = set(self._unconditional)
        left: dict[OwnedBits, int] = {}
        for bit in bits:
            for entry in self._postings.get(bit, ()):
                self.operations += 1
                left[entry] = left.get(entry, len(entry[1])) - 1
                if not left[entry]:
                    found.add(entry[0][0])
        return found

    def layout(self) -> Mapping[int, frozenset[OwnedBits]]:
        """The posting list of each bit, and under -1 the filters without bits."""
        unconditional = frozenset(entry for entry in self._entries if not entry[1])
        return {-1: unconditional, **{bit: frozenset(entries) for bit, entries in self._postings.items()}}


_LOWEST_SPAN_BITS: Final = 128
_SPAN_FACTOR: Final = 4

_Fingers = dict[int, Counter[OwnedBits]]  # by number of their span


class Skiptree:
    """Filters by their bits, with fingers over ranges of bits, for digests of one width.

    A filter matches unless it owns a bit that the digest lacks. So all filters are candidates at first, and between two
    neighbouring bits of the digest all owners of a bit strictly in between are eliminated. Fingers eliminate a gap at
    once: the lowest span 128 bits, each level four times more, and a finger has all owners of bits in its span. A gap
    is filled with the largest fingers that lie in it.

    The source leaves out the gaps before the first bit of the digest and after the last, which belong to it, and
    removal: here a finger counts how often each filter owns a bit below it.
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self.spans = tuple(_spans(width))
        self._levels: tuple[_Fingers, ...] = tuple({} for _ in self.spans)
        self._owners: dict[int, set[OwnedBits]] = {}
        self._used: list[int] = []  # the bits that have an owner, ascending
        self._entries = ConjunctionCounts()
        self.operations = 0
        """Fingers and bits whose owners were eliminated, over all digests."""

    def __len__(self) -> int:
        return len(self._entries)

    def add(self, interface: int, key: Hashable, bits: Bits) -> None:
        """Add a filter, or one more conjunction of it."""
        entry = self._entries.add(interface, key, bits)
        if entry is None:
            return
        for bit in bits:
            if bit not in self._owners:
                insort(self._used, bit)
                self._owners[bit] = set()
            self._owners[bit].add(entry)
            for span, fingers in zip(self.spans, self._levels, strict=True):
                fingers.setdefault(bit // span, Counter())[entry] += 1

    def remove(self, interface: int, key: Hashable, bits: Bits) -> None:
        """Undo an `add`; `KeyError` where there was none."""
        entry = self._entries.remove(interface, key, bits)
        if entry is None:
            return
        for bit in bits:
            self._owners[bit].remove(entry)
            if not self._owners[bit]:
                del self._owners[bit], self._used[bisect_left(self._used, bit)]
            for span, fingers in zip(self.spans, self._levels, strict=True):
                finger = fingers[bit // span]
                finger[entry] -= 1
                if not finger[entry]:
                    del finger[entry]
                if not finger:
                    del fingers[bit // span]

    def match(self, bits: Bits) -> set[int]:
        """The interfaces with a filter all of whose bits are set."""
        candidates = set(self._entries)
        for low, high in _gaps(bits, self._width):
            for owners in self._owners_within(low, high):
                self.operations += 1
                candidates.difference_update(owners)
        return {interface for (interface, _), _ in candidates}

    def fingers_within(self, low: int, high: int) -> list[tuple[int, int]]:
        """The largest fingers that fit between two bits and have owners, as (first bit, last bit), in order."""
        return [
            (number * self.spans[level], (number + 1) * self.spans[level] - 1)
            for level, number in self._largest(low, high)
            if level >= 0 and number in self._levels[level]
        ]

    def _owners_within(self, low: int, high: int) -> Iterator[set[OwnedBits] | Counter[OwnedBits]]:
        for level, number in self._largest(low, high):
            if level >= 0:
                if number in self._levels[level]:
                    yield self._levels[level][number]
                continue
            # A border that no finger fits into, from this bit to the next multiple of the lowest span.
            end = min(high, (number // self.spans[0] + 1) * self.spans[0])
            for at in range(bisect_left(self._used, number), bisect_left(self._used, end)):
                yield self._owners[self._used[at]]

    def _largest(self, low: int, high: int) -> Iterator[tuple[int, int]]:
        """The fingers that fill the bits in [low, high): (level, finger), or (-1, bit) for a border."""
        while low < high:
            level = len(self.spans) - 1
            while level >= 0 and (low % self.spans[level] or low + self.spans[level] > high):
                level -= 1
            if level < 0:
                yield -1, low
                low = (low // self.spans[0] + 1) * self.spans[0]
            else:
                yield level, low // self.spans[level]
                low += self.spans[level]


def _spans(width: int) -> Iterator[int]:
    span = min(_LOWEST_SPAN_BITS, width)
    yield span
    while span * _SPAN_FACTOR <= width:
        span *= _SPAN_FACTOR
        if span < width:
            yield span


def _gaps(bits: Bits, width: int) -> Iterator[tuple[int, int]]:
    """The ranges of bits that are not set, as half-open intervals."""
    low = 0
    for bit in bits:
        if low < bit:
            yield low, bit
        low = bit + 1
    if low < width:
        yield low, width
