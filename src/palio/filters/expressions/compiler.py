"""Compiler from expressions to closures.

Calls of plain functions (functions of their arguments' values) are compiled here; the special forms are passed in as a
table (`special_forms`). Closures were chosen over generated code: they need no escaping of names and literals, and a
stack trace leads to the implementation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from palio.filters.expressions import extension_functions, text_cast
from palio.filters.expressions.ast import Array, Attribute, Call, Expression, Literal
from palio.filters.expressions.coercion import Arrays, Scalars, Value, ValueType
from palio.filters.expressions.functions import ANY, FUNCTIONS, Function, FunctionParameter
from palio.filters.expressions.static_analysis import Kinds
from palio.filters.expressions.value_comparison import MIRRORED, comparison, comparison_with_text
from palio.filters.work_limit import limit_calls

Compiled: TypeAlias = Callable[[Scalars, Arrays], Value]

# Exceptions by which an implementation reports NULL.
NULL_EXCEPTIONS: Final = (ArithmeticError, ValueError)

_EMPTY: Final[dict[str, Any]] = {}
# These read the event, so their calls are not folded though all their arguments are constants.
_NEVER_CONSTANT: Final = extension_functions.WHOLE_EVENT_FUNCTIONS | {"condition_in"}


class CompiledOperand(NamedTuple):
    """A compiled expression, its kind where that is known, and its value where it is constant."""

    run: Compiled
    kind: ValueType | None
    is_constant: bool = False
    value: Value = None

    @property
    def text(self) -> str | None:
        """The text of a string literal."""
        return self.value if self.is_constant and isinstance(self.value, str) else None


def constant(value: Value, kind: ValueType | None = None) -> CompiledOperand:
    return CompiledOperand(lambda event, arrays: value, kind or type(value), True, value)


class Compiler:
    """Compiles expressions for one time zone."""

    def __init__(self, zone: str, forms: Mapping[str, Form]) -> None:
        self.zone = zone
        self._forms = forms
        self.kinds = Kinds()
        self._parts: dict[int, CompiledOperand] = {}

    def part(self, expression: Expression) -> CompiledOperand:
        match expression:
            case Literal(value):
                return constant(value)
            case Attribute(name):
                return CompiledOperand(lambda event, arrays: event.get(name), None)
            case Array(name):
                return CompiledOperand(lambda event, arrays: arrays.get(name), tuple)
        # By identity: expressions are shared, and their equality costs a walk.
        if id(expression) not in self._parts:
            self._parts[id(expression)] = self._call(expression)
        return self._parts[id(expression)]

    def _call(self, call: Call) -> CompiledOperand:
        parts = [self.part(argument) for argument in call.arguments]
        form = self._forms.get(call.function)
        run = form(self, call, parts) if form else self._plain(FUNCTIONS[call.function], parts)
        kind = self.kinds.of(call)
        if all(part.is_constant for part in parts) and call.function not in _NEVER_CONSTANT:
            return constant(run(_EMPTY, _EMPTY), kind)
        return CompiledOperand(run, kind)

    def _plain(self, function: Function, parts: Sequence[CompiledOperand]) -> Compiled:
        """Compile a plain function."""
        compute = function.implementation
        if compute is None:
            raise ValueError(f"{function.name} has no implementation")
        compute = limit_calls(function.name, compute)
        if function.zoned:
            compute = partial(compute, self.zone)
        runs = [self.argument(part, function.parameter(at)) for at, part in enumerate(parts)]
        if not function.strict:
            return lenient(compute, runs)
        if len(runs) == 1:
            return strict_of_one(compute, runs[0])
        return strict_of_two(compute, *runs) if len(runs) == 2 else _strict(compute, runs)

    def argument(self, part: CompiledOperand, parameter: FunctionParameter) -> Compiled:
        """An argument coerced to the type of its parameter; NULL where it cannot be."""
        if parameter is ANY or (parameter.kind is not None and part.kind is parameter.kind):
            return part.run
        kind, accepts, convert, zone = parameter.kind, parameter.accepts, parameter.convert, self.zone
        inner = part.run

        def run(event: Scalars, arrays: Arrays) -> Value:
            value = inner(event, arrays)
            if value is None or type(value) is kind:
                return value
            return convert(value, zone) if type(value) in accepts else None

        if not part.is_constant:
            return run
        # A constant is converted once; one that cannot be converted is NULL for every event, as at run time.
        try:
            return constant(run(_EMPTY, _EMPTY)).run
        except NULL_EXCEPTIONS:
            return constant(None).run

    def truth(self, part: CompiledOperand) -> Compiled:
        """A condition; any value but TRUE and FALSE counts as NULL."""
        return part.run if part.text is None else constant(text_cast.to_boolean(part.text)).run

    def compare(self, name: str, left: CompiledOperand, right: CompiledOperand) -> Callable[[Any, Any], bool | None]:
        """The comparison of two values that are not NULL; a string literal is coerced to the kind of the other."""
        if right.text is not None:
            with_right = comparison_with_text(name, right.text, self.zone)
            return lambda value, text: with_right(value)
        if left.text is not None:
            with_left = comparison_with_text(MIRRORED[name], left.text, self.zone)
            return lambda text, value: with_left(value)
        return comparison(name, self.zone)


Form: TypeAlias = Callable[[Compiler, Call, list[CompiledOperand]], Compiled]


def strict_of_one(compute: Callable[..., Value], first: Compiled) -> Compiled:
    def run(event: Scalars, arrays: Arrays) -> Value:
        try:
            value = first(event, arrays)
            return None if value is None else compute(value)
        except NULL_EXCEPTIONS:
            return None

    return run


def strict_of_two(compute: Callable[..., Value], first: Compiled, second: Compiled) -> Compiled:
    def run(event: Scalars, arrays: Arrays) -> Value:
        try:
            left = first(event, arrays)
            if left is None:
                return None
            right = second(event, arrays)
            return None if right is None else compute(left, right)
        except NULL_EXCEPTIONS:
            return None

    return run


# For three and more arguments; the two functions above, for one and two, need no list.
def _strict(compute: Callable[..., Value], runs: Sequence[Compiled]) -> Compiled:
    def run(event: Scalars, arrays: Arrays) -> Value:
        try:
            values = []
            for each in runs:
                value = each(event, arrays)
                if value is None:
                    return None
                values.append(value)
            return compute(*values)
        except NULL_EXCEPTIONS:
            return None

    return run


# A failing argument is NULL to a function that is not strict; to a strict one any failure is NULL.
def lenient(compute: Callable[..., Value], runs: Sequence[Compiled]) -> Compiled:
    def run(event: Scalars, arrays: Arrays) -> Value:
        values: list[Value] = []
        for each in runs:
            try:
                values.append(each(event, arrays))
            except NULL_EXCEPTIONS:
                values.append(None)
        try:
            return compute(*values)
        except NULL_EXCEPTIONS:
            return None

    return run
