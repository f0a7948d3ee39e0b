"""Merging reduction: exact, and a function of the set alone."""

from __future__ import annotations

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio import Filter
from palio.routing.propagation.merging import MAX_MERGER_CHARACTERS, Merging, mergers
from palio.routing.propagation.reductions import Covering
from tests.simulation.scenarios import condition, event


@pytest.mark.parametrize(
    ("given_", "merged"),
    [
        (["x > 1 AND x < 5", "x > 3 AND x < 8"], ["x > 1 AND x < 8"]),
        (["x = 1 AND y = 1", "x = 2 AND y = 1", "x = 1 AND y = 2", "x = 2 AND y = 2"], ["x IN (1, 2) AND y IN (1, 2)"]),
        (["x > 1", "x > 3 AND y = 2"], ["x > 1"]),
        (["x > 1", "y > 1"], ["x > 1", "y > 1"]),
        (["x > 1 OR y > 1", "x > 5"], ["x > 1 OR y > 1"]),
        ([], []),
    ],
)
def test_mergers(given_: list[str], merged: list[str]) -> None:
    assert set(mergers(map(Filter.parse, given_))) == set(map(Filter.parse, merged))


def test_filters_of_a_merger_that_would_be_too_long_are_divided_among_several() -> None:
    filters = [Filter.parse(f"x = '{f'{number:04}' * 20}' AND y = 1") for number in range(200)]
    merged = mergers(filters)
    assert 200 * 80 / MAX_MERGER_CHARACTERS < len(merged) < 60
    assert max(len(str(each)) for each in merged) <= 2 * MAX_MERGER_CHARACTERS
    assert all(any(merger.covers(each) for merger in merged) for each in filters[::20])


def test_a_change_concerns_one_of_the_mergers_that_many_filters_are_divided_among() -> None:
    filters = [Filter.parse(f"x = {number}") for number in range(0, 2_000, 2)]
    reduction = Merging()
    for each in filters:
        reduction.add(each.digest, each)
    known = dict(reduction.change().additions)
    for each in filters[::50]:
        reduction.remove(each.digest)
        additions, withdrawals = reduction.change()
        assert len(withdrawals) <= 2
        assert len(additions) <= 2
        for key in withdrawals:
            del known[key]
        known |= additions
        assert not any(every.covers(each) for every in known.values())
    remaining = [each for place, each in enumerate(filters) if place % 50]
    assert sorted(known) == [each.digest for each in mergers(remaining)]


def test_an_imperfect_merger_closes_small_gaps() -> None:
    """Jerzak, Figure 2.17: two intervals apart become one that is wider."""
    apart = [Filter.parse("x > 1 AND x < 3"), Filter.parse("x > 5 AND x < 8")]
    assert mergers(apart) == [Filter.parse("(x > 1 AND x < 3) OR (x > 5 AND x < 8)")]
    assert mergers(apart, slack=0.5) == [Filter.parse("x > 1 AND x < 8")]
    assert mergers(apart, slack=0.1) == mergers(apart)


@given(st.integers(0, 2**32))
def test_mergers_match_what_the_filters_match_whatever_their_order(seed: int) -> None:
    random = Random(seed)
    filters = [Filter.parse(condition(random)) for _ in range(random.randrange(8))]
    merged = mergers(filters)
    shuffled = random.sample(filters, len(filters))
    assert mergers(shuffled) == merged
    wider = mergers(filters, slack=0.4)
    for content in (event(random) for _ in range(20)):
        matched = any(each.matches(content) for each in filters)
        assert any(each.matches(content) for each in merged) == matched
        assert any(each.matches(content) for each in wider) >= matched


@given(st.integers(0, 2**32))
def test_what_is_maximal_depends_on_the_set_alone(seed: int) -> None:
    random = Random(seed)
    filters = list({each.digest: each for each in (Filter.parse(condition(random)) for _ in range(10))}.items())
    reduction = Covering()
    told: dict[bytes, Filter] = {}
    there: dict[bytes, Filter] = {}
    for _ in range(30):
        key, wanted = random.choice(filters)
        if key in there:
            del there[key]
            reduction.remove(key)
        else:
            there[key] = wanted
            reduction.add(key, wanted)
        expected = {
            key
            for key, wanted in there.items()
            if wanted != Filter.nothing
            and not any(
                other.covers(wanted) and (name < key or not wanted.covers(other))
                for name, other in there.items()
                if name != key
            )
        }
        assert {each.digest for each in reduction.known} == expected
        if random.random() < 0.5:  # several changes may be told at once
            additions, withdrawals = reduction.change()
            assert told.keys().isdisjoint(additions)
            assert told.keys() >= set(withdrawals)
            told = {key: wanted for key, wanted in {**told, **additions}.items() if key not in withdrawals}
            assert told.keys() == expected


@pytest.mark.parametrize("slack", [0.0, 0.4])
@given(st.integers(0, 2**32))
def test_mergers_that_are_kept_up_to_date_are_those_made_anew(slack: float, seed: int) -> None:
    random = Random(seed)
    filters = list({each.digest: each for each in (Filter.parse(condition(random)) for _ in range(14))}.items())
    reduction = Merging(slack)
    told: dict[bytes, Filter] = {}
    there: dict[bytes, Filter] = {}
    for _ in range(40):
        key, wanted = random.choice(filters)
        if key in there:
            del there[key]
            reduction.remove(key)
        else:
            there[key] = wanted
            reduction.add(key, wanted)
        if random.random() < 0.6:
            additions, withdrawals = reduction.change()
            assert told.keys().isdisjoint(additions)
            assert told.keys() >= set(withdrawals)
            told = {key: wanted for key, wanted in {**told, **additions}.items() if key not in withdrawals}
            assert sorted(told) == [each.digest for each in mergers(there.values(), slack)]


def test_a_change_concerns_the_mergers_that_it_is_part_of() -> None:
    reduction = Merging()
    for number in range(300):
        for value in (1, 2):
            wanted = Filter.parse(f"x = {value} AND y = {number} AND z = {number}")
            reduction.add(wanted.digest, wanted)
    assert len(reduction.change().additions) == 300
    further = Filter.parse("x = 3 AND y = 7 AND z = 7")
    reduction.add(further.digest, further)
    additions, withdrawals = reduction.change()
    assert list(additions.values()) == [Filter.parse("x IN (1, 2, 3) AND y = 7 AND z = 7")]
    assert withdrawals == (Filter.parse("x IN (1, 2) AND y = 7 AND z = 7").digest,)
