"""Filter algebra on condition trees: SQL's NOT, set complement, LIKE patterns as value sets, and merging.

**Negation.** A condition on one attribute is FALSE within the kinds it names, outside its set: `x > 5` names numbers,
so its NOT is "x is a number and not above 5", and a missing `x` satisfies neither. Two-valued languages need the
complement instead, which a missing `x` satisfies.

**Patterns.** The strings that match an exact text or a prefix are an interval, which an index holds and every relation
decides exactly. Any other pattern stays a test. `strings_like` makes that choice for all languages.

**Merging** replaces two filters by one: perfect, where it matches exactly what either does, or imperfect, where it is
wider. It keeps routing tables small (Jerzak §2.5.5). Value sets may have gaps, so two intervals on one attribute always
merge perfectly here; `slack` closes small gaps on purpose, trading exactness for a shorter filter.
"""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from palio.filters.comparisons import comparison_terms, values_satisfying
from palio.filters.computed import computed_condition
from palio.filters.expressions.ast import Call, Expression
from palio.filters.kinds import KINDS, NUMBERS, Kind, Position, float_at
from palio.filters.like import LikePattern
from palio.filters.normal_form import conjoin, covering_conjunction, merge_conjunctions, normal
from palio.filters.relations import covers
from palio.filters.tree import EVERYTHING, NOTHING, And, Leaf, Node, Or, Residual, domain_of
from palio.filters.value_predicates import Computed, Like, Test
from palio.filters.value_sets import STRINGS, Intervals, ValueSet, union_of


def negation(node: Node) -> Node:
    """The tree that holds where the given one is FALSE."""
    match node:
        case And(children):
            return Or(tuple(negation(child) for child in children))
        case Or(children):
            return And(tuple(negation(child) for child in children))
        case Residual(expression, wants, timezone):
            return Residual(expression, not wants, timezone)
        case Leaf(attribute, values):
            # NOT (interval AND tests) is: outside the interval but of a named kind, or within and failing some test.
            outside = ValueSet(values.parts).complement().intersect(_named(values))
            failed = [domain_of(test).where([opposite(test)]) for test in values.tests]
            return Or(tuple(Leaf(attribute, each) for each in (outside, *failed)))


def complement(node: Node) -> Node:
    """The tree that holds where the given one is FALSE or NULL, for each choice of array elements."""
    match node:
        case And(children):
            return Or(tuple(complement(child) for child in children))
        case Or(children):
            return And(tuple(complement(child) for child in children))
        case Residual(expression, wants, timezone):
            return _not_as_wanted(expression, wants, timezone)
        case Leaf(attribute, values):
            failed = [_failing(attribute, test) for test in values.tests]
            return Or((Leaf(attribute, ValueSet(values.parts).complement()), *failed))


def _failing(attribute: str, test: Test) -> Node:
    if isinstance(test.pattern, Computed):
        return _not_as_wanted(test.pattern.expression, test.pattern.wants, test.pattern.timezone)
    other = opposite(test)
    return Leaf(attribute, domain_of(other).where([other]))


def _not_as_wanted(expression: Expression, wants: bool, timezone: str) -> Node:
    """The condition that a computed condition has the opposite truth value or is NULL."""
    match expression:
        case Call("istrue" | "isfalse" as function, (Call() as inner,)) if not wants:
            return computed_condition(inner, function == "istrue", timezone)
        case Call("isnull" | "isnotnull" | "istrue" | "isfalse") as never_null:
            return computed_condition(never_null, not wants, timezone)
    return computed_condition(Call("istrue" if wants else "isfalse", (expression,)), False, timezone)


def opposite(test: Test) -> Test:
    """The test that passes where the condition of this one is FALSE."""
    if isinstance(test.pattern, Computed):
        return Test(replace(test.pattern, wants=not test.pattern.wants))
    return Test(test.pattern, not test.wanted)


def strings_like(pattern: LikePattern, wanted: bool = True) -> ValueSet:
    """The strings that match a LIKE pattern or, where `wanted` is false, the strings that do not.

    An exact text and a prefix give an enumerable set, any other pattern a set with one test.
    """
    # Without regard to case, an interval is exact only where no other string has the same lower case.
    is_one_case = not (pattern.ignore_case and _has_case(pattern.text))
    if is_one_case and pattern.shape in ("exact", "prefix"):
        inside = ValueSet.points([pattern.text]) if pattern.shape == "exact" else ValueSet.prefix(pattern.text)
        return inside if wanted else STRINGS.intersect(inside.complement())
    test = Test(Like(pattern), wanted)
    return domain_of(test).where([test])


def _has_case(lowered: str) -> bool:
    """Whether a text in lower case may be the lower case of another text."""
    return not lowered.isascii() or lowered != lowered.upper()


def enumerable_union(*sets: ValueSet) -> ValueSet:
    """The union of sets without tests, which always exists."""
    union = union_of(sets)
    assert union is not None  # only sets with tests may have no union
    return union


def _named(values: ValueSet) -> ValueSet:
    """All values of the kinds that a set names; a set with null or missing names every kind."""
    if not (values.parts[Kind.NULL].is_empty and values.parts[Kind.MISSING].is_empty):
        return ValueSet.kinds(*KINDS)
    return ValueSet.kinds(*(kind for kind in KINDS if not values.parts[kind].is_empty))


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
    # With slack, a perfect merge is not the end: its gaps may be closed.
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
    common = set(parts[0].residuals).intersection(*(part.residuals for part in parts[1:]))
    residuals = [each for each in parts[0].residuals if each in common]
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
        # A gap may be closed among decimals and not among integers; where one term expressed all kinds of number
        # before, one term must express them afterwards.
        if _expresses_numbers(kind, values):
            numbers = values_satisfying(comparison_terms(kind, closed.parts[kind]))
            return ValueSet(tuple((numbers if each in NUMBERS else closed).parts[each] for each in KINDS))
    return closed


def _expresses_numbers(kind: Kind, values: ValueSet) -> bool:
    """Whether the terms of one kind of number express the set for all kinds of number."""
    meant = values_satisfying(comparison_terms(kind, values.parts[kind]))
    return all(meant.parts[each] == values.parts[each] for each in NUMBERS)


def _close(kind: Kind, part: Intervals, slack: float) -> Intervals:
    if kind not in (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT, Kind.DATE, Kind.TIMESTAMP) or len(part.cuts) < 2:
        return part
    places = [_position(kind, cut) for cut in part.cuts]
    extent = places[-1] - places[0]
    cuts = list(part.cuts)
    first_gap = 0 if part.inside else 1  # a gap opens at a cut that leaves the set
    # From the top, so that deleting two cuts leaves the lower indexes valid.
    for index in range(len(cuts) - 2, -1, -1):
        if (index - first_gap) % 2 == 0 and places[index + 1] - places[index] <= Fraction(slack) * extent:
            del cuts[index : index + 2]
    return Intervals(part.inside, tuple(cuts))


def _position(kind: Kind, cut: Position) -> Fraction:
    match kind:
        case Kind.DECIMAL:
            return Fraction(cut[0])
        case Kind.FLOAT:
            value = float_at(cut)
            # Two numbers beyond all floats: +∞, and above it NaN. No cut lies at -∞: that is the end of the kind.
            return Fraction(value) if abs(value) < float("inf") else Fraction(10) ** (309 if value > 0 else 310)
    return Fraction(cut)
