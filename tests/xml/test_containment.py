"""Containment of tree patterns: soundness on documents, order, and the pairs that are known and missed."""

from __future__ import annotations

from itertools import permutations

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

from palio.xml.containment import contains
from palio.xml.document_parser import parse_document
from palio.xml.reference_matcher import ReferenceMatcher
from palio.xml.xpath_parser import parse_xpath
from tests.xml.strategies import conjunctive_paths, documents, xpaths


def is_contained(narrow: str, wide: str) -> bool:
    return contains(parse_xpath(wide), parse_xpath(narrow))


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        ("/a/b", "/a//b"),
        ("/a/b", "//b"),
        ("/a/b", "/a/*"),
        ("/a/b/c", "/a[b]//c"),
        ("/a/x/b", "/a/*/b"),
        ("/a[b][c]", "/a[c]"),
        ("/a[@x='1']", "/a[@x]"),
        ("/a[@x='1']", "/a[@x=1]"),
        ("/a[@x>5][@x<9]", "/a[@x>4]"),
        ("/a[@x=7]", "/a[@x!=8]"),
        ("/a[.='one']", "/a[contains(., 'n')]"),
        ("/a[starts-with(@x, 'https:')]", "/a[starts-with(@x, 'http')]"),
        ("/a", "/a[b] | /a"),
        ("/a[b]", "/a[b or c]"),
        ("/a[b or c]", "/a[b or c or d]"),
        ("/a[b/c or b/d]", "/a[b]"),
        ("/a[not(b)]", "/a[not(b/c)]"),
        ("/a[not(b or c)]", "/a[not(c)]"),
        ("/a[.='x']", "/a[not(.='y')]"),
        ("/a", "/*[not(self::b)]"),
        ("//a[not(ancestor::*)]", "//a[not(ancestor::b)]"),
        ("//a[contains(b, 'xy')]", "//a[contains(b, 'x')]"),
        ("//b", "/*"),
        ("/a/*//b", "/a//*/b"),
        ("/a//*/b", "/a/*//b"),
        ("/a[false()]", "/b"),
    ],
)
def test_a_pattern_is_contained_in_a_wider_one(narrow: str, wide: str) -> None:
    assert is_contained(narrow, wide)


@pytest.mark.parametrize(
    ("narrow", "wide"),
    [
        ("/a//b", "/a/b"),
        ("/a/*", "/a/b"),
        ("/a[@x=1]", "/a[@x='1']"),
        ("/a[@x!='1']", "/a[@x!=1]"),
        ("/a[@x]", "/a[@x='1']"),
        ("/a[not(b/c)]", "/a[not(b)]"),
        ("/a[b or c]", "/a[b]"),
        ("/a[text()='x']", "/a[.='x']"),
        ("/a[@x<5]", "/a[@x<4]"),
        ("/a[not(@x<5)]", "/a[@x>=5]"),
    ],
)
def test_a_pattern_is_not_contained_where_a_document_says_otherwise(narrow: str, wide: str) -> None:
    assert not is_contained(narrow, wide)


def test_a_containment_by_cases_of_the_depth_is_missed() -> None:
    """In truth it holds: c//d is c/d or c/*//d, and each case has its own witness."""
    narrow, wide = "/a//b[c/*//d]/b[c//d]/b[c/d]", "/a//b[c/*//d]/b[c/d]"
    assert not is_contained(narrow, wide)


@given(xpaths() | conjunctive_paths, xpaths() | conjunctive_paths, st.lists(documents(), min_size=1, max_size=3))
def test_containment_is_sound(one: str, two: str, texts: list[str]) -> None:
    wide, narrow = parse_xpath(one), parse_xpath(two)
    known = contains(wide, narrow)
    event(f"known: {known}")
    if known:
        for text in texts:
            matcher = ReferenceMatcher(parse_document(text))
            assert matcher.matches(wide) or not matcher.matches(narrow)


@given(xpaths())
def test_containment_is_reflexive_and_the_intersection_is_contained(text: str) -> None:
    pattern = parse_xpath(text)
    assert contains(pattern, pattern)
    assert contains(pattern, parse_xpath(str(pattern)))


NARROWING = (
    "//*",
    "//a",
    "/a",
    "/*/a",
    "//a[b]",
    "//a[*]",
    "//a[b or c]",
    "//a[not(b)]",
    "//a[not(*)]",
    "//a[not(b) or c]",
    "//a[@x]",
    "//a[@x='1']",
    "//a[@x=1]",
    "//a[@x!='2']",
    "//a[@x!=2]",
    "//a[@x>0]",
    "//a[@x>0][b]",
    "//a[contains(@x, '1')]",
    "//a[starts-with(@x, '1')]",
    "//a[starts-with(@x, '12') or b]",
    "//a//b",
    "//a/*/b",
    "//a[.//b or .//c]",
    "//a[b/c or b/d]",
    "//a[(b or c) and (b or d)]",
    "//a[b or c/d]",
    "//*[self::a or self::b]",
    "//*[not(self::b)]",
    "//a | //b",
    "//a[b] | //b",
    "//a[contains(b, 'x')]",
    "//a[contains(b, 'xy') or not(b)]",
    "//a[parent::b]",
    "//a[ancestor::b]",
    "//a[not(ancestor::b)]",
    "//a[not(ancestor::b) or @x]",
    "false()",
)


def test_containment_is_transitive() -> None:
    patterns = [parse_xpath(text) for text in NARROWING]
    known = {(one, two) for one in patterns for two in patterns if contains(one, two)}
    for one, two, three in permutations(patterns, 3):
        if (one, two) in known and (two, three) in known:
            assert (one, three) in known, (str(one), str(two), str(three))


@given(st.tuples(*[xpaths() | conjunctive_paths] * 3))
def test_containment_of_random_patterns_is_transitive(texts: tuple[str, str, str]) -> None:
    for one, two, three in permutations(map(parse_xpath, texts)):
        if contains(one, two) and contains(two, three):
            assert contains(one, three)
