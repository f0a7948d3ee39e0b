"""Names of types in SQL.

Types have one name each in the tree, such as 'bigint' or 'decimal(10,2)'. CHAR and VARCHAR are strings, because Spark's
CAST ignores their length.
"""

from __future__ import annotations

import re
from typing import Final

from palio.events.values import MAX_DECIMAL_DIGITS
from palio.languages.grammar import InvalidLiteral

_TYPES: Final[dict[str, str]] = {
    "bigint": "bigint",
    "binary": "binary",
    "boolean": "boolean",
    "byte": "tinyint",
    "date": "date",
    "double": "double",
    "float": "float",
    "int": "int",
    "integer": "int",
    "long": "bigint",
    "real": "float",
    "short": "smallint",
    "smallint": "smallint",
    "string": "string",
    "timestamp": "timestamp",
    "timestamp_ltz": "timestamp",
    "tinyint": "tinyint",
}
_SIZED_TEXTS: Final = frozenset({"char", "character", "varchar"})
_DECIMALS: Final = frozenset({"decimal", "dec", "numeric"})
_REFUSED: Final[dict[str, str]] = {
    **dict.fromkeys(("array", "map", "struct", "variant", "object"), "a condition compares single values"),
    "interval": "an attribute is never an interval; write the interval as a literal",
    "timestamp_ntz": "every moment has a zone here; write TIMESTAMP",
    "time": "there is no time of day without its date here; write TIMESTAMP",
    "void": "nothing can be cast to VOID; write NULL",
}
_OTHERS: Final[dict[str, str]] = {
    "text": "string",
    "bool": "boolean",
    "number": "decimal",
    "datetime": "timestamp",
    "timestamptz": "timestamp",
    "blob": "binary",
    "bytea": "binary",
    "int2": "smallint",
    "int4": "int",
    "int8": "bigint",
    "float4": "float",
    "float8": "double",
}


def type_name(word: str, sizes: list[str]) -> str:
    """The one name of a type, from its word in lower case and the numbers in brackets behind it."""
    if word in _DECIMALS:
        return _decimal(word, sizes)
    if word in _SIZED_TEXTS:
        if len(sizes) != 1 or int(sizes[0][:20]) == 0:
            raise InvalidLiteral(f"{word.upper()} needs its length", "write STRING, which has none")
        return "string"
    if word in _REFUSED:
        raise InvalidLiteral(f"there is no cast to {word.upper()}", _REFUSED[word])
    if word not in _TYPES:
        other = _OTHERS.get(word)
        hint = (
            f"write {other.upper()}" if other else f"the types are {', '.join(sorted(set(_TYPES.values())))}, decimal"
        )
        raise InvalidLiteral(f"there is no type {word.upper()}", hint)
    if sizes:
        raise InvalidLiteral(f"{word.upper()} has no size", f"write {word.upper()}")
    return _TYPES[word]


def _decimal(word: str, sizes: list[str]) -> str:
    if len(sizes) > 2:
        raise InvalidLiteral(
            f"{word.upper()} has two sizes, digits and digits after the point", "such as DECIMAL(10,2)"
        )
    # Twenty digits are enough to be too large, and `int` refuses texts of thousands.
    digits, scale = (int(size[:20]) for size in [*sizes, *["10", "0"][len(sizes) :]])
    if digits > MAX_DECIMAL_DIGITS or scale > digits:
        raise InvalidLiteral(
            f"there is no DECIMAL({digits},{scale})",
            f"at most {MAX_DECIMAL_DIGITS} digits, and no more of them after the point",
        )
    return f"decimal({digits},{scale})"


_WRITTEN: Final = re.compile(r"\s*(\w+)\s*(?:\(([\d\s,]*)\))?\s*\Z")


def type_named(text: str) -> str:
    """The one name of a type that is written in a text, such as 'decimal(10, 2)'."""
    found = _WRITTEN.match(text)
    if found is None:
        raise InvalidLiteral(f"{text!r} is no name of a type", "such as 'int', 'string', 'decimal(10,2)'")
    sizes = [] if found[2] is None else [each.strip() or "0" for each in found[2].split(",")]
    return type_name(found[1].lower(), sizes)
