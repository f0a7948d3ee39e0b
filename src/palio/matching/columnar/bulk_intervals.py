"""Intervals of slots for whole columns of literals: what `ConditionsBuilder.add` does for one filter, by the thousand.

A template (a parsed condition with its literals as parameters) is written out into few conjunctions of *predicate
groups* (`predicate_groups`), each group being all predicates on one attribute. The intervals of a group are made for
all subscriptions of the template at once, by the first of these ways that applies:

- comparisons with integers: as arrays, no Python object per literal;
- equality with strings that are nothing but strings: as arrays, once per distinct string;
- comparisons with other numbers, dates and timestamps, and IN lists of them: as arrays (`bulk_bounds`);
- equality and IN lists of other literals: once per distinct literal;
- everything else: once per distinct combination of literals.

The last two try a *short cut* first, which knows the intervals of a common form, and then take the value set that the
template itself gives for the literals. A value set that is no list of intervals (a LIKE with a wildcard in the middle
beside alternatives, say) marks the subscription as *slow*, and the caller adds its filter instead.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from string import ascii_letters
from typing import Any, Final

import numpy as np

from palio.filters.comparisons import reads_only_as_text
from palio.filters.expressions.text_cast import BLANKS, WORDS
from palio.filters.tree import Leaf, Residual
from palio.filters.value_sets import ValueSet, intersection_of
from palio.languages.sql.lowering import TruthTest
from palio.languages.sql.template_parameters import ComputedConstant, Parameter, fill_expression, values_of
from palio.languages.sql.template_predicates import AttributePredicate, Comparison, Connective, ExpressionPredicate
from palio.matching.columnar.array_types import Flags, Int8s, Int64s
from palio.matching.columnar.bulk_bounds import LiteralCuts, interval_columns, literal_cuts, value_cuts
from palio.matching.columnar.computed_attributes import asks_for_null, has_computed_conditions, is_computed
from palio.matching.columnar.conditions import ConditionsBuilder
from palio.matching.columnar.literal_columns import UNREADABLE, LiteralColumns, distinct_combinations, within_runs
from palio.matching.columnar.predicate_groups import (
    PredicateGroup,
    SharedForm,
    column_bounds_of,
    equalities_of,
    is_membership,
    operator_of,
    parameters_of,
    shared_form_of,
    short_cut,
)

_LETTERS: Final = frozenset(ascii_letters)
_ALL_VALUES: Final = [-1]  # in place of the intervals of a group that every value satisfies


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

    def interleaved(self, others: IntervalHandles, is_own: Flags) -> IntervalHandles:
        """These rows, none of them never or slow, and others in one order; `is_own` marks those of these."""
        counts = np.empty(len(is_own), np.int64)
        counts[is_own], counts[~is_own] = self.counts, others.counts
        flat = np.empty(int(counts.sum()), np.int64)
        is_own_handle = np.repeat(is_own, counts)
        flat[is_own_handle], flat[~is_own_handle] = self.flat, others.flat
        never, slow = np.zeros(len(is_own), np.bool_), np.zeros(len(is_own), np.bool_)
        never[~is_own] = False if others.never is None else others.never
        slow[~is_own] = False if others.slow is None else others.slow
        return IntervalHandles(counts, flat, never, slow)


class IntervalMaker:
    """Makes the intervals of predicate groups for the rows of one template."""

    def __init__(self, builder: ConditionsBuilder, literals: LiteralColumns, timezone: str, count: int) -> None:
        self._builder = builder
        self._literals = literals
        self._timezone = timezone
        self.count = count

    def handles(self, name: str, group: PredicateGroup) -> IntervalHandles:
        form = shared_form_of(group)
        if form is not None:
            found = self.across(np.full(self.count, self._builder.axis((name, None)), np.int64), form)
            if found is not None:
                return found
        spans = self._bounded(name, group)
        return self._one_by_one(name, group) if spans is None else spans

    def _bounded(self, name: str, group: PredicateGroup) -> IntervalHandles | None:
        """Comparisons with numbers or times, as arrays; None where literals of these kinds are none."""
        bounds = column_bounds_of(group)
        if bounds is None:
            return self._computed(name, group) if self._timezone == "UTC" else None
        cuts: dict[str, LiteralCuts] = {}
        counts = np.ones(self.count, np.int64)
        for operator, parameter in bounds.items():
            spans = self._literals.spans(parameter)
            found = None if spans is None else literal_cuts(parameter, spans, self._timezone)
            if spans is None or found is None:
                return None
            cuts[operator], counts = found, spans.counts
        good = np.logical_and.reduce([each.good for each in cuts.values()])
        first = np.cumsum(counts) - counts
        good_rows: Flags = np.logical_and.reduceat(good, first)
        columns = interval_columns(self._builder, name, cuts, np.repeat(good_rows, counts))
        flat = np.stack(columns, axis=1).ravel()
        handles = IntervalHandles(counts[good_rows] * len(columns), flat)
        if good_rows.all():
            return handles
        rest = np.flatnonzero(~good_rows)
        others = IntervalMaker(self._builder, self._literals.take(rest), self._timezone, len(rest))
        return handles.interleaved(others._one_by_one(name, group), good_rows)

    def _computed(self, name: str, group: PredicateGroup) -> IntervalHandles | None:
        """A comparison with an interval, or with a time moved by one; None for others, and where one is no time."""
        predicate, operator = group[0][0], operator_of(group[0])
        if len(group) > 1 or operator is None or not isinstance(predicate, Comparison):
            return None
        operand = predicate.operand
        if not isinstance(operand, ComputedConstant) or not (operand.is_time or operand.is_interval):
            return None
        parameters = parameters_of(predicate)
        which, combinations = distinct_combinations(self._literals, parameters)
        if any(UNREADABLE in values for values in combinations):
            return None
        indexes = [each.index for each in parameters]
        value_of = values_of(operand, self._timezone)
        try:
            values = [value_of(dict(zip(indexes, each, strict=True))) for each in combinations]
        except (ArithmeticError, ValueError):
            return None
        cuts = value_cuts(values)
        if cuts is None:
            return None
        columns = interval_columns(self._builder, name, {operator: cuts}, cuts.good)
        flat = np.stack(columns, axis=1)[which].ravel()
        return IntervalHandles(np.full(self.count, len(columns), np.int64), flat)

    def _one_by_one(self, name: str, group: PredicateGroup) -> IntervalHandles:
        """The intervals of every distinct literal, or combination of literals."""
        parameters = equalities_of(group)
        if parameters is not None:
            counts, which, values = self._alternatives(parameters)
            equality: PredicateGroup = [(Comparison(name, "=", parameters[0]), TruthTest.TRUE)]
            intervals = self._intervals_by_values(equality, (parameters[0],))
            choices = [intervals(name, [value]) for value in values]
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
        one_each = np.ones(self.count, np.int64)
        intervals = self._intervals_by_values(group, parameters)
        if not parameters:
            return IntervalHandles.by_choice(one_each, np.zeros(self.count, np.int64), [intervals(name, [])])
        which, combinations = distinct_combinations(self._literals, parameters)
        return IntervalHandles.by_choice(one_each, which, [intervals(name, values) for values in combinations])

    def _alternatives(self, parameters: tuple[Parameter, ...]) -> tuple[Int64s, Int64s, list[Any]]:
        """How many literals each row has in parameters of one kind, and the distinct ones with the index of each."""
        if parameters[0].is_list:
            return self._literals.listed(parameters[0])
        return np.full(self.count, len(parameters), np.int64), *self._literals.distinct(parameters)

    def _integers(self, axis: Int64s, bounds: dict[str, Parameter]) -> IntervalHandles:
        """A comparison with an integer, or one from below and one from above."""
        axes = self._builder.axes
        values = {operator: self._literals.integers(parameter) for operator, parameter in bounds.items()}
        if "<>" in values:
            at = values["<>"]
            below = axes.add_comparisons(axis, at, at, lower_in=_sides(at, -1), upper_in=_sides(at, 0))
            above = axes.add_comparisons(axis, at, at, lower_in=_sides(at, 0), upper_in=_sides(at, -1))
            pairs = np.stack([np.asarray(below), np.asarray(above)], axis=1).ravel()
            return IntervalHandles(np.full(self.count, 2, np.int64), pairs)
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

    def _intervals_by_values(
        self, group: PredicateGroup, parameters: tuple[Parameter, ...]
    ) -> Callable[[str, list[Any]], list[int] | None]:
        """The intervals of a group as a function of attribute and literals: by a short cut where one applies."""
        short = None if is_membership(group) else short_cut(group)

        def intervals(name: str, values: list[Any]) -> list[int] | None:
            if UNREADABLE in values:
                return None  # the parser reports the error
            if short is not None:
                found = short(self._builder, name, group, values, self._timezone)
                if found is not None:
                    return found
            return self._intervals(name, group, parameters, values)

        return intervals

    def _intervals(
        self, name: str, group: PredicateGroup, parameters: tuple[Parameter, ...], values: list[Any]
    ) -> list[int] | None:
        """The intervals of a group with these literals, by the value set that they mean."""
        if is_membership(group):
            return self._membership(group, parameters, values)
        given = _arguments(parameters, values)
        sets: list[ValueSet] = []
        for predicate, test in group:
            try:
                node = predicate.node(given, self._timezone, test)
            except ValueError:
                return None  # a regular expression that is none: the parser reports the error
            if not isinstance(node, Leaf) or has_computed_conditions(node):
                return None  # with these literals, an expression is not rewritten
            sets.append(node.values)
        wanted = intersection_of(sets)
        if is_computed(name) and asks_for_null(wanted):
            return None
        if wanted.is_full:
            return _ALL_VALUES
        return [] if wanted.is_empty else self._builder.intervals_of(Leaf(name, wanted))

    def comparison(
        self, compared: AttributePredicate | Connective | None, test: TruthTest
    ) -> Callable[[str, Mapping[int, Any]], list[int] | None]:
        """The intervals of one comparison as a function of the attribute, and of its parameters' values by index."""
        group: PredicateGroup = [(compared, test)]  # type: ignore[list-item]
        if isinstance(compared, Connective):  # BETWEEN
            if test is not TruthTest.TRUE:
                return lambda name, given: None
            group = [(part, test) for part in compared.parts]  # type: ignore[misc]
        parameters = tuple(parameter for predicate, _ in group for parameter in parameters_of(predicate))
        indexes = [each.index for each in parameters]
        intervals = self._intervals_by_values(group, parameters)
        return lambda name, given: intervals(name, [given[index] for index in indexes])

    def _membership(
        self, group: PredicateGroup, parameters: tuple[Parameter, ...], values: list[Any]
    ) -> list[int] | None:
        predicate, _ = group[0]
        assert isinstance(predicate, ExpressionPredicate)
        filled = fill_expression(predicate.expression, _arguments(parameters, values))
        return [self._builder.interval_of(Residual(filled, True, self._timezone))]


def _arguments(parameters: Sequence[Parameter], values: Sequence[Any]) -> list[Any]:
    """The arguments of a template as far as the values of some parameters say them."""
    given: list[Any] = [None] * (1 + max((parameter.index for parameter in parameters), default=-1))
    for parameter, value in zip(parameters, values, strict=True):
        given[parameter.index] = value
    return given


def _are_words(strings: list[str]) -> bool:
    """Whether all strings begin with a letter and are no word that casts know: what most are, told of all together."""
    return (
        {each[:1] for each in strings} <= _LETTERS
        and "".join(strings).isascii()
        and WORDS.isdisjoint([each.rstrip(BLANKS).lower() for each in strings])
    )


def _sides(like: Int64s, side: int) -> Int8s:
    return np.full(len(like), side, np.int8)
