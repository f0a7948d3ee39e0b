"""Parameters of templates: the places of literals, how a literal is read, and expressions with parameters in them."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final, TypeAlias

from palio.events.values import Scalar
from palio.filters.expressions.ast import Attribute, Call, Expression, Literal, Micros, Months, walk
from palio.filters.expressions.special_forms import compile_expression
from palio.filters.like import LikePattern, has_known_escapes
from palio.filters.regex import Regex
from palio.languages.grammar import InvalidLiteral
from palio.languages.sql.intervals import IntervalPart, parse_interval_parts, parse_interval_text
from palio.languages.sql.lexer import (
    parse_date,
    parse_hexadecimal,
    parse_local_timestamp,
    parse_number,
    parse_strings,
    parse_timestamp,
)

# The kinds of literal that become parameters, each with its mark in a skeleton.
INTEGER: Final = "\1"  # digits of a bigint
DECIMAL: Final = "\2"  # digits, a point, digits
DOUBLE: Final = "\3"  # with an exponent, or the letter D
STRING: Final = "\4"  # in quotes, perhaps with an R before them
INTERVAL: Final = "interval"  # a number or a string in an interval of time
# Behind the mark of a literal: an IN list of one or more such literals.
LIST: Final = "\6"

Arguments: TypeAlias = Sequence[Any]  # the values of all parameters, in the order of the text


class UnboundLiteral(InvalidLiteral):
    """A literal that has a value, but not in this template: its condition is parsed."""


@dataclass(frozen=True, slots=True)
class Parameter:
    """The place of a literal in a template, and how the text of one is parsed."""

    index: int
    kind: str
    before: str  # a sign, or a type such as `date`, that stands before the literal and belongs to it
    is_list: bool = False  # whether it stands for an IN list of any length, whose argument is a tuple
    pattern: str = ""  # the function whose pattern it is, "like" or "rlike": a text may be none
    max_digits: int = 0  # of a decimal, before and behind the point; 0 is no limit
    fixed: str | None = None  # the one text that it may have, because the parser decided by it
    unit: str = ""  # of an interval, behind the literal; none where a string says it

    @property
    def is_text(self) -> bool:
        """Whether literals are plain strings, not dates or the like."""
        return self.kind == STRING and not self.before

    @property
    def is_total(self) -> bool:
        """Whether every literal of the kind has a value here, if it has no backslash."""
        is_regex = self.pattern == "rlike"
        return self.kind in (INTEGER, STRING) and self.before in ("", "-") and not is_regex and self.fixed is None

    def read(self, text: str, timezone: str) -> Scalar:
        """The value of a literal; `InvalidLiteral` where it has none."""
        if self.fixed is not None:
            if text != self.fixed:
                raise UnboundLiteral("another literal is a part of this template")
            return text
        if self.kind == INTEGER:
            return -int(text) if self.before == "-" else int(text)
        if self.kind == INTERVAL:
            return self._read_interval(text)  # type: ignore[return-value]
        if self.kind != STRING:
            number = parse_number(text if self.before == "+" else self.before + text)
            if self.max_digits and isinstance(number, Decimal):
                self._check_digits(text)
            return number
        inside, quote = text[1:-1], text[0]
        if "\\" in inside or quote == "r" or quote == "R":
            inside = parse_strings([text])
        elif quote in inside:
            inside = inside.replace(quote * 2, quote)
        if self.pattern == "rlike":
            _check_pattern(Regex.compile, inside)
        elif self.pattern and "\\" in inside and not has_known_escapes(inside):
            _check_pattern(LikePattern.parse, inside)
        return inside if not self.before else TYPED[self.before](inside, timezone)

    def _read_interval(self, text: str) -> Months | Micros:
        sign = self.before.removeprefix("interval").strip()
        is_text = text[0] in "'\""
        if not is_text:
            return parse_interval_parts([IntervalPart(sign, text, is_text, self.unit)])
        if "\\" in text or text[0] in text[1:-1]:
            raise UnboundLiteral("an interval with an escape")
        if not self.unit:
            return parse_interval_text(text[1:-1])
        return parse_interval_parts([IntervalPart(sign, text[1:-1], is_text, self.unit)])

    def _check_digits(self, text: str) -> None:
        whole, _, fraction = text.partition(".")
        if len(whole) > self.max_digits or len(fraction) > self.max_digits:
            raise UnboundLiteral("a number of more digits than this template was checked for")


def _check_pattern(compile: Callable[[str], object], text: str) -> None:
    try:
        compile(text)
    except ValueError as error:
        raise InvalidLiteral(str(error)) from None


TYPED: Final[dict[str, Callable[[str, str], Scalar]]] = {
    "date": lambda text, _: parse_date(text),
    "timestamp": parse_timestamp,
    "timestamp_ltz": parse_timestamp,
    "timestamp_ntz": parse_local_timestamp,
    "x": lambda text, _: parse_hexadecimal(text),
}


@dataclass(frozen=True, slots=True)
class Constant:
    """A literal that is no parameter, because it is a part of the skeleton: NULL, TRUE, 5L."""

    value: Scalar


@dataclass(frozen=True, slots=True)
class ComputedConstant:
    """What has a value that depends on parameters: a call without attributes, `upper('abc')` say, or an interval of
    time, which is the number of its microseconds."""

    expression: Call | Parameter
    is_time: bool
    """Whether its value is a date or a timestamp."""
    is_interval: bool = False

    @classmethod
    def of(cls, expression: Call | Parameter, example: Arguments) -> ComputedConstant | None:
        """The constant of an expression, by its value for some arguments; None for an interval of months, or NULL."""
        value: Any = _computed(expression, example, "UTC")
        if type(value) is Micros:
            return cls(expression, is_time=False, is_interval=True) if isinstance(expression, Parameter) else None
        return cls(expression, isinstance(value, date)) if type(value) in _CONSTANT_TYPES else None


_CONSTANT_TYPES: Final = frozenset((bool, int, float, Decimal, str, bytes, date, datetime))

Operand: TypeAlias = Parameter | Constant | ComputedConstant


def value_of(operand: Operand, arguments: Arguments, timezone: str) -> Scalar:
    """The value of an operand; `ValueError` where it is an interval that no index holds."""
    if type(operand) is Parameter:
        return arguments[operand.index]  # type: ignore[no-any-return]
    if isinstance(operand, Constant):
        return operand.value
    assert isinstance(operand, ComputedConstant)
    value: Any = _computed(operand.expression, arguments, timezone)
    if operand.is_interval and type(value) is Micros:
        return value.micros
    if value is not None and type(value) not in _CONSTANT_TYPES:
        raise ValueError("an interval of time compares with no value of an index")
    return value  # type: ignore[no-any-return]


def _computed(expression: Call | Parameter, arguments: Arguments, timezone: str) -> Any:
    if isinstance(expression, Parameter):
        return arguments[expression.index]
    return compile_expression(fill_expression(expression, arguments), timezone)({}, {})


def values_of(operand: ComputedConstant, timezone: str) -> Callable[[Mapping[int, Any]], Any]:
    """`value_of` as a function of the values of parameters by index, for many of them.

    A time moved by an interval is compiled once, with attributes in place of the parameters: no literal has a type
    there that its value has not.
    """
    expression = operand.expression
    if isinstance(expression, Parameter):
        index = expression.index
        return lambda given: given[index].micros if type(given[index]) is Micros else None
    if operand.is_time and all(call.function in ("+", "-") for call in walk(expression) if isinstance(call, Call)):
        holed = substitute(expression, lambda each: [Attribute(str(each.index))])
        run = compile_expression(holed, timezone)
        return lambda given: run({str(index): value for index, value in given.items()}, {})
    return lambda given: compile_expression(bind_some(expression, given), timezone)({}, {})


def listed_values(operands: Sequence[Operand], arguments: Arguments) -> Sequence[Scalar]:
    """The values of an IN list: of its one parameter that is a list, or of an operand each."""
    first = operands[0]
    if isinstance(first, Parameter) and first.is_list:
        found: tuple[Scalar, ...] = arguments[first.index]
        return found
    return [value_of(each, arguments, "UTC") for each in operands]  # of parameters and constants, which have no zone


# --- expressions with parameters -----------------------------------------------------------------------------

Argument: TypeAlias = Expression | Parameter
"""An argument of a call in a template. The types of expressions do not know parameters; they hold one all the same."""


def fill_expression(call: Call, arguments: Arguments) -> Call:
    """A call with literals in place of its parameters."""
    return substitute(call, lambda each: _literals(each, arguments))


def _literals(parameter: Parameter, arguments: Arguments) -> list[Argument]:
    value = arguments[parameter.index]
    return [Literal(each) for each in value] if parameter.is_list else [Literal(value)]


def substitute(call: Call, by: Callable[[Parameter], Sequence[Argument]]) -> Call:
    """A call with other arguments in place of its parameters; parts without parameters stay the objects they are."""
    made: list[Any] = []
    is_same = True
    arguments: tuple[Any, ...] = call.arguments
    for argument in arguments:
        if type(argument) is Call:
            inner = substitute(argument, by)
            is_same = is_same and inner is argument
            made.append(inner)
        elif type(argument) is Parameter:
            made.extend(by(argument))
            is_same = False
        else:
            made.append(argument)
    return call if is_same else Call(call.function, tuple(made), call.span)


def parameters_in(expression: Argument) -> Iterator[Parameter]:
    """The parameters of an expression, in the order of its arguments; one that stands there twice, twice."""
    if isinstance(expression, Parameter):
        yield expression
    elif isinstance(expression, Call):
        for argument in expression.arguments:
            yield from parameters_in(argument)


def bind_some(call: Call, values: Mapping[int, Any]) -> Call:
    """A call with literals in place of the parameters of some indexes."""
    return substitute(call, lambda each: _literals(each, values) if each.index in values else [each])  # type: ignore[arg-type]
