"""String functions: substrings, padding, searching, digests, number bases, and the Levenshtein distance.

Arguments are strings already and never NULL. Positions and lengths count characters (code points) from 1. Where Spark
has the same function for binary values, it works on bytes here too. A result longer than `TEXT_LIMIT` is NULL, so that
no condition can exhaust memory; Spark goes up to two gigabytes.
"""

from __future__ import annotations

import hashlib
from string import ascii_uppercase, digits
from typing import Any, Final, TypeVar

from palio.filters.expressions.coercion import Value, low_64_bits
from palio.filters.work_limit import grows_too_long

TEXT_LIMIT: Final = 2**20  # characters
INSTR_LIMIT: Final = 2**24  # characters of the part, as often as it is searched for

Run = TypeVar("Run", str, bytes)


def upper(text: str) -> str:
    return text.upper()


def lower(text: str) -> str:
    return text.lower()


def initcap(text: str) -> str:
    """Every word capitalised, the rest in small letters; only a blank ends a word."""
    return " ".join(map(_capitalised, text.split(" ")))


def _capitalised(word: str) -> str:
    # A letter's small form may depend on what is before it, as a sigma's at the end of a word.
    return word[:1].title() + word.lower()[len(word[:1].lower()) :]


def length(run: str | bytes) -> int:
    return len(run)


def octet_length(run: str | bytes) -> int:
    return len(run.encode()) if isinstance(run, str) else len(run)


def bit_length(run: str | bytes) -> int:
    return 8 * octet_length(run)


def trim(first: str, second: str | None = None) -> str:
    """trim(text) drops blanks at both ends, trim(characters, text) drops any of the characters."""
    return first.strip(" ") if second is None else second.strip(first)


def ltrim(first: str, second: str | None = None) -> str:
    return first.lstrip(" ") if second is None else second.lstrip(first)


def rtrim(first: str, second: str | None = None) -> str:
    return first.rstrip(" ") if second is None else second.rstrip(first)


def btrim(text: str, characters: str = " ") -> str:
    return text.strip(characters)


def substring(run: Run, position: int, count: int = 2**31 - 1) -> Run:
    """`count` characters from a position; a negative position counts from the end, 0 is as 1."""
    start = position - 1 if position > 0 else position + len(run) if position < 0 else 0
    return run[max(start, 0) : max(start + count, 0)]


def overlay(run: str | bytes, by: str | bytes, position: int, count: int = -1) -> str | bytes | None:
    """A text in which `count` characters from a position are replaced, as many as `by` has if that is negative."""
    whole, new = _alike(run, by)
    end = position + (count if count >= 0 else len(new))
    if len(whole) + len(new) > TEXT_LIMIT:
        return None
    before, after = substring(whole, 1, position - 1), substring(whole, end)
    return before + new + after  # type: ignore[no-any-return]


def left(run: Run, count: int) -> Run:
    return run[: max(count, 0)]


def right(text: str, count: int) -> str:
    return text[max(len(text) - count, 0) :] if count > 0 else ""


def concat(*parts: str | bytes) -> str | bytes | None:
    """All parts in a row; binary if all of them are."""
    if parts and all(isinstance(part, bytes) for part in parts):
        return b"".join(part for part in parts if isinstance(part, bytes))
    texts = [as_text(part) for part in parts]
    return "".join(texts) if sum(map(len, texts)) <= TEXT_LIMIT else None


def concat_ws(separator: str | None, *parts: str | None) -> str | None:
    """The parts that are not NULL, with a separator between them."""
    if separator is None:
        return None
    present = [part for part in parts if part is not None]
    size = sum(map(len, present)) + len(separator) * len(present)
    return separator.join(present) if size <= TEXT_LIMIT else None


def replace(text: str, search: str, by: str = "") -> str | None:
    if not search:
        return text
    if len(by) > len(search):
        size = len(text) + text.count(search) * (len(by) - len(search))
        if size > TEXT_LIMIT or grows_too_long(size, len(text), "replace()"):
            return None
    return text.replace(search, by)


def translate(text: str, characters: str, by: str) -> str:
    """Each of the characters replaced by the one at its place in `by`, or dropped where that is shorter."""
    table: dict[int, str | None] = {}
    for place, character in enumerate(characters):
        table.setdefault(ord(character), by[place] if place < len(by) else None)
    return text.translate(table)


