"""Kernels of bulk load: splitting conditions into skeletons and literals without a Python object each.

`split_literals` splits as `palio.languages.sql.skeletons` does, which says why that is right; a property test
compares the two. A line with anything unusual (a comment, a letter beyond ASCII outside of quotes) gets no skeleton and
is left to the parser. Skeletons and literals are numbered by open hash tables (linear probing, FNV-1a).
"""

from __future__ import annotations

from typing import Any, Final, NamedTuple

import numpy as np

from palio.matching.columnar.array_types import Bytes, Int32s, Int64s
from palio.matching.columnar.native import compiled_for_building, inlined, wrapped

# The kinds of literal: the bytes that stand for them in skeletons.
INTEGER: Final = 1
DECIMAL: Final = 2
DOUBLE: Final = 3
STRING: Final = 4
LIST: Final = 6  # behind the kind of a literal: an IN list of such literals

_MAX_INTEGER_DIGITS: Final = 18  # fits 64 bits
_MAX_TENS: Final = (2**63 - 2) // 10  # of an integer of 19 digits that fits 64 bits, and so does the next one
_MAX_ONES: Final = (2**63 - 2) % 10
_FNV_OFFSET: Final = -3750763034362895579
_FNV_PRIME: Final = 1099511628211
_END: Final = 0  # of a line
_QUOTE: Final = 39
_DOUBLE_QUOTE: Final = 34
_BACKSLASH: Final = 92
_BACK_QUOTE: Final = 96
_POINT: Final = 46
_PLUS: Final = 43
_MINUS: Final = 45
_SLASH: Final = 47
_STAR: Final = 42
_BLANK: Final = 32
_COMMA: Final = 44
_OPEN: Final = 40
_CLOSE: Final = 41
_UNREADABLE: Final = -1  # in place of the kind of a literal that is left to the parser


@inlined
def _is_digit(c: int) -> bool:
    return 48 <= c <= 57


@inlined
def _is_wordlike(c: int) -> bool:
    """Whether a number cannot begin behind this byte, or end before it."""
    return 97 <= c <= 122 or 48 <= c <= 57 or 65 <= c <= 90 or c == 95 or c == _POINT or c >= 128


@inlined
def _end_of_digits(text: Any, at: int) -> int:
    while _is_digit(text[at]):
        at += 1
    return at


@inlined
def _end_of_string(text: Any, at: int) -> int:
    """The end of the string that begins here; 0 where it has no end."""
    quote = text[at]
    at += 1
    while True:
        while text[at] != quote:
            if text[at] == _BACKSLASH:
                at += 1
            if text[at] == _END:
                return 0
            at += 1
        at += 1
        if text[at] != quote:
            return at
        at += 1


@inlined
def _is_raw_string(text: Any, at: int) -> bool:
    """Whether an R with a quote behind it is here."""
    if text[at] | 32 != 114:
        return False
    quote: int = text[at + 1]
    return quote == _QUOTE or quote == _DOUBLE_QUOTE


@inlined
def _end_of_raw_string(text: Any, at: int) -> int:
    """The end of the string without escapes whose quote is here; 0 where it has no end."""
    quote = text[at]
    at += 1
    while text[at] != quote:
        if text[at] == _END:
            return 0
        at += 1
    return at + 1


@inlined
def _is_bigint(text: Any, at: int, end: int) -> bool:
    if end - at <= _MAX_INTEGER_DIGITS:
        return True
    if end - at > _MAX_INTEGER_DIGITS + 1:
        return False
    tens = 0
    for i in range(at, end - 1):
        tens = tens * 10 + (text[i] - 48)
    return tens < _MAX_TENS or (tens == _MAX_TENS and text[end - 1] - 48 <= _MAX_ONES)


@inlined
def _literal_at(text: Any, at: int, behind_word: bool) -> tuple[int, int]:
    """The end and the kind of the literal that begins here; the next byte and 0 where none does."""
    c = text[at]
    if c == _QUOTE or c == _DOUBLE_QUOTE:
        end = _end_of_string(text, at)
        return (end, STRING) if end else (at + 1, _UNREADABLE)
    if not behind_word and _is_raw_string(text, at):
        end = _end_of_raw_string(text, at + 1)
        return (end, STRING) if end else (at + 1, _UNREADABLE)
    if behind_word or not _is_digit(c):
        return at + 1, 0
    end = _end_of_digits(text, at)
    mark = INTEGER
    if text[end] == _POINT and _is_digit(text[end + 1]):
        end = _end_of_digits(text, end + 1)
        mark = DECIMAL
    letter = text[end] | 32
    if letter == 100:  # d
        end += 1
        mark = DOUBLE
    elif letter == 101:  # e
        power = end + 1
        if text[power] == _PLUS or text[power] == _MINUS:
            power += 1
        if _is_digit(text[power]):
            end = _end_of_digits(text, power)
            mark = DOUBLE
    # Not a number after all, such as 1abc or 1.2.3: the digits stay a part of the skeleton.
    if _is_wordlike(text[end]):
        return at + 1, 0
    if mark == INTEGER and not _is_bigint(text, at, end):
        return at + 1, _UNREADABLE
    return end, mark


