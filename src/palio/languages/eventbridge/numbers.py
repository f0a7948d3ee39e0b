"""Numbers in patterns: which can be compared, and the grammar of `numeric`.

Numbers are compared by value, however they are written: 300, 300.0 and 3.0e2 are one number. What `numeric` and
`anything-but` compare with must be a number that binary64 keeps exactly as it was written, because events are
read that way; a number that only stands for itself may have any digits.
"""

from __future__ import annotations

from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, ROUND_FLOOR, Context, Decimal
from typing import Final

from palio.events.values import DIGITS
from palio.filters.comparisons import compare
from palio.filters.kinds import Kind
from palio.filters.values import NO_VALUE, ValueSet
from palio.languages.eventbridge.dialect import Dialect
from palio.languages.eventbridge.document import Array, Value, kind_of
from palio.languages.eventbridge.refusal import Place

_LARGEST_EXPONENT: Final = 308  # of binary64
_SMALLEST_EXPONENT: Final = -324
_EXACT: Final = Context(prec=MAX_PREC, Emin=MIN_EMIN, Emax=MAX_EMAX)
_MOST_CUT: Final = Decimal("1e20")  # beyond that, no number of an event has digits behind the point
_LOWER: Final = (">", ">=")
_UPPER: Final = ("<", "<=")


def equal_to(literal: Decimal, dialect: Dialect) -> ValueSet:
    """The numbers equal to a literal; none where no event can hold it."""
    if dialect.digits is not None and literal.copy_abs() < _MOST_CUT:
        return _cut("=", literal, dialect.digits)
    if literal.is_zero():
        return _numbers("=", Decimal(0))
    if not _SMALLEST_EXPONENT <= literal.adjusted() <= _LARGEST_EXPONENT:
        return NO_VALUE
    if _is_kept(literal):
        return _numbers("=", literal)
    # A fraction of many digits is rounded in an event as it is here; a whole number is not.
    is_rounded = literal != literal.to_integral_value() and float(literal) != 0
    exact = _numbers("=", literal) if _is_decimal(literal) else NO_VALUE
    rounded = compare("=", float(literal)).true if is_rounded else NO_VALUE
    return ValueSet.of(
        {
            Kind.INTEGER: exact.part(Kind.INTEGER),
            Kind.DECIMAL: exact.part(Kind.DECIMAL),
            Kind.FLOAT: rounded.part(Kind.FLOAT),
        }
    )


def _numbers(operator: str, literal: Decimal) -> ValueSet:
    """The numbers that compare so with a literal: exactly, but for floats, which compare as binary64."""
    # What has more digits than any decimal of an event is told from all of them by its nearest float as well.
    return compare(operator, literal if _is_decimal(literal) else float(literal)).true


def _compared(operator: str, literal: Decimal, dialect: Dialect) -> ValueSet:
    if dialect.digits is not None and literal.copy_abs() < _MOST_CUT:
        return _cut(operator, literal, dialect.digits)
    return _numbers(operator, literal)


def _cut(operator: str, literal: Decimal, digits: int) -> ValueSet:
    """The numbers that compare so with a literal if only so many digits behind the point count, of either."""
    unit = Decimal(1).scaleb(-digits)
    first = literal.quantize(unit, ROUND_FLOOR, _EXACT)  # of all numbers that are the same then; the next is not
    match operator:
        case "=":
            return _numbers(">=", first).intersect(_numbers("<", first + unit))
        case "<" | ">=":
            return _numbers(operator, first)
        case "<=":
            return _numbers("<", first + unit)
    return _numbers(">=", first + unit)


def _is_decimal(literal: Decimal) -> bool:
    """Whether an event can hold a number as a decimal: with 38 digits, of which any part is behind the point."""
    exponent = literal.normalize(_EXACT).as_tuple().exponent
    assert isinstance(exponent, int)  # it is finite
    return exponent >= -DIGITS and literal.adjusted() < DIGITS and literal.adjusted() - min(exponent, 0) < DIGITS


def _is_kept(literal: Decimal) -> bool:
    """Whether binary64 keeps a number as it was written."""
    return Decimal(repr(float(literal))) == literal


def comparable(value: Value, place: Place, dialect: Dialect) -> Decimal:
    """The number of a value, if values of events can be compared with it."""
    literal = value.content
    assert isinstance(literal, Decimal)
    if literal.is_zero():
        return Decimal(0)
    in_range = _SMALLEST_EXPONENT <= literal.adjusted() <= _LARGEST_EXPONENT
    if not in_range or not _is_kept(literal):
        raise place.refuse(
            value,
            "this number cannot be compared: binary64 does not keep it exactly",
            "write it with fewer digits",
        )
    if dialect.largest is not None and literal.copy_abs() > dialect.largest:
        bound = f"{dialect.largest:,f}"
        raise place.refuse(
            value,
            f"{dialect.service} compares numbers between -{bound} and {bound}",
            "strict=False lifts the limits of the service",
        )
    return literal


def read_numeric(operand: Value, place: Place, dialect: Dialect) -> ValueSet:
    """The numbers that satisfy the operand of `numeric`: one comparison, or a lower and an upper bound."""
    if not isinstance(operand.content, Array):
        raise place.refuse(operand, f"numeric takes an array, not {kind_of(operand)}", _FORM)
    items = operand.content.items
    if not items:
        raise place.refuse(operand, "numeric takes an operator and a number, and here is nothing", _FORM)
    operator = _operator(items[0], place, ("=", *_LOWER, *_UPPER))
    first = _operand(items, 1, operand, place, dialect)
    values = _compared(operator, first, dialect)
    if len(items) == 2:
        return values
    if operator not in _LOWER:
        raise place.refuse(items[2], f"nothing may follow after {operator} and its number", _FORM)
    second = _operator(items[2], place, _UPPER)
    last = _operand(items, 3, operand, place, dialect)
    if len(items) > 4:
        raise place.refuse(items[4], "a range has a lower and an upper bound, and nothing more", _FORM)
    if first >= last:
        raise place.refuse(items[3], f"the range is empty: its lower bound {first} is not below {last}")
    return values.intersect(_compared(second, last, dialect))


_FORM: Final = 'write ["=", 5], [">", 0], ["<=", 9] or a range [">=", 0, "<", 10]'


def _operator(item: Value, place: Place, allowed: tuple[str, ...]) -> str:
    if not isinstance(item.content, str):
        raise place.refuse(item, f"an operator is a string, not {kind_of(item)}", _FORM)
    if item.content not in allowed:
        raise place.refuse(item, f"the operator here is one of {' '.join(allowed)}, not {item.content!r}", _FORM)
    return item.content


def _operand(items: tuple[Value, ...], index: int, operand: Value, place: Place, dialect: Dialect) -> Decimal:
    operator = items[index - 1].content
    if index >= len(items):
        raise place.refuse(operand, f"{operator} is followed by no number", _FORM)
    if not isinstance(items[index].content, Decimal):
        raise place.refuse(items[index], f"{operator} takes a number, not {kind_of(items[index])}", _FORM)
    return comparable(items[index], place, dialect)
