"""Tests on one value that intervals cannot express: LIKE, RLIKE, XPath, and conditions computed from one attribute.

A `Test` is a pattern and whether it must hold or fail. The strings that contain 'abc' cannot be enumerated, so the
algebra of value sets keeps tests beside the intervals and reasons about them with the few sound rules of the classical
string operators (Jerzak §2.3.2: substring, prefix, suffix). `palio.filters.like` and `palio.filters.regex` compile the
patterns themselves.

**Computed ranges.** `lower(x) LIKE 'ab%'` computes `lower(x)` and requires it to be in a set, the set of `y LIKE
'ab%'`. Two conditions on the same computed value are therefore compared like two conditions on an attribute, which is
how `cesql_int(hop) < 10` is known to cover `cesql_int(hop) < 5`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import cached_property
from itertools import combinations
from types import EllipsisType
from typing import TYPE_CHECKING, Final, TypeAlias

from palio.events.values import Scalar
from palio.filters.expressions.ast import Call, Expression, Literal, Micros, Months, attributes_of
from palio.filters.expressions.value_comparison import MIRRORED
from palio.filters.kinds import KINDS, MISSING, Kind, Value, cut_after
from palio.filters.like import LikePattern
from palio.filters.pattern_texts import PatternTexts
from palio.filters.regex import Regex
from palio.filters.xml_text import text_matches
from palio.xml.containment import contains, patterns_exclude
from palio.xml.pattern import Pattern as TreePattern

if TYPE_CHECKING:
    from palio.filters.comparisons import Truth
    from palio.filters.value_sets import Intervals, ValueSet


@dataclass(frozen=True)
class Like:
    """A string is LIKE a pattern; exact texts and plain prefixes are intervals instead."""

    pattern: LikePattern

    def accepts(self, value: Value) -> bool:
        return isinstance(value, str) and self.pattern.matches(value)

    def implies(self, other: Pattern) -> bool:
        """Whether every string that satisfies this pattern is known to satisfy the other."""
        if self == other:
            return True
        if not isinstance(other, Like):
            return False
        mine, theirs = self.pattern, other.pattern
        # Every string satisfies '%', whatever its case; without this, 'ß' implied LIKE '%', LIKE '%' implied ILIKE '%',
        # and 'ß' did not imply ILIKE '%'.
        if theirs.matches_every_string:
            return True
        if mine.ignore_case and not theirs.ignore_case:
            return False
        # ILIKE lowers both sides; a case-sensitive match implies the folded one, and never the other way round.
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
class Rlike:
    """A substring matches a regular expression."""

    regex: Regex

    def accepts(self, value: Value) -> bool:
        return isinstance(value, str) and self.regex.search(value)

    def implies(self, other: Pattern) -> bool:
        return self == other


@dataclass(frozen=True)
class XPath:
    """The XML document that a string is matches a tree pattern; NULL for strings that are none."""

    pattern: TreePattern

    def accepts(self, value: Value) -> bool | None:
        return text_matches(value, self.pattern) if isinstance(value, str) else None

    def implies(self, other: Pattern) -> bool:
        return isinstance(other, XPath) and contains(other.pattern, self.pattern)


@dataclass(frozen=True)
class Computed:
    """An expression over one attribute is TRUE (or, where `wants` is False, FALSE)."""

    expression: Expression
    wants: bool = True
    timezone: str = "UTC"

    def accepts(self, value: Value) -> bool:
        # A missing attribute is absent from the row; null is a value of its own.
        row: dict[str, Scalar] = {} if value is MISSING else {self._attribute: value}  # type: ignore[dict-item]
        return self._compiled(row, {}) is self.wants

    def implies(self, other: Pattern) -> bool:
        if self == other:
            return True
        ranges = self._ranges_with(other) if isinstance(other, Computed) else None
        return ranges is not None and ranges[1].covers(ranges[0])

    def excludes(self, other: Computed) -> bool:
        """Whether no value is known to satisfy both."""
        ranges = self._ranges_with(other)
        return ranges is not None and not ranges[0].overlaps(ranges[1])

    def _ranges_with(self, other: Computed) -> tuple[ValueSet, ValueSet] | None:
        """The ranges of both, where they are ranges of the same computed value, as written or when rewritten."""
        mine, theirs = self._range, other._range
        if mine is None or theirs is None or self.timezone != other.timezone:
            return None
        if mine[0] != theirs[0]:
            mine, theirs = self._canonical_range, other._canonical_range
            if mine is None or theirs is None or mine[0] != theirs[0]:
                return None
        return mine[1], theirs[1]

    @cached_property
    def is_string_only(self) -> bool:
        """Whether no value but a string can satisfy it."""
        from palio.filters.expressions.static_analysis import is_string_only

        return is_string_only(self.expression, self.wants)

    @cached_property
    def _range(self) -> tuple[Expression, ValueSet] | None:
        return computed_range(self.expression, self.wants, self.timezone)

    @cached_property
    def _canonical_range(self) -> tuple[Expression, ValueSet] | None:
        from palio.filters.rewriting import canonical_range

        return canonical_range(self.expression, self.wants, self.timezone)

    @cached_property
    def _attribute(self) -> str:
        (name,) = attributes_of(self.expression)
        return name

    @cached_property
    def _compiled(self) -> Callable[[dict[str, Scalar], dict[str, tuple[Scalar, ...]]], object]:
        from palio.filters.expressions.special_forms import compile_expression

        return compile_expression(self.expression, self.timezone)

    def __getstate__(self) -> dict[str, object]:
        return {"expression": self.expression, "wants": self.wants, "timezone": self.timezone}


Pattern: TypeAlias = Like | Rlike | XPath | Computed

TEXT_FUNCTION_PATTERNS: Final[dict[str, Callable[[str], LikePattern]]] = {
    "startswith": LikePattern.starting,
    "endswith": LikePattern.ending,
    "contains": LikePattern.containing,
}
PATTERNS: Final[dict[str, Callable[[str], LikePattern | Regex]]] = {
    "like": LikePattern.parse,
    "rlike": Regex.compile,
    "ilike": lambda text: LikePattern.parse(text, ignore_case=True),
    **TEXT_FUNCTION_PATTERNS,
}
"""Conditions that a string matches a pattern, by function, with the pattern that a text is."""


@dataclass(frozen=True)
class Test:
    """A pattern, and whether it is to hold."""

    pattern: Pattern
    wanted: bool = True

    __test__ = False  # not a test case, whatever a test collector thinks of the name

    @cached_property
    def key(self) -> str:
        """A sort key that depends on the content only."""
        if isinstance(self.pattern, Like):  # as repr() gives it, and ten times as fast
            like = self.pattern.pattern
            text = f"LikePattern(tokens={like.tokens!r}, ignore_case={like.ignore_case})"
            return f"Test(pattern=Like(pattern={text}), wanted={self.wanted})"
        return repr(self)

    def __getstate__(self) -> dict[str, object]:
        return {"pattern": self.pattern, "wanted": self.wanted}

    def applies_to(self, kind: Kind) -> bool:
        """Whether any value of a kind can pass: LIKE and NOT LIKE are NULL for values other than strings."""
        return kind is Kind.STRING or (isinstance(self.pattern, Computed) and not self.pattern.is_string_only)

    def passes(self, value: Value) -> bool:
        return self.pattern.accepts(value) is self.wanted

    def implies(self, other: Test) -> bool:
        """Whether every value that passes this test is known to pass the other."""
        if self.wanted and other.wanted:
            return self.pattern.implies(other.pattern)
        if not self.wanted and not other.wanted:
            # Contraposition: NOT p implies NOT q where q implies p.
            return other.pattern.implies(self.pattern)
        return self.wanted and _exclusive(self.pattern, other.pattern)

    def holds_throughout(self, parts: Sequence[Intervals]) -> bool:
        """Whether the intervals alone are known to make every value pass."""
        if parts[Kind.STRING].inside:  # unbounded below: no common prefix
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
            # An interval of one string is tested itself; of a longer one only the common prefix is known.
            if high is not None and cut_after(kind, low) == high:
                if not self.passes(low):
                    return False
            elif not self._holds_after(common_prefix(low, high)):
                return False
        return True

    def _holds_after(self, prefix: str) -> bool:
        """Whether all strings with a prefix pass."""
        if not prefix or not isinstance(self.pattern, Like):
            return False
        some = Like(LikePattern.starting(prefix))
        return some.implies(self.pattern) if self.wanted else _exclusive(some, self.pattern)


def _exclusive(first: Pattern, second: Pattern) -> bool:
    """Whether two patterns are known to be disjoint: by fixed starts or ends, or by what they ask for."""
    if isinstance(first, Computed) and isinstance(second, Computed):
        return first.excludes(second)
    if isinstance(first, XPath) and isinstance(second, XPath):
        return patterns_exclude(first.pattern, second.pattern)
    if not (isinstance(first, Like) and isinstance(second, Like)):
        return False
    a, b = first.pattern, second.pattern
    if a.ignore_case or b.ignore_case:
        return False
    if not (a.starts.startswith(b.starts) or b.starts.startswith(a.starts)):
        return True
    return not (a.ends.endswith(b.ends) or b.ends.endswith(a.ends))


def common_prefix(low: str, high: str | None) -> str:
    """The longest common prefix of all strings between two cuts."""
    from palio.filters.value_sets import after_prefix

    # A prefix of the lower cut is common to all strings if its range ends at or above the upper cut.
    for length in range(len(low), 0, -1):
        end = after_prefix(low[:length])
        if end is None or (high is not None and high <= end):
            return low[:length]
    return ""


_MAX_PAIRWISE_TESTS = 64  # more tests are not compared pair by pair
_FEW_TESTS = 4  # of which all pairs are compared sooner than their texts are searched


def are_contradictory(tests: frozenset[Test]) -> bool:
    """Whether some of these tests are known to exclude each other."""
    wanted = [each for each in tests if each.wanted]
    if not wanted:
        return False  # of no two patterns it is known that every string matches one
    if any(Test(each.pattern, False) in tests for each in wanted):
        return True
    if any(isinstance(each.pattern, XPath) and each.pattern.pattern.is_never for each in wanted):
        return True
    if len(tests) > _MAX_PAIRWISE_TESTS:
        return False
    if any(_exclusive(one.pattern, two.pattern) for one, two in combinations(wanted, 2)):
        return True
    return any(one.pattern.implies(two.pattern) for two in tests if not two.wanted for one in wanted)


def drop_implied(tests: frozenset[Test]) -> frozenset[Test]:
    """The tests without those that another one implies."""
    if len(tests) > _MAX_PAIRWISE_TESTS:
        return tests
    if len(tests) < _FEW_TESTS or not all(isinstance(each.pattern, Like) and not each.wanted for each in tests):
        return frozenset(one for one in tests if not any(two is not one and _replaces(two, one) for two in tests))
    # NOT LIKE '%a%' implies NOT LIKE '%ab%': what another pattern implies is looked for first, and is rare.
    texts = PatternTexts(each.pattern.pattern for each in tests if isinstance(each.pattern, Like))
    wide = [each for each in tests if isinstance(each.pattern, Like) and texts.may_be_implied(each.pattern.pattern)]
    if not wide:
        return tests
    return frozenset(one for one in tests if not any(two is not one and _replaces(two, one) for two in wide))


def _replaces(one: Test, two: Test) -> bool:
    """Whether a test makes another redundant; of two equivalent tests, the first in order does."""
    return one.implies(two) and (not two.implies(one) or one.key < two.key)


def computed_range(expression: Expression, wants: bool, timezone: str) -> tuple[Expression, ValueSet] | None:
    """The computed value that a condition restricts, and the set it must be in; None for other conditions."""
    # Value sets are built on tests, so these modules cannot be imported above.
    from palio.filters.comparisons import Truth, equal_to_any
    from palio.filters.value_sets import NULLS, PRESENT

    truth: Truth | None = None
    match expression:
        case Call("istrue" | "isfalse" as function, (condition,)):
            # Never NULL: FALSE wherever it is not TRUE.
            inner = computed_range(condition, function == "istrue", timezone)
            if inner is None or wants:
                return inner
            return (inner[0], inner[1].complement()) if inner[1].is_enumerable else None
        case Call("isnull", (Call() as value,)):
            truth = Truth(NULLS, PRESENT)
        case Call(function, (Call() as value, Literal(str() as text))) if function in PATTERNS:
            try:
                pattern = PATTERNS[function](text)
            except ValueError:
                return None
            return value, _pattern_range(pattern, wants)
        case Call("between", (Call() as value, low, high)):
            least, most = (_comparison(op, end, timezone) for op, end in ((">=", low), ("<=", high)))
            if least is not None and most is not None:
                truth = least.conjoin(most)
        case Call(function, (Call() as value, literal)) if function in MIRRORED and attributes_of(value):
            truth = _comparison(function, literal, timezone)
        case Call(function, (literal, Call() as value)) if function in MIRRORED:
            truth = _comparison(MIRRORED[function], literal, timezone)
        case Call("in", (Call() as value, *items)):
            constants = [_constant(each, timezone) for each in items]
            if not any(isinstance(each, Months | Micros | EllipsisType) for each in constants):
                truth = _within_years(equal_to_any(constants, timezone), constants, timezone)  # type: ignore[arg-type]
    if truth is None or not attributes_of(value):
        return None
    return value, truth.true if wants else truth.false


def _comparison(operator: str, constant: Expression, timezone: str) -> Truth | None:
    """The meaning of a comparison with a constant; None where it is none, or an interval."""
    from palio.filters.comparisons import Truth, compare_literal

    literal = _constant(constant, timezone)
    if isinstance(literal, Months | Micros | EllipsisType):
        return None
    truth = _within_years(compare_literal(operator, literal, timezone), [literal], timezone)
    if truth is None or operator != "<=>":
        return truth
    return Truth(truth.true, truth.true.complement())  # never NULL


def _within_years(truth: Truth, constants: Sequence[object], timezone: str) -> Truth | None:
    """A comparison as it is computed: where a zone is ahead of UTC, the first midnight of the year 1 is NULL.

    As an attribute's value the day is compared all the same. None where a constant is that day.
    """
    from palio.filters.comparisons import Truth
    from palio.filters.value_sets import ValueSet

    if timezone == "UTC" or not any(isinstance(each, date) for each in constants) or _has_first_midnight(timezone):
        return truth
    if any(type(each) is date and each == date.min for each in constants):
        return None
    if not any(isinstance(each, datetime) for each in constants):
        return truth
    others = ValueSet.points([date.min]).complement()
    return Truth(truth.true.intersect(others), truth.false.intersect(others))


def _has_first_midnight(timezone: str) -> bool:
    from palio.filters.expressions.coercion import midnight

    try:
        midnight(date.min, timezone)
    except OverflowError:
        return False
    return True


def _constant(expression: Expression, timezone: str) -> Scalar | Months | Micros | EllipsisType:
    """The value of an expression that reads nothing of the event; an ellipsis for any other."""
    if isinstance(expression, Literal):
        return expression.value
    from palio.filters.expressions.extension_functions import reads_whole_event
    from palio.filters.expressions.special_forms import compile_expression

    if attributes_of(expression) or reads_whole_event(expression):
        return ...
    value = compile_expression(expression, timezone)({}, {})
    assert not isinstance(value, tuple)  # only attributes have arrays
    return value


def _pattern_range(pattern: LikePattern | Regex, wants: bool) -> ValueSet:
    """The strings that match a pattern, or do not; it is NULL for everything else."""
    from palio.filters.value_sets import STRINGS, ValueSet

    if isinstance(pattern, Regex):
        return STRINGS.where([Test(Rlike(pattern), wants)])
    if pattern.ignore_case or pattern.shape not in ("exact", "prefix"):
        return STRINGS.where([Test(Like(pattern), wants)])
    inside = ValueSet.points([pattern.text]) if pattern.shape == "exact" else ValueSet.prefix(pattern.text)
    return inside if wants else STRINGS.intersect(inside.complement())
