"""What computed conditions are known to imply and to exclude, and which of them only strings can satisfy."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import Filter
from palio.filters.kinds import KINDS, Kind, kind_of
from palio.filters.patterns import Computed, Test
from palio.filters.tree import Leaf, leaves
from palio.filters.values import STRINGS
from tests.strategies import EVERY_VALUE, values

_inner = ["lower(a)", "length(a)", "CAST(a AS INT)", "cesql_int(a)", "cesql_string(a)", "a + 1", "concat(a, 'x')"]
_constants = ["0", "5", "-1", "2.5", "1.5D", "'a'", "'ab'", "'5'", "TRUE", "NULL"]
_patterns = ["'a%'", "'ab%'", "'%b'", "'%ab%'", "'5'", "'%'"]


@st.composite
def conditions(draw: st.DrawFn) -> str:
    value = draw(st.sampled_from(_inner))
    match draw(st.integers(0, 4)):
        case 0:
            return f"{value} LIKE {draw(st.sampled_from(_patterns))}"
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
    if found is not None and found.is_about_text:
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
