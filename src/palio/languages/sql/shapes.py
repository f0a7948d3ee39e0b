"""Conditions that differ only in their literals are parsed once.

The *shape* of a condition is its text with every literal cut out and its kind left in its place; blanks and the case
of words stay as they are. For a shape that was seen before, the literals are filled into its template and nothing
is parsed. Cutting is done where the lexer would: a literal that stands inside a name, a comment or another literal
makes a shape whose literals the lexer does not find, and that has no template.

Two conditions of one shape are cut into the same tokens, because no kind of literal here can reach beyond its own
characters, whatever they are: a string ends at its quote, a number where something else than a letter, a digit or
a point follows. So what the parser says of the first holds for all.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from palio.errors import ParseError
from palio.filters.comparisons import is_only_text
from palio.filters.expressions.casting import zone_of
from palio.filters.filter import Filter
from palio.filters.tree import Node
from palio.languages.sql.asking import test_of
from palio.languages.sql.literals import BadLiteral
from palio.languages.sql.lowering import Ask
from palio.languages.sql.parting import conjuncts_of
from palio.languages.sql.templates import (
    DECIMAL,
    DOUBLE,
    INTEGER,
    STRING,
    Cut,
    Given,
    Template,
    join_templates,
    make_template,
)

LONGEST: Final = 20_000
"""Characters of a condition that is looked at for its shape."""
LONGEST_INTEGER: Final = 18
_MOST_SHAPES: Final = 2_048
LONGEST_SHAPE: Final = 4_096

# Possessive throughout, and a group nowhere repeated so, as in the lexer.
_LITERAL: Final = re.compile(
    r"""('[^'\\]*+(?:''[^'\\]*+)*'(?!')|"[^"\\]*+(?:""[^"\\]*+)*"(?!")"""
    r"""|(?<![\w.])[0-9]++(?:\.[0-9]++)?(?:[dD]|[eE][+-]?[0-9]++)?(?![\w.]))"""
)


def cut(text: str) -> tuple[str, list[str]] | None:
    """The shape of a condition and the literals that were cut out of it; None where it has no use."""
    if len(text) > LONGEST:
        return None
    pieces = _LITERAL.split(text)
    literals = pieces[1::2]
    for at, literal in enumerate(literals):
        kind = literal[0]
        if kind == "'" or kind == '"':
            kind = STRING
        elif literal.isdigit():
            if len(literal) > LONGEST_INTEGER:
                return None
            kind = INTEGER
        else:
            kind = DOUBLE if literal[-1] in "dD" or "e" in literal or "E" in literal else DECIMAL
        pieces[2 * at + 1] = kind
    shape = "".join(pieces)
    # A backslash changes where a string ends, and a comment what is one at all.
    return None if "\\" in shape or "--" in shape or "/*" in shape else (shape, literals)


class Shapes:
    """The templates of the shapes that were seen; a bounded number of them."""

    def __init__(self) -> None:
        self._templates: dict[str, Template | None] = {}
        self._once: set[str] = set()

    def template(self, shape: str, text: str) -> Template | None:
        """The template of a shape, made of one of its conditions; None where it has none."""
        if shape in self._templates:
            return self._templates[shape]
        made = _template(text) if len(shape) <= LONGEST_SHAPE else None
        if len(self._templates) >= _MOST_SHAPES:
            self._templates.clear()
        self._templates[shape] = made
        return made

    def known(self, shape: str, text: str) -> Template | None:
        """The same, but at first sight None: a template is made when its shape is seen again."""
        if shape not in self._templates and shape not in self._once:
            if len(self._once) >= _MOST_SHAPES:
                self._once.clear()
            if len(shape) <= LONGEST_SHAPE:
                self._once.add(shape)
            return None
        return self.template(shape, text)

    def known_conjuncts(self, shape: str, text: str) -> list[Template] | None:
        """The templates of the conjuncts of a conjunction whose own shape is new; None where they are not all known."""
        parts = None if shape in self._templates else conjuncts_of(shape)
        if parts is None:
            return None
        found = [self._templates.get(part) for part in parts]
        if None in found:
            texts = conjuncts_of(text)
            if texts is None or len(texts) != len(parts):
                return None
            found = [self.known(part, own) for part, own in zip(parts, texts, strict=True)]
        known = [template for template in found if template is not None]
        return known if len(known) == len(parts) else None


SHAPES: Final = Shapes()


def _template(text: str) -> Template | None:
    try:
        return make_template(text, find_literals(text))
    except ParseError:  # which whoever reads the text itself will say better
        return None


def find_literals(text: str) -> list[Cut]:
    """The kind, begin and end of every literal that is cut out."""
    found = cut(text)
    kinds = [mark for mark in found[0] if mark in (INTEGER, DECIMAL, DOUBLE, STRING)] if found else []
    spans = [each.span() for each in _LITERAL.finditer(text)]
    return [(kind, *span) for kind, span in zip(kinds, spans, strict=True)] if len(kinds) == len(spans) else []


class Shaped:
    """A condition whose shape is known: its template and the values of its literals. The filter is made on demand."""

    __slots__ = ("given", "template", "timezone")

    def __init__(self, template: Template, given: Given, timezone: str) -> None:
        self.template = template
        self.given = given
        self.timezone = timezone

    @classmethod
    def read(cls, text: str, timezone: str = "UTC") -> Shaped | Conjoined | None:
        """The condition of a text; None where its shape is new or has no template, or a literal has no value.

        A conjunction of a new shape is read by its conjuncts, where theirs are known.
        """
        found = cut(text)
        if found is None or not (text.isascii() or _is_whole(text)):
            return None
        if timezone != "UTC" and zone_of(timezone) is None:
            return None
        shape, literals = found
        conjuncts = SHAPES.known_conjuncts(shape, text)
        template = SHAPES.known(shape, text) if conjuncts is None else None
        templates = conjuncts or ([] if template is None else [template])
        if not templates or len(literals) != sum([len(each.slots) for each in templates]):
            return None  # the second where a text has what stands for a literal in a shape
        parts: list[Shaped] = []
        first = 0
        try:
            for each in templates:
                last = first + len(each.slots)
                parts.append(cls(each, each.read(literals[first:last], timezone), timezone))
                first = last
        except BadLiteral:
            return None
        return parts[0] if conjuncts is None else Conjoined(parts)

    def node(self) -> Node:
        """A tree for the condition, not always canonical, but cheap."""
        return self.template.quick_tree(self.given, self.timezone)

    def holds(self, event: Mapping[str, Any]) -> bool:
        """Whether the condition is TRUE for an event of which no attribute has several values; makes no tree."""
        return test_of(self.template)(event, self.given, self.timezone)

    def strings(self, most: int) -> tuple[str, list[str]] | None:
        """An attribute and strings, at most so many, of which it must be one; None where there is none such."""
        for name, slots in self.template.equalities:
            if len(slots) <= most:
                found = [str(self.given[slot.index]) for slot in slots]
                if all(is_only_text(each, self.timezone) for each in found):
                    return name, found
        return None

    def filter(self) -> Filter:
        """The same filter that parsing gives."""
        return Filter.of_canonical(
            self.template.tree(self.given, self.timezone),
            lambda: self.template.node(self.given, self.timezone, Ask.FALSE),
            lambda: self.template.node(self.given, self.timezone),
        )


class Conjoined:
    """A conjunction of conditions whose shapes are known, where that of the whole is new."""

    __slots__ = ("parts",)

    def __init__(self, parts: list[Shaped]) -> None:
        self.parts = parts

    def node(self) -> Node:
        return self._whole().node()

    def holds(self, event: Mapping[str, Any]) -> bool:
        return all(part.holds(event) for part in self.parts)

    def strings(self, most: int) -> tuple[str, list[str]] | None:
        return next((found for part in self.parts if (found := part.strings(most)) is not None), None)

    def filter(self) -> Filter:
        return self._whole().filter()

    def _whole(self) -> Shaped:
        given = [value for part in self.parts for value in part.given]
        return Shaped(join_templates([part.template for part in self.parts]), given, self.parts[0].timezone)


def _is_whole(text: str) -> bool:
    """Whether a text has no half of a character in it, which the lexer refuses."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
