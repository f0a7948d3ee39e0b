"""Legal combinations, exactly those of the table, and the reasons of refusals."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from palio import IllegalCombination, InvalidArgument
from palio.routing.combinations import FORWARDINGS, PROPAGATIONS, Combination, legal_combinations
from palio.routing.strategies import OPTION_NAMES

OPTIONS: dict[str, tuple[str, dict[str, Any]]] = {
    "content": ("content", {}),
    "always": ("reuse", {"mode": "always"}),
    "partial": ("reuse", {"mode": "partial"}),
    "optimiser": ("prefix", {"tree": "optimiser"}),
    "local": ("prefix", {"tree": "local"}),
    "bloom": ("bloom", {}),
    "group": ("group", {}),
}
LEGAL = {
    "flooding": {"content"},
    "simple": {"content", "always", "partial", "optimiser", "local", "bloom", "group"},
    "identity": {"content", "always", "partial", "optimiser", "local", "bloom", "group"},
    "covering": {"content", "partial", "optimiser", "group"},
    "merging": {"content", "partial", "optimiser", "group"},
    "xroute": {"content", "partial", "optimiser", "group"},
}


@pytest.mark.parametrize("advertisements", [False, True])
@pytest.mark.parametrize("choice", OPTIONS)
@pytest.mark.parametrize("propagation", PROPAGATIONS)
def test_the_table_of_combinations(propagation: str, choice: str, advertisements: bool) -> None:
    forwarding, options = OPTIONS[choice]
    legal = choice in LEGAL[propagation] and not (advertisements and choice == "local")
    if legal:
        Combination(propagation, forwarding, advertisements, options=options)
    else:
        with pytest.raises(IllegalCombination) as caught:
            Combination(propagation, forwarding, advertisements, options=options)
        assert propagation in caught.value.choice
        assert caught.value.reason


@pytest.mark.parametrize("choice", OPTIONS)
@pytest.mark.parametrize("propagation", PROPAGATIONS)
def test_trees_of_publishers_go_with_the_table_and_with_advertisements_only_where_lists_name_brokers(
    propagation: str, choice: str
) -> None:
    forwarding, options = OPTIONS[choice]
    for advertisements in (False, True):
        legal = choice in LEGAL[propagation] and (not advertisements or propagation == "flooding" or choice == "group")
        try:
            made = Combination(propagation, forwarding, advertisements, options={**options, "trees": "publisher"})
        except IllegalCombination as error:
            assert not legal, error
        else:
            assert legal
            assert made.has_homes is (propagation != "flooding")


def test_all_legal_combinations_are_listed_once() -> None:
    listed = [str(each) for each in legal_combinations()]
    assert len(listed) == len(set(listed))
    # Those of the table, without prefix by a local tree where there are advertisements, and reuse `never` everywhere.
    # And a hierarchy for every propagation but flooding. With trees of publishers the table and reuse `never` once, and
    # where there are advertisements those two of flooding, and group forwarding.
    # XRoute is listed by its counters, which have no group forwarding, trees of publishers or hierarchy.
    spreads = [each for each in PROPAGATIONS if each != "xroute"]
    table, others = sum(len(LEGAL[each]) for each in spreads), len(spreads) - 1
    shared = 2 * table - 2 + 2 * len(spreads)
    counted = 2 * len({"content", "never", "partial", "optimiser"})
    assert len(listed) == shared + others + table + len(spreads) + 2 + others + counted
    assert {each.forwarding for each in legal_combinations()} == set(FORWARDINGS)


def test_prefix_takes_the_tree_that_is_legal_where_none_is_asked_for() -> None:
    assert Combination("simple", "prefix").tree == "local"
    assert Combination("covering", "prefix").tree == "optimiser"
    assert Combination("simple", "prefix", True).tree == "optimiser"


@pytest.mark.parametrize("fault", ["loss", "duplication", "reordering"])
def test_a_raw_lossy_link_is_refused(fault: str) -> None:
    assert Combination(options={fault: 0.1}).has_session
    with pytest.raises(IllegalCombination, match="needs the session"):
        Combination(options={fault: 0.1, "session": False})


def test_what_there_is_not_is_refused_with_what_there_is() -> None:
    with pytest.raises(InvalidArgument, match="known are flooding, simple, identity, covering, merging, xroute"):
        Combination("gossip")
    with pytest.raises(InvalidArgument, match=r"there is no mode .sometimes.; known are never, always, partial"):
        Combination("simple", "reuse", options={"mode": "sometimes"})


def test_every_option_is_documented(project_folder: Path) -> None:
    page = (project_folder / "docs" / "routing.md").read_text()
    rows = [line.split("|")[1] for line in page.splitlines() if line.startswith("| `")]
    documented = {name for row in rows for name in re.findall(r"`(\w+)`", row)}
    assert documented - set(PROPAGATIONS) == OPTION_NAMES


@pytest.mark.parametrize(
    ("option", "said"),
    [
        ({"drift": 1}, "a share from 0 to below 1"),
        ({"reordering": -0.1}, "a share from 0 to below 1"),
        ({"slack": 1.5}, "a share from 0 to 1"),
        ({"slack": -1}, "a number from 0 on"),
        ({"disk": -0.1}, "a number from 0 on"),
        ({"window": 0}, "a whole number from 1 on"),
        ({"spill": 0}, "a whole number from 1 on"),
        ({"queue": -1}, "a whole number from 0 on"),
        ({"patience": -1}, "a number from 0 on"),
    ],
)
def test_a_value_out_of_range_is_refused_before_anything_runs(option: dict[str, Any], said: str) -> None:
    [name] = option
    with pytest.raises(InvalidArgument, match=f"{name} is {said}"):
        Combination("merging", options=option)
