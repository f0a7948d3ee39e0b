"""Functions of CESQL (§3.5).

A function is identified by its name, in any case of letters, and the number of its arguments. The arguments are cast to
the types of the parameters before the call. A function that fails raises `FunctionFailed`, which carries the value that
the call has nevertheless.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from palio.errors import PalioError
from palio.filters.expressions.extension_functions import LARGEST_CESQL_INTEGER, SMALLEST_CESQL_INTEGER
from palio.filters.expressions.text_functions import TEXT_LIMIT
from palio.languages.cesql.types import FUNCTION_EVALUATION, MATH, Type, Value, cast


class FunctionFailed(PalioError):
    """The error of a function, with the value that the call has nevertheless."""

    def __init__(self, value: Value, reason: str, kind: str = FUNCTION_EVALUATION) -> None:
        self.value = value
        self.reason = reason
        self.kind = kind
        super().__init__(reason)


@dataclass(frozen=True, slots=True)
class CesqlFunction:
    """A function. The last `optional` parameters may be left out; further arguments, if any, have the type `more`."""

    name: str
    parameters: tuple[Type, ...]
    result: Type
    compute: Callable[..., Value]
    optional: int = 0
    more: Type | None = None

    def accepts(self, count: int) -> bool:
        """Whether it may be called with this number of arguments."""
        minimum = len(self.parameters) - self.optional
        return minimum <= count and (self.more is not None or count <= len(self.parameters))

    def parameter(self, position: int) -> Type:
        """The type of the argument at a position, counted from 0."""
        if position < len(self.parameters):
            return self.parameters[position]
        assert self.more is not None
        return self.more

    @property
    def arguments(self) -> str:
        """How many arguments it takes, in words."""
        minimum, maximum = len(self.parameters) - self.optional, len(self.parameters)
        if self.more is not None:
            return f"{minimum} or more arguments" if minimum else "any number of arguments"
        return (
            f"{minimum} to {maximum} arguments" if self.optional else f"{maximum} argument{'' if maximum == 1 else 's'}"
        )


# What Unicode calls white space; Python's strip() takes some control characters as well, which §3.5.1 rules out.
_WHITE_SPACE: Final = (
    "\t\n\v\f\r \x85\xa0\u1680" + "".join(map(chr, range(0x2000, 0x200B))) + "\u2028\u2029\u202f\u205f\u3000"
)


def _concat(*parts: str) -> str:
    return _concat_with("", *parts)


def _concat_with(separator: str, *parts: str) -> str:
    length = sum(map(len, parts)) + len(separator) * max(0, len(parts) - 1)
    if length > TEXT_LIMIT:  # as in SQL; a long attribute named often would fill the memory
        raise FunctionFailed("", f"a text of {length:,} characters; {TEXT_LIMIT:,} is the limit")
    return separator.join(parts)


def _left(text: str, count: int) -> str:
    if count < 0:
        raise FunctionFailed(text, f"LEFT of {count} characters")
    return text[:count]


def _right(text: str, count: int) -> str:
    if count < 0:
        raise FunctionFailed(text, f"RIGHT of {count} characters")
    return text[max(0, len(text) - count) :]


def _substring(text: str, position: int, length: int | None = None) -> str:
    if length is not None and length < 0:
        raise FunctionFailed("", f"SUBSTRING of {length} characters")
    if not -len(text) <= position <= len(text):
        raise FunctionFailed("", f"SUBSTRING from {position} of a text of {len(text)}")
    if position == 0:  # positions count from 1, or from -1 at the end; 0 is neither, and no error
        return ""
    start = position - 1 if position > 0 else len(text) + position
    return text[start:] if length is None else text[start : start + length]


def _absolute(number: int) -> int:
    # The absolute value of the smallest Integer is one beyond the largest: the call fails, and gives the largest.
    if number == SMALLEST_CESQL_INTEGER:
        raise FunctionFailed(LARGEST_CESQL_INTEGER, f"ABS({number}) is beyond 32 bits", MATH)
    return abs(number)


def _upper(text: str) -> str:
    return text.upper()


def _lower(text: str) -> str:
    return text.lower()


def _trim(text: str) -> str:
    return text.strip(_WHITE_SPACE)


def _identity(value: Value) -> Value:
    return value


def _is_integer(value: Value) -> bool:
    return cast(value, Type.INTEGER) is not None


def _is_boolean(value: Value) -> bool:
    return cast(value, Type.BOOLEAN) is not None


_TEXT, _WHOLE, _TRUTH = Type.STRING, Type.INTEGER, Type.BOOLEAN
FUNCTIONS: Final[dict[str, CesqlFunction]] = {
    function.name: function
    for function in (
        CesqlFunction("LENGTH", (_TEXT,), _WHOLE, len),
        CesqlFunction("CONCAT", (), _TEXT, _concat, more=_TEXT),
        CesqlFunction("CONCAT_WS", (_TEXT,), _TEXT, _concat_with, more=_TEXT),
        CesqlFunction("LOWER", (_TEXT,), _TEXT, _lower),
        CesqlFunction("UPPER", (_TEXT,), _TEXT, _upper),
        CesqlFunction("TRIM", (_TEXT,), _TEXT, _trim),
        CesqlFunction("LEFT", (_TEXT, _WHOLE), _TEXT, _left),
        CesqlFunction("RIGHT", (_TEXT, _WHOLE), _TEXT, _right),
        CesqlFunction("SUBSTRING", (_TEXT, _WHOLE, _WHOLE), _TEXT, _substring, optional=1),
        CesqlFunction("ABS", (_WHOLE,), _WHOLE, _absolute),
        # The casts by name; a cast that fails is the call's own cast error.
        CesqlFunction("INT", (_WHOLE,), _WHOLE, _identity),
        CesqlFunction("BOOL", (_TRUTH,), _TRUTH, _identity),
        CesqlFunction("STRING", (_TEXT,), _TEXT, _identity),
        CesqlFunction("IS_INT", (Type.ANY,), _TRUTH, _is_integer),
        CesqlFunction("IS_BOOL", (Type.ANY,), _TRUTH, _is_boolean),
    )
}


def find_function(name: str, count: int) -> CesqlFunction | None:
    """The function of a name in capital letters that accepts this number of arguments."""
    function = FUNCTIONS.get(name)
    return function if function is not None and function.accepts(count) else None


def refusal(name: str, count: int) -> str | None:
    """The reason why no function of this name takes this number of arguments; None where one does."""
    function = FUNCTIONS.get(name)
    if function is None:
        return f"there is no function {name}"
    return None if function.accepts(count) else f"{name} takes {function.arguments}, not {count}"
