"""m-cast: every owner of a key is reached once, on short ways; test vectors and properties of the specification."""

from __future__ import annotations

from collections import Counter
from math import ceil, log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.peers.multicast import split_keys
from palio.peers.ring import Ring, Runs, contains, intersect_runs, subtract_runs, union_runs


class StableRing:
    """All nodes of a ring with correct tables."""

    def __init__(self, bits: int, nodes: list[int]) -> None:
        self.ring = Ring(bits)
        self.nodes = sorted(nodes)

    def owner(self, key: int) -> int:
        return next((node for node in self.nodes if node >= key), self.nodes[0])

    def predecessor(self, node: int) -> int:
        return self.nodes[self.nodes.index(node) - 1]

    def fingers(self, node: int) -> dict[int, int | None]:
        found = {self.owner((node + (1 << power)) % self.ring.size) for power in range(self.ring.bits)}
        return {finger: self.predecessor(finger) for finger in found}

    def cast(self, origin: int, keys: Runs) -> tuple[list[int], Counter[int], int]:
        """Deliverers, receptions by node, and the longest way of a message to all owners of keys."""
        delivered, received, longest = [], Counter[int](), 0
        under_way = [(origin, keys, 0)]
        while under_way:
            node, part, hops = under_way.pop()
            longest = max(longest, hops)
            own = intersect_runs(part, self.ring.arc(self.predecessor(node), node))
            if own:
                delivered.append(node)
            rest = subtract_runs(part, own)
            for finger, keys_of_it in split_keys(self.ring, node, self.fingers(node), rest).items():
                assert finger in self.fingers(node)
                received[finger] += 1
                under_way.append((finger, keys_of_it, hops + 1))
        return sorted(delivered), received, longest

    def owners(self, keys: Runs) -> set[int]:
        arcs = ((node, self.ring.arc(self.predecessor(node), node)) for node in self.nodes)
        return {node for node, arc in arcs if intersect_runs(keys, arc)}


def keys_of(*positions: int) -> Runs:
    return union_runs(((each, each),) for each in positions)


def test_owners_and_fingers_of_the_printed_ring() -> None:
    ring = StableRing(5, [1, 8, 14, 20])
    assert [ring.owner(key) for key in (13, 17, 26)] == [14, 20, 1]
    assert [ring.owner((8 + (1 << power)) % 32) for power in range(5)] == [14, 14, 14, 20, 1]
    assert ring.ring.arc(20, 1) == ((0, 1), (21, 31))


def test_keys_equal_to_positions_of_nodes_are_not_lost() -> None:
    delivered, received, longest = StableRing(5, [1, 8, 14, 20]).cast(8, keys_of(8, 13, 14, 17, 26))
    assert (delivered, received.total(), longest) == ([1, 8, 14, 20], 3, 1)


def test_a_single_key_goes_forward_and_not_back() -> None:
    delivered, received, longest = StableRing(6, list(range(0, 64, 4))).cast(0, keys_of(17))
    assert (delivered, dict(received), longest) == ([20], {16: 1, 20: 1}, 2)


def test_a_range_reaches_its_owners_and_nobody_else() -> None:
    delivered, received, longest = StableRing(6, list(range(0, 64, 4))).cast(0, ((5, 22),))
    assert delivered == sorted(received) == [8, 12, 16, 20, 24]
    assert (received.total(), longest) == (5, 2)


def test_one_node_delivers_everything_to_itself() -> None:
    assert StableRing(4, [5]).cast(5, ((0, 15),)) == ([5], Counter(), 0)


def test_all_keys_are_a_broadcast() -> None:
    ring = StableRing(8, list(range(0, 256, 5)))
    _, received, _ = ring.cast(10, ((0, 255),))
    assert received.total() == len(ring.nodes) - 1


rings = st.integers(4, 9).flatmap(
    lambda bits: st.tuples(
        st.just(bits), st.sets(st.integers(0, 2**bits - 1), min_size=1, max_size=40), st.integers(0, 2**32)
    )
)


@given(rings, st.lists(st.integers(0, 2**32), min_size=1, max_size=20), st.booleans())
def test_every_owner_receives_once_and_nobody_else_twice(
    shape: tuple[int, set[int], int], drawn: list[int], is_range: bool
) -> None:
    bits, nodes, choice = shape
    ring = StableRing(bits, list(nodes))
    positions = [each % ring.ring.size for each in drawn]
    keys = ring.ring.runs(positions[0], positions[-1]) if is_range else keys_of(*positions)
    origin = ring.nodes[choice % len(ring.nodes)]
    delivered, received, longest = ring.cast(origin, keys)
    owners = ring.owners(keys)
    assert set(delivered) == owners
    assert len(delivered) == len(owners)
    assert origin not in received
    assert max(received.values(), default=0) <= 1
    assert longest <= bits
    if is_range:
        assert received.total() <= len(owners) + ceil(log2(len(ring.nodes))) + 1


@given(rings, st.lists(st.integers(0, 2**32), min_size=1, max_size=20), st.randoms(use_true_random=False))
def test_unknown_predecessors_lose_no_key(shape: tuple[int, set[int], int], drawn: list[int], random: object) -> None:
    bits, nodes, choice = shape
    ring = StableRing(bits, list(nodes))
    known = ring.fingers

    def forgetful(node: int) -> dict[int, int | None]:
        return {finger: predecessor if random.random() < 0.5 else None for finger, predecessor in known(node).items()}  # type: ignore[attr-defined]

    ring.fingers = forgetful  # type: ignore[method-assign]
    keys = keys_of(*(each % ring.ring.size for each in drawn))
    delivered, _, longest = ring.cast(ring.nodes[choice % len(ring.nodes)], keys)
    assert set(delivered) == ring.owners(keys)
    assert longest <= bits + 1


runs = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 5))).map(
    lambda drawn: union_runs(((low, low + length),) for low, length in drawn)
)


@given(runs, runs)
def test_runs_are_sets_of_positions(first: Runs, second: Runs) -> None:
    def positions(given: Runs) -> set[int]:
        return {each for each in range(70) if contains(given, each)}

    assert positions(intersect_runs(first, second)) == positions(first) & positions(second)
    assert positions(subtract_runs(first, second)) == positions(first) - positions(second)


@pytest.mark.parametrize(("low", "position", "high", "expected"), [(3, 5, 9, True), (9, 1, 3, True), (9, 5, 3, False),
                                                                  (4, 4, 4, False), (4, 5, 4, True)])  # fmt: skip
def test_an_open_arc_wraps(low: int, position: int, high: int, expected: bool) -> None:
    assert Ring(4).is_between(low, position, high) is expected
