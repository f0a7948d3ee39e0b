"""Comparisons with literals as sets of values, and sets of values as comparisons.

`compare` gives the values for which `attribute op literal` is TRUE and those for which it is FALSE; for every other
value it is NULL. Both sets are needed because NOT exchanges them. The rules are Spark's:

- a number literal is compared exactly with integers and decimals, and as a binary64 with floats; a float literal
  is compared as binary64 with all three;
- a string literal is compared with strings, and, where it reads as one, as an integer with integers, as a
  float with decimals and floats, as a boolean, a date or a timestamp with those; where Spark's conversion would
  fail, the comparison is NULL;
- a date is compared with a timestamp at its midnight in the zone of the condition;
- any other pair of kinds is NULL.

`comparison_terms` is the inverse: each interval of a set as one or two comparisons, the form in which a person writes
it and from which an index is built.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, time
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from itertools import pairwise
from math import isinf, isnan
from typing import Final, TypeAlias

from palio.events.values import MAX_DECIMAL_DIGITS, Scalar
from palio.filters.expressions.coercion import kinds_of, local, midnight, widen, widest, zone_named
from palio.filters.expressions.text_cast import BLANKS, WORDS, to_boolean, to_date, to_double, to_integer, to_timestamp
from palio.filters.kinds import (
    HIGHEST_CUT,
    KIND_OF_TYPE,
    KINDS,
    LOWEST_CUT,
    NUMBERS,
    Kind,
    Position,
    cut_after,
    date_position,
    exact_number,
    float_at,
    float_position,
    integer_cut,
    kind_of,
    position_of,
    rounding_cuts,
    timestamp_at,
)
from palio.filters.text_cache import MAX_SHORT_CHARACTERS
from palio.filters.value_sets import (
    ANY_VALUE,
    EMPTY,
    FULL,
    NO_VALUE,
    NULLS,
    PRESENT,
    Intervals,
    ValueSet,
    decimal_of,
    intersection_of,
    span,
    union_all,
    union_of,
)

OPERATORS: Final = ("=", "<>", "<", "<=", ">", ">=")
Term: TypeAlias = list[tuple[str, Scalar]]  # comparisons that must all hold: one, or a lower and an upper bound
_MICROS_PER_SECOND = 1_000_000

# The cuts of a literal among the values of a kind: below and above the values that equal it. They may be one cut (no
# date is 10:00), or the sentinels _ABOVE and _BELOW for a literal beyond all values (an infinity among integers).
Cuts = dict[Kind, tuple[Position, Position]]
_ABOVE: Final = object()
_BELOW: Final = object()
_EXACT_FLOAT_LIMIT: Final = 2**53  # every integer below is a float


@dataclass(frozen=True, slots=True)
class Truth:
    """Where a condition on one attribute is TRUE and where it is FALSE; elsewhere it is NULL."""

    true: ValueSet
    false: ValueSet

    def negate(self) -> Truth:
        return Truth(self.false, self.true)

    def conjoin(self, other: Truth) -> Truth:
        """Both of two conditions without tests: TRUE where both are, FALSE where one is."""
        either = ValueSet(tuple(a.union(b) for a, b in zip(self.false.parts, other.false.parts, strict=True)))
        return Truth(self.true.intersect(other.true), either)


def compare(operator: str, literal: Scalar, timezone: str = "UTC") -> Truth:
    """The meaning of `attribute operator literal`."""
    if isinstance(literal, str | bytes) and len(literal) > MAX_SHORT_CHARACTERS:  # which a cache would keep
        return _compare.__wrapped__(operator, literal, timezone)
    return _compare(operator, literal, timezone)


@lru_cache(maxsize=16_384, typed=True)  # typed: 1, 1.0 and TRUE are equal to Python and not to SQL
def _compare(operator: str, literal: Scalar, timezone: str) -> Truth:
    if literal is None:
        return Truth(NO_VALUE, NO_VALUE)
    return _truth({kind: _interval(kind, operator, *place) for kind, place in equality_cuts(literal, timezone).items()})


def compare_literal(function: str, literal: Scalar, timezone: str) -> Truth:
    """The sets of values of a comparison with a literal; `<=>` takes NULL for a value."""
    if function != "<=>":
        return compare(function, literal, timezone)
    if literal is None:
        return Truth(NULLS, PRESENT)
    equal = compare("=", literal, timezone).true
    return Truth(equal, equal.complement())


def _truth(true: Mapping[Kind, Intervals]) -> Truth:
    """TRUE for these values, FALSE for the others of the same kinds."""
    inside, outside = [EMPTY] * len(KINDS), [EMPTY] * len(KINDS)
    for kind, part in true.items():
        inside[kind], outside[kind] = part, part.complement()
    return Truth(ValueSet(tuple(inside)), ValueSet(tuple(outside)))


def equal_to_any(literals: Sequence[Scalar], timezone: str = "UTC") -> Truth:
    """The meaning of `attribute IN (literals)`; a NULL among them keeps it from ever being FALSE.

    This is not a disjunction of `=`: Spark widens the attribute and the whole list to one kind first, so that in the
    presence of a float even two integers are compared as floats.
    """
    literals = [value for _, value in dict.fromkeys((type(each), each) for each in literals)]
    unwidened = [equality_cuts(literal, timezone) for literal in literals if literal is not None]
    kinds = kinds_of(literals)
    if len(kinds) == 1 and len(unwidened) == len(literals):
        return _equal_to_any_alike(unwidened)
    true: dict[Kind, Intervals] = {}
    false: dict[Kind, Intervals] = {}
    for type_, kind in KIND_OF_TYPE.items():
        cuts = unwidened
        if len(kinds) > 1 and kind > Kind.NULL:
            together = _widened_literals(type_, kinds, literals, timezone)
            if together is not None:
                cuts = [equality_cuts(each, timezone) for each in together if each is not None]
        comparable = [each[kind] for each in cuts if kind in each]
        true[kind] = union_all(_interval(kind, "=", *each) for each in comparable)
        if len(comparable) == len(literals):
            false[kind] = true[kind].complement()
    return Truth(ValueSet.of(true), ValueSet.of(false))


def _equal_to_any_alike(places: Sequence[Cuts]) -> Truth:
    """`equal_to_any` for literals of one kind, the common case."""
    parts: dict[Kind, list[Intervals]] = {}
    for each in places:
        for kind, place in each.items():
            parts.setdefault(kind, []).append(_interval(kind, "=", *place))
    found = _truth({kind: union_all(each) for kind, each in parts.items()})
    if all(len(each) == len(places) for each in parts.values()):
        return found
    # Where a literal cannot be read as a kind, IN is NULL rather than FALSE for values of that kind.
    sure = {kind: found.false.parts[kind] for kind, each in parts.items() if len(each) == len(places)}
    return Truth(found.true, ValueSet.of(sure))


def reads_only_as_text(literal: str, timezone: str = "UTC") -> bool:
    """Whether a string literal is compared with strings only, because it reads as no other kind."""
    if is_word(literal):
        return True
    readings = (to_double, to_integer, to_boolean, to_date)
    return all(read(literal) is None for read in readings) and to_timestamp(literal, timezone) is None


def is_word(literal: str) -> bool:
    """Whether a literal begins with a letter, as no number or date does, and is no word such as `true` or `nan`."""
    bare = literal.strip(BLANKS)
    return bare[:1].isalpha() and bare.isascii() and bare.lower() not in WORDS


def _widened_literals(
    type_: type, kinds: frozenset[type], literals: Sequence[Scalar], timezone: str
) -> list[Scalar] | None:
    """The literals widened to the kind in which values of a type are compared; None where they are unchanged."""
    if type_ is str:
        return None
    wide = widest(kinds | {type_})
    if wide is None:  # incompatible kinds: no string literal is converted
        return [None if isinstance(each, str) else each for each in literals]
    return None if wide is type_ else [widen(each, wide, timezone) for each in literals]  # type: ignore[misc]


def _interval(kind: Kind, operator: str, below: Position, above: Position) -> Intervals:
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


def equality_cuts(literal: Scalar, timezone: str) -> Cuts:
    """The cuts below and above the values that equal a literal, for every kind it is compared with."""
    match literal:
        case bool() | bytes():
            return {kind_of(literal): _around(kind_of(literal), literal)}
        # The common case, without fractions: a short integer is its own float.
        case int() if -_EXACT_FLOAT_LIMIT < literal < _EXACT_FLOAT_LIMIT:
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


def _exact(below: Position, above: Position) -> Cuts:
    return {Kind.INTEGER: (integer_cut(below), integer_cut(above)), Kind.DECIMAL: (below, above)}


def _as_rounded(literal: float) -> Cuts:
    """The cuts of a float among exact numbers, which are rounded to binary64 before the comparison."""
    if isnan(literal) or isinf(literal):
        side = _BELOW if literal < 0 else _ABOVE
        return {Kind.INTEGER: (side, side), Kind.DECIMAL: (side, side)}
    return _exact(*rounding_cuts(literal))


def _to_float(number: int | Decimal) -> float:
    try:
        return float(number)
    except OverflowError:
        return float("inf") if number > 0 else float("-inf")


def _instant(literal: datetime, timezone: str) -> Cuts:
    """The cuts of a timestamp among timestamps, and among dates, each at its midnight."""
    return {Kind.TIMESTAMP: _around(Kind.TIMESTAMP, literal), Kind.DATE: _among_days(literal, timezone)}


def _among_days(literal: datetime, timezone: str) -> tuple[Position, Position]:
    try:
        day = local(literal, timezone).date()
    except OverflowError:  # in this zone it is the year 0 or 10000: outside all days
        beyond = date_position(date.min) if literal.year == 1 else date_position(date.max) + 1
        return beyond, beyond
    following = date_position(day) + 1
    start = _midnight(day, timezone)
    # A change of clocks may skip midnight, and then the day begins after its first instant.
    return (
        date_position(day) if start >= literal else following,
        date_position(day) if start > literal else following,
    )


def day_beginning(moment: datetime, timezone: str) -> date | None:
    """The day that begins at a moment in a zone; None where none does."""
    try:
        day = local(moment, timezone).date()
        return day if _midnight(day, timezone) == moment else None
    except OverflowError:
        return None


def _midnight(day: date, timezone: str) -> datetime:
    """The first instant of a day in a zone; it may be before the first that UTC has, or after the last."""
    try:
        return midnight(day, timezone)
    except OverflowError:
        return datetime.combine(day, time(), tzinfo=zone_named(timezone))


def _converted(literal: str, timezone: str) -> Cuts:
    """The cuts of a string literal among the kinds it can be read as."""
    places: Cuts = {}
    if is_word(literal):
        return places
    # Spark converts a string to double for decimals too, but to integer, not double, for integers.
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


def comparison_terms(kind: Kind, part: Intervals) -> Iterator[Term]:
    """Each interval of a part as one or two comparisons; a single value as an equality."""
    for low, high in part.spans():
        first = LOWEST_CUT.get(kind) if low is None else low
        last = HIGHEST_CUT.get(kind) if high is None else high
        if first is not None and last is not None and _is_point(kind, first, last):
            yield [("=", _single(kind, first))]
            continue
        term: Term = []
        if low is not None:
            above, literal = _literal(kind, low)
            term.append((">" if above else ">=", literal))
        if high is not None:
            above, literal = _literal(kind, high)
            term.append(("<=" if above else "<", literal))
        yield term


def values_satisfying(alternatives: Iterable[Term], timezone: str = "UTC") -> ValueSet:
    """The values of all kinds that satisfy a disjunction of terms."""
    sets = []
    for term in alternatives:
        accepted = [compare(operator, literal, timezone).true for operator, literal in term]
        sets.append(intersection_of(accepted) if accepted else ANY_VALUE)
    return union_of(sets) or NO_VALUE


def number_terms(values: ValueSet) -> list[Term] | None:
    """Terms that express a set for integers, decimals and floats alike; None where there are none."""
    # Terms with exact literals first; where they do not express the floats, terms with float literals may.
    for kind in (Kind.DECIMAL, Kind.FLOAT):
        if not _may_be_alike(kind, values):
            continue
        found = [term for term in comparison_terms(kind, values.parts[kind]) if term]
        meant = values_satisfying(found)
        if found and all(meant.parts[each] == values.parts[each] for each in NUMBERS):
            return found
    return None


def _may_be_alike(kind: Kind, values: ValueSet) -> bool:
    """Whether terms with literals of a kind may express decimals and floats alike; cheap, and a no is certain."""
    exact, floats = values.parts[Kind.DECIMAL].cuts, values.parts[Kind.FLOAT].cuts
    if any(abs(number) >= _EXACT_FLOAT_LIMIT for number, _ in exact):
        return True
    if kind is Kind.FLOAT:
        # Exact numbers that are rounded are cut half-way between two floats.
        return not any(number.denominator & (number.denominator - 1) or float(number) == number for number, _ in exact)
    if len(exact) != len(floats):
        return True
    rounded = [float_position(float(number)) + after for number, after in exact]
    return any(one == two for one, two in pairwise(rounded)) or rounded == list(floats)


def excluded_values(kind: Kind, part: Intervals) -> list[Scalar] | None:
    """The values that a part excludes, where it is all values of its kind but some points."""
    rest = part.complement()
    if rest.inside or len(rest.cuts) % 2 or not rest.cuts:
        return None
    left_out = list(comparison_terms(kind, rest))
    if any(len(term) != 1 or term[0][0] != "=" for term in left_out):
        return None
    return [term[0][1] for term in left_out]


def _is_point(kind: Kind, low: Position, high: Position) -> bool:
    if kind is Kind.DECIMAL and not _is_written_exactly(low[0]):
        return bool(rounding_cuts(_nearest(low))[1] == high)
    return bool(cut_after(kind, low) == high)


def _single(kind: Kind, position: Position) -> Scalar:
    """The literal of one value; as a cut, '\\0' would be written as the one above the empty string."""
    match kind:
        case Kind.STRING | Kind.BYTES:
            return position  # type: ignore[no-any-return]
        case Kind.TIMESTAMP:
            return timestamp_at(position)
        case Kind.FLOAT:
            return float_at(position)
    return _literal(kind, position)[1]


def _literal(kind: Kind, cut: Position) -> tuple[bool, Scalar]:
    """The literal at a cut, and whether the cut lies above it."""
    match kind:
        case Kind.DECIMAL:
            number, above = cut
            if _is_written_exactly(number):
                return bool(above), number if isinstance(number, int) else decimal_of(number)
            nearest = _nearest(cut)
            return rounding_cuts(nearest)[1] == cut, nearest
        case Kind.FLOAT:
            # "above 0.1" rather than "from the next float on", whichever is shorter to write
            here, below = float_at(cut), float_at(cut - 1)
            return (True, below) if len(repr(below)) < len(repr(here)) else (False, here)
        case Kind.STRING if cut.endswith("\0"):
            return True, cut[:-1]
        case Kind.BYTES if cut.endswith(b"\0"):
            return True, cut[:-1]
        case Kind.DATE:
            return False, date.fromordinal(cut)
        case Kind.TIMESTAMP:
            above = cut % _MICROS_PER_SECOND == 1  # "after twelve" rather than "from a microsecond past twelve"
            return above, timestamp_at(cut - above)
        case Kind.BOOLEAN:
            return False, bool(cut)
    return False, cut


def _is_written_exactly(number: int | Fraction) -> bool:
    """Whether a number has a decimal literal; midpoints between two floats mostly do not."""
    if isinstance(number, int):
        return len(str(abs(number))) <= MAX_DECIMAL_DIGITS
    _, digits, exponent = decimal_of(number).as_tuple()
    assert isinstance(exponent, int)  # it is finite
    return len(digits) <= MAX_DECIMAL_DIGITS and -exponent <= MAX_DECIMAL_DIGITS


def _nearest(cut: Position) -> float:
    """The float whose rounding a cut bounds, from above or from below."""
    place = float_position(float(cut[0]))
    for candidate in (place, place - 1, place + 1):
        if cut in rounding_cuts(float_at(candidate)):
            return float_at(candidate)
    raise ValueError(f"no literal stands at {cut[0]}")
