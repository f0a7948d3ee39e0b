"""What may be a name in a selector?

A name is a Java identifier: `Character.isJavaIdentifierStart` and `isJavaIdentifierPart` say which characters it
has, and both are questions of the character's Unicode category. Eleven words, in any mixture of capital and small
letters, are never names. Between double quotes any text is one, as in SQL-92.
"""

from __future__ import annotations

from typing import Final
from unicodedata import category

from palio.events.names import split_path

RESERVED: Final = frozenset("null true false not and or between like in is escape".split())

_START: Final = frozenset({"Lu", "Ll", "Lt", "Lm", "Lo", "Nl", "Sc", "Pc"})
_PART: Final = _START | {"Nd", "Mn", "Mc", "Cf"}


def first_foreign_character(name: str) -> int | None:
    """The place of the first character that a Java identifier cannot have there; None where it is one."""
    for place, character in enumerate(name):
        if category(character) not in (_PART if place else _START):
            return place
    return None


def is_identifier(name: str) -> bool:
    """Whether a name may stand in a selector without quotes."""
    return bool(name) and name.lower() not in RESERVED and first_foreign_character(name) is None


def write_name(path: str) -> str:
    """An attribute as a selector writes it, each part of its path in quotes where it must be."""
    return ".".join(each if is_identifier(each) else _quoted(each) for each in split_path(path))


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'
