"""Cache of templates by skeleton, and the conditions that are bound to them.

The design is in `templates`. Three lookups are tried, from the cheapest to the most general:

1. *Conjunct prefixes.* Most conjuncts end in a literal: `symbol = 'ACME'`, `price BETWEEN 100 AND 120`. Cut at its
   literals, a conjunction of such is a row of prefixes, `symbol = `, ` AND price BETWEEN `, ` AND `, and a conjunct is
   known by its first prefix and those expected after it. One dictionary lookup per literal, no skeleton is made.
2. *Skeleton of the whole text.*
3. *Skeletons of the conjuncts.* The attributes of a conjunction and their order make its skeleton, so that a thousand
   conjunctions may have a thousand skeletons; their conjuncts have a few.

Prefixes are learned only from conjunctions that were split the slow way, so that a row of known prefixes is one that
the parser splits in the same way.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence, Set
from typing import Any, Final, TypeAlias

from palio.errors import ParseError
from palio.filters.comparisons import reads_only_as_text
from palio.filters.expressions.ast import Expression
from palio.filters.expressions.text_cast import zone_of
from palio.filters.filter import Filter
from palio.filters.tree import Node
from palio.languages.grammar import MAX_CONDITIONS, InvalidLiteral
from palio.languages.sql.lowering import TruthTest
from palio.languages.sql.skeletons import (
    AND,
    LITERAL,
    MAX_SKELETON_CHARACTERS,
    MAX_TEMPLATE_CHARACTERS,
    is_bigint,
    locate_list,
    locate_literals,
    split_conjuncts,
    split_literals,
)
from palio.languages.sql.template_builder import make_template
from palio.languages.sql.template_evaluation import evaluator_of
from palio.languages.sql.template_parameters import INTEGER, STRING, Arguments, listed_values
from palio.languages.sql.templates import Template, join_templates

_MAX_TEMPLATES: Final = 2_048
_MAX_TEMPLATES_OF_SKELETON: Final = 64  # that differ in fixed literals
_MAX_PREFIXES: Final = 4_096
_MAX_CONJUNCTION_CHARACTERS: Final = 2 * MAX_CONDITIONS  # of a skeleton; a condition has two: no parser need count them
_MAX_EXACT_INTEGER: Final = 2**53  # beyond, an integer is rounded where it meets a float

# --- prefixes of conjuncts ----------------------------------------------------------------------------------

_PREFIX: Final = re.compile("[^\1-\4]*[\1-\4]")  # up to a mark of `LITERAL_MARKS`

_Conjunct = tuple[Template, list[str]]  # the template that a first prefix begins, and the prefixes expected after it


class ConjunctPrefixes:
    """Templates of conjuncts by the text before each of their literals; bounded in number."""

    def __init__(self) -> None:
        self._seen: set[str] = set()
        self._first: dict[str, _Conjunct] = {}
        self._after_and: dict[str, _Conjunct] = {}

    def learn(self, skeleton: str, template: Template) -> None:
        """Add a conjunct that was found in a conjunction."""
        if skeleton in self._seen or len(self._seen) >= _MAX_PREFIXES:
            return
        self._seen.add(skeleton)
        first, *others = _PREFIX.findall(skeleton) or [""]
        if first + "".join(others) != skeleton or len(others) + 1 != len(template.parameters):
            return  # it does not end in a literal, or a literal is no parameter
        # Only literals that always have a value: `match` does not read them.
        if all(each.is_total for each in template.parameters):
            self._first[first] = self._after_and[AND + first] = template, others

    def match(self, text: str) -> tuple[list[Template], list[str]] | None:
        """The templates of the conjuncts and all their literals; None where one is unknown, or there is one alone."""
        # Every known conjunct ends in a literal; with anything behind the last one, the text is none of theirs.
        if text[-1:] == ")" or "\\" in text:
            return None  # without looking for the literals of an IN list; and an escape may stand for no character
        pieces = LITERAL.split(text)
        literals = pieces[1::2]
        if pieces[-1] or len(literals) < 2:
            return None
        templates: list[Template] = []
        expected: list[str] = []
        known = self._first
        for before, literal in zip(pieces[::2], literals, strict=False):
            if literal[0] == "'":
                prefix = before + STRING
            elif literal.isdigit() and is_bigint(literal):
                prefix = before + INTEGER
            else:
                return None
            if expected:
                if prefix != expected[0]:
                    return None
                expected = expected[1:]
                continue
            found = known.get(prefix)
            if found is None:
                return None
            template, expected = found
            templates.append(template)
            known = self._after_and
        return None if expected else (templates, literals)


# --- cache -------------------------------------------------------------------------------------------------


class _FixedLiterals:
    """The literals of a skeleton by which the parser decides: conditions that differ in them have other templates."""

    def __init__(self, indexes: Sequence[int]) -> None:
        self._indexes = indexes
        self.templates = 0

    def key(self, skeleton: str, text: str) -> str:
        """The skeleton with these literals of a text behind it."""
        literals = LITERAL.findall(text)
        return "\0".join([skeleton, *(literals[each] if each < len(literals) else "" for each in self._indexes)])


class TemplateCache:
    """Templates by skeleton; bounded in number."""

    def __init__(self) -> None:
        self._templates: dict[str, Template | None] = {}
        self._fixed: dict[str, _FixedLiterals] = {}
        self._seen_once: set[str] = set()
        self.prefixes = ConjunctPrefixes()

    def template(self, skeleton: str, text: str) -> Template | None:
        """The template of a skeleton, made of one of its conditions; None where it has none."""
        if skeleton in self._templates:
            return self._templates[skeleton]
        fixed = self._fixed.get(skeleton)
        if fixed is not None:
            key = fixed.key(skeleton, text)
            if key in self._templates or fixed.templates >= _MAX_TEMPLATES_OF_SKELETON:
                return self._templates.get(key)
        made = _template(text) if len(skeleton) <= MAX_SKELETON_CHARACTERS else None
        # Cleared rather than evicted one by one: skeletons in use come back at once, and no order must be kept.
        if len(self._templates) >= _MAX_TEMPLATES:
            self._templates.clear()
            self._fixed.clear()
            fixed = None
        if made is not None and made.fixed and fixed is None:
            fixed = self._fixed[skeleton] = _FixedLiterals([each.index for each in made.fixed])
        if fixed is None:
            self._templates[skeleton] = made
        else:
            self._templates[fixed.key(skeleton, text)] = made
            fixed.templates += 1
        return made

    def template_if_repeated(self, skeleton: str, text: str) -> Template | None:
        """The template of a skeleton that was seen before; None at first sight: making one is a second parse."""
        if skeleton not in self._templates and skeleton not in self._fixed and skeleton not in self._seen_once:
            if len(self._seen_once) >= _MAX_TEMPLATES:
                self._seen_once.clear()
            # A longer one never gets a template, and would only take memory here.
            if len(skeleton) <= MAX_SKELETON_CHARACTERS:
                self._seen_once.add(skeleton)
            return None
        return self.template(skeleton, text)

    def conjunct_templates(self, skeleton: str, text: str, find: FindTemplate) -> list[Template] | None:
        """The templates of the conjuncts of a conjunction whose own skeleton is new; None unless `find` has all."""
        # Where the whole skeleton is in the cache, its entry decides, also if that is None.
        parts = None if skeleton in self._templates else split_conjuncts(skeleton)
        if parts is None:
            return None
        found = [self._templates.get(part) for part in parts]
        if None in found:
            texts = split_conjuncts(text)
            if texts is None or len(texts) != len(parts):
                return None
            found = [find(part, conjunct) for part, conjunct in zip(parts, texts, strict=True)]
        known = [template for template in found if template is not None]
        if len(known) < len(parts):
            return None
        for part, template in zip(parts, known, strict=True):
            self.prefixes.learn(part, template)
        return known


FindTemplate: TypeAlias = Callable[[str, str], Template | None]  # by skeleton and text: a method of `TemplateCache`

TEMPLATES: Final = TemplateCache()
"""The cache of this process. Threads may share it: every entry is complete when it is stored."""


def _template(text: str) -> Template | None:
    try:
        return make_template(text, locate_literals(text), locate_list(text))
    except ParseError:  # raised again, with the same text, by the parse that follows
        return None


class BoundTemplate:
    """A template with the values of its parameters: one condition. Its filter is made on demand."""

    __slots__ = ("arguments", "template", "timezone")

    def __init__(self, template: Template, arguments: Arguments, timezone: str) -> None:
        self.template = template
        self.arguments = arguments
        self.timezone = timezone

    @classmethod
    def read(cls, text: str, timezone: str = "UTC") -> BoundTemplate | BoundConjunction | None:
        """The condition of a text; None where its skeleton is new or has no template, or a literal has no value.

        For callers that need the filter: at first sight, parsing the text is cheaper than making a template of it.
        """
        return _bind_text(text, timezone, TEMPLATES.template_if_repeated)

    @classmethod
    def parse(cls, text: str, timezone: str = "UTC") -> BoundTemplate | BoundConjunction | None:
        """As `read`, but a template is made at first sight too.

        For callers that need no filter: of template and literals, an index is built and events are evaluated.
        """
        return _bind_text(text, timezone, TEMPLATES.template)

    def tree(self) -> Node:
        """The canonical tree of the condition."""
        return self.template.tree(self.arguments, self.timezone)

    @property
    def is_evaluable(self) -> bool:
        """Whether `holds` can be asked; else the tree must be."""
        return self.template.is_evaluable

    def mentions(self, names: Set[str]) -> bool:
        """Whether one of these attributes is asked about."""
        return not self.template.names.isdisjoint(names)

    def holds(self, event: Mapping[str, Any]) -> bool:
        """Whether the condition is TRUE for an event of which no attribute has several values; makes no tree."""
        return evaluator_of(self.template)(event, self.arguments, self.timezone)

    @property
    def needed(self) -> Sequence[str]:
        """Attributes without which an event does not match."""
        return self.template.needed

    def strings(self, most: int) -> Iterator[tuple[str, list[str]]]:
        """Attributes that must equal one of at most `most` strings, with these."""
        for name, parameters in self.template.equalities:
            found: list[str] = [*listed_values(parameters, self.arguments)]  # type: ignore[list-item]
            if len(found) <= most and all(reads_only_as_text(each, self.timezone) for each in found):
                yield name, found

    def computed_values(self, most: int) -> Iterator[tuple[Expression, list[Any]]]:
        """Expressions that must have one of at most `most` values, with these; equal ones are equal in Python too."""
        for expression, parameters in self.template.computed_equalities:
            found = [*listed_values(parameters, self.arguments)]
            if len(found) <= most and all(_is_equal_in_python(each, self.timezone) for each in found):
                yield expression, found

    def filter(self) -> Filter:
        """The filter that parsing the text gives."""
        return Filter.of_canonical(
            self.tree(),
            lambda: self.template.node(self.arguments, self.timezone, TruthTest.FALSE),
            lambda: self.template.node(self.arguments, self.timezone),
        )


def _bind_text(text: str, timezone: str, find: FindTemplate) -> BoundTemplate | BoundConjunction | None:
    if len(text) > MAX_TEMPLATE_CHARACTERS or not (text.isascii() or _is_unicode(text)):
        return None
    if timezone != "UTC" and zone_of(timezone) is None:
        return None
    # From the cheapest lookup to the most general; see the module's docstring.
    quick = TEMPLATES.prefixes.match(text) if len(text) <= _MAX_CONJUNCTION_CHARACTERS else None
    if quick is not None:
        return BoundConjunction(*quick, timezone)
    split = split_literals(text)
    if split is None:
        return None
    skeleton, literals = split
    if len(skeleton) > _MAX_CONJUNCTION_CHARACTERS:
        return None
    conjuncts = TEMPLATES.conjunct_templates(skeleton, text, find)
    template = find(skeleton, text) if conjuncts is None else None
    templates = conjuncts or ([] if template is None else [template])
    if template is not None and not template.accepts(len(literals)):
        return None  # where a string has a mark in it
    if not templates or (conjuncts and len(literals) != sum([len(each.parameters) for each in templates])):
        return None
    try:
        # Bound now even for a conjunction, so that a literal without a value is found here, not at the first event.
        parts = _bind(templates, literals, timezone)
    except InvalidLiteral:
        return None
    return parts[0] if conjuncts is None else BoundConjunction(conjuncts, literals, timezone)


def _bind(templates: Sequence[Template], literals: Sequence[str], timezone: str) -> list[BoundTemplate]:
    """Templates with their arguments; the literals of all follow each other."""
    if len(templates) == 1:
        return [BoundTemplate(templates[0], templates[0].parse_literals(literals, timezone), timezone)]
    found: list[BoundTemplate] = []
    first = 0
    for template in templates:
        last = first + len(template.parameters)
        found.append(BoundTemplate(template, template.parse_literals(literals[first:last], timezone), timezone))
        first = last
    return found


class BoundConjunction:
    """A conjunction of known conjuncts, where the skeleton of the whole is new.

    Its literals are parsed when they are needed, which for most is never.
    """

    __slots__ = ("_parts", "literals", "templates", "timezone")

    def __init__(self, templates: Sequence[Template], literals: Sequence[str], timezone: str) -> None:
        self.templates = templates
        self.literals = literals
        self.timezone = timezone
        self._parts: list[BoundTemplate] | None = None

    @property
    def parts(self) -> list[BoundTemplate]:
        if self._parts is None:
            self._parts = _bind(self.templates, self.literals, self.timezone)
        return self._parts

    def tree(self) -> Node:
        return self._whole().tree()

    @property
    def is_evaluable(self) -> bool:
        for template in self.templates:
            if not template.is_evaluable:
                return False
        return True

    def mentions(self, names: Set[str]) -> bool:
        for template in self.templates:
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
        return [name for template in self.templates for name in template.needed]

    def strings(self, most: int) -> Iterator[tuple[str, list[str]]]:
        first = 0
        for template in self.templates:
            last = first + len(template.parameters)
            if template.equalities:
                yield from _bind([template], self.literals[first:last], self.timezone)[0].strings(most)
            first = last

    def computed_values(self, most: int) -> Iterator[tuple[Expression, list[Any]]]:
        if any(template.computed_equalities for template in self.templates):
            for part in self.parts:
                yield from part.computed_values(most)

    def filter(self) -> Filter:
        return self._whole().filter()

    def _whole(self) -> BoundTemplate:
        arguments = [value for part in self.parts for value in part.arguments]
        return BoundTemplate(join_templates(self.templates), arguments, self.timezone)


def _is_equal_in_python(literal: Any, timezone: str) -> bool:
    """Whether every value that SQL finds equal to a literal is equal to it in Python, whatever its kind."""
    if isinstance(literal, str):
        return reads_only_as_text(literal, timezone)
    return isinstance(literal, int) and abs(literal) <= _MAX_EXACT_INTEGER


def _is_unicode(text: str) -> bool:
    """Whether a text has no lone surrogate, which the lexer refuses."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
