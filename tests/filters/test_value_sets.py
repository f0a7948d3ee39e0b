"""Tests of intervals and value sets: a Boolean algebra, exact without tests and sound with them."""

from __future__ import annotations

import pickle
from decimal import Decimal
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from palio.filters.expressions.ast import Attribute, Call, Literal
from palio.filters.kinds import HIGHEST_CUT, LOWEST_CUT, MISSING, Kind, Value, cut_after, kind_of, position_of
from palio.filters.like import LikePattern
from palio.filters.regex import Regex
from palio.filters.tree import domain_of
from palio.filters.value_predicates import Computed, Like, Rlike, Test
from palio.filters.value_sets import (
    ANY_VALUE,
    EMPTY,
    FULL,
    NO_VALUE,
    NULLS,
    PRESENT,
    STRINGS,
    ValueSet,
    after_prefix,
    point,
    span,
    union_all,
    union_of,
)
from tests.filters.set_strategies import intervals, plain_sets, some_member
from tests.strategies import EVERY_VALUE, LIKE_PATTERNS, OF_KIND, POOLS, REGEXES, values
from tests.strategies import STRINGS as SOME_STRINGS

ORDERED = [kind for kind in Kind if kind > Kind.NULL]


@st.composite
def sets(draw: Any, count: int) -> tuple[Any, ...]:
    """A kind, some positions of it, and so many sets of it."""
    kind = draw(st.sampled_from(ORDERED))
    values = [*POOLS[kind], *draw(st.lists(OF_KIND[kind], max_size=3))]
    return (
        kind,
        [position_of(kind, value) for value in values],
        *(draw(intervals(kind)) for _ in range(count)),
    )


@given(sets(2))
def test_membership_follows_the_operations(made: Any) -> None:
    _, places, a, b = made
    for place in places:
        assert a.union(b).contains(place) is (a.contains(place) or b.contains(place))
        assert a.intersect(b).contains(place) is (a.contains(place) and b.contains(place))
        assert a.complement().contains(place) is not a.contains(place)


@given(sets(3))
def test_the_laws_of_a_boolean_algebra_hold_as_equalities(made: Any) -> None:
    _, _, a, b, c = made
    assert a.union(b) == b.union(a)
    assert a.intersect(b) == b.intersect(a)
    assert a.union(b.union(c)) == a.union(b).union(c)
    assert a.intersect(b.intersect(c)) == a.intersect(b).intersect(c)
    assert a.intersect(b.union(c)) == a.intersect(b).union(a.intersect(c))
    assert a.union(b.intersect(c)) == a.union(b).intersect(a.union(c))
    assert a.union(a.intersect(b)) == a.intersect(a.union(b)) == a
    assert a.union(b).complement() == a.complement().intersect(b.complement())
    assert a.complement().complement() == a
    assert a.union(a.complement()) == FULL
    assert a.intersect(a.complement()) == EMPTY
    assert a.union(EMPTY) == a.intersect(FULL) == a
    assert hash(a.union(b)) == hash(b.union(a))


@given(sets(2))
def test_covers_and_overlaps_say_what_the_operations_show(made: Any) -> None:
    _, _, a, b = made
    assert a.covers(b) is (a.union(b) == a)
    assert a.covers(b) is b.intersect(a.complement()).is_empty
    assert a.overlaps(b) is not a.intersect(b).is_empty
    assert a.covers(b) is b.complement().covers(a.complement())
    assert (a.covers(b) and b.covers(a)) is (a == b)


@given(sets(6), st.integers(0, 6))
def test_a_union_of_many_is_the_unions_of_two_one_after_the_other(made: Any, count: int) -> None:
    _, _, *several = made
    total = EMPTY
    for each in several[:count]:
        total = total.union(each)
    assert union_all(several[:count]) == total


@given(sets(1))
def test_the_spans_together_are_the_set_and_do_not_touch(made: Any) -> None:
    kind, _, a = made
    spans = list(a.spans())
    assert union_all([span(kind, low, high) for low, high in spans]) == a
    for (_, end), (start, _) in pairwise(spans):
        assert end < start


@given(sets(1))
def test_the_cuts_of_a_set_ascend_and_lie_within_the_kind(made: Any) -> None:
    kind, _, a = made
    assert all(one < two for one, two in pairwise(a.cuts))
    assert all(kind not in LOWEST_CUT or cut > LOWEST_CUT[kind] for cut in a.cuts)
    assert all(kind not in HIGHEST_CUT or cut < HIGHEST_CUT[kind] for cut in a.cuts)


