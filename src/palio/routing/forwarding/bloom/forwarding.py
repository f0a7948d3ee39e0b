"""Forwarding by digest: the first broker looks at an event's content, all others at its bits (Jerzak §5.3, §5.4).

The first broker finds the predicates that the event satisfies, of all filters there are, and writes their bits on it.
Every broker compares the bits with those of its neighbours' filters. Simple and identity-based propagation bring every
filter to every broker, so nothing that somebody wants is missing from a digest; the bits of others may by chance be all
there, and the event then goes a way for nothing.

The filters of a broker's own clients are compared as those of a neighbour are, where they are not too many: an event
that none of them wants is not read there at all.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import lru_cache
from itertools import accumulate
from typing import Any, Final

import numpy as np

from palio.errors import InvalidArgument
from palio.filters.filter import Filter
from palio.filters.tree import holds
from palio.routing.conjunctive import Conjunction, conjunctive
from palio.routing.constants import CONJUNCTION_LIMIT
from palio.routing.effects import Job
from palio.routing.forwarding.annotated import MOST_NEWER, Entry, EntryTable, believed
from palio.routing.forwarding.bloom.annotating import BloomWriter
from palio.routing.forwarding.bloom.bits import Bits, union
from palio.routing.forwarding.bloom.header import BloomHeader
from palio.routing.forwarding.bloom.predicates import Predicates, single
from palio.routing.forwarding.bloom.shape import BloomShape, index_type, predicate_text
from palio.routing.forwarding.bloom.table import DigestTable
from palio.routing.forwarding.headers import Header
from palio.routing.forwarding.protocol import Arrival, Route, Setting
from palio.routing.messages import LOCAL, Key


class BloomForwarding:
    """Digests of what neighbours want.

    Options, constants of the network: `m` and `k`, the bits of a digest and of a predicate; or `rate` and `satisfied`,
    how often a predicate may seem satisfied that is not, and how many an event satisfies; `key`, of the hash.
    """

    def __init__(self, setting: Setting) -> None:
        self.shape = shape_of(setting.options)
        self._version = 0
        self._known_entry = Entry.of(setting, 0, {"forwarding": "bloom", "shape": self.shape})
        self._filters: dict[int, dict[Key, tuple[Conjunction, ...]]] = {}
        self._predicates = Predicates(self.shape)
        self._table = DigestTable(self.shape.width)
        self._size = index_type(self.shape.width).itemsize
        self._not_compared: set[Key] = set()  # of local filters

    def opened(self, interface: int) -> None:
        self._filters.setdefault(interface, {})

    def closed(self, interface: int) -> None:
        for key in list(self._filters.get(interface, ())):
            self.removed(interface, key)
        self._filters.pop(interface, None)

    def added(self, interface: int, key: Key, wanted: Filter) -> None:
        if interface == LOCAL:
            self._added_locally(key, wanted)
            return
        self._version += 1
        conjunctions = _entered(wanted)
        self._filters.setdefault(interface, {})[key] = conjunctions
        for each in conjunctions:
            bits = [self._predicates.add(leaf, self._version) for leaf in each]
            self._table.add(interface, union(bits))

    def _added_locally(self, key: Key, wanted: Filter) -> None:
        local = self._filters.setdefault(LOCAL, {})
        if len(local) >= _MOST_COMPARED:
            self._not_compared.add(key)
            return
        local[key] = _entered(wanted)
        for each in local[key]:
            self._table.add(LOCAL, self._bits_of(each))

    def removed(self, interface: int, key: Key) -> None:
        if interface != LOCAL:
            for each in self._filters[interface].pop(key):
                self._table.remove(interface, union([self._predicates.remove(leaf) for leaf in each]))
        elif key in self._not_compared:
            self._not_compared.remove(key)
        else:
            for each in self._filters[LOCAL].pop(key):
                self._table.remove(LOCAL, self._bits_of(each))

    def _bits_of(self, conjunction: Conjunction) -> Bits:
        return union([self.shape.bits_of(predicate_text(leaf)) for leaf in conjunction])

    def announced(self, topic: str, version: int, data: bytes) -> None:
        pass

    def work(self) -> Job | None:
        return self._predicates.work()

    def route(self, arrivals: Sequence[Arrival]) -> list[Route]:
        headers = [self._understood(each) for each in arrivals]
        # What is not in a digest that was made here are predicates of local clients alone, and a client may omit any.
        compared = not self._not_compared
        tell = [compared and header is not None and not header.is_of_client for header in headers]
        new = [place for place, header in enumerate(headers) if header is None]
        if new:
            starts, bits = self._predicates.digests([arrivals[place].event for place in new])
            for at, place in enumerate(new):
                headers[place] = BloomHeader.of(self.shape.width, bits[starts[at] : starts[at + 1]])
        known = [header for header in headers if header is not None]
        found = self._table.match_batch(*_joined(known, self._size), [each.interface for each in arrivals])
        return [_route(*each) for each in zip(known, found, tell, strict=True)]

    def entry_table(self) -> EntryTable:
        """What this broker knows now, for a job that makes digests in its stead."""
        known = list(self._predicates)
        own = np.array([bits for _, bits in known], np.int32).reshape(len(known), self.shape.hashes)
        return EntryTable(self._entry, [single(leaf) for leaf, _ in known], BloomWriter(self._entry, self.shape, own))

    @property
    def _entry(self) -> Entry:
        """The table as it is now; hardly anybody asks, and filters come by the thousand."""
        if self._known_entry.version != self._version:
            self._known_entry = replace(self._known_entry, version=self._version)
        return self._known_entry

    def _understood(self, arrival: Arrival) -> BloomHeader | None:
        """The digest that an event came with: from a neighbour, or from a client that matched it for this broker."""
        if arrival.interface != LOCAL:
            return self._of_this_width(arrival.header)
        annotated = believed(arrival, self._entry)
        digest = None if annotated is None else self._of_this_width(annotated.inner)
        if digest is None or annotated is None:
            return None
        if annotated.entry.version == self._version:
            return digest.of_client()
        newer = self._predicates.since(annotated.entry.version, MOST_NEWER)
        if newer is None:
            return None
        attributes = arrival.event.attributes
        satisfied: list[Bits] = [bits for leaf, bits in newer if holds(leaf, attributes)]
        whole = BloomHeader.of(self.shape.width, union([digest.bits, *satisfied])) if satisfied else digest
        return whole.of_client()

    def _of_this_width(self, header: Header | None) -> BloomHeader | None:
        return header if isinstance(header, BloomHeader) and header.width == self.shape.width else None


_REMEMBERED: Final = 4_096  # filters
_MOST_COMPARED: Final = 4_096  # local filters: of more, nearly every event finds one that wants it


@lru_cache(_REMEMBERED)  # a filter may come by several links, and to many brokers of one process
def _entered(wanted: Filter) -> tuple[Conjunction, ...]:
    return conjunctive(wanted, CONJUNCTION_LIMIT)


def _route(header: BloomHeader, interfaces: tuple[int, ...], tells: bool) -> Route:
    """Where an event goes, and that no local client wants it where the digest tells."""
    if interfaces and interfaces[0] == LOCAL:
        interfaces, tells = interfaces[1:], False
    return Route(((header, interfaces),) if interfaces else (), () if tells else None)


def shape_of(options: Mapping[str, Any]) -> BloomShape:
    """The shape that the options of a network name."""
    key = str(options.get("key", "")).encode()
    if "rate" in options or "satisfied" in options:
        if "m" in options or "k" in options:
            raise InvalidArgument("a digest has m and k, or it has a rate and how many are satisfied, not both")
        return BloomShape.for_rate(options.get("rate", 1e-6), options.get("satisfied", 256), key)
    usual = BloomShape()
    return BloomShape(options.get("m", usual.width), options.get("k", usual.hashes), key)


def _joined(headers: Sequence[BloomHeader], size: int) -> tuple[list[int], bytes]:
    """Where the bits of each digest start, and all bits, of so many bytes each."""
    packed = [header.packed for header in headers]
    return list(accumulate((len(each) // size for each in packed), initial=0)), b"".join(packed)
