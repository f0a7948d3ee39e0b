"""The set of values one attribute may take: the right-hand side of every condition.

A `ValueSet` has one part per kind of value, a union of intervals and points, and a conjunction of *tests* that
can only be asked of a value, not enumerated (LIKE with wildcards in the middle, regular expressions, computed
conditions). Sets without tests form a Boolean algebra and every operation on them is exact. With tests,
intersection is exact and the relations are sound: "covers" and "is empty" may say no where the truth is yes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date
from decimal import Context, Decimal
from fractions import Fraction
from typing import Any

from palio.errors import InvalidArgument
from palio.filters.expressions.twins import is_blind_to_twins
from palio.filters.intervals import EMPTY, FULL, Intervals, point, span, union_all
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
from palio.filters.patterns import Computed, Test, contradict, drop_implied

_WIDE = Context(prec=1200)  # the points half-way between two floats have up to 1,100 digits
_MOST_POINTS = 256  # how many values are tried one by one when tests meet a finite set


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
        wanted = frozenset(tests) | self.tests
        if not wanted:
            return self
        parts = self.parts
        if not all(isinstance(test.pattern, Computed) for test in wanted):  # a pattern holds for strings alone
            parts = _STRINGS if parts[Kind.STRING].is_full else _only_strings(parts[Kind.STRING])
        listed = ValueSet(parts)._enumerate(_MOST_POINTS)
        if listed is not None and not (any(map(_tells_twins_apart, wanted)) and any(map(_has_twins, listed))):
            return ValueSet.points(value for value in listed if all(test.passes(value) for test in wanted))
        if contradict(wanted) or any(test.fails_throughout(parts) for test in wanted):
            return NO_VALUE
        return ValueSet(parts, frozenset(each for each in drop_implied(wanted) if not each.holds_throughout(parts)))

    def part(self, kind: Kind) -> Intervals:
        return self.parts[kind]

    def contains(self, value: Value) -> bool:
        """Whether a value is in the set."""
        kind = kind_of(value)
        own = self.parts[kind]
        if own.cuts:
            if not own.contains(position_of(kind, value)):
                return False
        elif not own.inside:
            return False
        return all(test.passes(value) for test in self.tests) if self.tests else True

    @property
    def is_empty(self) -> bool:
        """Whether no value is in the set; with tests, whether that is known."""
        return all(part.is_empty for part in self.parts)

    @property
    def is_full(self) -> bool:
        return not self.tests and all(part.is_full for part in self.parts)

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
        if self.parts is not other.parts:
            both = ValueSet(
                tuple(a if a is b else a.intersect(b) for a, b in zip(self.parts, other.parts, strict=True))
            )
        return both.where(self.tests | other.tests)

    def union(self, other: ValueSet) -> ValueSet | None:
        """The union where it is a ValueSet: always without tests; else when one side has the other in it."""
        return union_of([self, other])

    def covers(self, other: ValueSet) -> bool:
        """Whether every value of the other set is in this one: exact without tests, else "not known to"."""
        if self.parts is not other.parts:
            for own, theirs in zip(self.parts, other.parts, strict=True):
                if own is not theirs and not own.covers(theirs):
                    return False
        for test in self.tests:
            for have in other.tests:
                if have.implies(test):
                    break
            else:
                if not other._all_pass(test):
                    return False
        return True

    def _all_pass(self, test: Test) -> bool:
        """Whether every value is known to pass a test: by a prefix that has what is asked for, or one by one."""
        if test.holds_throughout(self.parts):
            return True
        listed = self._enumerate(_MOST_POINTS)
        if listed is None or (_tells_twins_apart(test) and any(map(_has_twins, listed))):
            return False
        return all(test.passes(value) for value in listed if all(own.passes(value) for own in self.tests))

    def overlaps(self, other: ValueSet) -> bool:
        """Whether some value is in both: exact without tests, else "not known to be disjoint"."""
        return not self.intersect(other).is_empty

    def values(self, limit: int = _MOST_POINTS) -> list[Value] | None:
        """The values, where they are finitely many and at most `limit`; else None."""
        if self.tests:
            return None
        return self._enumerate(limit)

    def _enumerate(self, limit: int) -> list[Value] | None:
        found: list[Value] = []
        for kind in KINDS:
            part = self.parts[kind]
            if part.is_empty:
                continue
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
    total = ValueSet(tuple(union_all(each.parts[kind] for each in plain) for kind in KINDS))
    for each in maximal:
        if total.covers(each):
            continue
        if not each.covers(total):
            return None
        total = each
    return total


def intersection_of(sets: Sequence[ValueSet]) -> ValueSet:
    """The intersection of many sets: by De Morgan the union of what each leaves out, so one sort per kind."""
    if len(sets) < 3:
        return sets[0].intersect(sets[1]) if len(sets) == 2 else sets[0]
    parts = tuple(union_all(each.parts[kind].complement() for each in sets).complement() for kind in KINDS)
    return ValueSet(parts).where(test for each in sets for test in each.tests)


def _tells_twins_apart(test: Test) -> bool:
    """Whether a test may answer differently for 1.0 and 1.00, or for the two zeros."""
    return isinstance(test.pattern, Computed) and not is_blind_to_twins(test.pattern.expression)


def _only_strings(part: Intervals) -> tuple[Intervals, ...]:
    return tuple(part if kind is Kind.STRING else EMPTY for kind in KINDS)


_STRINGS = _only_strings(FULL)


def _has_twins(value: Value) -> bool:
    """Whether unlike values stand at this place: 1.0 beside 1.00, -0.0 beside 0.0. CAST tells them apart."""
    return isinstance(value, Decimal) or (isinstance(value, float) and value == 0)


def after_prefix(text: str) -> str | None:
    """The least string above all that start with a text; None where there is none above."""
    while text:
        last = ord(text[-1])
        if last < 0x10FFFF:
            following = 0xE000 if last == 0xD7FF else last + 1
            return text[:-1] + chr(following)
        text = text[:-1]
    return None


def _points(kind: Kind, part: Intervals, limit: int) -> Iterator[tuple[Value] | None]:
    """The values of a part as 1-tuples; a None at the first interval that has more than so many."""
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
