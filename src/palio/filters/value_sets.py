"""Sets of values: `Intervals` of one kind, and `ValueSet`, the values that one attribute may take.

**Intervals.** A set of values of one kind is represented by the cuts at which membership changes. Going up the order
of the kind, a value is inside or outside the set; `inside` is the state at the bottom, and each cut flips it. One
sorted tuple of cuts is therefore canonical: equal sets have equal cuts, and every operation is one merge of two sorted
tuples. The rejected alternative, a list of (low, high, open, closed) records, needs a case for every combination of
ends, and has several representations of one set.

**Value sets.** A `ValueSet` has one part per kind of value, a union of intervals and points, and a conjunction of
*tests* that can be evaluated on a value but not enumerated (LIKE with wildcards in the middle, regular expressions,
computed conditions). Sets without tests form a Boolean algebra and every operation on them is exact. With tests,
intersection is exact and the relations are sound: "covers" and "is empty" may say no where the truth is yes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Context, Decimal
from fractions import Fraction
from operator import and_, or_
from typing import Any

from palio.errors import InvalidArgument
from palio.filters.expressions.static_analysis import preserves_equality
from palio.filters.kinds import (
    HIGHEST_CUT,
    KIND_OF_TYPE,
    KINDS,
    LOWEST_CUT,
    MISSING,
    Kind,
    Position,
    Value,
    cut_after,
    float_at,
    kind_of,
    position_of,
    timestamp_at,
)
from palio.filters.value_predicates import Computed, Test, are_contradictory, drop_implied


@dataclass(frozen=True, slots=True)
class Intervals:
    """A union of disjoint intervals and points of one kind."""

    inside: bool
    cuts: tuple[Position, ...] = ()

    def contains(self, position: Position) -> bool:
        """Whether the value at this position is in the set."""
        # Every cut at or below the position has flipped the state at the bottom.
        return bool(bisect_right(self.cuts, position) & 1) ^ self.inside

    @property
    def is_empty(self) -> bool:
        return not self.inside and not self.cuts

    @property
    def is_full(self) -> bool:
        return self.inside and not self.cuts

    def complement(self) -> Intervals:
        return Intervals(not self.inside, self.cuts)

    def intersect(self, other: Intervals) -> Intervals:
        if self.is_full or other.is_empty or self == other:
            return other
        if other.is_full or self.is_empty:
            return self
        # At most two ends each: both sets are one interval.
        if len(self.cuts) + self.inside <= 2 and len(other.cuts) + other.inside <= 2:
            return _intersect_single(self, other)
        return _combine(self, other, and_)

    def union(self, other: Intervals) -> Intervals:
        if self.is_empty or other.is_full or self == other:
            return other
        if other.is_empty or self.is_full:
            return self
        return _combine(self, other, or_)

    def covers(self, other: Intervals) -> bool:
        """Whether every value of the other set is in this one."""
        # Without properties and generators: covering asks this most, and nearly always for a no.
        mine, theirs = self.cuts, other.cuts
        if not theirs:
            return not other.inside or (self.inside and not mine)
        if not mine:
            return self.inside
        if other.inside and not (self.inside and mine[0] >= theirs[0]):
            return False
        # Found by bisection for each interval of the other set, because one of the two often has very many.
        for at in range(other.inside, len(theirs), 2):
            above = bisect_right(mine, theirs[at])
            if bool(above & 1) is self.inside:  # outside of this set where the interval begins
                return False
            if above < len(mine) and (at + 1 == len(theirs) or mine[above] < theirs[at + 1]):
                return False
        return True

    def overlaps(self, other: Intervals) -> bool:
        """Whether some value is in both sets."""
        return not self.intersect(other).is_empty

    @property
    def _ends(self) -> tuple[Position | None, Position | None]:
        """The cuts of a set that is one interval and has an end; None where it has no end."""
        if self.inside:
            return None, self.cuts[0]
        return self.cuts[0], self.cuts[1] if len(self.cuts) == 2 else None

    def spans(self) -> Iterator[tuple[Position | None, Position | None]]:
        """The intervals in order, as (cut below, cut above); None where the kind's order has no end."""
        ends: list[Position | None] = [None, *self.cuts] if self.inside else list(self.cuts)
        if len(ends) % 2:
            ends.append(None)
        yield from zip(ends[::2], ends[1::2], strict=True)


