"""Kernels that file patterns under the pieces of text they need, for the table that `pattern_kernels` reads.

`write_pieces` fills the pieces of skeletons with the literals of each pattern. `choose_clauses` chooses for each
pattern the clause that fewest values are expected to satisfy; its pieces become the texts of the table. `number_texts`,
`file_words` and `file_grams` write the table. All pass over flat arrays once, some hundred nanoseconds for a pattern:
a sealed segment has its table before anybody waits for it.
"""

from __future__ import annotations

from palio.matching.columnar.encoding_kernels import first_probe
from palio.matching.columnar.layout import (
    FILED_CLAUSE,
    FILED_COUNT,
    FILED_ENDS,
    FILED_FIELDS,
    FILED_ID,
    FILED_LENGTH,
    FILED_PATTERN,
    FILED_START,
    FIRST_LAST_BYTE_FEATURE,
    FIRST_STAMP,
    GRAM,
    GRAM_ANYWHERE,
    GRAM_AT_END,
    GRAM_AT_START,
    LAST_BYTE_FEATURES,
    PATTERN_CODE,
    PATTERN_FIELDS,
    PATTERN_LITERALS,
    PATTERN_SKELETON,
    PIECE_CLAUSE,
    PIECE_ENDS,
    PIECE_FIELDS,
    PIECE_UNIT,
    PIECE_UNITS,
    SKELETON_FIELDS,
    SKELETON_FLAGS,
    SKELETON_HAS_POINTS,
    SKELETON_IGNORES_CASE,
    SKELETON_IS_ITS_PIECE,
    SKELETON_PIECE,
    SKELETON_PIECES,
    SKELETON_PROGRAM,
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
    compiled_for_building,
    i32_at,
    i64_at,
    inlined,
    put_i32,
    put_i64,
    put_u8,
    u8_at,
    u32_at,
)
from palio.matching.columnar.pattern_kernels import byte_feature, gram_hash, gram_key
from palio.matching.columnar.program_kernels import equal_bytes

_LOW = 0xFFFFFFFF
_LETTERS = 26.0
_USUAL_PLACES = 16  # of a value, at which a piece may stand that is bound to no end
_FNV_PRIME = 1099511628211
_AT_START = 1
_AT_END = 2
_MAX_TEXTS_OF_END = 8  # with one gram at the start or end of values; more are told apart by a rarer gram


@inlined
def put_character(out: int, place: int, point: int) -> int:
    """Write a code point in UTF-8, an ASCII letter in lower case; returns the place behind it."""
    if point < 0x80:
        put_u8(out, place, point + 32 if 65 <= point <= 90 else point)
        return place + 1
    if point < 0x800:
        put_u8(out, place, 0xC0 | point >> 6)
        put_u8(out, place + 1, 0x80 | point & 0x3F)
        return place + 2
    if point < 0x10000:
        put_u8(out, place, 0xE0 | point >> 12)
        put_u8(out, place + 1, 0x80 | point >> 6 & 0x3F)
        put_u8(out, place + 2, 0x80 | point & 0x3F)
        return place + 3
    put_u8(out, place, 0xF0 | point >> 18)
    put_u8(out, place + 1, 0x80 | point >> 12 & 0x3F)
    put_u8(out, place + 2, 0x80 | point >> 6 & 0x3F)
    put_u8(out, place + 3, 0x80 | point & 0x3F)
    return place + 4


