"""Conditions that differ only in their literals are parsed once.

For a shape that was seen before, the literals are filled into its template and nothing is parsed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, Final

from palio.errors import ParseError
from palio.filters.comparisons import is_only_text
from palio.filters.expressions.casting import zone_of
from palio.filters.filter import Filter
from palio.filters.tree import Node
from palio.languages.sql.asking import test_of
from palio.languages.sql.cutting import LONGEST, cut, find_literals
from palio.languages.sql.heads import Heads
from palio.languages.sql.literals import BadLiteral
from palio.languages.sql.lowering import Ask
from palio.languages.sql.parting import conjuncts_of
from palio.languages.sql.templates import Given, Template, join_templates, make_template

_MOST_SHAPES: Final = 2_048
LONGEST_SHAPE: Final = 4_096


class Shapes:
    """The templates of the shapes that were seen; a bounded number of them."""

    def __init__(self) -> None:
        self._templates: dict[str, Template | None] = {}
        self._once: set[str] = set()
        self.heads = Heads()

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
        if len(known) < len(parts):
            return None
        for part, template in zip(parts, known, strict=True):
            self.heads.learn(part, template)
        return known


SHAPES: Final = Shapes()


def _template(text: str) -> Template | None:
    try:
        return make_template(text, find_literals(text))
    except ParseError:  # which whoever reads the text itself will say better
        return None


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
        if len(text) > LONGEST or not (text.isascii() or _is_whole(text)):
            return None
        if timezone != "UTC" and zone_of(timezone) is None:
            return None
        quick = SHAPES.heads.read(text)
        if quick is not None:
            return Conjoined(*quick, timezone)
        found = cut(text)
        if found is None:
            return None
        shape, literals = found
        conjuncts = SHAPES.known_conjuncts(shape, text)
        template = SHAPES.known(shape, text) if conjuncts is None else None
        templates = conjuncts or ([] if template is None else [template])
        if not templates or len(literals) != sum([len(each.slots) for each in templates]):
            return None  # the second where a text has what stands for a literal in a shape
        try:
            parts = _read(templates, literals, timezone)
        except BadLiteral:
            return None
        return parts[0] if conjuncts is None else Conjoined(conjuncts, literals, timezone)

    def tree(self) -> Node:
        """The canonical tree of the condition."""
        return self.template.tree(self.given, self.timezone)

    def mentions(self, names: Set[str]) -> bool:
        """Whether one of these attributes is asked about."""
        return not self.template.names.isdisjoint(names)

    def holds(self, event: Mapping[str, Any]) -> bool:
        """Whether the condition is TRUE for an event of which no attribute has several values; makes no tree."""
        return test_of(self.template)(event, self.given, self.timezone)

    @property
    def needed(self) -> Sequence[str]:
        """Attributes without which an event does not match."""
        return self.template.needed

    def strings(self, most: int) -> Iterator[tuple[str, list[str]]]:
        """Attributes, each with strings, at most so many, of which it must be one."""
        for name, slots in self.template.equalities:
            if len(slots) <= most:
                found = [str(self.given[slot.index]) for slot in slots]
                if all(is_only_text(each, self.timezone) for each in found):
                    yield name, found

    def filter(self) -> Filter:
        """The same filter that parsing gives."""
        return Filter.of_canonical(
            self.tree(),
            lambda: self.template.node(self.given, self.timezone, Ask.FALSE),
            lambda: self.template.node(self.given, self.timezone),
        )


def _read(templates: Sequence[Template], literals: Sequence[str], timezone: str) -> list[Shaped]:
    """The conditions of some templates, whose literals follow each other."""
    found: list[Shaped] = []
    first = 0
    for template in templates:
        last = first + len(template.slots)
        found.append(Shaped(template, template.read(literals[first:last], timezone), timezone))
        first = last
    return found


class Conjoined:
    """A conjunction of conditions whose shapes are known, where that of the whole is new.

    Its literals are read when they are needed, which for most is never.
    """

    __slots__ = ("_literals", "_parts", "_templates", "_timezone")

    def __init__(self, templates: Sequence[Template], literals: Sequence[str], timezone: str) -> None:
        self._templates = templates
        self._literals = literals
        self._timezone = timezone
        self._parts: list[Shaped] | None = None

    @property
    def parts(self) -> list[Shaped]:
        if self._parts is None:
            self._parts = _read(self._templates, self._literals, self._timezone)
        return self._parts

    def tree(self) -> Node:
        return self._whole().tree()

    def mentions(self, names: Set[str]) -> bool:
        for template in self._templates:
            if not template.names.isdisjoint(names):
                return True
        return False

    def holds(self, event: Mapping[str, Any]) -> bool:
        for part in self.parts:
            if not part.holds(event):
                return False
        return True

    @property
    def needed(self) -> Sequence[str]:
        return [name for template in self._templates for name in template.needed]

    def strings(self, most: int) -> Iterator[tuple[str, list[str]]]:
        first = 0
        for template in self._templates:
            last = first + len(template.slots)
            if template.equalities:
                yield from _read([template], self._literals[first:last], self._timezone)[0].strings(most)
            first = last

    def filter(self) -> Filter:
        return self._whole().filter()

    def _whole(self) -> Shaped:
        given = [value for part in self.parts for value in part.given]
        return Shaped(join_templates(self._templates), given, self._timezone)


def _is_whole(text: str) -> bool:
    """Whether a text has no half of a character in it, which the lexer refuses."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
