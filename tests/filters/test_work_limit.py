"""Limit of work: what exceeds it is no match or NULL, and is noted; without a limit nothing changes."""

from __future__ import annotations

import pytest

from palio import Filter
from palio.filters.work_limit import WorkLimit, work_limit

LONG = "ab" * 10_000
STEPS = 200_000  # so little that the texts of a test are long

COSTLY = {
    "t RLIKE 'a[ab]{60}b'": "a[ab]{60}b",
    "t LIKE '%a_a_a_a_a_a_a_a%b'": "%a_a_a_a_a_a_a_a%b",
    "regexp_replace(t, 'a', 'c') LIKE 'c%'": "a",
    "regexp_extract(t, 'a[ab]{60}b', 0) <> ''": "a[ab]{60}b",
    "regexp_count(t, 'a') = 10000": "a",
    "levenshtein(t, 'abc') > 3": "levenshtein()",
    "mask(t) LIKE 'x%'": "mask()",
    "initcap(t) LIKE 'A%'": "initcap()",
    "substring_index(t, 'b', 2) = 'aba'": "substring_index()",
    "instr(t, 'b', 1, 3) = 6": "instr()",
    "size(split(t, 'a')) = 10001": "a",
    "translate(t, 'a', 'x') LIKE 'x%'": "translate()",
}


@pytest.mark.parametrize(("condition", "noted"), COSTLY.items())
def test_what_exceeds_the_limit_does_not_hold_and_is_noted(condition: str, noted: str) -> None:
    wanted = Filter.parse(condition)
    limit = WorkLimit(STEPS)
    with work_limit(limit):
        assert not wanted.matches({"t": LONG})
    assert dict(limit.reached) == {noted: 1}
    assert wanted.matches({"t": LONG})


@pytest.mark.parametrize("condition", ["t RLIKE 'a.{0,200}b'", "t LIKE '%b%a%b'", "upper(t) LIKE 'A%'"])
def test_what_reads_a_text_once_has_no_limit(condition: str) -> None:
    limit = WorkLimit(STEPS)
    with work_limit(limit):
        assert Filter.parse(condition).matches({"t": LONG})
    assert not limit.reached


@pytest.mark.parametrize(
    "condition",
    [
        "length(repeat(t, 100000)) > 5",
        "length(lpad(t, 100000)) > 5",
        "length(replace(t, 'a', repeat('b', 60000))) > 5",
        "length(format_string('%100000s', t)) > 5",
    ],
)
def test_a_short_text_is_not_blown_up(condition: str) -> None:
    wanted = Filter.parse(condition)
    limit = WorkLimit(STEPS)
    with work_limit(limit):
        assert not wanted.matches({"t": "aa"})
    assert limit.reached
    assert wanted.matches({"t": "aa"})


def test_conditions_on_elements_are_limited_by_the_length_of_the_array() -> None:
    wanted = Filter.parse("exists(xs, x -> x + 1 = 3)")
    limit = WorkLimit(STEPS)
    with work_limit(limit):
        assert wanted.matches({"xs": [1, 2]})
        assert not wanted.matches({"xs": list(range(3_000))})
    assert dict(limit.reached) == {"exists()": 1}
    assert wanted.matches({"xs": list(range(3_000))})
