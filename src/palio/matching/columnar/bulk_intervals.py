"""Intervals of slots for whole columns of literals: what `ConditionsBuilder.add` does for one filter, by the thousand.

A template (a parsed condition with its literals as parameters) is written out into few conjunctions of *predicate
groups* (`predicate_groups`), each group being all predicates on one attribute. The intervals of a group are made for
all subscriptions of the template at once, by the first of these ways that applies:

- comparisons with integers: as arrays, no Python object per literal;
- equality with strings that are nothing but strings: as arrays, once per distinct string;
- equality and IN lists of other literals: once per distinct literal;
- everything else: once per distinct combination of literals.

The last two try a *short cut* first, which knows the intervals of a common form, and then take the value set that the
template itself gives for the literals. A value set that is no list of intervals (a LIKE with a wildcard in the middle
beside alternatives, say) marks the subscription as *slow*, and the caller adds its filter instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain
from string import ascii_letters
from typing import Any, Final, Protocol

import numpy as np
import numpy.typing as npt

from palio.filters.comparisons import reads_only_as_text
from palio.filters.expressions.text_cast import BLANKS, WORDS
from palio.filters.tree import Leaf
from palio.filters.value_sets import ValueSet, intersection_of
from palio.languages.grammar import InvalidLiteral
from palio.languages.sql.lowering import TruthTest
from palio.languages.sql.templates import Arguments, Comparison, Parameter, Template
from palio.matching.columnar import bulk_kernels as kernels
from palio.matching.columnar.array_types import Bytes, Flags, Int8s, Int32s, Int64s
from palio.matching.columnar.conditions import ConditionsBuilder
from palio.matching.columnar.predicate_groups import (
    PredicateGroup,
    SharedForm,
    conjunctions,
    equalities_of,
    parameters_of,
    shared_form_of,
    short_cut,
)

_LETTERS: Final = frozenset(ascii_letters)
_UNREADABLE: Final = object()  # in place of the value of a literal that has none, such as DATE '2024-02-31'
_ALL_VALUES: Final = [-1]  # in place of the intervals of a group that every value satisfies


# Literals by column


class LiteralColumns(Protocol):
    """The literals of subscriptions of one template, one row each."""

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


@dataclass(frozen=True)
class TextLiterals:
    """Literals as spans of text: read as arrays where they are integers, else once per distinct text."""

    raw: bytes
    text: Bytes  # the same bytes
    spans: Int32s  # begin and end of the literals of all rows
    first: Int64s  # the first literal, by row
    end: Int64s  # the one behind the last
    template: Template
    timezone: str

    def integers(self, parameter: Parameter) -> Int64s:
        values = np.empty(len(self.first), np.int64)
        starts, ends = self._columns([parameter])
        kernels.read_integers(self.text, starts, ends, values)
        return -values if parameter.before == "-" else values

    def distinct(self, parameters: Sequence[Parameter]) -> tuple[Int64s, list[Any]]:
        return self._distinct(parameters[0], *self._columns(parameters))

    def listed(self, parameter: Parameter) -> tuple[Int64s, Int64s, list[Any]]:
        counts = self.end - self.first - len(self.template.parameters) + 1
        chosen = self.spans[np.repeat(self.first + parameter.index, counts) + within_runs(counts)]
        starts, ends = np.ascontiguousarray(chosen[:, 0]), np.ascontiguousarray(chosen[:, 1])
        return counts, *self._distinct(parameter, starts, ends)

    def lists(self, parameter: Parameter) -> tuple[Int64s, list[Any]]:
        return _join_lists(*self.listed(parameter))

    def _distinct(self, parameter: Parameter, starts: Int32s, ends: Int32s) -> tuple[Int64s, list[Any]]:
        numbers, firsts = np.empty(len(starts), np.int64), np.empty((len(starts), 2), np.int32)
        count = kernels.number_texts(self.text, starts, ends, kernels.hash_table_for(len(starts)), numbers, firsts)
        first_starts, first_ends = firsts[:count, 0], firsts[:count, 1]
        if parameter.is_text and not self._has_doubled_quotes:
            return numbers, self._decode(first_starts + 1, first_ends - 1)
        texts = self._decode(first_starts, first_ends)
        return numbers, [_value_of(parameter, text, self.timezone) for text in texts]

    @cached_property
    def _has_doubled_quotes(self) -> bool:
        """Whether a string may have a quote in it; empty strings look like that, too."""
        return b"''" in self.raw or b'""' in self.raw

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
        chosen = self.spans[np.stack(places, axis=1)]
        return np.ascontiguousarray(chosen[:, :, 0]).ravel(), np.ascontiguousarray(chosen[:, :, 1]).ravel()


class ReadLiterals:
    """Literals whose values were read when their subscriptions were added."""

    def __init__(self, rows: Sequence[Arguments]) -> None:
        self._rows = rows

    def integers(self, parameter: Parameter) -> Int64s:
        at = parameter.index
        return np.array([row[at] for row in self._rows], np.int64)

    def distinct(self, parameters: Sequence[Parameter]) -> tuple[Int64s, list[Any]]:
        return number_values([row[parameter.index] for row in self._rows for parameter in parameters])

    def listed(self, parameter: Parameter) -> tuple[Int64s, Int64s, list[Any]]:
        lists = [row[parameter.index] for row in self._rows]
        return np.array([len(each) for each in lists], np.int64), *number_values(list(chain.from_iterable(lists)))

    def lists(self, parameter: Parameter) -> tuple[Int64s, list[Any]]:
        return number_values([row[parameter.index] for row in self._rows])


class FoundLiterals:
    """Literals that were found when their subscriptions were added, but not read: only distinct ones need to be."""

    def __init__(self, texts: npt.NDArray[np.object_], starts: Int64s, timezone: str) -> None:
        self._all = texts
        self._starts = starts  # by row: the first literal of the template
        self._timezone = timezone

    def integers(self, parameter: Parameter) -> Int64s:
        values = np.array(list(map(int, self._texts(parameter))), np.int64)
        return -values if parameter.before == "-" else values

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

    def _texts(self, parameter: Parameter) -> list[str]:
        texts: list[str] = self._all[self._starts + parameter.index].tolist()
        return texts


def _join_lists(counts: Int64s, which: Int64s, values: list[Any]) -> tuple[Int64s, list[Any]]:
    """The distinct lists and the index of each row's, given the values of all rows; unreadable with such a literal."""
    ends = np.cumsum(counts)
    found = []
    for start, end in zip((ends - counts).tolist(), ends.tolist(), strict=True):
        row = tuple([values[at] for at in which[start:end].tolist()])
        found.append(_UNREADABLE if _UNREADABLE in row else row)
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
        return _UNREADABLE


