"""Evaluation of CESQL expressions: a value for an event, and the errors on the way.

Expressions are compiled to closures once, for many events, as Palio's own are (`filters/expressions/special_forms.py`);
in place of NULL there is a list to which every part adds its errors. The rules (§3.2, §3.3, §3.6):

- An operator or function with a failed operand gives the zero value of its own type: false, 0 or "".
- A failed cast gives the zero value of the target type, and the operator goes on with it.
- AND and OR evaluate their operands from left to right, and no further once the outcome is certain; so does IN.

Where the text of the specification leaves room, its own tests decide: `1 != 1 / 0` is false, and `NOT 10` is a failed
cast and true, although the cast `BOOL(10)` succeeds.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

from palio.filters.expressions.ast import Attribute, Call, Expression, Literal, bottom_up
from palio.filters.expressions.extension_functions import LARGEST_CESQL_INTEGER, SMALLEST_CESQL_INTEGER
from palio.filters.expressions.value_comparison import COMPARATORS
from palio.filters.like import LikePattern
from palio.languages.cesql.functions import FunctionFailed, find_function, refusal
from palio.languages.cesql.types import (
    CAST,
    GENERIC,
    MATH,
    MISSING_ATTRIBUTE,
    MISSING_FUNCTION,
    Failure,
    Type,
    Value,
    are_equal,
    attribute_value,
    cast,
    type_of,
)

Event: TypeAlias = Mapping[str, Any]
Failures: TypeAlias = list[Failure]
CompiledExpression: TypeAlias = Callable[[Event, Failures], Value]

REQUIRED: Final = frozenset({"id", "source", "specversion", "type"})
"""The attributes that every CloudEvent has: EXISTS of them is always true (§3.4.4)."""

NOT_AN_ATTRIBUTE: Final = "data"
"""The payload of a CloudEvent, which is not an attribute and cannot be read by an expression."""


def compile_expression(expression: Expression) -> CompiledExpression:
    """The function from an event's attributes, and a list for errors, to the value of an expression."""
    compiler = _Compiler()
    for call in bottom_up(expression):
        compiler.part(call)
    return compiler.part(expression)


class _Compiler:
    """Compiles the parts of one expression, inner ones before outer ones."""

    def __init__(self) -> None:
        self._parts: dict[int, CompiledExpression] = {}

    def part(self, expression: Expression) -> CompiledExpression:
        match expression:
            case Literal(value):
                return _constant(value)  # type: ignore[arg-type]
            case Attribute(name, span):
                return _attribute(name, span[0])
            case Call():
                # By identity: equality would walk the tree. `compile_expression` asks for inner calls first, so the
                # recursion is one level deep however deep the text nests.
                if id(expression) not in self._parts:
                    self._parts[id(expression)] = self._call(expression)
                return self._parts[id(expression)]
        raise TypeError(expression)

    def _call(self, call: Call) -> CompiledExpression:
        # EXISTS takes a name: to compile the attribute as a value would record an error where it is missing.
        if call.function == "exists":
            (attribute,) = call.arguments
            assert isinstance(attribute, Attribute)
            return _exists(attribute.name)
        compile_call = _COMPILERS.get(call.function, _function)
        return compile_call(call, [self.part(argument) for argument in call.arguments])


def _constant(value: Value) -> CompiledExpression:
    return lambda event, failures: value


def _attribute(name: str, position: int) -> CompiledExpression:
    def run(event: Event, failures: Failures) -> Value:
        value = event.get(name)
        if value is None or name == NOT_AN_ATTRIBUTE:
            failures.append(Failure(MISSING_ATTRIBUTE, f"the event has no attribute {name}", position))
            return False
        converted = attribute_value(value)
        if converted is None:
            reason = f"the attribute {name} holds a value of no CloudEvents type ({type(value).__name__})"
            failures.append(Failure(GENERIC, reason, position))
            return False
        return converted

    return run


def _exists(name: str) -> CompiledExpression:
    if name in REQUIRED:
        return _constant(True)
    if name == NOT_AN_ATTRIBUTE:
        return _constant(False)
    return lambda event, failures: event.get(name) is not None


def _cast_or_fail(value: Value, target: Type, failures: Failures, position: int) -> Value:
    """A value cast to a type; where the cast fails, the zero value of the type, and an error in the list."""
    converted = cast(value, target)
    if converted is None:
        shown = repr(value) if len(repr(value)) <= 60 else f"{repr(value)[:57]}..."
        failures.append(Failure(CAST, f"{shown} is no {target.value}", position))
        return target.zero
    return converted


