"""Validation of expressions: rejects an expression that cannot mean here what it means in Spark.

Three groups are rejected when a condition is read, rather than computed wrongly: expressions that Spark itself rejects
when the types are known (`TRUE > 1`, `year(5)`); those that depend on declared types, which events do not have (a
product of more than 38 digits, 32-bit arithmetic); and those that this evaluator does not support (a regular
expression that is not a constant, nesting beyond `DEPTH_LIMIT`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import NoneType
from typing import Final

from palio.errors import PalioError
from palio.events.values import MAX_DECIMAL_DIGITS
from palio.filters.expressions.arithmetic import kept_scale
from palio.filters.expressions.ast import Array, Attribute, Call, Expression, Literal, attributes_of
from palio.filters.expressions.cast import target_of
from palio.filters.expressions.coercion import KIND_NAMES, ValueType, widest, zone_named
from palio.filters.expressions.date_functions import UNITS
from palio.filters.expressions.extension_functions import WHOLE_EVENT_FUNCTIONS, network
from palio.filters.expressions.functions import ANY, FUNCTIONS, REAL, Function
from palio.filters.expressions.pattern_functions import PREPARED, TAKES_NULL
from palio.filters.expressions.printf_format import PrintfFormat
from palio.filters.expressions.static_analysis import (
    ARITHMETIC,
    IncompatibleKinds,
    Kinds,
    branches,
    needed_digits,
    operator_kind,
)
from palio.filters.like import LikePattern
from palio.filters.regex import Regex
from palio.filters.registry import condition_in

DEPTH_LIMIT: Final = 200

_COMPARISONS: Final = frozenset({"=", "<=>", "<>", "<", "<=", ">", ">=", "nullif"})
_WITH_CONSTANTS: Final = WHOLE_EVENT_FUNCTIONS | {"ip_in_network", "condition_in", "in_timezone"}
# Operations on a 32-bit float that give the same result on its 64-bit form.
_TAKES_SINGLES: Final = _COMPARISONS | {"in", "between", "isnull", "isnotnull", "neg", "positive", "abs"}

# Slices of constant arguments of Palio's own functions, where it is not the last one.
_OWN_CONSTANTS: Final = {"condition_in": (0, 2), "in_timezone": (0, 1)}
_MAY_CONTAIN_ZONES: Final = frozenset({"and", "or", "not", "istrue", "isfalse", "in_timezone"})


def refusal(expression: Expression, kinds: Kinds | None = None) -> tuple[Expression, str] | None:
    """The first unsupported part and the reason; None if the expression is supported.

    `kinds`, if given, knows the kinds of attributes: Spark refuses more where there are columns with types.
    """
    kinds = kinds or Kinds()
    calls: list[Call] = []
    for call, depth in _calls(expression):
        if depth > DEPTH_LIMIT:
            return call, f"this is nested more than {DEPTH_LIMIT} calls deep; break the condition up"
        calls.append(call)
    # Inner calls first: an error is reported where it arises, and `Kinds` needs the arguments of a call before it.
    for call in reversed(calls):
        if (reason := _unsupported(call, kinds)) is not None:
            return call, reason
        if (reason := _pattern(call) or _own(call)) is not None:
            return call.arguments[min(1, len(call.arguments) - 1)], reason
    return None


def _calls(expression: Expression) -> Iterator[tuple[Call, int]]:
    """Every call with its depth, outer ones before inner ones."""
    stack: list[tuple[Expression, int]] = [(expression, 1)]
    while stack:
        node, depth = stack.pop()
        if isinstance(node, Call):
            yield node, depth
            stack.extend((argument, depth + 1) for argument in node.arguments)


def _unsupported(call: Call, kinds: Kinds) -> str | None:
    function = FUNCTIONS.get(call.function)
    if call.function == "split":
        return (
            "split() makes an array, and a condition compares single values: write split(x, ',')[0], "
            "size(split(x, ',')) or array_contains(split(x, ','), 'a')"
        )
    if call.function == "from_json":
        return (
            "from_json() makes a struct, and a condition compares single values: write from_json(x, 'a INT').a, "
            "or get_json_object(x, '$.a')"
        )
    if function is None:
        return f"there is no function {call.function}()"
    return (
        _count(call, function)
        or _arguments(call, function, kinds)
        or _singles(call, function)
        or _operands(call, kinds)
        or _decimals(call, kinds)
        or _constants(call)
        or _literals(call)
        or _zones(call)
        or _cast(call, kinds)
    )


def _count(call: Call, function: Function) -> str | None:
    given, least, most = len(call.arguments), function.minimum, function.maximum
    if given >= least and (most is None or given <= most):
        return None
    wanted = f"{least} or more" if most is None else str(least) if least == most else f"{least} to {most}"
    return f"{_written(call)} takes {wanted} argument{'' if wanted == '1' else 's'}, not {given}"


def _arguments(call: Call, function: Function, kinds: Kinds) -> str | None:
    for position, argument in enumerate(call.arguments):
        parameter = function.parameter(position)
        kind = kinds.of(argument)
        if parameter.kind is tuple:
            if not isinstance(argument, Array | Attribute) and not _is_element(call, argument):
                return f"{_written(call)} takes the name of an attribute, all of whose values it looks at"
        elif kind is tuple:
            return f"{_written(call)} takes one value, not an array"
        elif parameter is not ANY and kind not in (None, NoneType) and kind not in parameter.accepts:
            return f"{_written(call)} takes a {parameter.name} here, not {_name(kind)}"
    return None


def _is_element(call: Call, argument: Expression) -> bool:
    """Whether an element of an element is asked for: columns have arrays of arrays, where events have one array."""
    elements = ("get", "element_at")
    return call.function in elements and isinstance(argument, Call) and argument.function in elements


def _singles(call: Call, function: Function) -> str | None:
    if not any(map(_is_single, call.arguments)) or call.function in _TAKES_SINGLES:
        return None
    if function.result is float and all(parameter is REAL for parameter in function.parameters):
        return None  # a function of doubles
    if call.function == "cast" and call.arguments[1] != Literal("string"):
        return None
    return "a 32-bit FLOAT can only be compared; to compute with it, write CAST(… AS DOUBLE)"


def _is_single(expression: Expression) -> bool:
    match expression:
        case Call("cast", (_, Literal("float"))):
            return True
        case Call("neg" | "positive" | "abs", (argument,)):
            return _is_single(argument)
    return False


def _operands(call: Call, kinds: Kinds) -> str | None:
    """Operands of known, incompatible kinds."""
    known = [kinds.of(argument) for argument in call.arguments]
    present = [kind for kind in known if kind not in (None, NoneType)]
    if call.function in ARITHMETIC and len(present) == 2 == len(known):
        try:
            operator_kind(call.function, *present)
        except IncompatibleKinds:
            return f"{call.function} does not take {_pair(present)}"
    # An unknown kind (None) is left to run time: only operands whose kinds are known can be refused.
    compares = call.function in _COMPARISONS or call.function == "in"
    if compares and present and widest(frozenset(present)) is None:
        return f"{_pair(present)} do not compare{_about_bars(call)}"
    if call.function == "between":
        value, *ends = known
        for end in ends:
            pair = frozenset({value, end}) - {None, NoneType}
            if pair and widest(pair) is None:
                return f"{_pair([value, end])} do not compare"
    chosen = [kind for branch in branches(call) if (kind := kinds.of(branch)) not in (None, NoneType)]
    if chosen and widest(frozenset(chosen)) is None:
        return f"{_written(call)} chooses among values of one type, not among {_pair(chosen)}"
    if call.function in ("greatest", "least") and str in chosen and len(set(chosen)) > 1:
        return f"{_written(call)} chooses among values of one type, not among {_pair(chosen)}"
    return None


def _about_bars(call: Call) -> str:
    """The likely cause where || stands between conditions: it binds more tightly than =."""
    inner = [each for each in call.arguments if isinstance(each, Call) and each.function in _COMPARISONS]
    texts = [each for one in inner for each in one.arguments if isinstance(each, Call) and each.function == "concat"]
    return "; 'or' is written OR, and || joins texts" if texts else ""


def _decimals(call: Call, kinds: Kinds) -> str | None:
    """Results whose scale in Spark depends on declared types."""
    if call.function not in ("+", "-", "*"):
        return None
    left, right = map(kinds.digits_of, call.arguments)
    if left is None or right is None or not (left.is_decimal or right.is_decimal):
        return None
    needed = needed_digits(call.function, left, right)
    if kept_scale(needed) == needed.scale:
        return None
    return (
        f"this needs {needed.precision} digits where a decimal has {MAX_DECIMAL_DIGITS}, and how Spark rounds it "
        "depends on the declared types, which events do not have; use doubles (0.1D, or CAST(… AS DOUBLE))"
    )


def _constants(call: Call) -> str | None:
    """Arguments that must be constant."""
    if (
        call.function in ("round", "bround", "ceil", "floor")
        and len(call.arguments) == 2
        and attributes_of(call.arguments[1])
    ):
        return f"the number of digits {call.function}() rounds to must be a constant"
    if call.function == "rlike" and attributes_of(call.arguments[1]):
        return "a regular expression must be a constant"
    if call.function in ("like", "ilike") and len(call.arguments) == 3 and attributes_of(call.arguments[2]):
        return "the escape character of a pattern must be a constant"
    if call.function == "levenshtein" and not all(map(_is_number, call.arguments[2:])):
        return "how far levenshtein() counts must be a literal"  # Spark takes NULL as 0
    match call:
        case Call("like" | "ilike", (_, _, Literal(str() as escape))) if len(escape) != 1:
            return f"the escape of a LIKE pattern is one character, not {escape!r}"
    if call.function == "array_contains" and call.arguments[1] == Literal(None):
        return "nothing is known to be in an array by comparing with NULL"
    return None


def _is_number(expression: Expression) -> bool:
    return isinstance(expression, Literal) and expression.value is not None


def _literals(call: Call) -> str | None:
    """Arguments that must be literals."""
    if call.function in ("timestampadd", "timestampdiff"):
        unit = call.arguments[0]
        known = [name for name in UNITS if name != "dayofyear" or call.function == "timestampadd"]
        if not isinstance(unit, Literal) or unit.value not in known:
            return f"{call.function}() takes a unit first: {', '.join(known)}"
    if call.function == "format_string" and not isinstance(call.arguments[0], Literal):
        return "the format of format_string() must be given as a literal"
    if call.function not in PREPARED or all(isinstance(each, Literal) for each in call.arguments[1:]):
        return None
    is_regex = call.function.startswith(("regexp", "split"))
    what = "the regular expression and what is behind it" if is_regex else "the pattern"
    name = "split" if call.function.startswith("split") else call.function
    return f"{what} of {name}() must be given as literals"


def _zones(call: Call) -> str | None:
    """in_timezone() inside anything but AND, OR and NOT."""
    if call.function in _MAY_CONTAIN_ZONES:
        return None
    if not any(isinstance(each, Call) and each.function == "in_timezone" for each in call.arguments):
        return None
    return (
        f"in_timezone() stands around a whole condition, which {_written(call)} cannot take; AND, OR and NOT "
        "may join it with others"
    )


def _own(call: Call) -> str | None:
    """Missing or invalid constants of Palio's own functions."""
    if call.function not in _WITH_CONSTANTS:
        return None
    constants = call.arguments[slice(*_OWN_CONSTANTS.get(call.function, (-1, None)))]
    if not all(isinstance(each, Literal) and isinstance(each.value, str) for each in constants):
        what = {
            "ip_in_network": "the network",
            "condition_in": "the language and the condition",
            "in_timezone": "the time zone",
        }
        return f"{what.get(call.function, 'the pattern')} of {call.function}() must be a string literal"
    texts = [str(each.value) for each in constants if isinstance(each, Literal)]
    try:
        match call.function:
            case "ip_in_network":
                network(texts[0])
            case "condition_in":
                condition_in(*texts)
            case "in_timezone":
                zone_named(texts[0])
            case "any_value_rlike":
                Regex.compile(texts[0])
            case _:
                LikePattern.parse(texts[0])
    except (ValueError, PalioError) as error:
        return str(error)
    return None


