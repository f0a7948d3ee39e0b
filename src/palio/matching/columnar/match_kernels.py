"""Kernels that match events against postings.

An event is a run of codes, each an axis and the slot of its value. For every code, the postings of that slot are
read: a tile of entries at a time is tested against the event's slots, and what passes is either reported at once or
put aside until its record has been checked. While one event is matched, the postings of the next are looked up and
prefetched; at a million subscriptions, waiting for memory is most of the work.
"""

from __future__ import annotations

from palio.matching.columnar.layout import (
    ESCAPE_PROGRAM,
    ESCAPE_RUN,
    ESCAPE_WIDE,
    ESCAPES,
    GROUPED,
    INDEX_ALWAYS,
    INDEX_ALWAYS_COUNT,
    INDEX_BLOCKS,
    INDEX_LEVEL_STARTS,
    INDEX_LEVELS,
    INDEX_PROGRAMS,
    INDEX_RECORDS,
    INDEX_RUNS,
    INDEX_SHIFTS,
    INDEX_STARTS,
    LAST,
    MATCH,
    MISSING,
    WORK_ENDS,
    WORK_EPOCH,
    WORK_EXACT,
    WORK_FOUND,
    WORK_NARROW,
    WORK_NARROW_MASK,
    WORK_OUT,
    WORK_OUT_ROOM,
    WORK_PENDING,
    WORK_PENDING_ROOM,
    WORK_QUEUE,
    WORK_QUEUE_ROOM,
    WORK_STAMPS,
    WORK_TODO,
    WORK_TODO_ROOM,
    WORK_TOMBSTONE_BITS,
    WORK_TOMBSTONES,
)
from palio.matching.columnar.native import (
    HAS_TABLE_LOOKUP,
    SMALL_TABLE_SLOTS,
    compiled,
    count_bits,
    equal,
    i8_at,
    i32_at,
    i64_at,
    inlined,
    lowest_bit,
    negative,
    nonzero_each,
    pack,
    prefetch,
    put_i32,
    put_i64,
    put_u16,
    u8_at,
    u16_at,
    u32_at,
    within,
    within_each,
    within_few,
)

_MIN_BINARY_SEARCH_POINTS = 64  # points from which on a binary search is shorter than a scan
_SLACK = 32  # a tile may write this much beyond what it found


@inlined
def program_holds(index: int, work: int, row: int) -> bool:
    """Run a program of jumps: each row tests one slot and says where to go on."""
    exact = i64_at(work, WORK_EXACT)
    first = i64_at(index, INDEX_PROGRAMS) + 20 * row
    target = 0
    while target >= 0:
        # A row is five int32: axis, low, high, the next row where the slot lies between them, and where it does not.
        # MATCH and FAIL are negative, and end the program.
        place = first + 20 * target
        slot = i32_at(exact, i32_at(place, 0))
        if i32_at(place, 1) <= slot <= i32_at(place, 2):
            target = i32_at(place, 3)
        else:
            target = i32_at(place, 4)
    return target == MATCH


@inlined
def run_holds(index: int, run: int, count: int, slot: int) -> bool:
    """Whether a slot lies in one of a sorted run of intervals."""
    runs = i64_at(index, INDEX_RUNS) + 8 * run
    low = 0
    while count > 1:
        half = count >> 1
        if i32_at(runs, 2 * (low + half)) <= slot:
            low += half
        count -= half
    return i32_at(runs, 2 * low) <= slot <= i32_at(runs, 2 * low + 1)


@inlined
def escape_holds(index: int, work: int, place: int) -> int:
    """Check one of the rarer conditions of a record; the place of the next one, or 0 where it fails."""
    kind = u16_at(place, 0) & ~LAST
    operand = i32_at(place + 2, 0)
    if kind == ESCAPE_PROGRAM:
        return place + 6 if program_holds(index, work, operand) else 0
    if kind == ESCAPE_WIDE or kind == ESCAPE_RUN:
        slot = i32_at(i64_at(work, WORK_EXACT), operand)
        if kind == ESCAPE_WIDE:
            holds = i32_at(place + 6, 0) <= slot <= i32_at(place + 10, 0)
        else:
            holds = run_holds(index, i32_at(place + 6, 0), i32_at(place + 10, 0), slot)
        return place + 14 if holds else 0
    # A stamp: only the first to come this way for an event passes.
    stamp = i64_at(work, WORK_STAMPS) + 8 * operand
    epoch = i64_at(work, WORK_EPOCH)
    if i64_at(stamp, 0) == epoch:
        return 0
    put_i64(stamp, 0, epoch)
    return place + 6


