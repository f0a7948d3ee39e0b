"""Index of XPath subscriptions: it finds what comparing all pairs finds."""

from __future__ import annotations

from random import Random

from hypothesis import given, settings
from hypothesis import strategies as st

from palio import Filter
from palio.covering.covering_index import AdaptiveIndex, LinearIndex
from palio.covering.covering_search import find_redundant
from palio.covering.extents import IndexedFilter
from palio.covering.xpath_index import XPathIndex, pattern_of
from tests.covering.test_redundancy import compared_pairwise


def path(random: Random) -> str:
    steps = "".join(random.choice(["/", "/", "//"]) + random.choice("ab*") for _ in range(random.randrange(1, 4)))
    return steps + random.choice(["", "", "", "[b]", '[.="1"]', "[@a]", "[not(b)]", "[a or b]"])


def one_xpath(random: Random) -> Filter:
    return Filter.parse(path(random), language="xpath", attribute=random.choice(["xml", "xml", "body"]))


def any_condition(random: Random, depth: int = 2) -> str:
    if depth and random.random() < 0.5:
        glue = random.choice([" AND ", " OR "])
        return f"({any_condition(random, depth - 1)}{glue}{any_condition(random, depth - 1)})"
    return random.choice(
        [
            f"xpath_boolean(xml, '{path(random)}')",
            f"xpath_boolean(body, '{path(random)}')",
            f"NOT xpath_boolean(xml, '{path(random)}')",
            "xml IS NOT NULL",
            "xml = '<a><b>1</b></a>'",
            "xml LIKE '<a%'",
            f"x > {random.randrange(3)}",
            "x > y",
            "TRUE",
        ]
    )


@given(seed=st.integers(0, 2**32))
def test_searches_equal_those_of_pairs(seed: int) -> None:
    random = Random(seed)
    held: list[IndexedFilter] = []
    indexes = [LinearIndex(), AdaptiveIndex()]
    for arrival in range(12):
        # Mostly of one XPath: the others are another index's matter, and compared pair by pair as before.
        wanted = one_xpath(random) if random.random() < 0.8 else Filter.parse(any_condition(random))
        if wanted == Filter.nothing or any(each.filter == wanted for each in held):
            continue
        held.append(IndexedFilter(wanted, arrival))
        for index in indexes:
            index.add(held[-1])
        if random.random() < 0.25:
            gone = held.pop(random.randrange(len(held)))
            for index in indexes:
                index.remove(gone)
    sought = [IndexedFilter(Filter.parse(any_condition(random)), -each) for each in (1, 2, 3, 4)] + held
    for each in sought:
        pairs, tree = indexes
        assert set(tree.covered(each)) == set(pairs.covered(each)), each
        assert set(tree.covering(each, 99)) == set(pairs.covering(each, 99)), each
        first = tree.covering(each, 1)
        assert len(first) == min(1, len(pairs.covering(each, 1)))


@given(seed=st.integers(0, 2**32))
@settings(max_examples=30)
def test_redundant_subscriptions_are_those_that_comparing_all_pairs_finds(seed: int) -> None:
    random = Random(seed)
    filters = [one_xpath(random) if random.random() < 0.7 else Filter.parse(any_condition(random)) for _ in range(14)]
    found = find_redundant(filters, [""] * len(filters))
    assert {each.number for each in found.found} == compared_pairwise(filters, [""] * len(filters))
    for each in found.found:
        assert filters[each.by].covers(filters[each.number])


def test_only_what_the_tree_finds_is_compared() -> None:
    index = AdaptiveIndex()
    filters = [Filter.parse(f"/a/b{number}", language="xpath") for number in range(300)]
    for arrival, each in enumerate(filters):
        index.add(IndexedFilter(each, arrival))
    before = index.comparisons
    wide = IndexedFilter(Filter.parse("/a/b7", language="xpath") | Filter.parse("//b8", language="xpath"), 300)
    assert {each.filter for each in index.covered(wide)} == {filters[7], filters[8]}
    assert index.comparisons - before <= 4


def test_the_filters_of_one_xpath() -> None:
    assert pattern_of(Filter.parse("//a", language="xpath", attribute="body")) is not None
    for other in (
        "x > 1",
        "NOT xpath_boolean(xml, '//a')",
        "xpath_boolean(xml, '//a') AND x > 1",
        "xpath_boolean(xml, '//a') AND xpath_boolean(xml, '//b')",
        "TRUE",
    ):
        assert pattern_of(Filter.parse(other)) is None, other


def test_an_index_that_was_emptied_holds_nothing() -> None:
    index = XPathIndex()
    held = [IndexedFilter(Filter.parse(each, language="xpath"), 0) for each in ("/a", "/a/b", "//b[not(a)]")]
    for each in held:
        index.add(each)
    for each in held:
        index.remove(each)
    assert index.covered(IndexedFilter(Filter.parse("TRUE"), 1)) == []
    assert not index._trees
    assert not index._by_pattern
