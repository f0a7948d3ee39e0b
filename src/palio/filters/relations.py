"""Relations between filters: covering and overlap.

Covering (Jerzak §2.5.5) is decided on trees by the rules of the free lattice over conditions: a disjunction is covered
when each alternative is, a conjunction covers when each part does, and otherwise one part must do so by itself. These
rules are reflexive and transitive for all trees (Whitman), sound for every filter, and exact for conjunctions of
enumerable sets. "No" means "not known to cover".
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import TYPE_CHECKING

from palio.errors import InvalidArgument
from palio.filters.interval_hull import Hull, hulls_of
from palio.filters.kinds import Kind
from palio.filters.tree import And, Leaf, Node, Or, Residual
from palio.filters.value_sets import ValueSet

if TYPE_CHECKING:
    from palio.filters.normal_form import Conjunction


def covers(wide: Node, narrow: Node) -> bool:
    """Whether every event that `narrow` matches is known to be matched by `wide`."""
    if isinstance(wide, Leaf) and isinstance(narrow, Leaf):
        return wide.attribute == narrow.attribute and wide.values.covers(narrow.values)
    if wide is narrow:
        return True
    if isinstance(wide, And) and isinstance(narrow, And):
        answer = _conjunction_covers(wide, narrow)
        if answer is not None:
            return answer
    return wide == narrow or _Comparison().covers(wide, narrow)


def _conjunction_covers(wide: And, narrow: And) -> bool | None:
    """Covering of two conjunctions of conditions on one attribute each; None where they are others."""
    values: dict[str, ValueSet] = {}
    for each in narrow.children:
        if not isinstance(each, Leaf) or each.attribute in values:
            return None
        values[each.attribute] = each.values
    for each in wide.children:
        if not isinstance(each, Leaf):
            return None
        theirs = values.get(each.attribute)
        if theirs is None or not (each.values is theirs or each.values.covers(theirs)):
            return False
    return True


_MAX_STEPS = 500_000  # pairs of conditions compared before giving up with "not known to cover"
_FEW_CHILDREN = 8  # among which looking up the ones that matter costs more than it saves
_RESIDUAL = "\0residual"  # in place of a name: a residual covers nothing but itself


class _Comparison:
    """One covering decision, with memoised decisions on pairs of subtrees."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], bool] = {}
        self._names: dict[int, frozenset[str]] = {}
        self._tables: dict[int, _ChildTable] = {}
        self._alternatives: dict[int, frozenset[Node]] = {}
        self.steps = 0

    def covers(self, wide: Node, narrow: Node) -> bool:
        self.steps += 1
        if isinstance(wide, Leaf) and isinstance(narrow, Leaf):
            if wide.attribute != narrow.attribute:
                return False
            self.steps += len(wide.values.tests) * len(narrow.values.tests)
            return self.steps <= _MAX_STEPS and wide.values.covers(narrow.values)
        if isinstance(wide, Residual) and isinstance(narrow, Residual):
            return _residual_covers(wide, narrow)
        if not isinstance(wide, And | Or) and not isinstance(narrow, And | Or):
            return wide == narrow
        # By identity: nodes live as long as the comparison, and hashing a tree costs as much as comparing it.
        pair = (id(wide), id(narrow))
        answer = self._known.get(pair)
        if answer is None:
            if self.steps > _MAX_STEPS:
                return False
            answer = self._known[pair] = self._compare(wide, narrow)
        return answer

    # Plain loops instead of any() and all(): a generator would take a frame of its own at each of up to two hundred
    # levels on either side.
    def _compare(self, wide: Node, narrow: Node) -> bool:
        if isinstance(narrow, Or):
            for child in narrow.children:
                if not self.covers(wide, child):
                    return False
            return True
        if isinstance(wide, And):
            for child in wide.children:
                if not self.covers(child, narrow):
                    return False
            return True
        if isinstance(wide, Or):
            if self._is_child(narrow, wide):
                return True
            for child in self._children_near(wide, narrow):
                if self.covers(child, narrow):
                    return True
        if isinstance(narrow, And):
            for child in self._children_near(narrow, wide):
                if self.covers(wide, child):
                    return True
        return False

    def _children_near(self, parent: And | Or, other: Node) -> Sequence[Node]:
        """The children that may cover a node, or be covered by it: those that have an attribute with it in common."""
        if len(parent.children) <= _FEW_CHILDREN:
            return parent.children
        table = self._tables.get(id(parent))
        if table is None:
            table = self._tables[id(parent)] = _ChildTable(parent, self._names_in)
        return table.near(other, self._names_in(other))

    def _is_child(self, node: Node, parent: Or) -> bool:
        """Whether a node is one of many alternatives, which needs no comparison with the others."""
        if len(parent.children) <= _FEW_CHILDREN:
            return False
        alternatives = self._alternatives.get(id(parent))
        if alternatives is None:
            alternatives = self._alternatives[id(parent)] = frozenset(parent.children)
        return node in alternatives

    def _names_in(self, node: Node) -> frozenset[str]:
        names = self._names.get(id(node))
        if names is None:
            if isinstance(node, And | Or):
                names = frozenset().union(*map(self._names_in, node.children))
            else:
                names = frozenset({node.attribute if isinstance(node, Leaf) else _RESIDUAL})
            self._names[id(node)] = names
        return names


