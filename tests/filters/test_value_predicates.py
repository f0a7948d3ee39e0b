"""Tests of LIKE, RLIKE and computed tests: every conclusion of the algebra is true of all values."""

from __future__ import annotations

import pickle
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from palio import Filter
from palio.filters.expressions.ast import Attribute, Call, Literal
from palio.filters.kinds import KINDS, MISSING, Kind, kind_of
from palio.filters.like import LikePattern
from palio.filters.regex import Regex
from palio.filters.tree import Leaf, leaves
from palio.filters.value_predicates import Computed, Like, Rlike, Test, are_contradictory, drop_implied
from palio.filters.value_sets import STRINGS, ValueSet
from tests.strategies import EVERY_VALUE, LIKE_PATTERNS, REGEXES, values
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
        if are_contradictory(frozenset({one, two})):
            assert not (one.passes(text) and two.passes(text))


@given(likes(), likes(), likes())
@example(
    Test(Like(LikePattern.parse("%", ignore_case=True)), False),
    Test(Like(LikePattern.parse("%")), False),
    Test(Like(LikePattern.parse("ß")), False),
)
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
    from palio.filters.value_sets import span

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
    for pattern in (Like(LikePattern.parse("%")), Rlike(Regex.compile(""))):
        for value in EVERY_VALUE:
            assert pattern.accepts(value) is isinstance(value, str)
        for wanted in (True, False):
            assert [kind for kind in Kind if Test(pattern, wanted).applies_to(kind)] == [Kind.STRING]


@pytest.mark.parametrize("text", REGEXES)
def test_a_regular_expression_implies_itself_and_nothing_else(text: str) -> None:
    one = Test(Rlike(Regex.compile(text)))
    assert one.implies(Test(Rlike(Regex.compile(text))))
    assert not one.implies(Test(Rlike(Regex.compile("x"))))
    assert are_contradictory(frozenset({one, Test(one.pattern, False)}))


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
        Rlike(Regex.compile("a+")),
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


_inner = ["lower(a)", "length(a)", "CAST(a AS INT)", "cesql_int(a)", "cesql_string(a)", "a + 1", "concat(a, 'x')"]
_constants = ["0", "5", "-1", "2.5", "1.5D", "'a'", "'ab'", "'5'", "TRUE", "NULL"]
_computed_patterns = ["'a%'", "'ab%'", "'%b'", "'%ab%'", "'5'", "'%'"]


@st.composite
def conditions(draw: st.DrawFn) -> str:
    value = draw(st.sampled_from(_inner))
    match draw(st.integers(0, 4)):
        case 0:
            return f"{value} LIKE {draw(st.sampled_from(_computed_patterns))}"
        case 1:
            return f"{value} IS {draw(st.sampled_from(['', 'NOT ']))}NULL"
        case 2:
            return f"{value} IN ({', '.join(draw(st.lists(st.sampled_from(_constants), min_size=1, max_size=3)))})"
    operator = draw(st.sampled_from(["=", "<>", "<", "<=", ">", ">="]))
    return f"{value} {operator} {draw(st.sampled_from(_constants))}"


def computed_of(text: str) -> Computed | None:
    """The one computed condition of a filter."""
    try:
        found = list(leaves(Filter.parse(text).tree))
    except Exception:  # what SQL refuses is no condition
        return None
    if len(found) != 1 or not isinstance(found[0], Leaf) or len(found[0].values.tests) != 1:
        return None
    (test,) = found[0].values.tests
    return test.pattern if isinstance(test.pattern, Computed) else None


@given(conditions(), conditions(), st.booleans(), st.booleans(), st.lists(values(), min_size=1, max_size=8))
def test_what_is_implied_holds_and_what_is_excluded_does_not(
    one: str, two: str, first_wants: bool, second_wants: bool, several: list[Any]
) -> None:
    first = computed_of(one if first_wants else f"NOT ({one})")
    second = computed_of(two if second_wants else f"NOT ({two})")
    if first is None or second is None:
        return
    for value in [*several, *EVERY_VALUE]:
        if first.accepts(value):
            assert second.accepts(value) or not first.implies(second)
            assert not (second.accepts(value) and first.excludes(second))


@given(conditions(), st.booleans(), values())
def test_what_is_about_text_holds_for_strings_alone(text: str, wants: bool, value: Any) -> None:
    found = computed_of(text if wants else f"NOT ({text})")
    if found is not None and found.is_string_only:
        for each in (value, *EVERY_VALUE):
            assert kind_of(each) is Kind.STRING or not found.accepts(each)


@pytest.mark.parametrize(
    ("wide", "narrow"),
    [
        ("lower(a) LIKE 'a%'", "lower(a) LIKE 'ab%'"),
        ("lower(a) LIKE '%b%'", "lower(a) = 'abc'"),
        ("length(a) > 3", "length(a) > 5"),
        ("length(a) > 3", "length(a) IN (4, 7)"),
        ("length(a) IS NOT NULL", "length(a) <> 5"),
        ("NOT (cesql_int(a) < 5)", "cesql_int(a) >= 7"),
    ],
)
def test_conditions_on_one_computed_value_cover_as_those_on_an_attribute_do(wide: str, narrow: str) -> None:
    assert Filter.parse(wide).covers(Filter.parse(narrow))
    assert not Filter.parse(narrow).covers(Filter.parse(wide))
    assert Filter.parse(f"({wide}) AND ({narrow})") == Filter.parse(narrow)


@pytest.mark.parametrize(
    ("one", "two"),
    [("lower(a) = 'a'", "lower(b) = 'a'"), ("length(a) > 3", "lower(a) > 'x'"), ("a + 1 > 3", "a + 2 > 3")],
)
def test_conditions_on_different_values_are_not_compared(one: str, two: str) -> None:
    assert not Filter.parse(one).covers(Filter.parse(two))
    assert Filter.parse(one).overlaps(Filter.parse(two))


def test_conditions_that_exclude_each_other_match_nothing() -> None:
    assert Filter.parse("length(a) > 5 AND length(a) < 3") == Filter.nothing
    assert not Filter.parse("cesql_int(a) = 1").overlaps(Filter.parse("cesql_int(a) = 2"))


def test_a_condition_about_text_has_strings_for_its_domain() -> None:
    (leaf,) = leaves(Filter.parse("ip_in_network(a, '10.0.0.0/8')").tree)
    assert isinstance(leaf, Leaf)
    (test,) = leaf.values.tests
    assert leaf.values == STRINGS.where([test])
    assert [kind for kind in KINDS if Test(test.pattern).applies_to(kind)] == [Kind.STRING]
