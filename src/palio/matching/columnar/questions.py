"""Patterns asked of values, many at a time: which of these does this string satisfy?

Every LIKE pattern and regular expression on one attribute has a longest piece of text that must occur, and all those
pieces share an automaton (Aho and Corasick), one over the text as it is and one over its lower case. A pattern is
looked at only where its piece is found; one that asks for nothing but the piece is not looked at at all, and one that
asks for a whole text is found by that text. What has no such piece, computed conditions and sets that slots cannot hold
are asked one by one, the latter never of values of a kind they do not hold. Answers are remembered per value, because
streams repeat themselves.

This asks one value at a time. Whole columns of strings are asked by `answers`, which must agree.

RE2's own set of expressions was rejected: after a compile that fails for size, its Python wrapper crashes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

from palio.events.values import Scalar
from palio.filters.expressions.own import text_of
from palio.filters.kinds import MISSING, Kind, Value
from palio.filters.like import LikePattern
from palio.filters.patterns import Computed, Like, Matching, Test
from palio.filters.regex import Regex
from palio.filters.texts import may_be_of_others
from palio.filters.tree import Attributes
from palio.matching.columnar.conditions import Member, Question, Search

_REMEMBERED: Final = 50_000  # answers kept per attribute; then the memory starts anew
_REMEMBERED_LENGTH: Final = 1_000
_FEW: Final = 3  # up to here asking one by one is faster than an automaton


@dataclass(frozen=True, slots=True)
class Pattern:
    """A question about a string: its code, and the LIKE pattern or regular expression it is."""

    code: int
    asked: LikePattern | Regex

    @property
    def accepts(self) -> Callable[[str], bool]:
        return self.asked.search if isinstance(self.asked, Regex) else self.asked.matches

    @property
    def ignores_case(self) -> bool:
        return isinstance(self.asked, LikePattern) and self.asked.ignore_case

    @property
    def piece(self) -> str:
        """A piece of text that must occur; of a pattern that ignores case, in lower case."""
        if isinstance(self.asked, Regex):
            return self.asked.required
        return max(self.asked.literals, key=len, default="")


class Questions:
    """All questions about one attribute; answers are the codes of the axes whose question holds."""

    def __init__(self, questions: Sequence[tuple[int, Question]]) -> None:
        self.patterns: list[Pattern] = []
        self.of_strings: list[tuple[int, Question]] = []  # beside patterns
        self.of_others: list[tuple[int, Question]] = []
        for code, question in questions:
            match question:
                case Test(Like(pattern), True):
                    self.patterns.append(Pattern(code, pattern))
                case Test(Matching(regex), True):
                    self.patterns.append(Pattern(code, regex))
                case Member(values):
                    self.of_others.append((code, question))
                    if not values.parts[Kind.STRING].is_empty:
                        self.of_strings.append((code, question))
                case _:
                    if not _is_about_text(question):
                        self.of_others.append((code, question))
                    self.of_strings.append((code, question))
        self._known: dict[str, tuple[int, ...]] = {}
        self.when_missing = self._other(MISSING)
        self.when_null = self._other(None)

    def codes(self, value: Value) -> tuple[int, ...]:
        """The codes of all questions that hold for a value."""
        if value is None:
            return self.when_null
        if type(value) is not str:
            return self._other(value) if self.of_others else ()
        known = self._known.get(value)
        if known is None:
            known = self._ask(value)
            if len(value) <= _REMEMBERED_LENGTH:
                if len(self._known) >= _REMEMBERED:
                    self._known = {}
                self._known[value] = known
        return known

    @cached_property
    def _find(self) -> _Finder:
        return _Finder(self.patterns)

    def _ask(self, text: str) -> tuple[int, ...]:
        own = [code for code, question in self.of_strings if _asked(question, text)]
        return (*own, *self._find(text))

    def _other(self, value: Value) -> tuple[int, ...]:
        return tuple(code for code, question in self.of_others if _asked(question, value))


class Searches:
    """All searches through the values of an event; answers are the codes of those that find something."""

    def __init__(self, searches: Iterable[tuple[int, Search]]) -> None:
        self.patterns = [Pattern(code, _pattern_of(search)) for code, search in searches]
        self._find = _Finder(self.patterns)
        self._known: dict[str, tuple[int, ...]] = {}
        of_others = [pattern for pattern in self.patterns if may_be_of_others(pattern.piece)]
        self._find_in_others = _Finder(of_others)
        self.reads_others = bool(of_others)  # whether something may be found in a value that is no string

    def codes(self, attributes: Attributes) -> list[int]:
        """The codes of all searches that find something in an event."""
        found: set[int] = set()
        for value in attributes.values():
            for each in value if type(value) is tuple else (value,):
                found.update(self.of_value(each))  # type: ignore[arg-type]
        return list(found)

    def of_value(self, value: Scalar) -> tuple[int, ...]:
        """The codes of the searches that find something in a value."""
        if type(value) is not str:
            text = text_of(value, "UTC") if self.reads_others else None
            return () if text is None else tuple(self._find_in_others(text))
        known = self._known.get(value)
        if known is None:
            known = tuple(self._find(value))
            if len(value) <= _REMEMBERED_LENGTH:
                if len(self._known) >= _REMEMBERED:
                    self._known = {}
                self._known[value] = known
        return known


def _pattern_of(search: Search) -> LikePattern | Regex:
    if search.function == "any_value_rlike":
        return Regex.compile(search.pattern)
    return LikePattern.parse(search.pattern, ignore_case=search.function == "any_value_ilike")


def _asked(question: Question, value: Value) -> bool:
    if isinstance(question, Member):
        return question.values.contains(value)
    assert isinstance(question, Test)  # a search is asked of no attribute
    return question.passes(value)


class _Finder:
    """Finds the patterns that a text satisfies."""

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        self._plain = _Automaton([each for each in patterns if not each.ignores_case])
        self._folded = _Automaton([each for each in patterns if each.ignores_case])

    def __call__(self, text: str) -> Iterator[int]:
        yield from self._plain.find(text, text)
        if self._folded.patterns:
            yield from self._folded.find(text, text.lower())


def _is_about_text(question: Question) -> bool:
    """Whether no value but a string can be answered with yes."""
    return isinstance(question, Test) and isinstance(question.pattern, Computed) and question.pattern.is_about_text


class _Automaton:
    """Patterns that are looked for in the same form of a text."""

    def __init__(self, patterns: Sequence[Pattern]) -> None:
        self.patterns = patterns
        self._whole: dict[str, list[int]] = {}
        by_piece: dict[str, list[Pattern]] = {}
        for pattern in patterns:
            if isinstance(pattern.asked, LikePattern) and pattern.asked.shape == "exact":
                self._whole.setdefault(pattern.asked.text, []).append(pattern.code)
            else:
                by_piece.setdefault(pattern.piece, []).append(pattern)
        self._always = [(each.code, each.accepts) for each in by_piece.pop("", [])]
        groups = list(by_piece.values())
        self._automaton: Any = None
        if len(groups) <= _FEW:
            self._always += [(each.code, each.accepts) for group in groups for each in group]
        else:
            from ahocorasick_rs import AhoCorasick

            self._automaton = AhoCorasick(list(by_piece))
        # Of the patterns with a piece: those that ask for nothing else, and the others.
        self._sure = [[each.code for each in group if _is_its_piece(each)] for group in groups]
        self._asked = [[(each.code, each.accepts) for each in group if not _is_its_piece(each)] for group in groups]

    def find(self, text: str, searched: str) -> list[int]:
        """The codes of the patterns a text satisfies, given the form of it that is searched."""
        found = list(self._whole.get(searched, ()))
        found += [code for code, accepts in self._always if accepts(text)]
        if self._automaton is not None:
            for index in {hit[0] for hit in self._automaton.find_matches_as_indexes(searched, overlapping=True)}:
                found += self._sure[index]
                found += [code for code, accepts in self._asked[index] if accepts(text)]
        return found


def _is_its_piece(pattern: Pattern) -> bool:
    return isinstance(pattern.asked, LikePattern) and pattern.asked.shape == "substring"
