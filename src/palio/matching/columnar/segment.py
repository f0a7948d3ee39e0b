"""Segment: one immutable part of the index, made of axes, postings, and tests that no interval of slots can say.

A segment gives the candidates of an event or a batch: its encoder (`segment_encoder`) makes codes, and its searcher
finds the postings of these. For most subscriptions candidates are matches; those with residual conditions
(`residual_numbers`) are decided by their filters, in `palio.matching.residuals`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType

import numpy as np
import pyarrow as pa

from palio.filters.tree import Attributes
from palio.matching.columnar.array_types import Int32s, Int64s
from palio.matching.columnar.arrow_columns import BoundColumns, ColumnPlan, bind_columns
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
from palio.matching.columnar.computed_attributes import is_computed
from palio.matching.columnar.computed_columns import ComputedValues
from palio.matching.columnar.conditions import AxisKey, ConditionsBuilder
from palio.matching.columnar.event_codes import CannotEncode, choices
from palio.matching.columnar.expression_program import BoundProgram
from palio.matching.columnar.pattern_cache import PatternCache, PatternColumn, TextColumn
from palio.matching.columnar.postings import Postings
from palio.matching.columnar.search import Searcher, row_numbers
from palio.matching.columnar.segment_encoder import Alternatives, SegmentEncoder
from palio.matching.columnar.transposition import TransposedEvents


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
        slow: int,
    ) -> None:
        """The axes are those of the attributes, then those of the tests, which are made when they are needed."""
        self.encoder = SegmentEncoder(attributes, tests, axes)
        self.postings = postings
        self.runs = runs  # of the numbers of all its subscriptions, in order: the first, and one past the last
        self.size = int((runs[:, 1] - runs[:, 0]).sum())
        self.residual_numbers = residual_numbers  # sorted; their candidates must be checked
        self.computed_numbers = computed_numbers  # sorted; they have conditions on computed attributes
        self.slow = slow  # subscriptions that are slow, beside those with residuals and those always asked
        self.searcher = Searcher(axes, postings)
        self._caches: list[PatternCache] = []
        # For the schema of the last batch, by whether its columns were named by paths.
        self._plan: dict[bool, tuple[pa.Schema | None, ColumnPlan | None]] = dict.fromkeys((False, True), (None, None))

    @classmethod
    def build(cls, builder: ConditionsBuilder) -> Segment:
        axes, conjunctions = builder.finish()
        postings = Postings.build(conjunctions, axes.sizes)
        runs = _runs(np.unique(conjunctions.ids))
        attributes, tests = builder.keys
        residual, computed = (
            np.array(sorted(each), np.int32) for each in (builder.residual_numbers, builder.computed_numbers)
        )
        always = conjunctions.ids[np.asarray(postings.is_always)].tolist()
        slow = len(builder.slow_numbers() - builder.residual_numbers - set(always))
        return cls(attributes, lambda: tests, axes, postings, runs, residual, computed, slow)

    @property
    def nbytes(self) -> int:
        """Bytes of the arrays that matching reads."""
        patterns = [column.table for column in self.__dict__.get("_pattern_columns", {}).values()]  # if made already
        numbers = self.residual_numbers.nbytes + self.computed_numbers.nbytes
        own = self.encoder.axes.nbytes + self.postings.nbytes + self.runs.nbytes + numbers
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
        encoded = self.encoder.event_codes(attributes)
        if len(encoded) == 1:
            return self._search(*encoded[0])
        return sorted({number for codes, several in encoded for number in self._search(codes, several)})

    def match_event_by_attributes(self, attributes: Attributes) -> list[int]:
        """The numbers of the candidates without conditions on computed attributes."""
        found = self._search(*self.encoder.codes_by_attributes(attributes))
        computed = set(self.computed_numbers.tolist())
        return [number for number in found if number not in computed]

    def _search(self, codes: list[int], several: Alternatives) -> list[int]:
        if not several:
            return self.searcher.match_one(codes)
        # One search per choice, and a subscription may match several of them.
        return sorted({number for chosen in choices(codes, several) for number in self.searcher.match_one(chosen)})

    def match_batch(
        self, batch: pa.RecordBatch, paths: bool = False, values: dict[str, ComputedValues] | None = None
    ) -> tuple[Int64s, Int32s] | None:
        """Rows and numbers of the candidates for a batch; None where its columns must be looked at one by one.

        With `paths`, the columns are named by the paths of attributes, not by names of their own. `values` keeps the
        computed columns of the batch, which segments share.
        """
        encoder = self.encoder
        words: Sequence[tuple[Int64s, Int64s]] = ()
        program = None
        added = 0
        if encoder.computed or encoder.members:
            inputs = encoder.computed_inputs(batch, paths)
            if inputs is None:
                return None
            scalars, arrays = inputs
            words = encoder.member_words(arrays)
            computed, program = encoder.computer.evaluate(
                scalars, arrays, batch.num_rows, {} if values is None else values
            )
            if any(isinstance(each, list) for each in computed.values()):
                return None
            added = len(computed)
            batch = pa.RecordBatch.from_arrays([*batch.columns, *computed.values()], [*batch.schema.names, *computed])
        schema, plan = self._plan[paths]
        # Batches of one stream have one schema: a plan for the last one is enough.
        if schema is None or not batch.schema.equals(schema):
            plan = ColumnPlan.of(batch.schema, encoder.axis_of, encoder.tests, encoder.reads_whole_event, paths, added)
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

    def match_columns(
        self, columns: Mapping[str, pa.Array], count: int, arrays: Mapping[str, pa.Array] = MappingProxyType({})
    ) -> tuple[Int64s, Int32s]:
        """Rows and numbers of the candidates for a batch of columns, and of arrays that are looked at as a whole."""
        encoder = self.encoder
        if not encoder.computed and not encoder.members:
            return self._match_arrays(columns, count)
        extended = dict(columns)
        words: dict[str, tuple[Int64s, Int64s]] = {}
        computed, program = encoder.computer.evaluate(columns, arrays, count, {})
        for name, found in computed.items():
            if isinstance(found, list):
                words[name] = encoder.value_words(name, enumerate(found), count)
            else:
                extended[name] = found
        given = [*words.values(), *encoder.member_words(arrays)]
        return self._match_arrays(extended, count, words.keys(), given, program)

    def match_transposed(self, events: TransposedEvents) -> tuple[Int64s, Int32s]:
        """Rows and numbers of the candidates for events."""
        encoder = self.encoder
        columns: dict[str, pa.Array] = {}
        words: dict[str, tuple[Int64s, Int64s]] = {}
        computed, program = encoder.compute_events(events)
        for name, found in computed.items():
            if isinstance(found, list):
                words[name] = encoder.value_words(name, enumerate(found), events.count)
            else:
                columns[name] = found
        by_cells = {} if events.cells is None else encoder.cell_axes
        for name in events.names:
            if name in by_cells or (not encoder.reads_whole_event and name not in encoder.coders):
                continue
            column = None if name in encoder.null_is_not_missing else events.column(name)
            if column is None:
                words[name] = encoder.value_words(name, events.values(name), events.count)
            else:
                columns[name] = column
        given = list(words.values())
        if events.cells is not None:
            given.append(encoder.encode_cells(events.cells))
        given += [words_of_arrays(events.arrays(name), members) for name, members in encoder.members.items()]
        if encoder.searching is not None:
            given.append(search_arrays(events, encoder.searching))
        return self._match_arrays(columns, events.count, words.keys(), given, program)

    def _match_arrays(
        self,
        columns: Mapping[str, pa.Array],
        count: int,
        known: Collection[str] = (),
        words: Sequence[tuple[Int64s, Int64s]] = (),
        program: BoundProgram | None = None,
    ) -> tuple[Int64s, Int32s]:
        """The candidates for columns, those of computed attributes among them, and for attributes of known words."""
        encoder = self.encoder
        if any(name in columns and holds_fractions(columns[name]) for name in encoder.misplaced):
            raise CannotEncode
        bound = bind_columns(
            encoder.axes,
            [(encoder.axis_of[name], column) for name, column in columns.items() if name in encoder.axis_of],
            count,
        )
        searched = encoder.reads_whole_event
        others = {
            name: each
            for name, each in columns.items()
            if name in encoder.tests or (searched and not is_computed(name))
        }
        strings = {name: others.pop(name) for name in list(others) if holds_strings(others[name])}
        plain = [as_strings(column) for column in strings.values()]
        bound_texts = bind_columns(encoder.axes, [(0, column) for column in plain], count)
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
        encoder = self.encoder
        present = {*(column.name for column in texts), *others, *known}
        found = [encoder.codes_of_missing(name, count) for name in encoder.when_missing if name not in present]
        found += words
        found += [test_column(others[name], encoder.tests[name]) for name in others if name in encoder.tests]
        cache = self._borrow()
        tested = [column for column in texts if column.name in encoder.tests]
        entries = cache.look_up(self._pattern_columns, tested, count) if tested else None
        if encoder.searching is not None:
            searched = [column for column in texts if column.name not in encoder.tests and not is_computed(column.name)]
            found.append(cache.search(encoder.searching, searched, count))
            if encoder.searching.searches.reads_others:
                of_events = [column for name, column in others.items() if not is_computed(name)]
                found += [search_column(column, encoder.searching) for column in of_events]
        extras = words_by_row([each for each in found if len(each[0])], count)
        has_words_only = not bound.count and entries is None and program is None
        # A search may give a word several times, which `match_columns` sees to.
        if has_words_only and extras is not None and encoder.searching is None:
            ends, numbers = self.searcher.match_codes(*extras)
        else:
            ends, numbers = self.searcher.match_columns(bound, extras, entries, program)
        self._caches.append(cache)
        return row_numbers(ends), numbers

    def _borrow(self) -> PatternCache:
        try:
            return self._caches.pop()
        except IndexError:
            return PatternCache()

    @cached_property
    def _pattern_columns(self) -> Mapping[str, PatternColumn]:
        return {name: PatternColumn(each, self.encoder.searching) for name, each in self.encoder.tests.items()}


def _runs(numbers: Int32s) -> Int32s:
    """Sorted numbers as runs of consecutive ones."""
    breaks = np.flatnonzero(np.diff(numbers) != 1) + 1
    first = numbers[np.concatenate([[0], breaks])] if len(numbers) else numbers
    last = numbers[np.concatenate([breaks, [len(numbers)]]) - 1] if len(numbers) else numbers
    return np.stack([first, last + 1], axis=1).astype(np.int32)
