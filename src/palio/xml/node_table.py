"""All nodes of a document in document order, as one table.

A `Document` has its elements, attributes and text nodes in arrays of their own. Positions and the axes of siblings need
them in one order, with comments and processing instructions: a node is its place in that order here, the document node
is 0, and the descendants of a node are the numbers behind it up to its end. Attributes stand right behind their
element.

Making the table costs about a microsecond a node, so it is made for a document only when an expression is evaluated.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final

from palio.xml.document import Document, ExpandedName
from palio.xml.pattern import Name

DOCUMENT, ELEMENT, ATTRIBUTE, TEXT, COMMENT, INSTRUCTION = range(6)
"""Kinds of nodes; the first four are those of `NodeKind`."""
_NO_NAME: Final = ExpandedName("")


class NodeTable:
    """Kind, number within its kind, parent and end of every node."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self.kinds: list[int] = [DOCUMENT]
        self.numbers: list[int] = [-1]
        self.parents: list[int] = [-1]
        self.places: tuple[list[int], ...] = ([], [], [], [])
        """By kind, of those up to TEXT, and number: the place of the node in the table."""
        self._fill()
        self.ends = self._ends()

    def __len__(self) -> int:
        return len(self.kinds)

    def place(self, kind: int, number: int) -> int:
        """The place of an element, attribute or text node, or of the document node."""
        return self.places[kind][number] if kind != DOCUMENT else 0

    def _fill(self) -> None:
        document = self.document
        elements = self.places[ELEMENT]
        attribute = text = aside = 0
        asides, texts, attributes = document.asides, len(document.texts), len(document.attribute_owners)
        for element in range(len(document) + 1):
            is_last = element == len(document)
            first_text = texts if is_last else document.text_starts[element]
            while True:
                is_due = aside < len(asides) and asides[aside].elements <= element
                if is_due and (asides[aside].texts <= text or text >= first_text):
                    owner = asides[aside].owner
                    kind = COMMENT if asides[aside].target is None else INSTRUCTION
                    self._add(kind, aside, 0 if owner < 0 else elements[owner])
                    aside += 1
                elif text < first_text:
                    self._add(TEXT, text, elements[document.text_owners[text]])
                    text += 1
                else:
                    break
            if is_last:
                return
            parent = document.parents[element]
            self._add(ELEMENT, element, 0 if parent < 0 else elements[parent])
            while attribute < attributes and document.attribute_owners[attribute] == element:
                self._add(ATTRIBUTE, attribute, elements[element])
                attribute += 1

    def _add(self, kind: int, number: int, parent: int) -> None:
        if kind <= TEXT:
            self.places[kind].append(len(self.kinds))
        self.kinds.append(kind)
        self.numbers.append(number)
        self.parents.append(parent)

    def _ends(self) -> list[int]:
        ends = list(range(1, len(self) + 1))
        parents = self.parents
        for node in range(len(self) - 1, 0, -1):
            if ends[node] > ends[parents[node]]:
                ends[parents[node]] = ends[node]
        return ends

    # --- axes, each in its own order ------------------------------------------------------------------------

    def nodes_on(self, axis: str, node: int) -> Sequence[int]:
        """The nodes of an axis from a node, the nearest first."""
        match axis:
            case "child":
                return list(self._children(node))
            case "attribute":
                return self._attributes(node)
            case "descendant":
                return self._below(node + 1, self.ends[node])
            case "descendant-or-self":
                return [node, *self._below(node + 1, self.ends[node])]
            case "self":
                return (node,)
            case "parent":
                return (self.parents[node],) if node else ()
            case "ancestor":
                return list(self._ancestors(node))
            case "ancestor-or-self":
                return [node, *self._ancestors(node)]
            case "following":
                return self._below(self.ends[node], len(self))
            case "preceding":
                above = set(self._ancestors(node))
                return [each for each in reversed(self._below(1, node)) if each not in above]
            case "following-sibling":
                return list(self._siblings_after(node))
            case "preceding-sibling":
                if self.kinds[node] == ATTRIBUTE or not node:
                    return ()
                children = self._children(self.parents[node])
                return [each for each in children if each < node][::-1]
        raise AssertionError(axis)

    def _children(self, node: int) -> Iterator[int]:
        kinds, ends = self.kinds, self.ends
        child, end = node + 1, ends[node]
        while child < end:
            if kinds[child] != ATTRIBUTE:
                yield child
            child = ends[child]

    def _attributes(self, node: int) -> Sequence[int]:
        end = node + 1
        if self.kinds[node] != ELEMENT:
            return ()
        while end < len(self) and self.kinds[end] == ATTRIBUTE:
            end += 1
        return range(node + 1, end)

    def _below(self, first: int, end: int) -> list[int]:
        kinds = self.kinds
        return [node for node in range(first, end) if kinds[node] != ATTRIBUTE]

    def _ancestors(self, node: int) -> Iterator[int]:
        while node:
            node = self.parents[node]
            yield node

    def _siblings_after(self, node: int) -> Iterator[int]:
        if self.kinds[node] == ATTRIBUTE or not node:
            return
        end = self.ends[self.parents[node]]
        node = self.ends[node]
        while node < end:
            yield node
            node = self.ends[node]

    # --- names and values ----------------------------------------------------------------------------------

    def accepted_tags(self, name: Name) -> frozenset[int]:
        """The numbers of the names that a name test accepts."""
        return frozenset(number for number, each in enumerate(self.document.names) if name.accepts(*each))

    def elements_between(self, tag: int, first: int, end: int) -> Sequence[int]:
        """The elements of one name from a place up to another."""
        places = self._elements_by_tag.get(tag, ())
        return places[bisect_left(places, first) : bisect_left(places, end)]

    @cached_property
    def _elements_by_tag(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for element, tag in enumerate(self.document.tags):
            found.setdefault(tag, []).append(self.places[ELEMENT][element])
        return found

    def tag(self, node: int) -> int:
        """The number of the name of an element or attribute."""
        tags = self.document.attribute_tags if self.kinds[node] == ATTRIBUTE else self.document.tags
        return tags[self.numbers[node]]

    def name(self, node: int) -> ExpandedName:
        """The name of a node, that of a processing instruction being its target."""
        kind = self.kinds[node]
        if kind in (ELEMENT, ATTRIBUTE):
            return self.document.names[self.tag(node)]
        return ExpandedName(self.document.asides[self.numbers[node]].target or "") if kind == INSTRUCTION else _NO_NAME

    def string_value(self, node: int) -> str:
        document, number = self.document, self.numbers[node]
        match self.kinds[node]:
            case 2:
                return document.attribute_values[number]
            case 3:
                return document.texts[number]
            case 4 | 5:
                return document.asides[number].data
        return document.string_value(max(number, 0))  # the text of the document is that of the document element
