"""Kernel that adds a constant to all numbers in the postings of a segment.

Indexes that were built apart number their subscriptions from 0 on each. Put together, the numbers of the second one
begin where those of the first one end. Everything else in a segment, axes and slots, does not depend on the numbers, so
one pass over blocks and records takes the place of building the segment again.
"""

from __future__ import annotations

from palio.matching.columnar.array_types import Int32s, Uint16s
from palio.matching.columnar.layout import ESCAPE_RUN, ESCAPE_WIDE, GROUPED, LAST
from palio.matching.columnar.native import compiled_for_building, inlined


@inlined
def get_long(words: Uint16s, place: int) -> int:
    return int(words[place]) | int(words[place + 1]) << 16


@inlined
def add_to_payloads(blocks: Uint16s, first: int, count: int, more: int) -> None:
    """Change the payloads that are numbers; the complement of a record's place is negative, and stays."""
    for index in range(count):
        place = first + 2 * index
        if blocks[place + 1] & 0x8000 == 0:
            number = get_long(blocks, place) + more
            blocks[place] = number & 0xFFFF
            blocks[place + 1] = number >> 16


@compiled_for_building
def renumber_blocks(starts: Int32s, blocks: Uint16s, more: int) -> None:
    """Add to every number in the blocks of postings."""
    for posting in range(len(starts) - 1):
        if starts[posting] == starts[posting + 1]:
            continue
        block = 2 * starts[posting]
        if blocks[block] != GROUPED:
            count = int(blocks[block])
            add_to_payloads(blocks, block + 2 + 3 * count, count, more)
            continue
        groups = int(blocks[block + 1])
        places = block + 4 + groups + (groups & 1)
        for group in range(groups):
            marked = get_long(blocks, places + 2 * group)
            first = block + (marked & ~1)
            end = block + (get_long(blocks, places + 2 * group + 2) & ~1)
            runs = 1 if marked & 1 else 2  # points have one slot each, ranges two
            # A word of padding behind a group is less than an entry.
            count = (end - first) // (runs + 2)
            add_to_payloads(blocks, first + runs * count, count, more)


@compiled_for_building
def renumber_records(records: Uint16s, more: int) -> None:
    """Add to the number at the end of every record."""
    place = 0
    while place < len(records):
        is_last = False
        while not is_last:
            word = int(records[place])
            is_last = word & LAST != 0
            kind = word & ~LAST
            place += 7 if kind in (ESCAPE_WIDE, ESCAPE_RUN) else 3
        number = get_long(records, place) + more
        records[place] = number & 0xFFFF
        records[place + 1] = number >> 16
        place += 2
