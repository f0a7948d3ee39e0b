"""Which filters could cover a given one? Those on its shelves, by attributes, values and width.

Covering is a relation of pairs, and a hundred thousand filters have five thousand million of them; so each is
compared only with those that could cover it. A conjunction can cover only what has a condition on each of its
attributes, none of them wider than its own, and one that lists few values only what asks for one of these. Of
those that remain the widest are tried first.
"""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from fractions import Fraction
from math import copysign, log1p
from typing import Any, Final, NamedTuple

from palio.filters.hulls import text_place
from palio.filters.kinds import Kind, Position
from palio.filters.normal_form import covering_conjunction
from palio.filters.tree import And, Leaf, Node, Or
from palio.filters.values import ValueSet

_FEW: Final = 4  # values that a filter may be filed under, each
_FEW_ATTRIBUTES: Final = 10  # of which all subsets are looked up
_MOST_ALTERNATIVES: Final = 16  # an OR of more is a candidate for everything
_ROUNDING: Final = 1e-9


class _Terms(NamedTuple):
    """One conjunction by attribute: how wide its conditions are, the short lists of values among them."""

    widths: Mapping[str, float]
    listed: Mapping[str, Sequence[Any]]
    width: float

    def may_cover(self, other: _Terms) -> bool:
        """Whether this could cover the other, which has all its attributes."""
        for name, width in self.widths.items():
            if width < other.widths[name] - _ROUNDING:
                return False
        for name, values in self.listed.items():
            if name not in other.listed or other.listed[name][0] not in values:
                return False
        return True


class _Shelf(NamedTuple):
    """Filters that ask for the same attributes, by the value of one of them where they list it."""

    pivot: str | None
    books: defaultdict[Any, list[tuple[int, _Terms]]]


class Shelves:
    """Filters where those that could cover a given one are found, by the set of attributes as bits."""

    def __init__(self, trees: Mapping[int, Node]) -> None:
        terms_of = {number: _alternatives(tree) for number, tree in trees.items()}
        self._own = {number: each[0] for number, each in terms_of.items() if not _has_or(trees[number])}
        entries = [(number, terms) for number, each in terms_of.items() for terms in each]
        names = dict.fromkeys(name for _, terms in entries for name in terms.widths)
        self._bit = {name: 1 << place for place, name in enumerate(names)}
        distinct: defaultdict[str, set[Any]] = defaultdict(set)
        for _, terms in entries:
            for name, listed in terms.listed.items():
                distinct[name].update(listed)
        self._shelves: defaultdict[int, dict[str | None, _Shelf]] = defaultdict(dict)
        for number, terms in entries:
            # Filed under the attribute that tells most filters apart.
            pivot = max(terms.listed, key=lambda name: (len(distinct[name]), name), default=None)
            shelves = self._shelves[self._bits(terms.widths)]
            books = shelves.setdefault(pivot, _Shelf(pivot, defaultdict(list))).books
            for value in [None] if pivot is None else terms.listed[pivot]:
                books[value].append((number, terms))
        for shelves in self._shelves.values():
            for shelf in shelves.values():
                for found in shelf.books.values():
                    found.sort(key=lambda book: -book[1].width)
        self._within: dict[int, list[_Shelf]] = {}

    def candidates(self, own: int, tree: Node, most_looks: int = sys.maxsize) -> Iterator[int]:
        """The numbers of other filters that could cover one; on each shelf the widest first.

        After so many looks they are no longer looked at here: whoever asked is told of each, and may stop.
        """
        wanted = self._own.get(own) or _probe(tree)
        if wanted is None:
            return
        seen = {own}
        looks = 0
        for pivot, books in self._shelves_within(self._bits(wanted.widths)):
            if pivot is not None and pivot not in wanted.listed:
                continue
            value = None if pivot is None else wanted.listed[pivot][0]
            for number, terms in books.get(value, ()):
                if terms.width < wanted.width - _ROUNDING:
                    break
                looks += 1
                if number not in seen and (terms.may_cover(wanted) or looks > most_looks):
                    seen.add(number)
                    yield number

    def _bits(self, names: Iterable[str]) -> int:
        return sum(self._bit.get(name, 0) for name in names)

    def _shelves_within(self, bits: int) -> list[_Shelf]:
        """The shelves of filters that ask for no other attributes."""
        known = self._within.get(bits)
        if known is None:
            few = bits.bit_count() <= _FEW_ATTRIBUTES
            sets = _subsets(bits) if few else [each for each in self._shelves if not each & ~bits]
            known = [shelf for each in sets if each in self._shelves for shelf in self._shelves[each].values()]
            self._within[bits] = known
        return known


def _subsets(bits: int) -> Iterator[int]:
    """All subsets of a set of bits."""
    subset = bits
    while subset:
        yield subset
        subset = (subset - 1) & bits
    yield 0


def _alternatives(tree: Node) -> list[_Terms]:
    """A filter as what it may cover with: each alternative by itself."""
    if not isinstance(tree, Or):
        return [_terms(_own_leaves(tree))]
    if len(tree.children) > _MOST_ALTERNATIVES:
        return [_terms({})]
    return [_terms(_own_leaves(child)) for child in tree.children]


def _probe(tree: Node) -> _Terms | None:
    """What is known of every event that a filter, or its first alternative, matches."""
    wider = covering_conjunction(tree.children[0] if isinstance(tree, Or) else tree)
    return None if wider is None else _terms(wider.leaves)


def _has_or(tree: Node) -> bool:
    return isinstance(tree, Or) or any(isinstance(child, Or) for child in getattr(tree, "children", ()))


def _own_leaves(node: Node) -> dict[str, ValueSet]:
    children = node.children if isinstance(node, And) else (node,)
    return {child.attribute: child.values for child in children if isinstance(child, Leaf)}


def _terms(conditions: Mapping[str, ValueSet]) -> _Terms:
    listed = {name: found for name, values in conditions.items() if (found := values.values(_FEW))}
    widths = {name: _width(values) for name, values in conditions.items()}
    # An attribute without a condition is as wide as can be, and counts as 0.
    return _Terms(widths, listed, sum(widths.values()) - len(Kind) * len(widths))


def _width(values: ValueSet) -> float:
    """How much of all values a set has: a set that covers another has at least its width, up to rounding."""
    total = 0.0
    for kind, part in zip(Kind, values.parts, strict=True):
        for low, high in part.spans() if part.cuts or part.inside else ():
            top = 1.0 if high is None else _place(kind, high)
            total += top - (0.0 if low is None else _place(kind, low))
    return total


def _place(kind: Kind, cut: Position) -> float:
    """A place between 0 and 1, in the order of a kind."""
    if kind is Kind.STRING or kind is Kind.BYTES:
        return text_place(cut)
    number: int | Fraction = cut[0] if isinstance(cut, tuple) else cut
    try:
        size = float(number)
    except OverflowError:
        size = copysign(1e308, number)
    return 0.5 + copysign(log1p(abs(size)) / 1500, size)
