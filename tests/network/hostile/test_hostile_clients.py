"""Hostile clients: each attack by its name; an honest pair goes on, memory is bounded, and refusals are named."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.network.hostile import http_attacks, subscription_attacks, wire_attacks
from tests.network.hostile.arena import ATTACKS, Attack, run_attack

_SUBJECTS = (wire_attacks, subscription_attacks, http_attacks)  # importing them registers their attacks


@pytest.mark.parametrize("attack", ATTACKS, ids=lambda each: each.name)
def test_an_honest_pair_goes_on_during(attack: Attack, tmp_path: Path) -> None:
    run_attack(attack, tmp_path)


def test_there_are_sixty_attacks_each_with_a_name_and_a_promise() -> None:
    assert len(ATTACKS) >= 60
    assert len({each.name for each in ATTACKS}) == len(ATTACKS)
    assert all(each.promise for each in ATTACKS)