def reverse(run: Run) -> Run:
    return run[::-1]


def startswith(run: Run, part: Run) -> bool | None:
    return run.startswith(part) if type(run) is type(part) else None


def endswith(run: Run, part: Run) -> bool | None:
    return run.endswith(part) if type(run) is type(part) else None


def contains(run: Run, part: Run) -> bool | None:
    return part in run if type(run) is type(part) else None


def _alike(first: str | bytes, second: str | bytes) -> tuple[Any, Any]:
    """Two strings, or two binary values: one of each are both read as strings."""
    if isinstance(first, bytes) and isinstance(second, bytes):
        return first, second
    return as_text(first), as_text(second)


def as_text(run: str | bytes) -> str:
    """A string, or the bytes of one."""
    return run if isinstance(run, str) else run.decode("utf-8", "replace")


def instr(text: str, part: str, start: int = 1, occurrence: int = 1) -> int | None:
    """Where a part occurs for the nth time from a position on, from 1; backwards from the end if that is negative."""
    if occurrence < 1:
        return None
    if not start or not part:
        return 0 if part else 1
    # Occurrences may overlap: each search goes on one character further.
    at = start - 1 if start > 0 else len(text) + start
    work = 0
    while at >= 0:
        # A search prepares itself by reading all of a long part.
        work += len(part)
        if work > INSTR_LIMIT:
            return None
        at = text.find(part, at) if start > 0 else text.rfind(part, 0, at + len(part))
        occurrence -= 1
        if at < 0 or not occurrence:
            return at + 1
        at += 1 if start > 0 else -1
    return 0


def locate(part: str | None, text: str | None, *position: int | None) -> Value:
    """Where a part first occurs at or after a position; 0 if it does not, and for a position that is NULL."""
    if position and position[0] is None:
        return 0
    if part is None or text is None:
        return None
    start = position[0] if position else 1
    if start is None or start < 1:
        return 0
    return text.find(part, start - 1) + 1 if part else 1


def lpad(run: str | bytes, size: int, *pad: str | bytes) -> str | bytes | None:
    whole, filling = _padding(run, size, pad, "lpad()")
    return None if filling is None else filling + whole[: max(size, 0)]


def rpad(run: str | bytes, size: int, *pad: str | bytes) -> str | bytes | None:
    whole, filling = _padding(run, size, pad, "rpad()")
    return None if filling is None else whole[: max(size, 0)] + filling


