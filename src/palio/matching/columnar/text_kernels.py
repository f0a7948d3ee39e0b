"""Cutting the literals out of conditions, a million lines of them, without a Python object each.

The same cut as `palio.languages.sql.cutting` makes, which says why it is right; a property test compares the two. A
line with anything that needs a closer look, a backslash, a comment, a letter beyond ASCII outside of quotes, is given
no shape and left to the parser. Shapes and pieces of text are numbered as they are met, equal ones with equal numbers.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from palio.matching.columnar.native import compiled, inlined

# The kinds of literal, as shapes have them.
INTEGER: Final = 1
DECIMAL: Final = 2
DOUBLE: Final = 3
STRING: Final = 4

_LONGEST_INTEGER: Final = 18
_END: Final = 0  # of a line
_QUOTE: Final = 39
_DOUBLE_QUOTE: Final = 34
_BACKSLASH: Final = 92
_POINT: Final = 46
_PLUS: Final = 43
_MINUS: Final = 45
_SLASH: Final = 47
_STAR: Final = 42


@inlined
def _is_digit(c: int) -> bool:
    return 48 <= c <= 57


@inlined
def _is_wordlike(c: int) -> bool:
    """Whether a number cannot begin behind this, or end before it."""
    return 97 <= c <= 122 or 48 <= c <= 57 or 65 <= c <= 90 or c == 95 or c == _POINT or c >= 128


@inlined
def _end_of_digits(text: Any, at: int) -> int:
    while _is_digit(text[at]):
        at += 1
    return at


@inlined
def _end_of_string(text: Any, at: int) -> int:
    """The end of the string that begins here; 0 where it has a backslash or no end."""
    quote = text[at]
    at += 1
    while True:
        while text[at] != quote:
            if text[at] == _BACKSLASH or text[at] == _END:
                return 0
            at += 1
        at += 1
        if text[at] != quote:
            return at
        at += 1


@inlined
def _hashed(key: int, c: int) -> int:
    return (key ^ c) * 1099511628211


@inlined
def _placed(key: int, mask: int) -> int:
    return (key ^ (key >> 29)) & mask


@compiled
def cut_lines(
    text: Any,
    lines: int,
    longest: int,
    longest_shape: int,
    shape_text: Any,
    shape_table: Any,
    shape_spans: Any,
    shape_of: Any,
    literals: Any,
    literal_starts: Any,
    counts: Any,
) -> None:
    """Cut lines that each end in a zero byte.

    `shape_of` gets the number of each line's shape, or -1; `shape_spans` where each shape stands in `shape_text`, and
    the first line that has it; `literals` the begin and end of each literal, `literal_starts` where those of a line
    begin; `counts` how many shapes and literals there are.
    """
    shapes = found = at = kept = 0
    mask = len(shape_table) - 1
    for line in range(lines):
        literal_starts[line] = found
        first, start, end_of_shape = found, at, kept
        key = -3750763034362895579  # FNV's own beginning
        behind_word = False
        good = True
        while text[at] != _END:
            c = text[at]
            mark = 0
            end = at + 1
            if c == _QUOTE or c == _DOUBLE_QUOTE:
                end = _end_of_string(text, at)
                if end == 0:
                    good = False
                    break
                mark = STRING
            elif _is_digit(c) and not behind_word:
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
                if _is_wordlike(text[end]):
                    mark = 0
                    end = at + 1
                elif mark == INTEGER and end - at > _LONGEST_INTEGER:
                    good = False
                    break
            elif (
                c >= 128
                or c <= STRING  # what stands for a literal
                or c == _BACKSLASH
                or (c == _MINUS and text[at + 1] == _MINUS)
                or (c == _SLASH and text[at + 1] == _STAR)
            ):
                good = False
                break
            if mark:
                literals[found, 0], literals[found, 1] = at, end
                found += 1
                c = mark
                behind_word = False
            else:
                behind_word = _is_wordlike(c)
            shape_text[end_of_shape] = c
            end_of_shape += 1
            key = _hashed(key, c)
            at = end
        if not good or at == start or at - start > longest or end_of_shape - kept > longest_shape:
            shape_of[line] = -1
            found = first
            while text[at] != _END:
                at += 1
            at += 1
            continue
        at += 1
        place = _placed(key, mask)
        while shape_table[place] >= 0:
            known = shape_table[place]
            begin = shape_spans[known, 0]
            same = shape_spans[known, 1] - begin == end_of_shape - kept
            if same:
                for i in range(end_of_shape - kept):
                    if shape_text[begin + i] != shape_text[kept + i]:
                        same = False
                        break
            if same:
                break
            place = (place + 1) & mask
        if shape_table[place] < 0:
            shape_table[place] = shapes
            shape_spans[shapes, 0], shape_spans[shapes, 1], shape_spans[shapes, 2] = kept, end_of_shape, line
            kept = end_of_shape
            shapes += 1
        shape_of[line] = shape_table[place]
    literal_starts[lines] = found
    counts[0], counts[1] = shapes, found


@compiled
def number_pieces(text: Any, starts: Any, ends: Any, table: Any, numbers: Any, firsts: Any) -> int:
    """Number pieces of text, equal ones alike, in the order of their first occurrence; how many there are.

    `firsts` gets the first piece of each number. The table has a power of two of places, more than pieces.
    """
    mask = len(table) - 1
    count = 0
    for piece in range(len(starts)):
        start, length = starts[piece], ends[piece] - starts[piece]
        key = -3750763034362895579
        for i in range(length):
            key = _hashed(key, text[start + i])
        place = _placed(key, mask)
        while table[place] >= 0:
            other = firsts[table[place]]
            begin = starts[other]
            same = ends[other] - begin == length
            if same:
                for i in range(length):
                    if text[begin + i] != text[start + i]:
                        same = False
                        break
            if same:
                break
            place = (place + 1) & mask
        if table[place] < 0:
            table[place] = count
            firsts[count] = piece
            count += 1
        numbers[piece] = table[place]
    return count


@compiled
def read_integers(text: Any, starts: Any, ends: Any, values: Any) -> None:
    """The values of pieces of text that are at most eighteen digits each."""
    for piece in range(len(starts)):
        value = 0
        for i in range(starts[piece], ends[piece]):
            value = value * 10 + (text[i] - 48)
        values[piece] = value


PLACES_PER_PIECE: Final = 2


def table_for(count: int) -> Any:
    """An empty table for so many pieces or shapes."""
    return np.full(1 << max(4, (PLACES_PER_PIECE * count).bit_length()), -1, np.int32)
