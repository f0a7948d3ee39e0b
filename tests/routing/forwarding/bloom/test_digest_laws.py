"""Laws of Bloom forwarding: no event is lost, all structures agree, and the order of additions leaves no trace."""

from __future__ import annotations

import random
from itertools import accumulate
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from palio.filters.kinds import MISSING
from palio.filters.tree import Leaf, holds
from palio.filters.value_sets import ValueSet
from palio.routing.forwarding.bloom.classical import Sbsposet, Sbstree, has_all
from palio.routing.forwarding.bloom.digest import (
    Bits,
    BloomShape,
    expected_fill,
    false_positive_rate,
    predicate_text,
    union,
)
from palio.routing.forwarding.bloom.digest_table import DigestTable
from tests.filters.set_strategies import plain_sets
from tests.routing.forwarding.bloom.structures import STRUCTURES, WIDTH, SubsetTest
from tests.strategies import attributes

SHAPE = BloomShape(WIDTH, 3)
POOL = [0, 1, 63, 64, 127, 128, 129, 500, 511, 512, 2047, 2048, 8191, 8192, 16382, 16383]
FEW_BITS = st.sets(st.sampled_from(POOL), max_size=4).map(lambda bits: tuple(sorted(bits)))
DIGESTS = st.sets(st.sampled_from(POOL), max_size=12).map(lambda bits: tuple(sorted(bits)))
PREDICATES = st.builds(
    Leaf, st.sampled_from(["a", "b", "c"]), plain_sets().filter(lambda v: not (v.is_empty or v.is_full))
)
CONJUNCTIONS = st.lists(PREDICATES, max_size=3, unique_by=lambda leaf: leaf.attribute)


class Changes(RuleBasedStateMachine):
    """Filters come and go in all structures at once; every digest finds the same interfaces in each."""

    def __init__(self) -> None:
        super().__init__()
        self.oracle = SubsetTest()
        self.structures = {name: make() for name, make in STRUCTURES.items()}

    @rule(interface=st.integers(0, 3), key=st.integers(0, 3), bits=FEW_BITS)
    def add(self, interface: int, key: int, bits: Bits) -> None:
        for each in (self.oracle, *self.structures.values()):
            each.add(interface, key, bits)

    @rule(choice=st.randoms(use_true_random=False))
    def remove(self, choice: random.Random) -> None:
        if self.oracle.filed:
            gone = choice.choice(self.oracle.filed)
            for each in (self.oracle, *self.structures.values()):
                each.remove(*gone)

    @rule(interface=st.integers(0, 3), bits=FEW_BITS)
    def removing_what_is_not_there_is_an_error(self, interface: int, bits: Bits) -> None:
        if not any((interface, bits) == (own, theirs) for own, _, theirs in self.oracle.filed):
            for each in self.structures.values():
                with pytest.raises(KeyError):
                    each.remove(interface, "nobody", bits)

    @rule(digest=DIGESTS)
    def match(self, digest: Bits) -> None:
        wanted = self.oracle.match(digest)
        assert {name: each.match(digest) for name, each in self.structures.items()} == dict.fromkeys(STRUCTURES, wanted)

    @invariant()
    def all_hold_the_same_number(self) -> None:
        assert {len(each) for each in self.structures.values()} == {len(self.oracle)}


Changes.TestCase.settings = settings(max_examples=40)
TestChanges = Changes.TestCase


def digest_of(leaves: list[Leaf]) -> Bits:
    return union(SHAPE.bits_of(predicate_text(leaf)) for leaf in leaves)


def poset_of(conjunctions: list[list[Leaf]]) -> Sbsposet:
    poset = Sbsposet()
    for conjunction in conjunctions:
        for leaf in conjunction:
            poset.add(leaf.attribute, leaf.values, digest_of([leaf]))
    return poset


def satisfies(event: dict[str, Any], leaf: Leaf) -> bool:
    return holds(leaf, event)


@settings(max_examples=30)
@given(st.lists(CONJUNCTIONS, max_size=6), attributes(["a", "b", "c"]))
def test_no_filter_that_matches_is_left_out(conjunctions: list[list[Leaf]], event: dict[str, Any]) -> None:
    digest = poset_of(conjunctions).match(event)
    table = DigestTable(WIDTH)
    for interface, conjunction in enumerate(conjunctions):
        table.add(interface, digest_of(conjunction))
    matching = {place for place, each in enumerate(conjunctions) if all(satisfies(event, leaf) for leaf in each)}
    assert matching <= table.match(digest)


@settings(max_examples=30)
@given(st.lists(CONJUNCTIONS, max_size=6), attributes(["a", "b", "c"]))
def test_a_digest_is_the_union_over_the_predicates_satisfied(
    conjunctions: list[list[Leaf]], event: dict[str, Any]
) -> None:
    satisfied = [leaf for each in conjunctions for leaf in each if satisfies(event, leaf)]
    assert poset_of(conjunctions).match(event) == digest_of(satisfied)


