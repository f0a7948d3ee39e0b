r"""Position automaton of a regular expression, for engines that run thousands of expressions on one text.

Glushkov's construction (see Berry and Sethi) gives one state for each character set that is written in the expression,
and no empty transitions. A set of states is one integer. Its size is that of the expression, and it is made in
microseconds, where a deterministic automaton may be exponentially larger and RE2's object takes kilobytes.

A place between two characters satisfies *conditions*: it is the start of the text, the end in the sense of `$`, or the
very end. Anchors hold or fail there, so first, last and following positions are computed under each combination that
an expression can tell apart, and again for places that are word boundaries if it has a `\b`.

No automaton is made for expressions with more than MAX_POSITIONS sets, nor for those with `\B`, which RE2 also finds
between the bytes of one character: RE2 decides both, so that an expression has one meaning.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final, TypeAlias

from palio.errors import PalioError
from palio.filters.regex_parser import (
    Alternation,
    Anchor,
    CapturingGroup,
    Characters,
    Node,
    Ranges,
    Repeat,
    Sequence,
)

MAX_CONNECTIONS: Final = 150_000  # of positions with sets of positions: some tens of milliseconds
MAX_POSITIONS: Final = 62  # a set of positions is a signed 64-bit integer
# Conditions that a place may satisfy, as bits.
AT_START: Final = 1
AT_END: Final = 2  # the very end, or before a final line terminator
AT_VERY_END: Final = 4

_COMBINATIONS: Final = (0, AT_START, AT_END, AT_START | AT_END, AT_END | AT_VERY_END, AT_START | AT_END | AT_VERY_END)
_CONDITION_OF: Final = {"^": AT_START, "$": AT_END, "z": AT_VERY_END}


@dataclass(frozen=True, slots=True)
class Transitions:
    """The sets of positions between which a text goes on, at places that are word boundaries or at those that are not.

    A match begins in a first position and is complete after a last one.
    """

    first: int
    first_at_start: int
    last: int
    last_at_end: int
    last_at_very_end: int
    empty: int  # bit n: a place with the conditions n is a match of no characters
    follow: tuple[int, ...]  # by position


@dataclass(frozen=True, slots=True)
class PositionAutomaton:
    """The character sets of an expression, numbered, and the transitions between them."""

    characters: tuple[Ranges, ...]
    elsewhere: Transitions
    at_boundaries: Transitions | None  # None: as elsewhere

    @classmethod
    def of(cls, node: Node) -> PositionAutomaton | None:
        """The automaton of an expression; None where it is left to RE2."""
        anchors = _anchors(node)
        if "B" in anchors:
            return None
        try:
            characters, elsewhere = _transitions(node, anchors, is_boundary=False)
        except TooManyPositions:
            return None
        if "b" not in anchors:
            return cls(characters, elsewhere, None)
        return cls(characters, elsewhere, _transitions(node, anchors, is_boundary=True)[1])

    @property
    def first_characters(self) -> tuple[int, int] | None:
        """The one or two characters that every match begins with, if there are no more."""
        if self.at_boundaries is not None or self.elsewhere.empty:
            return None
        ranges = [
            each
            for position, characters in enumerate(self.characters)
            if self.elsewhere.first >> position & 1
            for each in characters
        ]
        if not 1 <= len(ranges) <= 2 or any(low != high for low, high in ranges):
            return None
        return ranges[0][0], ranges[-1][0]

    @property
    def begins_at_start(self) -> bool:
        """Whether every match begins at the start of the text and has characters."""
        each = (self.elsewhere, self.at_boundaries or self.elsewhere)
        return not any(transitions.first or transitions.empty for transitions in each)


class TooManyPositions(PalioError):
    """The expression has more character sets, or connections of them, than the automaton may have."""


_Part: TypeAlias = tuple[bool, int, int]  # whether it may be empty, its first and its last positions
_EMPTY: Final[_Part] = (True, 0, 0)


class Construction:
    """Glushkov's construction, at places that satisfy some conditions."""

    def __init__(self, conditions: int, is_boundary: bool, most_positions: int = MAX_POSITIONS) -> None:
        self._conditions = conditions
        self._is_boundary = is_boundary
        self._most_positions = most_positions
        self._connections_left = MAX_CONNECTIONS
        self.characters: list[Ranges] = []
        self.follow: list[int] = []

    def part(self, node: Node) -> _Part:
        match node:
            case Characters(ranges):
                if len(self.characters) == self._most_positions:
                    raise TooManyPositions
                bit = 1 << len(self.characters)
                self.characters.append(ranges)
                self.follow.append(0)
                return False, bit, bit
            case Anchor(name):
                holds = self._is_boundary if name in "bB" else self._conditions & _CONDITION_OF[name] != 0
                return holds, 0, 0
            case Sequence(parts):
                whole = _EMPTY
                for each in parts:
                    whole = self._then(whole, self.part(each))
                return whole
            case Alternation(options):
                made = [self.part(option) for option in options]
                first = last = 0
                for _, starts, ends in made:
                    first |= starts
                    last |= ends
                return any(empty for empty, _, _ in made), first, last
            case CapturingGroup(body):
                return self.part(body)
            case Repeat(body, least, most):
                return self._repeated(body, least, most)

    def _repeated(self, body: Node, least: int, most: int | None) -> _Part:
        """Copies of a body: as many as it must have, then those it may have, or one that loops."""
        whole = _EMPTY
        required = least if most is not None else max(0, least - 1)
        for _ in range(required):
            whole = self._then(whole, self.part(body))
        if most is None:
            empty, first, last = self.part(body)
            self._connect(last, first)
            return self._then(whole, (empty or least == 0, first, last))
        for _ in range(most - least):
            _, first, last = self.part(body)
            whole = self._then(whole, (True, first, last))
        return whole

    def _then(self, left: _Part, right: _Part) -> _Part:
        self._connect(left[2], right[1])
        first = left[1] | right[1] if left[0] else left[1]
        last = right[2] | left[2] if right[0] else right[2]
        return left[0] and right[0], first, last

    def _connect(self, last: int, first: int) -> None:
        # `(a?){1000}` connects each position with all later ones.
        self._connections_left -= last.bit_count()
        if self._connections_left < 0:
            raise TooManyPositions
        while last:
            bit = last & -last
            self.follow[bit.bit_length() - 1] |= first
            last ^= bit


