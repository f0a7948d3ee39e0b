"""Patterns asked of values, many at a time: which of these does this string satisfy?

Every LIKE pattern and regular expression on one attribute has a longest piece of text that must occur, and all those
pieces share an automaton (Aho and Corasick), one over the text as it is and one over its lower case. A pattern is
looked at only where its piece is found; one that asks for nothing but the piece is not looked at at all. What
has no such piece, computed conditions and sets that slots cannot hold are asked one by one. Answers are remembered
per value, because streams repeat themselves.

RE2's own set of expressions was rejected: after a compile that fails for size, its Python wrapper crashes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from palio.filters.kinds import MISSING, Value
from palio.filters.patterns import Computed, Like, Matching, Test
from palio.matching.columnar.conditions import Member, Question

_REMEMBERED: Final = 50_000  # answers kept per attribute; then the memory starts anew
_REMEMBERED_LENGTH: Final = 1_000
_FEW: Final = 3  # up to here asking one by one is faster than an automaton


@dataclass(frozen=True, slots=True)
class _Pattern:
    """A question about a string: its code, the piece that must occur, and the rest of the question, if any."""

    code: int
    piece: str
    accepts: Callable[[str], bool]
    is_the_piece: bool


class Questions:
    """All questions about one attribute; answers are the codes of the axes whose question holds."""

    def __init__(self, questions: Sequence[tuple[int, Question]]) -> None:
        plain: list[_Pattern] = []
        folded: list[_Pattern] = []
        self._others: list[tuple[int, Question]] = []
        for code, question in questions:
            match question:
                case Test(Like(pattern), True):
                    piece = max(pattern.literals, key=len, default="")
                    found = _Pattern(code, piece, pattern.matches, pattern.shape == "substring")
                    (folded if pattern.ignore_case else plain).append(found)
                case Test(Matching(regex), True):
                    plain.append(_Pattern(code, regex.required, regex.search, False))
                case _:
                    self._others.append((code, question))
        self._plain = _Automaton(plain) if plain else None
        self._folded = _Automaton(folded) if folded else None
        self._of_no_text = [(code, question) for code, question in self._others if not _is_about_text(question)]
        self._known: dict[str, tuple[int, ...]] = {}
        self.when_missing = tuple(code for code, question in self._others if _asked(question, MISSING))
        self.when_null = tuple(code for code, question in self._others if _asked(question, None))

    def codes(self, value: Value) -> tuple[int, ...]:
        """The codes of all questions that hold for a value."""
        if value is None:
            return self.when_null
        if type(value) is not str:
            return tuple(code for code, question in self._of_no_text if _asked(question, value))
        known = self._known.get(value)
        if known is None:
            known = self._ask(value)
            if len(value) <= _REMEMBERED_LENGTH:
                if len(self._known) >= _REMEMBERED:
                    self._known = {}
                self._known[value] = known
        return known

    def _ask(self, text: str) -> tuple[int, ...]:
        found = [code for code, question in self._others if _asked(question, text)]
        if self._plain is not None:
            found += self._plain.find(text, text)
        if self._folded is not None:
            found += self._folded.find(text, text.lower())
        return tuple(found)


def _asked(question: Question, value: Value) -> bool:
    return question.values.contains(value) if isinstance(question, Member) else question.passes(value)


def _is_about_text(question: Question) -> bool:
    """Whether no value but a string can be answered with yes."""
    return isinstance(question, Test) and isinstance(question.pattern, Computed) and question.pattern.is_about_text


class _Automaton:
    """Patterns that are looked for in the same form of a text."""

    def __init__(self, patterns: Sequence[_Pattern]) -> None:
        by_piece: dict[str, list[_Pattern]] = {}
        for pattern in patterns:
            by_piece.setdefault(pattern.piece, []).append(pattern)
        self._always = by_piece.pop("", [])
        self._groups = list(by_piece.values())
        self._automaton: Any = None
        if len(self._groups) <= _FEW:
            self._always += [pattern for group in self._groups for pattern in group]
        else:
            from ahocorasick_rs import AhoCorasick

            self._automaton = AhoCorasick(list(by_piece))

    def find(self, text: str, searched: str) -> list[int]:
        """The codes of the patterns a text satisfies, given the form of it that is searched."""
        found = [pattern.code for pattern in self._always if pattern.accepts(text)]
        if self._automaton is not None:
            for index in {hit[0] for hit in self._automaton.find_matches_as_indexes(searched, overlapping=True)}:
                found += [each.code for each in self._groups[index] if each.is_the_piece or each.accepts(text)]
        return found
