"""Trie of the paths of patterns.

A node of the trie is a path from the document node: a sequence of steps with axis, kind and name. Patterns that begin
alike share nodes. A node knows the patterns that are that path and nothing else, the links that end at it
(`palio.xml.branch_table`), and the units with value tests.

A path has at most one `//`. Behind the second one of a pattern begins a path of its own, that may stand anywhere, and a
link finds what must stand above it. Otherwise the automaton would have to remember which of the elements above occur
in a path before a `//`, and would have a state for each set of them.

A name of a document becomes a symbol, the set of name tests that accept it. All names that no pattern mentions are one
symbol, so that the number of symbols is bounded by the patterns and not by the documents.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from palio.xml.branch_table import BranchTable
from palio.xml.document import ExpandedName
from palio.xml.join_kernels import ABOVE, AT_DEPTH, UP
from palio.xml.pattern import ANY_NAME, Axis, Name, NodeKind, Pattern, PatternNode
from palio.xml.value_groups import ValueGroup

ROOT_NODE: Final = 0
TEXT_SYMBOL: Final = 0
_MAX_KNOWN_NAMES: Final = 65_536
_AT_NODE, _AT_UNIT = 0, 1  # where a link ends
_RARITY_OF_TEST: Final = 1_000  # a value is rarer than any path


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a node of a pattern stands: the node of the trie, and how it was reached."""

    node: int = ROOT_NODE
    depth: int = 0
    """Steps from the document node, or from the `//` that the path begins with."""
    is_anywhere: bool = False
    """Whether there is a `//` before it, so that its depth in a document is not known."""


