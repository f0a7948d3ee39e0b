"""Programs of patterns: LIKE patterns and regular expressions as integers, which kernels run on a text.

A program begins with its kind. A LIKE pattern follows as the parts that lie between its `%`, each with its runs of
literal text and the number of characters before each run; the literal bytes come last. A regular expression follows
as its position automaton. `program_kernels` runs both; `layout` names the fields.
"""

from __future__ import annotations

from palio.filters.like import LikePattern, Part
from palio.filters.position_automaton import PositionAutomaton, Transitions
from palio.matching.columnar.layout import (
    AUTOMATON_HEADER,
    LIKE_HEADER,
    PROGRAM_AUTOMATON,
    PROGRAM_ILIKE,
    PROGRAM_LIKE,
)
from palio.matching.columnar.slot_order import text_bytes


def like_program(pattern: LikePattern) -> list[int]:
    """The program that decides a LIKE pattern."""
    parts = pattern.parts
    texts = [text_bytes(run) for part in parts for _, run in part.runs]
    gaps = sum(part.size - sum(len(run) for _, run in part.runs) for part in parts)
    kind = PROGRAM_ILIKE if pattern.ignore_case else PROGRAM_LIKE
    header = [kind, sum(map(len, texts)) + gaps, len(parts)]
    # Where the literal bytes begin, counted in bytes from the start of the program.
    place = 8 * (LIKE_HEADER + sum(_part_words(part) for part in parts))
    body: list[int] = []
    for part in parts:
        end = 0  # of the run before, in characters of the part
        runs: list[int] = []
        for offset, run in part.runs:
            size = len(text_bytes(run))
            runs += [offset - end, place, size]
            end = offset + len(run)
            place += size
        bytes_of_part = sum(runs[2::3])
        has_gaps = part.size > sum(len(run) for _, run in part.runs)
        # The last part is found from the end of a value: by bytes, or, where any character may occur, by characters.
        body += [len(part.runs), part.size if has_gaps else -bytes_of_part, part.size - end, *runs]
    joined = b"".join(texts)
    joined += bytes(-len(joined) % 8)
    literal = [int.from_bytes(joined[at : at + 8], "little", signed=True) for at in range(0, len(joined), 8)]
    return header + body + literal


def _part_words(part: Part) -> int:
    return 3 + 3 * len(part.runs)


def automaton_program(automaton: PositionAutomaton) -> list[int]:
    """The program that finds a match of a regular expression."""
    count = len(automaton.characters)
    contexts = (
        [automaton.elsewhere] if automaton.at_boundaries is None else [automaton.elsewhere, automaton.at_boundaries]
    )
    first = automaton.first_characters
    program = [
        PROGRAM_AUTOMATON,
        count,
        len(contexts) - 1,
        int(automaton.begins_at_start),
        -1 if first is None else first[0] | first[1] << 8,
    ]
    assert len(program) == AUTOMATON_HEADER
    for transitions in contexts:
        program += _transition_words(transitions)
    # Of each position where its ranges are, in words from the start of the program, and from bit 32 on how many.
    place = len(program) + count
    ranges: list[int] = []
    for characters in automaton.characters:
        program.append(len(characters) << 32 | place + len(ranges))
        ranges += [low << 32 | high for low, high in characters]
    return program + ranges


def _transition_words(transitions: Transitions) -> list[int]:
    return [
        transitions.first,
        transitions.first_at_start,
        transitions.last,
        transitions.last_at_end,
        transitions.last_at_very_end,
        transitions.empty,
        *transitions.follow,
    ]