EMPTY = Intervals(False)
FULL = Intervals(True)


def span(kind: Kind, low: Position | None, high: Position | None) -> Intervals:
    """All values between two cuts; None is no bound."""
    # A bound at the end of a kind is none: "at least the smallest" and "any" must be equal sets.
    if low is not None and kind in LOWEST_CUT and low <= LOWEST_CUT[kind]:
        low = None
    if high is not None and kind in HIGHEST_CUT and high >= HIGHEST_CUT[kind]:
        high = None
    if low is not None and kind in HIGHEST_CUT and low >= HIGHEST_CUT[kind]:
        return EMPTY
    if high is not None and (kind in LOWEST_CUT and high <= LOWEST_CUT[kind]):
        return EMPTY
    if low is None:
        return FULL if high is None else Intervals(True, (high,))
    if high is None:
        return Intervals(False, (low,))
    return Intervals(False, (low, high)) if low < high else EMPTY


def point(kind: Kind, position: Position) -> Intervals:
    """The set of one value."""
    return span(kind, position, cut_after(kind, position))


def union_all(sets: Iterable[Intervals]) -> Intervals:
    """The union of many sets, in one sort instead of a merge each: an IN list may have a hundred thousand values."""
    items = [each for each in sets if each.inside or each.cuts]
    if len(items) < 2:
        return items[0] if items else EMPTY
    joined = _join_disjoint(items)
    if joined is not None:
        return joined
    # A sweep over all cuts: `depth` is the number of sets that contain the current position.
    depth = sum(each.inside for each in items)
    inside = depth > 0
    steps: list[tuple[Position, int]] = []
    for each in items:
        step = -1 if each.inside else 1
        for cut in each.cuts:
            steps.append((cut, step))
            step = -step
    steps.sort(key=lambda pair: pair[0])
    cuts: list[Position] = []
    state = inside
    index = 0
    while index < len(steps):
        cut = steps[index][0]
        # Steps at one cut are applied together, so that adjacent intervals join without a cut between them.
        while index < len(steps) and steps[index][0] == cut:
            depth += steps[index][1]
            index += 1
        if (depth > 0) != state:
            cuts.append(cut)
            state = not state
    return Intervals(inside, tuple(cuts))


def _join_disjoint(items: list[Intervals]) -> Intervals | None:
    """The union of sets none of which reaches into another, such as the points of a list; None where some do."""
    if any(each.inside or len(each.cuts) & 1 for each in items):
        return None
    cuts: list[Position] = []
    for each in sorted(items, key=lambda item: item.cuts[0]):
        first = each.cuts[0]
        if cuts and cuts[-1] == first:  # adjacent: no cut between them
            cuts.pop()
            cuts += each.cuts[1:]
        elif cuts and cuts[-1] > first:
            return None
        else:
            cuts += each.cuts
    return Intervals(False, tuple(cuts))


def _intersect_single(left: Intervals, right: Intervals) -> Intervals:
    """The intersection of two single intervals, by two comparisons: most sets are one interval."""
    low, high = left._ends
    other_low, other_high = right._ends
    if low is None or (other_low is not None and other_low > low):
        low = other_low
    if high is None or (other_high is not None and other_high < high):
        high = other_high
    if low is None:
        return Intervals(True, (high,))
    if high is None:
        return Intervals(False, (low,))
    return Intervals(False, (low, high)) if low < high else EMPTY


def _combine(left: Intervals, right: Intervals, keep: Callable[[bool, bool], bool]) -> Intervals:
    in_left, in_right = left.inside, right.inside
    inside = state = keep(in_left, in_right)
    cuts: list[Position] = []
    first, second = left.cuts, right.cuts
    i = j = 0
    while i < len(first) or j < len(second):
        from_left = j == len(second) or (i < len(first) and first[i] < second[j])
        cut = first[i] if from_left else second[j]
        # A cut of both sets flips both before the state is read, so that no cut without effect is kept.
        if i < len(first) and first[i] == cut:
            in_left = not in_left
            i += 1
        if j < len(second) and second[j] == cut:
            in_right = not in_right
            j += 1
        if keep(in_left, in_right) != state:
            state = not state
            cuts.append(cut)
    return Intervals(inside, tuple(cuts))


