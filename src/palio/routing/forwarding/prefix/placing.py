"""Where does a conjunction belong in a tree of conditions? What inserting, tagging and finding again have in common.

A path from the root is a conjunction, paths side by side are a disjunction, and children of one node on one attribute
exclude each other (Jerzak §4.2.2). A conjunction is led down condition by condition. Where a child overlaps it in part,
it is split along that child: what lies inside goes on below the child, what lies outside stays beside it. The two
parts are disjoint and together the conjunction (Jerzak §4.2.2, Table 4.2).

As printed, the axis of a split may come after other conditions of its attribute, and then splitting never ends; a
part may be empty; and "intersects" includes "covers". Here a condition is one set of values per attribute, so the part
inside an axis is smaller than the axis and goes straight below it, empty parts are dropped, and only partial overlap
splits. The complement of a predicate is the difference of two sets, which exists for every kind of value.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, NamedTuple, TypeVar

from palio.filters.tree import Leaf
from palio.filters.values import ValueSet
from palio.routing.conjunctive import Conjunction

N = TypeVar("N")


class Meeting(NamedTuple):
    """How a set that overlaps another lies to it; both, where they are equal."""

    covers: bool
    is_covered: bool


_MEETINGS: Final = {(wide, narrow): Meeting(wide, narrow) for wide in (False, True) for narrow in (False, True)}


def met(own: ValueSet, other: ValueSet) -> Meeting | None:
    """How two sets without tests meet; None where they do not. One pass, which ends where nothing is left to find."""
    covers = is_covered = True
    overlaps = False
    for mine, theirs in zip(own.parts, other.parts, strict=True):
        if mine is theirs:
            overlaps = overlaps or not mine.is_empty
            continue
        shared = mine.intersect(theirs)
        overlaps = overlaps or not shared.is_empty
        covers = covers and shared == theirs
        is_covered = is_covered and shared == mine
        if overlaps and not covers and not is_covered:
            break
    return _MEETINGS[covers, is_covered] if overlaps else None


def split(conjunction: Conjunction, axis: Leaf) -> tuple[Conjunction | None, Conjunction | None]:
    """A conjunction whose first condition is on the attribute of an axis, inside and outside it; None where empty."""
    (attribute, values), rest = (conjunction[0].attribute, conjunction[0].values), conjunction[1:]
    inside, outside = values.intersect(axis.values), values.intersect(axis.values.complement())
    return (
        None if inside.is_empty else (Leaf(attribute, inside), *rest),
        None if outside.is_empty else (Leaf(attribute, outside), *rest),
    )


def place(
    conjunction: Conjunction, root: N, meetings: Callable[[N, Leaf], Iterable[tuple[N, ValueSet, Meeting]]]
) -> Iterator[tuple[N, Conjunction, list[N]]]:
    """The nodes to which the parts of a conjunction lead.

    With each comes what is left of its part, nothing where it ends at the node; then the children of the node that
    the next condition covers. `meetings` gives the children of a node that overlap a condition, with their values and
    how they meet it; the children exclude each other.
    """
    parts = [(root, conjunction)]
    while parts:
        node, rest = parts.pop()
        if not rest:
            yield node, rest, []
            continue
        covered: list[tuple[N, ValueSet]] = []
        for child, values, meeting in meetings(node, rest[0]):
            if meeting.covers:
                parts.append((child, rest[1:] if meeting.is_covered else rest))
                break
            if meeting.is_covered:
                covered.append((child, values))
                continue
            inside, outside = split(rest, Leaf(rest[0].attribute, values))
            assert inside is not None  # they overlap
            parts.append((child, inside))
            if outside is None:
                break
            rest = outside
        else:  # only now is it known what is left outside: it may be just what a child wants
            same = next((child for child, values in covered if values == rest[0].values), None)
            if same is not None:
                parts.append((same, rest[1:]))
            else:
                yield node, rest, [child for child, _ in covered]
