"""Columns of literals: the literals of many subscriptions of one template, whether as texts or as values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from palio.languages.grammar import InvalidLiteral
from palio.languages.sql.template_parameters import INTEGER, STRING, Arguments, Parameter
from palio.languages.sql.templates import Template
from palio.matching.columnar import bulk_kernels as kernels
from palio.matching.columnar.array_types import Bytes, Flags, Int32s, Int64s

UNREADABLE: Final = object()
"""In place of the value of a literal that has none, such as DATE '2024-02-31'."""


@dataclass(frozen=True, slots=True)
class LiteralSpans:
    """Literals of one kind as spans of text, some for each row."""

    raw: bytes
    text: Bytes  # the same bytes
    counts: Int64s  # by row
    starts: Int32s
    ends: Int32s

    def integers(self) -> Int64s:
        """The values of digits."""
        values = np.empty(len(self.starts), np.int64)
        kernels.read_integers(self.text, self.starts, self.ends, values)
        return values

    def texts(self) -> list[bytes]:
        raw = self.raw
        return [raw[start:end] for start, end in zip(self.starts.tolist(), self.ends.tolist(), strict=True)]


class LiteralColumns(Protocol):
    """The literals of subscriptions of one template, one row each."""

    def spans(self, parameter: Parameter) -> LiteralSpans | None:
        """The literals of a parameter, a list or one for each row, as texts; None where they were read before."""
        ...

    def integers(self, parameter: Parameter) -> Int64s:
        """The values of a parameter that holds integers."""
        ...

    def distinct(self, parameters: Sequence[Parameter]) -> tuple[Int64s, list[Any]]:
        """The distinct values in parameters of one kind, and the index of each literal's value, row by row."""
        ...

    def listed(self, parameter: Parameter) -> tuple[Int64s, Int64s, list[Any]]:
        """How many literals the list of each row has, and these as `distinct` has them."""
        ...

    def lists(self, parameter: Parameter) -> tuple[Int64s, list[Any]]:
        """The distinct lists, and the index of each row's."""
        ...

    def take(self, rows: Int64s) -> LiteralColumns:
        """Some of the rows."""
        ...


@dataclass(frozen=True)
class TextLiterals:
    """Literals as spans of text: read as arrays where they are integers, else once per distinct text."""

    raw: bytes
    text: Bytes  # the same bytes
    spans_of_all: Int32s  # begin and end of the literals of all rows
    first: Int64s  # the first literal, by row
    end: Int64s  # the one behind the last
    template: Template
    timezone: str
    _known: dict[tuple[Parameter, ...], tuple[Int64s, list[Any]]] = field(default_factory=dict, init=False)

    def integers(self, parameter: Parameter) -> Int64s:
        values = self.spans(parameter).integers()
        return -values if parameter.before == "-" else values

    def spans(self, parameter: Parameter) -> LiteralSpans:
        if not parameter.is_list:
            ones = np.ones(len(self.first), np.int64)
            return LiteralSpans(self.raw, self.text, ones, *self._columns([parameter]))
        counts = self.end - self.first - len(self.template.parameters) + 1
        chosen = self.spans_of_all[np.repeat(self.first + parameter.index, counts) + within_runs(counts)]
        starts, ends = np.ascontiguousarray(chosen[:, 0]), np.ascontiguousarray(chosen[:, 1])
        return LiteralSpans(self.raw, self.text, counts, starts, ends)

    def distinct(self, parameters: Sequence[Parameter]) -> tuple[Int64s, list[Any]]:
        # Asked for once to tell which expressions rows share, and again to fill them.
        key = tuple(parameters)
        if key not in self._known:
            self._known[key] = self._distinct(parameters[0], *self._columns(parameters))
        return self._known[key]

    def listed(self, parameter: Parameter) -> tuple[Int64s, Int64s, list[Any]]:
        spans = self.spans(parameter)
        return spans.counts, *self._distinct(parameter, spans.starts, spans.ends)

    def lists(self, parameter: Parameter) -> tuple[Int64s, list[Any]]:
        return _join_lists(*self.listed(parameter))

    def same_as_first(self, parameter: Parameter) -> Flags:
        """Which rows have the literal, letter for letter, that the first row has."""
        starts, ends = self._columns([parameter])
        numbers, firsts = np.empty(len(starts), np.int64), np.empty((len(starts), 2), np.int32)
        kernels.number_texts(self.text, starts, ends, kernels.hash_table_for(len(starts)), numbers, firsts)
        same: Flags = numbers == numbers[0]
        return same

    def take(self, rows: Int64s) -> TextLiterals:
        return replace(self, first=self.first[rows], end=self.end[rows])

    def _distinct(self, parameter: Parameter, starts: Int32s, ends: Int32s) -> tuple[Int64s, list[Any]]:
        numbers, firsts = np.empty(len(starts), np.int64), np.empty((len(starts), 2), np.int32)
        count = kernels.number_texts(self.text, starts, ends, kernels.hash_table_for(len(starts)), numbers, firsts)
        first_starts, first_ends = firsts[:count, 0], firsts[:count, 1]
        if parameter.is_text and not self._has_escapes:
            return numbers, self._decode(first_starts + 1, first_ends - 1)
        texts = self._decode(first_starts, first_ends)
        return numbers, [_value_of(parameter, text, self.timezone) for text in texts]

    @cached_property
    def _has_escapes(self) -> bool:
        """Whether a string may be other characters than those between its quotes; empty strings look like that, too."""
        return any(sign in self.raw for sign in (b"''", b'""', b"\\", b"r'", b"R'", b'r"', b'R"'))

    def _decode(self, starts: Int32s, ends: Int32s) -> list[str]:
        raw = self.raw
        return [raw[start:end].decode() for start, end in zip(starts.tolist(), ends.tolist(), strict=True)]

    def _columns(self, parameters: Sequence[Parameter]) -> tuple[Int32s, Int32s]:
        behind_list = len(self.template.parameters) if self.template.list_index is None else self.template.list_index
        places = [
            self.first + each.index
            if each.index < behind_list
            else self.end - len(self.template.parameters) + each.index
            for each in parameters
        ]
        chosen = self.spans_of_all[np.stack(places, axis=1)]
        return np.ascontiguousarray(chosen[:, :, 0]).ravel(), np.ascontiguousarray(chosen[:, :, 1]).ravel()


