r"""Bounded subset construction: whether a regular expression has a small deterministic automaton.

A deterministic automaton reads a text at two nanoseconds for a byte, as long as the states that the text leads to fit
its memory. `a[ab]{60}c` has 2^60 of them: then an engine carries a set of positions from character to character, and
each character costs as much as the set is large. Which of both a search costs is a property of the expression, decided
here by making the states, up to a bound.

States are sets of positions of Glushkov's automaton (`position_automaton`), in which `x{0,3}` is `x?x?x?`: a position
is followed by all later ones, and `a.{0,200}z` has 200 states. Where it is `(x(x(x)?)?)?`, as RE2 writes it, it has
2^200. A search begins anew at every character, so that the first positions are in every state.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from palio.filters.position_automaton import AT_END, AT_START, AT_VERY_END, Construction, TooManyPositions
from palio.filters.regex_parser import Node, Ranges

MAX_STATES: Final = 4_000
_MAX_STATE_POSITIONS: Final = 1_000_000  # in all states together, so that they fit the memory of an engine
_MAX_WORK: Final = 200_000  # transitions and unions of sets: some tens of milliseconds
_AT_ANY_END: Final = AT_END | AT_VERY_END


def has_small_automaton(node: Node, positions: int) -> bool:
    """Whether a search for an expression of some positions visits a bounded number of states, whatever the text."""
    if positions > MAX_STATES:  # each has a state of its own, at least
        return False
    # Word boundaries are taken to hold everywhere, which can only add states.
    within = Construction(_AT_ANY_END, True, positions)
    try:
        _, first_at_start, _ = Construction(AT_START | _AT_ANY_END, True, positions).part(node)
        _, first, _ = within.part(node)
    except TooManyPositions:
        return False
    follow = within.follow
    # What follows the first positions is the same in all states.
    again = [(mask, first | _union(follow, first & mask)) for mask in _distinct_masks(within.characters)]
    seen = {first_at_start}
    pending = [first_at_start]
    work, state_positions = _MAX_WORK, _MAX_STATE_POSITIONS
    while pending:
        state = pending.pop() & ~first
        work -= len(again)
        for mask, reached in again:
            taken = state & mask
            work -= taken.bit_count()
            if work < 0:
                return False
            following = reached | _union(follow, taken)
            if following not in seen:
                state_positions -= following.bit_count()
                if len(seen) == MAX_STATES or state_positions < 0:
                    return False
                seen.add(following)
                pending.append(following)
    return True


def _union(follow: list[int], positions: int) -> int:
    """The positions that follow some positions."""
    found = 0
    while positions:
        bit = positions & -positions
        found |= follow[bit.bit_length() - 1]
        positions ^= bit
    return found


def _distinct_masks(sets: Iterable[Ranges]) -> list[int]:
    """For each class of characters that no set tells apart, the positions whose sets have it."""
    starts: dict[int, int] = {0: 0}  # by code point: positions whose membership changes there
    for position, ranges in enumerate(sets):
        for low, high in ranges:
            starts[low] = starts.get(low, 0) ^ 1 << position
            starts[high + 1] = starts.get(high + 1, 0) ^ 1 << position
    masks: dict[int, None] = {}
    mask = 0
    for point in sorted(starts):
        mask ^= starts[point]
        masks[mask] = None
    return list(masks)