@compiled_for_building
def write_pieces(
    patterns: int, count: int, skeletons: int, pieces: int, units: int, literals: int, filed: int, text: int
) -> int:
    """Write the pieces of patterns as rows, and their bytes, ASCII letters in lower case; returns how many bytes."""
    place = 0
    row = filed
    for number in range(count):
        pattern = patterns + 8 * PATTERN_FIELDS * number
        skeleton = skeletons + 8 * SKELETON_FIELDS * i64_at(pattern, PATTERN_SKELETON)
        has_points = i64_at(skeleton, SKELETON_FLAGS) & SKELETON_HAS_POINTS != 0
        own = literals + i64_at(pattern, PATTERN_LITERALS)
        for which in range(i64_at(skeleton, SKELETON_PIECES)):
            piece = pieces + 8 * PIECE_FIELDS * (i64_at(skeleton, SKELETON_PIECE) + which)
            put_i64(row, FILED_PATTERN, number)
            put_i64(row, FILED_CLAUSE, i64_at(piece, PIECE_CLAUSE))
            put_i64(row, FILED_START, place)
            put_i64(row, FILED_ENDS, i64_at(piece, PIECE_ENDS))
            first = units + 8 * i64_at(piece, PIECE_UNIT)
            start = place
            for index in range(i64_at(piece, PIECE_UNITS)):
                unit = i64_at(first, index)
                if unit < 0 and has_points:
                    place = put_character(text, place, u32_at(own, ~unit))
                    continue
                byte = u8_at(own, ~unit) if unit < 0 else unit
                put_u8(text, place, byte + 32 if 65 <= byte <= 90 else byte)
                place += 1
            put_i64(row, FILED_LENGTH, place - start)
            row += 8 * FILED_FIELDS
    return place


@inlined
def is_same_piece(left: int, right: int, text: int) -> bool:
    length = i64_at(left, FILED_LENGTH)
    return (
        length == i64_at(right, FILED_LENGTH)
        and i64_at(left, FILED_ENDS) == i64_at(right, FILED_ENDS)
        and equal_bytes(text + i64_at(left, FILED_START), text + i64_at(right, FILED_START), length)
    )


@inlined
def expected_share(row: int, filed: int, patterns: float) -> float:
    """The share of values that are expected to have a piece: as many as patterns do, and as chance letters would."""
    first = filed + 8 * FILED_FIELDS * i64_at(row, FILED_ID)
    places = 1.0 if i64_at(row, FILED_ENDS) & (_AT_START | _AT_END) != 0 else float(_USUAL_PLACES)
    return i64_at(first, FILED_COUNT) / patterns + places / _LETTERS ** min(i64_at(row, FILED_LENGTH), _USUAL_PLACES)


@inlined
def piece_features(row: int, text: int) -> int:
    """The features that every value has which has a piece."""
    start = text + i64_at(row, FILED_START)
    length = i64_at(row, FILED_LENGTH)
    features = 0
    for index in range(length):
        features |= 1 << byte_feature(u8_at(start, index))
    if i64_at(row, FILED_ENDS) & _AT_END != 0:
        features |= 1 << (FIRST_LAST_BYTE_FEATURE + u8_at(start, length - 1) % LAST_BYTE_FEATURES)
    return features


