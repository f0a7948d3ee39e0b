"""Tests that must be evaluated on values: LIKE, regular expressions, computed conditions, sets that slots cannot hold.

`AttributeTests` evaluates all tests on one attribute for one value. Every LIKE pattern and regular expression has a
longest piece of text that must occur, and all those pieces share an automaton (Aho and Corasick), one over the text as
it is and one over its lower case. A pattern is evaluated only where its piece is found; one that is nothing but its
piece is not evaluated at all, and one that is a whole text is found by that text. Results are cached by value, because
streams repeat themselves. `EventSearches` does so for searches through all values of an event.

`PatternTable` holds the pieces for the kernels, which evaluate whole columns of strings (`pattern_cache`) and must
agree. Each piece is filed under its rarest *gram* of four bytes. A pattern that is a text at its place (all of a value,
its start, its end or anywhere) is decided by the kernels; of any other the piece is filed, and where that is found the
pattern is evaluated in Python.

Rejected: RE2's own set of expressions. After a compile that fails for size, its Python wrapper crashes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np

from palio.events.values import Scalar
from palio.filters.expressions.extension_functions import cast_text
from palio.filters.expressions.text_cast import may_occur_in_non_string
from palio.filters.kinds import MISSING, Kind, Value
from palio.filters.like import LikePattern
from palio.filters.regex import Regex
from palio.filters.tree import Attributes
from palio.filters.value_predicates import Computed, Like, Rlike, Test
from palio.matching.columnar.array_types import AnyArray, Int32s, Int64s
from palio.matching.columnar.conditions import SetMembership, ValueTest, WholeEventSearch
from palio.matching.columnar.layout import (
    FIBONACCI_32,
    FIBONACCI_64,
    GRAM,
    PADDING,
    PATTERNS_ALWAYS,
    PATTERNS_ALWAYS_COUNT,
    PATTERNS_BYTES,
    PATTERNS_CANDIDATES,
    PATTERNS_FIELDS,
    PATTERNS_FILTER,
    PATTERNS_FILTER_SHIFT,
    PATTERNS_LENGTHS,
    PATTERNS_PAIRS,
    PATTERNS_SPECIAL,
    PATTERNS_TABLE,
    PATTERNS_TABLE_BITS,
    PATTERNS_TEXT_COUNT,
    PATTERNS_TEXTS,
    PATTERNS_WORD_COUNT,
    PATTERNS_WORDS,
    WORD_SHARED,
    WORD_UNDECIDED,
)
from palio.matching.columnar.native import address_of
from palio.matching.columnar.slot_order import text_bytes

_MAX_CACHED_VALUES: Final = 50_000  # per attribute; then the cache is cleared
_MAX_CACHED_CHARS: Final = 1_000  # of a value
_MAX_WITHOUT_AUTOMATON: Final = 3  # pieces that are faster looked for one by one


@dataclass(frozen=True, slots=True)
class CodedPattern:
    """A test of strings: its code, and the LIKE pattern or regular expression it evaluates."""

    code: int
    expression: LikePattern | Regex

    @property
    def accepts(self) -> Callable[[str], bool]:
        return self.expression.search if isinstance(self.expression, Regex) else self.expression.matches

    @property
    def ignores_case(self) -> bool:
        return isinstance(self.expression, LikePattern) and self.expression.ignore_case

    @property
    def piece(self) -> str:
        """A piece of text that must occur; of a pattern that ignores case, in lower case."""
        if isinstance(self.expression, Regex):
            return self.expression.required
        return max(self.expression.literals, key=len, default="")


class AttributeTests:
    """All tests on one attribute; evaluating them on a value gives the codes of those that hold."""

    def __init__(self, tests: Sequence[tuple[int, ValueTest]]) -> None:
        self.patterns: list[CodedPattern] = []
        self.of_strings: list[tuple[int, ValueTest]] = []  # beside patterns
        self.of_others: list[tuple[int, ValueTest]] = []
        for code, test in tests:
            match test:
                case Test(Like(pattern), True):
                    self.patterns.append(CodedPattern(code, pattern))
                case Test(Rlike(regex), True):
                    self.patterns.append(CodedPattern(code, regex))
                case SetMembership(values):
                    self.of_others.append((code, test))
                    if not values.parts[Kind.STRING].is_empty:
                        self.of_strings.append((code, test))
                case _:
                    if not _is_of_strings_only(test):
                        self.of_others.append((code, test))
                    self.of_strings.append((code, test))
        self._cache: dict[str, tuple[int, ...]] = {}
        self.when_missing = self._evaluate_other(MISSING)
        self.when_null = self._evaluate_other(None)

    def codes(self, value: Value) -> tuple[int, ...]:
        """The codes of all tests that hold for a value."""
        if value is None:
            return self.when_null
        if type(value) is not str:
            return self._evaluate_other(value) if self.of_others else ()
        known = self._cache.get(value)
        if known is None:
            known = self._evaluate(value)
            if len(value) <= _MAX_CACHED_CHARS:
                if len(self._cache) >= _MAX_CACHED_VALUES:
                    self._cache = {}
                self._cache[value] = known
        return known

    @cached_property
    def _find(self) -> _Finder:
        return _Finder(self.patterns)

    def _evaluate(self, text: str) -> tuple[int, ...]:
        codes = [code for code, test in self.of_strings if predicate_of(test)(text)]
        return (*codes, *self._find(text))

    def _evaluate_other(self, value: Value) -> tuple[int, ...]:
        return tuple(code for code, test in self.of_others if predicate_of(test)(value))


class EventSearches:
    """All searches through the values of an event; `codes` gives those of the searches that find something."""

    def __init__(self, searches: Iterable[tuple[int, WholeEventSearch]]) -> None:
        self.patterns = [CodedPattern(code, _pattern_of(search)) for code, search in searches]
        self._find = _Finder(self.patterns)
        self._cache: dict[str, tuple[int, ...]] = {}
        of_others = [pattern for pattern in self.patterns if may_occur_in_non_string(pattern.piece)]
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
            text = cast_text(value, "UTC") if self.reads_others else None
            return () if text is None else tuple(self._find_in_others(text))
        known = self._cache.get(value)
        if known is None:
            known = tuple(self._find(value))
            if len(value) <= _MAX_CACHED_CHARS:
                if len(self._cache) >= _MAX_CACHED_VALUES:
                    self._cache = {}
                self._cache[value] = known
        return known


def _pattern_of(search: WholeEventSearch) -> LikePattern | Regex:
    if search.function == "any_value_rlike":
        return Regex.compile(search.pattern)
    return LikePattern.parse(search.pattern, ignore_case=search.function == "any_value_ilike")


def predicate_of(test: ValueTest) -> Callable[[Value], bool]:
    """The function that evaluates a test on a value."""
    if isinstance(test, SetMembership):
        return test.values.contains
    assert isinstance(test, Test)  # a search is of no attribute
    return test.passes


class _Finder:
    """Finds the patterns that a text satisfies."""

    def __init__(self, patterns: Sequence[CodedPattern]) -> None:
        self._plain = _Automaton([each for each in patterns if not each.ignores_case])
        self._folded = _Automaton([each for each in patterns if each.ignores_case])

    def __call__(self, text: str) -> Iterator[int]:
        yield from self._plain.find(text, text)
        if self._folded.patterns:
            yield from self._folded.find(text, text.lower())


def _is_of_strings_only(test: ValueTest) -> bool:
    """Whether no value but a string can pass."""
    return isinstance(test, Test) and isinstance(test.pattern, Computed) and test.pattern.is_string_only


class _Automaton:
    """Patterns that are looked for in one form of a text, as it is or in lower case."""

    def __init__(self, patterns: Sequence[CodedPattern]) -> None:
        self.patterns = patterns
        self._whole: dict[str, list[int]] = {}
        by_piece: dict[str, list[CodedPattern]] = {}
        for pattern in patterns:
            if isinstance(pattern.expression, LikePattern) and pattern.expression.shape == "exact":
                self._whole.setdefault(pattern.expression.text, []).append(pattern.code)
            else:
                by_piece.setdefault(pattern.piece, []).append(pattern)
        self._always = [(each.code, each.accepts) for each in by_piece.pop("", [])]
        groups = list(by_piece.values())
        self._automaton: Any = None
        if len(groups) <= _MAX_WITHOUT_AUTOMATON:
            self._always += [(each.code, each.accepts) for group in groups for each in group]
        else:
            # Imported only where there are enough pieces to need it.
            from ahocorasick_rs import AhoCorasick

            self._automaton = AhoCorasick(list(by_piece))
        # Of the patterns with a piece: those that need nothing else, and the others.
        self._decided = [[each.code for each in group if _is_its_piece(each)] for group in groups]
        self._undecided = [[(each.code, each.accepts) for each in group if not _is_its_piece(each)] for group in groups]

    def find(self, text: str, searched: str) -> list[int]:
        """The codes of the patterns a text satisfies, given the form of it that is searched."""
        found = list(self._whole.get(searched, ()))
        found += [code for code, accepts in self._always if accepts(text)]
        if self._automaton is not None:
            # Overlapping, because one piece may lie within another; a set, because a piece may occur several times.
            for index in {hit[0] for hit in self._automaton.find_matches_as_indexes(searched, overlapping=True)}:
                found += self._decided[index]
                found += [code for code, accepts in self._undecided[index] if accepts(text)]
        return found


def _is_its_piece(pattern: CodedPattern) -> bool:
    return isinstance(pattern.expression, LikePattern) and pattern.expression.shape == "substring"


Accepts: TypeAlias = Callable[[str], bool]

_ENDS: Final = {"exact": 3, "prefix": 1, "suffix": 2, "substring": 0}
_FILTER_BITS_PER_GRAM: Final = 32  # so that a place passes for nothing once in some thirty
_MIN_FILTER_BITS: Final = 10
_MAX_FILTER_BITS: Final = 18  # 32 kilobytes, which the fastest cache holds
_NO_PAIRS: Final = np.zeros(1, np.uint8)  # never read where no text is short
# The first bytes of the two characters whose lower case is ASCII and which are not.
_FOREIGN_CAPITALS: Final = (0xC4, 0xE2)


class PatternTable:
    """Texts by their grams, with the words that are found with them."""

    def __init__(
        self,
        patterns: Sequence[CodedPattern],
        searches: Sequence[CodedPattern] = (),
        always: Sequence[tuple[int, Accepts]] = (),
    ) -> None:
        """Of the patterns of an attribute, of searches, and of further tests, which are evaluated on every value."""
        self._python_tests: list[tuple[int, Accepts]] = []  # by the number in an undecided word: code, and test
        by_text: dict[tuple[bytes, int], list[int]] = {}
        every = [self._undecided_word(code, accepts) for code, accepts in always]
        for several, mark in ((patterns, 0), (searches, WORD_SHARED)):
            for pattern in several:
                code, ends = pattern.code | mark, _ends_of(pattern)
                if ends is not None:
                    by_text.setdefault((text_bytes(pattern.piece), ends), []).append(code)
                elif pattern.piece:
                    word = self._undecided_word(code, pattern.accepts)
                    by_text.setdefault((text_bytes(pattern.piece.lower()), 0), []).append(word)
                else:
                    every.append(self._undecided_word(code, pattern.accepts))
        self.text_count = len(by_text)
        self.arrays = self._arrays(by_text, every)
        self._table = np.zeros(PATTERNS_FIELDS, np.int64)
        for at, name in _ADDRESSES.items():
            self._table[at] = address_of(self.arrays[name])
        for at, fact in zip(_FACTS, self.arrays["facts"].tolist(), strict=True):
            self._table[at] = fact
        self.word_count = int(self._table[PATTERNS_WORD_COUNT])
        self.address = address_of(self._table)

    def _undecided_word(self, code: int, accepts: Accepts) -> int:
        self._python_tests.append((code, accepts))
        return WORD_UNDECIDED | len(self._python_tests) - 1

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(each.nbytes for each in self.arrays.values())

    def python_test(self, word: int) -> tuple[int, Accepts]:
        """The code and the test of an undecided word."""
        return self._python_tests[word & ~WORD_UNDECIDED]

    def _arrays(self, by_text: dict[tuple[bytes, int], list[int]], every: list[int]) -> dict[str, AnyArray]:
        special = np.zeros(256, np.uint8)
        special[128:] = not all(text.isascii() for text, _ in by_text)
        special[list(_FOREIGN_CAPITALS)] = 1
        words: list[int] = []
        rows: list[tuple[int, ...]] = []
        start = 0
        for (text, ends), own in by_text.items():
            rows.append((start, len(text), ends, len(words), len(own)))
            words += own
            start += len(text)
        grams = _rarest_grams([text for text, _ in by_text])
        table, table_bits, candidates = _gram_table(grams)
        bits = max(_MIN_FILTER_BITS, (_FILTER_BITS_PER_GRAM * len(grams)).bit_length())
        shift = 32 - min(bits, _MAX_FILTER_BITS)
        lengths = 0
        bitmap = np.zeros((1 << (32 - shift)) // 8, np.uint8)
        pairs = np.zeros(1 << 16, np.bool_)
        for gram, size in {(gram, size) for gram, size, _ in grams}:
            lengths |= 1 << size
            if size == GRAM:
                bit = ((gram * FIBONACCI_32) & 0xFFFFFFFF) >> shift
                bitmap[bit >> 3] |= 1 << (bit & 7)
            elif size == 1:
                # A text of one byte may be followed by any other.
                pairs[gram::256] = True
            else:
                pairs[gram & 0xFFFF] = True
        return {
            "pairs": np.packbits(pairs, bitorder="little") if pairs.any() else _NO_PAIRS,
            "special": special,
            "filter": bitmap,
            "table": table,
            "candidates": candidates,
            "texts": np.array(rows, np.int32).reshape(-1, 5),
            "bytes": np.frombuffer(b"".join(text for text, _ in by_text) + bytes(PADDING), np.uint8),
            "words": np.array(words + every or [0], np.int64),
            "facts": np.array(
                [shift, table_bits, len(words) + len(every), len(rows), lengths, len(words), len(every)], np.int64
            ),
        }


_ADDRESSES: Final = {
    PATTERNS_PAIRS: "pairs",
    PATTERNS_SPECIAL: "special",
    PATTERNS_FILTER: "filter",
    PATTERNS_TABLE: "table",
    PATTERNS_CANDIDATES: "candidates",
    PATTERNS_TEXTS: "texts",
    PATTERNS_BYTES: "bytes",
    PATTERNS_WORDS: "words",
}
_FACTS: Final = (
    PATTERNS_FILTER_SHIFT,
    PATTERNS_TABLE_BITS,
    PATTERNS_WORD_COUNT,
    PATTERNS_TEXT_COUNT,
    PATTERNS_LENGTHS,
    PATTERNS_ALWAYS,
    PATTERNS_ALWAYS_COUNT,
)


def _ends_of(pattern: CodedPattern) -> int | None:
    """At which ends of a value the text of a pattern must stand; None where it needs more than that text."""
    if not isinstance(pattern.expression, LikePattern) or pattern.expression.shape == "general":
        return None
    # The kernels see values in lower case: a text with letters decides only for patterns that ignore case.
    has_case = pattern.piece != pattern.piece.lower() or pattern.piece != pattern.piece.upper()
    if not pattern.expression.ignore_case and (has_case or not pattern.piece.isascii()):
        return None
    return _ENDS[pattern.expression.shape] if pattern.piece else None


def _rarest_grams(texts: Sequence[bytes]) -> list[tuple[int, int, int]]:
    """Of every text one gram that few of the others have, as a number, with its length and its place in the text."""
    counts: Counter[bytes] = Counter()
    for text in texts:
        counts.update({text[at : at + GRAM] for at in range(max(1, len(text) - GRAM + 1))})
    found = []
    for text in texts:
        places = range(max(1, len(text) - GRAM + 1))
        # Of equally rare grams the last.
        place = min(places, key=lambda at: (counts[text[at : at + GRAM]], -at))
        gram = text[place : place + GRAM]
        found.append((int.from_bytes(gram, "little"), len(gram), place))
    return found


def _gram_table(
    grams: Sequence[tuple[int, int, int]],
) -> tuple[Int64s, int, Int32s]:
    """A hash table from grams to runs of candidates: the numbers of the texts, and the places of the grams in them."""
    by_gram: dict[int, list[tuple[int, int]]] = {}
    for number, (gram, size, place) in enumerate(grams):
        by_gram.setdefault(gram | size << 32, []).append((number, place))
    bits = max(2, (2 * len(by_gram)).bit_length())
    table = np.zeros((1 << bits, 2), np.int64)
    candidates: list[tuple[int, int]] = []
    for key, run in by_gram.items():
        at = ((key * FIBONACCI_64) % 2**64) >> (64 - bits)  # as `first_probe` of the kernels does
        while table[at, 0]:
            at = (at + 1) & ((1 << bits) - 1)
        table[at] = key, len(run) << 32 | len(candidates)
        candidates += run
    return table, bits, np.array(candidates or [(0, 0)], np.int32)