def _and(call: Call, operands: list[CompiledExpression]) -> CompiledExpression:
    parts = list(zip(operands, _positions(call), strict=True))

    def run(event: Event, failures: Failures) -> Value:
        before = len(failures)
        for operand, position in parts:
            value = operand(event, failures)
            # A failed operand makes AND false, whatever follows it.
            if len(failures) > before or not _cast_or_fail(value, Type.BOOLEAN, failures, position):
                return False
        return True

    return run


def _or(call: Call, operands: list[CompiledExpression]) -> CompiledExpression:
    parts = list(zip(operands, _positions(call), strict=True))

    def run(event: Event, failures: Failures) -> Value:
        failed, start = False, len(failures)
        for place, (operand, position) in enumerate(parts):
            before = len(failures)
            # `a OR b OR c` is `(a OR b) OR c`: an error of any kind in the bracket, a failed cast included, makes the
            # bracket a failed operand of the second OR.
            failed = failed or (place > 1 and before > start)
            value = operand(event, failures)
            if len(failures) > before:
                failed = True
            elif _cast_or_fail(value, Type.BOOLEAN, failures, position):
                return not failed
        return False

    return run


def _xor(call: Call, operands: list[CompiledExpression]) -> CompiledExpression:
    left, right = operands
    first_position, second_position = _positions(call)

    def run(event: Event, failures: Failures) -> Value:
        before = len(failures)
        first, second = left(event, failures), right(event, failures)
        if len(failures) > before:
            return False
        one = _cast_or_fail(first, Type.BOOLEAN, failures, first_position)
        return one is not _cast_or_fail(second, Type.BOOLEAN, failures, second_position)

    return run


def _not(call: Call, operands: list[CompiledExpression]) -> CompiledExpression:
    (operand,), (position,) = operands, _positions(call)

    def run(event: Event, failures: Failures) -> Value:
        before = len(failures)
        value = operand(event, failures)
        if len(failures) > before:
            return False
        # As the specification's tests have it, see the docstring of the module.
        if type_of(value) is Type.INTEGER:
            failures.append(Failure(CAST, f"NOT takes a Boolean, not the Integer {value}", position))
            return True
        return not _cast_or_fail(value, Type.BOOLEAN, failures, position)

    return run


def _equal(wanted: bool) -> _Compile:
    """`=` and `<>`. With a failed operand both are false, so `<>` is not the NOT of `=`."""

    def compile_equal(call: Call, operands: list[CompiledExpression]) -> CompiledExpression:
        left, right = operands
        position = call.arguments[0].span[0]

        def run(event: Event, failures: Failures) -> Value:
            before = len(failures)
            first, second = left(event, failures), right(event, failures)
            if len(failures) > before:
                return False
            return are_equal(_cast_or_fail(first, type_of(second), failures, position), second) is wanted

        return run

    return compile_equal


def _comparison(call: Call, operands: list[CompiledExpression]) -> CompiledExpression:
    compare = COMPARATORS[call.function]
    integers = _integers(call, operands)

    def run(event: Event, failures: Failures) -> Value:
        values = integers(event, failures)
        return values is not None and compare(*values)

    return run


def _arithmetic(call: Call, operands: list[CompiledExpression]) -> CompiledExpression:
    compute, position = _ARITHMETIC[call.function], call.span[0]
    integers = _integers(call, operands)

    def run(event: Event, failures: Failures) -> Value:
        values = integers(event, failures)
        if values is None:
            return 0
        result = compute(*values)
        if result is None or not SMALLEST_CESQL_INTEGER <= result <= LARGEST_CESQL_INTEGER:
            reason = "division by zero" if result is None else f"{result} is beyond 32 bits"
            failures.append(Failure(MATH, reason, position))
            return 0
        return result

    return run


def _integers(call: Call, operands: list[CompiledExpression]) -> Callable[[Event, Failures], list[int] | None]:
    """The operands as Integers; None where one of them failed."""
    parts = list(zip(operands, _positions(call), strict=True))

    def run(event: Event, failures: Failures) -> list[int] | None:
        before = len(failures)
        values = [(operand(event, failures), position) for operand, position in parts]
        if len(failures) > before:
            return None
        return [int(_cast_or_fail(value, Type.INTEGER, failures, position)) for value, position in values]

    return run