@given(sets(0))
def test_a_point_has_one_member(made: Any) -> None:
    kind, places = made
    for place in places:
        assert [other for other in places if point(kind, place).contains(other)] == [
            other for other in places if other == place
        ]


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        (Kind.BOOLEAN, [False, True]),
        (Kind.INTEGER, [-(2**63), 2**63 - 1]),
        (Kind.FLOAT, [float("-inf"), float("nan")]),
    ],
)
def test_all_values_from_the_first_to_the_last_are_the_full_set(kind: Kind, values: list[Any]) -> None:
    first, last = (position_of(kind, value) for value in values)
    assert span(kind, first, cut_after(kind, last)) == FULL
    assert span(kind, cut_after(kind, last), None) == EMPTY
    assert span(kind, None, first) == EMPTY


def test_an_empty_string_or_no_bytes_is_the_least_of_its_kind() -> None:
    assert span(Kind.STRING, None, "") == span(Kind.BYTES, None, b"") == EMPTY
    assert span(Kind.STRING, "", None) == span(Kind.BYTES, b"", None) == FULL
    assert point(Kind.STRING, "").contains("")
    assert not point(Kind.STRING, "").contains("\0")


def test_neighbouring_integers_make_one_interval_and_neighbouring_decimals_do_not() -> None:
    assert len(union_all([point(Kind.INTEGER, n) for n in (1, 2, 3)]).cuts) == 2
    assert len(union_all([point(Kind.DECIMAL, (n, 0)) for n in (1, 2, 3)]).cuts) == 6
    assert span(Kind.INTEGER, 6, None) == span(Kind.INTEGER, cut_after(Kind.INTEGER, 5), None)


SOME_VALUES = [value for at, value in enumerate(EVERY_VALUE) if isinstance(value, str) or at % 4 == 0 or value == 1]
COMPUTED = [
    Call("=", (Call("cast", (Attribute("a"), Literal("string"))), Literal("1.00"))),
    Call("=", (Call("cast", (Attribute("a"), Literal("string"))), Literal("-0.0"))),
    Call(">", (Call("+", (Attribute("a"), Literal(1))), Literal(2))),
    Call("isnull", (Call("/", (Literal(1), Attribute("a"))),)),
    Call("=", (Call("upper", (Attribute("a"),)), Literal("AB"))),
]


@st.composite
def pattern_tests(draw: Any) -> Test:
    """A test that is asked: a pattern wanted or not, or a computed condition."""
    wanted = draw(st.booleans())
    sort = draw(st.sampled_from(["like", "like", "regex", "computed"]))
    if sort == "regex":
        return Test(Rlike(Regex.compile(draw(st.sampled_from(REGEXES)))), wanted)
    if sort == "computed":
        return Test(Computed(draw(st.sampled_from(COMPUTED)), wanted))
    ignore_case = draw(st.booleans())
    pattern = LikePattern.parse(draw(st.sampled_from(LIKE_PATTERNS)), ignore_case=ignore_case)
    return Test(Like(pattern), wanted)


@st.composite
def sets_with_tests(draw: Any) -> tuple[ValueSet, list[ValueSet], list[Test]]:
    """A set with tests, and what it was made of: sets and tests a value must all satisfy."""
    plain = draw(st.lists(plain_sets(), min_size=1, max_size=2))
    tests = draw(st.lists(pattern_tests(), min_size=1, max_size=3))
    parts = [*plain, *(domain_of(test) for test in tests)]
    made = parts[0]
    for part in parts[1:]:
        made = made.intersect(part)
    return made.where(tests), parts, tests


def passes(value: Value, parts: list[ValueSet], tests: list[Test]) -> bool:
    return all(part.contains(value) for part in parts) and all(
        test.applies_to(kind_of(value)) and test.passes(value) for test in tests
    )


