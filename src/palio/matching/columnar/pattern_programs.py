"""Programs of patterns: LIKE patterns and regular expressions as integers, which kernels run on a text.

A program begins with its kind. A LIKE pattern follows as the parts that lie between its `%`, each with its runs of
literal text and the number of characters before each run. A regular expression follows as its position automaton.
Literals stand beside the program, so that all patterns of one skeleton (`pattern_skeletons`) have one program: a
hundred thousand programs would be larger than the caches of a processor. `program_kernels` runs both; `layout` names
the fields.
"""

from __future__ import annotations

from palio.filters.like import LikePattern
from palio.filters.position_automaton import PositionAutomaton, Transitions
from palio.matching.columnar.layout import (
    AUTOMATON_HEADER,
    PROGRAM_AUTOMATON,
    PROGRAM_ILIKE,
    PROGRAM_LIKE,
    RUN_FIELDS,
    RUN_LENGTH,
)
from palio.matching.columnar.slot_order import text_bytes


def like_program(pattern: LikePattern) -> list[int]:
    """The program that decides a LIKE pattern whose literals are the bytes of its text."""
    parts = pattern.parts
    least = place = 0
    body: list[int] = []
    for runs, size in parts:
        placed: list[int] = []
        end = gaps = 0  # of the runs so far, in characters of the part
        for offset, run in runs:
            length = len(text_bytes(run))
            placed += (offset - end, place, length)
            gaps += offset - end
            end = offset + len(run)
            place += length
        gaps += size - end
        length = sum(placed[RUN_LENGTH::RUN_FIELDS])
        least += length + gaps
        # The last part is found from the end of a value: by bytes, or, where any character may occur, by characters.
        body += (len(runs), size if gaps else -length, size - end, *placed)
    kind = PROGRAM_ILIKE if pattern.ignore_case else PROGRAM_LIKE
    return [kind, least, len(parts), *body]


def automaton_program(automaton: PositionAutomaton, placeholders: range = range(0)) -> list[int]:
    """The program that finds a match of a regular expression; its literals are 32-bit code points."""

    def character(point: int) -> int:
        return ~(point - placeholders.start) if point in placeholders else point

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
        int(first is not None),
        *map(character, first or (0, 0)),
    ]
    assert len(program) == AUTOMATON_HEADER
    for transitions in contexts:
        program += _transition_words(transitions)
    # Of each position where its ranges are, in words from the start of the program, and from bit 32 on how many.
    place = len(program) + count
    ranges: list[int] = []
    for characters in automaton.characters:
        program.append(len(characters) << 32 | place + len(ranges))
        ranges += [
            character(low) if low == high and low in placeholders else low << 32 | high for low, high in characters
        ]
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