class _ChildTable:
    """The children of a node by the attributes they name; alternatives also by the extent of their values.

    An alternative that is a conjunction covers only what each of its parts covers. So of a thousand alternatives
    `a = 1 AND b > 2`, those are looked at whose values of `a` extend at least as far as the other node's do.
    """

    def __init__(self, parent: And | Or, names_in: Callable[[Node], frozenset[str]]) -> None:
        self._children = parent.children
        self._by_name: dict[str, list[int]] = {}
        self._always: list[int] = []
        extents: dict[tuple[str, str], list[tuple[float, float, int]]] = {}
        for place, child in enumerate(parent.children):
            narrowest = _narrowest(child) if isinstance(parent, Or) else None
            if narrowest is not None:
                name, hulls = narrowest
                # Under each group of kinds: it may cover values of any one.
                for hull in hulls:
                    extents.setdefault((name, hull.group), []).append((hull.low, hull.high, place))
                continue
            names = names_in(child)
            if not names:
                self._always.append(place)
            for name in names:
                self._by_name.setdefault(name, []).append(place)
        self._extents = {name: sorted(found) for name, found in extents.items()}
        self._widths = {name: max(high - low for low, high, _ in found) for name, found in extents.items()}

    def near(self, other: Node, names: frozenset[str]) -> Sequence[Node]:
        if not names:
            return self._children
        places = set(self._always)
        for name in names if len(names) < len(self._by_name) else self._by_name:
            if name in names:
                places.update(self._by_name.get(name, ()))
        if self._extents:
            places.update(self._extending_as_far(other, names))
        return [self._children[place] for place in sorted(places)]

    def _extending_as_far(self, other: Node, names: frozenset[str]) -> Iterator[int]:
        leaves = _leaves_of(other)
        if leaves is None:
            yield from (place for key, found in self._extents.items() if key[0] in names for _, _, place in found)
            return
        for leaf in leaves:
            hulls = hulls_of(leaf.values)
            if not hulls:  # no values, which every set covers
                yield from (place for found in self._extents.values() for _, _, place in found)
                continue
            # A set that covers the leaf extends as far in every group, so that one group is enough to look at.
            hull = hulls[-1]
            key = leaf.attribute, hull.group
            found = self._extents.get(key)
            if found is None:
                continue
            # None begins further to the left than the widest of all that ends where the hull does.
            first = bisect_left(found, (hull.high - self._widths[key],))
            last = bisect_right(found, (hull.low, inf))
            yield from (place for _, high, place in found[first:last] if high >= hull.high)


