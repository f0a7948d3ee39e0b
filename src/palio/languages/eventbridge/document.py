"""JSON documents with the position of every value, and the error locations within them.

A parser of patterns needs three things that `json.loads` drops: the position of a value, so that an error can point at
it; a key that occurs twice, which has a meaning here; and the digits of a number. A pattern given as Python objects is
written as JSON first, so that its errors have positions too.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal, InvalidOperation
from math import isfinite
from typing import Any, Final, TypeAlias

from palio.errors import EventError, ParseError
from palio.events.names import quote_segment
from palio.events.values import DEFAULT_LIMITS, check_text, type_name

MAX_NESTING_LEVELS: Final = DEFAULT_LIMITS.depth  # no event nests deeper, so no deeper pattern could match one
_MAX_CONTAINERS: Final = DEFAULT_LIMITS.containers

_JSON: Final = json.JSONDecoder()
_SPACE: Final = re.compile(r"[ \t\r\n]*")
_NUMBER: Final = re.compile(r"-?(?:0|[1-9][0-9]*)(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?")
_WORDS: Final[dict[str, bool | None]] = {"true": True, "false": False, "null": None}


@dataclass(frozen=True, slots=True)
class ObjectNode:
    """The members of an object in their order, a name as often as it was written."""

    members: tuple[tuple[str, JsonValue], ...]


@dataclass(frozen=True, slots=True)
class ArrayNode:
    items: tuple[JsonValue, ...]


Content: TypeAlias = ObjectNode | ArrayNode | str | Decimal | bool | None


@dataclass(frozen=True, slots=True)
class JsonValue:
    """A JSON value and the location where it begins."""

    content: Content
    position: int


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON text and its root value."""

    text: str
    root: JsonValue


def parse_document(condition: Any) -> Document:
    """The document of a pattern given as JSON text or as Python objects."""
    if isinstance(condition, bytes):
        condition = _decode(condition)
    if isinstance(condition, str):
        return Document(condition, _JsonParser(condition).document())
    writer = _JsonWriter()
    root = writer.value(condition, 1)
    return Document(writer.text, root)


