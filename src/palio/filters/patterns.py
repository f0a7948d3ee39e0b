"""Tests that can only be asked of a value: patterns over strings, and conditions computed from one attribute.

A `Test` is a pattern and whether it is wanted to hold. Nobody can list the strings that contain 'abc', so the
algebra of value sets keeps tests beside the intervals and reasons about them with the few sound rules that the
classical string operators have (Jerzak §2.3.2: substring, prefix, suffix).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, TypeAlias

from palio.events.values import Scalar
from palio.filters.expressions.tree import Expression, attributes_of
from palio.filters.intervals import Intervals
from palio.filters.kinds import KINDS, MISSING, Kind, Value, cut_after
from palio.filters.like import LikePattern
from palio.filters.regex import Regex

if TYPE_CHECKING:
    from palio.filters.values import ValueSet


@dataclass(frozen=True)
class Like:
    """A string is LIKE a pattern; exact texts and plain prefixes are intervals and never come here."""

    pattern: LikePattern

    def accepts(self, value: Value) -> bool:
        return isinstance(value, str) and self.pattern.matches(value)

    def implies(self, other: Pattern) -> bool:
        """Whether every string that is like this is known to satisfy the other pattern."""
        if self == other:
            return True
        if not isinstance(other, Like):
            return False
        mine, theirs = self.pattern, other.pattern
        if mine.ignore_case and not theirs.ignore_case:
            return False
        if theirs.ignore_case and not (mine.is_ascii and theirs.is_ascii):
            return False  # outside ASCII a letter's lower case may depend on its neighbours
        return _implies(mine, theirs)


def _implies(mine: LikePattern, theirs: LikePattern) -> bool:
    wanted = theirs.text  # in lower case, where case is ignored
    fold = theirs.ignore_case and not mine.ignore_case
    match theirs.shape:
        case "substring":
            for run in mine.literals:
                if len(run) >= len(wanted) and wanted in (run.lower() if fold else run):
                    return True
        case "suffix":
            return (mine.ends.lower() if fold else mine.ends).endswith(wanted)
        case "prefix":
            return (mine.starts.lower() if fold else mine.starts).startswith(wanted)
    return False


@dataclass(frozen=True)
class Matching:
    """A string has a part that matches a regular expression."""

    regex: Regex

    def accepts(self, value: Value) -> bool:
        return isinstance(value, str) and self.regex.search(value)

    def implies(self, other: Pattern) -> bool:
        return self == other


@dataclass(frozen=True)
class Computed:
    """An expression over one attribute is TRUE (or, where `wants` is False, FALSE)."""

    expression: Expression
    wants: bool = True
    timezone: str = "UTC"

    def accepts(self, value: Value) -> bool:
        row: dict[str, Scalar] = {} if value is MISSING else {self._attribute: value}  # type: ignore[dict-item]
        return self._compiled(row, {}) is self.wants

    def implies(self, other: Pattern) -> bool:
        if self == other:
            return True
        demands = self._demands_with(other) if isinstance(other, Computed) else None
        return demands is not None and demands[1].covers(demands[0])

    def excludes(self, other: Computed) -> bool:
        """Whether no value is known to satisfy both."""
        demands = self._demands_with(other)
        return demands is not None and not demands[0].overlaps(demands[1])

    def _demands_with(self, other: Computed) -> tuple[ValueSet, ValueSet] | None:
        """The sets in which both want the same computed value; None where there is no such value."""
        mine, theirs = self._demand, other._demand
        if mine is None or theirs is None or mine[0] != theirs[0] or self.timezone != other.timezone:
            return None
        return mine[1], theirs[1]

    @cached_property
    def is_about_text(self) -> bool:
        """Whether no value but a string can satisfy it."""
        from palio.filters.expressions.nullness import asks_text

        return asks_text(self.expression, self.wants)

    @cached_property
    def _demand(self) -> tuple[Expression, ValueSet] | None:
        """What is computed, and the set that it must be in, where a condition says no more than that."""
        from palio.filters.demands import demand

        return demand(self.expression, self.wants, self.timezone)

    @cached_property
    def _attribute(self) -> str:
        (name,) = attributes_of(self.expression)
        return name

    @cached_property
    def _compiled(self) -> Callable[[dict[str, Scalar], dict[str, tuple[Scalar, ...]]], object]:
        from palio.filters.expressions.evaluate import compile_expression

        return compile_expression(self.expression, self.timezone)

    def __getstate__(self) -> dict[str, object]:
        return {"expression": self.expression, "wants": self.wants, "timezone": self.timezone}


Pattern: TypeAlias = Like | Matching | Computed


@dataclass(frozen=True)
class Test:
    """A pattern, and whether it is to hold."""

    pattern: Pattern
    wanted: bool = True

    __test__ = False  # not a test case, whatever a test collector thinks of the name

    @cached_property
    def key(self) -> str:
        """What it is, written out, to put tests in order by."""
        return repr(self)

    def __getstate__(self) -> dict[str, object]:
        return {"pattern": self.pattern, "wanted": self.wanted}

    def applies_to(self, kind: Kind) -> bool:
        """Whether any value of a kind can pass: LIKE, wanted or not, is NULL for what is no string."""
        return kind is Kind.STRING or (isinstance(self.pattern, Computed) and not self.pattern.is_about_text)

    def passes(self, value: Value) -> bool:
        return self.pattern.accepts(value) is self.wanted

    def implies(self, other: Test) -> bool:
        """Whether every value that passes this test is known to pass the other."""
        if self.wanted and other.wanted:
            return self.pattern.implies(other.pattern)
        if not self.wanted and not other.wanted:
            return other.pattern.implies(self.pattern)
        return self.wanted and _exclusive(self.pattern, other.pattern)

    def holds_throughout(self, parts: Sequence[Intervals]) -> bool:
        """Whether the intervals alone are known to make every value pass."""
        if parts[Kind.STRING].inside:  # too many strings to tell
            return False
        for kind, part in zip(KINDS, parts, strict=True):
            if not part.is_empty and not self._holds_in(kind, part):
                return False
        return True

    def fails_throughout(self, parts: Sequence[Intervals]) -> bool:
        """Whether the intervals alone are known to make every value fail."""
        return Test(self.pattern, not self.wanted).holds_throughout(parts)

    def _holds_in(self, kind: Kind, part: Intervals) -> bool:
        if kind is not Kind.STRING or part.inside:
            return False
        for low, high in part.spans():
            assert low is not None  # the part does not begin inside
            if high is not None and cut_after(kind, low) == high:
                if not self.passes(low):
                    return False
            elif not self._holds_after(_common_prefix(low, high)):
                return False
        return True

    def _holds_after(self, prefix: str) -> bool:
        """Whether all strings with a prefix pass."""
        if not prefix or not isinstance(self.pattern, Like):
            return False
        some = Like(LikePattern.starting(prefix))
        return some.implies(self.pattern) if self.wanted else _exclusive(some, self.pattern)


def _exclusive(first: Pattern, second: Pattern) -> bool:
    """Whether no value is known to satisfy both: their fixed starts or ends differ, or what they compute would."""
    if isinstance(first, Computed) and isinstance(second, Computed):
        return first.excludes(second)
    if not (isinstance(first, Like) and isinstance(second, Like)):
        return False
    a, b = first.pattern, second.pattern
    if a.ignore_case or b.ignore_case:
        return False
    if not (a.starts.startswith(b.starts) or b.starts.startswith(a.starts)):
        return True
    return not (a.ends.endswith(b.ends) or b.ends.endswith(a.ends))


def _common_prefix(low: str, high: str | None) -> str:
    """The longest text with which every string between two cuts starts."""
    from palio.filters.values import after_prefix

    for length in range(len(low), 0, -1):
        end = after_prefix(low[:length])
        if end is None or (high is not None and high <= end):
            return low[:length]
    return ""


_MOST_COMPARED = 64  # tests that are compared with each other, pair by pair


def contradict(tests: frozenset[Test]) -> bool:
    """Whether some of these tests are known to exclude each other."""
    if any(Test(each.pattern, not each.wanted) in tests for each in tests):
        return True
    if len(tests) > _MOST_COMPARED:
        return False
    return any(one.implies(Test(two.pattern, not two.wanted)) for one in tests for two in tests if one != two)


def drop_implied(tests: frozenset[Test]) -> frozenset[Test]:
    """Without the tests that another one makes superfluous."""
    if len(tests) > _MOST_COMPARED:
        return tests
    return frozenset(one for one in tests if not any(two != one and _replaces(two, one) for two in tests))


def _replaces(one: Test, two: Test) -> bool:
    """Whether a test makes another superfluous; of two that say the same, the first in order does."""
    return one.implies(two) and (not two.implies(one) or repr(one) < repr(two))