@inlined
def check_pending(index: int, work: int, pending: int, count: int, out: int, found: int) -> int:
    """Check the records put aside; report those that hold.

    One condition of every record at a time: whether it holds only moves on where the next one is written, so that
    there is nothing to guess.
    """
    records = i64_at(index, INDEX_RECORDS)
    exact = i64_at(work, WORK_EXACT)
    for which in range(count):
        prefetch(records - 2 * i32_at(pending, which) - 2)
    while count > 0:
        kept = 0
        for which in range(count):
            payload = i32_at(pending, which)
            place = records - 2 * payload - 2
            head = u16_at(place, 0)
            axis = head & ~LAST
            is_last = head >> 15
            if axis < ESCAPES:
                slot = i32_at(exact, axis)
                holds = (slot >= u16_at(place, 1)) & (slot <= u16_at(place, 2))
                following = place + 6
            else:
                following = escape_holds(index, work, place)
                holds = following != 0
                if not holds:
                    continue
            # Written in any case and counted only where the record ends here and holds: no branch to mispredict.
            put_i32(out, found, i32_at(following, 0))
            found += holds & is_last
            put_i32(pending, kept, ~((following - records) >> 1))
            kept += holds & ~is_last
        count = kept
    return found


@inlined
def report_or_check(index: int, work: int, pending: int, count: int, out: int, found: int) -> int:
    """Report the payloads put aside that are numbers; check the records of the others."""
    waiting = 0
    for place in range(0, count, 16):
        payloads = pending + 4 * place
        # A payload is the number to report or, negative, the place of a record to check.
        recorded = negative(payloads)
        direct = ~recorded & 0xFFFF
        if count - place < 16:
            # The lanes beyond the last payload hold what was there before.
            recorded &= (1 << (count - place)) - 1
            direct &= (1 << (count - place)) - 1
        pack(payloads, direct, out + 4 * found)
        pack(payloads, recorded, pending + 4 * waiting)
        found += count_bits(direct)
        waiting += count_bits(recorded)
    return check_pending(index, work, pending, waiting, out, found)


@inlined
def scan_few(block: int, count: int, narrow: int, pending: int, waiting: int) -> int:
    """Test the entries of a small posting, each against the slot on its own axis, where there are few axes."""
    axes = block + 4
    lows = axes + 2 * count
    highs = lows + 2 * count
    payloads = highs + 2 * count
    for place in range(0, count, 32):
        mask = within_few(axes + 2 * place, lows + 2 * place, highs + 2 * place, narrow)
        # `pack` moves sixteen payloads at a time, so that the mask of 32 entries is used in two halves.
        mask &= (1 << min(count - place, 32)) - 1
        pack(payloads + 4 * place, mask & 0xFFFF, pending + 4 * waiting)
        waiting += count_bits(mask & 0xFFFF)
        if count - place > 16:
            pack(payloads + 4 * place + 64, mask >> 16, pending + 4 * waiting)
            waiting += count_bits(mask >> 16)
    return waiting


@inlined
def scan_flat(block: int, count: int, narrow: int, mask_of_axes: int, pending: int, waiting: int) -> int:
    """Test the entries of a small posting, each against the slot on its own axis."""
    axes = block + 4
    lows = axes + 2 * count
    highs = lows + 2 * count
    payloads = highs + 2 * count
    for place in range(0, count, 16):
        mask = within_each(axes + 2 * place, lows + 2 * place, highs + 2 * place, narrow, mask_of_axes)
        if count - place < 16:
            mask &= (1 << (count - place)) - 1
        if mask != 0:
            pack(payloads + 4 * place, mask, pending + 4 * waiting)
            waiting += count_bits(mask)
    return waiting


@inlined
def scan_ranges(lows: int, count: int, slot: int, pending: int, waiting: int) -> int:
    """Test the entries of a group, all against one slot; the lows are sorted."""
    highs = lows + 2 * count
    payloads = highs + 2 * count
    for place in range(0, count, 16):
        # Sorted by low: no later interval can contain the slot.
        if u16_at(lows, place) > slot:
            break
        mask = within(lows + 2 * place, highs + 2 * place, slot)
        if count - place < 16:
            mask &= (1 << (count - place)) - 1
        if mask != 0:
            pack(payloads + 4 * place, mask, pending + 4 * waiting)
            waiting += count_bits(mask)
    return waiting


