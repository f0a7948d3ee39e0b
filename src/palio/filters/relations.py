"""How two filters relate: does one cover the other, can both match one event.

Covering (Jerzak §2.5.5) is decided on trees by the rules of the free lattice over conditions: a disjunction is
covered when each alternative is, a conjunction covers when each part does, and otherwise one part must do alone.
These rules are reflexive and transitive whatever the trees (Whitman), sound for every filter, and exact for
conjunctions of enumerable sets. "No" means "not known to cover".
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from palio.filters.tree import And, Leaf, Node, Or

if TYPE_CHECKING:
    from palio.filters.normal_form import Conjunction


def covers(wide: Node, narrow: Node) -> bool:
    """Whether every event that `narrow` matches is known to be matched by `wide`."""
    if isinstance(wide, Leaf) and isinstance(narrow, Leaf):
        return wide.attribute == narrow.attribute and wide.values.covers(narrow.values)
    return wide is narrow or wide == narrow or _Comparison().covers(wide, narrow)


_MOST_STEPS = 5_000_000  # pairs of conditions looked at before "not known to": filters of thousands of conditions


class _Comparison:
    """One question, with the answers to its parts; a part may be asked about many times."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, int], bool] = {}
        self._steps = 0

    def covers(self, wide: Node, narrow: Node) -> bool:
        self._steps += 1
        if isinstance(wide, Leaf) and isinstance(narrow, Leaf):
            return wide.attribute == narrow.attribute and wide.values.covers(narrow.values)
        if not isinstance(wide, And | Or) and not isinstance(narrow, And | Or):
            return wide == narrow
        pair = (id(wide), id(narrow))
        answer = self._known.get(pair)
        if answer is None:
            if self._steps > _MOST_STEPS:
                return False
            answer = self._known[pair] = self._compare(wide, narrow)
        return answer

    # Plain loops: a generator would take a frame of its own at each of up to two hundred levels on either side.
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


def overlaps(first: Node, second: Node, mode: str = "open") -> bool:
    """Whether some event may match both trees; a no is certain.

    The printed rule (`thesis`) asks for one pair of overlapping conditions and is neither sound nor complete; the
    corrected one asks all common attributes to be jointly satisfiable, and calls filters without a common
    attribute overlapping (`open`) or not (`closed`).
    """
    from palio.filters.normal_form import expand

    mine, theirs = expand(first, _MOST_PAIRED), expand(second, _MOST_PAIRED)
    if mine is None or theirs is None:
        return True
    rule = {"open": _overlap_open, "closed": _overlap_closed, "thesis": _overlap_thesis}.get(mode)
    if rule is None:
        raise ValueError(f"overlap mode {mode!r}; known are open, closed, thesis")
    return any(rule(a, b) for a in mine for b in theirs)


_MOST_PAIRED = 256


def _overlap_open(a: Conjunction, b: Conjunction) -> bool:
    return a.join(b) is not None


def _overlap_closed(a: Conjunction, b: Conjunction) -> bool:
    return not a.attributes.isdisjoint(b.attributes) and a.join(b) is not None


def _overlap_thesis(a: Conjunction, b: Conjunction) -> bool:
    return any(a.leaves[name].overlaps(b.leaves[name]) for name in a.leaves.keys() & b.leaves.keys())
