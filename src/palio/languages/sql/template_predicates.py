"""Conditions of templates: predicates on attributes and on expressions, and what connects them.

Every predicate gives its tree for arguments and a truth test, by the functions that lowering uses. A predicate on an
expression fills its literals into the expression and lowers that; beside it, it knows how an index may hold all
conditions of the template at once (`Form`).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import date
from enum import Enum
from typing import Any, ClassVar, TypeAlias

from palio.events.names import enclosing_paths
from palio.filters.comparisons import OPERATORS, Truth, compare_literal, equal_to_any
from palio.filters.expressions.ast import (
    Array,
    Attribute,
    Call,
    Expression,
    Literal,
    Micros,
    Months,
    attributes_of,
    walk,
)
from palio.filters.expressions.extension_functions import reads_whole_event
from palio.filters.expressions.static_analysis import required_for
from palio.filters.expressions.value_comparison import MIRRORED
from palio.filters.like import LikePattern
from palio.filters.regex import Regex
from palio.filters.text_cache import TextCache
from palio.filters.tree import And, Leaf, Node, Or, Residual
from palio.filters.value_predicates import PATTERNS, Computed, Like, Pattern, Rlike, Test
from palio.filters.value_sets import NULLS, PRESENT, ValueSet
from palio.languages.sql.lowering import (
    INVERSE,
    POSITIVE,
    TruthTest,
    inner_test,
    leaf_where,
    lower_condition,
    lower_like,
    lower_pattern,
)
from palio.languages.sql.template_parameters import (
    INTERVAL,
    STRING,
    Argument,
    Arguments,
    ComputedConstant,
    Constant,
    Operand,
    Parameter,
    bind_some,
    fill_expression,
    listed_values,
    parameters_in,
    substitute,
    value_of,
)

# --- predicates on one attribute -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Comparison:
    """An attribute compared with one literal, the attribute first."""

    name: str
    operator: str
    operand: Operand

    def node(self, arguments: Arguments, timezone: str, wanted: TruthTest) -> Node:
        return leaf_where(
            self.name, compare_literal(self.operator, value_of(self.operand, arguments, timezone), timezone), wanted
        )


@dataclass(frozen=True, slots=True)
class InList:
    """IN. A list of literals that are written alike is one parameter; others have an operand for each."""

    name: str
    operands: tuple[Operand, ...]

    def node(self, arguments: Arguments, timezone: str, wanted: TruthTest) -> Node:
        return leaf_where(self.name, equal_to_any(listed_values(self.operands, arguments), timezone), wanted)


@dataclass(frozen=True, slots=True)
class PatternMatch:
    """LIKE, ILIKE, RLIKE, startswith, endswith, contains."""

    name: str
    function: str
    operand: Parameter

    def pattern(self, arguments: Arguments) -> LikePattern | Regex:
        return _pattern(self.function, arguments[self.operand.index])

    def test(self, arguments: Arguments) -> Pattern:
        """The pattern as a test of values."""
        return as_test(self.pattern(arguments))

    def node(self, arguments: Arguments, timezone: str, wanted: TruthTest) -> Node:
        pattern = self.pattern(arguments)
        if isinstance(pattern, LikePattern):
            return lower_like(self.name, pattern, wanted)
        return lower_pattern(self.name, Rlike(pattern), wanted)


def as_test(pattern: LikePattern | Regex) -> Pattern:
    """A pattern as a test of values."""
    return Like(pattern) if isinstance(pattern, LikePattern) else Rlike(pattern)


@TextCache
def _pattern(function: str, text: str) -> LikePattern | Regex:
    return PATTERNS[function](text)


@dataclass(frozen=True, slots=True)
class NullTest:
    """IS NULL, IS NOT NULL."""

    name: str
    is_null: bool

    def node(self, arguments: Arguments, timezone: str, wanted: TruthTest) -> Node:
        return Leaf(self.name, NULLS if self.is_null is (wanted in POSITIVE) else PRESENT)


@dataclass(frozen=True, slots=True)
class BooleanAttribute:
    """An attribute as a condition."""

    name: str
    truth: ClassVar[Truth] = Truth(ValueSet.points([True]), ValueSet.points([False]))

    def node(self, arguments: Arguments, timezone: str, wanted: TruthTest) -> Node:
        return leaf_where(self.name, self.truth, wanted)


AttributePredicate: TypeAlias = Comparison | InList | PatternMatch | NullTest | BooleanAttribute


# --- predicates on expressions -------------------------------------------------------------------------------


class Form(Enum):
    """How an index holds all conditions that an expression with parameters stands for."""

    PLAIN = "plain"  # as values of one attribute: the expression is rewritten to that
    MEMBER = "member"  # as a constant that an array has
    COMPUTED = "computed"  # as values of a computed attribute
    OTHER = "other"  # each by itself


@dataclass(frozen=True, slots=True)
class ExpressionPredicate:
    """A condition that computes something, or compares attributes with each other; parameters stand in it."""

    expression: Call
    form: Form
    names: tuple[str, ...]
    """The attributes that it reads."""
    needed: tuple[str, ...]
    """Attributes without which it is not TRUE."""
    value: Expression | None = None
    """What is compared with constants; None where the expression is no such comparison."""
    compared: AttributePredicate | Connective | None = None
    """The comparison, as one of an attribute without a name."""

    @classmethod
    def of(cls, expression: Call, example: Arguments) -> ExpressionPredicate:
        """The predicate of an expression; its form is that of the condition with some arguments."""
        names = tuple(sorted(attributes_of(expression)))
        filled = fill_expression(expression, example)
        needed = tuple(sorted(required_for(filled, True)))
        form = _form(expression, filled)
        if form not in (Form.COMPUTED, Form.PLAIN):
            return cls(expression, form, names, needed)
        return cls(expression, form, names, needed, *(_comparison(expression, example) or (None, None)))

    def node(self, arguments: Arguments, timezone: str, wanted: TruthTest) -> Node:
        return lower_condition(fill_expression(self.expression, arguments), timezone, wanted)

    @property
    def mentioned(self) -> tuple[str, ...]:
        """The attributes that it reads, and those of whose objects an array is made of members."""
        arrays = [node.name for node in walk(self.expression) if isinstance(node, Array)]
        return (*self.names, *(path for name in arrays for path in enclosing_paths(name)))

    @property
    def naming(self) -> tuple[Parameter, ...]:
        """The parameters in what is compared: by them computed attributes differ, and what can be rewritten."""
        if self.form is Form.COMPUTED:
            return tuple(parameters_in(self.expression if self.value is None else self.value))
        return () if self.value is None else tuple(parameters_in(self.value))

    @property
    def compares_times(self) -> bool:
        """Whether what is compared is compared with dates or timestamps."""
        return self.compared is not None and any(_is_time(each) for each in _operands(self.compared))

    @property
    def compares_intervals(self) -> bool:
        """Whether what is compared is compared with intervals of time."""
        found = [] if self.compared is None else _operands(self.compared)
        return any(isinstance(each, ComputedConstant) and each.is_interval for each in found)

    @property
    def is_evaluable(self) -> bool:
        """Whether what is compared, or else the whole, is the same expression for all arguments."""
        if self.compared is not None and any(isinstance(each, ComputedConstant) for each in _operands(self.compared)):
            return False  # computed for every event
        return not self.naming and (self.form is Form.COMPUTED or self.value is not None)

    def specialise(self, values: dict[int, Any], example: Arguments) -> ExpressionPredicate:
        """The predicate with the values of some parameters, by index, filled in."""
        return self.of(bind_some(self.expression, values), example)

    def with_parameters(self, by: Callable[[Parameter], Parameter]) -> ExpressionPredicate:
        """The predicate with other parameters in place of its own."""

        def other(argument: Any) -> Any:
            match argument:
                case Parameter():
                    return by(argument)
                case Call():
                    return substitute(argument, lambda each: [by(each)])
            return argument

        compared = None if self.compared is None else _with_operands(self.compared, by)
        return ExpressionPredicate(
            other(self.expression), self.form, self.names, self.needed, other(self.value), compared
        )


def _operands(compared: AttributePredicate | Connective) -> tuple[Operand, ...]:
    match compared:
        case Comparison(_, _, operand) | PatternMatch(_, _, operand):
            return (operand,)
        case InList(_, operands):
            return operands
        case Connective(_, parts):
            return tuple(operand for part in parts for operand in _operands(part))  # type: ignore[arg-type]
    return ()


def _is_time(operand: Operand) -> bool:
    match operand:
        case Constant(value):
            return isinstance(value, date)
        case ComputedConstant():
            return operand.is_time
    return operand.kind == STRING and bool(operand.before)


def _with_operands(compared: Any, by: Callable[[Parameter], Parameter]) -> Any:
    def other(operand: Operand) -> Operand:
        match operand:
            case Parameter():
                return by(operand)
            case ComputedConstant(Parameter() as expression):
                return replace(operand, expression=by(expression))
            case ComputedConstant(Call() as expression):
                return replace(operand, expression=substitute(expression, lambda each: [by(each)]))
        return operand

    match compared:
        case Comparison(name, operator, operand):
            return Comparison(name, operator, other(operand))
        case InList(name, operands):
            return InList(name, tuple(map(other, operands)))
        case PatternMatch(name, function, operand):
            return PatternMatch(name, function, by(operand))
        case Connective(is_and, parts):
            return Connective(is_and, tuple(_with_operands(part, by) for part in parts))
    return compared


def _form(expression: Call, filled: Call) -> Form:
    match expression:
        case Call("array_contains", (Array(), Parameter() | Literal())):
            return Form.MEMBER
    lowered = lower_condition(filled, "UTC", TruthTest.TRUE)
    if isinstance(lowered, Leaf):
        computed = [test for test in lowered.values.tests if isinstance(test.pattern, Computed)]
        if not computed:
            return Form.PLAIN
        return Form.COMPUTED if lowered.values.tests == {Test(Computed(filled))} else Form.OTHER
    parts = lowered.children if isinstance(lowered, And) else (lowered,)
    residuals = [part for part in parts if not isinstance(part, Leaf)]
    is_computed = residuals == [Residual(filled)] and not reads_whole_event(filled)
    return Form.COMPUTED if is_computed else Form.OTHER


def _comparison(expression: Call, example: Arguments) -> tuple[Expression, AttributePredicate | Connective] | None:
    """What an expression compares with constants, and how; the comparisons that `computed_range` knows."""
    match expression:
        case Call("between", (Call() as value, low, high)) if attributes_of(value):
            ends = _operand(low, example), _operand(high, example)
            if ends[0] is not None and ends[1] is not None:
                return value, Connective(True, (Comparison("", ">=", ends[0]), Comparison("", "<=", ends[1])))
        case Call("in", (Call() as value, *items)):
            operands = tuple(operand for item in items if (operand := _written_operand(item)) is not None)
            if len(operands) == len(items):
                return value, InList("", operands)
        case Call(function, (Call() as value, Parameter(is_list=False) as pattern)) if function in PATTERNS:
            return (value, PatternMatch("", function, pattern)) if pattern.is_text else None
        case Call(operator, (Call() as value, other)) if operator in OPERATORS and attributes_of(value):
            constant = _operand(other, example)
            return None if constant is None else (value, Comparison("", operator, constant))
        case Call(operator, (Attribute() as value, Call() as other)) if operator in OPERATORS:
            constant = _operand(other, example)
            is_time = isinstance(constant, ComputedConstant) and constant.is_time
            return (value, Comparison("", operator, constant)) if constant is not None and is_time else None
        case Call(operator, (other, Call() as value)) if operator in OPERATORS:
            constant = _operand(other, example)
            return None if constant is None else (value, Comparison("", MIRRORED[operator], constant))
    return None


def _operand(argument: Argument, example: Arguments) -> Operand | None:
    match argument:
        case Call() if attributes_of(argument) or reads_whole_event(argument):
            return None
        case Call() | Parameter(kind="interval"):
            return ComputedConstant.of(argument, example)
    return _written_operand(argument)


def _written_operand(argument: Argument) -> Parameter | Constant | None:
    if isinstance(argument, Parameter):
        return argument if argument.kind != INTERVAL else None
    if isinstance(argument, Literal) and not isinstance(argument.value, Months | Micros):
        return Constant(argument.value)
    return None


# --- connectives -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Connective:
    """AND, OR; BETWEEN is an AND of two comparisons."""

    is_and: bool
    parts: tuple[Condition, ...]

    def node(self, arguments: Arguments, timezone: str, wanted: TruthTest) -> Node:
        nodes = tuple([part.node(arguments, timezone, wanted) for part in self.parts])
        return And(nodes) if self.is_and is (wanted in POSITIVE) else Or(nodes)


@dataclass(frozen=True, slots=True)
class Negation:
    """NOT."""

    part: Condition

    def node(self, arguments: Arguments, timezone: str, wanted: TruthTest) -> Node:
        return self.part.node(arguments, timezone, INVERSE[wanted])


@dataclass(frozen=True, slots=True)
class BooleanTest:
    """IS TRUE, IS FALSE."""

    positive: bool
    part: Condition

    def node(self, arguments: Arguments, timezone: str, wanted: TruthTest) -> Node:
        return self.part.node(arguments, timezone, inner_test(self.positive, wanted))


Condition: TypeAlias = AttributePredicate | ExpressionPredicate | Connective | Negation | BooleanTest
