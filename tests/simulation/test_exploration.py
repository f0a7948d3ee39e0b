"""Exhaustive exploration: all states are found, a counterexample is a shortest one, and the search is bounded."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from palio import InvalidArgument, PalioError
from palio.simulation.exploration import explore


def steps(state: tuple[int, int]) -> Iterator[tuple[str, tuple[int, int]]]:
    """Two counters to three."""
    one, other = state
    if one < 3:
        yield "one", (one + 1, other)
    if other < 3:
        yield "other", (one, other + 1)


def test_every_reachable_state_is_visited_once() -> None:
    found = explore((0, 0), steps, lambda _: "", lambda state: state)
    assert (found.states, found.transitions, found.complaint) == (16, 24, "")
    assert str(found) == "16 states and 24 transitions without a complaint"


def test_a_complaint_comes_with_a_shortest_way_to_it() -> None:
    found = explore((0, 0), steps, lambda state: "equal" if state[0] == state[1] > 0 else "", lambda state: state)
    assert (found.complaint, sorted(found.moves)) == ("equal", ["one", "other"])
    assert str(found).startswith("equal, after:\n  ")


def test_too_large_a_model_is_refused() -> None:
    with pytest.raises(PalioError, match="more than 10 states"):
        explore((0, 0), steps, lambda _: "", lambda state: state, max_states=10)
    with pytest.raises(InvalidArgument, match="max_states is a whole number from 1 on, not 0"):
        explore((0, 0), steps, lambda _: "", lambda state: state, max_states=0)
