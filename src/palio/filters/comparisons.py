"""What `attribute op literal` means: the values for which it is TRUE, and those for which it is FALSE.

For every other value it is NULL. Both sets are needed because NOT exchanges them. The rules are Spark's:

- a number literal is compared exactly with integers and decimals, and as a binary64 with floats; a float literal
  is compared as binary64 with all three;
- a string literal is compared with strings, and, where it reads as one, as a whole number with integers, as a
  float with decimals and floats, as a boolean, a date or a timestamp with those; where Spark's conversion would
  fail, the comparison is NULL;
- a date meets a timestamp at midnight in the zone of the condition;
- any other pair of kinds is NULL.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from functools import lru_cache
from math import isinf, isnan
from typing import Final

from palio.events.values import Scalar
from palio.filters.expressions.casting import (
    BLANKS,
    WORDS,
    to_boolean,
    to_date,
    to_double,
    to_integer,
    to_timestamp,
)
from palio.filters.expressions.values import kinds_of, local, widen, widest, zone_named
from palio.filters.intervals import EMPTY, FULL, Intervals, span, union_all
from palio.filters.kinds import (
    KIND_OF_TYPE,
    KINDS,
    Kind,
    Position,
    cut_after,
    date_position,
    exact_number,
    float_position,
    integer_cut,
    kind_of,
    position_of,
    rounding_cuts,
)
from palio.filters.values import NO_VALUE, ValueSet

OPERATORS: Final = ("=", "<>", "<", "<=", ">", ">=")
MIRRORED: Final[Mapping[str, str]] = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@dataclass(frozen=True, slots=True)
class Truth:
    """Where a condition on one attribute is TRUE and where it is FALSE; elsewhere it is NULL."""

    true: ValueSet
    false: ValueSet

    def negate(self) -> Truth:
        return Truth(self.false, self.true)


@lru_cache(maxsize=16_384, typed=True)  # typed: 1, 1.0 and TRUE are equal to Python and not to SQL
def compare(operator: str, literal: Scalar, timezone: str = "UTC") -> Truth:
    """The meaning of `attribute operator literal`."""
    if literal is None:
        return Truth(NO_VALUE, NO_VALUE)
    return _truth({kind: _part(kind, operator, *place) for kind, place in places_of(literal, timezone).items()})


def _truth(true: Mapping[Kind, Intervals]) -> Truth:
    """TRUE for these values, FALSE for the others of the same kinds."""
    inside, outside = [EMPTY] * len(KINDS), [EMPTY] * len(KINDS)
    for kind, part in true.items():
        inside[kind], outside[kind] = part, part.complement()
    return Truth(ValueSet(tuple(inside)), ValueSet(tuple(outside)))


def equal_to_any(literals: Sequence[Scalar], timezone: str = "UTC") -> Truth:
    """The meaning of `attribute IN (literals)`; a NULL among them keeps it from ever being FALSE.

    Not quite one `=` after the other: Spark brings the attribute and the whole list to one kind first, so that
    beside a float even two integers meet as floats.
    """
    alone = [places_of(literal, timezone) for literal in literals if literal is not None]
    kinds = kinds_of(literals)
    if len(kinds) == 1 and len(alone) == len(literals):
        return _equal_to_any_alike(alone)
    true: dict[Kind, Intervals] = {}
    false: dict[Kind, Intervals] = {}
    for type_, kind in KIND_OF_TYPE.items():
        places = alone
        if len(kinds) > 1 and kind > Kind.NULL:
            together = _brought_together(type_, kinds, literals, timezone)
            if together is not None:
                places = [places_of(each, timezone) for each in together if each is not None]
        comparable = [each[kind] for each in places if kind in each]
        true[kind] = union_all(_part(kind, "=", *each) for each in comparable)
        if len(comparable) == len(literals):
            false[kind] = true[kind].complement()
    return Truth(ValueSet.of(true), ValueSet.of(false))


def _equal_to_any_alike(places: Sequence[Places]) -> Truth:
    """The same for literals of one kind, which are nearly all lists."""
    parts: dict[Kind, list[Intervals]] = {}
    for each in places:
        for kind, place in each.items():
            parts.setdefault(kind, []).append(_part(kind, "=", *place))
    found = _truth({kind: union_all(each) for kind, each in parts.items()})
    if all(len(each) == len(places) for each in parts.values()):
        return found
    # A kind that some literal cannot be read as is never certain not to be in the list.
    sure = {kind: found.false.parts[kind] for kind, each in parts.items() if len(each) == len(places)}
    return Truth(found.true, ValueSet.of(sure))


def is_only_text(literal: str, timezone: str = "UTC") -> bool:
    """Whether a string literal is compared with strings alone, because it reads as nothing else."""
    if _is_word(literal):
        return True
    readings = (to_double, to_integer, to_boolean, to_date)
    return all(read(literal) is None for read in readings) and to_timestamp(literal, timezone) is None


def _is_word(literal: str) -> bool:
    """Whether a literal begins with a letter, as no number, date or time does, and is none of the few words."""
    bare = literal.strip(BLANKS)
    return bare[:1].isalpha() and bare.isascii() and bare.lower() not in WORDS


def _brought_together(
    type_: type, kinds: frozenset[type], literals: Sequence[Scalar], timezone: str
) -> list[Scalar] | None:
    """The literals as the kind in which values of a type meet them; None where each may stay what it is."""
    if type_ is str:
        return None
    wide = widest(kinds | {type_})
    if wide is None:  # unlike kinds: no string is read as anything else
        return [None if isinstance(each, str) else each for each in literals]
    return None if wide is type_ else [widen(each, wide, timezone) for each in literals]  # type: ignore[misc]


# Where a literal stands among the values of a kind: the cut below and the cut above what equals it. They may be
# the same cut (no date is 10:00), or None/None for "above all" (an infinity among integers), said as _ABOVE.
Places = dict[Kind, tuple[Position, Position]]
_ABOVE: Final = object()
_BELOW: Final = object()
_SHORT: Final = 2**53  # below, every integer is a float


def _part(kind: Kind, operator: str, below: Position, above: Position) -> Intervals:
    if below is _ABOVE:
        return FULL if operator in ("<>", "<", "<=") else EMPTY
    if below is _BELOW:
        return FULL if operator in ("<>", ">", ">=") else EMPTY
    match operator:
        case "=":
            return span(kind, below, above)
        case "<>":
            return span(kind, below, above).complement()
        case "<":
            return span(kind, None, below)
        case "<=":
            return span(kind, None, above)
        case ">":
            return span(kind, above, None)
        case ">=":
            return span(kind, below, None)
    raise ValueError(f"no comparison {operator!r}")


def places_of(literal: Scalar, timezone: str) -> Places:
    """The cuts below and above what equals a literal, for every kind it is compared with."""
    match literal:
        case bool() | bytes():
            return {kind_of(literal): _around(kind_of(literal), literal)}
        case int() if -_SHORT < literal < _SHORT:
            place = float_position(literal)
            return {
                Kind.INTEGER: (literal, literal + 1),
                Kind.DECIMAL: ((literal, 0), (literal, 1)),
                Kind.FLOAT: (place, place + 1),
            }
        case int() | Decimal():
            number = exact_number(literal)
            return {**_exact((number, 0), (number, 1)), Kind.FLOAT: _around(Kind.FLOAT, _to_float(literal))}
        case float():
            return {**_as_rounded(literal), Kind.FLOAT: _around(Kind.FLOAT, literal)}
        case datetime():
            return _instant(literal, timezone)
        case date():
            return {
                Kind.DATE: _around(Kind.DATE, literal),
                Kind.TIMESTAMP: _around(Kind.TIMESTAMP, _midnight(literal, timezone)),
            }
        case str():
            return {Kind.STRING: (literal, literal + "\0"), **_converted(literal, timezone)}
    raise TypeError(f"{type(literal).__name__} is no literal")


def _around(kind: Kind, value: Scalar) -> tuple[Position, Position]:
    position = position_of(kind, value)
    return position, cut_after(kind, position)


def _exact(below: Position, above: Position) -> Places:
    return {Kind.INTEGER: (integer_cut(below), integer_cut(above)), Kind.DECIMAL: (below, above)}


def _as_rounded(literal: float) -> Places:
    """Where a float stands among exact numbers, each rounded to binary64 first."""
    if isnan(literal) or isinf(literal):
        side = _BELOW if literal < 0 else _ABOVE
        return {Kind.INTEGER: (side, side), Kind.DECIMAL: (side, side)}
    return _exact(*rounding_cuts(literal))


def _to_float(number: int | Decimal) -> float:
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")


def _instant(literal: datetime, timezone: str) -> Places:
    """A timestamp among timestamps, and among dates, each taken at its midnight."""
    return {Kind.TIMESTAMP: _around(Kind.TIMESTAMP, literal), Kind.DATE: _among_days(literal, timezone)}


def _among_days(literal: datetime, timezone: str) -> tuple[Position, Position]:
    try:
        day = local(literal, timezone).date()
    except OverflowError:  # in this zone it is the year 0 or 10000: outside all days
        beyond = date_position(date.min) if literal.year == 1 else date_position(date.max) + 1
        return beyond, beyond
    following = date_position(day) + 1
    midnight = _midnight(day, timezone)
    # A change of clocks may skip midnight, and then the day begins after its first instant.
    return (
        date_position(day) if midnight >= literal else following,
        date_position(day) if midnight > literal else following,
    )


def day_beginning(moment: datetime, timezone: str) -> date | None:
    """The day whose midnight in a zone a moment is, where it is one."""
    try:
        day = local(moment, timezone).date()
        return day if _midnight(day, timezone) == moment else None
    except OverflowError:
        return None


def _midnight(day: date, timezone: str) -> datetime:
    """The first instant of a day in a zone; where the clock skips midnight, the instant it would have been."""
    return datetime.combine(day, time(), tzinfo=zone_named(timezone))


def _converted(literal: str, timezone: str) -> Places:
    """Where a string literal stands among the kinds it can be read as."""
    places: Places = {}
    if _is_word(literal):
        return places
    number = to_double(literal)
    if number is not None:
        places[Kind.FLOAT] = _around(Kind.FLOAT, number)
        places[Kind.DECIMAL] = _as_rounded(number)[Kind.DECIMAL]
    whole = to_integer(literal)
    if whole is not None:
        places[Kind.INTEGER] = (whole, whole + 1)
    truth = to_boolean(literal)
    if truth is not None:
        places[Kind.BOOLEAN] = _around(Kind.BOOLEAN, truth)
    day = to_date(literal)
    if day is not None:
        places[Kind.DATE] = _around(Kind.DATE, day)
    instant = to_timestamp(literal, timezone)
    if instant is not None:
        places[Kind.TIMESTAMP] = _around(Kind.TIMESTAMP, instant)
    return places