@compiled_for_building
def choose_clauses(filed: int, count: int, patterns: int, text: int, table: int, bits: int, chosen: int) -> int:
    """Choose for each pattern the clause that fewest values are expected to satisfy; returns how many pieces that are.

    Equal pieces are found by a hash table of numbers, 0 where a place is free. Of each pattern `chosen` gets its first
    piece, how many, and the features that its values must have.
    """
    for number in range(count):
        row = filed + 8 * FILED_FIELDS * number
        start = text + i64_at(row, FILED_START)
        key = i64_at(row, FILED_ENDS) + 1
        for index in range(i64_at(row, FILED_LENGTH)):
            key = (key ^ u8_at(start, index)) * _FNV_PRIME
        at = first_probe(key, bits)
        while i64_at(table, at) != 0:
            other = filed + 8 * FILED_FIELDS * (i64_at(table, at) - 1)
            if is_same_piece(row, other, text):
                break
            at = (at + 1) & ((1 << bits) - 1)
        put_i64(row, FILED_COUNT, 0)
        if i64_at(table, at) == 0:
            put_i64(table, at, number + 1)
        same = i64_at(table, at) - 1
        put_i64(row, FILED_ID, same)
        first = filed + 8 * FILED_FIELDS * same
        put_i64(first, FILED_COUNT, i64_at(first, FILED_COUNT) + 1)
    found = 0
    number = 0
    while number < count:
        pattern = i64_at(filed + 8 * FILED_FIELDS * number, FILED_PATTERN)
        own = chosen + 24 * pattern
        least = 1e300
        features = 0
        while number < count and i64_at(filed + 8 * FILED_FIELDS * number, FILED_PATTERN) == pattern:
            begin = number
            clause = i64_at(filed + 8 * FILED_FIELDS * number, FILED_CLAUSE)
            expected = 0.0
            while number < count:
                row = filed + 8 * FILED_FIELDS * number
                if i64_at(row, FILED_PATTERN) != pattern or i64_at(row, FILED_CLAUSE) != clause:
                    break
                expected += expected_share(row, filed, float(patterns))
                number += 1
            if number - begin == 1:
                features |= piece_features(filed + 8 * FILED_FIELDS * begin, text)
            if expected < least:
                least = expected
                put_i64(own, 0, begin)
                put_i64(own, 1, number - begin)
        put_i64(own, 2, features)
        found += i64_at(own, 1)
    return found


@compiled_for_building
def number_texts(filed: int, patterns: int, chosen: int, texts: int) -> int:
    """Number the chosen pieces as texts of the table, and reserve room for the words of each; returns how many."""
    for pattern in range(patterns):
        own = chosen + 24 * pattern
        for which in range(i64_at(own, 1)):
            row = filed + 8 * FILED_FIELDS * (i64_at(own, 0) + which)
            put_i64(filed + 8 * FILED_FIELDS * i64_at(row, FILED_ID), FILED_COUNT, -1)
    count = 0
    for pattern in range(patterns):
        own = chosen + 24 * pattern
        for which in range(i64_at(own, 1)):
            row = filed + 8 * FILED_FIELDS * (i64_at(own, 0) + which)
            first = filed + 8 * FILED_FIELDS * i64_at(row, FILED_ID)
            number = i64_at(first, FILED_COUNT)
            if number < 0:
                number = count
                put_i64(first, FILED_COUNT, number)
                new = texts + 4 * TEXT_ROW_FIELDS * number
                put_i32(new, TEXT_ROW_START, i64_at(first, FILED_START))
                put_i32(new, TEXT_ROW_LENGTH, i64_at(first, FILED_LENGTH))
                put_i32(new, TEXT_ROW_ENDS, i64_at(first, FILED_ENDS))
                put_i32(new, TEXT_ROW_WORDS, 0)
                count += 1
            text = texts + 4 * TEXT_ROW_FIELDS * number
            put_i32(text, TEXT_ROW_WORDS, i32_at(text, TEXT_ROW_WORDS) + 1)
    word = 0
    for number in range(count):
        text = texts + 4 * TEXT_ROW_FIELDS * number
        put_i32(text, TEXT_ROW_WORD, word)
        word += i32_at(text, TEXT_ROW_WORDS)
        put_i32(text, TEXT_ROW_WORDS, 0)
    return count


@inlined
def is_its_piece(skeleton: int, row: int, text: int) -> bool:
    """Whether every value that has the only piece of a pattern passes: if its case is ignored, or has no meaning."""
    flags = i64_at(skeleton, SKELETON_FLAGS)
    if flags & SKELETON_IS_ITS_PIECE == 0:
        return False
    if flags & SKELETON_IGNORES_CASE != 0:
        return True
    for index in range(i64_at(row, FILED_LENGTH)):
        if 97 <= u8_at(text + i64_at(row, FILED_START), index) <= 122:
            return False
    return True