@inlined
def _end_of_blanks(text: Any, at: int) -> int:
    while text[at] == _BLANK:
        at += 1
    return at


@inlined
def _is_letter(c: int) -> bool:
    return 97 <= c <= 122 or 65 <= c <= 90 or c == 95


@inlined
def _is_behind_in(text: Any, start: int, at: int) -> bool:
    """Whether the word IN stands before this place of a line."""
    at -= 1
    while at > start and text[at] == _BLANK:
        at -= 1
    if at - 1 < start or text[at] | 32 != 110 or text[at - 1] | 32 != 105:
        return False
    return at - 1 == start or not _is_wordlike(text[at - 2])


@inlined
def _alike_literals(text: Any, at: int, literals: Any, found: int) -> tuple[int, int, int]:
    """The literals up to a closing bracket, if all are written alike: their number, the bracket, their kind.

    Each may have a sign or the name of a type before it. The number is 0 where the list is another one.
    """
    count = kind = first = width = 0
    while True:
        at = begin = _end_of_blanks(text, at)
        if text[at] == _MINUS or text[at] == _PLUS:
            at += 1
        else:
            while _is_letter(text[at]):
                at += 1
            if at - begin == 1 and _is_raw_string(text, begin):
                at = begin
        is_behind_word = at > begin and _is_letter(text[at - 1])
        literal = _end_of_blanks(text, at)
        end, mark = _literal_at(text, literal, is_behind_word and literal == at)
        if mark <= 0:
            return 0, 0, 0
        if count == 0:
            kind, first, width = mark, begin, literal - begin
        elif mark != kind or literal - begin != width:
            return 0, 0, 0
        for i in range(width):
            if text[begin + i] != text[first + i]:
                return 0, 0, 0
        literals[found + count, 0], literals[found + count, 1] = literal, end
        count += 1
        at = _end_of_blanks(text, end)
        if text[at] == _CLOSE:
            return count, at, kind
        if text[at] != _COMMA:
            return 0, 0, 0
        at += 1


@inlined
def _hash_byte(key: int, c: int) -> int:
    return wrapped((key ^ c) * _FNV_PRIME)


@inlined
def _first_probe(key: int, mask: int) -> int:
    return (key ^ (key >> 29)) & mask


class SkeletonTable(NamedTuple):
    """The distinct skeletons, numbered as they are met."""

    text: Bytes  # of all skeletons, one after the other
    table: Int32s  # open hash table: the number of a skeleton, or -1
    spans: Int64s  # begin and end in `text`, by number


class SplitLines(NamedTuple):
    """The skeleton and the literals of each line."""

    skeleton_of: Int32s  # the number of the line's skeleton, or -1 where the line is left to the parser
    literals: Int32s  # begin and end in the text
    literal_starts: Int64s  # the line's first literal


