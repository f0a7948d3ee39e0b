"""Intervals of slots for whole columns of literals: what `ConditionsBuilder.add` does for one filter, by the thousand.

A template (a parsed condition with its literals as parameters) is written out into few conjunctions of *predicate
groups*, each group being all predicates on one attribute. The intervals of a group are made for all subscriptions of
the template at once, by the first of these ways that applies:

- comparisons with integers: as arrays, no Python object per literal;
- equality with strings that are nothing but strings: as arrays, once per distinct string;
- equality and IN lists of other literals: once per distinct literal;
- everything else: once per distinct combination of literals.

The last two ask a *short cut* first, which knows the intervals of a common form, and then the value set that the
template itself gives for the literals. Thus lowering is the one place that defines what a condition means; a property
test compares every short cut with it. A value set that is no list of intervals (a LIKE with a wildcard in the middle
beside alternatives, say) marks the subscription as *slow*, and the caller adds its filter instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from palio.filters.comparisons import equality_cuts, reads_only_as_text
from palio.filters.expressions.text_cast import to_boolean, to_date, to_double, to_integer, to_timestamp
from palio.filters.kinds import HIGHEST_CUT, LOWEST_CUT, Kind, timestamp_at
from palio.filters.tree import Leaf
from palio.filters.value_sets import ValueSet, after_prefix, intersection_of
from palio.languages.grammar import InvalidLiteral
from palio.languages.sql.lowering import INVERSE, TruthTest, inner_test
from palio.languages.sql.templates import (
    INTEGER,
    STRING,
    Arguments,
    AttributePredicate,
    BooleanTest,
    Comparison,
    Condition,
    Connective,
    InList,
    Negation,
    Parameter,
    PatternMatch,
    Template,
)
from palio.matching.columnar import bulk_kernels as kernels
from palio.matching.columnar.array_types import Bytes, Flags, Int8s, Int32s, Int64s
from palio.matching.columnar.axes import Region
from palio.matching.columnar.conditions import MAX_CONJUNCTIONS, ConditionsBuilder

_UNREADABLE: Final = object()  # in place of the value of a literal that has none, such as DATE '2024-02-31'
_ALL_VALUES: Final = [-1]  # in place of the intervals of a group that every value satisfies
_EXACT_IN_FLOATS: Final = 2**53


# Literals by column


class LiteralColumns(Protocol):
    """The literals of subscriptions of one template, one row each."""

    def integers(self, slot: Parameter) -> Int64s:
        """The values of a slot that holds integers."""
        ...

    def distinct(self, slots: Sequence[Parameter]) -> tuple[Int64s, list[Any]]:
        """The distinct values in slots of one kind, and the index of each literal's value, row by row."""
        ...


@dataclass(frozen=True, slots=True)
class TextLiterals:
    """Literals as spans of text: read as arrays where they are integers, else once per distinct text."""

    raw: bytes
    text: Bytes  # the same bytes
    spans: Int32s  # begin and end, by row and slot
    timezone: str

    def integers(self, slot: Parameter) -> Int64s:
        values = np.empty(len(self.spans), np.int64)
        starts, ends = self._columns([slot])
        kernels.read_integers(self.text, starts, ends, values)
        return -values if slot.before == "-" else values

    def distinct(self, slots: Sequence[Parameter]) -> tuple[Int64s, list[Any]]:
        starts, ends = self._columns(slots)
        numbers, firsts = np.empty(len(starts), np.int64), np.empty(len(starts), np.int64)
        count = kernels.number_texts(self.text, starts, ends, kernels.hash_table_for(len(starts)), numbers, firsts)
        spans = zip(starts[firsts[:count]].tolist(), ends[firsts[:count]].tolist(), strict=True)
        return numbers, [_value_of(slots[0], self.raw[start:end].decode(), self.timezone) for start, end in spans]

    def _columns(self, slots: Sequence[Parameter]) -> tuple[Int32s, Int32s]:
        chosen = self.spans[:, [slot.index for slot in slots]]
        return np.ascontiguousarray(chosen[:, :, 0]).ravel(), np.ascontiguousarray(chosen[:, :, 1]).ravel()


class ReadLiterals:
    """Literals whose values were read when their subscriptions were added."""

    def __init__(self, rows: Sequence[Arguments]) -> None:
        self._rows = rows

    def integers(self, slot: Parameter) -> Int64s:
        at = slot.index
        return np.array([row[at] for row in self._rows], np.int64)

    def distinct(self, slots: Sequence[Parameter]) -> tuple[Int64s, list[Any]]:
        return number_values([row[slot.index] for row in self._rows for slot in slots])