_WIDE = Context(prec=1200)  # the points half-way between two floats have up to 1,100 digits
_MAX_ENUMERATED_VALUES = 256  # values of a finite set on which tests are evaluated one by one
_MAX_COMPARED_TESTS = 250_000  # pairs of patterns compared before giving up with "not known to cover"


@dataclass(frozen=True, slots=True)
class ValueSet:
    """The values an attribute may take; `parts` is indexed by `Kind`."""

    parts: tuple[Intervals, ...]
    tests: frozenset[Test] = frozenset()

    @classmethod
    def of(cls, parts: Mapping[Kind, Intervals], tests: Iterable[Test] = ()) -> ValueSet:
        """A set from its parts; kinds that are not named are empty."""
        values = cls(tuple(parts.get(kind, EMPTY) for kind in KINDS))
        return values.where(tests)

    @classmethod
    def points(cls, values: Iterable[Value]) -> ValueSet:
        """The set of exactly these values, each of its own kind."""
        by_kind: dict[Kind, list[Intervals]] = {}
        for value in values:
            if type(value) not in KIND_OF_TYPE:
                raise InvalidArgument(f"no event has a value of type {type(value).__name__}")
            kind = kind_of(value)
            by_kind.setdefault(kind, []).append(point(kind, position_of(kind, value)))
        return cls.of({kind: union_all(sets) for kind, sets in by_kind.items()})

    @classmethod
    def kinds(cls, *kinds: Kind) -> ValueSet:
        """All values of these kinds."""
        return cls.of(dict.fromkeys(kinds, FULL))

    @classmethod
    def prefix(cls, text: str) -> ValueSet:
        """All strings that start with a text: an interval of the string order."""
        return cls.of({Kind.STRING: span(Kind.STRING, text, after_prefix(text))})

    def where(self, tests: Iterable[Test]) -> ValueSet:
        """The values of this set that also pass some tests, in canonical form."""
        # Canonical form: equal sets of values should have equal tests, as far as that is cheap to see.
        wanted = frozenset(tests) | self.tests
        if not wanted:
            return self
        parts = self.parts
        if not all(isinstance(test.pattern, Computed) for test in wanted):  # a pattern holds for strings alone
            parts = _STRINGS if parts[Kind.STRING].is_full else _only_strings(parts[Kind.STRING])
        if (
            len(wanted) == 1 and parts[Kind.STRING].is_full
        ):  # one pattern, as most: all strings neither pass nor fail it
            return ValueSet(parts, wanted)
        # A small finite set is tested value by value, which makes it enumerable again. Not where a point stands for
        # several values that the tests may tell apart.
        listed = ValueSet(parts)._enumerate(_MAX_ENUMERATED_VALUES)
        if listed is not None and not (
            any(map(_distinguishes_equal_values, wanted)) and any(map(_has_equal_representations, listed))
        ):
            return ValueSet.points(value for value in listed if all(test.passes(value) for test in wanted))
        if any(test.fails_throughout(parts) for test in wanted):
            return NO_VALUE
        if len(wanted) > 1:
            if are_contradictory(wanted):
                return NO_VALUE
            wanted = drop_implied(wanted)
        return ValueSet(parts, frozenset(each for each in wanted if not each.holds_throughout(parts)))

    def part(self, kind: Kind) -> Intervals:
        return self.parts[kind]

    def contains(self, value: Value) -> bool:
        """Whether a value is in the set."""
        kind = kind_of(value)
        own = self.parts[kind]
        # Full and empty parts are decided without computing a position: most parts are one of them.
        if own.cuts:
            if not own.contains(position_of(kind, value)):
                return False
        elif not own.inside:
            return False
        return all(test.passes(value) for test in self.tests) if self.tests else True

    @property
    def is_empty(self) -> bool:
        """Whether no value is in the set; with tests, whether that is known."""
        for part in self.parts:  # a plain loop: of all that normalising a filter asks, this is asked most
            if part.inside or part.cuts:
                return False
        return True

    @property
    def is_full(self) -> bool:
        return not self.tests and all(part.is_full for part in self.parts)

    def __hash__(self) -> int:
        # Not of all parts: most are empty.
        if self.parts is _STRINGS:
            return hash((self.tests,))
        return hash((self.tests, *[part.cuts for part in self.parts if part.cuts]))

    @property
    def is_enumerable(self) -> bool:
        """Whether the set is known by its intervals alone, so that every relation is exact."""
        return not self.tests

    def complement(self) -> ValueSet:
        """Every value that is not in the set, of any kind; only for a set without tests."""
        if self.tests:
            raise InvalidArgument("a set with tests has no complement in this algebra; negate the condition instead")
        return ValueSet(tuple(part.complement() for part in self.parts))

    def intersect(self, other: ValueSet) -> ValueSet:
        both = self
        if self.parts == other.parts:
            # Of two sets that differ in tests alone, the one with the tests of both.
            if other.tests <= self.tests:
                return self
            if self.tests <= other.tests:
                return other
        else:
            both = ValueSet(
                tuple(a if a is b else a.intersect(b) for a, b in zip(self.parts, other.parts, strict=True))
            )
        return both.where(self.tests | other.tests)

    def union(self, other: ValueSet) -> ValueSet | None:
        """The union where it is a ValueSet: always without tests; else when one side covers the other."""
        return union_of([self, other])

    def covers(self, other: ValueSet) -> bool:
        """Whether every value of the other set is in this one: exact without tests, else "not known to"."""
        if self.parts is not other.parts:
            for own, theirs in zip(self.parts, other.parts, strict=True):
                if own is not theirs and (theirs.cuts or theirs.inside) and not own.covers(theirs):
                    return False
        # Each own test is implied by a test of the other set, or is known to pass for all of its values.
        missing = self.tests - other.tests
        are_few = len(missing) * len(other.tests) <= _MAX_COMPARED_TESTS
        for test in missing:
            if not (are_few and any(have.implies(test) for have in other.tests)) and not other._all_pass(test):
                return False
        return True

    def _all_pass(self, test: Test) -> bool:
        """Whether every value is known to pass a test: by a common prefix, or one by one."""
        if test.holds_throughout(self.parts):
            return True
        listed = self._enumerate(_MAX_ENUMERATED_VALUES)
        if listed is None or (_distinguishes_equal_values(test) and any(map(_has_equal_representations, listed))):
            return False
        return all(test.passes(value) for value in listed if all(own.passes(value) for own in self.tests))

    def overlaps(self, other: ValueSet) -> bool:
        """Whether some value is in both: exact without tests, else "not known to be disjoint"."""
        if self.parts is other.parts is _STRINGS:  # patterns, mostly: all strings neither pass them nor fail
            return not are_contradictory(self.tests | other.tests)
        return not self.intersect(other).is_empty

    def values(self, limit: int = _MAX_ENUMERATED_VALUES) -> list[Value] | None:
        """The values, where they are finitely many and at most `limit`; else None."""
        if self.tests:
            return None
        return self._enumerate(limit)

    def _enumerate(self, limit: int) -> list[Value] | None:
        if self.parts[Kind.STRING].is_full:  # as of nearly every set with a pattern
            return None
        found: list[Value] = []
        for kind in KINDS:
            part = self.parts[kind]
            if part.is_empty:
                continue
            # Each interval has two cuts and at least one value: too many are seen without listing them.
            if len(part.cuts) > 2 * limit:
                return None
            for value in _points(kind, part, limit):
                if value is None or len(found) == limit:
                    return None
                found.append(value[0])
        return found


