"""Journal articles and the XPaths that people wrote for them, compared with lxml."""

from __future__ import annotations

import os
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from palio.errors import ParseError
from palio.xml.document_parser import parse_document
from palio.xml.pattern import Pattern
from palio.xml.reference_matcher import ReferenceMatcher
from palio.xml.xpath_parser import parse_xpath
from tests.xml.lxml_oracle import lxml_document

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


def test_most_of_the_xpaths_are_patterns_and_the_others_are_refused_with_a_reason() -> None:
    refused: dict[str, str] = {}
    xpaths = written_xpaths()
    for xpath in xpaths:
        try:
            parse_xpath(xpath, NAMESPACES)
        except ParseError as error:
            refused[xpath] = error.reason
    assert len(xpaths) == 632
    assert len(xpaths) - len(refused) >= 526
    known = re.compile(
        r"beyond tree patterns|XPath 2\.0|no variables|no function e:|a step after \[1\]|a predicate after \[1\]"
    )
    assert {xpath: reason for xpath, reason in refused.items() if not known.search(reason)} == {}


def compare(limit: int) -> tuple[int, int]:
    """Compares all XPaths on some articles; returns how many answers were compared, and how many were true."""
    patterns = readable(written_xpaths())
    compared = matched = 0
    for article in articles(limit):
        matcher = ReferenceMatcher(parse_document(article))
        with lxml_document(article, NAMESPACES) as oracle:
            differing = [xpath for xpath, each in patterns.items() if matcher.matches(each) != oracle.matches(xpath)]
            assert differing == []
        compared += len(patterns)
        matched += sum(map(matcher.matches, patterns.values()))
    return compared, matched


def test_the_answers_on_a_few_articles_are_those_of_lxml() -> None:
    compared, matched = compare(3)
    assert 0 < matched < compared


@pytest.mark.deep
def test_the_answers_on_all_articles_are_those_of_lxml() -> None:
    compared, matched = compare(600)
    assert 0 < matched < compared
