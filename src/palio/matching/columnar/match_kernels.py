"""Kernels that match events against postings.

An event is a run of codes, each an axis and the slot of its value. For every code, the postings of that slot are
read: a tile of entries at a time is tested against the event's slots, and what passes is put aside. While one event is
scanned, the postings of the next are looked up and prefetched; at a million subscriptions, waiting for memory is most
of the work.

Few entries pass for one event, and a loop over six of them takes longer to leave, because its end is mispredicted, than
to run. So the entries of a group of events are checked together, each with a tag that says whose it is, and the numbers
are sorted by event afterwards. A group is one event where events have many axes, whose slots would fill the caches; and
where rows have stamps, which tell one event from the next.
"""

from __future__ import annotations

from palio.matching.columnar.layout import (
    ESCAPE_PROGRAM,
    ESCAPE_RUN,
    ESCAPE_WIDE,
    ESCAPES,
    GROUPED,
    HAS_LEVEL,
    INDEX_ALWAYS,
    INDEX_ALWAYS_COUNT,
    INDEX_AXES,
    INDEX_BLOCK_BYTES,
    INDEX_BLOCKS,
    INDEX_LEVELS,
    INDEX_PATHS,
    INDEX_PROGRAMS,
    INDEX_RECORDS,
    INDEX_RUNS,
    INDEX_STARTS,
    LAST,
    MATCH,
    MAX_TAGGED,
    MISSING,
    NO_AXIS,
    PLACE_SHIFT,
    SHIFT_BITS,
    WORK_ENDS,
    WORK_EPOCH,
    WORK_EXACT,
    WORK_EXACT_SLOTS,
    WORK_FOUND,
    WORK_GROUP,
    WORK_HIT_TAGS,
    WORK_HITS,
    WORK_NARROW,
    WORK_NARROW_MASK,
    WORK_OUT,
    WORK_OUT_ROOM,
    WORK_PENDING,
    WORK_PENDING_ROOM,
    WORK_PLACES,
    WORK_QUEUE,
    WORK_QUEUE_ROOM,
    WORK_STAMPS,
    WORK_TABLES,
    WORK_TAGS,
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
    fill,
    fill_words,
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
    within_fewer,
)

_MIN_BINARY_SEARCH_POINTS = 64  # points from which on a binary search is shorter than a scan
_SLACK = 32  # a tile may write this much beyond what it found
_NEAR_BYTES = 1 << 18  # blocks of fewer bytes stay in the second cache, and asking for them early takes longer
_MIN_REPORTED = 256  # payloads that are worth a look at their records; fewer wait for those of the next rows


@inlined
def program_holds(index: int, exact: int, row: int) -> bool:
    """Run a program of jumps: each row tests one slot and says where to go on."""
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
def escape_holds(index: int, work: int, exact: int, place: int) -> int:
    """Check one of the rarer conditions of a record; the place of the next one, or 0 where it fails."""
    kind = u16_at(place, 0) & ~LAST
    operand = i32_at(place + 2, 0)
    if kind == ESCAPE_PROGRAM:
        return place + 6 if program_holds(index, exact, operand) else 0
    if kind == ESCAPE_WIDE or kind == ESCAPE_RUN:
        slot = i32_at(exact, operand)
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
def split_pending(work: int, count: int, step: int, hits: int) -> int:
    """Move the payloads put aside that are numbers to the hits, and close the gaps; how many are moved."""
    pending = i64_at(work, WORK_PENDING)
    tags = i64_at(work, WORK_TAGS)
    hit_tags = i64_at(work, WORK_HIT_TAGS)
    found = 0
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
        pack(payloads, direct, hits + 4 * found)
        pack(payloads, recorded, pending + 4 * waiting)
        if step != 0:
            pack(tags + 4 * place, direct, hit_tags + 4 * found)
            pack(tags + 4 * place, recorded, tags + 4 * waiting)
        found += count_bits(direct)
        waiting += count_bits(recorded)
    return found


