"""Patterns, and functions that are prepared for their constant arguments."""

from __future__ import annotations

from functools import lru_cache, partial
from typing import Final

from palio.filters.expressions import own
from palio.filters.expressions.compiler import Compiled, Compiler, Form, Part, constant, strict_of_one, strict_of_two
from palio.filters.expressions.functions import FUNCTIONS
from palio.filters.expressions.prepared import PREPARED
from palio.filters.expressions.tree import Call
from palio.filters.like import LikePattern
from palio.filters.regex import Regex

_parsed = lru_cache(maxsize=4096)(LikePattern.parse)


def _like(compiler: Compiler, call: Call, parts: list[Part]) -> Compiled:
    ignore_case = call.function == "ilike"
    text, pattern, *escapes = parts
    function = FUNCTIONS[call.function]
    inner = compiler.argument(text, function.parameter(0))
    escape = escapes[0].value if escapes else "\\"
    if not isinstance(escape, str):
        return constant(None).run
    if pattern.text is not None:
        try:
            return strict_of_one(_parsed(pattern.text, escape, ignore_case).matches, inner)
        except ValueError:
            return constant(None).run
    return strict_of_two(
        lambda value, written: _parsed(written, escape, ignore_case).matches(value),
        inner,
        compiler.argument(pattern, function.parameter(1)),
    )


def _rlike(compiler: Compiler, call: Call, parts: list[Part]) -> Compiled:
    text, pattern = parts
    if pattern.text is None:
        return constant(None).run
    try:
        search = Regex.compile(pattern.text).search
    except ValueError:
        return constant(None).run
    return strict_of_one(search, compiler.argument(text, FUNCTIONS["rlike"].parameter(0)))


def _prepared(compiler: Compiler, call: Call, parts: list[Part]) -> Compiled:
    first, *literals = parts
    values = [part.value for part in literals]
    if None in values:
        return constant(None).run
    try:
        compute = partial(PREPARED[call.function](*values), compiler.zone)
    except ValueError:
        return constant(None).run
    return strict_of_one(compute, compiler.argument(first, FUNCTIONS[call.function].parameter(0)))


def _any_value(compiler: Compiler, call: Call, parts: list[Part]) -> Compiled:
    text = parts[0].text
    if text is None:
        return constant(None).run
    try:
        if call.function == "any_value_rlike":
            return own.any_value(Regex.compile(text).search, compiler.zone)
        return own.any_value(_parsed(text, "\\", call.function == "any_value_ilike").matches, compiler.zone)
    except ValueError:
        return constant(None).run


FORMS: Final[dict[str, Form]] = {
    "like": _like,
    "ilike": _like,
    "rlike": _rlike,
    **dict.fromkeys(PREPARED, _prepared),
    **dict.fromkeys(own.OF_THE_EVENT, _any_value),
}