class FoundLiterals:
    """Literals that were found when their subscriptions were added, but not read: only distinct ones need to be."""

    def __init__(self, texts: npt.NDArray[np.object_], starts: Int64s, timezone: str) -> None:
        self._all = texts
        self._starts = starts  # by row: the first literal of the template
        self._timezone = timezone

    def integers(self, slot: Parameter) -> Int64s:
        values = np.array(list(map(int, self._texts(slot))), np.int64)
        return -values if slot.before == "-" else values

    def distinct(self, slots: Sequence[Parameter]) -> tuple[Int64s, list[Any]]:
        columns = [self._texts(slot) for slot in slots]
        texts = columns[0] if len(columns) == 1 else [text for row in zip(*columns, strict=True) for text in row]
        which, distinct = number_values(texts)
        read = slots[0].read
        try:
            return which, [read(text, self._timezone) for text in distinct]
        except InvalidLiteral:
            return which, [_value_of(slots[0], text, self._timezone) for text in distinct]

    def _texts(self, slot: Parameter) -> list[str]:
        texts: list[str] = self._all[self._starts + slot.index].tolist()
        return texts


def number_values(values: list[Any]) -> tuple[Int64s, list[Any]]:
    """The index of each value among the distinct ones, and these. Values of one slot are of one type."""
    distinct = dict.fromkeys(values)
    if len(distinct) == len(values):
        return np.arange(len(values)), values
    index = {value: at for at, value in enumerate(distinct)}
    return np.fromiter(map(index.__getitem__, values), np.int64, len(values)), list(index)


def _value_of(slot: Parameter, text: str, timezone: str) -> Any:
    try:
        return slot.read(text, timezone)
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
    def by_choice(cls, which: Int64s, choices: Sequence[list[int] | None], width: int = 1) -> IntervalHandles:
        """Each row has the intervals of the `width` choices it names; None stands for values that are slow.

        A choice of no interval is one that nothing satisfies.
        """
        own = [each if each is not None and each is not _ALL_VALUES else [] for each in choices]
        lengths = np.array([len(each) for each in own], np.int64)
        starts = np.cumsum(lengths) - lengths
        pool = np.array([handle for each in own for handle in each], np.int64)
        counts = lengths[which]
        flat = pool[np.repeat(starts[which], counts) + within_runs(counts)] if len(pool) else pool
        never: Flags = np.logical_and.reduce(np.array([each == [] for each in choices])[which].reshape(-1, width), 1)
        slow: Flags = np.logical_or.reduce(np.array([each is None for each in choices])[which].reshape(-1, width), 1)
        return cls(counts.reshape(-1, width).sum(axis=1), flat, never, slow)


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
        slots = equalities_of(group)
        if slots is not None:
            which, values = self._literals.distinct(slots)
            equality: PredicateGroup = [(Comparison(name, "=", slots[0]), TruthTest.TRUE)]
            choices = [self._intervals(name, equality, (slots[0],), [value]) for value in values]
            return IntervalHandles.by_choice(which, choices, len(slots))
        return self._combinations(name, group, tuple(slot for simple, _ in group for slot in slots_of(simple)))

    def across(self, axis: Int64s, form: SharedForm) -> IntervalHandles | None:
        """The intervals of rows by the axis of each; None where a literal is unlike the others."""
        operators, slots = form
        if operators:
            return self._integers(axis, dict(zip(operators, slots, strict=True)))
        return self._strings(axis, slots)

    def _combinations(self, name: str, group: PredicateGroup, slots: tuple[Parameter, ...]) -> IntervalHandles:
        """The intervals of every distinct combination of literals."""
        if not slots:
            choice = self._intervals(name, group, slots, [])
            return IntervalHandles.by_choice(np.zeros(self._count, np.int64), [choice])
        columns = [self._literals.distinct((slot,)) for slot in slots]
        if len(columns) == 1:
            which, values = columns[0]
            return IntervalHandles.by_choice(which, [self._intervals(name, group, slots, [each]) for each in values])
        rows, inverse = np.unique(np.stack([which for which, _ in columns], axis=1), axis=0, return_inverse=True)
        choices = [
            self._intervals(name, group, slots, [values[at] for at, (_, values) in zip(row, columns, strict=True)])
            for row in rows.tolist()
        ]
        return IntervalHandles.by_choice(inverse.reshape(-1), choices)

    def _integers(self, axis: Int64s, bounds: dict[str, Parameter]) -> IntervalHandles:
        """A comparison with an integer, or one from below and one from above."""
        axes = self._builder.axes
        values = {operator: self._literals.integers(slot) for operator, slot in bounds.items()}
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

    def _strings(self, axis: Int64s, slots: tuple[Parameter, ...]) -> IntervalHandles | None:
        """Equality with one of some strings; None where one of them reads as another kind of value, too."""
        which, strings = self._literals.distinct(slots)
        for each in strings:
            if not reads_only_as_text(each, self._timezone):
                return None
        pairs, own = np.unique(np.repeat(axis, len(slots)) * len(strings) + which, return_inverse=True)
        on, string = np.divmod(pairs, max(1, len(strings)))
        made = self._builder.axes.equal_texts(on, [strings[at] for at in string.tolist()])
        return IntervalHandles(np.full(self._count, len(slots), np.int64), made.start + own.reshape(-1))

    def _intervals(
        self, name: str, group: PredicateGroup, slots: tuple[Parameter, ...], values: list[Any]
    ) -> list[int] | None:
        """The intervals of a group with these literals: by a short cut where one applies."""
        if _UNREADABLE in values:
            return None  # the parser reports the error
        short = short_cut(group)
        if short is not None:
            found = short(self._builder, name, group, values, self._timezone)
            if found is not None:
                return found
        given: list[Any] = [None] * (1 + max((slot.index for slot in slots), default=-1))
        for slot, value in zip(slots, values, strict=True):
            given[slot.index] = value
        sets: list[ValueSet] = []
        for simple, ask in group:
            node = simple.node(given, self._timezone, ask)
            assert isinstance(node, Leaf)
            sets.append(node.values)
        wanted = intersection_of(sets)
        if wanted.is_full:
            return _ALL_VALUES
        return [] if wanted.is_empty else self._builder.intervals_of(Leaf(name, wanted))


