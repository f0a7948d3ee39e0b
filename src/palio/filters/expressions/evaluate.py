"""The value of an expression for an event: expressions compiled to closures, once, for many events.

A condition means what Spark 4 means by it in ANSI mode, except that whatever Spark would raise at run time
is NULL for that event: a bad cast, an overflow, a division by zero. Implementations say so by returning
None, or by raising an ArithmeticError or a ValueError, which ends at the call it came from, so that
`coalesce(x / 0, 1)` is 1. Evaluation never raises.

Constants are computed when an expression is compiled. A string that is one counts as a literal: it is
converted to the kind of what it is compared with.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from types import NoneType
from typing import Any, Final, NamedTuple, TypeAlias

from palio.events.values import Scalar
from palio.filters.expressions import arithmetic, casting, choices, own
from palio.filters.expressions.comparison import (
    MIRRORED,
    among,
    among_constants,
    comparison,
    comparison_with_text,
)
from palio.filters.expressions.conversion import target_of
from palio.filters.expressions.functions import ANY, FUNCTIONS, Function, Parameter
from palio.filters.expressions.inference import Kinds, bottom_up, branches
from palio.filters.expressions.nullness import is_strict, required
from palio.filters.expressions.prepared import PREPARED
from palio.filters.expressions.refusals import DEPTH_LIMIT, refusal
from palio.filters.expressions.tree import Array, Attribute, Call, Expression, Literal
from palio.filters.expressions.values import Kind, Value, kinds_of, widen, widest, zone_named
from palio.filters.like import LikePattern
from palio.filters.regex import Regex
from palio.filters.registry import condition_in

__all__ = ["DEPTH_LIMIT", "Compiled", "compile_expression", "is_strict", "refusal", "required"]

# The scalar of each attribute, and all values of each attribute that has several.
Compiled: TypeAlias = Callable[[Mapping[str, Scalar], Mapping[str, tuple[Scalar, ...]]], Value]

# What an implementation raises in place of saying NULL.
_FAILURES: Final = (ArithmeticError, ValueError)


def compile_expression(expression: Expression, timezone: str = "UTC") -> Compiled:
    """The function from an event to the value of an expression, with times on the clocks of `timezone`."""
    zone_named(timezone)
    compiler = _Compiler(timezone)
    for call in bottom_up(expression):
        compiler.part(call)
    return compiler.part(expression).run


class _Part(NamedTuple):
    """A compiled expression, what is known of its kind, and, if it is a constant, its value."""

    run: Compiled
    kind: Kind | None
    is_constant: bool = False
    value: Value = None

    @property
    def text(self) -> str | None:
        """The string it is, if it is a string literal."""
        return self.value if self.is_constant and isinstance(self.value, str) else None


def _constant(value: Value, kind: Kind | None = None) -> _Part:
    return _Part(lambda event, arrays: value, kind or type(value), True, value)


_EMPTY: Final[dict[str, Any]] = {}


class _Compiler:
    """Compiles expressions for one time zone."""

    def __init__(self, zone: str) -> None:
        self.zone = zone
        self.kinds = Kinds()
        self._parts: dict[int, _Part] = {}

    def part(self, expression: Expression) -> _Part:
        match expression:
            case Literal(value):
                return _constant(value)
            case Attribute(name):
                return _Part(lambda event, arrays: event.get(name), None)
            case Array(name):
                return _Part(lambda event, arrays: arrays.get(name), tuple)
        if id(expression) not in self._parts:
            self._parts[id(expression)] = self._call(expression)
        return self._parts[id(expression)]

    def _call(self, call: Call) -> _Part:
        parts = [self.part(argument) for argument in call.arguments]
        form = _FORMS.get(call.function)
        run = form(self, call, parts) if form else self._plain(FUNCTIONS[call.function], parts)
        kind = self.kinds.of(call)
        if all(part.is_constant for part in parts) and call.function not in _OF_THE_EVENT:
            return _constant(run(_EMPTY, _EMPTY), kind)
        return _Part(run, kind)

    def _plain(self, function: Function, parts: Sequence[_Part]) -> Compiled:
        """A function of its arguments' values."""
        compute = function.implementation
        if compute is None:
            raise ValueError(f"{function.name} has no implementation")
        if function.zoned:
            compute = partial(compute, self.zone)
        runs = [self._argument(part, function.parameter(at)) for at, part in enumerate(parts)]
        if not function.strict:
            return _lenient(compute, runs)
        if len(runs) == 1:
            return _strict_of_one(compute, runs[0])
        return _strict_of_two(compute, *runs) if len(runs) == 2 else _strict(compute, runs)

    def _argument(self, part: _Part, parameter: Parameter) -> Compiled:
        """An argument as what a parameter asks for; NULL where it cannot be that."""
        if parameter is ANY or (parameter.kind is not None and part.kind is parameter.kind):
            return part.run
        kind, accepts, convert, zone = parameter.kind, parameter.accepts, parameter.convert, self.zone
        inner = part.run

        def run(event: Mapping[str, Scalar], arrays: Mapping[str, tuple[Scalar, ...]]) -> Value:
            value = inner(event, arrays)
            if value is None or type(value) is kind:
                return value
            return convert(value, zone) if type(value) in accepts else None

        if not part.is_constant:
            return run
        try:
            return _constant(run(_EMPTY, _EMPTY)).run
        except _FAILURES:
            return _constant(None).run

    def truth(self, part: _Part) -> Compiled:
        """A condition: TRUE, FALSE or something else, which counts as NULL."""
        return part.run if part.text is None else _constant(casting.to_boolean(part.text)).run

    def compare(self, name: str, left: _Part, right: _Part) -> Callable[[Any, Any], bool | None]:
        """The comparison of two values that are not NULL; a string literal is converted to meet the other."""
        if right.text is not None:
            with_right = comparison_with_text(name, right.text, self.zone)
            return lambda value, text: with_right(value)
        if left.text is not None:
            with_left = comparison_with_text(MIRRORED[name], left.text, self.zone)
            return lambda text, value: with_left(value)
        return comparison(name, self.zone)


