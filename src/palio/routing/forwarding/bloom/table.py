"""From many digests to their interfaces at once: the data-parallel form of the sbstree (Jerzak §5.6).

What the source moves to a graphics processor, tests of integers without strings or recursion, is one compiled kernel
here. Rejected: the test of every filter against every event as rows of a bit matrix, which reads all filters for every
event; filed by their rarest bits, an event reads a few dozen of a hundred thousand.

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

from palio.matching.columnar.axes import address_of
from palio.routing.forwarding.bloom import kernels
from palio.routing.forwarding.bloom.bits import Bits
from palio.routing.forwarding.bloom.shape import SHORT, index_type

Ints32 = npt.NDArray[np.int32]

_FIRST_ROOM: Final = 8
_PER_ENTRY: Final = ("next", "bucket", "start", "count", "slot")
_WANTED: Final = 1
_NOT_ASKED: Final = 2
_MOST_REMEMBERED: Final = 1024


class _Scratch(threading.local):
    """Bitmaps of zeros by width, one of each for a thread: a broker need not have its own."""

    def __init__(self) -> None:
        self._bitmaps: dict[int, tuple[array[int], int]] = {}

    def bitmap(self, width: int) -> int:
        """Where a bitmap is; who sets bits in it clears them again."""
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
        self._free: dict[int, list[int]] = {}  # entries to be used again, by how many bits they have room for
        self._made = 0
        self._slots: dict[int, int] = {}
        self._interfaces: list[int] = []
        self._always = Counter[int]()  # how many filters of a slot want everything
        self._answers: dict[bytes, tuple[int, ...]] = {}
        self._own = {name: np.zeros(_FIRST_ROOM, np.int32) for name in _PER_ENTRY}
        self._bits: Ints32 = np.zeros(4 * _FIRST_ROOM, np.int32)
        self._bits_used = 0
        self._bucket_room(_FIRST_ROOM)
        self.operations = 0
        """Filters that were tested, over all digests."""

    def __len__(self) -> int:
        return self._uses.total()

    def add(self, interface: int, bits: Bits) -> None:
        """File a conjunction of a filter that came by an interface."""
        self._uses[interface, bits] += 1
        if self._uses[interface, bits] > 1:
            return
        slot = self._slot(interface)
        if not bits:
            self._always[slot] += 1
            return
        entry = self._entry(bits)
        self._own["slot"][entry] = slot
        self._entries[interface, bits] = entry
        kernels.link(self._address, entry, entry + 1)
        if len(self._entries) > len(self._heads):
            self._bucket_room(4 * len(self._heads))

    def remove(self, interface: int, bits: Bits) -> None:
        """Take out what was added so; `KeyError` where it was not."""
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
        kernels.unlink(self._address, entry)
        self._own["bucket"][entry] = -1
        self._free.setdefault(len(bits), []).append(entry)

    def match(self, bits: Bits) -> set[int]:
        """The interfaces with a filter all of whose bits are set."""
        packed = np.array(bits, index_type(self._width)).tobytes()
        return set(self.match_batch([0, len(bits)], packed, [None])[0])

    def match_batch(
        self, starts: Sequence[int], packed: bytes, arrivals: Sequence[int | None]
    ) -> list[tuple[int, ...]]:
        """The interfaces that want each of many digests, but for the one it came by, in order.

        The bits of digest `i` are those from `starts[i]` up to `starts[i + 1]`, packed as headers have them.
        """
        rows, slots = len(arrivals), len(self._interfaces)
        if not slots:
            return [()] * rows
        # Not of NumPy, which takes microseconds to say where an array is.
        found = array("B", bytes(rows * slots))
        for slot in self._always:
            for row in range(rows):
                found[row * slots + slot] = _WANTED
        for row, arrival in enumerate(arrivals):
            if arrival in self._slots:
                found[row * slots + self._slots[arrival]] = _NOT_ASKED
        bounds, bits = array("q", starts), array("B", packed)
        self.operations += kernels.match_digests(
            self._address,
            bits.buffer_info()[0],
            int(self._width > SHORT),
            bounds.buffer_info()[0],
            rows,
            _scratch.bitmap(self._width),
            found.buffer_info()[0],
            slots,
        )
        marks = found.tobytes()
        return [self._answer(marks[at : at + slots]) for at in range(0, rows * slots, slots)]

    def _answer(self, marks: bytes) -> tuple[int, ...]:
        """The interfaces of the slots that are marked: few sets of neighbours occur, so they are remembered."""
        known = self._answers.get(marks)
        if known is None:
            known = tuple(sorted(self._interfaces[slot] for slot, mark in enumerate(marks) if mark == _WANTED))
            if len(self._answers) >= _MOST_REMEMBERED:
                self._answers.clear()
            self._answers[marks] = known
        return known

    def _slot(self, interface: int) -> int:
        slot = self._slots.get(interface)
        if slot is None:
            slot = self._slots[interface] = len(self._interfaces)
            self._interfaces.append(interface)
            self._answers.clear()
        return slot

    def _entry(self, bits: Bits) -> int:
        """Room for an entry with these bits."""
        free = self._free.get(len(bits))
        if free:
            entry = free.pop()
            start = int(self._own["start"][entry])
        else:
            entry, start = self._made, self._bits_used
            self._made += 1
            self._bits_used += len(bits)
            if self._made > len(self._own["next"]) or self._bits_used > len(self._bits):
                self._grow()
            self._own["start"][entry], self._own["count"][entry] = start, len(bits)
        self._bits[start : start + len(bits)] = bits
        return entry

    def _grow(self) -> None:
        """Have room for all entries and bits that were given out."""
        if self._made > len(self._own["next"]):
            self._own = {name: _doubled(values) for name, values in self._own.items()}
        while self._bits_used > len(self._bits):
            self._bits = _doubled(self._bits)
        self._tell_kernels()

    def _bucket_room(self, room: int) -> None:
        """Have so many buckets, with all entries filed in them."""
        self._heads: Ints32 = np.full(room, -1, np.int32)
        self._lengths: Ints32 = np.zeros(room, np.int32)
        self._tell_kernels()
        for entry in self._entries.values():
            kernels.link(self._address, entry, entry + 1)

    def _tell_kernels(self) -> None:
        own = self._own
        facts: dict[int, Any] = {
            kernels.HEADS: address_of(self._heads),
            kernels.MASK: len(self._heads) - 1,
            kernels.LENGTHS: address_of(self._lengths),
            kernels.NEXT: address_of(own["next"]),
            kernels.BUCKETS: address_of(own["bucket"]),
            kernels.STARTS: address_of(own["start"]),
            kernels.COUNTS: address_of(own["count"]),
            kernels.SLOTS: address_of(own["slot"]),
            kernels.BITS: address_of(self._bits),
        }
        self._facts = np.array([facts[field] for field in range(kernels.FIELDS)], np.int64)
        self._address = address_of(self._facts)


def _doubled(values: Ints32) -> Ints32:
    return np.concatenate([values, np.zeros(len(values), np.int32)])