@settings(max_examples=30)
@given(st.lists(CONJUNCTIONS, max_size=6), attributes(["a", "b", "c"]))
def test_more_pairs_set_more_bits_unless_somebody_asks_for_absence(
    conjunctions: list[list[Leaf]], event: dict[str, Any]
) -> None:
    poset = poset_of([[leaf for leaf in each if not leaf.values.contains(MISSING)] for each in conjunctions])
    fewer = dict(list(event.items())[1:])
    assert has_all(poset.match(event), poset.match(fewer))


class ListedPoset:
    """The poset of one attribute as the source lists it: inherited bits, and only what lies lowest is taken."""

    def __init__(self, predicates: list[tuple[ValueSet, Bits]]) -> None:
        self.known = dict(predicates)

    def children(self, values: ValueSet | None) -> list[ValueSet]:
        below = [each for each in self.known if each != values and (values is None or values.covers(each))]
        return [each for each in below if not any(other != each and other.covers(each) for other in below)]

    def bits(self, values: ValueSet) -> Bits:
        return union(own for other, own in self.known.items() if other.covers(values))

    def match(self, value: Any, node: ValueSet | None = None) -> Bits:
        found: list[Bits] = []
        children = self.children(node)
        failed = [each for each in children if not each.contains(value)]
        found += [self.match(value, each) for each in children if each.contains(value)]
        if node is not None and (not children or failed):
            found.append(self.bits(node))
        return union(found)


@settings(max_examples=40)
@given(st.lists(PREDICATES.map(lambda leaf: leaf.values), max_size=8, unique=True), attributes(["a"], most=1))
def test_own_bits_of_all_satisfied_are_what_the_walk_of_the_source_gives(
    sets: list[ValueSet], event: dict[str, Any]
) -> None:
    predicates = [(values, digest_of([Leaf("a", values)])) for values in sets]
    poset = Sbsposet()
    for values, bits in predicates:
        poset.add("a", values, bits)
    value = event.get("a", ...)
    if value is not ... and not isinstance(value, tuple):
        assert poset.match(event) == ListedPoset(predicates).match(value)


@settings(max_examples=30)
@given(st.lists(CONJUNCTIONS, max_size=6), st.randoms(use_true_random=False))
def test_layouts_do_not_know_the_order(conjunctions: list[list[Leaf]], shuffled: random.Random) -> None:
    def build(order: list[int]) -> tuple[Any, Any]:
        tree = Sbstree()
        for place in order:
            tree.add(place % 2, place, digest_of(conjunctions[place]))
        return poset_of([conjunctions[place] for place in order]).layout(), tree.layout()

    order = list(range(len(conjunctions)))
    other = order.copy()
    shuffled.shuffle(other)
    assert build(order) == build(other)


@settings(max_examples=30)
@given(st.lists(CONJUNCTIONS, max_size=5), st.lists(CONJUNCTIONS, max_size=5))
def test_add_then_remove_restores_the_state(kept: list[list[Leaf]], gone: list[list[Leaf]]) -> None:
    poset, tree, fresh = poset_of(kept + gone), Sbstree(), Sbstree()
    for place, conjunction in enumerate(kept + gone):
        tree.add(1, place, digest_of(conjunction))
    for place, conjunction in enumerate(kept):
        fresh.add(1, place, digest_of(conjunction))
    for place, conjunction in enumerate(gone, len(kept)):
        tree.remove(1, place, digest_of(conjunction))
        for leaf in conjunction:
            poset.remove(leaf.attribute, leaf.values)
    assert tree.layout() == fresh.layout()
    assert poset.layout() == poset_of(kept).layout()


@pytest.mark.parametrize("hashes", [1, 2, 4])
def test_false_positives_are_as_rare_as_the_model_says(hashes: int) -> None:
    shape = BloomShape(1 << 12, hashes)
    satisfied, others = 200, 20_000
    digest = np.zeros(shape.width, bool)
    for number in range(satisfied):
        digest[list(shape.bits_of(f"x = {number}"))] = True
    assert digest.mean() == pytest.approx(expected_fill(shape.width, satisfied, hashes), rel=0.1)
    false = sum(digest[list(shape.bits_of(f"y = {number}"))].all() for number in range(others))
    expected = others * false_positive_rate(shape.width, satisfied, hashes)
    assert abs(false - expected) < 5 * expected**0.5 + 0.1 * expected


@given(st.lists(st.tuples(st.integers(0, 4), FEW_BITS), max_size=40), st.lists(DIGESTS, min_size=1, max_size=9))
def test_a_batch_is_tested_as_its_digests_are_one_by_one(filed: list[tuple[int, Bits]], digests: list[Bits]) -> None:
    table, oracle = DigestTable(WIDTH), SubsetTest()
    for interface, bits in filed:
        table.add(interface, bits)
        oracle.add(interface, None, bits)
    arrivals = [place % 6 or None for place in range(len(digests))]
    starts = list(accumulate(map(len, digests), initial=0))
    packed = np.array([bit for each in digests for bit in each], "<u2").tobytes()
    found = table.match_batch(starts, packed, arrivals)
    wanted = [tuple(sorted(oracle.match(each) - {a})) for each, a in zip(digests, arrivals, strict=True)]
    assert found == wanted
