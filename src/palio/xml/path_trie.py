"""Trie of the paths of patterns, and their rows as arrays.

A node of the trie is a path from the document node: a sequence of steps with axis, kind and name. Patterns that begin
alike share nodes. A node knows the patterns that are that path and nothing else, the leaf rows of patterns that branch,
and the rows whose values are tested.

A name of a document becomes a symbol, the set of name tests that accept it. All names that no pattern mentions are one
symbol, so that the number of symbols is bounded by the patterns and not by the documents.
"""

from __future__ import annotations

from array import array
from typing import Final

import numpy as np

from palio.xml.automaton_kernels import CHECKED, FIXED, FREE, ROOT, TOP, RowArrays
from palio.xml.document import ExpandedName
from palio.xml.pattern import ANY_NAME, Axis, Name, NodeKind, Pattern
from palio.xml.pattern_rows import NO_ROW, PatternRow, Step, rows_of
from palio.xml.value_groups import ValueGroup

ROOT_NODE: Final = 0
TEXT_SYMBOL: Final = 0
_MAX_KNOWN_NAMES: Final = 65_536


class PathTrie:
    """Paths, symbols and rows. It only grows."""

    def __init__(self) -> None:
        self.edges: tuple[list[dict[int, int]], list[dict[int, int]]] = ([{}], [{}])
        """By axis and node: the node after a step with a name test."""
        self.edge_kinds: tuple[list[int], list[int]] = ([0], [0])
        """By axis and node: a bit for each kind of node that its edges lead to."""
        self.patterns: list[list[int]] = [[]]
        self.rows: list[list[int]] = [[]]
        self.values: dict[int, ValueGroup] = {}
        self.row_table = RowTable()
        self._tests: dict[tuple[int, Name], int] = {(int(NodeKind.TEXT), ANY_NAME): 0}
        self.forget_symbols()

    def __len__(self) -> int:
        """The number of nodes."""
        return len(self.patterns)

    def add(self, pattern: Pattern, number: int) -> None:
        """Add a pattern under a number; several may have the same. Costs some 10 µs a row."""
        base = len(self.row_table)
        nodes: list[int] = []
        for row in rows_of(pattern):
            node = self._node(row, nodes)
            nodes.append(node)
            self._add_row(row, node, base, number)

    def forget_symbols(self) -> None:
        """Forget which tests accept a name, after tests were added."""
        self.accepted: list[tuple[int, ...]] = [(0,)]  # by symbol; that of text first
        self.symbol_kinds: list[int] = [int(NodeKind.TEXT)]
        self._symbols: dict[tuple[int, tuple[int, ...]], int] = {(int(NodeKind.TEXT), (0,)): TEXT_SYMBOL}
        self._known: dict[int, dict[ExpandedName, int]] = {int(NodeKind.ELEMENT): {}, int(NodeKind.ATTRIBUTE): {}}

    def symbols_of(self, kind: NodeKind, names: list[ExpandedName]) -> array[int]:
        """The symbols of names."""
        known = self._known[kind]
        if len(known) > _MAX_KNOWN_NAMES:
            known.clear()  # names come from documents, and there may be any number of them
        for name in names:
            if name not in known:
                known[name] = self._symbol(int(kind), name)
        return array("i", [known[name] for name in names])

    def _symbol(self, kind: int, name: ExpandedName) -> int:
        local, namespace = name
        tests = (Name(local, namespace), Name(local, None), Name(None, namespace), ANY_NAME)
        found = (self._tests.get((kind, test)) for test in tests)
        accepted = tuple(test for test in found if test is not None)
        symbol = self._symbols.get((kind, accepted))
        if symbol is None:
            symbol = self._symbols[kind, accepted] = len(self.accepted)
            self.accepted.append(accepted)
            self.symbol_kinds.append(kind)
        return symbol

    def _node(self, row: PatternRow, nodes: list[int]) -> int:
        """The node of a row's path, made where it is missing."""
        node = ROOT_NODE if row.parent == NO_ROW else nodes[row.parent]
        for step in row.steps:
            node = self._next_node(node, step)
        return node

    def _next_node(self, node: int, step: Step) -> int:
        axis, kind, _ = step
        test = self._test(step)
        found = self.edges[axis][node].get(test)
        if found is None:
            found = self.edges[axis][node][test] = len(self)
            self.edge_kinds[axis][node] |= 1 << kind
            for lists in self.edges:
                lists.append({})
            for kinds in self.edge_kinds:
                kinds.append(0)
            self.patterns.append([])
            self.rows.append([])
        return found

    def _test(self, step: Step) -> int:
        _, kind, name = step
        return self._tests.setdefault((kind, name), len(self._tests))

    def _add_row(self, row: PatternRow, node: int, base: int, number: int) -> None:
        if row.parent == NO_ROW and not row.children and not row.tests:
            self.patterns[node].append(number)  # a path alone needs no row
            return
        if row.parent == NO_ROW:
            made = self.row_table.add_top(row, node, number)
        else:
            tests = [self._test(step) for step in row.steps]
            made = self.row_table.add_child(row, node, base + row.parent, tests)
        if row.tests:
            self.values.setdefault(node, ValueGroup()).add(made, row.tests)
        elif not row.children:
            self.rows[node].append(made)


class RowTable:
    """Rows of all patterns, as columns."""

    def __init__(self) -> None:
        self._links, self._levels, self._parents = array("i"), array("i"), array("i")
        self._bits, self._masks = array("q"), array("q")
        self._patterns, self._trie_nodes, self._heights = array("i"), array("i"), array("i")
        self._step_starts, self._step_axes, self._step_tests = array("i", [0]), array("i"), array("i")
        self.most_links = 0
        """The longest way from a row to one without a parent."""

    def __len__(self) -> int:
        return len(self._links)

    def add_top(self, row: PatternRow, node: int, pattern: int) -> int:
        """Add a row without a parent."""
        self._heights.append(0)
        return self._append(row, node, TOP, 0, NO_ROW, pattern)

    def add_child(self, row: PatternRow, node: int, parent: int, tests: list[int]) -> int:
        """Add a row below another one; `tests` are the name tests of the steps between."""
        axes = [axis for axis, _, _ in row.steps]
        if len(row.path) == len(row.steps):
            link = ROOT
        elif Axis.DESCENDANT not in axes:
            link = FIXED
        elif Axis.DESCENDANT in axes[1:]:
            link = CHECKED
            self._step_axes.extend(axes)
            self._step_tests.extend(tests)
        else:
            # Only the first step leads to any depth: the names of all others are known from the path.
            link = FREE
        is_below_element = bool(row.steps) and row.steps[-1][1] != NodeKind.ELEMENT
        height = self._heights[parent] + 1
        self._heights.append(height)
        self.most_links = max(self.most_links, height)
        return self._append(row, node, link, row.distance - is_below_element, parent, NO_ROW)

    def _append(self, row: PatternRow, node: int, link: int, levels: int, parent: int, pattern: int) -> int:
        self._links.append(link)
        self._levels.append(levels)
        self._parents.append(parent)
        self._bits.append(1 << row.rank)
        self._masks.append((1 << row.children) - 1)
        self._patterns.append(pattern)
        self._trie_nodes.append(node)
        self._step_starts.append(len(self._step_axes))
        return len(self) - 1

    def arrays(self) -> RowArrays:
        """The columns for the kernels; a copy."""
        columns = (
            self._links,
            self._levels,
            self._parents,
            self._bits,
            self._masks,
            self._patterns,
            self._trie_nodes,
            self._step_starts,
            self._step_axes,
            self._step_tests,
        )
        return RowArrays(*[np.array(column) for column in columns])
