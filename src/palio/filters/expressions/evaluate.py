"""The value of an expression for an event: expressions compiled to closures, once, for many events.

A condition means what Spark 4 means by it in ANSI mode, except that whatever Spark would raise at run time
is NULL for that event: a bad cast, an overflow, a division by zero. Implementations say so by returning
None, or by raising an ArithmeticError or a ValueError, which ends at the call it came from, so that
`coalesce(x / 0, 1)` is 1. Evaluation never raises.

Constants are computed when an expression is compiled. A string that is one counts as a literal: it is
converted to the kind of what it is compared with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

from palio.filters.expressions.compiler import Compiled, Compiler, Form, Part
from palio.filters.expressions.forms import arrays, choosing, conditions, texts, values
from palio.filters.expressions.inference import bottom_up
from palio.filters.expressions.nullness import is_strict, required
from palio.filters.expressions.refusals import DEPTH_LIMIT, refusal
from palio.filters.expressions.tree import Call, Expression
from palio.filters.expressions.values import zone_named

__all__ = ["DEPTH_LIMIT", "Compiled", "compile_expression", "is_strict", "refusal", "required"]


def compile_expression(expression: Expression, timezone: str = "UTC") -> Compiled:
    """The function from an event to the value of an expression, with times on the clocks of `timezone`."""
    zone_named(timezone)
    compiler = Compiler(timezone, _FORMS)
    for call in bottom_up(expression):
        compiler.part(call)
    return compiler.part(expression).run


def _in_timezone(compiler: Compiler, call: Call, parts: list[Part]) -> Compiled:
    return compile_expression(call.arguments[1], str(parts[0].value))


_FORMS: Final[Mapping[str, Form]] = {
    **conditions.FORMS,
    **choosing.FORMS,
    **values.FORMS,
    **texts.FORMS,
    **arrays.FORMS,
    "in_timezone": _in_timezone,
}
