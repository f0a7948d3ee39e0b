"""Comparison of values: Spark's order of each kind, coercion between kinds, IN lists, and pairs of array elements.

Numbers of different kinds are compared as the wider one: an integer and a decimal exactly, either of them and a double
as doubles. NaN equals itself and is greater than every number; the two zeros are equal. Text is ordered by code point,
which is the order of its UTF-8 bytes. A date is compared with a timestamp at its midnight. Two values of any other
pair of kinds do not compare: NULL. A string *literal* is coerced to the kind of the other operand, as in Spark, but a
string of an event is not (Spark would convert it too, and raise where it is no number; write CAST where that is
wanted).

`some_pair` decides whether some element of one array compares with some element of another without trying every pair.
Coercion keeps the order of values. So `a < b` holds for some pair exactly when it holds for the least `a` and the
greatest `b` of some two kinds, `a = b` when the two arrays have a value in common, and `a <> b` fails only where all
elements are one value.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property
from typing import Any, Final, NamedTuple, TypeAlias

from palio.events.values import Scalar
from palio.filters.expressions.coercion import (
    INTERVALS,
    NUMBERS,
    Value,
    ValueType,
    coerce_text,
    in_utc,
    kinds_of,
    widen,
    widest,
)

Compare: TypeAlias = Callable[[Any, Any], bool | None]

COMPARATORS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
MIRRORED: Final = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<=", "<=>": "<=>"}

PYTHON_ORDERED: Final[frozenset[ValueType]] = frozenset({bool, int, str, date, bytes, *INTERVALS, *NUMBERS}) - {float}
"""The types whose values Python compares as Spark does."""


def comparison(name: str, zone: str) -> Compare:
    """The comparison of this name, on two values that are not NULL."""
    compare = COMPARATORS[name]

    def on_values(left: Any, right: Any) -> bool | None:
        kind, other = type(left), type(right)
        if kind is other and kind in PYTHON_ORDERED:
            return compare(left, right)
        pair = _coerced(left, right, kind, other, zone)
        return None if pair is None else compare(*pair)

    return on_values


def _coerced(left: Any, right: Any, kind: ValueType, other: ValueType, zone: str) -> tuple[Any, Any] | None:
    """Two values whose order in Python is their order in Spark; None if they do not compare."""
    if kind in NUMBERS and other in NUMBERS:
        if kind is float or other is float:
            left, right = float(left), float(right)
            if left != left or right != right:  # NaN: compared as booleans, so that it equals itself and is greatest
                return left != left, right != right
        return left, right
    if kind is datetime and other is datetime:
        return in_utc(left), in_utc(right)
    if {kind, other} == {date, datetime}:
        left, right = widen(left, datetime, zone), widen(right, datetime, zone)
        return None if left is None or right is None else (in_utc(left), in_utc(right))
    return None


def comparison_with_text(name: str, text: str, zone: str) -> Callable[[Any], bool | None]:
    """The comparison of a value that is not NULL with a string literal, which is converted once per kind."""
    compare = comparison(name, zone)
    known: dict[ValueType, Value] = {}

    def on_value(left: Any) -> bool | None:
        kind = type(left)
        if kind is str:
            return compare(left, text)
        if kind not in known:
            known[kind] = coerce_text(text, kind, zone)
        right = known[kind]
        return None if right is None else compare(left, right)

    return on_value


def among(value: Value, items: Sequence[Value], zone: str) -> bool | None:
    """IN: whether a value equals one of several, all widened to one kind first where Spark does so."""
    if value is None:
        return None
    kind = _common_number(kinds_of([value, *items]))
    if kind is not None:
        value, items = widen(value, kind, zone), [widen(item, kind, zone) for item in items]
    compare = comparison("=", zone)
    outcome: bool | None = False
    for item in items:
        answer = None if item is None else compare(value, item)
        if answer:
            return True
        if answer is None:
            outcome = None
    return outcome


def _common_number(kinds: frozenset[ValueType]) -> ValueType | None:
    """Double, if all are numbers and one is a double: even two integers then meet as doubles."""
    return float if float in kinds and len(kinds) > 1 and kinds <= NUMBERS else None


def among_constants(items: Sequence[Value], zone: str) -> Callable[[Any], bool | None]:
    """IN a list of constants: a hash lookup, in one table per kind of value, built on demand."""
    tables: dict[ValueType, Callable[[Any], bool | None]] = {}

    def on_value(value: Any) -> bool | None:
        if value is None:
            return None
        kind = type(value)
        if kind not in tables:
            tables[kind] = _table(kind, items, zone)
        return tables[kind](value)

    return on_value


def _table(kind: ValueType, items: Sequence[Value], zone: str) -> Callable[[Any], bool | None]:
    """The lookup for values of one kind, with the constants widened to it."""
    target = _target(kind, items)
    if target is None:
        return lambda value: among(value, items, zone)
    widened: list[Any] = [widen(item, target, zone) for item in items]
    absent = None if None in widened else False  # NOT IN a list with NULL is never TRUE
    has_nan = any(item != item for item in widened)
    # A moment without a zone would hash apart from the same moment in UTC.
    values = frozenset(in_utc(item) if type(item) is datetime else item for item in widened)

    def look_up(value: Any) -> bool | None:
        wide: Any = value if kind is target else widen(value, target, zone)
        if wide is None:
            return None
        if wide != wide:
            return True if has_nan else absent
        if target is datetime:
            wide = in_utc(wide)
        return True if wide in values else absent

    return look_up


def _target(kind: ValueType, items: Sequence[Value]) -> ValueType | None:
    """The kind in which values of this kind are compared with the list; None if part of it does not compare."""
    # A string of an event is never converted, so it is looked up only among strings.
    kinds = kinds_of(items)
    if kind is str:
        return str if kinds <= {str} else None
    return widest(kinds | {kind})


OPPOSITES: Final = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
"""The comparison that is TRUE where the other is FALSE."""


class Elements:
    """The values of an array by kind, with memoised extremes for comparisons."""

    def __init__(self, values: Iterable[Scalar], zone: str) -> None:
        self.by_kind: dict[ValueType, list[Scalar]] = {}
        for value in values:
            if value is not None:
                self.by_kind.setdefault(type(value), []).append(value)
        self._zone = zone
        self._widened: dict[tuple[ValueType, ValueType], _Ordered] = {}

    def widened(self, kind: ValueType, common: ValueType) -> _Ordered:
        """The values of one kind, widened to the kind in which they are compared."""
        ordered = self._widened.get((kind, common))
        if ordered is None:
            values = (_widen(value, common, self._zone) for value in self.by_kind[kind])
            ordered = self._widened[kind, common] = _Ordered([each for each in values if each is not None])
        return ordered


class _Ordered:
    """Values of one kind, in Python's order."""

    def __init__(self, values: list[Any]) -> None:
        self.values = values

    @cached_property
    def ends(self) -> _Ends | None:
        return _Ends(min(self.values), max(self.values)) if self.values else None

    @cached_property
    def all(self) -> frozenset[Any]:
        return frozenset(self.values)


