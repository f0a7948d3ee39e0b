"""Quotients, casts, what kind a value is, and conditions of other languages."""

from __future__ import annotations

from functools import partial
from typing import Final

from palio.filters.expressions import arithmetic
from palio.filters.expressions.compiler import Compiled, Compiler, Form, Part, lenient, strict_of_one, strict_of_two
from palio.filters.expressions.conversion import target_of
from palio.filters.expressions.functions import FUNCTIONS
from palio.filters.expressions.tree import Attribute, Call
from palio.filters.registry import condition_in


def _divide(compiler: Compiler, call: Call, parts: list[Part]) -> Compiled:
    left, right = map(compiler.kinds.declared, call.arguments)
    return strict_of_two(partial(arithmetic.divide, declared=(left, right)), parts[0].run, parts[1].run)


def _cast(compiler: Compiler, call: Call, parts: list[Part]) -> Compiled:
    target = target_of(str(parts[1].value))
    sources, convert, zone = target.sources, target.convert, compiler.zone
    return strict_of_one(lambda value: convert(value, zone) if type(value) in sources else None, parts[0].run)


def _typeof(compiler: Compiler, call: Call, parts: list[Part]) -> Compiled:
    name_of = FUNCTIONS["typeof"].implementation
    assert name_of is not None
    inner = lenient(name_of, [parts[0].run])
    if not isinstance(call.arguments[0], Attribute):
        return inner
    name = call.arguments[0].name
    return lambda event, arrays: inner(event, arrays) if name in event else "missing"


def _condition_in(compiler: Compiler, call: Call, parts: list[Part]) -> Compiled:
    condition = condition_in(*map(str, (parts[0].value, parts[1].value)))
    return lambda event, arrays: condition(event)


FORMS: Final[dict[str, Form]] = {
    "/": _divide,
    "cast": _cast,
    "typeof": _typeof,
    "condition_in": _condition_in,
}
