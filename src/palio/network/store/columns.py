"""Which type has a column that holds an attribute of many events? The narrowest that holds all of its values exactly.

Integers and floats meet in a double, as they do in a comparison; integers and decimals in a decimal. An attribute that
has one value here and several there is a list, as an event means it. What has no common type is text: strings as they
are, all else as JSON.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final, TypeAlias

import pyarrow as pa

from palio.events.json import write_json

_DIGITS: Final = 38
_INTEGER_DIGITS: Final = 19


class Struct(dict[str, "Kind"]):
    """The kinds of an object's members."""


class Several:
    """Of a list, the kind of its elements."""

    __slots__ = ("element",)

    def __init__(self, element: Kind) -> None:
        self.element = element


class Decimals:
    """So many digits before the point and behind it."""

    __slots__ = ("after", "before")

    def __init__(self, before: int, after: int) -> None:
        self.before = before
        self.after = after


Kind: TypeAlias = "type | Struct | Several | Decimals | None"  # None where no value was seen


class Columns:
    """The members of objects that were seen, with a kind for each."""

    def __init__(self) -> None:
        self._kinds = Struct()

    def see(self, content: Mapping[str, Any]) -> None:
        """Make room for an object's values."""
        _see_members(self._kinds, content)

    def fields(self) -> list[pa.Field]:
        return [pa.field(name, _arrow(kind)) for name, kind in self._kinds.items()]

    def arrays(self, rows: list[dict[str, Any]]) -> Iterable[pa.Array]:
        """The columns of some of the objects that were seen."""
        for name, kind in self._kinds.items():
            yield pa.array([_fitted(row.get(name), kind) for row in rows], _arrow(kind))


def _see_members(known: Struct, content: Mapping[str, Any]) -> None:
    for name, value in content.items():
        kind = known.get(name)
        if type(value) is kind:
            continue
        known[name] = _merged(kind, _kind_of(value)) if name in known else _kind_of(value)


def _kind_of(value: Any) -> Kind:
    if value is None:
        return None
    if isinstance(value, dict):
        struct = Struct()
        _see_members(struct, value)
        return struct
    if isinstance(value, list | tuple):
        element: Kind = None
        for one in value:
            element = _merged(element, _kind_of(one))
        return Several(element)
    if isinstance(value, Decimal):
        _, digits, exponent = value.as_tuple()
        assert isinstance(exponent, int)  # an event has no other decimals
        after = max(0, -exponent)
        return Decimals(max(0, len(digits) + exponent), after)
    return type(value)


def _merged(one: Kind, other: Kind) -> Kind:
    if one is None or one is other:
        return other
    if other is None:
        return one
    if isinstance(one, Several) or isinstance(other, Several):
        elements = [each.element if isinstance(each, Several) else each for each in (one, other)]
        return Several(_merged(*elements))
    if isinstance(one, Struct) and isinstance(other, Struct):
        both = Struct(one)
        for name, kind in other.items():
            both[name] = _merged(both[name], kind) if name in both else kind
        return both
    if isinstance(one, Struct) or isinstance(other, Struct):
        return str
    return _merged_numbers(one, other)


def _merged_numbers(one: type | Decimals, other: type | Decimals) -> Kind:
    if {one, other} == {int, float}:
        return float
    exact = [Decimals(_INTEGER_DIGITS, 0) if each is int else each for each in (one, other)]
    if all(isinstance(each, Decimals) for each in exact):
        before = max(each.before for each in exact if isinstance(each, Decimals))
        after = max(each.after for each in exact if isinstance(each, Decimals))
        return Decimals(before, after) if before + after <= _DIGITS else str
    return str


def _arrow(kind: Kind) -> pa.DataType:
    if isinstance(kind, Struct):
        return pa.struct([(name, _arrow(member)) for name, member in kind.items()])
    if isinstance(kind, Several):
        return pa.list_(_arrow(kind.element))
    if isinstance(kind, Decimals):
        return pa.decimal128(max(1, kind.before + kind.after), kind.after)
    return _SCALARS[kind]


def _fitted(value: Any, kind: Kind) -> Any:
    """A value as its column has it."""
    if value is None or type(value) is kind:
        return value
    if isinstance(kind, Several):
        several = value if isinstance(value, list | tuple) else [value]
        return [_fitted(one, kind.element) for one in several]
    if isinstance(kind, Struct):
        return {name: _fitted(value.get(name), member) for name, member in kind.items()}
    if isinstance(kind, Decimals):
        return Decimal(value)
    if kind is float:
        return float(value)
    if isinstance(value, str):  # among others
        return value
    text = write_json(value)
    return text.strip('"') if isinstance(value, date | bytes) else text


_SCALARS: Final[dict[Any, pa.DataType]] = {
    None: pa.string(),  # Parquet has a type for nothing, and few who read it know it
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
    date: pa.date32(),
    datetime: pa.timestamp("us", "UTC"),
    bytes: pa.binary(),
}
