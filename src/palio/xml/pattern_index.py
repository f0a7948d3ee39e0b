"""Pattern index: all tree patterns that match a document, in one pass over its nodes.

    index = PatternIndex()
    number = index.add(parse_xpath("//surname[. = 'Curie']"))
    index.match(parse_document(data))              [number]

A document runs through a path automaton (`palio.xml.path_automaton`), which finds patterns that are paths at once, and
the branches of the others (`palio.xml.branch_table`). These are then joined: a branch marks the element that it begins
at, and a conjunction whose branches are all marked at one element is found there. Patterns with conditions that are no
conjunction (`or`, `not()`) are found by the conjunction that they imply, and then checked one by one.

Costs: a document takes some ten nanoseconds for each element, branch and pattern found. Adding costs some 50 µs. New
patterns go to a small automaton beside the large one, so that a change makes only few states anew; it is emptied into
the large one when it has a sixteenth of its patterns. A removed pattern is skipped, and its branches go when half of
all patterns are removed.
"""

from __future__ import annotations

import math
import threading
from array import array
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt

from palio.errors import InvalidArgument, LimitReached
from palio.xml.automaton_kernels import COUNTERS, FOUND, TESTED, VISITS, DocumentArrays, RunArrays, run_automaton
from palio.xml.document import Document
from palio.xml.expression_evaluator import TooManySteps
from palio.xml.join_kernels import LINK_NUMBERS, BranchArrays, JoinArrays, join_branches
from palio.xml.path_automaton import PathAutomaton
from palio.xml.path_trie import PathTrie, is_exact
from palio.xml.pattern import NodeKind, Pattern
from palio.xml.reference_matcher import ReferenceMatcher

_Ints = npt.NDArray[np.int32]
_LAST_NUMBER: Final = 2**31 - 1
_REMOVED: Final = _LAST_NUMBER  # as the last document a pattern was found in: never found again
_FEWEST_RECENT: Final = 256  # patterns that the small automaton may have in any case
_LARGE_PER_RECENT: Final = 16
_FEWEST_REMOVED: Final = 256
_FIRST_ENTRIES: Final = 4_096
MAX_JOIN_ENTRIES: Final = 2**24
"""Branches noted at elements of one document, of eight bytes each."""
_MAX_ATTEMPTS: Final = 64  # to join one document, each with twice the room


_NO_HITS: Final[_Ints] = np.zeros(0, np.int32)


class PatternKernels(NamedTuple):
    """The functions of `automaton_kernels` and `join_kernels`, as they stand or compiled."""

    run_automaton: Callable[..., int]
    join_branches: Callable[..., int]


