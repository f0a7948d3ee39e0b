"""XSearch: containment of one pattern against a whole set, by a factorisation tree (Chand).

The tree has the patterns of the set overlaid, equal prefixes once, and each of its nodes has the set of patterns that
pass through it, as the bits of an integer. A search compares each node of the sought pattern with each node of the tree
at most once; unions and intersections of whole sets are single operations. What a search returns equals the loop of
`palio.xml.containment.contains` over all patterns.

* `contained(p)`: the patterns that p contains. It follows p and collects the patterns that have what p asks for.
* `containing(p)`: the patterns that contain p. It follows the tree and collects those that ask for more than p does.

The tree holds conjunctive patterns. What `or`, `not()` and upward axes ask for has no path to share: such patterns, and
searches with them, are compared one by one (`_others`).

Costs: adding and removing take the size of the pattern; a search takes (nodes of the tree) × (nodes of the pattern) at
most, each with one operation on a set of as many bits as there are patterns.
"""

from __future__ import annotations

from collections.abc import Iterator

from palio.xml.containment import contains, name_covers
from palio.xml.pattern import Axis, Name, NodeKind, Pattern, PatternNode, ValueTest
from palio.xml.value_tests import implies


class _TreeNode:
    """One node of the tree: axis, kind and name, the patterns through it, and the tests of those that have some."""

    __slots__ = ("axis", "children", "kind", "members", "name", "tests")

    def __init__(self, axis: Axis, kind: NodeKind, name: Name) -> None:
        self.axis = axis
        self.kind = kind
        self.name = name
        self.children: list[_TreeNode] = []
        self.members = 0
        """The numbers of the patterns through this node, as bits."""
        self.tests: dict[tuple[ValueTest, ...], int] = {}
        """The patterns by what they ask of the value here; those without tests are in none."""

    def fits(self, node: PatternNode) -> bool:
        return (self.axis, self.kind, self.name) == (node.axis, node.kind, node.name)


class FactorisationTree:
    """A set of patterns, and the searches for those that contain a pattern or are contained in it."""

    def __init__(self) -> None:
        self._root = _TreeNode(Axis.CHILD, NodeKind.DOCUMENT, Name())
        self._patterns: list[Pattern | None] = []
        self._numbers: dict[Pattern, int] = {}
        self._free: list[int] = []
        self._others: dict[Pattern, None] = {}
        """Patterns that are not conjunctive."""

    def __len__(self) -> int:
        return len(self._numbers) + len(self._others)

    def __contains__(self, pattern: object) -> bool:
        return pattern in self._numbers or pattern in self._others

    def __iter__(self) -> Iterator[Pattern]:
        yield from self._numbers
        yield from self._others

    @property
    def node_count(self) -> int:
        """The nodes of the tree, without its root."""
        return sum(1 for _ in _walk(self._root)) - 1

    def add(self, pattern: Pattern) -> None:
        """Add a pattern; one that is there already stays once."""
        if pattern in self:
            return
        if not pattern.is_conjunctive:
            self._others[pattern] = None
            return
        number = self._free.pop() if self._free else len(self._patterns)
        if number == len(self._patterns):
            self._patterns.append(None)
        self._patterns[number] = pattern
        self._numbers[pattern] = number
        self._insert(1 << number, self._root, pattern.root)

    def discard(self, pattern: Pattern) -> None:
        """Remove a pattern, if it is there."""
        self._others.pop(pattern, None)
        number = self._numbers.pop(pattern, None)
        if number is None:
            return
        self._remove(1 << number, self._root)
        self._patterns[number] = None
        self._free.append(number)

    def contained(self, pattern: Pattern) -> set[Pattern]:
        """The patterns of the set that a pattern is known to contain, itself included."""
        found = {each for each in self._others if contains(pattern, each)}
        if pattern.is_conjunctive:
            return found | self._members(_ContainedSearch().node(self._root, pattern.root))
        return found | {each for each in self._numbers if contains(pattern, each)}

    def containing(self, pattern: Pattern) -> set[Pattern]:
        """The patterns of the set that are known to contain a pattern, itself included."""
        found = {each for each in self._others if contains(each, pattern)}
        if pattern.is_conjunctive:
            failing = _ContainingSearch().node(self._root, pattern.root)
            return found | self._members(self._root.members & ~failing)
        return found | {each for each in self._numbers if contains(each, pattern)}

    def _insert(self, bit: int, place: _TreeNode, node: PatternNode) -> None:
        place.members |= bit
        if node.tests:
            place.tests[node.tests] = place.tests.get(node.tests, 0) | bit
        for branch in node.branches:
            # Equal siblings of one pattern go to different nodes: each is a condition of its own.
            child = next((each for each in place.children if not each.members & bit and each.fits(branch)), None)
            if child is None:
                child = _TreeNode(branch.axis, branch.kind, branch.name)
                place.children.append(child)
            self._insert(bit, child, branch)

    def _remove(self, bit: int, place: _TreeNode) -> None:
        place.members &= ~bit
        for tests, members in list(place.tests.items()):
            if members & bit:
                if members == bit:
                    del place.tests[tests]
                else:
                    place.tests[tests] = members & ~bit
        for child in place.children:
            if child.members & bit:
                self._remove(bit, child)
        place.children = [child for child in place.children if child.members]

    def _members(self, bits: int) -> set[Pattern]:
        found: set[Pattern] = set()
        # As text: each operation on the integer would copy all of its bits.
        digits = bin(bits)[:1:-1]
        number = digits.find("1")
        while number >= 0:
            pattern = self._patterns[number]
            assert pattern is not None
            found.add(pattern)
            number = digits.find("1", number + 1)
        return found


