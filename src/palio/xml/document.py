"""XML document as flat arrays: elements, attributes and text nodes in document order.

The nodes are those of XPath's data model. Comments and processing instructions stand aside: they separate the text
before them from the text after them, and only expressions beyond tree patterns ask for them. Names are expanded: the
local name and the namespace, whatever the prefix is. A node is a number within its kind; there is no tree of objects.

    <a x="1">one<b/>two</a>        tags 0 1        attribute_owners 0         text_owners 0 0
                                   parents -1 0    attribute_values "1"       texts "one" "two"

`palio.xml.document_parser` makes documents.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final, NamedTuple

NO_PARENT: Final = -1
"""The parent of the document element."""
XML_NAMESPACE: Final = "http://www.w3.org/XML/1998/namespace"
"""Of the prefix xml."""


class ExpandedName(NamedTuple):
    """Local name and namespace of an element or attribute; the namespace is "" if there is none."""

    local: str
    namespace: str = ""

    def __str__(self) -> str:
        return f"{{{self.namespace}}}{self.local}" if self.namespace else self.local


class Aside(NamedTuple):
    """A comment or processing instruction."""

    owner: int
    """The element that it is in, or `NO_PARENT`."""
    elements: int
    """The elements that begin before it."""
    texts: int
    """The text nodes before it."""
    target: str | None
    """Of a processing instruction; None for a comment."""
    data: str


@dataclass(frozen=True)
class Document:
    """A parsed document. Its arrays are never changed."""

    names: Sequence[ExpandedName]
    """The distinct names of elements and attributes, by name number."""
    tags: array[int]
    """By element: the number of its name. Element 0 is the document element."""
    parents: array[int]
    """By element: its parent element, a smaller number, or `NO_PARENT`."""
    attribute_owners: array[int]
    """By attribute: its element; ascending."""
    attribute_tags: array[int]
    """By attribute: the number of its name."""
    attribute_values: Sequence[str]
    text_owners: array[int]
    """By text node: its parent element."""
    texts: Sequence[str]
    """By text node: its text, in document order; never empty, and possibly white space alone."""
    text_starts: array[int]
    """By element: the first text node after its start tag, wherever that is."""
    asides: Sequence[Aside] = ()
    """Comments and processing instructions, in document order."""

    def __len__(self) -> int:
        """The number of elements."""
        return len(self.tags)

    def name(self, element: int) -> ExpandedName:
        return self.names[self.tags[element]]

    @cached_property
    def children(self) -> Sequence[Sequence[int]]:
        """By element: its child elements, in document order."""
        return _grouped(self.parents, len(self))

    @cached_property
    def child_texts(self) -> Sequence[Sequence[int]]:
        """By element: its text nodes, in document order."""
        return _grouped(self.text_owners, len(self))

    @cached_property
    def attributes(self) -> Sequence[Sequence[int]]:
        """By element: its attributes."""
        return _grouped(self.attribute_owners, len(self))

    @cached_property
    def subtree_ends(self) -> array[int]:
        """By element: the number after that of its last descendant; the descendants of i are i + 1 … end - 1."""
        ends = array("i", range(1, len(self) + 1))
        parents = self.parents
        # Backwards, an element's end is final before it is handed to its parent.
        for element in range(len(self) - 1, 0, -1):
            parent = parents[element]
            if ends[element] > ends[parent]:
                ends[parent] = ends[element]
        return ends

    @cached_property
    def depths(self) -> array[int]:
        """By element: its depth, which is 1 for the document element."""
        depths = array("i", bytes(4 * len(self)))
        depths[0] = 1
        for element in range(1, len(self)):
            depths[element] = depths[self.parents[element]] + 1
        return depths

    def string_value(self, element: int) -> str:
        """All text within an element, at any depth, in document order."""
        first = last = self.text_starts[element]
        owners, end = self.text_owners, self.subtree_ends[element]
        # Texts within an element follow one another; the first one outside has a parent that is not in the subtree.
        while last < len(owners) and element <= owners[last] < end:
            last += 1
        return self.texts[first] if last == first + 1 else "".join(self.texts[first:last])

    def path(self, element: int) -> str:
        """The way from the document element to an element, for messages: `/article/body/sec[2]`.

        A number counts siblings of one name, and is left out for the first.
        """
        steps = [element]
        while self.parents[steps[-1]] != NO_PARENT:
            steps.append(self.parents[steps[-1]])
        steps.reverse()
        text = f"/{self.name(steps[0])}"
        for parent, child in pairwise(steps):
            tag = self.tags[child]
            place = sum(self.tags[each] == tag for each in self.children[parent] if each <= child)
            text += f"/{self.name(child)}" + (f"[{place}]" if place > 1 else "")
        return text


def _grouped(owners: array[int], count: int) -> list[list[int]]:
    """The numbers of nodes by their owner."""
    groups: list[list[int]] = [[] for _ in range(count)]
    for node, owner in enumerate(owners):
        if owner != NO_PARENT:
            groups[owner].append(node)
    return groups
