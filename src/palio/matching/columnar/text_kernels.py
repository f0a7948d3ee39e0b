"""Reading plain conditions in bulk: `name op literal AND …`, a million lines of them, without a Python object each.

The grammar is a small part of SQL's, chosen so that no reading but one is possible: single spaces, upper-case words,
integers of at most fifteen digits, strings without quotes or escapes. A line that is anything else is marked and
read by the parser. Names and strings are numbered as they are met, equal ones with equal numbers.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from palio.matching.columnar.native import compiled, inlined

EQUAL: Final = 0
LESS: Final = 1
AT_MOST: Final = 2
MORE: Final = 3
AT_LEAST: Final = 4
BETWEEN: Final = 5

INTEGER: Final = 0
STRING: Final = 1

# Fields of one condition.
LINE: Final = 0
NAME: Final = 1
OPERATOR: Final = 2
KIND: Final = 3
FIRST: Final = 4  # the integer, or the lower one, or the number of the string
SECOND: Final = 5  # the upper integer
FIELDS: Final = 6

_MOST_CONDITIONS: Final = 64  # in one line; the names of a line are compared pairwise
_SPACE: Final = 32
_QUOTE: Final = 39
_BACKSLASH: Final = 92
_NEWLINE: Final = 10
_DOT: Final = 46
_MINUS: Final = 45


@inlined
def _is_letter(c: int) -> bool:
    return 65 <= c <= 90 or 97 <= c <= 122 or c == 95


@inlined
def _is_digit(c: int) -> bool:
    return 48 <= c <= 57


@inlined
def _is_word(text: Any, at: int, word: Any) -> bool:
    """Whether a word stands at a place; the text ends in enough newlines to look ahead."""
    for i in range(len(word)):
        if text[at + i] != word[i]:
            return False
    return True


@inlined
def _end_of_name(text: Any, at: int) -> int:
    """The end of a dotted name that begins here; the same place where none does."""
    start = at
    while _is_letter(text[at]):
        while _is_letter(text[at]) or _is_digit(text[at]):
            at += 1
        if text[at] != _DOT:
            return at
        at += 1
    return start


@inlined
def _end_of_integer(text: Any, at: int) -> int:
    """The end of an integer of at most fifteen digits; the same place where none stands here."""
    start = at
    if text[at] == _MINUS:
        at += 1
    first = at
    while _is_digit(text[at]):
        at += 1
    return at if 0 < at - first <= 15 else start


@inlined
def _integer(text: Any, at: int, end: int) -> int:
    negative = text[at] == _MINUS
    value = 0
    for i in range(at + (1 if negative else 0), end):
        value = value * 10 + (text[i] - 48)
    return -value if negative else value


@inlined
def _find(
    text: Any, start: int, end: int, salt: int, table: Any, starts: Any, ends: Any, salts: Any, count: int
) -> int:
    """The number of a piece of text among those known; `count` where it is new, and then it is known."""
    key = np.uint64(14695981039346656037) ^ np.uint64(salt * 0x9E3779B1)
    for i in range(start, end):
        key = (key ^ np.uint64(text[i])) * np.uint64(1099511628211)
    mask = len(table) - 1
    at = np.int64((key ^ (key >> np.uint64(29))) & np.uint64(mask))
    while table[at] >= 0:
        known = table[at]
        if salts[known] == salt and ends[known] - starts[known] == end - start:
            same = True
            for i in range(end - start):
                if text[starts[known] + i] != text[start + i]:
                    same = False
                    break
            if same:
                return int(known)
        at = (at + 1) & mask
    table[at] = count
    starts[count], ends[count], salts[count] = start, end, salt
    return count


@compiled
def read_conditions(
    text: Any,
    lines: int,
    words: Any,
    found: Any,
    plain: Any,
    name_table: Any,
    name_spans: Any,
    string_table: Any,
    string_spans: Any,
    counts: Any,
) -> None:
    """Read lines that end in newlines into `found`; `plain` says of which lines everything was understood.

    `words` holds BETWEEN and AND with the spaces around them; `counts` gets how many conditions, names and strings
    there are. The conditions of a line that is not plain are taken back.
    """
    between, conjunction = words[:9], words[9:14]
    names = strings = total = at = 0
    for line in range(lines):
        first = total
        good = True
        while good:
            end = _end_of_name(text, at)
            if end == at or text[end] != _SPACE or total - first == _MOST_CONDITIONS:
                good = False
                break
            name = _find(text, at, end, 0, name_table, name_spans[0], name_spans[1], name_spans[2], names)
            if name == names:
                names += 1
            for k in range(first, total):
                if found[k, NAME] == name:
                    good = False
            row = found[total]
            row[LINE], row[NAME] = line, name
            if _is_word(text, end, between):
                at = end + 9
                end = _end_of_integer(text, at)
                if end == at or not _is_word(text, end, conjunction):
                    good = False
                    break
                low = _integer(text, at, end)
                at = end + 5
                end = _end_of_integer(text, at)
                high = _integer(text, at, end)
                if end == at or low > high:
                    good = False
                    break
                row[OPERATOR], row[KIND], row[FIRST], row[SECOND] = BETWEEN, INTEGER, low, high
            else:
                at = end + 1
                c, d = text[at], text[at + 1]
                operator = -1
                if c == 61 and d == _SPACE:
                    operator, at = EQUAL, at + 2
                elif c == 60 and d == _SPACE:
                    operator, at = LESS, at + 2
                elif c == 62 and d == _SPACE:
                    operator, at = MORE, at + 2
                elif d == 61 and text[at + 2] == _SPACE and (c == 60 or c == 62):
                    operator, at = (AT_MOST if c == 60 else AT_LEAST), at + 3
                if operator < 0:
                    good = False
                    break
                row[OPERATOR] = operator
                if text[at] == _QUOTE:
                    end = at + 1
                    while text[end] != _QUOTE and text[end] != _BACKSLASH and text[end] != _NEWLINE:
                        end += 1
                    if text[end] != _QUOTE:
                        good = False
                        break
                    string = _find(
                        text,
                        at + 1,
                        end,
                        name,
                        string_table,
                        string_spans[0],
                        string_spans[1],
                        string_spans[2],
                        strings,
                    )
                    if string == strings:
                        strings += 1
                    row[KIND], row[FIRST] = STRING, string
                    end += 1
                else:
                    end = _end_of_integer(text, at)
                    if end == at:
                        good = False
                        break
                    row[KIND], row[FIRST] = INTEGER, _integer(text, at, end)
            total += 1
            if text[end] == _NEWLINE:
                at = end
                break
            if not _is_word(text, end, conjunction):
                good = False
                break
            at = end + 5
        plain[line] = good
        if not good:
            total = first
        while text[at] != _NEWLINE:
            at += 1
        at += 1
    counts[0], counts[1], counts[2] = total, names, strings
