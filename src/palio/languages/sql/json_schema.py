"""Schemas of from_json() and the fields that a condition takes from it: `from_json(x, 'a INT').a`.

A condition compares single values, so what from_json() makes is never computed as a whole. A field of a single type
becomes `json_field(x, 'a', 'int')`, which an index computes like all other functions. That gives what Spark gives,
where each field is converted for itself, and one that cannot be is NULL. Arrays and maps are refused: there, one
element that cannot be converted decides over all others.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import lru_cache
from typing import Final, TypeAlias

from palio.events.names import join_path, split_path
from palio.filters.expressions.ast import Call, Expression, Literal, Span
from palio.filters.expressions.json_functions import FIELD_TYPES
from palio.languages.grammar import InvalidLiteral
from palio.languages.sql.type_names import type_named

Schema: TypeAlias = Mapping[str, "str | Schema"]
"""The types of fields by their names: the one name of a type, or the schema of a struct."""

MAX_SCHEMA_DEPTH: Final = 50
MAX_SCHEMA_CHARACTERS: Final = 10_000
_HINT: Final = "write from_json(x, 'a INT, b STRUCT<c: STRING>').a"
_TOKEN: Final = re.compile(r"\s*(`(?:[^`]|``)+`|'(?:[^'\\]|\\.)*'|\w+|[<>(),:]|\Z|.)", re.DOTALL)


def from_json(arguments: tuple[Expression, ...], span: Span) -> Expression:
    """from_json(x, 'a INT'), of which a field is taken by `.a` or `['a']`."""
    match arguments:
        case (_, Literal(str() as text)):
            parse_schema(text)
            return Call("from_json", (*arguments, Literal("")), span)
    raise InvalidLiteral("the schema of from_json() must be a string literal", _HINT)


def field_of(call: Call, name: str, span: Span) -> Expression:
    """A field of from_json(), or of a struct in it; names are found without regard to case."""
    text, schema, path = call.arguments
    names = _names(path)
    fields: str | Schema = parse_schema(str(schema.value) if isinstance(schema, Literal) else "")
    for each in names:
        assert not isinstance(fields, str)  # of a single value there is no from_json() any more
        fields = fields[each]
    assert not isinstance(fields, str)
    spelt = [key for key in fields if key.lower() == name.lower()]
    if len(spelt) != 1:
        which = "two fields" if spelt else "no field"
        raise InvalidLiteral(f"the schema of from_json() has {which} {name}", f"it has {', '.join(fields)}")
    found = fields[spelt[0]]
    names = (*names, spelt[0])
    if isinstance(found, str):
        return Call("json_field", (text, Literal(join_path(names)), Literal(found)), span)
    return Call("from_json", (text, schema, Literal(join_path(names))), span)


def _names(path: Expression) -> tuple[str, ...]:
    return split_path(str(path.value)) if isinstance(path, Literal) and path.value else ()


@lru_cache(maxsize=16)  # parsed again for each name on the way to a field
def parse_schema(text: str) -> Schema:
    """The types of the fields of a schema: `a INT, b STRING` or `STRUCT<a: INT, b: STRING>`."""
    if len(text) > MAX_SCHEMA_CHARACTERS:
        raise InvalidLiteral(f"a schema of from_json() has at most {MAX_SCHEMA_CHARACTERS:,} characters", _HINT)
    tokens = [found[1] for found in _TOKEN.finditer(text)]
    while tokens and not tokens[-1]:
        tokens.pop()
    reader = _SchemaReader(tokens)
    is_type = tokens[1:2] == ["<"]  # STRUCT<a: INT>, in place of its fields alone
    found = reader.type_of("its schema", 0) if is_type else reader.fields(0)
    if reader.at < len(tokens) or isinstance(found, str):
        raise InvalidLiteral(f"{text!r:.80} is no schema of from_json()", _HINT)
    return found


class _SchemaReader:
    """A reader of the tokens of a schema, from left to right."""

    def __init__(self, tokens: list[str]) -> None:
        self._tokens = [*tokens, ""]
        self.at = 0

    def fields(self, depth: int) -> Schema:
        """Fields with commas between them."""
        if depth > MAX_SCHEMA_DEPTH:
            raise InvalidLiteral(f"a schema of from_json() nests {MAX_SCHEMA_DEPTH} deep at most", _HINT)
        found: dict[str, str | Schema] = {}
        while True:
            name = self._name()
            if self._key() == ":":
                self.at += 1
            found[name] = self.type_of(name, depth)
            self._pass_over_attributes()
            if self._key() != ",":
                return found
            self.at += 1

    def type_of(self, name: str, depth: int) -> str | Schema:
        word = self._key()
        self.at += 1
        if word == "struct" and self._key() == "<":
            self.at += 1
            inner = self.fields(depth + 1)
            self._expect(">")
            return inner
        if word in ("array", "map"):
            raise InvalidLiteral(
                f"a condition takes no {word.upper()} from from_json(), and {name} is one",
                "write get_json_object(x, '$.a[0]')",
            )
        size = self._size() if self._key() == "(" else ""
        found = type_named(f"{word}{size}")
        if found not in FIELD_TYPES and not found.startswith("decimal"):
            known = ", ".join(FIELD_TYPES)
            raise InvalidLiteral(f"a condition takes no {found.upper()} from from_json()", f"it takes {known}, decimal")
        return found

    def _name(self) -> str:
        token = self._tokens[self.at]
        self.at += 1
        if token.startswith("`"):
            return token[1:-1].replace("``", "`")
        if not re.fullmatch(r"\w+", token):
            raise InvalidLiteral(f"a schema of from_json() has a name here, not {token!r}", _HINT)
        return token

    def _size(self) -> str:
        start = self.at
        while self._key() not in (")", ""):
            self.at += 1
        self._expect(")")
        return "".join(self._tokens[start : self.at])

    def _pass_over_attributes(self) -> None:
        """NOT NULL and COMMENT '…', which do not change what is read."""
        if self._key() == "not":
            self.at += 1
            self._expect("null")
        if self._key() == "comment":
            self.at += 2

    def _expect(self, key: str) -> None:
        if self._key() != key:
            raise InvalidLiteral(f"a schema of from_json() has {key!r} here, not {self._tokens[self.at]!r}", _HINT)
        self.at += 1

    def _key(self) -> str:
        return self._tokens[min(self.at, len(self._tokens) - 1)].lower()