def _transitions(node: Node, anchors: frozenset[str], *, is_boundary: bool) -> tuple[tuple[Ranges, ...], Transitions]:
    within = Construction(0, is_boundary)
    made = {0: within.part(node)}  # by conditions
    # Most expressions have one anchor or none, and cannot tell most combinations apart.
    relevant = sum(_CONDITION_OF.get(name, 0) for name in anchors)
    for conditions in _COMBINATIONS:
        if conditions & relevant not in made:
            made[conditions & relevant] = Construction(conditions, is_boundary).part(node)
    parts = {conditions: made[conditions & relevant] for conditions in _COMBINATIONS}
    return tuple(within.characters), Transitions(
        first=parts[0][1],
        first_at_start=parts[AT_START][1],
        last=parts[0][2],
        last_at_end=parts[AT_END][2],
        last_at_very_end=parts[AT_END | AT_VERY_END][2],
        empty=sum(1 << conditions for conditions, (empty, _, _) in parts.items() if empty),
        follow=tuple(within.follow),
    )


def _anchors(node: Node) -> frozenset[str]:
    return frozenset(_anchor_names(node))


def _anchor_names(node: Node) -> Iterator[str]:
    match node:
        case Anchor(name):
            yield name
        case Sequence(parts) | Alternation(parts):
            for part in parts:
                yield from _anchor_names(part)
        case Repeat(body) | CapturingGroup(body):
            yield from _anchor_names(body)
