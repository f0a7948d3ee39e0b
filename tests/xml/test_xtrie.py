"""XTrie, compared with the reference matcher and with the table of the thesis."""

from __future__ import annotations

from math import inf

import pytest
from hypothesis import given
from hypothesis import strategies as st

from palio.errors import InvalidArgument
from palio.xml.document_parser import parse_document
from palio.xml.pattern import NodeKind
from palio.xml.reference_matcher import ReferenceMatcher
from palio.xml.xpath_parser import parse_xpath
from palio.xml.xtrie import NO_ROW, XTrie
from tests.xml.strategies import conjunctive_paths, documents, xpaths

WORKED_EXAMPLES = [
    "//getQuote/sym",
    "//getQuote/sym[text()='DEF']",
    "/env/body/*/sym[text()='DEF']",
    "//txn/@must",
    "//txn[@must=1]",
    "//Stock/Symbol[text()='GHI']",
    "//Stock/Price[text()>15]",
    "//Stock[Symbol/text()='GHI'][Price/text()>15]",
]


def test_the_rows_of_the_worked_examples() -> None:
    """The columns are pattern, parent (of the same pattern), least and most level, children, and substring."""
    trie = XTrie()
    for xpath in WORKED_EXAMPLES:
        trie.add(parse_xpath(xpath))
    numbers = [number for number, row in trie.rows.items() if row.parent != NO_ROW]
    rows = [trie.rows[number] for number in numbers]
    parents = [numbers.index(row.parent) + 1 if row.parent in numbers else 0 for row in rows]
    columns = [
        (row.pattern + 1, parent, row.least_level, row.most_level, row.children, "/".join(map(label, row.labels)))
        for row, parent in zip(rows, parents, strict=True)
    ]
    assert columns == [
        (1, 0, 2, inf, 0, "getQuote/sym"),
        (2, 0, 3, inf, 0, "getQuote/sym/text()"),
        (3, 0, 2, 2, 1, "env/body"),
        (3, 3, 3, 3, 0, "sym/text()"),
        (4, 0, 2, inf, 0, "txn/@must"),
        (5, 0, 2, inf, 0, "txn/@must"),
        (6, 0, 3, inf, 0, "Stock/Symbol/text()"),
        (7, 0, 3, inf, 0, "Stock/Price/text()"),
        (8, 0, 1, inf, 2, "Stock"),
        (8, 9, 2, 2, 0, "Stock/Price/text()"),
        (8, 9, 2, 2, 0, "Stock/Symbol/text()"),
    ]


def label(label: tuple[NodeKind, object]) -> str:
    kind, name = label
    if kind is NodeKind.TEXT:
        return "text()"
    return ("@" if kind is NodeKind.ATTRIBUTE else "") + str(name.local)  # type: ignore[attr-defined]


@given(st.lists(xpaths() | conjunctive_paths, min_size=1, max_size=8), documents(), st.data())
def test_xtrie_finds_what_the_reference_matcher_finds(xpaths: list[str], document: str, data: st.DataObject) -> None:
    trie = XTrie()
    patterns = {trie.add(parse_xpath(xpath)): parse_xpath(xpath) for xpath in xpaths}
    parsed = parse_document(document)
    matcher = ReferenceMatcher(parsed)
    for removed in [None, *data.draw(st.lists(st.sampled_from(sorted(patterns)), unique=True))]:
        if removed is not None:
            trie.remove(removed)
            del patterns[removed]
        assert trie.match(parsed) == [number for number, pattern in patterns.items() if matcher.matches(pattern)]
    assert len(trie) == len(patterns)


def test_a_removed_pattern_leaves_no_row() -> None:
    trie = XTrie()
    kept = trie.add(parse_xpath("//a/b"))
    rows = dict(trie.rows)
    trie.remove(trie.add(parse_xpath("//a[b]//c[@x='1']")))
    assert trie.rows == rows
    assert trie.match(parse_document("<a><b/></a>")) == [kept]
    with pytest.raises(InvalidArgument, match="there is no pattern 1"):
        trie.remove(1)
