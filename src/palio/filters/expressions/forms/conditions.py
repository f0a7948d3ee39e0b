"""Conditions: logic with three values, NULL, and comparisons."""

from __future__ import annotations

from collections.abc import Mapping
from types import NoneType
from typing import Any, Final

from palio.events.values import Scalar
from palio.filters.expressions.comparison import among, among_constants
from palio.filters.expressions.compiler import FAILURES, Compiled, Compiler, Form, Part, strict_of_two
from palio.filters.expressions.tree import Call
from palio.filters.expressions.values import Value, kinds_of, widen, widest


def _and(compiler: Compiler, call: Call, parts: list[Part]) -> Compiled:
    runs = [compiler.truth(part) for part in parts]

    def run(event: Mapping[str, Scalar], arrays: Mapping[str, tuple[Scalar, ...]]) -> Value:
        answer: bool | None = True
        for each in runs:
            value = each(event, arrays)
            if value is False:
                return False
            if value is not True:
                answer = None
        return answer

    return run


def _or(compiler: Compiler, call: Call, parts: list[Part]) -> Compiled:
    runs = [compiler.truth(part) for part in parts]

    def run(event: Mapping[str, Scalar], arrays: Mapping[str, tuple[Scalar, ...]]) -> Value:
        answer: bool | None = False
        for each in runs:
            value = each(event, arrays)
            if value is True:
                return True
            if value is not False:
                answer = None
        return answer

    return run


def _not(compiler: Compiler, call: Call, parts: list[Part]) -> Compiled:
    inner = compiler.truth(parts[0])

    def run(event: Mapping[str, Scalar], arrays: Mapping[str, tuple[Scalar, ...]]) -> Value:
        value = inner(event, arrays)
        return not value if value is True or value is False else None

    return run


def _is(wanted: bool) -> Form:
    def form(compiler: Compiler, call: Call, parts: list[Part]) -> Compiled:
        inner = compiler.truth(parts[0])
        return lambda event, arrays: inner(event, arrays) is wanted

    return form


def _is_null(compiler: Compiler, call: Call, parts: list[Part]) -> Compiled:
    inner = parts[0].run
    return lambda event, arrays: inner(event, arrays) is None


def _is_not_null(compiler: Compiler, call: Call, parts: list[Part]) -> Compiled:
    inner = parts[0].run
    return lambda event, arrays: inner(event, arrays) is not None


def _comparison(compiler: Compiler, call: Call, parts: list[Part]) -> Compiled:
    left, right = parts
    return strict_of_two(compiler.compare(call.function, left, right), left.run, right.run)


def _null_safe_equal(compiler: Compiler, call: Call, parts: list[Part]) -> Compiled:
    left, right = parts[0].run, parts[1].run
    compare = compiler.compare("=", *parts)

    def run(event: Mapping[str, Scalar], arrays: Mapping[str, tuple[Scalar, ...]]) -> Value:
        first, second = left(event, arrays), right(event, arrays)
        if first is None or second is None:
            return first is second
        try:
            return compare(first, second) is True  # unlike values are not the same: this is never NULL
        except FAILURES:
            return False

    return run


def _between(compiler: Compiler, call: Call, parts: list[Part]) -> Compiled:
    value, low, high = parts
    inner, least, most = value.run, low.run, high.run
    above, below = compiler.compare(">=", value, low), compiler.compare("<=", value, high)

    def run(event: Mapping[str, Scalar], arrays: Mapping[str, tuple[Scalar, ...]]) -> Value:
        first = inner(event, arrays)
        if first is None:
            return None
        start, end = least(event, arrays), most(event, arrays)
        # FALSE at one end settles it; NULL at one leaves the other to be FALSE.
        answers = (None if start is None else above(first, start), None if end is None else below(first, end))
        return False if False in answers else None if None in answers else True

    return run


def _in(compiler: Compiler, call: Call, parts: list[Part]) -> Compiled:
    value, *items = parts
    inner, zone = value.run, compiler.zone
    if value.text is None and all(item.is_constant for item in items):
        look_up = among_constants([item.value for item in items], zone)
        return lambda event, arrays: look_up(inner(event, arrays))
    runs = [part.run for part in parts]
    are_texts = [part.text is not None for part in parts]
    literals: frozenset[Any] = frozenset({str}) if True in are_texts else frozenset()
    known: frozenset[Any] = frozenset(part.kind for part in parts if part.kind not in (None, NoneType, str))

    def run(event: Mapping[str, Scalar], arrays: Mapping[str, tuple[Scalar, ...]]) -> Value:
        first, *values = (each(event, arrays) for each in runs)
        if first is None:
            return None
        # A string literal is read as what it stands among; a string that comes with the event is not.
        beside = (each for each, is_text in zip((first, *values), are_texts, strict=True) if not is_text)
        kinds = known | kinds_of(beside)
        kind = None if str in kinds else widest(kinds | literals)
        if kind is float or (kind is not None and literals):
            pairs = zip((first, *values), are_texts, strict=True)
            first, *values = (widen(each, kind, zone) if is_text or kind is float else each for each, is_text in pairs)
        return among(first, values, zone)

    return run


FORMS: Final[dict[str, Form]] = {
    "and": _and,
    "or": _or,
    "not": _not,
    "istrue": _is(True),
    "isfalse": _is(False),
    "isnull": _is_null,
    "isnotnull": _is_not_null,
    **dict.fromkeys(("=", "<>", "<", "<=", ">", ">="), _comparison),
    "<=>": _null_safe_equal,
    "between": _between,
    "in": _in,
}