@compiled_for_building
def split_literals(
    text: Bytes, lines: int, longest: int, longest_skeleton: int, skeleton_table: SkeletonTable, output: SplitLines
) -> int:
    """Split lines that each end in a zero byte; returns the number of skeletons."""
    skeleton_text = skeleton_table.text
    table = skeleton_table.table
    skeleton_spans = skeleton_table.spans
    skeleton_of = output.skeleton_of
    literals = output.literals
    literal_starts = output.literal_starts
    skeletons = found = at = kept = 0
    mask = len(table) - 1
    for line in range(lines):
        literal_starts[line] = found
        first, start, end_of_skeleton = found, at, kept
        key = _FNV_OFFSET
        behind_word = False
        in_name = False
        has_list = False
        good = True
        while text[at] != _END:
            c = text[at]
            end, mark = _literal_at(text, at, behind_word)
            if mark == _UNREADABLE:
                good = False
                break
            if mark == 0 and (
                (c >= 128 and not in_name)
                or c <= LIST  # a byte that stands for a literal in skeletons
                or c == _BACKSLASH
                or (c == _MINUS and text[at + 1] == _MINUS)
                or (c == _SLASH and text[at + 1] == _STAR)
            ):
                good = False
                break
            in_name ^= c == _BACK_QUOTE
            if c == _OPEN and not has_list and _is_behind_in(text, start, at):
                listed, bracket, mark = _alike_literals(text, at + 1, literals, found)
                if listed > 0:
                    # The bracket, the sign or type before the first literal, and one mark for all.
                    has_list = True
                    skeleton_text[end_of_skeleton] = c
                    end_of_skeleton += 1
                    key = _hash_byte(key, c)
                    for place in range(_end_of_blanks(text, at + 1), literals[found, 0]):
                        skeleton_text[end_of_skeleton] = text[place]
                        end_of_skeleton += 1
                        key = _hash_byte(key, text[place])
                    skeleton_text[end_of_skeleton], skeleton_text[end_of_skeleton + 1] = mark, LIST
                    end_of_skeleton += 2
                    key = _hash_byte(_hash_byte(key, mark), LIST)
                    found += listed
                    at = bracket
                    behind_word = False
                    continue
                mark = 0
            if mark:
                literals[found, 0], literals[found, 1] = at, end
                found += 1
                c = mark
                behind_word = False
            else:
                behind_word = _is_wordlike(c)
            skeleton_text[end_of_skeleton] = c
            end_of_skeleton += 1
            key = _hash_byte(key, c)
            at = end
        if not good or at == start or at - start > longest or end_of_skeleton - kept > longest_skeleton:
            skeleton_of[line] = -1
            found = first
            while text[at] != _END:
                at += 1
            at += 1
            continue
        at += 1
        place = _first_probe(key, mask)
        # Open addressing; the bytes decide, because two skeletons may have one hash.
        while table[place] >= 0:
            known = table[place]
            begin = skeleton_spans[known, 0]
            is_equal = skeleton_spans[known, 1] - begin == end_of_skeleton - kept
            if is_equal:
                for i in range(end_of_skeleton - kept):
                    if skeleton_text[begin + i] != skeleton_text[kept + i]:
                        is_equal = False
                        break
            if is_equal:
                break
            place = (place + 1) & mask
        if table[place] < 0:
            table[place] = skeletons
            skeleton_spans[skeletons, 0], skeleton_spans[skeletons, 1] = kept, end_of_skeleton
            # A known skeleton is overwritten by the next line's; only a new one stays.
            kept = end_of_skeleton
            skeletons += 1
        skeleton_of[line] = table[place]
    literal_starts[lines] = found
    return skeletons


@compiled_for_building
def number_texts(text: Bytes, starts: Int32s, ends: Int32s, table: Int32s, numbers: Int64s, firsts: Int32s) -> int:
    """Number spans of text, equal ones alike, in the order of their first occurrence; returns the count of numbers.

    `firsts` gets begin and end of the first span of each number: close together, because each text is compared with
    one of them. The size of the table is a power of two, above the number of spans.
    """
    mask = len(table) - 1
    count = 0
    for piece in range(len(starts)):
        start, length = starts[piece], ends[piece] - starts[piece]
        key = _FNV_OFFSET
        for i in range(length):
            key = _hash_byte(key, text[start + i])
        place = _first_probe(key, mask)
        while table[place] >= 0:
            begin = firsts[table[place], 0]
            is_equal = firsts[table[place], 1] - begin == length
            if is_equal:
                for i in range(length):
                    if text[begin + i] != text[start + i]:
                        is_equal = False
                        break
            if is_equal:
                break
            place = (place + 1) & mask
        if table[place] < 0:
            table[place] = count
            firsts[count, 0], firsts[count, 1] = start, ends[piece]
            count += 1
        numbers[piece] = table[place]
    return count


@compiled_for_building
def read_integers(text: Bytes, starts: Int32s, ends: Int32s, values: Int64s) -> None:
    """The values of spans of digits, each of an integer of 64 bits."""
    for piece in range(len(starts)):
        value = 0
        for i in range(starts[piece], ends[piece]):
            value = value * 10 + (text[i] - 48)
        values[piece] = value


def hash_table_for(count: int) -> Int32s:
    """An empty open hash table for a number of texts, at most half full."""
    return np.full(1 << max(4, (2 * count).bit_length()), -1, np.int32)
