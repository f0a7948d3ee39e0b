"""What is known of the values of a column of strings: for each, which questions hold.

`Known` is the memory of one column: it grows as values come, and starts anew when it is full. `Memory` is that of
all columns of a segment. Threads do not share one: each borrows one from the segment, or makes another.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypeAlias

import numpy as np
import numpy.typing as npt

from palio.matching.columnar import pattern_kernels as kernels
from palio.matching.columnar.axes import address_of
from palio.matching.columnar.layout import (
    ASKED_COLUMN,
    ASKED_FIELDS,
    ASKED_FOUND,
    ASKED_PATTERNS,
    ENTRY_FIELDS,
    ENTRY_WORD,
    ENTRY_WORDS,
    KNOWN_BITS,
    KNOWN_COUNT,
    KNOWN_ENTRIES,
    KNOWN_FIELDS,
    KNOWN_FOLDED,
    KNOWN_MOST,
    KNOWN_ROOM,
    KNOWN_STAMPS,
    KNOWN_TABLE,
    KNOWN_TEXT,
    KNOWN_TEXT_ROOM,
    KNOWN_TEXT_USED,
    KNOWN_TODO,
    KNOWN_TODO_COUNT,
    KNOWN_TODO_ROOM,
    KNOWN_WORDS,
    KNOWN_WORDS_ROOM,
    KNOWN_WORDS_USED,
    LONGEST_FOLDED,
    LONGEST_KEPT,
    PADDING,
    WORD_ASKED,
    WORD_SHARED,
)
from palio.matching.columnar.patterns import PatternTable
from palio.matching.columnar.questions import Questions, Searches

Ints: TypeAlias = npt.NDArray[np.int64]
TextAt: TypeAlias = Callable[[int], str]

_MOST_KEPT: Final = 16_384  # values; then the memory starts anew with the next batch
_MOST_TEXT: Final = 1 << 22  # bytes of them
_FIRST_ROOM: Final = 64
_TODO_ROOM: Final = 256
_SEARCH_ROOM: Final = 1024  # finds of searches that are taken over at a time


class AskedColumn:
    """The questions about one attribute, as the kernels and Python ask them."""

    def __init__(self, questions: Questions, searches: Searching | None) -> None:
        always = [(code, _asker(question)) for code, question in questions.of_strings]
        searched = () if searches is None else searches.searches.patterns
        self.questions = questions
        self.searches = searches
        self.table = PatternTable(questions.patterns, searched, always)

    def words_of(self, text: str) -> list[int]:
        """All that is found for a value, asked one by one."""
        own = list(self.questions.codes(text))
        return own if self.searches is None else own + self.searches.words_of(text)


def _asker(question: Any) -> Callable[[str], bool]:
    return question.values.contains if hasattr(question, "values") else question.passes  # type: ignore[no-any-return]


class Searching:
    """The searches through whole events, as the kernels and Python ask them."""

    def __init__(self, searches: Searches) -> None:
        self.searches = searches
        self.table = PatternTable((), searches.patterns)

    def words_of(self, value: Any) -> list[int]:
        """All that is found in a value, asked one by one."""
        return [code | WORD_SHARED for code in self.searches.of_value(value)]

    def settled(self, word: int, text_at: TextAt, row: int) -> list[int]:
        """The words that a word of the kernels stands for, given how to read the value it was found in."""
        if word < 0:
            return self.words_of(text_at(row))
        if not word & WORD_ASKED:
            return [word]
        code, accepts = self.table.question_of(word)
        return [code] if accepts(text_at(row)) else []


class Known:
    """What is known of the values of one column."""

    def __init__(self, column: AskedColumn, folded: npt.NDArray[np.uint8]) -> None:
        self.column = column
        self._most_words = column.table.word_count
        self._facts = np.zeros(KNOWN_FIELDS, np.int64)
        self.address = address_of(self._facts)
        self._stamps = np.zeros(max(1, column.table.text_count), np.int64)
        self._todo = np.empty((_TODO_ROOM, 2), np.int64)
        self._folded = folded
        self._entries = np.empty((_FIRST_ROOM, ENTRY_FIELDS), np.int64)
        self._text = np.empty(_FIRST_ROOM * 64 + PADDING, np.uint8)
        self._words = np.empty(self._most_words + _FIRST_ROOM * 4, np.int64)
        self._facts[[KNOWN_STAMPS, KNOWN_TODO, KNOWN_FOLDED]] = [
            address_of(each) for each in (self._stamps, self._todo, folded)
        ]
        self._facts[KNOWN_TODO_ROOM] = _TODO_ROOM
        self._show()
        self._retable()
        self.null = -1
        self._start()

    def _start(self) -> None:
        """Know nothing but null."""
        self._facts[[KNOWN_COUNT, KNOWN_TEXT_USED, KNOWN_WORDS_USED, KNOWN_TODO_COUNT]] = 0
        self._table[:] = 0
        when_null = self.column.questions.when_null
        if when_null:
            self.make_room()
            self._entries[0] = -1, 0, 0, 0
            self._facts[KNOWN_COUNT] = 1
            self.null = 0
            self._write(0, list(when_null))

    def begin(self) -> None:
        """Before a batch: forget what has become too much."""
        if self._facts[KNOWN_COUNT] > _MOST_KEPT or self._facts[KNOWN_TEXT_USED] > _MOST_TEXT:
            self._start()

    def make_room(self) -> None:
        """For some more values."""
        count, text, words = self._facts[[KNOWN_COUNT, KNOWN_TEXT_USED, KNOWN_WORDS_USED]].tolist()
        if count >= len(self._entries) // 2:
            self._entries = _grown(self._entries, 2 * len(self._entries))
            self._show()
            self._retable()
        if text + 2 * LONGEST_KEPT > len(self._text) - PADDING:
            self._text = _grown(self._text, 2 * len(self._text) + 2 * LONGEST_KEPT)
        if words + 2 * self._most_words > len(self._words):
            self._words = _grown(self._words, 2 * len(self._words) + 2 * self._most_words)
        self._show()

    def _show(self) -> None:
        self._facts[[KNOWN_ENTRIES, KNOWN_TEXT, KNOWN_WORDS]] = [
            address_of(each) for each in (self._entries, self._text, self._words)
        ]
        self._facts[[KNOWN_ROOM, KNOWN_TEXT_ROOM, KNOWN_WORDS_ROOM]] = (
            len(self._entries),
            len(self._text) - PADDING,
            len(self._words),
        )

    def _retable(self) -> None:
        bits = (2 * len(self._entries) - 1).bit_length()
        self._table = np.zeros((1 << bits, 2), np.int64)
        self._facts[[KNOWN_TABLE, KNOWN_BITS]] = address_of(self._table), bits
        kernels.rehash(self.address)

    def settle(self, text_at: TextAt) -> None:
        """Ask what the kernels have left to be asked, of the values in some rows."""
        todo = self._todo[: int(self._facts[KNOWN_TODO_COUNT])].tolist()
        self._facts[KNOWN_TODO_COUNT] = 0
        for number, row in todo:
            first, count = self._entries[number, ENTRY_WORD : ENTRY_WORDS + 1].tolist()
            text = text_at(row)
            if count < 0:
                self._write(number, self.column.words_of(text))
                continue
            words = self._settled(self._words[first : first + count].tolist(), text)
            self._words[first : first + len(words)] = words
            self._entries[number, ENTRY_WORDS] = len(words)

    def _settled(self, words: list[int], text: str) -> list[int]:
        """The words of a value, with those that had to be asked replaced by their codes, or left out."""
        found: dict[int, None] = {}
        for word in words:
            if not word & WORD_ASKED:
                found[word] = None
                continue
            code, accepts = self.column.table.question_of(word)
            if accepts(text):
                found[code] = None
        return list(found)

    def _write(self, number: int, words: list[int]) -> None:
        used = int(self._facts[KNOWN_WORDS_USED])
        if used + len(words) + self._most_words > len(self._words):
            self._words = _grown(self._words, 2 * len(self._words) + len(words) + self._most_words)
            self._show()
        self._words[used : used + len(words)] = words
        self._facts[KNOWN_WORDS_USED] = used + len(words)
        self._entries[number, ENTRY_WORD : ENTRY_WORDS + 1] = used, len(words)
        self._facts[KNOWN_MOST] = max(int(self._facts[KNOWN_MOST]), len(words))

    @property
    def most_words(self) -> int:
        """The most words that one value had."""
        return int(self._facts[KNOWN_MOST])


@dataclass(frozen=True, slots=True)
class TextColumn:
    """A column of strings of a batch: where its descriptor lies, and how to read one of its values."""

    name: str
    address: int
    text_at: TextAt


class Answers:
    """What is known of the values of one batch: per column and row, an entry."""

    def __init__(self, knowns: Sequence[Known], columns: Sequence[TextColumn], rows: int) -> None:
        self._ids = np.empty((len(columns), rows), np.int32)
        self._knowns = knowns
        self._table = np.zeros((len(columns), ASKED_FIELDS), np.int64)
        for which, (known, column) in enumerate(zip(knowns, columns, strict=True)):
            known.begin()
            ids = address_of(self._ids[which])
            self._table[which] = column.address, known.column.table.address, known.address, ids, known.null, 0
        self.address = address_of(self._table)
        self.count = len(columns)
        self._find(columns, rows)
        found = np.flatnonzero(self._table[:, ASKED_FOUND])
        self.most_words = sum(knowns[which].most_words for which in found.tolist())

    def _find(self, columns: Sequence[TextColumn], rows: int) -> None:
        place = kernels.answer_columns(self.address, self.count, 0, 0, rows)
        while place >= 0:
            which, row = place >> 32, place & 0xFFFFFFFF
            self._knowns[which].settle(columns[which].text_at)
            self._knowns[which].make_room()
            place = kernels.answer_columns(self.address, self.count, which, row, rows)
        for known, column in zip(self._knowns, columns, strict=True):
            known.settle(column.text_at)


class Memory:
    """What is known of the values of all columns that a segment asks."""

    def __init__(self) -> None:
        self._folded = np.empty(LONGEST_FOLDED + PADDING, np.uint8)
        self._known: dict[str, Known] = {}
        self._out = np.empty(0, np.int64)
        self._stamps = np.empty(0, np.int64)
        self._epoch = 0

    def answers(self, asked: Mapping[str, AskedColumn], columns: Sequence[TextColumn], rows: int) -> Answers:
        """What is known of the values of columns that are asked, now that they have been."""
        for column in columns:
            if column.name not in self._known:
                self._known[column.name] = Known(asked[column.name], self._folded)
        return Answers([self._known[column.name] for column in columns], columns, rows)

    def search(self, searches: Searching, columns: Sequence[TextColumn], rows: int) -> tuple[Ints, Ints]:
        """What searches find in columns that nothing else is asked of: rows, and words."""
        table = np.zeros((len(columns), ASKED_FIELDS), np.int64)
        table[:, ASKED_COLUMN] = [column.address for column in columns]
        table[:, ASKED_PATTERNS] = searches.table.address
        if len(self._stamps) < searches.table.text_count:
            self._stamps = np.zeros(searches.table.text_count, np.int64)
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
                words = searches.settled(word, columns[which].text_at, row)
                found_rows += [row] * len(words)
                found_words += words
        return np.array(found_rows, np.int64), np.array(found_words, np.int64)


def _grown(values: npt.NDArray[Any], room: int) -> npt.NDArray[Any]:
    larger = np.empty((room, *values.shape[1:]), values.dtype)
    larger[: len(values)] = values
    return larger