class _Ends(NamedTuple):
    least: Any
    greatest: Any


def some_pair(name: str, left: Elements, right: Elements) -> bool:
    """Whether the comparison of this name is TRUE for some element of the left and some of the right."""
    for kind in left.by_kind:
        for other in right.by_kind:
            common = _common_kind(kind, other)
            if common is not None and _compares(name, left.widened(kind, common), right.widened(other, common)):
                return True
    return False


def _compares(name: str, left: _Ordered, right: _Ordered) -> bool:
    mine, theirs = left.ends, right.ends
    if mine is None or theirs is None:
        return False
    match name:
        case "=":
            return not left.all.isdisjoint(right.all)
        case "<>":  # fails only where all elements of both are one value
            return bool(mine.least != theirs.greatest or mine.greatest != theirs.least)
        case "<":
            return bool(mine.least < theirs.greatest)
        case "<=":
            return bool(mine.least <= theirs.greatest)
        case ">":
            return bool(mine.greatest > theirs.least)
    return bool(mine.greatest >= theirs.least)


def _common_kind(kind: ValueType, other: ValueType) -> ValueType | None:
    """The kind in which two kinds are compared; None where they do not compare."""
    if kind is other:
        return kind
    if kind in NUMBERS and other in NUMBERS:
        return float if float in (kind, other) else Decimal
    return datetime if {kind, other} == {date, datetime} else None


def _widen(value: Any, common: ValueType, zone: str) -> Any:
    """A value as an object with Python's order; None where it has no place in the kind."""
    if common is float:
        double = float(value)
        return (double != double, 0.0 if double != double else double)  # NaN equals itself and is the greatest
    if common is datetime:
        moment: Any = widen(value, datetime, zone)
        return None if moment is None else in_utc(moment)
    return value
