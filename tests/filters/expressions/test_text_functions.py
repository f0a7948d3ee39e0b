"""Tests of the Levenshtein distance: the textbook table, and bounded time for large texts."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from palio.filters.expressions.text_functions import MAX_LEVENSHTEIN_CELLS, levenshtein
from tests.hangs import no_hang


def by_table(left: str, right: str) -> int:
    row = list(range(len(right) + 1))
    for at, character in enumerate(left, 1):
        before, row[0] = row[0], at
        for place, other in enumerate(right, 1):
            before, row[place] = row[place], min(row[place] + 1, row[place - 1] + 1, before + (character != other))
    return row[-1]


@given(st.text("abé", max_size=90), st.text("abé", max_size=90), st.integers(-1, 60))
def test_the_distance_is_that_of_the_table(left: str, right: str, most: int) -> None:
    distance = by_table(left, right)
    assert levenshtein(left, right) == distance
    assert levenshtein(left, right, most) == (distance if distance <= most else -1)


def test_texts_that_are_too_long_have_none() -> None:
    side = int(MAX_LEVENSHTEIN_CELLS**0.5)
    with no_hang():
        assert levenshtein("ab" * (side // 2), "b" * side) == side // 2
    assert levenshtein("a" * side, "a" * (side + 1)) is None
