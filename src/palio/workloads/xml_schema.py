"""Schemas of XML documents, read from a DTD or from XML Schema (XSD): which elements stand in which, and how often.

They are only used to make documents and patterns that could occur. So what concerns values is left out: types,
entities of text, keys, and namespaces. Of XSD, elements, groups, named types, extensions and references within one file
are read; wildcards (`xs:any`) are ignored.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Final

from palio.workloads.generated import WorkloadError
from palio.xml.document import Document
from palio.xml.document_parser import parse_document
from palio.xml.structure import SchemaStructure

UNBOUNDED: Final = 2**31
_XSD: Final = "http://www.w3.org/2001/XMLSchema"
_MAX_ENTITY_ROUNDS: Final = 32
_MAX_DTD_CHARACTERS: Final = 4 * 2**20
_OCCURRENCES: Final = {"": (1, 1), "?": (0, 1), "*": (0, UNBOUNDED), "+": (1, UNBOUNDED)}


@dataclass(frozen=True, slots=True)
class Particle:
    """A part of a content model: an element, or a sequence or choice of particles, that occurs some times."""

    name: str = ""
    """The element; empty for a sequence or a choice."""
    parts: tuple[Particle, ...] = ()
    is_choice: bool = False
    least: int = 1
    most: int = 1

    def elements(self) -> Iterator[str]:
        """The names of all elements in it, in the order of the schema."""
        if self.name:
            yield self.name
        for part in self.parts:
            yield from part.elements()


EMPTY_CONTENT: Final = Particle()


@dataclass(frozen=True, slots=True)
class ElementType:
    """What may stand in an element."""

    content: Particle
    attributes: tuple[str, ...] = ()
    has_text: bool = False


@dataclass(frozen=True)
class Schema:
    """Types of elements by name; `root` is the document element."""

    root: str
    types: Mapping[str, ElementType]

    def __post_init__(self) -> None:
        if self.root not in self.types:
            raise WorkloadError(f"the schema does not declare its document element {self.root!r}")

    @cached_property
    def children(self) -> Mapping[str, tuple[str, ...]]:
        """By element: the distinct elements that may stand in it, in the order of the schema."""
        return {
            name: tuple(dict.fromkeys(child for child in kind.content.elements() if child in self.types))
            for name, kind in self.types.items()
        }

    @cached_property
    def heights(self) -> Mapping[str, int]:
        """By element: the fewest levels below it that the elements it requires need."""
        heights = dict.fromkeys(self.types, 0)
        # Required elements cannot require each other in a circle, or no document would be valid.
        for _ in range(len(self.types)):
            changed = False
            for name, kind in self.types.items():
                height = self._height(kind.content, heights)
                if height > heights[name]:
                    heights[name], changed = height, True
            if not changed:
                return heights
        raise WorkloadError("elements of the schema require each other in a circle")

    @cached_property
    def structure(self) -> SchemaStructure:
        """What the schema allows, for estimates of similarity."""
        children = {
            name: frozenset((*kind.content.elements(), *(f"@{attribute}" for attribute in kind.attributes)))
            for name, kind in self.types.items()
        }
        opposed = {name: opposed_elements(kind.content) for name, kind in self.types.items()}
        with_text = frozenset(name for name, kind in self.types.items() if kind.has_text)
        return SchemaStructure(self.root, children, opposed, with_text)

    def _height(self, particle: Particle, heights: Mapping[str, int]) -> int:
        if not particle.least:
            return 0
        if particle.name:
            return 1 + heights.get(particle.name, 0)
        heights_of_parts = [self._height(part, heights) for part in particle.parts]
        return (min if particle.is_choice else max)(heights_of_parts, default=0)


def opposed_elements(content: Particle) -> frozenset[tuple[str, str]]:
    """Pairs of elements of which no valid content has both; one that occurs once at most is opposed to itself."""
    elements, together = _occurring(content)
    return frozenset((one, other) for one in elements for other in elements if (one, other) not in together)


def _occurring(particle: Particle) -> tuple[frozenset[str], set[tuple[str, str]]]:
    """The elements of a particle, and the pairs of them that occur together, as two nodes."""
    together: set[tuple[str, str]] = set()
    if particle.name:
        elements = frozenset((particle.name,))
    else:
        parts = [_occurring(part) for part in particle.parts if part.most]
        elements = frozenset(element for names, _ in parts for element in names)
        for place, (names, pairs) in enumerate(parts):
            together |= pairs
            for others, _ in () if particle.is_choice else parts[:place]:
                together.update((one, other) for one in names for other in others)
                together.update((other, one) for one in names for other in others)
    if particle.most > 1:
        together = {(one, other) for one in elements for other in elements}
    return elements, together


def read_dtd(text: str, root: str) -> Schema:
    """The schema of a DTD; parameter entities of its own are expanded, external ones ignored."""
    text = _expand_entities(re.sub(r"<!--.*?-->", "", text, flags=re.DOTALL))
    attributes: dict[str, list[str]] = {}
    for found in re.finditer(r"<!ATTLIST\s+(\S+)\s+([^>]*)>", text):
        # A name, a type and a default, for each attribute; types in parentheses and quoted defaults are one word.
        words = re.findall(r"\([^)]*\)|\"[^\"]*\"|'[^']*'|\S+", found[2])
        words = [word for word in words if word != "#FIXED" and word != "NOTATION"]
        attributes.setdefault(found[1], []).extend(words[::3])
    types = {}
    for found in re.finditer(r"<!ELEMENT\s+(\S+)\s+([^>]*)>", text):
        name, model = found[1], found[2].strip()
        content = EMPTY_CONTENT if model in ("EMPTY", "ANY") else _ContentModel(name, model).parse()
        types[name] = ElementType(content, tuple(attributes.get(name, ())), "#PCDATA" in model or model == "ANY")
    return Schema(root, types)


def _expand_entities(text: str) -> str:
    entities = dict(re.findall(r"<!ENTITY\s+%\s+(\S+)\s+[\"']([^\"']*)[\"']\s*>", text))
    text = re.sub(r"<!ENTITY[^>]*>", "", text)
    for _ in range(_MAX_ENTITY_ROUNDS):
        expanded = re.sub(r"%([^;\s]+);", lambda found: entities.get(found[1], ""), text)
        if expanded == text:
            return text
        if len(expanded) > _MAX_DTD_CHARACTERS:
            break
        text = expanded
    raise WorkloadError("the parameter entities of the DTD contain each other, or are too long")


class _ContentModel:
    """Parser of a content model of a DTD: `(a, (b | c)*, d?)`."""

    def __init__(self, element: str, model: str) -> None:
        self._element = element
        self._tokens: list[str] = re.findall(r"[(),|?*+]|[^\s(),|?*+]+", model)
        self._at = 0

    def parse(self) -> Particle:
        particle = self._particle()
        if self._at < len(self._tokens):
            raise self._error()
        return particle

    def _particle(self) -> Particle:
        token = self._next()
        if token != "(":
            least, most = self._occurrence()
            return EMPTY_CONTENT if token == "#PCDATA" else Particle(token, least=least, most=most)
        parts = [self._particle()]
        separator = self._next()
        is_choice = separator == "|"
        while separator in ",|":
            parts.append(self._particle())
            separator = self._next()
        if separator != ")":
            raise self._error()
        least, most = self._occurrence()
        kept = tuple(part for part in parts if part != EMPTY_CONTENT)
        return Particle(parts=kept, is_choice=is_choice, least=least, most=most)

    def _occurrence(self) -> tuple[int, int]:
        sign = self._tokens[self._at] if self._at < len(self._tokens) else ""
        if sign not in ("?", "*", "+"):
            return _OCCURRENCES[""]
        self._at += 1
        return _OCCURRENCES[sign]

    def _next(self) -> str:
        if self._at == len(self._tokens):
            raise self._error()
        self._at += 1
        return self._tokens[self._at - 1]

    def _error(self) -> WorkloadError:
        return WorkloadError(f"the content model of {self._element!r} cannot be read: {' '.join(self._tokens)}")


def read_xsd(data: bytes | str, root: str) -> Schema:
    """The schema of an XSD file; the files that it includes and imports are not read."""
    return _XsdReader(parse_document(data)).schema(root)


class _XsdReader:
    """Declarations of an XSD by kind and name, and the types made of them."""

    def __init__(self, document: Document) -> None:
        self._document = document
        self._global = {
            (document.name(child).local, name): child
            for child in document.children[0]
            if (name := self._attribute(child, "name")) is not None
        }
        self._types: dict[str, ElementType] = {}

    def schema(self, root: str) -> Schema:
        for kind, name in self._global:
            if kind == "element":
                self._add_type(name, self._global[kind, name])
        return Schema(root, self._types)

    def _attribute(self, element: int, name: str) -> str | None:
        document = self._document
        for attribute in document.attributes[element]:
            if document.names[document.attribute_tags[attribute]] == (name, ""):
                return document.attribute_values[attribute]
        return None

    def _add_type(self, name: str, declaration: int) -> None:
        if name in self._types:
            return
        self._types[name] = ElementType(EMPTY_CONTENT)  # known before it is made: types contain each other
        holder = declaration
        named = self._global.get(("complexType", _local(self._attribute(declaration, "type"))))
        if named is not None:
            holder = named
        inner = [each for each in self._document.children[declaration] if self._kind(each) == "complexType"]
        holder = inner[0] if inner else holder
        is_simple = not inner and named is None
        has_text = is_simple or self._attribute(holder, "mixed") == "true" or self._has(holder, "simpleContent")
        parts = tuple(self._content(holder, ()))
        attributes = tuple(dict.fromkeys(self._attributes(holder, ())))
        self._types[name] = ElementType(Particle(parts=parts), attributes, has_text)

    def _kind(self, element: int) -> str:
        local, namespace = self._document.name(element)
        return local if namespace == _XSD else ""

    def _has(self, element: int, kind: str) -> bool:
        return any(self._kind(child) == kind for child in self._document.children[element])

    def _content(self, holder: int, within: tuple[int, ...]) -> Iterator[Particle]:
        """The particles below a declaration; `within` are the declarations referred to on the way."""
        if holder in within:
            raise WorkloadError("groups or types of the schema contain each other")
        for child in self._document.children[holder]:
            kind = self._kind(child)
            least, most = self._occurs(child)
            if kind == "element":
                yield Particle(self._element_name(child), least=least, most=most)
            elif kind in ("sequence", "choice", "all"):
                parts = tuple(self._content(child, within))
                yield Particle(parts=parts, is_choice=kind == "choice", least=least, most=most)
            elif kind == "group":
                group = self._referred("group", self._attribute(child, "ref"))
                if group is not None:
                    parts = tuple(self._content(group, (*within, holder)))
                    yield Particle(parts=parts, least=least, most=most)
            elif kind in ("complexContent", "simpleContent", "extension", "restriction"):
                base = self._referred("complexType", self._attribute(child, "base"))
                if kind == "extension" and base is not None:
                    yield from self._content(base, (*within, holder))
                yield from self._content(child, within)

    def _attributes(self, holder: int, within: tuple[int, ...]) -> Iterator[str]:
        if holder in within:
            raise WorkloadError("attribute groups or types of the schema contain each other")
        for child in self._document.children[holder]:
            kind = self._kind(child)
            if kind == "attribute":
                name = self._attribute(child, "name")
                if name is not None:
                    yield name
            elif kind == "attributeGroup":
                group = self._referred("attributeGroup", self._attribute(child, "ref"))
                if group is not None:
                    yield from self._attributes(group, (*within, holder))
            elif kind in ("complexContent", "simpleContent", "extension", "restriction"):
                base = self._referred("complexType", self._attribute(child, "base"))
                if base is not None:
                    yield from self._attributes(base, (*within, holder))
                yield from self._attributes(child, within)

    def _element_name(self, element: int) -> str:
        name = self._attribute(element, "name")
        if name is None:
            return _local(self._attribute(element, "ref"))
        self._add_type(name, element)
        return name

    def _referred(self, kind: str, name: str | None) -> int | None:
        return self._global.get((kind, _local(name)))

    def _occurs(self, element: int) -> tuple[int, int]:
        least = self._attribute(element, "minOccurs") or "1"
        most = self._attribute(element, "maxOccurs") or "1"
        return int(least), UNBOUNDED if most == "unbounded" else int(most)


def _local(name: str | None) -> str:
    return (name or "").rpartition(":")[2]
