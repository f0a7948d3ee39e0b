"""Static analysis of expressions: type inference, required attributes, and preservation of equality.

**Type inference** finds the kind of an expression, and the precision and scale of a decimal. Attributes have no
declared type, so it is partial: it knows the kind of a constant, of a cast, of a function with a fixed result kind,
and of computations over such. A value chosen among several is widened to meet the others by it, and an expression that
cannot mean the same as in Spark is rejected by it.

**Required attributes** must be non-NULL for a condition to be TRUE, to be FALSE, or to be either. An index tests for
their presence before anything is computed. The analysis is sound, not complete: a reported attribute is required; one
that is not reported may be required all the same.

**Preservation of equality.** The decimals 1.0 and 1.00 are equal, and so are the floats 0.0 and -0.0, but some
functions tell them apart: their text differs, and so do quotients and choices among decimals (coalesce, CASE), whose
scale depends on the scales of their operands, and powers of zero. A set of values has one position for both. A
condition may therefore be decided by testing one of the two only if it preserves equality.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from datetime import date, datetime
from decimal import Decimal
from types import NoneType
from typing import Final, TypeAlias

from palio.errors import PalioError
from palio.events.values import MAX_DECIMAL_DIGITS
from palio.filters.expressions.arithmetic import INTEGER, Digits, kept_scale, quotient_digits
from palio.filters.expressions.ast import Array, Attribute, Call, Expression, Literal, Micros, Months, bottom_up, walk
from palio.filters.expressions.cast import target_of
from palio.filters.expressions.coercion import INTERVALS, NUMBERS, ValueType, scale_of, widest
from palio.filters.expressions.functions import FUNCTIONS, ONLY_TEXT
from palio.filters.expressions.number_formats import NumberFormat

_TIMES: Final[frozenset[ValueType]] = frozenset({date, datetime})
_TEXT_OR_BINARY: Final = frozenset({"concat", "substring", "left", "overlay", "reverse", "lpad", "rpad"})
_KEEPS_BINARY: Final = frozenset({"concat", "substring", "left", "reverse"})
_ROUNDINGS: Final = frozenset({"round", "bround", "abs", "neg", "positive"})
ARITHMETIC: Final = frozenset({"+", "-", "*", "/", "%", "pmod"})
_INTEGER_DIGITS: Final = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}


class IncompatibleKinds(PalioError):
    """An operator is not defined for two kinds."""


def branch_places(call: Call) -> tuple[int, ...]:
    """The places of the arguments that may become the value of a call."""
    count = len(call.arguments)
    match call.function:
        case "case":
            values = range(1, count, 2)
            return tuple(values) if count % 2 == 0 else (*values, count - 1)
        case "if" | "nvl2":
            return tuple(range(1, count))
        case "coalesce" | "greatest" | "least":
            return tuple(range(count))
    return ()


def branches(call: Call) -> tuple[Expression, ...]:
    """The arguments that may become the value of a call."""
    return tuple(call.arguments[place] for place in branch_places(call))


class Kinds:
    """Kinds of subexpressions, memoised; inner ones must be inferred before outer ones, to bound the recursion."""

    def __init__(self) -> None:
        self._known: dict[int, ValueType | None] = {}
        self._digits: dict[int, Digits | None] = {}

    def of(self, expression: Expression) -> ValueType | None:
        """The kind of an expression; NoneType if it is always NULL, None if the kind may vary."""
        if isinstance(expression, Literal):
            return type(expression.value)
        if isinstance(expression, Array):
            return tuple
        if isinstance(expression, Attribute):
            return None
        if id(expression) not in self._known:
            self._known[id(expression)] = self._of_call(expression)
        return self._known[id(expression)]

    def _of_call(self, call: Call) -> ValueType | None:
        known = FUNCTIONS.get(call.function)
        if known is not None and known.result is not None:
            return known.result
        kinds = [self.of(argument) for argument in call.arguments]
        if call.function == "cast":
            return _cast_kind(call)
        if call.function == "json_field":
            return _cast_kind(Call("cast", (call.arguments[0], call.arguments[2]), call.span))
        if call.function in ("+", "-") and date in kinds and any(map(_is_in_days, call.arguments)):
            return date
        if call.function in ARITHMETIC:
            return _arithmetic_kind(call.function, kinds[0], kinds[1])
        if call.function in _ROUNDINGS:
            return float if kinds[0] is str else kinds[0]
        if call.function in ("ceil", "floor"):
            if len(kinds) == 2:
                return Decimal
            return int if kinds[0] in (int, float, str) else kinds[0]
        if call.function in _TEXT_OR_BINARY:
            if set(kinds if call.function == "concat" else kinds[:1]) == {bytes} and call.function in _KEEPS_BINARY:
                return bytes
            return None if any(kind in (None, bytes) for kind in kinds) else str
        if call.function == "nullif":
            return kinds[0]
        if chosen := branches(call):
            among = {self.of(branch) for branch in chosen}
            return None if None in among else widest(frozenset(among) - {NoneType}) or NoneType
        return None

    def declared(self, expression: Expression) -> Digits | None:
        """The declared precision and scale of a literal or a cast; None for other expressions."""
        if isinstance(expression, Literal) or (isinstance(expression, Call) and expression.function == "cast"):
            return self.digits_of(expression)
        return None

    def digits_of(self, expression: Expression) -> Digits | None:
        """The widest precision and scale of an expression; None if it cannot be an exact number."""
        match expression:
            case Literal(bool()):
                return None
            case Literal(int() as number):
                return Digits(len(str(abs(number))), 0, False)
            case Literal(Decimal() as number):
                scale = scale_of(number)
                return Digits(max(number.adjusted() + 1 + scale, scale, 1), scale, True)
            case Literal() | Array():
                return None
            case Attribute():
                return INTEGER
        if id(expression) not in self._digits:
            exact = self.of(expression) in (int, Decimal, None)
            self._digits[id(expression)] = self._digits_of_call(expression) if exact else None
        return self._digits[id(expression)]

    def _digits_of_call(self, call: Call) -> Digits | None:
        name, arguments = call.function, call.arguments
        if name == "cast":
            return _cast_digits(call)
        if name == "json_field":
            return _cast_digits(Call("cast", (arguments[0], arguments[2]), call.span))
        if name == "to_number":
            return _format_digits(arguments[1])
        if name in ARITHMETIC:
            left, right = map(self.digits_of, arguments)
            if left is None or right is None or not (left.is_decimal or right.is_decimal):
                return INTEGER
            return _bounded(needed_digits(name, left, right))
        if name in ("ceil", "floor") and len(arguments) == 2:
            return Digits(MAX_DECIMAL_DIGITS - 16, _scale_asked_for(arguments[1]), True)
        if name in ("neg", "positive", "abs", "round", "bround", "nullif", "ceil", "floor"):
            return self.digits_of(arguments[0])
        candidates = [digits for branch in branches(call) if (digits := self.digits_of(branch)) is not None]
        if not any(digits.is_decimal for digits in candidates):
            return INTEGER
        whole = max(digits.precision - digits.scale for digits in candidates)
        scale = max(digits.scale for digits in candidates)
        return _bounded(Digits(whole + scale, scale, True))


def _scale_asked_for(expression: Expression) -> int:
    match expression:
        case Literal(int() as scale):
            return min(max(scale, 0), 15)
    return 15


def _format_digits(format: Expression) -> Digits:
    try:
        found = NumberFormat.parse(str(format.value) if isinstance(format, Literal) else "")
    except ValueError:  # which is refused for itself
        return INTEGER
    return Digits(found.digits, found.fraction, True)


def _cast_digits(call: Call) -> Digits:
    name = call.arguments[1]
    written = str(name.value) if isinstance(name, Literal) else ""
    if not written.startswith("decimal"):
        return Digits(_INTEGER_DIGITS.get(written, INTEGER.precision), 0, False)
    precision, scale = written.removeprefix("decimal").strip("() ").split(",")
    return Digits(int(precision), int(scale), True)


def _cast_kind(call: Call) -> ValueType | None:
    name = call.arguments[1]
    try:
        return target_of(str(name.value)).kind if isinstance(name, Literal) else None
    except ValueError:
        return None


def _is_in_days(expression: Expression) -> bool:
    """Whether an expression is an interval of whole days by its type, which makes a date of a date."""
    match expression:
        case Literal(Micros(_, is_days)):
            return is_days
        case Call("neg" | "positive" | "abs", (argument,)):
            return _is_in_days(argument)
    return False


def _arithmetic_kind(name: str, left: ValueType | None, right: ValueType | None) -> ValueType | None:
    if left is NoneType or right is NoneType:
        return NoneType
    if left is None or right is None:
        # A number with a double is a double; any other value with a double is NULL.
        return float if float in (left, right) else None
    try:
        return operator_kind(name, left, right)
    except IncompatibleKinds:
        return NoneType


def operator_kind(name: str, left: ValueType, right: ValueType) -> ValueType:
    """The kind of `left name right`."""
    kinds = frozenset({left, right})
    number = widest(kinds)
    if number in NUMBERS and kinds != {str}:
        return float if name == "/" and number is int else number
    if name == "+":
        return _sum_kind(left, right) or _sum_kind(right, left) or _incompatible()
    if name == "-":
        return _difference_kind(left, right) or _incompatible()
    if name == "*" and (left in INTERVALS) != (right in INTERVALS) and kinds & NUMBERS:
        return left if left in INTERVALS else right
    if name == "/" and left in INTERVALS and right in NUMBERS:
        return left
    return _incompatible()


def _incompatible() -> ValueType:
    raise IncompatibleKinds


def _sum_kind(left: ValueType, right: ValueType) -> ValueType | None:
    if left in INTERVALS:
        return left if left is right else None
    if left is date and right is int:
        return date
    if left in _TIMES and right is Months:
        return left
    # A day plus an interval of days is a day, see `_is_in_days`; plus one of hours it is a moment.
    return datetime if left in _TIMES and right is Micros else None


def _difference_kind(left: ValueType, right: ValueType) -> ValueType | None:
    if {left, right} <= _TIMES | {str} and {left, right} & _TIMES:
        return Micros
    return _sum_kind(left, right)


def needed_digits(name: str, left: Digits, right: Digits) -> Digits:
    """Precision and scale of Spark's type for a result, before the limit of 38 digits is applied."""
    if name == "/":
        return quotient_digits(left, right)
    if name == "*":
        return Digits(left.precision + right.precision + 1, left.scale + right.scale, True)
    scale = max(left.scale, right.scale)
    wholes = (left.precision - left.scale, right.precision - right.scale)
    if name in ("%", "pmod"):
        return Digits(min(wholes) + scale, scale, True)
    return Digits(max(wholes) + scale + 1, scale, True)


