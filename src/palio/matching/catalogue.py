"""The catalogue: ids, texts and metadata of subscriptions, by number.

Every subscription gets a number when it is added, and the index speaks of numbers alone. A number is never used again,
so that merging segments touches nothing here; where most numbers are dead, `segments` makes a new catalogue of the
others. Ids are kept as Arrow strings, because results are made of them, and found by sorted runs of their hashes, which
are merged as they grow. Texts and metadata are compressed in blocks of 256; reading one unpacks its block.

`FilterCache` keeps the filters of subscriptions with residual conditions, which are evaluated on every candidate:
parsing the text each time would take ten to a hundred times as long. A filter takes some kilobytes, up to two hundred
times its text, so the cache is bounded by the length of the texts.
"""

from __future__ import annotations

import json
import threading
from bisect import bisect_left, bisect_right
from collections import OrderedDict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import blake2b
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from palio.filters.filter import Filter
from palio.matching.columnar.array_types import Int32s, Uint64s
from palio.matching.metadata import from_json, to_json
from palio.matching.subscription import Subscription, Subscriptions

BLOCK_SUBSCRIPTIONS: Final = 256
_MAX_UNPACKED_TAIL: Final = 4096  # the newest subscriptions, kept as they are until they are compressed
_CODEC: Final = "zstd"
_MIN_IDS_FOR_ARROW: Final = 24  # from which on Arrow takes ids faster than Python
_MAX_CACHED_BLOCKS: Final = 64


Record: TypeAlias = str | list[Any]  # a subscription without its id


