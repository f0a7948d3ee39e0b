"""Kernels that evaluate patterns on whole columns of strings, each distinct value once.

A value that was seen before is found by its hash, with what was found out about it then. The patterns are evaluated on
a new one (`pattern_kernels`), and what only Python can decide is noted. Searches through whole events are not cached
for columns without other tests.
"""

from __future__ import annotations

from palio.matching.columnar.encoding_kernels import equal_long_texts, first_probe, text_key, valid_bits, write_code
from palio.matching.columnar.layout import (
    CACHE_BITS,
    CACHE_COUNT,
    CACHE_ENTRIES,
    CACHE_EPOCH,
    CACHE_FOLDED,
    CACHE_MAX_WORDS,
    CACHE_ROOM,
    CACHE_STAMPS,
    CACHE_TABLE,
    CACHE_TEXT,
    CACHE_TEXT_ROOM,
    CACHE_TEXT_USED,
    CACHE_TODO,
    CACHE_TODO_COUNT,
    CACHE_TODO_ROOM,
    CACHE_WORDS,
    CACHE_WORDS_ROOM,
    CACHE_WORDS_USED,
    COLUMN_KIND,
    COLUMN_OFFSET,
    COLUMN_TEXT,
    COLUMN_TEXT_END,
    COLUMN_VALID,
    COLUMN_VALID_END,
    COLUMN_VALUES,
    ENTRY_FIELDS,
    ENTRY_LENGTH,
    ENTRY_TEXT,
    ENTRY_WORD,
    ENTRY_WORDS,
    KIND_TEXT32,
    MAX_CACHED_VALUE_BYTES,
    MAX_FOLDED_BYTES,
    PATTERNS_WORD_COUNT,
    TESTED_CACHE,
    TESTED_COLUMN,
    TESTED_FIELDS,
    TESTED_FOUND,
    TESTED_IDS,
    TESTED_NULL,
    TESTED_PATTERNS,
    WORD_SHARED,
    WORD_UNDECIDED,
)
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
)
from palio.matching.columnar.pattern_kernels import BOTH_FORMS, fold_case, match_patterns
from palio.matching.columnar.program_kernels import equal_bytes


@inlined
def has_room(tested: int, cache: int, length: int) -> bool:
    """Whether there is room for one more value."""
    most = i64_at(i64_at(tested, TESTED_PATTERNS), PATTERNS_WORD_COUNT)
    return (
        i64_at(cache, CACHE_COUNT) < i64_at(cache, CACHE_ROOM)
        and i64_at(cache, CACHE_TEXT_USED) + min(length, MAX_CACHED_VALUE_BYTES) <= i64_at(cache, CACHE_TEXT_ROOM)
        and i64_at(cache, CACHE_WORDS_USED) + most <= i64_at(cache, CACHE_WORDS_ROOM)
        and i64_at(cache, CACHE_TODO_COUNT) < i64_at(cache, CACHE_TODO_ROOM)
    )


@inlined
def add_entry(tested: int, value: int, length: int, end: int, row: int) -> int:
    """Evaluate the patterns on a new value and give it an entry; there must be room for it."""
    cache = i64_at(tested, TESTED_CACHE)
    patterns = i64_at(tested, TESTED_PATTERNS)
    number = i64_at(cache, CACHE_COUNT)
    put_i64(cache, CACHE_COUNT, number + 1)
    entry = i64_at(cache, CACHE_ENTRIES) + 8 * ENTRY_FIELDS * number
    put_i64(entry, ENTRY_TEXT, -1)
    put_i64(entry, ENTRY_LENGTH, length)
    first = i64_at(cache, CACHE_WORDS_USED)
    count = first
    needs_python = length > MAX_FOLDED_BYTES
    if not needs_python:
        folded = i64_at(cache, CACHE_FOLDED)
        needs_python = fold_case(patterns, value, length, end, folded) != 0
        if not needs_python:
            words = i64_at(cache, CACHE_WORDS)
            stamps = i64_at(cache, CACHE_STAMPS)
            epoch = i64_at(cache, CACHE_EPOCH) + 1
            put_i64(cache, CACHE_EPOCH, epoch)
            count = match_patterns(patterns, value, folded, length, BOTH_FORMS, stamps, epoch, words, count)
            for index in range(first, count):
                needs_python = needs_python or i64_at(words, index) & WORD_UNDECIDED != 0
            put_i64(cache, CACHE_WORDS_USED, count)
            put_i64(cache, CACHE_MAX_WORDS, max(i64_at(cache, CACHE_MAX_WORDS), count - first))
    put_i64(entry, ENTRY_WORD, first)
    # -1: nothing was decided here, and Python evaluates all tests of the value.
    put_i64(entry, ENTRY_WORDS, count - first if count > first or not needs_python else -1)
    if needs_python:
        todo = i64_at(cache, CACHE_TODO_COUNT)
        put_i64(i64_at(cache, CACHE_TODO), 2 * todo, number)
        put_i64(i64_at(cache, CACHE_TODO), 2 * todo + 1, row)
        put_i64(cache, CACHE_TODO_COUNT, todo + 1)
    return number