def _bounded(digits: Digits) -> Digits:
    return Digits(min(digits.precision, MAX_DECIMAL_DIGITS), kept_scale(digits), True)


# Attributes that must be non-NULL; None where the outcome is impossible.
_Required: TypeAlias = frozenset[str] | None
# TRUE, FALSE, or, as None, any value but NULL.
_Outcome: TypeAlias = bool | None

_NOTHING: Final[frozenset[str]] = frozenset()
_MAX_RECURSION: Final = 64  # calls that may be analysed from the outside in


# Required attributes


def required_attributes(expression: Expression) -> frozenset[str]:
    """The attributes that must be non-NULL for an expression to be non-NULL."""
    return required_for(expression, None)


def required_for(expression: Expression, wants: bool | None) -> frozenset[str]:
    """The attributes that must be non-NULL for a condition to have an outcome; None is any value but NULL."""
    analysis = _Analysis()
    calls = bottom_up(expression)
    if len(calls) > _MAX_RECURSION:  # fewer are not nested deeply, and few of their outcomes are asked for
        for call in calls:
            for outcome in (True, False, None):
                analysis.of(call, outcome)
    return analysis.of(expression, wants) or _NOTHING


def is_string_only(expression: Expression, wants: bool) -> bool:
    """Whether a condition on one attribute can have an outcome for strings only."""
    if isinstance(expression, Call) and expression.function == "isnull":
        return not wants and _is_null_for_non_strings(expression.arguments[0])
    return _is_null_for_non_strings(expression)


