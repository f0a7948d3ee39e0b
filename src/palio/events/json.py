r"""JSON reader and writer of events.

The rules are stricter than those of any one parser: the text is RFC 8259 in UTF-8; a key occurs once in its object;
there is no NaN, no Infinity, and no number too large for a double; an integer keeps all its digits; every string is
Unicode, without lone surrogates. The standard library can enforce all of them by hooks, and that reader
(`_read_carefully`) is the specification. It is slow, and no faster parser has such hooks, so most texts are read by
msgspec and then checked for whether the careful reader could differ. msgspec rejects what is not JSON and keeps the
digits of integers (orjson makes them floats); the one thing it does not report is a duplicate key. That can be
counted: a text has a colon for every key and for every colon in a string, unless that is written as \u003a, so if the
value that was read, written again, has as many colons as the text, no key was lost. Any doubt and any error sends the
text to the careful reader, so that messages come from one place. An event of ten scalars takes a quarter of the time
of the careful reader.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from math import isfinite
from typing import Any

from palio.errors import EventError
from palio.events.names import join_path
from palio.events.values import MAX_DECIMAL_DIGITS, Limits, check_text

_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


def parse_object(text: str | bytes | bytearray | memoryview, limits: Limits) -> dict[str, Any]:
    """The JSON object that a text consists of; its values are valid, but not yet bounded in depth."""
    value = parse_value(text, limits)
    if type(value) is not dict:
        raise EventError(f"an event is a JSON object, not {_kind_of(value)}")
    return value


def parse_value(text: str | bytes | bytearray | memoryview, limits: Limits) -> Any:
    """The JSON value of any kind that a text consists of."""
    data = text if type(text) is bytes else _to_bytes(text)
    if len(data) > limits.json_bytes:
        raise EventError(f"{len(data):,} bytes of JSON; an event may have {limits.json_bytes:,}")
    decode, encode = _msgspec()
    try:
        value = decode(data)
        if data.count(b":") == encode(value).count(b":") and not _has_escaped_colon(data):
            return value
    except (ValueError, RecursionError, OverflowError):
        pass
    return _read_carefully(data)


def _has_escaped_colon(data: bytes) -> bool:
    # Most texts have no backslash at all, and a search for one character is much faster than for five.
    return b"\\" in data and b"\\u003" in data and re.search(rb"\\u003[aA]", data) is not None


@cache
def _msgspec() -> tuple[Callable[[bytes], Any], Callable[[Any], bytes]]:
    # On first use: a program that never meets JSON should not wait for the import.
    import msgspec

    return msgspec.json.Decoder().decode, msgspec.json.Encoder().encode


def _to_bytes(text: str | bytes | bytearray | memoryview) -> bytes:
    if isinstance(text, str):
        check_text(text, None)
        return text.encode()
    if isinstance(text, bytes | bytearray | memoryview):
        return bytes(text)
    raise EventError(f"JSON text must be a string or bytes, not {type(text).__qualname__}")


class _Unusable:
    """Placeholder for an invalid value in the parsed content, until its path is known."""

    __slots__ = ("reason",)

    def __init__(self, reason: str) -> None:
        self.reason = reason


def _read_carefully(data: bytes) -> Any:
    """The value of a text, strictly by the rules, or an EventError with the path and the reason."""
    import json

    if data.startswith(_BYTE_ORDER_MARK):
        data = data[len(_BYTE_ORDER_MARK) :]
    try:
        text = data.decode()
    except UnicodeDecodeError as error:
        raise EventError(f"invalid UTF-8 at byte {error.start}: {error.reason}") from None
    if not text.strip(" \t\r\n"):
        raise EventError("no JSON object: the text is empty")
    try:
        value = json.loads(
            text,
            object_pairs_hook=_read_pairs,
            parse_int=_read_integer,
            parse_float=_read_float,
            parse_constant=lambda name: _Unusable(f"JSON has no {name}"),
        )
    except json.JSONDecodeError as error:
        reason = error.msg[:1].lower() + error.msg[1:].removesuffix(" at")
        raise EventError(f"not JSON: {reason} (line {error.lineno}, column {error.colno})") from None
    except RecursionError:
        raise EventError("nested too deeply to be read") from None
    _check(value)
    return value


def _read_pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    content = dict(pairs)
    if len(content) != len(pairs):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                content[key] = _Unusable("the key occurs twice in one object")
            seen.add(key)
    return content


def _read_integer(digits: str) -> Any:
    # Python refuses to convert 4,300 digits, and needs quadratic time below that.
    if len(digits.lstrip("-")) > MAX_DECIMAL_DIGITS:
        return _Unusable(f"an integer of more than {MAX_DECIMAL_DIGITS} digits")
    return int(digits)


def _read_float(digits: str) -> Any:
    value = float(digits)
    return value if isfinite(value) else _Unusable("a number too large for a double")


def _check(value: Any) -> None:
    """Raise for the first invalid value, now that its path is known."""
    # Paths are kept as linked lists: joined paths of hostile names would add up to gigabytes.
    stack: list[tuple[Any, Any]] = [((), value)]
    while stack:
        place, value = stack.pop()
        if isinstance(value, _Unusable):
            raise EventError(value.reason, _path_of(place))
        if isinstance(value, str):
            if not value.isascii():
                check_text(value, _path_of(place))
        elif isinstance(value, list):
            stack.extend((place, inner) for inner in reversed(value))
        elif isinstance(value, dict):
            for name in value:
                if not name.isascii():
                    check_text(name, _path_of(place), "a name")
            stack.extend(((place, name), inner) for name, inner in reversed(value.items()))


def _path_of(place: Any) -> str:
    """The path of a linked list of names, shortened for a message."""
    names: list[str] = []
    while place:
        place, name = place
        names.append(name if len(name) <= 80 else name[:77] + "...")
    names.reverse()
    return join_path(names if len(names) <= 20 else [*names[:20], "..."])


def write_json(content: Any) -> str:
    """JSON text of the content of an event, or of one value."""
    return _encoder()(_without_nonfinite(content)).decode()


@cache
def _encoder() -> Callable[[Any], bytes]:
    import msgspec

    return msgspec.json.Encoder(decimal_format="number").encode


def _without_nonfinite(value: Any) -> Any:
    if isinstance(value, float) and not isfinite(value):
        return "NaN" if value != value else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {name: _without_nonfinite(inner) for name, inner in value.items()}
    if isinstance(value, list):
        return [_without_nonfinite(inner) for inner in value]
    return value


def _kind_of(value: Any) -> str:
    kinds = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return kinds.get(type(value), "a number")
