"""Does some element of one array compare with some element of another as asked, without trying every pair?

Values of two kinds meet as one kind (`comparison.py`), and what each becomes there keeps its order. So `a < b` holds
for some pair exactly when it holds for the least `a` and the greatest `b` of some two kinds, `a = b` when the two
have a value in common, and `a <> b` fails only where all are one value.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import date, datetime
from decimal import Decimal
from functools import cached_property
from typing import Any, Final, NamedTuple

from palio.events.values import Scalar
from palio.filters.expressions.values import NUMBERS, Kind, in_utc, widen

OPPOSITES: Final = {"=": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}
"""The comparison that is TRUE where another is FALSE."""


class Elements:
    """The values of an array, by kind; looked through once, however often they are compared."""

    def __init__(self, values: Iterable[Scalar], zone: str) -> None:
        self.by_kind: dict[Kind, list[Scalar]] = {}
        for value in values:
            if value is not None:
                self.by_kind.setdefault(type(value), []).append(value)
        self._zone = zone
        self._met: dict[tuple[Kind, Kind], _Ordered] = {}

    def meeting(self, kind: Kind, common: Kind) -> _Ordered:
        """The values of one kind as what they are worth where they meet another kind."""
        found = self._met.get((kind, common))
        if found is None:
            worth = (_worth(value, common, self._zone) for value in self.by_kind[kind])
            found = self._met[kind, common] = _Ordered([each for each in worth if each is not None])
        return found


class _Ordered:
    """Values of one order."""

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
            common = _common(kind, other)
            if common is not None and _compares(name, left.meeting(kind, common), right.meeting(other, common)):
                return True
    return False


def _compares(name: str, left: _Ordered, right: _Ordered) -> bool:
    mine, theirs = left.ends, right.ends
    if mine is None or theirs is None:
        return False
    match name:
        case "=":
            return not left.all.isdisjoint(right.all)
        case "<>":
            return bool(mine.least != theirs.greatest or mine.greatest != theirs.least)
        case "<":
            return bool(mine.least < theirs.greatest)
        case "<=":
            return bool(mine.least <= theirs.greatest)
        case ">":
            return bool(mine.greatest > theirs.least)
    return bool(mine.greatest >= theirs.least)


def _common(kind: Kind, other: Kind) -> Kind | None:
    """The kind in which two meet; None where they do not compare."""
    if kind is other:
        return kind
    if kind in NUMBERS and other in NUMBERS:
        return float if float in (kind, other) else Decimal
    return datetime if {kind, other} == {date, datetime} else None


def _worth(value: Any, common: Kind, zone: str) -> Any:
    """A value in Python's order of the kind; None where there is none."""
    if common is float:
        double = float(value)
        return (double != double, 0.0 if double != double else double)  # NaN equals itself and is the greatest
    if common is datetime:
        moment: Any = widen(value, datetime, zone)
        return None if moment is None else in_utc(moment)
    return value
