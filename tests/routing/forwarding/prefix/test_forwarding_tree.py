"""Forwarding trees: their encoding, containment, and refusal of trees that another routing tree made."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.routing.forwarding.prefix.forwarding_tree import Branch, ForwardingTree, Tags, TreeExtractor
from tests.routing.forwarding.prefix.trees import SOME, close_events, close_filters, conjunctions_of, index_of, tree_of

_branches = st.lists(
    st.lists(st.integers(0, 3) | st.integers(0, 70_000), min_size=1, max_size=5).map(tuple), max_size=6
)


def _nodes(branches: list[Branch]) -> set[Branch]:
    return {branch[:end] for branch in branches for end in range(1, len(branch) + 1)}


@given(_branches)
def test_branches_are_read_as_they_were_written(branches: list[Branch]) -> None:
    tree = ForwardingTree.of(branches)
    assert _nodes(list(tree.branches)) == _nodes(branches)
    assert len(tree) == len(_nodes(branches))
    assert ForwardingTree.of(reversed(tree.branches)) == tree


@given(_branches, _branches)
def test_a_tree_covers_those_whose_nodes_it_has(first: list[Branch], second: list[Branch]) -> None:
    both = ForwardingTree.of([*first, *second])
    one, other = ForwardingTree.of(first), ForwardingTree.of(second)
    assert both.covers(one)
    assert one.covers(other) == (_nodes(first) >= _nodes(second))


@pytest.mark.parametrize(
    ("wide", "narrow", "covers"),
    [
        (([(0,)], 1), ([(0, 3, 4)], 0), True),
        (([(0,)], 1), ([(0, 3)], 2), True),
        (([(0, 3)], 2), ([(0,)], 1), False),
        (([(0, 3)], 0), ([(0, 3)], 2), False),
        (([(0, 3)], 2), ([(0, 3)], 2), True),
        (([(0,)], 1), ([(1,)], 1), False),
        (([(0,)], 1), ([], 1), True),
    ],
)
def test_a_node_at_the_height_stands_for_all_below_it(
    wide: tuple[list[Branch], int], narrow: tuple[list[Branch], int], covers: bool
) -> None:
    assert ForwardingTree.of(*wide).covers(ForwardingTree.of(*narrow)) is covers


@given(st.lists(close_filters(), max_size=6), st.lists(close_events(), max_size=4))
@SOME
def test_what_is_extracted_is_written_as_the_branches_are(wanted: list, happened: list) -> None:  # type: ignore[type-arg]
    for found in TreeExtractor(index_of(tree_of(conjunctions_of(wanted)))).extract(happened):
        assert ForwardingTree.of(found.branches) == found


@given(st.lists(close_filters(), max_size=6), st.binary(max_size=12), st.integers(0, 3))
def test_bytes_that_are_no_tree_of_this_one_are_not_understood(wanted: list, code: bytes, height: int) -> None:  # type: ignore[type-arg]
    index = index_of(tree_of(conjunctions_of(wanted)))
    (sent,) = Tags(index).forward([ForwardingTree(bytes((height,)) + code)])
    assert sent in (None, ())
    assert sent is None or ForwardingTree.of(ForwardingTree(b"\0" + code).branches).code == code or 0x80 in code
