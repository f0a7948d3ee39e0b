"""One filter in place of two: perfect, where it matches exactly what either does, or imperfect, where it is wider.

Merging keeps routing tables small (Jerzak §2.5.5). Value sets may have gaps, so two intervals on one attribute
always merge perfectly here; `slack` closes small gaps on purpose, trading exactness for a shorter filter.
"""

from __future__ import annotations

from fractions import Fraction

from palio.filters.intervals import Intervals
from palio.filters.kinds import KINDS, Kind, Position, float_at
from palio.filters.normal_form import conjoin, covering_conjunction, merge_conjunctions, normal
from palio.filters.relations import covers
from palio.filters.terms import NUMBERS, meaning, terms
from palio.filters.tree import EVERYTHING, NOTHING, Leaf, Node, Or
from palio.filters.values import ValueSet, union_of


def merge_perfect(first: Node, second: Node) -> Node | None:
    """The conjunction, or one of the two trees, that matches exactly what either does; None where there is none."""
    if isinstance(first, Or) or isinstance(second, Or):
        if covers(first, second):
            return first
        return second if covers(second, first) else None
    return merge_conjunctions(first, second)


def merge(first: Node, second: Node, slack: float) -> Node:
    """The narrowest conjunction of unions that covers both, or one of the two where it covers the other."""
    perfect = merge_perfect(first, second)
    if perfect is not None and slack == 0:
        return perfect
    parts = [part for part in (covering_conjunction(first), covering_conjunction(second)) if part is not None]
    if not parts:
        return NOTHING
    shared = [name for name in parts[0].leaves if all(name in part.leaves for part in parts)]
    leaves: list[Node] = []
    for name in shared:
        values = _unite([part.leaves[name] for part in parts])
        leaves.append(Leaf(name, _close_gaps(values, slack)))
    residuals = [each for each in parts[0].residuals if all(each in part.residuals for part in parts)]
    return normal(conjoin([*leaves, *residuals])) if leaves or residuals else EVERYTHING


def _unite(sets: list[ValueSet]) -> ValueSet:
    exact = union_of(sets)
    if exact is not None:
        return exact
    return union_of([ValueSet(each.parts) for each in sets]) or sets[0]


def _close_gaps(values: ValueSet, slack: float) -> ValueSet:
    """Fill the gaps that are at most `slack` of the whole extent, in each ordered kind."""
    if slack <= 0 or values.tests:
        return values
    closed = ValueSet(tuple(_close(kind, part, slack) for kind, part in zip(KINDS, values.parts, strict=True)))
    for kind in (Kind.DECIMAL, Kind.FLOAT):
        # Between 2 and 6 there are as many integers as decimals to fill; where the kinds of number said one thing,
        # they go on doing so.
        if _says_all(kind, values):
            numbers = meaning(terms(kind, closed.parts[kind]))
            return ValueSet(tuple((numbers if each in NUMBERS else closed).parts[each] for each in KINDS))
    return closed


def _says_all(kind: Kind, values: ValueSet) -> bool:
    """Whether comparisons made of one kind of number mean what the set does for all of them."""
    meant = meaning(terms(kind, values.parts[kind]))
    return all(meant.parts[each] == values.parts[each] for each in NUMBERS)


def _close(kind: Kind, part: Intervals, slack: float) -> Intervals:
    if kind not in (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT, Kind.DATE, Kind.TIMESTAMP) or len(part.cuts) < 2:
        return part
    places = [_place(kind, cut) for cut in part.cuts]
    extent = places[-1] - places[0]
    cuts = list(part.cuts)
    first_gap = 0 if part.inside else 1  # a gap opens at a cut that leaves the set
    for index in range(len(cuts) - 2, -1, -1):
        if (index - first_gap) % 2 == 0 and places[index + 1] - places[index] <= Fraction(slack) * extent:
            del cuts[index : index + 2]
    return Intervals(part.inside, tuple(cuts))


def _place(kind: Kind, cut: Position) -> Fraction:
    match kind:
        case Kind.DECIMAL:
            return Fraction(cut[0])
        case Kind.FLOAT:
            value = float_at(cut)
            return Fraction(value) if abs(value) < float("inf") else Fraction(10) ** (309 if value > 0 else 310)
    return Fraction(cut)