@inlined
def insert_key(cache: int, number: int, value: int, length: int, key: int, place: int) -> None:
    """Enter the key of a value into the hash table, so that later rows and batches find its entry."""
    used = i64_at(cache, CACHE_TEXT_USED)
    text = i64_at(cache, CACHE_TEXT) + used
    for index in range(length):
        put_u8(text, index, u8_at(value, index))
    put_i64(cache, CACHE_TEXT_USED, used + length)
    put_i64(i64_at(cache, CACHE_ENTRIES) + 8 * ENTRY_FIELDS * number, ENTRY_TEXT, used)
    put_i64(i64_at(cache, CACHE_TABLE), 2 * place, key)
    put_i64(i64_at(cache, CACHE_TABLE), 2 * place + 1, number + 1)


@inlined
def find_or_add_entry(tested: int, value: int, length: int, end: int, row: int) -> int:
    """The number of the entry of a value, made where there is none; -1 where there is no room for it."""
    cache = i64_at(tested, TESTED_CACHE)
    key = text_key(value, length, end)
    bits = i64_at(cache, CACHE_BITS)
    table = i64_at(cache, CACHE_TABLE)
    place = first_probe(key, bits)
    while True:
        found = i64_at(table, 2 * place)
        if found == 0:
            break
        if found == key:
            number = i64_at(table, 2 * place + 1) - 1
            # A positive key is the text itself; a negative one is only its hash.
            if key > 0:
                return number
            entry = i64_at(cache, CACHE_ENTRIES) + 8 * ENTRY_FIELDS * number
            text = i64_at(cache, CACHE_TEXT) + i64_at(entry, ENTRY_TEXT)
            if i64_at(entry, ENTRY_LENGTH) == length and equal_long_texts(text, value, length):
                return number
        place = (place + 1) & ((1 << bits) - 1)
    if not has_room(tested, cache, length):
        return -1
    number = add_entry(tested, value, length, end, row)
    # A longer value has an entry for this batch, but is not found again.
    if length <= MAX_CACHED_VALUE_BYTES:
        insert_key(cache, number, value, length, key, place)
    return number


@inlined
def valid_rows(column: int, start: int, rows: int, row: int) -> int:
    """Which of the 32 rows from `start` on have a value; those before `row` are left out."""
    many = min(32, rows - start)
    valid = (1 << many) - 1
    bitmap = i64_at(column, COLUMN_VALID)
    if bitmap != 0:
        valid = valid_bits(bitmap, i64_at(column, COLUMN_VALID_END), i64_at(column, COLUMN_OFFSET) + start, many)
    return valid & ~((1 << max(0, row - start)) - 1)


@inlined
def text_span(column: int, row: int) -> tuple[int, int]:
    """The address of the string in a row of a column, and its length."""
    values = i64_at(column, COLUMN_VALUES)
    index = i64_at(column, COLUMN_OFFSET) + row
    if i64_at(column, COLUMN_KIND) == KIND_TEXT32:
        begin = i32_at(values, index)
        end = i32_at(values, index + 1)
    else:
        begin = i64_at(values, index)
        end = i64_at(values, index + 1)
    return i64_at(column, COLUMN_TEXT) + begin, end - begin


@compiled
def look_up_columns(tested: int, count: int, which: int, row: int, rows: int) -> int:
    """Find the entries of all values of some columns, from a column and a row on; where there is no more room,
    return the column and, in the lower half, the row. -1 when all is done."""
    while which < count:
        each = tested + 8 * TESTED_FIELDS * which
        column = i64_at(each, TESTED_COLUMN)
        ids = i64_at(each, TESTED_IDS)
        null = i64_at(each, TESTED_NULL)
        end = i64_at(column, COLUMN_TEXT_END)
        found = i64_at(each, TESTED_FOUND) if row > 0 else 0
        # Validity is read 32 bits at a time; those before `row` are left out.
        start = row & ~31
        while start < rows:
            for index in range(max(start, row), min(start + 32, rows)):
                put_i32(ids, index, null)
            valid = valid_rows(column, start, rows, row)
            while valid != 0:
                index = start + lowest_bit(valid)
                valid &= valid - 1
                value, length = text_span(column, index)
                entry = find_or_add_entry(each, value, length, end, index)
                if entry < 0:
                    put_i64(each, TESTED_FOUND, found)
                    return which << 32 | index
                put_i32(ids, index, entry)
                found += 1
            start += 32
        put_i64(each, TESTED_FOUND, found + (rows if null >= 0 else 0))
        which += 1
        row = 0
    return -1