@compiled_for_building
def file_words(
    patterns: int,
    count: int,
    skeletons: int,
    filed: int,
    text: int,
    chosen: int,
    texts: int,
    text_count: int,
    words: int,
    word_count: int,
    screens: int,
    text_screens: int,
    tests: int,
) -> int:
    """Write the words of all patterns, and the tests of those that are undecided; returns the number of stamps.

    Tests are numbered as their words stand, so that those of one text are neighbours. Patterns without a piece come
    last. The third field of `chosen` becomes the number of a test, or -1.
    """
    for number in range(text_count):
        put_i64(text_screens, number, -1)
    slot = word_count
    for pattern in range(count):
        own = chosen + 24 * pattern
        features = i64_at(own, 2)
        if i64_at(own, 1) == 0:
            put_i64(words, slot, pattern)
            slot += 1
        for which in range(i64_at(own, 1)):
            row = filed + 8 * FILED_FIELDS * (i64_at(own, 0) + which)
            number = i64_at(filed + 8 * FILED_FIELDS * i64_at(row, FILED_ID), FILED_COUNT)
            found = texts + 4 * TEXT_ROW_FIELDS * number
            place = i32_at(found, TEXT_ROW_WORD) + i32_at(found, TEXT_ROW_WORDS)
            put_i32(found, TEXT_ROW_WORDS, i32_at(found, TEXT_ROW_WORDS) + 1)
            put_i64(words, place, pattern)
            put_i64(screens, place, features)
            put_i64(text_screens, number, i64_at(text_screens, number) & features)
        put_i64(own, 2, -1)
    stamp = FIRST_STAMP + text_count
    test = 0
    for place in range(slot):
        pattern = i64_at(words, place)
        own = chosen + 24 * pattern
        row = patterns + 8 * PATTERN_FIELDS * pattern
        skeleton = skeletons + 8 * SKELETON_FIELDS * i64_at(row, PATTERN_SKELETON)
        pieces = i64_at(own, 1)
        if pieces == 1 and is_its_piece(skeleton, filed + 8 * FILED_FIELDS * i64_at(own, 0), text):
            put_i64(words, place, i64_at(row, PATTERN_CODE))
            continue
        if i64_at(own, 2) < 0:
            put_i64(own, 2, test)
            new = tests + 8 * TEST_FIELDS * test
            put_i64(new, TEST_PROGRAM, i64_at(skeleton, SKELETON_PROGRAM))
            put_i64(new, TEST_CODE, i64_at(row, PATTERN_CODE))
            put_i64(new, TEST_LITERALS, i64_at(row, PATTERN_LITERALS))
            put_i64(new, TEST_STAMP, stamp if pieces > 1 else 0)
            stamp += 1 if pieces > 1 else 0
            test += 1
        put_i64(words, place, WORD_UNDECIDED | i64_at(own, 2))
    return stamp


@inlined
def gram_of(row: int, text: int, place: int) -> int:
    """The gram at a place of a text, in which longer texts have four bytes."""
    size = min(GRAM, i32_at(row, TEXT_ROW_LENGTH))
    return u32_at(text + i32_at(row, TEXT_ROW_START) + place, 0) & ((1 << (8 * size)) - 1)


@inlined
def slot_of_key(table: int, bits: int, key: int) -> int:
    """The place of a key in a hash table of pairs, or the free one where it would be."""
    at = first_probe(key, bits)
    while i64_at(table, 2 * at) != key and i64_at(table, 2 * at) != 0:
        at = (at + 1) & ((1 << bits) - 1)
    return at


@inlined
def count_key(table: int, bits: int, key: int) -> None:
    at = slot_of_key(table, bits, key)
    put_i64(table, 2 * at, key)
    put_i64(table, 2 * at + 1, i64_at(table, 2 * at + 1) + 1)


@inlined
def end_of(row: int) -> int:
    """The end of values that a text stands at, as `gram_key` has it."""
    ends = i32_at(row, TEXT_ROW_ENDS)
    if ends & _AT_START != 0:
        return GRAM_AT_START
    return GRAM_AT_END if ends & _AT_END != 0 else GRAM_ANYWHERE


