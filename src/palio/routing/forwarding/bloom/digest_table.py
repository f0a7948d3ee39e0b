"""Digest table: from a batch of digests to their interfaces, the data-parallel form of the sbstree (Jerzak §5.6).

What the source moves to a graphics processor, tests of integers without strings or recursion, is one compiled kernel
here. Rejected: the test of every filter against every event as rows of a bit matrix, which reads all filters for every
event; in buckets by their rarest bits, an event reads a few dozen of a hundred thousand.

Equal bits of one interface are one entry with a count. Adding and removing cost a step for each bit; memory grows with
the filters, and not with the width of the digests.
"""

from __future__ import annotations

import threading
from array import array
from collections import Counter
from collections.abc import Sequence
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from palio.matching.columnar.native import address_of
from palio.routing.forwarding.bloom import digest_kernels
from palio.routing.forwarding.bloom.digest import MAX_TWO_BYTE_WIDTH, Bits, index_type

Ints32 = npt.NDArray[np.int32]

_INITIAL_ENTRIES: Final = 8
_ENTRY_FIELDS: Final = ("next", "bucket", "start", "count", "slot")
# Marks of a slot; the kernel tests only slots without one.
_MATCHED: Final = 1
_EXCLUDED: Final = 2
_MAX_CACHED_INTERFACE_SETS: Final = 1024


