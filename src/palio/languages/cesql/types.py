"""Types, casts and errors of CESQL.

CESQL has three types, Boolean, Integer of 32 bits and String, which here are Python's `bool`, `int` and `str`. An
attribute of any other type is seen as a String: an integer beyond 32 bits, a decimal, a float, a date and a
timestamp by the text that `palio.filters.expressions.extension_functions` gives them.

A timestamp is read from a CloudEvent as an instant, and how it was spelled is lost. It is therefore equal to every
RFC 3339 text of its instant, so that the text a publisher wrote is never unequal to itself.

An error does not end an evaluation: every operator and function gives a value all the same, and the errors are
collected beside it, by the names that CESQL 1.0 §3.3 gives.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final, TypeAlias

from palio.errors import EventError
from palio.events.cloudevents import read_time
from palio.filters.expressions.extension_functions import (
    LARGEST_CESQL_INTEGER,
    SMALLEST_CESQL_INTEGER,
    cesql_integer,
    cloudevents_text,
)

Value: TypeAlias = bool | int | str


class Type(Enum):
    """The types of values, each with the value that stands for "none" (§3.1)."""

    BOOLEAN = "Boolean"
    INTEGER = "Integer"
    STRING = "String"
    ANY = "any type"

    @property
    def zero(self) -> Value:
        return _ZEROS[self]


_ZEROS: Final[Mapping[Type, Value]] = {Type.BOOLEAN: False, Type.INTEGER: 0, Type.STRING: "", Type.ANY: False}


def type_of(value: Value) -> Type:
    if isinstance(value, bool):
        return Type.BOOLEAN
    return Type.INTEGER if isinstance(value, int) else Type.STRING


def cast(value: Value, target: Type) -> Value | None:
    """A value cast to a type (§3.7); None where the cast fails."""
    match target:
        case Type.STRING:
            return value if isinstance(value, str) else cloudevents_text(value)
        case Type.INTEGER:
            return cesql_integer(value) if isinstance(value, str) else int(value)
        case Type.BOOLEAN:
            return _boolean_in(value) if isinstance(value, str) else bool(value)
    return value


def _boolean_in(text: str) -> bool | None:
    """The Boolean of a text, `true` or `false` in any case of letters; else None."""
    return {"true": True, "false": False}.get(text.lower())


class TimestampText(str):
    """The text of a timestamp, equal to every other text of its instant."""


def attribute_value(value: Any) -> Value | None:
    """An attribute of an event as a CESQL value; None for a type that CloudEvents does not have."""
    if isinstance(value, bool):  # before int, of which bool is a subclass
        return value
    if isinstance(value, int) and SMALLEST_CESQL_INTEGER <= value <= LARGEST_CESQL_INTEGER:
        return int(value)
    text = cloudevents_text(value)
    return TimestampText(text) if text is not None and isinstance(value, datetime) else text


def are_equal(left: Value, right: Value) -> bool:
    """Whether two values of one type are equal."""
    if isinstance(left, TimestampText) or isinstance(right, TimestampText):
        # A text beside a timestamp need not be one; then the two are compared as texts.
        first, second = instant_in(str(left)), instant_in(str(right))
        if first is not None and second is not None:
            return first == second
    return left == right


def instant_in(text: str) -> datetime | None:
    """The instant of an RFC 3339 text, cut to the microsecond as `Event.from_cloudevent` does; else None."""
    try:
        return read_time(text).astimezone(UTC)
    except (EventError, OverflowError):
        return None


# --- errors ----------------------------------------------------------------------------------------------

PARSE: Final = "parse"
MATH: Final = "math"
CAST: Final = "cast"
MISSING_ATTRIBUTE: Final = "missingAttribute"
MISSING_FUNCTION: Final = "missingFunction"
FUNCTION_EVALUATION: Final = "functionEvaluation"
GENERIC: Final = "generic"

KINDS: Final = (PARSE, MATH, CAST, MISSING_ATTRIBUTE, MISSING_FUNCTION, FUNCTION_EVALUATION, GENERIC)


class Failure(str):
    """One error: the name of its kind, with the reason and the position in the expression."""

    reason: str
    position: int

    def __new__(cls, kind: str, reason: str, position: int) -> Failure:
        made = super().__new__(cls, kind)
        made.reason = reason
        made.position = position
        return made

    @property
    def kind(self) -> str:
        return str(self)

    def __reduce__(self) -> tuple[type[Failure], tuple[str, str, int]]:
        return Failure, (str(self), self.reason, self.position)
