"""Pattern table: the patterns of an attribute, filed for the kernels by a piece of text that each of them needs.

Every LIKE pattern has pieces of text that must occur in a value, and so have most regular expressions. A pattern is
filed under the piece that fewest values are expected to have, and each piece under one *gram* of at most four bytes:
that at the end of values where the piece must stand, or its rarest. The kernels look at the ends of a value, read it
once, find the pieces in it, and look only at the patterns that are filed under them. One that is nothing but its piece
(all of a value, its start, its end or anywhere) is decided by that; any other has a program that a kernel runs
(`pattern_programs`). Python evaluates what has no program: very long regular expressions, those with `\\B`, and tests
that are no patterns.

Making a table costs some microseconds for a pattern: what patterns have in common is computed once
(`pattern_skeletons`), and kernels file them (`filing_kernels`). Its memory is some hundred bytes for a pattern.

Rejected, with 10,000 patterns of one shape and values of ten letters: RE2's set of expressions (31,000 to 135,000
values/s with 256 MB for its automaton; its Python wrapper ends the process with a segmentation fault where one matches
after a compile that failed for size), Hyperscan (230,000 to 1,300,000 values/s, but 5 to 60 s to compile, for every
sealed segment again, and a dialect of its own).
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import Final

import numpy as np

from palio.matching.columnar import filing_kernels, pattern_kernels
from palio.matching.columnar.array_types import AnyArray
from palio.matching.columnar.layout import (
    FILED_FIELDS,
    OF_FOLDED,
    OF_PLAIN,
    PADDING,
    PATTERNS_ALWAYS,
    PATTERNS_ALWAYS_COUNT,
    PATTERNS_BYTES,
    PATTERNS_CANDIDATES,
    PATTERNS_FIELDS,
    PATTERNS_FILTER,
    PATTERNS_FILTER_SHIFT,
    PATTERNS_LENGTHS,
    PATTERNS_LITERALS,
    PATTERNS_PAIRS,
    PATTERNS_PROGRAMS,
    PATTERNS_SCREENS,
    PATTERNS_SPECIAL,
    PATTERNS_TABLE,
    PATTERNS_TABLE_BITS,
    PATTERNS_TESTS,
    PATTERNS_TEXT_SCREENS,
    PATTERNS_TEXTS,
    PATTERNS_WORD_COUNT,
    PATTERNS_WORDS,
    SPECIAL,
    SPECIAL_DOTTED_I,
    SPECIAL_KELVIN,
    TEST_CODE,
    TEST_FIELDS,
    TEST_PROGRAM,
    TEXT_ROW_FIELDS,
    WORD_UNDECIDED,
)
from palio.matching.columnar.native import address_of
from palio.matching.columnar.pattern_skeletons import Accepts, CodedPattern, DescribedPatterns, describe

_FILTER_BITS_PER_GRAM: Final = 32  # so that a place passes for nothing once in some thirty
_MIN_FILTER_BITS: Final = 10
_MAX_FILTER_BITS: Final = 18  # 32 kilobytes, which the fastest cache holds
_PAIRS_BYTES: Final = (1 << 16) // 8
_USUAL_BYTES: Final = 1024  # of a value


class PatternTable:
    """Texts by their grams, with the words that are found with them."""

    def __init__(
        self,
        patterns: Sequence[CodedPattern],
        searches: Sequence[CodedPattern] = (),
        always: Sequence[tuple[int, Accepts]] = (),
    ) -> None:
        """Of the patterns of an attribute, of searches, and of further tests, which are evaluated on every value."""
        self._patterns = patterns
        every = [*patterns, *searches]
        described = describe(every)
        self.arrays, facts, self.stamp_count = _filed(described, [code for code, _ in always])
        tests = self.arrays["tests"]
        # Of tests without a program: those of patterns, and at the end those that are evaluated on every value.
        for_python = np.flatnonzero(tests[:, TEST_PROGRAM] < 0).tolist()
        accepts_of: dict[int, Accepts] = dict(always)
        if len(for_python) > len(always):
            accepts_of |= {each.code: each.accepts for each in every}
        self._python_tests: dict[int, tuple[int, Accepts]] = {
            WORD_UNDECIDED | test: (code, accepts_of[code])
            for test, code in zip(for_python, tests[for_python, TEST_CODE].tolist(), strict=True)
        }
        self._table = np.zeros(PATTERNS_FIELDS, np.int64)
        for at, name in _ADDRESSES.items():
            self._table[at] = address_of(self.arrays[name])
        for at, fact in facts.items():
            self._table[at] = fact
        self.word_count = facts[PATTERNS_WORD_COUNT]
        self.address = address_of(self._table)
        self._pool: list[_Scratch] = []

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(each.nbytes for each in self.arrays.values())

    def python_test(self, word: int) -> tuple[int, Accepts]:
        """The code and the test of an undecided word."""
        return self._python_tests[word]

    def find(self, text: str) -> list[int]:
        """The codes of the patterns that a single text satisfies; of a table of nothing but patterns."""
        try:
            given = array("B", text.encode())
        except UnicodeEncodeError:
            # A lone surrogate, which a single event may have and no column of strings.
            return [pattern.code for pattern in self._patterns if pattern.accepts(text)]
        try:
            # Pop and append of a list are atomic: threads share the pool without a lock.
            scratch = self._pool.pop()
        except IndexError:
            scratch = _Scratch(self)
        address, length = given.buffer_info()
        folded, stamps, epoch, found = scratch.begin(length)
        count = pattern_kernels.match_text(self.address, address, length, folded, stamps, epoch, found)
        if count < 0:
            count = pattern_kernels.match_patterns(
                self.address, address, folded, length, OF_PLAIN, stamps, epoch, found, 0
            )
            lowered = array("B", text.lower().encode() + bytes(PADDING))
            start, end = lowered.buffer_info()
            count = pattern_kernels.match_patterns(
                self.address, start, start, end - PADDING, OF_FOLDED, stamps, epoch + 1, found, count
            )
        words = scratch.words[:count].tolist() if count else []
        self._pool.append(scratch)
        if not self._python_tests:
            return words
        return [code for word in words for code in self._resolved(word, text)]

    def _resolved(self, word: int, text: str) -> tuple[int, ...]:
        if not word & WORD_UNDECIDED:
            return (word,)
        code, accepts = self.python_test(word)
        return (code,) if accepts(text) else ()


_ADDRESSES: Final = {
    PATTERNS_PAIRS: "pairs",
    PATTERNS_SPECIAL: "special",
    PATTERNS_FILTER: "filter",
    PATTERNS_TABLE: "table",
    PATTERNS_CANDIDATES: "candidates",
    PATTERNS_TEXTS: "texts",
    PATTERNS_BYTES: "bytes",
    PATTERNS_WORDS: "words",
    PATTERNS_TESTS: "tests",
    PATTERNS_PROGRAMS: "programs",
    PATTERNS_LITERALS: "literals",
    PATTERNS_SCREENS: "screens",
    PATTERNS_TEXT_SCREENS: "text_screens",
}


def _filed(described: DescribedPatterns, always: Sequence[int]) -> tuple[dict[str, AnyArray], dict[int, int], int]:
    """The arrays of a table by name, its other facts by field, and the number of stamps."""
    patterns, skeletons = described.patterns, described.skeletons
    filed = np.zeros((described.piece_count, FILED_FIELDS), np.int64)
    text = np.zeros(described.byte_count + PADDING, np.uint8)
    size = filing_kernels.write_pieces(
        address_of(patterns), len(patterns), address_of(skeletons), address_of(described.pieces),
        address_of(described.units), address_of(described.literals), address_of(filed), address_of(text),
    )  # fmt: skip
    text = text[: size + PADDING].copy()
    chosen = np.zeros((len(patterns), 3), np.int64)
    bits = _table_bits(len(filed))
    table = np.zeros(1 << bits, np.int64)
    word_count = filing_kernels.choose_clauses(
        address_of(filed), len(filed), len(patterns), address_of(text), address_of(table), bits, address_of(chosen)
    )
    texts = np.zeros((word_count, TEXT_ROW_FIELDS), np.int32)
    count = filing_kernels.number_texts(address_of(filed), len(patterns), address_of(chosen), address_of(texts))
    texts = texts[:count].copy()
    without = int((chosen[:, 1] == 0).sum())
    words = np.zeros(word_count + without, np.int64)
    screens = np.zeros(max(1, word_count), np.int64)
    text_screens = np.zeros(max(1, count), np.int64)
    tests = np.zeros((len(patterns), TEST_FIELDS), np.int64)
    stamps = filing_kernels.file_words(
        address_of(patterns), len(patterns), address_of(skeletons), address_of(filed), address_of(text),
        address_of(chosen), address_of(texts), count, address_of(words), word_count, address_of(screens),
        address_of(text_screens), address_of(tests),
    )  # fmt: skip
    tests = tests[: int((chosen[:, 2] >= 0).sum())]
    further = np.zeros((len(always), TEST_FIELDS), np.int64)
    further[:, TEST_PROGRAM], further[:, TEST_CODE] = -1, always
    arrays, facts = _file_grams(texts, text)
    arrays |= {
        "special": _special_bytes(described),
        "texts": texts,
        "bytes": text,
        "words": np.concatenate([words, WORD_UNDECIDED | np.arange(len(tests), len(tests) + len(always))]),
        "tests": np.concatenate([tests, further]),
        "programs": described.programs,
        "literals": described.literals,
        "screens": screens,
        "text_screens": text_screens,
    }
    facts |= {
        PATTERNS_WORD_COUNT: len(arrays["words"]),
        PATTERNS_ALWAYS: word_count,
        PATTERNS_ALWAYS_COUNT: without + len(always),
    }
    return arrays, facts, stamps


def _file_grams(texts: AnyArray, text: AnyArray) -> tuple[dict[str, AnyArray], dict[int, int]]:
    """The texts by the gram that each is found by, and the bitmaps that are looked at first."""
    count = len(texts)
    counting_bits = _table_bits(len(text) + count)
    counts = np.zeros((1 << counting_bits, 2), np.int64)
    grams = np.zeros((max(1, count), 2), np.int64)
    arguments = address_of(texts), count, address_of(text), address_of(counts), counting_bits
    filing_kernels.count_grams(*arguments)
    lengths = filing_kernels.choose_grams(*arguments, address_of(grams))
    bits = _table_bits(len(np.unique(grams[:, 0])))
    table = np.zeros((1 << bits, 2), np.int64)
    candidates = np.zeros((max(1, count), 2), np.int32)
    filter_bits = max(_MIN_FILTER_BITS, (_FILTER_BITS_PER_GRAM * count).bit_length())
    shift = 32 - min(filter_bits, _MAX_FILTER_BITS)
    bitmap = np.zeros((1 << (32 - shift)) // 8, np.uint8)
    pairs = np.zeros(_PAIRS_BYTES if lengths & 0b0110 else 1, np.uint8)  # not read where no text is short
    filing_kernels.file_grams(
        address_of(grams), count, address_of(table), bits, address_of(candidates), address_of(bitmap), shift,
        address_of(pairs),
    )  # fmt: skip
    arrays: dict[str, AnyArray] = {"pairs": pairs, "filter": bitmap, "table": table, "candidates": candidates}
    return arrays, {PATTERNS_FILTER_SHIFT: shift, PATTERNS_TABLE_BITS: bits, PATTERNS_LENGTHS: lengths}


def _table_bits(entries: int) -> int:
    """Bits of the size of a hash table that is at most half full."""
    return max(2, (2 * entries).bit_length())


def _special_bytes(described: DescribedPatterns) -> AnyArray:
    """Of each byte whether a value that holds it must be brought to lower case by Python, for these patterns."""
    special = np.zeros(256, np.uint8)
    if described.ignores_case:
        special[128:] = SPECIAL if described.ignores_foreign_case else 0
        # The first bytes of the two characters whose lower case is ASCII and which are not.
        special[0xC4] = special[0xC4] or SPECIAL_DOTTED_I
        special[0xE2] = special[0xE2] or SPECIAL_KELVIN
    return special


class _Scratch:
    """What the search of a single text writes; threads do not share one."""

    def __init__(self, table: PatternTable) -> None:
        self.words = np.empty(max(1, table.word_count), np.int64)
        self._stamps = np.zeros(table.stamp_count, np.int64)
        self._folded = np.empty(_USUAL_BYTES + PADDING, np.uint8)
        self._epoch = 0
        self._addresses = [address_of(each) for each in (self._folded, self._stamps, self.words)]

    def begin(self, length: int) -> tuple[int, int, int, int]:
        """For a text of some bytes: the room for its lower case, the stamps, the epoch, and the room for words."""
        if length + PADDING > len(self._folded):
            self._folded = np.empty(2 * length + PADDING, np.uint8)
            self._addresses[0] = address_of(self._folded)
        self._epoch += 2  # Python's lower case of a value has an epoch of its own
        folded, stamps, words = self._addresses
        return folded, stamps, self._epoch, words