def _quotient(x: int, y: int) -> int | None:
    """The quotient rounded towards zero, where Python rounds down; None for a division by zero."""
    return None if y == 0 else (abs(x) // abs(y)) * (1 if (x < 0) == (y < 0) else -1)


def _remainder(x: int, y: int) -> int | None:
    """The remainder with the sign of the dividend, where Python's has the divisor's; None for a division by zero."""
    return None if y == 0 else (abs(x) % abs(y)) * (1 if x >= 0 else -1)


_ARITHMETIC: Final[dict[str, Callable[..., int | None]]] = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "/": _quotient,
    "%": _remainder,
    "neg": lambda x: -x,
}


def _like(call: Call, operands: list[CompiledExpression]) -> CompiledExpression:
    operand = operands[0]
    matches = pattern_of(call).matches

    def run(event: Event, failures: Failures) -> Value:
        before = len(failures)
        value = operand(event, failures)
        return len(failures) == before and matches(str(cast(value, Type.STRING)))

    return run


_BACKSLASH: Final = re.compile(r"\\[%_]|\\", re.DOTALL)


def parse_pattern(text: str) -> LikePattern:
    """The LIKE pattern of a text (§3.4.3). Every text is one.

    A backslash before `%` or `_` makes it mean itself; before anything else it is a backslash, also at the end.
    """
    # `LikePattern` refuses a backslash before anything but %, _ and itself, so a literal one is doubled.
    return LikePattern.parse(_BACKSLASH.sub(lambda match: match[0] if len(match[0]) == 2 else "\\\\", text))


def pattern_of(call: Call) -> LikePattern:
    """The pattern of a LIKE."""
    pattern = call.arguments[1]
    assert isinstance(pattern, Literal)
    return parse_pattern(str(pattern.value))


def _in(call: Call, operands: list[CompiledExpression]) -> CompiledExpression:
    left, *items = operands
    parts = list(zip(items, _positions(call)[1:], strict=True))

    def run(event: Event, failures: Failures) -> Value:
        before = len(failures)
        value = left(event, failures)
        if len(failures) > before:
            return False
        target, failed = type_of(value), False
        for item, position in parts:
            before = len(failures)
            other = item(event, failures)
            # A failed item makes IN false, but later items are evaluated, for their errors, until one is equal.
            if len(failures) > before:
                failed = True
            elif are_equal(value, _cast_or_fail(other, target, failures, position)):
                return not failed
        return False

    return run


def _function(call: Call, operands: list[CompiledExpression]) -> CompiledExpression:
    position = call.span[0]
    function = find_function(call.function, len(operands))
    if function is None:
        # A filter with such a call is refused by `lowering.check`; `evaluate` reports the error for every event.
        failure = Failure(MISSING_FUNCTION, refusal(call.function, len(operands)) or "", position)

        def run_missing(event: Event, failures: Failures) -> Value:
            failures.append(failure)
            return False

        return run_missing
    zero, compute = function.result.zero, function.compute
    parts = [
        (operand, function.parameter(at), start)
        for at, (operand, start) in enumerate(zip(operands, _positions(call), strict=True))
    ]

    def run(event: Event, failures: Failures) -> Value:
        before = len(failures)
        values = [operand(event, failures) for operand, _, _ in parts]
        if len(failures) > before:
            return zero
        arguments = [
            _cast_or_fail(value, target, failures, start)
            for value, (_, target, start) in zip(values, parts, strict=True)
        ]
        try:
            return compute(*arguments)
        except FunctionFailed as error:
            failures.append(Failure(error.kind, error.reason, position))
            return error.value

    return run


def _positions(call: Call) -> list[int]:
    return [argument.span[0] for argument in call.arguments]


_Compile: TypeAlias = Callable[[Call, list[CompiledExpression]], CompiledExpression]
_COMPILERS: Final[dict[str, _Compile]] = {
    "and": _and,
    "or": _or,
    "xor": _xor,
    "not": _not,
    "=": _equal(True),
    "<>": _equal(False),
    **dict.fromkeys(("<", "<=", ">", ">="), _comparison),
    **dict.fromkeys(_ARITHMETIC, _arithmetic),
    "like": _like,
    "in": _in,
}