@inlined
def scan_points(slots: int, count: int, slot: int, pending: int, waiting: int) -> int:
    """Find the entries of a group whose slot is the event's; the slots are sorted."""
    payloads = slots + 2 * count
    place = 0
    if count > _MIN_BINARY_SEARCH_POINTS:
        rest = count
        while rest > 1:
            half = rest >> 1
            if u16_at(slots, place + half - 1) < slot:
                place += half
            rest -= half
    while place < count and u16_at(slots, place) <= slot:
        mask = equal(slots + 2 * place, slot)
        if count - place < 32:
            mask &= (1 << (count - place)) - 1
        while mask != 0:
            put_i32(pending, waiting, i32_at(payloads, place + lowest_bit(mask)))
            waiting += 1
            mask &= mask - 1
        place += 32
    return waiting


@inlined
def queue_groups(block: int, narrow: int, mask_of_axes: int, queue: int, queued: int) -> int:
    """List the groups of a large posting whose axes the event has, and prefetch them."""
    many = u16_at(block, 1)
    axes = block + 8
    places = axes + 2 * (many + (many & 1))
    for first in range(0, many, 16):
        mask = nonzero_each(axes + 2 * first, narrow, mask_of_axes)
        if many - first < 16:
            mask &= (1 << (many - first)) - 1
        while mask != 0:
            group = first + lowest_bit(mask)
            mask &= mask - 1
            # The lowest bit of a place says whether the group is one of points: places are even.
            place = u32_at(places, group)
            start = block + 2 * (place & ~1)
            prefetch(start)
            prefetch(start + 64)
            prefetch(start + 128)
            entry = queue + 24 * queued
            put_i64(entry, 0, start)
            put_i64(entry, 1, u32_at(places, group + 1) - (place & ~1) & ~1 | (place & 1))
            put_i64(entry, 2, u16_at(narrow, u16_at(axes, group)))
            queued += 1
    return queued


@inlined
def find_postings(index: int, codes: int, count: int, todo: int) -> int:
    """List the blocks of the postings that an event must scan, and prefetch them."""
    level_starts = i64_at(index, INDEX_LEVEL_STARTS)
    levels = i64_at(index, INDEX_LEVELS)
    starts = i64_at(index, INDEX_STARTS)
    blocks = i64_at(index, INDEX_BLOCKS)
    many = 0
    for which in range(count):
        code = i64_at(codes, which)
        axis = code >> 32
        slot = code & 0xFFFFFFFF
        for level in range(i32_at(level_starts, axis), i32_at(level_starts, axis + 1)):
            place = i64_at(levels, 2 * level + 1) + (slot >> i64_at(levels, 2 * level))
            start = i32_at(starts, place)
            block = blocks + 4 * start
            prefetch(block)
            prefetch(block + 64)
            prefetch(block + 128)
            prefetch(block + 192)
            # An empty posting is written as well, and then over: whether one is empty cannot be guessed.
            put_i64(todo, many, block)
            many += start != i32_at(starts, place + 1)
    return many


@inlined
def set_slots(index: int, work: int, codes: int, count: int) -> None:
    narrow = i64_at(work, WORK_NARROW)
    exact = i64_at(work, WORK_EXACT)
    shifts = i64_at(index, INDEX_SHIFTS)
    for which in range(count):
        code = i64_at(codes, which)
        axis = code >> 32
        slot = code & 0xFFFFFFFF
        # `narrow` has 16 bits: the upper bits of the slot, plus 1, because 0 is an axis that the event lacks. Its first
        # entry stands for NO_AXIS, so that axes are counted from 1.
        put_i32(exact, axis, slot)
        put_u16(narrow, axis + 1, (slot >> i8_at(shifts, axis)) + 1)


@inlined
def clear_slots(work: int, codes: int, count: int) -> None:
    narrow = i64_at(work, WORK_NARROW)
    exact = i64_at(work, WORK_EXACT)
    for which in range(count):
        axis = i64_at(codes, which) >> 32
        put_i32(exact, axis, MISSING)
        put_u16(narrow, axis + 1, 0)


@inlined
def check_unfiled(index: int, work: int, out: int, room: int, found: int) -> int:
    """Check the rows that are filed under no condition, as for every event."""
    pending = i64_at(work, WORK_PENDING)
    always = i64_at(index, INDEX_ALWAYS)
    count = i64_at(index, INDEX_ALWAYS_COUNT)
    which = 0
    while which < count:
        many = min(count - which, min(i64_at(work, WORK_PENDING_ROOM), room - found) - _SLACK)
        if many <= 0:
            return -1
        for place in range(many):
            put_i32(pending, place, i32_at(always, which + place))
        found = report_or_check(index, work, pending, many, out, found)
        which += many
    return found


