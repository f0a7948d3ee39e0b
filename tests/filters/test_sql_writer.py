"""Tests of the SQL writer: filters print as a person would write them."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given

from palio.errors import ParseError
from palio.filters.comparisons import comparison_terms, number_terms, values_satisfying
from palio.filters.filter import Filter
from palio.filters.kinds import Kind
from palio.filters.sql_writer import leaf_to_sql
from palio.filters.tree import Leaf
from palio.filters.value_sets import ANY_VALUE, NULLS, PRESENT, ValueSet
from tests.filters.set_strategies import plain_sets

parse = Filter.parse


@pytest.mark.parametrize(
    "condition",
    [
        "x > 5",
        "x <= 5",
        "x = 5",
        "x <> 5",
        "x = -5",
        "x = 1.5",
        "x > 1e+300D",
        "x IN (1, 3, 5)",
        "x NOT IN (1, 3)",
        "x BETWEEN 1 AND 5",
        "x > 1 AND x < 5",
        "x = 'ACME'",
        "x IN ('ACME', 'INIT')",
        "x LIKE 'ab%'",
        "x LIKE '%b%'",
        "x NOT LIKE 'ab%'",
        "x NOT LIKE 'a' AND x NOT LIKE 'b%'",
        "x NOT LIKE 'a_\\\\_%'",
        "typeof(x) IN ('bigint', 'decimal', 'double')",
        "x ILIKE 'b%'",
        "x RLIKE '^a'",
        "x = ''",
        "x IS NULL",
        "x IS NOT NULL",
        "x",
        "NOT x",
        "x = X'00FF'",
        "a > b",
        "a.b = 1 AND `c d` = 2",
        "x > 5 AND y < 3 AND z = 'a'",
        "a = 1 OR b = 2",
        "TRUE",
        "FALSE",
        "typeof(x) = 'date'",
        "x = -9223372036854775808L",
        "x IS NULL OR x > 5",
        "x IS NOT NULL AND (x = 5) IS NOT TRUE",
        "x IS NOT NULL AND (x LIKE 'ab%' OR x > 5) IS NOT TRUE",
    ],
)
def test_a_plain_condition_prints_as_it_was_written(condition: str) -> None:
    written = str(parse(condition)).replace("(a > b)", "a > b").removeprefix("a IS NOT NULL AND b IS NOT NULL AND ")
    assert written == condition


@given(plain_sets())
def test_any_set_of_values_reads_back_as_itself(values: ValueSet) -> None:
    """Null and missing go together in SQL; a set that tells them apart no condition can say."""
    if values.parts[Kind.NULL] != values.parts[Kind.MISSING]:
        values = values.intersect(PRESENT)
    text, _ = leaf_to_sql("x", values)
    assert parse(text).tree == Filter.of_tree(Leaf("x", values), Leaf("x", NULLS)).tree


@given(plain_sets())
def test_comparisons_made_of_a_part_mean_the_part(values: ValueSet) -> None:
    for kind in Kind:
        part = values.parts[kind]
        if kind > Kind.NULL and not part.is_full:
            assert values_satisfying(comparison_terms(kind, part)).parts[kind] == part


@given(plain_sets())
def test_terms_for_all_numbers_mean_the_same_for_each_kind_of_number(values: ValueSet) -> None:
    found = number_terms(values)
    if found is not None:
        for kind in (Kind.INTEGER, Kind.DECIMAL, Kind.FLOAT):
            assert values_satisfying(found).parts[kind] == values.parts[kind]


@pytest.mark.parametrize("name", ["a", "a.b", "`a.b`", "`a``b`", "select", "a.x y.c", "ü", "1a", "`.`"])
def test_names_are_quoted_where_they_must_be(name: str) -> None:
    from palio.filters.sql_writer import name_to_sql

    wanted = Filter.of_tree(Leaf(name, ValueSet.points([1])), Leaf(name, NULLS))
    assert wanted.attributes == {name}
    assert parse(str(wanted)).attributes == wanted.attributes
    assert name_to_sql(name)


def test_a_number_that_only_one_kind_may_have_is_guarded() -> None:
    only: Any = ValueSet.points([5])
    text, _ = leaf_to_sql("x", only)
    assert text == "typeof(x) = 'bigint' AND x = 5"
    assert leaf_to_sql("x", ANY_VALUE) == ("TRUE", 0)


@pytest.mark.parametrize(
    "form",
    [
        "CASE WHEN a > 1 THEN {} ELSE 1 END",
        "CASE WHEN {} = 1 THEN 1 ELSE 2 END",
        "CAST({} BETWEEN 1 AND 2 AS INT)",
        "(1 + {})",
        "(- {})",
        "abs({})",
    ],
)
def test_what_is_nested_as_deeply_as_may_be_reads_back(form: str) -> None:
    text, deepest = "x", None
    for _ in range(200):
        text = form.format(text)
        try:
            deepest = parse(f"{text} = 3")
        except ParseError:
            break
    assert deepest is not None
    assert parse(str(deepest)) == deepest