@compiled_for_building
def count_grams(texts: int, count: int, text: int, table: int, bits: int) -> None:
    """Count every gram of the texts, and once more those at the ends of values."""
    for number in range(count):
        row = texts + 4 * TEXT_ROW_FIELDS * number
        length = i32_at(row, TEXT_ROW_LENGTH)
        size = min(GRAM, length)
        for place in range(length - size + 1):
            count_key(table, bits, gram_key(gram_of(row, text, place), size, GRAM_ANYWHERE))
        end = end_of(row)
        if end != GRAM_ANYWHERE:
            place = 0 if end == GRAM_AT_START else length - size
            count_key(table, bits, gram_key(gram_of(row, text, place), size, end))


@compiled_for_building
def choose_grams(texts: int, count: int, text: int, table: int, bits: int, grams: int) -> int:
    """Of each text the gram it is filed under, as a key and its place; returns the lengths of all, as bits.

    A text at an end of values has the gram there, unless many others have it too: `https://` begins thousands. Any
    other has the gram that fewest texts have, of equally rare ones the last.
    """
    lengths = 0
    for number in range(count):
        row = texts + 4 * TEXT_ROW_FIELDS * number
        length = i32_at(row, TEXT_ROW_LENGTH)
        size = min(GRAM, length)
        end = end_of(row)
        best = 0 if end == GRAM_AT_START else length - size
        key = gram_key(gram_of(row, text, best), size, end)
        is_crowded = i64_at(table, 2 * slot_of_key(table, bits, key) + 1) > _MAX_TEXTS_OF_END
        if end == GRAM_ANYWHERE or (length > GRAM and is_crowded):
            end = GRAM_ANYWHERE
            least = _LOW
            for place in range(length - size + 1):
                each = gram_key(gram_of(row, text, place), size, GRAM_ANYWHERE)
                known = i64_at(table, 2 * slot_of_key(table, bits, each) + 1)
                if known <= least:
                    least = known
                    best = place
                    key = each
        put_i64(grams, 2 * number, key)
        put_i64(grams, 2 * number + 1, best)
        lengths |= 1 << (8 * end + size)
    return lengths


@compiled_for_building
def file_grams(
    grams: int, count: int, table: int, bits: int, candidates: int, bitmap: int, shift: int, pairs: int
) -> None:
    """Write the hash table of grams, the texts of each, and the bitmaps that rule out most places of a value."""
    for number in range(count):
        count_key(table, bits, i64_at(grams, 2 * number))
    first = 0
    for at in range(1 << bits):
        many = i64_at(table, 2 * at + 1)
        # As many as are filed already, none, from bit 32 on.
        put_i64(table, 2 * at + 1, first)
        first += many
    for number in range(count):
        key = i64_at(grams, 2 * number)
        at = slot_of_key(table, bits, key)
        run = i64_at(table, 2 * at + 1)
        place = (run & _LOW) + (run >> 32)
        put_i32(candidates, 2 * place, number)
        put_i32(candidates, 2 * place + 1, i64_at(grams, 2 * number + 1))
        put_i64(table, 2 * at + 1, run + (1 << 32))
        if key >> 36 != GRAM_ANYWHERE:
            continue
        gram = key & _LOW
        size = key >> 32
        if size >= 3:
            bit = gram_hash(gram) >> shift
            put_u8(bitmap, bit >> 3, u8_at(bitmap, bit >> 3) | 1 << (bit & 7))
        elif size == 1:
            # A text of one byte may be followed by any other.
            for second in range(256):
                pair = gram | second << 8
                put_u8(pairs, pair >> 3, u8_at(pairs, pair >> 3) | 1 << (pair & 7))
        else:
            put_u8(pairs, gram >> 3, u8_at(pairs, gram >> 3) | 1 << (gram & 7))
