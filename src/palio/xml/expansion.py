"""Expansion of a pattern: the documents that match it, as a tree of concrete labels with probabilities.

Each node of the pattern becomes one node of the expansion, or, where a wildcard or `//` leaves it open, several
alternatives, of which one document has one. Alternatives of one pattern node are a *class*; their probabilities, given
the node above, add up to 1 (Chand §7.4). What cannot host the rest of the pattern is left out, and what is opposed to a
node that is certain, so that knowledge of the structure makes the others likelier.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import count
from typing import Final

from palio.xml.pattern import Axis, NodeKind, Pattern, PatternNode, ValueTest
from palio.xml.structure import PathLabels, Structure
from palio.xml.synopsis import TEXT_LABEL, accepts_label

MAX_NODES: Final = 4_000
MAX_DEPTH: Final = 16
LEAST_PROBABILITY: Final = 1e-3
"""Of a path that `//` is followed along; schemas may be recursive."""
_CERTAIN: Final = 1 - 1e-12


@dataclass(eq=False)
class ExpansionNode:
    """A concrete label; its probability given that the node above is there, and the pattern node it stands for."""

    label: str
    path: PathLabels
    node_class: int
    weight: float
    probability: float = 1.0
    tests: tuple[ValueTest, ...] = ()
    children: list[ExpansionNode] = field(default_factory=list)

    @property
    def is_certain(self) -> bool:
        return self.probability >= _CERTAIN


def expand(pattern: Pattern, structure: Structure) -> ExpansionNode | None:
    """The expansion of the conjunction that a pattern implies; None where no document of that structure matches."""
    expansion = _Expansion(structure)
    root = ExpansionNode("", (), -1, 1.0)
    if not expansion.host(pattern.root, root, 1.0) or not expansion.settle(root):
        return None
    return root


class _Expansion:
    def __init__(self, structure: Structure) -> None:
        self._structure = structure
        self._classes = count()
        self._left = MAX_NODES

    def host(self, asked: PatternNode, node: ExpansionNode, probability: float) -> bool:
        """Put all branches of a pattern node below a node; whether there is a place for each."""
        for branch in asked.branches:
            if branch.axis >= Axis.PARENT:
                continue
            alternatives = self._alternatives(branch, node, next(self._classes), probability)
            if not alternatives:
                return False
            _normalise(alternatives)
            node.children += alternatives
        return True

    def _alternatives(
        self, branch: PatternNode, node: ExpansionNode, node_class: int, probability: float
    ) -> list[ExpansionNode]:
        """The nodes that a branch may begin with below a node."""
        if branch.kind is NodeKind.TEXT and branch.axis is Axis.CHILD:
            has_text = bool(node.path) and self._structure.has_text(node.path)
            return [self._made(node, TEXT_LABEL, node_class, 1.0, branch)] if has_text else []
        found: list[ExpansionNode] = []
        weights = self._structure.weights(node.path)
        if branch.axis is Axis.DESCENDANT and probability <= LEAST_PROBABILITY:
            return []
        total = sum(weights.values())
        for label, weight in weights.items():
            if self._left <= 0:
                break
            likely = probability * weight / total if total else 0.0
            if accepts_label(branch.kind, branch.name, label):
                made = self._made(node, label, node_class, weight, branch)
                can_carry = not branch.tests or self._structure.has_text(made.path)
                if can_carry and self.host(branch, made, likely):
                    found.append(made)
            if branch.axis is Axis.DESCENDANT and not label.startswith("@") and len(node.path) < MAX_DEPTH:
                through = self._made(node, label, node_class, weight, None)
                below = self._alternatives(branch, through, node_class, likely)
                if below:
                    _normalise(below)
                    through.children = below
                    found.append(through)
        return found

    def _made(
        self, above: ExpansionNode, label: str, node_class: int, weight: float, asked: PatternNode | None
    ) -> ExpansionNode:
        self._left -= 1
        return ExpansionNode(
            label, (*above.path, label), node_class, weight, tests=() if asked is None else asked.tests
        )

    def settle(self, node: ExpansionNode) -> bool:
        """Remove what is opposed to what is certain, below a node; whether the node itself can be."""
        for child in list(node.children):
            if not self.settle(child) and not _remove(node, child):
                return False
        while (excluded := self._excluded(node)) is not None:
            if not _remove(node, excluded):
                return False
        return True

    def _excluded(self, node: ExpansionNode) -> ExpansionNode | None:
        for certain in node.children:
            if not certain.is_certain:
                continue
            for other in node.children:
                if (
                    other is not certain
                    and other.node_class != certain.node_class
                    and not _can_be_one(certain, other)
                    and self._structure.are_opposed(node.path, certain.label, other.label)
                ):
                    return other
        return None


def _can_be_one(one: ExpansionNode, other: ExpansionNode) -> bool:
    """Whether two nodes that are certain stand for one node of a document, as in `/a[b/c]/b/d`."""
    return one.label == other.label and one.is_certain and other.is_certain


def _remove(node: ExpansionNode, child: ExpansionNode) -> bool:
    """Remove an alternative; whether its class has another one."""
    node.children.remove(child)
    left = [each for each in node.children if each.node_class == child.node_class]
    _normalise(left)
    return bool(left)


def _normalise(alternatives: list[ExpansionNode]) -> None:
    total = sum(each.weight for each in alternatives)
    for each in alternatives:
        each.probability = each.weight / total
