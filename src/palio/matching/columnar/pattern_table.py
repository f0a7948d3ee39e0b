"""Pattern table: the patterns of an attribute, filed for the kernels by a piece of text that each of them needs.

Every LIKE pattern has pieces of text that must occur in a value, and so have most regular expressions. A pattern is
filed under the piece that fewest values are expected to have, and each piece under its rarest *gram* of four bytes. The
kernels read a value once, find the pieces in it, and look only at the patterns that are filed under them. One that is
nothing but its piece (all of a value, its start, its end or anywhere) is decided by that; any other has a program that
a kernel runs (`pattern_programs`). Python evaluates what has no program: very long regular expressions, those with
`\\B`, and tests that are no patterns.

Rejected, with 10,000 patterns of one shape and values of ten letters: RE2's set of expressions (31,000 to 135,000
values/s with 256 MB for its automaton; after a compile that fails for size, its Python wrapper crashes), Hyperscan
(230,000 to 1,300,000 values/s, but 5 to 60 s to compile, for every sealed segment again, and a dialect of its own).
This table is made in less than a second, and its memory is that of the patterns.
"""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple, TypeAlias

import numpy as np

from palio.filters.like import LikePattern
from palio.filters.regex import Regex
from palio.matching.columnar import pattern_kernels as kernels
from palio.matching.columnar.array_types import AnyArray, Int32s, Int64s
from palio.matching.columnar.layout import (
    FIBONACCI_32,
    FIBONACCI_64,
    GRAM,
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
    PATTERNS_PAIRS,
    PATTERNS_PROGRAMS,
    PATTERNS_SPECIAL,
    PATTERNS_TABLE,
    PATTERNS_TABLE_BITS,
    PATTERNS_TESTS,
    PATTERNS_TEXT_COUNT,
    PATTERNS_TEXTS,
    PATTERNS_WORD_COUNT,
    PATTERNS_WORDS,
    SPECIAL,
    SPECIAL_DOTTED_I,
    SPECIAL_KELVIN,
    WORD_SHARED,
    WORD_UNDECIDED,
)
from palio.matching.columnar.native import address_of
from palio.matching.columnar.pattern_programs import program_of
from palio.matching.columnar.slot_order import text_bytes

Accepts: TypeAlias = Callable[[str], bool]

_AT_START: Final = 1
_AT_END: Final = 2
_LETTERS: Final = 26
_USUAL_PLACES: Final = 16  # of a value, at which a piece may stand that is bound to no end
_FILTER_BITS_PER_GRAM: Final = 32  # so that a place passes for nothing once in some thirty
_MIN_FILTER_BITS: Final = 10
_MAX_FILTER_BITS: Final = 18  # 32 kilobytes, which the fastest cache holds
_USUAL_BYTES: Final = 1024  # of a value
_NO_PAIRS: Final = np.zeros(1, np.uint8)  # never read where no text is short


class Piece(NamedTuple):
    """A text that must occur in a value whose ASCII letters are in lower case, and the ends of it where it must stand."""

    text: bytes
    ends: int


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

    @property
    def pieces(self) -> list[Piece]:
        """All pieces that must occur."""
        if isinstance(self.expression, Regex):
            return [Piece(text_bytes(text), _AT_START * at_start) for text, at_start in self.expression.pieces]
        tokens = self.expression.tokens
        # Lower case of bytes is that of ASCII, as the kernels have it.
        return [
            Piece(text_bytes(token).lower(), _AT_START * (place == 0) | _AT_END * (place == len(tokens) - 1))
            for place, token in enumerate(tokens)
            if isinstance(token, str)
        ]

    @property
    def is_its_piece(self) -> bool:
        """Whether every value that has its only piece passes."""
        if isinstance(self.expression, Regex) or self.expression.shape == "general" or not self.expression.text:
            return False
        text = text_bytes(self.expression.text)
        return self.expression.ignore_case or text.lower() == text.upper()


class _Filed(NamedTuple):
    """A test in the table: its code, the program that decides it or None, and how Python decides it."""

    code: int
    is_decided: bool
    program: list[int] | None
    accepts: Accepts


