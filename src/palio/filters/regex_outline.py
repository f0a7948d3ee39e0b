"""Outline of a regular expression, for engines that look for thousands of them at once.

*Clauses* say which literals must occur in every matching text: of each clause at least one. They are found by one
search for all literals of all expressions, and only an expression that has a literal of its rarest clause is looked at.
The position automaton then decides.

Literals are those of texts whose ASCII letters are in lower case, so that `(?i)` has literals too.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeAlias

from palio.filters.position_automaton import PositionAutomaton
from palio.filters.regex_parser import (
    Alternation,
    Anchor,
    CapturingGroup,
    Characters,
    Node,
    Ranges,
    Repeat,
    Sequence,
    parse,
)

MAX_ALTERNATIVES: Final = 16  # literals of a clause; a choice of more has none
_MAX_REPEATED: Final = 8  # copies of a repeated character in a literal


class Literal(NamedTuple):
    """A text that occurs, anywhere or at the start."""

    text: str
    at_start: bool


Clause: TypeAlias = tuple[Literal, ...]


class RegexOutline(NamedTuple):
    """What must occur in a matching text, and the automaton that finds a match; None where only RE2 can."""

    clauses: tuple[Clause, ...]
    automaton: PositionAutomaton | None


def outline(text: str) -> RegexOutline:
    """The outline of an expression that can be parsed."""
    node = parse(text)
    return RegexOutline(tuple(_clauses(node)), PositionAutomaton.of(node))


def _clauses(node: Node) -> list[Clause]:
    match node:
        case Characters(ranges):
            literal = _only_character(ranges)
            return [(Literal(literal, False),)] if literal else []
        case Repeat(body, least) if least > 0:
            return _clauses(body)
        case CapturingGroup(body):
            return _clauses(body)
        case Alternation(options):
            return _choice([_clauses(option) for option in options])
        case Sequence(parts):
            return _sequence(parts)
    return []


def _sequence(parts: tuple[Node, ...]) -> list[Clause]:
    """Runs of single characters are one literal; any other part ends the run, and has clauses of its own.

    A repeated character ends a run that it belongs to, and begins the next: `ab+c` has `ab` and `bc`.
    """
    clauses: list[Clause] = []
    run = ""
    at_start = False
    for part in parts:
        bare = part
        while isinstance(bare, CapturingGroup):
            bare = bare.body
        character = _only_character(bare.ranges) if isinstance(bare, Characters) else ""
        if character:
            run += character
            continue
        repeated = _repeated_character(bare)
        if repeated:
            clauses.append((Literal(run + repeated, at_start),))
            run, at_start = repeated, False
            continue
        if run:
            clauses.append((Literal(run, at_start),))
        run = ""
        at_start = part == Anchor("^")
        clauses += _clauses(part)
    return [*clauses, (Literal(run, at_start),)] if run else clauses


def _repeated_character(node: Node) -> str:
    """The character that a repetition has at least once, as often as it must be there; '' for any other part."""
    match node:
        case Repeat(Characters(ranges), least, _) if least > 0:
            return _only_character(ranges) * min(least, _MAX_REPEATED)
    return ""


def _choice(options: list[list[Clause]]) -> list[Clause]:
    """One clause of the best clauses of all options: that whose shortest literal is longest."""
    if not all(options):
        return []
    best = [max(clauses, key=lambda clause: min(len(literal.text) for literal in clause)) for clauses in options]
    together = dict.fromkeys(literal for clause in best for literal in clause)
    return [tuple(together)] if len(together) <= MAX_ALTERNATIVES else []


def _only_character(ranges: Ranges) -> str:
    """The only character of a set when ASCII letters are in lower case; '' if there are more."""
    match ranges:
        case ((low, high),) if low == high:
            return chr(low).lower() if low < 128 else chr(low)
        case ((upper, last_upper), (lower, last_lower)) if upper == last_upper and lower == last_lower:
            return chr(lower) if 0x41 <= upper <= 0x5A and lower == upper + 32 else ""
    return ""
