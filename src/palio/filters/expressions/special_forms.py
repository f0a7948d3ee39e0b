"""Special forms of expressions, such as AND, CASE, IN and CAST, and the entry `compile_expression`.

`compile_expression` is the entry: an expression is compiled once and evaluated for many events. AND stops early, IN
builds a table, CASE evaluates one branch, CAST knows its target: each such form has its own compilation here, and
`pattern_functions` has those of LIKE and regular expressions. Plain functions are compiled by `compiler`.

A condition means what it means in Spark 4 in ANSI mode, except that an error Spark would raise at run time is NULL for
that event: a bad cast, an overflow, a division by zero. An implementation returns None for that, or raises an
ArithmeticError or a ValueError, which ends at the call it came from, so that `coalesce(x / 0, 1)` is 1. Evaluation
never raises.

Constants are folded when an expression is compiled. A string constant counts as a literal: it is converted to the kind
of the value it is compared with.

Spark brings all values that a CASE or coalesce may return to one type. Here the type of a value is known only when it
is present, so a chosen value is widened to meet the constants and the present values beside it: `coalesce(x, 0.5D)` is
a double for every x; `coalesce(x, y)` has the kind of x where y is NULL.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import partial
from types import NoneType
from typing import Any, Final

from palio.events.values import MAX_DECIMAL_DIGITS
from palio.filters.expressions import arithmetic
from palio.filters.expressions.array_forms import ARRAY_FORMS
from palio.filters.expressions.ast import Attribute, Call, Expression, bottom_up
from palio.filters.expressions.cast import rescale, target_of
from palio.filters.expressions.coercion import (
    Arrays,
    Scalars,
    Value,
    ValueType,
    kinds_of,
    scale_of,
    widen,
    widest,
    zone_named,
)
from palio.filters.expressions.compiler import (
    NULL_EXCEPTIONS,
    Compiled,
    CompiledOperand,
    Compiler,
    Form,
    constant,
    lenient,
    strict_of_one,
    strict_of_two,
)
from palio.filters.expressions.functions import FUNCTIONS
from palio.filters.expressions.pattern_functions import PATTERN_FORMS
from palio.filters.expressions.static_analysis import branches
from palio.filters.expressions.value_comparison import (
    COMPARATORS,
    PYTHON_ORDERED,
    among,
    among_constants,
    comparison,
)
from palio.filters.registry import condition_in


def compile_expression(expression: Expression, timezone: str = "UTC") -> Compiled:
    """The function from an event to the value of an expression, with times on the clocks of `timezone`."""
    zone_named(timezone)
    compiler = Compiler(timezone, _FORMS)
    for call in bottom_up(expression):
        compiler.part(call)
    return compiler.part(expression).run


# Logic, comparisons and NULL tests


def _connective(decisive: bool) -> Form:
    """AND and OR in Kleene logic: `decisive` is the operand that settles the outcome, FALSE for AND, TRUE for OR."""
    neutral = not decisive

    def form(compiler: Compiler, call: Call, parts: list[CompiledOperand]) -> Compiled:
        runs = [compiler.truth(part) for part in parts]

        def run(event: Scalars, arrays: Arrays) -> Value:
            outcome: bool | None = neutral
            for operand in runs:
                value = operand(event, arrays)
                if value is decisive:
                    return decisive
                # NULL is the outcome only if no decisive operand follows, so the rest is still evaluated.
                if value is not neutral:
                    outcome = None
            return outcome

        return run

    return form


def _not(compiler: Compiler, call: Call, parts: list[CompiledOperand]) -> Compiled:
    inner = compiler.truth(parts[0])

    def run(event: Scalars, arrays: Arrays) -> Value:
        value = inner(event, arrays)
        return not value if value is True or value is False else None

    return run


def _is(wanted: bool) -> Form:
    def form(compiler: Compiler, call: Call, parts: list[CompiledOperand]) -> Compiled:
        inner = compiler.truth(parts[0])
        return lambda event, arrays: inner(event, arrays) is wanted

    return form


def _is_null(compiler: Compiler, call: Call, parts: list[CompiledOperand]) -> Compiled:
    inner = parts[0].run
    return lambda event, arrays: inner(event, arrays) is None


def _is_not_null(compiler: Compiler, call: Call, parts: list[CompiledOperand]) -> Compiled:
    inner = parts[0].run
    return lambda event, arrays: inner(event, arrays) is not None


def _comparison(compiler: Compiler, call: Call, parts: list[CompiledOperand]) -> Compiled:
    left, right = parts
    run = strict_of_two(compiler.compare(call.function, left, right), left.run, right.run)
    match call.arguments:
        case (Attribute(first), Attribute(second)):
            return _comparison_of_attributes(call.function, first, second, run)
    return run


def _comparison_of_attributes(name: str, first: str, second: str, otherwise: Compiled) -> Compiled:
    """A comparison of two attributes, without further calls where they are of one kind, as nearly always."""
    compare = COMPARATORS[name]

    def run(event: Scalars, arrays: Arrays) -> Value:
        left, right = event.get(first), event.get(second)
        kind = type(left)
        if kind is type(right) and (kind in PYTHON_ORDERED or (kind is float and left == left and right == right)):
            return compare(left, right)
        return otherwise(event, arrays)

    return run


def _null_safe_equal(compiler: Compiler, call: Call, parts: list[CompiledOperand]) -> Compiled:
    left, right = parts[0].run, parts[1].run
    compare = compiler.compare("=", *parts)

    def run(event: Scalars, arrays: Arrays) -> Value:
        first, second = left(event, arrays), right(event, arrays)
        if first is None or second is None:
            return first is second
        try:
            return compare(first, second) is True  # unlike values are not the same: this is never NULL
        except NULL_EXCEPTIONS:
            return False

    return run


def _between(compiler: Compiler, call: Call, parts: list[CompiledOperand]) -> Compiled:
    value, low, high = parts
    inner, least, most = value.run, low.run, high.run
    above, below = compiler.compare(">=", value, low), compiler.compare("<=", value, high)

    def run(event: Scalars, arrays: Arrays) -> Value:
        first = inner(event, arrays)
        if first is None:
            return None
        start, end = least(event, arrays), most(event, arrays)
        # FALSE at one end settles it; NULL at one leaves the other to be FALSE.
        answers = (None if start is None else above(first, start), None if end is None else below(first, end))
        return False if False in answers else None if None in answers else True

    return run


def _in(compiler: Compiler, call: Call, parts: list[CompiledOperand]) -> Compiled:
    value, *items = parts
    inner, zone = value.run, compiler.zone
    if value.text is None and all(item.is_constant for item in items):
        look_up = among_constants([item.value for item in items], zone)
        return lambda event, arrays: look_up(inner(event, arrays))
    runs = [part.run for part in parts]
    are_texts = [part.text is not None for part in parts]
    literals: frozenset[Any] = frozenset({str}) if True in are_texts else frozenset()
    known: frozenset[Any] = frozenset(part.kind for part in parts if part.kind not in (None, NoneType, str))

    def run(event: Scalars, arrays: Arrays) -> Value:
        first, *values = (each(event, arrays) for each in runs)
        if first is None:
            return None
        # A string literal is coerced to the kind of the values beside it; a string of the event is not.
        beside = (each for each, is_text in zip((first, *values), are_texts, strict=True) if not is_text)
        kinds = known | kinds_of(beside)
        kind = None if str in kinds else widest(kinds | literals)
        if kind is float or (kind is not None and literals):
            pairs = zip((first, *values), are_texts, strict=True)
            first, *values = (widen(each, kind, zone) if is_text or kind is float else each for each, is_text in pairs)
        return among(first, values, zone)

    return run


_LOGIC_FORMS: Final[dict[str, Form]] = {
    "and": _connective(decisive=False),
    "or": _connective(decisive=True),
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


# Choices among values


class _Chooser:
    """Widens the chosen value of a CASE or coalesce to the kind that all candidates share."""

    def __init__(self, compiler: Compiler, call: Call, parts: Sequence[CompiledOperand]) -> None:
        self._zone = compiler.zone
        among: list[Any] = [compiler.kinds.of(branch) for branch in branches(call)]
        self._known = frozenset(among) - {None, NoneType}
        self._constants = [part.value for part in parts if part.is_constant]
        self._varying = [(at, part.run) for at, part in enumerate(parts) if part.kind is None]
        # Where all candidates are known to be of one kind, nothing is widened, and none but the chosen is evaluated.
        self._is_settled = not self._varying and len(self._known) == 1

    def __call__(
        self,
        chosen: Value,
        place: int,
        first: int,
        event: Scalars,
        arrays: Arrays,
    ) -> Value:
        """The value chosen at a place; those before `first` are known to be NULL."""
        if chosen is None or self._is_settled:
            return chosen
        beside = list(self._constants)
        # The chosen value itself is not evaluated again: nested choices would double the work at each level.
        for at, run in self._varying:
            if at >= first and at != place:
                beside.append(run(event, arrays))
        return _unify(chosen, beside, self._known, self._zone)


def _coalesce(compiler: Compiler, call: Call, parts: list[CompiledOperand]) -> Compiled:
    runs, choose = [part.run for part in parts], _Chooser(compiler, call, parts)

    def run(event: Scalars, arrays: Arrays) -> Value:
        for at, each in enumerate(runs):
            value = each(event, arrays)
            if value is not None:
                return choose(value, at, at, event, arrays)
        return None

    return run


def _case(compiler: Compiler, call: Call, parts: list[CompiledOperand]) -> Compiled:
    pairs = zip(parts[0::2], parts[1::2], strict=False)
    cases = [(at, compiler.truth(when), then.run) for at, (when, then) in enumerate(pairs)]
    otherwise = parts[-1].run if len(parts) % 2 else constant(None).run
    choose = _Chooser(compiler, call, [*parts[1::2], *(parts[-1:] if len(parts) % 2 else [])])

    def run(event: Scalars, arrays: Arrays) -> Value:
        for at, when, then in cases:
            if when(event, arrays) is True:
                return choose(then(event, arrays), at, 0, event, arrays)
        return choose(otherwise(event, arrays), len(cases), 0, event, arrays)

    return run


def _nvl2(compiler: Compiler, call: Call, parts: list[CompiledOperand]) -> Compiled:
    tested, present, absent = (part.run for part in parts)
    choose = _Chooser(compiler, call, parts[1:])

    def run(event: Scalars, arrays: Arrays) -> Value:
        if tested(event, arrays) is None:
            return choose(absent(event, arrays), 1, 0, event, arrays)
        return choose(present(event, arrays), 0, 0, event, arrays)

    return run


def _nullif(compiler: Compiler, call: Call, parts: list[CompiledOperand]) -> Compiled:
    left, right = parts[0].run, parts[1].run
    compare = compiler.compare("=", *parts)

    def run(event: Scalars, arrays: Arrays) -> Value:
        value, other = left(event, arrays), right(event, arrays)
        if value is None or other is None:
            return value
        return None if compare(value, other) else value

    return run


def _extreme(beyond: str) -> Form:
    def form(compiler: Compiler, call: Call, parts: list[CompiledOperand]) -> Compiled:
        runs, zone = [part.run for part in parts], compiler.zone
        known: frozenset[Any] = frozenset(part.kind for part in parts) - {None, NoneType}

        def run(event: Scalars, arrays: Arrays) -> Value:
            values: list[Value] = []
            # No comprehension: before Python 3.12 it takes a frame of its own, and calls nest up to 200 levels deep.
            for each in runs:
                values.append(each(event, arrays))  # noqa: PERF401
            return _most_extreme(values, known, beyond, zone)

        return run

    return form


def _unify(chosen: Value, beside: Iterable[Value], known: frozenset[ValueType], zone: str) -> Value:
    """A chosen value, widened to the kind it shares with the others; NULL if there is none."""
    if chosen is None:
        return None
    values = [chosen, *beside]
    kinds = kinds_of(values) | known
    if len(kinds) == 1 and Decimal not in kinds:
        return chosen
    kind = widest(kinds)
    if kind is None:
        return None
    wide = widen(chosen, kind, zone)
    if isinstance(wide, Decimal):
        scale = max(scale_of(value) for value in [wide, *values] if isinstance(value, Decimal))
        return rescale(wide, MAX_DECIMAL_DIGITS, scale)
    return wide


def _most_extreme(values: Sequence[Value], known: frozenset[ValueType], name: str, zone: str) -> Value:
    """The greatest or least value by the comparison of this name; NULLs are skipped."""
    present = [value for value in values if value is not None]
    kinds = kinds_of(present) | known
    if str in kinds and len(kinds) > 1:
        return None
    kind = widest(kinds)
    if kind is None:
        return None
    beyond = comparison(name, zone)
    scale = max((scale_of(value) for value in present if isinstance(value, Decimal)), default=0)
    best: Value = None
    # The kind and the scale that all share are found once, not for each: an event may have thousands of values.
    for value in present:
        wide = widen(value, kind, zone)
        if isinstance(wide, Decimal):
            wide = rescale(wide, MAX_DECIMAL_DIGITS, scale)
        if wide is not None and (best is None or beyond(wide, best)):
            best = wide
    return best


_CHOICE_FORMS: Final[dict[str, Form]] = {
    "case": _case,
    "if": _case,
    "coalesce": _coalesce,
    "nvl2": _nvl2,
    "nullif": _nullif,
    "greatest": _extreme(">"),
    "least": _extreme("<"),
}


# Division, casts, and conditions of other languages


def _divide(compiler: Compiler, call: Call, parts: list[CompiledOperand]) -> Compiled:
    left, right = map(compiler.kinds.declared, call.arguments)
    return strict_of_two(partial(arithmetic.divide, declared=(left, right)), parts[0].run, parts[1].run)


def _cast(compiler: Compiler, call: Call, parts: list[CompiledOperand]) -> Compiled:
    target = target_of(str(parts[1].value))
    sources, convert, zone = target.sources, target.convert, compiler.zone
    return strict_of_one(lambda value: convert(value, zone) if type(value) in sources else None, parts[0].run)


def _typeof(compiler: Compiler, call: Call, parts: list[CompiledOperand]) -> Compiled:
    """typeof() of an attribute, which tells a missing one from a null; to a plain function both are NULL."""
    name_of = FUNCTIONS["typeof"].implementation
    assert name_of is not None
    inner = lenient(name_of, [parts[0].run])
    if not isinstance(call.arguments[0], Attribute):
        return inner
    name = call.arguments[0].name
    return lambda event, arrays: inner(event, arrays) if name in event else "missing"


def _condition_in(compiler: Compiler, call: Call, parts: list[CompiledOperand]) -> Compiled:
    condition = condition_in(*map(str, (parts[0].value, parts[1].value)))
    return lambda event, arrays: condition(event)


_CAST_FORMS: Final[dict[str, Form]] = {
    "/": _divide,
    "cast": _cast,
    "typeof": _typeof,
    "condition_in": _condition_in,
}


def _in_timezone(compiler: Compiler, call: Call, parts: list[CompiledOperand]) -> Compiled:
    return compile_expression(call.arguments[1], str(parts[0].value))


_FORMS: Final[Mapping[str, Form]] = {
    **_LOGIC_FORMS,
    **_CHOICE_FORMS,
    **_CAST_FORMS,
    **PATTERN_FORMS,
    **ARRAY_FORMS,
    "in_timezone": _in_timezone,
}