def _padding(run: str | bytes, size: int, pad: tuple[str | bytes, ...], name: str) -> tuple[Any, Any]:
    """A text and its padding: blanks, or zero bytes, unless given."""
    whole, unit = _alike(run, pad[0]) if pad else (run, " " if isinstance(run, str) else b"\0")
    if size > max(TEXT_LIMIT, len(whole)) or grows_too_long(size, len(whole), name):
        return whole, None
    missing = max(size - len(whole), 0)
    return whole, (unit * (missing // len(unit) + 1))[:missing] if unit else unit


def repeat(text: str, times: int) -> str | None:
    size = len(text) * times
    return None if size > TEXT_LIMIT or grows_too_long(size, len(text), "repeat()") else text * max(times, 0)


def split_part(text: str, separator: str, number: int) -> str | None:
    """One of the parts between separators, counted from 1, or from the end; empty where there is none."""
    if number == 0:
        return None
    parts = text.split(separator) if separator else [text]
    place = number - 1 if number > 0 else len(parts) + number
    return parts[place] if 0 <= place < len(parts) else ""


def substring_index(text: str, separator: str, count: int) -> str:
    """What is before the `count`-th separator, or after the `count`-th from the end."""
    if not separator or count == 0:
        return ""
    place = -1 if count > 0 else len(text)
    for _ in range(abs(count)):
        # Occurrences may overlap, in both directions.
        last = place + len(separator) - 1
        place = text.find(separator, place + 1) if count > 0 else text.rfind(separator, 0, last)
        if place < 0:
            return text
    return text[:place] if count > 0 else text[place + len(separator) :]


def ascii_code(text: str) -> int:
    return ord(text[0]) if text else 0


def chr_of(code: int) -> str:
    """The character of a code modulo 256; nothing for a negative one."""
    return chr(code % 256) if code >= 0 else ""


def space(count: int) -> str | None:
    return repeat(" ", count)


_DIGITS: Final = digits + ascii_uppercase
_SHA2: Final = {0: "sha256", 224: "sha224", 256: "sha256", 384: "sha384", 512: "sha512"}
_WORD_RANGE: Final = 2**64


def hexadecimal(value: int | str | bytes) -> str:
    """The bytes of a text or binary value, or an integer in two's complement, in capitals."""
    if isinstance(value, int):
        return f"{value % _WORD_RANGE:X}"
    return _bytes(value).hex().upper()


def md5(run: str | bytes) -> str:
    return hashlib.md5(_bytes(run), usedforsecurity=False).hexdigest()


def sha1(run: str | bytes) -> str:
    return hashlib.sha1(_bytes(run), usedforsecurity=False).hexdigest()


def sha2(run: str | bytes, bits: int) -> str | None:
    """The digest of 224, 256, 384 or 512 bits; 0 stands for 256, any other length is NULL."""
    name = _SHA2.get(bits)
    return None if name is None else hashlib.new(name, _bytes(run)).hexdigest()


def _bytes(run: str | bytes) -> bytes:
    return run if isinstance(run, bytes) else run.encode("utf-8", "replace")


def conv(text: str, base: int, to: int) -> str | None:
    """A whole number written in another base: of 64 bits without a sign, or with one where `to` is negative."""
    if not (2 <= base <= 36 and 2 <= abs(to) <= 36):
        return None
    text = text.strip(" ")
    if not text:
        return None
    is_negative = text[0] == "-"
    value = 0
    for character in text[is_negative:]:
        digit = _DIGITS.find(character.upper()) if character.isascii() else -1  # ß would become two letters
        if not 0 <= digit < base:
            break  # characters after the digits are ignored
        value = value * base + digit
        if value >= _WORD_RANGE:
            return None
    # Without a sign, a negative number is its 64-bit two's complement, or the largest number where it does not fit.
    if is_negative and to > 0:
        value = _WORD_RANGE - 1 if value >= _WORD_RANGE // 2 else -value % _WORD_RANGE
    elif to < 0 and value >= _WORD_RANGE // 2:
        value, is_negative = -low_64_bits(value), True
    written = _written(value, abs(to))
    return f"-{written}" if is_negative and to < 0 else written


def _written(value: int, base: int) -> str:
    text = _DIGITS[value % base]
    while value := value // base:
        text = _DIGITS[value % base] + text
    return text


MAX_LEVENSHTEIN_CELLS: Final = 2**24  # length times length; a longer pair is NULL


def levenshtein(left: str, right: str, most: int | None = None) -> int | None:
    """The edit distance of two texts; -1 where it exceeds `most`.

    The table is computed a column at a time in the bits of one integer (Myers, in Hyyrö's form for whole texts): a
    table of all pairs of characters is slow in Python. A column costs more the longer the text is.
    """
    if len(left) * len(right) > MAX_LEVENSHTEIN_CELLS:
        return None
    if len(left) > len(right):  # a column has a bit for each character of the left one
        left, right = right, left
    distance = _distance(left, right)
    return distance if most is None or distance <= most else -1


def _distance(left: str, right: str) -> int:
    if not left:
        return len(right)
    places: dict[str, int] = {}
    for place, character in enumerate(left):
        places[character] = places.get(character, 0) | 1 << place
    every, last = (1 << len(left)) - 1, 1 << len(left) - 1
    # Bit i: whether the distance grows, or shrinks, from row i to the next in the current column. Only the distance in
    # the last row is counted along.
    grows, shrinks, distance = every, 0, len(left)
    for character in right:
        equal = places.get(character, 0)
        diagonal = (((equal & grows) + grows) ^ grows) | equal | shrinks
        up, down = shrinks | ~(diagonal | grows), grows & diagonal
        distance += bool(up & last) - bool(down & last)
        up, down = up << 1 | 1, down << 1
        grows, shrinks = (down | ~(diagonal | up)) & every, up & diagonal & every
    return distance
