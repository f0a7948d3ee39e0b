"""Exponential backoff between attempts."""

from __future__ import annotations

from random import Random

from palio.network.backoff import Backoff


def test_pauses_double_up_to_the_longest_and_begin_again() -> None:
    backoff = Backoff(0.1, 1.0, lambda low, high: (low + high) / 2)
    assert [backoff.next() for _ in range(6)] == [0.1, 0.2, 0.4, 0.8, 1.0, 1.0]
    backoff.reset()
    assert [backoff.next() for _ in range(2)] == [0.1, 0.2]


def test_every_pause_is_within_a_half_of_its_mean() -> None:
    backoff = Backoff(1.0, 1.0, Random(7).uniform)
    pauses = [backoff.next() for _ in range(1_000)]
    assert all(0.5 <= pause <= 1.5 for pause in pauses)
    assert min(pauses) < 0.6
    assert max(pauses) > 1.4