def union_of(sets: Iterable[ValueSet]) -> ValueSet | None:
    """The union of many sets where it is a ValueSet, else None; one sort per kind."""
    maximal: list[ValueSet] = []
    plain: list[ValueSet] = []
    for each in sets:
        (maximal if each.tests else plain).append(each)
    if len(plain) == 1 and not maximal:
        return plain[0]
    total = ValueSet(tuple(union_all(each.parts[kind] for each in plain) for kind in KINDS))
    for each in maximal:
        if total.covers(each):
            continue
        if not each.covers(total):
            return None
        total = each  # the set with tests covers all the others
    return total


def intersection_of(sets: Sequence[ValueSet]) -> ValueSet:
    """The intersection of many sets: by De Morgan the complement of the union of complements, one sort per kind."""
    if len(sets) < 3:
        return sets[0].intersect(sets[1]) if len(sets) == 2 else sets[0]
    parts = tuple(union_all(each.parts[kind].complement() for each in sets).complement() for kind in KINDS)
    return ValueSet(parts).where(test for each in sets for test in each.tests)


def _distinguishes_equal_values(test: Test) -> bool:
    """Whether a test may give different results for 1.0 and 1.00, or for the two zeros."""
    return isinstance(test.pattern, Computed) and not preserves_equality(test.pattern.expression)


