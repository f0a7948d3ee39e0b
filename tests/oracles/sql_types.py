"""SQL types of generated conditions, and Spark's common type of two of them.

The generator knows the declared type of all it writes, which Palio does not. So what Palio means differently *on
purpose*, because events have no declared types, is never generated, instead of being forgiven afterwards.
"""

from __future__ import annotations

from typing import NamedTuple


class Type(NamedTuple):
    """A scalar type; precision and scale are those of an exact number."""

    name: str
    precision: int = 0
    scale: int = 0

    @property
    def sql(self) -> str:
        return f"decimal({self.precision},{self.scale})" if self.name == "decimal" else self.name


TINYINT = Type("tinyint", 3)
SMALLINT = Type("smallint", 5)
INT = Type("int", 10)
BIGINT = Type("bigint", 20)
FLOAT = Type("float")
DOUBLE = Type("double")
BOOLEAN = Type("boolean")
STRING = Type("string")
DATE = Type("date")
TIMESTAMP = Type("timestamp")
BINARY = Type("binary")
MONTHS = Type("interval year to month")
MICROS = Type("interval day to second")
MONEY = Type("decimal", 10, 2)
WIDE = Type("decimal", 38, 0)

INTEGERS = (TINYINT, SMALLINT, INT, BIGINT)
SCALARS = (TINYINT, INT, BIGINT, FLOAT, DOUBLE, MONEY, WIDE, BOOLEAN, STRING, DATE, TIMESTAMP, BINARY)

_MOST_DIGITS = 38


def decimal(precision: int, scale: int) -> Type:
    return Type("decimal", precision, scale)


def is_integer(kind: Type) -> bool:
    return kind in INTEGERS


def is_decimal(kind: Type) -> bool:
    return kind.name == "decimal"


def is_exact(kind: Type) -> bool:
    return is_integer(kind) or is_decimal(kind)


def is_number(kind: Type) -> bool:
    return is_exact(kind) or kind in (FLOAT, DOUBLE)


def wider_integer(one: Type, two: Type) -> Type:
    return max(one, two, key=INTEGERS.index)


def compares_exactly(*kinds: Type) -> bool:
    """Whether a decimal of 38 digits holds all of them: else Spark rounds some before it compares."""
    exact = [kind for kind in kinds if is_exact(kind)]
    if not any(is_decimal(kind) for kind in exact):
        return True
    return max(kind.precision - kind.scale for kind in exact) + max(kind.scale for kind in exact) <= _MOST_DIGITS


def decimal_result(operator: str, one: Type, two: Type) -> Type | None:
    """The type of a decimal sum, product, quotient or remainder; None where Spark would round it to declared types."""
    scale = max(one.scale, two.scale)
    wholes = one.precision - one.scale, two.precision - two.scale
    if operator == "/":
        kept = max(6, one.scale + two.precision + 1)
        needed = decimal(one.precision - one.scale + two.scale + kept, kept)
    elif operator == "*":
        needed = decimal(one.precision + two.precision + 1, one.scale + two.scale)
    elif operator == "%":
        needed = decimal(min(wholes) + scale, scale)
    else:
        needed = decimal(max(wholes) + scale + 1, scale)
    if needed.precision <= _MOST_DIGITS:
        return needed
    kept = max(_MOST_DIGITS - (needed.precision - needed.scale), min(needed.scale, 6))
    return decimal(_MOST_DIGITS, needed.scale) if kept == needed.scale else None