class TestWithoutTests:
    @given(plain_sets(), plain_sets(), values())
    def test_members_follow_the_operations(self, a: ValueSet, b: ValueSet, other: Value) -> None:
        union, both, rest = a.union(b), a.intersect(b), a.complement()
        assert union is not None
        for value in (*EVERY_VALUE, other):
            assert union.contains(value) is (a.contains(value) or b.contains(value))
            assert both.contains(value) is (a.contains(value) and b.contains(value))
            assert rest.contains(value) is not a.contains(value)

    @given(plain_sets(), plain_sets(), plain_sets())
    def test_the_laws_of_a_boolean_algebra_hold_as_equalities(self, a: ValueSet, b: ValueSet, c: ValueSet) -> None:
        def join(*sets: ValueSet) -> ValueSet:
            found = union_of(sets)
            assert found is not None
            return found

        assert join(a, b) == join(b, a)
        assert join(a, join(b, c)) == join(join(a, b), c) == join(a, b, c)
        assert a.intersect(join(b, c)) == join(a.intersect(b), a.intersect(c))
        assert join(a, a.intersect(b)) == a.intersect(join(a, b)) == a
        assert join(a, b).complement() == a.complement().intersect(b.complement())
        assert a.complement().complement() == a
        assert join(a, a.complement()) == ANY_VALUE
        assert a.intersect(a.complement()) == NO_VALUE
        assert hash(join(a, b)) == hash(join(b, a))

    @given(plain_sets(), plain_sets())
    def test_covers_overlaps_and_equality_are_exact(self, a: ValueSet, b: ValueSet) -> None:
        only_b = b.intersect(a.complement())
        both = a.intersect(b)
        assert a.covers(b) is only_b.is_empty
        assert a.overlaps(b) is not both.is_empty
        assert (a == b) is (a.covers(b) and b.covers(a))

    @given(plain_sets(), plain_sets())
    def test_sets_that_differ_differ_in_a_member(self, a: ValueSet, b: ValueSet) -> None:
        for difference, inside, outside in ((b.intersect(a.complement()), b, a), (a.intersect(b), a, None)):
            if difference.is_empty:
                continue
            witness = some_member(difference)
            assert inside.contains(witness)  # type: ignore[arg-type]
            assert outside is None or not outside.contains(witness)  # type: ignore[arg-type]

    @given(plain_sets())
    def test_a_set_is_empty_exactly_when_it_has_no_member(self, a: ValueSet) -> None:
        assert a.is_empty is (some_member(a) == ())
        assert a.is_full is (some_member(a.complement()) == ())

    @given(st.lists(values(), max_size=6), values())
    def test_a_set_of_points_has_those_members_and_can_be_listed(self, points: list[Value], other: Value) -> None:
        made = ValueSet.points(points)
        assert all(made.contains(value) for value in points)
        listed = made.values()
        assert listed is not None
        assert ValueSet.points(listed) == made
        assert len(listed) <= len(points)
        if not any(ValueSet.points([value]).contains(other) for value in points):
            assert not made.contains(other)

    def test_texts_that_only_a_nul_keeps_apart_are_listed_each(self) -> None:
        for points in ([b"", b"\0"], ["a", "a\0", "a\0\0", "b"]):
            assert ValueSet.points(points).values() == points
        assert ValueSet.prefix("a").values() is None

    def test_one_value_is_listed_wherever_it_stands(self) -> None:
        for value in EVERY_VALUE:
            listed = ValueSet.points([value]).values()
            assert listed is not None
            assert ValueSet.points(listed) == ValueSet.points([value])

    def test_what_is_infinite_or_longer_than_the_limit_is_not_listed(self) -> None:
        assert ValueSet.points([1, 3, 5]).values(2) is None
        assert ValueSet.points([1, 3, 5]).values(3) == [1, 3, 5]
        assert STRINGS.values() is None
        assert ValueSet.prefix("a").values() is None

    def test_the_usual_sets_are_what_they_are_called(self) -> None:
        for value in EVERY_VALUE:
            assert ANY_VALUE.contains(value)
            assert not NO_VALUE.contains(value)
            assert NULLS.contains(value) is (value is None or value is MISSING)
            assert PRESENT.contains(value) is not NULLS.contains(value)
            assert STRINGS.contains(value) is isinstance(value, str)
        assert ANY_VALUE.is_full
        assert NO_VALUE.is_empty

    def test_a_value_is_in_its_own_kind_only(self) -> None:
        one = ValueSet.points([1])
        assert [value for value in (1, 1.0, Decimal(1), True, "1") if one.contains(value)] == [1]
        assert [type(value) for value in (1, 1.0, True) if ValueSet.points([True]).contains(value)] == [bool]

    @given(OF_KIND[Kind.STRING], OF_KIND[Kind.STRING])
    @example("\ud7ff", "\ue000")
    @example("\U0010ffff", "\U0010ffff\U0010ffff")
    @example("a\U0010ffff", "b")
    def test_a_prefix_is_an_interval_of_strings(self, prefix: str, text: str) -> None:
        made = ValueSet.prefix(prefix)
        for each in (text, prefix + text, prefix, *SOME_STRINGS):
            assert made.contains(each) is each.startswith(prefix)
        end = after_prefix(prefix)
        assert end is None or (not end.startswith(prefix) and end > prefix and end.encode())


