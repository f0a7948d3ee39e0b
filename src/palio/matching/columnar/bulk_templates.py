"""Templates filled with columns of literals: the subscriptions of one template, added to an index together.

A comparison of an expression with constants is a condition on the computed attribute of that expression. Literals may
stand in the expression too: `abs(price - 5) < 3`. Conditions that differ in those ask for different computed
attributes, and are filled attribute by attribute:

- where at least `MIN_SHARING_CONDITIONS` have one expression, their template is *specialised*: it gets the literals of
  the expression, and the rest of it is filled like any other;
- a *rare* expression is left out where the rest of its conjunction selects, to be evaluated on candidates, and is a
  computed attribute of its own where nothing does. That is what `ExpressionUses` decides for a tree;
- a rare expression that can be rewritten to a range of an inner value, as the one above, is a condition on the computed
  attribute of that value, which all of the template share.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from palio.filters.expressions.ast import Attribute, Call, walk
from palio.filters.rewriting import canonical_range, range_of_shift
from palio.filters.value_predicates import computed_range
from palio.languages.sql.lowering import TruthTest
from palio.languages.sql.template_parameters import Parameter, bind_some, fill_expression, parameters_in
from palio.languages.sql.template_predicates import BooleanAttribute, ExpressionPredicate, NullTest
from palio.languages.sql.templates import Template
from palio.matching.columnar.array_types import Flags, Int64s
from palio.matching.columnar.bulk_intervals import IntervalHandles, IntervalMaker
from palio.matching.columnar.bulk_preimages import is_linear, linear_alternatives
from palio.matching.columnar.bulk_shifts import shifted_alternatives
from palio.matching.columnar.computed_attributes import (
    MIN_SHARING_CONDITIONS,
    computed_name,
    interval_name,
    is_computed,
    of_any_kind,
    rewritten_alternatives,
)
from palio.matching.columnar.conditions import ConditionsBuilder
from palio.matching.columnar.literal_columns import UNREADABLE, LiteralColumns, distinct_combinations, within_runs
from palio.matching.columnar.predicate_groups import PredicateGroup, conjunctions, is_rare, parameters_of

_MAX_SPECIALISED: Final = 64  # expressions of one template, where they need no specialising


def fill_template(
    builder: ConditionsBuilder, numbers: Int64s, template: Template, literals: LiteralColumns, timezone: str
) -> Flags:
    """Add the subscriptions of a template under their numbers; returns which could be added so."""
    if not template.naming:
        return _fill(builder, numbers, template, literals, timezone)
    done = np.zeros(len(numbers), np.bool_)
    is_rare_row = np.ones(len(numbers), np.bool_)
    least = MIN_SHARING_CONDITIONS
    if len(numbers) > least * _MAX_SPECIALISED and _is_linear(template, literals, timezone):
        least = len(numbers) // _MAX_SPECIALISED
    for special, rows in _specialised(template, literals, least):
        is_rare_row[rows] = False
        done[rows] = _fill(builder, numbers[rows], special, literals.take(rows), timezone)
    rare = np.flatnonzero(is_rare_row)
    if len(rare) == len(numbers):
        return _fill(builder, numbers, template, literals, timezone)
    if len(rare):
        done[rare] = _fill(builder, numbers[rare], template, literals.take(rare), timezone)
    return done


def _is_linear(template: Template, literals: LiteralColumns, timezone: str) -> bool:
    """Whether expressions with other literals are ranges of one value, which is found without specialising them."""
    example = _first_row(template, literals)
    alternatives = None if UNREADABLE in example else conjunctions(template.condition, timezone)
    rare = [group for each in alternatives or () for _, group in each if is_rare(group)]
    return len(rare) == len(alternatives or ()) > 0 and all(
        is_linear(*group[0], dict(enumerate(example)), timezone) for group in rare
    )


def _specialised(template: Template, literals: LiteralColumns, least: int) -> Iterator[tuple[Template, Int64s]]:
    """The templates of rows that have the same expressions, where enough do to compute them for every event."""
    which, combinations = distinct_combinations(literals, template.naming)
    counts = np.bincount(which, minlength=len(combinations))
    order = np.argsort(which, kind="stable")
    ends = np.cumsum(counts)
    for at in np.flatnonzero(counts >= least).tolist():
        rows = order[ends[at] - counts[at] : ends[at]]
        example = _first_row(template, literals.take(rows))
        if UNREADABLE not in example:
            named = dict(zip([parameter.index for parameter in template.naming], combinations[at], strict=True))
            yield template.specialise(named, example), rows


def _first_row(template: Template, literals: LiteralColumns) -> list[Any]:
    _, combinations = distinct_combinations(literals.take(np.zeros(1, np.int64)), template.parameters)
    return combinations[0]


def _fill(
    builder: ConditionsBuilder, numbers: Int64s, template: Template, literals: LiteralColumns, timezone: str
) -> Flags:
    alternatives = conjunctions(template.condition, timezone)
    if alternatives is None:
        return np.zeros(len(numbers), np.bool_)
    rare = _RareExpressions(builder, IntervalMaker(builder, literals, timezone, len(numbers)), literals, timezone)
    # All alternatives before any is added: a row that one of them cannot express is left to the caller as a whole.
    made = [each for conjunction in alternatives for each in rare.filled(conjunction, template)]
    good = np.ones(len(numbers), np.bool_)
    for groups in made:
        for group in groups:
            if group.slow is not None:
                good &= ~group.slow
    for groups in made:
        _add_conjunction(builder, numbers, groups, good)
    named = {name for each in alternatives for name, group in each if is_computed(name) and not is_rare(group)}
    if named or rare.names:
        builder.count_computed(numbers[good], named | rare.names)
    builder.residual_numbers.update(numbers[good & rare.is_wider].tolist())
    if rare.has_unshared:
        builder.unshared_numbers.update(numbers[good].tolist())
    return good


class _RareExpressions:
    """Conjunctions with groups whose expression is another in every row."""

    def __init__(
        self, builder: ConditionsBuilder, maker: IntervalMaker, literals: LiteralColumns, timezone: str
    ) -> None:
        self._builder = builder
        self._maker = maker
        self._literals = literals
        self._timezone = timezone
        self.names: set[str] = set()
        """Computed attributes to which expressions were rewritten."""
        self.is_wider = np.zeros(maker.count, np.bool_)
        """Rows some of whose conditions are left to candidates."""
        self.has_unshared = False
        """Whether some row has a computed attribute of its own."""

    def filled(
        self, conjunction: Sequence[tuple[str, PredicateGroup]], template: Template
    ) -> Iterator[list[IntervalHandles]]:
        """The intervals of a conjunction, or of several of which an event satisfies one."""
        found = [self._maker.handles(name, group) for name, group in conjunction if not is_rare(group)]
        rare = [group for _, group in conjunction if is_rare(group)]
        if not rare:
            yield found
            return
        example = _first_row(template, self._literals)
        rewritten = [group for group in rare if UNREADABLE not in example and self._rewritten(group, example)]
        if UNREADABLE in example or len(rewritten) > 1 or (rewritten and self._maker.count < MIN_SHARING_CONDITIONS):
            yield [self._none_of_all()]  # rare itself: left to the caller
        elif rewritten:
            taken = {name for name, _ in conjunction}
            for variant in self._ranges(rewritten[0], taken):
                yield [*found, variant]
            self.is_wider |= len(rare) > 1
        elif any(not is_rare(other) and _selects(other) for _, other in conjunction):
            self.is_wider[:] = True
            yield found
        else:
            self.has_unshared = True
            yield [*found, *map(self._own_attributes, rare)]

    def _none_of_all(self) -> IntervalHandles:
        count = self._maker.count
        return IntervalHandles.by_choice(np.ones(count, np.int64), np.zeros(count, np.int64), [None])

    def _rewritten(self, group: PredicateGroup, example: list[Any]) -> bool:
        """Whether an expression is, by the example of one row, a range of an inner value."""
        predicate, test = group[0]
        assert isinstance(predicate, ExpressionPredicate)
        condition = fill_expression(predicate.expression, example), test is TruthTest.TRUE, self._timezone
        found, inner = computed_range(*condition), canonical_range(*condition)
        return found is not None and inner is not None and found[0] != inner[0]

    def _ranges(self, group: PredicateGroup, taken: set[str]) -> Iterator[IntervalHandles]:
        """The ranges of an inner value that expressions are rewritten to, as alternatives; at most one holds."""
        predicate, test = group[0]
        which, given = self._combinations(predicate)
        moved = self._shifted(predicate, test, given, taken)
        if None in moved:
            moved = self._linear(predicate, test, given, taken, moved)
        choices = [
            None if values is None else shifted or self._alternatives(predicate, test, values, taken)
            for values, shifted in zip(given, moved, strict=True)
        ]
        ones = np.ones(len(which), np.int64)
        for at in range(max((len(each) for each in choices if each is not None), default=1)):
            # A row with fewer alternatives has none that holds here.
            chosen = [None if each is None else each[at] if at < len(each) else [] for each in choices]
            yield IntervalHandles.by_choice(ones, which, chosen)

    def _shifted(
        self, predicate: Any, test: TruthTest, given: Sequence[Mapping[int, Any] | None], taken: set[str]
    ) -> list[list[list[int]] | None]:
        """The alternatives of expressions that add or subtract one of their literals; None where there is none.

        What is asked of the sum is found once for each choice of the other literals.
        """
        found: list[list[list[int]] | None] = [None] * len(given)
        added = _added_parameter(predicate.expression)
        if added is None:
            return found
        function, at = added
        by_others: dict[tuple[str, ...], list[tuple[int, Mapping[int, Any]]]] = {}
        for row, values in enumerate(given):
            if values is not None:
                others = tuple([repr(value) for index, value in values.items() if index != at])
                by_others.setdefault(others, []).append((row, values))
        for members in by_others.values():
            if len(members) < MIN_SHARING_CONDITIONS:
                continue
            condition = bind_some(predicate.expression, members[0][1]), test is TruthTest.TRUE, self._timezone
            shift, inner = range_of_shift(*condition), canonical_range(*condition)
            if shift is None or inner is None or not isinstance(inner[0], Call):
                continue
            name = computed_name(inner[0], self._timezone)
            if name in taken:
                continue
            constants = [-own[at] if function == "+" else own[at] for _, own in members]
            made = shifted_alternatives(self._builder, name, shift[1], constants)
            for (row, _), alternatives in zip(members, made, strict=True):
                found[row] = alternatives
            self.names.add(name)
        return found

    def _linear(
        self,
        predicate: Any,
        test: TruthTest,
        given: Sequence[Mapping[int, Any] | None],
        taken: set[str],
        known: list[list[list[int]] | None],
    ) -> list[list[list[int]] | None]:
        """The alternatives of sums and products with literals, where they are not known yet."""
        left = [values if alternatives is None else None for values, alternatives in zip(given, known, strict=True)]
        found = linear_alternatives(self._builder, predicate, test, left, taken, self._timezone)
        if found is None:
            return known
        name, made = found
        if is_computed(name):
            self.names.add(name)
        return [each if each is not None else own for each, own in zip(known, made, strict=True)]

    def _alternatives(
        self, predicate: Any, test: TruthTest, given: Mapping[int, Any], taken: set[str]
    ) -> list[list[int]] | None:
        filled = bind_some(predicate.expression, given)
        leaves = rewritten_alternatives(filled, test is TruthTest.TRUE, self._timezone)
        if leaves is None:
            return None
        handles = [[] if leaf.values.is_empty else self._builder.intervals_of(leaf) for leaf in leaves]
        names = {of_any_kind(leaf.attribute) for leaf in leaves}
        if not all(map(is_computed, names)) or names & taken or None in handles:
            return None  # an attribute of events may be restricted twice
        self.names |= names
        return handles  # type: ignore[return-value]

    def _own_attributes(self, group: PredicateGroup) -> IntervalHandles:
        """A computed attribute for each expression."""
        predicate, test = group[0]
        which, given = self._combinations(predicate)
        choices = self._intervals(predicate, test, given)
        return IntervalHandles.by_choice(np.ones(len(which), np.int64), which, choices)

    def _combinations(self, predicate: Any) -> tuple[Int64s, list[dict[int, Any] | None]]:
        """The distinct values of a predicate's parameters by index, None where one has none, and each row's."""
        parameters = parameters_of(predicate)
        indexes = [each.index for each in parameters]
        which, combinations = distinct_combinations(self._literals, parameters)
        return which, [
            None if UNREADABLE in values else dict(zip(indexes, values, strict=True)) for values in combinations
        ]

    def _intervals(
        self, predicate: Any, test: TruthTest, given: Sequence[Mapping[int, Any] | None]
    ) -> list[list[int] | None]:
        """The intervals of the computed attribute of each row; None where it has none."""
        value = predicate.expression if predicate.value is None else predicate.value
        compared = BooleanAttribute("") if predicate.value is None else predicate.compared
        intervals = self._maker.comparison(compared, test)
        name_of = interval_name if predicate.compares_intervals else computed_name
        return [
            None if each is None else intervals(name_of(bind_some(value, each), self._timezone), each) for each in given
        ]


def _added_parameter(expression: Any) -> tuple[str, int] | None:
    """The literal, by index, that is the only one added to or subtracted from an attribute, with the operator."""
    added = [
        (call.function, parameter.index)
        for call in walk(expression)
        if isinstance(call, Call) and call.function in ("+", "-") and len(call.arguments) == 2
        for attribute, parameter in (call.arguments, call.arguments[:: -1 if call.function == "+" else 1])
        if isinstance(attribute, Attribute) and isinstance(parameter, Parameter)
    ]
    if not added or [each.index for each in parameters_in(expression)].count(added[0][1]) > 1:
        return None
    return added[0] if len(set(added)) == 1 else None


def _selects(group: PredicateGroup) -> bool:
    """Whether a group leaves few of all events: it needs a value, and not just any."""
    return any(
        test in (TruthTest.TRUE, TruthTest.FALSE) and not isinstance(predicate, NullTest) for predicate, test in group
    )


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