def _strict_of_one(compute: Callable[..., Value], first: Compiled) -> Compiled:
    def run(event: Mapping[str, Scalar], arrays: Mapping[str, tuple[Scalar, ...]]) -> Value:
        try:
            value = first(event, arrays)
            return None if value is None else compute(value)
        except _FAILURES:
            return None

    return run


def _strict_of_two(compute: Callable[..., Value], first: Compiled, second: Compiled) -> Compiled:
    def run(event: Mapping[str, Scalar], arrays: Mapping[str, tuple[Scalar, ...]]) -> Value:
        try:
            left = first(event, arrays)
            if left is None:
                return None
            right = second(event, arrays)
            return None if right is None else compute(left, right)
        except _FAILURES:
            return None

    return run


def _strict(compute: Callable[..., Value], runs: Sequence[Compiled]) -> Compiled:
    def run(event: Mapping[str, Scalar], arrays: Mapping[str, tuple[Scalar, ...]]) -> Value:
        try:
            values = []
            for each in runs:
                value = each(event, arrays)
                if value is None:
                    return None
                values.append(value)
            return compute(*values)
        except _FAILURES:
            return None

    return run


def _lenient(compute: Callable[..., Value], runs: Sequence[Compiled]) -> Compiled:
    def run(event: Mapping[str, Scalar], arrays: Mapping[str, tuple[Scalar, ...]]) -> Value:
        values: list[Value] = []
        for each in runs:
            try:
                values.append(each(event, arrays))
            except _FAILURES:
                values.append(None)
        try:
            return compute(*values)
        except _FAILURES:
            return None

    return run


