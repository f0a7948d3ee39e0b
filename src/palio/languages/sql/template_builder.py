"""Making of templates: from one condition of a skeleton to the template of all."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from decimal import Decimal
from typing import Any, Final, TypeAlias

from palio.events.values import MAX_INT64
from palio.filters.comparisons import OPERATORS
from palio.filters.expressions.ast import Attribute, Call, Expression, Literal, Micros, Months, attributes_of, walk
from palio.filters.expressions.extension_functions import reads_whole_event
from palio.filters.expressions.pattern_functions import PREPARED
from palio.filters.expressions.validation import refusal
from palio.filters.expressions.value_comparison import MIRRORED
from palio.filters.value_predicates import PATTERNS
from palio.languages.grammar import NUMBER, TEXT, InvalidLiteral
from palio.languages.sql.intervals import INTERVAL_UNITS
from palio.languages.sql.lexer import tokenize
from palio.languages.sql.lowering import as_text_search, check_refusals
from palio.languages.sql.parser import parse_condition
from palio.languages.sql.template_parameters import (
    DECIMAL,
    INTEGER,
    INTERVAL,
    STRING,
    TYPED,
    Argument,
    Constant,
    Operand,
    Parameter,
    parameters_in,
    substitute,
)
from palio.languages.sql.template_predicates import (
    BooleanAttribute,
    BooleanTest,
    Comparison,
    Condition,
    Connective,
    ExpressionPredicate,
    InList,
    Negation,
    NullTest,
    PatternMatch,
)
from palio.languages.sql.templates import Template, replace_parameters

LiteralSpan: TypeAlias = tuple[str, int, int]  # kind, start, end


# Functions by whose literals the parser decides, or that stand for more than they name.
_WITHOUT_TEMPLATE: Final = frozenset({"condition_in", "in_timezone", "typeof", "exists", "forall"})
# Digits that decimals may have before and behind the point, from most to fewest: a product has those of both factors.
_DIGIT_LIMITS: Final = (9, 5, 3)
_SUMS: Final = frozenset({"+", "-", "*"})  # whose digits are bounded
# Functions by the kind of their second argument, a pattern that may be none.
_CHECKED_PATTERNS: Final = {"like": "like", "ilike": "like", "rlike": "rlike"}


def make_template(text: str, literals: Sequence[LiteralSpan], listed: range = range(0)) -> Template | None:
    """The template of the conditions that differ from this one in these literals; None where it has none.

    `listed` are the literals, by index, of an IN list that has another length in other conditions.
    """
    tokens = {(start, end): kind for kind, _, start, end in tokenize(text)}
    if any(tokens.get((start, end)) != (TEXT if kind == STRING else NUMBER) for kind, start, end in literals):
        return None  # what looks like a literal is a part of something else
    expression = parse_condition(text)
    check_refusals(expression, text)
    builder = _TemplateBuilder(text, literals)
    condition = builder.condition(expression)
    if condition is None:
        return None
    parameters = builder.all_parameters()
    return Template(condition, parameters) if not listed else _with_list(condition, parameters, listed)


def _with_list(condition: Condition, parameters: list[Parameter], listed: range) -> Template | None:
    """The template in which some parameters, all of an IN list, are one."""
    first, count = listed.start, len(listed)
    members = tuple(parameters[first : listed.stop])
    whole = replace(members[0], is_list=True)
    later = [replace(each, index=each.index - count + 1) for each in parameters[listed.stop :]]
    others = [*parameters[:first], whole, *members[1:], *later]  # by the indexes that they have until now
    found = 0

    def place(condition: Condition) -> Condition:
        nonlocal found
        match condition:
            case InList(name, operands) if operands == members:
                found += 1
                return InList(name, (whole,))
            case Connective(is_and, parts):
                return Connective(is_and, tuple([place(part) for part in parts]))
            case Negation(part):
                return Negation(place(part))
            case BooleanTest(positive, part):
                return BooleanTest(positive, place(part))
            case ExpressionPredicate():
                condition, count_in = _list_in_expression(condition, members, whole)
                found += count_in
        return replace_parameters(condition, others)

    placed = place(condition)
    return Template(placed, [*parameters[:first], whole, *later]) if found == 1 else None


def _list_in_expression(
    predicate: ExpressionPredicate, members: tuple[Parameter, ...], whole: Parameter
) -> tuple[ExpressionPredicate, int]:
    """A predicate with one parameter for those of an IN list in its expression, and how many such lists it has."""
    found = 0

    def place(argument: Any) -> Any:
        nonlocal found
        if not isinstance(argument, Call):
            return argument
        if argument.function == "in" and argument.arguments[1:] == members:
            found += 1
            return Call("in", (place(argument.arguments[0]), whole))  # type: ignore[arg-type]
        made = tuple(map(place, argument.arguments))
        return argument if made == argument.arguments else Call(argument.function, made)

    expression, value, compared = place(predicate.expression), predicate.value, predicate.compared
    if found:
        compared = InList("", (whole,)) if isinstance(compared, InList) and compared.operands == members else compared
        value = place(value)
    return replace(predicate, expression=expression, value=value, compared=compared), min(found, 1)


def _disjunction(parts: tuple[Condition, ...]) -> Condition:
    """An OR; one of equalities of one attribute with literals of one kind is an IN, which then means the same.

    With literals of several kinds it does not: IN converts all of them to one type, and each = its own.
    """
    listed: list[Parameter] = []
    names: set[tuple[str, str, str]] = set()
    for part in parts:
        if not isinstance(part, Comparison) or part.operator != "=" or not isinstance(part.operand, Parameter):
            break
        listed.append(part.operand)
        names.add((part.name, part.operand.kind, part.operand.before))
    if len(listed) == len(parts) and len(names) == 1:
        return InList(names.pop()[0], tuple(listed))
    return Connective(False, parts)


class _TemplateBuilder:
    def __init__(self, text: str, literals: Sequence[LiteralSpan]) -> None:
        self._text = text
        self._literals = literals
        self._ends = {end: index for index, (_, _, end) in enumerate(literals)}
        self.parameters: list[Parameter | None] = [None] * len(literals)

    def all_parameters(self) -> list[Parameter]:
        """The parameters of all literals; those that no part of the condition has are fixed."""
        return [
            Parameter(index, kind, "", fixed=self._text[start:end]) if known is None else known
            for index, (known, (kind, start, end)) in enumerate(zip(self.parameters, self._literals, strict=True))
        ]

    def condition(self, expression: Expression) -> Condition | None:
        """The condition of an expression; None where it has none."""
        search = as_text_search(expression) if isinstance(expression, Call) else None
        if search is not None:
            return self.condition(search)
        simple = self._simple(expression)
        return simple if simple is not None or not isinstance(expression, Call) else self._computed(expression)

    def _simple(self, expression: Expression) -> Condition | None:
        """A connective of conditions, or a predicate on an attribute."""
        match expression:
            case Attribute(name):
                return BooleanAttribute(name)
            case Call("and" | "or" as function, arguments):
                parts = [self.condition(each) for each in arguments]
                found = tuple(part for part in parts if part is not None)
                if len(found) < len(parts):
                    return None
                return Connective(True, found) if function == "and" else _disjunction(found)
            case Call("not", (argument,)):
                part = self.condition(argument)
                return None if part is None else Negation(part)
            case Call("istrue" | "isfalse" as function, (argument,)):
                part = self.condition(argument)
                return None if part is None else BooleanTest(function == "istrue", part)
            case Call("isnull" | "isnotnull" as function, (Attribute(name),)):
                return NullTest(name, function == "isnull")
            case Call("between", (Attribute() as value, low, high)):
                return self._simple(Call("and", (Call(">=", (value, low)), Call("<=", (value, high)))))
            case Call("in", (Attribute(name), *items)):
                operands = [self._operand(item) for item in items]
                listed = tuple(operand for operand in operands if operand is not None)
                return InList(name, listed) if len(listed) == len(operands) else None
            case Call(function, (Attribute(name), pattern)) if function in PATTERNS:
                parameter = self._text_parameter(pattern, _CHECKED_PATTERNS.get(function, ""))
                return None if parameter is None else PatternMatch(name, function, parameter)
            case Call(function, (Attribute(name), other)) if function in OPERATORS or function == "<=>":
                return self._comparison(name, function, other)
            case Call(function, (other, Attribute(name))) if function in OPERATORS or function == "<=>":
                return self._comparison(name, MIRRORED.get(function, function), other)
        return None

    def _comparison(self, name: str, operator: str, other: Expression) -> Condition | None:
        operand = self._operand(other)
        return None if operand is None else Comparison(name, operator, operand)

    def _text_parameter(self, expression: Expression, pattern: str) -> Parameter | None:
        operand = self._operand(expression, pattern)
        return operand if isinstance(operand, Parameter) and operand.is_text else None

    def _operand(self, expression: Expression, pattern: str = "") -> Operand | None:
        """The parameter or constant of a literal; None for anything else, and for a literal that has no kind here."""
        if not isinstance(expression, Literal) or isinstance(expression.value, Months | Micros):
            return None
        first, last = expression.span
        index = self._ends.get(last)
        if index is None:
            return Constant(expression.value)
        kind, start, end = self._literals[index]
        before = self._text[first:start].strip().lower()
        if before not in (("", *TYPED) if kind == STRING else ("", "-", "+")):
            return None
        parameter = Parameter(index, kind, before, pattern=pattern)
        if self.parameters[index] not in (None, parameter):
            return None
        self.parameters[index] = parameter
        # The parser decides: where it read another value, the skeleton's rules do not hold for this literal.
        value = parameter.read(self._text[start:end], "UTC")
        return parameter if (type(value), value) == (type(expression.value), expression.value) else None

    def _interval(self, expression: Literal) -> Parameter | None:
        """The parameter of an interval that is one literal with a unit; None for any other, which stays as it is."""
        first, last = expression.span
        within = [index for index, (_, start, end) in enumerate(self._literals) if first <= start and end <= last]
        if len(within) != 1:
            return None
        kind, start, end = self._literals[within[0]]
        before, unit = self._text[first:start].strip().lower(), self._text[end:last].strip().lower()
        if (
            kind not in (INTEGER, STRING)
            or before not in ("interval", "interval -")
            or (unit not in INTERVAL_UNITS and unit)
        ):
            return None
        parameter = Parameter(within[0], INTERVAL, before, unit=unit)
        try:
            value = parameter.read(self._text[start:end], "UTC")
        except InvalidLiteral:
            return None
        if repr(value) != repr(expression.value) or self.parameters[within[0]] not in (None, parameter):
            return None
        self.parameters[within[0]] = parameter
        return parameter

    # --- expressions -----------------------------------------------------------------------------------------

    def _computed(self, expression: Call) -> Condition | None:
        """A predicate on an expression; None where that says more, or less, than its text."""
        functions = {node.function for node in walk(expression) if isinstance(node, Call)}
        if functions & _WITHOUT_TEMPLATE or reads_whole_event(expression) or not attributes_of(expression):
            return None
        holed = self._with_parameters(expression)
        if holed is None:
            return None
        if functions & _SUMS and not self._limit_digits(holed):
            return None
        holed = substitute(holed, lambda each: [self.parameters[each.index] or each])
        return ExpressionPredicate.of(holed, self._example())

    def _with_parameters(self, call: Call) -> Call | None:
        """A call with parameters in place of the literals that are cut out; None where one has no kind here."""
        fixed = _fixed_arguments(call)
        made: list[Any] = []
        for place, argument in enumerate(call.arguments):
            found: Argument | None = argument
            if isinstance(argument, Call):
                found = self._with_parameters(argument)
            elif isinstance(argument, Literal) and place not in fixed:
                operand = self._operand(argument, _CHECKED_PATTERNS.get(call.function, "") if place == 1 else "")
                is_interval = isinstance(argument.value, Months | Micros)
                operand = self._interval(argument) if is_interval else operand
                found = operand if isinstance(operand, Parameter) else argument if operand or is_interval else None
            if found is None:
                return None
            made.append(found)
        return Call(call.function, tuple(made), call.span)

    def _limit_digits(self, call: Call) -> bool:
        """Bound the digits of decimals that are computed with, so that no condition of the skeleton has too many."""
        used = {each for part in walk(call) if _is_sum(part) for each in parameters_in(part)}
        for limit in _DIGIT_LIMITS:
            most: dict[str, Any] = {INTEGER: MAX_INT64, DECIMAL: Decimal(f"{'9' * limit}.{'9' * limit}")}
            example = self._example()
            widest = [most.get(each.kind, example[each.index]) for each in self.all_parameters()]
            if refusal(substitute(call, lambda each: [Literal(widest[each.index])])) is None:  # noqa: B023
                for each in used:
                    if each.kind == DECIMAL:
                        self.parameters[each.index] = replace(each, max_digits=limit)
                return True
        return False

    def _example(self) -> list[Any]:
        """The arguments of the text itself, however many digits they have."""
        return [
            replace(parameter, max_digits=0).read(self._text[start:end], "UTC")
            for parameter, (_, start, end) in zip(self.all_parameters(), self._literals, strict=True)
        ]


def _is_sum(expression: Expression) -> bool:
    return isinstance(expression, Call) and expression.function in _SUMS


def _fixed_arguments(call: Call) -> range:
    """The arguments, by place, by which a call is refused or not."""
    if call.function == "format_string":  # the format, by which the number of values is checked
        return range(1)
    is_escaped = call.function in ("like", "ilike") and len(call.arguments) > 2
    return range(1, len(call.arguments)) if call.function in PREPARED or is_escaped else range(0)
