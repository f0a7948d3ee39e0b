"""Kernels that evaluate thousands of patterns on a string.

A value is brought to lower case, looked at at its ends, and read once, four bytes at a time at every place: every text
that some pattern needs was filed under one of its grams, and a small bitmap says of nearly every place that no text has
that gram. What passes is compared in full. Patterns that need more than a text at its place (regular expressions, texts
with gaps, texts whose case matters) are then decided by their programs (`program_kernels`), on the value as it is. The
few that have no program are noted, and evaluated in Python.

Lower case is that of ASCII. Two characters beyond it have one in ASCII (the Kelvin sign and the dotted capital I), and
how letters beyond it fold is for Python to say: where some pattern ignores case, a value that holds one of the two, or,
where such a pattern is not ASCII, one that is not ASCII either, is brought to lower case by Python (`PatternTable`).
"""

from __future__ import annotations

from palio.matching.columnar.encoding_kernels import first_probe
from palio.matching.columnar.layout import (
    FIBONACCI_32,
    FIRST_DIGIT_FEATURE,
    FIRST_LAST_BYTE_FEATURE,
    FIRST_LETTER_FEATURE,
    FIRST_OTHER_FEATURE,
    FIRST_STAMP,
    GRAM,
    GRAM_ANYWHERE,
    GRAM_AT_END,
    GRAM_AT_START,
    LAST_BYTE_FEATURES,
    MAX_FEATURED_BYTES,
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
    PATTERNS_LITERALS,
    PATTERNS_PAIRS,
    PATTERNS_PROGRAMS,
    PATTERNS_SCREENS,
    PATTERNS_SPECIAL,
    PATTERNS_TABLE,
    PATTERNS_TABLE_BITS,
    PATTERNS_TESTS,
    PATTERNS_TEXT_SCREENS,
    PATTERNS_TEXTS,
    PATTERNS_WORDS,
    PROGRAM_ILIKE,
    PROGRAM_KIND,
    SPECIAL_DOTTED_I,
    SPECIAL_KELVIN,
    STAMP_FEATURES,
    STAMP_FEATURES_EPOCH,
    TEST_CODE,
    TEST_FIELDS,
    TEST_LITERALS,
    TEST_PROGRAM,
    TEST_STAMP,
    TEXT_ROW_ENDS,
    TEXT_ROW_FIELDS,
    TEXT_ROW_LENGTH,
    TEXT_ROW_START,
    TEXT_ROW_WORD,
    TEXT_ROW_WORDS,
    WORD_UNDECIDED,
)
from palio.matching.columnar.native import (
    compiled,
    i32_at,
    i64_at,
    inlined,
    lower,
    lowest_bit,
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
def is_in_filter(bitmap: int, shift: int, gram: int) -> bool:
    """Whether some text may have a gram of three or four bytes."""
    bit = gram_hash(gram) >> shift
    return (u8_at(bitmap, bit >> 3) >> (bit & 7)) & 1 != 0


@inlined
def gram_key(gram: int, size: int, where: int) -> int:
    """The key of a gram in the table: never 0, because a gram has at least one byte."""
    return gram | size << 32 | where << 36


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
            literals = i64_at(patterns, PATTERNS_LITERALS) + i64_at(test, TEST_LITERALS)
            if forms & form == 0 or not accepts(program, literals, value, folded, length):
                return count
            word = i64_at(test, TEST_CODE)
    put_i64(words, count, word)
    return count + 1


@inlined
def verify_candidates(
    patterns: int,
    key: int,
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

    The key is the gram, its length and where it stands. Returns the new count of words.
    """
    bits = i64_at(patterns, PATTERNS_TABLE_BITS)
    table = i64_at(patterns, PATTERNS_TABLE)
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
        lacking = ~features_of(folded, length, stamps, epoch)
        if i64_at(i64_at(patterns, PATTERNS_TEXT_SCREENS), number) & lacking != 0:
            continue
        first = i64_at(patterns, PATTERNS_WORDS) + 8 * i32_at(row, TEXT_ROW_WORD)
        screens = i64_at(patterns, PATTERNS_SCREENS) + 8 * i32_at(row, TEXT_ROW_WORD)
        for index in range(i32_at(row, TEXT_ROW_WORDS)):
            # Many patterns share a short text: nearly all fail here, at a nanosecond each.
            if i64_at(screens, index) & lacking != 0:
                continue
            count = append_word(
                patterns, i64_at(first, index), forms, value, folded, length, stamps, epoch, words, count
            )
    return count


@inlined
def match_ends(
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
    """Append the words of the texts that are looked for at the ends of a value only; returns the new count of words."""
    lengths = i64_at(patterns, PATTERNS_LENGTHS)
    first = u32_at(folded, 0)
    for size in range(1, min(GRAM, length) + 1):
        mask = (1 << (8 * size)) - 1
        if lengths & (1 << (8 * GRAM_AT_START + size)) != 0:
            key = gram_key(first & mask, size, GRAM_AT_START)
            count = verify_candidates(patterns, key, value, folded, length, 0, forms, stamps, epoch, words, count)
        if lengths & (1 << (8 * GRAM_AT_END + size)) != 0:
            place = length - size
            key = gram_key(u32_at(folded + place, 0) & mask, size, GRAM_AT_END)
            count = verify_candidates(patterns, key, value, folded, length, place, forms, stamps, epoch, words, count)
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
    lengths = i64_at(patterns, PATTERNS_LENGTHS)
    if lengths >> 8 != 0:
        count = match_ends(patterns, value, folded, length, forms, stamps, epoch, words, count)
    if lengths & 0xFF == 0:
        return count
    shift = i64_at(patterns, PATTERNS_FILTER_SHIFT)
    bitmap = i64_at(patterns, PATTERNS_FILTER)
    pairs = i64_at(patterns, PATTERNS_PAIRS)
    has_grams = lengths & (1 << GRAM) != 0
    has_triples = lengths & 0b1000 != 0
    short = lengths & 0b0110
    for place in range(length):
        # Four bytes at a time, also near the end: the zero bytes behind the value belong to no gram.
        gram = u32_at(folded + place, 0)
        # A bitmap of hashes first: it rules out grams that no text has, without a search of the table.
        if has_grams and is_in_filter(bitmap, shift, gram) and place + GRAM <= length:
            key = gram_key(gram, GRAM, GRAM_ANYWHERE)
            count = verify_candidates(patterns, key, value, folded, length, place, forms, stamps, epoch, words, count)
        if has_triples and is_in_filter(bitmap, shift, gram & 0xFFFFFF) and place + 3 <= length:
            key = gram_key(gram & 0xFFFFFF, 3, GRAM_ANYWHERE)
            count = verify_candidates(patterns, key, value, folded, length, place, forms, stamps, epoch, words, count)
        if short != 0:
            pair = gram & 0xFFFF
            if (u8_at(pairs, pair >> 3) >> (pair & 7)) & 1 != 0:
                for size in range(1, 3):
                    if short & (1 << size) != 0 and place + size <= length:
                        key = gram_key(gram & ((1 << (8 * size)) - 1), size, GRAM_ANYWHERE)
                        count = verify_candidates(
                            patterns, key, value, folded, length, place, forms, stamps, epoch, words, count
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