def _sides(like: Int64s, side: int) -> Int8s:
    return np.full(len(like), side, np.int8)


# Predicate groups of a template


# A predicate, and the truth value that it must, or must not, have.
AskedPredicate: TypeAlias = tuple[AttributePredicate, TruthTest]
PredicateGroup: TypeAlias = list[AskedPredicate]  # on one attribute; one value must satisfy all
# Operators and slots of comparisons with integers; without operators, the slots of an equality with strings. Templates
# of one form differ in their attribute alone, and are filled together.
SharedForm: TypeAlias = tuple[tuple[str, ...], tuple[Parameter, ...]]

_OPPOSITE: Final = {"=": "<>", "<>": "=", "<": ">=", ">=": "<", ">": "<=", "<=": ">"}


def conjunctions(condition: Condition) -> list[list[tuple[str, PredicateGroup]]] | None:
    """A condition as at most `MAX_CONJUNCTIONS` conjunctions of groups; None where it has none."""
    alternatives = _alternatives(condition, TruthTest.TRUE)
    if alternatives is None:
        return None
    found = []
    for each in alternatives:
        groups: dict[str, PredicateGroup] = {}
        for simple, ask in each:
            # LIKE is NULL for everything but strings. NOT TRUE and NOT FALSE take those values in, which makes two
            # leaves of one predicate, and a group is one set of values.
            if isinstance(simple, PatternMatch) and ask in (TruthTest.NOT_TRUE, TruthTest.NOT_FALSE):
                return None
            groups.setdefault(simple.name, []).append((simple, ask))
        found.append(list(groups.items()))
    return found


def _alternatives(condition: Condition, ask: TruthTest) -> list[list[AskedPredicate]] | None:
    match condition:
        case Negation(part):
            return _alternatives(part, INVERSE[ask])
        case BooleanTest(positive, part):
            return _alternatives(part, inner_test(positive, ask))
        case Connective(is_and, parts):
            each = [_alternatives(part, ask) for part in parts]
            return _product(each) if is_and is (ask in (TruthTest.TRUE, TruthTest.NOT_FALSE)) else _sum(each)
    return [[(condition, ask)]]


def _sum(parts: Sequence[list[list[AskedPredicate]] | None]) -> list[list[AskedPredicate]] | None:
    found: list[list[AskedPredicate]] = []
    for part in parts:
        if part is None or len(found) + len(part) > MAX_CONJUNCTIONS:
            return None
        found += part
    return found