class _ContainedSearch:
    """One search for contained patterns; answers for pairs of nodes are kept, since paths meet again below `//`."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], int] = {}

    def node(self, place: _TreeNode, asked: PatternNode) -> int:
        """The patterns through a place whose node there asks for all that a node does."""
        found = place.members
        for test in asked.tests:
            found &= _with_test(place, test)
        for branch in asked.branches:
            if not found:
                break
            found &= self._branch(place, branch)
        return found

    def _branch(self, place: _TreeNode, branch: PatternNode) -> int:
        """The patterns that have, below a place, a branch that asks for all that this one does."""
        key = (id(place), id(branch))
        known = self._known.get(key)
        if known is None:
            known = 0
            for child in place.children:
                if _may_be_on(child, branch):
                    known |= self.node(child, branch)
                if branch.axis is Axis.DESCENDANT:
                    known |= self._branch(child, branch)
            self._known[key] = known
        return known


class _ContainingSearch:
    """One search for patterns that do not contain the sought one, of which the others do."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], int] = {}

    def node(self, place: _TreeNode, given: PatternNode) -> int:
        """The patterns through a place that ask for more there than a node of the sought pattern does."""
        failing = 0
        for tests, members in place.tests.items():
            if not all(any(implies(mine, test) for mine in given.tests) for test in tests):
                failing |= members
        for child in place.children:
            failing |= self._child(child, given)
        return failing

    def _child(self, child: _TreeNode, given: PatternNode) -> int:
        """The patterns through a node of the tree that finds no place below a node of the sought pattern."""
        key = (id(child), id(given))
        known = self._known.get(key)
        if known is None:
            known = child.members
            for branch in given.branches:
                if not known:
                    break
                if (
                    name_covers(child.name, branch.name)
                    and child.kind is branch.kind
                    and _reaches(child.axis, branch.axis)
                ):
                    known &= self.node(child, branch)
                if child.axis is Axis.DESCENDANT:
                    known &= self._child(child, branch)
            self._known[key] = known
        return known


def _may_be_on(child: _TreeNode, branch: PatternNode) -> bool:
    """Whether a branch of the wide pattern can be placed on a node of the tree."""
    return child.kind is branch.kind and name_covers(branch.name, child.name) and _reaches(branch.axis, child.axis)


def _reaches(wide: Axis, narrow: Axis) -> bool:
    """Whether a node on the narrow axis is one on the wide axis."""
    return wide is Axis.DESCENDANT or narrow is Axis.CHILD


def _with_test(place: _TreeNode, test: ValueTest) -> int:
    """The patterns that ask, at a place, for a value that passes a test."""
    found = 0
    for tests, members in place.tests.items():
        if any(implies(each, test) for each in tests):
            found |= members
    return found


def _walk(place: _TreeNode) -> Iterator[_TreeNode]:
    yield place
    for child in place.children:
        yield from _walk(child)
