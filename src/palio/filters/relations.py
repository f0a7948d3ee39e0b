"""Relations between filters: covering and overlap.

Covering (Jerzak §2.5.5) is decided on trees by the rules of the free lattice over conditions: a disjunction is covered
when each alternative is, a conjunction covers when each part does, and otherwise one part must do so by itself. These
rules are reflexive and transitive for all trees (Whitman), sound for every filter, and exact for conjunctions of
enumerable sets. "No" means "not known to cover".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from palio.errors import InvalidArgument
from palio.filters.kinds import Kind
from palio.filters.tree import And, Leaf, Node, Or, Residual
from palio.filters.value_sets import ValueSet

if TYPE_CHECKING:
    from palio.filters.normal_form import Conjunction


def covers(wide: Node, narrow: Node) -> bool:
    """Whether every event that `narrow` matches is known to be matched by `wide`."""
    if isinstance(wide, Leaf) and isinstance(narrow, Leaf):
        return wide.attribute == narrow.attribute and wide.values.covers(narrow.values)
    return wide is narrow or wide == narrow or _Comparison().covers(wide, narrow)


_MAX_STEPS = 5_000_000  # pairs of conditions compared before giving up with "not known to cover"


class _Comparison:
    """One covering decision, with memoised decisions on pairs of subtrees."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], bool] = {}
        self._steps = 0

    def covers(self, wide: Node, narrow: Node) -> bool:
        self._steps += 1
        if isinstance(wide, Leaf) and isinstance(narrow, Leaf):
            return wide.attribute == narrow.attribute and wide.values.covers(narrow.values)
        if not isinstance(wide, And | Or) and not isinstance(narrow, And | Or):
            return wide == narrow
        # By identity: nodes live as long as the comparison, and hashing a tree costs as much as comparing it.
        pair = (id(wide), id(narrow))
        answer = self._known.get(pair)
        if answer is None:
            if self._steps > _MAX_STEPS:
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
            for child in wide.children:
                if self.covers(child, narrow):
                    return True
        if isinstance(narrow, And):
            for child in narrow.children:
                if self.covers(wide, child):
                    return True
        return False


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
