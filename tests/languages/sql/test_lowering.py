"""Lowering of SQL conditions against the evaluation of the expression as it was written.

Evaluation knows nothing of value sets, normal forms or the four questions that lowering asks; so whatever a
condition is made of, the filter must match where its value is TRUE, and the filter's NOT where it is FALSE.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import date
from itertools import product
from typing import Any

import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from palio.errors import ParseError
from palio.filters.expressions.special_forms import compile_expression
from palio.filters.expressions.value_comparison import MIRRORED
from palio.filters.filter import Filter
from palio.filters.sql_writer import literal_to_sql
from palio.filters.tree import Leaf, Or, Residual, leaves
from palio.languages.sql.lowering import lower_filter
from palio.languages.sql.parser import parse_condition
from palio.matching.matcher import Matcher
from tests.strategies import (
    EVERY_VALUE,
    MISSING,
    attributes,
    choices,
    conditions,
    is_readable,
    literals,
    readable_conditions,
    scalar_attributes,
)

ZONES = ["UTC", "Europe/Paris", "America/Sao_Paulo", "+05:30"]


def truth(condition: str, event: Mapping[str, Any], timezone: str = "UTC") -> Any:
    """What a condition is worth for a scalar event, computed from its expression alone."""
    return compile_expression(parse_condition(condition, timezone=timezone), timezone)(event, {})


def check(condition: str, event: Mapping[str, Any], timezone: str = "UTC") -> None:
    expected = truth(condition, event, timezone)
    wanted = Filter.parse(condition, timezone=timezone)
    assert wanted.matches_attributes(event) is (expected is True), (str(wanted), expected)
    assert (~wanted).matches_attributes(event) is (expected is False), (str(~wanted), expected)


def is_far_from_the_end_of_time(value: Any) -> bool:
    """Whether a value, or what is written in a condition, is a day or more away from the years 0 and 10000.

    There a midnight of another zone cannot be held by a datetime, and what is computed is NULL.
    """
    text = value if isinstance(value, str) else str(value)
    return not any(year in text for year in ("0001-", "9999-"))


FAR_VALUES = [value for value in EVERY_VALUE if is_far_from_the_end_of_time(value)]


class TestTheFilterMatchesWhereTheExpressionIsTrue:
    @given(readable_conditions(arrays=False), st.lists(scalar_attributes(), min_size=1, max_size=8))
    def test_for_any_condition_and_scalar_event(self, condition: str, events: list[dict[str, Any]]) -> None:
        for event in events:
            check(condition, event)

    @given(readable_conditions(["a"], depth=2, arrays=False))
    def test_for_any_condition_on_one_attribute_and_every_awkward_value(self, condition: str) -> None:
        for value in EVERY_VALUE:
            check(condition, {} if value is MISSING else {"a": value})

    @given(
        readable_conditions(["a"], depth=2, arrays=False).filter(is_far_from_the_end_of_time),
        st.sampled_from(ZONES),
    )
    def test_in_any_time_zone(self, condition: str, zone: str) -> None:
        for value in FAR_VALUES:
            check(condition, {} if value is MISSING else {"a": value}, zone)

    @pytest.mark.parametrize("operator", ["=", "<>", "<", "<=", ">", ">=", "<=>"])
    @given(literal=literals(), zone=st.sampled_from(ZONES))
    def test_for_a_comparison_of_any_two_values(self, operator: str, literal: Any, zone: str) -> None:
        in_utc = zone == "UTC"
        assume(in_utc or is_far_from_the_end_of_time(literal))
        for value in EVERY_VALUE if in_utc else FAR_VALUES:
            check(f"a {operator} {literal_to_sql(literal)}", {} if value is MISSING else {"a": value}, zone)

    @given(readable_conditions(), attributes())
    def test_for_some_choice_of_elements_where_there_are_arrays(self, condition: str, event: dict[str, Any]) -> None:
        compiled = compile_expression(parse_condition(condition))
        arrays = {name: value for name, value in event.items() if isinstance(value, tuple)}
        wanted = Filter.parse(condition)
        found = [compiled(chosen, arrays) for chosen in choices(event)]
        # By identity: an attribute may be 0 or 1, which are no truth values.
        assert wanted.matches_attributes(event) is any(each is True for each in found)
        assert (~wanted).matches_attributes(event) is any(each is False for each in found)


class TestWhatReadersFoundByHand:
    """Conditions whose meaning is easy to get wrong, each with the values that tell."""

    @pytest.mark.parametrize(
        "condition",
        [
            "coalesce(a, b) IS NULL",
            "coalesce(a, b) IS NOT NULL",
            "nullif(a, 5) IS NULL",
            "CASE WHEN b = 1 THEN a END IS NULL",
            "greatest(a, b) IS NOT NULL",
            "if(a = 1, a, b) IS NULL",
            "a IN (9007199254740993, 1.5D)",
            "a IN ('2024-02-29 10:00:00', TIMESTAMP'2024-02-29 00:00:00Z')",
            "a IN ('1.0', 1)",
            "a IN ('1', 1.0)",
            "a NOT IN (1, 'x')",
            "a IN (1, NULL)",
            "a = 1 AND CAST(a AS STRING) = '1.00'",
            "a = 0 AND CAST(a AS STRING) = '-0.0'",
            "a IN (1, 2) AND length(a) = 4",
            "a = TRUE AND a",
            "a AND b",
            "(a > 1) = b",
            "a = '' AND a LIKE '%'",
            "a LIKE NULL",
            "a NOT RLIKE NULL",
            "a BETWEEN NULL AND 3",
            "NOT a BETWEEN 5 AND NULL",
            "a <=> NULL",
            "NOT (a <=> NULL)",
            "a IS DISTINCT FROM b",
            "'5' < a",
            "NOT ('x' < a)",
            "(a > 1) IS NULL",
            "(a > 1 OR b > 1) IS NOT TRUE",
            "(a LIKE '%b%') IS NULL",
            "(a LIKE '%b%') IS NOT FALSE",
            "(a || 'x') IS NULL",
            "isnan(a)",
            "NOT isnan(a)",
        ],
    )
    def test_it_is_as_evaluated(self, condition: str) -> None:
        for value in EVERY_VALUE:
            for other in (MISSING, None, 1, 5, True, 1.5, "a"):
                event = {"a": value, "b": other}
                check(condition, {name: each for name, each in event.items() if each is not MISSING})

    def test_whole_array_functions_look_at_the_array_and_not_at_an_element(self) -> None:
        wanted = Filter.parse("array_contains(a, 5) AND NOT array_contains(a, 6)")
        assert wanted.matches({"a": [4, 5]})
        assert not wanted.matches({"a": [5, 6]})
        assert Filter.parse("array_contains(a, 5) AND a > 6").matches({"a": [5, 7]})
        assert Filter.parse("array_contains(a, 5) AND array_contains(a, 7)").matches({"a": [5, 7]})
        assert (Filter.parse("array_contains(a, 5)") & Filter.parse("a > 6")).matches({"a": [5, 7]})
        assert not Filter.parse("a = 5 AND a > 6").matches({"a": [5, 7]})


class TestWhatTheIndexSees:
    @pytest.mark.parametrize(
        "condition",
        [
            "a > 5",
            "5 < a",
            "a BETWEEN 1 AND 5",
            "a IN (1, 2, 3)",
            "a NOT IN (1, 2)",
            "a LIKE 'abc'",
            "a LIKE 'abc%'",
            "startswith(a, 'x')",
            "a IS NULL",
            "a IS NOT NULL",
            "NOT (a < 5)",
            "a <=> 5",
            "a",
            "NOT a",
            "a IS TRUE",
            "(a > 5) IS NOT TRUE",
            "typeof(a) = 'string'",
            "a > 1 + 2",
            "a > DATE'2024-01-01' - INTERVAL 1 DAY",
        ],
    )
    def test_a_comparison_with_a_constant_is_a_plain_set(self, condition: str) -> None:
        for wanted in (Filter.parse(condition), ~Filter.parse(condition)):
            assert all(isinstance(leaf, Leaf) and leaf.values.is_enumerable for leaf in leaves(wanted.tree))

    @pytest.mark.parametrize(
        "condition", ["a LIKE '%b%'", "a ILIKE 'x%'", "a RLIKE 'x'", "a + 1 > 5", "upper(a) = 'A'"]
    )
    def test_anything_else_about_one_attribute_is_a_test_of_its_values(self, condition: str) -> None:
        (leaf,) = leaves(Filter.parse(condition).tree)
        assert isinstance(leaf, Leaf)
        assert len(leaf.values.tests) == 1

    def test_what_looks_at_two_attributes_is_left_over_but_asks_for_both(self) -> None:
        found = list(leaves(Filter.parse("a + b > 5").tree))
        assert [each.attribute for each in found if isinstance(each, Leaf)] == ["a", "b"]
        assert [each.attributes for each in found if isinstance(each, Residual)] == [frozenset("ab")]

    def test_a_rule_with_an_enormous_disjunctive_form_keeps_its_shape(self) -> None:
        rule = " AND ".join(f"(a{i} = 1 OR b{i} = 2)" for i in range(40))
        tree = Filter.parse(rule).tree
        assert len(list(leaves(tree))) == 80
        assert not isinstance(tree, Or)


class TestWhatIsRefused:
    @pytest.mark.parametrize(
        "condition",
        ["5", "'a'", "a + 1", "upper(a)", "DATE'2024-01-01'", "a AND 5", "NOT (a + 1)", "a LIKE 5",
         "a RLIKE 5", "a LIKE 'x\\\\'", "a RLIKE '('", "typeof(a) > 'b'", "typeof(a) = 'nonsense'",
         "CAST(a AS INT)"],
    )  # fmt: skip
    def test_what_is_no_condition_says_so_and_where(self, condition: str) -> None:
        with pytest.raises(ParseError) as caught:
            Filter.parse(condition)
        assert caught.value.reason
        assert 0 <= caught.value.position <= len(condition)

    @given(conditions())
    @example("a + b")
    def test_it_is_refused_when_read_and_never_later(self, condition: str) -> None:
        if is_readable(condition):
            wanted = Filter.parse(condition)
            str(wanted), str(~wanted), wanted.matches({"a": 1}), (~wanted).matches({"a": date(2024, 1, 1)})

    def test_a_condition_that_is_no_text(self) -> None:
        with pytest.raises(ParseError, match="text"):
            Filter.parse(5)

    def test_reading_twice_gives_the_same_filter(self) -> None:
        text = "a > 5 AND b LIKE '%x%'"
        again = lower_filter(parse_condition(text), text, "UTC")
        assert again == Filter.parse(text)
        assert hash(again) == hash(Filter.parse(text))


CHOSEN = {"price": [6, 5, "6", None, 7.5], "city": ["x", None]}


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("CASE WHEN price > 5 THEN 1 ELSE 0 END = 1", "price > 5"),
        ("CASE WHEN price > 5 THEN 1 ELSE 0 END <> 1", "(price > 5) IS NOT TRUE"),
        ("CASE WHEN price > 5 THEN 0 ELSE 2 END >= 1", "(price > 5) IS NOT TRUE"),
        ("CASE WHEN price > 5 THEN 'a' ELSE 'b' END < 'b'", "price > 5"),
        ("CASE WHEN price > 5 OR city = 'x' THEN 1 ELSE 0 END = 1", "city = 'x' OR price > 5"),
        ("NOT (CASE WHEN price > 5 THEN 1 ELSE 0 END = 1)", "(price > 5) IS NOT TRUE"),
        # Neither or both of the branches, and branches of two types.
        ("CASE WHEN price > 5 THEN 1 ELSE 1 END = 1", None),
        ("CASE WHEN price > 5 THEN 1 ELSE 0 END = 3", None),
        ("CASE WHEN price > 5 THEN 1 ELSE 0.5 END = 1", None),
        ("CASE WHEN price > 5 THEN '1' ELSE 'x' END = 1", None),
        ("CASE WHEN price > 5 THEN 1 END = 1", None),
    ],
)
def test_a_case_that_tells_whether_a_condition_holds_is_that_condition(text: str, plain: str | None) -> None:
    found = Filter.parse(text)
    if plain is not None:
        assert found == Filter.parse(plain)
    assert Filter.parse(str(found)) == found
    evaluated = compile_expression(parse_condition(text), "UTC")
    for price, city in product(CHOSEN["price"], CHOSEN["city"]):
        event = {"price": price, "city": city}
        assert found.matches(event) is (evaluated(event, {}) is True)
        assert (~found).matches(event) is (evaluated(event, {}) is False)


def test_cases_with_branches_of_any_kind_are_indexed_as_they_are_evaluated() -> None:
    forms = ("1 ELSE 0 END = 1", "0 ELSE 1 END = 1", "1 ELSE 1 END = 1", "'a' ELSE 'b' END = 'a'", "2 ELSE {n} END > 3")
    texts = [f"CASE WHEN price > {n} THEN {form.format(n=n % 7)}" for n in range(40) for form in forms]
    matcher = Matcher()
    matcher.add_many(list(map(str, range(len(texts)))), texts)
    for price in (-1, 3, 17.5, 100, "x", None):
        event = {"price": price}
        evaluated = [compile_expression(parse_condition(text), "UTC")(event, {}) for text in texts]
        assert matcher.match(event) == {str(at) for at, value in enumerate(evaluated) if value is True}


@pytest.mark.parametrize("place", ["instr({x}, {part})", "locate({part}, {x})", "position({part} IN {x})"])
@pytest.mark.parametrize("value", ["x", "lower(x)"])
@pytest.mark.parametrize("part", ["'5'", "''", "'ab'", "'%'"])
def test_a_text_that_is_looked_for_is_a_pattern(place: str, value: str, part: str) -> None:
    values = [*EVERY_VALUE, "5", "a5", "ab", "cab", "AB", "%", "", 5, 0.5, 15, True, date(2025, 5, 5), b"5ab", b"\xff"]
    for operator, number in product(("=", "<>", "<", "<=", ">", ">="), (0, 1, 2)):
        found = place.format(x=value, part=part)
        for text in (f"{found} {operator} {number}", f"{number} {operator} {found}"):
            wanted = Filter.parse(text)
            assert Filter.parse(str(wanted)) == wanted
            assert ("contains(" in str(wanted) or "startswith(" in str(wanted)) is (
                (text.startswith(found) and (operator, number) in SEARCHES)
                or (text.endswith(found) and (MIRRORED.get(operator, operator), number) in SEARCHES)
            )
            evaluated = compile_expression(parse_condition(text), "UTC")
            for each in values:
                event = {} if each is MISSING else {"x": each}
                assert wanted.matches(event) is (evaluated(event, {}) is True), (text, each)
                assert (~wanted).matches(event) is (evaluated(event, {}) is False), (text, each)


SEARCHES = {(">", 0), (">=", 1), ("<>", 0), ("=", 0), ("<", 1), ("<=", 0), ("=", 1), ("<>", 1)}
