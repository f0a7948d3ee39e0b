"""Is a condition of a known shape TRUE for an event? Without making a filter of it.

A template becomes a function of an event and of literals, once for all conditions of its shape. What is compared is
mostly an integer with an integer or a string with a string, and Python orders those as SQL does; any other pair is
asked of the set of values that the comparison means.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from datetime import date, datetime
from decimal import Decimal
from typing import Any, Final

from palio.filters.comparisons import Truth, equal_to_any
from palio.filters.kinds import KIND_OF_TYPE, MISSING, Missing
from palio.languages.sql.lowering import NEGATED, Ask, compared, two_valued
from palio.languages.sql.templates import (
    INTEGER,
    POSITIVE,
    STRING,
    Compared,
    Condition,
    Constant,
    Decided,
    Flagged,
    Given,
    Joined,
    Liked,
    Listed,
    Negated,
    Nulled,
    Operand,
    Slot,
    Template,
    Test,
)

Event = Mapping[str, Any]
_COMPARE: Final[dict[str, Callable[[Any, Any], bool]]] = {
    "=": operator.eq,
    "<=>": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_OPPOSITE: Final = {"=": "<>", "<=>": "<>", "<>": "=", "<": ">=", "<=": ">", ">": "<=", ">=": "<"}


def test_of(template: Template) -> Test:
    """The condition of a template as a function; for events of which no attribute has several values."""
    if template.test is None:
        template.test = _test(template.condition, Ask.TRUE)
    return template.test


def _test(condition: Condition, ask: Ask) -> Test:
    match condition:
        case Joined(is_and, parts):
            tests = tuple(_test(part, ask) for part in parts)
            return _every(tests) if is_and is (ask in POSITIVE) else _some(tests)
        case Negated(part):
            return _test(part, NEGATED[ask])
        case Decided(positive, part):
            return _test(part, two_valued(positive, ask))
        case Compared():
            return _compared(condition, ask)
        case Listed():
            return _listed(condition, ask)
        case Liked():
            return _liked(condition, ask)
        case Nulled(name, is_null):
            wants_null = is_null is (ask in POSITIVE)
            return lambda event, given, zone: (event.get(name) is None) is wants_null
        case Flagged(name):
            return lambda event, given, zone: _answers(condition.truth, event.get(name, MISSING), ask)


def _every(tests: tuple[Test, ...]) -> Test:
    def every(event: Event, given: Given, zone: str) -> bool:
        for test in tests:
            if not test(event, given, zone):
                return False
        return True

    return every


def _some(tests: tuple[Test, ...]) -> Test:
    def some(event: Event, given: Given, zone: str) -> bool:
        for test in tests:
            if test(event, given, zone):
                return True
        return False

    return some


def _answers(truth: Truth, value: Any, ask: Ask) -> bool:
    """Whether a condition that is TRUE and FALSE for these values answers as asked for one."""
    if ask is Ask.TRUE:
        return truth.true.contains(value)
    if ask is Ask.FALSE:
        return truth.false.contains(value)
    return not (truth.true if ask is Ask.NOT_TRUE else truth.false).contains(value)


def _plain_type(operand: Operand) -> type | None:
    """The type of a literal that Python compares as SQL does with a value of the same type."""
    if isinstance(operand, Slot) and not (operand.kind == STRING and operand.before):
        return {INTEGER: int, STRING: str}.get(operand.kind)
    return None


_EVERYTHING: Final = frozenset(KIND_OF_TYPE)


def _comparable(operand: Slot) -> frozenset[type]:
    """The types of values with which a literal compares at all; with others it is NULL."""
    if operand.kind != STRING:
        return frozenset({int, float, Decimal})
    if operand.before == "x":
        return frozenset({bytes})
    return frozenset({date, datetime}) if operand.before else _EVERYTHING - {type(None), Missing}


def _compared(condition: Compared, ask: Ask) -> Test:
    name, function, operand = condition.name, condition.operator, condition.operand
    if isinstance(operand, Constant):
        literal = operand.value
        return lambda event, given, zone: _answers(compared(function, literal, zone), event.get(name, MISSING), ask)
    index, kind = operand.index, _plain_type(operand)
    compare = _COMPARE[function if ask in POSITIVE else _OPPOSITE[function]]
    comparable = _EVERYTHING if function == "<=>" else _comparable(operand)
    if_null = ask in (Ask.NOT_TRUE, Ask.NOT_FALSE)

    def test(event: Event, given: Given, zone: str) -> bool:
        value = event.get(name, MISSING)
        if value.__class__ is kind:
            return compare(value, given[index])
        if value.__class__ not in comparable:
            return if_null
        return _answers(compared(function, given[index], zone), value, ask)

    return test


def _listed(condition: Listed, ask: Ask) -> Test:
    name, operands = condition.name, condition.operands
    positive = ask in POSITIVE
    indexes = [operand.index if isinstance(operand, Slot) else -1 for operand in operands]
    all_texts = all(_plain_type(operand) is str for operand in operands)

    def test(event: Event, given: Given, zone: str) -> bool:
        value = event.get(name, MISSING)
        if all_texts and value.__class__ is str:
            for index in indexes:
                if given[index] == value:
                    return positive
            return not positive
        literals = [operand.value if isinstance(operand, Constant) else given[operand.index] for operand in operands]
        if len(set(map(type, literals))) > 1:
            return _answers(equal_to_any(literals, zone), value, ask)
        # Of one kind, each literal may be asked by itself.
        if ask in (Ask.TRUE, Ask.NOT_TRUE):
            found = any(compared("=", each, zone).true.contains(value) for each in literals)
        else:
            found = all(compared("=", each, zone).false.contains(value) for each in literals)
        return found is (ask in (Ask.TRUE, Ask.FALSE))

    return test


def _liked(condition: Liked, ask: Ask) -> Test:
    name, positive = condition.name, ask in POSITIVE
    if_null = ask in (Ask.NOT_TRUE, Ask.NOT_FALSE)

    def test(event: Event, given: Given, zone: str) -> bool:
        value = event.get(name, MISSING)
        if value.__class__ is not str:
            return if_null
        return condition.pattern(given).matches(value) is positive

    return test
