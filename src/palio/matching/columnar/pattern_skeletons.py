"""Skeletons of patterns: what patterns have in common that differ in literals alone, as arrays for the kernels.

Patterns by the thousand mostly come from one form with other constants. What takes long (parsing a regular expression,
its automaton, its program, the places of the pieces of text that it needs) is done once for a skeleton; a pattern is
then its skeleton, its code and its literals. A hundred thousand patterns of a few skeletons are described in a few
tenths of a second; a pattern that is the only one of its skeleton takes as long as parsing it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from palio.filters.like import Gap, LikePattern
from palio.filters.regex import MAX_SMALL_STEPS, Regex, is_slow_expression
from palio.filters.regex_outline import outline
from palio.filters.regex_skeleton import RegexSkeleton
from palio.matching.columnar.array_types import AnyArray, Bytes, Int64s
from palio.matching.columnar.layout import (
    OF_FOLDED,
    OF_PLAIN,
    PADDING,
    PATTERN_FIELDS,
    PIECE_FIELDS,
    PIECE_UNITS,
    SKELETON_FIELDS,
    SKELETON_HAS_POINTS,
    SKELETON_IGNORES_CASE,
    SKELETON_IS_ITS_PIECE,
    SKELETON_PIECES,
)
from palio.matching.columnar.pattern_programs import automaton_program, like_program
from palio.matching.columnar.slot_order import text_bytes

Accepts: TypeAlias = Callable[[str], bool]

_AT_START: Final = 1
_AT_END: Final = 2
_BYTES_PER_POINT: Final = 4

_Units: TypeAlias = list[int]  # of a piece: a byte, or the complement of the number of a literal
_Clauses: TypeAlias = Iterable[Iterable[tuple[_Units, int]]]


@dataclass(frozen=True, slots=True)
class CodedPattern:
    """A test of strings: its code, and the LIKE pattern or regular expression it evaluates."""

    code: int
    expression: LikePattern | Regex

    @property
    def accepts(self) -> Accepts:
        return self.expression.search if isinstance(self.expression, Regex) else self.expression.matches

    @property
    def ignores_case(self) -> bool:
        return isinstance(self.expression, LikePattern) and self.expression.ignore_case

    @property
    def longest_piece(self) -> str:
        """A piece of text that must occur; of a pattern that ignores case, in lower case."""
        if isinstance(self.expression, Regex):
            return self.expression.required
        return max(self.expression.literals, key=len, default="")


class DescribedPatterns(NamedTuple):
    """Patterns, their skeletons, and the literals they differ in; `layout` names the fields of the rows."""

    patterns: Int64s
    skeletons: Int64s
    pieces: Int64s
    units: Int64s
    programs: Int64s
    literals: Bytes
    piece_count: int
    """Pieces of all patterns."""
    byte_count: int
    """Bytes that all pieces have at most."""
    ignores_case: bool
    """Whether some pattern does."""
    ignores_foreign_case: bool
    """Whether some pattern does that is not ASCII."""


def describe(coded: Sequence[CodedPattern]) -> DescribedPatterns:
    """Describe patterns. LIKE patterns come first, otherwise they stay in their order."""
    skeletons = _Skeletons()
    numbers: list[int] = []
    codes: list[int] = []
    texts: list[str] = []
    points: list[str] = []
    lengths: list[int] = []
    ignores_case = ignores_foreign_case = False
    for each in coded:
        expression = each.expression
        if isinstance(expression, LikePattern):
            tokens = expression.tokens
            text = "".join([token for token in tokens if type(token) is str])
            folds = expression.ignore_case
            ignores_case = ignores_case or folds
            if text.isascii():
                key: Hashable = (folds, *[len(token) if type(token) is str else token for token in tokens])
                length = len(text)
            else:
                ignores_foreign_case = ignores_foreign_case or folds
                key = (folds, *[_lengths(token) for token in tokens])
                length = len(text_bytes(text))
            numbers.append(skeletons.of_like(key, expression))
            codes.append(each.code)
            texts.append(text)
            lengths.append(length)
    for each in coded:
        expression = each.expression
        if isinstance(expression, Regex):
            skeleton, text = expression.split
            numbers.append(skeletons.of_regex(skeleton))
            codes.append(each.code)
            points.append(text)
            lengths.append(_BYTES_PER_POINT * len(text))
    literals = text_bytes("".join(texts)) + "".join(points).encode("utf-32-le", "surrogatepass") + bytes(PADDING)
    patterns = np.empty((len(codes), PATTERN_FIELDS), np.int64)
    patterns[:, 0] = numbers
    patterns[:, 1] = codes
    patterns[:, 2] = np.cumsum([0, *lengths], dtype=np.int64)[:-1]
    rows, pieces, units, programs = skeletons.arrays()
    piece_counts, byte_counts = skeletons.counts()
    return DescribedPatterns(
        patterns,
        rows,
        pieces,
        units,
        programs,
        np.frombuffer(literals, np.uint8),
        int(piece_counts[patterns[:, 0]].sum()),
        int(byte_counts[patterns[:, 0]].sum()),
        ignores_case,
        ignores_foreign_case,
    )


def _lengths(token: str | Gap) -> object:
    return (len(token), len(text_bytes(token)), "text") if isinstance(token, str) else token


class _Skeletons:
    """Skeletons by their numbers, as rows for the kernels."""

    def __init__(self) -> None:
        self._numbers: dict[Hashable, int] = {}
        self._rows: list[tuple[int, ...]] = []
        self._pieces: list[tuple[int, ...]] = []
        self._units: list[int] = []
        self._programs: list[int] = []

    def of_like(self, key: Hashable, example: LikePattern) -> int:
        """The number of the skeleton of a LIKE pattern; of patterns with one key any is an example."""
        known = self._numbers.get(key)
        return self._add_like(key, example) if known is None else known

    def _add_like(self, key: Hashable, example: LikePattern) -> int:
        flags = SKELETON_IGNORES_CASE if example.ignore_case else 0
        if example.shape != "general" and example.literals:
            flags |= SKELETON_IS_ITS_PIECE
        end = len(example.tokens) - 1
        clauses: list[list[tuple[_Units, int]]] = []
        first = 0
        for place, token in enumerate(example.tokens):
            if isinstance(token, str):
                length = len(text_bytes(token))
                ends = _AT_START * (place == 0) | _AT_END * (place == end)
                clauses.append([([~unit for unit in range(first, first + length)], ends)])
                first += length
        # As for regular expressions, what may take many steps for a character is left to Python, which has limits.
        program = like_program(example) if example.steps <= MAX_SMALL_STEPS else None
        return self._add(key, flags, OF_FOLDED if example.ignore_case else OF_PLAIN, program, clauses)

    def of_regex(self, skeleton: RegexSkeleton) -> int:
        """The number of the skeleton of a regular expression."""
        known = self._numbers.get(skeleton)
        if known is not None:
            return known
        literals, automaton = outline(skeleton.text)
        clauses = [
            [(_units(text, skeleton.placeholders), _AT_START * at_start) for text, at_start in clause]
            for clause in literals
        ]
        # A kernel takes as many steps for a character as the automaton has positions; RE2 has limits for such.
        is_slow = automaton is not None and is_slow_expression(skeleton.text)
        program = None if automaton is None or is_slow else automaton_program(automaton, skeleton.placeholders)
        return self._add(skeleton, SKELETON_HAS_POINTS, OF_PLAIN, program, clauses)

    def _add(self, key: Hashable, flags: int, form: int, program: list[int] | None, clauses: _Clauses) -> int:
        first = len(self._pieces)
        for number, clause in enumerate(clauses):
            for units, ends in clause:
                self._pieces.append((number, ends | form, len(self._units), len(units)))
                self._units += units
        place = -1 if program is None else len(self._programs)
        self._programs += program or ()
        self._rows.append((flags, place, first, len(self._pieces) - first))
        self._numbers[key] = len(self._rows) - 1
        return len(self._rows) - 1

    def arrays(self) -> tuple[Int64s, Int64s, Int64s, Int64s]:
        """Rows of skeletons, of pieces, units and programs."""
        return (
            _rows(self._rows, SKELETON_FIELDS),
            _rows(self._pieces, PIECE_FIELDS),
            np.array(self._units or [0], np.int64),
            np.array(self._programs or [0], np.int64),
        )

    def counts(self) -> tuple[AnyArray, AnyArray]:
        """Of each skeleton the number of pieces, and the bytes that they have at most."""
        rows, pieces, _, _ = self.arrays()
        units = np.concatenate([[0], np.cumsum(pieces[:, PIECE_UNITS])])
        first = rows[:, SKELETON_PIECES - 1]
        return rows[:, SKELETON_PIECES], _BYTES_PER_POINT * (units[first + rows[:, SKELETON_PIECES]] - units[first])


def _units(text: str, placeholders: range) -> _Units:
    """The bytes of a literal, placeholders as numbers of literals."""
    units: _Units = []
    for character in text:
        point = ord(character)
        units += (~(point - placeholders.start),) if point in placeholders else text_bytes(character)
    return units


def _rows(rows: list[tuple[int, ...]], fields: int) -> Int64s:
    return np.array(rows, np.int64).reshape(-1, fields)