def _is_null_for_non_strings(expression: Expression) -> bool:
    """Whether an expression is NULL unless its attribute is a string; sound, not complete."""
    while isinstance(expression, Call):
        function = FUNCTIONS.get(expression.function)
        if function is None or not (function.strict or expression.function == "in"):
            return False
        if not expression.arguments:
            return False
        if isinstance(expression.arguments[0], Attribute):
            return function.parameter(0) is ONLY_TEXT
        expression = expression.arguments[0]
    return False


def _all(needs: Iterable[_Required]) -> _Required:
    """Requirements of a conjunction of outcomes."""
    together = list(needs)
    return None if None in together else _NOTHING.union(*(need for need in together if need is not None))


def _one(needs: Iterable[_Required]) -> _Required:
    """Requirements common to all alternatives."""
    possible = [need for need in needs if need is not None]
    return frozenset.intersection(*possible) if possible else None


class _Analysis:
    """Required attributes of every subexpression for each outcome, memoised."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, _Outcome], _Required] = {}

    def of(self, expression: Expression, wants: _Outcome) -> _Required:
        match expression:
            case Attribute(name):
                return frozenset({name})
            case Array():
                return _NOTHING  # an empty array is not NULL, though it has no element to be tested for presence
            case Literal(value):
                # A string literal may be read as a boolean, so it is taken to have either outcome.
                possible = value is not None if wants is None else value is wants or isinstance(value, str)
                return _NOTHING if possible else None
        key = (id(expression), wants)
        if key not in self._known:
            self._known[key] = self._of_call(expression, wants)
        return self._known[key]

    def _of_call(self, call: Call, wants: _Outcome) -> _Required:
        special = _RULES.get(call.function)
        if special is not None:
            if wants is None and call.function in _LOGIC:
                return _one([self.of(call, True), self.of(call, False)])
            return special(self, call.arguments, wants)
        function = FUNCTIONS.get(call.function)
        if function is None or not function.strict:
            return _NOTHING
        return self._values(call.arguments)

    def _values(self, arguments: Iterable[Expression]) -> _Required:
        return _all(self.of(argument, None) for argument in arguments)


_Rule: TypeAlias = Callable[[_Analysis, tuple[Expression, ...], _Outcome], _Required]


def _and(analysis: _Analysis, arguments: tuple[Expression, ...], wants: _Outcome) -> _Required:
    needs = (analysis.of(argument, wants) for argument in arguments)
    # AND is TRUE only if all are TRUE, and FALSE if any one is FALSE.
    return _all(needs) if wants else _one(needs)


def _or(analysis: _Analysis, arguments: tuple[Expression, ...], wants: _Outcome) -> _Required:
    needs = (analysis.of(argument, wants) for argument in arguments)
    return _one(needs) if wants else _all(needs)


def _not(analysis: _Analysis, arguments: tuple[Expression, ...], wants: _Outcome) -> _Required:
    return analysis.of(arguments[0], not wants)


def _is_true(analysis: _Analysis, arguments: tuple[Expression, ...], wants: _Outcome) -> _Required:
    return analysis.of(arguments[0], True) if wants else _NOTHING


def _is_false(analysis: _Analysis, arguments: tuple[Expression, ...], wants: _Outcome) -> _Required:
    return analysis.of(arguments[0], False) if wants else _NOTHING


def _is_null(analysis: _Analysis, arguments: tuple[Expression, ...], wants: _Outcome) -> _Required:
    return _NOTHING if wants else analysis.of(arguments[0], None)


def _is_not_null(analysis: _Analysis, arguments: tuple[Expression, ...], wants: _Outcome) -> _Required:
    return analysis.of(arguments[0], None) if wants else _NOTHING


def _same(analysis: _Analysis, arguments: tuple[Expression, ...], wants: _Outcome) -> _Required:
    """x <=> y is TRUE for two NULLs, unless one side is a constant other than NULL."""
    present = any(isinstance(argument, Literal) and argument.value is not None for argument in arguments)
    return analysis._values(arguments) if wants and present else _NOTHING


def _in(analysis: _Analysis, arguments: tuple[Expression, ...], wants: _Outcome) -> _Required:
    # TRUE needs one item that is not NULL, FALSE needs all of them.
    value, *items = (analysis.of(argument, None) for argument in arguments)
    return _all([value, _one(items) if wants else _all(items)])


def _between(analysis: _Analysis, arguments: tuple[Expression, ...], wants: _Outcome) -> _Required:
    # TRUE needs both ends, FALSE is settled by one.
    value, *ends = (analysis.of(argument, None) for argument in arguments)
    return _all([value, _all(ends) if wants else _one(ends)])


def _case(analysis: _Analysis, arguments: tuple[Expression, ...], wants: _Outcome) -> _Required:
    pairs = zip(arguments[0::2], arguments[1::2], strict=False)
    outcomes = [_all([analysis.of(when, True), analysis.of(then, wants)]) for when, then in pairs]
    if len(arguments) % 2:
        outcomes.append(analysis.of(arguments[-1], wants))
    return _one(outcomes)


def _nvl2(analysis: _Analysis, arguments: tuple[Expression, ...], wants: _Outcome) -> _Required:
    tested, present, absent = arguments
    return _one([_all([analysis.of(tested, None), analysis.of(present, wants)]), analysis.of(absent, wants)])


def _any_of(analysis: _Analysis, arguments: tuple[Expression, ...], wants: _Outcome) -> _Required:
    return _one(analysis.of(argument, wants) for argument in arguments)


def _first(analysis: _Analysis, arguments: tuple[Expression, ...], wants: _Outcome) -> _Required:
    return analysis.of(arguments[0], wants)


def _locate(analysis: _Analysis, arguments: tuple[Expression, ...], wants: _Outcome) -> _Required:
    """A NULL position makes the result 0, whatever the texts are."""
    if len(arguments) == 3 and not (isinstance(arguments[2], Literal) and arguments[2].value is not None):
        return _NOTHING
    return analysis._values(arguments[:2])


_LOGIC: Final = frozenset(
    {"and", "or", "not", "istrue", "isfalse", "isnull", "isnotnull", "<=>", "in", "between", "isnan"}
)
_RULES: Final[dict[str, _Rule]] = {
    "and": _and,
    "or": _or,
    "not": _not,
    "istrue": _is_true,
    "isfalse": _is_false,
    "isnull": _is_null,
    "isnotnull": _is_not_null,
    "<=>": _same,
    "in": _in,
    "between": _between,
    "case": _case,
    "if": _case,
    "nvl2": _nvl2,
    "coalesce": _any_of,
    "greatest": _any_of,
    "least": _any_of,
    "nullif": _first,
    "nanvl": _first,
    "concat_ws": _first,
    "isnan": _is_not_null,
    "locate": _locate,
}

# Preservation of equality

# Functions that give equal values for equal arguments.
_PRESERVING: Final = frozenset(
    "and or not = <=> <> < <= > >= in between isnull isnotnull istrue isfalse isnan + - * % pmod div neg abs ceil "
    "floor round bround nullif nanvl year quarter month dayofmonth dayofweek dayofweek_iso weekday "
    "dayofyear weekofyear yearofweek hour minute second second_with_fraction last_day datediff date_add date_sub "
    "add_months months_between trunc date_trunc unix_date unix_seconds unix_millis unix_micros to_date to_timestamp "
    "sqrt cbrt exp ln positive shiftleft shiftright from_unixtime date_format timestampadd timestampdiff".split()
)
_PRESERVING_CASTS: Final = frozenset("boolean tinyint smallint int bigint float double date timestamp".split())


def preserves_equality(expression: Expression) -> bool:
    """Whether an expression is known to give equal values for equal values of its attributes."""
    return all(_call_preserves_equality(node) for node in walk(expression) if isinstance(node, Call))


def _call_preserves_equality(call: Call) -> bool:
    match call:
        case Call("cast", (_, Literal(str() as name))):
            return name in _PRESERVING_CASTS or name.startswith("decimal")
    return call.function in _PRESERVING
