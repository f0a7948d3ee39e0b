"""Every legal combination against the flooding oracle. A failure is one seed, which replays it."""

from __future__ import annotations

from typing import Any

import pytest

from palio.routing.combinations import Combination, legal_combinations
from palio.routing.forwarding.strategy import forwarding_names
from tests.simulation.scenarios import FAULTY_LINKS, Scenario

COMBINATIONS = [each for each in legal_combinations() if each.forwarding in forwarding_names()]
every_combination = pytest.mark.parametrize("combination", COMBINATIONS, ids=str)


def judged(
    combination: Combination, seed: int, *, faulty: bool, breaks: bool, operations: int, circles: bool = False
) -> None:
    choices: dict[str, Any] = {
        "propagation": combination.propagation,
        "forwarding": combination.forwarding,
        "advertisements": combination.advertisements,
        "options": {**combination.options, **(FAULTY_LINKS if faulty else {})},
    }
    net = Scenario(seed, choices, breaks, circles).run(operations)
    verdict = net.verdict()
    assert verdict.is_right, f"seed {seed}, faulty={faulty}, breaks={breaks}, circles={circles}\n{verdict}"


@every_combination
def test_what_is_delivered_is_what_flooding_delivers(combination: Combination) -> None:
    for seed in range(4):
        judged(combination, seed, faulty=False, breaks=False, operations=30)


@every_combination
def test_over_links_that_lose_double_and_reorder_while_links_and_brokers_break(combination: Combination) -> None:
    for seed in range(3):
        judged(combination, seed, faulty=seed % 2 == 0, breaks=True, operations=30)


@pytest.mark.deep
@pytest.mark.parametrize("breaks", [False, True])
@pytest.mark.parametrize("faulty", [False, True])
@every_combination
def test_a_thousand_seeds(combination: Combination, faulty: bool, breaks: bool) -> None:
    first = 1000 + 250 * (2 * faulty + breaks)
    for seed in range(first, first + 250):
        judged(combination, seed, faulty=faulty, breaks=breaks, operations=40)