_Form: TypeAlias = Callable[[_Compiler, Call, list[_Part]], Compiled]


def _and(compiler: _Compiler, call: Call, parts: list[_Part]) -> Compiled:
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


def _or(compiler: _Compiler, call: Call, parts: list[_Part]) -> Compiled:
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


def _not(compiler: _Compiler, call: Call, parts: list[_Part]) -> Compiled:
    inner = compiler.truth(parts[0])

    def run(event: Mapping[str, Scalar], arrays: Mapping[str, tuple[Scalar, ...]]) -> Value:
        value = inner(event, arrays)
        return not value if value is True or value is False else None

    return run


def _is(wanted: bool) -> _Form:
    def form(compiler: _Compiler, call: Call, parts: list[_Part]) -> Compiled:
        inner = compiler.truth(parts[0])
        return lambda event, arrays: inner(event, arrays) is wanted

    return form


def _is_null(compiler: _Compiler, call: Call, parts: list[_Part]) -> Compiled:
    inner = parts[0].run
    return lambda event, arrays: inner(event, arrays) is None


def _is_not_null(compiler: _Compiler, call: Call, parts: list[_Part]) -> Compiled:
    inner = parts[0].run
    return lambda event, arrays: inner(event, arrays) is not None


def _comparison(compiler: _Compiler, call: Call, parts: list[_Part]) -> Compiled:
    left, right = parts
    return _strict_of_two(compiler.compare(call.function, left, right), left.run, right.run)


def _null_safe_equal(compiler: _Compiler, call: Call, parts: list[_Part]) -> Compiled:
    left, right = parts[0].run, parts[1].run
    compare = compiler.compare("=", *parts)

    def run(event: Mapping[str, Scalar], arrays: Mapping[str, tuple[Scalar, ...]]) -> Value:
        first, second = left(event, arrays), right(event, arrays)
        if first is None or second is None:
            return first is second
        try:
            return compare(first, second) is True  # unlike values are not the same: this is never NULL
        except _FAILURES:
            return False

    return run


def _between(compiler: _Compiler, call: Call, parts: list[_Part]) -> Compiled:
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


def _in(compiler: _Compiler, call: Call, parts: list[_Part]) -> Compiled:
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


def _divide(compiler: _Compiler, call: Call, parts: list[_Part]) -> Compiled:
    left, right = map(compiler.kinds.declared, call.arguments)
    return _strict_of_two(partial(arithmetic.divide, declared=(left, right)), parts[0].run, parts[1].run)


def _cast(compiler: _Compiler, call: Call, parts: list[_Part]) -> Compiled:
    target = target_of(str(parts[1].value))
    sources, convert, zone = target.sources, target.convert, compiler.zone
    return _strict_of_one(lambda value: convert(value, zone) if type(value) in sources else None, parts[0].run)


class _Chooser:
    """Brings a value that was chosen among several to the kind that all of them share."""

    def __init__(self, compiler: _Compiler, call: Call, parts: Sequence[_Part]) -> None:
        self._zone = compiler.zone
        among: list[Any] = [compiler.kinds.of(branch) for branch in branches(call)]
        self._known = frozenset(among) - {None, NoneType}
        self._constants = [part.value for part in parts if part.is_constant]
        self._varying = [(at, part.run) for at, part in enumerate(parts) if part.kind is None]
        self._is_settled = not self._varying and len(self._known) == 1

    def __call__(
        self,
        chosen: Value,
        place: int,
        first: int,
        event: Mapping[str, Scalar],
        arrays: Mapping[str, tuple[Scalar, ...]],
    ) -> Value:
        """The value chosen at a place; those before `first` are known to be NULL."""
        if chosen is None or self._is_settled:
            return chosen
        beside = list(self._constants)
        # None is computed twice, or nesting would double the work at each level.
        for at, run in self._varying:
            if at >= first and at != place:
                beside.append(run(event, arrays))
        return choices.unify(chosen, beside, self._known, self._zone)


