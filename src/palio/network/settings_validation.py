"""Validation of settings: TOML tables and command-line options become typed settings, or an error.

The annotation of a field states its type, and its class the range. An error names the setting as a file does
(`limits.event.depth`), and states what would be right. TOML has no null: a setting that may be absent takes `"none"`.
Sizes are numbers of bytes and times numbers of seconds; a text with a unit is refused with the number to write.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from difflib import get_close_matches
from pathlib import Path
from types import NoneType, UnionType
from typing import Any, Final, Literal, TypeVar, get_args, get_origin, get_type_hints

from palio.errors import InvalidArgument, PalioError
from palio.filters.filter import Filter
from palio.network.addresses import Address

_Settings = TypeVar("_Settings")
_SCALARS: Final[Mapping[type, tuple[tuple[type, ...], str]]] = {
    bool: ((bool,), "true or false"),
    int: ((int,), "a whole number"),
    float: ((int, float), "a number"),
    str: ((str,), "a text"),
}
_PARSERS: Final[Mapping[type, Callable[[str], Any]]] = {Path: Path, Address: Address.parse, Filter: Filter.parse}
ABSENT: Final = "none"
_QUANTITY: Final = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([a-zA-Z]+)\s*")
_SECONDS_OF_UNIT: Final = {"ms": 0.001, "s": 1, "m": 60, "min": 60, "h": 3_600, "d": 86_400}
_BYTES_OF_UNIT: Final = {
    "b": 1, "k": 2**10, "kb": 10**3, "kib": 2**10, "m": 2**20, "mb": 10**6, "mib": 2**20,
    "g": 2**30, "gb": 10**9, "gib": 2**30, "t": 2**40, "tb": 10**12, "tib": 2**40,
}  # fmt: skip


class InvalidSetting(InvalidArgument):
    """A setting that there is none of, or with an invalid value; `path` names it as a file does."""

    def __init__(self, path: str, message: str) -> None:
        self.path = path
        super().__init__(message)


def change_settings(settings: _Settings, given: Mapping[str, Any], place: str = "") -> _Settings:
    """A copy of settings with some replaced; nested tables become the dataclasses of their fields."""
    kinds = get_type_hints(type(settings))
    check_names(given, {each.name for each in fields(settings)}, place)  # type: ignore[arg-type]
    read = {
        name: _convert(value, kinds[name], getattr(settings, name), f"{place}.{name}" if place else name)
        for name, value in given.items()
    }
    try:
        return replace(settings, **read)  # type: ignore[type-var]
    except InvalidArgument as error:
        raise InvalidArgument(f"{place}.{error}" if place else str(error)) from None


def check_names(given: Mapping[str, Any], known: set[str], place: str) -> None:
    """InvalidSetting for an unknown name, with a suggestion."""
    what = f"setting of {place}" if place else "setting"
    for name in given:
        if name not in known:
            close = get_close_matches(name, known, 1)
            hint = f"did you mean {close[0]}?" if close else f"known are {', '.join(sorted(known))}"
            raise InvalidSetting(f"{place}.{name}" if place else name, f"there is no {what} {name!r}; {hint}")


def check_minimum(settings: Any, **minima: float) -> None:
    """InvalidArgument for a number below its minimum; None is always valid."""
    for name, minimum in minima.items():
        value = getattr(settings, name)
        if value is not None and not (type(value) in (int, float) and value >= minimum):
            raise InvalidArgument(f"{name} is a number from {minimum:,} on, not {value!r}")


def check_positive(settings: Any, *names: str) -> None:
    """InvalidArgument for anything but a number above zero."""
    for name in names:
        value = getattr(settings, name)
        if not (type(value) in (int, float) and value > 0):
            raise InvalidArgument(f"{name} is a positive number, not {value!r}")


def _convert(value: Any, kind: Any, now: Any, place: str) -> Any:
    origin, parts = get_origin(kind), get_args(kind)
    if origin is UnionType:
        [kind] = [each for each in parts if each is not NoneType]
        return None if value is None or value == ABSENT else _convert(value, kind, now, place)
    if origin is Literal:
        return _check_choice(value, parts, place)
    if origin is tuple:
        several = value if isinstance(value, list | tuple) else [value]
        if not all(isinstance(each, str | parts[0]) for each in several):
            raise InvalidArgument(f"{place} is a text or a list of texts, not {value!r:.80}")
        return tuple(_convert(each, parts[0], None, place) for each in several)
    if isinstance(kind, type) and isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
        return value
    if is_dataclass(kind) and kind not in _PARSERS:
        if not isinstance(value, Mapping):
            raise InvalidArgument(f"{place} is a table, not {value!r:.80}")
        return _convert_table(value, kind, now, place)
    if kind in _PARSERS:
        return _parse(value, _PARSERS[kind], place)
    if kind in _SCALARS:
        types, said = _SCALARS[kind]
        if type(value) not in types:
            raise InvalidArgument(f"{place} is {said}, not {value!r:.80}{_without_unit(value, kind, place)}")
    return value


def _without_unit(value: Any, kind: type, place: str) -> str:
    """The number to write instead of a text with a unit, such as "8 GiB"; empty where there is none."""
    found = _QUANTITY.fullmatch(value) if isinstance(value, str) and kind in (int, float) else None
    if found is None:
        return ""
    unit, units = ("bytes", _BYTES_OF_UNIT) if place.endswith("bytes") else ("seconds", _SECONDS_OF_UNIT)
    factor = units.get(found[2].lower())
    return "" if factor is None else f"; in {unit} that is {float(found[1]) * factor:.15g}"


def _convert_table(value: Mapping[str, Any], kind: Any, now: Any, place: str) -> Any:
    if isinstance(now, kind):
        return change_settings(now, value, place)
    hints = get_type_hints(kind)
    check_names(value, set(hints), place)
    read = {name: _convert(each, hints[name], None, f"{place}.{name}") for name, each in value.items()}
    try:
        return kind(**read)
    except TypeError:
        raise InvalidArgument(f"{place} is not whole; its settings are {', '.join(hints)}") from None


def _parse(value: Any, read: Callable[[str], Any], place: str) -> Any:
    if not isinstance(value, str):
        raise InvalidArgument(f"{place} is a text, not {value!r:.80}")
    try:
        return read(value)
    except PalioError as error:
        raise InvalidArgument(f"{place}: {error}") from None


def _check_choice(value: Any, known: tuple[Any, ...], place: str) -> Any:
    if value not in known:
        raise InvalidArgument(f"{place} is one of {', '.join(map(str, known))}, not {value!r:.80}")
    return value
