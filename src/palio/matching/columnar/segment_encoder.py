"""Encoder of a segment: what its axes are of, and the codes of events and columns on them.

An axis is that of an attribute, of a computed attribute, or of a test that no interval of slots can say: a pattern, a
search through the whole event, a constant that an array may have. A code is an axis and a slot. `Segment` searches the
postings for the codes that are made here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import product, repeat
from math import prod
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa

from palio.errors import PalioError
from palio.events.arrow import read_column
from palio.events.names import join_path
from palio.events.nested_content import Group, GroupedAttributes
from palio.filters.array_choice import MAX_CHOICES
from palio.filters.expressions.coercion import Arrays
from palio.filters.tree import Attributes
from palio.matching.columnar.array_members import ArrayMember, ArrayMembers
from palio.matching.columnar.array_types import Int64s
from palio.matching.columnar.arrow_columns import encode_cells, is_list_of_scalars, is_within, simplify
from palio.matching.columnar.axes import Axes
from palio.matching.columnar.computed_attributes import (
    ComputedAttribute,
    computed_attribute,
    is_computed,
    kind_within,
)
from palio.matching.columnar.computed_columns import ColumnComputer, CompiledProgram, ComputedColumns, ComputedValues
from palio.matching.columnar.conditions import AxisKey, WholeEventSearch
from palio.matching.columnar.event_cells import COLUMN_TYPES, EventCells
from palio.matching.columnar.event_cells import NULL as NULL_CELL
from palio.matching.columnar.event_codes import (
    CannotEncode,
    EventCodes,
    distinct_elements,
    element_codes,
    has_fraction,
)
from palio.matching.columnar.event_computer import Coder, EventComputer
from palio.matching.columnar.layout import HIT_SLOT, NULL
from palio.matching.columnar.pattern_cache import SearchEvaluator
from palio.matching.columnar.patterns import AttributeTests, EventSearches
from palio.matching.columnar.transposition import TransposedEvents

_MAX_SPARSE_SLOTS: Final = 64  # of an axis of few constants; a value on a larger one finds its slot by a table
_MAX_EVENT_COMPUTERS: Final = 16  # one for each program of single events
_MAX_COMPUTED_CHOICES: Final = 64  # of elements that computed attributes read; each is a search of its own

Alternatives: TypeAlias = Sequence[Sequence[tuple[int, ...]]]
"""Of each array, the codes of its elements, one of which is chosen."""


class CannotCompute(PalioError):
    """The computed attributes of an event have too many values: the caller evaluates the filters that read them."""


class SegmentEncoder:
    """The axes of a segment by what they are of; events, values and columns as codes."""

    def __init__(self, attributes: Sequence[str], tests: Callable[[], Sequence[AxisKey]], axes: Axes) -> None:
        """The axes are those of the attributes, then those of the tests, which are made when they are needed."""
        self.axis_of = {name: axis for axis, name in enumerate(attributes)}
        self.axes = axes
        self._make_tests = tests
        self._event_computers: dict[CompiledProgram | None, EventComputer] = {}
        # Where all values are of one kind, there is an order that is right for them.
        self.misplaced = {
            name for name, axis in self.axis_of.items() if not axes.places_fractions(axis) and kind_within(name) is None
        }

    @cached_property
    def keys(self) -> list[AxisKey]:
        """What the axes are of, in their order."""
        return [*((name, None) for name in self.axis_of), *self._make_tests()]

    @cached_property
    def tests(self) -> Mapping[str, AttributeTests]:
        by_attribute: dict[str, list[tuple[int, Any]]] = {}
        for axis, (name, test) in enumerate(self.keys):
            if test is not None and not isinstance(test, WholeEventSearch | ArrayMember):
                by_attribute.setdefault(name, []).append((axis << 32 | HIT_SLOT, test))
        return {name: AttributeTests(tests) for name, tests in by_attribute.items()}

    @cached_property
    def members(self) -> Mapping[str, ArrayMembers]:
        """The tests of whole arrays, by attribute."""
        by_attribute: dict[str, list[tuple[int, ArrayMember]]] = {}
        for axis, (name, test) in enumerate(self.keys):
            if isinstance(test, ArrayMember):
                by_attribute.setdefault(name, []).append((axis << 32 | HIT_SLOT, test))
        return {name: ArrayMembers(tests) for name, tests in by_attribute.items()}

    @cached_property
    def _searches(self) -> EventSearches | None:
        found = [
            (axis << 32 | HIT_SLOT, each)
            for axis, (_, each) in enumerate(self.keys)
            if isinstance(each, WholeEventSearch)
        ]
        return EventSearches(found) if found else None

    @cached_property
    def searching(self) -> SearchEvaluator | None:
        return None if self._searches is None else SearchEvaluator(self._searches)

    @cached_property
    def when_missing(self) -> Mapping[str, tuple[int, ...]]:
        return {name: each.when_missing for name, each in self.tests.items() if each.when_missing}

    @cached_property
    def coders(self) -> Mapping[str, Coder]:
        coders: dict[str, Coder] = {}
        for name in {*self.axis_of, *self.tests}:
            own = self.axis_of.get(name)
            coders[name] = (None if own is None else self.axes.coder(own), self.tests.get(name))
        return coders

    @cached_property
    def _event_codes(self) -> EventCodes:
        return EventCodes(self.coders, self.when_missing)

    @property
    def indexed(self) -> frozenset[str]:
        """The names of what has an index of its values: attributes, and computed ones."""
        return frozenset(self.axis_of).union(self.tests)

    @cached_property
    def attributes(self) -> frozenset[str]:
        """The names of all attributes of which one value is looked at."""
        plain = (name for name in (*self.axis_of, *self.tests) if not is_computed(name))
        return frozenset(plain).union(*(each.scalars for each in self.computed))

    @cached_property
    def arrays(self) -> frozenset[str]:
        """The names of all attributes that are looked at as whole arrays."""
        return frozenset(self.members).union(*(each.arrays for each in self.computed))

    @cached_property
    def computed(self) -> Sequence[ComputedAttribute]:
        """The computed attributes."""
        names = dict.fromkeys([*filter(is_computed, self.axis_of), *filter(is_computed, self.tests)])
        return [computed_attribute(name) for name in names]

    @cached_property
    def _chosen(self) -> frozenset[str]:
        """The attributes of which computed ones read one element."""
        return frozenset[str]().union(*(each.scalars for each in self.computed))

    @cached_property
    def computer(self) -> ColumnComputer:
        sparse = {
            each.name: self.axis_of[each.name]
            for each in self.computed
            if each.name in self.axis_of and each.name not in self.tests and self._is_sparse(self.axis_of[each.name])
        }
        return ColumnComputer(self.computed, self.axes, sparse)

    def _is_sparse(self, axis: int) -> bool:
        """Whether an axis has few slots, and leaves out an event whose value no condition asks for."""
        is_small = self.axes.sizes[axis] <= _MAX_SPARSE_SLOTS
        return bool(is_small and self.axes.asked_slots(axis)[0] > NULL and self.axes.places_fractions(axis))

    def _event_computer(self, program: CompiledProgram | None) -> EventComputer:
        """What evaluates the computed attributes of an event that a program does not."""
        attributes = self.computed if program is None else program.others
        if len(self._event_computers) >= _MAX_EVENT_COMPUTERS:
            self._event_computers.clear()
        made = self._event_computers[program] = EventComputer(attributes, self.coders, self.misplaced)
        return made

    @property
    def reads_whole_event(self) -> bool:
        """Whether some subscription looks at attributes that it does not name."""
        return self._searches is not None

    @cached_property
    def null_is_not_missing(self) -> frozenset[str]:
        """The attributes of which some condition tells null from missing, as no column does."""
        by_axis = {name for name, axis in self.axis_of.items() if self.axes.tells_null(axis)}
        return frozenset(by_axis | {name for name, each in self.tests.items() if each.when_missing != each.when_null})

    def event_codes(self, attributes: Attributes) -> list[tuple[list[int], Alternatives]]:
        """The codes of an event, for every choice of the elements that computed attributes read.

        `CannotCompute` where its arrays allow too many values of a computed attribute.
        """
        if not self.computed:
            return [self.codes_by_attributes(attributes)]
        arrays = {name: value for name, value in attributes.items() if type(value) is tuple}
        whole = self._whole_codes(attributes)
        if self._chosen.isdisjoint(arrays):
            return [self._codes(attributes, whole + self._computed_codes(attributes, arrays))]
        if isinstance(attributes, GroupedAttributes):
            raise CannotCompute  # the values within an object are chosen together
        # An empty array has no element to choose: the attribute is missing.
        several = {name: distinct_elements(arrays[name]) for name in sorted(self._chosen) if arrays.get(name)}
        if prod(map(len, several.values())) > min(_MAX_COMPUTED_CHOICES, MAX_CHOICES):
            raise CannotCompute
        others = {name: value for name, value in attributes.items() if name not in arrays or name not in self._chosen}
        chosen = (others | dict(zip(several, values, strict=True)) for values in product(*several.values()))
        return [self._codes(one, whole + self._computed_codes(one, arrays)) for one in chosen]

    def codes_by_attributes(self, attributes: Attributes) -> tuple[list[int], Alternatives]:
        """The codes of an event without those of computed attributes."""
        return self._codes(attributes, self._whole_codes(attributes))

    def _codes(self, attributes: Attributes, others: list[int]) -> tuple[list[int], Alternatives]:
        if self.misplaced and any(has_fraction(attributes.get(name)) for name in self.misplaced):
            raise CannotEncode
        groups: tuple[Group, ...] = ()
        alone = attributes
        if isinstance(attributes, GroupedAttributes):
            alone, groups = attributes.ungrouped, attributes.groups
        codes, several = self._event_codes.of(alone, groups)
        codes += others
        for name, missed in self.when_missing.items():
            if name not in attributes and not is_computed(name):
                codes.extend(missed)
        return codes, several

    def _whole_codes(self, attributes: Attributes) -> list[int]:
        """The codes of what is asked of all elements of arrays, whichever are chosen."""
        codes = self._member_codes(attributes)
        return codes if self._searches is None else codes + self._searches.codes(attributes)

    def _member_codes(self, attributes: Attributes) -> list[int]:
        """The codes of the constants that the arrays of an event have."""
        codes: list[int] = []
        for name, members in self.members.items():
            value = attributes.get(name)
            if type(value) is tuple:
                codes += members.codes(value)
        return codes

    def _computed_codes(self, attributes: Attributes, arrays: Arrays) -> list[int]:
        """The codes of the computed attributes of an event, one value of which is chosen of every array they read."""
        codes, program = self.computer.codes_of(attributes)
        computer = self._event_computers.get(program)
        if computer is None:
            computer = self._event_computer(program)
        others = computer.codes(attributes, arrays)
        if others is None:
            raise CannotEncode
        codes += others
        return codes

    def member_words(self, arrays: Mapping[str, pa.Array]) -> list[tuple[Int64s, Int64s]]:
        """Rows and codes of the constants that columns of arrays have."""
        return [
            members.rows_and_codes(arrays[name], read_column)
            for name, members in self.members.items()
            if name in arrays and is_list_of_scalars(arrays[name].type)
        ]

    def computed_inputs(
        self, batch: pa.RecordBatch, paths: bool
    ) -> tuple[Mapping[str, pa.Array], Mapping[str, pa.Array]] | None:
        """The columns of one value a row, and of arrays, that computed attributes and tests of arrays read.

        None where one of them must be looked for within another column, or one element of an array is read.
        """
        inputs = self._chosen | self.arrays
        scalars: dict[str, pa.Array] = {}
        arrays: dict[str, pa.Array] = {}
        for name, column in zip(batch.schema.names, batch.columns, strict=True):
            path = name if paths else join_path((name,))
            is_nested = pa.types.is_nested(column.type)
            if is_nested and any(each != path and is_within(each, path) for each in inputs):
                return None
            if path not in inputs:
                continue
            if path in scalars or path in arrays:
                return None
            if not is_nested:
                scalars[path] = simplify(column, path)
            elif path in self._chosen or not is_list_of_scalars(column.type):
                return None
            else:
                arrays[path] = column
        return scalars, arrays

    def value_words(self, name: str, values: Iterable[tuple[int, Any]], count: int) -> tuple[Int64s, Int64s]:
        """The codes of the values of an attribute that is no column, with their rows."""
        coder, tests = self.coders.get(name, (None, None))
        searching = None if self.searching is None or is_computed(name) else self.searching.words_of
        rows: list[int] = []
        words: list[int] = []
        lacking = set(range(count)) if tests is not None and tests.when_missing else set[int]()
        for row, value in values:
            if name in self.misplaced and has_fraction(value):
                raise CannotEncode
            lacking.discard(row)
            own = [*element_codes((coder, tests), value), *(() if searching is None else searching(value))]
            rows += [row] * len(own)
            words += own
        for row in lacking:
            rows += [row] * len(tests.when_missing)  # type: ignore[union-attr]
            words += tests.when_missing  # type: ignore[union-attr]
        return np.array(rows, np.int64), np.array(words, np.int64)

    def codes_of_missing(self, name: str, count: int) -> tuple[Int64s, Int64s]:
        """The codes that every row has because a column is not there."""
        missed = np.array(self.when_missing[name], np.int64)
        return np.repeat(np.arange(count, dtype=np.int64), len(missed)), np.tile(missed, count)

    @cached_property
    def cell_axes(self) -> Mapping[str, int]:
        """The axes of the attributes of which nothing is read but their slots."""
        if self.reads_whole_event:
            return {}
        return {name: axis for name, axis in self.axis_of.items() if name not in self.tests and not is_computed(name)}

    def encode_cells(self, cells: EventCells) -> tuple[Int64s, Int64s]:
        """The codes of all cells of attributes that are read as cells, with their rows."""
        axis_of = self.cell_axes
        by_name = np.fromiter(map(axis_of.get, cells.numbers, repeat(-1)), np.int32, len(cells.numbers))
        axes = by_name[cells.name_numbers]
        codes = np.full(len(axes), -1, np.int64)
        for kind in COLUMN_TYPES:
            places, values = cells.column(kind)
            if len(places):
                codes[places] = encode_cells(self.axes, values, axes[places])
        for place in np.flatnonzero((cells.kinds <= NULL_CELL) & (axes >= 0)).tolist():
            name, value = cells.names[place], cells.values[place]
            coder, _ = self.coders[name]
            codes[place] = -1 if coder is None else coder(value)
        for name in self.misplaced & axis_of.keys():
            if any(map(has_fraction, cells.values[cells.places(name)])):
                raise CannotEncode
        found = np.flatnonzero(codes >= 0)
        return cells.rows[found], codes[found]

    def compute_events(self, events: TransposedEvents) -> ComputedColumns:
        """The values of the computed attributes: in columns where all that they read are columns."""
        columns = {name: events.column(name) for name in self._chosen.intersection(events.names)}
        mixed = {name for name, column in columns.items() if column is None}
        known: dict[str, ComputedValues] = {
            each.name: events.compute(each)
            for each in self.computed
            if each.arrays or not mixed.isdisjoint(each.scalars)
        }
        plain = {name: column for name, column in columns.items() if column is not None}
        return self.computer.evaluate(plain, {}, events.count, known, in_program=not mixed)