def _coalesce(compiler: _Compiler, call: Call, parts: list[_Part]) -> Compiled:
    runs, choose = [part.run for part in parts], _Chooser(compiler, call, parts)

    def run(event: Mapping[str, Scalar], arrays: Mapping[str, tuple[Scalar, ...]]) -> Value:
        for at, each in enumerate(runs):
            value = each(event, arrays)
            if value is not None:
                return choose(value, at, at, event, arrays)
        return None

    return run


def _case(compiler: _Compiler, call: Call, parts: list[_Part]) -> Compiled:
    pairs = zip(parts[0::2], parts[1::2], strict=False)
    cases = [(at, compiler.truth(when), then.run) for at, (when, then) in enumerate(pairs)]
    otherwise = parts[-1].run if len(parts) % 2 else _constant(None).run
    choose = _Chooser(compiler, call, [*parts[1::2], *(parts[-1:] if len(parts) % 2 else [])])

    def run(event: Mapping[str, Scalar], arrays: Mapping[str, tuple[Scalar, ...]]) -> Value:
        for at, when, then in cases:
            if when(event, arrays) is True:
                return choose(then(event, arrays), at, 0, event, arrays)
        return choose(otherwise(event, arrays), len(cases), 0, event, arrays)

    return run


def _nvl2(compiler: _Compiler, call: Call, parts: list[_Part]) -> Compiled:
    tested, present, absent = (part.run for part in parts)
    choose = _Chooser(compiler, call, parts[1:])

    def run(event: Mapping[str, Scalar], arrays: Mapping[str, tuple[Scalar, ...]]) -> Value:
        if tested(event, arrays) is None:
            return choose(absent(event, arrays), 1, 0, event, arrays)
        return choose(present(event, arrays), 0, 0, event, arrays)

    return run


def _nullif(compiler: _Compiler, call: Call, parts: list[_Part]) -> Compiled:
    left, right = parts[0].run, parts[1].run
    compare = compiler.compare("=", *parts)

    def run(event: Mapping[str, Scalar], arrays: Mapping[str, tuple[Scalar, ...]]) -> Value:
        value, other = left(event, arrays), right(event, arrays)
        if value is None or other is None:
            return value
        return None if compare(value, other) else value

    return run


def _extreme(beyond: str) -> _Form:
    def form(compiler: _Compiler, call: Call, parts: list[_Part]) -> Compiled:
        runs, zone = [part.run for part in parts], compiler.zone
        known: frozenset[Any] = frozenset(part.kind for part in parts) - {None, NoneType}

        def run(event: Mapping[str, Scalar], arrays: Mapping[str, tuple[Scalar, ...]]) -> Value:
            values: list[Value] = []
            for each in runs:
                values.append(each(event, arrays))  # noqa: PERF401
            return choices.extreme(values, known, beyond, zone)

        return run

    return form


_parsed = lru_cache(maxsize=4096)(LikePattern.parse)


def _like(compiler: _Compiler, call: Call, parts: list[_Part]) -> Compiled:
    ignore_case = call.function == "ilike"
    text, pattern, *escapes = parts
    function = FUNCTIONS[call.function]
    inner = compiler._argument(text, function.parameter(0))
    escape = escapes[0].value if escapes else "\\"
    if not isinstance(escape, str):
        return _constant(None).run
    if pattern.text is not None:
        try:
            return _strict_of_one(_parsed(pattern.text, escape, ignore_case).matches, inner)
        except ValueError:
            return _constant(None).run
    return _strict_of_two(
        lambda value, written: _parsed(written, escape, ignore_case).matches(value),
        inner,
        compiler._argument(pattern, function.parameter(1)),
    )


