"""Codes of columns: what the tests and searches of a segment find in the values of a batch, by row.

Axes read columns of numbers and strings in compiled code. What they do not read is evaluated here once for each
distinct value, and the codes of what held are handed to the search as rows and words.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from palio.events.arrow import read_column
from palio.matching.columnar.array_members import ArrayMembers
from palio.matching.columnar.array_types import Int64s
from palio.matching.columnar.pattern_cache import SearchEvaluator, TextAt
from palio.matching.columnar.patterns import AttributeTests
from palio.matching.columnar.transposition import TransposedEvents


def reader(batch: pa.RecordBatch, place: int) -> TextAt:
    return lambda row: batch.column(place)[row].as_py()


def element_reader(column: pa.Array) -> TextAt:
    return lambda row: column[row].as_py()


def holds_strings(column: pa.Array) -> bool:
    kind = _plain_type(column)
    return bool(pa.types.is_string(kind) or pa.types.is_large_string(kind) or kind == pa.string_view())


def as_strings(column: pa.Array) -> pa.Array:
    """A column of strings as one whose strings lie side by side."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    return column.cast(pa.large_string()) if column.type == pa.string_view() else column


def words_by_row(found: Sequence[tuple[Int64s, Int64s]], count: int) -> tuple[Int64s, Int64s] | None:
    """Words by row, from pairs of rows and words: where each row's begin, and the words."""
    if not found:
        return None
    row = np.concatenate([each[0] for each in found])
    order = np.argsort(row, kind="stable")
    starts = np.zeros(count + 1, np.int64)
    np.cumsum(np.bincount(row, minlength=count), out=starts[1:])
    return starts, np.concatenate([each[1] for each in found])[order]


def search_column(column: pa.Array, searching: SearchEvaluator) -> tuple[Int64s, Int64s]:
    """What searches find in a column whose values are no strings."""
    return _evaluate_distinct(column, searching.words_of, ())


def search_arrays(events: TransposedEvents, searching: SearchEvaluator) -> tuple[Int64s, Int64s]:
    """What searches find in values that are in no column."""
    found = [(row, word) for row, values in events.searched for value in values for word in searching.words_of(value)]
    rows, words = zip(*found, strict=True) if found else ((), ())
    return np.array(rows, np.int64), np.array(words, np.int64)


def words_of_arrays(arrays: Iterable[tuple[int, tuple[Any, ...]]], members: ArrayMembers) -> tuple[Int64s, Int64s]:
    found = [(row, code) for row, array in arrays for code in members.codes(array)]
    return np.array([row for row, _ in found], np.int64), np.array([code for _, code in found], np.int64)


def holds_fractions(column: pa.Array) -> bool:
    kind = _plain_type(column)
    return bool(pa.types.is_decimal(kind) or pa.types.is_floating(kind))


def _plain_type(column: pa.Array) -> pa.DataType:
    return column.type.value_type if pa.types.is_dictionary(column.type) else column.type


def test_column(column: pa.Array, tests: AttributeTests) -> tuple[Int64s, Int64s]:
    """The codes of the tests that hold, of a column whose values are no strings."""
    if not tests.of_others:
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    return _evaluate_distinct(column, tests.codes, tests.when_null)


def _evaluate_distinct(
    column: pa.Array, evaluate: Callable[[Any], Sequence[int]], when_null: Sequence[int]
) -> tuple[Int64s, Int64s]:
    """Words by row: each distinct value of a column is tested once."""
    # Nulls of a plain column become an entry of the dictionary; of a dictionary column, null indices (filled below).
    encoded = column if pa.types.is_dictionary(column.type) else pc.dictionary_encode(column, null_encoding="encode")
    found = [evaluate(value) for value in read_column(encoded.dictionary)]
    lengths = np.array([len(each) for each in found] + [len(when_null)], np.int64)
    flat = np.array([code for each in [*found, when_null] for code in each], np.int64)
    starts = np.zeros(len(lengths), np.int64)
    np.cumsum(lengths[:-1], out=starts[1:])
    index = pc.fill_null(encoded.indices.cast(pa.int64()), len(found)).to_numpy(zero_copy_only=False)
    count = lengths[index]
    rows = np.repeat(np.arange(len(index), dtype=np.int64), count)
    offset = np.arange(len(rows), dtype=np.int64) - np.repeat(np.cumsum(count) - count, count)
    return rows, flat[np.repeat(starts[index], count) + offset]