@inlined
def check_pending(index: int, work: int, count: int, step: int, hits: int, found: int) -> int:
    """Check the records put aside; add the numbers of those that hold to the hits.

    One condition of every record at a time: whether it holds only moves on where the next one is written, so that
    there is nothing to guess.
    """
    records = i64_at(index, INDEX_RECORDS)
    pending = i64_at(work, WORK_PENDING)
    tags = i64_at(work, WORK_TAGS)
    hit_tags = i64_at(work, WORK_HIT_TAGS)
    tables = i64_at(work, WORK_EXACT)
    table_bytes = 4 * i64_at(work, WORK_EXACT_SLOTS)
    if i64_at(index, INDEX_BLOCK_BYTES) > _NEAR_BYTES:  # then there are as many bytes of records
        for which in range(count):
            prefetch(records - 2 * i32_at(pending, which) - 2)
    while count > 0:
        kept = 0
        for which in range(count):
            tag = i32_at(tags, which * step)
            exact = tables + tag * table_bytes
            place = records - 2 * i32_at(pending, which) - 2
            head = u16_at(place, 0)
            axis = head & ~LAST
            is_last = head >> 15
            if axis < ESCAPES:
                slot = i32_at(exact, axis)
                holds = (slot >= u16_at(place, 1)) & (slot <= u16_at(place, 2))
                following = place + 6
            else:
                following = escape_holds(index, work, exact, place)
                holds = following != 0
                if not holds:
                    continue
            # Written in any case and counted only where the record ends here and holds: no branch to mispredict.
            put_i32(hits, found, i32_at(following, 0))
            put_i32(hit_tags, found * step, tag)
            found += holds & is_last
            put_i32(pending, kept, ~((following - records) >> 1))
            put_i32(tags, kept * step, tag)
            kept += holds & ~is_last
        count = kept
    return found


@inlined
def drop_tombstoned(work: int, hits: int, step: int, found: int) -> int:
    """Drop the hits with tombstones, keeping the order of the others."""
    tombstones = i64_at(work, WORK_TOMBSTONES)
    if tombstones == 0:
        return found
    bits = i64_at(work, WORK_TOMBSTONE_BITS)
    hit_tags = i64_at(work, WORK_HIT_TAGS)
    kept = 0
    for which in range(found):
        number = i32_at(hits, which)
        put_i32(hits, kept, number)
        put_i32(hit_tags, kept * step, i32_at(hit_tags, which * step))
        # A number beyond the bitmap is newer than it, and alive.
        if number >= bits or (u8_at(tombstones, number >> 3) >> (number & 7)) & 1 == 0:
            kept += 1
    return kept


@inlined
def sort_hits(work: int, first: int, row: int, found: int, count: int) -> None:
    """Write the hits of several rows out, row by row: a counting sort by their tags."""
    hits = i64_at(work, WORK_HITS)
    hit_tags = i64_at(work, WORK_HIT_TAGS)
    places = i64_at(work, WORK_PLACES)
    out = i64_at(work, WORK_OUT)
    ends = i64_at(work, WORK_ENDS)
    mask = i64_at(work, WORK_TABLES) - 1
    for each in range(first, row + 1):
        put_i64(places, each & mask, 0)
    for which in range(count):
        tag = i32_at(hit_tags, which)
        put_i64(places, tag, i64_at(places, tag) + 1)
    for each in range(first, row + 1):
        many = i64_at(places, each & mask)
        put_i64(places, each & mask, found)
        found += many
        put_i64(ends, each, found)
    for which in range(count):
        tag = i32_at(hit_tags, which)
        place = i64_at(places, tag)
        put_i32(out, place, i32_at(hits, which))
        put_i64(places, tag, place + 1)


@inlined
def report_pending(index: int, work: int, row: int, count: int) -> None:
    """Check what was put aside for the rows of a group, up to `row`; report what holds, and begin another group."""
    first = i64_at(work, WORK_GROUP)
    found = i64_at(work, WORK_FOUND)
    # One row needs neither tags nor sorting: its numbers go straight to where they belong.
    is_single = first == row
    step = 0 if is_single else 1
    hits = i64_at(work, WORK_OUT) + 4 * found if is_single else i64_at(work, WORK_HITS)
    direct = split_pending(work, count, step, hits)
    many = check_pending(index, work, count - direct, step, hits, direct)
    many = drop_tombstoned(work, hits, step, many)
    if is_single:
        put_i64(i64_at(work, WORK_ENDS), row, found + many)
    else:
        sort_hits(work, first, row, found, many)
    put_i64(work, WORK_FOUND, found + many)
    put_i64(work, WORK_GROUP, row)


@inlined
def scan_fewer(block: int, count: int, narrow: int, pending: int, waiting: int) -> int:
    """As `scan_few`, where there are fewer axes: half as wide, which takes some processors half the time."""
    axes = block + 4
    lows = axes + 2 * count
    highs = lows + 2 * count
    payloads = highs + 2 * count
    place = 0
    while True:
        mask = within_fewer(axes + 2 * place, lows + 2 * place, highs + 2 * place, narrow)
        mask &= (1 << min(count - place, 16)) - 1
        pack(payloads + 4 * place, mask, pending + 4 * waiting)
        waiting += count_bits(mask)
        place += 16
        if place >= count:  # at the end: no posting that is visited is empty
            return waiting


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
def clear_slots(work: int, row: int, codes: int, count: int) -> None:
    """Clear the slots of an event on axes that are too many to be cleared as a whole."""
    narrow = narrow_of(work, row)
    exact = exact_of(work, row)
    for which in range(count):
        axis = i64_at(codes, which) >> 32
        put_i32(exact, axis, MISSING)
        put_u16(narrow, axis + 1, 0)