def _pattern(call: Call) -> str | None:
    """An invalid pattern or regular expression."""
    if call.function in PREPARED:
        values = [each.value for each in call.arguments[1:] if isinstance(each, Literal)]
        return (
            None if None in values and call.function not in TAKES_NULL else _error_of(PREPARED[call.function], *values)
        )
    match call:
        case Call("format_string", (Literal(str() as text), *_)):
            return _error_of(_check_format, text, len(call.arguments) - 1)
        case Call("like" | "ilike" as name, (_, Literal(str() as text))):
            escape = "\\"
        case Call("like" | "ilike" as name, (_, Literal(str() as text), Literal(str() as escape))):
            pass
        case Call("rlike" as name, (_, Literal(str() as text))):
            escape = ""
        case _:
            return None
    if name == "rlike":
        return _error_of(Regex.compile, text)
    return _error_of(LikePattern.parse, text, escape, name == "ilike")


def _check_format(text: str, values: int) -> None:
    needed = PrintfFormat.parse(text).arguments
    if needed > values:
        raise ValueError(f"the format of format_string() needs {needed} values, not {values}")


def _error_of(make: Callable[..., object], *values: object) -> str | None:
    """The message of the ValueError that a constructor raises, if it does."""
    try:
        make(*values)
    except ValueError as error:
        return str(error)
    return None


def _cast(call: Call, kinds: Kinds) -> str | None:
    if call.function != "cast":
        return None
    value, type_name = call.arguments
    if not isinstance(type_name, Literal) or not isinstance(type_name.value, str):
        return "CAST takes the name of a type"
    try:
        target = target_of(type_name.value)
    except ValueError as error:
        return str(error)
    kind = kinds.of(value)
    if kind in (None, NoneType) or kind in target.sources:
        return None
    return f"{_name(kind)} cannot be cast to {type_name.value}"


def _name(kind: ValueType | None) -> str:
    name = KIND_NAMES.get(kind, "value") if kind is not None else "value"
    return f"an {name}" if name[0] in "aeiou" else f"a {name}"


def _pair(kinds: Sequence[ValueType | None]) -> str:
    names = list(dict.fromkeys(map(_name, kinds)))
    return " and ".join(names) if len(names) > 1 else f"two of {names[0]}"


def _written(call: Call) -> str:
    return f"{call.function}()" if call.function.isidentifier() else call.function
