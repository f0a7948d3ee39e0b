"""Filters of CloudEvents' Subscriptions API; `docs/languages/cloudevents.md` says what they mean here.

A filter expression is an object with one member, named for its dialect (Subscriptions API §3.2.4.1). What the
specification does not allow is refused with the path to it, such as `all[0].exact.type`.

`exact`, `prefix` and `suffix` compare texts, case for case, as CESQL's `=` and LIKE do; an attribute that is missing
has none, and the expression is false. `sql` is true where CESQL is true without an error, and false everywhere else.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

from palio.errors import EventError, ParseError
from palio.events.json import parse_value
from palio.events.values import DEFAULT_LIMITS
from palio.filters.algebra import complement
from palio.filters.filter import Filter
from palio.filters.like import LikePattern
from palio.filters.tree import And, Leaf, Node, Or
from palio.languages import cesql
from palio.languages.cesql.value_sets import like, values_equal
from palio.languages.grammar import SPLIT_HINT, too_many_conditions

__all__ = ["parse"]


def parse(condition: Any, *, timezone: str = "UTC") -> Filter:
    """The filter of one filter expression, a mapping, or of a list of them that must all hold; JSON text is either.

    Filters are two-valued: `~f` matches every event that `f` does not. `timezone` has no effect: there are no literals
    of time.
    """
    holds = And(tuple(map(_lower, _read_condition(condition))))
    refusal = too_many_conditions(holds, "filter")
    if refusal is not None:
        raise ParseError(_shown(condition), 0, refusal, SPLIT_HINT)
    return Filter.of_tree(holds, lambda: complement(holds))


MAX_NESTING_LEVELS: Final = 50
"""Levels that filters may nest."""

_NAME: Final = re.compile(r"[a-z0-9]+")
_LINE_AND_COLUMN: Final = re.compile(r" \(line (\d+), column (\d+)\)$")
_MAX_SHOWN_CHARACTERS: Final = 10_000  # of a condition that an error carries


@dataclass(frozen=True, slots=True)
class TextComparison:
    """`exact`, `prefix` or `suffix`: texts that attributes must be, start or end with, all of them."""

    dialect: str
    texts: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class LogicalExpression:
    """`all`, `any` or `not` of other expressions."""

    dialect: str
    members: tuple[Expression, ...]


@dataclass(frozen=True, slots=True)
class CesqlCondition:
    """`sql`: a CESQL expression, and where it stands."""

    text: str
    path: str


Expression: TypeAlias = TextComparison | LogicalExpression | CesqlCondition

# The names of the Subscriptions API, and what people write instead of them.
_DIALECTS: Final = ("exact", "prefix", "suffix", "all", "any", "not", "sql")
_ALIASES: Final = {"cesql": "sql"}  # Knative's name for it
_HABITS: Final = {"and": "all", "or": "any", "equals": "exact", "startsWith": "prefix", "endsWith": "suffix"}


# --- parser ----------------------------------------------------------------------------------------------


def _read_condition(condition: Any) -> list[Expression]:
    """The filter expressions of a condition; ParseError where it has none."""
    if isinstance(condition, str | bytes | bytearray | memoryview):
        text = condition if isinstance(condition, str) else bytes(condition).decode("utf-8", "replace")
        return _FilterReader(text).read(_from_json(condition, text))
    return _FilterReader(_shown(condition)).read(condition)


def _from_json(condition: Any, text: str) -> Any:
    try:
        return parse_value(condition, DEFAULT_LIMITS)
    except EventError as error:
        # The reader of events reports a line and column; ParseError takes an offset.
        place = _LINE_AND_COLUMN.search(error.reason)
        position = 0 if place is None else _position(text, int(place[1]), int(place[2]))
        reason = _LINE_AND_COLUMN.sub("", f"{error.path}: {error.reason}" if error.path else error.reason)
        raise ParseError(text, position, reason, "a filter is a JSON object, or a list of them") from None


def _position(text: str, line: int, column: int) -> int:
    return sum(len(each) + 1 for each in text.split("\n")[: line - 1]) + column - 1


def _shown(condition: Any) -> str:
    """A condition as an error shows it."""
    try:
        return json.dumps(condition, ensure_ascii=False, default=str)[:_MAX_SHOWN_CHARACTERS]
    except (TypeError, ValueError, RecursionError):
        return str(type(condition).__name__)


class _FilterReader:
    def __init__(self, text: str) -> None:
        self.text = text

    def read(self, condition: Any) -> list[Expression]:
        if isinstance(condition, Mapping):
            return [self._expression(condition, "", 1)]
        if _is_list(condition):
            return [self._expression(each, f"[{at}]", 1) for at, each in enumerate(condition)]
        raise self._error(
            "", f"a filter is an object, or a list of objects, not {_json_type(condition)}", '{"exact": {"type": "…"}}'
        )

    def _expression(self, found: Any, path: str, level: int) -> Expression:
        if not isinstance(found, Mapping):
            raise self._error(
                path, f"a filter is an object, not {_json_type(found)}", 'such as {"exact": {"type": "…"}}'
            )
        if level > MAX_NESTING_LEVELS:
            raise self._error("", f"filters nest more than {MAX_NESTING_LEVELS} levels deep", "write them side by side")
        if len(found) != 1:
            which = ", ".join(map(str, found)) or "none"
            hint = 'several are written {"all": [{…}, {…}]}' if found else f"the dialects are {', '.join(_DIALECTS)}"
            raise self._error(path, f"a filter has one dialect; this object has {which}", hint)
        ((name, value),) = found.items()
        return self._dialect(name, value, f"{path}.{name}".lstrip("."), path, level)

    def _dialect(self, name: Any, value: Any, path: str, outside: str, level: int) -> Expression:
        dialect = _ALIASES.get(name, name) if isinstance(name, str) else name
        match dialect:
            case "exact" | "prefix" | "suffix":
                return TextComparison(dialect, self._texts(value, path))
            case "all" | "any":
                if not _is_list(value):
                    raise self._error(
                        path, f"must be a list of filters, not {_json_type(value)}", f'write {{"{dialect}": [{{…}}]}}'
                    )
                if not value:
                    raise self._error(path, "must have at least one filter")
                members = [self._expression(each, f"{path}[{at}]", level + 1) for at, each in enumerate(value)]
                return LogicalExpression(dialect, tuple(members))
            case "not":
                if _is_list(value):
                    hint = 'of several, write {"not": {"any": […]}} or {"not": {"all": […]}}'
                    raise self._error(path, "must be one filter, not a list", hint)
                return LogicalExpression("not", (self._expression(value, path, level + 1),))
            case "sql":
                if not isinstance(value, str):
                    raise self._error(path, f"must be a CESQL expression as text, not {_json_type(value)}")
                return CesqlCondition(value, path)
        meant = _HABITS.get(name) if isinstance(name, str) else None
        hint = f"write {meant}" if meant else f"the dialects are {', '.join(_DIALECTS)}"
        raise self._error(outside, f"there is no filter dialect {str(name)[:80]!r}", hint)

    def _texts(self, value: Any, path: str) -> dict[str, str]:
        if not isinstance(value, Mapping):
            raise self._error(
                path, f"must be an object of attributes and texts, not {_json_type(value)}", '{"type": "com.example.…"}'
            )
        if not value:
            raise self._error(path, "must have at least one attribute")
        for name, text in value.items():
            place = f"{path}.{str(name)[:80]}"
            if not isinstance(name, str) or not _NAME.fullmatch(name):
                hint = "it is of lower-case letters and digits"
                raise self._error(place, "this is no name of a CloudEvents attribute", hint)
            if name == "data":
                hint = "a condition on data.… can be written in SQL"
                raise self._error(place, "filters see the attributes of an event, not its data", hint)
            if not isinstance(text, str):
                raise self._error(
                    place, f"must be a string, not {_json_type(text)}", f"write {json.dumps(str(text))[:80]}"
                )
            if not text:
                raise self._error(place, "must not be empty")
            self._refuse_surrogates(text, place)
        return dict(value)

    def _refuse_surrogates(self, text: str, place: str) -> None:
        try:
            text.encode()
        except UnicodeEncodeError as error:
            reason = f"half a character (the surrogate U+{ord(text[error.start]):04X})"
            raise self._error(place, reason) from None

    def _error(self, path: str, reason: str, hint: str | None = None) -> ParseError:
        return ParseError(self.text, 0, f"{path}: {reason}" if path else reason, hint)


def _is_list(value: Any) -> bool:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray | memoryview)


def _json_type(value: Any) -> str:
    """The JSON type of a value, as an error says it."""
    match value:
        case None:
            return "null"
        case bool():
            return "a boolean"
        case int() | float():
            return "a number"
        case str():
            return "a string"
    return "an object" if isinstance(value, Mapping) else "a list" if _is_list(value) else type(value).__name__


# --- lowering --------------------------------------------------------------------------------------------


def _lower(expression: Expression) -> Node:
    match expression:
        case TextComparison(dialect, texts):
            return And(tuple(_lower_text(dialect, name, text) for name, text in texts.items()))
        case LogicalExpression("all", members):
            return And(tuple(map(_lower, members)))
        case LogicalExpression("any", members):
            return Or(tuple(map(_lower, members)))
        case LogicalExpression("not", (member,)):
            return complement(_lower(member))
        case CesqlCondition(text, path):
            return _lower_cesql(text, path)
    raise TypeError(expression)


def _lower_text(dialect: str, name: str, text: str) -> Node:
    if dialect == "exact":
        return Leaf(name, values_equal(text))
    return like(name, LikePattern.starting(text) if dialect == "prefix" else LikePattern.ending(text)).true


def _lower_cesql(text: str, path: str) -> Node:
    try:
        return cesql.parse(text).tree
    except ParseError as error:
        raise ParseError(error.text, error.position, f"{path}: {error.reason}", error.hint) from None
