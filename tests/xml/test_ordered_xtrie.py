"""XTrie for ordered trees, compared with a search of all placements, and with sibling axes in lxml."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, product

import pytest
from hypothesis import given
from hypothesis import strategies as st
from lxml import etree

from palio.errors import ParseError
from palio.xml.document import Document
from palio.xml.document_parser import parse_document
from palio.xml.ordered_pattern import parse_ordered
from palio.xml.ordered_xtrie import OrderedXTrie
from palio.xml.pattern import Axis, NodeKind, PatternNode
from palio.xml.value_tests import passes
from tests.xml.strategies import conjunctive_paths, documents


class Placements:
    """All placements of an ordered pattern on a document: the definition."""

    def __init__(self, document: Document) -> None:
        self.document = document

    def matches(self, root: PatternNode) -> bool:
        return self.fulfils(NodeKind.DOCUMENT, -1, root)

    def fulfils(self, kind: NodeKind, number: int, node: PatternNode) -> bool:
        if not all(passes(test, self.value(kind, number)) for test in node.tests):
            return False
        found = [list(self.placed(kind, number, branch)) for branch in node.branches]
        ordered = [
            places for places, branch in zip(found, node.branches, strict=True) if branch.kind is not NodeKind.ATTRIBUTE
        ]
        return all(found) and any(all(one < two for one, two in pairwise(chosen)) for chosen in product(*ordered))

    def placed(self, kind: NodeKind, number: int, branch: PatternNode) -> Iterator[int]:
        """Places, counted over elements and texts, of nodes below one that a branch can be placed on."""
        for below_kind, below, place, is_child in self.below(kind, number):
            if below_kind is branch.kind and (is_child or branch.axis is Axis.DESCENDANT):
                is_named = below_kind is NodeKind.TEXT or branch.name.accepts(*self.name(below_kind, below))
                if is_named and self.fulfils(below_kind, below, branch):
                    yield place

    def below(self, kind: NodeKind, number: int) -> Iterator[tuple[NodeKind, int, int, bool]]:
        document = self.document
        if kind in (NodeKind.ATTRIBUTE, NodeKind.TEXT):
            return
        inside = set(range(len(document)))
        if kind is NodeKind.ELEMENT:
            inside = set(range(number, document.subtree_ends[number]))
        for element in inside - {number}:
            place = element + document.text_starts[element]
            yield NodeKind.ELEMENT, element, place, document.parents[element] == number
        for attribute, owner in enumerate(document.attribute_owners):
            if owner in inside:
                yield NodeKind.ATTRIBUTE, attribute, 0, owner == number
        for text, owner in enumerate(document.text_owners):
            if owner in inside:
                before = sum(start <= text for start in document.text_starts)
                yield NodeKind.TEXT, text, text + before, owner == number

    def name(self, kind: NodeKind, number: int) -> tuple[str, str]:
        document = self.document
        tag = document.tags[number] if kind is NodeKind.ELEMENT else document.attribute_tags[number]
        return document.names[tag]

    def value(self, kind: NodeKind, number: int) -> str:
        if kind is NodeKind.ELEMENT:
            return self.document.string_value(number)
        return (self.document.texts if kind is NodeKind.TEXT else self.document.attribute_values)[number]


def readable(xpath: str) -> bool:
    try:
        parse_ordered(xpath)
    except ParseError:
        return False
    return True


@given(st.lists(conjunctive_paths.filter(readable), min_size=1, max_size=6), documents())
def test_an_ordered_xtrie_finds_what_has_a_placement_in_order(xpaths: list[str], document: str) -> None:
    trie = OrderedXTrie()
    patterns = {trie.add(parse_ordered(xpath)): parse_ordered(xpath) for xpath in xpaths}
    parsed = parse_document(document)
    placements = Placements(parsed)
    assert trie.match(parsed) == [number for number, pattern in patterns.items() if placements.matches(pattern.root)]


SIBLINGS = {
    "//a[b][c]": "//a/b/following-sibling::c",
    "//a[c][b]/d": "//a/c/following-sibling::b/following-sibling::d",
    "/a[b/c][b]": "/a/b[c]/following-sibling::b",
    "//a[*][b='1']": "//a/*/following-sibling::b[.='1']",
    "//a[b[@x]][@x][c]": "//a[@x]/b[@x]/following-sibling::c",
    "//a[text()][b]": "//a/text()/following-sibling::b",
}


@given(documents())
def test_order_of_children_is_that_of_the_axis_of_siblings(document: str) -> None:
    trie = OrderedXTrie()
    numbers = {trie.add(parse_ordered(ordered)): siblings for ordered, siblings in SIBLINGS.items()}
    tree = etree.fromstring(document.encode())
    expected = [number for number, siblings in numbers.items() if etree.XPath(f"boolean({siblings})")(tree)]
    assert trie.match(parse_document(document)) == expected


def test_a_branch_that_is_complete_late_counts_from_where_it_begins() -> None:
    trie = OrderedXTrie()
    first, second = trie.add(parse_ordered("/a[.//b[c][d]][.//e]")), trie.add(parse_ordered("/a[.//e][.//b[c][d]]"))
    assert trie.match(parse_document("<a><b><c/><e/><d/></b></a>")) == [first]
    assert trie.match(parse_document("<a><e/><b><c/><d/></b></a>")) == [second]
    assert trie.match(parse_document("<a><b><d/><c/></b><e/></a>")) == []


@pytest.mark.parametrize(
    ("xpath", "reason"),
    [
        ("//a[2]", "a branch, or a comparison with a constant"),
        ("//a[b or c]", "a branch, or a comparison with a constant"),
        ("//a[not(b)]", "a branch, or a comparison with a constant"),
        ("//a/following-sibling::b", "following-sibling::element"),
        ("//a[. < 'x']", "no number"),
        ("count(//a)", "is one path"),
        ("//a | //b", "is one path"),
        ("//a[", "step"),
    ],
)
def test_what_has_no_order_is_refused(xpath: str, reason: str) -> None:
    with pytest.raises(ParseError, match=reason):
        parse_ordered(xpath)