def _product(parts: Sequence[list[list[AskedPredicate]] | None]) -> list[list[AskedPredicate]] | None:
    found: list[list[AskedPredicate]] = [[]]
    for part in parts:
        if part is None or len(found) * len(part) > MAX_CONJUNCTIONS:
            return None
        found = [[*one, *other] for one in found for other in part]
    return found


def slots_of(simple: AttributePredicate) -> tuple[Parameter, ...]:
    match simple:
        case Comparison(_, _, operand) | PatternMatch(_, _, operand):
            return (operand,) if isinstance(operand, Parameter) else ()
        case InList(_, operands):
            return tuple(operand for operand in operands if isinstance(operand, Parameter))
    return ()


def operator_of(asked: AskedPredicate) -> str | None:
    """The comparison that must hold; None for other predicates, and where NULL counts as a value."""
    simple, ask = asked
    if (
        not isinstance(simple, Comparison)
        or simple.operator not in _OPPOSITE
        or ask not in (TruthTest.TRUE, TruthTest.FALSE)
    ):
        return None
    return simple.operator if ask is TruthTest.TRUE else _OPPOSITE[simple.operator]


def bounds_of(group: PredicateGroup) -> dict[str, Parameter] | None:
    """The comparisons of a group by operator, where it is one, or one from below and one from above."""
    found: dict[str, Parameter] = {}
    for simple, ask in group:
        operator = operator_of((simple, ask))
        if operator is None or not isinstance(simple, Comparison) or not isinstance(simple.operand, Parameter):
            return None
        found[operator] = simple.operand
    if len(found) != len(group):
        return None
    if len(found) == 1 or (len(found) == 2 and len({*found} & {"<", "<="}) == 1 == len({*found} & {">", ">="})):
        return found
    return None


def shared_form_of(group: PredicateGroup) -> SharedForm | None:
    """The form of a group whose attribute is compared with integers or equal to strings; None for others."""
    bounds = bounds_of(group)
    if bounds is not None and all(slot.kind == INTEGER for slot in bounds.values()):
        return tuple(bounds), tuple(bounds.values())
    slots = equalities_of(group)
    return ((), slots) if slots is not None and slots[0].kind == STRING and not slots[0].before else None


def equalities_of(group: PredicateGroup) -> tuple[Parameter, ...] | None:
    """The slots of a group that is an equality with one of them, all of one kind: each stands for itself."""
    match group:
        case [(Comparison(_, "=", Parameter() as slot), TruthTest.TRUE)]:
            return (slot,)
        case [(InList(_, operands) as listed, TruthTest.TRUE)]:
            slots = slots_of(listed)
            alike = len({(slot.kind, slot.before) for slot in slots}) == 1
            return slots if alike and len(slots) == len(operands) else None
    return None


# Short cuts: intervals that follow from the literals without a value set. None where one does not apply to them.

ShortCut: TypeAlias = Callable[[ConditionsBuilder, str, PredicateGroup, list[Any], str], list[int] | None]
Bounds: TypeAlias = list[tuple[str, Any]]  # operators with the values compared with


def short_cut(group: PredicateGroup) -> ShortCut | None:
    bounds = bounds_of(group)
    if bounds is not None:
        found = {_BY_KIND.get(slot.before if slot.kind == STRING else "number") for slot in bounds.values()}
        return found.pop() if len(found) == 1 else None
    match group:
        case [(PatternMatch(_, "like" | "startswith"), TruthTest.TRUE)]:
            return _prefix
        case [(InList(), TruthTest.FALSE)]:
            return _unlisted
    return None


def _numbers(builder: ConditionsBuilder, name: str, group: PredicateGroup, values: list[Any], zone: str) -> list[int]:
    """A number is compared with every kind of number, and with no other value."""
    return _compared(builder, name, Region.NUMBER, _with_operators(group, values))


def _texts(
    builder: ConditionsBuilder, name: str, group: PredicateGroup, values: list[Any], zone: str
) -> list[int] | None:
    """Plain text is compared with strings alone; an integer in quotes, if for equality, with numbers and times too."""
    bounds = _with_operators(group, values)
    if all(reads_only_as_text(value, zone) for value in values):
        return _compared(builder, name, Region.STRING, bounds)
    return _equal_to_whole(builder, name, values[0], zone) if bounds[0][0] == "=" else None


