"""Journal articles and the XPaths that people wrote for them, compared with lxml."""

from __future__ import annotations

import os
import re
import tarfile
from collections.abc import Iterable, Iterator
from itertools import islice
from pathlib import Path

import pytest
from lxml import etree

from palio.errors import ParseError
from palio.matching.xml_kernels import PATTERN_KERNELS
from palio.xml.document_parser import parse_document
from palio.xml.pattern import Pattern
from palio.xml.pattern_index import PatternIndex
from palio.xml.reference_matcher import ReferenceMatcher
from palio.xml.xpath_parser import parse_xpath

DATA = Path(os.environ.get("PALIO_DATA", "")) / "xml"
NAMESPACES = {
    "ali": "http://www.niso.org/schemas/ali/1.0/",
    "e": "https://elifesciences.org/namespace",
    "meca": "http://manuscriptexchange.org",
    "mml": "http://www.w3.org/1998/Math/MathML",
    "xlink": "http://www.w3.org/1999/xlink",
}
pytestmark = pytest.mark.skipif(
    not (DATA / "xpath_elife_632.txt").exists(), reason="PALIO_DATA names no folder with the articles"
)


def written_xpaths() -> list[str]:
    """The contexts of rules, which apply to elements anywhere."""
    lines = (DATA / "xpath_elife_632.txt").read_text(encoding="utf-8").splitlines()
    return [f"//{line}" for line in lines if line]


def readable(xpaths: list[str]) -> dict[str, Pattern]:
    patterns = {}
    for xpath in xpaths:
        try:
            patterns[xpath] = parse_xpath(xpath, NAMESPACES)
        except ParseError:
            continue
    return patterns


def articles(limit: int) -> Iterator[bytes]:
    with tarfile.open(DATA / "elife_jats_600.tar.xz") as archive:
        for member in archive:
            file = archive.extractfile(member) if member.name.endswith(".xml") else None
            if file is None:
                continue
            yield file.read()
            limit -= 1
            if not limit:
                return


def unit_documents() -> Iterator[bytes]:
    """The documents of the tests of rules, each of which passes or fails one."""
    with tarfile.open(DATA / "elife_schematron_rules_and_5170_unit_docs.tar.xz") as archive:
        for member in archive:
            file = archive.extractfile(member) if re.search(r"/(pass|fail)\.xml$", member.name) else None
            if file is not None:
                yield file.read()


def test_all_of_xpath_1_is_read_and_the_others_are_refused_with_a_reason() -> None:
    refused: dict[str, str] = {}
    xpaths = written_xpaths()
    for xpath in xpaths:
        try:
            parse_xpath(xpath, NAMESPACES)
        except ParseError as error:
            refused[xpath] = error.reason
    assert len(xpaths) == 632
    assert len(xpaths) - len(refused) == 554
    known = re.compile(r"XPath 2\.0|no variables|no function e:")
    assert {xpath: reason for xpath, reason in refused.items() if not known.search(reason)} == {}


def compare(documents: Iterable[bytes], patterns: dict[str, Pattern]) -> tuple[int, int]:
    """Compares XPaths on some documents, by the index and by the reference matcher.

    Returns how many answers were compared, and how many were true.
    """
    index = PatternIndex(PATTERN_KERNELS)
    numbers = dict(zip(index.add_many(patterns.values()), patterns, strict=True))
    asked = {xpath: etree.XPath(f"boolean({xpath})", namespaces=NAMESPACES) for xpath in patterns}
    compared = matched = 0
    for data in documents:
        document = parse_document(data)
        matcher = ReferenceMatcher(document)
        tree = etree.fromstring(data, etree.XMLParser(strip_cdata=True, huge_tree=True, resolve_entities=False))
        expected = {xpath for xpath, ask in asked.items() if ask(tree.getroottree())}
        assert {numbers[number] for number in index.match(document)} == expected
        assert {xpath for xpath, each in patterns.items() if matcher.matches(each)} == expected
        compared += len(patterns)
        matched += len(expected)
    return compared, matched


def test_the_answers_on_a_few_articles_are_those_of_lxml() -> None:
    compared, matched = compare(articles(2), readable(written_xpaths()))
    assert 0 < matched < compared


def test_what_is_no_tree_pattern_is_answered_as_by_lxml() -> None:
    patterns = {xpath: each for xpath, each in readable(written_xpaths()).items() if each.has_residuals}
    assert len(patterns) > 25
    compared, matched = compare(islice(unit_documents(), 0, None, 40), patterns)
    assert 0 < matched < compared


@pytest.mark.deep
def test_the_answers_on_all_articles_are_those_of_lxml() -> None:
    compared, matched = compare(articles(600), readable(written_xpaths()))
    assert 0 < matched < compared


@pytest.mark.deep
def test_the_answers_on_all_unit_documents_are_those_of_lxml() -> None:
    compared, matched = compare(unit_documents(), readable(written_xpaths()))
    assert 0 < matched < compared
    assert compared == 5_170 * len(readable(written_xpaths()))
