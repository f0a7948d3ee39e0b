"""Bulk load: a million conditions into an index without making a filter of each.

Of a million subscriptions most differ from thousands of others in their literals alone. Parsing each costs a hundred
microseconds, and its filter some kilobytes. Bulk load takes a few microseconds each instead:

1. *Split.* A compiled kernel (`bulk_kernels.split_literals`) cuts the literals out of the texts of a chunk and numbers
   the skeletons that are left. The parser sees one text of each skeleton and makes its template of it.
2. *Fill.* The template says which predicates its literals complete. `bulk_templates` and `bulk_intervals` make their
   intervals for all subscriptions of the template at once, column of literals by column.
3. *Conjuncts.* Which attributes a conjunction asks of, and in which order, is a part of its skeleton, so a thousand
   conjunctions may have a thousand skeletons. Their conjuncts have few. What step 2 left, because its skeleton is rare,
   is split at its ANDs; the conjuncts are filled like whole conditions, those of one form together whatever their
   attribute, and joined again by line. Skeletons that this does not suit go through step 2 after all.
4. *The rest* goes through `Subscription.filter`, one by one: skeletons without a template (searches through all
   attributes), literals without a value, values that are no list of intervals, other languages.

A live segment is sealed by steps 2 to 4 without step 1: `Matcher.add` has read template and literals already, and they
are kept until the segment is sealed (`load_conditions`). Merging segments begins with the texts (`load_texts`), because
keeping what was read would take twenty times the memory of the compressed texts.

Costs: one pass over the texts, and Python work per skeleton and per distinct literal, not per subscription. Two rules
keep it right. A condition gets its meaning from the template alone, and the template from the parser. Whatever is
unusual falls through to step 4, where the parser reports errors by subscription.

Rejected: a grammar in the kernel. It would be a second parser to keep equal to the first; cutting out literals needs
no grammar.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import chain, islice
from typing import Final, TypeAlias

import numpy as np

from palio.errors import InvalidSubscription
from palio.filters.expressions.text_cast import zone_of
from palio.filters.filter import Filter
from palio.garbage_collector import paused_collector
from palio.languages.sql.skeletons import MAX_TEMPLATE_CHARACTERS, split_all_conjuncts
from palio.languages.sql.template_cache import BoundConjunction, BoundTemplate
from palio.languages.sql.templates import Template
from palio.matching.columnar.array_types import Flags, Int64s
from palio.matching.columnar.bulk_intervals import IntervalHandles, IntervalMaker
from palio.matching.columnar.bulk_templates import fill_template
from palio.matching.columnar.computed_attributes import MIN_SHARING_CONDITIONS, is_computed
from palio.matching.columnar.conditions import ConditionsBuilder
from palio.matching.columnar.literal_columns import (
    FoundLiterals,
    LiteralColumns,
    ReadLiterals,
    number_values,
    within_runs,
)
from palio.matching.columnar.predicate_groups import PredicateGroup, SharedForm, conjunctions, is_rare, shared_form_of
from palio.matching.columnar.split_texts import SplitTexts, chunks, text_of
from palio.matching.subscription import Subscription, Subscriptions

ReadCondition: TypeAlias = Filter | BoundTemplate | BoundConjunction
"""A condition as it was read: a filter, or templates with the values of their literals."""

_MAX_SINGLE_ROWS: Final = 8  # of a template, faster added one by one than set up for
_PAUSED_ROWS: Final = 256  # conditions without template that are read between two collections of garbage
# Lines from which on a skeleton is filled as a whole. Setting up a template takes as long as the conjuncts of about 200
# lines; measured on a million conjunctions of 1,450 skeletons, step 3 takes 3 µs each, step 2 for all of them 9 µs.
_MIN_SKELETON_ROWS: Final = 256


def load_texts(builder: ConditionsBuilder, numbers: Sequence[int], subscriptions: Subscriptions) -> None:
    """Add subscriptions under these numbers; `InvalidSubscription` names the one at fault."""
    for start, end in chunks(subscriptions.wants):
        with paused_collector():  # for a chunk, which is seconds at most
            others = _load_chunk(builder, numbers[start:end], subscriptions.between(start, end))
        for first in others:
            with paused_collector():  # for some of them: one may take long
                for number, subscription in chain((first,), islice(others, _PAUSED_ROWS - 1)):
                    builder.add(number, subscription.filter.tree)


def find_unreadable(subscriptions: Subscriptions) -> dict[str, InvalidSubscription]:
    """The errors of the subscriptions that cannot be read, by id, in their order; costs as much as loading all."""
    unreadable: dict[str, InvalidSubscription] = {}
    for start, end in chunks(subscriptions.wants):
        chunk = subscriptions.between(start, end)
        for _, subscription in _load_chunk(ConditionsBuilder(), range(len(chunk)), chunk):
            try:
                _ = subscription.filter  # made on access
            except InvalidSubscription as error:
                unreadable[subscription.id] = error
    return unreadable


def _load_chunk(
    builder: ConditionsBuilder, numbers: Sequence[int], subscriptions: Subscriptions
) -> Iterator[tuple[int, Subscription]]:
    """Add the subscriptions that have templates; returns the others, with their numbers, for step 4."""
    done = np.zeros(len(subscriptions), np.bool_)
    if len(subscriptions) > _MAX_SINGLE_ROWS:
        for timezone, which in _sql_texts(subscriptions).items():
            if len(which) > _MAX_SINGLE_ROWS and (timezone == "UTC" or zone_of(timezone) is not None):
                texts = [text_of(subscriptions.wants[at]) for at in which]
                rows = np.array(which)
                done[rows] = _load_skeletons(builder, np.asarray(numbers, np.int64)[rows], texts, timezone)
    return ((numbers[at], subscriptions[at]) for at in np.flatnonzero(~done).tolist())


def _sql_texts(subscriptions: Subscriptions) -> dict[str, Sequence[int]]:
    """The places of the subscriptions that are SQL texts, by time zone."""
    if set(map(type, subscriptions.wants)) == {str}:
        return {"UTC": range(len(subscriptions))}
    zones: dict[str, list[int]] = {}
    for at, want in enumerate(subscriptions.wants):
        if isinstance(want, str):
            zones.setdefault("UTC", []).append(at)
        elif want.language == "sql" and type(want.where) is str:
            zones.setdefault(want.timezone, []).append(at)
    return dict(zones)


def _load_skeletons(builder: ConditionsBuilder, numbers: Int64s, texts: list[str], timezone: str) -> Flags:
    """Add the texts of frequent skeletons, and of conjuncts, that have templates; returns which."""
    done = np.zeros(len(texts), np.bool_)
    split = SplitTexts(texts, timezone)

    def fill(skeleton: str, lines: Int64s) -> None:
        for template, own in split.by_template(skeleton, lines):
            done[own] = fill_template(builder, numbers[own], template, split.literals(own, template), timezone)

    skeletons = split.skeletons(_MAX_SINGLE_ROWS)
    for skeleton, lines in skeletons:
        if len(lines) >= _MIN_SKELETON_ROWS:
            fill(skeleton, lines)
    left = [at for at in np.flatnonzero(~done).tolist() if len(texts[at]) <= MAX_TEMPLATE_CHARACTERS]
    if len(left) > _MAX_SINGLE_ROWS:
        done[left] = _load_conjunct_texts(builder, numbers[left], [texts[at] for at in left], timezone)
    for skeleton, lines in skeletons:
        # What is no conjunction of filled conjuncts: alternatives, two conjuncts on one attribute.
        rest = lines[~done[lines]]
        if len(rest) > _MAX_SINGLE_ROWS and len(lines) < _MIN_SKELETON_ROWS:
            fill(skeleton, rest)
    return done


def _load_conjunct_texts(builder: ConditionsBuilder, numbers: Int64s, texts: list[str], timezone: str) -> Flags:
    parts, counts = split_all_conjuncts(texts)
    split = SplitTexts(parts, timezone)
    templates = [each for skeleton, which in split.skeletons(0) for each in split.by_template(skeleton, which)]
    conjuncts = _ConjunctTable(np.repeat(np.arange(len(texts)), counts), len(texts))
    conjuncts.fill_templates(builder, templates, split.literals, timezone)
    return conjuncts.add_to(builder, numbers)


def load_conditions(builder: ConditionsBuilder, conditions: Mapping[int, ReadCondition]) -> None:
    """Add subscriptions by number from what was read when they were added; no text is read again."""
    conjoined = {number: each for number, each in conditions.items() if isinstance(each, BoundConjunction)}
    # A dict keeps the order, so that equal subscriptions make equal files; that of a set differs between processes.
    for timezone in dict.fromkeys([each.timezone for each in conjoined.values()]):
        in_zone = {number: each for number, each in conjoined.items() if each.timezone == timezone}
        _add_left(builder, in_zone, _fill_conjoined(builder, in_zone, timezone))
    if len(conjoined) == len(conditions):
        return
    by_template: dict[tuple[Template, str], dict[int, BoundTemplate]] = {}
    for number, condition in conditions.items():
        if isinstance(condition, BoundTemplate):
            by_template.setdefault((condition.template, condition.timezone), {})[number] = condition
        elif isinstance(condition, Filter):
            builder.add(number, condition.tree)
    for (_, timezone), bound in by_template.items():
        _add_left(builder, bound, _fill_bound(builder, bound, timezone))


def _fill_bound(builder: ConditionsBuilder, bound: Mapping[int, BoundTemplate], timezone: str) -> Flags:
    rows = list(bound.values())
    # Without parameters all rows are alike.
    fewest = _MAX_SINGLE_ROWS if rows[0].template.parameters else MIN_SHARING_CONDITIONS - 1
    if len(bound) <= fewest:
        return np.zeros(len(bound), np.bool_)
    literals = ReadLiterals([each.arguments for each in rows])
    return fill_template(builder, np.array(list(bound), np.int64), rows[0].template, literals, timezone)


def _fill_conjoined(builder: ConditionsBuilder, conjoined: Mapping[int, BoundConjunction], timezone: str) -> Flags:
    if len(conjoined) <= _MAX_SINGLE_ROWS:
        return np.zeros(len(conjoined), np.bool_)
    conditions = list(conjoined.values())
    counts = [len(each.templates) for each in conditions]
    # All conjuncts, and all literals, of line after line: lists for each line would cost more than laying them out.
    by_conjunct = list(chain.from_iterable([each.templates for each in conditions]))
    literals = np.array(list(chain.from_iterable([each.literals for each in conditions])), object)
    template_of, templates = number_values(by_conjunct)
    widths = np.array([len(each.parameters) for each in templates], np.int64)[template_of]
    starts = np.cumsum(widths) - widths  # the first literal of each conjunct
    order = np.argsort(template_of, kind="stable")
    ends = np.cumsum(np.bincount(template_of))

    def literals_of(which: Int64s, template: Template) -> FoundLiterals:
        return FoundLiterals(literals, starts[which], timezone)

    conjuncts = _ConjunctTable(np.repeat(np.arange(len(conditions)), counts), len(conditions))
    runs = zip(templates, np.split(order, ends[:-1]), strict=True)
    conjuncts.fill_templates(builder, runs, literals_of, timezone)
    return conjuncts.add_to(builder, np.array(list(conjoined), np.int64))


def _add_left(
    builder: ConditionsBuilder, conditions: Mapping[int, BoundTemplate | BoundConjunction], done: Flags
) -> None:
    if not done.all():
        for (number, condition), is_done in zip(conditions.items(), done.tolist(), strict=True):
            if not is_done:
                builder.add(number, condition.tree())


class _ConjunctTable:
    """The conjuncts of many conjunctions: the line each belongs to, its attribute and its intervals once filled."""

    def __init__(self, lines: Int64s, count: int) -> None:
        self._count = count
        self._lines = lines  # ascending
        self._names: dict[str, int] = {}
        self._attributes = np.full(len(lines), -1, np.int64)  # -1: not filled
        self._counts = np.zeros(len(lines), np.int64)
        self._starts = np.zeros(len(lines), np.int64)
        self._never = np.zeros(len(lines), np.bool_)
        self._pools: list[Int64s] = [np.empty(0, np.int64)]
        self._used = 0

    def fill_templates(
        self,
        builder: ConditionsBuilder,
        templates: Iterable[tuple[Template, Int64s]],
        literals: Callable[[Int64s, Template], LiteralColumns],
        timezone: str,
    ) -> None:
        """Fill the conjuncts of templates on one attribute, those of one form together."""
        by_form: dict[SharedForm | None, list[tuple[Template, str, PredicateGroup, Int64s]]] = {}
        for template, which in templates:
            alternatives = conjunctions(template.condition, timezone)
            if alternatives is not None and len(alternatives) == 1 and len(alternatives[0]) == 1:
                name, group = alternatives[0][0]
                if is_rare(group) or (is_computed(name) and len(which) < MIN_SHARING_CONDITIONS):
                    continue  # few share it: the rest of its conjunction may select
                by_form.setdefault(shared_form_of(group), []).append((template, name, group, which))
        for form, members in by_form.items():
            if form is not None:
                lines = np.concatenate([which for *_, which in members])
                names = [(name, len(which)) for _, name, _, which in members]
                axis = np.repeat([builder.axis((name, None)) for name, _ in names], [count for _, count in names])
                # Parameters of one form have equal places, so that the first template reads the literals of all.
                maker = IntervalMaker(builder, literals(lines, members[0][0]), timezone, len(lines))
                handles = maker.across(axis, form)
                if handles is not None:
                    self._fill(lines, names, handles)
                    continue
            for template, name, group, which in members:
                maker = IntervalMaker(builder, literals(which, template), timezone, len(which))
                self._fill(which, [(name, len(which))], maker.handles(name, group))

    def _fill(self, which: Int64s, names: Sequence[tuple[str, int]], handles: IntervalHandles) -> None:
        """Set the attribute and the intervals of some conjuncts; `names` says how many of them, in order, have each."""
        numbers = [self._names.setdefault(name, len(self._names)) for name, _ in names]
        attributes = np.repeat(numbers, [count for _, count in names])
        self._attributes[which] = attributes if handles.slow is None else np.where(handles.slow, -1, attributes)
        self._counts[which] = handles.counts
        self._starts[which] = self._used + np.cumsum(handles.counts) - handles.counts
        if handles.never is not None:
            self._never[which] = handles.never
        self._pools.append(handles.flat)
        self._used += len(handles.flat)

    def add_to(self, builder: ConditionsBuilder, numbers: Int64s) -> Flags:
        """Add the lines all of whose conjuncts are filled, each on another attribute; returns which.

        Two conjuncts on one attribute would be alternatives in the index, which ORs the intervals of an axis.
        """
        good = np.zeros(self._count, np.bool_)
        good[self._lines] = True
        good[self._lines[self._attributes < 0]] = False
        # One sort of line and attribute as one number finds the lines that name an attribute twice.
        pairs = np.sort(self._lines * (len(self._names) + 1) + self._attributes + 1)
        good[pairs[1:][np.diff(pairs) == 0] // (len(self._names) + 1)] = False
        impossible = np.zeros(self._count, np.bool_)
        impossible[self._lines[self._never]] = True
        wanted = good & ~impossible
        kept = wanted[self._lines]  # conjuncts are in the order of lines, as the builder takes their intervals
        counts, starts = self._counts[kept], self._starts[kept]
        lengths = np.bincount(self._lines[kept], weights=counts, minlength=self._count).astype(np.int64)
        pool = np.concatenate(self._pools)
        handles = pool[np.repeat(starts, counts) + within_runs(counts)]
        builder.add_intervals(numbers[wanted], lengths[wanted], handles)
        for name, number in self._names.items():
            if is_computed(name):
                asking = np.unique(self._lines[self._attributes == number])
                builder.count_computed(numbers[asking[wanted[asking]]], [name])
        return good
