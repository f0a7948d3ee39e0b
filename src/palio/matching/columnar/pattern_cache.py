"""Pattern cache: for each string of a column, the tests that hold, remembered from batch to batch.

`ValueCache` is the hash table of one column: it grows as values come, and is cleared when it is full. The kernels look
values up and evaluate the patterns of new ones; what they cannot decide is left for Python (`evaluate_undecided`).
`PatternCache` has those of all columns of a segment. Threads do not share one: each borrows one from the segment, or
makes another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeAlias

import numpy as np

from palio.matching.columnar import pattern_cache_kernels as kernels
from palio.matching.columnar.array_types import AnyArray, Bytes, Int64s
from palio.matching.columnar.layout import (
    CACHE_BITS,
    CACHE_COUNT,
    CACHE_ENTRIES,
    CACHE_FIELDS,
    CACHE_FOLDED,
    CACHE_MAX_WORDS,
    CACHE_ROOM,
    CACHE_STAMPS,
    CACHE_TABLE,
    CACHE_TEXT,
    CACHE_TEXT_ROOM,
    CACHE_TEXT_USED,
    CACHE_TODO,
    CACHE_TODO_COUNT,
    CACHE_TODO_ROOM,
    CACHE_WORDS,
    CACHE_WORDS_ROOM,
    CACHE_WORDS_USED,
    ENTRY_FIELDS,
    ENTRY_WORD,
    ENTRY_WORDS,
    MAX_CACHED_VALUE_BYTES,
    MAX_FOLDED_BYTES,
    PADDING,
    TESTED_COLUMN,
    TESTED_FIELDS,
    TESTED_FOUND,
    TESTED_PATTERNS,
    WORD_SHARED,
    WORD_UNDECIDED,
)
from palio.matching.columnar.native import address_of
from palio.matching.columnar.pattern_skeletons import CodedPattern
from palio.matching.columnar.pattern_table import PatternTable
from palio.matching.columnar.patterns import AttributeTests, EventSearches, predicate_of

TextAt: TypeAlias = Callable[[int], str]

_MAX_VALUES: Final = 16_384  # then the cache is cleared before the next batch
_MAX_TEXT_BYTES: Final = 1 << 22
_MAX_WORDS: Final = 1 << 22  # of eight bytes
_FIRST_ROOM: Final = 64
_TODO_ROOM: Final = 256
_DOCUMENT_CODE: Final = -1  # of the one test that stands for all XPath patterns of a column
_SEARCH_ROOM: Final = 1024  # finds of searches that are taken over at a time


class PatternColumn:
    """The tests of one attribute, for the kernels and for Python."""

    def __init__(self, tests: AttributeTests, searches: SearchEvaluator | None) -> None:
        self.tests = tests
        self.searches = searches

    @cached_property
    def table(self) -> PatternTable:
        """The patterns for the kernels, made when a batch first has the attribute."""
        always = [(code, predicate_of(test)) for code, test in self.tests.of_strings]
        if self.tests.documents is not None:
            always.append((_DOCUMENT_CODE, bool))
        if self.searches is None and not always:
            return self.tests.table
        return PatternTable(self.tests.patterns, () if self.searches is None else self.searches.marked, always)

    def words_of(self, text: str) -> list[int]:
        """The words of all tests that hold for a value, evaluated one by one."""
        own = list(self.tests.codes(text))
        return own if self.searches is None else own + self.searches.words_of(text)


class SearchEvaluator:
    """The searches through whole events, for the kernels and for Python."""

    def __init__(self, searches: EventSearches) -> None:
        self.searches = searches
        self.marked = [CodedPattern(each.code | WORD_SHARED, each.expression) for each in searches.patterns]
        self.table = PatternTable((), self.marked)

    def words_of(self, value: Any) -> list[int]:
        """The words of all searches that find something in a value, evaluated one by one."""
        return [code | WORD_SHARED for code in self.searches.of_value(value)]

    def resolve_word(self, word: int, text_at: TextAt, row: int) -> list[int]:
        """The words that a word of the kernels stands for, given how to read the value it was found in."""
        if word < 0:
            return self.words_of(text_at(row))
        if not word & WORD_UNDECIDED:
            return [word]
        code, accepts = self.table.python_test(word)
        return [code] if accepts(text_at(row)) else []


class ValueCache:
    """The values of one column that were seen, each with the tests that hold."""

    def __init__(self, column: PatternColumn, folded: Bytes) -> None:
        self.column = column
        self._most_words = column.table.word_count
        self._facts = np.zeros(CACHE_FIELDS, np.int64)
        self.address = address_of(self._facts)
        self._stamps = np.zeros(column.table.stamp_count, np.int64)
        self._todo = np.empty((_TODO_ROOM, 2), np.int64)
        self._folded = folded
        self._entries = np.empty((_FIRST_ROOM, ENTRY_FIELDS), np.int64)
        self._text = np.empty(_FIRST_ROOM * 64 + PADDING, np.uint8)
        self._words = np.empty(self._most_words + _FIRST_ROOM * 4, np.int64)
        self._facts[[CACHE_STAMPS, CACHE_TODO, CACHE_FOLDED]] = [
            address_of(each) for each in (self._stamps, self._todo, folded)
        ]
        self._facts[CACHE_TODO_ROOM] = _TODO_ROOM
        self._show()
        self._retable()
        self.null = -1
        self._start()

    def _start(self) -> None:
        """Clear the cache, except for null."""
        self._facts[[CACHE_COUNT, CACHE_TEXT_USED, CACHE_WORDS_USED, CACHE_TODO_COUNT]] = 0
        self._table[:] = 0
        when_null = self.column.tests.when_null
        if when_null:
            self.make_room()
            self._entries[0] = -1, 0, 0, 0
            self._facts[CACHE_COUNT] = 1
            self.null = 0
            self._write(0, list(when_null))

    def begin(self) -> None:
        """Before a batch: clear a full cache."""
        count, text, words = self._facts[[CACHE_COUNT, CACHE_TEXT_USED, CACHE_WORDS_USED]].tolist()
        if count > _MAX_VALUES or text > _MAX_TEXT_BYTES or words > _MAX_WORDS:
            self._start()

    def make_room(self) -> None:
        """For some more values."""
        count, text, words = self._facts[[CACHE_COUNT, CACHE_TEXT_USED, CACHE_WORDS_USED]].tolist()
        if count >= len(self._entries) // 2:
            self._entries = _grown(self._entries, 2 * len(self._entries))
            self._show()
            self._retable()
        if text + 2 * MAX_CACHED_VALUE_BYTES > len(self._text) - PADDING:
            self._text = _grown(self._text, 2 * len(self._text) + 2 * MAX_CACHED_VALUE_BYTES)
        if words + 2 * self._most_words > len(self._words):
            self._words = _grown(self._words, 2 * len(self._words) + 2 * self._most_words)
        self._show()

    def _show(self) -> None:
        self._facts[[CACHE_ENTRIES, CACHE_TEXT, CACHE_WORDS]] = [
            address_of(each) for each in (self._entries, self._text, self._words)
        ]
        self._facts[[CACHE_ROOM, CACHE_TEXT_ROOM, CACHE_WORDS_ROOM]] = (
            len(self._entries),
            len(self._text) - PADDING,
            len(self._words),
        )

    def _retable(self) -> None:
        bits = (2 * len(self._entries) - 1).bit_length()
        self._table = np.zeros((1 << bits, 2), np.int64)
        self._facts[[CACHE_TABLE, CACHE_BITS]] = address_of(self._table), bits
        kernels.rehash(self.address)

    def evaluate_undecided(self, text_at: TextAt) -> None:
        """Evaluate what the kernels left undecided, on the values in some rows."""
        todo = self._todo[: int(self._facts[CACHE_TODO_COUNT])].tolist()
        self._facts[CACHE_TODO_COUNT] = 0
        for number, row in todo:
            first, count = self._entries[number, ENTRY_WORD : ENTRY_WORDS + 1].tolist()
            text = text_at(row)
            if count < 0:
                self._write(number, self.column.words_of(text))
                continue
            words = self._resolve(self._words[first : first + count].tolist(), text)
            if len(words) > count:  # of XPaths, of which one undecided word stands for all
                self._write(number, words)
                continue
            self._words[first : first + len(words)] = words
            self._entries[number, ENTRY_WORDS] = len(words)

    def _resolve(self, words: list[int], text: str) -> list[int]:
        """The words of a value, undecided ones replaced by their codes or left out."""
        found: dict[int, None] = {}
        for word in words:
            if not word & WORD_UNDECIDED:
                found[word] = None
                continue
            code, accepts = self.column.table.python_test(word)
            if code == _DOCUMENT_CODE:
                assert self.column.tests.documents is not None
                found.update(dict.fromkeys(self.column.tests.documents.codes(text)))
            elif accepts(text):
                found[code] = None
        return list(found)

    def _write(self, number: int, words: list[int]) -> None:
        used = int(self._facts[CACHE_WORDS_USED])
        if used + len(words) + self._most_words > len(self._words):
            self._words = _grown(self._words, 2 * len(self._words) + len(words) + self._most_words)
            self._show()
        self._words[used : used + len(words)] = words
        self._facts[CACHE_WORDS_USED] = used + len(words)
        self._entries[number, ENTRY_WORD : ENTRY_WORDS + 1] = used, len(words)
        self._facts[CACHE_MAX_WORDS] = max(int(self._facts[CACHE_MAX_WORDS]), len(words))

    @property
    def most_words(self) -> int:
        """The most words that one value had."""
        return int(self._facts[CACHE_MAX_WORDS])


@dataclass(frozen=True, slots=True)
class TextColumn:
    """A column of strings of a batch: where its descriptor lies, and how to read one of its values."""

    name: str
    address: int
    text_at: TextAt


class BatchEntries:
    """The cache entries of the values of one batch, by column and row."""

    def __init__(self, caches: Sequence[ValueCache], columns: Sequence[TextColumn], rows: int) -> None:
        self._ids = np.empty((len(columns), rows), np.int32)
        self._caches = caches
        self._table = np.zeros((len(columns), TESTED_FIELDS), np.int64)
        for which, (cache, column) in enumerate(zip(caches, columns, strict=True)):
            cache.begin()
            ids = address_of(self._ids[which])
            self._table[which] = column.address, cache.column.table.address, cache.address, ids, cache.null, 0
        self.address = address_of(self._table)
        self.count = len(columns)
        self._find(columns, rows)
        found = np.flatnonzero(self._table[:, TESTED_FOUND])
        self.most_words = sum(caches[which].most_words for which in found.tolist())

    def _find(self, columns: Sequence[TextColumn], rows: int) -> None:
        place = kernels.look_up_columns(self.address, self.count, 0, 0, rows)
        while place >= 0:
            which, row = place >> 32, place & 0xFFFFFFFF
            self._caches[which].evaluate_undecided(columns[which].text_at)
            self._caches[which].make_room()
            place = kernels.look_up_columns(self.address, self.count, which, row, rows)
        for cache, column in zip(self._caches, columns, strict=True):
            cache.evaluate_undecided(column.text_at)


class PatternCache:
    """The value caches of all columns that a segment tests."""

    def __init__(self) -> None:
        self._folded = np.empty(MAX_FOLDED_BYTES + PADDING, np.uint8)
        self._caches: dict[str, ValueCache] = {}
        self._out = np.empty(0, np.int64)
        self._stamps = np.empty(0, np.int64)
        self._epoch = 0

    def look_up(self, patterns: Mapping[str, PatternColumn], columns: Sequence[TextColumn], rows: int) -> BatchEntries:
        """The cache entries of the values of columns, after new values were evaluated."""
        for column in columns:
            if column.name not in self._caches:
                self._caches[column.name] = ValueCache(patterns[column.name], self._folded)
        return BatchEntries([self._caches[column.name] for column in columns], columns, rows)

    def search(self, searches: SearchEvaluator, columns: Sequence[TextColumn], rows: int) -> tuple[Int64s, Int64s]:
        """What searches find in columns without other tests: rows, and words."""
        table = np.zeros((len(columns), TESTED_FIELDS), np.int64)
        table[:, TESTED_COLUMN] = [column.address for column in columns]
        table[:, TESTED_PATTERNS] = searches.table.address
        if len(self._stamps) < searches.table.stamp_count:
            self._stamps = np.zeros(searches.table.stamp_count, np.int64)
        room = 2 * searches.table.word_count + _SEARCH_ROOM
        if len(self._out) < 3 * room + 3 + searches.table.word_count:
            self._out = np.empty(3 * room + 3 + searches.table.word_count, np.int64)
        found_rows: list[int] = []
        found_words: list[int] = []
        place = 0
        while place >= 0:
            self._out[0] = 0
            place = kernels.search_columns(
                address_of(table), len(columns), place >> 32, place & 0xFFFFFFFF, rows, address_of(self._folded),
                address_of(self._stamps), self._epoch, address_of(self._out), room,
            )  # fmt: skip
            count, self._epoch = self._out[:2].tolist()
            for which, row, word in self._out[3 : 3 + 3 * count].reshape(-1, 3).tolist():
                words = searches.resolve_word(word, columns[which].text_at, row)
                found_rows += [row] * len(words)
                found_words += words
        return np.array(found_rows, np.int64), np.array(found_words, np.int64)


def _grown(values: AnyArray, room: int) -> AnyArray:
    larger = np.empty((room, *values.shape[1:]), values.dtype)
    larger[: len(values)] = values
    return larger
