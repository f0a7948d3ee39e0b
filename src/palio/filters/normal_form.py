"""Making a tree canonical: the same meaning written the same way, as far as that can be decided cheaply.

Conditions on one attribute are combined when the filter is made (Jerzak §4.2.1 does this for conjunctions); what can
never hold disappears; a small tree is brought to a minimal disjunction of conjunctions, so that equality and
covering see through distribution. A large one keeps its shape: real rules have disjunctive forms of 10^10 terms.

A conjunction is written as an `And` of one leaf per attribute, in the order of names, then residuals. For
conjunctions of enumerable sets this form is unique, so equality of trees is equality of meaning.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import islice

from palio.filters.kinds import KINDS
from palio.filters.relations import covers
from palio.filters.tree import EVERYTHING, NOTHING, And, Leaf, Node, Or, Residual, leaves
from palio.filters.values import ValueSet, intersection_of, union_of

MOST_CONJUNCTIONS = 16  # up to here a tree is written as a disjunction of conjunctions
_MOST_PAIRS = 64  # up to here the alternatives of an OR are compared pairwise
_MOST_COMPARED = 256  # conditions of a tree whose parts are compared with each other


def normal(node: Node) -> Node:
    """The canonical form of a tree."""
    node = simplify(node)
    if not isinstance(node, Or) and not any(isinstance(child, Or) for child in _as_children(node)):
        return node
    alternatives = expand(node, MOST_CONJUNCTIONS)
    if alternatives is None:
        return _without_superfluous(node)
    return disjoin(_minimal([each.node() for each in alternatives]))


def _without_superfluous(node: Node) -> Node:
    """A large AND without the parts that the rest implies: `f AND (f OR g)` is `f`, as it is for a small one."""
    if not isinstance(node, And) or sum(1 for _ in islice(leaves(node), _MOST_COMPARED + 1)) > _MOST_COMPARED:
        return node
    kept = list(node.children)
    for child in node.children:
        rest = [other for other in kept if other is not child]
        if isinstance(child, Or) and covers(child, And(tuple(rest))):
            kept = rest
    return node if len(kept) == len(node.children) else normal(_single(And, kept))


def simplify(node: Node) -> Node:
    """Flatten, combine conditions on one attribute, drop what is always or never true; linear but for sorting."""
    match node:
        case And(children):
            return conjoin([simplify(child) for child in children])
        case Or(children):
            return disjoin([simplify(child) for child in children])
        case Leaf(_, values):
            return EVERYTHING if values.is_full else NOTHING if values.is_empty else node
    return node


def conjoin(children: Iterable[Node]) -> Node:
    """All of these, given in canonical form."""
    by_attribute: dict[str, list[ValueSet]] = {}
    others: dict[Node, None] = {}
    for child in _flat(children, And):
        if isinstance(child, Leaf):
            by_attribute.setdefault(child.attribute, []).append(child.values)
        elif child == NOTHING or (isinstance(child, Residual) and _opposite(child) in others):
            return NOTHING
        else:
            others[child] = None
    held = {name: intersection_of(sets) for name, sets in by_attribute.items()}
    if any(values.is_empty for values in held.values()):
        return NOTHING
    alternatives = []
    for child in others:
        narrowed = _within(held, child) if isinstance(child, Or) else child
        if narrowed == NOTHING:
            return NOTHING
        if narrowed != EVERYTHING:
            alternatives.append(narrowed)
    if any(isinstance(child, Leaf | And) for child in alternatives):  # an OR shrank to what can be combined again
        return conjoin([*(Leaf(name, values) for name, values in held.items()), *alternatives])
    rest = sorted(dict.fromkeys(alternatives), key=sort_key)
    return _single(And, [*(Leaf(name, held[name]) for name in sorted(held)), *rest])


def disjoin(children: Iterable[Node]) -> Node:
    """Some of these, given in canonical form."""
    by_attribute: dict[str, list[ValueSet]] = {}
    others: dict[Node, None] = {}
    for child in _flat(children, Or):
        if child == EVERYTHING:
            return EVERYTHING
        if isinstance(child, Leaf):
            by_attribute.setdefault(child.attribute, []).append(child.values)
        else:
            others[child] = None
    alternatives: list[Node] = []
    for name, sets in by_attribute.items():
        plain = union_of(values for values in sets if values.is_enumerable)
        tested = dict.fromkeys(values for values in sets if not values.is_enumerable)
        if plain is not None and plain.is_full:
            return EVERYTHING
        if plain is not None and not plain.is_empty:
            alternatives.append(Leaf(name, plain))
            tested = {values: None for values in tested if not plain.covers(values)}
        alternatives.extend(Leaf(name, values) for values in tested)
    alternatives.extend(others)
    if len(alternatives) <= _MOST_PAIRS:
        return _single(Or, _uncovered(alternatives))
    return _single(Or, sorted(alternatives, key=sort_key))


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
        leaves = dict(self.leaves)
        for name, values in other.leaves.items():
            both = leaves[name].intersect(values) if name in leaves else values
            if both.is_empty:
                return None
            leaves[name] = both
        residuals = tuple(dict.fromkeys(self.residuals + other.residuals))
        if any(_opposite(each) in residuals for each in residuals):
            return None
        return Conjunction(leaves, residuals)

    def node(self) -> Node:
        return conjoin([*(Leaf(name, values) for name, values in self.leaves.items()), *self.residuals])


def expand(node: Node, limit: int) -> list[Conjunction] | None:
    """The tree as a disjunction of at most `limit` conjunctions, or None where it takes more on the way."""
    match node:
        case Leaf(attribute, values):
            return [Conjunction({attribute: values}, ())]
        case Residual():
            return [Conjunction({}, (node,))]
        case Or(children):
            found: list[Conjunction] = []
            for child in children:
                alternatives = expand(child, limit - len(found))
                if alternatives is None:
                    return None
                found += alternatives
                if len(found) > limit:
                    return None
            return found
        case And(children):
            # What needs no expansion is joined at once; an AND may have thousands of conditions.
            single = [child for child in children if not isinstance(child, And | Or)]
            found = _joined(single)
            for child in children:
                if not isinstance(child, And | Or):
                    continue
                alternatives = expand(child, limit)
                if alternatives is None:
                    return None
                found = [both for a in found for b in alternatives if (both := a.join(b)) is not None]
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
            total: Conjunction | None = Conjunction({}, ())
            for child in children:
                part = covering_conjunction(child)
                total = None if total is None or part is None else total.join(part)
            return total
        case Or(children):
            parts = [part for child in children if (part := covering_conjunction(child)) is not None]
            return _hull(parts) if parts else None


def _hull(parts: list[Conjunction]) -> Conjunction:
    leaves: dict[str, ValueSet] = {}
    for name in parts[0].leaves:
        if all(name in part.leaves for part in parts):
            values = union_of(_without_tests(part.leaves[name], len(parts)) for part in parts)
            if values is not None and not values.is_full:
                leaves[name] = values
    residuals = tuple(each for each in parts[0].residuals if all(each in part.residuals for part in parts))
    return Conjunction(leaves, residuals)


def _without_tests(values: ValueSet, count: int) -> ValueSet:
    """The interval part alone, wider than the set: a union with tests need not be a ValueSet."""
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
    """An OR where some attributes are already confined: drops alternatives that cannot hold there.

    An alternative that the context alone makes true makes the whole OR true; one that it excludes goes.
    """
    kept: list[Node] = []
    for child in alternatives.children:
        own = [each for each in (child.children if isinstance(child, And) else (child,)) if isinstance(each, Leaf)]
        known = [each for each in own if each.attribute in context]
        if any(not context[each.attribute].overlaps(each.values) for each in known):
            continue
        if isinstance(child, Leaf) and known and child.values.covers(context[child.attribute]):
            return EVERYTHING
        kept.append(child)
    return alternatives if len(kept) == len(alternatives.children) else disjoin(kept)


def _uncovered(alternatives: list[Node]) -> list[Node]:
    """In order, without those that another one covers; of two that cover each other, the first stays."""
    kept: list[Node] = []
    for each in sorted(alternatives, key=sort_key):
        if any(covers(other, each) for other in kept):
            continue
        kept = [other for other in kept if not covers(each, other)]
        kept.append(each)
    return kept


def _minimal(conjunctions: list[Node]) -> list[Node]:
    """Merge conjunctions that differ in one attribute, until none do, in an order that depends on nothing else."""
    nodes = _uncovered(conjunctions)
    merged = True
    while merged:
        merged = False
        for i, first in enumerate(nodes):
            for j in range(i + 1, len(nodes)):
                both = merge_conjunctions(first, nodes[j])
                if both is not None:
                    rest = [node for k, node in enumerate(nodes) if k not in (i, j)]
                    nodes = _uncovered([both, *rest])
                    merged = True
                    break
            if merged:
                break
    return nodes


def merge_conjunctions(first: Node, second: Node) -> Node | None:
    """The one conjunction that matches what either does, where there is one: they differ in one attribute."""
    if covers(first, second):
        return first
    if covers(second, first):
        return second
    left, right = _as_children(first), _as_children(second)
    if len(left) != len(right):
        return None
    differing = [(a, b) for a, b in zip(left, right, strict=True) if a != b]
    if len(differing) != 1:
        return None
    a, b = differing[0]
    if not (isinstance(a, Leaf) and isinstance(b, Leaf) and a.attribute == b.attribute):
        return None
    if not (a.values.is_enumerable and b.values.is_enumerable):
        return None
    union = a.values.union(b.values)
    assert union is not None
    return conjoin(simplify(Leaf(a.attribute, union)) if each is a else each for each in left)


def _as_children(node: Node) -> tuple[Node, ...]:
    return node.children if isinstance(node, And) else (node,)


def sort_key(node: Node) -> str:
    """An order of nodes that depends on what they are alone, not on the process or on how they were written."""
    match node:
        case Leaf(attribute, values):
            parts = [f"{kind.value}{part}" for kind, part in zip(KINDS, values.parts, strict=True) if not part.is_empty]
            return f"{attribute}\0{parts}{sorted(test.key for test in values.tests) if values.tests else ''}"
        case And(children):
            return "\1" + "\1".join(map(sort_key, children))
        case Or(children):
            return "\2" + "\2".join(map(sort_key, children))
        case Residual():
            return f"\3{node!r}"
