"""Intervals that are plain from the literals of a group, so that no set of values need be made.

Each short cut gives None where it does not apply to the literals at hand, and the set of values is asked instead.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import date
from typing import Any, Final, TypeAlias

from palio.filters.comparisons import is_only_text, places_of
from palio.filters.expressions.casting import to_boolean, to_date, to_double, to_integer, to_timestamp
from palio.filters.kinds import HIGHEST_CUT, LOWEST_CUT, Kind, timestamp_at
from palio.filters.values import after_prefix
from palio.languages.sql.lowering import Ask
from palio.languages.sql.templates import STRING, Liked, Listed
from palio.matching.columnar.conditions import ConditionsBuilder
from palio.matching.columnar.encoding import Region
from palio.matching.columnar.groups import Group, bounds_of, operator_of, slots_of

ShortCut: TypeAlias = Callable[[ConditionsBuilder, str, Group, list[Any], str], list[int] | None]
Bounds: TypeAlias = list[tuple[str, Any]]  # an operator, and what is compared with


def short_cut(group: Group) -> ShortCut | None:
    bounds = bounds_of(group)
    if bounds is not None:
        found = {_BY_KIND.get(slot.before if slot.kind == STRING else "number") for slot in bounds.values()}
        return found.pop() if len(found) == 1 else None
    match group:
        case [(Liked(_, "like" | "startswith"), Ask.TRUE)]:
            return _prefix
        case [(Listed(), Ask.FALSE)]:
            return _unlisted
    return None


def _numbers(builder: ConditionsBuilder, name: str, group: Group, values: list[Any], zone: str) -> list[int]:
    """A comparison with a number means the same to every kind of number, and nothing to any other value."""
    return _compared(builder, name, Region.NUMBER, _with_operators(group, values))


def _texts(builder: ConditionsBuilder, name: str, group: Group, values: list[Any], zone: str) -> list[int] | None:
    """What is only text is compared with strings alone; a whole number in quotes, if for equality, also as that."""
    bounds = _with_operators(group, values)
    if all(is_only_text(value, zone) for value in values):
        return _compared(builder, name, Region.STRING, bounds)
    return _equal_to_whole(builder, name, values[0], zone) if bounds[0][0] == "=" else None


def _equal_to_whole(builder: ConditionsBuilder, name: str, text: str, zone: str) -> list[int] | None:
    whole, number = to_integer(text), to_double(text)
    if whole is None or whole != number or abs(whole) >= _SHORT or to_boolean(text) is not None:
        return None
    axes, axis = builder.axes, builder.axis((name, None))
    found = [axes.equal(axis, Region.STRING, text), axes.equal(axis, Region.NUMBER, float(whole))]
    day, moment = to_date(text), to_timestamp(text, zone)
    if day is not None:
        found.append(axes.equal(axis, Region.DATE, day))
    if moment is not None:
        found.append(axes.equal(axis, Region.TIMESTAMP, moment))
    return found


def _times(builder: ConditionsBuilder, name: str, group: Group, values: list[Any], zone: str) -> list[int] | None:
    """A date meets a timestamp at midnight, and so stands somewhere among those, too."""
    bounds = list(zip(map(operator_of, group), (places_of(value, zone) for value in values), strict=True))
    found: list[int] = []
    axis = builder.axis((name, None))
    for kind, region, value_at in _TIMES:
        spans: list[tuple[Any, Any]] = [(None, None)]
        for operator, places in bounds:
            below, above = places[kind]
            if operator == "<>":
                spans = [(None, below), (above, None)]
                continue
            low, high = spans[0]
            low = {"=": below, ">=": below, ">": above}.get(operator or "", low)
            high = {"=": above, "<=": above, "<": below}.get(operator or "", high)
            spans = [(low, high)]
        for ends in spans:
            if any(end is not None and not LOWEST_CUT[kind] < end < HIGHEST_CUT[kind] for end in ends):
                return None  # outside the years there are
            low, high = (None if end is None else (value_at(end), False) for end in ends)
            found.append(builder.axes.between(axis, region, low, high))
    return found


def _compared(builder: ConditionsBuilder, name: str, region: Region, bounds: Bounds) -> list[int]:
    axes, axis = builder.axes, builder.axis((name, None))
    if bounds[0][0] == "=":
        return [axes.equal(axis, region, bounds[0][1])]
    if bounds[0][0] == "<>":
        value = bounds[0][1]
        return [axes.between(axis, region, None, (value, False)), axes.between(axis, region, (value, True), None)]
    low = high = None
    for operator, value in bounds:
        if operator in (">", ">="):
            low = (value, operator == ">")
        else:
            high = (value, operator == "<=")
    return [axes.between(axis, region, low, high)]


def _with_operators(group: Group, values: list[Any]) -> Bounds:
    return [(operator_of(asked) or "", value) for asked, value in zip(group, values, strict=True)]


def _unlisted(builder: ConditionsBuilder, name: str, group: Group, values: list[Any], zone: str) -> list[int] | None:
    """NOT IN, for texts that are only that: the strings between those listed."""
    listed, _ = group[0]
    if len(slots_of(listed)) != len(getattr(listed, "operands", ())):
        return None  # a NULL among them, say
    if not all(type(value) is str and is_only_text(value, zone) for value in values):
        return None
    axis = builder.axis((name, None))
    lows = [None, *((value, True) for value in sorted(set(values)))]
    highs = [*((value, False) for value in sorted(set(values))), None]
    return [builder.axes.between(axis, Region.STRING, *ends) for ends in zip(lows, highs, strict=True)]


def _prefix(builder: ConditionsBuilder, name: str, group: Group, values: list[Any], zone: str) -> list[int] | None:
    """The strings between a prefix and what comes behind all that have it."""
    simple, _ = group[0]
    assert isinstance(simple, Liked)
    pattern = simple.pattern([*[None] * simple.operand.index, values[0]])
    if pattern.shape == "exact":
        return _compared(builder, name, Region.STRING, [("=", pattern.text)])
    if pattern.shape != "prefix" or not pattern.text:
        return None
    end = after_prefix(pattern.text)
    last = None if end is None else (end, False)
    return [builder.axes.between(builder.axis((name, None)), Region.STRING, (pattern.text, False), last)]


_SHORT: Final = 2**53
_TIMES: Final = (
    (Kind.DATE, Region.DATE, date.fromordinal),
    (Kind.TIMESTAMP, Region.TIMESTAMP, timestamp_at),
)
_BY_KIND: Final[dict[str, ShortCut]] = {
    "number": _numbers,
    "": _texts,
    **dict.fromkeys(("date", "timestamp", "timestamp_ltz", "timestamp_ntz"), _times),
}