def _decode(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        shown = data.decode(errors="replace")
        raise ParseError(shown, error.start, f"invalid UTF-8: {error.reason}") from None


class _JsonParser:
    """Recursive-descent parser of JSON text."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self._containers = 0

    def document(self) -> JsonValue:
        value = self.value(1)
        self.skip_space()
        if self.at < len(self.text):
            raise self.refuse("not JSON: something follows the end of the pattern")
        return value

    def value(self, depth: int) -> JsonValue:
        self.skip_space()
        start = self.at
        first = self.text[start : start + 1]
        if first in ("{", "["):
            self._containers += 1
            if depth > MAX_NESTING_LEVELS or self._containers > _MAX_CONTAINERS:
                raise self.refuse(_too_large(depth))
            return JsonValue(self.object(depth) if first == "{" else self.array(depth), start)
        if first == '"':
            return JsonValue(self.string(), start)
        # Read here and not by `json`, which would make a float of 0.10 and lose its digits.
        number = _NUMBER.match(self.text, start)
        if number is not None:
            self.at = number.end()
            return JsonValue(self.number(number.group(), start), start)
        for word, meaning in _WORDS.items():
            if self.text.startswith(word, start):
                self.at += len(word)
                return JsonValue(meaning, start)
        raise self.refuse("not JSON: expected a value" if first else "not JSON: the text ends where a value should be")

    def object(self, depth: int) -> ObjectNode:
        members: list[tuple[str, JsonValue]] = []
        self.at += 1
        while not self.closes("}", bool(members)):
            if self.text[self.at : self.at + 1] != '"':
                raise self.refuse("not JSON: expected a name in double quotes")
            name = self.string()
            self.skip_space()
            if self.text[self.at : self.at + 1] != ":":
                raise self.refuse("not JSON: expected a colon after a name")
            self.at += 1
            members.append((name, self.value(depth + 1)))
        return ObjectNode(tuple(members))

    def array(self, depth: int) -> ArrayNode:
        items: list[JsonValue] = []
        self.at += 1
        while not self.closes("]", bool(items)):
            items.append(self.value(depth + 1))
        return ArrayNode(tuple(items))

    def closes(self, bracket: str, after_one: bool) -> bool:
        """Whether an object or array ends here; steps over the bracket, or over the comma before what follows."""
        self.skip_space()
        character = self.text[self.at : self.at + 1]
        if character == bracket:
            self.at += 1
            return True
        if after_one:
            if character != ",":
                raise self.refuse(f"not JSON: expected a comma or {bracket}")
            self.at += 1
            self.skip_space()
        return False

    def string(self) -> str:
        start = self.at
        try:
            text, self.at = _JSON.raw_decode(self.text, start)
        except json.JSONDecodeError as error:
            self.at = error.pos
            raise self.refuse(f"not JSON: {error.msg[:1].lower()}{error.msg[1:].removesuffix(' at')}") from None
        # JSON escapes may write half of a surrogate pair, which no event holds.
        if not text.isascii():
            try:
                check_text(text, None)
            except EventError as error:
                self.at = start
                raise self.refuse(error.reason) from None
        assert isinstance(text, str)  # it begins with a quote
        return text

    def number(self, digits: str, start: int) -> Decimal:
        try:
            return Decimal(digits)
        except InvalidOperation:  # an exponent of more digits than a decimal can have
            self.at = start
            raise self.refuse("a number too large or too small for any event to hold") from None

    def skip_space(self) -> None:
        space = _SPACE.match(self.text, self.at)
        assert space is not None  # it may be empty
        self.at = space.end()

    def refuse(self, reason: str) -> ParseError:
        return ParseError(self.text, self.at, reason)


class _JsonWriter:
    """Printer of Python objects as JSON that records the position of each."""

    def __init__(self) -> None:
        self._pieces: list[str] = []
        self._length = 0
        self._containers = 0

    @property
    def text(self) -> str:
        return "".join(self._pieces)

    def value(self, value: Any, depth: int) -> JsonValue:
        start = self._length
        if isinstance(value, Mapping | list | tuple):
            # Depth alone does not bound the work: each of a hundred lists may hold the next one twice.
            self._containers += 1
            if depth > MAX_NESTING_LEVELS or self._containers > _MAX_CONTAINERS:
                raise self.refuse(_too_large(depth))
        if isinstance(value, Mapping):
            return JsonValue(self.object(value, depth), start)
        if isinstance(value, list | tuple):
            return JsonValue(self.array(value, depth), start)
        content = self.scalar(value)
        self.write(_as_json(content))
        return JsonValue(content, start)

    def object(self, content: Mapping[Any, Any], depth: int) -> ObjectNode:
        members: list[tuple[str, JsonValue]] = []
        self.write("{")
        for name, value in content.items():
            if not isinstance(name, str):
                raise self.refuse(f"a name in a pattern is a string, not {type_name(name)}")
            self.write(f"{', ' if members else ''}{_as_json(self.scalar(name))}: ")
            members.append((name, self.value(value, depth + 1)))
        self.write("}")
        return ObjectNode(tuple(members))

    def array(self, content: list[Any] | tuple[Any, ...], depth: int) -> ArrayNode:
        items: list[JsonValue] = []
        self.write("[")
        for value in content:
            if items:
                self.write(", ")
            items.append(self.value(value, depth + 1))
        self.write("]")
        return ArrayNode(tuple(items))

    def scalar(self, value: Any) -> str | Decimal | bool | None:
        match value:
            case None | bool():
                return value
            case str():
                try:
                    check_text(value, None)
                except EventError as error:
                    raise self.refuse(error.reason) from None
                # Here and for floats, the plain text and digits, whatever a subclass makes of them.
                return str.__str__(value)
            case int() | Decimal() if Decimal(value).is_finite():  # a bool, an int to Python, is caught above
                return Decimal(value)
            case float() if isfinite(value):
                return Decimal(float.__repr__(value))
            case float() | Decimal():
                raise self.refuse(f"JSON has no {value}")
        raise self.refuse(f"a pattern is made of what JSON has, not of {type_name(value)}")

    def write(self, piece: str) -> None:
        self._pieces.append(piece)
        self._length += len(piece)

    def refuse(self, reason: str) -> ParseError:
        return ParseError(self.text, self._length, reason)


def _too_large(depth: int) -> str:
    if depth > MAX_NESTING_LEVELS:
        return f"nested deeper than {MAX_NESTING_LEVELS} levels"
    return f"more than {_MAX_CONTAINERS:,} objects and arrays in one pattern"


def _as_json(content: str | Decimal | bool | None) -> str:
    return str(content) if isinstance(content, Decimal) else json.dumps(content, ensure_ascii=False)


def kind_of(value: JsonValue) -> str:
    """The JSON type of a value, as an error says it."""
    match value.content:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case Decimal():
            return "a number"
        case str():
            return "a string"
        case ArrayNode():
            return "an array"
        case ObjectNode():
            return "an object"


_MAX_PATH_CHARACTERS = 120


@dataclass(frozen=True, slots=True)
class Location:
    """A path into a pattern, `detail.state[0].numeric`, and the text of the pattern."""

    text: str
    path: str = ""

    def inside(self, name: str) -> Location:
        """The member of an object."""
        step = quote_segment(name)
        return Location(self.text, f"{self.path}.{step}" if self.path else step)

    def item(self, index: int) -> Location:
        """An element of an array."""
        return Location(self.text, f"{self.path}[{index}]")

    def refuse(self, value: JsonValue, reason: str, hint: str | None = None) -> ParseError:
        """The error for a value at this path."""
        path = self.path if len(self.path) <= _MAX_PATH_CHARACTERS else f"…{self.path[-_MAX_PATH_CHARACTERS:]}"
        return ParseError(self.text, value.position, f"{path}: {reason}" if path else reason, hint)
