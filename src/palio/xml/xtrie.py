"""XTrie: filtering of XML documents by substrings of tree patterns (Chan et al., 2002; Chand §3.3).

A pattern is cut into substrings, the longest runs of names that follow one another by `/`. A table has a row for each
substring of each pattern, and a trie of all substrings finds those that end at an element. A row says how far below
its parent row it must stand, so that rows together find the pattern.

This is the classical structure, for comparison: in Python, one document event after the other. `PatternIndex` answers
the same questions some hundred times faster. Three things differ from the thesis. A row's level is relative to its
parent row as the text defines it, where the printed table differs by one. Equality of values is a test of the row like
the others, since the value of an element is all text in it here. And an element has all nodes of the trie whose
substrings end at it, in the place of the longest one and pointers to its suffixes: a name test that accepts any
namespace makes several of them the longest.

Branches match in any order, as XPath means them; `palio.xml.ordered_xtrie` is the variant for ordered trees.

Costs: a document takes the number of its nodes, times the suffixes of their paths in the trie and the rows of these.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import inf
from typing import ClassVar, Final

from palio.errors import InvalidArgument
from palio.xml.document import Document
from palio.xml.path_trie import is_exact
from palio.xml.pattern import Axis, Name, NodeKind, Pattern, PatternNode, ValueTest
from palio.xml.reference_matcher import ReferenceMatcher
from palio.xml.value_tests import passes

Label = tuple[NodeKind, Name]
NO_ROW: Final = -1


@dataclass(slots=True)
class Row:
    """One substring of a pattern."""

    pattern: int
    parent: int
    """The row above it, or `NO_ROW`."""
    least_level: int
    most_level: float
    """The levels of its last node below the last node of the parent row, or below the document node."""
    rank: int
    """The place among the children of its parent row, from 1."""
    labels: tuple[Label, ...]
    """The substring; empty for a `*` at which a pattern branches or ends."""
    kind: NodeKind
    """What its last node is: a row without a substring is found at every node of this kind."""
    tests: tuple[ValueTest, ...] = ()
    children: int = 0


@dataclass(slots=True)
class TrieNode:
    """A prefix of substrings."""

    edges: dict[Label, TrieNode] = field(default_factory=dict)
    rows: list[int] = field(default_factory=list)


class XTrie:
    """Patterns by number, cut into substrings."""

    ends_rows_at_siblings: ClassVar[bool] = False
    """Whether the first node of each of several branches ends a substring."""

    def __init__(self) -> None:
        self.rows: dict[int, Row] = {}
        self._patterns: dict[int, tuple[Pattern, list[int]]] = {}
        self._next_pattern = self._next_row = 0
        self._root = TrieNode()

    def __len__(self) -> int:
        return len(self._patterns)

    def add(self, pattern: Pattern) -> int:
        """Add a pattern and return its number."""
        number = self._next_pattern
        self._next_pattern += 1
        rows: list[int] = []
        for alternative in pattern.alternatives:
            if not alternative.is_never:
                top = self._add_row(Row(number, NO_ROW, 0, 0, 1, (), NodeKind.DOCUMENT), rows)
                branches = _downward(alternative.root)
                for rank, branch in enumerate(branches, 1):
                    self._cut(branch, number, top, 0, 0, (), rank, rows, len(branches) > 1)
        self._patterns[number] = pattern, rows
        return number

    def remove(self, number: int) -> None:
        """Remove a pattern with its rows."""
        if number not in self._patterns:
            raise InvalidArgument(f"there is no pattern {number} in this index")
        for row in self._patterns.pop(number)[1]:
            self._node(self.rows[row].labels).rows.remove(row)
            del self.rows[row]

    def match(self, document: Document) -> list[int]:
        """The numbers of all patterns that match a document, ascending."""
        found = self._filtering(document).run()
        matcher = ReferenceMatcher(document)
        kept = []
        for number in sorted(found):
            pattern = self._patterns[number][0]
            if all(map(is_exact, pattern.alternatives)) or matcher.matches(pattern):
                kept.append(number)
        return kept

    def _filtering(self, document: Document) -> Filtering:
        return Filtering(self.rows, self._root, document)

    def _cut(
        self,
        node: PatternNode,
        pattern: int,
        parent: int,
        least: int,
        most: float,
        run: tuple[Label, ...],
        rank: int,
        rows: list[int],
        has_siblings: bool = False,
    ) -> None:
        """Cut a pattern from a node downwards; `run` are the names before it that it continues."""
        if node.axis is Axis.DESCENDANT:
            most, run = inf, ()
        least, most = least + 1, most + 1
        is_named = _is_named(node)
        run = (*run, (node.kind, node.name)) if is_named else ()
        branches = _downward(node)
        if len(branches) == 1 and not node.tests and not (has_siblings and self.ends_rows_at_siblings):
            [below] = branches
            if not is_named or (below.axis is Axis.CHILD and _is_named(below)):
                self._cut(below, pattern, parent, least, most, run, rank, rows)
                return
        row = self._add_row(Row(pattern, parent, least, most, rank, run, node.kind, node.tests), rows)
        for place, branch in enumerate(branches, 1):
            self._cut(branch, pattern, row, 0, 0, run, place, rows, len(branches) > 1)

    def _add_row(self, row: Row, rows: list[int]) -> int:
        number = self._next_row
        self._next_row += 1
        self.rows[number] = row
        rows.append(number)
        if row.parent != NO_ROW:
            self.rows[row.parent].children += 1
        self._node(row.labels).rows.append(number)
        return number

    def _node(self, labels: tuple[Label, ...]) -> TrieNode:
        node = self._root
        for label in labels:
            node = node.edges.setdefault(label, TrieNode())
        return node


def _is_named(node: PatternNode) -> bool:
    return not node.name.is_any or node.kind is not NodeKind.ELEMENT


def _downward(node: PatternNode) -> list[PatternNode]:
    return [branch for branch in node.branches if branch.axis <= Axis.DESCENDANT]


class Filtering:
    """One pass over a document."""

    def __init__(self, rows: dict[int, Row], root: TrieNode, document: Document) -> None:
        self._rows = rows
        self._root = root
        self._document = document
        self.open: dict[int, dict[int, int]] = {}
        """By row: the levels at which it was found on the present path, and which of its children were found."""
        self._found: set[int] = set()

    def run(self) -> set[int]:
        self._start_node([self._root], NodeKind.DOCUMENT, 0, None)
        self._visit()
        return self._found

    def _visit(self) -> None:
        """Go through the document: start of an element, its attributes and texts, its children, its end."""
        document = self._document
        states: list[list[TrieNode]] = [[self._root]]
        pending = [(0, False)]
        opened: list[list[int]] = []
        while pending:
            element, is_end = pending.pop()
            if is_end:
                self._close(opened.pop(), len(states) - 1)
                states.pop()
                continue
            name = document.name(element)
            state = self._next_nodes(states[-1], NodeKind.ELEMENT, name)
            states.append(state)
            level = len(states) - 1
            opened.append(self._start_node(state, NodeKind.ELEMENT, level, element))
            self._visit_leaves(element, state, level + 1)
            pending.append((element, True))
            pending += [(child, False) for child in reversed(document.children[element])]

    def _visit_leaves(self, element: int, state: list[TrieNode], level: int) -> None:
        document = self._document
        for attribute in document.attributes[element]:
            name = document.names[document.attribute_tags[attribute]]
            reached = self._next_nodes(state, NodeKind.ATTRIBUTE, name)
            self._close(self._start_node(reached, NodeKind.ATTRIBUTE, level, attribute), level)
        for text in document.child_texts[element]:
            reached = self._next_nodes(state, NodeKind.TEXT, ("", ""))
            self._close(self._start_node(reached, NodeKind.TEXT, level, text), level)

    def _close(self, opened: list[int], level: int) -> None:
        for row in opened:
            del self.open[row][level]

    def _next_nodes(self, nodes: list[TrieNode], kind: NodeKind, name: tuple[str, str]) -> list[TrieNode]:
        """The nodes of the trie whose substrings end at a node with that name, below a node where others end."""
        reached = [
            below
            for node in nodes
            for (wanted, test), below in node.edges.items()
            if wanted is kind and test.accepts(*name)
        ]
        return [*reached, self._root]

    def _start_node(self, nodes: list[TrieNode], kind: NodeKind, level: int, node: int | None) -> list[int]:
        """Probe the rows of all substrings that end at a node; returns those that are open until its end."""
        opened = []
        for trie_node in nodes:
            for number in trie_node.rows:
                row = self._rows[number]
                if row.kind is not kind or row.pattern in self._found or not self._has_parent(row, level):
                    continue
                if row.tests and (node is None or not self._passes(row, node)):
                    continue
                if not row.children:
                    self._complete(number, level)
                elif level not in self.open.setdefault(number, {}):
                    self._open_row(number, level)
                    opened.append(number)
        return opened

    def _open_row(self, number: int, level: int) -> None:
        self.open[number][level] = 0

    def _has_parent(self, row: Row, level: int) -> bool:
        if row.parent == NO_ROW:
            return level == 0
        above = self.open.get(row.parent, {})
        return any(row.least_level <= level - each <= row.most_level for each in above)

    def _passes(self, row: Row, node: int) -> bool:
        document = self._document
        if row.kind is NodeKind.ELEMENT:
            text = document.string_value(node)
        else:
            text = document.attribute_values[node] if row.kind is NodeKind.ATTRIBUTE else document.texts[node]
        return all(passes(test, text) for test in row.tests)

    def _complete(self, number: int, level: int) -> None:
        """Mark a row at its parent row, and go on from that one if it has all its children."""
        row = self._rows[number]
        if row.parent == NO_ROW:
            self._found.add(row.pattern)
            return
        parent = self._rows[row.parent]
        for above, mask in list(self.open[row.parent].items()):
            if row.least_level <= level - above <= row.most_level and not mask & 1 << row.rank:
                mask |= 1 << row.rank
                self.open[row.parent][above] = mask
                if mask.bit_count() == parent.children:
                    self._complete(row.parent, above)
