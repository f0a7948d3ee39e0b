"""Operators and functions of SQL: binding powers, names, arities, and the calls they become.

The powers are those of Spark's grammar. Spark has several names for many functions; the tree keeps one of them, so that
equal conditions look equal. Most names call a function of `palio.filters.expressions`; the others are rewritten into
calls of those: `int(x)` is a cast, `zeroifnull(x)` is coalesce(x, 0).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from palio.errors import PalioError
from palio.filters.expressions.ast import Attribute, Call, Expression, Literal, Span
from palio.filters.expressions.functions import FUNCTIONS
from palio.filters.registry import condition_in
from palio.languages.grammar import InvalidLiteral, Operator
from palio.languages.sql import array_functions as arrays
from palio.languages.sql.json_schema import from_json
from palio.languages.sql.unsupported import REFUSED_FUNCTIONS, Refusal, unknown

# --- operators ---------------------------------------------------------------------------------------------

AND: Final = 2
NOT: Final = 3
PREDICATE: Final = 4
VALUE: Final = 5
"""The power from which on an operator can be part of a value; what binds less tightly makes a condition."""
UNARY: Final = 12

INFIX: Final[dict[str, Operator]] = {
    "or": Operator(1, "or", is_chained=True),
    "and": Operator(AND, "and", is_chained=True),
    "=": Operator(VALUE, "="),
    "==": Operator(VALUE, "="),
    "<=>": Operator(VALUE, "<=>"),
    "<>": Operator(VALUE, "<>"),
    "!=": Operator(VALUE, "<>"),
    "<": Operator(VALUE, "<"),
    "<=": Operator(VALUE, "<="),
    "!>": Operator(VALUE, "<="),
    ">": Operator(VALUE, ">"),
    ">=": Operator(VALUE, ">="),
    "!<": Operator(VALUE, ">="),
    "|": Operator(6, "|"),
    "^": Operator(7, "^"),
    "&": Operator(8, "&"),
    "<<": Operator(9, "shiftleft"),
    ">>": Operator(9, "shiftright"),
    "+": Operator(10, "+"),
    "-": Operator(10, "-"),
    "||": Operator(10, "concat", is_chained=True),
    "*": Operator(11, "*"),
    "/": Operator(11, "/"),
    "%": Operator(11, "%"),
    "div": Operator(11, "div"),
}
PREFIX: Final[dict[str, Operator]] = {
    "not": Operator(NOT, "not", is_prefix=True),
    "!": Operator(NOT, "not", is_prefix=True),
    "-": Operator(UNARY, "neg", is_prefix=True),
    "+": Operator(UNARY, "positive", is_prefix=True),
    "~": Operator(UNARY, "~", is_prefix=True),
}

PREDICATES: Final = frozenset({"is", "in", "between", "like", "ilike", "rlike", "regexp", "not", "!"})
"""The keys that begin a predicate behind a value."""

CONTINUES_NAME: Final = frozenset({*INFIX, *PREDICATES, ")", ",", ".", "::", "[", "]"} - set(PREFIX))
"""Keys after which the word before is a name and begins no keyword expression; a sign may also begin a value."""

# --- functions ---------------------------------------------------------------------------------------------

ALIASES: Final[dict[str, str]] = {
    "bit_get": "getbit",
    "ceiling": "ceil",
    "char": "chr",
    "char_length": "length",
    "character_length": "length",
    "charindex": "locate",
    "date_diff": "datediff",
    "dateadd": "date_add",
    "day": "dayofmonth",
    "equal_null": "<=>",
    "ifnull": "coalesce",
    "lcase": "lower",
    "len": "length",
    "mod": "%",
    "negative": "neg",
    "nvl": "coalesce",
    "position": "locate",
    "pow": "power",
    "printf": "format_string",
    "regexp": "rlike",
    "regexp_like": "rlike",
    "sha": "sha1",
    "sign": "signum",
    "substr": "substring",
    "to_unix_timestamp": "unix_timestamp",
    "to_varchar": "to_char",
    "try_add": "+",
    "try_divide": "/",
    "try_mod": "%",
    "try_multiply": "*",
    "try_subtract": "-",
    "try_make_timestamp": "make_timestamp",
    "try_parse_url": "parse_url",
    "try_to_binary": "to_binary",
    "try_to_date": "to_date",
    "try_to_number": "to_number",
    "try_to_timestamp": "to_timestamp",
    "ucase": "upper",
}
"""A name in Spark, and the function it calls; try_add is +, because what cannot be computed is NULL."""

ARGUMENTS: Final[dict[str, tuple[int, int]]] = {"ifnull": (2, 2), "nvl": (2, 2)}
"""How many arguments a name takes, where that is less than the function it calls does."""

NOT_CALLABLE: Final = frozenset(
    {"and", "between", "case", "cast", "in", "isfalse", "istrue", "neg", "not", "or"}
    | {"timestampadd", "timestampdiff", "exists", "forall", "lambda", "variable"}
    | {"json_field", "split_contains", "split_element", "split_size"}
)
"""Names among the functions that are written otherwise: between or around operands, with a unit, with a lambda."""

CASTS: Final[dict[str, str]] = {
    **{name: name for name in ("bigint", "binary", "boolean", "date", "double", "float", "int", "smallint")},
    **{name: name for name in ("string", "timestamp", "tinyint")},
    "decimal": "decimal(10,0)",
}
"""Types that can be called, and what they cast to: `int(x)` is CAST(x AS INT)."""

_PARTS: Final = {
    "year": ("year", "y", "years", "yr", "yrs"),
    "yearofweek": ("yearofweek",),
    "quarter": ("quarter", "qtr"),
    "month": ("month", "mon", "mons", "months"),
    "weekofyear": ("week", "w", "weeks"),
    "dayofmonth": ("day", "d", "days"),
    "dayofweek": ("dayofweek", "dow"),
    "dayofweek_iso": ("dayofweek_iso", "dow_iso"),
    "dayofyear": ("doy",),
    "hour": ("hour", "h", "hours", "hr", "hrs"),
    "minute": ("minute", "m", "min", "mins", "minutes"),
    "second_with_fraction": ("second", "s", "sec", "seconds", "secs"),
}
PARTS: Final = tuple(names[0] for names in _PARTS.values())
"""The parts of a date or time that EXTRACT knows, by the first of their names."""

FIELDS: Final = {name: function for function, names in _PARTS.items() for name in names}
"""Every name of a part, and the function that gives it."""

Arguments: TypeAlias = tuple[Expression, ...]
Build: TypeAlias = Callable[[Arguments, Span], Expression]


class Callee(NamedTuple):
    """A function by the name it is called: how many arguments it takes, and what the call becomes."""

    minimum: int
    maximum: int | None
    build: Build


@lru_cache(maxsize=1024)
def find_function(name: str) -> Callee | Refusal:
    """The function a name in lower case calls, or why there is none."""
    if name in _REWRITTEN:
        return _REWRITTEN[name]
    canonical = ALIASES.get(name, name)
    function = FUNCTIONS.get(canonical)
    if function is not None and _is_called(name):
        minimum, maximum = ARGUMENTS.get(name, (function.minimum, function.maximum))
        return Callee(minimum, maximum, _plain(canonical))
    if name in REFUSED_FUNCTIONS:
        reason, hint = REFUSED_FUNCTIONS[name]
        return Refusal(reason.format(name=f"{name}()"), hint)
    return unknown(name, [*filter(_is_called, FUNCTIONS), *ALIASES, *_REWRITTEN])


def _is_called(name: str) -> bool:
    return name[:1].isalpha() and name not in NOT_CALLABLE


def like_call(function: str, value: Expression, pattern: Expression, escape: Expression | None, span: Span) -> Call:
    """LIKE or ILIKE; the escape character is left out where it is the backslash it is anyway."""
    if escape is None or (isinstance(escape, Literal) and escape.value == "\\"):
        return Call(function, (value, pattern), span)
    return Call(function, (value, pattern, escape), span)


def extract_call(field: str, value: Expression, span: Span) -> Call:
    """A part of a date or moment, by any of the names Spark has for it."""
    function = FIELDS.get(field.lower())
    if function is None:
        raise InvalidLiteral(f"no date or time has a part {field}", f"the parts are {', '.join(PARTS)}")
    return Call(function, (value,), span)


def _plain(function: str) -> Build:
    return lambda arguments, span: Call(function, arguments, span)


def _like(function: str) -> Build:
    def build(arguments: Arguments, span: Span) -> Expression:
        value, pattern, *escape = arguments
        return like_call(function, value, pattern, escape[0] if escape else None, span)

    return build


def _date_part(arguments: Arguments, span: Span) -> Expression:
    field, value = arguments
    if not isinstance(field, Literal) or not isinstance(field.value, str):
        raise InvalidLiteral("which part of a date is wanted must be a literal", "write date_part('year', x)")
    return extract_call(field.value, value, span)


def _decode(arguments: Arguments, span: Span) -> Expression:
    """decode(x, a, 1, b, 2, 3): where x is a, 1; where it is b, 2; else 3. NULL is like NULL. With two, a charset."""
    if len(arguments) == 2:
        return Call("decode", arguments, span)
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
                raise InvalidLiteral(str(error)) from None
            return Call("condition_in", (*arguments, *(Attribute(name, span) for name in sorted(names))), span)
    raise InvalidLiteral("condition_in takes the name of a language and a condition in it, both as string literals")


_REWRITTEN: Final[dict[str, Callee]] = {
    "like": Callee(2, 3, _like("like")),
    "ilike": Callee(2, 3, _like("ilike")),
    **dict.fromkeys(("extract", "date_part", "datepart"), Callee(2, 2, _date_part)),
    "condition_in": Callee(2, 2, _condition_in),
    "decode": Callee(2, None, _decode),
    "get": Callee(2, 2, arrays.get),
    **dict.fromkeys(("element_at", "try_element_at"), Callee(2, 2, arrays.element_at)),
    **dict.fromkeys(("size", "array_size", "cardinality"), Callee(1, 1, arrays.size)),
    "array_contains": Callee(2, 2, arrays.array_contains),
    "map_contains_key": Callee(2, 2, arrays.map_contains_key),
    "split": Callee(2, 3, arrays.split),
    "from_json": Callee(2, 2, from_json),
    **dict.fromkeys(("variant_get", "try_variant_get"), Callee(3, 3, arrays.variant_get)),
    "zeroifnull": Callee(1, 1, _with_zero("coalesce")),
    "nullifzero": Callee(1, 1, _with_zero("nullif")),
    **{name: Callee(1, 1, _cast_to(type_name)) for name, type_name in CASTS.items()},
}