# Intervals by row


class IntervalHandles:
    """The intervals of one predicate group: some for each row, row by row; none where all values satisfy the group."""

    def __init__(self, counts: Int64s, flat: Int64s, never: Flags | None = None, slow: Flags | None = None) -> None:
        self.counts = counts
        self.flat = flat
        self.never = never  # rows that no value satisfies
        self.slow = slow  # rows whose values are no list of intervals

    @classmethod
    def by_choice(cls, rows: Int64s, which: Int64s, choices: Sequence[list[int] | None]) -> IntervalHandles:
        """Each row has the intervals of as many choices as `rows` says; None stands for values that are slow.

        A choice of no interval is one that nothing satisfies.
        """
        own = [each if each is not None and each is not _ALL_VALUES else [] for each in choices]
        lengths = np.array([len(each) for each in own], np.int64)
        starts = np.cumsum(lengths) - lengths
        pool = np.array([handle for each in own for handle in each], np.int64)
        counts = lengths[which]
        flat = pool[np.repeat(starts[which], counts) + within_runs(counts)] if len(pool) else pool
        first = np.cumsum(rows) - rows  # no row names none
        never: Flags = np.logical_and.reduceat(np.array([each == [] for each in choices], np.bool_)[which], first)
        slow: Flags = np.logical_or.reduceat(np.array([each is None for each in choices], np.bool_)[which], first)
        return cls(np.add.reduceat(counts, first), flat, never, slow)


