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
This table is made in about a second, and its memory is that of the patterns.
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
from palio.filters.regex_outline import outline
from palio.matching.columnar import pattern_kernels as kernels
from palio.matching.columnar.array_types import AnyArray, Int32s, Int64s
from palio.matching.columnar.layout import (
    FIBONACCI_32,
    FIBONACCI_64,
    FIRST_DIGIT_FEATURE,
    FIRST_LAST_BYTE_FEATURE,
    FIRST_LETTER_FEATURE,
    FIRST_OTHER_FEATURE,
    FIRST_STAMP,
    GRAM,
    LAST_BYTE_FEATURES,
    OF_FOLDED,
    OF_PLAIN,
    OTHER_FEATURES,
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
    PATTERNS_SCREENS,
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
    TEST_FIELDS,
    TEST_STAMP,
    WORD_UNDECIDED,
)
from palio.matching.columnar.native import address_of
from palio.matching.columnar.pattern_programs import automaton_program, like_program
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
# By byte: the feature of a value that has it, as `byte_feature` of the kernels says.
_BYTE_FEATURES: Final = [
    FIRST_LETTER_FEATURE + byte - 97
    if 97 <= byte <= 122
    else FIRST_DIGIT_FEATURE + byte - 48
    if 48 <= byte <= 57
    else FIRST_OTHER_FEATURE + byte % OTHER_FEATURES
    for byte in range(256)
]
_NO_PAIRS: Final = np.zeros(1, np.uint8)  # never read where no text is short


# Plain tuples of plain values, which the garbage collector stops looking at: a table is made of a hundred thousand.
# A piece occurs in a value whose ASCII letters are in lower case, at the ends where it must stand.
_Piece: TypeAlias = tuple[bytes, int]
_Clause: TypeAlias = tuple[_Piece, ...]  # pieces of which at least one must occur


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
    def is_its_piece(self) -> bool:
        """Whether every value that has its only piece passes."""
        if isinstance(self.expression, Regex) or self.expression.shape == "general" or not self.expression.text:
            return False
        text = text_bytes(self.expression.text)
        return self.expression.ignore_case or text.lower() == text.upper()


class TableEntry(NamedTuple):
    """A pattern that is filed: its code, the clauses it needs, and what decides it once they hold."""

    code: int
    pattern: CodedPattern
    clauses: tuple[_Clause, ...]
    program: array[int] | None  # None: its piece alone, or Python
    is_its_piece: bool
    form: int


_Key: TypeAlias = tuple[bytes, int]  # a text; its ends, and the form of values that it is looked for in


class PatternTable:
    """Texts by their grams, with the words that are found with them."""

    def __init__(
        self,
        patterns: Sequence[CodedPattern],
        searches: Sequence[TableEntry] = (),
        always: Sequence[tuple[int, Accepts]] = (),
    ) -> None:
        """Of the patterns of an attribute, of searches, and of further tests, which are evaluated on every value."""
        entries = [*map(entry_of, patterns), *searches]
        by_text, every = _file(entries)
        tests = _Tests(FIRST_STAMP + len(by_text))
        words = {key: [tests.word(each) for each in filed] for key, filed in by_text.items()}
        always_words = [tests.word(each) for each in every] + [tests.python_word(*each) for each in always]
        screens = [0 if each.is_its_piece else _screen(each.clauses) for filed in by_text.values() for each in filed]
        self.stamp_count = tests.stamp_count
        self._python_tests = tests.of_python
        self._patterns = patterns
        special = _special_bytes([each for each in entries if each.form == OF_FOLDED])
        self.arrays = _arrays(words, always_words) | tests.arrays()
        self.arrays |= {"special": special, "screens": np.array(screens or [0], np.int64)}
        self._table = np.zeros(PATTERNS_FIELDS, np.int64)
        for at, name in _ADDRESSES.items():
            self._table[at] = address_of(self.arrays[name])
        for at, fact in zip(_FACTS, self.arrays["facts"].tolist(), strict=True):
            self._table[at] = fact
        self.word_count = int(self._table[PATTERNS_WORD_COUNT])
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
        count = kernels.match_text(self.address, address, length, folded, stamps, epoch, found)
        if count < 0:
            count = kernels.match_patterns(self.address, address, folded, length, OF_PLAIN, stamps, epoch, found, 0)
            lowered = array("B", text.lower().encode() + bytes(PADDING))
            start, end = lowered.buffer_info()
            count = kernels.match_patterns(
                self.address, start, start, end - PADDING, OF_FOLDED, stamps, epoch + 1, found, count
            )
        words = scratch.words[:count].tolist() if count else []
        self._pool.append(scratch)
        return [code for word in words for code in self._resolved(word, text)]

    def _resolved(self, word: int, text: str) -> tuple[int, ...]:
        if not word & WORD_UNDECIDED:
            return (word,)
        code, accepts = self.python_test(word)
        return (code,) if accepts(text) else ()


