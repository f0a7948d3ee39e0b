"""Bloom forwarding: the first broker examines an event's content, all others its digest (Jerzak §5.3, §5.4).

The first broker finds the predicates that the event satisfies, of all filters there are, and writes their bits on it.
Every broker compares the bits with those of its neighbours' filters. Simple and identity-based propagation bring every
filter to every broker, so no bit that a filter needs is missing from a digest; the bits of other predicates may by
chance cover a filter's, and the event then travels in vain.

The filters of a broker's own clients are compared like those of a neighbour, unless they are too many: an event that
none of them matches is not decoded there at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate
from typing import Final

import numpy as np

from palio.errors import InvalidArgument
from palio.filters.filter import Filter
from palio.filters.tree import holds
from palio.routing.codec import Arrival
from palio.routing.conjunctions import CONJUNCTION_LIMIT, Conjunction, to_conjunctions
from palio.routing.effects import Job
from palio.routing.forwarding.bloom.classical import CountingSbstree, Sbstree, Skiptree
from palio.routing.forwarding.bloom.classical_tables import ClassicalTable, PosetPredicateIndex
from palio.routing.forwarding.bloom.digest import Bits, BloomHeader, BloomShape, index_type, predicate_text, union
from palio.routing.forwarding.bloom.digest_table import DigestTable
from palio.routing.forwarding.bloom.predicate_index import BloomWriter, PredicateIndex, predicate_filter
from palio.routing.forwarding.filter_index import filter_index_of
from palio.routing.forwarding.headers import Header
from palio.routing.forwarding.precomputed_headers import (
    MAX_NEWER_FILTERS,
    TableSnapshot,
    TableVersion,
    trusted_annotation,
)
from palio.routing.forwarding.strategy import ForwardingConfig, Route
from palio.routing.messages import LOCAL, Key
from palio.routing.strategies import Bloom


class BloomForwarding:
    """Routes events by comparing their digests with those of the neighbours' filters.

    Options, constants of the network: `m` and `k`, the bits of a digest and of a predicate; or `rate` and `satisfied`,
    the false positive rate of a predicate, and how many predicates an event satisfies; `key`, of the hash. Options of
    one broker: `digests` and `structure`, the structures that it writes digests by and compares them by.
    """

    def __init__(self, config: ForwardingConfig) -> None:
        chosen = config.chosen if isinstance(config.chosen, Bloom) else Bloom()
        self.shape = shape_of(chosen)
        self._version = config.first_version
        self._cached_entry = TableVersion.of(config, self._version, {"forwarding": "bloom", "shape": self.shape})
        self._filters: dict[int, dict[Key, tuple[Conjunction, ...]]] = {}
        self._predicates, self._table = _structures(self.shape, chosen)
        self._index_bytes = index_type(self.shape.width).itemsize
        self._local_uncompared: set[Key] = set()  # local filters beyond the limit

    def open_link(self, interface: int) -> None:
        self._filters.setdefault(interface, {})

    def close_link(self, interface: int) -> None:
        for key in list(self._filters.get(interface, ())):
            self.remove_filter(interface, key)
        self._filters.pop(interface, None)

    def add_filter(self, interface: int, key: Key, wanted: Filter) -> None:
        if interface == LOCAL:
            self._add_local(key, wanted)
            return
        self._version += 1
        conjunctions = _conjunctions(wanted)
        self._filters.setdefault(interface, {})[key] = conjunctions
        for each in conjunctions:
            bits = [self._predicates.add(leaf, self._version) for leaf in each]
            self._table.add(interface, union(bits))

    def _add_local(self, key: Key, wanted: Filter) -> None:
        local = self._filters.setdefault(LOCAL, {})
        # Not compared: from now on digests prove nothing about local filters, until this one is removed.
        if len(local) >= _MAX_LOCAL_COMPARED:
            self._local_uncompared.add(key)
            return
        local[key] = _conjunctions(wanted)
        for each in local[key]:
            self._table.add(LOCAL, self._bits_of(each))

    def remove_filter(self, interface: int, key: Key) -> None:
        if interface != LOCAL:
            for each in self._filters[interface].pop(key):
                self._table.remove(interface, union([self._predicates.remove(leaf) for leaf in each]))
        elif key in self._local_uncompared:
            self._local_uncompared.remove(key)
        else:
            for each in self._filters[LOCAL].pop(key):
                self._table.remove(LOCAL, self._bits_of(each))

    def _bits_of(self, conjunction: Conjunction) -> Bits:
        return union([self.shape.bits_of(predicate_text(leaf)) for leaf in conjunction])

    def on_announcement(self, topic: str, version: int, data: bytes) -> None:
        pass

    def work(self) -> Job | None:
        return self._predicates.work()

    def route(self, arrivals: Sequence[Arrival]) -> list[Route]:
        headers = [self._usable_header(each) for each in arrivals]
        # A broker's digest proves that no local client matches: it has the bits of all predicates but those that only
        # the writing broker's own clients use. That excludes digests made here. Those of clients may omit any bit.
        compared = not self._local_uncompared
        proves_local = [compared and header is not None and not header.is_of_client for header in headers]
        new = [place for place, header in enumerate(headers) if header is None]
        if new:
            starts, bits = self._predicates.digests([arrivals[place].event for place in new])
            for at, place in enumerate(new):
                headers[place] = BloomHeader.of(self.shape.width, bits[starts[at] : starts[at + 1]])
        known = [header for header in headers if header is not None]
        found = self._table.match_batch(*_concatenate(known, self._index_bytes), [each.interface for each in arrivals])
        return [_route(*each) for each in zip(known, found, proves_local, strict=True)]

    @property
    def table_version(self) -> int:
        return self._version

    def entry_table(self) -> TableSnapshot:
        """A snapshot of this broker's predicates, for a job that computes digests in its stead."""
        known = list(self._predicates)
        own = np.array([bits for _, bits in known], np.int32).reshape(len(known), self.shape.hashes)
        return TableSnapshot(
            self._entry, [predicate_filter(leaf) for leaf, _ in known], BloomWriter(self._entry, self.shape, own)
        )

    @property
    def _entry(self) -> TableVersion:
        """The current table version; made on demand, since filters come by the thousand and few ask for it."""
        if self._cached_entry.version != self._version:
            self._cached_entry = replace(self._cached_entry, version=self._version)
        return self._cached_entry

    def _usable_header(self, arrival: Arrival) -> BloomHeader | None:
        """The digest that an event came with: from a neighbour, or from a client that matched it against this table."""
        if arrival.interface != LOCAL:
            return self._with_own_width(arrival.header)
        annotated = trusted_annotation(arrival, self._entry)
        digest = None if annotated is None else self._with_own_width(annotated.inner)
        if digest is None or annotated is None:
            return None
        # Marked in any case: a client may have left out bits, so that its digest proves nothing about local filters.
        if annotated.entry.version == self._version:
            return digest.of_client()
        newer = self._predicates.added_since(annotated.entry.version, MAX_NEWER_FILTERS)
        if newer is None:
            return None
        attributes = arrival.event.attributes
        satisfied: list[Bits] = [bits for leaf, bits in newer if holds(leaf, attributes)]
        whole = BloomHeader.of(self.shape.width, union([digest.bits, *satisfied])) if satisfied else digest
        return whole.of_client()

    def _with_own_width(self, header: Header | None) -> BloomHeader | None:
        # Bits of another width mean other predicates.
        return header if isinstance(header, BloomHeader) and header.width == self.shape.width else None


