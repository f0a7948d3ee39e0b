"""The reference matcher, compared with lxml."""

from __future__ import annotations

import pytest
from hypothesis import assume, event, given

from palio.xml.document_parser import parse_document
from palio.xml.reference_matcher import ReferenceMatcher
from palio.xml.xpath_parser import parse_xpath
from tests.xml.lxml_oracle import lxml_document
from tests.xml.strategies import documents, xpaths

QUOTE = "<env><hdr><txn must='1'>5</txn></hdr><body><getQuote><sym>DEF</sym></getQuote></body></env>"
TWO_STOCKS = (
    "<env><body><resp><Stock><Symbol>GHI</Symbol><Price>12</Price></Stock>"
    "<Stock><Symbol>JKL</Symbol><Price>20</Price></Stock></resp></body></env>"
)


def matches(xpath: str, document: str) -> bool:
    return ReferenceMatcher(parse_document(document)).matches(parse_xpath(xpath))


@pytest.mark.parametrize(
    ("xpath", "on_quote", "on_two_stocks"),
    [
        ("//getQuote/sym", True, False),
        ("//getQuote/sym[text()='DEF']", True, False),
        ("/env/body/*/sym[text()='DEF']", True, False),
        ("//txn/@must", True, False),
        ("//txn[@must=1]", True, False),
        ("//Stock/Symbol[text()='GHI']", False, True),
        ("//Stock/Price[text()>15]", False, True),
        ("//Stock[Symbol/text()='GHI'][Price/text()>15]", False, False),
        ("/sym", False, False),
        ("//*", True, True),
        ("/env//env", False, False),
    ],
)
def test_worked_examples_of_tree_patterns(xpath: str, on_quote: bool, on_two_stocks: bool) -> None:
    assert matches(xpath, QUOTE) is on_quote
    assert matches(xpath, TWO_STOCKS) is on_two_stocks


@pytest.mark.parametrize(
    ("xpath", "document", "expected"),
    [
        ("/a[.='xyz']", "<a>x<b>y</b>z</a>", True),
        ("/a[text()='xyz']", "<a>x<b>y</b>z</a>", False),
        ("/a[text()='z']", "<a>x<b>y</b>z</a>", True),
        ("/a[text()='xz']", "<a>x<!-- -->z</a>", False),
        ("/a[.='x<z']", "<a>x<![CDATA[<]]>z</a>", True),
        ("/a[contains(b, 'y')]", "<a><b>x</b><b>y</b></a>", False),
        ("/a[b[contains(., 'y')]]", "<a><b>x</b><b>y</b></a>", True),
        ("/a[b!='x']", "<a><b>x</b><b>y</b></a>", True),
        ("/a[not(b='x')]", "<a><b>x</b><b>y</b></a>", False),
        ("/a[@x=1]", "<a x=' 1.0 '/>", True),
        ("/a[@x=1]", "<a x='+1'/>", False),
        ("/a[not(@x<1)]", "<a x='none'/>", True),
        ("/a[@x!=1]", "<a x='none'/>", True),
        ("/a//@x", "<a x='1'/>", True),
        ("/a//text()", "<a><b>1</b></a>", True),
        ("/a/text()", "<a><b>1</b></a>", False),
        (".='12'", "<a><b>1</b>2</a>", True),
        ("//b[ancestor::a]", "<a><c><b/></c></a>", True),
        ("//b[parent::a]", "<a><c><b/></c></a>", False),
        ("/a[..]", "<a/>", True),
        ("/a/b[/a/c]", "<a><b/><c/></a>", True),
        ("//*[local-name()='b']", "<a><p:b xmlns:p='urn:p'/></a>", True),
        ("//b", "<a><b xmlns='urn:p'/></a>", False),
        ("//@*[namespace-uri()='urn:p']", "<a xmlns:p='urn:p' p:x='1'/>", True),
    ],
)
def test_paths_values_and_names_mean_what_xpath_means(xpath: str, document: str, expected: bool) -> None:
    assert matches(xpath, document) is expected
    with lxml_document(document.encode()) as oracle:
        assert oracle.matches(xpath) is expected


@given(documents(), xpaths())
def test_random_expressions_match_where_lxml_says_so(document: str, xpath: str) -> None:
    assume("1e1" not in document)  # lxml reads exponents, which XPath 1.0 does not have
    pattern = parse_xpath(xpath)
    with lxml_document(document.encode()) as oracle:
        expected = oracle.matches(xpath)
        assert oracle.matches(str(pattern)) is expected
    event(f"matches: {expected}")
    assert ReferenceMatcher(parse_document(document)).matches(pattern) is expected


@given(documents(), xpaths())
def test_the_canonical_text_is_the_same_pattern(document: str, xpath: str) -> None:
    pattern = parse_xpath(xpath)
    assert parse_xpath(str(pattern)) == pattern
