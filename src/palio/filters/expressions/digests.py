"""Functions that write a value as digits or as a digest: hex, md5, sha1, sha2, conv."""

from __future__ import annotations

import hashlib
from string import ascii_uppercase, digits
from typing import Final

from palio.filters.expressions.values import low_64_bits

_DIGITS: Final = digits + ascii_uppercase
_SHA2: Final = {0: "sha256", 224: "sha224", 256: "sha256", 384: "sha384", 512: "sha512"}
_WORDS: Final = 2**64


def hexadecimal(value: int | str | bytes) -> str:
    """The bytes of a text or binary value, or an integer in two's complement, in capitals."""
    if isinstance(value, int):
        return f"{value % _WORDS:X}"
    return _bytes(value).hex().upper()


def md5(run: str | bytes) -> str:
    return hashlib.md5(_bytes(run), usedforsecurity=False).hexdigest()


def sha1(run: str | bytes) -> str:
    return hashlib.sha1(_bytes(run), usedforsecurity=False).hexdigest()


def sha2(run: str | bytes, bits: int) -> str | None:
    """The digest of so many bits; 0 stands for 256, and there is none of another length."""
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
            break  # what follows the digits is passed over
        value = value * base + digit
        if value >= _WORDS:
            return None
    if is_negative and to > 0:
        value = _WORDS - 1 if value >= _WORDS // 2 else -value % _WORDS
    elif to < 0 and value >= _WORDS // 2:
        value, is_negative = -low_64_bits(value), True
    written = _written(value, abs(to))
    return f"-{written}" if is_negative and to < 0 else written


def _written(value: int, base: int) -> str:
    found = _DIGITS[value % base]
    while value := value // base:
        found = _DIGITS[value % base] + found
    return found
