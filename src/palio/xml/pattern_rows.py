"""Decomposition of tree patterns into rows: paths that end where a pattern branches or ends.

XTrie cuts a pattern into substrings and links them in a table (Chan, Felber, Garofalakis and Rastogi, 2002; Chand
§3.2). A row of this table is a node of the pattern that branches, or a leaf, with its path from the document node. The
paths of all patterns share one trie, so that the automaton finds all leaves whose paths occur in a document; the rows
above them say which of these belong together.

    /a[b/c]//d      row 0   /a         2 children
                    row 1   /a/b/c     child of row 0, two levels below
                    row 2   /a//d      child of row 0, at any depth below

Value tests stand at leaves only. Those of a node with branches become a leaf of their own, at the same node.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from palio.xml.pattern import Axis, Name, NodeKind, Pattern, PatternNode, ValueTest

MAX_CHILDREN: Final = 60
"""Children of a row, which has a bit for each; of a node with more branches, rows at the same node share them."""

Step: TypeAlias = tuple[int, int, Name]
"""Axis, kind and name of a node of a pattern."""
NO_ROW: Final = -1


@dataclass(slots=True)
class PatternRow:
    """One row of a pattern; a leaf if it has no children."""

    path: tuple[Step, ...]
    """All steps from the document node."""
    parent: int
    """The number of the parent row within the pattern, smaller than its own, or `NO_ROW`."""
    distance: int
    """The number of steps from the parent row."""
    rank: int
    """The place among the children of the parent row."""
    children: int = 0
    tests: tuple[ValueTest, ...] = ()

    @property
    def steps(self) -> tuple[Step, ...]:
        """The steps from the parent row."""
        return self.path[len(self.path) - self.distance :]


def rows_of(pattern: Pattern) -> list[PatternRow]:
    """The rows of the conjunction that a pattern implies: all of it, if it is conjunctive."""
    rows: list[PatternRow] = []
    _Decomposition(rows).add(pattern.root, (), NO_ROW, 0)
    return rows


def is_exact(pattern: Pattern) -> bool:
    """Whether a pattern matches wherever its rows do, and need not be checked once more."""
    return pattern.is_conjunctive and not pattern.root.tests


class _Decomposition:
    """Rows of one pattern in the making."""

    def __init__(self, rows: list[PatternRow]) -> None:
        self._rows = rows

    def add(self, node: PatternNode, path: tuple[Step, ...], parent: int, distance: int) -> None:
        """Add the rows of a node and of all below it."""
        branches = [each for each in node.branches if each.axis <= Axis.DESCENDANT]
        tests = node.tests if node.kind is not NodeKind.DOCUMENT else ()
        while len(branches) == 1 and not tests:
            # A node that neither branches nor ends is only a step.
            node, distance = branches[0], distance + 1
            path = (*path, _step(node))
            branches = [each for each in node.branches if each.axis <= Axis.DESCENDANT]
            tests = node.tests
        if not branches:
            self._row(path, parent, distance).tests = tests
            return
        row = len(self._rows)
        self._row(path, parent, distance)
        parts: list[PatternNode | None] = [None, *branches] if tests else [*branches]
        for group, under in self._groups(parts, path, row):
            for branch in group:
                if branch is None:
                    self._row(path, under, 0).tests = tests
                else:
                    self.add_branch(branch, path, under)

    def add_branch(self, branch: PatternNode, path: tuple[Step, ...], parent: int) -> None:
        """Add a branch of a row."""
        inner = PatternNode(Axis.CHILD, NodeKind.DOCUMENT, branches=(branch,))  # so that the branch is its first step
        self.add(inner, path, parent, 0)

    def _row(self, path: tuple[Step, ...], parent: int, distance: int) -> PatternRow:
        rank = 0
        if parent != NO_ROW:
            rank = self._rows[parent].children
            self._rows[parent].children += 1
        made = PatternRow(path, parent, distance, rank)
        self._rows.append(made)
        return made

    def _groups(
        self, parts: list[PatternNode | None], path: tuple[Step, ...], row: int
    ) -> Iterator[tuple[list[PatternNode | None], int]]:
        """Parts of a node, with the row that is their parent: the node's own, or one more at the same node for each."""
        if len(parts) <= MAX_CHILDREN:
            yield parts, row
            return
        size = -(-len(parts) // MAX_CHILDREN)
        for first in range(0, len(parts), size):
            under = len(self._rows)
            self._row(path, row, 0)
            yield from self._groups(parts[first : first + size], path, under)


def _step(node: PatternNode) -> Step:
    return int(node.axis), int(node.kind), node.name