class _Scratch(threading.local):
    """Bitmaps of zeros by width, one of each per thread: thousands of brokers in a simulation share them."""

    def __init__(self) -> None:
        self._bitmaps: dict[int, tuple[array[int], int]] = {}

    def bitmap(self, width: int) -> int:
        """The address of a bitmap; kernels that set bits in it clear them again."""
        known = self._bitmaps.get(width)
        if known is None:
            made = array("q", bytes((width + 63) // 64 * 8))
            known = self._bitmaps[width] = made, made.buffer_info()[0]
        return known[1]


_scratch: Final = _Scratch()


class DigestTable:
    """The bits of filters by interface, for digests of one width."""

    def __init__(self, width: int) -> None:
        self._width = width
        self._entries: dict[tuple[int, Bits], int] = {}
        self._uses: Counter[tuple[int, Bits]] = Counter()
        self._free: dict[int, list[int]] = {}  # removed entries to reuse, by number of bits
        self._made = 0  # entries that were ever made
        self._slots: dict[int, int] = {}  # by interface
        self._interfaces: list[int] = []  # by slot
        self._always = Counter[int]()  # filters without bits, by slot: every digest satisfies them
        self._interface_sets: dict[bytes, tuple[int, ...]] = {}  # by marks; few sets of neighbours occur
        self._fields = {name: np.zeros(_INITIAL_ENTRIES, np.int32) for name in _ENTRY_FIELDS}
        self._bits: Ints32 = np.zeros(4 * _INITIAL_ENTRIES, np.int32)
        self._bits_used = 0
        self._rehash(_INITIAL_ENTRIES)
        self.operations = 0
        """Filters that were tested, over all digests."""

    def __len__(self) -> int:
        return self._uses.total()

    def add(self, interface: int, bits: Bits) -> None:
        """Add a conjunction of a filter that came by an interface."""
        self._uses[interface, bits] += 1
        if self._uses[interface, bits] > 1:
            return
        slot = self._slot(interface)
        if not bits:
            self._always[slot] += 1
            return
        entry = self._new_entry(bits)
        self._fields["slot"][entry] = slot
        self._entries[interface, bits] = entry
        digest_kernels.link(self._address, entry, entry + 1)
        # Fourfold growth: amortised, an entry is rehashed less than once.
        if len(self._entries) > len(self._heads):
            self._rehash(4 * len(self._heads))

    def remove(self, interface: int, bits: Bits) -> None:
        """Undo an `add`; `KeyError` where there was none."""
        if (interface, bits) not in self._uses:
            raise KeyError((interface, bits))
        self._uses[interface, bits] -= 1
        if self._uses[interface, bits]:
            return
        del self._uses[interface, bits]
        if not bits:
            self._always -= Counter({self._slots[interface]: 1})
            return
        entry = self._entries.pop((interface, bits))
        digest_kernels.unlink(self._address, entry)
        self._fields["bucket"][entry] = -1
        self._free.setdefault(len(bits), []).append(entry)

    def match(self, bits: Bits) -> set[int]:
        """The interfaces with a filter all of whose bits are set."""
        packed = np.array(bits, index_type(self._width)).tobytes()
        return set(self.match_batch([0, len(bits)], packed, [None])[0])

    def match_batch(
        self, starts: Sequence[int], packed: bytes, arrivals: Sequence[int | None]
    ) -> list[tuple[int, ...]]:
        """The interfaces that each of many digests satisfies, ascending, without the one it came by.

        The bits of digest `i` are those from `starts[i]` up to `starts[i + 1]`, packed as in headers.
        """
        rows, slots = len(arrivals), len(self._interfaces)
        if not slots:
            return [()] * rows
        # `array`, not NumPy, which takes microseconds to tell the address of an array.
        found = array("B", bytes(rows * slots))
        for slot in self._always:
            for row in range(rows):
                found[row * slots + slot] = _MATCHED
        # After the unconditional ones: the interface of arrival must win.
        for row, arrival in enumerate(arrivals):
            if arrival in self._slots:
                found[row * slots + self._slots[arrival]] = _EXCLUDED
        bounds, bits = array("q", starts), array("B", packed)
        self.operations += digest_kernels.match_digests(
            self._address,
            bits.buffer_info()[0],
            int(self._width > MAX_TWO_BYTE_WIDTH),
            bounds.buffer_info()[0],
            rows,
            _scratch.bitmap(self._width),
            found.buffer_info()[0],
            slots,
        )
        marks = found.tobytes()
        return [self._interface_set(marks[at : at + slots]) for at in range(0, rows * slots, slots)]

    def _interface_set(self, marks: bytes) -> tuple[int, ...]:
        """The interfaces of the slots that are marked as matched."""
        known = self._interface_sets.get(marks)
        if known is None:
            known = tuple(sorted(self._interfaces[slot] for slot, mark in enumerate(marks) if mark == _MATCHED))
            if len(self._interface_sets) >= _MAX_CACHED_INTERFACE_SETS:
                self._interface_sets.clear()
            self._interface_sets[marks] = known
        return known

    def _slot(self, interface: int) -> int:
        # Slots are never given back: links of a broker are few, and one that comes again gets its slot.
        slot = self._slots.get(interface)
        if slot is None:
            slot = self._slots[interface] = len(self._interfaces)
            self._interfaces.append(interface)
            self._interface_sets.clear()
        return slot

    def _new_entry(self, bits: Bits) -> int:
        """A new or reused entry with these bits."""
        # By number of bits: an entry that is reused keeps its place in the array of bits.
        free = self._free.get(len(bits))
        if free:
            entry = free.pop()
            start = int(self._fields["start"][entry])
        else:
            entry, start = self._made, self._bits_used
            self._made += 1
            self._bits_used += len(bits)
            if self._made > len(self._fields["next"]) or self._bits_used > len(self._bits):
                self._grow()
            self._fields["start"][entry], self._fields["count"][entry] = start, len(bits)
        self._bits[start : start + len(bits)] = bits
        return entry

    def _grow(self) -> None:
        """Enlarge the arrays to hold all entries and bits."""
        if self._made > len(self._fields["next"]):
            self._fields = {name: _doubled(values) for name, values in self._fields.items()}
        while self._bits_used > len(self._bits):
            self._bits = _doubled(self._bits)
        self._publish_addresses()

    def _rehash(self, buckets: int) -> None:
        """Rehash all entries into a number of buckets, a power of two."""
        self._heads: Ints32 = np.full(buckets, -1, np.int32)
        self._lengths: Ints32 = np.zeros(buckets, np.int32)
        self._publish_addresses()
        for entry in self._entries.values():
            digest_kernels.link(self._address, entry, entry + 1)

    def _publish_addresses(self) -> None:
        """Write the addresses of all arrays where the kernels read them; to be called whenever an array is replaced."""
        own = self._fields
        addresses: dict[int, Any] = {
            digest_kernels.HEADS: address_of(self._heads),
            digest_kernels.MASK: len(self._heads) - 1,
            digest_kernels.LENGTHS: address_of(self._lengths),
            digest_kernels.NEXT: address_of(own["next"]),
            digest_kernels.BUCKETS: address_of(own["bucket"]),
            digest_kernels.STARTS: address_of(own["start"]),
            digest_kernels.COUNTS: address_of(own["count"]),
            digest_kernels.SLOTS: address_of(own["slot"]),
            digest_kernels.BITS: address_of(self._bits),
        }
        self._addresses = np.array([addresses[field] for field in range(digest_kernels.FIELDS)], np.int64)
        self._address = address_of(self._addresses)


def _doubled(values: Ints32) -> Ints32:
    return np.concatenate([values, np.zeros(len(values), np.int32)])
