"""Kernels that run the programs of patterns (`pattern_programs`) on a text in UTF-8.

A program is that of a skeleton; the literals of the pattern are given beside it.
LIKE: the first and the last part stand at the ends of the text; each part between takes its first place, which leaves
the most room for the others and is never wrong. A regular expression: the set of positions of its automaton is carried
from character to character, as one integer; a match may begin at every place. Both cost time linear in the text for
patterns of bounded size, whatever the text is; a text that is not UTF-8 is read within its bounds.
"""

from __future__ import annotations

from palio.matching.columnar.encoding_kernels import equal_long_texts
from palio.matching.columnar.layout import (
    AUTOMATON_BEGINS_AT_START,
    AUTOMATON_BOUNDARIES,
    AUTOMATON_FIRST,
    AUTOMATON_HAS_FIRST,
    AUTOMATON_HEADER,
    AUTOMATON_POSITIONS,
    AUTOMATON_SECOND,
    CONTEXT_EMPTY,
    CONTEXT_FIRST,
    CONTEXT_FIRST_AT_START,
    CONTEXT_FOLLOW,
    CONTEXT_LAST,
    CONTEXT_LAST_AT_END,
    CONTEXT_LAST_AT_VERY_END,
    LIKE_HEADER,
    LIKE_LEAST_BYTES,
    LIKE_PARTS,
    PART_FIELDS,
    PART_GAP_AFTER,
    PART_RUNS,
    PART_SIZE,
    PROGRAM_AUTOMATON,
    PROGRAM_ILIKE,
    PROGRAM_KIND,
    RUN_FIELDS,
    RUN_GAP_BEFORE,
    RUN_LENGTH,
    RUN_PLACE,
)
from palio.matching.columnar.native import compiled, i64_at, inlined, lowest_bit, u8_at, u32_at

_LOW = 0xFFFFFFFF


@inlined
def equal_bytes(left: int, right: int, length: int) -> bool:
    if length >= 8:
        return equal_long_texts(left, right, length)
    for index in range(length):
        if u8_at(left, index) != u8_at(right, index):
            return False
    return True


@inlined
def after_characters(value: int, at: int, length: int, count: int) -> int:
    """The place some characters further on; -1 where there are not so many."""
    for _ in range(count):
        if at >= length:
            return -1
        at += 1
        while at < length and u8_at(value, at) & 0xC0 == 0x80:
            at += 1
    return at


@inlined
def before_characters(value: int, at: int, count: int) -> int:
    """The place some characters before; -1 where there are not so many."""
    for _ in range(count):
        if at <= 0:
            return -1
        at -= 1
        while at > 0 and u8_at(value, at) & 0xC0 == 0x80:
            at -= 1
    return at


@inlined
def end_of_part(literals: int, part: int, value: int, at: int, length: int) -> int:
    """Where a part ends that begins at a place; -1 where it is not there."""
    run = part + 8 * PART_FIELDS
    for _ in range(i64_at(part, PART_RUNS)):
        gap = i64_at(run, RUN_GAP_BEFORE)
        if gap != 0:
            at = after_characters(value, at, length, gap)
            if at < 0:
                return -1
        size = i64_at(run, RUN_LENGTH)
        if at + size > length or not equal_bytes(value + at, literals + i64_at(run, RUN_PLACE), size):
            return -1
        at += size
        run += 8 * RUN_FIELDS
    gap = i64_at(part, PART_GAP_AFTER)
    return at if gap == 0 else after_characters(value, at, length, gap)


@inlined
def next_part(part: int) -> int:
    return part + 8 * (PART_FIELDS + RUN_FIELDS * i64_at(part, PART_RUNS))


@inlined
def is_like(program: int, literals: int, value: int, length: int) -> bool:
    """Whether a text matches a LIKE pattern."""
    if length < i64_at(program, LIKE_LEAST_BYTES):
        return False
    part = program + 8 * LIKE_HEADER
    at = end_of_part(literals, part, value, 0, length)
    if at < 0:
        return False
    middle = i64_at(program, LIKE_PARTS) - 2
    if middle < 0:
        return at == length
    first = next_part(part)
    last = first
    for _ in range(middle):
        last = next_part(last)
    # The last part before those in the middle: it is found without a search, and rules out as much.
    size = i64_at(last, PART_SIZE)
    end = length + size if size <= 0 else before_characters(value, length, size)
    if end < at or end_of_part(literals, last, value, end, length) != length:
        return False
    part = first
    for _ in range(middle):
        found = end_of_part(literals, part, value, at, end)
        while found < 0:
            at = after_characters(value, at, end, 1)
            if at < 0:
                return False
            found = end_of_part(literals, part, value, at, end)
        at = found
        part = next_part(part)
    return True