@inlined
def narrow_of(work: int, row: int) -> int:
    return i64_at(work, WORK_NARROW) + 2 * (row & 1) * (i64_at(work, WORK_NARROW_MASK) + 1)


@inlined
def exact_of(work: int, row: int) -> int:
    return i64_at(work, WORK_EXACT) + 4 * (row & (i64_at(work, WORK_TABLES) - 1)) * i64_at(work, WORK_EXACT_SLOTS)


@inlined
def prepare_row(index: int, work: int, row: int, codes: int, count: int, todo: int) -> int:
    """Set the slots of an event; list the blocks of the postings that it must scan, and prefetch them."""
    narrow = narrow_of(work, row)
    exact = exact_of(work, row)
    paths = i64_at(index, INDEX_PATHS)
    levels = i64_at(index, INDEX_LEVELS)
    starts = i64_at(index, INDEX_STARTS)
    blocks = i64_at(index, INDEX_BLOCKS)
    are_far = i64_at(index, INDEX_BLOCK_BYTES) > _NEAR_BYTES
    if i64_at(work, WORK_NARROW_MASK) < SMALL_TABLE_SLOTS:
        # Whole registers at a time: one word after the other takes a tenth of all the time.
        axes = i64_at(index, INDEX_AXES)
        for place in range(0, axes + 1, 32):
            fill(narrow + 2 * place, 0)
        for place in range(0, axes, 16):
            fill(exact + 4 * place, 0)
        put_u16(narrow, NO_AXIS, 1)
    many = 0
    for which in range(count):
        code = i64_at(codes, which)
        axis = code >> 32
        slot = code & 0xFFFFFFFF
        path = i64_at(paths, axis)
        # `narrow` has 16 bits: the upper bits of the slot, plus 1, because 0 is an axis that the event lacks. Its first
        # entry stands for NO_AXIS, so that axes are counted from 1.
        put_i32(exact, axis, slot)
        put_u16(narrow, axis + 1, (slot >> (path & SHIFT_BITS)) + 1)
        step = levels + 8 * (path >> PLACE_SHIFT)
        follows = path & HAS_LEVEL
        while follows != 0:
            level = i64_at(step, 0)
            step += 8
            follows = level & HAS_LEVEL
            place = starts + 4 * ((level >> PLACE_SHIFT) + (slot >> (level & SHIFT_BITS)))
            start = i32_at(place, 0)
            block = blocks + 4 * start
            if are_far:
                prefetch(block)
                prefetch(block + 64)
                prefetch(block + 128)
                prefetch(block + 192)
            # An empty posting is written as well, and then over: whether one is empty cannot be guessed.
            put_i64(todo, many, block)
            many += start != i32_at(place, 1)
    return many


@inlined
def room_for(work: int, row: int) -> int:
    """How many payloads may be put aside in all while a row is scanned."""
    room = i64_at(work, WORK_PENDING_ROOM)
    if i64_at(work, WORK_GROUP) != row:
        room = MAX_TAGGED
    return min(room, i64_at(work, WORK_OUT_ROOM) - i64_at(work, WORK_FOUND)) - _SLACK


@inlined
def tag_pending(work: int, row: int, first: int, count: int) -> None:
    """Note the row of the payloads put aside from `first` on."""
    tags = i64_at(work, WORK_TAGS)
    tag = row & (i64_at(work, WORK_TABLES) - 1)
    if count <= MAX_TAGGED:
        for place in range(first, count, 16):
            fill(tags + 4 * place, tag)
    else:
        # More than that are those of one row, and it is enough that the first one says so.
        put_i32(tags, 0, tag)