class TestWithTests:
    @given(sets_with_tests(), values())
    def test_members_are_the_values_that_pass(self, made: Any, other: Value) -> None:
        found, parts, tests = made
        for value in (*SOME_VALUES, other):
            assert found.contains(value) is passes(value, parts, tests), value

    @given(sets_with_tests(), sets_with_tests(), values())
    def test_an_intersection_is_exact(self, one: Any, two: Any, other: Value) -> None:
        a, b = one[0], two[0]
        both = a.intersect(b)
        assert both == b.intersect(a)
        for value in (*SOME_VALUES, other):
            assert both.contains(value) is (a.contains(value) and b.contains(value))

    @given(sets_with_tests(), st.one_of(sets_with_tests().map(lambda made: made[0]), plain_sets()), values())
    def test_covers_overlaps_union_and_empty_are_sound(self, one: Any, b: ValueSet, other: Value) -> None:
        a: ValueSet = one[0]
        union = a.union(b)
        for value in (*SOME_VALUES, other):
            in_a, in_b = a.contains(value), b.contains(value)
            assert not (a.covers(b) and in_b and not in_a)
            assert not (b.covers(a) and in_a and not in_b)
            assert a.overlaps(b) or not (in_a and in_b)
            assert union is None or union.contains(value) is (in_a or in_b)
            assert not (a.is_empty and in_a)

    @given(st.lists(sets_with_tests().map(lambda made: made[0]) | plain_sets(), min_size=3, max_size=3))
    def test_covers_is_reflexive_and_transitive(self, sets: list[ValueSet]) -> None:
        a, b, c = sets
        assert a.covers(a)
        for one, two, three in (
            (a, b, c),
            (a, a.intersect(b), a.intersect(b).intersect(c)),
            (c, a, b.intersect(a)),
        ):
            assert not (one.covers(two) and two.covers(three)) or one.covers(three)

    @given(sets_with_tests(), plain_sets())
    def test_a_part_of_a_set_is_covered_by_it(self, one: Any, b: ValueSet) -> None:
        assert one[0].covers(one[0].intersect(b))

    @given(sets_with_tests())
    def test_asking_again_changes_nothing(self, one: Any) -> None:
        a, _, tests = one
        assert a.where(tests) == a.intersect(a) == a
        assert a.where([]) == a

    def test_finitely_many_values_are_asked_at_once(self) -> None:
        like = Test(Like(LikePattern.parse("%b%")))
        assert ValueSet.points(["ab", "ac", ""]).where([like]) == ValueSet.points(["ab"])
        assert ValueSet.points(["ac"]).where([like]) == NO_VALUE

    def test_values_that_share_a_place_are_not_taken_for_one_another(self) -> None:
        """1.0 and 1.00, or the two zeros, are one point; what CAST makes of them differs."""

        def text_is(text: str) -> Test:
            return Test(Computed(Call("=", (Call("cast", (Attribute("a"), Literal("string"))), Literal(text)))))

        assert ValueSet.points([Decimal("1")]).where([text_is("1.00")]).contains(Decimal("1.00"))
        assert ValueSet.points([0.0]).where([text_is("-0.0")]).contains(-0.0)

    def test_there_is_no_complement(self) -> None:
        with pytest.raises(ValueError, match="complement"):
            STRINGS.where([Test(Like(LikePattern.parse("%b%")))]).complement()

    @given(sets_with_tests())
    def test_it_is_the_same_set_in_another_process(self, one: Any) -> None:
        copy = pickle.loads(pickle.dumps(one[0]))
        assert copy == one[0]
        assert hash(copy) == hash(one[0])


def test_a_list_of_a_hundred_thousand_values_is_one_set() -> None:
    many = ValueSet.points(range(0, 200_000, 2))
    assert many.contains(100_000)
    assert not many.contains(100_001)
    assert many.values() is None


@given(plain_sets())
def test_a_prefix_or_a_point_alone_decides_a_pattern_where_it_can(plain: ValueSet) -> None:
    assume(not plain.parts[Kind.STRING].inside)
    strings = plain.intersect(STRINGS)
    for pattern in ("%b%", "%b", "a%b%"):
        wanted = STRINGS.where([Test(Like(LikePattern.parse(pattern)))])
        if wanted.covers(strings):
            assert all(wanted.contains(value) for value in EVERY_VALUE if strings.contains(value))
    assert STRINGS.where([Test(Like(LikePattern.parse("%b%")))]).covers(ValueSet.prefix("ab"))
    assert STRINGS.where([Test(Like(LikePattern.parse("%b%")))]).covers(ValueSet.points(["ab", "b"]))


def test_values_that_nothing_lies_between_are_listed_all_the_same() -> None:
    for points in ([b"", b"\0"], ["a", "a\0", "a\0\0"], ["", "\0", "b"]):
        assert ValueSet.points(points).values() == points
    assert ValueSet.prefix("a").values() is None
