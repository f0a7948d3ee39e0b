"""Reuse forwarding: an event carries keys of filters that it matches, which replace content matches (Shen §3.3).

`never` matches content everywhere. `always` matches once and writes all keys that match, a long list where many do.
`partial` writes at most `n` keys, and whether they are all. A later broker divides the list among its links. A link
that gets a key of an incomplete list needs no match; one that gets none does.

The source does not say how a broker knows that a list is complete. A match that finds fewer than `n` gives a complete
one; a part of a complete list is complete for its link; a part of an incomplete list is incomplete, however short it
is. With covering or merging a broker upstream does not know all filters, so no list is complete (Shen §3.6).

An unknown key belongs to a filter that is being withdrawn, and is ignored. Keys on events are hashes of 64 bits. Of the
32 that the source has, two filters of a hundred thousand share one more often than not.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from enum import IntEnum
from hashlib import blake2b
from typing import ClassVar, Final, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec import Struct

from palio.errors import InvalidArgument, WireError
from palio.events import Event
from palio.filters.filter import Filter
from palio.matching.columnar.native import address_of
from palio.routing.codec import Arrival
from palio.routing.effects import Job
from palio.routing.forwarding.filter_index import FilterIndex, NumberedFilters, filter_index_of
from palio.routing.forwarding.headers import Header, register
from palio.routing.forwarding.precomputed_headers import (
    MAX_NEWER_FILTERS,
    TableSnapshot,
    TableVersion,
    annotation_prefix,
    concatenate_headers,
    trusted_annotation,
)
from palio.routing.forwarding.reuse import reuse_kernels
from palio.routing.forwarding.strategy import ForwardingConfig, Route
from palio.routing.measures import Measures
from palio.routing.messages import LOCAL, Key
from palio.routing.strategies import Reuse

_HASH_BYTES: Final = 8
_HASH_PERSONALISATION: Final = b"palio-reuse"


def key_hash(key: Key) -> int:
    """The hash of 64 bits that stands for a key on an event."""
    return int.from_bytes(blake2b(key, digest_size=_HASH_BYTES, person=_HASH_PERSONALISATION).digest(), "little")


class Completeness(IntEnum):
    """Whether a list has all keys behind a link that match: perhaps not, surely, or only by a client's word."""

    PARTIAL = 0
    COMPLETE = 1
    CLAIMED = 2


@register
class ReuseHeader(Struct, frozen=True, gc=False):
    """A list of key hashes that match, and its completeness."""

    kind: ClassVar[int] = 1

    data: bytes

    @classmethod
    def of(cls, keys: Iterable[int], completeness: Completeness) -> ReuseHeader:
        packed = array("Q", keys)
        if _IS_BIG_ENDIAN:
            packed.byteswap()
        return cls(bytes((completeness,)) + packed.tobytes())

    @property
    def completeness(self) -> Completeness:
        return _COMPLETENESS[self.data[0]]

    @property
    def is_complete(self) -> bool:
        """Whether a link without a key in the list does not need the event."""
        return self.data[0] != Completeness.PARTIAL

    @property
    def keys(self) -> list[int]:
        packed = array("Q", self.data[1:])
        if _IS_BIG_ENDIAN:
            packed.byteswap()
        return packed.tolist()

    def encode(self) -> bytes:
        return self.data

    @classmethod
    def decode(cls, data: bytes) -> ReuseHeader:
        if not data or data[0] > Completeness.CLAIMED or (len(data) - 1) % _HASH_BYTES:
            raise WireError("a list of keys is whether it is complete, and whole keys")
        return cls(data)


_IS_BIG_ENDIAN: Final = array("H", [1]).tobytes()[0] == 0
_COMPLETENESS: Final = tuple(Completeness)  # indexing is faster than calling the enum


@dataclass(frozen=True)
class ReuseWriter:
    """Writes the key lists of events that a bulk job matched; `keys` has the key of every filter, by number."""

    entry: TableVersion
    keys: npt.NDArray[np.uint64]

    def write(self, rows: npt.NDArray[np.int64], numbers: npt.NDArray[np.int32], count: int) -> pa.BinaryArray:
        own = self.keys[numbers]
        order = np.lexsort((own, rows))  # headers must not depend on the order of matches
        rows, own = rows[order], own[order]
        once = np.ones(len(rows), bool)  # a filter that came by two links has one key: write it once
        once[1:] = (rows[1:] != rows[:-1]) | (own[1:] != own[:-1])
        starts = np.zeros(count + 1, np.int64)
        np.cumsum(np.bincount(rows[once], minlength=count), out=starts[1:])
        start = annotation_prefix(self.entry, ReuseHeader.kind) + ReuseHeader.of((), Completeness.CLAIMED).data
        return concatenate_headers(start, own[once].astype("<u8"), starts)


