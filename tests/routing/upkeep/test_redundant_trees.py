"""Redundant trees of random networks, against what can be reached when a broker or a link is taken away."""

from __future__ import annotations

from itertools import pairwise
from random import Random

from palio.routing.upkeep.redundant_trees import redundant_trees
from palio.simulation.topologies import random_mesh


def way(parents: dict[int, int], node: int, root: int) -> list[int]:
    """The brokers from one to the root, both included."""
    found = [node]
    while found[-1] != root:
        found.append(parents[found[-1]])
        assert len(found) <= len(parents) + 1, "a loop"
    return found


def reached(graph: dict[int, set[int]], root: int, without: int | None = None) -> set[int]:
    seen, waiting = {root}, [root]
    while waiting:
        for each in graph[waiting.pop()] - seen - {without}:
            seen.add(each)
            waiting.append(each)
    return seen


def links(brokers: list[int]) -> set[frozenset[int]]:
    return {frozenset(pair) for pair in pairwise(brokers)}


def test_two_ways_meet_only_where_there_is_no_other() -> None:
    for seed in range(300):
        random = Random(seed)
        brokers = random.randrange(2, 14)
        graph: dict[int, set[int]] = {each: set() for each in range(brokers)}
        for a, b, _ in random_mesh(brokers, random.randrange(2 * brokers), random).links:
            graph[a].add(b)
            graph[b].add(a)
        root = random.randrange(brokers)
        trees = redundant_trees(root, graph.__getitem__)
        for node in set(graph) - {root}:
            first, second = way(trees.first, node, root), way(trees.second, node, root)
            assert links(first) <= {frozenset((a, b)) for a in graph for b in graph[a]}, seed
            assert links(second) <= {frozenset((a, b)) for a in graph for b in graph[a]}, seed
            for shared in set(first[1:-1]) & set(second[1:-1]):
                assert node not in reached(graph, root, without=shared), f"seed {seed}: {shared} could be avoided"
            for a, b in map(tuple, links(first) & links(second)):
                cut = {each: others - ({a, b} - {each} if each in (a, b) else set()) for each, others in graph.items()}
                assert node not in reached(cut, root), f"seed {seed}: the link {a}–{b} could be avoided"


def test_a_long_line_is_no_deep_recursion() -> None:
    line = {each: {other for other in (each - 1, each + 1) if 0 <= other < 5_000} for each in range(5_000)}
    trees = redundant_trees(0, line.__getitem__)
    assert trees.first == trees.second
    assert trees.first[4_999] == 4_998