def _only_strings(part: Intervals) -> tuple[Intervals, ...]:
    return tuple(part if kind is Kind.STRING else EMPTY for kind in KINDS)


_STRINGS = _only_strings(FULL)


def _has_equal_representations(value: Value) -> bool:
    """Whether several distinguishable values share this position: 1.0 and 1.00, -0.0 and 0.0."""
    return isinstance(value, Decimal) or (isinstance(value, float) and value == 0)


def after_prefix(text: str) -> str | None:
    """The least string above all that start with a text; None where there is none above."""
    while text:
        last = ord(text[-1])
        if last < 0x10FFFF:
            # Surrogates, U+D800 to U+DFFF, are no characters.
            following = 0xE000 if last == 0xD7FF else last + 1
            return text[:-1] + chr(following)
        text = text[:-1]
    return None


def _points(kind: Kind, part: Intervals, limit: int) -> Iterator[tuple[Value] | None]:
    """The values of a part as 1-tuples; a None at the first interval with more than `limit`."""
    if kind in (Kind.MISSING, Kind.NULL):
        yield (MISSING,) if kind is Kind.MISSING else (None,)
        return
    if kind is Kind.BOOLEAN:
        for truth in (False, True):
            if part.contains(int(truth)):
                yield (truth,)
        return
    for low, high in part.spans():
        low = LOWEST_CUT.get(kind) if low is None else low
        high = HIGHEST_CUT.get(kind) if high is None else high
        if low is None or high is None or (isinstance(low, int) and high - low > limit):
            yield None
            return
        if isinstance(low, int):  # the values of these kinds can be counted
            yield from ((_value_at(kind, place),) for place in range(low, high))
        elif kind is Kind.STRING or kind is Kind.BYTES:  # each is followed by itself and one NUL more
            nul: Any = "\0" if kind is Kind.STRING else b"\0"
            more = len(high) - len(low)
            if more > limit or high != low + nul * more:
                yield None
                return
            yield from ((low + nul * count,) for count in range(more))
        else:
            yield (_value_at(kind, low),) if cut_after(kind, low) == high else None


def _value_at(kind: Kind, position: Position) -> Value:
    match kind:
        case Kind.DECIMAL:
            return decimal_of(position[0])
        case Kind.FLOAT:
            return float_at(position)
        case Kind.DATE:
            return date.fromordinal(position)
        case Kind.TIMESTAMP:
            return timestamp_at(position)
    return position  # type: ignore[no-any-return]


def decimal_of(number: int | Fraction) -> Decimal:
    """A finite decimal fraction as a Decimal, with all its digits."""
    return _WIDE.divide(Decimal(number.numerator), Decimal(number.denominator))


NO_VALUE = ValueSet(tuple(EMPTY for _ in KINDS))
ANY_VALUE = ValueSet(tuple(FULL for _ in KINDS))
NULLS = ValueSet.kinds(Kind.MISSING, Kind.NULL)
PRESENT = ValueSet.kinds(*(kind for kind in KINDS if kind > Kind.NULL))
STRINGS = ValueSet(_STRINGS)
