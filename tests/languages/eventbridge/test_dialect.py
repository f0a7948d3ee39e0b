"""The count by which EventBridge finds wildcards too complex, against the definition of it."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from palio.languages.eventbridge.dialect import max_active_states


def by_definition(wildcards: list[str], longest: int) -> int:
    """The most beginnings of the quoted wildcards that some value up to a length matches, all values tried."""
    quoted = {f'"{text}"' for text in wildcards}
    beginnings = [text[:length] for text in quoted for length in range(1, len(text) + 1)]
    letters = sorted({letter for text in quoted for letter in text if letter != "*"} | {"~"})
    values = ('"' + "".join(rest) for size in range(longest) for rest in product(letters, repeat=size))
    return max(sum(_matches(start, value) for start in beginnings) for value in values)


def _matches(wildcard: str, value: str) -> bool:
    if not wildcard:
        return not value
    if wildcard[0] == "*":
        return any(_matches(wildcard[1:], value[at:]) for at in range(len(value) + 1))
    return value[:1] == wildcard[0] and _matches(wildcard[1:], value[1:])


@given(st.lists(st.text("ab*", max_size=4).filter(lambda text: "**" not in text), min_size=1, max_size=2))
@settings(max_examples=40)
def test_it_counts_what_the_definition_says(wildcards: list[str]) -> None:
    assert max_active_states(wildcards, 1_000) == by_definition(wildcards, longest=7)


@pytest.mark.parametrize(
    ("wildcards", "count"),
    [
        ([], 0),
        (["abc"], 1),
        (["*"], 2),
        (["*aa"], 3),
        (["a*b*bb"], 5),
        (["*a*a*a*a*a*a*a*a*"], 17),
        (["ab*c", "ab*c"], 2),
        ([r"\*\*\*"], 1),
    ],
)
def test_known_counts(wildcards: list[str], count: int) -> None:
    assert max_active_states(wildcards, 1_000) == count


def test_counting_stops_at_the_limit() -> None:
    assert max_active_states(["*a*a*a*a*a*a*a*a*"], 5) == 5
    assert max_active_states([f"{'a' * n}*{'b' * n}" for n in range(1, 60)], 11) == 11