class _Tests:
    """The tests that need more than their text, as they are numbered in undecided words."""

    def __init__(self, stamp_count: int) -> None:
        self.stamp_count = stamp_count
        self.of_python: dict[int, tuple[int, Accepts]] = {}  # by word
        self._words: dict[int, int] = {}  # by code, of those that several texts find
        self._rows: list[tuple[int, ...]] = []
        self._programs = array("q")

    def word(self, entry: TableEntry) -> int:
        """The word that is found for a test: its code if it is decided by that."""
        if entry.is_its_piece:
            return entry.code
        known = self._words.get(entry.code)
        if known is not None:
            return known
        if entry.program is None:
            word = self.python_word(entry.code, entry.pattern.accepts)
        else:
            word = self._next_word(len(self._programs), entry.code)
            self._programs.extend(entry.program)
        if any(len(clause) > 1 for clause in entry.clauses):
            self._words[entry.code] = word
            self._rows[-1] = (*self._rows[-1][:TEST_STAMP], self.stamp_count)
            self.stamp_count += 1
        return word

    def python_word(self, code: int, accepts: Accepts) -> int:
        """The word of a test that Python decides."""
        word = self._next_word(-1, code)
        self.of_python[word] = code, accepts
        return word

    def _next_word(self, program: int, code: int) -> int:
        self._rows.append((program, code, 0))
        return WORD_UNDECIDED | len(self._rows) - 1

    def arrays(self) -> dict[str, AnyArray]:
        return {
            "tests": np.array(self._rows or [(-1,) * TEST_FIELDS], np.int64),
            "programs": np.array(self._programs or [0], np.int64),
        }


def _arrays(by_text: dict[_Key, list[int]], always: list[int]) -> dict[str, AnyArray]:
    """The texts by their grams, the words of each, and the words that are found with every value."""
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
        "filter": bitmap,
        "table": table,
        "candidates": candidates,
        "texts": np.array(rows, np.int32).reshape(-1, 5),
        "bytes": np.frombuffer(b"".join(text for text, _ in by_text) + bytes(PADDING), np.uint8),
        "words": np.array(words + always or [0], np.int64),
        "facts": np.array(
            [shift, table_bits, len(words) + len(always), len(rows), lengths, len(words), len(always)], np.int64
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
    PATTERNS_SCREENS: "screens",
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


def entry_of(pattern: CodedPattern, mark: int = 0) -> TableEntry:
    """What a table needs to know of a pattern; `mark` is set in its code."""
    expression, code = pattern.expression, pattern.code | mark
    if isinstance(expression, Regex):
        literals, automaton = outline(expression.text)
        clauses = [tuple([(text_bytes(text), _AT_START * start) for text, start in clause]) for clause in literals]
        program = None if automaton is None else array("q", automaton_program(automaton))
        return TableEntry(code, pattern, tuple(clauses), program, False, OF_PLAIN)
    end = len(expression.tokens) - 1
    # Lower case of bytes is that of ASCII, as the kernels have it.
    pieces = [
        (text_bytes(token).lower(), _AT_START * (place == 0) | _AT_END * (place == end))
        for place, token in enumerate(expression.tokens)
        if isinstance(token, str)
    ]
    is_its_piece = pattern.is_its_piece
    program = None if is_its_piece else array("q", like_program(expression))
    form = OF_FOLDED if expression.ignore_case else OF_PLAIN
    return TableEntry(code, pattern, tuple([(piece,) for piece in pieces]), program, is_its_piece, form)


def _file(entries: Sequence[TableEntry]) -> tuple[dict[_Key, list[TableEntry]], list[TableEntry]]:
    """The tests by the pieces that each is filed under, and those that have none."""
    counts = Counter(piece for entry in entries for piece in {piece for clause in entry.clauses for piece in clause})

    def expected(clause: _Clause) -> float:
        return sum(_expected_share(piece, counts[piece] / len(entries)) for piece in clause)

    by_text: dict[_Key, list[TableEntry]] = {}
    every: list[TableEntry] = []
    for entry in entries:
        rarest = min(entry.clauses, key=expected, default=())
        for text, ends in rarest:
            by_text.setdefault((text, ends | entry.form), []).append(entry)
        if not rarest:
            every.append(entry)
    return by_text, every


def _expected_share(piece: _Piece, share_of_patterns: float) -> float:
    """The share of values that are expected to have a piece: as many as patterns do, and as chance letters would."""
    text, ends = piece
    places = 1 if ends else _USUAL_PLACES
    return share_of_patterns + places / float(_LETTERS ** min(len(text), _USUAL_PLACES))


def _screen(clauses: Sequence[_Clause]) -> int:
    """The features that every value has which satisfies the clauses."""
    features = 0
    for clause in clauses:
        if len(clause) == 1:
            text, ends = clause[0]
            for byte in text:
                features |= 1 << _BYTE_FEATURES[byte]
            if ends & _AT_END:
                features |= 1 << (FIRST_LAST_BYTE_FEATURE + text[-1] % LAST_BYTE_FEATURES)
    return features


def _special_bytes(ignoring_case: Sequence[TableEntry]) -> AnyArray:
    """Of each byte whether a value that holds it must be brought to lower case by Python, for these patterns."""
    special = np.zeros(256, np.uint8)
    if ignoring_case:
        special[128:] = 0 if all(text.isascii() for each in ignoring_case for ((text, _),) in each.clauses) else SPECIAL
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
