"""Evaluation of templates on events, without a filter.

A template is compiled to a function of an event and arguments, once for all conditions that are bound to it. Most
comparisons are of an integer with an integer or a string with a string, and Python orders those as SQL does; any other
pair is looked up in the set of values that the comparison means.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

from palio.filters.comparisons import Truth, compare_literal, equal_to_any
from palio.filters.expressions.compiler import Compiled
from palio.filters.expressions.special_forms import compile_expression
from palio.filters.expressions.value_comparison import COMPARATORS, OPPOSITES
from palio.filters.kinds import KIND_OF_TYPE, MISSING, Missing
from palio.languages.sql.lowering import INVERSE, POSITIVE, TruthTest, inner_test
from palio.languages.sql.template_parameters import (
    INTEGER,
    STRING,
    Arguments,
    Constant,
    Operand,
    Parameter,
    fill_expression,
    listed_values,
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
from palio.languages.sql.templates import Evaluator, Template

Event = Mapping[str, Any]
# Applied to two integers or two strings only, neither of them NULL: there <=> is =.
_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {**COMPARATORS, "<=>": operator.eq}
_OPPOSITE: Final = {**OPPOSITES, "<=>": "<>"}


def evaluator_of(template: Template) -> Evaluator:
    """The compiled condition of a template, for events of which no attribute has several values."""
    if template.evaluator is None:
        template.evaluator = _compile(template.condition, TruthTest.TRUE)
    return template.evaluator


def _compile(condition: Condition, wanted: TruthTest) -> Evaluator:
    match condition:
        case Connective(is_and, parts):
            tests = tuple(_compile(part, wanted) for part in parts)
            return _all_of(tests) if is_and is (wanted in POSITIVE) else _any_of(tests)
        case Negation(part):
            return _compile(part, INVERSE[wanted])
        case BooleanTest(positive, part):
            return _compile(part, inner_test(positive, wanted))
        case Comparison():
            return _compile_comparison(condition, wanted)
        case InList():
            return _compile_in_list(condition, wanted)
        case PatternMatch():
            return _compile_pattern(condition, wanted)
        case NullTest(name, is_null):
            wants_null = is_null is (wanted in POSITIVE)
            return lambda event, arguments, zone: (event.get(name) is None) is wants_null
        case BooleanAttribute(name):
            return lambda event, arguments, zone: _passes(condition.truth, event.get(name, MISSING), wanted)
        case ExpressionPredicate():
            return _compile_expression(condition, wanted)


def _all_of(tests: tuple[Evaluator, ...]) -> Evaluator:
    def evaluate(event: Event, arguments: Arguments, zone: str) -> bool:
        for test in tests:
            if not test(event, arguments, zone):
                return False
        return True

    return evaluate


def _any_of(tests: tuple[Evaluator, ...]) -> Evaluator:
    def evaluate(event: Event, arguments: Arguments, zone: str) -> bool:
        for test in tests:
            if test(event, arguments, zone):
                return True
        return False

    return evaluate


def _passes(truth: Truth, value: Any, wanted: TruthTest) -> bool:
    """Whether a condition that is TRUE and FALSE for these values passes a truth test for one value."""
    if wanted is TruthTest.TRUE:
        return truth.true.contains(value)
    if wanted is TruthTest.FALSE:
        return truth.false.contains(value)
    return not (truth.true if wanted is TruthTest.NOT_TRUE else truth.false).contains(value)


def _plain_type(operand: Operand) -> type | None:
    """The type of a literal that Python compares as SQL does with a value of the same type."""
    if isinstance(operand, Parameter) and not (operand.kind == STRING and operand.before):
        return {INTEGER: int, STRING: str}.get(operand.kind)
    return None


_EVERYTHING: Final = frozenset(KIND_OF_TYPE)


def _comparable(operand: Parameter) -> frozenset[type]:
    """The types of values with which a literal compares at all; with others it is NULL."""
    if operand.kind != STRING:
        return frozenset({int, float, Decimal})
    if operand.before == "x":
        return frozenset({bytes})
    return frozenset({date, datetime}) if operand.before else _EVERYTHING - {type(None), Missing}


def _compile_comparison(condition: Comparison, wanted: TruthTest) -> Evaluator:
    name, function, operand = condition.name, condition.operator, condition.operand
    if isinstance(operand, Constant):
        literal = operand.value
        return lambda event, arguments, zone: _passes(
            compare_literal(function, literal, zone), event.get(name, MISSING), wanted
        )
    assert isinstance(operand, Parameter)  # no other is evaluable
    index, kind = operand.index, _plain_type(operand)
    compare = _COMPARE[function if wanted in POSITIVE else _OPPOSITE[function]]
    comparable = _EVERYTHING if function == "<=>" else _comparable(operand)
    if_null = wanted in (TruthTest.NOT_TRUE, TruthTest.NOT_FALSE)

    def evaluate(event: Event, arguments: Arguments, zone: str) -> bool:
        value = event.get(name, MISSING)
        if value.__class__ is kind:
            return compare(value, arguments[index])
        if value.__class__ not in comparable:
            return if_null
        return _passes(compare_literal(function, arguments[index], zone), value, wanted)

    return evaluate


def _compile_in_list(condition: InList, wanted: TruthTest) -> Evaluator:
    name, operands = condition.name, condition.operands
    positive = wanted in POSITIVE
    all_texts = all(_plain_type(operand) is str for operand in operands)

    def evaluate(event: Event, arguments: Arguments, zone: str) -> bool:
        value = event.get(name, MISSING)
        literals = listed_values(operands, arguments)
        if all_texts and value.__class__ is str:
            return (value in literals) is positive
        if len(set(map(type, literals))) > 1:
            return _passes(equal_to_any(literals, zone), value, wanted)
        # Of one kind, each literal may be asked by itself.
        if wanted in (TruthTest.TRUE, TruthTest.NOT_TRUE):
            found = any(compare_literal("=", each, zone).true.contains(value) for each in literals)
        else:
            found = all(compare_literal("=", each, zone).false.contains(value) for each in literals)
        return found is (wanted in (TruthTest.TRUE, TruthTest.FALSE))

    return evaluate


def _compile_pattern(condition: PatternMatch, wanted: TruthTest) -> Evaluator:
    name, positive = condition.name, wanted in POSITIVE
    if_null = wanted in (TruthTest.NOT_TRUE, TruthTest.NOT_FALSE)

    def evaluate(event: Event, arguments: Arguments, zone: str) -> bool:
        value = event.get(name, MISSING)
        if value.__class__ is not str:
            return if_null
        return condition.test(arguments).accepts(value) is positive

    return evaluate


def _compile_expression(condition: ExpressionPredicate, wanted: TruthTest) -> Evaluator:
    """The value of what is compared, as that of an attribute without a name; without a comparison, the truth value."""
    assert condition.is_evaluable  # the caller asks the template
    truth = _compile(BooleanAttribute(""), wanted)
    test = truth if condition.compared is None else _compile(condition.compared, wanted)
    value = condition.expression if condition.value is None else condition.value
    compiled: dict[str, Compiled] = {}  # by time zone

    def evaluate(event: Event, arguments: Arguments, zone: str) -> bool:
        if zone != "UTC" and condition.compares_times:
            # The first midnight of the year 1 is computed as NULL where a zone is ahead of UTC.
            filled = fill_expression(condition.expression, arguments)
            return truth({"": compile_expression(filled, zone)(event, {})}, arguments, zone)
        run = compiled.get(zone)
        if run is None:
            run = compiled[zone] = compile_expression(value, zone)
        found = run(event, {})
        # An interval of time compares with no literal.
        return test({"": found if type(found) in KIND_OF_TYPE else None}, arguments, zone)

    return evaluate