class PathTrie:
    """Paths, symbols and branches. It only grows."""

    def __init__(self) -> None:
        self.edges: tuple[list[dict[int, int]], list[dict[int, int]]] = ([{}], [{}])
        """By axis and node: the node after a step with a name test."""
        self.edge_kinds: tuple[list[int], list[int]] = ([0], [0])
        """By axis and node: a bit for each kind of node that its edges lead to."""
        self.patterns: list[list[int]] = [[]]
        self.links: list[list[int]] = [[]]
        self.searches: list[list[int]] = [[]]
        """By node: conjunctions to be looked for at elements that it is placed on."""
        self.values: dict[int, ValueGroup] = {}
        self.branches = BranchTable()
        self._tests: dict[tuple[int, Name], int] = {(int(NodeKind.TEXT), ANY_NAME): 0}
        self._tested_units: dict[tuple[int, tuple[object, ...]], int] = {}
        self.forget_symbols()

    def __len__(self) -> int:
        """The number of nodes."""
        return len(self.patterns)

    def add(self, pattern: Pattern, number: int) -> None:
        """Add the conjunction that a pattern implies under a number; several may have the same."""
        node, place, _ = self._follow(pattern.root, _Place(), 0)
        unit = self._unit(node, place)
        if unit is None:
            self.patterns[place.node].append(number)
        else:
            self.branches.add_pattern(unit, number)

    def _follow(self, node: PatternNode, place: _Place, steps: int) -> tuple[PatternNode, _Place, int]:
        """Follow a pattern from a node to where it ends, branches, is tested, or needs a path of its own.

        `steps` are those from the link's beginning, of which only the first may be a `//`; 0 for the first path.
        """
        is_first_path = not steps
        while True:
            branches = _downward(node)
            if len(branches) != 1 or _tests(node):
                return node, place, steps
            [below] = branches
            if below.axis is Axis.DESCENDANT and (place.is_anywhere or not is_first_path):
                return node, place, steps
            node, place, steps = below, self._step(place, below), steps + 1

    def _unit(self, node: PatternNode, place: _Place) -> int | None:
        """The unit of what is asked of a node that was followed to; None if that is nothing."""
        branches, tests = _downward(node), _tests(node)
        if not branches:
            return self._tested_unit(node, place) if tests else None
        links = {self._link(branch, place) for branch in branches}
        if tests:
            unit = self._tested_unit(node, place)
            links.add(self._link_to_unit(UP, 0, place, unit, _RARITY_OF_TEST))
        return self.branches.add_conjunction(place.node, frozenset(links), self.searches[place.node])

    def _tested_unit(self, node: PatternNode, place: _Place) -> int:
        key = (place.node, node.tests)
        unit = self._tested_units.get(key)
        if unit is None:
            unit = self._tested_units[key] = self.branches.add_unit()
            self.values.setdefault(place.node, ValueGroup()).add(unit, node.tests)
        return unit

    def _link(self, branch: PatternNode, start: _Place) -> int:
        """The link from a node that branches to the end of one of its branches."""
        kind = UP
        before = start
        if branch.axis is Axis.DESCENDANT:
            kind = ABOVE if start.is_anywhere else AT_DEPTH
            before = _Place() if start.is_anywhere else start
        node, place, steps = self._follow(branch, self._step(before, branch), 1)
        is_below_element = node.kind is not NodeKind.ELEMENT
        levels = start.depth
        if kind == UP:
            levels = steps - is_below_element
        elif kind == ABOVE:
            levels = steps - 1 - is_below_element
        unit = self._unit(node, place)
        if unit is not None:
            return self._link_to_unit(kind, levels, start, unit, _RARITY_OF_TEST if _tests(node) else place.depth)
        number, is_new = self.branches.add_link(kind, levels, start.node, (_AT_NODE, place.node), place.depth)
        if is_new:
            self.links[place.node].append(number)
        return number

    def _link_to_unit(self, kind: int, levels: int, start: _Place, unit: int, rarity: int) -> int:
        number, is_new = self.branches.add_link(kind, levels, start.node, (_AT_UNIT, unit), rarity)
        if is_new:
            self.branches.end_link_at(unit, number)
        return number

    def _step(self, place: _Place, to: PatternNode) -> _Place:
        axis, kind = int(to.axis), int(to.kind)
        test = self._tests.setdefault((kind, to.name), len(self._tests))
        edges = self.edges[axis][place.node]
        found = edges.get(test)
        if found is None:
            found = edges[test] = len(self)
            self.edge_kinds[axis][place.node] |= 1 << kind
            for lists in self.edges:
                lists.append({})
            for kinds in self.edge_kinds:
                kinds.append(0)
            self.patterns.append([])
            self.links.append([])
            self.searches.append([])
        return _Place(found, place.depth + 1, place.is_anywhere or to.axis is Axis.DESCENDANT)

    def forget_symbols(self) -> None:
        """Forget which tests accept a name, after tests were added."""
        self.accepted: list[tuple[int, ...]] = [(0,)]  # by symbol; that of text first
        self.symbol_kinds: list[int] = [int(NodeKind.TEXT)]
        self._symbols: dict[tuple[int, tuple[int, ...]], int] = {(int(NodeKind.TEXT), (0,)): TEXT_SYMBOL}
        self._known: dict[int, dict[ExpandedName, int]] = {int(NodeKind.ELEMENT): {}, int(NodeKind.ATTRIBUTE): {}}

    def symbols_of(self, kind: NodeKind, names: Sequence[ExpandedName]) -> array[int]:
        """The symbols of names."""
        known = self._known[kind]
        try:
            return array("i", [known[name] for name in names])
        except KeyError:
            pass
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


def _downward(node: PatternNode) -> list[PatternNode]:
    return [branch for branch in node.branches if branch.axis <= Axis.DESCENDANT]


def _tests(node: PatternNode) -> tuple[object, ...]:
    """The tests of a node, but not those of the whole document, which are checked apart (`is_exact`)."""
    return node.tests if node.kind is not NodeKind.DOCUMENT else ()


def is_exact(pattern: Pattern) -> bool:
    """Whether a pattern matches wherever the conjunction does that it implies, and need not be checked once more."""
    return pattern.is_conjunctive and not pattern.root.tests