def _structures(shape: BloomShape, chosen: Bloom) -> tuple[PredicateIndex, DigestTable | ClassicalTable]:
    """From events to digests, and from digests to interfaces: by the options `digests` and `structure`."""
    predicates = PredicateIndex(shape, filter_index_of(chosen.matcher))
    if chosen.digests == "sbsposet":
        predicates = PosetPredicateIndex(shape)
    match chosen.structure:
        case "sbstree":
            return predicates, ClassicalTable(shape.width, Sbstree())
        case "counting":
            return predicates, ClassicalTable(shape.width, CountingSbstree())
        case "skiptree":
            return predicates, ClassicalTable(shape.width, Skiptree(shape.width))
    return predicates, DigestTable(shape.width)


_MAX_CACHED_CONJUNCTIONS: Final = 4_096  # filters
_MAX_LOCAL_COMPARED: Final = 4_096  # local filters; with more, nearly every event matches one of them


@lru_cache(_MAX_CACHED_CONJUNCTIONS)  # a filter may come by several links, and to many brokers of one process
def _conjunctions(wanted: Filter) -> tuple[Conjunction, ...]:
    return to_conjunctions(wanted, CONJUNCTION_LIMIT)


def _route(header: BloomHeader, interfaces: tuple[int, ...], proves_local: bool) -> Route:
    """The route of an event, with no local keys where the digest proves that no local filter matches."""
    if interfaces and interfaces[0] == LOCAL:
        interfaces, proves_local = interfaces[1:], False
    return Route(((header, interfaces),) if interfaces else (), () if proves_local else None)


def shape_of(chosen: Bloom) -> BloomShape:
    """The parameters that the options of a network ask for."""
    key = str(chosen.key).encode()
    m, k, rate, satisfied = chosen.m, chosen.k, chosen.rate, chosen.satisfied
    if rate is not None or satisfied is not None:
        if m is not None or k is not None:
            raise InvalidArgument("a digest has m and k, or it has a rate and how many are satisfied, not both")
        return BloomShape.for_rate(1e-6 if rate is None else rate, 256 if satisfied is None else satisfied, key)
    default = BloomShape()
    return BloomShape(default.width if m is None else m, default.hashes if k is None else k, key)


def _concatenate(headers: Sequence[BloomHeader], index_bytes: int) -> tuple[list[int], bytes]:
    """Where the bits of each digest start, and the packed bits of all."""
    packed = [header.packed for header in headers]
    return list(accumulate((len(each) // index_bytes for each in packed), initial=0)), b"".join(packed)
