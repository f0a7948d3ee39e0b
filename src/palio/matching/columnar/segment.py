"""Segment: one immutable part of the index, made of axes, postings, and tests that no interval of slots can say.

A segment gives the candidates of an event or a batch. For most subscriptions they are matches; those with residual
conditions (`residual_numbers`) are decided by their filters, in `palio.matching.residuals`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from functools import cached_property
from itertools import product, repeat
from math import prod
from types import MappingProxyType
from typing import Any, Final

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
from palio.matching.columnar.array_types import Int32s, Int64s
from palio.matching.columnar.arrow_columns import (
    BoundColumns,
    ColumnPlan,
    bind_columns,
    encode_cells,
    is_list_of_scalars,
    is_within,
    simplify,
)
from palio.matching.columnar.axes import Axes
from palio.matching.columnar.column_codes import (
    as_strings,
    element_reader,
    holds_fractions,
    holds_strings,
    reader,
    search_arrays,
    search_column,
    test_column,
    words_by_row,
    words_of_arrays,
)
from palio.matching.columnar.computed_attributes import (
    ComputedAttribute,
    computed_attribute,
    is_computed,
    kind_within,
)
from palio.matching.columnar.computed_columns import ColumnComputer, CompiledProgram, ComputedColumns, ComputedValues
from palio.matching.columnar.conditions import AxisKey, ConditionsBuilder, WholeEventSearch
from palio.matching.columnar.event_cells import COLUMN_TYPES, EventCells
from palio.matching.columnar.event_cells import NULL as NULL_CELL
from palio.matching.columnar.event_codes import (
    CannotEncode,
    EventCodes,
    choices,
    distinct_elements,
    element_codes,
    has_fraction,
)
from palio.matching.columnar.event_computer import Coder, EventComputer
from palio.matching.columnar.expression_program import BoundProgram
from palio.matching.columnar.layout import HIT_SLOT, NULL
from palio.matching.columnar.pattern_cache import PatternCache, PatternColumn, SearchEvaluator, TextColumn
from palio.matching.columnar.patterns import AttributeTests, EventSearches
from palio.matching.columnar.postings import Postings
from palio.matching.columnar.search import Searcher, row_numbers
from palio.matching.columnar.transposition import TransposedEvents

_MAX_SPARSE_SLOTS: Final = 64  # of an axis of few constants; a value on a larger one finds its slot by a table
_MAX_EVENT_COMPUTERS: Final = 16  # one for each program of single events
_MAX_COMPUTED_CHOICES: Final = 64  # of elements that computed attributes read; each is a search of its own


class CannotCompute(PalioError):
    """The computed attributes of an event have too many values: the caller evaluates the filters that read them."""


class Segment:
    """Subscriptions by number, immutable; tombstones are a bitmap that the segment set hands in."""

    def __init__(
        self,
        attributes: Sequence[str],
        tests: Callable[[], Sequence[AxisKey]],
        axes: Axes,
        postings: Postings,
        runs: Int32s,
        residual_numbers: Int32s,
        computed_numbers: Int32s,
        unshared: int,
    ) -> None:
        """The axes are those of the attributes, then those of the tests, which are made when they are needed."""
        self._axis_of = {name: axis for axis, name in enumerate(attributes)}
        self._make_tests = tests
        self.axes = axes
        self.postings = postings
        self.runs = runs  # of the numbers of all its subscriptions, in order: the first, and one past the last
        self.size = int((runs[:, 1] - runs[:, 0]).sum())
        self.residual_numbers = residual_numbers  # sorted; their candidates must be checked
        self.computed_numbers = computed_numbers  # sorted; they have conditions on computed attributes
        self.unshared = unshared  # subscriptions without residuals for which an expression is computed that few share
        self.searcher = Searcher(axes, postings)
        self._caches: list[PatternCache] = []
        self._event_computers: dict[CompiledProgram | None, EventComputer] = {}
        # Where all values are of one kind, there is an order that is right for them.
        self._misplaced = {
            name
            for name, axis in self._axis_of.items()
            if not axes.places_fractions(axis) and kind_within(name) is None
        }
        # For the schema of the last batch, by whether its columns were named by paths.
        self._plan: dict[bool, tuple[pa.Schema | None, ColumnPlan | None]] = dict.fromkeys((False, True), (None, None))

    @cached_property
    def keys(self) -> list[AxisKey]:
        """What the axes are of, in their order."""
        return [*((name, None) for name in self._axis_of), *self._make_tests()]

    @cached_property
    def _tests(self) -> Mapping[str, AttributeTests]:
        by_attribute: dict[str, list[tuple[int, Any]]] = {}
        for axis, (name, test) in enumerate(self.keys):
            if test is not None and not isinstance(test, WholeEventSearch | ArrayMember):
                by_attribute.setdefault(name, []).append((axis << 32 | HIT_SLOT, test))
        return {name: AttributeTests(tests) for name, tests in by_attribute.items()}

    @cached_property
    def _members(self) -> Mapping[str, ArrayMembers]:
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
    def _when_missing(self) -> Mapping[str, tuple[int, ...]]:
        return {name: each.when_missing for name, each in self._tests.items() if each.when_missing}

    @cached_property
    def _coders(self) -> Mapping[str, Coder]:
        coders: dict[str, Coder] = {}
        for name in {*self._axis_of, *self._tests}:
            own = self._axis_of.get(name)
            coders[name] = (None if own is None else self.axes.coder(own), self._tests.get(name))
        return coders

    @cached_property
    def _event_codes(self) -> EventCodes:
        return EventCodes(self._coders, self._when_missing)

    @classmethod
    def build(cls, builder: ConditionsBuilder) -> Segment:
        axes, conjunctions = builder.finish()
        postings = Postings.build(conjunctions, axes.sizes)
        runs = _runs(np.unique(conjunctions.ids))
        attributes, tests = builder.keys
        residual, computed = (
            np.array(sorted(each), np.int32) for each in (builder.residual_numbers, builder.computed_numbers)
        )
        unshared = len(builder.unshared_numbers - builder.residual_numbers)
        return cls(attributes, lambda: tests, axes, postings, runs, residual, computed, unshared)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays that matching reads."""
        patterns = [column.table for column in self.__dict__.get("_pattern_columns", {}).values()]  # if made already
        numbers = self.residual_numbers.nbytes + self.computed_numbers.nbytes
        own = self.axes.nbytes + self.postings.nbytes + self.runs.nbytes + numbers
        return int(own + sum(table.nbytes for table in patterns))

    @property
    def numbers(self) -> Int32s:
        """The numbers of all its subscriptions, sorted."""
        lengths = self.runs[:, 1] - self.runs[:, 0]
        before = np.cumsum(lengths) - lengths
        shifts: Int32s = np.repeat((self.runs[:, 0] - before).astype(np.int32), lengths)
        shifts += np.arange(self.size, dtype=np.int32)
        return shifts

    def holds(self, number: int) -> bool:
        """Whether a subscription, removed or not, is one of its own."""
        return bool(np.any((self.runs[:, 0] <= number) & (number < self.runs[:, 1])))

    @property
    def indexed(self) -> frozenset[str]:
        """The names of what has an index of its values: attributes, and computed ones."""
        return frozenset(self._axis_of).union(self._tests)

    @cached_property
    def attributes(self) -> frozenset[str]:
        """The names of all attributes of which one value is looked at."""
        plain = (name for name in (*self._axis_of, *self._tests) if not is_computed(name))
        return frozenset(plain).union(*(each.scalars for each in self.computed))

    @cached_property
    def arrays(self) -> frozenset[str]:
        """The names of all attributes that are looked at as whole arrays."""
        return frozenset(self._members).union(*(each.arrays for each in self.computed))

    @cached_property
    def computed(self) -> Sequence[ComputedAttribute]:
        """The computed attributes."""
        names = dict.fromkeys([*filter(is_computed, self._axis_of), *filter(is_computed, self._tests)])
        return [computed_attribute(name) for name in names]

    @cached_property
    def _computer(self) -> ColumnComputer:
        sparse = {
            each.name: self._axis_of[each.name]
            for each in self.computed
            if each.name in self._axis_of and each.name not in self._tests and self._is_sparse(self._axis_of[each.name])
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
        made = self._event_computers[program] = EventComputer(attributes, self._coders, self._misplaced)
        return made

    @cached_property
    def _chosen(self) -> frozenset[str]:
        """The attributes of which computed ones read one element."""
        return frozenset[str]().union(*(each.scalars for each in self.computed))

    def alive(self) -> list[int]:
        """The numbers of the subscriptions that are not removed."""
        return self.alive_among(self.numbers)

    def alive_among(self, numbers: Int32s) -> list[int]:
        """Those of some numbers whose subscriptions are not removed."""
        tombstones = self.searcher.tombstones
        if tombstones is not None:
            numbers = numbers[np.unpackbits(tombstones, bitorder="little")[numbers] == 0]
        return numbers.tolist()  # type: ignore[no-any-return]

    def match_event(self, attributes: Attributes) -> list[int]:
        """The numbers of the candidates for one event.

        `CannotCompute` where its arrays allow too many values of a computed attribute.
        """
        if not self.computed:
            return self._match_codes(attributes, self._member_codes(attributes))
        arrays = {name: value for name, value in attributes.items() if type(value) is tuple}
        if self._chosen.isdisjoint(arrays):
            members = self._member_codes(arrays)
            return self._match_codes(attributes, members + self._computed_codes(attributes, arrays))
        if isinstance(attributes, GroupedAttributes):
            raise CannotCompute  # the values within an object are chosen together
        # An empty array has no element to choose: the attribute is missing.
        several = {name: distinct_elements(arrays[name]) for name in sorted(self._chosen) if arrays.get(name)}
        if prod(map(len, several.values())) > min(_MAX_COMPUTED_CHOICES, MAX_CHOICES):
            raise CannotCompute
        others = {name: value for name, value in attributes.items() if name not in arrays or name not in self._chosen}
        found: set[int] = set()
        members = self._member_codes(arrays)
        for values in product(*several.values()):
            one = others | dict(zip(several, values, strict=True))
            found.update(self._match_codes(one, members + self._computed_codes(one, arrays)))
        return sorted(found)

    def _member_codes(self, attributes: Attributes) -> list[int]:
        """The codes of the constants that the arrays of an event have."""
        codes: list[int] = []
        for name, members in self._members.items():
            value = attributes.get(name)
            if type(value) is tuple:
                codes += members.codes(value)
        return codes

    def match_event_by_attributes(self, attributes: Attributes) -> list[int]:
        """The numbers of the candidates without conditions on computed attributes."""
        found = self._match_codes(attributes, self._member_codes(attributes))
        computed = set(self.computed_numbers.tolist())
        return [number for number in found if number not in computed]

    def _computed_codes(self, attributes: Attributes, arrays: Arrays) -> list[int]:
        """The codes of the computed attributes of an event, one value of which is chosen of every array they read."""
        codes, program = self._computer.codes_of(attributes)
        computer = self._event_computers.get(program)
        if computer is None:
            computer = self._event_computer(program)
        others = computer.codes(attributes, arrays)
        if others is None:
            raise CannotEncode
        codes += others
        return codes

    def _match_codes(self, attributes: Attributes, computed: list[int]) -> list[int]:
        if self._misplaced and any(has_fraction(attributes.get(name)) for name in self._misplaced):
            raise CannotEncode
        groups: tuple[Group, ...] = ()
        alone = attributes
        if isinstance(attributes, GroupedAttributes):
            alone, groups = attributes.ungrouped, attributes.groups
        codes, several = self._event_codes.of(alone, groups)
        codes += computed
        for name, missed in self._when_missing.items():
            if name not in attributes and not is_computed(name):
                codes.extend(missed)
        if self._searches is not None:
            codes += self._searches.codes(attributes)
        if not several:
            return self.searcher.match_one(codes)
        # One search per choice, and a subscription may match several of them.
        return sorted({number for chosen in choices(codes, several) for number in self.searcher.match_one(chosen)})

    @property
    def reads_whole_event(self) -> bool:
        """Whether some subscription looks at attributes that it does not name."""
        return self._searches is not None

    def match_batch(
        self, batch: pa.RecordBatch, paths: bool = False, values: dict[str, ComputedValues] | None = None
    ) -> tuple[Int64s, Int32s] | None:
        """Rows and numbers of the candidates for a batch; None where its columns must be looked at one by one.

        With `paths`, the columns are named by the paths of attributes, not by names of their own. `values` keeps the
        computed columns of the batch, which segments share.
        """
        words: Sequence[tuple[Int64s, Int64s]] = ()
        program = None
        added = 0
        if self.computed or self._members:
            inputs = self._inputs_in(batch, paths)
            if inputs is None:
                return None
            scalars, arrays = inputs
            words = self._member_words(arrays)
            computed, program = self._computer.evaluate(
                scalars, arrays, batch.num_rows, {} if values is None else values
            )
            if any(isinstance(each, list) for each in computed.values()):
                return None
            added = len(computed)
            batch = pa.RecordBatch.from_arrays([*batch.columns, *computed.values()], [*batch.schema.names, *computed])
        schema, plan = self._plan[paths]
        # Batches of one stream have one schema: a plan for the last one is enough.
        if schema is None or not batch.schema.equals(schema):
            plan = ColumnPlan.of(batch.schema, self._axis_of, self._tests, self.reads_whole_event, paths, added)
            self._plan[paths] = batch.schema, plan
        if plan is None:
            return None
        others = {name: batch.column(place) for name, place in plan.tested.items()}
        with plan.bind(batch) as bound:
            texts = [
                TextColumn(name, bound.address_of(plan.columns + which), reader(batch, place))
                for which, (name, place) in enumerate(plan.texts)
            ]
            return self._match(bound, texts, others, batch.num_rows, words=words, program=program)

    def _member_words(self, arrays: Mapping[str, pa.Array]) -> list[tuple[Int64s, Int64s]]:
        """Rows and codes of the constants that columns of arrays have."""
        return [
            members.rows_and_codes(arrays[name], read_column)
            for name, members in self._members.items()
            if name in arrays and is_list_of_scalars(arrays[name].type)
        ]

    def _inputs_in(
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

    def match_columns(
        self, columns: Mapping[str, pa.Array], count: int, arrays: Mapping[str, pa.Array] = MappingProxyType({})
    ) -> tuple[Int64s, Int32s]:
        """Rows and numbers of the candidates for a batch of columns, and of arrays that are looked at as a whole."""
        if not self.computed and not self._members:
            return self._match_arrays(columns, count)
        extended = dict(columns)
        words: dict[str, tuple[Int64s, Int64s]] = {}
        computed, program = self._computer.evaluate(columns, arrays, count, {})
        for name, found in computed.items():
            if isinstance(found, list):
                words[name] = self._words(name, enumerate(found), count)
            else:
                extended[name] = found
        given = [*words.values(), *self._member_words(arrays)]
        return self._match_arrays(extended, count, words.keys(), given, program)

    def match_transposed(self, events: TransposedEvents) -> tuple[Int64s, Int32s]:
        """Rows and numbers of the candidates for events."""
        columns: dict[str, pa.Array] = {}
        words: dict[str, tuple[Int64s, Int64s]] = {}
        computed, program = self._compute_events(events)
        for name, found in computed.items():
            if isinstance(found, list):
                words[name] = self._words(name, enumerate(found), events.count)
            else:
                columns[name] = found
        by_cells = {} if events.cells is None else self._cell_axes
        for name in events.names:
            if name in by_cells or (not self.reads_whole_event and name not in self._coders):
                continue
            column = None if name in self.null_is_not_missing else events.column(name)
            if column is None:
                words[name] = self._words(name, events.values(name), events.count)
            else:
                columns[name] = column
        given = list(words.values())
        if events.cells is not None:
            given.append(self._encode_cells(events.cells))
        given += [words_of_arrays(events.arrays(name), members) for name, members in self._members.items()]
        if self._searching is not None:
            given.append(search_arrays(events, self._searching))
        return self._match_arrays(columns, events.count, words.keys(), given, program)

    @cached_property
    def _cell_axes(self) -> Mapping[str, int]:
        """The axes of the attributes of which nothing is read but their slots."""
        if self.reads_whole_event:
            return {}
        return {name: axis for name, axis in self._axis_of.items() if name not in self._tests and not is_computed(name)}

    def _encode_cells(self, cells: EventCells) -> tuple[Int64s, Int64s]:
        """The codes of all cells of attributes that are read as cells, with their rows."""
        axis_of = self._cell_axes
        by_name = np.fromiter(map(axis_of.get, cells.numbers, repeat(-1)), np.int32, len(cells.numbers))
        axes = by_name[cells.name_numbers]
        codes = np.full(len(axes), -1, np.int64)
        for kind in COLUMN_TYPES:
            places, values = cells.column(kind)
            if len(places):
                codes[places] = encode_cells(self.axes, values, axes[places])
        for place in np.flatnonzero((cells.kinds <= NULL_CELL) & (axes >= 0)).tolist():
            name, value = cells.names[place], cells.values[place]
            coder, _ = self._coders[name]
            codes[place] = -1 if coder is None else coder(value)
        for name in self._misplaced & axis_of.keys():
            if any(map(has_fraction, cells.values[cells.places(name)])):
                raise CannotEncode
        found = np.flatnonzero(codes >= 0)
        return cells.rows[found], codes[found]

    def _compute_events(self, events: TransposedEvents) -> ComputedColumns:
        """The values of the computed attributes: in columns where all that they read are columns."""
        columns = {name: events.column(name) for name in self._chosen.intersection(events.names)}
        mixed = {name for name, column in columns.items() if column is None}
        known: dict[str, ComputedValues] = {
            each.name: events.compute(each)
            for each in self.computed
            if each.arrays or not mixed.isdisjoint(each.scalars)
        }
        plain = {name: column for name, column in columns.items() if column is not None}
        return self._computer.evaluate(plain, {}, events.count, known, in_program=not mixed)

    @cached_property
    def null_is_not_missing(self) -> frozenset[str]:
        """The attributes of which some condition tells null from missing, as no column does."""
        by_axis = {name for name, axis in self._axis_of.items() if self.axes.tells_null(axis)}
        return frozenset(by_axis | {name for name, each in self._tests.items() if each.when_missing != each.when_null})

    def _words(self, name: str, values: Iterable[tuple[int, Any]], count: int) -> tuple[Int64s, Int64s]:
        """The codes of the values of an attribute that is no column, with their rows."""
        coder, tests = self._coders.get(name, (None, None))
        searching = None if self._searching is None or is_computed(name) else self._searching.words_of
        rows: list[int] = []
        words: list[int] = []
        lacking = set(range(count)) if tests is not None and tests.when_missing else set[int]()
        for row, value in values:
            if name in self._misplaced and has_fraction(value):
                raise CannotEncode
            lacking.discard(row)
            own = [*element_codes((coder, tests), value), *(() if searching is None else searching(value))]
            rows += [row] * len(own)
            words += own
        for row in lacking:
            rows += [row] * len(tests.when_missing)  # type: ignore[union-attr]
            words += tests.when_missing  # type: ignore[union-attr]
        return np.array(rows, np.int64), np.array(words, np.int64)

    def _match_arrays(
        self,
        columns: Mapping[str, pa.Array],
        count: int,
        known: Collection[str] = (),
        words: Sequence[tuple[Int64s, Int64s]] = (),
        program: BoundProgram | None = None,
    ) -> tuple[Int64s, Int32s]:
        """The candidates for columns, those of computed attributes among them, and for attributes of known words."""
        if any(name in columns and holds_fractions(columns[name]) for name in self._misplaced):
            raise CannotEncode
        bound = bind_columns(
            self.axes,
            [(self._axis_of[name], column) for name, column in columns.items() if name in self._axis_of],
            count,
        )
        searched = self.reads_whole_event
        others = {
            name: each for name, each in columns.items() if name in self._tests or (searched and not is_computed(name))
        }
        strings = {name: others.pop(name) for name in list(others) if holds_strings(others[name])}
        plain = [as_strings(column) for column in strings.values()]
        bound_texts = bind_columns(self.axes, [(0, column) for column in plain], count)
        texts = [
            TextColumn(name, bound_texts.address_of(which), element_reader(column))
            for which, (name, column) in enumerate(zip(strings, plain, strict=True))
        ]
        return self._match(bound, texts, others, count, known, words, program)

    def _match(
        self,
        bound: BoundColumns,
        texts: Sequence[TextColumn],
        others: Mapping[str, pa.Array],
        count: int,
        known: Collection[str] = (),
        words: Sequence[tuple[Int64s, Int64s]] = (),
        program: BoundProgram | None = None,
    ) -> tuple[Int64s, Int32s]:
        """The candidates for columns that axes read, columns of strings that are tested, others that are, and words."""
        present = {*(column.name for column in texts), *others, *known}
        found = [self._codes_of_missing(name, count) for name in self._when_missing if name not in present]
        found += words
        found += [test_column(others[name], self._tests[name]) for name in others if name in self._tests]
        cache = self._borrow()
        tested = [column for column in texts if column.name in self._tests]
        entries = cache.look_up(self._pattern_columns, tested, count) if tested else None
        if self._searching is not None:
            searched = [column for column in texts if column.name not in self._tests and not is_computed(column.name)]
            found.append(cache.search(self._searching, searched, count))
            if self._searching.searches.reads_others:
                of_events = [column for name, column in others.items() if not is_computed(name)]
                found += [search_column(column, self._searching) for column in of_events]
        extras = words_by_row([each for each in found if len(each[0])], count)
        has_words_only = not bound.count and entries is None and program is None
        # A search may give a word several times, which `match_columns` sees to.
        if has_words_only and extras is not None and self._searching is None:
            ends, numbers = self.searcher.match_codes(*extras)
        else:
            ends, numbers = self.searcher.match_columns(bound, extras, entries, program)
        self._caches.append(cache)
        return row_numbers(ends), numbers

    def _codes_of_missing(self, name: str, count: int) -> tuple[Int64s, Int64s]:
        """The codes that every row has because a column is not there."""
        missed = np.array(self._when_missing[name], np.int64)
        return np.repeat(np.arange(count, dtype=np.int64), len(missed)), np.tile(missed, count)

    def _borrow(self) -> PatternCache:
        try:
            return self._caches.pop()
        except IndexError:
            return PatternCache()

    @cached_property
    def _searching(self) -> SearchEvaluator | None:
        return None if self._searches is None else SearchEvaluator(self._searches)

    @cached_property
    def _pattern_columns(self) -> Mapping[str, PatternColumn]:
        return {name: PatternColumn(each, self._searching) for name, each in self._tests.items()}


def _runs(numbers: Int32s) -> Int32s:
    """Sorted numbers as runs of consecutive ones."""
    breaks = np.flatnonzero(np.diff(numbers) != 1) + 1
    first = numbers[np.concatenate([[0], breaks])] if len(numbers) else numbers
    last = numbers[np.concatenate([breaks, [len(numbers)]]) - 1] if len(numbers) else numbers
    return np.stack([first, last + 1], axis=1).astype(np.int32)
