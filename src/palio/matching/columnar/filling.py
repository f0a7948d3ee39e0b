"""From the template of a shape and columns of literals to intervals: as `ConditionsBuilder.add`, by the thousand.

A template is a few conjunctions of groups, each of the conditions on one attribute. A group makes the intervals of all
lines at once: comparisons with integers as arrays, equalities and lists once per distinct literal, anything else once
per distinct combination of its literals, by way of the set of values that the template itself says. So there is one
place where a condition gets its meaning, and short cuts only where the intervals of a set are plain from its literals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from palio.filters.comparisons import is_only_text
from palio.filters.tree import Leaf
from palio.filters.values import ValueSet, intersection_of
from palio.languages.sql.literals import BadLiteral
from palio.languages.sql.lowering import Ask
from palio.languages.sql.templates import Compared, Slot, Template
from palio.matching.columnar import text_kernels as kernels
from palio.matching.columnar.conditions import ConditionsBuilder, Int64s
from palio.matching.columnar.groups import Common, Group, common_of, conjunctions, equalities_of, slots_of
from palio.matching.columnar.short_cuts import short_cut

Flags: TypeAlias = npt.NDArray[np.bool_]


@dataclass(frozen=True, slots=True)
class Literals:
    """The literals of lines of one shape: where each begins and ends, by line and slot."""

    raw: bytes
    text: npt.NDArray[np.uint8]
    spans: npt.NDArray[np.int32]

    def integers(self, slot: Slot) -> Int64s:
        """The values of a slot that holds integers."""
        values = np.empty(len(self.spans), np.int64)
        starts, ends = self._columns([slot])
        kernels.read_integers(self.text, starts, ends, values)
        return -values if slot.before == "-" else values

    def distinct(self, slots: Sequence[Slot]) -> tuple[Int64s, list[str]]:
        """The texts that occur in some slots, and for each line and slot the number of its own, line by line."""
        starts, ends = self._columns(slots)
        numbers, firsts = np.empty(len(starts), np.int64), np.empty(len(starts), np.int64)
        count = kernels.number_pieces(self.text, starts, ends, kernels.table_for(len(starts)), numbers, firsts)
        spans = zip(starts[firsts[:count]].tolist(), ends[firsts[:count]].tolist(), strict=True)
        return numbers, [self.raw[start:end].decode() for start, end in spans]

    def _columns(self, slots: Sequence[Slot]) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        chosen = self.spans[:, [slot.index for slot in slots]]
        return np.ascontiguousarray(chosen[:, :, 0]).ravel(), np.ascontiguousarray(chosen[:, :, 1]).ravel()


class Handles:
    """The intervals of one group: for each line some, one after the other; none is needed where all values will do."""

    def __init__(self, counts: Int64s, flat: Int64s, never: Flags | None = None, slow: Flags | None = None) -> None:
        self.counts = counts
        self.flat = flat
        self.never = never  # lines that no value satisfies
        self.slow = slow  # lines whose values no list of intervals can say

    @classmethod
    def one_each(cls, handles: Int64s) -> Handles:
        return cls(np.ones(len(handles), np.int64), handles)

    @classmethod
    def by_choice(cls, which: Int64s, choices: Sequence[list[int] | None], width: int = 1) -> Handles:
        """Each line has the intervals of the choices it names, so many of them; None stands for what is slow.

        A choice of no interval is one that nothing satisfies; all values are `[-1]`.
        """
        own = [each if each is not None and each != [-1] else [] for each in choices]
        lengths = np.array([len(each) for each in own], np.int64)
        starts = np.cumsum(lengths) - lengths
        pool = np.array([handle for each in own for handle in each], np.int64)
        counts = lengths[which]
        flat = pool[np.repeat(starts[which], counts) + within(counts)] if len(pool) else pool
        never: Flags = np.logical_and.reduce(np.array([each == [] for each in choices])[which].reshape(-1, width), 1)
        slow: Flags = np.logical_or.reduce(np.array([each is None for each in choices])[which].reshape(-1, width), 1)
        return cls(counts.reshape(-1, width).sum(axis=1), flat, never, slow)


def within(counts: Int64s) -> Int64s:
    """0, 1, … up to each count, one after the other."""
    ends = np.cumsum(counts)
    total = int(ends[-1]) if len(ends) else 0
    return np.arange(total, dtype=np.int64) - np.repeat(ends - counts, counts)


def fill(builder: ConditionsBuilder, numbers: Int64s, template: Template, literals: Literals, zone: str) -> Flags:
    """Add the lines of a shape under their numbers; answers which could be added so."""
    alternatives = conjunctions(template.condition)
    if alternatives is None:
        return np.zeros(len(numbers), np.bool_)
    filling = _Filling(builder, literals, zone, len(numbers))
    made = [[filling.handles(name, group) for name, group in each] for each in alternatives]
    good = np.ones(len(numbers), np.bool_)
    for groups in made:
        for group in groups:
            if group.slow is not None:
                good &= ~group.slow
    for groups in made:
        _add(builder, numbers, groups, good)
    return good


def _add(builder: ConditionsBuilder, numbers: Int64s, groups: Sequence[Handles], good: Flags) -> None:
    """Add one conjunction of every line, but for those that nothing satisfies."""
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
        handles[np.repeat(place, group.counts) + within(group.counts)] = group.flat
        place = place + group.counts
    if not wanted.all():
        handles = handles[np.repeat(wanted, total)]
        numbers, total = numbers[wanted], total[wanted]
    builder.add_plain(numbers, total, handles)


@dataclass(frozen=True, slots=True)
class Alone:
    """What a template asks of its one attribute."""

    name: str
    group: Group
    common: Common | None  # templates of which this is equal are filled together, whatever attributes they ask of


def alone(template: Template) -> Alone | None:
    """None for a template that asks of several attributes, or for one of several things."""
    alternatives = conjunctions(template.condition)
    if alternatives is None or len(alternatives) != 1 or len(alternatives[0]) != 1:
        return None
    name, group = alternatives[0][0]
    return Alone(name, group, common_of(group))


def fill_alone(builder: ConditionsBuilder, count: int, asked: Alone, literals: Literals, zone: str) -> Handles:
    """The intervals of so many lines of a shape that asks of one attribute."""
    return _Filling(builder, literals, zone, count).handles(asked.name, asked.group)


def fill_together(
    builder: ConditionsBuilder, axis: Int64s, common: Common, literals: Literals, zone: str
) -> Handles | None:
    """The intervals of lines that ask the same of one attribute each; None where a literal is not as most are."""
    return _Filling(builder, literals, zone, len(axis)).across(axis, common)


class _Filling:
    """Makes the intervals of groups for the lines of one shape."""

    def __init__(self, builder: ConditionsBuilder, literals: Literals, zone: str, count: int) -> None:
        self._builder = builder
        self._literals = literals
        self._zone = zone
        self._count = count

    def handles(self, name: str, group: Group) -> Handles:
        common = common_of(group)
        if common is not None:
            found = self.across(np.full(self._count, self._builder.axis((name, None)), np.int64), common)
            if found is not None:
                return found
        slots = equalities_of(group)
        if slots is not None:
            which, texts = self._literals.distinct(slots)
            alone: Group = [(Compared(name, "=", slots[0]), Ask.TRUE)]
            choices = [self._either(name, alone, (slots[0],), [text]) for text in texts]
            return Handles.by_choice(which, choices, len(slots))
        slots = tuple(slot for simple, _ in group for slot in slots_of(simple))
        if len(slots) == 1:
            which, texts = self._literals.distinct(slots)
            return Handles.by_choice(which, [self._either(name, group, slots, [text]) for text in texts])
        return self._combinations(name, group, slots)

    def across(self, axis: Int64s, common: Common) -> Handles | None:
        """The intervals of lines by the axis of each; None where a literal is not as most are."""
        operators, slots = common
        if operators:
            return self._integers(axis, dict(zip(operators, slots, strict=True)))
        return self._words(axis, slots)

    def _combinations(self, name: str, group: Group, slots: tuple[Slot, ...]) -> Handles:
        """The intervals of every distinct combination of literals."""
        if not slots:
            choice = self._either(name, group, slots, [])
            return Handles.by_choice(np.zeros(self._count, np.int64), [choice])
        which, texts = self._literals.distinct(slots)
        rows, inverse = np.unique(which.reshape(-1, len(slots)), axis=0, return_inverse=True)
        choices = [self._either(name, group, slots, [texts[each] for each in row]) for row in rows.tolist()]
        return Handles.by_choice(inverse.reshape(-1), choices)

    def _integers(self, axis: Int64s, bounds: dict[str, Slot]) -> Handles:
        """A comparison with an integer, or one from below and one from above."""
        axes = self._builder.axes
        values = {operator: self._literals.integers(slot) for operator, slot in bounds.items()}
        if "<>" in values:
            at = values["<>"]
            below = axes.add_comparisons(axis, at, at, lower_in=_sides(at, -1), upper_in=_sides(at, 0))
            above = axes.add_comparisons(axis, at, at, lower_in=_sides(at, 0), upper_in=_sides(at, -1))
            pairs = np.stack([np.asarray(below), np.asarray(above)], axis=1).ravel()
            return Handles(np.full(self._count, 2, np.int64), pairs)
        lower = next((each for each in ("=", ">=", ">") if each in values), None)
        upper = next((each for each in ("=", "<=", "<") if each in values), None)
        made = axes.add_comparisons(
            axis,
            values[lower or upper or "="],
            values[upper or lower or "="],
            lower_in=_sides(axis, -1 if lower is None else int(lower != ">")),
            upper_in=_sides(axis, -1 if upper is None else int(upper != "<")),
        )
        return Handles.one_each(np.asarray(made))

    def _words(self, axis: Int64s, slots: tuple[Slot, ...]) -> Handles | None:
        """Equality with one of some texts; None where one of them reads as something else, too."""
        which, texts = self._literals.distinct(slots)
        words = [str(slots[0].read(text, self._zone)) for text in texts]
        if not all(is_only_text(word, self._zone) for word in words):
            return None
        pairs, own = np.unique(np.repeat(axis, len(slots)) * len(words) + which, return_inverse=True)
        on, word = np.divmod(pairs, max(1, len(words)))
        made = self._builder.axes.equal_texts(on, [words[at] for at in word.tolist()])
        return Handles(np.full(self._count, len(slots), np.int64), made.start + own.reshape(-1))

    def _either(self, name: str, group: Group, slots: tuple[Slot, ...], texts: list[str]) -> list[int] | None:
        """The intervals of a group with these literals: by a short cut where there is one."""
        try:
            values = [slot.read(text, self._zone) for slot, text in zip(slots, texts, strict=True)]
        except BadLiteral:
            return None  # whose error is better told by the parser
        short = short_cut(group)
        if short is not None:
            found = short(self._builder, name, group, values, self._zone)
            if found is not None:
                return found
        given: list[Any] = [None] * (1 + max((slot.index for slot in slots), default=-1))
        for slot, value in zip(slots, values, strict=True):
            given[slot.index] = value
        sets: list[ValueSet] = []
        for simple, ask in group:
            node = simple.node(given, self._zone, ask)
            assert isinstance(node, Leaf)
            sets.append(node.values)
        wanted = intersection_of(sets)
        if wanted.is_full:
            return [-1]
        return [] if wanted.is_empty else self._builder.intervals_of(Leaf(name, wanted))


def _sides(like: Int64s, side: int) -> npt.NDArray[np.int8]:
    return np.full(len(like), side, np.int8)