def _equal_to_whole(builder: ConditionsBuilder, name: str, text: str, zone: str) -> list[int] | None:
    whole, number = to_integer(text), to_double(text)
    if whole is None or whole != number or abs(whole) >= _EXACT_IN_FLOATS or to_boolean(text) is not None:
        return None
    axes, axis = builder.axes, builder.axis((name, None))
    found = [axes.equal(axis, Region.STRING, text), axes.equal(axis, Region.NUMBER, float(whole))]
    day, moment = to_date(text), to_timestamp(text, zone)
    if day is not None:
        found.append(axes.equal(axis, Region.DATE, day))
    if moment is not None:
        found.append(axes.equal(axis, Region.TIMESTAMP, moment))
    return found


def _times(
    builder: ConditionsBuilder, name: str, group: PredicateGroup, values: list[Any], zone: str
) -> list[int] | None:
    """A date equals the timestamp of its midnight, and is compared with timestamps as that."""
    bounds = list(zip(map(operator_of, group), (equality_cuts(value, zone) for value in values), strict=True))
    found: list[int] = []
    axis = builder.axis((name, None))
    for kind, region, value_at in _TIMES:
        spans: list[tuple[Any, Any]] = [(None, None)]
        for operator, places in bounds:
            below, above = places[kind]
            if operator == "<>":
                spans = [(None, below), (above, None)]
                continue
            low, high = spans[0]
            low = {"=": below, ">=": below, ">": above}.get(operator or "", low)
            high = {"=": above, "<=": above, "<": below}.get(operator or "", high)
            spans = [(low, high)]
        for ends in spans:
            if any(end is not None and not LOWEST_CUT[kind] < end < HIGHEST_CUT[kind] for end in ends):
                return None  # beyond the years that a value can hold
            low, high = (None if end is None else (value_at(end), False) for end in ends)
            found.append(builder.axes.between(axis, region, low, high))
    return found


def _compared(builder: ConditionsBuilder, name: str, region: Region, bounds: Bounds) -> list[int]:
    axes, axis = builder.axes, builder.axis((name, None))
    if bounds[0][0] == "=":
        return [axes.equal(axis, region, bounds[0][1])]
    if bounds[0][0] == "<>":
        value = bounds[0][1]
        return [axes.between(axis, region, None, (value, False)), axes.between(axis, region, (value, True), None)]
    low = high = None
    for operator, value in bounds:
        if operator in (">", ">="):
            low = (value, operator == ">")
        else:
            high = (value, operator == "<=")
    return [axes.between(axis, region, low, high)]


def _with_operators(group: PredicateGroup, values: list[Any]) -> Bounds:
    return [(operator_of(asked) or "", value) for asked, value in zip(group, values, strict=True)]


def _unlisted(
    builder: ConditionsBuilder, name: str, group: PredicateGroup, values: list[Any], zone: str
) -> list[int] | None:
    """NOT IN a list of plain texts: the strings between those listed."""
    listed, _ = group[0]
    if len(slots_of(listed)) != len(getattr(listed, "operands", ())):
        return None  # NULL among them, say
    if not all(type(value) is str and reads_only_as_text(value, zone) for value in values):
        return None
    axis = builder.axis((name, None))
    lows = [None, *((value, True) for value in sorted(set(values)))]
    highs = [*((value, False) for value in sorted(set(values))), None]
    return [builder.axes.between(axis, Region.STRING, *ends) for ends in zip(lows, highs, strict=True)]


def _prefix(
    builder: ConditionsBuilder, name: str, group: PredicateGroup, values: list[Any], zone: str
) -> list[int] | None:
    """The strings from a prefix on, up to the first that is above all with this prefix."""
    simple, _ = group[0]
    assert isinstance(simple, PatternMatch)
    pattern = simple.pattern([*[None] * simple.operand.index, values[0]])
    if pattern.shape == "exact":
        return _compared(builder, name, Region.STRING, [("=", pattern.text)])
    if pattern.shape != "prefix" or not pattern.text:
        return None
    end = after_prefix(pattern.text)
    last = None if end is None else (end, False)
    return [builder.axes.between(builder.axis((name, None)), Region.STRING, (pattern.text, False), last)]


_TIMES: Final = (
    (Kind.DATE, Region.DATE, date.fromordinal),
    (Kind.TIMESTAMP, Region.TIMESTAMP, timestamp_at),
)
_BY_KIND: Final[dict[str, ShortCut]] = {
    "number": _numbers,
    "": _texts,
    **dict.fromkeys(("date", "timestamp", "timestamp_ltz", "timestamp_ntz"), _times),
}
