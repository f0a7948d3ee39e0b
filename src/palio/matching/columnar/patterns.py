"""The texts that patterns look for, filed by their grams: what `pattern_kernels` reads.

A pattern that is a text at its place (all of a value, its start, its end or anywhere) is decided by the kernels. Of any
other the longest piece of text is filed, and where that is found the pattern is asked in full; one without such a piece
is asked of every new value.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from palio.filters.like import LikePattern
from palio.matching.columnar.axes import address_of, encoded
from palio.matching.columnar.layout import (
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
    WORD_ASKED,
    WORD_SHARED,
)
from palio.matching.columnar.questions import Pattern

Ask: TypeAlias = Callable[[str], bool]

_ENDS: Final = {"exact": 3, "prefix": 1, "suffix": 2, "substring": 0}
_SPREAD: Final = 0x9E3779B1
_HOME_SPREAD: Final = -7046029254386353131 % 2**64  # as in encoding_kernels
_FILTER_BITS_PER_GRAM: Final = 32  # so that a place passes for nothing once in some thirty
_FEWEST_FILTER_BITS: Final = 10
_MOST_FILTER_BITS: Final = 18  # 32 kilobytes, which the fastest cache holds
_NO_PAIRS: Final = np.zeros(1, np.uint8)  # read by nobody where no text is short
# The first bytes of the two characters whose lower case is ASCII and which are not.
_FOREIGN_CAPITALS: Final = (0xC4, 0xE2)


class PatternTable:
    """Texts by their grams, with the words that are found with them."""

    def __init__(
        self,
        patterns: Sequence[Pattern],
        searches: Sequence[Pattern] = (),
        always: Sequence[tuple[int, Ask]] = (),
    ) -> None:
        """Of the patterns of an attribute, of searches, and of further questions, which are asked of every value."""
        self.asked: list[tuple[int, Ask]] = []  # by the number in a word: its code, and the question
        by_text: dict[tuple[bytes, int], list[int]] = {}
        every = [self._ask(code, accepts) for code, accepts in always]
        for several, mark in ((patterns, 0), (searches, WORD_SHARED)):
            for pattern in several:
                code, ends = pattern.code | mark, _ends_of(pattern)
                if ends is not None:
                    by_text.setdefault((encoded(pattern.piece), ends), []).append(code)
                elif pattern.piece:
                    word = self._ask(code, pattern.accepts)
                    by_text.setdefault((encoded(pattern.piece.lower()), 0), []).append(word)
                else:
                    every.append(self._ask(code, pattern.accepts))
        self.text_count = len(by_text)
        self.arrays = self._arrays(by_text, every)
        self._table = np.zeros(PATTERNS_FIELDS, np.int64)
        for at, name in _ADDRESSES.items():
            self._table[at] = address_of(self.arrays[name])
        for at, fact in zip(_FACTS, self.arrays["facts"].tolist(), strict=True):
            self._table[at] = fact
        self.word_count = int(self._table[PATTERNS_WORD_COUNT])
        self.address = address_of(self._table)

    def _ask(self, code: int, accepts: Ask) -> int:
        self.asked.append((code, accepts))
        return WORD_ASKED | len(self.asked) - 1

    @property
    def nbytes(self) -> int:
        """Bytes of all arrays."""
        return sum(each.nbytes for each in self.arrays.values())

    def question_of(self, word: int) -> tuple[int, Ask]:
        """What a word stands for that must be asked in full: the code, and the question."""
        return self.asked[word & ~WORD_ASKED]

    def _arrays(self, by_text: dict[tuple[bytes, int], list[int]], every: list[int]) -> dict[str, npt.NDArray[Any]]:
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
        bits = max(_FEWEST_FILTER_BITS, (_FILTER_BITS_PER_GRAM * len(grams)).bit_length())
        shift = 32 - min(bits, _MOST_FILTER_BITS)
        lengths = 0
        bitmap = np.zeros((1 << (32 - shift)) // 8, np.uint8)
        pairs = np.zeros(1 << 16, np.bool_)
        for gram, size in {(gram, size) for gram, size, _ in grams}:
            lengths |= 1 << size
            if size == GRAM:
                bit = ((gram * _SPREAD) & 0xFFFFFFFF) >> shift
                bitmap[bit >> 3] |= 1 << (bit & 7)
            elif size == 1:
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


def _ends_of(pattern: Pattern) -> int | None:
    """At which ends of a value the text of a pattern must stand; None where it asks for more than a text."""
    if not isinstance(pattern.asked, LikePattern) or pattern.asked.shape == "general":
        return None
    has_case = pattern.piece != pattern.piece.lower() or pattern.piece != pattern.piece.upper()
    if not pattern.asked.ignore_case and (has_case or not pattern.piece.isascii()):
        return None
    return _ENDS[pattern.asked.shape] if pattern.piece else None


def _rarest_grams(texts: Sequence[bytes]) -> list[tuple[int, int, int]]:
    """Of every text one gram that few of the others have, as a number, with its length and its place in the text."""
    counts: Counter[bytes] = Counter()
    for text in texts:
        counts.update({text[at : at + GRAM] for at in range(max(1, len(text) - GRAM + 1))})
    found = []
    for text in texts:
        places = range(max(1, len(text) - GRAM + 1))
        place = min(places, key=lambda at: (counts[text[at : at + GRAM]], -at))
        gram = text[place : place + GRAM]
        found.append((int.from_bytes(gram, "little"), len(gram), place))
    return found


def _gram_table(
    grams: Sequence[tuple[int, int, int]],
) -> tuple[npt.NDArray[np.int64], int, npt.NDArray[np.int32]]:
    """A hash table from grams to runs of candidates: the numbers of the texts, and the places of the grams in them."""
    by_gram: dict[int, list[tuple[int, int]]] = {}
    for number, (gram, size, place) in enumerate(grams):
        by_gram.setdefault(gram | size << 32, []).append((number, place))
    bits = max(2, (2 * len(by_gram)).bit_length())
    table = np.zeros((1 << bits, 2), np.int64)
    candidates: list[tuple[int, int]] = []
    for key, run in by_gram.items():
        at = ((key * _HOME_SPREAD) % 2**64) >> (64 - bits)
        while table[at, 0]:
            at = (at + 1) & ((1 << bits) - 1)
        table[at] = key, len(run) << 32 | len(candidates)
        candidates += run
    return table, bits, np.array(candidates or [(0, 0)], np.int32)
