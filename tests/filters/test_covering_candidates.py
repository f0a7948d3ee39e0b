"""Tests of the search for covering candidates: what covers a tree, or implies a pattern, is among them."""

from __future__ import annotations

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from palio.filters.algebra import strings_like
from palio.filters.covering_candidates import CoveringCandidates
from palio.filters.filter import Filter
from palio.filters.like import ANY_CHARACTER, ANY_TEXT, Gap, LikePattern
from palio.filters.normal_form import normal
from palio.filters.pattern_texts import PatternTexts
from palio.filters.relations import covers
from palio.filters.tree import And, Leaf, Node, Or
from palio.filters.value_predicates import Like, Test, drop_implied
from palio.filters.value_sets import ValueSet

TOKENS = st.lists(st.sampled_from(["a", "b", "ab", "A", "ß", "\1", ANY_TEXT, ANY_CHARACTER]), max_size=5)


@st.composite
def patterns(draw: Any) -> LikePattern:
    tokens: list[str | Gap] = draw(TOKENS)
    return LikePattern.of(tokens, ignore_case=draw(st.booleans()))


def leaves() -> st.SearchStrategy[Node]:
    plain = st.sampled_from([ValueSet.points(["ab"]), ValueSet.prefix("a"), ValueSet.points([1])])
    values = st.builds(strings_like, patterns(), st.booleans()) | plain
    return st.builds(Leaf, st.sampled_from("xyz"), values)


def trees() -> st.SearchStrategy[Node]:
    def wider(children: st.SearchStrategy[Node]) -> st.SearchStrategy[Node]:
        several = st.lists(children, min_size=1, max_size=3).map(tuple)
        return st.builds(And, several) | st.builds(Or, several)

    return st.recursive(leaves(), wider, max_leaves=5)


@given(st.lists(patterns(), min_size=2, max_size=6, unique=True))
def test_a_pattern_that_another_implies_is_found_by_its_text(several: list[LikePattern]) -> None:
    texts = PatternTexts(several)
    for wide in several:
        if any(Like(other).implies(Like(wide)) for other in several if other != wide):
            assert texts.may_be_implied(wide)


@given(st.lists(trees(), min_size=2, max_size=5))
def test_every_covered_tree_is_a_candidate(several: list[Node]) -> None:
    canonical = [normal(each) for each in several]
    candidates = CoveringCandidates(canonical)
    for place, wide in enumerate(canonical):
        covered = {other for other, narrow in enumerate(canonical) if other != place and covers(wide, narrow)}
        assert covered <= set(candidates.covered_by(place))


@given(st.lists(patterns(), min_size=4, max_size=7, unique=True))
def test_patterns_that_must_not_hold_are_compared_as_pairs_are(several: list[LikePattern]) -> None:
    tests = frozenset(Test(Like(each), wanted=False) for each in several)
    kept = drop_implied(tests)
    for one in tests:
        assert (one in kept) or any(two.implies(one) for two in kept)
        assert not (one in kept and any(two.implies(one) for two in kept if two is not one))


def test_a_large_or_of_patterns_has_no_alternative_that_another_covers() -> None:
    texts = [f"x LIKE '%{number:03}-%'" for number in range(200)]
    filter = Filter.parse(" OR ".join([*texts, "x LIKE '%007-and-more'"]))
    assert filter == Filter.parse(" OR ".join(texts))
    assert len(filter.tree.children) == 200  # type: ignore[union-attr]
