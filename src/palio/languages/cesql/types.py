"""What values does an expression have, what does it see of an event's, and how does one type become another?

CESQL has three types, Boolean, Integer of 32 bits and String, which here are Python's `bool`, `int` and `str`. An
attribute of any other type is seen as a String: an integer beyond 32 bits, a decimal, a float, a date and a
timestamp by the text that `palio.filters.expressions.cloudevents_text` gives them.

A timestamp is read from a CloudEvent as an instant, and how it was spelled is lost. It is therefore equal to every
RFC 3339 text of its instant, so that the text a publisher wrote is never unequal to itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import Enum
from typing import Any, Final, TypeAlias

from palio.errors import EventError
from palio.events.cloudevents import read_time
from palio.filters.expressions.cloudevents_text import LARGEST, SMALLEST, integer_in, text_of

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
    """A value as another type (§3.7); None where it cannot be."""
    match target:
        case Type.STRING:
            return value if isinstance(value, str) else text_of(value)
        case Type.INTEGER:
            return integer_in(value) if isinstance(value, str) else int(value)
        case Type.BOOLEAN:
            return truth_in(value) if isinstance(value, str) else bool(value)
    return value


def truth_in(text: str) -> bool | None:
    """What a text says: `true` or `false`, in any case of letters; else None."""
    return {"true": True, "false": False}.get(text.lower())


class Moment(str):
    """The text of a timestamp, equal to every other text of its instant."""


def seen(value: Any) -> Value | None:
    """What an expression sees of an attribute that is there; None for what CloudEvents has no form for."""
    if isinstance(value, bool):
        return value
    if isinstance(value, int) and SMALLEST <= value <= LARGEST:
        return int(value)
    text = text_of(value)
    return Moment(text) if text is not None and isinstance(value, datetime) else text


def are_equal(left: Value, right: Value) -> bool:
    """Whether two values of one type are equal."""
    if isinstance(left, Moment) or isinstance(right, Moment):
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
