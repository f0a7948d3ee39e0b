"""Metadata of subscriptions: which values may be kept beside a condition, and their JSON form.

An id without a UTF-8 form, or metadata that cannot be written, would fail another caller's batch or save hours later.
So both are checked, and metadata copied, when a subscription is made.

Metadata is written as JSON. Dates, moments, decimals and bytes, which JSON lacks, are objects with one member that has
no name, `{"": ["date", "2024-01-31"]}`, and are read back as what they were. Rejected: texts in their place, as events
are written, because they could not be told from texts again; pickling, because a saved matcher is data.
"""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from datetime import date, datetime, time, timedelta
from decimal import Decimal
from typing import Any, Final

from palio.errors import EventError
from palio.events.values import check_text, from_numpy, is_numpy, type_name

_MAX_DEPTH: Final = 100
_MAX_INTEGER_BITS: Final = 14_000  # Python prints no integer of many more
_MARK: Final = ""


def copy_value(value: Any, path: str, depth: int = 0) -> Any:
    """A copy of a value, of plain types throughout; EventError where it cannot be kept, with the path."""
    kind = type(value)
    if value is None or kind is bool or kind is float:
        return value
    if depth > _MAX_DEPTH:
        raise EventError(f"nested more than {_MAX_DEPTH} levels deep", path)
    if isinstance(value, str):
        return plain_text(value, path)
    if isinstance(value, int):
        return _integer(value, path)
    if isinstance(value, Mapping):
        return {_key(name, path): copy_value(each, f"{path}.{name}", depth + 1) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [copy_value(each, f"{path}[{at}]", depth + 1) for at, each in enumerate(value)]
    if is_numpy(value):
        return copy_value(_from_numpy(value, path), path, depth + 1)
    for base, (_, write, from_json) in _FORMS.items():
        if isinstance(value, base):
            if kind in _PLAIN:
                return value
            return from_json(write(value)) if value == value else None  # no time at all: NaT of pandas
    if isinstance(value, float):
        return float(value)
    raise EventError(f"a value of type {type_name(value)} cannot be kept", path)


def plain_text(value: str, path: str) -> str:
    """Text that has a UTF-8 form, as a plain string."""
    if not value.isascii():
        check_text(value, path)
    return str.__str__(value)


def to_json(value: Any) -> Any:
    """What was kept, in the words of JSON."""
    if isinstance(value, dict):
        found = {name: to_json(each) for name, each in value.items()}
        return {_MARK: [_MARK, found[_MARK]]} if found.keys() == {_MARK} else found
    if isinstance(value, list):
        return [to_json(each) for each in value]
    form = _FORMS.get(type(value))
    return value if form is None else {_MARK: [form[0], form[1](value)]}


def from_json(found: dict[str, Any]) -> Any:
    """An object of JSON as what was kept; what is inside it has been read already."""
    if found.keys() != {_MARK}:
        return found
    form, value = found[_MARK]
    return {_MARK: value} if form == _MARK else _READERS[form](value)


def _key(name: Any, path: str) -> str:
    if not isinstance(name, str):
        raise EventError(f"has the key {name!r}; keys are text", path)
    return plain_text(name, path)


def _integer(value: int, path: str) -> int:
    if value.bit_length() > _MAX_INTEGER_BITS:
        raise EventError("an integer of more than 4,000 digits", path)
    return int.__int__(value)


def _from_numpy(value: Any, path: str) -> Any:
    try:
        return from_numpy(value, path)
    except EventError:
        raise EventError(f"a NumPy value of type {value.dtype} cannot be kept", path) from None


def _parts(value: timedelta) -> list[int]:
    return [value.days, value.seconds, value.microseconds]


def _bytes(value: bytes | bytearray | memoryview) -> str:
    return b64encode(value).decode()


# A datetime is also a date, so it comes first.
_FORMS: Final[dict[type, tuple[str, Callable[[Any], Any], Callable[[Any], Any]]]] = {
    datetime: ("moment", datetime.isoformat, datetime.fromisoformat),
    date: ("date", date.isoformat, date.fromisoformat),
    time: ("time", time.isoformat, time.fromisoformat),
    timedelta: ("duration", _parts, lambda parts: timedelta(*parts)),
    Decimal: ("decimal", str, Decimal),
    bytes: ("bytes", _bytes, b64decode),
    bytearray: ("bytes", _bytes, b64decode),
    memoryview: ("bytes", _bytes, b64decode),
}
_PLAIN: Final = frozenset(_FORMS) - {bytearray, memoryview}
_READERS: Final = {name: from_json for name, _, from_json in _FORMS.values()}
