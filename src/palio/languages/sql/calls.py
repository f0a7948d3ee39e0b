"""What does calling a function by its name make?

Most names call a function of `palio.filters.expressions`, some by another name than its own; what is no
function there is written out here as what it means: `int(x)` is a cast, `zeroifnull(x)` is coalesce(x, 0).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from palio.errors import PalioError
from palio.filters.expressions.functions import FUNCTIONS
from palio.filters.expressions.tree import Array, Attribute, Call, Expression, Literal, Span
from palio.filters.registry import condition_in
from palio.languages.sql.aliases import ALIASES, ARGUMENTS, CASTS, FIELDS, OPERATORS, PARTS
from palio.languages.sql.literals import BadLiteral
from palio.languages.sql.vocabulary import REFUSED_FUNCTIONS, Refusal, unknown

Arguments: TypeAlias = tuple[Expression, ...]
Build: TypeAlias = Callable[[Arguments, Span], Expression]


class Callee(NamedTuple):
    """A function by the name it is called: how many arguments it takes, and what the call becomes."""

    minimum: int
    maximum: int | None
    build: Build


@lru_cache(maxsize=1024)
def find(name: str) -> Callee | Refusal:
    """The function a name in lower case calls, or why there is none."""
    if name in _WRITTEN_OUT:
        return _WRITTEN_OUT[name]
    canonical = ALIASES.get(name, name)
    function = FUNCTIONS.get(canonical)
    if function is not None and _is_called(name):
        minimum, maximum = ARGUMENTS.get(name, (function.minimum, function.maximum))
        build = _on_array(canonical) if canonical in _ARRAY_FUNCTIONS else _plain(canonical)
        return Callee(minimum, maximum, build)
    if name in REFUSED_FUNCTIONS:
        reason, hint = REFUSED_FUNCTIONS[name]
        return Refusal(reason.format(name=f"{name}()"), hint)
    return unknown(name, [*filter(_is_called, FUNCTIONS), *ALIASES, *_WRITTEN_OUT])


def _is_called(name: str) -> bool:
    return name[:1].isalpha() and name not in OPERATORS


def like(function: str, value: Expression, pattern: Expression, escape: Expression | None, span: Span) -> Call:
    """LIKE or ILIKE; the escape character is left out where it is the backslash it is anyway."""
    if escape is None or (isinstance(escape, Literal) and escape.value == "\\"):
        return Call(function, (value, pattern), span)
    return Call(function, (value, pattern, escape), span)


def extract(field: str, value: Expression, span: Span) -> Call:
    """A part of a date or moment, by any of the names Spark has for it."""
    function = FIELDS.get(field.lower())
    if function is None:
        raise BadLiteral(f"no date or time has a part {field}", f"the parts are {', '.join(PARTS)}")
    return Call(function, (value,), span)


_ARRAY_FUNCTIONS: Final = frozenset({"array_contains", "element_at", "size"})


def _plain(function: str) -> Build:
    return lambda arguments, span: Call(function, arguments, span)


def _on_array(function: str) -> Build:
    def build(arguments: Arguments, span: Span) -> Expression:
        array, *rest = arguments
        if not isinstance(array, Attribute):
            raise BadLiteral(f"the first argument of {function} is the name of an attribute")
        return Call(function, (Array(array.name, array.span), *rest), span)

    return build


def _like(function: str) -> Build:
    def build(arguments: Arguments, span: Span) -> Expression:
        value, pattern, *escape = arguments
        return like(function, value, pattern, escape[0] if escape else None, span)

    return build


def _date_part(arguments: Arguments, span: Span) -> Expression:
    field, value = arguments
    if not isinstance(field, Literal) or not isinstance(field.value, str):
        raise BadLiteral("which part of a date is wanted must be a literal", "write date_part('year', x)")
    return extract(field.value, value, span)


def _decode(arguments: Arguments, span: Span) -> Expression:
    """decode(x, a, 1, b, 2, 3): where x is a, 1; where it is b, 2; else 3. NULL is like NULL."""
    value, *pairs = arguments
    last = len(pairs) - 1
    parts = (
        Call("<=>", (value, part), span) if place % 2 == 0 and place < last else part
        for place, part in enumerate(pairs)
    )
    return Call("case", tuple(parts), span)


def _cast_to(type_name: str) -> Build:
    return lambda arguments, span: Call("cast", (arguments[0], Literal(type_name, span)), span)


def _with_zero(function: str) -> Build:
    return lambda arguments, span: Call(function, (arguments[0], Literal(0, span)), span)


def _condition_in(arguments: Arguments, span: Span) -> Expression:
    """condition_in('jms', 'a > b'): the attributes that the condition reads become arguments of the call."""
    match arguments:
        case (Literal(str() as language), Literal(str() as text)):
            try:
                names = condition_in(language, text).attributes
            except PalioError as error:
                raise BadLiteral(str(error)) from None
            return Call("condition_in", (*arguments, *(Attribute(name, span) for name in sorted(names))), span)
    raise BadLiteral("condition_in takes the name of a language and a condition in it, both as string literals")


_WRITTEN_OUT: Final[dict[str, Callee]] = {
    "like": Callee(2, 3, _like("like")),
    "ilike": Callee(2, 3, _like("ilike")),
    **dict.fromkeys(("extract", "date_part", "datepart"), Callee(2, 2, _date_part)),
    "condition_in": Callee(2, 2, _condition_in),
    "decode": Callee(3, None, _decode),
    "zeroifnull": Callee(1, 1, _with_zero("coalesce")),
    "nullifzero": Callee(1, 1, _with_zero("nullif")),
    **{name: Callee(1, 1, _cast_to(type_name)) for name, type_name in CASTS.items()},
}
