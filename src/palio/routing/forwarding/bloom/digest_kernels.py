"""Kernels of Bloom forwarding: test digests against filters, and gather the digests of events.

An entry is the bits of a filter and the slot of its interface. It is in the bucket of one of its bits, the shortest at
the time, so that an event reads the buckets of its own bits only, and an entry is read for one bit and not for every
popular predicate it has. The other bits are tested in a bitmap of the event's.
"""

from __future__ import annotations

from typing import NamedTuple

from palio.matching.columnar.native import (
    compiled,
    i32_at,
    i64_at,
    inlined,
    lowest_bit,
    put_i32,
    put_i64,
    put_u8,
    u8_at,
    u16_at,
    u32_at,
    wrapped,
)

# Fields of a `DigestTable` for the kernels: addresses, and sizes, in one array of int64.
HEADS, MASK, LENGTHS, NEXT, BUCKETS, STARTS, COUNTS, SLOTS, BITS, FIELDS = range(10)


@compiled
def link(table: int, first: int, last: int) -> None:
    """Put the entries in [first, last) each into the shortest of its buckets; those without bits into none."""
    heads, lengths, mask = i64_at(table, HEADS), i64_at(table, LENGTHS), i64_at(table, MASK)
    starts, counts, bits = i64_at(table, STARTS), i64_at(table, COUNTS), i64_at(table, BITS)
    for entry in range(first, last):
        start = i32_at(starts, entry)
        best = -1
        for at in range(start, start + i32_at(counts, entry)):
            bucket = i32_at(bits, at) & mask
            if best < 0 or i32_at(lengths, bucket) < i32_at(lengths, best):
                best = bucket
        put_i32(i64_at(table, BUCKETS), entry, best)
        if best >= 0:
            put_i32(i64_at(table, NEXT), entry, i32_at(heads, best))
            put_i32(heads, best, entry)
            put_i32(lengths, best, i32_at(lengths, best) + 1)


@compiled
def unlink(table: int, entry: int) -> None:
    """Remove an entry from its bucket."""
    heads, following, lengths = i64_at(table, HEADS), i64_at(table, NEXT), i64_at(table, LENGTHS)
    bucket = i32_at(i64_at(table, BUCKETS), entry)
    put_i32(lengths, bucket, i32_at(lengths, bucket) - 1)
    before = i32_at(heads, bucket)
    if before == entry:
        put_i32(heads, bucket, i32_at(following, entry))
        return
    while i32_at(following, before) != entry:
        before = i32_at(following, before)
    put_i32(following, before, i32_at(following, entry))


@inlined
def _index(bits: int, at: int, is_wide: int) -> int:
    return u32_at(bits, at) if is_wide else u16_at(bits, at)


@compiled
def match_digests(
    table: int, bits: int, is_wide: int, starts: int, rows: int, present: int, found: int, slots: int
) -> int:
    """For each row of bits, mark the slots of the entries it satisfies; marked slots are not tested again.

    Indices of bits have four bytes where they are wide, else two. `present` is a bitmap of zeros as wide as the
    digests, and is left so. Returns how many entries were tested.
    """
    heads, mask, following = i64_at(table, HEADS), i64_at(table, MASK), i64_at(table, NEXT)
    own_starts, own_counts, own_bits = i64_at(table, STARTS), i64_at(table, COUNTS), i64_at(table, BITS)
    owners = i64_at(table, SLOTS)
    tests = 0
    for row in range(rows):
        low, high = i64_at(starts, row), i64_at(starts, row + 1)
        for at in range(low, high):
            bit = _index(bits, at, is_wide)
            put_i64(present, bit >> 6, i64_at(present, bit >> 6) | (1 << (bit & 63)))
        # Two bits of a digest may share a bucket: its entries are then read twice, and marked slots skipped.
        for at in range(low, high):
            entry = i32_at(heads, _index(bits, at, is_wide) & mask)
            while entry >= 0:
                place = row * slots + i32_at(owners, entry)
                if u8_at(found, place) == 0:
                    tests += 1
                    own = i32_at(own_starts, entry)
                    end = own + i32_at(own_counts, entry)
                    while own < end:
                        bit = i32_at(own_bits, own)
                        if (i64_at(present, bit >> 6) >> (bit & 63)) & 1 == 0:
                            break
                        own += 1
                    if own == end:
                        put_u8(found, place, 1)
                entry = i32_at(following, entry)
        # Clear the words that were set, not the whole bitmap, which is far wider than a digest.
        for at in range(low, high):
            put_i64(present, _index(bits, at, is_wide) >> 6, 0)
    return tests


class Matches(NamedTuple):
    """Matches of events and predicates, ascending by row."""

    rows: int  # address of int64
    numbers: int  # address of int32
    length: int
    events: int


class PredicateBits(NamedTuple):
    """The bits of all predicates, `hashes` of them for each number."""

    bits: int  # address of int32
    hashes: int


@compiled
def gather_digests(
    packed_matches: tuple[int, ...], packed_bits: tuple[int, ...], present: int, words: int, starts: int, bits: int
) -> int:
    """Write the bits of each event's predicates, ascending and distinct; returns how many there are in all.

    `present` is a bitmap of zeros, of `words` words, and is left so. Writes where the bits of each event start to
    `starts`, with one start more at the end. The tables travel as plain tuples: Numba unboxes them faster.
    """
    rows, numbers, count, last = Matches(*packed_matches)
    own, hashes = PredicateBits(*packed_bits)
    at = made = 0
    for row in range(last):
        put_i64(starts, row, made)
        first = at
        while at < count and i64_at(rows, at) == row:
            base = i32_at(numbers, at) * hashes
            for place in range(base, base + hashes):
                bit = i32_at(own, place)
                put_i64(present, bit >> 6, i64_at(present, bit >> 6) | (1 << (bit & 63)))
            at += 1
        # Reading the bitmap word by word sorts the bits and drops duplicates; it is cleared on the way.
        if at > first:
            for word in range(words):
                left = i64_at(present, word)
                if left != 0:
                    put_i64(present, word, 0)
                    while left != 0:
                        put_i32(bits, made, (word << 6) + lowest_bit(left))
                        made += 1
                        # Wrapped for the interpreter: with bit 63 alone its number would never become 0.
                        left = wrapped(left & (left - 1))
    put_i64(starts, last, made)
    return made
