"""Kernels that evaluate thousands of patterns on whole columns of strings.

A value that was seen before is found by its hash, with what was found out about it then. A new one is brought to lower
case and read once, four bytes at a time at every place: every text that some pattern needs was filed under one of its
grams, the one that fewest others have, and a small bitmap says of nearly every place that no text has that gram. What
passes is compared in full. Patterns that need more than a text at its place (regular expressions, texts with gaps,
texts whose case matters) are then decided by their programs (`program_kernels`), on the value as it is. The few that
have no program are noted, and evaluated in Python.

Lower case is that of ASCII. Two characters beyond it have one in ASCII (the Kelvin sign and the dotted capital I), and
how letters beyond it fold is for Python to say: where some pattern ignores case, a value that holds one of the two, or,
where such a pattern is not ASCII, one that is not ASCII either, is brought to lower case by Python (`PatternTable`).
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
    FIBONACCI_32,
    FIRST_DIGIT_FEATURE,
    FIRST_LAST_BYTE_FEATURE,
    FIRST_LETTER_FEATURE,
    FIRST_OTHER_FEATURE,
    FIRST_STAMP,
    GRAM,
    KIND_TEXT32,
    LAST_BYTE_FEATURES,
    MAX_CACHED_VALUE_BYTES,
    MAX_FEATURED_BYTES,
    MAX_FOLDED_BYTES,
    OF_FOLDED,
    OF_PLAIN,
    OTHER_FEATURES,
    PATTERNS_ALWAYS,
    PATTERNS_ALWAYS_COUNT,
    PATTERNS_BYTES,
    PATTERNS_CANDIDATES,
    PATTERNS_FILTER,
    PATTERNS_FILTER_SHIFT,
    PATTERNS_LENGTHS,
    PATTERNS_PAIRS,
    PATTERNS_PROGRAMS,
    PATTERNS_SCREENS,
    PATTERNS_SPECIAL,
    PATTERNS_TABLE,
    PATTERNS_TABLE_BITS,
    PATTERNS_TESTS,
    PATTERNS_TEXTS,
    PATTERNS_WORD_COUNT,
    PATTERNS_WORDS,
    PROGRAM_ILIKE,
    PROGRAM_KIND,
    SPECIAL_DOTTED_I,
    SPECIAL_KELVIN,
    STAMP_FEATURES,
    STAMP_FEATURES_EPOCH,
    TEST_CODE,
    TEST_FIELDS,
    TEST_PROGRAM,
    TEST_STAMP,
    TESTED_CACHE,
    TESTED_COLUMN,
    TESTED_FIELDS,
    TESTED_FOUND,
    TESTED_IDS,
    TESTED_NULL,
    TESTED_PATTERNS,
    TEXT_ROW_ENDS,
    TEXT_ROW_FIELDS,
    TEXT_ROW_LENGTH,
    TEXT_ROW_START,
    TEXT_ROW_WORD,
    TEXT_ROW_WORDS,
    WORD_SHARED,
    WORD_UNDECIDED,
)
from palio.matching.columnar.native import (
    compiled,
    i32_at,
    i64_at,
    inlined,
    lower,
    lowest_bit,
    put_i32,
    put_i64,
    put_u8,
    u8_at,
    u32_at,
)
from palio.matching.columnar.program_kernels import accepts, equal_bytes

_LOW = 0xFFFFFFFF
BOTH_FORMS = OF_PLAIN | OF_FOLDED


@inlined
def gram_hash(gram: int) -> int:
    """A hash of 32 bits of up to four bytes."""
    return (gram * FIBONACCI_32) & _LOW


@inlined
def byte_feature(byte: int) -> int:
    """The feature of a value that has a byte."""
    if 97 <= byte <= 122:
        return FIRST_LETTER_FEATURE + byte - 97
    if 48 <= byte <= 57:
        return FIRST_DIGIT_FEATURE + byte - 48
    return FIRST_OTHER_FEATURE + byte % OTHER_FEATURES


@inlined
def features_of(folded: int, length: int, stamps: int, epoch: int) -> int:
    """The features of a value, computed when they are first asked for."""
    if i64_at(stamps, STAMP_FEATURES_EPOCH) == epoch:
        return i64_at(stamps, STAMP_FEATURES)
    features = 0
    if length > MAX_FEATURED_BYTES:
        features = (1 << FIRST_LAST_BYTE_FEATURE) - 1
    else:
        for place in range(length):
            features |= 1 << byte_feature(u8_at(folded, place))
    if length > 0:
        features |= 1 << (FIRST_LAST_BYTE_FEATURE + u8_at(folded, length - 1) % LAST_BYTE_FEATURES)
    put_i64(stamps, STAMP_FEATURES_EPOCH, epoch)
    put_i64(stamps, STAMP_FEATURES, features)
    return features


@inlined
def append_word(
    patterns: int,
    word: int,
    forms: int,
    value: int,
    folded: int,
    length: int,
    stamps: int,
    epoch: int,
    words: int,
    count: int,
) -> int:
    """Append a word that was found, if its program accepts the value; returns the new count of words."""
    if word & WORD_UNDECIDED != 0:
        test = i64_at(patterns, PATTERNS_TESTS) + 8 * TEST_FIELDS * (word & ~WORD_UNDECIDED)
        stamp = i64_at(test, TEST_STAMP)
        if stamp != 0:
            if i64_at(stamps, stamp) == epoch:
                return count
            put_i64(stamps, stamp, epoch)
        place = i64_at(test, TEST_PROGRAM)
        if place < 0:
            # For Python, once.
            if forms & OF_PLAIN == 0:
                return count
        else:
            program = i64_at(patterns, PATTERNS_PROGRAMS) + 8 * place
            form = OF_FOLDED if i64_at(program, PROGRAM_KIND) == PROGRAM_ILIKE else OF_PLAIN
            if forms & form == 0 or not accepts(program, value, folded, length):
                return count
            word = i64_at(test, TEST_CODE)
    put_i64(words, count, word)
    return count + 1


@inlined
def verify_candidates(
    patterns: int,
    gram: int,
    size: int,
    value: int,
    folded: int,
    length: int,
    place: int,
    forms: int,
    stamps: int,
    epoch: int,
    words: int,
    count: int,
) -> int:
    """Compare in full the texts filed under a gram found at a place of a value; append the words of those that occur.

    Returns the new count of words.
    """
    bits = i64_at(patterns, PATTERNS_TABLE_BITS)
    table = i64_at(patterns, PATTERNS_TABLE)
    key = gram | size << 32
    at = first_probe(key, bits)
    while True:
        found = i64_at(table, 2 * at)
        if found == 0:
            return count
        if found == key:
            break
        at = (at + 1) & ((1 << bits) - 1)
    run = i64_at(table, 2 * at + 1)
    candidates = i64_at(patterns, PATTERNS_CANDIDATES) + 8 * (run & _LOW)
    for which in range(run >> 32):
        number = i32_at(candidates, 2 * which)
        row = i64_at(patterns, PATTERNS_TEXTS) + 4 * TEXT_ROW_FIELDS * number
        start = place - i32_at(candidates, 2 * which + 1)
        wanted = i32_at(row, TEXT_ROW_LENGTH)
        ends = i32_at(row, TEXT_ROW_ENDS)
        if start < 0 or start + wanted > length:
            continue
        if ends & forms == 0:
            continue
        # Bit 0: the text stands at the beginning of the value; bit 1: at its end.
        if (ends & 1 != 0 and start != 0) or (ends & 2 != 0 and start + wanted != length):
            continue
        # Found at an earlier place of this value already.
        if i64_at(stamps, FIRST_STAMP + number) == epoch:
            continue
        text = i64_at(patterns, PATTERNS_BYTES) + i32_at(row, TEXT_ROW_START)
        if not equal_bytes(folded + start, text, wanted):
            continue
        put_i64(stamps, FIRST_STAMP + number, epoch)
        first = i64_at(patterns, PATTERNS_WORDS) + 8 * i32_at(row, TEXT_ROW_WORD)
        screens = i64_at(patterns, PATTERNS_SCREENS) + 8 * i32_at(row, TEXT_ROW_WORD)
        lacking = ~features_of(folded, length, stamps, epoch)
        for index in range(i32_at(row, TEXT_ROW_WORDS)):
            # Many patterns share a short text: nearly all fail here, at a nanosecond each.
            if i64_at(screens, index) & lacking != 0:
                continue
            count = append_word(
                patterns, i64_at(first, index), forms, value, folded, length, stamps, epoch, words, count
            )
    return count


@compiled
def match_patterns(
    patterns: int,
    value: int,
    folded: int,
    length: int,
    forms: int,
    stamps: int,
    epoch: int,
    words: int,
    count: int,
) -> int:
    """Append the words of all patterns of some forms that a value satisfies, or may; returns the new count of words.

    The value is given as it is and in lower case; some bytes behind the latter are zero.
    """
    always = i64_at(patterns, PATTERNS_WORDS) + 8 * i64_at(patterns, PATTERNS_ALWAYS)
    for index in range(i64_at(patterns, PATTERNS_ALWAYS_COUNT)):
        count = append_word(patterns, i64_at(always, index), forms, value, folded, length, stamps, epoch, words, count)
    shift = i64_at(patterns, PATTERNS_FILTER_SHIFT)
    bitmap = i64_at(patterns, PATTERNS_FILTER)
    pairs = i64_at(patterns, PATTERNS_PAIRS)
    short = i64_at(patterns, PATTERNS_LENGTHS) & 0b1110
    for place in range(length):
        # Four bytes at a time, also near the end: the zero bytes behind the value belong to no gram.
        gram = u32_at(folded + place, 0)
        bit = gram_hash(gram) >> shift
        # A bitmap of hashes first: it rules out grams that no text has, without a search of the table.
        if (u8_at(bitmap, bit >> 3) >> (bit & 7)) & 1 != 0 and place + GRAM <= length:
            count = verify_candidates(
                patterns, gram, GRAM, value, folded, length, place, forms, stamps, epoch, words, count
            )
        if short != 0:
            pair = gram & 0xFFFF
            if (u8_at(pairs, pair >> 3) >> (pair & 7)) & 1 != 0:
                for size in range(1, GRAM):
                    if short & (1 << size) != 0 and place + size <= length:
                        part = gram & ((1 << (8 * size)) - 1)
                        count = verify_candidates(
                            patterns, part, size, value, folded, length, place, forms, stamps, epoch, words, count
                        )
    return count


@inlined
def is_special(special: int, value: int, place: int, length: int) -> int:
    """Whether the character that a byte begins has a lower case which only Python knows."""
    mark = u8_at(special, u8_at(value, place))
    if mark == SPECIAL_DOTTED_I:
        return 1 if place + 1 < length and u8_at(value, place + 1) == 0xB0 else 0
    if mark == SPECIAL_KELVIN:
        is_kelvin = place + 2 < length and u8_at(value, place + 1) == 0x84 and u8_at(value, place + 2) == 0xAA
        return 1 if is_kelvin else 0
    return mark


@inlined
def fold_case(patterns: int, value: int, length: int, end: int, folded: int) -> int:
    """Bring a value to lower case; returns whether Python must evaluate it. `end` is where readable memory ends."""
    special = i64_at(patterns, PATTERNS_SPECIAL)
    needs_python = 0
    place = 0
    while place < length and value + place + 32 <= end:
        foreign = lower(value + place, folded + place)
        if length - place < 32:
            foreign &= (1 << (length - place)) - 1
        while foreign != 0:
            # Bytes beyond ASCII are looked up: some begin characters whose lower case only Python knows.
            needs_python |= is_special(special, value, place + lowest_bit(foreign), length)
            foreign &= foreign - 1
        place += 32
    while place < length:
        byte = u8_at(value, place)
        if byte >= 128:
            needs_python |= is_special(special, value, place, length)
        put_u8(folded, place, byte + 32 if 65 <= byte <= 90 else byte)
        place += 1
    # The zero bytes that `match_patterns` may read.
    put_i64(folded + length, 0, 0)
    return needs_python


@compiled
def match_text(patterns: int, value: int, length: int, folded: int, stamps: int, epoch: int, words: int) -> int:
    """Write the words of all patterns that a single value satisfies, or may; returns their number.

    -1 where Python must bring the value to lower case; its ASCII letters are in lower case then.
    """
    if fold_case(patterns, value, length, value + length, folded) != 0:
        return -1
    return match_patterns(patterns, value, folded, length, BOTH_FORMS, stamps, epoch, words, 0)


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


@compiled
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


@compiled
def look_up_columns(tested: int, count: int, which: int, row: int, rows: int) -> int:
    """Find the entries of all values of some columns, from a column and a row on; where there is no more room,
    return the column and, in the lower half, the row. -1 when all is done."""
    while which < count:
        each = tested + 8 * TESTED_FIELDS * which
        column = i64_at(each, TESTED_COLUMN)
        ids = i64_at(each, TESTED_IDS)
        null = i64_at(each, TESTED_NULL)
        bitmap = i64_at(column, COLUMN_VALID)
        bitmap_end = i64_at(column, COLUMN_VALID_END)
        offset = i64_at(column, COLUMN_OFFSET)
        values = i64_at(column, COLUMN_VALUES)
        text = i64_at(column, COLUMN_TEXT)
        end = i64_at(column, COLUMN_TEXT_END)
        narrow = i64_at(column, COLUMN_KIND) == KIND_TEXT32
        found = i64_at(each, TESTED_FOUND) if row > 0 else 0
        # Validity is read 32 bits at a time; the bits before `row` are masked out below.
        start = row & ~31
        while start < rows:
            many = min(32, rows - start)
            valid = (1 << many) - 1
            if bitmap != 0:
                valid = valid_bits(bitmap, bitmap_end, offset + start, many)
            for index in range(max(start, row), start + many):
                put_i32(ids, index, null)
            valid &= ~((1 << max(0, row - start)) - 1)
            while valid != 0:
                index = start + lowest_bit(valid)
                valid &= valid - 1
                if narrow:
                    begin = i32_at(values, offset + index)
                    length = i32_at(values, offset + index + 1) - begin
                else:
                    begin = i64_at(values, offset + index)
                    length = i64_at(values, offset + index + 1) - begin
                entry = find_or_add_entry(each, text + begin, length, end, index)
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
        bitmap = i64_at(column, COLUMN_VALID)
        bitmap_end = i64_at(column, COLUMN_VALID_END)
        offset = i64_at(column, COLUMN_OFFSET)
        values = i64_at(column, COLUMN_VALUES)
        text = i64_at(column, COLUMN_TEXT)
        end = i64_at(column, COLUMN_TEXT_END)
        narrow = i64_at(column, COLUMN_KIND) == KIND_TEXT32
        most = i64_at(searches, PATTERNS_WORD_COUNT) + 1
        before = 0
        before_length = -1  # of the value before, in which nothing was found
        start = row & ~31
        while start < rows:
            many = min(32, rows - start)
            valid = (1 << many) - 1
            if bitmap != 0:
                valid = valid_bits(bitmap, bitmap_end, offset + start, many)
            valid &= ~((1 << max(0, row - start)) - 1)
            while valid != 0:
                index = start + lowest_bit(valid)
                valid &= valid - 1
                if narrow:
                    begin = i32_at(values, offset + index)
                    length = i32_at(values, offset + index + 1) - begin
                else:
                    begin = i64_at(values, offset + index)
                    length = i64_at(values, offset + index + 1) - begin
                value = text + begin
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