def _rlike(compiler: _Compiler, call: Call, parts: list[_Part]) -> Compiled:
    text, pattern = parts
    if pattern.text is None:
        return _constant(None).run
    try:
        search = Regex.compile(pattern.text).search
    except ValueError:
        return _constant(None).run
    return _strict_of_one(search, compiler._argument(text, FUNCTIONS["rlike"].parameter(0)))


def _prepared(compiler: _Compiler, call: Call, parts: list[_Part]) -> Compiled:
    first, *literals = parts
    values = [part.value for part in literals]
    if None in values:
        return _constant(None).run
    try:
        compute = partial(PREPARED[call.function](*values), compiler.zone)
    except ValueError:
        return _constant(None).run
    return _strict_of_one(compute, compiler._argument(first, FUNCTIONS[call.function].parameter(0)))


def _typeof(compiler: _Compiler, call: Call, parts: list[_Part]) -> Compiled:
    name_of = FUNCTIONS["typeof"].implementation
    assert name_of is not None
    inner = _lenient(name_of, [parts[0].run])
    if not isinstance(call.arguments[0], Attribute):
        return inner
    name = call.arguments[0].name
    return lambda event, arrays: inner(event, arrays) if name in event else "missing"


def _any_value(compiler: _Compiler, call: Call, parts: list[_Part]) -> Compiled:
    text = parts[0].text
    if text is None:
        return _constant(None).run
    try:
        if call.function == "any_value_rlike":
            return own.any_value(Regex.compile(text).search, compiler.zone)
        return own.any_value(_parsed(text, "\\", call.function == "any_value_ilike").matches, compiler.zone)
    except ValueError:
        return _constant(None).run


def _condition_in(compiler: _Compiler, call: Call, parts: list[_Part]) -> Compiled:
    condition = condition_in(*map(str, (parts[0].value, parts[1].value)))
    return lambda event, arrays: condition(event)


def _in_timezone(compiler: _Compiler, call: Call, parts: list[_Part]) -> Compiled:
    return compile_expression(call.arguments[1], str(parts[0].value))


def _array_contains(compiler: _Compiler, call: Call, parts: list[_Part]) -> Compiled:
    zone = compiler.zone
    return _strict_of_two(lambda array, value: among(value, array, zone), _whole(call.arguments[0]), parts[1].run)


def _element_at(compiler: _Compiler, call: Call, parts: list[_Part]) -> Compiled:
    index = compiler._argument(parts[1], FUNCTIONS["element_at"].parameter(1))
    return _strict_of_two(_element, _whole(call.arguments[0]), index)


def _element(array: tuple[Scalar, ...], place: int) -> Scalar:
    """An element by its place from 1, or from the end; NULL where there is none."""
    if not 1 <= abs(place) <= len(array):
        return None
    return array[place - 1 if place > 0 else place]


def _size(compiler: _Compiler, call: Call, parts: list[_Part]) -> Compiled:
    return _strict_of_one(len, _whole(call.arguments[0]))


def _whole(argument: Expression) -> Compiled:
    """All the values of an attribute."""
    name = argument.name if isinstance(argument, Array | Attribute) else ""
    return lambda event, arrays: arrays.get(name)


_FORMS: Final[dict[str, _Form]] = {
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
    "/": _divide,
    "cast": _cast,
    "case": _case,
    "if": _case,
    "coalesce": _coalesce,
    "nvl2": _nvl2,
    "nullif": _nullif,
    "greatest": _extreme(">"),
    "least": _extreme("<"),
    "like": _like,
    "ilike": _like,
    "rlike": _rlike,
    "array_contains": _array_contains,
    "element_at": _element_at,
    "size": _size,
    **dict.fromkeys(PREPARED, _prepared),
    "typeof": _typeof,
    **dict.fromkeys(own.OF_THE_EVENT, _any_value),
    "condition_in": _condition_in,
    "in_timezone": _in_timezone,
}
_OF_THE_EVENT: Final = own.OF_THE_EVENT | {"condition_in"}  # no constants, though all their arguments are