@inlined
def character_at(value: int, at: int, length: int) -> int:
    """The code point of a character, and from bit 32 on its bytes."""
    first = u8_at(value, at)
    if first < 0x80:
        return first | 1 << 32
    if first < 0xE0:
        size = 2
        point = first & 0x1F
    elif first < 0xF0:
        size = 3
        point = first & 0x0F
    else:
        size = 4
        point = first & 0x07
    size = min(size, length - at)
    for index in range(1, size):
        point = point << 6 | u8_at(value, at + index) & 0x3F
    return point | size << 32


@inlined
def is_word(point: int) -> bool:
    """Whether a character is a letter, a digit or `_`, in ASCII."""
    lower = point | 32
    return 97 <= lower <= 122 or 48 <= point <= 57 or point == 95


@inlined
def before_terminator(value: int, length: int) -> int:
    """The place before a final line terminator, by Java's rules; -1 where there is none."""
    if length == 0:
        return -1
    final = u8_at(value, length - 1)
    if final == 0x0A:
        return length - 2 if length >= 2 and u8_at(value, length - 2) == 0x0D else length - 1
    if final == 0x0D:
        return length - 1
    if length >= 2 and final == 0x85 and u8_at(value, length - 2) == 0xC2:
        return length - 2
    is_separator = final == 0xA8 or final == 0xA9
    if length >= 3 and is_separator and u8_at(value, length - 2) == 0x80 and u8_at(value, length - 3) == 0xE2:
        return length - 3
    return -1


@inlined
def is_in_ranges(program: int, literals: int, ranges: int, point: int) -> bool:
    place = program + 8 * (ranges & _LOW)
    for index in range(ranges >> 32):
        each = i64_at(place, index)
        if each < 0:
            return point == u32_at(literals, ~each)
        # Sorted: what is below this range is in none.
        if point < each >> 32:
            return False
        if point <= each & _LOW:
            return True
    return False


@inlined
def first_byte(literals: int, character: int) -> int:
    """The only byte of a character that is given by its code point or as a literal; -1 if it has more."""
    point = u32_at(literals, ~character) if character < 0 else character
    return point if point < 0x80 else -1


@inlined
def finds_match(program: int, literals: int, value: int, length: int) -> bool:
    """Whether an automaton finds a match in a text."""
    count = i64_at(program, AUTOMATON_POSITIONS)
    contexts = i64_at(program, AUTOMATON_BOUNDARIES)
    begins_at_start = i64_at(program, AUTOMATON_BEGINS_AT_START) != 0
    elsewhere = program + 8 * AUTOMATON_HEADER
    width = CONTEXT_FOLLOW + count
    characters = elsewhere + 8 * width * (1 + contexts)
    shortened = before_terminator(value, length)
    first = second = -1
    if i64_at(program, AUTOMATON_HAS_FIRST) != 0:
        first = first_byte(literals, i64_at(program, AUTOMATON_FIRST))
        second = first_byte(literals, i64_at(program, AUTOMATON_SECOND))
    active = 0
    after_word = False
    at = 0
    while True:
        if active == 0 and at > 0 and first >= 0 and second >= 0:
            # Nothing is under way: on to where a match may begin.
            while at < length and u8_at(value, at) != first and u8_at(value, at) != second:
                at += 1
            if at == length:
                return False
        point = -1
        size = 0
        if at < length:
            found = character_at(value, at, length)
            point = found & _LOW
            size = found >> 32
        here = elsewhere
        if contexts != 0:
            before_word = point >= 0 and is_word(point)
            if before_word != after_word:
                here += 8 * width
            after_word = before_word
        conditions = 0
        wanted = i64_at(here, CONTEXT_FIRST)
        last = i64_at(here, CONTEXT_LAST)
        if at == 0:
            conditions = 1
            wanted = i64_at(here, CONTEXT_FIRST_AT_START)
        if at == length:
            conditions |= 6
            last = i64_at(here, CONTEXT_LAST_AT_VERY_END)
        elif at == shortened:
            conditions |= 2
            last = i64_at(here, CONTEXT_LAST_AT_END)
        if active & last != 0 or (i64_at(here, CONTEXT_EMPTY) >> conditions) & 1 != 0:
            return True
        if at == length:
            return False
        while active != 0:
            wanted |= i64_at(here, CONTEXT_FOLLOW + lowest_bit(active))
            active &= active - 1
        while wanted != 0:
            position = lowest_bit(wanted)
            wanted &= wanted - 1
            if is_in_ranges(program, literals, i64_at(characters, position), point):
                active |= 1 << position
        if active == 0 and begins_at_start:
            return False
        at += size


@compiled
def accepts(program: int, literals: int, value: int, folded: int, length: int) -> bool:
    """Whether a text passes a program, given as it is and in lower case."""
    kind = i64_at(program, PROGRAM_KIND)
    if kind == PROGRAM_AUTOMATON:
        return finds_match(program, literals, value, length)
    return is_like(program, literals, folded if kind == PROGRAM_ILIKE else value, length)
