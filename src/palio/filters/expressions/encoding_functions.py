"""Functions between text and bytes: hexadecimal and Base64 digits, character sets, masks, and the Luhn check.

Arguments are of their kinds already and never NULL. What Spark would raise for, malformed digits or characters that a
character set does not have, is NULL: the function returns None or raises a ValueError.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Callable
from typing import Final

_HEX: Final = re.compile(r"[0-9A-Fa-f]*\Z")
# Blanks between the digits are passed over, not those behind the padding.
_BASE64: Final = re.compile(r"(?:\s*[A-Za-z0-9+/])*\s*(={0,2})\Z", re.ASCII)
# Java's names. Its UTF-16 writes a byte order mark first, its UTF-32 does not; both heed one when they read.
_WRITTEN: Final = {
    "iso-8859-1": "iso-8859-1",
    "us-ascii": "ascii",
    "utf-8": "utf-8",
    "utf-16be": "utf-16-be",
    "utf-16le": "utf-16-le",
    "utf-16": "utf-16-be",
    "utf-32": "utf-32-be",
}
_MARKS: Final = {
    "utf-16": {b"\xfe\xff": "utf-16-be", b"\xff\xfe": "utf-16-le"},
    "utf-32": {b"\x00\x00\xfe\xff": "utf-32-be", b"\xff\xfe\x00\x00": "utf-32-le"},
}


def unhex(text: str) -> bytes | None:
    """The bytes of hexadecimal digits; an odd number of them has a zero in front."""
    if _HEX.match(text) is None:
        return None
    return bytes.fromhex(text if len(text) % 2 == 0 else f"0{text}")


def unbase64(text: str) -> bytes | None:
    """The bytes of Base64 digits; the padding may be left out, but not in part."""
    found = _BASE64.match(text)
    if found is None:
        return None
    digits = "".join(text[: found.start(1)].split())
    if len(digits) % 4 == 1 or (found[1] and (len(digits) + len(found[1])) % 4):
        return None
    return base64.b64decode(digits + "=" * (-len(digits) % 4))


def to_binary(format: str) -> Callable[[str], bytes | None]:
    """The reader of a format of to_binary(); a ValueError tells that there is none."""
    match format.lower():
        case "hex":
            return unhex
        case "base64":
            return unbase64
        case "utf-8" | "utf8":
            return lambda text: text.encode()
    raise ValueError(f"{format!r} is no format of bytes; they are 'hex', 'base64' and 'utf-8'")


def from_binary(format: str) -> Callable[[bytes], str]:
    """The writer of a format of to_char() for bytes; a ValueError tells that there is none."""
    match format.lower():
        case "hex":
            return lambda data: data.hex().upper()
        case "base64":
            return lambda data: base64.b64encode(data).decode()
        case "utf-8":
            return lambda data: data.decode()
    raise ValueError(f"{format!r} is no format of bytes; they are 'hex', 'base64' and 'utf-8'")


def encoder(charset: str) -> Callable[[str], bytes]:
    """The function that writes texts in a character set."""
    name = _charset(charset)
    mark = b"\xfe\xff" if charset.lower() == "utf-16" else b""
    # Without a text there is nothing to mark.
    return lambda text: (mark + text.encode(name)) if text else b""


def decoder(charset: str) -> Callable[[bytes], str]:
    """The function that reads texts in a character set."""
    name, marks = _charset(charset), _MARKS.get(charset.lower(), {})

    def decode(data: bytes) -> str:
        for mark, marked in marks.items():
            if data.startswith(mark):
                return data[len(mark) :].decode(marked)
        return data.decode(name)

    return decode


def _charset(name: str) -> str:
    found = _WRITTEN.get(name.lower())
    if found is None:
        raise ValueError(f"{name!r} is no character set; they are {', '.join(_WRITTEN)}")
    return found


def luhn_check(text: str) -> bool:
    """Whether the last of some digits is the check digit of the others."""
    if not text.isdecimal():
        return False
    digits = [int(digit) for digit in reversed(text)]
    return sum(digits[0::2] + [2 * digit - 9 * (digit > 4) for digit in digits[1::2]]) % 10 == 0


def mask(upper: str | None, lower: str | None, digit: str | None, other: str | None) -> Callable[[str], str]:
    """The function that puts a character in place of each of a class; NULL leaves the class as it is."""
    for each in (upper, lower, digit, other):
        if each is not None and len(each) != 1:
            raise ValueError(f"mask() puts one character in place of each, not {each!r}")

    def masked(character: str) -> str:
        kind = _category(character)  # not isupper(), which counts Roman numerals and circled letters, too
        by = upper if kind == "Lu" else lower if kind == "Ll" else digit if kind == "Nd" else other
        return character if by is None else by

    return lambda text: "".join(map(masked, text))


def _category(character: str) -> str:
    from unicodedata import category  # which most conditions never need

    return category(character)
