"""Tests that must be evaluated on values: LIKE, regular expressions, computed conditions, sets that slots cannot hold.

`AttributeTests` evaluates all tests on one attribute for one value, `EventSearches` all searches through the values of
an event. Patterns are found by a table (`pattern_table`), which the kernels read for whole columns too
(`pattern_cache`). Results are cached by value, because streams repeat themselves.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cached_property
from typing import Final

from palio.events.values import Scalar
from palio.filters.expressions.extension_functions import cast_text
from palio.filters.expressions.text_cast import may_occur_in_non_string
from palio.filters.kinds import MISSING, Kind, Value
from palio.filters.like import LikePattern
from palio.filters.regex import Regex
from palio.filters.tree import Attributes
from palio.filters.value_predicates import Computed, Like, Rlike, Test, XPath
from palio.matching.columnar.conditions import SetMembership, ValueTest, WholeEventSearch
from palio.matching.columnar.document_patterns import DocumentPatterns
from palio.matching.columnar.pattern_skeletons import CodedPattern
from palio.matching.columnar.pattern_table import PatternTable

_MAX_CACHED_VALUES: Final = 50_000  # per attribute; then the cache is cleared
_MAX_CACHED_CHARS: Final = 1_000  # of a value
_MAX_WITHOUT_TABLE: Final = 4  # patterns that are faster evaluated one by one


class AttributeTests:
    """All tests on one attribute; evaluating them on a value gives the codes of those that hold."""

    def __init__(self, tests: Sequence[tuple[int, ValueTest]]) -> None:
        self.patterns: list[CodedPattern] = []
        self.of_strings: list[tuple[int, ValueTest]] = []  # beside patterns
        self.of_others: list[tuple[int, ValueTest]] = []
        xpaths: list[tuple[int, Test]] = []
        for code, test in tests:
            match test:
                case Test(Like(pattern), True):
                    self.patterns.append(CodedPattern(code, pattern))
                case Test(Rlike(regex), True):
                    self.patterns.append(CodedPattern(code, regex))
                case Test(XPath()):
                    xpaths.append((code, test))
                case SetMembership(values):
                    self.of_others.append((code, test))
                    if not values.parts[Kind.STRING].is_empty:
                        self.of_strings.append((code, test))
                case _:
                    if not _is_of_strings_only(test):
                        self.of_others.append((code, test))
                    self.of_strings.append((code, test))
        self.documents = DocumentPatterns(xpaths) if xpaths else None
        self._cache: dict[str, tuple[int, ...]] = {}
        self.when_missing = self._evaluate_other(MISSING)
        self.when_null = self._evaluate_other(None)

    def codes(self, value: Value) -> tuple[int, ...]:
        """The codes of all tests that hold for a value."""
        if value is None:
            return self.when_null
        if type(value) is not str:
            return self._evaluate_other(value) if self.of_others else ()
        known = self._cache.get(value)
        if known is None:
            known = self._evaluate(value)
            if len(value) <= _MAX_CACHED_CHARS:
                if len(self._cache) >= _MAX_CACHED_VALUES:
                    self._cache = {}
                self._cache[value] = known
        return known

    @cached_property
    def table(self) -> PatternTable:
        """The patterns, for the kernels."""
        return PatternTable(self.patterns)

    @cached_property
    def _find(self) -> Callable[[str], list[int]]:
        return _finder(self.patterns, lambda: self.table)

    def _evaluate(self, text: str) -> tuple[int, ...]:
        codes = [code for code, test in self.of_strings if predicate_of(test)(text)]
        if self.documents is not None:
            codes += self.documents.codes(text)
        return (*codes, *self._find(text))

    def _evaluate_other(self, value: Value) -> tuple[int, ...]:
        return tuple(code for code, test in self.of_others if predicate_of(test)(value))


class EventSearches:
    """All searches through the values of an event; `codes` gives those of the searches that find something."""

    def __init__(self, searches: Iterable[tuple[int, WholeEventSearch]]) -> None:
        self.patterns = [CodedPattern(code, _pattern_of(search)) for code, search in searches]
        self._cache: dict[str, tuple[int, ...]] = {}
        self._of_others = [pattern for pattern in self.patterns if may_occur_in_non_string(pattern.longest_piece)]
        self.reads_others = bool(self._of_others)  # whether something may be found in a value that is no string

    @cached_property
    def _find(self) -> Callable[[str], list[int]]:
        return _finder(self.patterns, lambda: PatternTable(self.patterns))

    @cached_property
    def _find_in_others(self) -> Callable[[str], list[int]]:
        return _finder(self._of_others, lambda: PatternTable(self._of_others))

    def codes(self, attributes: Attributes) -> list[int]:
        """The codes of all searches that find something in an event."""
        found: set[int] = set()
        for value in attributes.values():
            for each in value if type(value) is tuple else (value,):
                found.update(self.of_value(each))  # type: ignore[arg-type]
        return list(found)

    def of_value(self, value: Scalar) -> tuple[int, ...]:
        """The codes of the searches that find something in a value."""
        if type(value) is not str:
            text = cast_text(value, "UTC") if self.reads_others else None
            return () if text is None else tuple(self._find_in_others(text))
        known = self._cache.get(value)
        if known is None:
            known = tuple(self._find(value))
            if len(value) <= _MAX_CACHED_CHARS:
                if len(self._cache) >= _MAX_CACHED_VALUES:
                    self._cache = {}
                self._cache[value] = known
        return known


def _pattern_of(search: WholeEventSearch) -> LikePattern | Regex:
    if search.function == "any_value_rlike":
        return Regex.compile(search.pattern)
    return LikePattern.parse(search.pattern, ignore_case=search.function == "any_value_ilike")


def predicate_of(test: ValueTest) -> Callable[[Value], bool]:
    """The function that evaluates a test on a value."""
    if isinstance(test, SetMembership):
        return test.values.contains
    assert isinstance(test, Test)  # a search is of no attribute
    return test.passes


def _is_of_strings_only(test: ValueTest) -> bool:
    """Whether no value but a string can pass."""
    return isinstance(test, Test) and isinstance(test.pattern, Computed) and test.pattern.is_string_only


def _finder(patterns: Sequence[CodedPattern], table: Callable[[], PatternTable]) -> Callable[[str], list[int]]:
    """A function that gives the codes of the patterns a text satisfies."""
    if len(patterns) > _MAX_WITHOUT_TABLE:
        return table().find
    tests = [(each.code, each.accepts) for each in patterns]
    return lambda text: [code for code, accepts in tests if accepts(text)]
