"""Reference matcher: one document against any tree pattern, set at a time.

For every node of a pattern, the nodes of the document that it can be placed on are computed once, bottom up, as a
sorted list (Gottlob, Koch and Pichler, 2005). Whether an element has a branch below it is then a search in the list of
the branch: the descendants of an element are the numbers from its own to its end. The time is linear in the sizes of
the pattern and of the document, whatever `//` there are, apart from a logarithm.

It says what patterns mean, and answers for those that an index cannot decide alone. Lists are shared by all patterns
that are asked of one document, since many subscriptions have the same steps.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final, NamedTuple

from palio.xml.document import NO_PARENT, Document
from palio.xml.expression_evaluator import ExpressionEvaluator
from palio.xml.pattern import (
    And,
    Axis,
    Condition,
    Exists,
    FirstValue,
    Name,
    Named,
    NodeKind,
    Not,
    Or,
    Pattern,
    PatternNode,
    Residual,
    ValueTest,
)
from palio.xml.value_tests import passes

MAX_KEPT_NODES: Final = 2_000_000
"""Nodes in all lists that are kept for the next pattern; beyond that they are computed anew."""


class DocumentNode(NamedTuple):
    """A node of a document: its kind, and its number within the kind."""

    kind: NodeKind
    number: int


DOCUMENT_NODE: Final = DocumentNode(NodeKind.DOCUMENT, NO_PARENT)


class Placement:
    """The nodes of a document, all of one kind, that one node of a pattern can be placed on."""

    __slots__ = ("numbers", "owners")

    def __init__(self, numbers: Sequence[int], owners: Sequence[int]) -> None:
        self.numbers = numbers
        """Ascending, which is document order."""
        self.owners = frozenset(owners[number] for number in numbers)
        """The parents of these nodes; the document node is `NO_PARENT`."""


class ReferenceMatcher:
    """One document, and what is known of patterns on it."""

    def __init__(self, document: Document) -> None:
        self.document = document
        self._placements: dict[PatternNode, Placement] = {}
        self._kept = 0
        self._string_values: dict[int, str] = {}

    def matches(self, pattern: Pattern, max_steps: float = math.inf) -> bool:
        """Whether the document matches a pattern; `TooManySteps` where its residuals take more than that."""
        if self._kept > MAX_KEPT_NODES:
            self._placements.clear()
            self._kept = 0
        if pattern.has_residuals:
            self._evaluator.limit(max_steps)
        return self.fulfils(DOCUMENT_NODE, pattern.root)

    def fulfils(self, node: DocumentNode, asked: PatternNode) -> bool:
        """Whether a node fulfils all conditions of a node of a pattern, beside its axis, kind and name."""
        return (
            all(passes(test, self.string_value(node)) for test in asked.tests)
            and all(self.has_branch(node, branch) for branch in asked.branches)
            and all(self.holds(node, condition) for condition in asked.others)
        )

    def holds(self, node: DocumentNode, condition: Condition) -> bool:
        match condition:
            case Exists(branch):
                return self.has_branch(node, branch)
            case ValueTest():
                return passes(condition, self.string_value(node))
            case Named(name):
                return name.accepts(*self._name(node))
            case FirstValue(path, test):
                return passes(test, self._first_value(node, path))
            case Residual(_, expression):
                return self._evaluator.holds(expression, node.kind, node.number)
            case And(conditions):
                return all(self.holds(node, each) for each in conditions)
            case Or(conditions):
                return any(self.holds(node, each) for each in conditions)
            case Not(negated):
                return not self.holds(node, negated)

    def has_branch(self, node: DocumentNode, branch: PatternNode) -> bool:
        """Whether a node has a branch of a pattern."""
        if branch.kind is NodeKind.DOCUMENT:
            is_there = branch.axis is Axis.ANCESTOR or self._owner(node) == NO_PARENT
            return is_there and node.kind is not NodeKind.DOCUMENT and self.fulfils(DOCUMENT_NODE, branch)
        placed = self.placement(branch)
        match branch.axis:
            case Axis.CHILD:
                return node.kind <= NodeKind.ELEMENT and node.number in placed.owners
            case Axis.DESCENDANT:
                first, end = self._range_below(node, branch.kind)
                at = bisect_left(placed.numbers, first)
                return at < len(placed.numbers) and placed.numbers[at] < end
        return any(_is_in(above, placed.numbers) for above in self._above(node, branch.axis))

    def placement(self, asked: PatternNode) -> Placement:
        """The nodes that a node of a pattern can be placed on, wherever they are."""
        known = self._placements.get(asked)
        if known is None:
            numbers = [
                number
                for number in self._candidates(asked.kind, asked.name)
                if asked.is_bare or self.fulfils(DocumentNode(asked.kind, number), asked)
            ]
            known = self._placements[asked] = Placement(numbers, self._owners[asked.kind])
            self._kept += len(numbers) + 1
        return known

    def below(self, node: DocumentNode, asked: PatternNode) -> Iterator[DocumentNode]:
        """The nodes in the relation of the axis to a node, of the kind and name asked for, in document order.

        Their conditions are not looked at.
        """
        if asked.axis >= Axis.PARENT:
            if asked.kind is NodeKind.DOCUMENT:
                yield DOCUMENT_NODE
                return
            names = self._name_numbers(asked.name)
            for above in self._above(node, asked.axis):
                if above != NO_PARENT and self.document.tags[above] in names:
                    yield DocumentNode(NodeKind.ELEMENT, above)
            return
        first, end = self._range_below(node, asked.kind)
        numbers = self._candidates(asked.kind, asked.name)
        owners = self._owners[asked.kind]
        for at in range(bisect_left(numbers, first), bisect_left(numbers, end)):
            if asked.axis is Axis.DESCENDANT or owners[numbers[at]] == node.number:
                yield DocumentNode(asked.kind, numbers[at])

    def string_value(self, node: DocumentNode) -> str:
        """The text of a node: all text in an element, the value of an attribute."""
        match node.kind:
            case NodeKind.ATTRIBUTE:
                return self.document.attribute_values[node.number]
            case NodeKind.TEXT:
                return self.document.texts[node.number]
        element = max(node.number, 0)  # the text of the document is that of the document element
        if element not in self._string_values:
            self._string_values[element] = self.document.string_value(element)
        return self._string_values[element]

    def _first_value(self, node: DocumentNode, path: tuple[PatternNode, ...]) -> str:
        nodes = {node}
        for asked in path:
            # Each node once: below nested elements, paths meet again.
            nodes = {each for one in nodes for each in self.below(one, asked) if self.fulfils(each, asked)}
        return self.string_value(min(nodes)) if nodes else ""

    def _name(self, node: DocumentNode) -> tuple[str, str]:
        document = self.document
        tags = document.attribute_tags if node.kind is NodeKind.ATTRIBUTE else document.tags
        return document.names[tags[node.number]]

    def _owner(self, node: DocumentNode) -> int:
        return self._owners[node.kind][node.number]

    def _above(self, node: DocumentNode, axis: Axis) -> Iterator[int]:
        """The parent of a node, or all its ancestors, the nearest first, up to the document node."""
        if node.kind is NodeKind.DOCUMENT:
            return
        above = self._owner(node)
        yield above
        while axis is Axis.ANCESTOR and above != NO_PARENT:
            above = self.document.parents[above]
            yield above

    def _range_below(self, node: DocumentNode, kind: NodeKind) -> tuple[int, int]:
        """The numbers of the nodes of a kind below a node, from the first up to before the second."""
        document = self.document
        if node.kind is NodeKind.DOCUMENT:
            return 0, len(self._owners[kind])
        if node.kind is not NodeKind.ELEMENT:
            return 0, 0
        end = document.subtree_ends[node.number]
        match kind:
            case NodeKind.ELEMENT:
                return node.number + 1, end
            case NodeKind.ATTRIBUTE:
                owners = document.attribute_owners
                return bisect_left(owners, node.number), bisect_left(owners, end)
        return document.text_starts[node.number], self._text_ends[node.number]

    @cached_property
    def _evaluator(self) -> ExpressionEvaluator:
        return ExpressionEvaluator(self.document)

    @cached_property
    def _text_ends(self) -> list[int]:
        """By element: the number after that of the last text node in it, at any depth."""
        document = self.document
        counts = [0] * len(document)
        for owner in document.text_owners:
            counts[owner] += 1
        for element in range(len(document) - 1, 0, -1):
            counts[document.parents[element]] += counts[element]
        return [start + count for start, count in zip(document.text_starts, counts, strict=True)]

    @cached_property
    def _owners(self) -> dict[NodeKind, Sequence[int]]:
        document = self.document
        return {
            NodeKind.ELEMENT: document.parents,
            NodeKind.ATTRIBUTE: document.attribute_owners,
            NodeKind.TEXT: document.text_owners,
        }

    @cached_property
    def _numbers_by_tag(self) -> dict[NodeKind, dict[int, list[int]]]:
        """The elements and the attributes by the number of their name."""
        found: dict[NodeKind, dict[int, list[int]]] = {NodeKind.ELEMENT: {}, NodeKind.ATTRIBUTE: {}}
        for kind, tags in ((NodeKind.ELEMENT, self.document.tags), (NodeKind.ATTRIBUTE, self.document.attribute_tags)):
            for number, tag in enumerate(tags):
                found[kind].setdefault(tag, []).append(number)
        return found

    def _name_numbers(self, name: Name) -> set[int]:
        return {number for number, each in enumerate(self.document.names) if name.accepts(*each)}

    def _candidates(self, kind: NodeKind, name: Name) -> Sequence[int]:
        """All nodes of a kind and name, in document order."""
        if kind is NodeKind.TEXT or name.is_any:
            return range(len(self._owners[kind]))
        by_tag = self._numbers_by_tag[kind]
        if name.is_single:
            return by_tag.get(self._exact_names.get((name.local, name.namespace), -1), ())
        lists = [by_tag[tag] for tag in self._name_numbers(name) if tag in by_tag]
        return lists[0] if len(lists) == 1 else sorted(number for each in lists for number in each)

    @cached_property
    def _exact_names(self) -> dict[tuple[str | None, str | None], int]:
        return {(name.local, name.namespace): number for number, name in enumerate(self.document.names)}


def _is_in(number: int, numbers: Sequence[int]) -> bool:
    at = bisect_left(numbers, number)
    return at < len(numbers) and numbers[at] == number