_Key: TypeAlias = tuple[bytes, int]  # a text; its ends, and the form of values that it is looked for in


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
        self._decided: list[tuple[int, Accepts]] = []  # the others
        self._programs: list[int] = []
        self._tests: list[tuple[int, int]] = []
        by_text, every = _file(patterns, searches)
        every += [_Filed(code, False, None, accepts) for code, accepts in always]
        ignoring = [each for each in (*patterns, *searches) if each.ignores_case]
        self.text_count = len(by_text)
        words = {key: [self._word(each) for each in filed] for key, filed in by_text.items()}
        self.arrays = self._arrays(words, [self._word(each) for each in every], _special_bytes(ignoring))
        self._table = np.zeros(PATTERNS_FIELDS, np.int64)
        for at, name in _ADDRESSES.items():
            self._table[at] = address_of(self.arrays[name])
        for at, fact in zip(_FACTS, self.arrays["facts"].tolist(), strict=True):
            self._table[at] = fact
        self.word_count = int(self._table[PATTERNS_WORD_COUNT])
        self.address = address_of(self._table)
        self._pool: list[_Scratch] = []

    def _word(self, filed: _Filed) -> int:
        if filed.is_decided:
            self._decided.append((filed.code, filed.accepts))
            return filed.code
        self._python_tests.append((filed.code, filed.accepts))
        self._tests.append((-1 if filed.program is None else len(self._programs), filed.code))
        self._programs += filed.program or ()
        return WORD_UNDECIDED | len(self._python_tests) - 1

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(each.nbytes for each in self.arrays.values())

    def python_test(self, word: int) -> tuple[int, Accepts]:
        """The code and the test of an undecided word."""
        return self._python_tests[word & ~WORD_UNDECIDED]

    def find(self, text: str) -> list[int]:
        """The codes of all tests that a single text passes."""
        try:
            given = array("B", text.encode())
        except UnicodeEncodeError:
            # A lone surrogate, which a single event may have and no column of strings.
            return self._find_one_by_one(text)
        try:
            # Pop and append of a list are atomic: threads share the pool without a lock.
            scratch = self._pool.pop()
        except IndexError:
            scratch = _Scratch(self)
        address, length = given.buffer_info()
        folded, stamps, epoch, found = scratch.begin(length)
        count = kernels.match_text(self.address, address, length, folded, stamps, epoch, found)
        if count < 0:
            count = kernels.match_patterns(self.address, address, folded, length, OF_PLAIN, stamps, epoch, found, 0)
            lowered = array("B", text.lower().encode() + bytes(PADDING))
            start, end = lowered.buffer_info()
            count = kernels.match_patterns(
                self.address, start, start, end - PADDING, OF_FOLDED, stamps, epoch, found, count
            )
        words = scratch.words[:count].tolist() if count else []
        self._pool.append(scratch)
        return [code for word in words for code in self._resolved(word, text)]

    def _resolved(self, word: int, text: str) -> tuple[int, ...]:
        if not word & WORD_UNDECIDED:
            return (word,)
        code, accepts = self.python_test(word)
        return (code,) if accepts(text) else ()

    def _find_one_by_one(self, text: str) -> list[int]:
        decided = [code for code, accepts in self._decided if accepts(text)]
        return decided + [code for code, accepts in self._python_tests if accepts(text)]

    def _arrays(self, by_text: dict[_Key, list[int]], every: list[int], special: AnyArray) -> dict[str, AnyArray]:
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
            "tests": np.array(self._tests or [(-1, 0)], np.int64),
            "programs": np.array(self._programs or [0], np.int64),
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
    PATTERNS_TESTS: "tests",
    PATTERNS_PROGRAMS: "programs",
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


class _Scratch:
    """What the search of a single text writes; threads do not share one."""

    def __init__(self, table: PatternTable) -> None:
        self.words = np.empty(max(1, table.word_count), np.int64)
        self._stamps = np.zeros(max(1, table.text_count), np.int64)
        self._folded = np.empty(_USUAL_BYTES + PADDING, np.uint8)
        self._epoch = 0
        self._addresses = [address_of(each) for each in (self._folded, self._stamps, self.words)]

    def begin(self, length: int) -> tuple[int, int, int, int]:
        """For a text of some bytes: the room for its lower case, the stamps, the epoch, and the room for words."""
        if length + PADDING > len(self._folded):
            self._folded = np.empty(2 * length + PADDING, np.uint8)
            self._addresses[0] = address_of(self._folded)
        self._epoch += 1
        folded, stamps, words = self._addresses
        return folded, stamps, self._epoch, words


def _file(
    patterns: Sequence[CodedPattern], searches: Sequence[CodedPattern]
) -> tuple[dict[_Key, list[_Filed]], list[_Filed]]:
    """The patterns by the piece that each is filed under, and those that have none."""
    pieces = [each.pieces for each in (*patterns, *searches)]
    counts = Counter(piece for several in pieces for piece in set(several))
    by_text: dict[_Key, list[_Filed]] = {}
    every: list[_Filed] = []
    for number, (pattern, several) in enumerate(zip((*patterns, *searches), pieces, strict=True)):
        code = pattern.code | (WORD_SHARED if number >= len(patterns) else 0)
        is_decided = pattern.is_its_piece
        filed = _Filed(code, is_decided, None if is_decided else program_of(pattern.expression), pattern.accepts)
        if not several:
            every.append(filed)
            continue
        piece = min(several, key=lambda each: _expected_share(each, counts[each] / len(pieces)))
        form = OF_FOLDED if pattern.ignores_case else OF_PLAIN
        by_text.setdefault((piece.text, piece.ends | form), []).append(filed)
    return by_text, every


def _expected_share(piece: Piece, share_of_patterns: float) -> float:
    """The share of values that are expected to have a piece: as many as patterns do, and as chance letters would."""
    places = 1 if piece.ends else _USUAL_PLACES
    return share_of_patterns + places / _LETTERS ** min(len(piece.text), _USUAL_PLACES)


def _special_bytes(ignoring_case: Sequence[CodedPattern]) -> AnyArray:
    """Of each byte whether a value that holds it must be brought to lower case by Python, for these patterns."""
    special = np.zeros(256, np.uint8)
    if ignoring_case:
        special[128:] = 0 if all(each.expression.is_ascii for each in ignoring_case) else SPECIAL
        # The first bytes of the two characters whose lower case is ASCII and which are not.
        special[0xC4] = special[0xC4] or SPECIAL_DOTTED_I
        special[0xE2] = special[0xE2] or SPECIAL_KELVIN
    return special


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
