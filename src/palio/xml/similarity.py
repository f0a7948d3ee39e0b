"""Similarity of patterns by what is known of the structure of documents.

`similarity(one, other)` is the estimated probability that a document that matches the one pattern also matches the
other: the other is placed on the expansion of the one. Alternatives of one open step add up, redundant witnesses in
different steps count once, by the likeliest, and two branches on alternatives of the same step are unlikely together
(Chand §7.4). It is a prior for where no documents were seen yet; with documents, `palio.xml.similarity_sample` is
better.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import combinations, product
from typing import Final

from palio.xml.containment import contains
from palio.xml.expansion import ExpansionNode, expand
from palio.xml.pattern import Axis, NodeKind, Pattern, PatternNode, ValueTest
from palio.xml.structure import PathLabels, Structure
from palio.xml.synopsis import TEXT_LABEL, accepts_label
from palio.xml.value_tests import excludes, implies

UNDECIDED: Final = 0.05
"""The probability of a condition on a value, or of a branch, about which nothing is known (ε)."""
CONFLICT: Final = 0.05
"""The factor of two branches on alternatives of one step (γ)."""
_MAX_CHOICES: Final = 4_096
_MAX_BRANCHES: Final = 6


def similarity(one: Pattern, other: Pattern, structure: Structure) -> float:
    """The probability, between 0 and 1, that a document that matches one pattern matches the other."""
    if contains(other, one):
        return 1.0
    expansion = expand(one, structure)
    if expansion is None:
        return 0.0  # of no documents
    placement = _Placement(structure)
    return min(1.0, max(placement.alternative(each, expansion) for each in other.alternatives))


def proximity(one: Pattern, other: Pattern, structure: Structure) -> float:
    """Symmetric similarity: the mean of both directions; 1 for equivalent patterns."""
    return (similarity(one, other, structure) + similarity(other, one, structure)) / 2


class _Placement:
    """Placement of a pattern on an expansion; answers for pairs are kept, since paths meet again below `//`."""

    def __init__(self, structure: Structure) -> None:
        self._structure = structure
        self._known: dict[tuple[int, int], float] = {}
        self._kept: list[object] = []

    def alternative(self, pattern: Pattern, root: ExpansionNode) -> float:
        if pattern.is_never:
            return 0.0
        return self._below(pattern.root, root) * UNDECIDED ** len(pattern.root.others)

    def _below(self, asked: PatternNode, node: ExpansionNode) -> float:
        key = (id(asked), id(node))
        if key not in self._known:
            self._kept += (asked, node)
            branches = [each for each in asked.branches if each.axis <= Axis.DESCENDANT]
            self._known[key] = self._siblings(branches, node)
        return self._known[key]

    def _siblings(self, branches: Sequence[PatternNode], node: ExpansionNode) -> float:
        """The probability that all of some branches stand below a node."""
        if not branches:
            return 1.0
        missing = 1.0
        found: list[list[tuple[ExpansionNode, float]]] = []
        for branch in branches:
            candidates = self._candidates(branch, node)
            if candidates is None:
                missing *= self._unseen(branch, node.path, [each.label for each in node.children if each.is_certain])
            else:
                found.append(candidates)
        if not all(found):
            return 0.0
        if len(found) > _MAX_BRANCHES or math.prod(map(len, found)) > _MAX_CHOICES:
            return missing * math.prod(max(each.probability * weight for each, weight in some) for some in found)
        by_class: dict[tuple[int, ...], float] = {}
        for choice in product(*found):
            chosen = list(dict.fromkeys(each for each, _ in choice))
            weight = self._weight(chosen, node.path) * math.prod(weight for _, weight in choice)
            if weight:
                classes = tuple(each.node_class for each, _ in choice)
                by_class[classes] = by_class.get(classes, 0.0) + weight
        return missing * min(1.0, max(by_class.values(), default=0.0))

    def _weight(self, chosen: Sequence[ExpansionNode], path: PathLabels) -> float:
        weight = math.prod(each.probability for each in chosen)
        for one, other in combinations(chosen, 2):
            if self._structure.are_opposed(path, one.label, other.label):
                return 0.0
            if one.node_class == other.node_class:
                weight *= CONFLICT
        return weight

    def _candidates(self, branch: PatternNode, node: ExpansionNode) -> list[tuple[ExpansionNode, float]] | None:
        """The nodes that a branch may be placed on, and how likely its conditions are there; None for no such label."""
        is_seen = False
        found: dict[ExpansionNode, float] = {}
        for child in node.children:
            if accepts_label(branch.kind, branch.name, child.label):
                is_seen = True
                weight = _values_likely(child.tests, branch.tests) * UNDECIDED ** len(branch.others)
                if weight and (weight := weight * self._below(branch, child)):
                    found[child] = weight
            if branch.axis is Axis.DESCENDANT and child.children:
                below = self._candidates(branch, child)
                if below is not None:
                    is_seen = True
                    weight = self._siblings([branch], child)
                    if weight:
                        found[child] = max(found.get(child, 0.0), weight)
        return list(found.items()) if is_seen else None

    def _unseen(self, branch: PatternNode, path: PathLabels, certain: Sequence[str] = ()) -> float:
        """The probability of a branch about which the expansion says nothing, beside labels that are certain."""
        if branch.kind is NodeKind.TEXT and branch.axis is Axis.CHILD:
            has_text = bool(path) and self._structure.has_text(path)
            return UNDECIDED ** len(branch.tests) if has_text else 0.0
        return self._share(branch, path, 0, certain)

    def _share(self, branch: PatternNode, path: PathLabels, levels: int, certain: Sequence[str] = ()) -> float:
        best = 0.0
        for label in self._structure.weights(path):
            if any(self._structure.are_opposed(path, label, other) for other in certain):
                continue
            share = self._structure.share(path, label)
            share = UNDECIDED if share is None else share
            below = (*path, label)
            if accepts_label(branch.kind, branch.name, label) and label != TEXT_LABEL:
                likely = share * UNDECIDED ** (len(branch.tests) + len(branch.others))
                for each in branch.branches:
                    if each.axis <= Axis.DESCENDANT and likely:
                        likely *= self._unseen(each, below)
                best = max(best, likely)
            if branch.axis is Axis.DESCENDANT and share > best and levels < _MAX_UNSEEN_LEVELS:
                best = max(best, share * self._share(branch, below, levels + 1))
        return best


_MAX_UNSEEN_LEVELS: Final = 3


def _values_likely(given: Sequence[ValueTest], asked: Sequence[ValueTest]) -> float:
    """How likely a value that passes some tests passes others."""
    likely = 1.0
    for test in asked:
        if any(implies(each, test) for each in given):
            continue
        if any(excludes(each, test) for each in given):
            return 0.0
        likely *= UNDECIDED
    return likely