def interpreted(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """A kernel as it stands, for Python."""

    def call(*arguments: Any) -> Any:
        return kernel(*map(_with_python_elements, arguments))

    return call


def _with_python_elements(argument: Any) -> Any:
    """Arrays as memoryviews, whose elements are Python's integers: these do not overflow."""
    if isinstance(argument, np.ndarray):
        return argument.data
    if isinstance(argument, tuple):
        return type(argument)(*map(_with_python_elements, argument))
    return argument


INTERPRETED_KERNELS: Final = PatternKernels(interpreted(run_automaton), interpreted(join_branches))


class PatternIndex:
    """Tree patterns by number, and the automata that find them. May be used by several threads, one at a time."""

    def __init__(self, kernels: PatternKernels = INTERPRETED_KERNELS) -> None:
        self._kernels = kernels
        self._lock = threading.Lock()
        self._patterns: dict[int, Pattern] = {}
        self._next = 0
        self._removed = 0
        self._large = _Segment(kernels)
        self._recent = _Segment(kernels)
        self._recent_numbers: list[int] = []
        self._checked: set[int] = set()
        self._run = _Run()

    def __len__(self) -> int:
        return len(self._patterns)

    def __getitem__(self, number: int) -> Pattern:
        return self._patterns[number]

    def add(self, pattern: Pattern) -> int:
        """Add a pattern and return its number, which no other pattern of this index ever had."""
        with self._lock:
            number = self._enter(pattern)
            self._recent.add(pattern, number)
            self._recent_numbers.append(number)
            if len(self._recent_numbers) > max(_FEWEST_RECENT, len(self._patterns) // _LARGE_PER_RECENT):
                self._empty_recent()
            return number

    def add_many(self, patterns: Iterable[Pattern]) -> list[int]:
        """Add patterns, all at once to the large automaton."""
        with self._lock:
            numbers = []
            for pattern in patterns:
                number = self._enter(pattern)
                self._large.add(pattern, number)
                numbers.append(number)
            return numbers

    def remove(self, number: int) -> None:
        """Remove a pattern; costs a microsecond."""
        with self._lock:
            if self._patterns.pop(number, None) is None:
                raise InvalidArgument(f"there is no pattern {number} in this index")
            self._checked.discard(number)
            self._run.pattern_documents.values[number] = _REMOVED
            self._removed += 1
            if self._removed > max(_FEWEST_REMOVED, len(self._patterns)):
                self._rebuild()

    def match(self, document: Document) -> list[int]:
        """The numbers of all patterns that match a document, ascending."""
        numbers: list[int] = np.sort(self.find_within(document, math.inf)[0]).tolist()
        return numbers

    def find_within(self, document: Document, max_steps: float) -> tuple[_Ints, list[int]]:
        """The patterns that match, in any order, and those whose residuals would take more steps than that."""
        with self._lock:
            found = self._run.find(document, (self._large, self._recent))
            return self._check(found, document, max_steps) if self._checked else (found, [])

    def _enter(self, pattern: Pattern) -> int:
        number = self._next
        self._next += 1
        self._patterns[number] = pattern
        if not all(map(is_exact, pattern.alternatives)):
            self._checked.add(number)
        self._run.pattern_documents.append(0)
        return number

    def _empty_recent(self) -> None:
        for number in self._recent_numbers:
            if number in self._patterns:
                self._large.add(self._patterns[number], number)
        self._recent = _Segment(self._kernels)
        self._recent_numbers = []

    def _rebuild(self) -> None:
        self._large, self._recent = _Segment(self._kernels), _Segment(self._kernels)
        self._recent_numbers = []
        self._removed = 0
        for number, pattern in self._patterns.items():
            self._large.add(pattern, number)

    def _check(self, found: _Ints, document: Document, max_steps: float) -> tuple[_Ints, list[int]]:
        """Those of the patterns found that match, where the index knows only a conjunction that they imply."""
        checked, patterns = self._checked, self._patterns
        matcher = ReferenceMatcher(document)
        wrong: list[int] = []
        undecided: list[int] = []
        for place, each in enumerate(found.tolist()):
            if each in checked:
                try:
                    if matcher.matches(patterns[each], max_steps):
                        continue
                except TooManySteps:
                    undecided.append(each)
                wrong.append(place)
        return np.delete(found, wrong) if wrong else found, undecided


class _Segment:
    """A trie, its automaton and its branches."""

    def __init__(self, kernels: PatternKernels) -> None:
        self.kernels = kernels
        self.trie = PathTrie()
        self.automaton = PathAutomaton(self.trie)
        self.state_documents: _Ints
        self.state_parents: _Ints
        self.forget_documents()
        self._is_changed = False
        self._branches: BranchArrays | None = None
        self.link_numbers = np.zeros(0, np.int64)
        self.pending: _Ints = np.zeros(0, np.int32)
        self.attempt = 0  # of a join, by which the numbers of links are told apart

    def add(self, pattern: Pattern, number: int) -> None:
        for alternative in pattern.alternatives:
            if not alternative.is_never:
                self.trie.add(alternative, number)
        self._is_changed = True

    @property
    def is_empty(self) -> bool:
        return len(self.trie) == 1 and not self.trie.patterns[0] and not self.trie.values

    def prepare(self) -> None:
        """Make states and arrays anew if patterns were added, and states if they take too much memory."""
        if self._is_changed or self.automaton.is_large:
            self.automaton.forget()
            self.forget_documents()
        if self._is_changed or self._branches is None:
            self._branches = self.trie.branches.arrays()
            self._forget_joins()
        if self.attempt >= _LAST_NUMBER - _MAX_ATTEMPTS:
            self._forget_joins()
        self._is_changed = False

    @property
    def branches(self) -> BranchArrays:
        assert self._branches is not None
        return self._branches

    def _forget_joins(self) -> None:
        table = self.trie.branches
        self.link_numbers = np.zeros(LINK_NUMBERS * len(table), np.int64)
        self.pending = np.zeros(table.units, np.int32)
        self.attempt = 0

    def cover_states(self, count: int) -> None:
        """Make room for what a run writes down by state."""
        more = np.zeros(count - len(self.state_documents), np.int32)
        self.state_documents = np.concatenate((self.state_documents, more))
        self.state_parents = np.concatenate((self.state_parents, more))

    def forget_documents(self) -> None:
        """Forget in which documents states occurred."""
        self.state_documents = self.state_parents = np.zeros(0, np.int32)


class _Run:
    """Working memory of matching, used for one document after the other."""

    def __init__(self) -> None:
        self.pattern_documents = GrowingArray()
        self._document = 0  # its number
        self._counters = np.zeros(COUNTERS, np.int64)
        self._nodes: _Ints = np.zeros(0, np.int32)
        self._depths: _Ints = np.zeros(0, np.int32)
        self._visits: _Ints = np.zeros(0, np.int32)
        self._tested: _Ints = np.zeros(0, np.int32)
        self._found: _Ints = np.zeros(0, np.int32)
        self._heads: _Ints = np.zeros(0, np.int32)
        self._ends: _Ints = np.zeros(0, np.int32)
        self._entry_links: _Ints = np.zeros(_FIRST_ENTRIES, np.int32)
        self._entry_nexts: _Ints = np.zeros(_FIRST_ENTRIES, np.int32)

    def find(self, document: Document, segments: Sequence[_Segment]) -> _Ints:
        """The numbers of the patterns found, each once; a copy."""
        self._reserve(document)
        if self._document + len(segments) >= _REMOVED:
            self._forget_documents(segments)
        counters = self._counters
        counters[:] = 0
        for segment in segments:
            if not segment.is_empty:
                self._document += 1
                self._match_segment(document, segment)
        return self._found[: counters[FOUND]].copy()

    def _match_segment(self, document: Document, segment: _Segment) -> None:
        segment.prepare()
        found = int(self._counters[FOUND])
        self._counters[:] = 0
        self._counters[FOUND] = found
        arrays = _arrays_of(document, segment)
        run = self._run_automaton(arrays, segment)
        self._find_root_patterns(segment)
        hits = self._evaluate_tests(document, segment) if self._counters[TESTED] else _NO_HITS
        if self._counters[VISITS] or len(hits):
            self._join(hits, arrays, run, segment)

    def _run_automaton(self, arrays: DocumentArrays, segment: _Segment) -> RunArrays:
        while True:
            states = len(segment.automaton.arrays.flags)
            if len(segment.state_documents) < states:
                segment.cover_states(states)
            run = RunArrays(
                self._counters,
                self._nodes,
                self._depths,
                segment.state_documents,
                segment.state_parents,
                self.pattern_documents.values,
                self._found,
                self._visits,
                self._tested,
            )
            automaton = segment.automaton
            if not segment.kernels.run_automaton(
                arrays, automaton.trie_arrays(), automaton.arrays, run, self._document
            ):
                return run
            automaton.grow()

    def _find_root_patterns(self, segment: _Segment) -> None:
        """Report patterns that every document matches: they ask for nothing but the document node."""
        for pattern in segment.trie.patterns[0]:
            if self.pattern_documents.values[pattern] < self._document:
                self.pattern_documents.values[pattern] = self._document
                self._found[self._counters[FOUND]] = pattern
                self._counters[FOUND] += 1

    def _evaluate_tests(self, document: Document, segment: _Segment) -> _Ints:
        """Pairs of a node and a unit whose value tests it passes."""
        elements, attributes = len(document.tags), len(document.attribute_values)
        hits = array("i")
        pairs = self._tested[: 2 * self._counters[TESTED]].tolist()
        for node, state in zip(pairs[::2], pairs[1::2], strict=True):
            if node < elements:
                text = document.string_value(node)
            elif node < elements + attributes:
                text = document.attribute_values[node - elements]
            else:
                text = document.texts[node - elements - attributes]
            for group in segment.automaton.value_groups(state):
                for unit in group.units_passed(text):
                    hits.extend((node, unit))
        return np.asarray(hits)

    def _join(self, hits: _Ints, arrays: DocumentArrays, run: RunArrays, segment: _Segment) -> None:
        elements = len(arrays.parents)
        if elements >= len(self._heads):
            self._heads, self._ends = np.zeros(2 * elements, np.int32), np.zeros(2 * elements, np.int32)
        automaton = segment.automaton.arrays
        while True:
            segment.attempt += 1
            join = JoinArrays(
                segment.link_numbers, self._ends, self._heads, self._entry_links, self._entry_nexts, segment.pending
            )
            if not segment.kernels.join_branches(
                hits, arrays, automaton, run, segment.branches, join, self._document, segment.attempt
            ):
                return
            # Twice the entries; it begins anew, and what was found is found.
            entries = 2 * len(self._entry_links)
            if entries > MAX_JOIN_ENTRIES:
                reason = "the document has too many elements at which branches of patterns begin"
                raise LimitReached("MAX_JOIN_ENTRIES", MAX_JOIN_ENTRIES, reason)
            self._entry_links, self._entry_nexts = np.zeros(entries, np.int32), np.zeros(entries, np.int32)

    def _reserve(self, document: Document) -> None:
        """Make room for the nodes of a document, and for all patterns."""
        elements = len(document.tags)
        nodes = elements + len(document.attribute_values) + len(document.texts)
        if elements > len(self._nodes):
            self._nodes, self._depths = np.zeros(2 * elements, np.int32), np.zeros(2 * elements, np.int32)
        if 2 * nodes > len(self._visits):
            self._visits, self._tested = np.zeros(4 * nodes, np.int32), np.zeros(4 * nodes, np.int32)
        if len(self._found) < len(self.pattern_documents):
            self._found = np.zeros(2 * len(self.pattern_documents), np.int32)

    def _forget_documents(self, segments: Iterable[_Segment]) -> None:
        """Begin to count documents anew, after two thousand million of them."""
        for segment in segments:
            segment.forget_documents()
        values = self.pattern_documents.values
        values[values != _REMOVED] = 0
        self._document = 0


def _arrays_of(document: Document, segment: _Segment) -> DocumentArrays:
    trie = segment.trie
    element_symbols = trie.symbols_of(NodeKind.ELEMENT, document.names)
    attribute_symbols = trie.symbols_of(NodeKind.ATTRIBUTE, document.names)
    return DocumentArrays(
        *map(
            np.asarray,
            (
                document.parents,
                document.tags,
                document.attribute_owners,
                document.attribute_tags,
                document.text_owners,
                element_symbols,
                attribute_symbols,
            ),
        )
    )


class GrowingArray:
    """An array of 32-bit integers with room at its end."""

    def __init__(self) -> None:
        self.values: _Ints = np.zeros(64, np.int32)
        self._length = 0

    def __len__(self) -> int:
        return self._length

    def append(self, value: int) -> None:
        if self._length == len(self.values):
            self.values = np.concatenate((self.values, np.zeros_like(self.values)))
        self.values[self._length] = value
        self._length += 1
