"""Attribute set index: candidates for covering a filter, by attributes, listed values and width.

Covering is a relation of pairs, and a hundred thousand filters have five thousand million of them; so a filter is
compared only with those that could cover it. A conjunction can cover only filters with a condition on each of its
attributes, none of them wider than its own, and one that lists few values covers only filters that ask for one of
these. Of those that remain the widest are tried first.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from math import copysign, log1p
from typing import Any, Final, NamedTuple

from palio.filters.interval_hull import text_position
from palio.filters.kinds import Kind, Position
from palio.filters.normal_form import covering_conjunction
from palio.filters.tree import And, Leaf, Node, Or
from palio.filters.value_sets import ValueSet

_MAX_LISTED_VALUES: Final = 4  # a condition with more values is treated as a range
_MAX_ENUMERATED_ATTRIBUTES: Final = 10  # 1,024 subsets; of more attributes, all known sets are scanned
_MAX_ALTERNATIVES: Final = 16  # an OR of more is a candidate for everything
_WIDTH_TOLERANCE: Final = 1e-9


class _Summary(NamedTuple):
    """The width of a conjunction's condition on each attribute, and the conditions that list few values."""

    widths: Mapping[str, float]
    listed: Mapping[str, Sequence[Any]]
    width: float

    def may_cover(self, other: _Summary) -> bool:
        """Whether this could cover the other, which constrains all its attributes."""
        for name, width in self.widths.items():
            if width < other.widths[name] - _WIDTH_TOLERANCE:
                return False
        # The first value stands for all: this is a necessary condition, and the caller compares the filters.
        for name, values in self.listed.items():
            if name not in other.listed or other.listed[name][0] not in values:
                return False
        return True


class _Group(NamedTuple):
    """Filters on one set of attributes, by their listed values of one of them, the pivot; widest first."""

    pivot: str | None
    postings: defaultdict[Any, list[tuple[int, _Summary]]]


class AttributeSetIndex:
    """Groups filters by the set of attributes they constrain, as a bit set; finds those that could cover a filter."""

    def __init__(self, trees: Mapping[int, Node]) -> None:
        summaries_of = {number: _alternatives(tree) for number, tree in trees.items()}
        self._own = {number: each[0] for number, each in summaries_of.items() if not _has_or(trees[number])}
        entries = [(number, summary) for number, each in summaries_of.items() for summary in each]
        names = dict.fromkeys(name for _, summary in entries for name in summary.widths)
        self._bit = {name: 1 << place for place, name in enumerate(names)}
        distinct: defaultdict[str, set[Any]] = defaultdict(set)
        for _, summary in entries:
            for name, listed in summary.listed.items():
                distinct[name].update(listed)
        self._groups: defaultdict[int, dict[str | None, _Group]] = defaultdict(dict)
        for number, summary in entries:
            # The most selective pivot: the attribute with the most distinct listed values.
            pivot = max(summary.listed, key=lambda name: (len(distinct[name]), name), default=None)
            groups = self._groups[self._bits(summary.widths)]
            postings = groups.setdefault(pivot, _Group(pivot, defaultdict(list))).postings
            for value in [None] if pivot is None else summary.listed[pivot]:
                postings[value].append((number, summary))
        for groups in self._groups.values():
            for group in groups.values():
                for found in group.postings.values():
                    found.sort(key=lambda posting: -posting[1].width)
        self._within: dict[int, list[_Group]] = {}

    def candidates(self, own: int, tree: Node, max_looks: int = sys.maxsize) -> Iterator[int]:
        """The numbers of other filters that could cover one; in each group the widest first.

        After `max_looks` candidates they are no longer tested here: the caller gets each of them, and may stop.
        """
        wanted = self._own.get(own) or _probe(tree)
        if wanted is None:
            return
        seen = {own}
        looks = 0
        for pivot, postings in self._groups_within(self._bits(wanted.widths)):
            if pivot is not None and pivot not in wanted.listed:
                continue
            value = None if pivot is None else wanted.listed[pivot][0]
            for number, summary in postings.get(value, ()):
                # Postings are widest first: none of the rest is wide enough either.
                if summary.width < wanted.width - _WIDTH_TOLERANCE:
                    break
                looks += 1
                if number not in seen and (summary.may_cover(wanted) or looks > max_looks):
                    seen.add(number)
                    yield number

    def _bits(self, names: Iterable[str]) -> int:
        return sum(self._bit.get(name, 0) for name in names)

    def _groups_within(self, bits: int) -> list[_Group]:
        """The groups of filters that constrain no other attributes."""
        known = self._within.get(bits)
        if known is None:
            few = bits.bit_count() <= _MAX_ENUMERATED_ATTRIBUTES
            sets = _subsets(bits) if few else [each for each in self._groups if not each & ~bits]
            known = [group for each in sets if each in self._groups for group in self._groups[each].values()]
            self._within[bits] = known
        return known


def _subsets(bits: int) -> Iterator[int]:
    """All subsets of a set of bits."""
    subset = bits
    while subset:
        yield subset
        subset = (subset - 1) & bits
    yield 0


def _alternatives(tree: Node) -> list[_Summary]:
    """The summaries with which a filter may cover others: each alternative by itself."""
    if not isinstance(tree, Or):
        return [_summarise(_own_leaves(tree))]
    if len(tree.children) > _MAX_ALTERNATIVES:
        return [_summarise({})]
    return [_summarise(_own_leaves(child)) for child in tree.children]


def _probe(tree: Node) -> _Summary | None:
    """What holds for every event that a filter, or its first alternative, matches."""
    wider = covering_conjunction(tree.children[0] if isinstance(tree, Or) else tree)
    return None if wider is None else _summarise(wider.leaves)


def _has_or(tree: Node) -> bool:
    return isinstance(tree, Or) or any(isinstance(child, Or) for child in getattr(tree, "children", ()))


def _own_leaves(node: Node) -> dict[str, ValueSet]:
    children = node.children if isinstance(node, And) else (node,)
    return {child.attribute: child.values for child in children if isinstance(child, Leaf)}


def _summarise(conditions: Mapping[str, ValueSet]) -> _Summary:
    listed = {name: found for name, values in conditions.items() if (found := values.values(_MAX_LISTED_VALUES))}
    widths = {name: _width(values) for name, values in conditions.items()}
    # Relative to an unconstrained attribute, which counts as 0, so that sums over different attributes compare.
    return _Summary(widths, listed, sum(widths.values()) - len(Kind) * len(widths))


def _width(values: ValueSet) -> float:
    """The measure of a set: one that covers another is at least as wide, up to rounding."""
    total = 0.0
    for kind, part in zip(Kind, values.parts, strict=True):
        for low, high in part.spans() if part.cuts or part.inside else ():
            top = 1.0 if high is None else _place(kind, high)
            total += top - (0.0 if low is None else _place(kind, low))
    return total


def _place(kind: Kind, cut: Position) -> float:
    """A position between 0 and 1 that keeps the order of a kind."""
    if kind is Kind.STRING or kind is Kind.BYTES:
        return text_position(cut)
    number: int | Fraction = cut[0] if isinstance(cut, tuple) else cut
    try:
        size = float(number)
    except OverflowError:
        size = copysign(1e308, number)
    return 0.5 + copysign(log1p(abs(size)) / 1500, size)
