"""Rewriting of computed conditions: from a set of a function's values to the set of its argument's values.

`abs(x - 5) < 3` requires the value of a function to be in a set. The *preimage* of the set, the arguments whose value
is in it, is a condition on the argument, and taking preimages from the outside in leads to a condition on what is
innermost: `x - 5` in (-3, 3), then `x` in (2, 8). Conditions that differ in their constants then restrict one and the
same value, so that an index computes that value once per event, and filters that are written differently compare.

**Where it ends.** A set of this algebra has a part per kind of value and no part for "the strings that read as 7", but
`'7' - 5` is 2 in SQL. What is innermost is therefore the attribute as the function *reads* it: `+x` or `x + 0` (text
as a double, or as an integer), `CAST(x AS DATE)`. Only functions that read no text end in the attribute itself:
`coalesce(x, '-')`, `nullif`, `unix_seconds`, `ts - INTERVAL '1' HOUR`, `left(x, 3) = 'abc'`. Where that takes no search
and the set reads well, such a condition becomes a plain predicate of its filter; all others stay the tests that they
were written as, and are rewritten when they are compared.

**Why it is exact.** A function is taken as monotone between a few split points, not as a formula that is inverted: in
binary64 `x + 5 > 10` is FALSE for the number that follows 5, in 64 bits `x + 5` overflows, and a decimal is rounded to
38 digits. The values at which the function reaches a bound are found by bisection over all values of a kind, with the
evaluator itself as the judge, and so is every membership between two such values. The inverse is only the first guess,
which makes a search of 64 steps one of about five.

**What is left as it is.** A quotient: how many digits a decimal keeps depends on its scale, so that 1.0 / 3 and
1.00 / 3 differ, though 1.0 and 1.00 are one value of a set. Logarithms, powers and exponentials: the C library does
not promise them to be monotone. Months added to a timestamp, and whole days in a zone that changes its clocks: a later
time may become an earlier one. `lower(x) = 'abc'` as a set of spellings: eight postings instead of one on `lower(x)`.
`a - b > 0` as `a > b`: they differ where the difference overflows or is rounded to zero.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from math import isfinite
from typing import Any, Final, TypeAlias

from palio.events.values import MICROS_PER_DAY
from palio.filters.comparisons import compare, comparison_terms, values_satisfying
from palio.filters.expressions.ast import Attribute, Call, Expression, Literal, Micros, Months, attributes_of, walk
from palio.filters.expressions.special_forms import compile_expression
from palio.filters.expressions.static_analysis import Kinds
from palio.filters.expressions.text_cast import WORD_VALUES
from palio.filters.kinds import (
    KIND_OF_TYPE,
    KINDS,
    NUMBERS,
    Kind,
    exact_number,
)
from palio.filters.monotone_search import Inverse, exact_numbers_rounding_into, preimage_of_kind
from palio.filters.shifted_sets import shifted
from palio.filters.value_predicates import common_prefix, computed_range
from palio.filters.value_sets import EMPTY, FULL, Intervals, ValueSet, after_prefix, span, union_all

Range: TypeAlias = tuple[Expression, ValueSet]

_MAX_CALLS: Final = 32  # in an expression that is rewritten: text from outside may nest deeply
_MAX_CUTS: Final = 1024  # in a set that is rewritten: each is searched for


def canonical_range(expression: Expression, wants: bool, timezone: str) -> Range | None:
    """The innermost value that a condition on one attribute restricts, and the set it must be in.

    None for a condition that does not compare one computed value with constants.
    """
    found = computed_range(expression, wants, timezone)
    if found is None or sum(isinstance(node, Call) for node in walk(found[0])) > _MAX_CALLS:
        return found
    value, values = found
    while isinstance(value, Call) and (inner := preimage(value, values, timezone)) is not None:
        value, values = inner
    return value, _as_of_integers(values) if kinds_of(value, timezone) == _INTEGERS else values


def range_of_shift(expression: Expression, wants: bool, timezone: str) -> tuple[Call, ValueSet] | None:
    """The sum or difference of an attribute and a constant that a condition restricts, and the set it must be in."""
    found = computed_range(expression, wants, timezone)
    while found is not None:
        value, values = found
        if not isinstance(value, Call):
            return None
        if value.function in ("+", "-") and any(isinstance(each, Attribute) for each in value.arguments):
            return value, values
        found = preimage(value, values, timezone)
    return None


def _as_of_integers(values: ValueSet) -> ValueSet:
    """A set of integers as comparisons write it, with the fractions in its intervals, which an integer never is."""
    part = values.parts[Kind.INTEGER]
    meant = values_satisfying(comparison_terms(Kind.INTEGER, part))
    if part.is_full or meant.parts[Kind.INTEGER] != part:
        return values
    numbers = {kind: meant.parts[kind] for kind in NUMBERS}
    return ValueSet.of({**dict(zip(KINDS, values.parts, strict=True)), **numbers})


def plain_range(expression: Expression, wants: bool, timezone: str) -> tuple[str, ValueSet] | None:
    """The attribute and its values where a condition is a plain predicate that a person would write."""
    innermost = _innermost(expression)
    if innermost is None or not _may_be_plain(innermost):
        return None
    found = canonical_range(expression, wants, timezone)
    if found is None or not isinstance(found[0], Attribute):
        return None
    # All numbers, but not all binary values: a set that is written with the names of kinds reads worse than a function.
    values = found[1]
    if values.parts[Kind.INTEGER].is_full and not values.parts[Kind.BYTES].is_full:
        return None
    return found[0].name, values


def preimage(call: Call, values: ValueSet, timezone: str) -> Range | None:
    """The argument of a call, and the set of its values for which the value of the call is in a set; None if unknown.

    The set has no member MISSING of its own: a value that is computed is never missing, and one that is an attribute
    is NULL to every function where it is missing.
    """
    if values.tests or sum(len(part.cuts) for part in values.parts) > _MAX_CUTS:
        return None
    taken = _taken_apart(call, timezone)
    if taken is None:
        return None
    function, argument = taken
    match call.function:
        case "coalesce":
            return _preimage_of_coalesce(function, argument, values, timezone)
        case "nullif":
            return _preimage_of_nullif(function, argument, values, timezone)
        case "left" | "substring":
            return _preimage_of_prefix(function, argument, values)
    rule = _rule(function, timezone)
    return None if rule is None else _preimage_of_monotone(rule, function, argument, values, timezone)


@dataclass(frozen=True)
class _Applied:
    """A function with constants for all its arguments but one."""

    name: str
    place: int  # of the argument that is left open
    constants: tuple[Literal, ...]

    def __call__(self, argument: Expression) -> Call:
        return Call(self.name, (*self.constants[: self.place], argument, *self.constants[self.place :]))

    @property
    def constant(self) -> Any:
        """The only constant."""
        return self.constants[0].value


def _taken_apart(call: Call, timezone: str) -> tuple[_Applied, Expression] | None:
    """A function of one argument that varies, and that argument."""
    places = [at for at, argument in enumerate(call.arguments) if attributes_of(argument)]
    if len(places) != 1:
        return None
    constants = []
    for argument in (*call.arguments[: places[0]], *call.arguments[places[0] + 1 :]):
        constant = argument.value if isinstance(argument, Literal) else compile_expression(argument, timezone)({}, {})
        if constant is None or isinstance(constant, tuple):
            return None  # what is NULL throughout is not worth a rule
        constants.append(Literal(constant))
    return _Applied(call.function, places[0], tuple(constants)), call.arguments[places[0]]


def _innermost(expression: Expression) -> Call | None:
    """The call whose argument is the attribute."""
    innermost: Call | None = None
    while isinstance(expression, Call):
        innermost = expression
        within = [each for each in expression.arguments if not isinstance(each, Literal)]
        if len(within) > 1:  # walked only where it must be: calls nest deeply
            within = [each for each in within if attributes_of(each)]
        if len(within) != 1:
            return None
        expression = within[0]
    return innermost


# Monotone functions


def _as_number(argument: Expression) -> Expression:
    """+x: a text is read as a double."""
    return Call("positive", (argument,))


def _as_whole_number(argument: Expression) -> Expression:
    """x + 0: a text is read as an integer, as beside any other integer."""
    return Call("+", (argument, Literal(0)))


def _as_day(argument: Expression) -> Expression:
    return Call("cast", (argument, Literal("date")))


def _as_it_is(argument: Expression) -> Expression:
    return argument


@dataclass(frozen=True)
class _Rule:
    """A monotone function: the kinds it maps by itself, and those it first converts, as its reading does.

    For all other kinds it is NULL. `is_double` tells that exact numbers are rounded to binary64 first.
    """

    kinds: frozenset[Kind]
    converted: frozenset[Kind] = frozenset()
    reading: Callable[[Expression], Expression] = _as_it_is
    is_double: bool = False
    inverse: Inverse | None = None


_NUMBER_KINDS: Final = frozenset(NUMBERS)
_DAYS: Final = frozenset({Kind.DATE})
_MOMENTS: Final = frozenset({Kind.TIMESTAMP})
_TIMES: Final = _DAYS | _MOMENTS
_TEXTS: Final = frozenset({Kind.STRING})
_INTEGERS: Final = frozenset({Kind.INTEGER})
_WHOLE_TYPES: Final = frozenset({"tinyint", "smallint", "int", "bigint"})


def _same(number: Any, is_negative: bool) -> Any:
    return number


def _opposite(number: Any, is_negative: bool) -> Any:
    return -number


def _signed(number: Any, is_negative: bool) -> Any:
    return -number if is_negative else number


def _square(number: Any, is_negative: bool) -> Any:
    return number * number


def _times(factor: int | Fraction) -> Inverse:
    return lambda number, is_negative: number * factor


_OF_A_NUMBER: Final = {
    "positive": _Rule(_NUMBER_KINDS, _TEXTS, _as_number, inverse=_same),
    "neg": _Rule(_NUMBER_KINDS, _TEXTS, _as_number, inverse=_opposite),
    "abs": _Rule(_NUMBER_KINDS, _TEXTS, _as_number, inverse=_signed),
    **dict.fromkeys(("ceil", "floor", "round", "bround"), _Rule(_NUMBER_KINDS, _TEXTS, _as_number, inverse=_same)),
    "sqrt": _Rule(_NUMBER_KINDS, _TEXTS, _as_number, is_double=True, inverse=_square),
    "signum": _Rule(_NUMBER_KINDS, _TEXTS, _as_number, is_double=True, inverse=_same),
}
_OF_A_DAY: Final = dict.fromkeys(
    ("year", "yearofweek", "trunc", "last_day", "next_day", "date_add", "date_sub", "add_months", "datediff"),
    _Rule(_DAYS, _TEXTS | _MOMENTS, _as_day),
)
_OF_ONE_KIND: Final = {
    "unix_date": _Rule(_DAYS),
    "unix_seconds": _Rule(_MOMENTS, inverse=_times(1_000_000)),
    "unix_millis": _Rule(_MOMENTS, inverse=_times(1000)),
    "unix_micros": _Rule(_MOMENTS, inverse=_same),
    "timestamp_millis": _Rule(_INTEGERS, inverse=_times(Fraction(1, 1000))),
    "timestamp_micros": _Rule(_INTEGERS, inverse=_same),
}
_RULES: Final = {**_OF_A_NUMBER, **_OF_A_DAY, **_OF_ONE_KIND}


def _may_be_plain(call: Call) -> bool:
    """Whether rewriting a call of an attribute may end in the attribute, without a search and with a readable set."""
    if call.function == "coalesce":
        return isinstance(call.arguments[-1], Literal) and isinstance(call.arguments[-1].value, str)
    return call.function in ("nullif", "left", "substring")


def _rule(function: _Applied, timezone: str) -> _Rule | None:
    if function.name in ("+", "-", "*"):
        return _arithmetic_rule(function, timezone)
    if function.name == "coalesce":
        return _number_rule(function, _same) if function.place == 0 and len(function.constants) == 1 else None
    if function.name == "cast":
        if function.constant not in _WHOLE_TYPES:
            return None
        return _Rule(_NUMBER_KINDS, _TEXTS | _MOMENTS | {Kind.BOOLEAN}, function, inverse=_same)
    if function.name == "to_date":
        return None if function.constants else _Rule(_DAYS, _TEXTS | _MOMENTS, _as_day)
    if function.place > 0 and function.name != "datediff":
        return None
    if function.name in ("ceil", "floor") and function.constants:
        return None
    return _RULES.get(function.name)


def _arithmetic_rule(function: _Applied, timezone: str) -> _Rule | None:
    """Sums, differences and products with a constant."""
    constant = function.constant
    if type(constant) is Micros and function.name != "*":
        # Whole days are added on the calendar: where clocks change, a later time may become an earlier one.
        is_ordered = timezone == "UTC" or abs(constant.micros) < MICROS_PER_DAY
        is_shift = function.name == "+" or function.place == 0
        by = constant.micros if function.name == "+" else -constant.micros
        return _Rule(_TIMES, inverse=lambda number, is_negative: number - by) if is_ordered and is_shift else None
    rule = _number_rule(function, None)
    if rule is None or not isfinite(constant):
        return None
    # A day plus or minus a number of days is a day.
    shifts_days = type(constant) is int and (function.name == "+" or (function.name == "-" and function.place == 0))
    return replace(rule, kinds=rule.kinds | _DAYS if shifts_days else rule.kinds, inverse=_inverse(function))


def _number_rule(function: _Applied, inverse: Inverse | None) -> _Rule | None:
    """A number beside a constant number: both doubles where one is, and a text beside an integer is one."""
    kind = type(function.constant)
    if kind not in (int, Decimal, float):
        return None
    reading = _as_whole_number if kind is int else _as_number
    return _Rule(_NUMBER_KINDS, _TEXTS, reading, kind is float, inverse)


def _inverse(function: _Applied) -> Inverse:
    constant = exact_number(Fraction(function.constant))
    if function.name == "+":
        return lambda number, is_negative: number - constant
    if function.name == "-":
        if function.place == 0:
            return lambda number, is_negative: number + constant
        return lambda number, is_negative: constant - number
    return lambda number, is_negative: Fraction(number) / constant if constant else number


def _preimage_of_monotone(
    rule: _Rule, function: _Applied, argument: Expression, values: ValueSet, timezone: str
) -> Range | None:
    kinds = kinds_of(argument, timezone)
    if rule.converted and (kinds is None or kinds & rule.converted):
        if kinds is None and isinstance(argument, Call) and rule.reading is not _as_day:
            return None  # it may be an interval, of which there are no sets
        read = rule.reading(argument)
        if read == function(argument):  # the call is the reading
            return None
        argument = read
    return argument, _pull_back(function, values, timezone)


def kinds_of(expression: Expression, timezone: str) -> frozenset[Kind] | None:
    """The kinds that an expression may have, beside NULL; None where they are not known."""
    kind = KIND_OF_TYPE.get(Kinds().of(expression))  # type: ignore[arg-type]
    if kind is not None:
        return frozenset({kind})
    taken = _taken_apart(expression, timezone) if isinstance(expression, Call) else None
    if taken is None:
        return None
    function, argument = taken
    rule = _rule(function, timezone)
    if rule is None or (isinstance(argument, Call) and kinds_of(argument, timezone) is None):
        return None
    return rule.kinds  # a sum, a product or a rounding has the kind of its argument, or a wider one of these


@lru_cache(maxsize=4096)
def _pull_back(function: _Applied, values: ValueSet, timezone: str) -> ValueSet:
    """The arguments for which a monotone function is in a set."""
    rule = _rule(function, timezone)
    assert rule is not None  # the caller has it
    if (found := _shifted_back(function, values)) is not None:
        return found
    run = compile_expression(function(Attribute("x")), timezone)
    parts = dict.fromkeys(KINDS, FULL if values.contains(None) else EMPTY)
    for kind in rule.kinds - {Kind.INTEGER, Kind.DECIMAL} if rule.is_double else rule.kinds:
        parts[kind] = preimage_of_kind(kind, lambda value: run({"x": value}, {}), values, rule.inverse)
    if rule.is_double:
        parts.update(exact_numbers_rounding_into(parts[Kind.FLOAT]))
    return ValueSet.of(parts)


def _shifted_back(function: _Applied, values: ValueSet) -> ValueSet | None:
    """The numbers that are in a bounded set once a constant is added or subtracted; None for all else."""
    if function.name not in ("+", "-") or (function.name == "-" and function.place > 0):
        return None
    constant = function.constant
    if type(constant) not in (int, Decimal) or not values.parts[Kind.DATE].is_empty:  # days are shifted too
        return None
    if function.name == "+":
        constant = -constant if type(constant) is int else constant.copy_negate()
    return shifted(values, constant)


# Choices and prefixes


def _preimage_of_coalesce(function: _Applied, argument: Expression, values: ValueSet, timezone: str) -> Range | None:
    """coalesce(x, constant): x, brought to the kind of the constant where that is wider."""
    rule = _rule(function, timezone)
    # Of an argument of a known kind, the constant would be brought to that kind.
    if Kinds().of(argument) is not None or (isinstance(argument, Call) and kinds_of(argument, timezone) is None):
        return None
    constant = function.constant
    if rule is not None:
        # What is NULL once it is read may be a NULL, for which coalesce is the constant, or a text that is no number,
        # for which it is NULL. They need not be told apart where neither is in the set.
        if values.contains(constant) or values.contains(None):
            return None
        return _preimage_of_monotone(rule, function, argument, values, timezone)
    if function.place > 0 or len(function.constants) > 1 or not isinstance(constant, str):
        return None
    # A text gives way to all other kinds, except that it makes a double of a decimal.
    parts = dict(zip(KINDS, values.parts, strict=True))
    parts[Kind.DECIMAL] = exact_numbers_rounding_into(parts[Kind.FLOAT])[Kind.DECIMAL]
    parts[Kind.NULL] = parts[Kind.MISSING] = FULL if values.contains(constant) else EMPTY
    return argument, ValueSet.of(parts)


def _preimage_of_nullif(function: _Applied, argument: Expression, values: ValueSet, timezone: str) -> Range | None:
    """nullif(x, constant): NULL where x equals the constant, else x."""
    if function.place > 0 or isinstance(function.constant, Months | Micros):
        return None
    equal = compare("=", function.constant, timezone).true
    others = values.intersect(equal.complement())
    return argument, (others.union(equal) or others) if values.contains(None) else others


_FIRST_OF_NUMBERS: Final = "-0123456789"  # the first characters of the texts of numbers and times


def _preimage_of_prefix(function: _Applied, argument: Expression, values: ValueSet) -> Range | None:
    """left(x, n) and substring(x, 1, n), where no text of a number, time or truth value is near the set."""
    size = _prefix_size(function)
    texts, binary = values.parts[Kind.STRING], values.parts[Kind.BYTES]
    if size is None or binary.cuts or not isinstance(argument, Attribute):
        return None
    # Values of other kinds are written as texts; their texts must all be in the set, or all outside.
    exceptions = texts.complement() if texts.inside else texts
    if any(may_begin_another_kind(low, high) for low, high in exceptions.spans()):
        return None
    parts = dict.fromkeys(KINDS, FULL if texts.inside else EMPTY)
    parts[Kind.MISSING] = parts[Kind.NULL] = values.parts[Kind.NULL]
    parts[Kind.BYTES] = binary
    parts[Kind.STRING] = union_all(_with_prefixes(texts, size))
    return argument, ValueSet.of(parts)


def _prefix_size(function: _Applied) -> int | None:
    sizes = [each.value for each in function.constants]
    if function.place > 0 or not all(type(each) is int for each in sizes):
        return None
    match function.name, sizes:
        case ("left", [int(size)]) | ("substring", [0 | 1, int(size)]) if 0 < size < 2**31:
            return size
    return None


def may_begin_another_kind(low: str | None, high: str | None) -> bool:
    """Whether the text of a value that is no string may be between two cuts."""
    start = "" if low is None else common_prefix(low, high)
    return not start or start[0] in _FIRST_OF_NUMBERS or any(word.startswith(start) for word in WORD_VALUES)


def _with_prefixes(texts: Intervals, size: int) -> Iterator[Intervals]:
    """The strings whose first characters are in a set."""
    # A text reaches a cut of at most `size` characters when its prefix does, and a longer one when its prefix is
    # greater than that of the cut.
    for low, high in texts.spans():
        start = after_prefix(low[:size]) if low is not None and len(low) > size else low
        if low is None or start is not None:
            yield span(Kind.STRING, start, after_prefix(high[:size]) if high and len(high) > size else high)
