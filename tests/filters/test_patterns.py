"""Is what the algebra concludes about patterns true of every string?"""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.filters.expressions.tree import Attribute, Call, Literal
from palio.filters.kinds import MISSING, Kind
from palio.filters.like import LikePattern
from palio.filters.patterns import Computed, Like, Matching, Test, contradict, drop_implied
from palio.filters.regex import Regex
from palio.filters.values import STRINGS, ValueSet
from tests.strategies import EVERY_VALUE, LIKE_PATTERNS, REGEXES
from tests.strategies import STRINGS as POOL

# Short strings over letters whose cases are awkward: Kelvin sign, long s, dotted I and sharp s fold oddly.
_letters = st.text("abABkKſsSİißẞΣσς%_", max_size=5)
_patterns = st.text("abAkKsSΣß%%_", max_size=5) | st.sampled_from([each for each in LIKE_PATTERNS if "\\" not in each])


@st.composite
def likes(draw: Any) -> Test:
    return Test(Like(LikePattern.parse(draw(_patterns), ignore_case=draw(st.booleans()))), draw(st.booleans()))


@given(likes(), likes(), st.lists(_letters, min_size=1, max_size=30))
def test_what_a_test_implies_holds_wherever_it_does(one: Test, two: Test, texts: list[str]) -> None:
    for text in (*texts, *POOL):
        if one.implies(two) and one.passes(text):
            assert two.passes(text)
        if contradict(frozenset({one, two})):
            assert not (one.passes(text) and two.passes(text))


@given(likes(), likes(), likes())
def test_implication_is_reflexive_and_transitive(a: Test, b: Test, c: Test) -> None:
    assert a.implies(a)
    assert not (a.implies(b) and b.implies(c)) or a.implies(c)


@given(st.lists(likes(), max_size=4), st.lists(_letters, min_size=1, max_size=30))
def test_dropping_what_is_implied_loses_nothing(tests: list[Test], texts: list[str]) -> None:
    kept = drop_implied(frozenset(tests))
    for text in (*texts, *POOL):
        assert all(test.passes(text) for test in kept) is all(test.passes(text) for test in tests)


@given(likes(), st.lists(_letters, min_size=1, max_size=2), st.lists(_letters, min_size=1, max_size=30))
def test_what_holds_throughout_an_interval_holds_for_every_string_in_it(
    test: Test, ends: list[str], texts: list[str]
) -> None:
    from palio.filters.intervals import span

    low, high = min(ends), max(ends)
    for part in (
        span(Kind.STRING, low, high + "\0"),
        span(Kind.STRING, low, None),
        ValueSet.prefix(low).part(Kind.STRING),
    ):
        values = ValueSet.of({Kind.STRING: part})
        if test.holds_throughout(values.parts):
            assert all(test.passes(text) for text in (*texts, *POOL, low, low + "a") if values.contains(text))


def test_a_pattern_is_asked_only_of_strings() -> None:
    for pattern in (Like(LikePattern.parse("%")), Matching(Regex.compile(""))):
        for value in EVERY_VALUE:
            assert pattern.accepts(value) is isinstance(value, str)
        for wanted in (True, False):
            assert [kind for kind in Kind if Test(pattern, wanted).applies_to(kind)] == [Kind.STRING]


@pytest.mark.parametrize("text", REGEXES)
def test_a_regular_expression_implies_itself_and_nothing_else(text: str) -> None:
    one = Test(Matching(Regex.compile(text)))
    assert one.implies(Test(Matching(Regex.compile(text))))
    assert not one.implies(Test(Matching(Regex.compile("x"))))
    assert contradict(frozenset({one, Test(one.pattern, False)}))


def test_a_computed_condition_sees_any_value_and_absence() -> None:
    absent = Computed(Call("isnull", (Call("+", (Attribute("a"), Literal(1))),)))
    assert absent.accepts(MISSING)
    assert absent.accepts(None)
    assert absent.accepts("x")
    assert not absent.accepts(1)
    assert Computed(absent.expression, wants=False).accepts(1)


def test_a_pattern_is_the_same_in_another_process_even_after_use() -> None:
    for pattern in (
        Like(LikePattern.parse("a%b")),
        Matching(Regex.compile("a+")),
        Computed(Call("=", (Call("upper", (Attribute("a"),)), Literal("AB")))),
    ):
        assert pattern.accepts("aab") in (True, False)
        copy = pickle.loads(pickle.dumps(pattern))
        assert copy == pattern
        assert hash(copy) == hash(pattern)
        assert copy.accepts("ab") is pattern.accepts("ab")


def test_the_strings_with_a_part_cover_those_that_start_with_it() -> None:
    has_b = STRINGS.where([Test(Like(LikePattern.parse("%b%")))])
    assert has_b.covers(ValueSet.prefix("ab"))
    assert not has_b.covers(ValueSet.prefix("a"))
    assert not ValueSet.prefix("ab").covers(has_b)