def within_runs(counts: Int64s) -> Int64s:
    """0, 1, … up to each count, run after run."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total, dtype=np.int64) - np.repeat(ends - counts, counts)


def fill_template(
    builder: ConditionsBuilder, numbers: Int64s, template: Template, literals: LiteralColumns, timezone: str
) -> Flags:
    """Add the subscriptions of a template under their numbers; returns which could be added so."""
    alternatives = conjunctions(template.condition)
    if alternatives is None:
        return np.zeros(len(numbers), np.bool_)
    maker = IntervalMaker(builder, literals, timezone, len(numbers))
    # All alternatives before any is added: a row that one of them cannot express is left to the caller as a whole.
    made = [[maker.handles(name, group) for name, group in each] for each in alternatives]
    good = np.ones(len(numbers), np.bool_)
    for groups in made:
        for group in groups:
            if group.slow is not None:
                good &= ~group.slow
    for groups in made:
        _add_conjunction(builder, numbers, groups, good)
    return good


def _add_conjunction(
    builder: ConditionsBuilder, numbers: Int64s, groups: Sequence[IntervalHandles], good: Flags
) -> None:
    """Add one conjunction of every row, except for rows that nothing satisfies."""
    total = np.zeros(len(numbers), np.int64)
    wanted = good.copy()
    for group in groups:
        total += group.counts
        if group.never is not None:
            wanted &= ~group.never
    ends = np.cumsum(total)
    handles = np.empty(int(ends[-1]), np.int64)
    place = ends - total
    for group in groups:
        handles[np.repeat(place, group.counts) + within_runs(group.counts)] = group.flat
        place = place + group.counts
    if not wanted.all():
        handles = handles[np.repeat(wanted, total)]
        numbers, total = numbers[wanted], total[wanted]
    builder.add_intervals(numbers, total, handles)


class IntervalMaker:
    """Makes the intervals of predicate groups for the rows of one template."""

    def __init__(self, builder: ConditionsBuilder, literals: LiteralColumns, timezone: str, count: int) -> None:
        self._builder = builder
        self._literals = literals
        self._timezone = timezone
        self._count = count

    def handles(self, name: str, group: PredicateGroup) -> IntervalHandles:
        form = shared_form_of(group)
        if form is not None:
            found = self.across(np.full(self._count, self._builder.axis((name, None)), np.int64), form)
            if found is not None:
                return found
        parameters = equalities_of(group)
        if parameters is not None:
            counts, which, values = self._alternatives(parameters)
            equality: PredicateGroup = [(Comparison(name, "=", parameters[0]), TruthTest.TRUE)]
            choices = [self._intervals(name, equality, (parameters[0],), [value]) for value in values]
            return IntervalHandles.by_choice(counts, which, choices)
        every = tuple(parameter for predicate, _ in group for parameter in parameters_of(predicate))
        return self._combinations(name, group, every)

    def across(self, axis: Int64s, form: SharedForm) -> IntervalHandles | None:
        """The intervals of rows by the axis of each; None where a literal is unlike the others."""
        operators, parameters = form
        if operators:
            return self._integers(axis, dict(zip(operators, parameters, strict=True)))
        return self._strings(axis, parameters)

    def _combinations(self, name: str, group: PredicateGroup, parameters: tuple[Parameter, ...]) -> IntervalHandles:
        """The intervals of every distinct combination of literals."""
        one_each = np.ones(self._count, np.int64)
        if not parameters:
            choice = self._intervals(name, group, parameters, [])
            return IntervalHandles.by_choice(one_each, np.zeros(self._count, np.int64), [choice])
        columns = [
            self._literals.lists(each) if each.is_list else self._literals.distinct((each,)) for each in parameters
        ]
        if len(columns) == 1:
            which, values = columns[0]
            choices = [self._intervals(name, group, parameters, [each]) for each in values]
            return IntervalHandles.by_choice(one_each, which, choices)
        rows, inverse = np.unique(np.stack([which for which, _ in columns], axis=1), axis=0, return_inverse=True)
        choices = [
            self._intervals(name, group, parameters, [values[at] for at, (_, values) in zip(row, columns, strict=True)])
            for row in rows.tolist()
        ]
        return IntervalHandles.by_choice(one_each, inverse.reshape(-1), choices)

    def _alternatives(self, parameters: tuple[Parameter, ...]) -> tuple[Int64s, Int64s, list[Any]]:
        """How many literals each row has in parameters of one kind, and the distinct ones with the index of each."""
        if parameters[0].is_list:
            return self._literals.listed(parameters[0])
        return np.full(self._count, len(parameters), np.int64), *self._literals.distinct(parameters)

    def _integers(self, axis: Int64s, bounds: dict[str, Parameter]) -> IntervalHandles:
        """A comparison with an integer, or one from below and one from above."""
        axes = self._builder.axes
        values = {operator: self._literals.integers(parameter) for operator, parameter in bounds.items()}
        if "<>" in values:
            at = values["<>"]
            below = axes.add_comparisons(axis, at, at, lower_in=_sides(at, -1), upper_in=_sides(at, 0))
            above = axes.add_comparisons(axis, at, at, lower_in=_sides(at, 0), upper_in=_sides(at, -1))
            pairs = np.stack([np.asarray(below), np.asarray(above)], axis=1).ravel()
            return IntervalHandles(np.full(self._count, 2, np.int64), pairs)
        lower = next((each for each in ("=", ">=", ">") if each in values), None)
        upper = next((each for each in ("=", "<=", "<") if each in values), None)
        made = axes.add_comparisons(
            axis,
            values[lower or upper or "="],
            values[upper or lower or "="],
            lower_in=_sides(axis, -1 if lower is None else int(lower != ">")),
            upper_in=_sides(axis, -1 if upper is None else int(upper != "<")),
        )
        return IntervalHandles(np.ones(len(made), np.int64), np.asarray(made))

    def _strings(self, axis: Int64s, parameters: tuple[Parameter, ...]) -> IntervalHandles | None:
        """Equality with one of some strings; None where one of them reads as another kind of value, too."""
        counts, which, strings = self._alternatives(parameters)
        if not _are_words(strings) and not all(reads_only_as_text(each, self._timezone) for each in strings):
            return None
        if len(axis) and (axis == axis[0]).all():  # every string on the one axis
            made = self._builder.axes.equal_texts(np.full(len(strings), axis[0]), strings)
            return IntervalHandles(counts, made.start + which)
        pairs, own = np.unique(np.repeat(axis, counts) * len(strings) + which, return_inverse=True)
        on, string = np.divmod(pairs, max(1, len(strings)))
        made = self._builder.axes.equal_texts(on, [strings[at] for at in string.tolist()])
        return IntervalHandles(counts, made.start + own.reshape(-1))

    def _intervals(
        self, name: str, group: PredicateGroup, parameters: tuple[Parameter, ...], values: list[Any]
    ) -> list[int] | None:
        """The intervals of a group with these literals: by a short cut where one applies."""
        if _UNREADABLE in values:
            return None  # the parser reports the error
        short = short_cut(group)
        if short is not None:
            found = short(self._builder, name, group, values, self._timezone)
            if found is not None:
                return found
        given: list[Any] = [None] * (1 + max((parameter.index for parameter in parameters), default=-1))
        for parameter, value in zip(parameters, values, strict=True):
            given[parameter.index] = value
        sets: list[ValueSet] = []
        for predicate, test in group:
            node = predicate.node(given, self._timezone, test)
            assert isinstance(node, Leaf)
            sets.append(node.values)
        wanted = intersection_of(sets)
        if wanted.is_full:
            return _ALL_VALUES
        return [] if wanted.is_empty else self._builder.intervals_of(Leaf(name, wanted))


def _are_words(strings: list[str]) -> bool:
    """Whether all strings begin with a letter and are no word that casts know: what most are, told of all together."""
    return (
        {each[:1] for each in strings} <= _LETTERS
        and "".join(strings).isascii()
        and WORDS.isdisjoint([each.rstrip(BLANKS).lower() for each in strings])
    )


def _sides(like: Int64s, side: int) -> Int8s:
    return np.full(len(like), side, np.int8)