def _narrowest(node: Node) -> tuple[str, list[Hull]] | None:
    """The attribute of a leaf, or of a leaf of a conjunction, whose values extend least, and their hulls."""
    found = [(leaf.attribute, hulls) for leaf in _leaves_in(node) if (hulls := hulls_of(leaf.values))]
    return min(found, key=lambda each: max(hull.high - hull.low for hull in each[1]), default=None)


def _leaves_in(node: Node) -> list[Leaf]:
    return [each for each in (node.children if isinstance(node, And) else (node,)) if isinstance(each, Leaf)]


def _leaves_of(node: Node) -> list[Leaf] | None:
    """The leaves of a leaf, or of a conjunction of leaves and residuals; None for another shape."""
    parts = node.children if isinstance(node, And) else (node,)
    return None if any(isinstance(each, And | Or) for each in parts) else _leaves_in(node)


def _residual_covers(wide: Residual, narrow: Residual) -> bool:
    """Whether two conditions restrict one computed value, and the one admits all that the other does."""
    if wide == narrow:
        return True
    if wide.timezone != narrow.timezone or wide.attributes != narrow.attributes:
        return False
    one, other = wide.restricted, narrow.restricted
    return one is not None and other is not None and one[0] == other[0] and one[1].covers(other[1])


def overlaps(first: Node, second: Node, mode: str = "open", single_valued: bool = True) -> bool:
    """Whether some event may match both trees; a no is certain, for events with arrays only unless `single_valued`.

    The printed rule (`thesis`) asks for one pair of overlapping conditions and is neither sound nor complete; the
    corrected one asks all common attributes to be jointly satisfiable, and calls filters without a common
    attribute overlapping (`open`) or not (`closed`). Jerzak's events have one value for an attribute. Where one may
    have several (`single_valued` is False), two filters may be satisfied by different values of one attribute, and only
    conditions on its absence exclude each other.
    """
    from palio.filters.normal_form import expand

    if mode not in _MODES:
        raise InvalidArgument(f"overlap mode {mode!r}; known are {', '.join(_MODES)}")
    mine, theirs = expand(first, _MAX_OVERLAP_CONJUNCTIONS), expand(second, _MAX_OVERLAP_CONJUNCTIONS)
    if mine is None or theirs is None:
        return True  # too many alternatives to decide: "may overlap" is the safe answer
    share = ValueSet.overlaps if single_valued else _may_share
    return any(_overlap(a, b, mode, share) for a in mine for b in theirs)


_MAX_OVERLAP_CONJUNCTIONS = 256
_MODES = ("open", "closed", "thesis")


def _overlap(a: Conjunction, b: Conjunction, mode: str, share: Callable[[ValueSet, ValueSet], bool]) -> bool:
    both = a.leaves.keys() & b.leaves.keys()
    if mode == "thesis":
        return any(share(a.leaves[name], b.leaves[name]) for name in both)
    if mode == "closed" and a.attributes.isdisjoint(b.attributes):
        return False
    if not all(share(a.leaves[name], b.leaves[name]) for name in both):
        return False
    return not any(_excludes(one, other, share) for one in a.residuals for other in b.residuals)


def _may_share(one: ValueSet, other: ValueSet) -> bool:
    """Whether an attribute may satisfy two conditions where it may have several values, null among them."""
    missing = ValueSet.kinds(Kind.MISSING)
    if one.overlaps(missing) and other.overlaps(missing):
        return True
    present = missing.complement()
    return one.overlaps(present) and other.overlaps(present)


def _excludes(one: Residual, other: Residual, share: Callable[[ValueSet, ValueSet], bool]) -> bool:
    """Whether two conditions are opposites: of one value each, or of the event as a whole."""
    if one.expression != other.expression or one.wants is other.wants or one.timezone != other.timezone:
        return False
    return share is not _may_share or not one.scalar_attributes
