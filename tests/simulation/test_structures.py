"""Structures of the literature in whole networks: judged by the flooding oracle, as the default ones are."""

from __future__ import annotations

from typing import Any

import pytest

from palio.errors import IllegalCombination, InvalidArgument
from palio.simulation import Network
from tests.simulation.scenarios import FAULTY_LINKS, Scenario

DOMAINS = "x=0:7 y=0:7"
COVERING: list[dict[str, Any]] = [
    {"graph": "lazy", "parents": 2},
    {"graph": "dense"},
    {"graph": "forest"},
    {"graph": "poset"},
    {"index": "linear", "parents": 3},
    {"index": "columnar"},
    {"index": "counting"},
    {"index": "kdtree"},
    {"index": "curve", "domains": DOMAINS},
    {"index": "curve", "domains": DOMAINS, "curve": "hilbert", "epsilon": 0.3},
    {"index": "curve", "domains": DOMAINS, "curve": "gray", "budget": 2, "graph": "lazy"},
]
CHOICES: list[tuple[str, str, dict[str, Any]]] = [
    *(("covering", "content", each) for each in COVERING),
    *(("merging", "content", each) for each in COVERING),
    *(("identity", "content", {"matcher": each}) for each in ("counting", "kdtree")),
    *(("simple", "reuse", {"matcher": each}) for each in ("counting", "kdtree")),
    ("covering", "prefix", {"matcher": "counting", "graph": "forest"}),
    *(("identity", "bloom", {"structure": each}) for each in ("sbstree", "counting", "skiptree")),
    ("identity", "bloom", {"digests": "sbsposet", "structure": "skiptree", "m": 256}),
    ("simple", "bloom", {"matcher": "counting"}),
]
every_choice = pytest.mark.parametrize(
    ("propagation", "forwarding", "options"), CHOICES, ids=lambda each: str(each).strip("{}")
)


def _judged(propagation: str, forwarding: str, options: dict[str, Any], seed: int) -> None:
    faulty = FAULTY_LINKS if seed % 3 == 0 else {}
    choices = {"propagation": propagation, "forwarding": forwarding, "options": {**options, **faulty}}
    verdict = Scenario(seed, choices, breaks=seed % 2 == 1).run(30).verdict()
    assert verdict.is_right, f"seed {seed}\n{verdict}"


@every_choice
def test_what_is_delivered_is_what_flooding_delivers(
    propagation: str, forwarding: str, options: dict[str, Any]
) -> None:
    for seed in range(3):
        _judged(propagation, forwarding, options, seed)


@pytest.mark.deep
@every_choice
def test_a_thousand_seeds(propagation: str, forwarding: str, options: dict[str, Any]) -> None:
    for seed in range(5_000, 6_000):
        _judged(propagation, forwarding, options, seed)


@pytest.mark.parametrize("options", [each for each in COVERING if "lazy" not in each.values()][:8], ids=str)
def test_exact_structures_forward_the_same_filters(options: dict[str, Any]) -> None:
    tables = []
    for each in ({}, options):
        scenario = Scenario(11, {"propagation": "covering", "options": each}, breaks=False)
        tables.append(scenario.run(40).tables)
    assert tables[0] == tables[1]


@pytest.mark.parametrize(
    ("choices", "options", "reason"),
    [
        ({"propagation": "identity"}, {"graph": "poset"}, "graph is an option of covering"),
        ({"propagation": "covering"}, {"structure": "skiptree"}, "structure is an option of bloom"),
        ({"propagation": "covering"}, {"graph": "heap"}, "there is no graph 'heap'"),
        ({"propagation": "covering"}, {"graph": "poset", "index": "linear"}, "index is an option of the graphs"),
        ({"propagation": "covering"}, {"epsilon": 0.1}, "epsilon is an option of the index curve"),
        ({"propagation": "covering"}, {"index": "curve"}, "the curve needs attributes"),
        ({"propagation": "covering"}, {"index": "curve", "domains": "x"}, "NAME=LOW:HIGH"),
        ({}, {"matcher": "magic"}, "there is no matcher 'magic'"),
    ],
)
def test_structures_that_nobody_would_use_are_refused(
    choices: dict[str, Any], options: dict[str, Any], reason: str
) -> None:
    with pytest.raises((InvalidArgument, IllegalCombination), match=reason):
        Network.line(2, **choices, options=options)