class InterfaceIndex:
    """The filters behind one interface under their key hashes: find any, up to a number, or all (Shen §3.3).

    The source stops its indexes at the first match, or at the n-th. The columnar matcher finds all matches of a batch
    for less than it would cost to ask event by event, so these find all and take what is asked for. They take the
    lowest numbers, which depend only on the history of additions and removals, so that a run can be repeated.
    """

    def __init__(self, filters: NumberedFilters | None = None) -> None:
        self._filters: NumberedFilters = FilterIndex() if filters is None else filters
        self._keys: npt.NDArray[np.uint64] = np.zeros(8, np.uint64)

    def __len__(self) -> int:
        return len(self._filters)

    def add(self, key: int, wanted: Filter) -> int:
        """Add a filter; returns the number to remove it by."""
        number = self._filters.add(wanted)
        if number >= len(self._keys):
            self._keys = np.concatenate([self._keys, np.zeros(len(self._keys), np.uint64)])
        self._keys[number] = key
        return number

    def remove(self, number: int) -> None:
        self._filters.remove(number)

    def __getitem__(self, number: int) -> Filter:
        return self._filters[number]

    def work(self) -> Job | None:
        """The background job of the matcher, if one is due."""
        return self._filters.work()

    def find_any(self, events: Sequence[Event]) -> list[bool]:
        """Whether each event matches any filter."""
        rows, _ = self._filters.find(events)
        found = np.zeros(len(events), bool)
        found[rows] = True
        return found.tolist()

    def find_all(self, events: Sequence[Event]) -> list[list[int]]:
        """The keys of all filters that each event matches, ascending by number."""
        rows, numbers = self._filters.find(events)
        order = np.lexsort((numbers, rows))
        ends = np.cumsum(np.bincount(rows, minlength=len(events)))
        return _split(self._keys[numbers[order]].tolist(), [0, *ends[:-1].tolist()], ends.tolist())

    def find_up_to(self, events: Sequence[Event], limit: int) -> list[list[int]]:
        """The keys of at most `limit` filters that each event matches, those with the lowest numbers."""
        rows, numbers = self._filters.find(events)
        ends = np.zeros(len(events), np.int64)
        lowest = np.zeros(len(events) * limit, np.int32)
        reuse_kernels.lowest_of_rows(
            address_of(rows), address_of(numbers), len(rows), limit, address_of(ends), address_of(lowest), len(events)
        )
        return _split(self._keys[lowest].tolist(), range(0, len(lowest), limit), ends.tolist())


def _split(keys: list[int], starts: Sequence[int], ends: Sequence[int]) -> list[list[int]]:
    return [keys[start:end] for start, end in zip(starts, ends, strict=True)]


_COMPLETE_PROPAGATIONS: Final = ("simple", "identity")  # every filter reaches every broker
_Sends: TypeAlias = dict[int, ReuseHeader | None]


@dataclass(slots=True)
class ReuseCosts:
    """Costs as Shen §3.5 counts them: a match for each event and link, and a lookup for each key of a header."""

    matches: int = 0
    lookups: int = 0


@dataclass(slots=True)
class _Link:
    """The filters of one link: an index, and the number of each key in it."""

    index: InterfaceIndex
    numbers: dict[Key, int] = field(default_factory=dict)


