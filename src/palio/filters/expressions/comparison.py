"""How two values compare: Spark's order of each kind, and what is done before two kinds meet.

Numbers of unlike kinds meet as the wider one: an integer and a decimal exactly, either of them and a double
as doubles. NaN equals itself and is greater than every number; the two zeros are equal. Text is ordered by
code point, which is the order of its UTF-8 bytes. A day meets a moment at its midnight. Two values of any
other unlike kinds do not compare: NULL. A string *literal* is converted to the kind of what it meets, as
Spark does, but a string that comes with an event is not (Spark would convert it too, and raise where it is no
number; write CAST where that is wanted).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from datetime import date, datetime
from typing import Any, Final, TypeAlias

from palio.filters.expressions.values import (
    INTERVALS,
    NUMBERS,
    Kind,
    Value,
    in_utc,
    kinds_of,
    text_as,
    widen,
    widest,
)

Compare: TypeAlias = Callable[[Any, Any], bool | None]

COMPARISONS: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
MIRRORED: Final = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<=", "<=>": "<=>"}

_PLAIN: Final[frozenset[Kind]] = frozenset({bool, int, str, date, bytes, *INTERVALS, *NUMBERS}) - {float}


def comparison(name: str, zone: str) -> Compare:
    """The comparison of this name, on two values that are not NULL."""
    compare = COMPARISONS[name]

    def on_values(left: Any, right: Any) -> bool | None:
        kind, other = type(left), type(right)
        if kind is other and kind in _PLAIN:
            return compare(left, right)
        pair = _meet(left, right, kind, other, zone)
        return None if pair is None else compare(*pair)

    return on_values


def _meet(left: Any, right: Any, kind: Kind, other: Kind, zone: str) -> tuple[Any, Any] | None:
    """Two values whose order in Python is the one wanted in Spark; None if they do not compare."""
    if kind in NUMBERS and other in NUMBERS:
        if kind is float or other is float:
            left, right = float(left), float(right)
            if left != left or right != right:
                return left != left, right != right
        return left, right
    if kind is datetime and other is datetime:
        return in_utc(left), in_utc(right)
    if {kind, other} == {date, datetime}:
        left, right = widen(left, datetime, zone), widen(right, datetime, zone)
        return None if left is None or right is None else (in_utc(left), in_utc(right))
    return None


def comparison_with_text(name: str, text: str, zone: str) -> Callable[[Any], bool | None]:
    """The comparison of a value that is not NULL with a string literal, converted once per kind."""
    compare = comparison(name, zone)
    known: dict[Kind, Value] = {}

    def on_value(left: Any) -> bool | None:
        kind = type(left)
        if kind is str:
            return compare(left, text)
        if kind not in known:
            known[kind] = text_as(text, kind, zone)
        right = known[kind]
        return None if right is None else compare(left, right)

    return on_value


def among(value: Value, items: Sequence[Value], zone: str) -> bool | None:
    """IN: whether a value equals one of several, all brought to one kind first where Spark does so."""
    if value is None:
        return None
    kind = _common_number(kinds_of([value, *items]))
    if kind is not None:
        value, items = widen(value, kind, zone), [widen(item, kind, zone) for item in items]
    compare = comparison("=", zone)
    found: bool | None = False
    for item in items:
        answer = None if item is None else compare(value, item)
        if answer:
            return True
        if answer is None:
            found = None
    return found


def _common_number(kinds: frozenset[Kind]) -> Kind | None:
    """Double, if all are numbers and one is a double: even two integers then meet as doubles."""
    return float if float in kinds and len(kinds) > 1 and kinds <= NUMBERS else None


def among_constants(items: Sequence[Value], zone: str) -> Callable[[Any], bool | None]:
    """IN a list of constants: a lookup, in a table made once for each kind of value that is ever asked."""
    tables: dict[Kind, Callable[[Any], bool | None]] = {}

    def on_value(value: Any) -> bool | None:
        if value is None:
            return None
        kind = type(value)
        if kind not in tables:
            tables[kind] = _table(kind, items, zone)
        return tables[kind](value)

    return on_value


def _table(kind: Kind, items: Sequence[Value], zone: str) -> Callable[[Any], bool | None]:
    """The lookup for values of one kind: the constants as what they are worth to that kind."""
    target = _target(kind, items)
    if target is None:
        return lambda value: among(value, items, zone)
    worth: list[Any] = [widen(item, target, zone) for item in items]
    absent = None if None in worth else False
    has_nan = any(item != item for item in worth)
    # A moment without a zone would hash apart from the same moment in UTC.
    values = frozenset(in_utc(item) if type(item) is datetime else item for item in worth)

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


def _target(kind: Kind, items: Sequence[Value]) -> Kind | None:
    """The kind in which values of this kind meet the list; None if some of it does not compare."""
    kinds = kinds_of(items)
    if kind is str:
        return str if kinds <= {str} else None
    return widest(kinds | {kind})