class ReadLiterals:
    """Literals whose values were read when their subscriptions were added."""

    def __init__(self, rows: Sequence[Arguments]) -> None:
        self._rows = rows

    def integers(self, parameter: Parameter) -> Int64s:
        at = parameter.index
        return np.array([row[at] for row in self._rows], np.int64)

    def spans(self, parameter: Parameter) -> None:
        return None

    def distinct(self, parameters: Sequence[Parameter]) -> tuple[Int64s, list[Any]]:
        values = [row[parameter.index] for row in self._rows for parameter in parameters]
        if parameters[0].kind in (INTEGER, STRING):
            return number_values(values)
        # 1.0 and 1.00 are equal, and different literals.
        which, written = number_values(list(map(repr, values)))
        known = dict(zip(map(repr, values), values, strict=True))
        return which, [known[each] for each in written]

    def listed(self, parameter: Parameter) -> tuple[Int64s, Int64s, list[Any]]:
        lists = [row[parameter.index] for row in self._rows]
        return np.array([len(each) for each in lists], np.int64), *number_values(list(chain.from_iterable(lists)))

    def lists(self, parameter: Parameter) -> tuple[Int64s, list[Any]]:
        return number_values([row[parameter.index] for row in self._rows])

    def take(self, rows: Int64s) -> ReadLiterals:
        return ReadLiterals([self._rows[at] for at in rows.tolist()])


class FoundLiterals:
    """Literals that were found when their subscriptions were added, but not read: only distinct ones need to be."""

    def __init__(self, texts: npt.NDArray[np.object_], starts: Int64s, timezone: str) -> None:
        self._all = texts
        self._starts = starts  # by row: the first literal of the template
        self._timezone = timezone

    def integers(self, parameter: Parameter) -> Int64s:
        values = np.array(list(map(int, self._texts(parameter))), np.int64)
        return -values if parameter.before == "-" else values

    def spans(self, parameter: Parameter) -> None:
        return None

    def distinct(self, parameters: Sequence[Parameter]) -> tuple[Int64s, list[Any]]:
        columns = [self._texts(parameter) for parameter in parameters]
        texts = columns[0] if len(columns) == 1 else [text for row in zip(*columns, strict=True) for text in row]
        which, distinct = number_values(texts)
        read = parameters[0].read
        try:
            return which, [read(text, self._timezone) for text in distinct]
        except InvalidLiteral:
            return which, [_value_of(parameters[0], text, self._timezone) for text in distinct]

    def listed(self, parameter: Parameter) -> tuple[Int64s, Int64s, list[Any]]:
        raise NotImplementedError("a conjunct that was found by its prefix has no list")

    def lists(self, parameter: Parameter) -> tuple[Int64s, list[Any]]:
        raise NotImplementedError("a conjunct that was found by its prefix has no list")

    def take(self, rows: Int64s) -> FoundLiterals:
        return FoundLiterals(self._all, self._starts[rows], self._timezone)

    def _texts(self, parameter: Parameter) -> list[str]:
        texts: list[str] = self._all[self._starts + parameter.index].tolist()
        return texts


def distinct_combinations(literals: LiteralColumns, parameters: Sequence[Parameter]) -> tuple[Int64s, list[list[Any]]]:
    """The distinct combinations of the values of some parameters, and the index of each row's."""
    columns = [literals.lists(each) if each.is_list else literals.distinct((each,)) for each in parameters]
    if len(columns) == 1:
        which, values = columns[0]
        return which, [[each] for each in values]
    rows, inverse = np.unique(np.stack([which for which, _ in columns], axis=1), axis=0, return_inverse=True)
    found = [[values[at] for at, (_, values) in zip(row, columns, strict=True)] for row in rows.tolist()]
    return inverse.reshape(-1), found


def _join_lists(counts: Int64s, which: Int64s, values: list[Any]) -> tuple[Int64s, list[Any]]:
    """The distinct lists and the index of each row's, given the values of all rows; unreadable with such a literal."""
    ends = np.cumsum(counts)
    found = []
    for start, end in zip((ends - counts).tolist(), ends.tolist(), strict=True):
        row = tuple([values[at] for at in which[start:end].tolist()])
        found.append(UNREADABLE if UNREADABLE in row else row)
    return number_values(found)


def number_values(values: list[Any]) -> tuple[Int64s, list[Any]]:
    """The index of each value among the distinct ones, and these. Values of one parameter are of one type."""
    distinct = dict.fromkeys(values)
    if len(distinct) == len(values):
        return np.arange(len(values)), values
    index = {value: at for at, value in enumerate(distinct)}
    return np.fromiter(map(index.__getitem__, values), np.int64, len(values)), list(index)


def _value_of(parameter: Parameter, text: str, timezone: str) -> Any:
    try:
        return parameter.read(text, timezone)
    except InvalidLiteral:
        return UNREADABLE


def within_runs(counts: Int64s) -> Int64s:
    """0, 1, … up to each count, run after run."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total, dtype=np.int64) - np.repeat(ends - counts, counts)