class ReuseForwarding:
    """Routes events by the keys in their headers. Options: `mode` (never, always or partial), and `n` for partial."""

    def __init__(self, config: ForwardingConfig) -> None:
        chosen = config.chosen if isinstance(config.chosen, Reuse) else Reuse()
        self.choose(chosen.mode, chosen.n)
        self._matcher = chosen.matcher
        self._may_be_complete = config.propagation in _COMPLETE_PROPAGATIONS
        self._entry = TableVersion.of(config, config.first_version, {"forwarding": "reuse"})
        self._added_at: dict[tuple[int, Key], int] = {}  # table version at which a link's filter came, ascending
        self._links: dict[int, _Link] = {}
        self._local: dict[int, dict[Key, None]] = {}  # keys of local filters by hash
        self._uses: dict[int, dict[int, int]] = {}  # filters by key hash and interface
        self.costs = ReuseCosts()

    def choose(self, mode: str, limit: int) -> None:
        """Switch to another mode; the lists of events under way stay valid."""
        if mode not in ("never", "always", "partial"):
            raise InvalidArgument(f"reuse is never, always or partial, not {mode!r}")
        if type(limit) is not int or limit < 1:
            raise InvalidArgument(f"a list of keys has room for at least one, not {limit!r}")
        self._mode, self._limit = mode, limit

    def open_link(self, interface: int) -> None:
        self._link(interface)

    def close_link(self, interface: int) -> None:
        for key in list(self._links[interface].numbers) if interface in self._links else ():
            self.remove_filter(interface, key)
        self._links.pop(interface, None)

    def _link(self, interface: int) -> _Link:
        if interface not in self._links:
            self._links[interface] = _Link(InterfaceIndex(filter_index_of(self._matcher)))
        return self._links[interface]

    def add_filter(self, interface: int, key: Key, wanted: Filter) -> None:
        # Counted, because several keys may share a hash and one interface.
        hashed = key_hash(key)
        counts = self._uses.setdefault(hashed, {})
        counts[interface] = counts.get(interface, 0) + 1
        if interface == LOCAL:
            self._local.setdefault(hashed, {})[key] = None
        else:
            link = self._link(interface)
            link.numbers[key] = link.index.add(hashed, wanted)
            # Additions alone make a new version: a header that names a removed filter does no harm.
            self._entry = replace(self._entry, version=self._entry.version + 1)
            self._added_at[interface, key] = self._entry.version

    def remove_filter(self, interface: int, key: Key) -> None:
        hashed = key_hash(key)
        if interface == LOCAL:
            del self._local[hashed][key]
            if not self._local[hashed]:
                del self._local[hashed]
        else:
            link = self._links[interface]
            link.index.remove(link.numbers.pop(key))
            del self._added_at[interface, key]
        # Two filters may share a hash: a link stays listed until its last filter of that hash is removed.
        counts = self._uses[hashed]
        counts[interface] -= 1
        if not counts[interface]:
            del counts[interface]
        if not counts:
            del self._uses[hashed]

    def on_announcement(self, topic: str, version: int, data: bytes) -> None:
        pass

    def work(self) -> Job | None:
        jobs = (link.index.work() for link in self._links.values())
        return next((job for job in jobs if job is not None), None)

    def route(self, arrivals: Sequence[Arrival]) -> list[Route]:
        sends: list[_Sends] = [{} for _ in arrivals]
        own: list[tuple[Key, ...] | None] = [None] * len(arrivals)
        asked: dict[int, list[int]] = {interface: [] for interface in self._links}  # rows to match content for, by link
        for row, arrival in enumerate(arrivals):
            header = self._usable_header(arrival)
            if header is not None:
                sends[row], own[row] = self._divide(header)
                sends[row].pop(arrival.interface, None)
                # Links without a key in a complete list do not need the event; else their filters are matched.
                if header.is_complete:
                    continue
            for interface, rows in asked.items():
                if interface != arrival.interface and interface not in sends[row]:
                    rows.append(row)
        for interface, rows in asked.items():
            if rows and len(self._links[interface].index):
                self._match_content(interface, rows, arrivals, sends)
        return [_route(each, local) for each, local in zip(sends, own, strict=True)]

    def measures(self) -> Measures:
        return Measures(lookups=self.costs.lookups)

    def join_headers(self, parts: Sequence[tuple[Header | None, int]]) -> Header | None:
        """The list for several home brokers behind one link: the keys of all, complete where each is."""
        lists = [header for header, _ in parts if isinstance(header, ReuseHeader)]
        if len(lists) < len(parts):
            return None  # mode `never`
        if all(each is lists[0] for each in lists):
            return lists[0]
        found = {each.completeness for each in lists}
        completeness = Completeness.PARTIAL if Completeness.PARTIAL in found else max(found)
        return ReuseHeader.of(dict.fromkeys(key for each in lists for key in each.keys), completeness)

    @property
    def table_version(self) -> int:
        return self._entry.version

    def entry_table(self) -> TableSnapshot:
        """A snapshot of the filters of all links, for a job that finds keys in this broker's stead."""
        known = list(self._added_at)
        keys = np.array([key_hash(key) for _, key in known], np.uint64)
        return TableSnapshot(self._entry, [self._filter(*each) for each in known], ReuseWriter(self._entry, keys))

    def _filter(self, interface: int, key: Key) -> Filter:
        link = self._links[interface]
        return link.index[link.numbers[key]]

    def _usable_header(self, arrival: Arrival) -> ReuseHeader | None:
        """The list that an event came with: from a neighbour, or from a client that matched it against this table."""
        if arrival.interface != LOCAL:
            header = arrival.header
            return header if isinstance(header, ReuseHeader) else None
        annotated = trusted_annotation(arrival, self._entry)
        if annotated is None or not isinstance(annotated.inner, ReuseHeader):
            return None
        newer = self._added_since(annotated.entry.version)
        if newer is None:
            return None
        keys = dict.fromkeys(annotated.inner.keys)
        attributes = arrival.event.attributes if newer else {}
        keys |= {key_hash(each[1]): None for each in newer if self._filter(*each).matches_attributes(attributes)}
        return ReuseHeader.of(keys, Completeness.CLAIMED)

    def _added_since(self, version: int) -> list[tuple[int, Key]] | None:
        """The filters that are newer than a version; None where they are too many to evaluate one by one."""
        # Dictionaries keep the order of insertion, so that versions ascend and the newest are at the end.
        found: list[tuple[int, Key]] = []
        for place, version_added in reversed(self._added_at.items()):
            if version_added <= version:
                break
            if len(found) == MAX_NEWER_FILTERS:
                return None
            found.append(place)
        return found

    def _divide(self, header: ReuseHeader) -> tuple[_Sends, tuple[Key, ...] | None]:
        """A list for each link with a key in the header; and the matching local keys, where all are known."""
        keys = header.keys
        self.costs.lookups += len(keys)
        divided: dict[int, list[int]] = {}
        own: list[Key] = []
        uses = self._uses
        for key in keys:
            for interface in uses.get(key, ()):
                if interface in divided:
                    divided[interface].append(key)
                elif interface == LOCAL:
                    own += self._local[key]
                else:
                    divided[interface] = [key]
        completeness = header.completeness if self._may_be_complete else Completeness.PARTIAL
        parts: _Sends = {
            # The header itself where nothing changes: its bytes need not be written again.
            interface: header
            if len(part) == len(keys) and completeness == header.completeness
            else ReuseHeader.of(part, completeness)
            for interface, part in divided.items()
        }
        # Not for a `CLAIMED` list: a client's word never decides on a delivery.
        return parts, tuple(own) if completeness is Completeness.COMPLETE else None

    def _match_content(self, interface: int, rows: list[int], arrivals: Sequence[Arrival], sends: list[_Sends]) -> None:
        """Match some events against the filters of one link, and add what is to be sent there."""
        self.costs.matches += len(rows)
        index = self._links[interface].index
        events = [arrivals[row].event for row in rows]
        if self._mode == "never":
            for row, wanted in zip(rows, index.find_any(events), strict=True):
                if wanted:
                    sends[row][interface] = None
            return
        everything = self._mode == "always"
        found = index.find_all(events) if everything else index.find_up_to(events, self._limit)
        for row, keys in zip(rows, found, strict=True):
            if keys:
                # A full list may have been cut off: only a shorter one is known to have all.
                are_all = self._may_be_complete and (everything or len(keys) < self._limit)
                sends[row][interface] = ReuseHeader.of(keys, Completeness.COMPLETE if are_all else Completeness.PARTIAL)


def _route(sends: _Sends, local: tuple[Key, ...] | None) -> Route:
    """The route, with the links of equal headers grouped: they are sent together."""
    if len(sends) < 2:
        return Route(tuple((header, (link,)) for link, header in sends.items()), local)
    by_header: dict[ReuseHeader | None, list[int]] = {}
    for interface in sorted(sends):
        by_header.setdefault(sends[interface], []).append(interface)
    return Route(tuple((header, tuple(links)) for header, links in by_header.items()), local)