@compiled
def search_columns(
    tested: int, count: int, which: int, row: int, rows: int, folded: int, stamps: int, epoch: int, out: int, room: int
) -> int:
    """Evaluate searches on the values of columns without tests: for each word found, the column, the row and the word.

    Goes on from a column and a row; where the room for what was found ends, the return value says where. Otherwise
    it is -1. The first three of `out` are how much was found, and the epoch.
    """
    found = i64_at(out, 0)
    while which < count:
        each = tested + 8 * TESTED_FIELDS * which
        column = i64_at(each, TESTED_COLUMN)
        searches = i64_at(each, TESTED_PATTERNS)
        end = i64_at(column, COLUMN_TEXT_END)
        most = i64_at(searches, PATTERNS_WORD_COUNT) + 1
        before = 0
        before_length = -1  # of the value before, in which nothing was found
        start = row & ~31
        while start < rows:
            valid = valid_rows(column, start, rows, row)
            while valid != 0:
                index = start + lowest_bit(valid)
                valid &= valid - 1
                value, length = text_span(column, index)
                # The value before was equal, and nothing was found in it.
                if length == before_length and equal_bytes(value, before, length):
                    continue
                if found + most > room:
                    put_i64(out, 0, found)
                    put_i64(out, 1, epoch)
                    return which << 32 | index
                needs_python = length > MAX_FOLDED_BYTES
                if not needs_python:
                    needs_python = fold_case(searches, value, length, end, folded) != 0
                before_length = -1
                if needs_python:
                    put_i64(out, 3 * found + 3, which)
                    put_i64(out, 3 * found + 4, index)
                    put_i64(out, 3 * found + 5, -1)
                    found += 1
                    continue
                epoch += 1
                words = out + 8 * (3 * room + 3)
                new = match_patterns(searches, value, folded, length, BOTH_FORMS, stamps, epoch, words, 0)
                if new == 0:
                    before = value
                    before_length = length
                for at in range(new):
                    put_i64(out, 3 * found + 3, which)
                    put_i64(out, 3 * found + 4, index)
                    put_i64(out, 3 * found + 5, i64_at(words, at))
                    found += 1
            start += 32
        which += 1
        row = 0
    put_i64(out, 0, found)
    put_i64(out, 1, epoch)
    return -1


@compiled
def rehash(cache: int) -> None:
    """Enter all entries that are kept into an empty table."""
    bits = i64_at(cache, CACHE_BITS)
    table = i64_at(cache, CACHE_TABLE)
    text = i64_at(cache, CACHE_TEXT)
    for number in range(i64_at(cache, CACHE_COUNT)):
        entry = i64_at(cache, CACHE_ENTRIES) + 8 * ENTRY_FIELDS * number
        start = i64_at(entry, ENTRY_TEXT)
        if start < 0:
            continue
        length = i64_at(entry, ENTRY_LENGTH)
        key = text_key(text + start, length, text + start + length)
        place = first_probe(key, bits)
        while i64_at(table, 2 * place) != 0:
            place = (place + 1) & ((1 << bits) - 1)
        put_i64(table, 2 * place, key)
        put_i64(table, 2 * place + 1, number + 1)


@inlined
def add_word(codes: int, stride: int, lengths: int, row: int, word: int) -> None:
    """Add a code to a row, where it is of the whole event only once."""
    if word & WORD_SHARED != 0:
        word &= ~WORD_SHARED
        for index in range(i32_at(lengths, row)):
            if i64_at(codes, row * stride + index) == word:
                return
    write_code(codes, stride, lengths, row, word)


@compiled
def add_cached_words(tested: int, count: int, first: int, rows: int, codes: int, stride: int, lengths: int) -> None:
    """Add the cached codes of the values of some columns to a block of rows."""
    for which in range(count):
        each = tested + 8 * TESTED_FIELDS * which
        if i64_at(each, TESTED_FOUND) == 0:
            continue
        cache = i64_at(each, TESTED_CACHE)
        entries = i64_at(cache, CACHE_ENTRIES)
        words = i64_at(cache, CACHE_WORDS)
        ids = i64_at(each, TESTED_IDS) + 4 * first
        for row in range(rows):
            number = i32_at(ids, row)
            if number >= 0:
                entry = entries + 8 * ENTRY_FIELDS * number
                start = words + 8 * i64_at(entry, ENTRY_WORD)
                for index in range(i64_at(entry, ENTRY_WORDS)):
                    add_word(codes, stride, lengths, row, i64_at(start, index))


@compiled
def add_words(starts: int, words: int, first: int, rows: int, codes: int, stride: int, lengths: int) -> None:
    """Add words given per row to a block of rows."""
    for row in range(rows):
        for index in range(i64_at(starts, first + row), i64_at(starts, first + row + 1)):
            add_word(codes, stride, lengths, row, i64_at(words, index))
