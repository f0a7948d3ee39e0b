"""Normal form of condition trees: one representation per meaning, as far as that can be decided cheaply.

Conditions on one attribute are combined when the filter is built (Jerzak §4.2.1 does this for conjunctions);
unsatisfiable parts disappear; a small tree is brought to a minimal disjunction of conjunctions, so that equality and
covering are independent of distribution. A large tree keeps its structure: real rules have disjunctive forms of 10^10
terms.

A conjunction is an `And` of one leaf per attribute, in the order of names, then residuals. For conjunctions of
enumerable sets this form is unique, so equality of trees is equality of meaning.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice, permutations
from typing import Final

from palio.filters.covering_candidates import CoveringCandidates, are_unrelated_patterns
from palio.filters.kinds import KINDS, Kind
from palio.filters.relations import covers
from palio.filters.tree import EVERYTHING, NOTHING, And, Leaf, Node, Or, Residual, leaves
from palio.filters.value_predicates import Test
from palio.filters.value_sets import FULL, STRINGS, ValueSet, intersection_of, union_of

# Of a tree that is expanded to a disjunction of conjunctions. Minimising compares all pairs, again after each merge.
MAX_CONJUNCTIONS = 16
MAX_JOINS = 50_000  # pairs of conjunctions that are joined while a tree is expanded
_MAX_COMPARED_PAIRS = 4096  # of alternatives of an OR that is searched for covered ones
_MAX_COMPARED_TESTS = 1_000_000  # pairs of patterns, of an OR and of what stands beside it
_MAX_COMPARED_RESIDUALS = 16  # of an AND that is searched for implied ones
_MAX_COMPARED_CONDITIONS = 256  # of a large AND that is searched for redundant parts


def normal(node: Node) -> Node:
    """The canonical form of a tree."""
    node = simplify(node)
    # Without an OR, one conjunction is left, and `simplify` has made it canonical.
    if not isinstance(node, Or) and not any(isinstance(child, Or) for child in _as_children(node)):
        return node
    alternatives = expand(node, MAX_CONJUNCTIONS)
    if alternatives is None:
        return _without_redundant(node)
    return _single(Or, _minimal([each.node() for each in alternatives]))


def _without_redundant(node: Node) -> Node:
    """A large AND without the parts that the others imply: `f AND (f OR g)` becomes `f`, as in a small tree."""
    if (
        not isinstance(node, And)
        or sum(1 for _ in islice(leaves(node), _MAX_COMPARED_CONDITIONS + 1)) > _MAX_COMPARED_CONDITIONS
    ):
        return node
    kept = list(node.children)
    for child in node.children:
        rest = [other for other in kept if other is not child]
        if isinstance(child, Or) and covers(child, And(tuple(rest))):
            kept = rest
    # Normalised again, because with fewer ORs the tree may be small enough to expand.
    return node if len(kept) == len(node.children) else normal(_single(And, kept))


def simplify(node: Node) -> Node:
    """Flatten, combine conditions on one attribute, drop what always or never holds; linear except for sorting."""
    if isinstance(node, Leaf):
        values = node.values
        if values.tests:
            return NOTHING if values.is_empty else node
        return EVERYTHING if values.is_full else NOTHING if values.is_empty else node
    if isinstance(node, And):
        return conjoin([simplify(child) for child in _operands(node, And)])
    if isinstance(node, Or):
        return disjoin([simplify(child) for child in _operands(node, Or)])
    return node


def _operands(node: And | Or, kind: type[And] | type[Or]) -> list[Node]:
    """The operands of nested ANDs, or ORs, in order, so that each is combined with the others once."""
    found: list[Node] = []
    stack: list[Node] = [node]
    while stack:
        each = stack.pop()
        if isinstance(each, kind):
            stack.extend(reversed(each.children))
        else:
            found.append(each)
    return found


def conjoin(children: Iterable[Node]) -> Node:
    """The conjunction of canonical trees."""
    by_attribute: dict[str, list[ValueSet]] = {}
    others: list[Node] = []
    residuals: set[Node] = set()
    for child in _flat(children, And):
        if isinstance(child, Leaf):
            by_attribute.setdefault(child.attribute, []).append(child.values)
        elif isinstance(child, Or):
            if not child.children:
                return NOTHING
            others.append(child)
        elif child not in residuals:
            # Of two opposite residuals, whichever comes second finds the other.
            if isinstance(child, Residual) and _opposite(child) in residuals:
                return NOTHING
            residuals.add(child)
            others.append(child)
    if len(residuals) > 1:
        implied = _implied([each for each in residuals if isinstance(each, Residual)])
        others = [each for each in others if each not in implied]
    # One intersection per attribute for all its conditions at once, not pairwise.
    held = {name: intersection_of(sets) for name, sets in by_attribute.items()}
    if any(values.is_empty for values in held.values()):
        return NOTHING
    alternatives = []
    for other in others:
        # x = 1 AND (x = 1 OR y = 2): the leaves decide parts of the ORs beside them.
        narrowed = _within(held, other) if isinstance(other, Or) else other
        if narrowed == NOTHING:
            return NOTHING
        if narrowed != EVERYTHING:
            alternatives.append(narrowed)
    # The recursion ends because every round has fewer ORs.
    if any(isinstance(child, Leaf | And) for child in alternatives):  # an OR shrank to what can be combined again
        return conjoin([*(Leaf(name, values) for name, values in held.items()), *alternatives])
    rest = alternatives if len(alternatives) < 2 else sorted(dict.fromkeys(alternatives), key=sort_key)
    return _single(And, [*(Leaf(name, held[name]) for name in sorted(held)), *rest])


def _implied(residuals: list[Residual]) -> set[Residual]:
    """Those residuals of an AND that another one implies, since both restrict one computed value."""
    if len(residuals) > _MAX_COMPARED_RESIDUALS:
        return set()
    implied: set[Residual] = set()
    for wide, narrow in permutations(sorted(residuals, key=sort_key), 2):
        if narrow not in implied and covers(wide, narrow):
            implied.add(wide)
    return implied


def disjoin(children: Iterable[Node]) -> Node:
    """The disjunction of canonical trees."""
    by_attribute: dict[str, list[ValueSet]] = {}
    others: list[Node] = []
    for child in _flat(children, Or):
        if isinstance(child, Leaf):
            by_attribute.setdefault(child.attribute, []).append(child.values)
        elif isinstance(child, And) and not child.children:
            return EVERYTHING
        else:
            others.append(child)
    alternatives: list[Node] = []
    for name, sets in by_attribute.items():
        if len(sets) == 1 and sets[0].tests:  # as most
            alternatives.append(Leaf(name, sets[0]))
            continue
        # Enumerable sets always unite; sets with tests stay apart unless the union covers them.
        tested = dict.fromkeys(values for values in sets if values.tests)
        plain = union_of(values for values in sets if not values.tests) if len(tested) < len(sets) else None
        if plain is not None:
            if plain.is_full:
                return EVERYTHING
            if not plain.is_empty:
                alternatives.append(Leaf(name, plain))
            tested = {values: None for values in tested if not plain.covers(values)}
        alternatives.extend(Leaf(name, values) for values in tested)
    alternatives.extend(others if len(others) < 2 else dict.fromkeys(others))
    return _single(Or, _uncovered(alternatives))


@dataclass(frozen=True)
class Conjunction:
    """One conjunction while a tree is expanded: a set of values per attribute, and residuals."""

    leaves: dict[str, ValueSet]
    residuals: tuple[Residual, ...]

    @property
    def attributes(self) -> frozenset[str]:
        return frozenset(self.leaves).union(*(each.attributes for each in self.residuals))

    def join(self, other: Conjunction) -> Conjunction | None:
        """Both, or None where they exclude each other."""
        return _join((self, other))

    def node(self) -> Node:
        return conjoin([*(Leaf(name, values) for name, values in self.leaves.items()), *self.residuals])


def _join(parts: Iterable[Conjunction]) -> Conjunction | None:
    """All of some conjunctions, or None where they exclude each other."""
    leaves: dict[str, ValueSet] = {}
    residuals: dict[Residual, None] = {}
    for part in parts:
        for name, values in part.leaves.items():
            both = leaves[name].intersect(values) if name in leaves else values
            if both.is_empty:
                return None
            leaves[name] = both
        residuals.update(dict.fromkeys(part.residuals))
    if any(_opposite(each) in residuals for each in residuals):
        return None
    return Conjunction(leaves, tuple(residuals))


def expand(node: Node, limit: int) -> list[Conjunction] | None:
    """The tree as a disjunction of at most `limit` conjunctions, or None where it takes more on the way.

    None too where more than `MAX_JOINS` pairs of conjunctions would have to be joined: of ten thousand alternatives
    that nearly all exclude each other, few are left at each step, and every step takes them all.
    """
    return _Expansion().of(node, limit)


class _Expansion:
    """An expansion, with the pairs of conjunctions that may still be joined."""

    def __init__(self) -> None:
        self._joins_left = MAX_JOINS

    def of(self, node: Node, limit: int) -> list[Conjunction] | None:
        match node:
            case Leaf(attribute, values):
                return [Conjunction({attribute: values}, ())]
            case Residual():
                return [Conjunction({}, (node,))]
            case Or(children):
                return self._alternatives(children, limit)
            case And(children):
                return self._product(children, limit)

    def _alternatives(self, children: Sequence[Node], limit: int) -> list[Conjunction] | None:
        if sum(not isinstance(child, And | Or) for child in children) > limit:
            return None
        found: list[Conjunction] = []
        for child in children:
            alternatives = self.of(child, limit - len(found))
            if alternatives is None:
                return None
            found += alternatives
            if len(found) > limit:
                return None
        return found

    def _product(self, children: Sequence[Node], limit: int) -> list[Conjunction] | None:
        # Conditions that need no expansion are joined in one step; an AND may have thousands of them.
        single = [child for child in children if not isinstance(child, And | Or)]
        found = _joined(single)
        for child in children:
            if not isinstance(child, And | Or):
                continue
            alternatives = self.of(child, limit)
            if alternatives is None:
                return None
            self._joins_left -= len(found) * len(alternatives)
            if self._joins_left < 0:
                return None
            joined = (both for a in found for b in alternatives if (both := a.join(b)) is not None)
            found = list(islice(joined, limit + 1))
            if len(found) > limit:
                return None
        return found


def _joined(conditions: list[Leaf | Residual]) -> list[Conjunction]:
    """The conjunction of conditions; none where they exclude each other."""
    node = conjoin(conditions)
    if node == NOTHING:
        return []
    parts = _as_children(node)
    leaves = {part.attribute: part.values for part in parts if isinstance(part, Leaf)}
    return [Conjunction(leaves, tuple(part for part in parts if isinstance(part, Residual)))]


def covering_conjunction(node: Node) -> Conjunction | None:
    """One conjunction that matches at least what the tree does; None where the tree matches nothing."""
    match node:
        case Leaf(attribute, values):
            return Conjunction({attribute: values}, ())
        case Residual():
            return Conjunction({}, (node,))
        case And(children):
            covering = [covering_conjunction(child) for child in children]
            return (
                None if any(part is None for part in covering) else _join(part for part in covering if part is not None)
            )
        case Or(children):
            parts = [part for child in children if (part := covering_conjunction(child)) is not None]
            return _hull(parts) if parts else None


def _hull(parts: list[Conjunction]) -> Conjunction:
    leaves: dict[str, ValueSet] = {}
    # An attribute that some part leaves free is free in the hull.
    for name in parts[0].leaves:
        if all(name in part.leaves for part in parts):
            values = union_of(_without_tests(part.leaves[name], len(parts)) for part in parts)
            if values is not None and not values.is_full:
                leaves[name] = values
    shared = set(parts[0].residuals).intersection(*(part.residuals for part in parts[1:]))
    return Conjunction(leaves, tuple(each for each in parts[0].residuals if each in shared))


def _without_tests(values: ValueSet, count: int) -> ValueSet:
    """The interval part, a superset: a union of sets with tests need not be a ValueSet."""
    return values if count == 1 else ValueSet(values.parts)


def _flat(children: Iterable[Node], kind: type[And] | type[Or]) -> Iterable[Node]:
    for child in children:
        if isinstance(child, kind):
            yield from child.children
        else:
            yield child


def _single(kind: type[And] | type[Or], children: list[Node]) -> Node:
    return children[0] if len(children) == 1 else kind(tuple(children))


def _opposite(residual: Residual) -> Residual:
    return Residual(residual.expression, not residual.wants, residual.timezone)


def _within(context: dict[str, ValueSet], alternatives: Or) -> Node:
    """An OR within a context of confined attributes, without the alternatives that cannot hold there.

    An alternative that the context implies makes the whole OR true.
    """
    if not context:
        return alternatives
    kept: list[Node] = []
    for child in alternatives.children:
        if isinstance(child, Leaf):  # as most
            values = context.get(child.attribute)
            if values is None:
                kept.append(child)
            elif len(values.tests) * len(alternatives.children) > _MAX_COMPARED_TESTS:
                # Only an opposite that is there literally is looked for.
                if not any(Test(test.pattern, not test.wanted) in values.tests for test in child.values.tests):
                    kept.append(child)
            elif values.overlaps(child.values):
                if child.values.covers(values):
                    return EVERYTHING
                kept.append(child)
            continue
        known = [each for each in _as_children(child) if isinstance(each, Leaf) and each.attribute in context]
        if any(not context[each.attribute].overlaps(each.values) for each in known):
            continue
        kept.append(child)
    return alternatives if len(kept) == len(alternatives.children) else disjoin(kept)


def _uncovered(alternatives: list[Node]) -> list[Node]:
    """The alternatives in order, without those that another covers; of two equivalent ones the first stays."""
    if len(alternatives) < 2:
        return alternatives
    ordered = sorted(alternatives, key=sort_key)
    if are_unrelated_patterns(ordered):
        return ordered
    candidates = CoveringCandidates(ordered)
    pairs: list[tuple[int, int]] = []
    for place in range(len(ordered)):
        pairs.extend((place, other) for other in candidates.covered_by(place) if other != place)
        # All or nothing: what is left of a search that ends half-way would be searched further the next time, and a
        # canonical form must stay as it is.
        if len(pairs) > _MAX_COMPARED_PAIRS:
            return ordered
    covered: set[int] = set()
    for wide, narrow in pairs:
        # What a covered one covers is covered as well. A later one may cover earlier ones, too: the order is by
        # content, not by size.
        if wide not in covered and narrow not in covered and covers(ordered[wide], ordered[narrow]):
            covered.add(narrow)
    return [each for place, each in enumerate(ordered) if place not in covered] if covered else ordered


def _minimal(conjunctions: list[Node]) -> list[Node]:
    """Merge conjunctions that differ in one attribute until none do, in an order that depends on their content only."""
    nodes = _uncovered(conjunctions)
    merged = True
    while merged:
        merged = False
        for i, first in enumerate(nodes):
            for j in range(i + 1, len(nodes)):
                both = _merge_differing(first, nodes[j])
                if both is not None:
                    rest = [node for k, node in enumerate(nodes) if k not in (i, j)]
                    # Start again: the merged conjunction may merge with an earlier one.
                    nodes = _uncovered([both, *rest])
                    merged = True
                    break
            if merged:
                break
    return nodes


def merge_conjunctions(first: Node, second: Node) -> Node | None:
    """The conjunction equivalent to two that differ in one attribute; None where there is none."""
    if covers(first, second):
        return first
    if covers(second, first):
        return second
    return _merge_differing(first, second)


def _merge_differing(first: Node, second: Node) -> Node | None:
    """As `merge_conjunctions`, of two that do not cover each other."""
    left, right = _as_children(first), _as_children(second)
    if len(left) != len(right):
        return None
    # Both are in the order of names: where exactly one pair differs, all other attributes stand at equal places.
    differing: tuple[Node, Node] | None = None
    for pair in zip(left, right, strict=True):
        if pair[0] is not pair[1] and pair[0] != pair[1]:
            if differing is not None:
                return None
            differing = pair
    if differing is None:
        return first
    a, b = differing
    if not (isinstance(a, Leaf) and isinstance(b, Leaf) and a.attribute == b.attribute):
        return None
    # With tests, the union of two sets need not be a set of this algebra.
    if not (a.values.is_enumerable and b.values.is_enumerable):
        return None
    union = a.values.union(b.values)
    assert union is not None
    return conjoin(simplify(Leaf(a.attribute, union)) if each is a else each for each in left)


def _as_children(node: Node) -> tuple[Node, ...]:
    return node.children if isinstance(node, And) else (node,)


_FULL_TEXT: Final = str(FULL)
_KIND_VALUES: Final = tuple(kind.value for kind in KINDS)
_ALL_STRINGS_TEXT: Final = str([f"{Kind.STRING.value}{_FULL_TEXT}"])  # which patterns have, by the thousand


def sort_key(node: Node) -> str:
    """A sort key that depends on the content of a node only, not on the process or on the written order."""
    if isinstance(node, Leaf):
        values = node.values
        if values.parts is STRINGS.parts:
            parts = _ALL_STRINGS_TEXT
        else:
            parts = str(
                [
                    f"{kind}{_FULL_TEXT if part is FULL else part}"
                    for kind, part in zip(_KIND_VALUES, values.parts, strict=True)
                    if part.inside or part.cuts
                ]
            )
        tests = [test.key for test in values.tests]
        return f"{node.attribute}\0{parts}{sorted(tests) if len(tests) > 1 else tests or ''}"
    if isinstance(node, And):
        return "\1" + "\1".join(map(sort_key, node.children))
    if isinstance(node, Or):
        return "\2" + "\2".join(map(sort_key, node.children))
    return f"\3{node!r}"
