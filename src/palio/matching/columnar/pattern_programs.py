"""Programs of patterns: LIKE patterns and regular expressions as integers, which kernels run on a text.

A program begins with its kind. A LIKE pattern follows as the parts that lie between its `%`, each with its runs of
literal text and the number of characters before each run; the literal bytes come last. A regular expression follows
as its position automaton. `program_kernels` runs both; `layout` names the fields.
"""

from __future__ import annotations

from array import array

from palio.filters.like import LikePattern
from palio.filters.position_automaton import PositionAutomaton, Transitions
from palio.matching.columnar.layout import (
    AUTOMATON_HEADER,
    LIKE_HEADER,
    PART_FIELDS,
    PROGRAM_AUTOMATON,
    PROGRAM_ILIKE,
    PROGRAM_LIKE,
    RUN_FIELDS,
    RUN_LENGTH,
)
from palio.matching.columnar.slot_order import text_bytes


def like_program(pattern: LikePattern) -> list[int]:
    """The program that decides a LIKE pattern."""
    parts = pattern.parts
    # Where the literal bytes begin, counted in bytes from the start of the program.
    place = 8 * (LIKE_HEADER + PART_FIELDS * len(parts) + RUN_FIELDS * len(pattern.literals))
    least = 0
    body: list[int] = []
    literal = bytearray()
    for runs, size in parts:
        placed: list[int] = []
        end = gaps = 0  # of the runs so far, in characters of the part
        for offset, run in runs:
            text = text_bytes(run)
            placed += (offset - end, place + len(literal), len(text))
            gaps += offset - end
            end = offset + len(run)
            literal += text
        gaps += size - end
        length = sum(placed[RUN_LENGTH::RUN_FIELDS])
        least += length + gaps
        # The last part is found from the end of a value: by bytes, or, where any character may occur, by characters.
        body += (len(runs), size if gaps else -length, size - end, *placed)
    literal += bytes(-len(literal) % 8)
    kind = PROGRAM_ILIKE if pattern.ignore_case else PROGRAM_LIKE
    return [kind, least, len(parts), *body, *array("q", bytes(literal))]


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