@inlined
def scan_postings(index: int, work: int, todo: int, many: int, out: int, room: int, found: int) -> int:
    """Match the event whose slots are set; how many numbers there are then, or -1 where there is no room for them."""
    narrow = i64_at(work, WORK_NARROW)
    mask_of_axes = i64_at(work, WORK_NARROW_MASK)
    pending = i64_at(work, WORK_PENDING)
    queue = i64_at(work, WORK_QUEUE)
    are_few = HAS_TABLE_LOOKUP and mask_of_axes < SMALL_TABLE_SLOTS
    # A new epoch makes all stamps of former events stale at once; none is cleared.
    put_i64(work, WORK_EPOCH, i64_at(work, WORK_EPOCH) + 1)
    which = 0
    while which < many:
        # As many blocks at a time as there is room for, which is nearly always all of them. Large ones are only looked
        # through: their groups are prefetched, and arrive from memory while the others are read.
        first = which
        rest = min(i64_at(work, WORK_PENDING_ROOM), room - found) - _SLACK
        free = i64_at(work, WORK_QUEUE_ROOM)
        queued = 0
        waiting = 0
        while which < many:
            block = i64_at(todo, which)
            count = u16_at(block, 0)
            if count != GROUPED:
                rest -= count
                if rest < 0:
                    break
                if are_few:
                    waiting = scan_few(block, count, narrow, pending, waiting)
                else:
                    waiting = scan_flat(block, count, narrow, mask_of_axes, pending, waiting)
            else:
                rest -= u32_at(block, 1)
                free -= u16_at(block, 1)
                if rest < 0 or free < 0:
                    break
                queued = queue_groups(block, narrow, mask_of_axes, queue, queued)
            which += 1
        # Not even one block fits: the caller makes room and calls again for this row.
        if which == first:
            return -1
        for entry in range(queue, queue + 24 * queued, 24):
            group = i64_at(entry, 0)
            words = i64_at(entry, 1)
            slot = i64_at(entry, 2)
            # A point takes three words (slot, payload), a range four (low, high, payload).
            if words & 1:
                waiting = scan_points(group, words // 3, slot, pending, waiting)
            else:
                waiting = scan_ranges(group, words >> 2, slot, pending, waiting)
        found = report_or_check(index, work, pending, waiting, out, found)
    return check_unfiled(index, work, out, room, found)


@inlined
def drop_tombstoned(work: int, out: int, first: int, found: int) -> int:
    """Drop the numbers with tombstones from `first` on, keeping the order of the others."""
    tombstones = i64_at(work, WORK_TOMBSTONES)
    if tombstones == 0:
        return found
    bits = i64_at(work, WORK_TOMBSTONE_BITS)
    kept = first
    for which in range(first, found):
        number = i32_at(out, which)
        put_i32(out, kept, number)
        # A number beyond the bitmap is newer than it, and alive.
        if number >= bits or (u8_at(tombstones, number >> 3) >> (number & 7)) & 1 == 0:
            kept += 1
    return kept


@compiled
def match_rows(index: int, work: int, codes: int, starts: int, stride: int, lengths: int, row: int, rows: int) -> int:
    """Match rows of codes, from `row` on; return the row at which the room for numbers ended, or `rows`.

    A row's codes are `codes[starts[r]:starts[r + 1]]`; where there are no starts, `lengths[r]` codes from `r * stride`
    on; where there are no lengths either, the first `stride` ones.
    """
    todo = i64_at(work, WORK_TODO)
    todo_room = 8 * i64_at(work, WORK_TODO_ROOM)
    out = i64_at(work, WORK_OUT)
    room = i64_at(work, WORK_OUT_ROOM)
    ends = i64_at(work, WORK_ENDS)
    found = i64_at(work, WORK_FOUND)
    many = 0
    mine = 0
    length = 0
    for ahead in range(row, rows + 1):
        # Look one row ahead, then match the row before.
        next_many = 0
        next_mine = 0
        next_length = 0
        if ahead < rows:
            begin = ahead * stride
            next_length = stride
            if starts != 0:
                begin = i64_at(starts, ahead)
                next_length = i64_at(starts, ahead + 1) - begin
            elif lengths != 0:
                next_length = i32_at(lengths, ahead)
            next_mine = codes + 8 * begin
            # The two halves of `todo` take turns: one is filled while the other is matched.
            next_many = find_postings(index, next_mine, next_length, todo + (ahead & 1) * todo_room)
        if ahead > row:
            set_slots(index, work, mine, length)
            result = scan_postings(index, work, todo + ((ahead - 1) & 1) * todo_room, many, out, room, found)
            clear_slots(work, mine, length)
            if result < 0:
                put_i64(work, WORK_FOUND, found)
                return ahead - 1
            found = drop_tombstoned(work, out, found, result)
            put_i64(ends, ahead - 1, found)
        many = next_many
        mine = next_mine
        length = next_length
    put_i64(work, WORK_FOUND, found)
    return rows