@dataclass(frozen=True, slots=True)
class Block:
    """A run of subscriptions with neighbouring numbers, texts compressed."""

    start: int
    ids: pa.Array  # of strings, of either width
    packed: bytes | memoryview
    size: int
    is_bare: bool  # no subscription of it has anything but an SQL text

    @classmethod
    def pack(cls, start: int, subscriptions: Subscriptions) -> Block:
        ids = pa.array(subscriptions.ids, pa.string())
        records = [want if isinstance(want, str) else _record(want) for want in subscriptions.wants]
        raw = json.dumps(records, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogatepass")
        is_bare = all(type(record) is str for record in records)
        return cls(start, ids, pa.compress(raw, codec=_CODEC, asbytes=True), len(raw), is_bare)

    def unpack(self) -> list[Record]:
        raw: bytes = pa.decompress(pa.py_buffer(self.packed), decompressed_size=self.size, codec=_CODEC, asbytes=True)
        records: list[Record] = json.loads(raw.decode("utf-8", "surrogatepass"), object_hook=from_json)
        return records


# The common subscription, SQL text and nothing else, is recorded as the bare text.
def _record(subscription: Subscription) -> Record:
    where, zone = subscription.where, subscription.timezone
    if isinstance(where, Filter):
        zone, where = where.timezone, str(where)
        if replace(subscription, where=where, timezone=zone).is_bare:
            return where
    return [to_json(where), subscription.language, subscription.subscriber, to_json(subscription.metadata), zone]


def _subscription(id: str, record: Record) -> Subscription:
    return Subscription(id, record) if isinstance(record, str) else Subscription(id, *record)


def _end(blocks: Sequence[Block]) -> int:
    return blocks[-1].start + len(blocks[-1].ids) if blocks else 0


def hash_of(id: str) -> int:
    """A hash of an id that is equal in every process: saved files hold it."""
    return int.from_bytes(blake2b(id.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")


class Catalogue:
    """All subscriptions ever added, by number and by id."""

    def __init__(self, blocks: Sequence[Block] = (), runs: Sequence[IdHashRun] = ()) -> None:
        self._blocks = list(blocks)
        self._starts = [block.start for block in self._blocks]
        # The first number that is in no block, and the subscriptions from it on. Replaced whole, because readers hold
        # no lock; a block is appended before its subscriptions leave the tail.
        self._tail: tuple[int, list[Subscription]] = (_end(self._blocks), [])
        self._recent_numbers: dict[str, int] = {}
        self._runs: list[IdHashRun] = list(runs)
        self._unpacked: OrderedDict[int, list[Record]] = OrderedDict()
        self._listed: dict[int, list[str]] = {}  # ids of blocks as Python strings, for single events
        self._filters = FilterCache()
        # Not pa.array([]), which imports pandas where that is installed.
        self._names = self._sealed = self._subscribers = pa.nulls(0, pa.string())

    def __len__(self) -> int:
        """How many numbers have been given out."""
        start, recent = self._tail
        return start + len(recent)

    @property
    def blocks(self) -> list[Block]:
        return self._blocks

    @property
    def runs(self) -> list[IdHashRun]:
        return self._runs

    @property
    def nbytes(self) -> int:
        """Bytes of ids and of compressed texts."""
        blocks = sum(int(block.ids.nbytes) + len(block.packed) for block in self._blocks)
        return blocks + sum(run.nbytes for run in self._runs)

    def append(self, subscription: Subscription) -> int:
        """Add a subscription; returns its number."""
        number = len(self)
        self._tail[1].append(subscription)
        self._recent_numbers[subscription.id] = number
        if len(self._tail[1]) == _MAX_UNPACKED_TAIL:
            self.pack()
        return number

    def extend(self, subscriptions: Subscriptions) -> range:
        """Add many at once; returns their numbers."""
        self.pack()
        first = len(self)
        if len(subscriptions):
            self._seal(first, subscriptions)
            self._add_run(IdHashRun.of(subscriptions.ids, first))
        return range(first, len(self))

    def pack(self) -> None:
        """Compress the tail."""
        start, recent = self._tail
        if recent:
            subscriptions = Subscriptions.of(recent)
            self._add_run(IdHashRun.of(subscriptions.ids, start))
            self._seal(start, subscriptions)
            self._recent_numbers = {}

    def _seal(self, first: int, subscriptions: Subscriptions) -> None:
        """Compress subscriptions; the last block is one that is not full, or the next will be."""
        for start in range(0, len(subscriptions), BLOCK_SUBSCRIPTIONS):
            block = Block.pack(first + start, subscriptions.between(start, start + BLOCK_SUBSCRIPTIONS))
            self._blocks.append(block)
            self._starts.append(block.start)
        self._tail = (_end(self._blocks), [])

    def _add_run(self, run: IdHashRun) -> None:
        runs = [*self._runs, run]
        while len(runs) > 1 and len(runs[-1].hashes) * 2 >= len(runs[-2].hashes):
            last, previous = runs.pop(), runs.pop()
            runs.append(previous.merge(last))
        self._runs = runs  # replaced whole: a reader must find each run, merged or not

    def __getitem__(self, number: int) -> Subscription:
        start, recent = self._tail
        if number >= start:
            return recent[number - start]
        index = bisect_right(self._starts, number) - 1
        at = number - self._starts[index]
        return _subscription(self._ids(index)[at], self._block(index)[at])

    def many(self, numbers: Iterable[int]) -> Subscriptions:
        """Many subscriptions by ascending numbers: one after the other, a block of them is unpacked once."""
        found = Subscriptions([], [])
        start, recent = self._tail
        first = 0
        ids: list[str] = []
        records: list[Record] = []
        for number in numbers:
            if number >= start:
                id, want = recent[number - start].id, recent[number - start].want
            else:
                if not first <= number < first + len(ids):
                    block = self._blocks[bisect_right(self._starts, number) - 1]
                    first, ids, records = block.start, block.ids.to_pylist(), block.unpack()
                id, record = ids[number - first], records[number - first]
                want = record if isinstance(record, str) else _subscription(id, record)
            found.ids.append(id)
            found.wants.append(want)
        return found

    def filter(self, number: int) -> Filter:
        """The filter of a subscription, from the cache if it is there."""
        known = self._filters.get(number)
        return self._filters.load(number, self[number]) if known is None else known

    def is_bare(self, number: int) -> bool:
        """Whether a subscription is known to have no subscriber and no metadata, without unpacking it."""
        start, recent = self._tail
        if number >= start:
            return recent[number - start].subscriber is None and not recent[number - start].metadata
        return self._blocks[bisect_right(self._starts, number) - 1].is_bare

    def _block(self, index: int) -> list[Record]:
        known = self._unpacked.get(index)
        if known is None:
            known = self._unpacked[index] = self._blocks[index].unpack()
            if len(self._unpacked) > _MAX_CACHED_BLOCKS:
                self._unpacked.popitem(last=False)
        return known

    def id_of(self, number: int) -> str:
        start, recent = self._tail
        if number >= start:
            return recent[number - start].id
        index = bisect_right(self._starts, number) - 1
        return self._ids(index)[number - self._starts[index]]

    def _ids(self, index: int) -> list[str]:
        known = self._listed.get(index)
        if known is None:
            known = self._listed[index] = self._blocks[index].ids.to_pylist()
        return known

    def numbers_of(self, id: str) -> Iterator[int]:
        """The numbers ever given to an id, latest first; all but one of them are of removed subscriptions."""
        start, recent = self._tail
        latest = self._recent_numbers.get(id)
        if latest is not None:
            yield latest
            # The dictionary has the latest number only; an id may have been removed and added again in the tail.
            yield from (start + at for at in range(latest - start - 1, -1, -1) if recent[at].id == id)
        wanted = hash_of(id)
        for run in reversed(self._runs):
            # Two ids may have one hash.
            yield from (number for number in run.find(wanted) if self.id_of(number) == id)

    def duplicates_in(self, ids: Sequence[str]) -> list[tuple[str, int]]:
        """The ids among many that have a number already, with it."""
        found = (
            [(id, self._recent_numbers[id]) for id in ids if id in self._recent_numbers] if self._recent_numbers else []
        )
        if not self._runs:
            return found
        hashes = IdHashRun.hash_all(ids)
        for run in self._runs:
            at = np.searchsorted(run.hashes, hashes)
            at[at == len(run.hashes)] = 0
            for index in np.flatnonzero(run.hashes[at] == hashes).tolist():
                id = ids[index]
                found += [(id, number) for number in run.find(int(hashes[index])) if self.id_of(number) == id]
        return found

    def names(self) -> pa.StringArray:
        """The ids of all numbers given out so far, as one Arrow array; made again only after additions."""
        start, recent = self._tail
        known = self._names
        if len(known) < start + len(recent):
            known = self._sealed_names(start)
            if recent:
                # A copy of the list: a writer may append meanwhile.
                known = pa.concat_arrays([known, pa.array([each.id for each in list(recent)], pa.string())])
            self._names = known
        return known

    def subscribers(self) -> pa.StringArray:
        """The subscribers of all numbers given out so far; made again after additions."""
        if len(self._subscribers) < len(self):
            wants = self.many(range(len(self))).wants
            found = [None if isinstance(want, str) else want.subscriber for want in wants]
            self._subscribers = pa.array(found, pa.string())
        return self._subscribers

    def metadata(self) -> Iterator[Mapping[str, Any]]:
        """The metadata of all numbers given out so far; without making the subscriptions, which costs far more."""
        start, recent = self._tail
        for block in list(self._blocks):
            if block.start < start:
                records = [""] * len(block.ids) if block.is_bare else block.unpack()
                yield from ({} if isinstance(record, str) else record[3] for record in records)
        yield from (each.metadata for each in list(recent))

    def _sealed_names(self, end: int) -> pa.StringArray:
        """The ids of the numbers in blocks, up to an end of one."""
        known = self._sealed
        if len(known) < end:
            new = [block.ids.cast(pa.string()) for block in list(self._blocks) if len(known) <= block.start < end]
            known = self._sealed = pa.concat_arrays([known, *new])
        return known

    def ids_of(self, numbers: Sequence[int]) -> list[str]:
        """The ids of many numbers, in no promised order."""
        if len(numbers) < _MIN_IDS_FOR_ARROW:
            return list(map(self.id_of, numbers))
        start, recent = self._tail
        # Numbers of the tail are beyond the Arrow array, which would have to be made again after each addition.
        sealed = np.array([number for number in numbers if number < start], np.int32)
        names = self._sealed_names(start).take(pa.array(sealed)).to_numpy(zero_copy_only=False).tolist()
        return [*names, *(recent[number - start].id for number in numbers if number >= start)]


@dataclass(frozen=True, slots=True)
class IdHashRun:
    """A sorted table from the hash of an id to its number."""

    hashes: Uint64s
    numbers: Int32s

    @classmethod
    def of(cls, ids: Sequence[str], first: int) -> IdHashRun:
        hashes = cls.hash_all(ids)
        order = np.argsort(hashes, kind="stable")
        return cls(hashes[order], (order + first).astype(np.int32))

    @staticmethod
    def hash_all(ids: Sequence[str]) -> Uint64s:
        digests = b"".join([blake2b(id.encode("utf-8", "surrogatepass"), digest_size=8).digest() for id in ids])
        return np.frombuffer(digests, dtype="<u8").astype(np.uint64)

    def find(self, wanted: int) -> list[int]:
        """Numbers with this hash, latest first."""
        hashes = self.hashes.data  # bisecting the buffer is far quicker than NumPy's search for one hash
        low = bisect_left(hashes, wanted)
        high = bisect_right(hashes, wanted, low)
        return sorted(self.numbers[low:high].tolist(), reverse=True) if high > low else []

    def merge(self, other: IdHashRun) -> IdHashRun:
        hashes = np.concatenate([self.hashes, other.hashes])
        order = np.argsort(hashes, kind="stable")
        return IdHashRun(hashes[order], np.concatenate([self.numbers, other.numbers])[order])

    @property
    def nbytes(self) -> int:
        return self.hashes.nbytes + self.numbers.nbytes


MAX_CACHED_TEXT_CHARS: Final = 1 << 21  # of all conditions in the filter cache
_MIN_COUNTED_CHARS: Final = 40  # that the shortest condition counts for


class FilterCache:
    """Filters by number, the oldest evicted first. Safe to use from many threads."""

    def __init__(self) -> None:
        self._filters: OrderedDict[int, tuple[Filter, int]] = OrderedDict()
        self._text = 0
        self._lock = threading.Lock()

    def get(self, number: int) -> Filter | None:
        found = self._filters.get(number)
        return None if found is None else found[0]

    def load(self, number: int, subscription: Subscription) -> Filter:
        """Parse the filter of a subscription that is not in the cache, and keep it."""
        where = subscription.where
        length = max(_MIN_COUNTED_CHARS, len(where if isinstance(where, str) else str(where)))
        made = subscription.filter
        with self._lock:
            # Parsed outside the lock, perhaps by two threads at once; the first one counts.
            if number not in self._filters:
                self._filters[number] = made, length
                self._text += length
            while self._text > MAX_CACHED_TEXT_CHARS:
                self._text -= self._filters.popitem(last=False)[1][1]
        return made
