"""Similarity of interests: a probability, exact where containment is known, and in step with what events do."""

from __future__ import annotations

from random import Random

import pytest

from palio.peers.communities.event_sample import EventSample
from palio.peers.communities.relation import Relation, relate
from tests.simulation.communities import KINDS, event, interest


@pytest.mark.parametrize("kind", KINDS)
def test_similarity_is_a_probability_and_one_where_containment_is_known(kind: str) -> None:
    random = Random(5)
    sample = EventSample(event(kind, random) for _ in range(100))
    interests = [interest(kind, random) for _ in range(25)]
    for one in interests:
        assert sample.proximity(one, one) == 1.0
        for other in interests:
            found = sample.similarity(one, other)
            assert 0.0 <= found <= 1.0
            assert sample.relate(one, other) is relate(one, other)
            if other.covers(one):
                assert found == 1.0
            assert sample.proximity(one, other) == sample.proximity(other, one)


def test_similarity_comes_near_the_share_of_fresh_events() -> None:
    random = Random(6)
    sample = EventSample(event("attributes", random) for _ in range(500))
    fresh = [event("attributes", random) for _ in range(500)]
    interests = [interest("attributes", random) for _ in range(15)]
    compared = 0
    for one in interests:
        mine = [each for each in fresh if one.matches(each)]
        if len(mine) < 100:
            continue
        for other in interests:
            share = sum(map(other.matches, mine)) / len(mine)
            assert sample.similarity(one, other) == pytest.approx(share, abs=0.15)
            compared += 1
    assert compared > 30


def test_an_event_that_is_added_is_known() -> None:
    low, high = (interest("sets", Random(each)) for each in (1, 2))
    sample = EventSample()
    assert sample.relate(low, high) is relate(low, high) is not Relation.EQUIVALENT
    before = sample.similarity(low, high)
    sample.add(event("sets", Random(3)))
    assert len(sample) == 1
    assert 0.0 <= before <= 1.0