@inlined
def scan_row(index: int, work: int, row: int, todo: int, many: int, waiting: int) -> int:
    """Put the candidates of a row aside; how many then wait, or -1 where there is no room for the numbers."""
    narrow = narrow_of(work, row)
    mask_of_axes = i64_at(work, WORK_NARROW_MASK)
    pending = i64_at(work, WORK_PENDING)
    queue = i64_at(work, WORK_QUEUE)
    are_few = HAS_TABLE_LOOKUP and mask_of_axes < SMALL_TABLE_SLOTS
    are_fewer = are_few and i64_at(index, INDEX_AXES) < SMALL_TABLE_SLOTS // 2
    always = i64_at(index, INDEX_ALWAYS)
    unfiled = i64_at(index, INDEX_ALWAYS_COUNT)
    # A new epoch makes all stamps of former events stale at once; none is cleared.
    put_i64(work, WORK_EPOCH, i64_at(work, WORK_EPOCH) + 1)
    tagged = waiting
    which = 0
    copied = 0
    while True:
        # As many blocks at a time as there is room for, which is nearly always all of them. Large ones are only looked
        # through: their groups are prefetched, and arrive from memory while the others are read.
        before = which + copied
        rest = room_for(work, row) - waiting
        free = i64_at(work, WORK_QUEUE_ROOM)
        queued = 0
        while which < many:
            block = i64_at(todo, which)
            count = u16_at(block, 0)
            if count != GROUPED:
                if count > rest:
                    break
                rest -= count
                if are_fewer:
                    waiting = scan_fewer(block, count, narrow, pending, waiting)
                elif are_few:
                    waiting = scan_few(block, count, narrow, pending, waiting)
                else:
                    waiting = scan_flat(block, count, narrow, mask_of_axes, pending, waiting)
            else:
                if u32_at(block, 1) > rest or u16_at(block, 1) > free:
                    break
                rest -= u32_at(block, 1)
                free -= u16_at(block, 1)
                queued = queue_groups(block, narrow, mask_of_axes, queue, queued)
            which += 1
        for entry in range(queue, queue + 24 * queued, 24):
            group = i64_at(entry, 0)
            words = i64_at(entry, 1)
            slot = i64_at(entry, 2)
            # A point takes three words (slot, payload), a range four (low, high, payload).
            if words & 1:
                waiting = scan_points(group, words // 3, slot, pending, waiting)
            else:
                waiting = scan_ranges(group, words >> 2, slot, pending, waiting)
        # The rows that are filed under no condition are checked for every event.
        while which == many and copied < unfiled and rest > 0:
            put_i32(pending, waiting, i32_at(always, copied))
            waiting += 1
            copied += 1
            rest -= 1
        tag_pending(work, row, tagged, waiting)
        if which == many and copied == unfiled:
            return waiting
        # Nothing waits, and not even one block fits: the caller makes room and calls again for this row.
        if which + copied == before and waiting == 0 and i64_at(work, WORK_GROUP) == row:
            return -1
        report_pending(index, work, row, waiting)
        waiting = 0
        tagged = 0


@compiled
def write_rows(ends: int, first: int, rows: int, target: int) -> None:
    """Write the row of every number, counted from `first`, given where the numbers of each row end.

    Eight places are written at a time: the last ones are written over by the next row, or lie behind the end.
    """
    place = 0
    for row in range(rows):
        end = i64_at(ends, row)
        fill_words(target + 8 * place, first + row)
        for more in range(place + 8, end, 8):
            fill_words(target + 8 * more, first + row)
        place = end


@compiled
def match_rows(index: int, work: int, codes: int, starts: int, stride: int, lengths: int, row: int, rows: int) -> int:
    """Match rows of codes, from `row` on; return the row at which the room for numbers ended, or `rows`.

    A row's codes are `codes[starts[r]:starts[r + 1]]`; where there are no starts, `lengths[r]` codes from `r * stride`
    on; where there are no lengths either, the first `stride` ones.
    """
    todo = i64_at(work, WORK_TODO)
    todo_room = 8 * i64_at(work, WORK_TODO_ROOM)
    tables = i64_at(work, WORK_TABLES)
    is_small = i64_at(work, WORK_NARROW_MASK) < SMALL_TABLE_SLOTS
    done = i64_at(work, WORK_FOUND)
    many = 0
    mine = 0
    length = 0
    waiting = 0
    put_i64(work, WORK_GROUP, row)
    for ahead in range(row, rows + 1):
        # Prepare one row ahead, then scan the row before: its blocks, and its slots, have arrived by then.
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
            # The two halves of `todo` take turns: one is filled while the other is scanned.
            next_many = prepare_row(index, work, ahead, next_mine, next_length, todo + (ahead & 1) * todo_room)
        if ahead > row:
            current = ahead - 1
            waiting = scan_row(index, work, current, todo + (current & 1) * todo_room, many, waiting)
            if waiting < 0:
                if current > row:
                    done = i64_at(i64_at(work, WORK_ENDS), current - 1)
                put_i64(work, WORK_FOUND, done)
                if not is_small:
                    clear_slots(work, current, mine, length)
                    clear_slots(work, ahead, next_mine, next_length)
                return current
            # The last table is that of the row ahead.
            is_full = current - i64_at(work, WORK_GROUP) + 2 >= tables
            if is_full or waiting >= _MIN_REPORTED or ahead == rows:
                report_pending(index, work, current, waiting)
                waiting = 0
                put_i64(work, WORK_GROUP, ahead)
            if not is_small:
                clear_slots(work, current, mine, length)
        many = next_many
        mine = next_mine
        length = next_length
    return rows
